"""Operations that move entries without changing them. Values and cotangents are views where NumPy makes views."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import SupportsIndex

import numpy as np

from ..arrays import Array, Axis, IntArray
from ..tensor import Operand, Tensor, adopting, as_tensor

_Sizes = SupportsIndex | Sequence[SupportsIndex]


def _flatten_arguments(sizes: tuple[_Sizes, ...]) -> tuple[int, ...]:
    """Return sizes given as one sequence or as several numbers, as NumPy's methods take them."""
    flat: list[int] = []
    for size in sizes:
        flat.extend(index(n) for n in size) if isinstance(size, Iterable) else flat.append(index(size))
    return tuple(flat)


def reshape(x: Operand, *shape: _Sizes) -> Tensor:
    """Return x in another shape, given as numbers or one tuple; one of them may be -1."""
    x = as_tensor(x)
    before = x.shape

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out.reshape(before),)

    return Tensor.from_op(x.value.reshape(_flatten_arguments(shape)), (x,), vjp, "reshape", aliases=True)


def transpose(x: Operand, *axes: _Sizes) -> Tensor:
    """Return x with its axes permuted, or reversed if none are given."""
    x = as_tensor(x)
    order = _flatten_arguments(axes) if axes else tuple(reversed(range(x.ndim)))
    inverse = np.argsort([axis % x.ndim for axis in order]) if order else ()

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out.transpose(tuple(inverse)),)

    return Tensor.from_op(x.value.transpose(order), (x,), vjp, "transpose", aliases=True)


def swapaxes(x: Operand, axis1: int, axis2: int) -> Tensor:
    """Return x with two axes exchanged."""
    x = as_tensor(x)

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out.swapaxes(axis1, axis2),)

    return Tensor.from_op(x.value.swapaxes(axis1, axis2), (x,), vjp, "swapaxes", aliases=True)


def expand_dims(x: Operand, axis: int | tuple[int, ...]) -> Tensor:
    """Return x with axes of size 1 inserted, as NumPy's `expand_dims`."""
    x = as_tensor(x)
    before = x.shape

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out.reshape(before),)

    return Tensor.from_op(np.expand_dims(x.value, axis), (x,), vjp, "expand_dims", aliases=True)


def squeeze(x: Operand, axis: Axis = None) -> Tensor:
    """Return x without the given axes of size 1, or without all of them."""
    x = as_tensor(x)
    before = x.shape
    axes = axis if axis is None else _flatten_arguments((axis,))

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out.reshape(before),)

    return Tensor.from_op(np.squeeze(x.value, axes), (x,), vjp, "squeeze", aliases=True)


def broadcast_to(x: Operand, shape: _Sizes) -> Tensor:
    """Return x broadcast to `shape`: a read-only view."""
    x = as_tensor(x)
    out = np.broadcast_to(x.value, _flatten_arguments((shape,)))

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out,)  # the engine sums to the parent's shape

    return Tensor.from_op(out, (x,), vjp, "broadcast_to", aliases=True)


def concatenate(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """Return the tensors joined along an existing axis."""
    parents = adopting(*tensors)
    out = np.concatenate([p.value for p in parents], axis=axis)
    ends = np.cumsum([p.shape[axis] for p in parents])[:-1]

    def vjp(grad_out: Array) -> tuple[Array, ...]:
        return tuple(np.split(grad_out, ends, axis=axis))

    return Tensor.from_op(out, parents, vjp, "concatenate", aliases=True)


def stack(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """Return the tensors, all of one shape, joined along a new axis."""
    parents = adopting(*tensors)

    def vjp(grad_out: Array) -> tuple[Array, ...]:
        return tuple(np.moveaxis(grad_out, axis, 0))

    return Tensor.from_op(np.stack([p.value for p in parents], axis=axis), parents, vjp, "stack", aliases=True)


def split(x: Operand, indices_or_sections: int | Sequence[int] | IntArray, axis: int = 0) -> list[Tensor]:
    """Return x cut along an axis into equal sections, or at the given indices, as NumPy's `split`."""
    x = as_tensor(x)
    shape, dtype = x.shape, x.dtype
    parts = np.split(x.value, indices_or_sections, axis=axis)
    # Where each part was cut, from the same split of the positions: indices may be negative, or overlap.
    places = np.split(np.arange(shape[axis]), indices_or_sections)

    def cut(part: Array, positions: IntArray) -> Tensor:
        start = int(positions[0]) if positions.size else 0
        place = [slice(None)] * len(shape)
        place[axis] = slice(start, start + positions.size)
        where = tuple(place)

        def vjp(grad_out: Array) -> tuple[Array]:
            grad_x = np.zeros(shape, dtype)
            grad_x[where] = grad_out
            return (grad_x,)

        return Tensor.from_op(part, (x,), vjp, "split")

    return [cut(part, positions) for part, positions in zip(parts, places, strict=True)]
