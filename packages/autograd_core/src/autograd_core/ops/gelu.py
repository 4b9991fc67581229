"""The Gaussian error linear unit (Hendrycks and Gimpel 2016), in GPT-2's tanh form and exactly."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ..arrays import Array
from ..grad_mode import is_grad_enabled
from ..tensor import Operand, Tensor, as_floating
from .error_function import erfc

_LINEAR = 2.0 * math.sqrt(2.0 / math.pi)  # 2u = _LINEAR x + _CUBIC x³
_CUBIC = _LINEAR * 0.044715

# Where |x| is below 1e8, exp(-2u) may overflow to inf, which is right: its reciprocal is the sigmoid's 0. Beyond it the
# derivative would multiply that 0 by an overflowed x². The edge is where the sigmoid is 0 (to 1e-37) or 1 (to the last
# bit), so clipping x there changes nothing.
_LARGE_SQUARE = 1e16
_EDGE = 10.0

# Elements a piece: scratch arrays that stay in the second-level cache.
_PIECE = 32768


def gelu(x: Operand, approximate: str = "tanh") -> Tensor:
    """Return the GELU of x, entry by entry.

    Parameters
    ----------
    x : Tensor or array, floating, any shape
    approximate : {"tanh", "none"}
        "tanh" is ½x(1 + tanh(√(2/π)(x + 0.044715x³))), GPT-2's; "none" is xΦ(x), Φ the normal
        distribution function.

    Raises
    ------
    ValueError
        For another `approximate`.
    """
    if approximate == "none":
        return _gelu_exact(as_floating(x))
    if approximate != "tanh":
        raise ValueError(f'gelu: approximate must be "tanh" or "none"; got {approximate!r}.')
    x = as_floating(x)
    value = x._value
    flat, shape = value.reshape(-1), value.shape
    out = np.empty(flat.size, flat.dtype)
    recorded = is_grad_enabled()
    slope = np.empty(flat.size, flat.dtype) if recorded and x.requires_grad else None
    with np.errstate(over="ignore"):
        # The sum of squares bounds every |x| at the price of one product; NaN and inf fail the comparison.
        careful = not flat.dot(flat) < _LARGE_SQUARE
        if flat.size <= _PIECE:
            _tanh_form(flat, out, slope, careful)
        else:
            for start in range(0, flat.size, _PIECE):
                piece = slice(start, start + _PIECE)
                _tanh_form(flat[piece], out[piece], None if slope is None else slope[piece], careful)

    if not recorded:
        return Tensor(out.reshape(shape))

    def vjp(grad_out: Array) -> tuple[Array]:
        return ((grad_out.reshape(-1) * slope).reshape(shape),)

    return Tensor.from_op(out.reshape(shape), (x,), vjp, "gelu")


@lru_cache(maxsize=8)
def _constants(dtype: str) -> tuple[Array, Array, Array]:
    """Return -_CUBIC, _LINEAR and 1: NumPy takes an array of no axes sooner than a Python float."""
    return np.array(-_CUBIC, dtype), np.array(_LINEAR, dtype), np.array(1.0, dtype)


def _tanh_form(x: Array, out: Array, slope: Array | None, careful: bool) -> None:
    """Write x σ(2u) of flat x into `out` and, while everything is still in the cache, its derivative into `slope`."""
    minus_cubic, linear, one = _constants(x.dtype.char)
    inner = np.clip(x, -_EDGE, _EDGE) if careful else x
    square = inner * inner
    s = square * minus_cubic
    s -= linear
    s *= inner
    np.exp(s, s)  # exp(-2u)
    s += one
    np.reciprocal(s, s)  # σ(2u)
    if careful:
        below = x < -_EDGE
        s[below] = 0.0
        with np.errstate(invalid="ignore"):
            np.multiply(x, s, out)
        out[below] = 0.0  # not -inf * 0
    else:
        np.multiply(x, s, out)
    if slope is not None:
        # s + x s (1 - s)(2u)' = s (1 + (x - x s)(2u)')
        square *= 3.0 * _CUBIC
        square += linear
        if careful:
            np.multiply(inner, s, slope)
            np.subtract(inner, slope, slope)
        else:
            np.subtract(x, out, slope)
        slope *= square
        slope += one
        slope *= s


def _gelu_exact(x: Tensor) -> Tensor:
    # In float64 whatever the dtype: this is the exact form, and float32 gets a correctly rounded one.
    value = x.value.astype(np.float64)
    finite = np.clip(value, -40.0, 40.0)  # Φ is 0 or 1 there, and -inf * 0 would be NaN
    distribution = 0.5 * erfc(finite * -math.sqrt(0.5))
    out = np.where(value < -40.0, 0.0, value) * distribution
    density = np.exp(-0.5 * finite * finite) * (1.0 / math.sqrt(2.0 * math.pi))
    slope = (distribution + finite * density).astype(x.dtype)

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out * slope,)

    return Tensor.from_op(out.astype(x.dtype), (x,), vjp, "gelu")
