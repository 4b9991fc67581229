"""Rotary position embedding: the cosines and sines by which attention turns its queries and keys.

Position m turns the pair (x_i, x_{i + K/2}) by m · 10000^(−2i/K), i = 0 … K/2 − 1, so that the product of a query at m
and a key at n depends on m − n alone. Nothing is learned, so nothing here limits the length of a sequence. The core's
fused attention turns whole sequences by the angles made here; `rotated` turns new positions that meet cached ones.

References
----------
Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021), §3.2.2, eq. 14 and 15. They pair
neighbours (x_{2i}, x_{2i+1}); we pair the two halves, as GPT-NeoX does: the same rotation with the columns of W_q
and W_k in another order.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

BASE = 10000.0
"""The longest wave turns once in 2π · 10000 positions; the paper's choice, after Vaswani et al. (2017)."""

Tables: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""Cosines and sines, each of shape (..., K/2)."""


def rotary_tables(positions: npt.NDArray[np.integer[Any]], d_head: int, dtype: npt.DTypeLike = np.float64) -> Tables:
    """Return cosines and sines of the angles of `positions`.

    Parameters
    ----------
    positions : int array, shape (...)
        Any integers; only their differences matter.
    d_head : int
        Width K of a head, even.
    dtype : dtype
        Of the result. The angles are computed in float64: in float32 the angle of position 10,000 is off by 5e-4.

    Returns
    -------
    two arrays, shape (..., K/2)

    Examples
    --------
    >>> cos, sin = rotary_tables(np.array([0, 1]), 4)
    >>> sin.round(4).tolist()
    [[0.0, 0.0], [0.8415, 0.01]]
    """
    frequencies = BASE ** (-np.arange(0, d_head, 2) / d_head)  # (K/2,)
    angles = np.asarray(positions)[..., None] * frequencies  # (..., K/2)
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


def rotated(x: npt.NDArray[Any], tables: Tables) -> npt.NDArray[Any]:
    """Return queries or keys `x`, each turned by the angles of its position.

    Parameters
    ----------
    x : array, shape (..., T, H, K)
    tables : two arrays, shape (T, K/2) or (..., T, K/2)
        From `rotary_tables`.

    Returns
    -------
    array, shape of `x`
    """
    cos, sin = (table[..., None, :] for table in tables)  # (..., T, 1, K/2)
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    out = np.empty_like(x)
    out[..., :half] = a * cos - b * sin
    out[..., half:] = b * cos + a * sin
    return out


class RotaryCache:
    """The tables of positions 0 … T − 1, computed when a longer T or another dtype first asks for them.

    Parameters
    ----------
    d_head : int
        Width K of a head, even.
    """

    def __init__(self, d_head: int) -> None:
        self._d_head = d_head
        self._tables: Tables = rotary_tables(np.arange(0), d_head)

    def tables(self, length: int, dtype: npt.DTypeLike, *, start: int = 0) -> Tables:
        """Return cosines and sines of `length` positions from `start`, each (length, K/2); not to be written into."""
        cos, sin = self._tables
        end = start + length
        if len(cos) < end or cos.dtype != dtype:
            # Twice as many, so that a sequence that grows token by token does not ask for new tables at each.
            self._tables = cos, sin = rotary_tables(np.arange(2 * end if start else end), self._d_head, dtype)
        return cos[start:end], sin[start:end]
