"""The parameters of a module as one safetensors file: names, shapes, dtypes and numbers, nothing that runs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping

import numpy as np
import safetensors.numpy
from autograd_core import Module
from autograd_core.files import write_atomic
from minimodel.embedding.arguments import file_argument, path_argument
from safetensors import SafetensorError


def save_weights(model: Module, path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Write every parameter of `model` under its dotted name; return nothing. A tied parameter is written once.

    Parameters
    ----------
    model : Module
    path : path
        The file; its folder must exist. Written whole or not at all; equal parameters give equal bytes.
    metadata : mapping of str to str, optional
        Kept in the file's header, for who reads it; `load_weights` does not look. Of several entries the order is not
        kept.

    Raises
    ------
    OSError
        If the folder is missing or not writable.
    ValueError
        If the path does not end in a name.
    """
    file = file_argument("save_weights", path)
    arrays = {name: np.ascontiguousarray(parameter.value) for name, parameter in model.named_parameters()}
    write_atomic(file, safetensors.numpy.save(arrays, None if metadata is None else dict(metadata)))


def load_weights(model: Module, path: str | os.PathLike[str]) -> None:
    """Copy the parameters in `path` into `model`; return nothing. All of them or, on an error, none.

    Parameters
    ----------
    model : Module
        With the names, shapes and dtypes of the file, no more and no less.
    path : path

    Raises
    ------
    ValueError
        If the file is damaged, or its names, shapes or dtypes are not the model's; lists what differs.
    FileNotFoundError
        If there is no such file.

    Warns
    -----
    RuntimeWarning
        If the file holds NaN or infinite values.
    """
    file = path_argument("load_weights", path)
    content = file.read_bytes()
    try:
        found = safetensors.numpy.load(content)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:  # KeyError: a dtype that NumPy does not have
        raise ValueError(
            f"load_weights: {file} is not a whole safetensors file of NumPy's dtypes: {error}. Save it again."
        ) from error

    parameters = dict(model.named_parameters())
    missing, unknown = sorted(parameters.keys() - found.keys()), sorted(found.keys() - parameters.keys())
    if missing or unknown:
        raise ValueError(
            f"load_weights: {file} must hold exactly the model's parameters; missing {missing}, unknown {unknown}. "
            "Make the model with the configuration it was saved with."
        )
    different = [
        f"{name} is {found[name].shape} {found[name].dtype} and must be {parameter.shape} {parameter.dtype}"
        for name, parameter in parameters.items()
        if found[name].shape != parameter.shape or found[name].dtype != parameter.dtype
    ]
    if different:
        raise ValueError(
            f"load_weights: {file} must hold the model's shapes and dtypes; {'; '.join(different)}. "
            "Make the model with the configuration it was saved with."
        )
    bad = [name for name, array in found.items() if not np.isfinite(array).all()]
    if bad:
        warnings.warn(
            f"load_weights: {file} holds NaN or infinite values in {bad}; they are loaded as they are.",
            RuntimeWarning,
            stacklevel=2,
        )
    for name, parameter in parameters.items():
        parameter.value = found[name]
