"""Rotary position embedding: the cosines and sines by which attention turns its queries and keys.

The turning itself happens inside the core's fused attention; here are the angles. Position m turns the pair
(x_i, x_{i + K/2}) by m · 10000^(−2i/K), i = 0 … K/2 − 1, so that the product of a query at m and a key at n depends on
m − n alone. Nothing is learned, so nothing here limits the length of a sequence.

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

    def tables(self, length: int, dtype: npt.DTypeLike) -> Tables:
        """Return cosines and sines of positions 0 … `length` − 1, each (length, K/2); not to be written into."""
        cos, sin = self._tables
        if len(cos) < length or cos.dtype != dtype:
            self._tables = cos, sin = rotary_tables(np.arange(length), self._d_head, dtype)
        return cos[:length], sin[:length]
