"""The worksheet's pages: what is written is what was computed, in both languages, and nothing from outside is run."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest
from minimodel.transformer import TransformerBlock, worksheet
from minimodel.transformer.worksheets import hand_example, words
from minimodel.transformer.worksheets.colours import DARK, LIGHT, css_variables, heat
from minimodel.transformer.worksheets.digits import cell, decimals_of, equals, factor, largest, short, summed, tex
from minimodel.transformer.worksheets.mathml import inline_pieces, mathml
from minimodel.transformer.worksheets.sources import SOURCES
from minimodel.transformer.worksheets.tables import WIDEST, position_labels, table_of

HOSTILE = ["<script>alert(1)</script>", "|$x$", "a_b*`c`", '"><b>', "&amp;\\", "\n", " ", "\x07", ""]


def sheet_of(rng, *, length=5, d_model=12, n_heads=3, d_ff=13, **others):
    language, tokens = others.pop("language", "en"), others.pop("tokens", None)
    block = TransformerBlock(d_model, n_heads, d_ff, bias=True, rope=True, rng=rng, **others)
    return worksheet(block, rng.standard_normal((length, d_model)), language=language, tokens=tokens)


def tree_of(page):
    """A page as XML; every `&` that is not one of XML's own would fail here."""
    return ET.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


def cells_of(table):
    """The numbers of a table, rows by columns, as they are written."""
    return [["".join(cell.itertext()) for cell in row.iter("td")] for row in table.find("tbody").iter("tr")]


def results_of(tree):
    """Name of each step to its table."""
    found = {}
    for figure in tree.iter("figure"):
        if figure.get("class").startswith("result"):
            found[figure.find("figcaption/code").text] = figure.find(".//table")
    return found


@pytest.mark.parametrize("language", ["en", "es"])
def test_html_holds_every_value_to_the_digits_it_shows(rng, language):
    sheet = sheet_of(rng, language=language)
    tables = results_of(tree_of(sheet.html()))
    assert list(tables) == list(sheet.values)
    for name, value in sheet.values.items():
        written = [
            [float(text.replace("−", "-").replace("∞", "inf")) for text in row] for row in cells_of(tables[name])
        ]
        np.testing.assert_allclose(
            written, value, atol=6e-5 * max(1.0, np.abs(value[np.isfinite(value)]).max()), rtol=0
        )


@pytest.mark.parametrize("language", ["en", "es"])
def test_markdown_holds_every_value_to_the_digits_it_shows(rng, language):
    sheet = sheet_of(rng, language=language)
    found = {}
    for name, table in re.findall(r"^\$[^\n]*\$ · `([\w.]+)` · [^\n]*\n\n((?:\|.*\n)+)", str(sheet), re.MULTILINE):
        rows = [line.strip("|\n").split("|") for line in table.splitlines()]
        assert len({len(row) for row in rows}) == 1, name
        found[name] = [[float(text.replace("∞", "inf")) for text in row[1:]] for row in rows[2:]]
    assert list(found) == list(sheet.values)
    for name, value in sheet.values.items():
        np.testing.assert_allclose(
            found[name], value, atol=6e-5 * max(1.0, np.abs(value[np.isfinite(value)]).max()), rtol=0, err_msg=name
        )


def test_every_parameter_stands_beside_the_step_that_uses_it(rng):
    sheet = sheet_of(rng)
    given = [name for step in sheet.steps for name in step.given]
    assert sorted(given) == sorted(sheet.parameters)
    tree = tree_of(sheet.html())
    shown = [
        figure.find("figcaption/code").text for figure in tree.iter("figure") if figure.get("class").startswith("given")
    ]
    assert shown == given
    assert all(f"`{name}`" in str(sheet) for name in given)


def test_every_step_names_symbol_shape_equation_and_source(rng):
    sheet = sheet_of(rng)
    articles = list(tree_of(sheet.html()).iter("article"))
    assert len(articles) == len(sheet.steps)
    for step, article in zip(sheet.steps, articles, strict=True):
        text = "".join(article.itertext())
        assert str(step.value.shape) in text, step.name
        assert article.find(".//figcaption/math") is not None, step.name
        assert SOURCES[step.kind] in text
        assert bool(SOURCES[step.kind]) == (step.name != "x")
        assert len(article.findall("div[@class='equation']/math")) == len(step.equations)
        if step.name != "x" and step.kind not in ("cos", "sin"):  # whose symbol says it
            assert step.equations, step.name


def test_numbers_worked_out_end_in_the_entry_they_name(rng):
    checked = 0
    for step in [*sheet_of(rng).steps, *worksheet(*hand_example()).steps]:
        if step.worked:
            end = re.split(r"= |\\approx ", step.worked)[-1]
            number = float(end.replace(r"\infty", "inf"))
            assert number == pytest.approx(step.value[step.entry], rel=6e-5), step.name
            checked += 1
    assert checked > 60


@pytest.mark.parametrize("switches", [{}, {"causal": False}, {"length": 1}, {"length": 20}, {"n_heads": 1}])
def test_every_step_but_the_given_one_is_worked_out(rng, switches):
    assert [step.name for step in sheet_of(rng, **switches).steps if not step.worked] == ["x"]


def test_the_mask_the_maximum_and_the_joined_heads_are_worked_out(rng):
    worked = {step.name: step.worked for step in worksheet(*hand_example()).steps}
    assert worked["attn.head0.masked"] == r"1 \gt 0, \quad m_{0,1} = -\infty"
    assert worked["attn.head0.max"] == r"\max(0.47835, -0.37815) \approx 0.47835"
    assert worked["attn.joined"] == r"o_{1,3} \approx 0.25218"
    worked = {step.name: step.worked for step in sheet_of(rng, length=1, causal=True).steps}
    assert worked["attn.head0.masked"].startswith(r"0 \le 0, \quad m_{0,0}")
    assert worked["attn.joined"].startswith(r"2 \cdot 4 + 3 = 11, \quad o_{0,11}")
    worked = {step.name: step.worked for step in sheet_of(rng, causal=False).steps}
    assert worked["attn.head0.masked"].startswith("m_{4,")


def test_a_long_maximum_is_cut_but_keeps_the_largest():
    assert largest(np.arange(3.0)) == r"\max(0, 1, 2)"
    row = -np.arange(20.0)
    assert largest(row) == r"\max(0, -1, -2, \cdots, -19)"
    row[10] = 5
    assert largest(row) == r"\max(0, -1, -2, \cdots, 5, \cdots, -19)"
    row[10], row[18] = -10, 5
    assert largest(row) == r"\max(0, -1, -2, \cdots, 5, -19)"


def test_no_letter_has_two_meanings(rng):
    sheet = sheet_of(rng)
    meanings = {}
    for step in sheet.steps:
        accent = re.match(r"\\(hat|bar|tilde)", step.symbol)
        letter = re.sub(r"\\(mathbf|hat|bar|tilde)|_.*|[{}]", "", step.symbol)  # indices tell the entries of one apart
        square = "^2" if step.symbol.endswith("^2") else ""
        prime = "'" if step.section in ("ln2", "ffn") and "'" in step.symbol else ""
        key = (accent[1] if accent else "", letter.strip("'").lower() + prime + square)
        meanings.setdefault(key, set()).add(step.kind)
        # K is the size of a head and, in bold, the keys: so they are called everywhere.
        assert letter.strip("'").upper() not in ("T", "D", "H", "F"), f"{step.name}: a size has this letter"
    shared = [kinds for kinds in meanings.values() if len(kinds) > 1]
    assert shared == [{"head_out", "joined"}], "a head's output is a part of the joined one"
    # An entry is written with the letter of its matrix, small; what is left are parameters.
    letters = {re.sub(r"\\mathbf|[{}']|_.*|\^.*", "", step.symbol).lower() for step in sheet.steps}
    for step in sheet.steps:
        for equation in step.equations:
            entries = re.findall(r"(\\(?:hat|bar|tilde)\{\\?\w+\}|\\?[a-z]+)'?_(?:t\b|\{t,)", equation)
            assert all(re.sub(r"[{}]", "", entry) in letters for entry in entries), (step.name, entries)


def test_worked_sums_are_right(rng):
    # What stands before the sign is arithmetic that Python understands once LaTeX's signs are its own.
    for step in worksheet(*hand_example()).steps:
        before = re.split(r" = | \\approx ", step.worked)[0]
        before = re.sub(r"\\frac\{([^{}]*)\}\{\\sqrt\{(\d+)\}\}", r"(\1)/\2**0.5", before)
        before = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)", before)
        before = re.sub(r"10\^\{(-\d+)\}", r"1e\1", before)
        before = re.sub(r"\\sqrt\{([^{}]*)\}", r"(\1)**0.5", before)
        before = re.sub(r"\\(tanh|exp) ?(\(.*?\)|[\d.]+)", r"np.\1(\2)", before)
        before = before.replace(r"\cdot", "*").replace("^", "**").replace(r"\max", "max")
        if before and step.kind not in ("masked", "joined"):  # which are looked up, not computed
            value = eval(before, {"np": np})
            assert value == pytest.approx(step.value[step.entry], abs=2e-4), (step.name, before)


def test_the_two_languages_say_different_things_about_the_same_numbers():
    english, spanish = (worksheet(*hand_example(), language=language) for language in ("en", "es"))
    assert list(english.values) == list(spanish.values)
    assert "Attention weights" in str(english)
    assert "Pesos de atención" in str(spanish)
    tree = tree_of(spanish.html())
    for style in list(tree.iter("style")):
        style.text = ""
    for text in ("\n".join(tree.itertext()), str(spanish)):
        ours = re.sub(r"“[^”]*”|`[^`]*`", "", text)  # titles of papers and names in code stay as they are
        assert "Fuente" in ours
        assert not re.search(r"\b(the|each|row|rows|Given|Source|shape)\b", ours)
    assert '<html lang="es">' in spanish.html()
    assert re.findall(r"\$\$.*?\$\$", str(english)) == re.findall(r"\$\$.*?\$\$", str(spanish))


def test_every_word_is_in_both_languages():
    def all_words(value):
        if isinstance(value, words.Words):
            yield value
        elif isinstance(value, dict):
            for item in value.values():
                yield from all_words(item)
        elif isinstance(value, tuple):
            for item in value:
                yield from all_words(item)

    found = [text for value in vars(words).values() for text in all_words(value)]
    assert len(found) > 60
    for text in found:
        assert text.en.strip(), text
        assert text.es.strip(), text
        assert re.findall(r"\{\w+\}", text.en) == re.findall(r"\{\w+\}", text.es)
        if len(text.en.split()) > 2:
            assert text.en != text.es


def test_every_kind_of_step_has_words_and_a_source(rng):
    full = sheet_of(rng, causal=False)
    kinds = {step.kind for sheet in (sheet_of(rng), full) for step in sheet.steps}
    assert kinds == set(words.STEPS) == set(SOURCES)
    assert {step.section for step in full.steps} == set(words.SECTIONS)


def test_tokens_are_shown_and_never_run(rng):
    sheet = sheet_of(rng, length=len(HOSTILE), tokens=HOSTILE)
    page = sheet.html()
    tree = tree_of(page)
    heads = ["".join(head.itertext()) for head in results_of(tree)["x"].find("tbody").iter("th")]
    assert heads == [
        "0 <script>alert(1)</script>",
        "1 |$x$",
        "2 a_b*`c`",
        '3 "><b>',
        "4 &amp;\\",
        "5 ⏎",
        "6 ␣",
        "7 U+0007",
        '8 ""',
    ]
    assert "<script" not in page
    assert not list(tree.iter("script"))
    markdown = str(sheet)
    assert "<script" not in markdown
    assert "|$x$" not in markdown
    assert "1 &#124;&#36;x&#36; |" in markdown


@pytest.mark.parametrize("part", ["html", "_repr_html_"])
def test_a_page_fetches_nothing_and_runs_nothing(rng, part):
    text = getattr(sheet_of(rng), part)()
    assert not re.search(r"https?:|//|url\(|@import|<link|<img|<script|javascript:|\son\w+=", text)


def test_html_has_no_unknown_or_unclosed_element(rng):
    class Balanced(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open, self.seen = [], set()

        def handle_starttag(self, tag, attrs):
            self.seen.add(tag)
            if tag != "meta":
                self.open.append(tag)

        def handle_startendtag(self, tag, attrs):
            assert tag == "meta", "HTML does not know a self-closing tag"

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

    parser = Balanced()
    parser.feed(sheet_of(rng).html())
    assert parser.open == []
    assert parser.seen >= {"math", "table", "figure", "section", "nav"}


def test_a_table_that_may_scroll_can_be_reached_by_keyboard_and_has_a_name(rng):
    boxes = [element for element in tree_of(sheet_of(rng).html()).iter() if element.get("class") == "scroll"]
    columns = [len(next(box.iter("tr"))) - 1 for box in boxes]
    assert min(columns) <= 4 < max(columns)
    for box, count in zip(boxes, columns, strict=True):
        assert (box.get("tabindex"), box.get("role")) == (("0", "region") if count > 4 else (None, None))
    names = [box.get("aria-label") for box in boxes if box.get("role")]
    assert None not in names
    assert len(set(names)) == len(names)


def test_a_notebook_gets_an_element_whose_style_reaches_nothing_else(rng):
    element = sheet_of(rng)._repr_html_()
    assert element.startswith('<div class="worksheet"')
    style = re.search(r"<style>\n(.*?)</style>", element, re.DOTALL)[1]
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    selectors = [selector for rule in re.findall(r"([^{}]+)\{", style) for selector in rule.split(",")]
    selectors = [selector.strip() for selector in selectors if not selector.strip().startswith("@media")]
    assert len(selectors) > 40
    assert [selector for selector in selectors if not selector.startswith(".worksheet")] == []


def test_the_heat_map_gives_each_weight_its_colour(rng):
    sheet = sheet_of(rng)
    table = results_of(tree_of(sheet.html()))["attn.head2.weights"]
    weights = sheet.values["attn.head2.weights"]
    shown = [[cell.get("style") for cell in row.iter("td")] for row in table.find("tbody").iter("tr")]
    assert shown == [[f"--weight: {100 * w:.1f}%" for w in row] for row in weights]
    assert heat(0.0) == "0.0%"
    assert heat(1.0) == "100.0%"


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def mixed(one, other, share):
    return "#" + "".join(
        f"{round(int(one[i : i + 2], 16) * share + int(other[i : i + 2], 16) * (1 - share)):02x}" for i in (1, 3, 5)
    )


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read_on_every_ground(theme):
    for text, grounds in (
        ("ink", ("ground", "card", "tint")),
        ("quiet", ("ground", "card", "tint")),
        ("accent", ("ground", "card")),
    ):
        for ground in grounds:
            assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)
    for share in np.linspace(0, 1, 101):
        assert contrast(theme["ink"], mixed(theme["hot"], theme["card"], share)) >= 4.5
    assert contrast(theme["hot"], theme["card"]) >= 2, "the ends of the ramp can be told apart"
    assert LIGHT.keys() == DARK.keys()
    assert all(f"--{name}: {colour};" in css_variables() for name, colour in theme.items())


def test_wide_tables_are_cut_and_say_so(rng):
    sheet = sheet_of(rng, length=20, d_model=48, n_heads=4, d_ff=100)
    tables = results_of(tree_of(sheet.html()))
    assert sheet.values["ffn.pre"].shape == (20, 100)
    assert [head.text for head in tables["ffn.pre"].find("thead").iter("th")] == [*map(str, range(13)), "…", "98", "99"]
    assert len(cells_of(tables["ffn.pre"])) == 20, "positions are never cut"
    assert len(cells_of(tables["attn.head0.weights"])[0]) == 20, "nor are the attention weights"
    assert len(cells_of(tables["attn.head0.exp"])[0]) == WIDEST
    for page in (str(sheet), sheet.html()):
        assert "16 rows or columns" in page
    assert "16 rows or columns" not in str(sheet_of(rng, length=16, d_model=16, n_heads=2, d_ff=16))


def test_what_is_cut_is_named_and_folded_up_whole(rng):
    sheet = sheet_of(rng, length=20, d_model=48, n_heads=4, d_ff=200)
    tree = tree_of(sheet.html())
    figures = {figure.find("figcaption/code").text: figure for figure in tree.iter("figure")}
    caption = "".join(figures["ffn.pre"].find("figcaption").itertext())
    assert caption.endswith("(T, F) = (20, 200) without columns 13 to 197")
    assert "".join(figures["attn.W_q"].find("figcaption").itertext()).endswith("rows 13 to 45 and columns 13 to 45")
    for name, array in {**sheet.values, **sheet.parameters}.items():
        details = figures[name].find("details")
        matrix = np.atleast_2d(array)
        if name.endswith(".weights") or max(matrix.shape[1], len(matrix) if name in sheet.parameters else 0) <= WIDEST:
            assert details is None, name
        elif array.size > 8192:
            assert name in ("ffn.W1", "ffn.W2")
            assert details is None
        else:
            assert details.find("summary").text == f"All {array.size} numbers"
            cells = cells_of(details.find(".//table"))
            np.testing.assert_allclose(
                [[float(text.replace("−", "-").replace("∞", "inf")) for text in row] for row in cells],
                matrix,
                atol=6e-5 * max(1.0, np.abs(matrix[np.isfinite(matrix)]).max()),
                rtol=0,
            )
    assert "folded up" in sheet.html()
    assert "folded up" not in str(sheet)
    assert "without columns 13 to 197" in str(sheet)


@pytest.mark.parametrize("language", ["en", "es"])
def test_a_page_names_nothing_of_the_python_object(rng, language):
    sheet = sheet_of(rng, length=20, d_model=48, n_heads=4, language=language)
    for page in (sheet.html(), str(sheet)):
        assert not re.search(r"\.(values|parameters)\b", page)


@pytest.mark.parametrize("language", ["en", "es"])
def test_a_block_without_rope_says_where_positions_come_in(rng, language):
    text = str(worksheet(*hand_example(), language=language))
    assert {
        "en": "- Positions: no rotation (RoPE) in this block; position embeddings, where the model has them,",
        "es": "- Posiciones: en este bloque no hay rotación (RoPE); los vectores de posición, si el modelo",
    }[language] in text


def test_a_matrix_is_cut_both_ways_and_a_vector_is_one_row():
    table = table_of(np.arange(400.0).reshape(20, 20))
    assert [head for head, _ in table.rows] == [*map(str, range(13)), "…", "18", "19"]
    assert table.rows[13][1] == ("…",) * 16
    assert table.rows[14][1][-1] == "379"
    assert table.cut
    vector = table_of(np.array([1.0, 2.5]))
    assert vector.rows == (("", ("1.0", "2.5")),)
    assert not vector.cut


def test_labels_of_positions():
    assert position_labels(3, None) == ["0", "1", "2"]
    assert position_labels(2, ["a", " "]) == ["0 a", "1 ␣"]


@pytest.mark.parametrize(
    ("numbers", "written"),
    [
        ([0.1, 0.2, 0.3], ["0.1", "0.2", "0.3"]),
        ([1 / 3, 0.0, -1e-9], ["0.33333", "0", "0.00000"]),
        ([1000.0, 0.5], ["1000.0", "0.5"]),
        ([12345.678, 1.0], ["12346", "1"]),
        ([2.0, -3.0], ["2", "-3"]),
        ([0.0, 0.0], ["0", "0"]),
        ([1e-7, 2.5e-8], ["1.0000·10⁻⁷", "2.5000·10⁻⁸"]),
        ([3e12, -1.0], ["3.0000·10¹²", "-1.0000·10⁰"]),
        ([-np.inf, 0.25], ["-∞", "0.25"]),
        ([np.inf, np.nan], ["∞", "NaN"]),
    ],
)
def test_numbers_of_a_table(numbers, written):
    array = np.array(numbers)
    assert [cell(value, decimals_of(array)) for value in array] == written


def test_tenths_in_float32_are_tenths():
    array = np.array([0.1, 0.7, -1.3], np.float32)
    assert [cell(value, decimals_of(array)) for value in array] == ["0.1", "0.7", "-1.3"]


@pytest.mark.parametrize(
    ("number", "written", "as_factor"),
    [
        (0.5, "0.5", "0.5"),
        (-0.25, "-0.25", "(-0.25)"),
        (1 / 3, "0.33333", "0.33333"),
        (1e-5, "10^{-5}", "(10^{-5})"),
        (-2.5e-9, r"-2.5 \cdot 10^{-9}", r"(-2.5 \cdot 10^{-9})"),
        (-0.0, "0", "0"),
        (-np.inf, r"-\infty", r"(-\infty)"),
    ],
)
def test_numbers_of_a_formula(number, written, as_factor):
    assert tex(number) == written
    assert factor(number) == as_factor


def test_equal_only_where_the_digits_are_all():
    assert equals(np.float64(0.25)) == "= 0.25"
    assert equals(np.float64(0.1) * 3) == "= 0.3"
    assert equals(np.float64(1) / 3) == r"\approx 0.33333"
    assert equals(np.float32(0.1)) == "= 0.1"
    assert equals(np.float64(0.1) + 1e-9) == r"\approx 0.1"


def test_long_sums_are_cut_but_keep_their_bias():
    assert summed(list("abcdefgh")) == "a + b + c + d + e + f + g + h"
    assert summed(list("abcdefghi"), "z") == r"a + b + c + \cdots + i + z"
    assert short(1e-5) == "10⁻⁵"
    assert short(2.5e-6) == "2.5·10⁻⁶"
    assert short(0.001) == "0.001"


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("x_{t,i}^2", "<msubsup><mi>x</mi><mrow><mi>t</mi><mo>,</mo><mi>i</mi></mrow><mn>2</mn></msubsup>"),
        (r"\mu'_t", "<msubsup><mi>μ</mi><mi>t</mi><mo>′</mo></msubsup>"),
        (r"\sigma_t'^2", "<msubsup><mi>σ</mi><mi>t</mi><mrow><mo>′</mo><mn>2</mn></mrow></msubsup>"),
        (r"\frac{1}{D}", "<mfrac><mn>1</mn><mi>D</mi></mfrac>"),
        (r"\sqrt{K}", "<msqrt><mi>K</mi></msqrt>"),
        (r"\sum_j e", "<munder><mo>∑</mo><mi>j</mi></munder><mi>e</mi>"),
        (r"\mathbf{K}^\top", "<msup><mi>𝐊</mi><mo>⊤</mo></msup>"),
        (r"\bar{s}", '<mover accent="true"><mi>s</mi><mo stretchy="false">¯</mo></mover>'),
        ("a - b", '<mi>a</mi><mo form="infix">−</mo><mi>b</mi>'),
        ("a = -b", '<mi>a</mi><mo form="infix">=</mo><mo form="prefix">−</mo><mi>b</mi>'),
        (
            "(-1)",
            '<mrow><mo stretchy="false">(</mo><mo form="prefix">−</mo><mn>1</mn><mo stretchy="false">)</mo></mrow>',
        ),
        (r"\left( a \right)", "<mrow><mo>(</mo><mi>a</mi><mo>)</mo></mrow>"),
        (r"j \gt t", "<mi>j</mi><mo>&gt;</mo><mi>t</mi>"),
        (r"-\infty", '<mo form="prefix">−</mo><mn>∞</mn>'),
    ],
)
def test_formulas_become_mathml(latex, expected):
    assert mathml(latex) == f"<math>{expected}</math>"
    ET.fromstring(mathml(latex, block=True))


@pytest.mark.parametrize("latex", [r"\unknown", "x_{t", "x}", r"\frac{1}", "a & b", r"\mathbf{}", r"\left( a", "x_"])
def test_a_formula_that_is_not_understood_is_refused(latex):
    with pytest.raises(ValueError, match="mathml: formulas use a small part of LaTeX; got"):
        mathml(latex)


def test_a_long_formula_may_break_before_its_operators():
    pieces = re.findall(r"<math.*?</math>", inline_pieces(r"(1 + 2) / 3 - 4 = \frac{1 + 1}{2} - 4"))
    texts = ["".join(ET.fromstring(piece).itertext()) for piece in pieces]
    assert texts == ["(1", "+2)/3", "−4", "=1+12", "−4"]
    maximum = inline_pieces(r"\max(1, -2, 3) = 3")
    pieces = re.findall(r"<math.*?</math>", maximum)
    assert ["".join(ET.fromstring(piece).itertext()) for piece in pieces] == ["max(1,", "−2,", "3)", "=3"]
    assert '<mo form="prefix">−</mo><mn>2</mn>' in maximum, "a minus after a comma is a sign"


def test_no_command_ends_in_a_sign_that_markdown_would_eat(rng):
    formulas = re.findall(r"\$+([^$]+)\$+", str(sheet_of(rng)))
    assert len(formulas) > 100
    assert [formula for formula in formulas if re.search(r"\\[^A-Za-z]", formula)] == []
