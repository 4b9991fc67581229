"""Figures: what is plotted is what was logged; floors, gaps, crosses, bands and the choice of layers."""

import math
from typing import Any

import pytest
from minitrain.dashboard.chart import Beside
from minitrain.dashboard.charts import ALL_DRAWN, PICKED, Chart, Named, Table, farthest, layer_chart, line_chart
from minitrain.dashboard.decimate import Line, Point
from minitrain.dashboard.healthy import Band
from minitrain.dashboard.series import BAND, LayerSeries
from minitrain.dashboard.text import Text, plain
from minitrain.dashboard.traces import inert, log_floor

UNIT = Text("unit", "unidad")
NO_TABLE = Table(plain(""), (), [])


def line(values: list[float | None], **rest: Any) -> Line:
    """A line of steps 10, 20, …; None is a gap."""
    points = [Point(10 * (at + 1), value) for at, value in enumerate(values) if value is not None]
    return Line(
        steps=[10 * (at + 1) for at in range(len(values))],
        values=values,
        first=points[0] if points else None,
        last=points[-1] if points else None,
        low=min(points, key=lambda point: point.value, default=None),
        high=max(points, key=lambda point: point.value, default=None),
        **rest,
    )


def scalar_chart(*series: Named, log: bool = False) -> Chart:
    return line_chart("key", UNIT, series, UNIT, NO_TABLE, until=70, log=log)


def layers_of(lines: dict[str, Line]) -> LayerSeries:
    return LayerSeries(lines, {name: line([1.0, 2.0]) for name in BAND})


def many(count: int) -> dict[str, Line]:
    return {f"layer.{index}": line([1.0, 1.0 + index]) for index in range(count)}


def traces(chart: Chart) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = chart.figure.to_plotly_json()["data"]
    return data


def test_plotted_values_are_those_of_the_series() -> None:
    chart = scalar_chart(Named(plain("a"), line([0.1, 0.7, 0.3])), Named(plain("b"), line([2.0, None, 5.0])))
    assert [(trace["x"], trace["y"]) for trace in traces(chart)] == [
        ([10, 20, 30], [0.1, 0.7, 0.3]),
        ([10, 20, 30], [2.0, None, 5.0]),
    ]
    assert all(trace["connectgaps"] is False for trace in traces(chart))
    assert [entry.traces for entry in chart.entries] == [(0,), (1,)]


def test_a_series_without_values_is_left_out() -> None:
    chart = scalar_chart(Named(plain("a"), Line()), Named(plain("b"), line([2.0])))
    assert [entry.name for entry in chart.entries] == [plain("b")]


def test_a_baseline_is_dashed_without_dots() -> None:
    (trace,) = traces(scalar_chart(Named(plain("a"), line([2.0, 2.0]), dash="dash")))
    assert (trace["line"]["dash"], trace["mode"], trace["meta"]["dash"]) == ("dash", "lines", "dash")


def test_a_line_keeps_its_colour_when_another_gets_its_first_value() -> None:
    late, baseline = Named(plain("late"), line([None])), Named(plain("baseline"), line([2.0]), dash="dash")
    (alone,) = scalar_chart(late, baseline).entries
    both = scalar_chart(Named(plain("late"), line([3.0])), baseline)
    assert alone.slot == both.entries[1].slot == 1
    assert alone.traces == (0,)
    assert traces(both)[1]["line"]["color"] == traces(scalar_chart(late, baseline))[0]["line"]["color"]


def test_axes_have_units_and_every_chart_ends_at_the_last_step() -> None:
    layout = scalar_chart(Named(plain("a"), line([2.0]))).figure.layout
    assert (layout.xaxis.title.text, layout.yaxis.title.text) == ("optimiser steps", "unit")
    assert layout.xaxis.range == (0, pytest.approx(71.4))
    assert layout.showlegend is False


@pytest.mark.parametrize(
    ("smallest", "floor"), [(1.0, 0.1), (0.99, 0.01), (3e-5, 1e-6), (700.0, 10.0), (5e-324, 1e-300)]
)
def test_the_floor_is_a_decade_below_the_decade_of_the_smallest(smallest: float, floor: float) -> None:
    assert log_floor([line([0.0, 5000.0]), line([smallest, None])]) == pytest.approx(floor)


def test_zeros_stand_on_a_labelled_floor_and_keep_their_value_for_the_reader() -> None:
    chart = scalar_chart(Named(plain("a"), line([0.5, 0.0, -2.0, None])), log=True)
    (trace,) = traces(chart)
    assert trace["y"] == [0.5, 0.01, 0.01, None]
    assert trace["customdata"] == [0.5, 0.0, -2.0, None]
    assert "%{customdata" in trace["hovertemplate"]
    assert chart.floored
    layout = chart.figure.layout
    assert layout.yaxis.type == "log"
    assert layout.shapes[0].y0 == layout.shapes[0].y1 == 0.01
    assert (layout.annotations[0].text, layout.annotations[0].y) == ("0", pytest.approx(-2.0))


def test_without_zeros_there_is_no_floor() -> None:
    chart = scalar_chart(Named(plain("a"), line([0.5, 0.25])), log=True)
    assert not chart.floored
    assert not chart.figure.layout.shapes
    assert "customdata" not in traces(chart)[0]


def test_a_series_of_zeros_is_still_drawn() -> None:
    (trace,) = traces(scalar_chart(Named(plain("a"), line([0.0, 0.0])), log=True))
    assert trace["y"] == [0.1, 0.1]


def test_crosses_mark_what_was_not_finite() -> None:
    bad = line([0.5, None, None], marks=[(20, 0.5), (30, 0.5)], gaps=2, not_finite=2)
    chart = scalar_chart(Named(plain("a"), bad), Named(plain("<b>"), line([None], marks=[(10, None)], not_finite=1)))
    cross = traces(chart)[-1]
    assert (cross["x"], cross["y"]) == ([20, 30, 10], [0.5, 0.5, 0.0])
    assert cross["text"] == ["a", "a", "&lt;b&gt;"]
    assert cross["meta"] == {"kind": "cross"}
    assert len(chart.names) == len(traces(chart))


def test_points_that_no_line_reaches_get_a_dot() -> None:
    values: list[float | None] = [1.0] * 100
    values[3] = values[5] = None
    (trace,) = traces(scalar_chart(Named(plain("a"), line(values))))
    sizes = trace["marker"]["size"]
    assert [at for at, size in enumerate(sizes) if size] == [4]


def test_a_long_unbroken_line_has_no_dots_and_a_short_one_has() -> None:
    long, short = traces(scalar_chart(Named(plain("a"), line([1.0] * 100)), Named(plain("b"), line([1.0]))))
    assert (long["mode"], short["mode"]) == ("lines", "lines+markers")


def test_few_layers_are_all_drawn_in_styles_of_their_own() -> None:
    chart = layer_chart("key", UNIT, layers_of(many(ALL_DRAWN)), UNIT, until=70)
    assert not chart.many
    drawn = traces(chart)
    assert len(drawn) == ALL_DRAWN
    assert all("visible" not in trace for trace in drawn)
    assert len({(trace["line"]["color"], trace["line"]["dash"]) for trace in drawn}) == ALL_DRAWN
    assert [entry.slot for entry in chart.entries] == list(range(ALL_DRAWN))


def test_many_layers_are_bands_and_the_farthest_with_the_rest_at_hand() -> None:
    chart = layer_chart("key", UNIT, layers_of(many(ALL_DRAWN + 3)), UNIT, until=70)
    assert chart.many
    bands, lines = traces(chart)[: len(BAND)], traces(chart)[len(BAND) :]
    assert [trace["meta"]["kind"] for trace in bands] == ["edge", "outer", "edge", "inner", "fixed"]
    assert [trace.get("fill") for trace in bands] == [None, "tonexty", None, "tonexty", None]
    assert [trace["y"] for trace in lines] == [[1.0, 1.0 + index] for index in range(ALL_DRAWN + 3)]
    shown = [trace["name"] for trace in lines if trace.get("visible", True)]
    assert shown == ["layer.0", "layer.1", "layer.2", "layer.11", "layer.12"]  # of equally far ones the first
    assert len(shown) == PICKED
    assert [entry.traces for entry in chart.entries[:3]] == [(4,), (2, 3), (0, 1)]
    for entry in chart.entries[3:]:
        assert chart.names[entry.traces[0]] == entry.name
        assert entry.shown is (entry.slot is not None) is (entry.name.en in shown)


def test_layer_values_keep_seven_digits() -> None:
    chart = layer_chart("key", UNIT, layers_of({"a": line([1 / 3, 2e-9 / 3, None])}), UNIT, until=70)
    assert traces(chart)[0]["y"] == [0.3333333, 6.666667e-10, None]


def test_layers_never_observed_are_listed_and_not_drawn() -> None:
    chart = layer_chart("key", UNIT, layers_of({"a": line([1.0]), "idle": Line()}), UNIT, until=70, log=True)
    assert len(traces(chart)) == 1
    assert [(entry.name.en, entry.kind, entry.traces) for entry in chart.entries] == [
        ("a", "line", (0,)),
        ("idle", "absent", ()),
    ]
    assert chart.entries[1].note == Text("not observed", "no observado")
    assert chart.table.rows[-1][:2] == ("idle", Text("not observed", "no observado"))


def test_the_first_cross_of_each_layer_is_drawn_and_counted() -> None:
    bad = line([1.0, None], marks=[(20, 1.0), (30, 1.0)], not_finite=5)
    chart = layer_chart("key", UNIT, layers_of({"good": line([2.0]), "bad": bad}), UNIT, until=70)
    assert traces(chart)[-1]["x"] == [20]
    assert chart.entries[1].note == Text("5 not finite", "no finitas: 5")
    assert chart.table.rows[1] == ("bad", "1", "1", "1 (10)", "1 (10)", "5")


def test_fractions_start_at_zero_and_do_not_blow_up_a_hair() -> None:
    def top(highest: float) -> float:
        chart = layer_chart("k", UNIT, layers_of({"a": line([0.0, highest])}), UNIT, until=70, fraction=True)
        low, high = chart.figure.layout.yaxis.range
        assert -0.03 < low < 0
        return float(high)

    assert top(0.0) == top(0.01) == pytest.approx(0.2)
    assert top(1.0) == pytest.approx(1.08)


def test_farthest_by_ratio_on_a_log_axis_and_by_difference_on_a_linear_one() -> None:
    lines = {name: line([value]) for name, value in {"a": 0.001, "b": 1.0, "c": 1.1, "d": 20.0, "e": 0.9}.items()}
    assert farthest(lines, 1, log=True) == ["a"]
    assert farthest(lines, 1, log=False) == ["d"]
    assert farthest(lines, 2, log=True) == ["a", "d"]


def test_silent_and_broken_layers_are_farthest_of_all() -> None:
    lines = {"a": line([1.0]), "b": line([2.0]), "broken": line([1.0], not_finite=1), "c": line([500.0])}
    assert farthest(lines, 1, log=True) == ["broken"]
    assert farthest(lines | {"zero": line([0.0])}, 2, log=True) == ["broken", "zero"]
    assert farthest({"a": line([0.0]), "b": line([0.0]), "c": line([1.0])}, 1, log=True) == ["c"]


@pytest.mark.parametrize("name", ["<b>bold</b>", "&amp;", "</script>", "a\nb", '"quoted"', "\ud800"])
def test_names_reach_plotly_inert(name: str) -> None:
    shown = inert(name)
    assert "<" not in shown
    assert shown.encode("utf-8")
    chart = layer_chart("key", UNIT, layers_of({name: line([1.0])}), UNIT, until=70)
    assert traces(chart)[0]["name"] == shown
    assert name not in traces(chart)[0]["hovertemplate"]


def test_ticks_of_a_log_axis_are_asked_for_sparingly() -> None:
    def ticks(*values: float) -> int:
        count: int = scalar_chart(Named(plain("a"), line(list(values))), log=True).figure.layout.yaxis.nticks
        return count

    assert ticks(1.0, 11.0) == 3
    assert ticks(1e-2, 1.0) == 4
    # A label for each decade, until there is no room for them.
    assert ticks(1e-4, 1.0) == 5
    assert ticks(1e-3, 400.0) == 7
    assert ticks(1e-13, 400.0) == 8
    assert math.log10(11.0) < 1.5
    # Farther apart than a float holds.
    assert ticks(5e-324, 1.7e308) == 8


def test_a_healthy_band_that_makes_the_axis_longer_counts_for_its_ticks() -> None:
    beside = Beside(Band(0.01, 10.0, UNIT))
    series = [Named(plain("a"), line([1.0, 3.0]))]
    chart = line_chart("key", UNIT, series, UNIT, NO_TABLE, until=70, log=True, beside=beside)
    assert chart.figure.layout.yaxis.nticks == 4


def test_less_than_a_decade_is_labelled_below_1_as_well() -> None:
    def rhythm(*values: float) -> Any:
        return scalar_chart(Named(plain("a"), line(list(values))), log=True).figure.layout.yaxis.dtick

    assert rhythm(0.55, 4.2) == "D2"
    assert rhythm(1.0, 4.2) is None
    assert rhythm(0.1, 4.2) is None
