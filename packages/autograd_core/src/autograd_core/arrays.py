"""Type aliases shared by the package, and what an array of ids must be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""A NumPy array; floating unless the docstring says otherwise."""

IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

Vjp: TypeAlias = Callable[[Array], tuple[Array | None, ...]]
"""From the cotangent of an output to one cotangent (or None) a parent, in parent order."""

Axis: TypeAlias = int | Sequence[int] | None

Number: TypeAlias = "int | float | bool | np.number[Any] | np.bool_"


def integers(what: str, given: object) -> IntArray:
    """Return `given` as an int array; `what` says in messages whose it is.

    Raises
    ------
    TypeError
        If it holds no integers; bools are none.
    ValueError
        If it is nested lists of unequal lengths.
    IndexError
        If an integer is beyond 64 bits.
    """
    try:
        array = np.asarray(given)
    except ValueError:
        raise ValueError(
            f"{what}: nested lists must be of equal lengths; got lists of several lengths. Pad the shorter ones."
        ) from None
    if array.dtype.kind in "iu":
        return array
    if array.size == 0 and not isinstance(given, np.ndarray):
        return array.astype(np.int64)  # an empty list has no dtype of its own; NumPy calls it float64
    # Of integers beyond 64 bits NumPy makes objects, or floats if they still fit an unsigned one.
    entries = [] if isinstance(given, np.ndarray) else np.asarray(given, object).ravel().tolist()
    if entries and all(type(entry) is int for entry in entries):
        beyond = next(entry for entry in entries if not -(2**63) <= entry < 2**63)
        raise IndexError(f"{what}: must fit 64 bits; got {beyond}. Every id is below the number of rows.")
    raise TypeError(f"{what}: must be integers; got dtype {array.dtype}. Use an int array, as ids.astype(np.int64).")
