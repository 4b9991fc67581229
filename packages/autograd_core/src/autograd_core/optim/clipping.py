"""Gradient clipping by global norm."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ..arrays import Array
from ..parameter import Parameter


def clip_grad_norm(params: Iterable[Parameter], max_norm: float) -> float:
    """Return the global L2 norm of the gradients before, after scaling them by min(1, max_norm/(norm + 1e-6)).

    Parameters
    ----------
    params : iterable of Parameter
        Those without a gradient count as 0; a parameter given twice counts once.
    max_norm : float, above 0

    Notes
    -----
    Squares that overflow or underflow are summed again relative to the largest entry. A NaN or infinite gradient gives
    a non-finite norm and scales nothing: the caller decides, and the gradients still show where it came from.

    References
    ----------
    Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks" (2013), algorithm 1.
    """
    if not max_norm > 0.0:
        raise ValueError(f"clip_grad_norm: max_norm must be above 0; got {max_norm}.")
    if isinstance(params, Parameter):
        raise TypeError("clip_grad_norm: takes an iterable of Parameters; got a single one. Put it into a list.")
    distinct = {id(p): p.grad for p in params}
    arrays = _merge([grad for grad in distinct.values() if grad is not None])
    norm = _norm(arrays)
    if not math.isfinite(norm):
        return norm
    scale = max_norm / (norm + 1e-6)
    if scale < 1.0:
        for array in arrays:
            np.multiply(array, scale, out=array)
    return norm


def _merge(grads: list[Array]) -> list[Array]:
    """Return the gradients, with all that together fill one flat array replaced by that array.

    One call then takes the place of many.
    """
    filled: dict[int, int] = {}
    for grad in grads:
        filled[id(grad.base)] = filled.get(id(grad.base), 0) + grad.size
    merged: dict[int, Array] = {}
    for grad in grads:
        base = grad.base
        whole = isinstance(base, np.ndarray) and base.ndim == 1 and filled[id(base)] == base.size
        array = base if whole else grad
        merged[id(array)] = array  # type: ignore[assignment]
    return list(merged.values())


def _norm(arrays: list[Array]) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        total = sum(float(np.vdot(a, a)) for a in arrays)
    # 1e-30: below it float32 squares have lost digits to underflow. 1e300: the sum of float64 squares is near its end.
    if 1e-30 < total < 1e300:
        return math.sqrt(total)
    top = max((float(np.abs(a).max()) for a in arrays if a.size), default=0.0)
    if top == 0.0 or not math.isfinite(top):
        # max() of floats may drop a NaN that is not first; the squares kept it.
        return total if math.isnan(total) else top
    relative = sum(float(np.square(np.divide(a, top, dtype=np.float64)).sum()) for a in arrays)
    return top * math.sqrt(relative)
