"""What three ways of adding a batch of rows to a table make of ids that occur more than once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from minimodel.embedding import Embedding, gather_backward

Array = npt.NDArray[Any]
Call = Callable[[], object]


class Case(NamedTuple):
    """A batch whose rows are summed by id."""

    name: str
    ids: Array
    grad: Array
    vocabulary: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.vocabulary, self.grad.shape[1]


_rng = np.random.default_rng(0)
CASES = (
    Case("the lab's: 3 and 3", np.array([3, 3]), np.array([[1.0, 2.0], [4.0, 5.0]]), 5),
    Case("all ids distinct", _rng.permutation(64), _rng.standard_normal((64, 32)), 64),
    Case("a batch of 8192", _rng.integers(0, 64, 8192), _rng.standard_normal((8192, 32)), 64),
    Case("the same, float32", _rng.integers(0, 64, 8192), _rng.standard_normal((8192, 32)).astype(np.float32), 64),
    Case("100,000 times one id", np.zeros(100_000, int), np.full((100_000, 8), 0.1, np.float32), 1),
)


def buffered(case: Case) -> Call:
    """`+=`: NumPy reads all rows, adds, and writes them back, so that of several contributions the last stays."""

    def call() -> Array:
        out = np.zeros(case.shape, case.grad.dtype)
        out[case.ids] += case.grad
        return out

    return call


def readable(case: Case) -> Call:
    """`np.add.at`, as the lab has it."""
    return lambda: gather_backward(case.grad, case.ids, case.shape)


def ours(case: Case) -> Call:
    """`backward` of the module's lookup, with all that the engine does around the sum."""
    embedding = Embedding(*case.shape, init_scale=0.0, dtype=case.grad.dtype)
    rows = embedding(case.ids)

    def call() -> Array | None:
        embedding.zero_grad()
        rows.backward(case.grad, retain_graph=True)
        return embedding.E.grad

    return call


WAYS: dict[str, Callable[[Case], Call]] = {"+=": buffered, "np.add.at": readable, "ours": ours}


def judged(case: Case, way: str, call: Call) -> dict[str, Any]:
    """Return the row of scatter.csv without its time: the error is the largest, over the sum of magnitudes."""
    exact = gather_backward(case.grad.astype(np.float64), case.ids, case.shape)
    magnitudes = gather_backward(np.abs(case.grad).astype(np.float64), case.ids, case.shape)
    found = np.asarray(call())
    error = float(np.max(np.abs(found - exact) / np.maximum(magnitudes, np.finfo(float).tiny)))
    first = case.ids[0]
    return {
        "case": case.name.replace(",", ""),
        "way": way,
        "found": " ".join(f"{x:.7g}" for x in found[first, :2]),
        "exact": " ".join(f"{x:.7g}" for x in exact[first, :2]),
        "error": f"{error:.1e}",
        "right": error <= 2e-6,
    }
