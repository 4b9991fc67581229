"""The panels of several runs laid over each other: colour is the run, dash the series.

Charts of layers draw the median of each run; every layer of every run is in the figure, hidden, to be picked from the
list. What cannot be told of several runs at once (bands across layers, findings) is left to their own pages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .chart import NOTHING, Beside, Chart, Entry, Named
from .charts import figure_of, fit_axis, line_chart, table_of_lines
from .decimate import Line
from .panels import BASELINE, IRREGULAR, REGULAR, TRAIN, VALIDATION, Panel, Part
from .questions import DEAD_UNITS, PANELS, UNITS, UPDATE_RATIO
from .series import RunSeries
from .style import DASHES, LIGHT_LINES
from .text import (
    INSPECTION_OFF_EVERYWHERE,
    LAST_VALUES,
    LAST_VALUES_OF,
    LAYERS,
    MATRICES,
    MEDIAN_OF,
    MEDIANS,
    MODULES,
    NATS,
    NO_VALUES,
    NOT_FINITE,
    NOT_VERBS,
    ON_FLOOR,
    ROWS_BAD,
    Text,
    joined,
    number,
    plain,
)
from .traces import cross_trace, is_floored, line_trace, log_floor

MOST_RUNS = len(LIGHT_LINES) * len(DASHES)
"""Beyond that two runs would look the same."""

_TRAINING_SHOWN = 4
"""Runs up to which the training losses are drawn at first, beside those of validation."""


@dataclass(frozen=True, slots=True)
class Overlaid:
    """A run of the comparison: what it is called there, and its series."""

    name: str
    series: RunSeries


def run_look(place: int) -> tuple[int, str]:
    """Colour and dash of a run, by its place in the comparison."""
    return place % len(LIGHT_LINES), DASHES[place // len(LIGHT_LINES)]


def overlay_panels(runs: Sequence[Overlaid], beside: Mapping[str, Beside]) -> tuple[Panel, ...]:
    """The seven panels, in order."""
    few = len(runs) <= _TRAINING_SHOWN
    loss = [
        *_of_each(runs, "val_loss", VALIDATION),
        *_of_each(runs, "train_loss", TRAIN, dash="dot", shown=few),
        *_baselines(runs),
    ]
    verbs = [*_of_each(runs, "regular_loss", REGULAR), *_of_each(runs, "irregular_loss", IRREGULAR, dash="dash")]
    rate, norm = (_of_each(runs, key, None) for key in ("learning_rate", "grad_norm"))
    return (
        _scalar_panel(runs, "loss", loss, NATS, beside, kinds=(VALIDATION,)),
        _scalar_panel(runs, "learning_rate", rate, UNITS["learning_rate"], beside),
        _scalar_panel(runs, "grad_norm", norm, UNITS["grad_norm"], beside, log=True),
        _panel("activation", _layer_part(runs, "activation", MODULES, beside, log=True)),
        _panel("spectral_norm", _layer_part(runs, "spectral_norm", MATRICES, beside)),
        _panel(
            "health",
            _layer_part(runs, "dead_fraction", LAYERS, beside, DEAD_UNITS, fraction=True),
            _layer_part(runs, "update_ratio", MATRICES, beside, UPDATE_RATIO, log=True),
        ),
        _scalar_panel(
            runs, "verbs", verbs, UNITS["verbs"], beside, log=True, absent=NOT_VERBS, kinds=(REGULAR, IRREGULAR)
        ),
    )


def _until(runs: Iterable[Overlaid]) -> int:
    return max((run.series.last_step or 1 for run in runs), default=1)


def _panel(key: str, *parts: Part) -> Panel:
    order, title, question = PANELS[key]
    return Panel(key, order, title, question, parts)


def _of_each(
    runs: Sequence[Overlaid], key: str, what: Text | None, *, dash: str = "", shown: bool = True
) -> list[Named]:
    """One scalar series of every run; `what` says which where a chart has several."""
    series = []
    for place, run in enumerate(runs):
        colour, dash_of_run = run_look(place)
        name = plain(run.name) if what is None else joined((plain(run.name), what), " · ")
        series.append(Named(name, run.series.scalars[key], dash or dash_of_run, colour, shown))
    return series


def _baselines(runs: Sequence[Overlaid]) -> list[Named]:
    """The n-gram baseline of each run, once where all have the same."""
    named = [each for each in _of_each(runs, "ngram_loss", BASELINE, dash="dash") if each.line.last is not None]
    if len(named) > 1 and len({each.line.last.value for each in named if each.line.last}) == 1:
        longest = max(named, key=lambda each: each.line.last.step if each.line.last else 0)
        return [Named(BASELINE, longest.line, "dash", neutral=True)]
    return named


def _last_values(lines: Mapping[str, Line], what: Text | None = None) -> Text:
    """The last value of each line, in the order given; `what` says which series where a chart has several."""
    values = "; ".join(f"{name}: {number(line.last.value)}" for name, line in lines.items() if line.last)
    return LAST_VALUES.fill(values=values) if what is None else LAST_VALUES_OF.fill(what=what, values=values)


def _scalar_panel(
    runs: Sequence[Overlaid],
    key: str,
    series: Sequence[Named],
    unit: Text,
    besides: Mapping[str, Beside],
    *,
    log: bool = False,
    absent: Text = NO_VALUES,
    kinds: Sequence[Text | None] = (None,),
) -> Panel:
    """Chart and last values; `series` begins with those of each run, in the order of the `kinds` that are told."""
    lines = {each.name.en: each.line for each in series if each.line.first or each.line.not_finite}
    if not lines:
        return _panel(key, Part((absent,), None))
    beside, table = besides.get(key, NOTHING), table_of_lines(lines)
    chart = line_chart(key, PANELS[key][1], series, unit, table, until=_until(runs), log=log, beside=beside)
    told = [
        _last_values({run.name: each.line for run, each in zip(runs, series[at * len(runs) :], strict=False)}, kind)
        for at, kind in enumerate(kinds)
    ]
    floor = [ON_FLOOR] if chart.floored else []
    return _panel(key, Part((*told, *floor), chart, None, beside.band))


def _layer_part(
    runs: Sequence[Overlaid],
    key: str,
    what: Text,
    besides: Mapping[str, Beside],
    heading: Text | None = None,
    *,
    log: bool = False,
    fraction: bool = False,
) -> Part:
    """Medians over the layers of each run, and all layers to pick from; `what` is what they are called here."""
    layers = [run.series.layers[key].observed for run in runs]
    bands = [run.series.layers[key].band for run in runs]
    medians = [band["median"] if band and band["median"].first else None for band in bands]
    drawn = [line for line in medians if line is not None]
    if not any(layers):
        return Part((INSPECTION_OFF_EVERYWHERE,), None, heading)
    beside = besides.get(key, NOTHING)
    lines = [*drawn, *(line for observed in layers for line in observed.values())]
    floor = log_floor(lines) if log else None
    traces: list[dict[str, Any]] = []
    names: list[Text] = []
    entries: list[Entry] = []
    crosses: list[tuple[int, float | None, str]] = []

    def put(name: Text, line: Line, kind: str, colour: int, dash: str) -> None:
        note = ROWS_BAD.fill(rows=line.not_finite) if line.not_finite else None
        trace = line_trace(name.en, line, colour, floor, digits=7)
        trace["meta"] = {"kind": kind, "colour": colour, "dash": dash}
        trace["line"] |= {"dash": dash} | ({"width": 2.5} if kind == "fixed" else {})
        if kind == "line":
            trace["visible"] = False
        entries.append(Entry(name, (len(traces),), kind, colour, kind == "fixed", note, dash=dash))
        traces.append(trace)
        names.append(name)

    for place, (run, median) in enumerate(zip(runs, medians, strict=True)):
        if median is not None:
            put(MEDIAN_OF.fill(run=run.name), median, "fixed", *run_look(place))
    # A layer has the same dash in every run.
    known = dict.fromkeys(layer for observed in layers for layer in observed)
    dash_of = {layer: DASHES[1 + at % (len(DASHES) - 1)] for at, layer in enumerate(known)}
    for place, (run, observed) in enumerate(zip(runs, layers, strict=True)):
        for layer, line in observed.items():
            name = plain(f"{run.name} · {layer}")
            put(name, line, "line", run_look(place)[0], dash_of[layer])
        # One cross a run, where its first layer was not finite: those of hidden layers would float.
        bad = [step for line in observed.values() for step, _ in line.marks[:1]]
        if bad:
            median = medians[place]
            height = median.last.value if median is not None and median.last else None
            crosses.append((min(bad), height, run.name))
    if crosses:
        traces.append(cross_trace(crosses, floor))
        names.append(NOT_FINITE)
    floored = is_floored(floor, lines)
    figure = figure_of(traces, UNITS[key], floor if floored else None, until=_until(runs), log=log, beside=beside)
    figure.update_layout(hovermode="closest")
    fit_axis(figure, lines, log=log, fraction=fraction)
    of_run = {run.name: line for run, line in zip(runs, medians, strict=True) if line is not None}
    label, table = heading or PANELS[key][1], table_of_lines(of_run)
    chart = Chart(key, label, figure, tuple(names), UNITS[key], tuple(entries), True, floored, table)
    floor_words = [ON_FLOOR] if floored else []
    return Part((MEDIANS.fill(what=what), _last_values(of_run), *floor_words), chart, heading, beside.band)
