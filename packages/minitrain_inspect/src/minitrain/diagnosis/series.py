"""The course of a number that a log holds row by row, kept short: of one number, or of many that are logged together.

`Series` is one course, `Table` a name to a course each; both promise what `Course` says. A run of thousands of rows has
hundreds of layers, so a `Table` takes a whole row with a few NumPy calls and makes points only when somebody asks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from statistics import median
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

KEPT = 512
"""Points of a course at most, and the last. Even, so that half can be left out."""


class Point(NamedTuple):
    """A value and the optimiser step it belongs to."""

    step: int
    value: float


class Course(ABC):
    """The course of one number: first, last, lowest and highest point exactly, and up to 512 spread evenly.

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

    def tail(self, count: int) -> list[Point]:
        """The last `count` of the points, or all if there are fewer."""
        return self.points[-count:]

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

    __slots__ = ("_every", "_points", "count", "first", "highest", "last", "lowest")

    def __init__(self) -> None:
        self.count: int = 0
        self.first: Point | None = None
        self.last: Point | None = None
        self.lowest: Point | None = None
        self.highest: Point | None = None
        self._points: list[Point] = []
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
                self._every *= 2
            if self.count % self._every == 0:
                self._points.append(point)
        self.count += 1

    @property
    def points(self) -> list[Point]:
        if self.last is None or self._points[-1] == self.last:
            return list(self._points)
        return [*self._points, self.last]


class Table(Mapping[str, Course]):
    """Name to course, of numbers that are logged in the same rows; `add` the rows in order.

    What is kept are rows: a course with gaps has fewer points than 512. Memory: 512 numbers a name and a few more.
    """

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._names: list[str] = []  # of the row before: they rarely change
        self._where = np.empty(0, dtype=np.intp)
        self._rows = 0
        self._every = 1
        self._kept: list[_Row] = []
        self._last_row: _Row | None = None
        self._count = np.empty(0, dtype=np.int64)
        # Value and step, one column a name, of the first, last, lowest and highest.
        self._value = np.empty((4, 0))
        self._step = np.empty((4, 0), dtype=np.int64)

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
        self._count += seen
        self._last_row = _Row(step, row)
        if self._rows % self._every == 0:
            if len(self._kept) == KEPT:
                self._kept = self._kept[::2]
                self._every *= 2
            if self._rows % self._every == 0:
                self._kept.append(self._last_row)
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
    def points(self) -> list[Point]:
        return self.tail(KEPT + 1)

    def tail(self, count: int) -> list[Point]:
        last = self.last
        if last is None:
            return []
        found = [last]
        for row in reversed(self._table.kept()):
            if len(found) == count:
                break
            value = row.at(self._column)
            if row.step < last.step and not math.isnan(value):
                found.append(Point(row.step, value))
        return found[::-1]
