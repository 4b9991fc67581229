"""HIPS autograd: `value_and_grad` of the textbook formula, plain NumPy for the optimiser."""

from __future__ import annotations

import autograd.numpy
import numpy as np
import numpy.typing as npt
from autograd import value_and_grad
from autograd.tracer import getval
from workloads import Weights, Workload, batch, stream

from . import textbook

FUNCTIONS = textbook.functions(autograd.numpy, lambda x: getval(x).max(axis=-1, keepdims=True))


class Contestant:
    """The formula and its gradient function."""

    def __init__(self, workload: Workload, dtype: str, weights: Weights, threads: int = 1) -> None:
        self.weights = {name: array.copy() for name, array in weights.items()}
        self.optimizer = textbook.PlainAdamW(self.weights)
        self.heads, self.mask = workload.H, textbook.causal_mask(workload.T, dtype)
        tokens, targets = batch(workload)
        self.x = stream(workload, dtype)
        self.value_and_grad = value_and_grad(
            lambda w: textbook.loss(FUNCTIONS, w, tokens, targets, workload, self.mask)
        )

    def loss_and_gradients(self) -> tuple[float, Weights]:
        loss, gradients = self.value_and_grad(self.weights)
        return float(loss), gradients

    def step(self) -> float:
        loss, gradients = self.value_and_grad(self.weights)
        self.optimizer.step(self.weights, gradients)
        return float(loss)

    def forward(self) -> npt.NDArray[np.floating]:
        return textbook.block(FUNCTIONS, self.weights, "blocks.0.", self.x, self.heads, self.mask)

    output = forward
