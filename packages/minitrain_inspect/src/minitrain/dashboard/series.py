"""A log read once, from the first row to the last, into series short enough to draw.

`SeriesReader` takes rows: one `Decimator` for the scalars and one for each kind of layer statistic. What it keeps is
bounded by the number of series, never by the number of rows. Bands across layers are taken in each row, before anything
is decimated: a quantile of minima and maxima is not a quantile of the values.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..log import read_log
from .decimate import Decimator, FloatArray, Line

SCALARS = (
    *("train_loss", "val_loss", "ngram_loss", "uniform_loss", "learning_rate", "grad_norm"),
    *("regular_loss", "irregular_loss"),
)
LAYERS = ("activation", "spectral_norm", "dead_fraction", "update_ratio")
BAND = ("min", "p10", "median", "p90", "max")

SCALAR_BUCKETS = 2_000
LAYER_BUCKETS = 200
LAYER_POINTS = 30_000  # of a whole chart: what a browser draws without a pause, and half a megabyte
_FEWEST_BUCKETS = 16
_BAND_POSITIONS = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
_NO_BREAK = np.zeros(len(BAND), dtype=bool)
_TABLE_ROWS = 24


@dataclass(frozen=True, slots=True)
class LayerSeries:
    """One statistic of many layers: a line for each name, in the order of the log, and the band across them."""

    lines: dict[str, Line] = field(default_factory=dict)
    band: dict[str, Line] = field(default_factory=dict)

    @property
    def observed(self) -> dict[str, Line]:
        """The lines that have something to show: a value, or a row that was not finite."""
        return {name: line for name, line in self.lines.items() if line.first or line.not_finite}

    @property
    def unobserved(self) -> tuple[str, ...]:
        """Names that the log lists and that never had a value (`n` is 0 throughout)."""
        return tuple(name for name, line in self.lines.items() if not (line.first or line.not_finite))


@dataclass(frozen=True, slots=True)
class NotFinite:
    """Where a number was first not finite, and what it was ("nan", "inf", "-inf")."""

    step: int
    where: str
    kind: str


@dataclass(frozen=True, slots=True)
class RunSeries:
    """Everything the panels draw.

    `table` holds some two dozen rows spread evenly over the run, the last among them, for readers of numbers;
    `validation_table` the same of the rows with a validation loss. Each row is a step and the scalars logged there.
    """

    rows: int
    first_step: int | None
    last_step: int | None
    tokens: int | None
    elapsed_seconds: float | None
    inspected: bool
    scalars: dict[str, Line]
    layers: dict[str, LayerSeries]
    not_finite: NotFinite | None
    table: list[tuple[int, dict[str, float | None]]]
    validation_table: list[tuple[int, dict[str, float | None]]]

    @property
    def has_verbs(self) -> bool:
        """Whether any row tells verb classes apart."""
        return any(self.scalars[key].first is not None for key in ("regular_loss", "irregular_loss"))


def read_series(path: str | os.PathLike[str]) -> RunSeries:
    """The log at `path`, decimated; a missing log reads as an empty one.

    Raises
    ------
    ValueError
        As `read_log`: an unreadable line before the last, or another schema.
    """
    reader = SeriesReader()
    for row in read_log(path) if os.path.exists(path) else ():
        reader.add(row)
    return reader.series()


class SeriesReader:
    """Rows in, `RunSeries` out, as often as asked.

    Parameters
    ----------
    scalar_buckets, layer_buckets : int, even
        Of each series, at most.
    layer_points : int
        Of all layers of one statistic together, about.
    """

    def __init__(
        self,
        *,
        scalar_buckets: int = SCALAR_BUCKETS,
        layer_buckets: int = LAYER_BUCKETS,
        layer_points: int = LAYER_POINTS,
    ) -> None:
        self.rows = 0
        self._scalars = Decimator(len(SCALARS), scalar_buckets)
        self._layers = {key: _LayerReader(scalar_buckets, layer_buckets, layer_points) for key in LAYERS}
        self._table, self._validation_table = _Sampler(), _Sampler()
        self._not_finite: NotFinite | None = None
        self._first_step: int | None = None
        self._inspected = False
        self._last: Mapping[str, Any] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Take the next row, as `read_log` gives it."""
        step: int = row["step"]
        self.rows += 1
        self._first_step = step if self._first_step is None else self._first_step
        self._last = {key: row.get(key) for key in ("step", "tokens", "elapsed_seconds")}
        flagged: Mapping[str, str] = row.get("non_finite") or {}
        _add_scalars(self._scalars, step, row, flagged)
        values = {key: row.get(key) for key in SCALARS}
        self._table.add(step, values)
        if values["val_loss"] is not None:
            self._validation_table.add(step, values)
        inspection = row.get("inspect")
        if inspection is not None:
            self._inspected = True
            for key, reader in self._layers.items():
                reader.add(step, *_layer_values(key, inspection, flagged))
        if self._not_finite is None and (flagged or _holds_bad(inspection or {})):
            self._not_finite = _first_not_finite(step, inspection or {}, flagged)

    def series(self) -> RunSeries:
        """The rows so far; more may be added afterwards."""
        return RunSeries(
            rows=self.rows,
            first_step=self._first_step,
            last_step=self._last.get("step"),
            tokens=self._last.get("tokens"),
            elapsed_seconds=self._last.get("elapsed_seconds"),
            inspected=self._inspected,
            scalars={key: self._scalars.line(column) for column, key in enumerate(SCALARS)},
            layers={key: reader.series() for key, reader in self._layers.items()},
            not_finite=self._not_finite,
            table=self._table.rows(),
            validation_table=self._validation_table.rows(),
        )


def _add_scalars(decimator: Decimator, step: int, row: Mapping[str, Any], flagged: Mapping[str, str]) -> None:
    values = np.array([row.get(key) for key in SCALARS], dtype=np.float64)  # None becomes NaN
    bad = np.array([key in flagged for key in SCALARS])
    gap = bad.copy()
    regular, irregular = (SCALARS.index(key) for key in ("regular_loss", "irregular_loss"))
    # A class without examples in this row: its line must not run across. With neither class, this is no verb run.
    missing = np.isnan(values[[regular, irregular]])
    if not missing.all():
        gap[[regular, irregular]] |= missing
    decimator.add(step, values, gap=gap, not_finite=bad)


def _layer_values(
    key: str, inspection: Mapping[str, Any], flagged: Mapping[str, str]
) -> tuple[list[str], list[float | None], list[int]]:
    """Names and values of one kind of statistic in one row, and the places of those that held what is not finite."""
    if key == "activation":
        modules: Mapping[str, Mapping[str, Any]] = inspection.get("modules") or {}
        statistics = list(modules.values())
        bad = [place for place, module in enumerate(statistics) if module.get("nan") or module.get("inf")]
        return list(modules), [module.get("mean_abs") for module in statistics], bad
    group: Mapping[str, float | None] = inspection.get(key) or {}
    names = list(group)
    # Most rows have nothing flagged, and then no name need be looked up.
    bad = [place for place, name in enumerate(names) if f"inspect.{key}.{name}" in flagged] if flagged else []
    return names, list(group.values()), bad


def _holds_bad(inspection: Mapping[str, Any]) -> bool:
    """Whether any module or gradient of the row held NaN or infinity."""
    return any(
        statistics.get("nan") or statistics.get("inf")
        for part in ("modules", "gradients")
        for statistics in (inspection.get(part) or {}).values()
    )


class _LayerReader:
    """Feeds one kind of statistic into decimators as names turn up."""

    def __init__(self, band_buckets: int, layer_buckets: int, points: int) -> None:
        self._columns: dict[str, int] = {}
        self._names: list[str] = []  # of the row before: they rarely change
        self._where = np.empty(0, dtype=np.intp)
        self._lines: Decimator | None = None
        self._band = Decimator(len(BAND), band_buckets)
        self._buckets, self._points = layer_buckets, points

    def add(self, step: int, names: list[str], values: list[float | None], bad: list[int]) -> None:
        if names != self._names:
            self._names = names
            for name in names:
                self._columns.setdefault(name, len(self._columns))
            self._where = np.array([self._columns[name] for name in names], dtype=np.intp)
        if not names:
            return
        if self._lines is None:
            share = self._points // (2 * len(names)) // 2 * 2
            self._lines = Decimator(len(names), min(self._buckets, max(_FEWEST_BUCKETS, share)))
        self._lines.widen(len(self._columns))
        row = np.full(len(self._columns), np.nan)
        row[self._where] = np.array(values, dtype=np.float64)  # None becomes NaN
        not_finite = np.zeros(len(self._columns), dtype=bool)
        not_finite[self._where[bad]] = True
        self._lines.add(step, row, gap=not_finite & np.isnan(row), not_finite=not_finite)
        band = _band(row)
        if band is not None:
            self._band.add(step, band, gap=_NO_BREAK, not_finite=_NO_BREAK)

    def series(self) -> LayerSeries:
        if self._lines is None:
            return LayerSeries()
        return LayerSeries(
            {name: self._lines.line(column) for name, column in self._columns.items()},
            {name: self._band.line(column) for column, name in enumerate(BAND)},
        )


def _band(values: FloatArray) -> FloatArray | None:
    """Quantiles of `BAND` over the values that are there, linear between neighbours; None where there is none."""
    ordered = np.sort(values[~np.isnan(values)])
    if not ordered.size:
        return None
    at = _BAND_POSITIONS * (ordered.size - 1)
    below = at.astype(np.intp)
    above = np.minimum(below + 1, ordered.size - 1)
    result: FloatArray = ordered[below] + (ordered[above] - ordered[below]) * (at - below)
    return result


def _first_not_finite(step: int, inspection: Mapping[str, Any], flagged: Mapping[str, str]) -> NotFinite | None:
    """The place in this row to look at first: the innermost module, else a gradient, else what the writer flagged."""
    for part in ("modules", "gradients"):
        group: Mapping[str, Mapping[str, Any]] = inspection.get(part) or {}
        bad = [name for name, stats in group.items() if stats.get("nan") or stats.get("inf")]
        # A module that holds a bad one is bad as well. The root, listed first under its class's name, holds them all.
        inner = [name for name in bad if not any(other.startswith(f"{name}.") for other in bad)]
        if part == "modules" and len(inner) > 1 and inner[0] == next(iter(group)):
            inner = inner[1:]
        if inner:
            return NotFinite(step, inner[0], "nan" if group[inner[0]].get("nan") else "inf")
    for key, kind in flagged.items():
        return NotFinite(step, key.removeprefix("inspect."), kind)
    return None


class _Sampler:
    """About two dozen rows spread evenly over a stream of unknown length, and its last row."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, dict[str, float | None]]] = []
        self._every = 1
        self._count = 0
        self._last: tuple[int, dict[str, float | None]] | None = None

    def add(self, step: int, values: dict[str, float | None]) -> None:
        self._last = (step, values)
        if self._count % self._every == 0:
            if len(self._kept) == _TABLE_ROWS:
                self._kept = self._kept[::2]
                self._every *= 2
            if self._count % self._every == 0:
                self._kept.append(self._last)
        self._count += 1

    def rows(self) -> list[tuple[int, dict[str, float | None]]]:
        if self._last is None or self._kept[-1] == self._last:
            return list(self._kept)
        return [*self._kept, self._last]
