"""What stands on a chart beside its lines: the floor of a log axis, the healthy band, the steps of findings.

Each is a Plotly shape whose `name` says what it is, so that the page's script can colour it by the theme.
"""

import math
from collections.abc import Sequence
from typing import Any

from .findings import Marked
from .healthy import Band
from .style import LIGHT

ROW = 16  # pixels: height of a row of numbers
_REACH = 10.0
_APART = 0.08  # of the width: 20 pixels of the narrowest drawing


def floor_marks(floor: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Dotted line and label of the height at which a log axis shows 0."""
    shape = {"type": "line", "name": "floor", "xref": "paper", "x0": 0, "x1": 1, "y0": floor, "y1": floor}
    shape["line"] = {"dash": "dot", "width": 1.5, "color": LIGHT["quiet"]}
    label = {"text": "0", "name": "floor", "xref": "paper", "x": 1, "xanchor": "right", "y": math.log10(floor)}
    return shape, label | {"yanchor": "bottom", "showarrow": False, "font": {"size": 12}}


def band_mark(band: Band, values: Sequence[float]) -> dict[str, Any]:
    """The shaded rectangle of a band in a chart of these positive values.

    Plotly draws axes so that shapes fit, so a band is in view wherever data lie. A band that is open below begins at
    the lowest value, and is no more than a decade above the highest: a limit far off would press the lines flat.
    """
    shape = {"type": "rect", "name": "healthy", "layer": "below", "xref": "paper", "x0": 0, "x1": 1}
    low, high = band.low, band.high
    if low is None:
        low, high = min(values, default=high), min(high, _REACH * max(values, default=high))
    return shape | {"y0": low, "y1": high, "line": {"width": 0}, "fillcolor": LIGHT["healthy"]}


def finding_marks(found: Sequence[Marked], until: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """A vertical line for each finding at exactly its step, its number above the drawing, and how many rows those take.

    Numbers that would stand in each other's way on a narrow screen go to different rows.
    """
    shapes: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    rows: list[float] = []  # where the last number of each row stands
    for marked in sorted(found, key=lambda marked: (marked.finding.step, marked.number)):
        step, name = marked.finding.step, f"finding-{marked.number}"
        place = step / until
        row = next((row for row, last in enumerate(rows) if place - last >= _APART), len(rows))
        rows[row : row + 1] = [place]
        shape = {"type": "line", "name": name, "yref": "paper", "x0": step, "x1": step, "y0": 0, "y1": 1}
        shapes.append(shape | {"line": {"dash": "dot", "width": 1.5, "color": LIGHT["warn"]}})
        label = {"text": f"<b>{marked.number}</b>", "name": name, "yref": "paper", "x": step, "y": 1}
        label |= {"yanchor": "bottom", "yshift": ROW * row, "showarrow": False}
        labels.append(label | {"font": {"size": 12, "color": LIGHT["warn"]}})
    return shapes, labels, len(rows)
