"""MyGrad with memory guarding off, as its documentation advises for speed, and plain NumPy for the optimiser."""

from __future__ import annotations

import mygrad
import numpy as np
import numpy.typing as npt
from workloads import Weights, Workload, batch, stream

from . import textbook

FUNCTIONS = textbook.functions(mygrad, lambda x: x.data.max(axis=-1, keepdims=True))


class Contestant:
    """The textbook formula on tensors that share their memory with the optimiser's arrays."""

    def __init__(self, workload: Workload, dtype: str, weights: Weights, threads: int = 1) -> None:
        mygrad.turn_memory_guarding_off()
        self.workload = workload
        self.weights = {name: array.copy() for name, array in weights.items()}
        self.tensors = {name: mygrad.tensor(array, copy=False) for name, array in self.weights.items()}
        self.optimizer = textbook.PlainAdamW(self.weights)
        self.mask = textbook.causal_mask(workload.T, dtype)
        self.tokens, self.targets = batch(workload)
        self.x = mygrad.tensor(stream(workload, dtype), constant=True)

    def _backward(self) -> float:
        loss = textbook.loss(FUNCTIONS, self.tensors, self.tokens, self.targets, self.workload, self.mask)
        loss.backward()
        return float(loss.data)

    def loss_and_gradients(self) -> tuple[float, Weights]:
        loss = self._backward()
        return loss, {name: tensor.grad.copy() for name, tensor in self.tensors.items()}

    def step(self) -> float:
        loss = self._backward()
        self.optimizer.step(self.weights, {name: tensor.grad for name, tensor in self.tensors.items()})
        return loss

    def forward(self) -> mygrad.Tensor:
        with mygrad.no_autodiff:
            return textbook.block(FUNCTIONS, self.tensors, "blocks.0.", self.x, self.workload.H, self.mask)

    def output(self) -> npt.NDArray[np.floating]:
        return self.forward().data
