"""The dashboard in a real browser: it draws what the log holds, answers to keyboard, theme, language and width, and
fetches nothing.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from minitrain.dashboard import write_dashboard

PANELS = ["loss", "learning_rate", "grad_norm", "activation", "spectral_norm", "health", "verbs"]
SCALARS = {
    "loss": ["train_loss", "val_loss", "ngram_loss", "uniform_loss"],
    "learning_rate": ["learning_rate"],
    "grad_norm": ["grad_norm"],
    "verbs": ["regular_loss", "irregular_loss"],
}
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    '"><b>',
    "&amp;",
    "<!--",
    "a\u2028b",
    "🙂",
    "%{x}",
    "<a href=x>y</a>",
]


@pytest.fixture(scope="module")
def rows(made_up: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = made_up.rows(count=300, layers=2, log_every=10)
    return rows


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory, made_up: Any, rows: list[dict[str, Any]]) -> Path:
    return write_dashboard(made_up.write_run(tmp_path_factory.mktemp("run"), rows))


@pytest.fixture(scope="module")
def seen(keep_open: Any, dashboard: Path) -> Any:
    """The dashboard, opened once for tests that only look."""
    return keep_open(dashboard)


def test_seven_panels_are_drawn_and_nothing_is_fetched(seen: Any, dashboard: Path) -> None:
    page = seen
    assert page.evaluate("[...document.querySelectorAll('section')].map(section => section.id)") == PANELS
    charts = page.evaluate("[...document.querySelectorAll('[data-chart]')].map(holder => holder.dataset.chart)")
    assert len(charts) == 8
    for chart in charts:
        visible = [trace for trace in page.traces(chart) if trace["visible"] is True and trace["kind"] != "edge"]
        assert visible, chart
        assert page.drawn_lines(chart) >= len([trace for trace in visible if trace["kind"] == "line"]), chart
        titles = page.evaluate(
            "key => ['x', 'y'].map(a => document.querySelector(`[data-chart=${key}] .${a}title`).textContent)", chart
        )
        assert all(titles), chart
    assert page.requests == [dashboard.resolve().as_uri()]
    page.check()


def test_plotted_values_equal_the_log(seen: Any, rows: list[dict[str, Any]]) -> None:
    page = seen
    for chart, keys in SCALARS.items():
        traces = [trace for trace in page.traces(chart) if trace["kind"] == "line"]
        assert len(traces) == len(keys)
        for trace, key in zip(traces, keys, strict=True):
            plotted = {x: y for x, y in zip(trace["x"], trace["y"], strict=True) if y is not None}
            assert plotted == {row["step"]: row[key] for row in rows if row[key] is not None}, key
    logged = {
        "activation": lambda row: {name: stats["mean_abs"] for name, stats in row["inspect"]["modules"].items()},
        "spectral_norm": lambda row: row["inspect"]["spectral_norm"],
        "dead_fraction": lambda row: row["inspect"]["dead_fraction"],
        "update_ratio": lambda row: row["inspect"]["update_ratio"],
    }
    for chart, values_of in logged.items():
        traces = {trace["name"]: trace for trace in page.traces(chart) if trace["kind"] == "line"}
        assert list(traces) == list(values_of(rows[0]))
        for name, trace in traces.items():
            expected = {row["step"]: values_of(row)[name] for row in rows if values_of(row)[name] is not None}
            # 300 rows in 200 buckets: every plotted point is a logged one, and the extremes are among them.
            plotted = dict(zip(trace["x"], trace["y"], strict=True))
            assert plotted == pytest.approx({step: expected[step] for step in plotted}, rel=1e-6), (chart, name)
            for end in (min, max):
                assert end(plotted.values()) == pytest.approx(end(expected.values()), rel=1e-6)
            assert {min(expected), max(expected)} <= set(plotted)


def test_bands_are_the_quantiles_across_layers(seen: Any, rows: list[dict[str, Any]]) -> None:
    median = next(trace for trace in seen.traces("activation") if trace["kind"] == "fixed")
    by_step = dict(zip(median["x"], median["y"], strict=True))
    for row in rows[::37]:
        ordered = sorted(stats["mean_abs"] for stats in row["inspect"]["modules"].values())
        assert len(ordered) % 2 == 1
        assert by_step[row["step"]] == pytest.approx(ordered[len(ordered) // 2], rel=1e-6)


def test_zeros_gaps_and_crosses_are_drawn(made_up: Any, open_page: Any, tmp_path: Path) -> None:
    rows = made_up.rows(count=40, layers=1)
    for row in rows:
        row["inspect"]["modules"]["blocks.0.ffn.act"]["mean_abs"] = 0.0
        row["inspect"]["modules"]["blocks.0.ln2"].update(n=0, mean_abs=None)
    rows[20]["train_loss"] = float("nan")
    rows[20]["inspect"]["modules"]["blocks.0.attn"].update(n=0, mean_abs=None, nan=9)
    page = open_page(write_dashboard(made_up.write_run(tmp_path / "run", rows, finished=None)))
    loss = page.traces("loss")
    assert (loss[0]["x"][20], loss[0]["y"][20]) == (21, None)
    assert (loss[-1]["kind"], loss[-1]["x"]) == ("cross", [21])
    silent = next(trace for trace in page.traces("activation") if trace["name"] == "blocks.0.ffn.act")
    assert set(silent["true"]) == {0}
    assert all(0 < y < 0.01 for y in silent["y"])
    assert page.evaluate("document.querySelectorAll('[data-chart=activation] .annotation').length") == 1
    assert page.evaluate("document.querySelectorAll('[data-chart=activation] .points path').length") >= 1
    idle = page.locator("[data-chart=activation] [role=option]", has_text="blocks.0.ln2")
    assert "not observed" in idle.inner_text()
    assert "Unfinished" in page.locator(".status").inner_text()
    page.check()


def test_layers_are_found_drawn_and_hidden_with_the_keyboard(made_up: Any, open_page: Any, dashboard: Path) -> None:
    page = open_page(dashboard)

    def drawn() -> list[str]:
        return [t["name"] for t in page.traces("activation") if t["kind"] == "line" and t["visible"] is True]

    before = drawn()
    colours_before = [t["color"] for t in page.traces("activation") if t["name"] in before]
    assert len(before) == 5
    assert "blocks.1.ln1" not in before
    search = page.locator("[data-chart=activation] input[type=search]")
    search.focus()
    page.keyboard.type("1.LN1")
    assert page.locator("[data-chart=activation] [role=option]:visible", has_text="blocks").count() == 1
    for _ in range(3):  # past the two buttons, into the list: one tab stop
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "listbox"
    page.keyboard.press("End")
    page.keyboard.press("Space")
    assert set(drawn()) == {*before, "blocks.1.ln1"}
    colours = [t["color"] for t in page.traces("activation") if t["name"] in drawn()]
    assert len(set(colours)) == len(colours)
    active = page.evaluate(
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).textContent"
    )
    assert "blocks.1.ln1" in active
    page.keyboard.press("Enter")
    assert drawn() == before
    assert [t["color"] for t in page.traces("activation") if t["name"] in before] == colours_before
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") != "option"
    search.fill("")
    page.locator("[data-chart=activation] [data-act=hide]").click()
    assert drawn() == []
    page.locator("[data-chart=activation] [data-act=draw]").click()
    assert len(drawn()) == len(made_up.module_names(2))
    page.check()


def test_a_click_on_the_list_hides_a_line_of_a_small_chart(open_page: Any, dashboard: Path) -> None:
    page = open_page(dashboard)
    page.locator("[data-chart=loss] [role=option]", has_text="validation").click()
    assert [trace["visible"] for trace in page.traces("loss")] == [True, False, True, True]
    page.locator("[data-chart=loss] [role=option]", has_text="validation").click()
    assert [trace["visible"] for trace in page.traces("loss")] == [True] * 4


def _luminance(colour: str) -> float:
    channels = [float(part) / 255 for part in colour.split("(")[1].rstrip(")").split(",")[:3]]
    return sum(weight * channel**2.2 for weight, channel in zip((0.2126, 0.7152, 0.0722), channels, strict=True))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_theme_follows_the_system_and_the_button(open_page: Any, dashboard: Path, dark: bool) -> None:
    page = open_page(dashboard, dark=dark)

    def look() -> tuple[float, str]:
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return _luminance(ground), page.traces("loss")[0]["color"]

    first = look()
    assert (first[0] < 0.1) == dark
    page.click("#theme")
    page.wait_for_timeout(200)
    second = look()
    assert (second[0] < 0.1) != dark
    assert second[1] != first[1]
    ink = page.evaluate("getComputedStyle(document.querySelector('[data-chart=loss] .ytitle')).fill")
    assert math.fabs(_luminance(ink) - second[0]) > 0.1
    page.check()


def test_the_language_changes_everything_a_reader_sees(open_page: Any, dashboard: Path) -> None:
    page = open_page(dashboard)
    page.click("#language")
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.lang") == "es"
    assert page.locator("#loss h2").inner_text() == "1Pérdida"
    assert page.locator("#loss .xtitle").text_content() == "pasos del optimizador"
    assert page.traces("loss")[1]["name"] == "validación"
    assert page.locator("#loss .drawing").get_attribute("aria-label") == "Pérdida"
    assert "Final" not in page.locator("body").inner_text()
    assert "step" not in page.locator("main").inner_text()
    page.click("#language")
    assert page.locator("#loss h2").inner_text() == "1Loss"
    page.check()


def test_nothing_overflows_or_overlaps_at_any_width(open_page: Any, dashboard: Path) -> None:
    page = open_page(dashboard, width=320)
    for width in (320, 380, 800, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(400)  # Plotly follows the width a moment later
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.clashes() == [], width


def test_hostile_names_are_inert(made_up: Any, open_page: Any, tmp_path: Path) -> None:
    rows = made_up.rows(count=5, layers=1)
    for row in rows:
        for name in HOSTILE:
            row["inspect"]["modules"][name] = row["inspect"]["modules"]["embedding"]
            row["inspect"]["dead_fraction"][name] = 0.25
    run = made_up.write_run(tmp_path / "run <img src=x onerror=alert(2)>", rows)
    (run / "config.toml").write_text(
        '[data]\nsource = "<b>x</b>"\n"<img src=z>" = "<script>alert(3)</script>"\n', "utf-8"
    )
    page = open_page(write_dashboard(run))
    assert page.evaluate("document.querySelectorAll('script').length") == 3
    assert page.evaluate("document.querySelectorAll('body img, main b, footer b, header b').length") == 0
    listed = page.evaluate("[...document.querySelectorAll('[data-chart=dead_fraction] .name')].map(e => e.textContent)")
    assert listed[-len(HOSTILE) :] == HOSTILE
    assert page.locator("h1").inner_text() == "run <img src=x onerror=alert(2)>"
    # The label that hovering shows, too.
    page.evaluate(
        """() => {
          const plot = document.querySelector("[data-chart=dead_fraction] .drawing");
          Plotly.Fx.hover(plot, plot._fullData.map((trace, index) => ({curveNumber: index, pointNumber: 2})));
        }"""
    )
    hover = page.locator("[data-chart=dead_fraction] .hoverlayer")
    hover.locator(".hovertext").first.wait_for()
    shown = hover.evaluate("layer => layer.textContent")
    assert "</script><img src=x onerror=alert(1)>" in shown
    assert "&amp;" in shown
    assert hover.evaluate("layer => layer.querySelectorAll('a, img, b').length") == 0
    page.check()


def test_tables_hold_the_numbers_without_a_script(chromium: Any, dashboard: Path, rows: list[dict[str, Any]]) -> None:
    context = chromium.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(dashboard.resolve().as_uri())
    page.locator("#loss details summary").click()
    table = page.locator("#loss table")
    assert table.is_visible()
    assert f"{rows[-1]['val_loss']:.4g}" in table.inner_text()
    assert page.locator("#loss noscript").inner_text() == "The chart needs JavaScript; the numbers below do not."
    context.close()


def test_without_inspection_and_verbs_the_other_panels_still_work(made_up: Any, open_page: Any, tmp_path: Path) -> None:
    rows = made_up.rows(count=23, layers=2, verbs=False, inspected=False)
    page = open_page(write_dashboard(made_up.write_run(tmp_path / "run", rows, verbs=False), language="es"))
    assert page.evaluate("document.querySelectorAll('section').length") == 7
    assert page.evaluate("document.querySelectorAll('[data-chart]').length") == 3
    assert page.locator("#verbs .summary").inner_text().startswith("No aplicable")
    for panel in PANELS[3:6]:
        assert "desactivada" in page.locator(f"#{panel} .summary").inner_text()
    page.check()


def test_the_data_block_is_strict_json(seen: Any) -> None:
    page = seen
    text = page.evaluate("document.getElementById('chart-data').textContent")
    assert json.loads(text)["colours"] == 6
    assert (
        page.evaluate("Object.keys(JSON.parse(document.getElementById('chart-data').textContent).charts).length") == 8
    )
