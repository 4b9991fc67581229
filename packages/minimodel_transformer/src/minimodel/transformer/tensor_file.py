"""A safetensors file, one tensor at a time, as float32 or float64.

The safetensors library checks the file: header, names, offsets, length. The numbers are read here, because NumPy has no
bfloat16, and one by one, because a whole file of weights beside the model's own would take the memory twice.
"""

from __future__ import annotations

import json
import math
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

# A bfloat16 is read as the 16 bits it is.
_STORED = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}

_LENGTH = struct.Struct("<Q")
"""What a safetensors file begins with: the length of its JSON header."""


class TensorFile:
    """Names, shapes and dtypes of the tensors in a file, and their numbers when asked for.

    Parameters
    ----------
    path : path

    Attributes
    ----------
    path : Path
    shapes : dict of str to tuple of int
    dtypes : dict of str to str
        By safetensors' names, as "F32".

    Raises
    ------
    ValueError
        If it is not a whole safetensors file.
    FileNotFoundError
        If there is no such file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, str] = {}
        try:
            with safe_open(self.path, "numpy") as file:
                for name in file.keys():  # noqa: SIM118  not a mapping
                    entry = file.get_slice(name)
                    self.shapes[name] = tuple(entry.get_shape())
                    self.dtypes[name] = entry.get_dtype()
        except SafetensorError as error:
            raise ValueError(
                f"{self.path} must be a whole safetensors file; {' '.join(str(error).split())}. Save or fetch it again."
            ) from error
        with self.path.open("rb") as stream:
            (length,) = _LENGTH.unpack(stream.read(_LENGTH.size))
            header = json.loads(stream.read(length))
        self._starts = {name: _LENGTH.size + length + header[name]["data_offsets"][0] for name in self.shapes}

    def read(self, name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return one tensor in `dtype`: exactly what is stored, unless float64 is narrowed.

        Parameters
        ----------
        name : str
        dtype : dtype
            float64 or float32.

        Returns
        -------
        array, shape `shapes[name]`

        Raises
        ------
        ValueError
            If what is stored is not float64, float32, float16 or bfloat16.
        """
        stored = _STORED.get(self.dtypes[name])
        if stored is None:
            raise ValueError(
                f"{self.path}: {name} must be F64, F32, F16 or BF16; got {self.dtypes[name]}. "
                "Save the weights as floating-point numbers."
            )
        shape = self.shapes[name]
        values = np.fromfile(self.path, stored, count=math.prod(shape), offset=self._starts[name])
        if self.dtypes[name] == "BF16":
            values = (values.astype(np.uint32) << 16).view(np.float32)  # the rest of the mantissa is 0
        # A float64 beyond float32 becomes inf, and a signalling NaN a quiet one.
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(dtype).reshape(shape)
