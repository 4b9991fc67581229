"""The parts of a chart, as data: what `charts` and `overlay` make and `sections` writes."""

from dataclasses import dataclass

import plotly.graph_objects as go

from .decimate import Line
from .findings import Marked
from .healthy import Band
from .text import Text


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a chart's list: what it is called, which traces it shows, whether they are shown at first."""

    name: Text
    traces: tuple[int, ...]
    kind: str  # "line", "fixed" (keeps its colour), "inner", "outer", or "absent"
    slot: int | None
    shown: bool
    note: Text | None = None
    dash: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers to unfold; cells are names, numbers as text, or both languages."""

    caption: Text
    header: tuple[Text, ...]
    rows: list[tuple[Text | str, ...]]


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure and its surroundings; `names` has one text a trace. The figure is in English; the page swaps."""

    key: str
    label: Text
    figure: go.Figure
    names: tuple[Text, ...]
    y_title: Text
    entries: tuple[Entry, ...]
    many: bool
    floored: bool
    table: Table


@dataclass(frozen=True, slots=True)
class Named:
    """A series of `line_chart`.

    Attributes
    ----------
    dash : str
        One of `style.DASHES` for a series that always has it, as a baseline; "" for the next one that is free.
    colour : int or None
        Place in the palette, kept whatever else is drawn: where colour says which run it is.
    shown : bool
        Whether it is drawn at first.
    neutral : bool
        In the colour of the text, whatever the theme.
    """

    name: Text
    line: Line
    dash: str = ""
    colour: int | None = None
    shown: bool = True
    neutral: bool = False


@dataclass(frozen=True, slots=True)
class Beside:
    """What a chart shows beside its lines: where it is healthy, and the findings that belong to it."""

    band: Band | None = None
    found: tuple[Marked, ...] = ()

    @property
    def layers(self) -> frozenset[str]:
        """The layers that findings name."""
        return frozenset(marked.layer for marked in self.found)


NOTHING = Beside()
