"""Initial values: their spread, their generator, their dtype."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autograd_core import Dropout, Linear, init
from autograd_core import functional as F


def test_xavier_uniform_fills_its_interval(rng: np.random.Generator) -> None:
    draws = init.xavier_uniform((300, 200), rng=rng)
    bound = np.sqrt(6.0 / 500.0)
    assert np.abs(draws).max() <= bound
    assert draws.std() == pytest.approx(bound / np.sqrt(3.0), rel=0.01)
    assert draws.mean() == pytest.approx(0.0, abs=bound / 100)


def test_xavier_normal_has_its_standard_deviation(rng: np.random.Generator) -> None:
    draws = init.xavier_normal((300, 200), rng=rng)
    assert draws.std() == pytest.approx(np.sqrt(2.0 / 500.0), rel=0.01)
    assert np.abs(draws).max() > 3.5 * draws.std()


def test_normal_has_its_mean_and_standard_deviation(rng: np.random.Generator) -> None:
    draws = init.normal((60_000,), std=0.02, mean=3.0, rng=rng)
    assert draws.mean() == pytest.approx(3.0, abs=5e-4)
    assert draws.std() == pytest.approx(0.02, rel=0.02)


@pytest.mark.parametrize("draw", [init.xavier_uniform, init.xavier_normal])
def test_the_gain_multiplies(draw: Callable[..., np.ndarray]) -> None:
    once = draw((3, 5), rng=np.random.default_rng(1))
    twice = draw((3, 5), rng=np.random.default_rng(1), gain=2.0)
    np.testing.assert_allclose(twice, 2.0 * once, rtol=1e-15)


@pytest.mark.parametrize("draw", [init.xavier_uniform, init.xavier_normal])
def test_the_last_two_axes_are_in_and_out(draw: Callable[..., np.ndarray]) -> None:
    wide = draw((7, 30, 50), rng=np.random.default_rng(1))
    flat = draw((7 * 30, 50), rng=np.random.default_rng(1))
    np.testing.assert_allclose(wide.reshape(210, 50), flat * np.sqrt(260 / 80), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", [(), (5,)])
def test_xavier_needs_two_axes(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    for draw in (init.xavier_uniform, init.xavier_normal):
        with pytest.raises(ValueError, match=r"two or more axes, \(in, out\) last; got \("):
            draw(shape, rng=rng)


def test_one_seed_gives_one_model_in_every_dtype() -> None:
    for draw in (init.xavier_uniform, init.xavier_normal, lambda s, **kw: init.normal(s, std=0.1, **kw)):
        wide = draw((3, 5), rng=np.random.default_rng(1))
        narrow = draw((3, 5), rng=np.random.default_rng(1), dtype=np.float32)
        assert wide.dtype == np.float64
        assert narrow.dtype == np.float32
        assert np.array_equal(narrow, wide.astype(np.float32))


@pytest.mark.parametrize("rng", [0, np.int64(7), "0", np.random.RandomState(0)])
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: init.xavier_uniform((2, 2), rng=rng),
        lambda rng: init.xavier_normal((2, 2), rng=rng),
        lambda rng: init.normal((2, 2), std=1.0, rng=rng),
        lambda rng: Linear(2, 2, rng=rng),
        lambda rng: Dropout(0.5, rng=rng),
        lambda rng: F.dropout(np.ones(2), 0.5, rng=rng),
    ],
)
def test_a_seed_is_no_generator(draw: Callable[[Any], object], rng: object) -> None:
    with pytest.raises(TypeError, match=r"rng must be a numpy.random.Generator; got .* Pass np.random.default_rng\("):
        draw(rng)
