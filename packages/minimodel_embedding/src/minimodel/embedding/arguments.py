"""What model parts check of their arguments: sizes, numbers, paths, dtypes, generators, arrays. For siblings too."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from autograd_core import Tensor
from autograd_core.randomness import generator

_SINGLE = "a single value"


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


def number_argument(owner: str, name: str, value: object) -> float:
    """Return a real number as a Python float; its range is the caller's business.

    Raises
    ------
    TypeError
        If it is no real number; a bool is none.
    ValueError
        If it is an integer that no float holds.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{owner}: {name} must be a number; got {value!r}. Give a float.")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{owner}: {name} must fit a float; got an integer beyond 1e308. Give a float.") from None


def flag_argument(owner: str, name: str, value: object) -> bool:
    """Return a bool as a Python bool.

    Raises
    ------
    TypeError
        If it is no bool: "no" would count as true.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{owner}: {name} must be true or false; got {value!r}. Give a bool.")
    return bool(value)


def dtype_argument(owner: str, dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return `dtype` as a NumPy dtype, which is native float64 or float32.

    Raises
    ------
    TypeError
        If it is another one, or none.
    """
    found: object = dtype
    with contextlib.suppress(TypeError, ValueError):  # of what NumPy does not know either
        found = np.dtype(dtype)
    if isinstance(found, np.dtype) and found in (np.float64, np.float32):
        return found
    raise TypeError(f"{owner}: dtype must be float64 or float32; got {found}. Choose one of the two.")


def path_argument(owner: str, path: Any) -> Path:
    """Return a str or a path as a Path.

    Raises
    ------
    TypeError
        If it is something else; bytes too.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{owner}: path must be a str or a path; got {type(path).__name__}. Give a name, as 'letters'.")
    return Path(path)


def file_argument(owner: str, path: Any, *, without: str = "") -> Path:
    """Return where a file goes: `path`, which ends in a name, less the ending `without`.

    Raises
    ------
    ValueError
        If it does not end in a name. Of "letters/" a Path forgets the slash: the file would stand beside that folder.
    TypeError
        As `path_argument`.
    """
    whole = path_argument(owner, path)
    as_given = os.fspath(path)
    # Not `with_suffix`, which would take the ".5" of "run-0.5" for an ending.
    name = os.path.basename(as_given).removesuffix(without)
    if not name.strip(".") or "\0" in name:
        raise ValueError(
            f"{owner}: path must end in the name of a file; got {as_given!r}. Give a name, as 'folder/letters'."
        )
    return whole.with_name(name)


def rng_argument(owner: str, rng: object) -> np.random.Generator:
    """Return `rng`, or a fresh unseeded generator for None.

    Raises
    ------
    TypeError
        If it is something else, as a seed.
    """
    return np.random.default_rng() if rng is None else generator(owner, rng)


def stream_argument(owner: str, x: object) -> npt.NDArray[Any]:
    """Return the array that enters a layer: `x` itself if it holds floats, integers as float64.

    Raises
    ------
    TypeError
        If it is no array, or holds no real numbers.
    """
    if isinstance(x, np.ndarray):
        if x.dtype.kind == "f":
            return x
        if x.dtype.kind in "iu":
            return x.astype(np.float64)
    found = f"dtype {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__
    raise TypeError(
        f"{owner}: x must be a Tensor or an array of real numbers; got {found}. Pass np.array(x, dtype=np.float64)."
    )


def array_argument(owner: str, name: str, values: Tensor | npt.ArrayLike) -> npt.NDArray[Any]:
    """Return `values` as an array of whatever dtype.

    Raises
    ------
    ValueError
        If they are nested lists of which no array can be made.
    """
    try:
        return np.asarray(values.value if isinstance(values, Tensor) else values)
    except ValueError as error:
        if unequal := _unequal_rows(values):
            raise ValueError(
                f"{owner}: the rows of {name} must be equally long; got {unequal}. "
                "Pad the shorter ones, or give each row alone."
            ) from error
        raise ValueError(
            f"{owner}: {name} must be an array or nested lists that make one; got {type(values).__name__}: {error}"
        ) from error


def ids_argument(owner: str, name: str, ids: Tensor | npt.ArrayLike, size: int) -> npt.NDArray[Any]:
    """Return `ids` as an array, in which the core can check dtype and range.

    What the core cannot see is an id beyond 64 bits, of which NumPy makes an object or a float, and that a list was
    empty.

    Raises
    ------
    IndexError
        If they are integers, one of them beyond 64 bits; names the first that is outside [0, size) and its position.
    ValueError
        As `array_argument`.
    """
    array = array_argument(owner, name, ids)
    if array.dtype.kind in "iu":
        return array
    if array.size == 0 and isinstance(ids, (list, tuple)):
        return array.astype(np.int64)  # an empty list has no dtype of its own; NumPy calls it float64
    as_given = np.asarray(ids, dtype=object) if isinstance(ids, (list, tuple)) else array.astype(object)
    if all(isinstance(entry, int) and not isinstance(entry, bool) for entry in as_given.flat):
        for where, entry in np.ndenumerate(as_given):
            if not 0 <= entry < size:
                raise IndexError(
                    f"{owner}: {name} must be in [0, {size}); got {entry} at position {where}. "
                    f"Give ids from 0 to {size - 1}."
                )
    return array


def _unequal_rows(lists: Any) -> str:
    """Return the lengths of two rows that differ, on the outermost level that has such; nothing if none has."""
    level = lists if isinstance(lists, (list, tuple)) else []
    while level:
        lengths = [_length(item) for item in level]
        for length in lengths:
            if length != lengths[0]:
                return f"{lengths[0]} and {length}"
        if lengths[0] == _SINGLE:
            break
        level = [inner for item in level for inner in item]
    return ""


def _length(item: Any) -> str:
    """Return how long an item of a list is, in words."""
    is_row = isinstance(item, (list, tuple)) or (isinstance(item, np.ndarray) and item.ndim > 0)
    return f"one of length {len(item)}" if is_row else _SINGLE
