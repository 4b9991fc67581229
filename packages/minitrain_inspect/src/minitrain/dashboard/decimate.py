"""Long series kept short: the minimum and the maximum of each bucket of rows, as the rows come.

All series that are logged together are columns of one `Decimator`, so that a row costs a few NumPy calls however many
layers there are. A bucket that NaN never enters keeps its low and its high point, so a spike of one row survives; steps
at which a line must break or be marked are kept beside them. Nothing here knows what the numbers mean.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_NO_STEP = -1
_BLOCK = 64  # rows looked at together, once buckets are that wide


@dataclass(slots=True)
class _Buckets:
    """Buckets by columns, any leading shape; NaN and -1 where a bucket saw nothing of the kind."""

    low: FloatArray
    low_step: IntArray
    high: FloatArray
    high_step: IntArray
    gap_step: IntArray  # first row at which the line breaks
    mark_step: IntArray  # first row that was not finite

    def merged(self, later: Self) -> "_Buckets":
        lower = (later.low < self.low) | np.isnan(self.low)
        higher = (later.high > self.high) | np.isnan(self.high)
        return _Buckets(
            np.where(lower, later.low, self.low),
            np.where(lower, later.low_step, self.low_step),
            np.where(higher, later.high, self.high),
            np.where(higher, later.high_step, self.high_step),
            np.where(self.gap_step >= 0, self.gap_step, later.gap_step),
            np.where(self.mark_step >= 0, self.mark_step, later.mark_step),
        )

    def at(self, index: int | slice | tuple[slice, int]) -> "_Buckets":
        return _Buckets(*(getattr(self, name)[index] for name in self.__slots__))

    def put(self, index: int | slice, other: "_Buckets") -> None:
        for name in self.__slots__:
            getattr(self, name)[index] = getattr(other, name)

    def followed_by(self, other: Self) -> "_Buckets":
        """Buckets of one column, and one more."""
        return _Buckets(*(np.append(getattr(self, name), getattr(other, name)) for name in self.__slots__))

    def widened(self, extra: int) -> "_Buckets":
        """With `extra` columns more that saw nothing."""
        pad = ((0, 0), (0, extra))
        return _Buckets(
            *(
                np.pad(old, pad, constant_values=np.nan if old.dtype == np.float64 else _NO_STEP)
                for old in (getattr(self, name) for name in self.__slots__)
            )
        )


def _empty(shape: tuple[int, ...]) -> _Buckets:
    def nan() -> FloatArray:
        return np.full(shape, np.nan)

    def none() -> IntArray:
        return np.full(shape, _NO_STEP, dtype=np.int64)

    return _Buckets(nan(), none(), nan(), none(), none(), none())


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a series and the step at which it was logged."""

    step: int
    value: float


@dataclass(frozen=True, slots=True)
class Line:
    """What is left of one series.

    `steps` and `values` are what is drawn, in order of steps; a value of None breaks the line. `marks` are the steps
    that were not finite, each with a height to draw it at: the value logged there, else the last one before, else None.
    `gaps` and `not_finite` count rows exactly, also where the buckets hold only the first of several.
    """

    steps: list[int] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    marks: list[tuple[int, float | None]] = field(default_factory=list)
    first: Point | None = None
    last: Point | None = None
    low: Point | None = None
    high: Point | None = None
    gaps: int = 0
    not_finite: int = 0


class Decimator:
    """Keeps at most `buckets` buckets of each of its columns.

    While the rows fit, a bucket is a row and nothing is lost. When they no longer fit, neighbours merge and every
    bucket spans twice the rows. Rows of one bucket are looked at together: a row of a long log costs little more
    than being put aside. Memory: 48 bytes times `buckets` times columns, and 64 rows.

    Parameters
    ----------
    columns : int
        Series fed together.
    buckets : int, at least 2 and even
        Buckets kept; a series has at most twice as many points, and its first and last.
    """

    def __init__(self, columns: int, buckets: int) -> None:
        if buckets < 2 or buckets % 2:
            raise ValueError(
                f"Decimator: `buckets` is even and at least 2; got {buckets}. Use {max(2, buckets // 2 * 2)}."
            )
        self.columns = columns
        self._buckets = _empty((buckets, columns))
        self._used = 0
        self._width = 1  # rows a bucket spans
        self._pending = _empty((columns,))
        self._pending_rows = 0
        self._block: list[tuple[int, FloatArray, BoolArray, BoolArray]] = []  # rows that came after those
        self._first = np.full(columns, np.nan)
        self._first_step = np.full(columns, _NO_STEP, dtype=np.int64)
        self._last = np.full(columns, np.nan)
        self._last_step = np.full(columns, _NO_STEP, dtype=np.int64)
        self._gaps = np.zeros(columns, dtype=np.int64)
        self._marks = np.zeros(columns, dtype=np.int64)

    def widen(self, columns: int) -> None:
        """Add columns until there are `columns`; what the new ones missed counts as not measured."""
        extra = columns - self.columns
        if extra <= 0:
            return
        self._take_block()
        self._buckets = self._buckets.widened(extra)
        pending = _empty((columns,))
        pending.put(slice(0, self.columns), self._pending)
        self._pending = pending
        self._first, self._last = (np.append(old, np.full(extra, np.nan)) for old in (self._first, self._last))
        self._first_step, self._last_step = (
            np.append(old, np.full(extra, _NO_STEP)) for old in (self._first_step, self._last_step)
        )
        self._gaps, self._marks = (np.append(old, np.zeros(extra, np.int64)) for old in (self._gaps, self._marks))
        self.columns = columns

    def add(self, step: int, values: FloatArray, *, gap: BoolArray, not_finite: BoolArray) -> None:
        """Take one row; its arrays are kept for a while, and must not be written into.

        Parameters
        ----------
        step : int
            Above every step before it.
        values : float64 array, shape (columns,)
            NaN where there is no value.
        gap : bool array, shape (columns,)
            True where the line must break: a value was due and there is none.
        not_finite : bool array, shape (columns,)
            True where something was not finite, whether or not a value is left.
        """
        self._block.append((step, values, gap, not_finite))
        if len(self._block) == min(_BLOCK, self._width - self._pending_rows):
            self._take_block()

    def _take_block(self) -> None:
        """Take the rows that were put aside into the pending bucket, of which they are a part or the rest."""
        if not self._block:
            return
        steps = np.array([step for step, *_ in self._block])  # (rows,)
        values, gap, not_finite = (np.array([row[place] for row in self._block]) for place in (1, 2, 3))
        self._block.clear()
        columns, seen = np.arange(self.columns), ~np.isnan(values)
        seen_steps = np.where(seen, steps[:, None], _NO_STEP)
        # Where nothing was seen both find the first row: NaN, and no step.
        low = np.where(seen, values, np.inf).argmin(axis=0)
        high = np.where(seen, values, -np.inf).argmax(axis=0)
        block = _Buckets(
            values[low, columns],
            seen_steps[low, columns],
            values[high, columns],
            seen_steps[high, columns],
            _first_step(gap, steps),
            _first_step(not_finite, steps),
        )
        self._pending = block if self._pending_rows == 0 else self._pending.merged(block)
        self._pending_rows += len(steps)
        self._gaps += gap.sum(axis=0)
        self._marks += not_finite.sum(axis=0)
        ever = seen.any(axis=0)
        first, last = seen.argmax(axis=0), len(steps) - 1 - seen[::-1].argmax(axis=0)
        self._last = np.where(ever, values[last, columns], self._last)
        self._last_step = np.where(ever, steps[last], self._last_step)
        new = ever & (self._first_step < 0)
        self._first = np.where(new, values[first, columns], self._first)
        self._first_step = np.where(new, steps[first], self._first_step)
        if self._pending_rows == self._width:
            self._close_bucket()

    def _close_bucket(self) -> None:
        if self._used == len(self._buckets.low):
            halves = self._buckets.at(slice(0, None, 2)).merged(self._buckets.at(slice(1, None, 2)))
            self._used //= 2
            self._buckets.put(slice(0, self._used), halves)
            self._width *= 2
            return  # the pending bucket is now half of one: it goes on growing
        self._buckets.put(self._used, self._pending)
        self._used += 1
        self._pending_rows = 0

    def line(self, column: int) -> Line:
        """What is left of one column; more rows may be added afterwards."""
        self._take_block()
        kept = self._buckets.at((slice(0, self._used), column))
        if self._pending_rows:
            kept = kept.followed_by(self._pending.at(column))
        points: dict[int, float | None] = dict.fromkeys(_steps(kept.gap_step))
        for steps, values in ((kept.low_step, kept.low), (kept.high_step, kept.high)):
            seen = steps >= 0
            points.update(zip(steps[seen].tolist(), values[seen].tolist(), strict=True))
        first = _point(self._first_step[column], self._first[column])
        last = _point(self._last_step[column], self._last[column])
        for end in (first, last):
            if end is not None:
                points[end.step] = end.value
        drawn = sorted(points)
        mark_steps = _steps(kept.mark_step)
        low = high = None
        if first is not None:
            lowest, highest = int(np.nanargmin(kept.low)), int(np.nanargmax(kept.high))
            low = _point(kept.low_step[lowest], kept.low[lowest])
            high = _point(kept.high_step[highest], kept.high[highest])
        return Line(
            steps=drawn,
            values=[points[step] for step in drawn],
            marks=[(step, _height(points, drawn, step)) for step in mark_steps],
            first=first,
            last=last,
            low=low,
            high=high,
            gaps=int(self._gaps[column]),
            not_finite=int(self._marks[column]),
        )


def _first_step(flags: BoolArray, steps: IntArray) -> IntArray:
    """By column, the first of the steps whose row is flagged."""
    return np.where(flags.any(axis=0), steps[flags.argmax(axis=0)], _NO_STEP)


def _steps(steps: IntArray) -> list[int]:
    kept: list[int] = steps[steps >= 0].tolist()
    return kept


def _point(step: np.int64, value: np.float64) -> Point | None:
    return Point(int(step), float(value)) if step >= 0 else None


def _height(points: dict[int, float | None], drawn: list[int], step: int) -> float | None:
    """The last value at or before `step`, so that the cross stands where the line ends."""
    for earlier in reversed(drawn[: bisect_right(drawn, step)]):
        value = points[earlier]
        if value is not None:
            return value
    return None
