"""Series in, charts out: the Plotly figure, and what the page needs beside it (list entries, both languages, a table).

`line_chart` draws a handful of named series, `layer_chart` one statistic of any number of layers. Both follow the same
rules for what is not there: unmeasured points are skipped, missing ones break the line, those that were not finite
break it and get a cross.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from .chart import NOTHING, Beside, Chart, Entry, Named, Table
from .decimate import Line, Point
from .marks import ROW, band_mark, finding_marks, floor_marks
from .series import LayerSeries
from .style import LIGHT, base_layout
from .text import (
    BAD_ROWS,
    FIRST,
    HIGHEST,
    INNER_BAND,
    LAST,
    LOWEST,
    MEDIAN,
    NAME,
    NOT_FINITE,
    NOT_OBSERVED,
    OUTER_BAND,
    ROWS_BAD,
    STEPS_AXIS,
    TABLE_OF_LAYERS,
    Text,
    number,
    plain,
)
from .traces import band_traces, cross_trace, is_floored, line_trace, log_floor

ALL_DRAWN = 10  # more lines than that are hard to tell apart: bands, and a choice
PICKED = 5
_ROOM = 1.02  # of the x axis: half a cross at the last step, also on a narrow screen
_LEAST_TOP = 0.2  # of an axis of fractions: a hair above zero must not fill the chart


def line_chart(
    key: str,
    label: Text,
    series: Sequence[Named],
    y_title: Text,
    table: Table,
    *,
    until: int,
    log: bool = False,
    beside: Beside = NOTHING,
) -> Chart:
    """Chart of a few named series on one axis.

    Parameters
    ----------
    key : str
        Identifies the chart in the page.
    series : sequence of Named
        Drawn in this order; a series without values is left out.
    y_title : Text
        Quantity and unit of the y axis.
    until : int
        Last step of the run: the x axis ends there in every chart, so that a step has one place down the page.
    log : bool
        Logarithmic y axis; values of 0 and below then stand on a labelled floor.
    """
    shown = [named for named in series if named.line.first or named.line.not_finite]
    floor = log_floor(named.line for named in shown) if log else None
    traces: list[dict[str, Any]] = []
    names: list[Text] = []
    entries: list[Entry] = []
    crosses: list[tuple[int, float | None, str]] = []
    for named in shown:
        # The place in the whole list: a line keeps its colour when another gets its first value.
        place = series.index(named) if named.colour is None else named.colour
        trace = line_trace(named.name.en, named.line, place, floor)
        if named.dash:
            trace["line"]["dash"] = trace["meta"]["dash"] = named.dash
        if named.dash and named.colour is None:  # a constant, for which dots say nothing
            trace["mode"] = "lines" if len(named.line.steps) > 1 else "markers"
        if named.colour is not None:
            trace["meta"]["colour"] = named.colour
        if named.neutral:
            trace["meta"]["kind"] = "fixed"
            trace["line"]["color"] = LIGHT["ink"]
        if not named.shown:
            trace["visible"] = False
        kind = "fixed" if named.neutral else "line"
        slot_shown = None if named.neutral else place
        entries.append(Entry(named.name, (len(traces),), kind, slot_shown, named.shown, dash=named.dash))
        traces.append(trace)
        names.append(named.name)
        crosses += [(step, height, named.name.en) for step, height in named.line.marks]
    if crosses:
        traces.append(cross_trace(crosses, floor))
        names.append(NOT_FINITE)
    floored = is_floored(floor, (named.line for named in shown))
    figure = figure_of(traces, y_title, floor if floored else None, until=until, log=log, beside=beside)
    figure.update_layout(hovermode="x unified" if len(shown) > 1 else "closest")
    return Chart(key, label, figure, tuple(names), y_title, tuple(entries), False, floored, table)


def layer_chart(
    key: str,
    label: Text,
    layers: LayerSeries,
    y_title: Text,
    *,
    until: int,
    log: bool = False,
    fraction: bool = False,
    beside: Beside = NOTHING,
) -> Chart:
    """Chart of one statistic of many layers: all of them, or bands and a choice when there are more than `ALL_DRAWN`.

    Every observed layer is a trace, hidden ones too, so that the page only has to show it. Values are written with
    seven significant digits.

    Parameters
    ----------
    fraction : bool
        The axis runs from 0 to 1.
    log, key, y_title, until
        As in `line_chart`.
    """
    observed = layers.observed
    many = len(observed) > ALL_DRAWN
    floor = log_floor(observed.values()) if log else None
    picked = list(observed)
    if many:
        chosen = {*farthest(observed, PICKED, log=log), *beside.layers}
        picked = [name for name in observed if name in chosen]
    traces: list[dict[str, Any]] = []
    names: list[Text] = []
    entries: list[Entry] = []
    if many:
        traces += band_traces(layers.band, floor)
        names += [OUTER_BAND, OUTER_BAND, INNER_BAND, INNER_BAND, MEDIAN]
        entries = [
            Entry(MEDIAN, (4,), "fixed", None, True),
            Entry(INNER_BAND, (2, 3), "inner", None, True),
            Entry(OUTER_BAND, (0, 1), "outer", None, True),
        ]
    crosses: list[tuple[int, float | None, str]] = []
    for name, line in observed.items():
        slot = picked.index(name) if name in picked else None
        trace = line_trace(name, line, slot, floor, digits=7)
        if slot is None:
            trace["visible"] = False
        note = ROWS_BAD.fill(rows=line.not_finite) if line.not_finite else None
        entries.append(Entry(plain(name), (len(traces),), "line", slot, slot is not None, note))
        traces.append(trace)
        names.append(plain(name))
        crosses += [(step, height, name) for step, height in line.marks[:1]]
    entries += [Entry(plain(name), (), "absent", None, False, NOT_OBSERVED) for name in layers.unobserved]
    if crosses:
        traces.append(cross_trace(crosses, floor))
        names.append(NOT_FINITE)
    floored = is_floored(floor, observed.values())
    figure = figure_of(traces, y_title, floor if floored else None, until=until, log=log, beside=beside)
    figure.update_layout(hovermode="closest")
    fit_axis(figure, observed.values(), log=log, fraction=fraction)
    return Chart(
        key,
        label,
        figure,
        tuple(names),
        y_title,
        tuple(entries),
        many,
        floored,
        table_of_lines(observed, layers.unobserved),
    )


def farthest(lines: Mapping[str, Line], how_many: int, *, log: bool) -> list[str]:
    """Names of the lines whose last value is farthest from the median of the last values, in the order of `lines`.

    Distance is the logarithm of the ratio on a log axis, the difference on a linear one; what was not finite comes
    first, and a zero is infinitely far on a log axis.
    """
    last = {name: line.last.value for name, line in lines.items() if line.last is not None}
    middle = sorted(last.values())[len(last) // 2] if last else 0.0

    def distance(name: str) -> float:
        if lines[name].not_finite or name not in last:
            return math.inf
        if not log:
            return abs(last[name] - middle)
        if last[name] <= 0 or middle <= 0:
            return 0.0 if last[name] == middle else math.inf
        return abs(math.log(last[name] / middle))

    chosen = set(sorted(lines, key=distance, reverse=True)[:how_many])
    return [name for name in lines if name in chosen]


def fit_axis(figure: go.Figure, lines: Iterable[Line], *, log: bool, fraction: bool) -> None:
    """Let the y axis of a linear chart begin at 0, and that of fractions end at 0.2 or more."""
    if fraction:
        highest = max((line.high.value for line in lines if line.high), default=0.0)
        figure.update_yaxes(range=[-0.02 * (top := max(_LEAST_TOP, 1.08 * highest)), top])
    elif not log:
        figure.update_yaxes(rangemode="tozero")


def figure_of(
    traces: list[dict[str, Any]],
    y_title: Text,
    floor: float | None,
    *,
    until: int,
    log: bool,
    beside: Beside,
) -> go.Figure:
    """Figure of `traces`; `floor` where something stands on it."""
    layout = base_layout()
    layout["xaxis"]["range"] = [0, until * _ROOM]
    layout["xaxis"]["title"]["text"] = STEPS_AXIS.en
    layout["yaxis"]["title"]["text"] = y_title.en
    shapes: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    values = _positive(traces)
    if beside.band is not None:
        shapes.append(band_mark(beside.band, values))
        values += (edge for edge in (shapes[0]["y0"], shapes[0]["y1"]) if edge > 0)
    if log:
        # Without a format of its own a log axis labels 0.002 as a bare "2".
        layout["yaxis"] |= {"type": "log", "tickformat": "~g", **_log_ticks(values)}
        layout["yaxis"]["minor"] = {"ticks": "outside", "ticklen": 2}
    else:
        layout["yaxis"] |= {"exponentformat": "power"}
    if floor is not None:
        shape, label = floor_marks(floor)
        shapes.append(shape)
        labels.append(label)
    if beside.found:
        lines, numbers, rows = finding_marks(beside.found, until)
        shapes += lines
        labels += numbers
        layout["margin"]["t"] += ROW * rows
    if shapes:
        layout |= {"shapes": shapes, "annotations": labels}
    return go.Figure({"data": traces, "layout": layout})


def _log_ticks(values: Sequence[float]) -> dict[str, Any]:
    """What to ask Plotly for, so that it labels 1-2-5 or whole decades: never every digit, which overlap.

    `values` is all that the axis must reach. Plotly labels every n-th decade where a label is to stand for n decades
    or a little less, and 1-2-5 where for 0.3 to 0.7. On less than a decade it would label whole numbers, of which
    there may be none in the lower half.
    """
    # A difference: the quotient of what floats can hold may be more than they can.
    decades = math.log10(max(values)) - math.log10(min(values)) if values else 0.0
    if 0.7 <= decades < 1.0:  # two of 1, 2 and 5 at least
        return {"dtick": "D2"}
    if decades < 2.5:
        return {"nticks": 3 if decades < 1.5 else 4}
    # The axis is longer than its values by a few percent; eight labels have room.
    return {"nticks": min(8, math.ceil(1.15 * decades))}


def _positive(traces: Sequence[Mapping[str, Any]]) -> list[float]:
    """All values of the traces that a log axis has a place for."""
    return [value for trace in traces for value in trace["y"] if value is not None and value > 0]


def table_of_lines(observed: Mapping[str, Line], unobserved: Sequence[str] = ()) -> Table:
    """First, last, lowest and highest value of each line."""

    def at(point: Point | None) -> str:
        return "–" if point is None else f"{number(point.value)} ({point.step})"

    rows: list[tuple[Text | str, ...]] = [
        (
            name,
            number(line.first.value if line.first else None),
            number(line.last.value if line.last else None),
            at(line.low),
            at(line.high),
            str(line.not_finite),
        )
        for name, line in observed.items()
    ]
    rows += [(name, NOT_OBSERVED, "", "", "", "") for name in unobserved]
    return Table(TABLE_OF_LAYERS, (NAME, FIRST, LAST, LOWEST, HIGHEST, BAD_ROWS), rows)
