"""Parameter groups and what all optimisers share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..arrays import Array
from ..module import Module
from ..parameter import Parameter
from .flat import FlatParameters

ParameterGroup = dict[str, Any]


def decay_groups(model: Module, weight_decay: float) -> list[ParameterGroup]:
    """Return the usual two groups: arrays of two and more dimensions decay, biases and norm gains do not.

    Parameters
    ----------
    model : Module
    weight_decay : float, at least 0

    Raises
    ------
    ValueError
        If `weight_decay` is negative or NaN.
    """
    if not weight_decay >= 0.0:
        raise ValueError(f"decay_groups: weight_decay must be at least 0; got {weight_decay}.")
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]


class Optimizer:
    """Base: groups, their settings, gradients and states over flat arrays.

    Parameters
    ----------
    params : iterable of Parameter, or of groups
        A group is a dict with "params" and settings of its own, such as "lr" or "weight_decay". A parameter given twice
        is used once. Frozen parameters, and those without a gradient, are skipped by `step`.
    defaults : dict
        Settings of groups that do not say otherwise.

    Notes
    -----
    The `.grad` of the parameters live in one flat array, which the next backward after `zero_grad` fills anew: copy a
    gradient to keep it.
    """

    _moments: tuple[str, ...] = ()

    def __init__(self, params: Iterable[Parameter] | Iterable[Mapping[str, Any]], defaults: dict[str, Any]) -> None:
        entries: list[Any] = list(params)
        groups = entries if any(isinstance(entry, Mapping) for entry in entries) else [{"params": entries}]
        seen: set[int] = set()
        self.param_groups: list[ParameterGroup] = []
        for group in groups:
            if not isinstance(group, Mapping) or "params" not in group:
                raise TypeError(
                    f'{type(self).__name__}: a group is a dict with "params"; got '
                    f"{sorted(group) if isinstance(group, Mapping) else type(group).__name__}. "
                    "Give parameters alone, or groups alone."
                )
            unknown = sorted(group.keys() - defaults.keys() - {"params"})
            if unknown:
                raise ValueError(f"{type(self).__name__}: a group may set {sorted(defaults)}; got unknown {unknown}.")
            own: list[Parameter] = []
            for parameter in group["params"]:
                if not isinstance(parameter, Parameter):
                    raise TypeError(
                        f"{type(self).__name__}: optimises Parameters; got {type(parameter).__name__}. "
                        "Pass model.parameters(), or groups of them."
                    )
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    own.append(parameter)
            self.param_groups.append({**defaults, **group, "params": own})
            self._check(self.param_groups[-1])
        if not seen:
            raise ValueError(f"{type(self).__name__}: needs at least one parameter; got none.")

        # One flat array a dtype over all groups; `_ranges` says which stretch of it is which group's.
        self._flats: list[FlatParameters] = []
        self._ranges: list[tuple[FlatParameters, int, int, ParameterGroup]] = []
        for dtype in dict.fromkeys(p.dtype for group in self.param_groups for p in group["params"]):
            members = [[p for p in group["params"] if p.dtype == dtype] for group in self.param_groups]
            flat = FlatParameters([p for own in members for p in own])
            self._flats.append(flat)
            first = 0
            for group, own in zip(self.param_groups, members, strict=True):
                if own:
                    self._ranges.append((flat, first, first + len(own), group))
                first += len(own)
        self._state: dict[str, list[Array]] = {
            name: [np.zeros_like(flat.grad) for flat in self._flats] for name in self._moments
        }

    def _check(self, group: ParameterGroup) -> None:
        for name in ("lr", "weight_decay"):
            if not group[name] >= 0.0:
                raise ValueError(f"{type(self).__name__}: {name} must be at least 0; got {group[name]}.")

    @property
    def lr(self) -> float:
        """Learning rate of the first group; setting it sets all groups'."""
        rate: float = self.param_groups[0]["lr"]
        return rate

    @lr.setter
    def lr(self, rate: float) -> None:
        for group in self.param_groups:
            group["lr"] = rate

    def zero_grad(self) -> None:
        """Set `.grad` of every parameter to None."""
        for flat in self._flats:
            for parameter in flat.parameters:
                parameter._grad = None

    def step(self) -> None:
        """Update every parameter that has a gradient and is not frozen."""
        for flat, first, last, group in self._ranges:
            index = self._flats.index(flat)
            state = {name: arrays[index] for name, arrays in self._state.items()}
            for begin, end in flat.active(first, last):
                self._update(flat, begin, end, group, state)

    def _update(
        self, flat: FlatParameters, first: int, last: int, group: ParameterGroup, state: dict[str, Array]
    ) -> None:
        raise NotImplementedError

    def _ordered(self) -> list[tuple[FlatParameters, int, int]]:
        """Return (flat, index in it, index of flat) of every parameter, in the order of the groups."""
        places = {id(p): (flat, i, f) for f, flat in enumerate(self._flats) for i, p in enumerate(flat.parameters)}
        return [places[id(p)] for group in self.param_groups for p in group["params"]]

    def state_dict(self) -> dict[str, Any]:
        """Return settings and copies of all state: loading it continues bit-identically."""
        parameters = []
        for flat, i, f in self._ordered():
            start, end = flat.spans[i]
            arrays = {name: self._state[name][f][start:end].copy() for name in self._moments}
            parameters.append({"steps": flat.steps[i], **arrays})
        return {
            "optimizer": type(self).__name__,
            "groups": [{k: v for k, v in group.items() if k != "params"} for group in self.param_groups],
            "parameters": parameters,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, after checking that it fits; nothing is written if it does not.

        Raises
        ------
        ValueError
            For another kind of optimiser, or other numbers of groups, parameters or elements.
        """
        places = self._ordered()
        missing = sorted({"optimizer", "groups", "parameters"} - state.keys())
        if missing:
            raise ValueError(f"load_state_dict: the state must be what state_dict returned; it has no {missing}.")
        if state["optimizer"] != type(self).__name__:
            raise ValueError(f"load_state_dict: the state must be of {type(self).__name__}; got {state['optimizer']}.")
        if len(state["groups"]) != len(self.param_groups) or len(state["parameters"]) != len(places):
            raise ValueError(
                f"load_state_dict: needs {len(self.param_groups)} groups and {len(places)} parameters; "
                f"got {len(state['groups'])} and {len(state['parameters'])}."
            )
        settings = [group.keys() - {"params"} for group in self.param_groups]
        if any(own != saved.keys() for own, saved in zip(settings, state["groups"], strict=True)):
            raise ValueError(f"load_state_dict: each group needs the settings {sorted(settings[0])}.")
        for number, ((flat, i, _), saved) in enumerate(zip(places, state["parameters"], strict=True)):
            size = flat.parameters[i].size
            if "steps" not in saved:
                raise ValueError(f"load_state_dict: parameter {number} needs 'steps', how often it was updated.")
            for name in self._moments:
                if name not in saved or np.size(saved[name]) != size:
                    raise ValueError(
                        f"load_state_dict: parameter {number} needs '{name}' of {size} elements; "
                        f"got {np.size(saved[name]) if name in saved else 'none'}."
                    )
        for group, saved_settings in zip(self.param_groups, state["groups"], strict=True):
            group.update(saved_settings)
        for (flat, i, f), saved in zip(places, state["parameters"], strict=True):
            start, end = flat.spans[i]
            flat.steps[i] = int(saved["steps"])
            for name in self._moments:
                self._state[name][f][start:end] = np.ravel(saved[name])
