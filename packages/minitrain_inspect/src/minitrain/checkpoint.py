"""Saving and restoring everything a run needs to continue bit-identically.

One file, `checkpoint/state.safetensors`, holds weights, optimiser moments, and, in its header, the plain numbers:
progress, position in the data, generators of dropout, the Inspector's counters. One file, because it is replaced in
one step: a kill can never leave the weights of one step beside the moments of another. `checkpoint/model.safetensors`
has the weights alone, for those who want the model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from autograd_core import Dropout, Module
from autograd_core.files import write_atomic
from autograd_core.optim import Optimizer
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from .loop import Progress

SCHEMA = "2"

Arrays = dict[str, npt.NDArray[Any]]


class Resumable(Protocol):
    """Something whose state is a JSON object."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


def save_checkpoint(
    path: Path, model: Module, optimizer: Optimizer, progress: Progress, parts: Mapping[str, Resumable]
) -> None:
    """Write the state of a run to `path`, whole or not at all.

    Parameters
    ----------
    path : Path
    model : Module
        Its parameters, and the generators of its `Dropout` modules.
    optimizer : Optimizer
    progress : Progress
    parts : mapping of name to object with `state_dict`
        Data iterators, Inspector: plain JSON each.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    arrays, numbers = _gather(model, optimizer, parts)
    written = json.dumps({**numbers, "progress": asdict(progress)})
    header = {"schema": SCHEMA, "numbers": written, "sha256": _checksum(arrays, written)}
    write_atomic(path, save(arrays, header))


def load_checkpoint(path: Path, model: Module, optimizer: Optimizer, parts: Mapping[str, Resumable]) -> Progress:
    """Progress of the run whose state `save_checkpoint` wrote, after restoring it into the other arguments.

    They must be made as those of the run were. If one of them refuses its state, all are put back as they were.

    Raises
    ------
    ValueError
        If the file is damaged, of another version, or does not fit the objects; one line that names the file.
    OSError
        If it cannot be read.
    """
    arrays, numbers = _read(path)
    own_arrays, own_numbers = _gather(model, optimizer, parts)
    found, needed = _inventory(arrays, numbers), _inventory(own_arrays, own_numbers)
    for key in sorted(found.keys() | needed.keys()):
        in_file, here = found.get(key, "missing"), needed.get(key, "missing")
        if in_file != here:
            raise ValueError(
                f"{path}: a checkpoint must fit the run; {key} is {in_file} in the file and {here} here. "
                "Resume with the configuration and the version that wrote it."
            )
    try:
        _put(arrays, numbers, model, optimizer, parts)
        return Progress(**numbers["progress"])
    except (ValueError, TypeError, KeyError, IndexError) as error:
        _put(own_arrays, own_numbers, model, optimizer, parts)
        raise ValueError(f"{path}: a checkpoint must fit the run; {error}") from error


def step_of(path: Path) -> int | None:
    """Step after which the checkpoint at `path` was written; None where there is none that can be read."""
    try:
        with safe_open(path, "numpy") as file:
            return int(json.loads((file.metadata() or {})["numbers"])["progress"]["step"])
    except (OSError, SafetensorError, ValueError, TypeError, KeyError):
        return None


def _gather(model: Module, optimizer: Optimizer, parts: Mapping[str, Resumable]) -> tuple[Arrays, dict[str, Any]]:
    """Return copies of all arrays and all plain numbers that make up the state."""
    state = optimizer.state_dict()
    arrays: Arrays = {f"model/{name}": array for name, array in model.state_dict().items()}
    steps: list[int] = []
    for number, entry in enumerate(state["parameters"]):
        steps.append(entry.pop("steps"))
        arrays |= {f"optimizer/{number}/{name}": array for name, array in entry.items()}
    numbers = {
        "optimizer": {"optimizer": state["optimizer"], "groups": state["groups"], "steps": steps},
        "dropout": {name: layer.rng.bit_generator.state for name, layer in _dropouts(model)},
        "parts": {name: part.state_dict() for name, part in parts.items()},
    }
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}, numbers


def _put(
    arrays: Arrays, numbers: Mapping[str, Any], model: Module, optimizer: Optimizer, parts: Mapping[str, Resumable]
) -> None:
    """Write what `_gather` returned back into the objects it came from, or into their like."""
    settings = dict(numbers["optimizer"])
    moments: list[dict[str, Any]] = [{"steps": steps} for steps in settings.pop("steps")]
    weights: Arrays = {}
    for key, array in arrays.items():
        owner, name = key.split("/", 1)
        if owner == "model":
            weights[name] = array
        else:
            number, moment = name.split("/")
            moments[int(number)][moment] = array
    model.load_state_dict(weights)
    optimizer.load_state_dict({**settings, "parameters": moments})
    for name, layer in _dropouts(model):
        layer.rng.bit_generator.state = numbers["dropout"][name]
    for name, part in parts.items():
        part.load_state_dict(numbers["parts"][name])


def _read(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Return arrays and numbers of a checkpoint file, once its checksum is right."""
    try:
        with safe_open(path, "numpy") as file:
            header = file.metadata() or {}
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, ValueError, TypeError) as error:
        raise ValueError(f"{path}: a checkpoint must be a whole safetensors file; {error}. Start again.") from error
    if header.get("schema") != SCHEMA:
        raise ValueError(
            f"{path}: a checkpoint must have schema {SCHEMA}; got {header.get('schema')}. "
            "Resume with the version that wrote it."
        )
    # safetensors has no checksum of its own: it would load a flipped bit as another weight.
    if header.get("sha256") != _checksum(arrays, header.get("numbers", "")):
        raise ValueError(
            f"{path}: a checkpoint must have the checksum in its header; its content differs. Start again."
        )
    numbers: dict[str, Any] = json.loads(header["numbers"])
    return arrays, numbers


def _checksum(arrays: Arrays, written: str) -> str:
    """Return the SHA-256 of names, dtypes, shapes, numbers and header, in hexadecimal."""
    digest = hashlib.sha256(written.encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def _inventory(arrays: Arrays, numbers: Mapping[str, Any]) -> dict[str, str]:
    """Return what there is, by name: dtype and shape of arrays, mere presence of the rest."""
    others = {f"{kind}/{name}": "present" for kind in ("dropout", "parts") for name in numbers[kind]}
    return {name: f"{array.dtype} {array.shape}" for name, array in arrays.items()} | others


def _dropouts(model: Module) -> list[tuple[str, Dropout]]:
    return [(name, module) for name, module in model.named_modules() if isinstance(module, Dropout)]
