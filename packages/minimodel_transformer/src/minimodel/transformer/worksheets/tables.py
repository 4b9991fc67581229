"""An array as rows of text: the same table for Markdown and HTML, wide ones cut in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from .digits import cell, decimals_of

WIDEST = 16
"""Rows or columns that are shown whole: what a page holds of numbers with five digits."""

_FIRST, _LAST = 13, 2  # of a longer one; with the ellipsis between them that is WIDEST again

ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Table:
    """What is written.

    Attributes
    ----------
    columns : tuple of str
        Heads of the columns.
    rows : tuple of (str, tuple of str)
        Head and cells of each row.
    indices : tuple of (int or None)
        Which row of the array each one is; None for the ellipsis.
    hidden_rows, hidden_columns : range
        Of the array, that are not shown; empty where all are.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    indices: tuple[int | None, ...]
    hidden_rows: range
    hidden_columns: range

    @property
    def cut(self) -> bool:
        """Whether the array has rows or columns that are not shown."""
        return bool(self.hidden_rows or self.hidden_columns)


def table_of(
    array: npt.NDArray[Any],
    *,
    row_labels: Sequence[str] | None = None,
    column_labels: Sequence[str] | None = None,
    whole: bool = False,
    decimals: int | None = None,
) -> Table:
    """Return the table of a vector (one row without a head) or a matrix.

    Parameters
    ----------
    array : array, shape (m,) or (m, n)
    row_labels, column_labels : sequence of str, optional
        Indices from 0 by default. Rows with labels of their own are positions, and positions are never cut.
    whole : bool
        Cut nothing.
    decimals : int, optional
        Found from the numbers by default.
    """
    matrix = array if array.ndim == 2 else array[None, :]
    height, width = matrix.shape
    hidden_rows = range(0) if whole or row_labels is not None else _hidden(height)
    hidden_columns = range(0) if whole else _hidden(width)
    rows, columns = _shown(height, hidden_rows), _shown(width, hidden_columns)
    places = decimals_of(array) if decimals is None else decimals

    def row(index: int | None) -> tuple[str, ...]:
        if index is None:
            return (ELLIPSIS,) * len(columns)
        return tuple(ELLIPSIS if j is None else cell(matrix[index, j], places) for j in columns)

    def head(index: int | None, labels: Sequence[str] | None) -> str:
        return ELLIPSIS if index is None else str(index) if labels is None else labels[index]

    vector = array.ndim == 1
    return Table(
        tuple(head(j, column_labels) for j in columns),
        tuple(("" if vector else head(i, row_labels), row(i)) for i in rows),
        tuple(rows),
        hidden_rows,
        hidden_columns,
    )


def _hidden(count: int) -> range:
    """Return which of so many rows or columns are not shown."""
    return range(_FIRST, count - _LAST) if count > WIDEST else range(0)


def _shown(count: int, hidden: range) -> list[int | None]:
    """Return the indices that are shown, with None where some are hidden."""
    return [*range(hidden.start), None, *range(hidden.stop, count)] if hidden else list(range(count))


def position_labels(length: int, tokens: Sequence[str] | None) -> list[str]:
    """Return what stands at the head of each position: its number and, where known, its token made visible."""
    if tokens is None:
        return [str(t) for t in range(length)]
    return [f"{t} {_visible(token)}" for t, token in enumerate(tokens)]


def _visible(token: str) -> str:
    """Return a token with its blanks and control characters as signs that can be seen."""
    signs = {" ": "␣", "\n": "⏎", "\t": "⇥"}
    return "".join(signs.get(c, c if c.isprintable() else f"U+{ord(c):04X}") for c in token) or '""'
