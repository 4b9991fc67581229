"""Moments of float32 and float64 arrays at the price of one pass a statistic, with nothing allocated anew.

`Meter.measure` takes one array, `Meter.measure_all` many at once, as the gradients of a backward come. Both sum about
zero in the array's own dtype and look again only where that is not good enough; section 9 of the BLUEPRINT says when.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .moments import SAFE_SQUARES, Array, State, measure_exactly

# Below this share of Σx² the variance is what is left of a cancellation: measure again about the mean.
_CANCELLATION = 0.1

# Rows of this width are summed by one matrix-vector product: half the time of a pairwise sum, and as exact.
_ROW = 64


class Meter:
    """Measures arrays, reusing its scratch: one array of the largest size seen for each dtype."""

    def __init__(self) -> None:
        self._scratch: dict[np.dtype[Any], Array] = {}
        self._ones: dict[np.dtype[Any], Array] = {}
        self._layout: _Layout | None = None

    def measure(self, value: Array, *, absolute: bool) -> State:
        """Return the state of one array: that of `welford_update` to within rounding, with `mean_abs` if `absolute`.

        Parameters
        ----------
        value : array of any shape
            float32 and float64 are summed in their own dtype; others are converted to float64 first.
        """
        flat = value.ravel(order="K")  # a view wherever the memory is one piece
        n = flat.size
        if n == 0:
            return {}
        safe = SAFE_SQUARES.get(flat.dtype)
        if safe is None:
            return measure_exactly(flat, absolute=absolute)
        with np.errstate(all="ignore"):
            squares = float(flat.dot(flat))
        # One comparison proves that nothing is NaN or Inf, and that no square overflowed or was lost to underflow.
        if not safe[0] * n <= squares <= safe[1]:
            return measure_exactly(flat, absolute=absolute)
        total = self._sum(flat)
        low, high = float(np.minimum.reduce(flat)), float(np.maximum.reduce(flat))
        state = self._finish(flat, total, squares, low, high)
        if absolute:
            if low >= 0.0 or high <= 0.0:
                state["mean_abs"] = abs(state["mean"])
            else:
                state["mean_abs"] = self._sum(np.abs(flat, out=self._room(flat))) / n
        return state

    def measure_all(self, arrays: Sequence[Array]) -> list[State]:
        """Return the state of each array, all of them in a handful of passes over one flat array.

        Arrays that are views of one flat array, and lie there end to end, are measured where they are; others are
        copied together first.

        Parameters
        ----------
        arrays : sequence of arrays of any shapes
        """
        safe = SAFE_SQUARES.get(arrays[0].dtype) if arrays else None
        if safe is None or any(array.size == 0 or array.dtype != arrays[0].dtype for array in arrays):
            return [self.measure(array, absolute=False) for array in arrays]
        layout = self._layout
        if layout is None or not layout.is_of(arrays):
            layout = _Layout(arrays)
            # Kept only if it can serve again, which arrays allocated anew in each backward cannot.
            self._layout = layout if layout.flat is not None else None
        pieces, starts = layout.pieces, layout.starts
        flat = layout.flat
        if flat is None:
            flat = np.concatenate(pieces, out=self._room_for(layout.size, pieces[0].dtype)[: layout.size])
        with np.errstate(all="ignore"):
            squares = [float(piece.dot(piece)) for piece in pieces]
            totals = self._sums(flat, starts)
            lows = np.minimum.reduceat(flat, starts).tolist()
            highs = np.maximum.reduceat(flat, starts).tolist()
        lowest, highest = safe
        states: list[State] = [{}] * len(pieces)
        for place, piece, total, square, low, high in zip(
            layout.places, pieces, totals, squares, lows, highs, strict=True
        ):
            if lowest * piece.size <= square <= highest:
                states[place] = self._finish(piece, total, square, low, high)
            else:
                states[place] = measure_exactly(piece)
        return states

    def _finish(self, flat: Array, total: float, squares: float, low: float, high: float) -> State:
        """Return the state of `flat` from its sums, passing over it again where they cancel."""
        n = flat.size
        mean = total / n
        m2 = squares - total * mean
        if low == high:
            mean, m2, squares = low, 0.0, n * low * low
        elif m2 < _CANCELLATION * squares:
            centre = float(flat.dtype.type(mean))
            deviation = np.subtract(flat, centre, out=self._room(flat))
            rest = self._sum(deviation)
            mean = centre + rest / n
            m2 = max(float(deviation.dot(deviation)) - rest * rest / n, 0.0)
            squares = m2 + n * mean * mean
        return {"n": n, "mean": mean, "m2": m2, "min": low, "max": high, "l2": math.sqrt(squares)}

    def _sum(self, flat: Array) -> float:
        """Return the sum of `flat`."""
        if flat.size % _ROW or flat.size < 16 * _ROW:
            return float(np.add.reduce(flat))
        return float(np.add.reduce(self._row_sums(flat)))

    def _sums(self, flat: Array, starts: npt.NDArray[np.intp]) -> list[float]:
        """Return the sums of the pieces of `flat` that begin at `starts`."""
        if flat.size % _ROW or (starts % _ROW).any():
            sums = np.add.reduceat(flat, starts)
        else:
            sums = np.add.reduceat(self._row_sums(flat), starts // _ROW)
        return [float(total) for total in sums]

    def _row_sums(self, flat: Array) -> Array:
        ones = self._ones.get(flat.dtype)
        if ones is None:
            ones = self._ones[flat.dtype] = np.ones(_ROW, dtype=flat.dtype)
        return np.asarray(flat.reshape(-1, _ROW).dot(ones))

    def _room(self, flat: Array) -> Array:
        return self._room_for(flat.size, flat.dtype)[: flat.size]

    def _room_for(self, size: int, dtype: np.dtype[Any]) -> Array:
        scratch = self._scratch.get(dtype)
        if scratch is None or scratch.size < size:
            scratch = self._scratch[dtype] = np.empty(size, dtype=dtype)
        return scratch


class _Layout:
    """Where arrays lie in one flat array.

    Attributes
    ----------
    pieces : list of 1-D arrays
        The arrays, flat, in the order in which they lie.
    places : list of int
        Index of each piece among the arrays as they were given.
    starts : int array
        Where each piece begins.
    size : int
        Numbers in all.
    flat : 1-D array or None
        The memory that holds them all; None if they do not lie end to end in one array.
    """

    __slots__ = ("_arrays", "flat", "pieces", "places", "size", "starts")

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._arrays = list(arrays)
        addresses = [array.__array_interface__["data"][0] for array in arrays]
        self.places = sorted(range(len(arrays)), key=addresses.__getitem__)
        self.pieces = [arrays[place].ravel(order="K") for place in self.places]
        sizes = [piece.size for piece in self.pieces]
        self.size = sum(sizes)
        self.starts = np.cumsum([0, *sizes[:-1]], dtype=np.intp)
        self.flat: Array | None = None
        first = arrays[self.places[0]]
        base, width = first.base, first.dtype.itemsize
        if isinstance(base, np.ndarray) and base.ndim == 1 and base.dtype == first.dtype and base.flags.c_contiguous:
            begin = addresses[self.places[0]]
            if all(
                arrays[place].base is base
                and arrays[place].flags.c_contiguous
                and addresses[place] == begin + width * int(start)
                for place, start in zip(self.places, self.starts, strict=True)
            ):
                offset = (begin - base.__array_interface__["data"][0]) // width
                self.flat = base[offset : offset + self.size]

    def is_of(self, arrays: Sequence[Array]) -> bool:
        """Whether these are the very arrays it was made of."""
        mine = self._arrays
        return len(mine) == len(arrays) and all(a is b for a, b in zip(mine, arrays, strict=True))
