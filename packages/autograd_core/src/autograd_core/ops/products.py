"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

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
    if bias is None:
        return _linear(x, weight.value, None, (weight,), (), "linear")
    bias = as_tensor(bias)
    return _linear(x, weight.value, bias.value, (weight,), (bias,), "linear")


def joined_linear(
    x: Operand,
    weights: Sequence[Operand],
    biases: Sequence[Operand] = (),
    *,
    packed: Sequence[Array | None] = (None, None),
) -> Tensor:
    """Return x @ [W_1 | W_2 | ...] + [b_1 | b_2 | ...]: several linear layers of one input as one product.

    Parameters
    ----------
    x : Tensor, shape (..., in)
    weights : sequence of Tensor, each (in, out_i)
    biases : sequence of Tensor, each (out_i,), optional
        As many as weights, or none.
    packed : pair of arrays or None
        What `pack_columns` returned for the weights and for the biases: while they are its columns, nothing is joined.

    Returns
    -------
    Tensor, shape (..., sum of out_i)

    Raises
    ------
    ValueError
        If the shapes do not fit.
    """
    x = as_tensor(x)
    parts = tuple(as_tensor(weight) for weight in weights)
    shifts = tuple(as_tensor(bias) for bias in biases)
    w = _joined(parts, packed[0])
    b = _joined(shifts, packed[1]) if shifts else None
    return _linear(x, w, b, parts, shifts, "joined_linear")


def _joined(parts: tuple[Tensor, ...], packed: Array | None) -> Array:
    if packed is not None:
        column = 0
        for part in parts:
            if part.value.base is not packed or getattr(part, "_column", None) != column:
                break
            column += part.shape[-1]
        if column == packed.shape[-1]:
            return packed
    return np.concatenate([part.value for part in parts], axis=-1)


def _linear(
    x: Tensor, w: Array, b: Array | None, weights: tuple[Tensor, ...], biases: tuple[Tensor, ...], op: str
) -> Tensor:
    """Return x @ w + b, where w and b are the `weights` and the `biases` side by side."""
    value = x.value
    shape = value.shape
    if w.ndim != 2 or not shape or shape[-1] != w.shape[0]:
        raise ValueError(
            f"{op}: x (..., in) must meet weight (in, out); got x {shape} and weight {w.shape}. "
            "Weights are stored (in, out): transpose one that is (out, in)."
        )
    rows = value if value.ndim == 2 else value.reshape(-1, shape[-1])  # (N, in)
    out = np.matmul(rows, w)  # (N, out)
    if b is not None:
        if b.shape != w.shape[1:]:
            raise ValueError(f"{op}: bias must be (out,) = {w.shape[1:]}; got {b.shape}.")
        if out.dtype == b.dtype:
            out += b
        else:
            out = out + b
    if value.ndim != 2:
        out = out.reshape(*shape[:-1], w.shape[1])
    need_x = x.requires_grad
    need_w = any(weight.requires_grad for weight in weights)
    n_weights, n_biases = len(weights), len(biases)
    ends = np.cumsum([weight.shape[-1] for weight in weights])[:-1] if n_weights > 1 else None

    def vjp(grad_out: Array) -> tuple[Array | None, ...]:
        g = grad_out.reshape(-1, w.shape[1])
        grads: list[Array | None] = [np.matmul(g, w.T).reshape(shape) if need_x else None]
        grad_w = np.matmul(rows.T, g) if need_w else None
        # A product with ones is 2 to 3 times faster than sum(axis=0).
        grad_b = np.matmul(np.ones(g.shape[0], g.dtype), g) if n_biases else None
        for whole, count in ((grad_w, n_weights), (grad_b, n_biases)):
            if whole is None:
                grads += [None] * count
            elif ends is None:
                grads.append(whole)
            else:
                grads += np.split(whole, ends, axis=-1)
        return tuple(grads)

    return Tensor.from_op(out, (x, *weights, *biases), vjp, op)
