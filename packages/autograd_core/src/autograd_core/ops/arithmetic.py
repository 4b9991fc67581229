"""Arithmetic of two operands with NumPy broadcasting, and choices between them.

A vjp here returns cotangents of the broadcast shape; the engine sums them to each parent's shape.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Array, Number
from ..grad_mode import is_grad_enabled
from ..tensor import Operand, Tensor, as_tensor, operands


def negative(x: Operand) -> Tensor:
    """Return -x."""
    x = as_tensor(x)

    def vjp(grad_out: Array) -> tuple[Array]:
        return (-grad_out,)

    return Tensor.from_op(-x.value, (x,), vjp, "negative")


def add(a: Operand, b: Operand) -> Tensor:
    """Return a + b, broadcast."""
    a, b = operands(a, b)
    out = a._value + b._value
    if not is_grad_enabled():
        return Tensor(out)

    def vjp(grad_out: Array) -> tuple[Array, Array]:
        return grad_out, grad_out

    return Tensor.from_op(out, (a, b), vjp, "add", aliases=True)


def subtract(a: Operand, b: Operand) -> Tensor:
    """Return a - b, broadcast."""
    a, b = operands(a, b)
    need_b = b.requires_grad

    def vjp(grad_out: Array) -> tuple[Array, Array | None]:
        return grad_out, -grad_out if need_b else None

    return Tensor.from_op(a.value - b.value, (a, b), vjp, "subtract", aliases=True)


def multiply(a: Operand, b: Operand) -> Tensor:
    """Return a * b, broadcast."""
    a, b = operands(a, b)
    a_value, b_value = a.value, b.value
    need_a, need_b = a.requires_grad, b.requires_grad

    def vjp(grad_out: Array) -> tuple[Array | None, Array | None]:
        return grad_out * b_value if need_a else None, grad_out * a_value if need_b else None

    return Tensor.from_op(a_value * b_value, (a, b), vjp, "multiply")


def divide(a: Operand, b: Operand) -> Tensor:
    """Return a / b, broadcast."""
    a, b = operands(a, b)
    b_value = b.value
    quotient = a.value / b_value
    need_a, need_b = a.requires_grad, b.requires_grad

    def vjp(grad_out: Array) -> tuple[Array | None, Array | None]:
        grad_a = grad_out / b_value
        return grad_a if need_a else None, -grad_a * quotient if need_b else None

    return Tensor.from_op(quotient, (a, b), vjp, "divide")


def power(base: Operand, exponent: Operand) -> Tensor:
    """Return base ** exponent, broadcast.

    The gradient of the exponent needs a positive base; at base 0 it is taken as 0, as is that of `0 ** 0`.
    """
    base, exponent = operands(base, exponent)
    x, p = base.value, exponent.value
    need_x, need_p = base.requires_grad, exponent.requires_grad
    # x * x is 20 to 30 times faster than np.power, and squares are what people write.
    square = p.ndim == 0 and p == 2
    out = x * x if square else np.power(x, p)

    def vjp(grad_out: Array) -> tuple[Array | None, Array | None]:
        grad_x = grad_p = None
        if need_x and square:
            grad_x = grad_out * x
            grad_x *= 2.0
        elif need_x:
            # p * x**(p-1); where p is 0 the factor is 0 even if x**(-1) is infinite.
            slope = np.where(p == 0, 0.0, p * np.power(np.where((p == 0) & (x == 0), 1.0, x), p - 1))
            grad_x = grad_out * slope
        if need_p:
            grad_p = grad_out * out * np.log(np.where(x == 0, 1.0, x))
        return grad_x, grad_p

    return Tensor.from_op(out, (base, exponent), vjp, "power")


def maximum(a: Operand, b: Operand) -> Tensor:
    """Return the larger of a and b, elementwise; where they tie, each gets half of the gradient."""
    return _choose(a, b, larger=True)


def minimum(a: Operand, b: Operand) -> Tensor:
    """Return the smaller of a and b, elementwise; where they tie, each gets half of the gradient."""
    return _choose(a, b, larger=False)


def _choose(a: Operand, b: Operand, *, larger: bool) -> Tensor:
    a, b = operands(a, b)
    a_value, b_value = a.value, b.value
    out = np.maximum(a_value, b_value) if larger else np.minimum(a_value, b_value)

    def vjp(grad_out: Array) -> tuple[Array, Array]:
        a_wins = a_value > b_value if larger else a_value < b_value
        tie = a_value == b_value
        if np.isnan(out).any():  # NaN won the forward and takes the gradient
            a_nan, b_nan = np.isnan(a_value), np.isnan(b_value)
            a_wins, tie = a_wins | (a_nan & ~b_nan), tie | (a_nan & b_nan)
        share = (a_wins + 0.5 * tie).astype(grad_out.dtype)
        grad_a = grad_out * share
        return grad_a, grad_out - grad_a

    return Tensor.from_op(out, (a, b), vjp, "maximum" if larger else "minimum")


def where(cond: npt.ArrayLike | Tensor, a: Operand, b: Operand) -> Tensor:
    """Return a where `cond` is true and b elsewhere, broadcast. `cond` is boolean data and gets no gradient."""
    mask = np.asarray(cond.value if isinstance(cond, Tensor) else cond)
    if mask.dtype != np.bool_:
        raise TypeError(f"where: the condition must be boolean; got {mask.dtype}. Compare values, as in x.value > 0.")
    a, b = operands(a, b)

    def vjp(grad_out: Array) -> tuple[Array, Array]:
        # Not grad_out * mask: an infinite cotangent of the branch not taken must not become NaN.
        zero = np.zeros((), grad_out.dtype)
        return np.where(mask, grad_out, zero), np.where(mask, zero, grad_out)

    return Tensor.from_op(np.where(mask, a.value, b.value), (a, b), vjp, "where")


def clip(x: Operand, low: Number | None = None, high: Number | None = None) -> Tensor:
    """Return x limited to [low, high]; the gradient passes where x is inside, ends included."""
    x = as_tensor(x)
    if low is None and high is None:
        raise ValueError("clip: at least one of low and high must be given; got neither.")
    value = x.value
    inside = np.ones(value.shape, bool)
    if low is not None:
        inside &= value >= low
    if high is not None:
        inside &= value <= high
    as_dtype = value.dtype.type if value.dtype.kind == "f" else (lambda limit: limit)
    out = np.clip(value, None if low is None else as_dtype(low), None if high is None else as_dtype(high))

    def vjp(grad_out: Array) -> tuple[Array]:
        return (np.where(inside, grad_out, np.zeros((), grad_out.dtype)),)

    return Tensor.from_op(out, (x,), vjp, "clip")
