"""One series as a Plotly trace: where the line breaks, what stands on the floor of a log axis, which points get a dot.

A trace is a plain mapping; `charts` makes figures of them. Its `meta.kind` tells the page's script how to colour it
when the theme changes: "line" by its place in the palette, "fixed" and "cross" in the colour of the text, "outer" and
"inner" as bands. Names are escaped here, since Plotly renders a little HTML in its labels.
"""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .decimate import Line
from .style import LIGHT, slot_style
from .text import NOT_FINITE, STEP

_DENSE_FROM = 350  # points: thinner lines keep their noise apart
_DOTTED_UP_TO = 60  # points: with more, dots only thicken the line


def inert(name: str) -> str:
    """`name` so that Plotly shows it literally: no tags, no entities, nothing that UTF-8 cannot hold."""
    return html.escape(name, quote=False).encode("utf-8", "replace").decode("utf-8")


def log_floor(lines: Iterable[Line]) -> float:
    """The height at which a log axis shows 0: one decade below the decade of the smallest positive value."""
    smallest = min(
        (value for line in lines for value in line.values if value is not None and value > 0),
        default=1.0,
    )
    return float(10.0 ** (max(-300, math.floor(math.log10(smallest)) - 1)))


def is_floored(floor: float | None, lines: Iterable[Line]) -> bool:
    """Whether any value stands on the floor."""
    return floor is not None and any(value is not None and value <= 0 for line in lines for value in line.values)


def line_trace(
    name: str, line: Line, slot: int | None, floor: float | None, digits: int | None = None
) -> dict[str, Any]:
    """A line in the colour and dash of `slot`; `digits` rounds its values to that many significant ones."""
    values = line.values
    if digits is not None:
        values = [None if value is None else float(f"{value:.{digits}g}") for value in values]
    colour, dash = slot_style(slot or 0)
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "name": inert(name),
        "x": line.steps,
        "y": values,
        "connectgaps": False,
        "line": {"color": colour, "dash": dash, "width": 2 if len(values) < _DENSE_FROM else 1.5},
        "meta": {"kind": "line"},
        "hovertemplate": _hover("%{y:.5~g}"),
    }
    if floor is not None and any(value is not None and value <= 0 for value in values):
        trace["y"] = [floor if value is not None and value <= 0 else value for value in values]
        trace["customdata"] = values
        trace["hovertemplate"] = _hover("%{customdata:.5~g}")
    sizes = _marker_sizes(values)
    if any(sizes):
        trace["mode"] = "lines+markers"
        trace["marker"] = {"size": sizes[0] if len(set(sizes)) == 1 else sizes, "color": colour}
    return trace


def _hover(value: str) -> str:
    return f"%{{fullData.name}}<br>{STEP.en} %{{x}}: {value}<extra></extra>"


def _marker_sizes(values: Sequence[float | None]) -> list[int]:
    """Size of the dot at each point: all of a short line, and of a long one those that no line reaches."""
    if len(values) <= _DOTTED_UP_TO:
        return [5] * len(values)
    around = [None, *values, None]
    return [
        5 if value is not None and around[at] is None and around[at + 2] is None else 0
        for at, value in enumerate(values)
    ]


def band_traces(band: Mapping[str, Line], floor: float | None) -> list[dict[str, Any]]:
    """Lowest, highest, 10 %, 90 % and median across layers; each upper edge fills down to the trace before it."""
    traces = []
    for key, kind in (("min", "edge"), ("max", "outer"), ("p10", "edge"), ("p90", "inner"), ("median", "fixed")):
        trace = line_trace(key, band[key], None, floor, digits=7)
        trace["meta"] = {"kind": kind}
        trace["mode"] = "lines"
        trace.pop("marker", None)
        if kind == "fixed":
            trace["line"] = {"color": LIGHT["ink"], "width": 2.5, "dash": "solid"}
        else:
            trace["line"] = {"color": "rgba(0,0,0,0)", "width": 0}
            trace["hoverinfo"] = "skip"
            trace.pop("hovertemplate")
        if kind in ("outer", "inner"):
            trace["fill"] = "tonexty"
            trace["fillcolor"] = LIGHT[f"band-{kind}"]
        traces.append(trace)
    return traces


def cross_trace(marks: Sequence[tuple[int, float | None, str]], floor: float | None) -> dict[str, Any]:
    """A cross for each step, height and name; without a height it stands on the floor, or on 0."""
    lowest = floor if floor is not None else 0.0
    heights = [lowest if height is None or (floor is not None and height <= 0) else height for _, height, _ in marks]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": NOT_FINITE.en,
        "x": [step for step, _, _ in marks],
        "y": heights,
        "text": [inert(name) for _, _, name in marks],
        "marker": {"symbol": "x-thin", "size": 8, "line": {"width": 2, "color": LIGHT["ink"]}},
        "meta": {"kind": "cross"},
        "hovertemplate": f"%{{text}}<br>{STEP.en} %{{x}}: %{{fullData.name}}<extra></extra>",
    }
