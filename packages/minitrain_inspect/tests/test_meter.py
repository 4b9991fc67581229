"""The Meter: the moments of `welford_update` at the price of a pass each, also where float32 makes that hard."""

import numpy as np
import pytest
from minitrain.meter import Meter
from minitrain.moments import welford_update

TOLERANCE = {"float32": 2e-6, "float64": 1e-13}


@pytest.fixture(autouse=True)
def _floating_point_errors_are_errors():
    with np.errstate(all="raise"):
        yield


def exact(x: np.ndarray) -> dict[str, float]:
    state: dict[str, float] = {}
    welford_update(state, x)
    if state.get("n"):
        state["mean_abs"] = float(np.abs(x[np.isfinite(x)], dtype=np.float64).mean())
    return state


def assert_same(got: dict[str, float], want: dict[str, float], dtype: str) -> None:
    assert got.keys() == want.keys()
    near = TOLERANCE[dtype]
    scale = max(abs(want["min"]), abs(want["max"])) if want.get("n") else 0.0
    for key in want:
        if key in ("n", "nan", "inf", "min", "max"):
            assert got[key] == want[key], key
        elif key in ("mean", "mean_abs"):
            assert got[key] == pytest.approx(want[key], abs=near * scale), key
        else:
            assert got[key] == pytest.approx(want[key], rel=10 * near, abs=1e-300), key


ARRAYS = {
    "ordinary": lambda rng: rng.normal(size=(3, 7, 64)),
    "rows of 64": lambda rng: rng.normal(size=(53, 64)),
    "large": lambda rng: rng.normal(size=(7, 11, 1024)),
    "one": lambda rng: rng.normal(size=()),
    "positive": lambda rng: rng.uniform(1.0, 2.0, size=(19, 23)),
    "negative": lambda rng: -rng.uniform(0.0, 2.0, size=(19, 23)),
    "offset 300": lambda rng: 300.0 + rng.normal(size=(41, 64)),
    "tiny": lambda rng: 1e-25 * rng.normal(size=(13, 17)),
    "huge": lambda rng: 1e25 * rng.normal(size=(13, 17)),
    "zeros": lambda rng: np.zeros((5, 3)),
    "mostly zeros": lambda rng: np.where(rng.random((31, 37)) < 0.99, 0.0, rng.normal(size=(31, 37))),
    "constant": lambda rng: np.full((64, 32), 0.1),
    "with NaN": lambda rng: np.where(rng.random((31, 37)) < 0.1, np.nan, rng.normal(size=(31, 37))),
    "with infinity": lambda rng: np.where(rng.random((31, 37)) < 0.1, -np.inf, rng.normal(size=(31, 37))),
    "nothing finite": lambda rng: np.array([np.nan, np.inf, -np.inf]),
    "empty": lambda rng: np.empty((0, 3)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ARRAYS)
def test_a_measured_array_has_the_exact_moments(kind: str, dtype: str) -> None:
    x = ARRAYS[kind](np.random.default_rng(17)).astype(dtype)
    copy = x.copy()
    assert_same(Meter().measure(x, absolute=True), exact(x), dtype)
    assert np.array_equal(x, copy, equal_nan=True)
    without = exact(x)
    without.pop("mean_abs", None)
    assert_same(Meter().measure(x, absolute=False), without, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_arrays_at_once_are_as_exact_as_each_alone(dtype: str) -> None:
    rng = np.random.default_rng(4)
    arrays = [make(rng).astype(dtype) for kind, make in ARRAYS.items() if kind != "empty"]
    arrays.append(rng.normal(size=(5, 7)).astype(dtype).T)
    meter = Meter()
    for group in (
        arrays,
        [*arrays, np.empty(0, dtype)],
        arrays[:1],
        [],
        [*arrays, rng.normal(size=3).astype("float16")],
    ):
        measured = meter.measure_all(group)
        assert len(measured) == len(group)
        for got, x in zip(measured, group, strict=True):
            want = exact(x)
            want.pop("mean_abs", None)
            assert_same(got, want, dtype)


@pytest.mark.parametrize("width", [1, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_views_of_one_flat_array_are_measured_in_place_whatever_their_order(dtype: str, width: int) -> None:
    rng = np.random.default_rng(6)
    flat = np.empty(97 * width, dtype)
    ends = [7, 8, 30, 31, 60, 97]
    starts = [0, *ends[:-1]]
    views = [flat[a * width : b * width].reshape(-1, b - a) for a, b in zip(starts, ends, strict=True)]
    meter = Meter()
    for chosen in ([0, 1, 2, 3, 4, 5], [3, 5, 4, 0, 2, 1], [4, 3], [0, 2], [5], [5, 0, 1, 2, 3, 4]):
        group = [views[index] for index in chosen]
        for offset in (0.0, 0.0, 100.0):  # the same views with other numbers in them
            flat[:] = offset + rng.normal(size=flat.size)
            flat[-1] = np.nan
            for got, x in zip(meter.measure_all(group), group, strict=True):
                want = exact(x)
                want.pop("mean_abs", None)
                assert_same(got, want, dtype)
    strangers = [*views[:2], rng.normal(size=(3, 5)).astype(dtype), flat[::2]]
    for got, x in zip(meter.measure_all(strangers), strangers, strict=True):
        want = exact(x)
        want.pop("mean_abs", None)
        assert_same(got, want, dtype)


def test_gradients_that_an_optimiser_houses_are_not_copied() -> None:
    flat = np.arange(12.0) * np.tile([1.0, -1.0], 6)
    views = [flat[4:12].reshape(2, 4), flat[:4]]
    meter = Meter()
    assert [state["mean"] for state in meter.measure_all(views)] == [-0.5, -0.5]
    assert meter._scratch == {}
    apart = [view.copy() for view in views]
    assert [state["min"] for state in meter.measure_all(apart)] == [-11.0, -3.0]
    assert meter._scratch[flat.dtype].size == 12
    assert meter._layout is None  # arrays that will not come again are not kept alive


def test_one_meter_serves_arrays_of_changing_size_and_dtype() -> None:
    meter, rng = Meter(), np.random.default_rng(9)
    for size in (1031, 7, 2053):
        for dtype in ("float32", "float64"):
            x = (5.0 + rng.normal(size=size)).astype(dtype)
            assert_same(meter.measure(x, absolute=True), exact(x), dtype)


def test_variance_is_not_lost_in_float32_beside_a_large_mean() -> None:
    x = (40_000.0 + np.arange(4)).astype(np.float32)
    state = Meter().measure(x, absolute=True)
    assert state["m2"] / 4 == 1.25
    assert state["mean"] == state["mean_abs"] == 40_001.5
    # The trap: the mean of squares less the square of the mean.
    assert float(np.mean(x * x) - np.mean(x) ** 2) < 0.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_constant_array_has_its_value_for_mean_and_no_variance_at_all(dtype: str) -> None:
    rng, meter = np.random.default_rng(12), Meter()
    for size in (1, 3, 7, 1000, 1024, 4099):
        for value in rng.uniform(0.1, 100.0, size=20).astype(dtype):
            state = meter.measure(np.full(size, value), absolute=True)
            assert state["m2"] == 0.0
            assert state["mean"] == state["mean_abs"] == float(value)


def test_half_precision_is_measured_in_float64() -> None:
    x = np.full(5000, 60_000.0, dtype=np.float16)
    x[0] = 0.0
    assert_same(Meter().measure(x, absolute=True), exact(x), "float64")
