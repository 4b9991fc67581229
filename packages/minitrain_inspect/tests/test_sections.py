"""The list of a chart, which is its legend: each swatch in the colour and the dash of the line it stands for."""

import dataclasses
import itertools
import re
from typing import Any

import pytest
from minitrain.dashboard.chart import Chart, Entry, Named, Table
from minitrain.dashboard.charts import layer_chart, line_chart
from minitrain.dashboard.decimate import Line, Point
from minitrain.dashboard.panels import Panel, Part
from minitrain.dashboard.sections import panel_section
from minitrain.dashboard.series import BAND, LayerSeries
from minitrain.dashboard.style import DASHES, LIGHT_LINES
from minitrain.dashboard.text import Text, plain

UNIT = Text("unit", "unidad")
NO_TABLE = Table(plain(""), (), [])


def straight(height: float = 1.0) -> Line:
    points = [Point(step, height) for step in (1, 2, 3)]
    return Line([1, 2, 3], [height] * 3, [], points[0], points[-1], points[0], points[-1])


def swatches(chart: Chart) -> dict[str, tuple[str, str]]:
    """Name of an entry to its place in the palette and its dash; colour "" where the class decides."""
    section = panel_section(Panel("loss", 1, UNIT, UNIT, (Part((), chart),)), "en")
    found = {}
    for entry in re.findall(r'<li role="option".*?</li>', section):
        line = re.search(r"<line (?P<look>[^>]*)x1", entry)
        name = re.search(r'<span class="name">(?:<span class="en" lang="en">)?(.*?)</span>', entry)
        assert name is not None
        if line is not None:
            colour = re.search(r"--line-(\d+)", line["look"])
            (dash,) = re.findall(r"\bd(\d)\b", line["look"])
            found[name[1]] = (colour[1] if colour else "", DASHES[int(dash)])
    return found


def drawn(chart: Chart) -> dict[str, tuple[str, str]]:
    """The same of the lines themselves."""
    look: dict[str, tuple[str, str]] = {}
    for entry in chart.entries:
        if entry.kind in ("line", "fixed") and entry.shown:
            trace: Any = chart.figure.data[entry.traces[0]]
            colour = str(LIGHT_LINES.index(trace.line.color)) if trace.line.color in LIGHT_LINES else ""
            look[entry.name.en] = (colour, trace.line.dash)
    return look


@pytest.mark.parametrize("count", [1, 6, 7, 10])
def test_each_swatch_looks_like_its_line(count: int) -> None:
    lines = {f"layer.{place}": straight() for place in range(count)}
    chart = layer_chart("activation", UNIT, LayerSeries(lines), UNIT, until=3)
    assert swatches(chart) == drawn(chart)
    assert len(set(swatches(chart).values())) == count, "no two alike"


def test_the_lines_picked_of_many_and_their_median_look_like_their_swatches() -> None:
    lines = {f"layer.{place}": straight(1.0 + place) for place in range(13)}
    chart = layer_chart("activation", UNIT, LayerSeries(lines, {name: straight() for name in BAND}), UNIT, until=3)
    shown = drawn(chart)
    assert len(shown) == 6
    assert {name: look for name, look in swatches(chart).items() if name in shown} == shown


@pytest.mark.parametrize("place", range(8))
def test_a_series_that_keeps_its_colour_or_dash_keeps_it_in_the_list(place: int) -> None:
    colour, dash = place % len(LIGHT_LINES), DASHES[place % len(DASHES)]
    series = [Named(plain("free"), straight()), Named(plain("dashed"), straight(), dash="dash")]
    series += [
        Named(plain("of a run"), straight(), dash, colour),
        Named(plain("neutral"), straight(), "dash", neutral=True),
    ]
    chart = line_chart("loss", UNIT, series, UNIT, NO_TABLE, until=3)
    expected = drawn(chart)
    # The page's script paints by `meta`; the figure holds the same for readers without it.
    expected["of a run"] = (str(colour), dash)
    assert swatches(chart) == expected
    assert expected["neutral"] == ("", "dash")


def test_the_median_of_a_run_has_the_colour_and_the_dash_of_the_run() -> None:
    chart = line_chart("loss", UNIT, [Named(plain("a"), straight())], UNIT, NO_TABLE, until=3)
    entries = tuple(
        Entry(plain(f"{slot} {dash}"), (0,), "fixed", slot, True, dash=dash)
        for slot, dash in itertools.product(range(len(LIGHT_LINES)), DASHES)
    )
    seen = swatches(dataclasses.replace(chart, entries=entries))
    assert seen == {f"{slot} {dash}": (str(slot), dash) for slot in range(len(LIGHT_LINES)) for dash in DASHES}


def test_labels_beside_the_lines_have_no_arrows() -> None:
    zeros = [Named(plain("a"), straight(0.0))]
    chart = line_chart("loss", UNIT, zeros, UNIT, NO_TABLE, until=3, log=True)
    (label,) = chart.figure.layout.annotations
    assert (label.name, label.showarrow) == ("floor", False)
