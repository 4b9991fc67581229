"""Type aliases shared by the package, and what counts as a plain number."""

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


def is_number(x: object) -> bool:
    """Whether `x` is a Python number or a NumPy scalar: those adopt the other operand's dtype."""
    return isinstance(x, (int, float, np.number, np.bool_))
