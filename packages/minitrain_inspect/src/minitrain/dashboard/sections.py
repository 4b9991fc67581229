"""HTML of the parts of a page: a panel with its charts, lists, tables and findings.

Every string that came from a run passes `escaped` on its way: names are shown as they are and never run. Both languages
are in the page; a style rule shows one.
"""

import html

from .chart import Chart, Entry, Table
from .findings import Marked, headline
from .healthy import Band
from .panels import Panel, Part
from .style import DASHES, LIGHT_LINES
from .text import (
    ADVICE,
    CAUSE,
    FINDINGS,
    HEALTHY,
    HIDE_ALL,
    KEYS,
    LANGUAGES,
    LINES,
    NO_SCRIPT,
    SEARCH,
    SHOW_MATCHES,
    TABLE,
    Text,
)

_HALF_WIDTH = frozenset({"learning_rate", "grad_norm"})


def panel_section(panel: Panel, language: str) -> str:
    """A panel of the page, in both languages and labelled in `language`."""
    width = "panel half" if panel.key in _HALF_WIDTH else "panel"
    return (
        f'<section class="{width}" id="{panel.key}" aria-labelledby="{panel.key}-title">'
        f'<h2 id="{panel.key}-title"><span class="number">{panel.number}</span>{both(panel.title)}</h2>'
        f'<p class="question">{both(panel.question)}</p>'
        + "".join(_part(part, language) for part in panel.parts)
        + "</section>"
    )


def _part(part: Part, language: str) -> str:
    heading = f"<h3>{both(part.heading)}</h3>" if part.heading else ""
    words = " ".join(both(text) for text in part.summary)
    if part.chart is None:
        return f'{heading}<p class="summary nothing">{words}</p>{_findings(part.found, language)}'
    chart = part.chart
    tools = ""
    if chart.many:
        tools = (
            f'<div class="tools"><label>{both(SEARCH)} '
            '<input type="search" autocomplete="off" spellcheck="false"></label>'
            f'<button type="button" data-act="draw">{both(SHOW_MATCHES)}</button>'
            f'<button type="button" data-act="hide">{both(HIDE_ALL)}</button></div>'
        )
    entries = "".join(_entry(chart, place, entry) for place, entry in enumerate(chart.entries))
    return (
        f'{heading}<p class="summary" id="{chart.key}-summary">{words}</p>{_band(part.band)}'
        f'<div class="chart {"many" if chart.many else "few"}" data-chart="{chart.key}">'
        f'<div class="plot"><div class="drawing" role="group" tabindex="0" {label(chart.label, language)} '
        f'aria-describedby="{chart.key}-summary {chart.key}-keys"><noscript>{both(NO_SCRIPT)}</noscript></div>'
        f'<p class="keys" id="{chart.key}-keys">{both(KEYS)}</p><p class="reading" aria-live="polite"></p></div>'
        f'<div class="chart-list">{tools}'
        f'<ul class="entries" role="listbox" aria-multiselectable="true" tabindex="0" {label(LINES, language)}>'
        f"{entries}</ul></div></div>"
        f"{_findings(part.found, language)}"
        f"<details><summary>{both(TABLE)}</summary>{table_html(chart.table)}</details>"
    )


def _band(band: Band | None) -> str:
    if band is None:
        return ""
    return f'<p class="band"><span class="patch"></span>{both(HEALTHY)} {both(band.words)}</p>'


def _findings(found: tuple[Marked, ...], language: str) -> str:
    """The findings of a chart, each with the number it has in the drawing."""
    if not found:
        return ""
    entries = "".join(
        f'<li id="finding-{marked.number}" class="{marked.finding.severity}-finding">'
        f'<p class="title"><span class="badge">{marked.number}</span> <strong>{both(marked.name)}</strong> '
        f'<span class="place">{both(headline(marked))}</span></p>'
        f'<p class="evidence">{"; ".join(both(text) for text in marked.finding.shown_evidence())}</p>'
        f"<p>{both(CAUSE)} {both(marked.finding.cause)}</p><p>{both(ADVICE)} {both(marked.finding.advice)}</p></li>"
        for marked in found
    )
    return f'<ul class="findings" {label(FINDINGS, language)}>{entries}</ul>'


def _entry(chart: Chart, place: int, entry: Entry) -> str:
    if entry.kind in ("inner", "outer"):
        mark = f'<rect class="band-{entry.kind}" x="0.5" y="0.5" width="25" height="11"/>'
    elif entry.kind == "fixed":
        dash = DASHES.index(entry.dash) if entry.dash else 0
        look = f'class="median d{dash}"'
        if entry.slot is not None:
            look = f'class="d{dash}" style="stroke: var(--line-{entry.slot})"'
        mark = f'<line {look} x1="0" y1="6" x2="26" y2="6"/>'
    else:
        colour = dash = 0
        if entry.slot is not None:
            colour, dash = entry.slot % len(LIGHT_LINES), entry.slot // len(LIGHT_LINES) % len(DASHES)
        dash = DASHES.index(entry.dash) if entry.dash else dash
        look = f'class="d{dash}" style="stroke: var(--line-{colour})"'
        mark = f'<line data-slot="" {look} x1="0" y1="6" x2="26" y2="6"/>'
    note = f'<span class="note">{both(entry.note)}</span>' if entry.note else ""
    disabled = ' aria-disabled="true"' if not entry.traces else ""
    return (
        f'<li role="option" id="{chart.key}-{place}" aria-selected="{str(entry.shown).lower()}"{disabled}>'
        f'<svg class="swatch" viewBox="0 0 26 12" aria-hidden="true">{mark}</svg>'
        f'<span class="name">{both(entry.name)}</span>{note}</li>'
    )


def table_html(table: Table, style: str = "") -> str:
    """A table that scrolls in itself; `style` is a class."""

    def cell(value: Text | str) -> str:
        return both(value) if isinstance(value, Text) else escaped(value)

    head = "".join(f'<th scope="col">{both(text)}</th>' for text in table.header)
    body = "".join(
        f'<tr><th scope="row">{cell(first)}</th>' + "".join(f"<td>{cell(value)}</td>" for value in rest) + "</tr>"
        for first, *rest in table.rows
    )
    return (
        f'<div class="scroll" tabindex="0"><table class="{style}"><caption>{both(table.caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def escaped(text: str) -> str:
    """`text` for HTML, also inside quotes; a lone surrogate, which UTF-8 cannot hold, becomes a question mark."""
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"))


def both(text: Text) -> str:
    """The text in both languages, once where they agree."""
    if text.en == text.es:
        return escaped(text.en)
    return f'<span class="en" lang="en">{escaped(text.en)}</span><span class="es" lang="es">{escaped(text.es)}</span>'


def label(text: Text, language: str) -> str:
    """Attributes that label an element in the page's language and let the script change it."""
    now = text[LANGUAGES.index(language)]
    return f'aria-label="{escaped(now)}" data-label-en="{escaped(text.en)}" data-label-es="{escaped(text.es)}"'
