"""Several runs in one page: what they are called, what differs, how each ended, and whose line is whose."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import synthetic_run
from minitrain.dashboard import write_comparison
from minitrain.dashboard.differences import distinct_names
from minitrain.dashboard.overlay import MOST_RUNS, Overlaid, overlay_panels, run_look
from minitrain.dashboard.series import read_series


def written(folder: Path, *, seed: int = 31, count: int = 23, **rest: Any) -> Path:
    rows = synthetic_run.rows(count=count, layers=2, seed=seed, **rest)
    return synthetic_run.write_run(folder, rows)


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    one, other = written(tmp_path / "one", seed=3), written(tmp_path / "other", seed=5, count=29)
    config = (other / "config.toml").read_text("utf-8")
    (other / "config.toml").write_text(config.replace("lr_max = 0.001", "lr_max = 0.037"), "utf-8")
    manifest = json.loads((other / "manifest.json").read_text("utf-8"))
    manifest["packages"]["numpy"] = "2.9.9"
    (other / "manifest.json").write_text(json.dumps(manifest | {"created_time": "2026-01-01"}), "utf-8")
    return [one, other]


def page_of(runs: list[Path], target: Path, **options: Any) -> str:
    assert write_comparison(runs, target, **options) == target
    return target.read_text("utf-8")


def data_of(page: str) -> dict[str, Any]:
    (block,) = re.findall(r'<script type="application/json" id="chart-data">(.*?)</script>', page)
    data: dict[str, Any] = json.loads(block)
    return data


def table_of(page: str, caption: str) -> list[list[str]]:
    """Rows of a table of the page as text, English only."""
    (body,) = [part.split("</table>")[0] for part in page.split("<caption>")[1:] if caption in part.split("</cap")[0]]
    body = re.sub(r'<span class="es".*?</span>', "", body)
    rows = re.findall(r"<tr>(.*?)</tr>", body)
    return [[re.sub(r"<.*?>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows]


def panels_of(*runs: Path) -> dict[str, Any]:
    overlaid = [Overlaid(run.name, read_series(run / "inspector.log.jsonl")) for run in runs]
    return {chart.key: chart for panel in overlay_panels(overlaid, {}) for chart in panel.charts}


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/r/a", "/r/b"], ["a", "b"]),
        (["/r/a/run", "/r/b/run"], ["a/run", "b/run"]),
        (["/x/s/run", "/y/s/run", "/y/t/run"], ["x/s/run", "y/s/run", "y/t/run"]),
        (["/r/a", "/r/a"], ["a", "a (2)"]),
    ],
)
def test_names_have_as_much_of_the_path_as_tells_them_apart(paths: list[str], names: list[str]) -> None:
    assert distinct_names([Path(path) for path in paths]) == names


def test_the_table_of_settings_has_what_differs_and_nothing_else(pair: list[Path], tmp_path: Path) -> None:
    rows = table_of(page_of(pair, tmp_path / "c.html"), "What differs")
    assert rows == [
        ["setting", "one", "other"],
        ["train.steps", "23", "29"],
        ["train.lr_max", "0.001", "0.037"],
        ["packages.numpy", "2.4.6", "2.9.9"],
    ]


def test_equal_settings_are_said_to_be_so(tmp_path: Path) -> None:
    runs = [written(tmp_path / "a", seed=3), written(tmp_path / "b", seed=5)]
    page = page_of(runs, tmp_path / "c.html")
    assert "Settings and versions are the same in all of these runs." in page
    assert "What differs" not in page


def test_the_table_of_results_has_the_final_numbers_of_each(pair: list[Path], tmp_path: Path) -> None:
    (pair[1] / "results.json").unlink()
    rows = {row[0]: row[1:] for row in table_of(page_of(pair, tmp_path / "c.html"), "Results")}
    log = read_series(pair[1] / "inspector.log.jsonl").scalars
    last, low = log["val_loss"].last, log["val_loss"].low
    assert last is not None
    assert low is not None
    assert rows["validation loss, nats"] == ["1.119", f"{last.value:.4g}"]
    assert rows["best of the run"] == ["1.087", f"{low.value:.4g}"]
    assert rows["at step"] == ["2,410", str(low.step)]
    assert rows["regular forms right"] == ["59 of 72", "–"]
    assert rows["steps"] == ["23", "29"]
    assert rows["diagnosis"] == ["no finding", "no finding"]


def test_seven_panels_hold_the_lines_of_every_run(pair: list[Path]) -> None:
    charts = panels_of(*pair)
    assert list(charts) == [
        *("loss", "learning_rate", "grad_norm", "activation", "spectral_norm"),
        *("dead_fraction", "update_ratio", "verbs"),
    ]
    for key, names in {"learning_rate": ["learning_rate"], "verbs": ["regular_loss", "irregular_loss"]}.items():
        plotted = [(list(trace.x), list(trace.y)) for trace in charts[key].figure.data]
        logged = [read_series(run / "inspector.log.jsonl").scalars[name] for name in names for run in pair]
        assert plotted == [(line.steps, line.values) for line in logged], key
    for key in ("activation", "spectral_norm", "update_ratio"):
        names = [name.en for name in charts[key].names]
        assert names[:2] == ["one · median", "other · median"]
        series = read_series(pair[1] / "inspector.log.jsonl").layers[key]
        trace = charts[key].figure.data[1]
        assert (list(trace.x), list(trace.y)) == (
            series.band["median"].steps,
            pytest.approx(series.band["median"].values, rel=1e-6),
        )
        for layer, line in series.lines.items():
            trace = charts[key].figure.data[names.index(f"other · {layer}")]
            assert list(trace.y) == pytest.approx(line.values, rel=1e-6)
            assert trace.visible is False


def test_last_values_say_of_which_series_and_medians_of_what(pair: list[Path], tmp_path: Path) -> None:
    page = page_of(pair, tmp_path / "c.html")
    for words in (
        "Last values, validation: one: ",
        "Last values, regular verbs: one: ",
        "Last values, irregular verbs: one: ",
        "the median over the modules of each run",
        "the median over the matrices of each run",
        "the median over the layers of each run",
    ):
        assert words in page, words


def test_colour_is_the_run_and_dash_the_series(pair: list[Path]) -> None:
    charts = panels_of(*pair)
    loss = charts["loss"].figure.data
    assert [(t.meta.get("colour"), t.line.dash) for t in loss] == [
        *((0, "solid"), (1, "solid"), (0, "dot"), (1, "dot")),
        (None, "dash"),
    ]
    verbs = charts["verbs"].figure.data
    assert [(t.meta["colour"], t.line.dash) for t in verbs] == [(0, "solid"), (1, "solid"), (0, "dash"), (1, "dash")]
    by_layer: dict[str, set[str]] = {}
    for name, trace in zip(charts["activation"].names[2:], charts["activation"].figure.data[2:], strict=True):
        run, layer = name.en.split(" · ")
        assert trace.meta["colour"] == ["one", "other"].index(run)
        by_layer.setdefault(layer, set()).add(trace.line.dash)
    assert all(len(dashes) == 1 for dashes in by_layer.values())


def test_no_two_runs_look_the_same() -> None:
    assert len({run_look(place) for place in range(MOST_RUNS)}) == MOST_RUNS


def test_a_baseline_is_drawn_once_where_all_have_the_same_and_else_for_each(pair: list[Path], tmp_path: Path) -> None:
    assert [name.en for name in panels_of(*pair)["loss"].names][4:] == ["n-gram baseline"]
    rows = [row | {"ngram_loss": 2.25} for row in synthetic_run.rows(count=11, layers=1)]
    third = synthetic_run.write_run(tmp_path / "third", rows)
    names = [name.en for name in panels_of(pair[0], third)["loss"].names][4:]
    assert names == ["one · n-gram baseline", "third · n-gram baseline"]


def test_bands_are_shown_where_all_runs_share_them(pair: list[Path], tmp_path: Path) -> None:
    def banded(*runs: Path) -> set[str]:
        charts = data_of(page_of(list(runs), tmp_path / "c.html"))["charts"]
        shapes = {key: each["layout"].get("shapes", []) for key, each in charts.items()}
        return {key for key, each in shapes.items() if any(shape["name"] == "healthy" for shape in each)}

    # What a gradient may be is a multiple of what is usual in its run.
    assert banded(*pair) == {"loss", "activation", "spectral_norm", "dead_fraction", "update_ratio"}
    rows = [row | {"ngram_loss": 2.25} for row in synthetic_run.rows(count=11, layers=1)]
    other = synthetic_run.write_run(tmp_path / "third", rows)
    (other / "config.toml").write_text('[model]\nfrom_gpt2 = "folder"\n', "utf-8")
    assert banded(pair[0], other) == {"dead_fraction", "update_ratio"}


def test_numbers_that_are_not_finite_are_marked_once_a_run(pair: list[Path], tmp_path: Path) -> None:
    rows = synthetic_run.rows(count=7, layers=1)
    rows[4]["inspect"]["modules"]["blocks.0.ffn"].update(n=0, mean_abs=None, nan=3)
    rows[5]["inspect"]["modules"]["blocks.0.attn"].update(n=0, mean_abs=None, nan=3)
    bad = synthetic_run.write_run(tmp_path / "bad", rows, finished=False)
    chart = panels_of(pair[0], bad)["activation"]
    cross = chart.figure.data[-1]
    assert (cross.meta["kind"], list(cross.x), list(cross.text)) == ("cross", [5], ["bad"])
    notes = {entry.name.en: entry.note for entry in chart.entries}
    assert "1 not finite" in str(notes["bad · blocks.0.ffn"])
    assert notes["one · blocks.0.ffn"] is None


def test_a_run_without_inspection_is_left_out_of_the_layers(pair: list[Path], tmp_path: Path) -> None:
    bare = written(tmp_path / "bare", inspected=False)
    assert [name.en for name in panels_of(pair[0], bare)["activation"].names][:2] == ["one · median", "one · MiniGPT"]
    page = page_of([bare, written(tmp_path / "bare-too", inspected=False)], tmp_path / "c.html")
    assert page.count("None of these runs was inspected") == 4


def test_hostile_names_are_inert(tmp_path: Path) -> None:
    run = written(tmp_path / "<script>alert(1)<")
    page = page_of([run, written(tmp_path / "&amp;")], tmp_path / "c.html")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;" in page
    assert "&amp;amp;" in page


def test_the_language_is_the_one_asked_for(pair: list[Path], tmp_path: Path) -> None:
    page = page_of(pair, tmp_path / "c.html", language="es")
    assert '<html lang="es" data-language="es">' in page
    assert "<title>Comparación de 2 ejecuciones · minitrain</title>" in page


def test_the_page_stays_small_with_many_runs(tmp_path: Path) -> None:
    first = written(tmp_path / "run-0", count=300)
    for place in range(1, MOST_RUNS):
        shutil.copytree(first, tmp_path / f"run-{place}")
    target = tmp_path / "c.html"
    write_comparison([tmp_path / f"run-{place}" for place in range(MOST_RUNS)], target)
    assert target.stat().st_size < 12_000_000


@pytest.mark.parametrize("count", [0, 1, MOST_RUNS + 1])
def test_too_few_or_too_many_runs_are_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(ValueError, match=f"takes from 2 to {MOST_RUNS} runs, which can be told apart; got {count}"):
        write_comparison([tmp_path] * count, tmp_path / "c.html")


def test_a_folder_without_a_row_is_refused_and_nothing_written(pair: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must hold inspector\.log\.jsonl with a row; .*nothing' does not"):
        write_comparison([pair[0], tmp_path / "nothing"], tmp_path / "c.html")
    assert not (tmp_path / "c.html").exists()


def test_another_language_is_refused(pair: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`language` is one of en, es; got 'fr'"):
        write_comparison(pair, tmp_path / "c.html", language="fr")
