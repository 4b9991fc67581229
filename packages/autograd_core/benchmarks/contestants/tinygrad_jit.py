"""tinygrad on its CPU device, the whole step captured by `TinyJit`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from tinygrad import Device, Tensor, TinyJit
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
    """The model by tinygrad's tensor methods, and AdamW in place so that the capture holds the state."""

    def __init__(self, workload: Workload, dtype: str, weights: Weights, threads: int = 1) -> None:
        self.workload = workload
        self.w = {name: Tensor(array).contiguous().realize() for name, array in weights.items()}
        for tensor in self.w.values():
            tensor.requires_grad = True
        self.first = {name: Tensor.zeros_like(t).contiguous().realize() for name, t in self.w.items()}
        self.second = {name: Tensor.zeros_like(t).contiguous().realize() for name, t in self.w.items()}
        self.powers = Tensor(np.ones(2, dtype)).contiguous().realize()  # β₁ᵗ and β₂ᵗ
        self.betas = Tensor(np.array([BETA1, BETA2], dtype)).realize()
        tokens, targets = batch(workload)
        self.tokens, self.targets = (
            Tensor(tokens.astype(np.int32)).realize(),
            Tensor(targets.astype(np.int32)).realize(),
        )
        self.x = Tensor(stream(workload, dtype)).realize()
        self.captured_step = TinyJit(self._step)
        self.captured_block = TinyJit(lambda x: self._block(0, x).realize())

    def _normalise(self, x: Tensor, name: str) -> Tensor:
        return x.layernorm(eps=LAYER_NORM_EPS) * self.w[f"{name}.gamma"] + self.w[f"{name}.beta"]

    def _block(self, i: int, x: Tensor) -> Tensor:
        B, T, D = x.shape
        H, w, block = self.workload.H, self.w, f"blocks.{i}."
        h = self._normalise(x, block + "ln1")
        q, k, v = (
            (h @ w[f"{block}attn.W_{letter}"] + w[f"{block}attn.b_{letter}"]).reshape(B, T, H, D // H).transpose(1, 2)
            for letter in "qkv"
        )
        y = q.scaled_dot_product_attention(k, v, is_causal=True).transpose(1, 2).reshape(B, T, D)
        x = x + y @ w[block + "attn.W_o"] + w[block + "attn.b_o"]
        h = self._normalise(x, block + "ln2") @ w[block + "ffn.W1"] + w[block + "ffn.b1"]
        h = 0.5 * h * (1.0 + (math.sqrt(2.0 / math.pi) * (h + 0.044715 * h * h * h)).tanh())
        return x + h @ w[block + "ffn.W2"] + w[block + "ffn.b2"]

    def _loss(self) -> Tensor:
        x = self.w["embedding.E"][self.tokens] + self.w["position_embedding.E"][: self.workload.T]
        for i in range(self.workload.L):
            x = self._block(i, x)
        logits = self._normalise(x, "ln_final") @ self.w["embedding.E"].T
        return logits.sparse_categorical_crossentropy(self.targets)

    def _gradients(self, loss: Tensor) -> dict[str, Tensor]:
        return dict(zip(self.w, loss.gradient(*self.w.values()), strict=True))

    def _step(self) -> Tensor:
        loss = self._loss()
        gradients = self._gradients(loss)
        norm = sum((g * g).sum() for g in gradients.values()).sqrt()
        clip = (MAX_NORM / (norm + 1e-6)).minimum(1.0)
        self.powers.assign(self.powers * self.betas)
        size, root = LEARNING_RATE / (1.0 - self.powers[0]), (1.0 - self.powers[1]).sqrt()
        for name, p in self.w.items():
            g, m, v = gradients[name] * clip, self.first[name], self.second[name]
            m.assign(BETA1 * m + (1.0 - BETA1) * g)
            v.assign(BETA2 * v + (1.0 - BETA2) * g * g)
            p.assign(p * (1.0 - LEARNING_RATE * WEIGHT_DECAY) - size * m / (v.sqrt() / root + EPS))
        return loss.realize(self.powers, *self.first.values(), *self.second.values(), *self.w.values())

    def loss_and_gradients(self) -> tuple[float, Weights]:
        loss = self._loss()
        return float(loss.item()), {name: g.numpy() for name, g in self._gradients(loss).items()}

    def step(self) -> float:
        return float(self.captured_step().item())

    def forward(self) -> Tensor:
        y = self.captured_block(self.x)
        Device[y.device].synchronize()
        return y

    def output(self) -> npt.NDArray[np.floating]:
        return self.forward().numpy()
