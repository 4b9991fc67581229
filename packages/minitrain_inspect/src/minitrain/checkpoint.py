"""Saving and restoring everything a run needs to continue bit-identically.

One file, `checkpoint/state.safetensors`, holds weights, optimiser moments, and, in its header, the plain numbers: progress,
position in the data, generators of dropout, the Inspector's counters. One file, because it is replaced in one step: a kill
can never leave the weights of one step beside the moments of another. `checkpoint/model.safetensors` has the weights
alone, for those who want the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from autograd_core import Dropout, Module
from autograd_core.optim import Optimizer
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from .files import write_atomic
from .loop import Progress

SCHEMA = "1"


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
    """
    state = optimizer.state_dict()
    arrays: dict[str, npt.NDArray[Any]] = {f"model/{k}": v for k, v in model.state_dict().items()}
    steps: list[int] = []
    for number, entry in enumerate(state["parameters"]):
        steps.append(entry.pop("steps"))
        arrays |= {f"optimizer/{number}/{name}": array for name, array in entry.items()}
    header = {
        "schema": SCHEMA,
        "progress": json.dumps(asdict(progress)),
        "optimizer": json.dumps({"optimizer": state["optimizer"], "groups": state["groups"], "steps": steps}),
        "dropout": json.dumps({name: layer.rng.bit_generator.state for name, layer in _dropouts(model)}),
        "parts": json.dumps({name: part.state_dict() for name, part in parts.items()}),
    }
    write_atomic(path, save({k: np.ascontiguousarray(v) for k, v in arrays.items()}, header))


def load_checkpoint(path: Path, model: Module, optimizer: Optimizer, parts: Mapping[str, Resumable]) -> Progress:
    """Restore what `save_checkpoint` wrote into freshly made objects of the same configuration.

    Returns
    -------
    Progress

    Raises
    ------
    ValueError
        If the file is damaged, of another version, or does not fit the objects.
    """
    try:
        with safe_open(path, "numpy") as file:
            header = file.metadata() or {}
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
    except SafetensorError as error:
        raise ValueError(f"{path}: a checkpoint must be a whole safetensors file; {error}. Start again.") from error
    if header.get("schema") != SCHEMA:
        raise ValueError(f"{path}: a checkpoint must have schema {SCHEMA}; got {header.get('schema')}.")
    settings = json.loads(header["optimizer"])
    moments: list[dict[str, Any]] = [{"steps": steps} for steps in settings["steps"]]
    weights: dict[str, npt.NDArray[Any]] = {}
    for key, array in arrays.items():
        owner, name = key.split("/", 1)
        if owner == "model":
            weights[name] = array
        else:
            number, moment = name.split("/")
            moments[int(number)][moment] = array
    model.load_state_dict(weights)
    optimizer.load_state_dict({**settings, "parameters": moments})
    generators = json.loads(header["dropout"])
    for name, layer in _dropouts(model):
        layer.rng.bit_generator.state = generators[name]
    states = json.loads(header["parts"])
    for name, part in parts.items():
        part.load_state_dict(states[name])
    return Progress(**json.loads(header["progress"]))


def _dropouts(model: Module) -> list[tuple[str, Dropout]]:
    return [(name, module) for name, module in model.named_modules() if isinstance(module, Dropout)]
