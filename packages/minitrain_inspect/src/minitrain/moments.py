"""Moments of streams of arrays: count, mean, variance, extremes and norm, without keeping the numbers.

Read in this order: a `State` is a small dictionary of plain numbers; `welford_update` adds an array to one and `merge`
joins two, both in float64 and for any input; `Meter` measures float32 and float64 arrays at the price of one pass a
statistic, which is what a training loop can afford; `describe` turns a state into what a log or a snapshot shows.

It does not know modules, parameters or steps: that is `inspect.py`. The mathematics is in section 9 of the BLUEPRINT.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

State: TypeAlias = dict[str, float]
"""`n mean m2 min max l2`; `nan` and `inf` once one was seen; `mean_abs` where it is kept. `{}` is a fresh one."""

# Below this share of Σx² the variance is what is left of a cancellation: measure again about the mean.
_CANCELLATION = 0.1

# Rows of this width are summed by one matrix-vector product: half the time of a pairwise sum, and as exact.
_ROW = 64


def welford_update(state: State, x: npt.ArrayLike) -> None:
    """Add every value of `x` to `state`, in place; returns None.

    Parameters
    ----------
    state : dict
        `{}` for a fresh one. Afterwards it holds `n` (finite values so far), `mean`, `m2` (sum of squared
        deviations from the mean: `m2 / n` is the population variance, `m2 / (n - 1)` the sample variance), `min`,
        `max`, and `l2` (Euclidean norm of the finite values of this `x` alone). Once a value that is not finite was
        seen, also the counts `nan` and `inf`; such values enter nothing else.
    x : array_like of any shape, floating
        A NumPy scalar counts as one value; an empty array changes nothing. Sums are taken in float64.

    References
    ----------
    Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979), eq.
    2.1.

    Examples
    --------
    >>> state = {}
    >>> welford_update(state, [4.0, 7.0])
    >>> welford_update(state, [13.0, 16.0])
    >>> state["n"], state["mean"], state["m2"]
    (4, 10.0, 90.0)
    """
    absorb(state, _measure_exactly(np.asarray(x)))


def merge(a: Mapping[str, float], b: Mapping[str, float]) -> State:
    """Return the state of both streams, `a` first; neither is changed.

    Parameters
    ----------
    a, b : dict
        As `welford_update` leaves them. `{}` changes nothing. `l2` is taken from `b` unless `b` is empty.

    Examples
    --------
    >>> merge({"n": 1, "mean": 2.0, "m2": 0.0, "min": 2.0, "max": 2.0, "l2": 2.0}, {})["mean"]
    2.0
    """
    state = dict(a)
    absorb(state, b)
    return state


def absorb(state: State, part: Mapping[str, float]) -> None:
    """Merge `part` into `state`, in place."""
    if not part:
        return
    if "nan" in part:
        state["nan"] = state.get("nan", 0) + part["nan"]
        state["inf"] = state.get("inf", 0) + part["inf"]
    added = part["n"]
    count = state.get("n", 0)
    if not added:
        state["n"] = count
        if count:
            state["l2"] = 0.0  # the last tensor held nothing finite
        return
    if not count:
        state.update((key, value) for key, value in part.items() if key not in ("nan", "inf"))
        return
    n = count + added
    share = added / n
    mean = state["mean"]
    delta = part["mean"] - mean
    if math.isinf(delta):  # two means so far apart that their difference overflows
        state["mean"] = mean * (count / n) + part["mean"] * share
    else:
        state["mean"] = mean + delta * share
    state["m2"] += part["m2"] + delta * delta * count * share if delta else part["m2"]
    if part["min"] < state["min"]:
        state["min"] = part["min"]
    if part["max"] > state["max"]:
        state["max"] = part["max"]
    state["n"] = n
    state["l2"] = part["l2"]
    if "mean_abs" in state:
        state["mean_abs"] += (part["mean_abs"] - state["mean_abs"]) * share


def describe(state: Mapping[str, float], *, absolute: bool) -> dict[str, float | None]:
    """Return `n mean std min max l2 nan inf` of a state, and `mean_abs` if `absolute`: strict JSON.

    `std` is the population standard deviation. What has no finite value is None; with `n` 0 that is everything but the
    counts.
    """
    n = state.get("n", 0)
    shown: dict[str, float | None]
    if n:
        shown = {
            "n": n,
            "mean": _finite(state["mean"]),
            "std": _finite(math.sqrt(state["m2"] / n)),
            "min": state["min"],
            "max": state["max"],
            "l2": _finite(state["l2"]),
        }
    else:
        shown = {"n": 0, "mean": None, "std": None, "min": None, "max": None, "l2": None}
    shown["nan"] = state.get("nan", 0)
    shown["inf"] = state.get("inf", 0)
    if absolute:
        shown["mean_abs"] = _finite(state["mean_abs"]) if n else None
    return shown


class Meter:
    """Measures arrays in their own dtype, reusing its scratch: one array of the largest size seen for each dtype."""

    def __init__(self) -> None:
        self._scratch: dict[np.dtype[Any], Array] = {}
        self._ones: dict[np.dtype[Any], Array] = {}

    def measure(self, value: Array, *, absolute: bool) -> State:
        """Return the state of one array: that of `welford_update` to within rounding, with `mean_abs` if `absolute`.

        Parameters
        ----------
        value : array of any shape
            float32 and float64 are summed in their own dtype; others are converted to float64 first.
        """
        flat = value.ravel(order="K")  # a view wherever the memory is one piece
        n = flat.size
        if n == 0:
            return {}
        limits = _LIMITS.get(flat.dtype)
        if limits is None:
            return _measure_exactly(flat, absolute=absolute)
        with np.errstate(all="ignore"):
            squares = float(flat.dot(flat))
        # One comparison proves that nothing is NaN or Inf, and that no square overflowed or was lost to underflow.
        if not limits[0] * n <= squares <= limits[1]:
            return _measure_exactly(flat, absolute=absolute)
        total = self._sum(flat)
        low, high = float(np.minimum.reduce(flat)), float(np.maximum.reduce(flat))
        state = self._finish(flat, total, squares, low, high)
        if absolute:
            mean = state["mean"]
            if low >= 0.0 or high <= 0.0:
                state["mean_abs"] = abs(mean)
            else:
                state["mean_abs"] = self._sum(np.abs(flat, out=self._room(flat))) / n
        return state

    def measure_all(self, arrays: Sequence[Array]) -> list[State]:
        """Return the state of each array, all of them in a handful of passes over one buffer.

        Parameters
        ----------
        arrays : sequence of arrays of any shapes
        """
        dtypes = {array.dtype for array in arrays}
        limits = _LIMITS.get(next(iter(dtypes))) if len(dtypes) == 1 else None
        if limits is None or any(array.size == 0 for array in arrays):
            return [self.measure(array, absolute=False) for array in arrays]
        flats = [array.ravel(order="K") for array in arrays]
        sizes = [flat.size for flat in flats]
        starts = np.cumsum([0, *sizes[:-1]], dtype=np.intp)
        n = sum(sizes)
        room = self._room_for(2 * n, flats[0].dtype)
        everything = np.concatenate(flats, out=room[:n])
        with np.errstate(all="ignore"):
            totals = np.add.reduceat(everything, starts).tolist()
            squared = np.multiply(everything, everything, out=room[n : 2 * n])
            squares = np.add.reduceat(squared, starts).tolist()
            lows = np.minimum.reduceat(everything, starts).tolist()
            highs = np.maximum.reduceat(everything, starts).tolist()
        lowest, highest = limits
        return [
            self._finish(flat, total, square, low, high)
            if lowest * flat.size <= square <= highest
            else _measure_exactly(flat)
            for flat, total, square, low, high in zip(flats, totals, squares, lows, highs, strict=True)
        ]

    def _finish(self, flat: Array, total: float, squares: float, low: float, high: float) -> State:
        """Return the state of `flat` from its sums, passing over it again where they cancel."""
        n = flat.size
        mean = total / n
        m2 = squares - total * mean
        if low == high:
            mean, m2, squares = low, 0.0, n * low * low
        elif m2 < _CANCELLATION * squares:
            centre = float(flat.dtype.type(mean))
            deviation = np.subtract(flat, centre, out=self._room(flat))
            rest = self._sum(deviation)
            mean = centre + rest / n
            m2 = max(float(deviation.dot(deviation)) - rest * rest / n, 0.0)
            squares = m2 + n * mean * mean
        return {"n": n, "mean": mean, "m2": m2, "min": low, "max": high, "l2": math.sqrt(squares)}

    def _sum(self, flat: Array) -> float:
        if flat.size % _ROW or flat.size < 16 * _ROW:
            return float(np.add.reduce(flat))
        ones = self._ones.get(flat.dtype)
        if ones is None:
            ones = self._ones[flat.dtype] = np.ones(_ROW, dtype=flat.dtype)
        return float(np.add.reduce(flat.reshape(-1, _ROW).dot(ones)))

    def _room(self, flat: Array) -> Array:
        return self._room_for(flat.size, flat.dtype)[: flat.size]

    def _room_for(self, size: int, dtype: np.dtype[Any]) -> Array:
        scratch = self._scratch.get(dtype)
        if scratch is None or scratch.size < size:
            scratch = self._scratch[dtype] = np.empty(size, dtype=dtype)
        return scratch


def norm(x: Array) -> float:
    """Return the Euclidean norm of `x`, safe against overflow and underflow; NaN or Inf where a value is.

    Callers take care of floating point warnings: they measure many arrays under one `errstate`.
    """
    flat = x.ravel(order="K")
    squares = float(flat.dot(flat))
    limits = _LIMITS.get(flat.dtype)
    if squares == 0.0 and not flat.any():
        return 0.0
    if limits is not None and limits[0] * flat.size <= squares <= limits[1]:
        return math.sqrt(squares)
    wide = np.abs(flat, dtype=np.float64)
    largest = float(wide.max())
    if not math.isfinite(largest):
        return largest
    return largest * math.sqrt(float(np.add.reduce(np.square(wide / largest))))


def _measure_exactly(x: Array, *, absolute: bool = False) -> State:
    """Return the state of `x` in float64, about its own mean, values that are not finite counted and left out."""
    with np.errstate(all="ignore"):
        values = x.astype(np.float64).ravel()
        if values.size == 0:
            return {}
        state: State = {}
        finite = np.isfinite(values)
        if not finite.all():
            state["nan"] = int(np.count_nonzero(np.isnan(values)))
            state["inf"] = int(values.size - np.count_nonzero(finite)) - int(state["nan"])
            values = values[finite]
        n = state["n"] = int(values.size)
        if n == 0:
            return state
        low, high = float(values.min()), float(values.max())
        largest = max(abs(low), abs(high))
        if low == high:
            # Not left to rounding: a constant has no variance.
            mean, m2, l2, mean_abs = low, 0.0, largest * math.sqrt(n), largest
        else:
            # A power of two changes no digit, and squares neither overflow nor vanish.
            scale = 2.0 ** min(max(math.frexp(largest)[1], -1000), 1000)
            values /= scale
            l2 = scale * math.sqrt(float(np.add.reduce(np.square(values))))
            mean_abs = scale * float(np.add.reduce(np.abs(values)) / n)
            centre = float(np.add.reduce(values)) / n
            values -= centre
            rest = float(np.add.reduce(values))
            mean = min(max(scale * (centre + rest / n), low), high)
            m2 = scale * scale * max(float(np.add.reduce(np.square(values))) - rest * rest / n, 0.0)
    state.update(mean=mean, m2=m2, min=low, max=high, l2=l2)
    if absolute:
        state["mean_abs"] = mean_abs
    return state


def _limits(dtype: type[np.floating[Any]]) -> tuple[float, float]:
    """Return, for a sum of n squares, the least safe value over n (none lost to underflow) and the greatest value."""
    kind = np.finfo(dtype)
    return float(kind.tiny) / float(kind.eps), float(kind.max)


_LIMITS: dict[np.dtype[Any], tuple[float, float]] = {
    np.dtype(np.float32): _limits(np.float32),
    np.dtype(np.float64): _limits(np.float64),
}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
