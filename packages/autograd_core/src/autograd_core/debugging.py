"""`debug()`: catch writes into arrays that a pending backward still needs.

Outside it, a version counter catches optimiser steps, `load_state_dict` and assignments for free; a direct write such
as `p.value[0] = 1` leaves no trace. Inside `debug()` every recorded operation keeps copies of the arrays its vjp reads,
and `backward` compares: slower and twice the memory, so for looking, not for training.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import numpy as np

from .arrays import Array

if TYPE_CHECKING:
    from .graph import Node

_guarding: ContextVar[bool] = ContextVar("autograd_core_debug", default=False)


@contextmanager
def debug() -> Iterator[None]:
    """Context in which writing into an array that a pending backward needs makes that backward a `RuntimeError`."""
    token = _guarding.set(True)
    try:
        yield
    finally:
        _guarding.reset(token)


def guard(node: Node) -> None:
    """Remember, inside `debug()`, copies of the arrays that the node's vjp closes over."""
    if _guarding.get():
        cells = getattr(node.vjp, "__closure__", None) or ()
        arrays: list[Array] = []
        for content in [cell.cell_contents for cell in cells]:
            kept = content if isinstance(content, tuple) else (content,)  # attention keeps its arrays in one tuple
            arrays.extend(array for array in kept if isinstance(array, np.ndarray))
        node.guards = tuple((array, array.copy()) for array in arrays)
