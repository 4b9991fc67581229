"""erf and erfc against the C library's, in all three ranges of the approximation and at its seams."""

import math

import numpy as np
import pytest
from autograd_core.ops.error_function import erf, erfc

SEAMS = [0.46875, 4.0, 28.0]
POINTS = np.concatenate(
    [
        np.linspace(-6.0, 6.0, 4001),
        np.linspace(-0.5, 0.5, 1001),
        np.logspace(-300, 1.4, 501),
        [np.nextafter(seam, towards) for seam in SEAMS for towards in (0.0, seam, 100.0)],
    ]
)


def test_erf_agrees_with_the_c_library_to_1e_15() -> None:
    expected = np.array([math.erf(x) for x in POINTS])
    np.testing.assert_allclose(erf(POINTS), expected, rtol=1e-15, atol=0.0)
    np.testing.assert_allclose(erf(-POINTS), -expected, rtol=1e-15, atol=0.0)


def test_erfc_agrees_with_the_c_library_to_1e_15() -> None:
    expected = np.array([math.erfc(x) for x in POINTS])
    np.testing.assert_allclose(erfc(POINTS), expected, rtol=1e-15, atol=1e-307)


def test_erfc_is_relatively_right_where_it_is_tiny() -> None:
    points = np.linspace(4.0, 26.0, 2001)
    expected = np.array([math.erfc(x) for x in points])
    assert expected[-1] < 1e-295
    np.testing.assert_allclose(erfc(points), expected, rtol=4e-15)


@pytest.mark.parametrize(("x", "expected"), [(np.inf, 0.0), (-np.inf, 2.0), (0.0, 1.0), (1e300, 0.0), (-1e300, 2.0)])
def test_erfc_at_the_ends(x: float, expected: float) -> None:
    assert erfc(np.array([x]))[0] == expected
    assert erf(np.array([x]))[0] == 1.0 - expected


def test_nan_stays_nan() -> None:
    assert np.isnan(erfc(np.array([np.nan, 1.0]))).tolist() == [True, False]
    assert np.isnan(erf(np.array([np.nan, 1.0]))).tolist() == [True, False]


@pytest.mark.parametrize("shape", [(), (2, 3), (0,)], ids=str)
def test_any_shape_is_taken(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape)
    assert erf(np.asarray(x)).shape == shape
    np.testing.assert_allclose(erf(np.asarray(x)) + erfc(np.asarray(x)), np.ones(shape), rtol=1e-15)
