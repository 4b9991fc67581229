"""Adam with decoupled weight decay."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..arrays import Array
from ..parameter import Parameter
from .flat import FlatParameters
from .groups import Optimizer, ParameterGroup


class AdamW(Optimizer):
    """p *= 1 - lr · weight_decay, then p -= lr · m̂ / (√v̂ + eps).

    Parameters
    ----------
    params : iterable of Parameter, or of groups
        A plain list decays everything in it; `decay_groups(model, weight_decay)` spares biases and gains.
    lr : float, at least 0
    betas : (float, float), each in [0, 1)
        Decay of the first and second moment.
    eps : float
        Added outside the root.
    weight_decay : float, at least 0

    Notes
    -----
    m = β₁ m + (1 - β₁) g,  v = β₂ v + (1 - β₂) g²,  m̂ = m/(1 - β₁ᵗ),  v̂ = v/(1 - β₂ᵗ), t counted for each parameter.

    References
    ----------
    Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2; Kingma and Ba, "Adam" (2015),
    algorithm 1.
    """

    _moments = ("m", "v")

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[Mapping[str, Any]],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay})

    def _check(self, group: ParameterGroup) -> None:
        super()._check(group)
        if len(group["betas"]) != 2 or not all(0.0 <= beta < 1.0 for beta in group["betas"]):
            raise ValueError(f"AdamW: betas must be in [0, 1), two numbers; got {group['betas']}.")
        if not group["eps"] >= 0.0:
            raise ValueError(f"AdamW: eps must be at least 0; got {group['eps']}.")

    def _update(
        self, flat: FlatParameters, first: int, last: int, group: ParameterGroup, state: dict[str, Array]
    ) -> None:
        lr, (beta1, beta2), eps = group["lr"], group["betas"], group["eps"]
        t = flat.steps[first] + 1
        # m̂/(√v̂ + eps) = (root / (1 - β₁ᵗ)) m / (√v + eps root) with root = √(1 - β₂ᵗ): a pass over the moments less.
        root = math.sqrt(1.0 - beta2**t)
        step_size = lr * root / (1.0 - beta1**t)
        eps_scaled = eps * root

        def compute(piece: slice) -> None:
            g, update = flat.grad[piece], flat.update[piece]
            m, v = state["m"][piece], state["v"][piece]
            m *= beta1
            np.multiply(g, 1.0 - beta1, out=update)
            m += update
            v *= beta2
            np.multiply(g, g, out=update)
            update *= 1.0 - beta2
            v += update
            np.sqrt(v, out=update)
            update += eps_scaled
            np.divide(m, update, out=update)
            update *= step_size

        flat.apply(first, last, compute, decay=1.0 - lr * group["weight_decay"])
