"""Matrix products."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..tensor import Operand, Tensor, as_tensor


def matmul(a: Operand, b: Operand) -> Tensor:
    """Return a @ b with NumPy's rules.

    Stacks of matrices broadcast; a vector is a row on the left and a column on the right.
    """
    a, b = as_tensor(a), as_tensor(b)
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
                grad_b = left.reshape(-1, left.shape[-1]).T @ g.reshape(-1, g.shape[-1])
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
    x, weight = as_tensor(x), as_tensor(weight)
    w = weight.value
    shape = x.value.shape
    if w.ndim != 2 or not shape or shape[-1] != w.shape[0]:
        raise ValueError(
            f"linear: x (..., in) must meet weight (in, out); got x {shape} and weight {w.shape}. "
            "Weights are stored (in, out): transpose one that is (out, in)."
        )
    rows = x.value.reshape(-1, shape[-1])  # (N, in)
    out = np.matmul(rows, w)  # (N, out)
    need_x, need_w = x.requires_grad, weight.requires_grad
    if bias is None:
        parents: tuple[Tensor, ...] = (x, weight)
    else:
        bias = as_tensor(bias)
        if bias.shape != w.shape[1:]:
            raise ValueError(f"linear: bias must be (out,) = {w.shape[1:]}; got {bias.shape}.")
        parents = (x, weight, bias)
        if out.dtype == bias.dtype:
            out += bias.value
        else:
            out = out + bias.value
    has_bias = bias is not None

    def vjp(grad_out: Array) -> tuple[Array | None, ...]:
        g = grad_out.reshape(-1, w.shape[1])
        grad_x = (g @ w.T).reshape(shape) if need_x else None
        grad_w = rows.T @ g if need_w else None
        if not has_bias:
            return grad_x, grad_w
        # A product with ones is 2 to 3 times faster than sum(axis=0).
        return grad_x, grad_w, np.ones(g.shape[0], g.dtype) @ g

    return Tensor.from_op(out.reshape(*shape[:-1], w.shape[1]), parents, vjp, "linear")
