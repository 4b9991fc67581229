"""One line of a worksheet, and the sheet that lines are written on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Step:
    """One intermediate value and all that is said about it, but for the words, which depend on the language.

    Attributes
    ----------
    name : str
        Key of the value: `ln1.mean`.
    kind : str
        Key of its words and of its source: `mean`.
    section : str
        Key of the section's words: `ln1`.
    head : int or None
        The attention head it belongs to.
    symbol : str
        The value's symbol, in LaTeX.
    equations : tuple of str
        How it follows from earlier symbols, a line each, in LaTeX.
    axes : tuple of str
        Its shape in the letters of the root BLUEPRINT, and `K/2`: ("T", "D").
    value : array
        Two-dimensional; rows are positions.
    worked : str
        One entry in numbers, in LaTeX; empty where there is nothing to compute.
    entry : tuple of (int, int)
        Row and column of that entry.
    given : tuple of str
        Names of the parameters that first appear here.
    """

    name: str
    kind: str
    section: str
    head: int | None
    symbol: str
    equations: tuple[str, ...]
    axes: tuple[str, ...]
    value: npt.NDArray[Any]
    worked: str
    entry: tuple[int, int]
    given: tuple[str, ...]


class Paper:
    """Collects steps in the order in which they are written.

    Parameters
    ----------
    parameters : mapping of str to array
        The block's parameters by dotted name, copied.
    """

    def __init__(self, parameters: Mapping[str, npt.NDArray[Any]]) -> None:
        self.parameters = dict(parameters)
        self.steps: list[Step] = []
        self._section = ""
        self._head: int | None = None

    def begin(self, section: str, head: int | None = None) -> None:
        """Start a section; the steps that follow belong to it."""
        self._section, self._head = section, head

    def write(
        self,
        name: str,
        kind: str,
        symbol: str,
        axes: tuple[str, ...],
        value: npt.NDArray[Any],
        equations: str | tuple[str, ...] = (),
        worked: str = "",
        *,
        entry: tuple[int, int] = (0, 0),
        given: tuple[str, ...] = (),
    ) -> None:
        """Add a step; its value is copied and can no longer be written into."""
        value = np.array(value)
        value.flags.writeable = False
        lines = (equations,) if isinstance(equations, str) else equations
        self.steps.append(Step(name, kind, self._section, self._head, symbol, lines, axes, value, worked, entry, given))
