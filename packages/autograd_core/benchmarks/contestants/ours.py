"""Our own: `MiniGPT` from its public interface, as a user would train it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from autograd_core import Tensor, no_grad
from autograd_core.optim import AdamW, clip_grad_norm
from minimodel.transformer import MiniGPT, MiniGPTConfig
from workloads import (
    BETA1,
    BETA2,
    EPS,
    LAYER_NORM_EPS,
    LEARNING_RATE,
    MAX_NORM,
    WEIGHT_DECAY,
    Weights,
    Workload,
    batch,
    stream,
)


class Contestant:
    """MiniGPT with learned positions and attention biases; if `default`, as configured by default: RoPE, no biases."""

    def __init__(
        self, workload: Workload, dtype: str, weights: Weights, threads: int = 1, *, default: bool = False
    ) -> None:
        config = MiniGPTConfig(
            d_model=workload.D,
            n_heads=workload.H,
            n_layers=workload.L,
            d_ff=4 * workload.D,
            vocab_size=workload.V,
            context_len=workload.context_len,
            position="rope" if default else "learned",
            attention_bias=not default,
            ln_eps=LAYER_NORM_EPS,
            dtype=dtype,
        )
        self.model = MiniGPT(config, rng=np.random.default_rng(0))
        self.model.load_state_dict({name: weights[name] for name in self.model.state_dict()})
        self.parameters = list(self.model.parameters())
        self.optimizer = AdamW(
            self.parameters, lr=LEARNING_RATE, betas=(BETA1, BETA2), eps=EPS, weight_decay=WEIGHT_DECAY
        )
        self.tokens, self.targets = batch(workload)
        x = stream(workload, dtype)
        self.x = Tensor(x if workload.B > 1 else x[0])
        self.shape = x.shape

    def loss_and_gradients(self) -> tuple[float, Weights]:
        self.model.zero_grad()
        loss = self.model.loss(self.tokens, self.targets)
        loss.backward()
        gradients = {name: np.array(p.grad) for name, p in self.model.named_parameters()}
        self.model.zero_grad()
        return loss.item(), gradients

    def step(self) -> float:
        self.optimizer.zero_grad()
        loss = self.model.loss(self.tokens, self.targets)
        loss.backward()
        clip_grad_norm(self.parameters, MAX_NORM)
        self.optimizer.step()
        return loss.item()

    def forward(self) -> Tensor:
        with no_grad():
            return self.model.blocks[0](self.x)

    def output(self) -> npt.NDArray[np.floating]:
        return self.forward().value.reshape(self.shape)
