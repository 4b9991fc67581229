"""The seven panels: what each draws and what each says, also where there is nothing to draw."""

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from minitrain.dashboard.panels import Panel, build_panels
from minitrain.dashboard.series import LAYERS, SCALARS, RunSeries, read_series
from minitrain.log import LogWriter

synthetic_run = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("synthetic_run.py"))))

KEYS = ["loss", "learning_rate", "grad_norm", "activation", "spectral_norm", "health", "verbs"]
CHARTS = ["loss", "learning_rate", "grad_norm", "activation", "spectral_norm", "dead_fraction", "update_ratio", "verbs"]

Row = dict[str, Any]


@pytest.fixture
def read(tmp_path: Any) -> Any:
    def reader(rows: list[Row]) -> RunSeries:
        path = tmp_path / "inspector.log.jsonl"
        with LogWriter(path) as writer:
            for row in rows:
                writer.write(row)
        return read_series(path)

    return reader


def said(panel: Panel) -> str:
    return " ".join(text.en for part in panel.parts for text in part.summary)


def dicho(panel: Panel) -> str:
    return " ".join(text.es for part in panel.parts for text in part.summary)


def by_key(run: RunSeries) -> dict[str, Panel]:
    return {panel.key: panel for panel in build_panels(run)}


def test_there_are_seven_panels_with_eight_charts_in_order(read: Any) -> None:
    panels = build_panels(read(synthetic_run.rows(count=31, layers=2)))
    assert [panel.key for panel in panels] == KEYS
    assert [panel.number for panel in panels] == [1, 2, 3, 4, 5, 6, 7]
    assert [chart.key for panel in panels for chart in panel.charts] == CHARTS


def test_each_chart_plots_the_series_of_its_panel(read: Any) -> None:
    rows = synthetic_run.rows(count=31, layers=2)
    run = read(rows)
    charts = {chart.key: chart for panel in build_panels(run) for chart in panel.charts}
    scalars = {"loss": SCALARS[:4], "learning_rate": SCALARS[4:5], "grad_norm": SCALARS[5:6], "verbs": SCALARS[6:]}
    for key, names in scalars.items():
        plotted = [(list(trace.x), list(trace.y)) for trace in charts[key].figure.data]
        assert plotted == [(run.scalars[name].steps, run.scalars[name].values) for name in names], key
    for key in LAYERS:
        lines = [trace for trace in charts[key].figure.data if trace.meta["kind"] == "line"]
        assert [trace.name for trace in lines] == list(run.layers[key].lines)
        for trace in lines:
            assert list(trace.y) == pytest.approx(run.layers[key].lines[trace.name].values, rel=1e-6), (key, trace.name)


def test_axes_are_logarithmic_where_sizes_differ_by_orders(read: Any) -> None:
    panels = build_panels(read(synthetic_run.rows(count=31, layers=2)))
    kinds = {chart.key: chart.figure.layout.yaxis.type for panel in panels for chart in panel.charts}
    assert [key for key, kind in kinds.items() if kind == "log"] == ["grad_norm", "activation", "update_ratio", "verbs"]
    titles = {chart.key: chart.y_title for panel in panels for chart in panel.charts}
    assert all(("log scale" in titles[key].en) == (kind == "log") for key, kind in kinds.items())


def test_summaries_give_last_values_and_extremes(read: Any) -> None:
    rows = [
        {"step": 2, "train_loss": 3.0, "val_loss": 2.5, "ngram_loss": 1.75, "grad_norm": 7.0, "learning_rate": 0.01},
        {"step": 3, "train_loss": 1.0, "val_loss": 1.25, "ngram_loss": 1.75, "grad_norm": 0.5, "learning_rate": 0.002},
        {"step": 5, "train_loss": 2.0, "val_loss": 1.5, "ngram_loss": 1.75, "grad_norm": 2.0, "learning_rate": 1e-5},
    ]
    panels = by_key(read(rows))
    assert said(panels["loss"]) == (
        "Validation: 1.5 nats at step 5, lowest 1.25 at step 3. Training: 2 at step 5. "
        "The n-gram baseline has 1.75: the model is 0.25 nats better."
    )
    assert said(panels["grad_norm"]) == "Gradient norm: 2 at step 5; lowest 0.5 (step 3), highest 7 (step 2)."
    assert "1e−5 at step 5" in said(panels["learning_rate"])
    assert dicho(panels["grad_norm"]) == "Norma del gradiente: 2 en el paso 5; mínimo 0.5 (paso 3), máximo 7 (paso 2)."


def test_a_model_behind_the_baseline_is_called_worse(read: Any) -> None:
    panel = by_key(read([{"step": 2, "train_loss": 3.0, "val_loss": 2.5, "ngram_loss": 1.75}]))["loss"]
    assert "the model is not yet below it, 0.75 nats worse; that alone is no fault." in said(panel)
    assert "el modelo queda 0.75 nats por encima, peor" in dicho(panel)


def test_layer_summaries_name_the_extremes(read: Any) -> None:
    def row(step: int, **norms: float) -> Row:
        return {"step": step, "inspect": {"spectral_norm": norms}}

    panel = by_key(read([row(2, a=1.0, b=9.0, c=3.0), row(3, a=2.0, b=4.0, c=3.5)]))["spectral_norm"]
    assert said(panel) == (
        "At step 3: median 3.5 over 3 matrices, from 2 (a) to 4 (b). "
        "Highest of the run 9 (b, step 2), lowest 1 (a, step 2)."
    )


def test_layers_that_agree_are_summed_up_in_a_number(read: Any) -> None:
    panel = by_key(read([{"step": 3, "inspect": {"dead_fraction": {"a": 0.25, "b": 0.25}}}]))["health"]
    assert said(panel).startswith("At step 3: 0.25 (2 layers). Highest of the run 0.25 (a, step 3)")


def test_units_that_are_never_dead_are_one_sentence(read: Any) -> None:
    panel = by_key(read([{"step": 3, "inspect": {"dead_fraction": {"a": 0.0, "b": 0.0}}}]))["health"]
    assert said(panel).startswith("No unit was dead in any logged row (2 layers).")
    assert dicho(panel).startswith("Ninguna unidad estuvo muerta en ninguna fila registrada (2 capas).")


def test_steps_have_their_thousands_apart_with_a_space_that_does_not_break(read: Any) -> None:
    panels = by_key(read([{"step": 1234, "train_loss": 1.5}]))
    assert said(panels["loss"]) == "Training: 1.5 at step 1,234."
    assert dicho(panels["loss"]) == "Entrenamiento: 1.5 en el paso 1234."


def test_missing_classes_and_bad_rows_are_counted(read: Any) -> None:
    rows = [
        {"step": 2, "regular_loss": 1.0, "irregular_loss": 2.0},
        {"step": 3, "regular_loss": 1.0},
        {"step": 5, "regular_loss": 1.0},
        {"step": 7, "train_loss": float("nan"), "regular_loss": float("nan"), "irregular_loss": 1.0},
    ]
    panels = by_key(read(rows))
    assert "2 rows had no irregular verbs (gaps)." in said(panels["verbs"])
    assert "Regular verbs: not finite in 1 of the logged rows, first at step 7 (crosses)." in said(panels["verbs"])
    assert "rows had no regular verbs" not in said(panels["verbs"])
    (chart,) = panels["verbs"].charts
    assert chart.figure.data[1].y == (2.0, None, None, 1.0)


def test_without_inspection_panels_four_to_six_say_so(read: Any) -> None:
    panels = build_panels(read(synthetic_run.rows(count=13, layers=2, inspected=False)))
    for panel in panels[3:6]:
        assert not panel.charts
        assert said(panel).startswith("Inspection was off in this run")
        assert dicho(panel).startswith("La inspección estaba desactivada")
    assert all(panel.charts for panel in (*panels[:3], panels[6]))


def test_on_other_data_the_verb_panel_is_not_applicable(read: Any) -> None:
    panel = build_panels(read(synthetic_run.rows(count=13, layers=2, verbs=False)))[6]
    assert not panel.charts
    assert said(panel).startswith("Not applicable")


def test_without_rows_every_panel_says_that_nothing_was_logged(read: Any) -> None:
    for panel in build_panels(read([])):
        assert said(panel) == "No row has been logged yet."


def test_unobserved_modules_are_named_and_a_long_list_is_cut(read: Any) -> None:
    modules = {f"idle.{k}": {"n": 0, "mean_abs": None, "nan": 0, "inf": 0} for k in range(11)}
    modules["used"] = {"n": 3, "mean_abs": 0.0, "nan": 0, "inf": 0}
    panel = by_key(read([{"step": 2, "inspect": {"modules": modules}}]))["activation"]
    assert "Not observed: idle.0, idle.1, idle.2, idle.3, idle.4, idle.5 and 5 more." in said(panel)
    assert "Values of 0 stand on the dotted line" in said(panel)


def test_the_table_of_the_loss_shows_rows_with_a_validation_loss(read: Any) -> None:
    rows = synthetic_run.rows(count=40, layers=1)
    (chart,) = by_key(read(rows))["loss"].charts
    assert [row[0] for row in chart.table.rows] == ["10", "20", "30", "40"]
    assert all("–" not in row for row in chart.table.rows)
    assert chart.table.caption.en.startswith("4 of 40 rows")
    assert [text.en for text in chart.table.header] == ["step", "training", "validation", "n-gram baseline"]


def test_no_sentence_has_an_unfilled_place(read: Any) -> None:
    rows = synthetic_run.rows(count=31, layers=3)
    rows[-1]["train_loss"] = float("nan")
    rows[-1]["inspect"]["modules"]["embedding"].update(n=0, mean_abs=None, nan=5)
    rows[0]["inspect"]["update_ratio"]["embedding.E"] = 0.0
    for panel in build_panels(read(rows)):
        for text in (said(panel), dicho(panel)):
            assert text
            assert "{" not in text
            assert "None" not in text
