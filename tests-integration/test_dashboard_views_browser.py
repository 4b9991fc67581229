"""More of the dashboard in a real browser: findings, healthy bands, charts by keyboard, comparisons, the live page."""

import math
import time
from pathlib import Path
from typing import Any

import pytest
from minitrain.dashboard import serve_live, write_comparison, write_dashboard
from minitrain.log import LogWriter


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory, made_up: Any) -> Path:
    """A run in which the future leaks from step 10 on and a number is not finite at step 410."""
    rows = made_up.rows(count=60, layers=2, log_every=10)
    for row in rows:
        row["future_leak"] = 0.25
    rows[40]["train_loss"] = float("nan")
    rows[40]["inspect"]["modules"]["blocks.1.ffn"].update(n=0, mean_abs=None, nan=7)
    return write_dashboard(made_up.write_run(tmp_path_factory.mktemp("faulty"), rows, finished=False))


def shapes(page: Any, chart: str) -> dict[str, Any]:
    """What is drawn beside the lines: name to its edges in pixels, its paint, and where the axis has its step."""
    found: dict[str, Any] = page.evaluate(
        """key => {
          const plot = document.querySelector(`[data-chart="${key}"] .drawing`);
          const axis = plot._fullLayout.xaxis;
          const drag = plot.querySelector(".nsewdrag").getBoundingClientRect();
          const drawn = plot._fullLayout.shapes.map((shape, at) => {
            const box = plot.querySelector(`.shapelayer path[data-index="${at}"]`).getBoundingClientRect();
            return [shape.name, {from: box.left - drag.left, to: box.right - drag.left, height: box.height,
              color: shape.line.color, fill: shape.fillcolor, at: axis.l2p(shape.x0)}];
          });
          return Object.fromEntries(drawn);
        }""",
        chart,
    )
    return found


def test_findings_are_marked_at_their_step_and_described_below(open_page: Any, faulty: Path) -> None:
    page = open_page(faulty)
    assert "findings, causes first" in page.locator(".verdict").inner_text()
    entries = page.locator("#loss .findings li").all_inner_texts()
    numbers = [entry.split()[0] for entry in entries]
    assert any("broken-mask at step 10," in entry for entry in entries)
    assert any("non-finite at step 410, blocks.1.ffn" in entry for entry in entries)
    assert all("Likely cause:" in entry and "Try:" in entry for entry in entries)
    marks = {name: mark for name, mark in shapes(page, "loss").items() if name.startswith("finding-")}
    assert set(marks) == {f"finding-{number}" for number in numbers}
    for mark in marks.values():
        middle = (mark["from"] + mark["to"]) / 2
        assert middle == pytest.approx(mark["at"], abs=1.5)
        assert mark["height"] > 100
    labels = page.locator("[data-chart=loss] .annotation-text").all_text_contents()
    assert sorted(labels) == sorted(numbers)
    assert page.locator(".annotation-arrow-g").count() == 0
    page.locator(".verdict a").last.click()
    target = page.evaluate("location.hash")
    assert target.startswith("#finding-")
    assert page.locator(target).is_visible()
    page.click("#language")
    page.wait_for_timeout(200)
    assert "hallazgos, primero las causas" in page.locator(".verdict").inner_text()
    assert "Causa probable:" in page.locator("#loss .findings").inner_text()
    assert page.locator("#loss .findings").get_attribute("aria-label") == "Hallazgos"
    page.check()


def test_the_layer_that_a_finding_names_and_the_healthy_bands_follow_the_theme(open_page: Any, faulty: Path) -> None:
    page = open_page(faulty)
    light = {chart: shapes(page, chart) for chart in ("loss", "grad_norm", "activation", "dead_fraction")}
    for chart, drawn in light.items():
        assert drawn["healthy"]["height"] > 20, chart
        assert "Healthy" in page.locator(f"section:has([data-chart={chart}]) .band").first.inner_text()
    page.click("#theme")
    page.wait_for_timeout(400)
    dark = shapes(page, "loss")
    assert dark["healthy"]["fill"] != light["loss"]["healthy"]["fill"]
    assert dark["finding-1"]["color"] != light["loss"]["finding-1"]["color"]
    page.check()


_LEGEND = """() => [...document.querySelectorAll("[data-chart]")].flatMap((holder) => {
  const { chart, _fullData } = holder.querySelector(".drawing");
  const probe = document.createElement("i");
  document.body.append(probe);
  const looks = chart.items
    .filter((item) => item.getAttribute("aria-selected") === "true" && item.querySelector(".swatch line"))
    .map((item) => {
      const swatch = getComputedStyle(item.querySelector(".swatch line"));
      const { color, dash } = _fullData[item.traces[0]].line;
      probe.style.color = color;
      const line = getComputedStyle(probe).color;
      return { name: item.textContent, swatch: swatch.stroke, line, dashes: swatch.strokeDasharray, dash };
    });
  probe.remove();
  return looks;
})"""
"""Of every line shown: the colour and dashes of its swatch in the list, the colour and dash that it is drawn with."""

_DASHES = {"solid": "none", "dash": "6px, 4px", "dot": "2px, 3px", "dashdot": "7px, 3px, 2px, 3px"}


def assert_the_legend_is_true(page: Any, least: int) -> None:
    looks = page.evaluate(_LEGEND)
    assert len(looks) >= least
    for look in looks:
        assert (look["swatch"], look["dashes"]) == (look["line"], _DASHES[look["dash"]]), look


def test_every_swatch_has_the_colour_and_the_dashes_of_its_line(open_page: Any, faulty: Path, compared: Any) -> None:
    for path, least in ((faulty, 25), (compared[0], 20)):
        page = open_page(path)
        assert_the_legend_is_true(page, least)
        page.click("#theme")
        page.wait_for_timeout(400)
        assert_the_legend_is_true(page, least)
        # Lines that are drawn later take the colours that are free.
        page.locator("[data-chart=activation] [data-act=draw]").click()
        page.wait_for_timeout(400)
        assert_the_legend_is_true(page, least + 5)
        page.check()


def test_a_page_with_findings_fits_narrow_and_wide_screens(open_page: Any, faulty: Path) -> None:
    page = open_page(faulty, width=320, dark=True)
    for width in (320, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(400)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.clashes() == []
        inside = page.evaluate(
            """() => [...document.querySelectorAll(".annotation-text")].every(label => {
                 const [box, frame] = [label, label.closest(".drawing")].map(each => each.getBoundingClientRect());
                 return box.top >= frame.top - 1 && box.left >= frame.left && box.right <= frame.right;
               })"""
        )
        assert inside


def test_a_chart_is_read_and_zoomed_with_the_keyboard(open_page: Any, faulty: Path) -> None:
    page = open_page(faulty)
    traces = page.traces("loss")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('[data-chart=loss] .drawing') !== null"):
            break
    assert page.evaluate("document.activeElement.className").startswith("drawing")
    assert page.locator("#loss-keys").is_visible()
    reading = page.locator("[data-chart=loss] .reading")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    step, value = traces[0]["x"][1], traces[0]["y"][1]
    assert reading.inner_text().startswith(f"step {step}: training {float(f'{value:.4g}'):g}")
    assert reading.get_attribute("aria-live") == "polite"
    assert page.locator("[data-chart=loss] .hoverlayer .hovertext, [data-chart=loss] .hoverlayer .legend").count() > 0

    def span() -> float:
        low, high = page.evaluate("document.querySelector('[data-chart=loss] .drawing')._fullLayout.xaxis.range")
        return float(high - low)

    whole = span()
    page.keyboard.press("+")
    page.wait_for_function(
        "w => { const r = document.querySelector('[data-chart=loss] .drawing')._fullLayout.xaxis.range;"
        " return Math.abs(r[1] - r[0] - w / 2) < 1; }",
        arg=whole,
    )
    for _ in range(80):  # past the edge of what is shown: the view follows
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(200)
    assert reading.inner_text().startswith(f"step {traces[0]['x'][-1]}:")
    zoomed = span()
    page.click("#theme")  # draws anew
    page.wait_for_timeout(400)
    assert span() == pytest.approx(zoomed)
    page.locator("[data-chart=loss] .drawing").focus()
    page.keyboard.press("0")
    page.wait_for_timeout(200)
    assert span() == pytest.approx(whole)
    page.check()


# --------------------------------------------------------------------------- comparison


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, made_up: Any) -> tuple[Path, dict[str, list[dict[str, Any]]]]:
    """A page of three runs, one of a hostile name, with their rows."""
    folder = tmp_path_factory.mktemp("compared")
    logs = {
        "plain": made_up.rows(count=40, layers=2, log_every=10, seed=3),
        "other": made_up.rows(count=29, layers=1, log_every=10, seed=5),
        "<img src=x onerror=alert(1)>": made_up.rows(count=31, layers=2, log_every=10, seed=7),
    }
    runs = [made_up.write_run(folder / name, rows) for name, rows in logs.items()]
    return write_comparison(runs, folder / "comparison.html"), logs


def test_a_comparison_plots_the_values_of_every_log(open_page: Any, compared: Any) -> None:
    path, logs = compared
    page = open_page(path)
    assert page.evaluate("document.querySelectorAll('section').length") == 7
    assert page.evaluate("document.querySelectorAll('[data-chart]').length") == 8
    for chart, keys in {
        "loss": {"validation": "val_loss", "training": "train_loss"},
        "learning_rate": {"": "learning_rate"},
        "grad_norm": {"": "grad_norm"},
        "verbs": {"regular verbs": "regular_loss", "irregular verbs": "irregular_loss"},
    }.items():
        traces = {trace["name"]: trace for trace in page.traces(chart)}
        for run, rows in logs.items():
            for what, key in keys.items():
                name = " · ".join(filter(None, (run, what))).replace("<", "&lt;").replace(">", "&gt;")
                plotted = {x: y for x, y in zip(traces[name]["x"], traces[name]["y"], strict=True) if y is not None}
                assert plotted == {row["step"]: row[key] for row in rows if row[key] is not None}, (run, key)
    layers = {trace["name"]: trace for trace in page.traces("update_ratio")}
    for row, ratio in zip(logs["other"], layers["other · blocks.0.ffn.W1"]["y"], strict=True):
        assert ratio == pytest.approx(row["inspect"]["update_ratio"]["blocks.0.ffn.W1"], rel=1e-6)
    medians = [trace for trace in page.traces("activation") if trace["visible"] is True]
    assert [trace["kind"] for trace in medians] == ["fixed"] * 3
    assert len({trace["color"] for trace in medians}) == 3
    assert page.requests == [path.resolve().as_uri()]
    page.check()


def test_layers_of_a_comparison_are_picked_by_keyboard_in_the_colour_of_their_run(
    open_page: Any, compared: Any
) -> None:
    page = open_page(compared[0])
    search = page.locator("[data-chart=activation] input[type=search]")
    search.fill("other · blocks.0.attn")
    search.focus()
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("End")
    page.keyboard.press("Space")
    traces = {trace["name"]: trace for trace in page.traces("activation") if trace["visible"] is True}
    assert "other · blocks.0.attn" in traces
    assert traces["other · blocks.0.attn"]["color"] == traces["other · median"]["color"]
    page.check()


def test_a_comparison_fits_every_width_and_keeps_hostile_names_inert(open_page: Any, compared: Any) -> None:
    page = open_page(compared[0], width=320, dark=True)
    for width in (320, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(400)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.clashes() == []
    assert page.evaluate("document.querySelectorAll('body img').length") == 0
    assert "<img src=x onerror=alert(1)>" in page.locator(".runs").inner_text()
    page.click("#language")
    page.wait_for_timeout(200)
    assert page.locator("h1").inner_text() == "Comparación de 3 ejecuciones"
    assert "plain · mediana" in page.locator("[data-chart=activation] .entries").inner_text()
    page.check()


# --------------------------------------------------------------------------- live


def test_a_live_page_follows_the_run_and_keeps_what_its_reader_chose(
    open_page: Any, made_up: Any, tmp_path: Path
) -> None:
    rows = made_up.rows(count=40, layers=2, log_every=10)
    rows[35]["future_leak"] = 0.25
    run = made_up.write_run(tmp_path / "run", rows[:20], finished=None)
    log = run / "inspector.log.jsonl"
    log.unlink()
    with LogWriter(log) as writer:
        for row in rows[:20]:
            writer.write(row)
        with serve_live(run) as address:
            page = open_page(address, offline=False)
            page.wait_for_function("document.documentElement.dataset.live === 'running'")
            assert "Live" in page.locator("#live").inner_text()
            assert len(page.traces("loss")[0]["x"]) == 20
            # What a reader does: another theme and language, a line hidden, a zoom, a table open, the focus in a list.
            page.click("#theme")
            page.click("#language")
            page.locator("[data-chart=loss] [role=option]").nth(1).click()
            page.evaluate(
                "Plotly.relayout(document.querySelector('[data-chart=grad_norm] .drawing'), {'xaxis.range': [50, 150]})"
            )
            page.locator("#loss details summary").click()
            page.locator("[data-chart=activation] input[type=search]").focus()
            page.keyboard.type("ffn")
            for row in rows[20:]:
                writer.write(row)
            page.wait_for_function(
                "document.querySelector('[data-chart=loss] .drawing').data[0].x.length === 40", timeout=30_000
            )
            loss = page.traces("loss")
            assert loss[0]["y"] == [row["train_loss"] for row in rows]
            assert [trace["visible"] for trace in loss] == [True, False, True, True]
            assert page.evaluate("document.documentElement.dataset.theme") == "dark"
            assert page.evaluate("document.documentElement.lang") == "es"
            axis = page.evaluate("document.querySelector('[data-chart=grad_norm] .drawing')._fullLayout.xaxis.range")
            assert axis == [50, 150]
            assert page.evaluate("document.querySelector('#loss details').open")
            assert page.locator("#loss table").inner_text().splitlines()[-1].startswith("400")
            assert page.evaluate("document.activeElement.value") == "ffn"
            # The finding that turned up meanwhile, in the reader's language.
            assert "1 hallazgo" in page.locator(".verdict").inner_text()
            assert "broken-mask en el paso 360" in page.locator("#loss .findings").inner_text()
            assert page.locator("#loss .findings").get_attribute("aria-label") == "Hallazgos"
            assert page.evaluate("document.querySelector('[data-chart=loss] .drawing')._fullLayout.shapes.length") == 2
            # The last row reaches the page although the server ends at once.
            page.evaluate("window.stillHere = true")
    end = time.monotonic() + 20
    while page.evaluate("document.documentElement.dataset.live") == "running" and time.monotonic() < end:
        page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.dataset.live") in ("ended", "gone")
    assert page.evaluate("window.stillHere") is True
    assert all(url.startswith(address) for url in page.requests if not url.startswith("data:"))
    unexpected = [line for line in page.complaints if "ERR_CONNECTION_REFUSED" not in line]
    assert unexpected == []


def test_a_live_page_begins_before_there_is_a_row_and_reloads_itself_when_charts_appear(
    open_page: Any, made_up: Any, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with serve_live(run) as address:
        page = open_page(address, offline=False)
        assert page.evaluate("document.querySelectorAll('[data-chart]').length") == 0
        page.click("#theme")
        page.click("#language")
        run.mkdir()
        with LogWriter(run / "inspector.log.jsonl") as writer:
            for row in made_up.rows(count=11, layers=1):
                writer.write(row)
        page.wait_for_function(
            "document.querySelectorAll('[data-chart]').length === 8"
            " && document.documentElement.dataset.state === 'drawn'",
            timeout=30_000,
        )
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.evaluate("document.documentElement.lang") == "es"
        plotted = [value for value in page.traces("loss")[0]["y"] if value is not None]
        assert len(plotted) == 11
        assert all(map(math.isfinite, plotted))
