"""The worksheet's page in a real browser: formulas are typeset, the heat map is coloured, and it fits a phone.

Needs Playwright (its Python package) and a Chromium on the path; without either the tests are skipped with the reason.
"""

import re
import shutil
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from minimodel.transformer import TransformerBlock, worksheet

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need the Python package playwright")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need Chromium, and none is on the path")

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
HOSTILE = ["<bos>", "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "|$x$", " ", "&lt;", "e", "f", "g"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as tool:
        opened = tool.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


def page_of(browser: Any, folder: Path, *, language: Any, width: int, scheme: str = "light") -> Any:
    """The page of a block with wide tables and hostile tokens, with what it complained of and asked for."""
    rng = np.random.default_rng(0)
    block = TransformerBlock(24, 2, 40, bias=True, rope=True, rng=rng)
    sheet = worksheet(block, rng.standard_normal((len(HOSTILE), 24)), language=language, tokens=HOSTILE)
    file = folder / "sheet.html"
    file.write_text(sheet.html(), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    page.heard = []
    page.on("console", lambda message: page.heard.append(message.text))
    page.on("pageerror", lambda error: page.heard.append(str(error)))
    page.on("dialog", lambda dialog: (page.heard.append("dialog"), dialog.dismiss()))
    page.on("request", lambda request: page.heard.append(request.url))
    page.goto(file.resolve().as_uri())
    page.own = file.resolve().as_uri()
    return page


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("language", ["en", "es"])
def test_the_page_fits_asks_for_nothing_and_complains_of_nothing(
    browser: Any, tmp_path: Path, language: str, width: int
) -> None:
    page = page_of(browser, tmp_path, language=language, width=width)
    assert page.heard == [page.own]
    assert page.evaluate("document.documentElement.scrollWidth") == width
    sticking_out = page.evaluate(
        """width => [...document.querySelectorAll(".worksheet *")]
             .filter(e => !e.closest(".scroll, .equation") && e.getBoundingClientRect().right > width + 1)
             .map(e => e.outerHTML.slice(0, 80))""",
        width,
    )
    assert sticking_out == []


@pytest.mark.parametrize("width", [390, 1000])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_wide_tables_scroll_inside_their_card_by_keyboard_too(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    page = page_of(browser, tmp_path, language="en", width=width, scheme=scheme)
    past_the_card = page.evaluate(
        """() => [...document.querySelectorAll("article .scroll, article .equation")].filter(
             e => e.getBoundingClientRect().right > e.closest("article").getBoundingClientRect().right).length"""
    )
    assert past_the_card == 0
    wide = [box for box in page.query_selector_all(".scroll") if box.evaluate("b => b.scrollWidth > b.clientWidth")]
    assert len(wide) > 10
    assert all(box.get_attribute("tabindex") == "0" for box in wide)
    assert all(box.get_attribute("role") == "region" for box in wide)
    assert len({box.get_attribute("aria-label") for box in wide}) == len(wide), "each has a name of its own"
    wide[0].focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("b => b.scrollLeft > 0", arg=wide[0])
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_table_shows_at_its_edge_whether_there_is_more(browser: Any, tmp_path: Path, scheme: str) -> None:
    page = page_of(browser, tmp_path, language="en", width=390, scheme=scheme)
    boxes = page.query_selector_all("figure > .scroll[tabindex]")
    assert all(box.evaluate("b => getComputedStyle(b, '::-webkit-scrollbar').height") == "11px" for box in boxes)
    wide = next(box for box in boxes if box.evaluate("b => b.scrollWidth > b.clientWidth + 100"))
    accent = page.evaluate(
        "[...getComputedStyle(document.querySelector('.worksheet nav a')).color.matchAll(/\\d+/g)].map(Number)"
    )

    reader = page.context.new_page()  # the worksheet's own page may load no picture

    def edge() -> list[int]:
        """The colour that is seen in the middle of the band, half-way down the box."""
        wide.scroll_into_view_if_needed()
        pixel = reader.evaluate(
            """async picture => {
                 const bytes = Uint8Array.from(atob(picture), c => c.charCodeAt(0));
                 const bitmap = await createImageBitmap(new Blob([bytes], {type: "image/png"}));
                 const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
                 canvas.drawImage(bitmap, 0, 0);
                 return [...canvas.getImageData(bitmap.width - 4, bitmap.height / 2, 1, 1).data.slice(0, 3)]}""",
            b64encode(wide.screenshot()).decode(),
        )
        return list(pixel)

    assert edge() == accent
    wide.evaluate("b => b.scrollLeft = b.scrollWidth")
    assert edge() != accent


def test_a_printed_page_holds_whole_tables(browser: Any, tmp_path: Path) -> None:
    page = page_of(browser, tmp_path, language="en", width=718)  # of an A4 sheet with margins of 1 cm
    page.emulate_media(media="print")
    sticking_out = page.evaluate(
        """() => [...document.querySelectorAll("article table")].filter(
             t => t.getBoundingClientRect().right > t.closest("article").getBoundingClientRect().right).length"""
    )
    assert sticking_out == 0
    assert page.evaluate(
        "[...document.querySelectorAll('.scroll')].every(b => getComputedStyle(b).overflowX == 'visible')"
    )


def test_formulas_are_typeset(browser: Any, tmp_path: Path) -> None:
    page = page_of(browser, tmp_path, language="en", width=1200)
    boxes = page.evaluate(
        """() => [...document.querySelectorAll("mfrac")].map(f => {
             const [up, down] = [...f.children].map(c => c.getBoundingClientRect());
             return [up.bottom, down.top, up.height, down.height]})"""
    )
    assert len(boxes) > 10
    for upper_end, lower_start, upper_height, lower_height in boxes:
        assert upper_end <= lower_start + 1, "a fraction has its numerator above its denominator"
        assert min(upper_height, lower_height) > 4
    heights = page.evaluate("[...document.querySelectorAll('math')].map(m => m.getBoundingClientRect().height)")
    assert len(heights) > 100
    assert min(heights) > 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_larger_weight_has_a_stronger_colour(browser: Any, tmp_path: Path, scheme: str) -> None:
    page = page_of(browser, tmp_path, language="es", width=1200, scheme=scheme)
    cells = page.evaluate(
        """() => [...document.querySelectorAll(".heat tbody td")].map(c => [
             parseFloat(c.textContent), getComputedStyle(c).backgroundColor])"""
    )
    assert len(cells) == 2 * 9 * 9
    # The green of `color(srgb r g b)`, which is what mixed colours are.
    green = {weight: float(re.findall(r"[\d.]+", colour)[1]) for weight, colour in cells}
    ordered = np.array([green[weight] for weight in sorted(green)])
    assert len(ordered) > 20
    towards_hot = ordered[0] - ordered if scheme == "light" else ordered - ordered[0]
    assert (np.diff(towards_hot) >= -1e-3).all()
    assert towards_hot[-1] > 0.15
    ground = page.evaluate("getComputedStyle(document.querySelector('.worksheet')).backgroundColor")
    assert (ground == "rgb(15, 18, 20)") == (scheme == "dark")


def test_tokens_are_shown_as_they_are(browser: Any, tmp_path: Path) -> None:
    page = page_of(browser, tmp_path, language="en", width=1200)
    heads = page.evaluate("[...document.querySelector('.heat tbody').querySelectorAll('th')].map(h => h.textContent)")
    assert heads == [f"{t} {token.replace(' ', '␣')}" for t, token in enumerate(HOSTILE)]
