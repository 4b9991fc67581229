"""Functions of one array, entry by entry. Where the derivative is cheap from the output, the output is what is kept."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..tensor import Operand, Tensor, as_floating, as_tensor


def exp(x: Operand) -> Tensor:
    """Return e to the x."""
    x = as_floating(x)
    out = np.exp(x.value)

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out * out,)

    return Tensor.from_op(out, (x,), vjp, "exp")


def log(x: Operand) -> Tensor:
    """Return the natural logarithm of x."""
    x = as_floating(x)
    value = x.value

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out / value,)

    return Tensor.from_op(np.log(value), (x,), vjp, "log")


def sqrt(x: Operand) -> Tensor:
    """Return the square root of x. Its gradient at 0, where the slope is infinite, is taken as 0."""
    x = as_floating(x)
    root = np.asarray(np.sqrt(x.value))

    def vjp(grad_out: Array) -> tuple[Array]:
        return (np.divide(0.5 * grad_out, root, out=np.zeros_like(grad_out), where=root != 0),)

    return Tensor.from_op(root, (x,), vjp, "sqrt")


def tanh(x: Operand) -> Tensor:
    """Return the hyperbolic tangent of x."""
    x = as_floating(x)
    out = np.tanh(x.value)

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out * (1.0 - out * out),)

    return Tensor.from_op(out, (x,), vjp, "tanh")


def sigmoid(x: Operand) -> Tensor:
    """Return 1 / (1 + exp(-x)), without overflow for any x."""
    x = as_floating(x)
    # exp of minus the magnitude never overflows: 1/(1+e) on the right, e/(1+e) on the left.
    e = np.exp(-np.abs(x.value))
    out = np.where(x.value >= 0, 1.0, e) / (1.0 + e)

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out * (out * (1.0 - out)),)

    return Tensor.from_op(out, (x,), vjp, "sigmoid")


def relu(x: Operand) -> Tensor:
    """Return x where it is positive and 0 elsewhere; the gradient at 0 is 0."""
    x = as_tensor(x)
    positive = x.value > 0

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out * positive,)

    return Tensor.from_op(np.maximum(x.value, np.zeros((), x.dtype)), (x,), vjp, "relu")


def abs(x: Operand) -> Tensor:
    """Return the magnitude of x; the gradient at 0 is 0."""
    x = as_tensor(x)
    sign = np.sign(x.value)

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out * sign,)

    return Tensor.from_op(np.abs(x.value), (x,), vjp, "abs")
