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

# Where |x| is below 1e8, no power of it overflows, and exp(-2u) may overflow to inf, which is right: its reciprocal is
# the sigmoid's 0. Beyond, the powers are taken of x clipped to where the sigmoid has long been 0 or 1 to the last bit,
# so that an entry has the same bits whatever stands beside it.
_LARGE_SQUARE = 1e16
_EDGE = 1e4

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
    if flat.itemsize < 4:
        flat = flat.astype(np.float32)  # the cube of 70 is beyond float16
    out = np.empty(flat.size, flat.dtype)
    recorded = is_grad_enabled()
    slope = np.empty(flat.size, flat.dtype) if recorded and x.requires_grad else None
    with np.errstate(over="ignore", invalid="ignore"):
        # The sum of squares bounds every |x| at the price of one product; NaN and inf fail the comparison.
        careful = not flat.dot(flat) < _LARGE_SQUARE
        if flat.size <= _PIECE:
            _tanh_form(flat, out, slope, careful)
        else:
            for start in range(0, flat.size, _PIECE):
                piece = slice(start, start + _PIECE)
                _tanh_form(flat[piece], out[piece], None if slope is None else slope[piece], careful)

    result: Array = out.reshape(shape)
    if result.dtype != value.dtype:
        result = result.astype(value.dtype)
    if not recorded:
        return Tensor(result)

    def vjp(grad_out: Array) -> tuple[Array]:
        return ((grad_out.reshape(-1) * slope).reshape(shape),)

    return Tensor.from_op(result, (x,), vjp, "gelu")


@lru_cache(maxsize=8)
def _constants(dtype: str) -> tuple[Array, Array, Array]:
    """Return -_CUBIC, _LINEAR and 1: NumPy takes an array of no axes sooner than a Python float."""
    return np.array(-_CUBIC, dtype), np.array(_LINEAR, dtype), np.array(1.0, dtype)


def _tanh_form(x: Array, out: Array, slope: Array | None, careful: bool) -> None:
    """Write x σ(2u) of flat x into `out` and, while everything is still in the cache, its derivative into `slope`."""
    minus_cubic, linear, one = _constants(x.dtype.char)
    inner = np.clip(x, -_EDGE, _EDGE) if careful else x
    square = inner * inner
    e = square * minus_cubic
    e -= linear
    e *= inner
    np.exp(e, e)  # exp(-2u)
    s = e + one
    np.reciprocal(s, s)  # σ(2u)
    np.multiply(x, s, out)
    if careful:
        out[np.isneginf(x)] = -0.0  # not -inf * 0
    if slope is not None:
        # s + x s (1 - s)(2u)' = s (1 + x (2u)' (1 - s)), with 1 - s as e s: near s = 1 a difference would lose digits.
        e *= s
        if not math.isfinite(e.dot(e)):
            e[(s == 0.0) & np.isnan(e)] = 1.0  # inf * 0
        square *= 3.0 * _CUBIC
        square += linear
        square *= inner
        square *= e
        square += one
        np.multiply(square, s, slope)


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
