"""The course of a number that a log holds row by row, kept short: of one number, or of many that are logged together.

`Series` is one course, `Table` a name to a course each; both promise what `Course` says. A run of thousands of rows has
hundreds of layers, so a `Table` takes a whole row with a few NumPy calls and makes points only when somebody asks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

KEPT = 512
"""Points of a course at most, and the last. Even, so that half can be left out."""

TAIL = 8
"""The last values of a course are all kept, so many of them: what `tail` gives is never thinned up to here."""


class Point(NamedTuple):
    """A value and the optimiser step it belongs to."""

    step: int
    value: float


class Span(NamedTuple):
    """Values from one kept point up to the next: step of the first, and the lowest and the highest of them."""

    step: int
    low: float
    high: float


class Course(ABC):
    """The course of one number: first, last, lowest and highest point exactly, and up to 512 spread evenly.

    The last eight are exact too, and of what lies between kept points the extremes are known: a condition that one row
    in four fulfils is not taken for one that lasts.

    Attributes
    ----------
    count : int
        Values added.
    first, last, lowest, highest : Point or None
        None before the first value. Of equal extremes the first.
    points : list of Point
        What is kept, in order, the last point included.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def count(self) -> int: ...

    @property
    @abstractmethod
    def first(self) -> Point | None: ...

    @property
    @abstractmethod
    def last(self) -> Point | None: ...

    @property
    @abstractmethod
    def lowest(self) -> Point | None: ...

    @property
    @abstractmethod
    def highest(self) -> Point | None: ...

    @property
    @abstractmethod
    def points(self) -> list[Point]: ...

    @property
    @abstractmethod
    def spans(self) -> list[Span]:
        """All values, in order, as spans that each begin at a kept point."""

    @property
    @abstractmethod
    def newest(self) -> list[Point]:
        """The last eight points, or all if there are fewer."""

    def tail(self, count: int) -> list[Point]:
        """The last `count` points, or all if there are fewer; those before the last eight are kept ones."""
        newest = self.newest
        if count <= len(newest):
            return newest[-count:]
        older = [point for point in self.points if not newest or point.step < newest[0].step]
        return [*older, *newest][-count:]

    def since_above(self, limit: float) -> int:
        """Step from which on every value is above `limit`, as the last one is.

        Exact for 512 values and among the last eight; else up to a 256th of the course late, and never early.
        """
        return self._since(lambda low, high: low > limit)

    def since_below(self, limit: float) -> int:
        """Step from which on every value is below `limit`, as the last one is; as exact as `since_above`."""
        return self._since(lambda low, high: high < limit)

    def _since(self, shows: Callable[[float, float], bool]) -> int:
        newest = [Span(step, value, value) for step, value in self.newest]
        since = newest[-1].step
        for span in (*reversed(newest), *reversed(self.spans)):
            if not shows(span.low, span.high):
                break
            since = min(since, span.step)
        return since

    def recent(self, share: float = 0.1, least: int = 3) -> float | None:
        """Median of the last `share` of the kept points, of `least` at least; None if there are fewer."""
        points = self.points
        taken = max(least, math.ceil(share * len(points)))
        return median(point.value for point in points[-taken:]) if len(points) >= taken else None

    def at(self, step: int) -> float | None:
        """Value of the last kept point up to `step`; None before the first."""
        value = None
        for point in self.points:
            if point.step > step:
                break
            value = point.value
        return value


class Series(Course):
    """One course; `add` its values in order."""

    __slots__ = ("_every", "_newest", "_points", "_spans", "count", "first", "highest", "last", "lowest")

    def __init__(self) -> None:
        self.count: int = 0
        self.first: Point | None = None
        self.last: Point | None = None
        self.lowest: Point | None = None
        self.highest: Point | None = None
        self._points: list[Point] = []
        self._spans: list[Span] = []
        self._newest: deque[Point] = deque(maxlen=TAIL)
        self._every = 1

    def add(self, step: int, value: float) -> None:
        """Take in the next value; it must be finite."""
        point = Point(step, value)
        self.first = self.first or point
        self.last = point
        if self.lowest is None or value < self.lowest.value:
            self.lowest = point
        if self.highest is None or value > self.highest.value:
            self.highest = point
        if self.count % self._every == 0:
            if len(self._points) == KEPT:
                self._points = self._points[::2]
                self._spans = [
                    Span(one.step, min(one.low, two.low), max(one.high, two.high))
                    for one, two in zip(self._spans[::2], self._spans[1::2], strict=True)
                ]
                self._every *= 2
            self._points.append(point)
            self._spans.append(Span(step, value, value))
        else:
            begun, low, high = self._spans[-1]
            self._spans[-1] = Span(begun, min(low, value), max(high, value))
        self._newest.append(point)
        self.count += 1

    @property
    def spans(self) -> list[Span]:
        return list(self._spans)

    @property
    def newest(self) -> list[Point]:
        return list(self._newest)

    @property
    def points(self) -> list[Point]:
        if self.last is None or self._points[-1] == self.last:
            return list(self._points)
        return [*self._points, self.last]


class Table(Mapping[str, Course]):
    """Name to course, of numbers that are logged in the same rows; `add` the rows in order.

    What is kept are rows: a course with gaps has fewer points than 512. Memory: three times 512 numbers a name and a
    few more.
    """

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._names: list[str] = []  # of the row before: they rarely change
        self._where = np.empty(0, dtype=np.intp)
        self._rows = 0
        self._every = 1
        self._kept: list[_Row] = []
        # Lowest and highest of the rows from each kept one up to the next, NaN where there was no value.
        self._extremes: list[tuple[_Row, _Row]] = []
        self._last_row: _Row | None = None
        self._count = np.empty(0, dtype=np.int64)
        # Value and step, one column a name, of the first, last, lowest and highest.
        self._value = np.empty((4, 0))
        self._step = np.empty((4, 0), dtype=np.int64)
        # The last eight of each column, in a ring: the next one goes to its count modulo eight.
        self._newest_value = np.empty((TAIL, 0))
        self._newest_step = np.empty((TAIL, 0), dtype=np.int64)

    def add(self, step: int, values: Mapping[str, float | None]) -> None:
        """Take in a row; what is None or not finite was not measured."""
        names = list(values)
        if names != self._names:
            self._learn(names)
        row = np.full(len(self._columns), np.nan)
        row[self._where] = np.array(list(values.values()), dtype=np.float64)  # None becomes NaN
        seen = np.isfinite(row)
        row[~seen] = np.nan
        _, _, lowest, highest = self._value
        # Comparing with NaN, which stands where nothing was seen before, is False: the first value is both.
        places = np.array([self._count == 0, seen, ~(row >= lowest), ~(row <= highest)]) & seen
        np.copyto(self._value, row, where=places)
        np.copyto(self._step, step, where=places)
        columns = np.flatnonzero(seen)
        ring = self._count[columns] % TAIL
        self._newest_value[ring, columns] = row[columns]
        self._newest_step[ring, columns] = step
        self._count += seen
        self._last_row = new = _Row(step, row)
        if self._rows % self._every == 0:
            if len(self._kept) == KEPT:
                self._kept = self._kept[::2]
                pairs = zip(self._extremes[::2], self._extremes[1::2], strict=True)
                self._extremes = [(one.merged(two, np.fmin), o.merged(t, np.fmax)) for (one, o), (two, t) in pairs]
                self._every *= 2
            self._kept.append(new)
            self._extremes.append((new, new))
        else:
            low, high = self._extremes[-1]
            self._extremes[-1] = (low.merged(new, np.fmin), high.merged(new, np.fmax))
        self._rows += 1

    def _learn(self, names: list[str]) -> None:
        for name in names:
            self._columns.setdefault(name, len(self._columns))
        self._names = names
        self._where = np.array([self._columns[name] for name in names], dtype=np.intp)
        new = len(self._columns) - len(self._count)
        self._count = np.append(self._count, np.zeros(new, np.int64))
        self._value = np.append(self._value, np.full((4, new), np.nan), axis=1)
        self._step = np.append(self._step, np.zeros((4, new), np.int64), axis=1)
        self._newest_value = np.append(self._newest_value, np.full((TAIL, new), np.nan), axis=1)
        self._newest_step = np.append(self._newest_step, np.zeros((TAIL, new), np.int64), axis=1)

    def __getitem__(self, name: str) -> Course:
        return _Column(self, self._columns[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def counted(self, column: int) -> int:
        """Values that a column has had."""
        return int(self._count[column])

    def end(self, which: int, column: int) -> Point | None:
        """First, last, lowest or highest point of a column, counted from 0; None before its first value."""
        return Point(int(self._step[which, column]), float(self._value[which, column])) if self._count[column] else None

    def newest(self, column: int) -> list[Point]:
        """The last eight points of a column, in order."""
        count = self.counted(column)
        ring = [place % TAIL for place in range(max(0, count - TAIL), count)]
        steps, values = self._newest_step[ring, column].tolist(), self._newest_value[ring, column].tolist()
        return [Point(step, value) for step, value in zip(steps, values, strict=True)]

    def spans(self, column: int) -> list[Span]:
        """The spans of a column that has values there."""
        spans = (Span(low.step, low.at(column), high.at(column)) for low, high in self._extremes)
        return [span for span in spans if not math.isnan(span.low)]

    def kept(self) -> list[_Row]:
        """The rows that are kept, in order, the last one included."""
        last = self._last_row
        return self._kept if last is None or self._kept[-1] is last else [*self._kept, last]


class _Row(NamedTuple):
    """Values by column, NaN where there was none; columns that turned up later are missing."""

    step: int
    values: npt.NDArray[np.float64]

    def at(self, column: int) -> float:
        return float(self.values[column]) if column < len(self.values) else math.nan

    def merged(self, later: _Row, which: np.ufunc) -> _Row:
        """Return the row with `which`, np.fmin or np.fmax, of both: a later row has as many columns or more."""
        values = later.values.copy()
        here = values[: len(self.values)]
        which(here, self.values, out=here)
        return _Row(self.step, values)


class _Column(Course):
    """One name of a `Table`."""

    __slots__ = ("_column", "_table")

    def __init__(self, table: Table, column: int) -> None:
        self._table = table
        self._column = column

    @property
    def count(self) -> int:
        return self._table.counted(self._column)

    @property
    def first(self) -> Point | None:
        return self._table.end(0, self._column)

    @property
    def last(self) -> Point | None:
        return self._table.end(1, self._column)

    @property
    def lowest(self) -> Point | None:
        return self._table.end(2, self._column)

    @property
    def highest(self) -> Point | None:
        return self._table.end(3, self._column)

    @property
    def spans(self) -> list[Span]:
        return self._table.spans(self._column)

    @property
    def newest(self) -> list[Point]:
        return self._table.newest(self._column)

    @property
    def points(self) -> list[Point]:
        last = self.last
        if last is None:
            return []
        rows = ((row.step, row.at(self._column)) for row in self._table.kept() if row.step < last.step)
        return [*(Point(step, value) for step, value in rows if not math.isnan(value)), last]
