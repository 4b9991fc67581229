"""Findings of the diagnosis on the page: their number, their chart, exactly their step, their words, the verdict."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import synthetic_run
from diagnosed_rows import course
from minitrain.dashboard import follow
from minitrain.dashboard.chart import Beside, Named, Table
from minitrain.dashboard.charts import layer_chart, line_chart
from minitrain.dashboard.decimate import Line, Point
from minitrain.dashboard.findings import headline, number_findings, verdict
from minitrain.dashboard.follow import write_dashboard
from minitrain.dashboard.healthy import Band, healthy_bands
from minitrain.dashboard.marks import ROW
from minitrain.dashboard.series import BAND, LayerSeries, read_series
from minitrain.dashboard.style import LIGHT
from minitrain.dashboard.text import Text, number, plain
from minitrain.diagnosis import RULES, Finding, Record, healthy_ranges, rules

UNIT = Text("unit", "unidad")


def finding(code: str = "bad-init", step: int = 1, **rest: Any) -> Finding:
    known: dict[str, Any] = {
        "severity": "error",
        "where": "train_loss",
        "evidence": {"first_loss": 37.5},
        "healthy_range": {"first_loss": (None, 6.25)},
        "cause": Text("Weights too large.", "Pesos demasiado grandes."),
        "advice": Text("Draw smaller ones.", "Tómelos menores."),
    }
    return Finding(code=code, step=step, **(known | rest))


def straight(steps: int) -> Line:
    points = [Point(step, 1.0) for step in range(1, steps + 1)]
    return Line(list(range(1, steps + 1)), [1.0] * steps, [], points[0], points[-1], points[0], points[-1])


def chart_with(*found: Finding, until: int = 1000, band: Band | None = None, log: bool = False) -> Any:
    marked = number_findings(found, {})
    return line_chart(
        "loss", UNIT, [Named(plain("a"), straight(7))], UNIT, Table(plain(""), (), []),
        until=until, log=log, beside=Beside(band, tuple(marked)),
    ).figure.layout  # fmt: skip


def test_every_rule_of_ours_has_a_name_and_a_chart_of_its_own() -> None:
    marked = number_findings([finding(rule.code) for rule in RULES], {rule.code: rule.panel for rule in RULES})
    assert [each.number for each in marked] == list(range(1, len(RULES) + 1))
    assert [each.chart for each in marked] == [rule.panel for rule in RULES]
    assert len({each.name for each in marked}) == len(RULES)
    assert not any(each.name == plain(each.finding.code) for each in marked)


def test_a_rule_of_somebody_elses_is_called_by_its_code_and_shown_with_the_loss() -> None:
    (known, unknown) = number_findings([finding("theirs"), finding("theirs-too")], {"theirs": "activation"})
    assert (known.chart, known.name) == ("activation", plain("theirs"))
    assert unknown.chart == "loss"


def test_the_verdict_is_plain_words() -> None:
    assert verdict(None).en == "Not diagnosed: nothing has been logged."
    assert verdict([], judged=False).en == "No finding; too few validations to judge overfitting."
    assert verdict([]) == Text(
        "Healthy: the diagnosis found nothing wrong.", "Sana: el diagnóstico no encontró nada malo."
    )
    assert verdict(number_findings([finding()], {})).en == "1 finding:"
    assert verdict(number_findings([finding(), finding()], {})).es == "2 hallazgos, primero las causas:"


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((None, 6.25), "x 37.5 (healthy: at most 6.25)"),
        ((0.25, None), "x 37.5 (healthy: at least 0.25)"),
        ((0.0, 0.5), "x 37.5 (healthy: 0 to 0.5)"),
        ((0, 0), "x 37.5 (healthy: 0)"),
        ((None, None), "x 37.5"),
    ],
)
def test_evidence_stands_beside_its_healthy_range(bounds: tuple[Any, Any], words: str) -> None:
    (said,) = finding(evidence={"x": 37.5}, healthy_range={"x": bounds}).shown_evidence()
    assert said.en == words


def test_a_number_without_a_healthy_range_stands_alone() -> None:
    assert [text.es for text in finding(evidence={"y": 0.125}).shown_evidence()] == ["y 0.125"]


def test_the_headline_has_severity_code_step_and_place() -> None:
    (marked,) = number_findings([finding("dead-units", 1234, severity="warning", where="blocks.0.ffn.act")], {})
    assert headline(marked).en == "warning dead-units at step 1,234, blocks.0.ffn.act"
    assert headline(marked).es == "aviso dead-units en el paso 1234, blocks.0.ffn.act"


def test_a_mark_stands_at_exactly_the_step_with_its_number_above() -> None:
    layout = chart_with(finding(step=137), finding(step=701))
    assert [(shape.name, shape.x0, shape.x1, shape.yref) for shape in layout.shapes] == [
        ("finding-1", 137, 137, "paper"),
        ("finding-2", 701, 701, "paper"),
    ]
    assert [(label.text, label.x, label.y) for label in layout.annotations] == [
        ("<b>1</b>", 137, 1),
        ("<b>2</b>", 701, 1),
    ]
    assert {label.showarrow for label in layout.annotations} == {False}


def test_numbers_that_would_cover_each_other_go_to_rows_of_their_own() -> None:
    apart = chart_with(finding(step=100), finding(step=200))
    close = chart_with(finding(step=100), finding(step=100), finding(step=130), finding(step=300))
    assert {label.yshift for label in apart.annotations} == {0}
    assert [label.yshift for label in close.annotations] == [0, ROW, 2 * ROW, 0]
    assert close.margin.t - apart.margin.t == 2 * ROW


def test_the_healthy_band_is_shaded_below_the_lines() -> None:
    (shape,) = chart_with(band=Band(0.25, 0.5, UNIT), log=True).shapes
    assert (shape.name, shape.type, shape.layer) == ("healthy", "rect", "below")
    assert (shape.xref, shape.x0, shape.x1, shape.y0, shape.y1) == ("paper", 0, 1, 0.25, 0.5)
    assert shape.fillcolor == LIGHT["healthy"]


def test_the_layer_that_a_finding_names_is_drawn_from_the_start() -> None:
    lines = {f"layer.{place}": straight(5 + place) for place in range(13)}
    layers = LayerSeries(lines, {name: straight(5) for name in BAND})
    named = number_findings([finding(where="layer.7.grad"), finding(where="elsewhere")], {})

    def shown(beside: Beside) -> list[str]:
        chart = layer_chart("activation", UNIT, layers, UNIT, until=19, beside=beside)
        return [entry.name.en for entry in chart.entries if entry.kind == "line" and entry.shown]

    assert "layer.7" not in shown(Beside())
    assert shown(Beside(found=tuple(named))) == [*shown(Beside()), "layer.7"]


def test_bands_are_left_out_where_they_were_not_measured(tmp_path: Path) -> None:
    rows = synthetic_run.rows(count=11, layers=1)
    series = read_series(synthetic_run.write_run(tmp_path / "run", rows) / "inspector.log.jsonl")
    ranges = healthy_ranges(Record(rows))
    own = healthy_bands(series, {}, ranges)
    tuned = healthy_bands(series, {"model": {"from_gpt2": "folder"}}, ranges)
    assert set(own) - set(tuned) == {"activation", "spectral_norm"}
    assert set(tuned) == {"loss", "grad_norm", "dead_fraction", "update_ratio"}
    assert (own["loss"].low, own["loss"].high) == (0.0, synthetic_run.NGRAM_LOSS)
    assert "starts near ln V (4.078)" in own["loss"].words.en
    assert "(1.537)" in own["loss"].words.es


def test_without_a_baseline_the_loss_has_no_band(tmp_path: Path) -> None:
    rows = [row | {"ngram_loss": None} for row in synthetic_run.rows(count=11, layers=1)]
    series = read_series(synthetic_run.write_run(tmp_path / "run", rows) / "inspector.log.jsonl")
    assert "loss" not in healthy_bands(series, {}, healthy_ranges(Record(rows)))


BANDS_OF_RULES = {
    "grad_norm": rules.exploding_gradients,
    "dead_fraction": rules.dead_units,
    "update_ratio": rules.learning_rate_too_high,
}
EMPTY: Any = SimpleNamespace(scalars={"ngram_loss": Line(), "uniform_loss": Line()})


@pytest.mark.parametrize("chart", BANDS_OF_RULES)
def test_a_band_ends_where_its_rule_begins(chart: str) -> None:
    ranges = healthy_ranges(Record(course()))
    band = healthy_bands(EMPTY, {}, ranges)[chart]
    assert (band.low, band.high) == ranges[chart]
    assert number(band.high) in band.words.en
    assert number(band.high) in band.words.es

    def pushed(factor: float) -> Record:
        rows = course()
        # A gradient that jumps and a loss that rises: without harm no update is too large.
        rows[20]["grad_norm_max"], rows[30]["train_loss"] = 9.0, rows[20]["train_loss"]
        for row in rows[-5:]:
            if chart == "grad_norm":
                row["grad_norm_max"] = factor * band.high
            else:
                row["inspect"][chart] = dict.fromkeys(row["inspect"][chart], factor * band.high)
        return Record(rows)

    assert BANDS_OF_RULES[chart](pushed(0.999)) is None
    assert BANDS_OF_RULES[chart](pushed(1.001)) is not None


def test_the_band_of_spectral_norms_says_which_start_is_called_too_small() -> None:
    band = healthy_bands(EMPTY, {}, healthy_ranges(Record()))["spectral_norm"]
    assert f"starts below {rules.FIRST_NORM}." in band.words.en


def test_a_band_that_is_open_below_begins_at_the_lowest_value_and_presses_no_line_flat() -> None:
    for high, drawn in ((3.0, 3.0), (300.0, 10.0)):
        (shape,) = chart_with(band=Band(None, high, UNIT), log=True).shapes
        assert (shape.y0, shape.y1) == (1.0, drawn)


def test_a_page_shows_what_the_diagnosis_found_in_both_languages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        finding("bad-init", 3),
        finding("dead-units", 17, where="<img src=x>", evidence={"<b>": 0.75}, healthy_range={}),
    ]
    monkeypatch.setattr(follow, "diagnose", lambda record, rules: found)
    run = synthetic_run.write_run(tmp_path / "run", synthetic_run.rows(count=23, layers=1))
    page = write_dashboard(run).read_text("utf-8")
    for words in (
        "2 findings, causes first:",
        '<a href="#finding-1"><span class="badge">1</span>',
        '<li id="finding-2" class="error-finding">',
        "The weights start badly",
        "Weights too large.",
        "Pesos demasiado grandes.",
        "Tómelos menores.",
        "first_loss 37.5 (healthy: at most 6.25)",
        "&lt;img src=x&gt;",
        "&lt;b&gt; 0.75",
    ):
        assert words in page, words
    # Each below its own chart.
    assert page.index('id="dead_fraction-summary"') < page.index('id="finding-2"') < page.index('id="update_ratio-sum')
    assert page.index('id="loss-summary"') < page.index('id="finding-1"') < page.index('id="learning_rate-summary"')


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (23, "No finding; too few validations to judge overfitting."),
        (43, "Healthy: the diagnosis found nothing wrong."),
    ],
)
def test_a_healthy_run_is_said_to_be_so_once_there_are_validations_enough(
    tmp_path: Path, rows: int, words: str
) -> None:
    page = write_dashboard(synthetic_run.write_run(tmp_path / "run", synthetic_run.rows(count=rows, layers=1)))
    assert words in page.read_text("utf-8")


def test_where_nobody_asked_the_diagnosis_there_is_no_verdict(tmp_path: Path) -> None:
    class Undiagnosed(follow.Follower):
        def found(self) -> None:
            return None

    run = synthetic_run.write_run(tmp_path / "run", synthetic_run.rows(count=23, layers=1))
    page = Undiagnosed(run).write().read_text("utf-8")
    assert 'class="verdict' not in page
    assert "diagnosed" not in page
    (run / "inspector.log.jsonl").write_bytes(b"")
    assert "Not diagnosed: nothing has been logged." in write_dashboard(run).read_text("utf-8")


def test_findings_stay_where_nothing_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "diagnose", lambda record, rules: [finding("dead-units", 5)])
    rows = synthetic_run.rows(count=7, layers=1, inspected=False)
    page = write_dashboard(synthetic_run.write_run(tmp_path / "run", rows)).read_text("utf-8")
    assert page.count('id="finding-1"') == 1
