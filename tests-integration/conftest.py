"""What the browser tests share: a Chromium, pages in it, and what a page can be asked.

Needs Playwright (its Python package) and a Chromium on the path; without either the tests are skipped with the reason.
"""

import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

_CLASHES = """() => {
  const found = [];
  const inside = (one, other) => one.left >= other.left - 1 && one.right <= other.right + 1
    && one.top >= other.top - 1 && one.bottom <= other.bottom + 1;
  const apart = (one, other) => one.right <= other.left || other.right <= one.left
    || one.bottom <= other.top + 3 || other.bottom <= one.top + 3;
  for (const chart of document.querySelectorAll("[data-chart]")) {
    const note = (...what) => found.push([chart.dataset.chart, ...what]);
    const plot = chart.querySelector(".drawing").getBoundingClientRect();
    const list = chart.querySelector(".chart-list").getBoundingClientRect();
    if (plot.width < 200) note("narrow", plot.width);
    if (list.height && !apart(plot, list)) note("list over plot");
    for (const axis of ["x", "y"]) {
      const labels = [...chart.querySelectorAll(`.${axis}tick text`)].map(text => text.getBoundingClientRect());
      const title = chart.querySelector(`.${axis}title`).getBoundingClientRect();
      if (labels.length < 2) note(axis, "ticks");
      labels.forEach((one, at) => {
        if (!inside(one, plot)) note(axis, "label cut");
        if (!apart(one, title)) note(axis, "title on label");
        if (labels.slice(at + 1).some(other => !apart(one, other))) note(axis, "labels overlap");
      });
      if (!inside(title, plot)) note(axis, "title cut");
    }
  }
  return found;
}"""
"""Labels of axes that are cut or cover each other, lists over drawings: an empty list where there are none."""


class Opened:
    """A page in the browser, with everything it complained of and asked for."""

    def __init__(self, context: Any, address: str) -> None:
        self.page = context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)
        self.page.wait_for_selector("html[data-state=drawn]", timeout=60_000)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)

    def traces(self, chart: str) -> list[dict[str, Any]]:
        """Name, visibility and points of each trace, as Plotly holds them."""
        traces: list[dict[str, Any]] = self.page.evaluate(
            """key => document.querySelector(`[data-chart="${key}"] .drawing`).data.map(trace => ({
                 name: trace.name, visible: trace.visible, kind: trace.meta.kind, x: trace.x, y: trace.y,
                 true: trace.customdata, color: trace.line?.color}))""",
            chart,
        )
        return traces

    def drawn_lines(self, chart: str) -> int:
        """How many lines a reader sees: paths with a shape and an extent on the screen."""
        count: int = self.page.evaluate(
            """key => {
                 const paths = document.querySelectorAll(`[data-chart="${key}"] .scatterlayer path.js-line`);
                 return [...paths].filter(path => path.getAttribute("d") && path.getBoundingClientRect().width > 1
                   && getComputedStyle(path).strokeWidth !== "0px").length;
               }""",
            chart,
        )
        return count

    def clashes(self) -> list[Any]:
        """Labels of axes that are cut or cover each other, lists over drawings."""
        found: list[Any] = self.page.evaluate(_CLASHES)
        return found

    def check(self) -> None:
        assert self.complaints == []
        assert all(url.startswith(("file:", "data:", "blob:")) for url in self.requests), self.requests


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the Python package playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium, and none is on the path")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def keep_open(chromium: Any) -> Iterator[Any]:
    """Opens a page that stays until the file's last test: for tests that only look."""
    contexts: list[Any] = []

    def opened(where: Path | str, *, width: int = 1280, dark: bool = False, offline: bool = True) -> Opened:
        # Offline: what the page needed from a network would fail loudly.
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", offline=offline
        )
        contexts.append(context)
        return Opened(context, where if isinstance(where, str) else where.resolve().as_uri())

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def open_page(keep_open: Any) -> Iterator[Any]:
    """Opens a page that is closed after the test."""
    pages: list[Opened] = []

    def opened(where: Path | str, **options: Any) -> Opened:
        pages.append(keep_open(where, **options))
        return pages[-1]

    yield opened
    for page in pages:
        page.close()


@pytest.fixture(scope="session")
def made_up() -> SimpleNamespace:
    """The made-up runs of the dashboard's own tests."""
    tests = Path(__file__).parents[1] / "packages" / "minitrain_inspect" / "tests"
    return SimpleNamespace(**runpy.run_path(str(tests / "synthetic_run.py")))
