"""Reductions over axes. `axis` and `keepdims` mean what they mean in NumPy."""

from __future__ import annotations

import math

import numpy as np

from ..arrays import Array, Axis
from ..tensor import Operand, Tensor, as_floating, as_tensor


def _axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Return the reduced axes as non-negative numbers; NumPy's error for one out of range or named twice."""
    if axis is None:
        return tuple(range(ndim))
    return np.lib.array_utils.normalize_axis_tuple(axis, ndim)


def _kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return `shape` with 1 in the place of the reduced axes: what a result is reshaped to, to broadcast back."""
    return tuple(1 if i in axes else size for i, size in enumerate(shape))


def sum(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the sum over `axis`, or over everything."""
    x = as_tensor(x)
    shape = x.shape
    axes = _axes(axis, x.ndim)
    kept = _kept(shape, axes)

    def vjp(grad_out: Array) -> tuple[Array]:
        return (np.broadcast_to(grad_out.reshape(kept), shape),)

    return Tensor.from_op(x.value.sum(axis=axes, keepdims=keepdims), (x,), vjp, "sum", aliases=True)


def mean(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the mean over `axis`, or over everything."""
    x = as_floating(x)
    shape = x.shape
    axes = _axes(axis, x.ndim)
    kept = _kept(shape, axes)
    count = math.prod(shape[i] for i in axes)

    def vjp(grad_out: Array) -> tuple[Array]:
        return (np.broadcast_to(grad_out.reshape(kept) / count, shape),)

    return Tensor.from_op(x.value.mean(axis=axes, keepdims=keepdims), (x,), vjp, "mean", aliases=True)


def var(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the population variance (divided by the count, not by one less) over `axis`, or over everything."""
    x = as_floating(x)
    axes = _axes(axis, x.ndim)
    kept = _kept(x.shape, axes)
    count = math.prod(x.shape[i] for i in axes)
    # The first entry goes before the mean, as in layer_norm: a constant has variance exactly 0 however its mean rounds.
    first = x.value[tuple(slice(1) if i in axes else slice(None) for i in range(x.ndim))]
    centred = x.value - first
    centred -= centred.mean(axis=axes, keepdims=True)
    out = np.asarray((centred * centred).mean(axis=axes, keepdims=keepdims))

    def vjp(grad_out: Array) -> tuple[Array]:
        return (centred * (grad_out.reshape(kept) * (2.0 / count)),)

    return Tensor.from_op(out, (x,), vjp, "var")


def max(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the maximum over `axis`, or over everything; entries that tie share the gradient equally."""
    return _extreme(x, axis, keepdims, largest=True)


def min(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the minimum over `axis`, or over everything; entries that tie share the gradient equally."""
    return _extreme(x, axis, keepdims, largest=False)


def _extreme(x: Operand, axis: Axis, keepdims: bool, *, largest: bool) -> Tensor:
    x = as_tensor(x)
    value = x.value
    axes = _axes(axis, x.ndim)
    kept = _kept(x.shape, axes)
    out = np.asarray(value.max(axis=axes, keepdims=keepdims) if largest else value.min(axis=axes, keepdims=keepdims))

    def vjp(grad_out: Array) -> tuple[Array]:
        top = out.reshape(kept)
        winners = value == top
        if np.isnan(top).any():
            winners |= np.isnan(value) & np.isnan(top)  # NaN won the forward and takes the gradient
        share = grad_out.reshape(kept) / winners.sum(axis=axes, keepdims=True).astype(grad_out.dtype)
        return (winners * share,)

    return Tensor.from_op(out, (x,), vjp, "max" if largest else "min")
