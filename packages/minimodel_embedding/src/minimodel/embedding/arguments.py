"""What the constructors of model parts check: sizes and dtypes. `minimodel.transformer` uses it too."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def size_argument(owner: str, name: str, size: int) -> int:
    """Return `size` as a Python int.

    Raises
    ------
    TypeError
        If it is not an integer; a bool is none.
    ValueError
        If it is below 1.
    """
    if isinstance(size, (bool, np.bool_)) or not isinstance(size, (int, np.integer)):
        raise TypeError(f"{owner}: {name} must be an integer; got {size!r}. Give the number as an int.")
    if size < 1:
        raise ValueError(f"{owner}: {name} must be at least 1; got {size}. Give a positive number.")
    return int(size)


def dtype_argument(owner: str, dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return `dtype` as a NumPy dtype, which is native float64 or float32.

    Raises
    ------
    TypeError
        If it is another one.
    """
    found = np.dtype(dtype)
    if found not in (np.float64, np.float32):
        raise TypeError(f"{owner}: dtype must be float64 or float32; got {found}. Choose one of the two.")
    return found
