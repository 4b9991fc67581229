"""What a page says, in one language and in order, before it is Markdown or HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from . import words
from .digits import short
from .sources import SOURCES
from .step import Step
from .tables import Table, table_of
from .words import Language

# Two digits: so that 24 columns fit. Four where there is room.
_NARROW, _WIDE, _ROOM = 2, 4, 8

_FOLDED = 8192
"""Numbers of a cut table that a page holds a second time, all of them: 24 positions of width 256, or 64 by 128."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What holds for the whole worksheet.

    Attributes
    ----------
    sizes : mapping of str to int
        T, D, H, K and F.
    eps : float
        Of LayerNorm; that of the first where they differ.
    causal, rope, dropout : bool
    dtype : str
    labels : sequence of str
        Heads of the positions.
    """

    sizes: Mapping[str, int]
    eps: float
    causal: bool
    rope: bool
    dropout: bool
    dtype: str
    labels: Sequence[str]


@dataclass(frozen=True, slots=True)
class Shown:
    """An array with its caption.

    `hidden` says which rows or columns the table leaves out, empty if none; `whole` is the table without that cut,
    where a page holds it.
    """

    symbol: str
    name: str
    shape: str
    table: Table
    hidden: str
    whole: Table | None


@dataclass(frozen=True, slots=True)
class Line:
    """A step as it is shown; `weights` is there where the result is a heat map."""

    number: int
    title: str
    equations: tuple[str, ...]
    given: tuple[Shown, ...]
    result: Shown
    weights: npt.NDArray[Any] | None
    entry: str
    worked: str
    source: str


@dataclass(frozen=True, slots=True)
class Section:
    """Steps under one heading."""

    key: str
    title: str
    about: str
    lines: tuple[Line, ...]


def sections_of(
    steps: Sequence[Step], parameters: Mapping[str, npt.NDArray[Any]], setting: Setting, language: Language
) -> list[Section]:
    """Return the sections of a worksheet."""
    number = 0
    sections = []
    for (key, head), group in groupby(steps, key=lambda step: (step.section, step.head)):
        lines = []
        for step in group:
            number += 1
            lines.append(_line(number, step, parameters, setting, language))
        title, about = (text.of(language) for text in words.SECTIONS[key])
        if head is not None:
            d_head = setting.sizes["K"]
            title = title.format(head=head)
            about = about.format(first=head * d_head, last=(head + 1) * d_head - 1)
        sections.append(Section(key if head is None else f"{key}{head}", title, about, tuple(lines)))
    return sections


def facts_of(setting: Setting, language: Language) -> list[tuple[str, str, str]]:
    """Return symbol, value and meaning of each size, and of ε."""
    values = {**{letter: str(size) for letter, size in setting.sizes.items()}, "ε": short(setting.eps)}
    return [(letter, values[letter], text.of(language)) for letter, text in words.SIZES.items()]


def remarks_of(sections: Sequence[Section], setting: Setting, language: Language) -> list[tuple[str, str]]:
    """Return heading and text of what else holds for the whole worksheet; the heading may be empty."""
    remarks = [
        (words.ATTENTION, words.CAUSAL if setting.causal else words.FULL),
        (words.POSITIONS, words.WITH_ROPE if setting.rope else words.WITHOUT_ROPE),
        (words.NUMBERS, words.Words(setting.dtype, setting.dtype)),
    ]
    said = [(heading.of(language), text.of(language)) for heading, text in remarks]
    shown = [item for section in sections for line in section.lines for item in (*line.given, line.result)]
    if any(item.table.cut for item in shown):
        said.append(("", words.CUT.of(language)))
    if setting.dropout:
        said.append(("", words.DROPOUT.of(language)))
    return said


def _line(
    number: int, step: Step, parameters: Mapping[str, npt.NDArray[Any]], setting: Setting, language: Language
) -> Line:
    rows, columns = step.value.shape
    is_heat = step.kind == "weights"
    draw = partial(
        table_of,
        step.value,
        row_labels=setting.labels,
        column_labels=setting.labels if step.axes[1] == "T" else None,
        decimals=(_WIDE if rows <= _ROOM else _NARROW) if is_heat else None,
    )
    result = _shown(step.symbol, step.name, step.axes, step.value, draw, draw(whole=is_heat), language)
    given = []
    for name in step.given:
        array, symbol, axes = parameters[name], words.PARAMETER_SYMBOLS[name], words.PARAMETER_AXES[name]
        given.append(_shown(symbol, name, axes, array, partial(table_of, array), table_of(array), language))
    row, column = step.entry
    entry = (words.ROW if columns == 1 else words.ROW_AND_COLUMN).of(language).format(row=row, column=column)
    return Line(
        number,
        words.STEPS[step.kind].of(language),
        step.equations,
        tuple(given),
        result,
        np.asarray(step.value) if is_heat else None,
        entry,
        step.worked,
        SOURCES[step.kind],
    )


def _shown(
    symbol: str,
    name: str,
    axes: Sequence[str],
    array: npt.NDArray[Any],
    draw: Callable[..., Table],
    table: Table,
    language: Language,
) -> Shown:
    """Return `table` of `array` with what it leaves out, and the whole one, which `draw` makes, if a page holds it."""
    cuts = ((words.ROWS, table.hidden_rows), (words.COLUMNS, table.hidden_columns))
    ranges = [text.of(language).format(first=cut[0], last=cut[-1]) for text, cut in cuts if cut]
    hidden = words.LEFT_OUT.of(language).format(ranges=words.AND.of(language).join(ranges)) if ranges else ""
    whole = draw(whole=True) if table.cut and array.size <= _FOLDED else None
    return Shown(symbol, name, _shape(axes, array.shape), table, hidden, whole)


def _shape(axes: Sequence[str], shape: Sequence[int]) -> str:
    """Return a shape in letters and in numbers: (T, D) = (2, 4)."""
    comma = "," if len(axes) == 1 else ""
    return f"({', '.join(axes)}{comma}) = ({', '.join(map(str, shape))}{comma})"
