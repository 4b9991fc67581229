"""The page of several runs: what differs, how each ended, and the seven panels with all of them in each."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from autograd_core.files import write_atomic

from .chart import Beside
from .differences import differing_settings, distinct_names, final_results
from .document import document
from .findings import CHARTS
from .follow import Follower
from .healthy import healthy_bands
from .overlay import MOST_RUNS, Overlaid, overlay_panels, run_look
from .page import navigation, switches
from .record import read_record
from .sections import both, panel_section, table_html
from .series import LAYER_BUCKETS, LAYER_POINTS, SCALAR_BUCKETS, SeriesReader
from .style import DASHES
from .text import LANGUAGES, SAME_SETTINGS, SELF_CONTAINED, Text, count, plain


def write_comparison(
    runs: Sequence[str | os.PathLike[str]], target: str | os.PathLike[str], *, language: str = "en"
) -> Path:
    """Path of the page written to `target`, which lays the runs over each other in the seven panels.

    Parameters
    ----------
    runs : sequence of paths
        Two run folders at least and 24 at most, finished or not, each with a log.
    target : path
        The HTML file; one that is there is replaced.
    language : "en" or "es"
        Shown first; the page switches between both.

    Raises
    ------
    ValueError
        If there are too few or too many runs, one has no log or a damaged one, or `language` is another.
    OSError
        If the page cannot be written; an older one is then untouched.
    """
    if language not in LANGUAGES:
        raise ValueError(f"write_comparison: `language` is one of {', '.join(LANGUAGES)}; got {language!r}. Use 'en'.")
    if not 2 <= len(runs) <= MOST_RUNS:
        raise ValueError(
            f"a comparison takes from 2 to {MOST_RUNS} runs, which can be told apart; got {len(runs)}. "
            "Name other folders that minitrain train wrote."
        )
    target = Path(target)
    write_atomic(target, _page([Path(run) for run in runs], language))
    return target


def _page(folders: Sequence[Path], language: str) -> str:
    share = len(folders)
    make_reader = partial(
        SeriesReader,
        # Together about as much as one run, so that the page stays one that a browser opens at once.
        scalar_buckets=max(200, SCALAR_BUCKETS // share // 2 * 2),
        layer_buckets=LAYER_BUCKETS,
        layer_points=LAYER_POINTS // share,
    )
    followers = [Follower(folder, make_reader=make_reader) for folder in folders]
    for follower in followers:
        if not follower.advance():
            raise ValueError(
                f"a run folder must hold inspector.log.jsonl with a row; {str(follower.folder)!r} does not. "
                "Name a folder that minitrain train wrote."
            )
    names = distinct_names(folders)
    records = [read_record(folder) for folder in folders]
    series = [follower.reader.series() for follower in followers]
    overlaid = [Overlaid(name, each) for name, each in zip(names, series, strict=True)]
    bands = [
        healthy_bands(each, record.config, follower.ranges())
        for each, record, follower in zip(series, records, followers, strict=True)
    ]
    # A band that is not the same for all of them would be wrong for some.
    shared = {key: band for key, band in bands[0].items() if all(other.get(key) == band for other in bands)}
    panels = overlay_panels(overlaid, {key: Beside(shared.get(key)) for key in CHARTS})
    differing = differing_settings(names, records)
    results = final_results(names, records, series, [follower.found() for follower in followers])
    title = Text("Comparison of {count} runs", "Comparación de {count} ejecuciones").fill(count=count(len(names)))
    body = [
        '<header><div class="top"><div>'
        f'<p class="eyebrow">minitrain</p><h1>{both(title)}</h1><ul class="runs">{_legend(names)}</ul>'
        f"</div>{switches()}</div>{table_html(results, 'settings compared')}"
        + (table_html(differing, "settings compared") if differing else f'<p class="summary">{both(SAME_SETTINGS)}</p>')
        + "</header>",
        navigation(panels),
        "<main>",
        *(panel_section(panel, language) for panel in panels),
        "</main>",
        f"<footer><p>{both(SELF_CONTAINED)}</p></footer>",
    ]
    charts = [chart for panel in panels for chart in panel.charts]
    return document(title[LANGUAGES.index(language)], body, charts, language=language)


def _legend(names: Sequence[str]) -> str:
    """Each run with its colour and dash."""
    entries = []
    for place, name in enumerate(names):
        colour, dash = run_look(place)
        line = (
            f'<line class="d{DASHES.index(dash)}" style="stroke: var(--line-{colour})" x1="0" y1="6" x2="26" y2="6"/>'
        )
        swatch = f'<svg class="swatch" viewBox="0 0 26 12" aria-hidden="true">{line}</svg>'
        entries.append(f'<li>{swatch}<span class="name">{both(plain(name))}</span></li>')
    return "".join(entries)
