"""What a diagnosis knows of a run: the rows of its log, taken in one by one and summed up in bounded memory.

`Record` keeps the courses of all numbers of a run (`series.py`). Rules read a `Record` and nothing else; the
configuration of the run never comes here.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from .series import Series, Table

_WINDOW, _SHORT_WINDOW = 5, 3
"""Rows of the smoothed series: two bad ones in a row, or one, do not show."""

_SCALARS = (
    *("train_loss", "val_loss", "ngram_loss", "uniform_loss"),
    *("learning_rate", "grad_norm", "grad_norm_max", "future_leak"),
)


class NonFinite(NamedTuple):
    """The first row with a number that was not finite."""

    step: int
    where: str
    nan: int
    inf: int


class Record:
    """The rows of one log so far; `add` them in order.

    Attributes
    ----------
    rows : int
        Rows taken in.
    steps : int
        Optimiser step of the last row.
    scalars : dict
        Key of the log to Series; values that were null are left out.
    update_ratio, dead_fraction, gradient : Table
        Name of a matrix, activation module, gradient to the course of its |Δw| / |w|, its fraction of dead units, its
        L2 norm.
    typical_update, largest_update : Series
        Median and maximum of the update ratios over the matrices of a row. The median leaves out those that did not
        move at all, frozen or unused, unless none did.
    typical_norm : Series
        Median of the spectral norms over the inner matrices of a row that measured them: all but the first and the
        last, which are the embedding and the head where a model has them.
    smooth_loss, smooth_update : Series
        Median of the last five `train_loss` and `typical_update`, from the fifth on.
    sustained_update : Series
        Median of the last three `typical_update`, from the third on: a peak that lasts, which five would wash out.
    gradient_jump : Series
        `grad_norm_max` of a row over the median `grad_norm` of the five rows around it: of a gradient that grows or
        shrinks with the loss it is near 1, of one that jumps and comes back it is not.
    loss_rise : Series
        `train_loss` above its lowest before, 0 where it is a new lowest.
    non_finite : NonFinite or None
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self.rows = 0
        self.steps = 0
        self.scalars: dict[str, Series] = {key: Series() for key in _SCALARS}
        self.update_ratio = Table()
        self.dead_fraction = Table()
        self.gradient = Table()
        self.typical_update = Series()
        self.largest_update = Series()
        self.typical_norm = Series()
        self.smooth_loss = Series()
        self.smooth_update = Series()
        self.sustained_update = Series()
        self.gradient_jump = Series()
        self.loss_rise = Series()
        self._gradients: deque[tuple[int, float, float]] = deque(maxlen=_WINDOW)
        self._losses: deque[float] = deque(maxlen=_WINDOW)
        self._updates: deque[float] = deque(maxlen=_WINDOW)
        self._last_updates: deque[float] = deque(maxlen=_SHORT_WINDOW)
        self.non_finite: NonFinite | None = None
        for row in rows:
            self.add(row)

    def add(self, row: Mapping[str, Any]) -> None:
        """Take in one row, as the log has it or as the loop hands it over."""
        step = int(row["step"])
        self.rows += 1
        self.steps = step
        if self.non_finite is None:
            self.non_finite = _non_finite(row)
        for key, series in self.scalars.items():
            _put(series, step, row.get(key))
        self._add_jump(step, row.get("grad_norm"), row.get("grad_norm_max"))
        if _finite(row.get("train_loss")):
            _smooth(self.smooth_loss, self._losses, step, float(row["train_loss"]))
            lowest = self.scalars["train_loss"].lowest
            if lowest is not None:
                _put(self.loss_rise, step, row["train_loss"] - lowest.value)
        inspect: Mapping[str, Any] = row.get("inspect") or {}
        ratios = _finite_values(inspect.get("update_ratio") or {})
        norms = _finite_values(dict(list((inspect.get("spectral_norm") or {}).items())[1:-1]))
        if norms:
            _put(self.typical_norm, step, _median(norms))
        if ratios:
            typical = _median([ratio for ratio in ratios if ratio > 0.0] or [0.0])
            self.typical_update.add(step, typical)
            _smooth(self.smooth_update, self._updates, step, typical)
            _smooth(self.sustained_update, self._last_updates, step, typical)
            self.largest_update.add(step, max(ratios))
        self.update_ratio.add(step, inspect.get("update_ratio") or {})
        self.dead_fraction.add(step, inspect.get("dead_fraction") or {})
        gradients: Mapping[str, Mapping[str, Any]] = inspect.get("gradients") or {}
        self.gradient.add(step, {name: statistics.get("l2") for name, statistics in gradients.items()})

    def _add_jump(self, step: int, norm: float | None, largest: float | None) -> None:
        """Take in a row's gradient norms; the row that is judged is the middle one of five."""
        if norm is None or largest is None or not (math.isfinite(norm) and math.isfinite(largest)):
            return
        self._gradients.append((step, float(norm), float(largest)))
        usual = median(norm for _, norm, _ in self._gradients)
        if len(self._gradients) == _WINDOW and usual > 0.0:
            middle, _, greatest = self._gradients[_WINDOW // 2]
            _put(self.gradient_jump, middle, greatest / usual)

    def first(self, key: str) -> float | None:
        """First value of a scalar series; None if it has none."""
        point = self.scalars[key].first
        return None if point is None else point.value

    def last(self, key: str) -> float | None:
        """Last value of a scalar series; None if it has none."""
        point = self.scalars[key].last
        return None if point is None else point.value


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _finite_values(group: Mapping[str, float | None]) -> list[float]:
    values = np.array(list(group.values()), dtype=np.float64)  # None becomes NaN
    finite: list[float] = values[np.isfinite(values)].tolist()
    return finite


def _median(values: Sequence[float]) -> float:
    """Median, of an even number the mean of the middle two: of halves, since their sum may be more than floats hold."""
    ordered = sorted(values)
    return 0.5 * ordered[(len(ordered) - 1) // 2] + 0.5 * ordered[len(ordered) // 2]


def _put(series: Series, step: int, value: float | None) -> None:
    if value is not None and math.isfinite(value):
        series.add(step, float(value))


def _smooth(series: Series, window: deque[float], step: int, value: float) -> None:
    window.append(value)
    if len(window) == window.maxlen:
        series.add(step, median(window))


def _non_finite(row: Mapping[str, Any]) -> NonFinite | None:
    """Where a row was not finite, with what the Inspector counted; None if all of it was."""
    flagged = dict(row.get("non_finite") or {})
    # A row on its way to the log still holds the numbers themselves.
    flagged |= {key: "" for key in _SCALARS if isinstance(row.get(key), float) and not math.isfinite(row[key])}
    inspect: Mapping[str, Any] = row.get("inspect") or {}
    groups = [inspect.get(part) or {} for part in ("modules", "gradients")]
    bad = [(name, each) for group in groups for name, each in group.items() if each.get("nan") or each.get("inf")]
    place = row.get("non_finite_place")
    if not (flagged or bad or place):
        return None
    where = place or (bad[0][0] if bad else next(iter(flagged)))
    counted: Mapping[str, Any] = next((each for name, each in bad if name == where), {})
    return NonFinite(int(row["step"]), where, int(counted.get("nan") or 0), int(counted.get("inf") or 0))
