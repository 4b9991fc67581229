"""One array for the gradients of many parameters.

A model has dozens of small arrays; ten NumPy calls on each cost more than the arithmetic. So an optimiser keeps
gradients and moments in flat arrays, and each parameter's gradient has its home in the flat one: backward writes it
there. Values stay where they are. A gradient that somebody assigned, or that another optimiser houses, is copied in
before a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays import Array
from ..parameter import Parameter

PIECE = 65536
"""Elements handled at a time by an update: its operands stay in the cache (1.6x at a million parameters)."""


class FlatParameters:
    """Parameters of one dtype laid end to end.

    Attributes
    ----------
    grad : ndarray, shape (total,)
        Gradients; each parameter's `.grad` becomes a view of it at the first backward after `zero_grad`.
    update : ndarray, shape (total,)
        Scratch: what a step subtracts.
    steps : list of int
        How often each parameter was updated.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.parameters = list(parameters)
        ends = np.cumsum([p.size for p in self.parameters]).tolist()
        starts = [0, *ends[:-1]]
        self.spans = list(zip(starts, ends, strict=True))
        self.dtype = self.parameters[0].dtype
        self.grad = np.zeros(ends[-1], self.dtype)
        self.update = np.empty(ends[-1], self.dtype)
        self.steps = [0] * len(self.parameters)
        self._house()

    def _house(self) -> None:
        """Make the views of the flat arrays, and give each parameter the home of its gradient."""
        self._homes = self.views(self.grad)
        self._updates = self.views(self.update)
        for parameter, home in zip(self.parameters, self._homes, strict=True):
            parameter._grad_home = home

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles make views of their own arrays: a copied view would be an array by itself."""
        return {key: item for key, item in vars(self).items() if key not in ("_homes", "_updates")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._house()

    def views(self, flat: Array) -> list[Array]:
        """Return one view of `flat` a parameter, in the parameter's shape."""
        return [flat[start:end].reshape(p.shape) for p, (start, end) in zip(self.parameters, self.spans, strict=True)]

    def active(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield runs (first, last) of parameters to update together, and bring their gradients home.

        A parameter that is frozen or has no gradient interrupts a run; so does another count of steps.
        """
        begin = first
        for i in range(first, last):
            parameter = self.parameters[i]
            grad = parameter._grad
            if grad is None or not parameter._requires_grad:
                if begin < i:
                    yield begin, i
                begin = i + 1
                continue
            if grad is not self._homes[i]:
                np.copyto(self._homes[i], grad)
            if begin < i and self.steps[i] != self.steps[begin]:
                yield begin, i
                begin = i
        if begin < last:
            yield begin, last

    def apply(self, first: int, last: int, compute: Callable[[slice], None], decay: float = 1.0) -> None:
        """Fill `update` in pieces by `compute(slice)`, then p = p * decay - update, for parameters first to last."""
        start, end = self.spans[first][0], self.spans[last - 1][1]
        for piece in range(start, end, PIECE):
            compute(slice(piece, min(piece + PIECE, end)))
        for i in range(first, last):
            parameter = self.parameters[i]
            value = parameter._value
            if decay != 1.0:
                np.multiply(value, decay, out=value)
            np.subtract(value, self._updates[i], out=value)
            parameter._version += 1
            self.steps[i] += 1
