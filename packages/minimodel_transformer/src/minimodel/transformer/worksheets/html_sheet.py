"""A worksheet as one HTML page: formulas in MathML, tables, a heat map. No script, and nothing is fetched.

`fragment` is what a notebook shows: it brings its own style, whose rules reach nothing outside it. `page` puts it into
a document. Both are well-formed XML as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any

import numpy.typing as npt

from . import words
from .colours import css_variables, heat
from .content import Line, Section, Setting, Shown, facts_of, remarks_of
from .mathml import inline_pieces, mathml
from .tables import Table
from .words import Language

_ALWAYS_WHOLE = 4
"""Columns of a table that fits a phone: it never scrolls."""

_NARROW = 6
"""Columns of a table that fits half the width of a page."""

_LETTERS = 10
"""Letters as wide as a column of numbers."""

_ROOMY = 12
"""Columns of a table that fits the width of a page with room to spare."""


def page(sections: Sequence[Section], setting: Setting, language: Language) -> str:
    """Return the worksheet as a document."""
    title = escape(words.TITLE.of(language))
    return f"""<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<title>{title}</title>
<style>body {{ margin: 0; }}</style>
</head>
<body>
{fragment(sections, setting, language)}
</body>
</html>
"""


def fragment(sections: Sequence[Section], setting: Setting, language: Language) -> str:
    """Return the worksheet as one element."""
    style = css_variables() + resources.files(__package__).joinpath("sheet.css").read_text("utf-8")
    facts = "".join(
        f"<div><dt><b>{letter}</b> {escape(meaning)}</dt><dd>{escape(value)}</dd></div>"
        for letter, value, meaning in facts_of(setting, language)
    )
    remarks = "".join(
        f"<p>{f'<b>{escape(heading)}:</b> {escape(text)}.' if heading else escape(text)}</p>"
        for heading, text in [*remarks_of(sections, setting, language), *_folded(sections, language)]
    )
    contents = "".join(
        f'<li><a href="#worksheet-{section.key}">{escape(section.title)}</a></li>' for section in sections
    )
    body = "".join(_section(section, language) for section in sections)
    return f"""<div class="worksheet" lang="{language}">
<style>
{style}</style>
<header>
<h1>{escape(words.TITLE.of(language))}</h1>
<p class="lead">{escape(words.SUBTITLE.of(language))}</p>
<dl>{facts}</dl>
<div class="remarks">{remarks}<p>{escape(words.HOW_TO_READ.of(language))}</p></div>
<nav aria-label="{escape(words.CONTENTS.of(language))}"><ol>{contents}</ol></nav>
</header>
{body}</div>"""


def _folded(sections: Sequence[Section], language: Language) -> list[tuple[str, str]]:
    """Return the remark on tables that are folded up, where there are any."""
    items = [item for section in sections for line in section.lines for item in (*line.given, line.result)]
    return [("", words.FOLDED.of(language))] if any(item.whole is not None for item in items) else []


def _section(section: Section, language: Language) -> str:
    steps = "".join(_step(line, language) for line in section.lines)
    return f"""<section id="worksheet-{section.key}">
<h2>{escape(section.title)}</h2>
<p>{escape(section.about)}</p>
<div class="steps">
{steps}</div>
</section>
"""


def _step(line: Line, language: Language) -> str:
    equations = "".join(f'<div class="equation">{mathml(equation, block=True)}</div>' for equation in line.equations)
    given = "".join(_figure(item, language) for item in line.given)
    result = _figure(line.result, language, line)
    worked = (
        f'<p class="worked"><span>{escape(line.entry)}</span> {inline_pieces(line.worked)}</p>' if line.worked else ""
    )
    note = f'<p class="note">{escape(words.HEAT.of(language))}</p>' if line.weights is not None else ""
    source = f'<p class="source">{words.SOURCE.of(language)}: {escape(line.source)}</p>' if line.source else ""
    # Two narrow steps stand side by side where there is room.
    tables = [item.table for item in (*line.given, line.result)]
    has_matrix = any(len(item.table.rows) > 1 for item in line.given)
    wide = has_matrix or any(_width(table) > _NARROW for table in tables)
    return f"""<article{' class="wide"' if wide else ""}>
<h3><span class="number">{line.number}</span> {escape(line.title)}</h3>
{equations}
<div class="tables">{given}{result}</div>
{note}{worked}{source}
</article>
"""


def _width(table: Table) -> int:
    """Return the columns of a table, and as many more as the texts at the heads of its rows take."""
    return len(table.columns) + max(len(label) for label, _ in table.rows) // _LETTERS


def _figure(item: Shown, language: Language, line: Line | None = None) -> str:
    """Return a table with its caption: with a `line` that step's result, without one a given parameter."""
    prefix = words.GIVEN.of(language) if line is None else ""
    weights = line.weights if line is not None else None
    table = item.table
    kind = "given" if line is None else "result" if weights is None else "result heat"
    kind += " dense" if len(table.columns) > _ROOMY else ""
    prefixed = f"<span>{escape(prefix)}</span> " if prefix else ""
    # What scrolls must be reachable without a mouse, and what is reached must have a name (WCAG 2.2, 2.1.1 and 4.1.2).
    name = f"{line.number} {item.name}" if line is not None else f"{prefix} {item.name}"
    hidden = f' <span class="hidden">{escape(item.hidden)}</span>' if item.hidden else ""
    folded = ""
    if item.whole is not None:
        count = len(item.whole.rows) * len(item.whole.columns)
        summary = words.WHOLE.of(language).format(count=count)
        inside = _scrolled(item.whole, f"{name}: {summary}")
        folded = f"<details><summary>{escape(summary)}</summary>{inside}</details>"
    return (
        f'<figure class="{kind}"><figcaption>{prefixed}{mathml(item.symbol)} <code>{escape(item.name)}</code> '
        f'<span class="shape">{escape(item.shape)}</span>{hidden}</figcaption>'
        f"{_scrolled(table, name, weights)}{folded}</figure>"
    )


def _scrolled(table: Table, name: str, weights: npt.NDArray[Any] | None = None) -> str:
    """Return a table in a box that scrolls; its cells are coloured by `weights`, of the same rows and columns."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    rows = []
    for index, (label, cells) in zip(table.indices, table.rows, strict=True):
        shown = []
        for column, text in enumerate(cells):
            heated = ""
            if weights is not None and index is not None:
                heated = f' style="--weight: {heat(float(weights[index, column]))}"'
            shown.append(f"<td{heated}>{_signed(text)}</td>")
        rows.append(f'<tr><th scope="row">{escape(label)}</th>{"".join(shown)}</tr>')
    reachable = f' tabindex="0" role="region" aria-label="{escape(name)}"' if len(table.columns) > _ALWAYS_WHOLE else ""
    return (
        f'<div class="scroll"{reachable}><table><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _signed(text: str) -> str:
    """Return a number with the true minus sign, as wide as a plus."""
    return text.replace("-", "−")
