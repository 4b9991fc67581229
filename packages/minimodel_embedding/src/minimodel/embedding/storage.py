"""One matrix as a pair of files: `<path>.npy` holds the numbers, `<path>.json` says what they must be.

The manifest's checksum covers values, not bytes of the file, so a matrix that another tool rewrote in other byte order
or memory order still belongs to it. The section "The pair" of the BLUEPRINT lists the keys and says how a save
survives a crash.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.lib.format as npy_format
import numpy.typing as npt
from autograd_core.files import write_atomic

from .arguments import file_argument

FORMAT = "minimodel.embedding"
VERSION = 1

_DESCRIPTION_KEYS = frozenset({"shape", "dtype", "sha256"})
_MANIFEST_KEYS = frozenset({"format", "version"}) | _DESCRIPTION_KEYS


def write_pair(path: str | os.PathLike[str], matrix: npt.NDArray[Any]) -> None:
    """Write `matrix` to the pair at `path`; return nothing.

    Parameters
    ----------
    path : path
        Without extension; a trailing `.npy` is dropped.
    matrix : array, shape (V, d), float32 or float64

    Raises
    ------
    OSError
        If the folder is missing or not writable.
    ValueError
        If the path does not end in a name.
    """
    matrix_file, manifest_file = _pair(path)
    previous = _describe_existing(matrix_file, manifest_file)
    manifest = {"format": FORMAT, "version": VERSION, **_describe(matrix)}

    if previous is not None:
        write_atomic(manifest_file, _to_json({**manifest, "previous": previous}))
    write_atomic(matrix_file, _to_npy(matrix))
    write_atomic(manifest_file, _to_json(manifest))


def read_pair(path: str | os.PathLike[str]) -> npt.NDArray[Any]:
    """Return the matrix of the pair at `path`, checked against its manifest: native byte order, C-contiguous.

    Raises
    ------
    ValueError
        If either file is damaged or the two disagree; names the file, what was expected and what was found.
    FileNotFoundError
        If either file is missing.

    Warns
    -----
    RuntimeWarning
        If the matrix holds NaN or infinite values.
    """
    matrix_file, manifest_file = _pair(path)
    matrix = _read_checked(matrix_file, manifest_file)
    if not np.isfinite(matrix).all():
        bad = int(np.count_nonzero(~np.isfinite(matrix)))
        warnings.warn(
            f"load: {matrix_file} holds {bad} values that are NaN or infinite; they are loaded as they are.",
            RuntimeWarning,
            stacklevel=3,
        )
    return matrix


def _pair(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Return the two file names of `path`."""
    base = file_argument("Embedding", path, without=".npy")
    return base.with_name(base.name + ".npy"), base.with_name(base.name + ".json")


def _describe(matrix: npt.NDArray[Any]) -> dict[str, Any]:
    """Return what a manifest says of `matrix`: shape, dtype without byte order, checksum of the values."""
    little_endian = np.ascontiguousarray(matrix, dtype=matrix.dtype.newbyteorder("<"))
    return {
        "shape": list(matrix.shape),
        "dtype": matrix.dtype.name,
        "sha256": hashlib.sha256(little_endian.data).hexdigest(),
    }


def _to_json(manifest: dict[str, Any]) -> bytes:
    """Return the manifest as UTF-8 text."""
    return (json.dumps(manifest, indent=2, allow_nan=False) + "\n").encode()


def _to_npy(matrix: npt.NDArray[Any]) -> bytes:
    """Return the matrix in NumPy's file format."""
    buffer = BytesIO()
    npy_format.write_array(buffer, np.ascontiguousarray(matrix), allow_pickle=False)
    return buffer.getvalue()


def _describe_existing(matrix_file: Path, manifest_file: Path) -> dict[str, Any] | None:
    """Return the description of the matrix that is about to be replaced; None if there is no sound pair."""
    try:
        # The matrix itself and not its manifest, which may announce one that a crash kept from being written.
        return _describe(_read_checked(matrix_file, manifest_file))
    except (OSError, ValueError):
        return None


def _read_checked(matrix_file: Path, manifest_file: Path) -> npt.NDArray[Any]:
    """Return the matrix, which is one that the manifest vouches for."""
    manifest = _read_manifest(manifest_file)
    matrix = _read_npy(matrix_file)

    found = _describe(matrix)
    accepted = [{key: manifest[key] for key in _DESCRIPTION_KEYS}]
    if "previous" in manifest:
        accepted.append(manifest["previous"])
    if found not in accepted:
        expected = accepted[0]
        wrong = ", ".join(
            f"{key} {found[key]} where the manifest says {expected[key]}"
            for key in ("shape", "dtype", "sha256")
            if found[key] != expected[key]
        )
        raise ValueError(
            f"load: {matrix_file} must hold the matrix that {manifest_file.name} describes; it has {wrong}. "
            "The two files are from different saves or damaged: take both from one save."
        )
    return matrix


def _read_manifest(file: Path) -> dict[str, Any]:
    """Return the manifest, of which every key, type and range has been checked."""
    content = file.read_bytes()
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise _damaged(file, f"is not JSON: {error}") from error
    if not isinstance(manifest, dict):
        raise _damaged(file, f"must be a JSON object and is a {type(manifest).__name__}")
    if manifest.get("format") != FORMAT:
        raise _damaged(file, f"must have format {FORMAT!r}; got {manifest.get('format')!r}")
    if type(manifest.get("version")) is not int or manifest["version"] != VERSION:
        raise _damaged(file, f"must have version {VERSION}, the only one known here; got {manifest.get('version')!r}")
    _check_keys(file, manifest.keys() - {"previous"}, _MANIFEST_KEYS)
    _check_description(file, manifest)
    if "previous" in manifest:
        previous = manifest["previous"]
        if not isinstance(previous, dict):
            raise _damaged(file, f"must have an object in 'previous'; got {previous!r}")
        _check_keys(file, previous.keys(), _DESCRIPTION_KEYS)
        _check_description(file, previous)
    return manifest


def _check_keys(file: Path, found: Any, expected: frozenset[str]) -> None:
    """Raise unless the two sets are equal."""
    if found != expected:
        missing, unknown = sorted(expected - found), sorted(found - expected)
        raise _damaged(file, f"must have exactly the keys {sorted(expected)}; missing {missing}, unknown {unknown}")


def _check_description(file: Path, description: dict[str, Any]) -> None:
    """Raise unless shape, dtype and checksum are of the right form."""
    shape, dtype, sha256 = description["shape"], description["dtype"], description["sha256"]
    if not (isinstance(shape, list) and len(shape) == 2 and all(type(n) is int and n >= 1 for n in shape)):
        raise _damaged(file, f"must have two sizes of at least 1 as shape; got {shape!r}")
    if dtype not in ("float32", "float64"):
        raise _damaged(file, f"must have dtype 'float32' or 'float64'; got {dtype!r}")
    if not (isinstance(sha256, str) and len(sha256) == 64):
        raise _damaged(file, f"must have 64 hexadecimal digits as sha256; got {sha256!r}")


def _read_npy(file: Path) -> npt.NDArray[Any]:
    """Return the two-dimensional floating array of a `.npy` file, native and C-contiguous, without unpickling."""
    with open(file, "rb") as stream:
        shape, is_fortran, dtype = _read_npy_header(file, stream)
        if dtype.hasobject:
            raise _damaged(file, "must hold numbers and holds Python objects, which are never unpickled")
        if dtype.newbyteorder("=") not in (np.float32, np.float64) or len(shape) != 2 or min(shape) < 1:
            raise _damaged(file, f"must hold a matrix of float32 or float64; it has shape {shape}, dtype {dtype}")
        # Compared before reading: a damaged header may announce more than the memory holds.
        announced = math.prod(shape) * dtype.itemsize
        present = os.fstat(stream.fileno()).st_size - stream.tell()
        if present != announced:
            raise _damaged(file, f"is cut or has something appended: {announced} bytes announced, {present} present")
        content = stream.read()
    values = np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if is_fortran else "C")
    return np.ascontiguousarray(values, dtype=dtype.newbyteorder("="))


def _read_npy_header(file: Path, stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, memory order and dtype that the header announces."""
    readers = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
    try:
        version = npy_format.read_magic(stream)
        if version not in readers:
            raise ValueError(f"format version {version} is not for plain matrices")
        shape, is_fortran, dtype = readers[version](stream)
    except Exception as error:  # NumPy's parser meets arbitrary bytes here and raises whatever its tokeniser does
        raise _damaged(file, f"is not a whole .npy file: {error}") from error
    return shape, is_fortran, dtype


def _damaged(file: Path, what: str) -> ValueError:
    """Return the error for a file that cannot be used."""
    return ValueError(f"load: {file} {what}. Take both files of the pair from one save.")
