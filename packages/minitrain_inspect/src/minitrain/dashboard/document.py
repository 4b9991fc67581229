"""The frame of a page: policy, styles, data and scripts around a body. One file, which fetches nothing.

A page that a server sends is the same but for three things: Plotly's script comes from a path of that server, which the
browser may keep, one more script asks for what is new, and the policy allows that.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

import plotly
from plotly.offline import get_plotlyjs

from .chart import Chart
from .sections import escaped
from .style import DASHES, LIGHT_LINES, css_variables
from .text import LANGUAGES, POINT, STEP, STEPS_AXIS
from .traces import inert

PLOTLY_PATH = f"/plotly-{plotly.__version__}.js"
"""Where a page with `live` expects Plotly's script."""


def document(title: str, body: Iterable[str], charts: Iterable[Chart], *, language: str, live: str = "") -> str:
    """The HTML of a whole page.

    Parameters
    ----------
    title : str
        Not yet escaped.
    body : iterable of str
        HTML.
    charts : iterable of Chart
        Drawn into the holders that the body has for them.
    language : "en" or "es"
        Shown first.
    live : str
        For a server: which version of the page this is. Without it the page is complete in itself.
    """
    data = _json(
        {
            "charts": {chart.key: _chart_data(chart) for chart in charts},
            "colours": len(LIGHT_LINES),
            "dashes": DASHES,
            "step": STEP._asdict(),
            "point": POINT._asdict(),
        }
    )
    own = "".join(_resource(name) for name in ("page.js", "cursor.js", *(["live.js"] if live else [])))
    inline = (own,) if live else (get_plotlyjs(), own)
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in inline)
    # Only these scripts run, whatever a name contains, and nothing is fetched. 'unsafe-eval' lets browser tests
    # wait for an expression; it opens no way in, since no script here evaluates text.
    policy = f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"
    if live:
        policy = policy.replace("script-src", "connect-src 'self'; script-src 'self'")
    version = f' data-version="{escaped(live)}"' if live else ""
    plotly_script = f'<script src="{PLOTLY_PATH}"></script>' if live else f"<script>{inline[0]}</script>"
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="{language}" data-language="{language}"{version}>',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            '<link rel="icon" href="data:,">',
            f"<title>{escaped(title)} · minitrain</title>",
            f"<style>\n{css_variables()}{_resource('page.css')}</style>",
            "</head>",
            "<body>",
            '<div class="page">',
            *body,
            "</div>",
            f'<script type="application/json" id="chart-data">{data}</script>',
            plotly_script,
            f"<script>{own}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


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


def _resource(name: str) -> str:
    return resources.files("minitrain.dashboard").joinpath(name).read_text("utf-8")
