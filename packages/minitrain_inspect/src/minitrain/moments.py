"""Moments of streams of arrays: count, mean, variance, extremes and norm, without keeping the numbers.

Read in this order: a `State` is a small dictionary of plain numbers; `welford_update` adds an array to one and `merge`
joins two, both in float64 and for any input; `describe` turns a state into what a log or a snapshot shows. `meter.py`
measures the same at the price that a training loop can afford.

It does not know modules, parameters or steps: that is `inspect.py`. The mathematics is in section 9 of the BLUEPRINT.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

State: TypeAlias = dict[str, float]
"""`n mean m2 min max l2`; `nan` and `inf` once one was seen; `mean_abs` where it is kept. `{}` is a fresh one."""


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
    absorb(state, measure_exactly(np.asarray(x)))


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
    if not state:  # after each row of the log: worth its own line
        state.update(part)
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


def norm(x: Array) -> float:
    """Return the Euclidean norm of `x`, safe against overflow and underflow; NaN or Inf where a value is.

    Callers take care of floating point warnings: they measure many arrays under one `errstate`.
    """
    flat = x.ravel(order="K")
    squares = float(flat.dot(flat))
    limits = SAFE_SQUARES.get(flat.dtype)
    if squares == 0.0 and not flat.any():
        return 0.0
    if limits is not None and limits[0] * flat.size <= squares <= limits[1]:
        return math.sqrt(squares)
    wide = np.abs(flat, dtype=np.float64)
    largest = float(wide.max())
    if not math.isfinite(largest):
        return largest
    return largest * math.sqrt(float(np.add.reduce(np.square(wide / largest))))


def measure_exactly(x: Array, *, absolute: bool = False) -> State:
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


def _safe_squares(dtype: type[np.floating[Any]]) -> tuple[float, float]:
    """Return, for a sum of n squares, the least safe value over n (none lost to underflow) and the greatest value."""
    kind = np.finfo(dtype)
    return float(kind.tiny) / float(kind.eps), float(kind.max)


SAFE_SQUARES: dict[np.dtype[Any], tuple[float, float]] = {
    np.dtype(np.float32): _safe_squares(np.float32),
    np.dtype(np.float64): _safe_squares(np.float64),
}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
