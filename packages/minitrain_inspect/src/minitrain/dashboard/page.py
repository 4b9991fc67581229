"""The page of one run: its head, the seven panels, and everything that was set."""

from collections.abc import Iterable, Mapping, Sequence

from ..diagnosis import Range
from .chart import Beside
from .document import document
from .findings import CHARTS, Marked, verdict
from .header import is_running, key_figures, settings, status, warnings, what_ran
from .healthy import healthy_bands
from .panels import Panel, build_panels
from .record import Record
from .sections import both, escaped, panel_section, table_html
from .series import RunSeries
from .text import ALL_SETTINGS, LIVE, SELF_CONTAINED, SWITCH_THEME, WRITTEN_BY_SERVER


def render_page(
    series: RunSeries,
    record: Record,
    found: Sequence[Marked] | None = None,
    *,
    ranges: Mapping[str, Range],
    judged: bool,
    language: str = "en",
    live: str = "",
) -> str:
    """The HTML of the whole page.

    Parameters
    ----------
    found : sequence of Marked, optional
        What the diagnosis found; None where it was not asked, and then the page has no verdict.
    ranges : mapping
        `diagnosis.healthy_ranges` of the run.
    judged : bool
        Whether there are validations enough to judge overfitting.
    live : str
        For a server: which version of the page this is.
    """
    bands = healthy_bands(series, record.config, ranges)
    beside = {
        key: Beside(bands.get(key), tuple(marked for marked in found or () if marked.chart == key)) for key in CHARTS
    }
    panels = build_panels(series, beside)
    body = [
        _header(record, series, found, judged=judged, live=bool(live)),
        navigation(panels),
        "<main>",
        *(panel_section(panel, language) for panel in panels),
        "</main>",
        _footer(record, live=bool(live)),
    ]
    charts = [chart for panel in panels for chart in panel.charts]
    return document(record.name, body, charts, language=language, live=live)


def _header(record: Record, series: RunSeries, found: Sequence[Marked] | None, *, judged: bool, live: bool) -> str:
    state = "finished" if record.finished else "running" if is_running(record, live=live) else "unfinished"
    figures = "".join(
        f'<div class="figure"><dt>{both(figure.label)}</dt><dd><span class="value">{both(figure.value)}</span>'
        + (f'<div class="aside">{both(figure.aside)}</div>' if figure.aside else "")
        + "</dd></div>"
        for figure in key_figures(record, series)
    )
    return (
        '<header><div class="top"><div class="told">'
        f'<p class="eyebrow">minitrain</p><h1>{escaped(record.name)}</h1>'
        f'<p class="what">{both(what_ran(record))}</p>'
        f'<p class="status {state}">{both(status(record, series, live=live))}</p>'
        + "".join(f'<p class="warning">{both(text)}</p>' for text in warnings(record, series))
        + (_verdict(found, judged=judged) if found is not None or not series.rows else "")
        + f'</div>{_live() if live else ""}{switches()}</div><dl class="figures">{figures}</dl></header>'
    )


def _live() -> str:
    """How the page and the training stand; the script shows one of the lines."""
    lines = "".join(f'<span data-when="{key}" hidden>{both(text)}</span>' for key, text in LIVE.items())
    return f'<p class="live" id="live" role="status">{lines}</p>'


def switches() -> str:
    """The two buttons of a page: theme and language."""
    return (
        '<div class="switches">'
        f'<button type="button" id="theme">{both(SWITCH_THEME)}</button>'
        '<button type="button" id="language">'
        '<span class="en" lang="es">Español</span><span class="es" lang="en">English</span></button></div>'
    )


def _verdict(found: Sequence[Marked] | None, *, judged: bool) -> str:
    """What the diagnosis says, with a link to each finding."""
    mood = "bad" if found else "" if found is None or not judged else "good"
    links = "".join(
        f'<li><a href="#finding-{marked.number}"><span class="badge">{marked.number}</span> '
        f"{both(marked.name)}</a></li>"
        for marked in found or ()
    )
    listed = f'<ol class="links">{links}</ol>' if links else ""
    return f'<div class="verdict {mood}"><p>{both(verdict(found, judged=judged))}</p>{listed}</div>'


def navigation(panels: Iterable[Panel]) -> str:
    """Links to the panels."""
    links = "".join(f'<li><a href="#{panel.key}">{panel.number} {both(panel.title)}</a></li>' for panel in panels)
    return f"<nav><ol>{links}</ol></nav>"


def _footer(record: Record, *, live: bool) -> str:
    tables = "".join(table_html(table, "settings") for table in settings(record))
    unfold = f"<details><summary>{both(ALL_SETTINGS)}</summary>{tables}</details>" if tables else ""
    return f"<footer>{unfold}<p>{both(WRITTEN_BY_SERVER if live else SELF_CONTAINED)}</p></footer>"
