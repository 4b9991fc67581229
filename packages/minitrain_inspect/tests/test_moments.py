"""States and norms at the ends of their range, and what a snapshot may show. Streams: `test_inspect.py`."""

import math

import numpy as np
import pytest
from minitrain.meter import Meter
from minitrain.moments import absorb, describe, norm


@pytest.fixture(autouse=True)
def _floating_point_errors_are_errors():
    with np.errstate(all="raise"):
        yield


def test_mean_absolute_values_merge_by_their_counts() -> None:
    meter, state = Meter(), {}
    for part in (np.array([-1.0, 1.0]), np.array([4.0]), np.array([-7.0, 0.0, 0.0])):
        absorb(state, meter.measure(part, absolute=True))
    assert state["mean_abs"] == pytest.approx(13.0 / 6.0, rel=1e-15)
    assert state["mean"] == pytest.approx(-3.0 / 6.0, rel=1e-15)


def test_a_description_has_no_number_that_json_lacks() -> None:
    state = Meter().measure(np.array([1e200, -1e200, np.nan]), absolute=True)
    assert math.isinf(state["m2"])
    shown = describe(state, absolute=True)
    assert shown["std"] is None
    assert (shown["n"], shown["nan"], shown["max"], shown["mean_abs"]) == (2, 1, 1e200, 1e200)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_norm_survives_overflow_and_underflow(dtype: str) -> None:
    for scale in (1.0, 1e30, 1e-30) if dtype == "float32" else (1.0, 1e250, 1e-250):
        x = np.array([[3.0, 0.0], [0.0, -4.0]]).astype(dtype) * np.dtype(dtype).type(scale)
        with np.errstate(all="ignore"):
            assert norm(x) == pytest.approx(5.0 * scale, rel=1e-6)
    assert norm(np.zeros((3, 2), dtype)) == 0.0
    with np.errstate(all="ignore"):
        assert math.isnan(norm(np.array([1.0, np.nan], dtype)))
        assert norm(np.array([1.0, -np.inf], dtype)) == math.inf
