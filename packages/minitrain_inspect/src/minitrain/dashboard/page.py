"""The page: a run folder in, one HTML file out that holds everything and fetches nothing.

`write_dashboard` is the way in. The rest builds strings, and every string that came from a run passes `_escaped` or
`_json` on its way: names are shown as they are and never run. Both languages are in the page; a style rule shows one.
"""

import base64
import hashlib
import html
import json
import os
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from autograd_core.files import write_atomic
from plotly.offline import get_plotlyjs

from .charts import Chart, Entry, Table
from .header import key_figures, settings, status, warnings, what_ran
from .panels import Panel, Part, build_panels
from .record import Record, read_record
from .series import RunSeries, read_series
from .style import DASHES, LIGHT_LINES, css_variables
from .text import (
    ALL_SETTINGS,
    HIDE_ALL,
    LANGUAGES,
    LINES,
    NO_SCRIPT,
    SEARCH,
    SELF_CONTAINED,
    SHOW_MATCHES,
    STEP,
    STEPS_AXIS,
    SWITCH_THEME,
    TABLE,
    Text,
)
from .traces import inert

LOG_NAME = "inspector.log.jsonl"
PAGE_NAME = "dashboard.html"
_HALF_WIDTH = frozenset({"learning_rate", "grad_norm"})


def write_dashboard(run: str | os.PathLike[str], *, language: str = "en") -> Path:
    """Path of the dashboard written into the run folder `run`, as `dashboard.html`.

    Parameters
    ----------
    run : path
        A run folder, finished, running or killed; any of its files may be missing.
    language : "en" or "es"
        Shown first; the page switches between both.

    Raises
    ------
    ValueError
        If `language` is another, `run` is no folder, or the log is damaged other than by a torn last line.
    OSError
        If the page cannot be written; an older one is then untouched.
    """
    if language not in LANGUAGES:
        raise ValueError(f"write_dashboard: `language` is one of {', '.join(LANGUAGES)}; got {language!r}. Use 'en'.")
    folder = Path(run)
    if not folder.is_dir():
        raise ValueError(f"write_dashboard: `run` is a run folder; got {str(folder)!r}. Pass the folder of a run.")
    page = render_page(read_series(folder / LOG_NAME), read_record(folder), language=language)
    target = folder / PAGE_NAME
    write_atomic(target, page)
    return target


def render_page(series: RunSeries, record: Record, *, language: str = "en") -> str:
    """The HTML of the whole page."""
    panels = build_panels(series)
    data = _json(
        {
            "charts": {chart.key: _chart_data(chart) for panel in panels for chart in panel.charts},
            "colours": len(LIGHT_LINES),
            "dashes": DASHES,
            "step": STEP._asdict(),
        }
    )
    scripts = (get_plotlyjs(), _resource("page.js"))
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    # Only these two scripts run, whatever a name contains, and nothing is fetched. 'unsafe-eval' lets browser tests
    # wait for an expression; it opens no way in, since no script here evaluates text.
    policy = f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="{language}" data-language="{language}">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            '<link rel="icon" href="data:,">',
            f"<title>{_escaped(record.name)} · minitrain</title>",
            f"<style>\n{css_variables()}{_resource('page.css')}</style>",
            "</head>",
            "<body>",
            '<div class="page">',
            _header(record, series),
            _navigation(panels),
            "<main>",
            *(_panel(panel, language) for panel in panels),
            "</main>",
            _footer(record),
            "</div>",
            f'<script type="application/json" id="chart-data">{data}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body>",
            "</html>",
            "",
        ]
    )


def _header(record: Record, series: RunSeries) -> str:
    state = "finished" if record.finished else "unfinished"
    figures = "".join(
        f'<div class="figure"><dt>{_both(figure.label)}</dt><dd><span class="value">{_both(figure.value)}</span>'
        + (f'<div class="aside">{_both(figure.aside)}</div>' if figure.aside else "")
        + "</dd></div>"
        for figure in key_figures(record, series)
    )
    return (
        '<header><div class="top"><div>'
        f'<p class="eyebrow">minitrain</p><h1>{_escaped(record.name)}</h1>'
        f'<p class="what">{_both(what_ran(record))}</p>'
        f'<p class="status {state}">{_both(status(record, series))}</p>'
        + "".join(f'<p class="warning">{_both(text)}</p>' for text in warnings(record, series))
        + '</div><div class="switches">'
        f'<button type="button" id="theme">{_both(SWITCH_THEME)}</button>'
        '<button type="button" id="language">'
        '<span class="en" lang="es">Español</span><span class="es" lang="en">English</span></button>'
        f'</div></div><dl class="figures">{figures}</dl></header>'
    )


def _navigation(panels: Iterable[Panel]) -> str:
    links = "".join(f'<li><a href="#{panel.key}">{panel.number} {_both(panel.title)}</a></li>' for panel in panels)
    return f"<nav><ol>{links}</ol></nav>"


def _panel(panel: Panel, language: str) -> str:
    width = "panel half" if panel.key in _HALF_WIDTH else "panel"
    return (
        f'<section class="{width}" id="{panel.key}" aria-labelledby="{panel.key}-title">'
        f'<h2 id="{panel.key}-title"><span class="number">{panel.number}</span>{_both(panel.title)}</h2>'
        f'<p class="question">{_both(panel.question)}</p>'
        + "".join(_part(panel, part, language) for part in panel.parts)
        + "</section>"
    )


def _part(panel: Panel, part: Part, language: str) -> str:
    heading = f"<h3>{_both(part.heading)}</h3>" if part.heading else ""
    words = " ".join(_both(text) for text in part.summary)
    if part.chart is None:
        return f'{heading}<p class="summary nothing">{words}</p>'
    chart = part.chart
    tools = ""
    if chart.many:
        tools = (
            f'<div class="tools"><label>{_both(SEARCH)} '
            '<input type="search" autocomplete="off" spellcheck="false"></label>'
            f'<button type="button" data-act="draw">{_both(SHOW_MATCHES)}</button>'
            f'<button type="button" data-act="hide">{_both(HIDE_ALL)}</button></div>'
        )
    entries = "".join(_entry(chart, place, entry) for place, entry in enumerate(chart.entries))
    return (
        f'{heading}<p class="summary" id="{chart.key}-summary">{words}</p>'
        f'<div class="chart {"many" if chart.many else "few"}" data-chart="{chart.key}">'
        f'<div class="drawing" role="img" {_label(chart.label, language)} aria-describedby="{chart.key}-summary">'
        f"<noscript>{_both(NO_SCRIPT)}</noscript></div>"
        f'<div class="chart-list">{tools}'
        f'<ul class="entries" role="listbox" aria-multiselectable="true" tabindex="0" {_label(LINES, language)}>'
        f"{entries}</ul></div></div>"
        f"<details><summary>{_both(TABLE)}</summary>{_table(chart.table)}</details>"
    )


def _entry(chart: Chart, place: int, entry: Entry) -> str:
    if entry.kind in ("inner", "outer"):
        mark = f'<rect class="band-{entry.kind}" x="0.5" y="0.5" width="25" height="11"/>'
    elif entry.kind == "fixed":
        mark = '<line class="median" x1="0" y1="6" x2="26" y2="6"/>'
    else:
        colour = dash = 0
        if entry.slot is not None:
            colour, dash = entry.slot % len(LIGHT_LINES), entry.slot // len(LIGHT_LINES) % len(DASHES)
        look = f'class="d{1 if entry.dashed else dash}" style="stroke: var(--line-{colour})"'
        mark = f'<line data-slot="" {look} x1="0" y1="6" x2="26" y2="6"/>'
    note = f'<span class="note">{_both(entry.note)}</span>' if entry.note else ""
    disabled = ' aria-disabled="true"' if not entry.traces else ""
    return (
        f'<li role="option" id="{chart.key}-{place}" aria-selected="{str(entry.shown).lower()}"{disabled}>'
        f'<svg class="swatch" viewBox="0 0 26 12" aria-hidden="true">{mark}</svg>'
        f'<span class="name">{_both(entry.name)}</span>{note}</li>'
    )


def _table(table: Table, style: str = "") -> str:
    def cell(value: Text | str) -> str:
        return _both(value) if isinstance(value, Text) else _escaped(value)

    head = "".join(f'<th scope="col">{_both(text)}</th>' for text in table.header)
    body = "".join(
        f'<tr><th scope="row">{cell(first)}</th>' + "".join(f"<td>{cell(value)}</td>" for value in rest) + "</tr>"
        for first, *rest in table.rows
    )
    return (
        f'<div class="scroll" tabindex="0"><table class="{style}"><caption>{_both(table.caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _footer(record: Record) -> str:
    tables = "".join(_table(table, "settings") for table in settings(record))
    unfold = f"<details><summary>{_both(ALL_SETTINGS)}</summary>{tables}</details>" if tables else ""
    return f"<footer>{unfold}<p>{_both(SELF_CONTAINED)}</p></footer>"


def _chart_data(chart: Chart) -> dict[str, Any]:
    """What the script needs of a chart: the figure, the words of both languages, and what each list entry shows."""
    figure = chart.figure.to_plotly_json()
    return {
        "traces": figure["data"],
        "layout": figure["layout"],
        "many": chart.many,
        "texts": {
            language: {
                "x": STEPS_AXIS[index],
                "y": chart.y_title[index],
                "names": [inert(name[index]) for name in chart.names],
            }
            for index, language in enumerate(LANGUAGES)
        },
        "entries": [
            {"kind": entry.kind, "traces": entry.traces, "slot": entry.slot, "shown": entry.shown}
            for entry in chart.entries
        ],
    }


def _json(value: Mapping[str, Any]) -> str:
    """JSON that no HTML parser can leave: ASCII, with `<`, `>` and `&` as escapes."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _escaped(text: str) -> str:
    """`text` for HTML, also inside quotes; a lone surrogate, which UTF-8 cannot hold, becomes a question mark."""
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"))


def _both(text: Text) -> str:
    """The text in both languages, once where they agree."""
    if text.en == text.es:
        return _escaped(text.en)
    return f'<span class="en" lang="en">{_escaped(text.en)}</span><span class="es" lang="es">{_escaped(text.es)}</span>'


def _label(text: Text, language: str) -> str:
    """Attributes that label an element in the page's language and let the script change it."""
    now = text[LANGUAGES.index(language)]
    return f'aria-label="{_escaped(now)}" data-label-en="{_escaped(text.en)}" data-label-es="{_escaped(text.es)}"'


def _resource(name: str) -> str:
    return resources.files("minitrain.dashboard").joinpath(name).read_text("utf-8")
