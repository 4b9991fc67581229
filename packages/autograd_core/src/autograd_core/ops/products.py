"""Matrix products."""

from __future__ import annotations

import math

import numpy as np

from ..arrays import Array
from ..columns import Columns
from ..grad_mode import is_grad_enabled
from ..tensor import Operand, Tensor, operands


def matmul(a: Operand, b: Operand) -> Tensor:
    """Return a @ b with NumPy's rules.

    Stacks of matrices broadcast; a vector is a row on the left and a column on the right.
    """
    a, b = operands(a, b)
    x, y = a.value, b.value
    need_a, need_b = a.requires_grad, b.requires_grad

    def vjp(grad_out: Array) -> tuple[Array | None, Array | None]:
        # Give vectors the axis they were promoted by, so that one rule serves all cases;
        # the engine sums broadcast stacks.
        left = x[None, :] if x.ndim == 1 else x
        right = y[:, None] if y.ndim == 1 else y
        g = grad_out
        if y.ndim == 1:
            g = g[..., None]
        if x.ndim == 1:
            g = g[..., None, :]
        grad_a = grad_b = None
        if need_a:
            grad_a = g @ right.swapaxes(-1, -2)
            if x.ndim == 1:
                grad_a = grad_a[..., 0, :]
        if need_b:
            if right.ndim == 2 and left.ndim > 2:
                # One long product instead of a stack of short ones and a sum over it.
                rows = math.prod(left.shape[:-1])
                grad_b = left.reshape(rows, left.shape[-1]).T @ g.reshape(rows, g.shape[-1])
            else:
                grad_b = left.swapaxes(-1, -2) @ g
            if y.ndim == 1:
                grad_b = grad_b[..., 0]
        return grad_a, grad_b

    return Tensor.from_op(x @ y, (a, b), vjp, "matmul")


def linear(x: Operand, weight: Operand, bias: Operand | None = None) -> Tensor:
    """Return x @ weight + bias, fused.

    Parameters
    ----------
    x : Tensor, shape (..., in)
    weight : Tensor, shape (in, out)
    bias : Tensor, shape (out,), optional

    Returns
    -------
    Tensor, shape (..., out)

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Notes
    -----
    VJP  ∂x = g weightᵀ,  ∂weight = xᵀ g,  ∂bias = 1ᵀ g, over rows flattened to two dimensions.
    """
    x, weight = operands(x, weight)
    value, w = x._value, weight._value
    shape = value.shape
    if bias is None:
        rows, out = _affine(value, w, None, "linear")
        parents: tuple[Tensor, ...] = (x, weight)
    else:
        bias = operands(x, bias)[1]
        rows, out = _affine(value, w, bias._value, "linear")
        parents = (x, weight, bias)
    if not is_grad_enabled():
        return Tensor(out)
    need_x, need_w, has_bias = x.requires_grad, weight.requires_grad, bias is not None

    def vjp(grad_out: Array) -> tuple[Array | None, ...]:
        grad_x, grad_w, grad_b = _affine_vjp(grad_out, rows, w, need_x, need_w, has_bias)
        grad_x = None if grad_x is None else grad_x.reshape(shape)
        return (grad_x, grad_w, grad_b) if has_bias else (grad_x, grad_w)

    return Tensor.from_op(out, parents, vjp, "linear")


def joined_linear(x: Operand, weights: Columns, biases: Columns | None = None) -> Tensor:
    """Return x @ [W_1 | W_2 | ...] + [b_1 | b_2 | ...]: several linear layers of one input as one product.

    Parameters
    ----------
    x : Tensor, shape (..., in)
    weights : Columns of parameters (in, out_i)
    biases : Columns of parameters (out_i,), optional

    Returns
    -------
    Tensor, shape (..., sum of out_i)

    Raises
    ------
    ValueError
        If the shapes do not fit.
    """
    x, _ = operands(x, weights.parameters[0])
    w = weights.joined()
    shape, ends = x._value.shape, weights.ends[:-1]
    if biases is None:
        rows, out = _affine(x._value, w, None, "joined_linear")
        parents = (x, *weights.parameters)
    else:
        rows, out = _affine(x._value, w, biases.joined(), "joined_linear")
        parents = (x, *weights.parameters, *biases.parameters)
    if not is_grad_enabled():
        return Tensor(out)
    need_x, has_bias = x.requires_grad, biases is not None

    def vjp(grad_out: Array) -> tuple[Array | None, ...]:
        grad_x, grad_w, grad_b = _affine_vjp(grad_out, rows, w, need_x, True, has_bias)
        grads = [None if grad_x is None else grad_x.reshape(shape)]
        for whole in (grad_w, grad_b):
            if whole is not None:
                grads += np.split(whole, ends, axis=-1)
        return tuple(grads)

    return Tensor.from_op(out, parents, vjp, "joined_linear")


def _affine(x: Array, w: Array, b: Array | None, op: str) -> tuple[Array, Array]:
    """Return x as rows (N, in), and x @ w + b in the shape of x with the last axis replaced."""
    shape = x.shape
    if w.ndim != 2 or not shape or shape[-1] != len(w):
        raise ValueError(
            f"{op}: x (..., in) must meet weight (in, out); got x {x.shape} and weight {w.shape}. "
            "Weights are stored (in, out): transpose one that is (out, in)."
        )
    rows = x if len(shape) == 2 else x.reshape(math.prod(shape[:-1]), shape[-1])
    out = rows.dot(w)  # the same BLAS call as matmul, half a microsecond sooner
    if b is not None:
        if b.shape != w.shape[1:]:
            raise ValueError(f"{op}: bias must be (out,) = {w.shape[1:]}; got {b.shape}.")
        out = np.add(out, b, out if out.dtype == b.dtype else None)
    return rows, out if len(shape) == 2 else out.reshape(*shape[:-1], w.shape[1])


def _affine_vjp(
    grad_out: Array, rows: Array, w: Array, need_x: bool, need_w: bool, has_bias: bool
) -> tuple[Array | None, Array | None, Array | None]:
    g = grad_out.reshape(len(rows), w.shape[1])
    return (
        g.dot(w.T) if need_x else None,
        rows.T.dot(g) if need_w else None,
        # A product with ones is 2 to 3 times faster than sum(axis=0).
        np.ones(g.shape[0], g.dtype).dot(g) if has_bias else None,
    )
