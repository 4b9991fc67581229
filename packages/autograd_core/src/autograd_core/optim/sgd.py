"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..arrays import Array
from ..parameter import Parameter
from .flat import FlatParameters
from .groups import Optimizer, ParameterGroup


class SGD(Optimizer):
    """p -= lr · buf, with g += weight_decay · p first, buf = g at the first step and momentum · buf + g after it.

    Parameters
    ----------
    params : iterable of Parameter, or of groups
    lr : float, at least 0
    momentum : float in [0, 1)
    weight_decay : float, at least 0
        Coupled: an L2 penalty added to the gradient.
    """

    _moments = ("buffer",)

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[Mapping[str, Any]],
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def _check(self, group: ParameterGroup) -> None:
        super()._check(group)
        if not 0.0 <= group["momentum"] < 1.0:
            raise ValueError(f"SGD: momentum must be in [0, 1); got {group['momentum']}.")

    def _update(
        self, flat: FlatParameters, first: int, last: int, group: ParameterGroup, state: dict[str, Array]
    ) -> None:
        lr, momentum, weight_decay = group["lr"], group["momentum"], group["weight_decay"]
        if weight_decay:
            # The decayed gradient goes into the scratch, never into .grad: that stays what backward made it.
            for i, view in enumerate(flat.views(flat.update)[first:last], start=first):
                np.multiply(flat.parameters[i].value, weight_decay, out=view)

        def compute(piece: slice) -> None:
            update, buffer = flat.update[piece], state["buffer"][piece]
            if weight_decay:
                update += flat.grad[piece]
            else:
                update[...] = flat.grad[piece]
            if momentum:
                buffer *= momentum  # 0 before the first step, so that it becomes g
                buffer += update
                update[...] = buffer
            update *= lr

        flat.apply(first, last, compute)
