"""The model as a formula over a module that looks like NumPy, and the AdamW that its users write.

HIPS autograd, JAX and MyGrad differentiate it, each with its own functions; nothing in it is fused. They give `largest`
beside those: the maximum along the last axis, kept, as data. Its gradient cancels, and they would pay for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
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
)

NAMES = ("exp", "log", "matmul", "mean", "reshape", "sqrt", "sum", "swapaxes", "tanh", "transpose")


def functions(module: Any, largest: Callable[[Any], Any]) -> SimpleNamespace:
    """What the formula below calls."""
    return SimpleNamespace(largest=largest, **{name: getattr(module, name) for name in NAMES})


def normalise(xp: Any, x: Any, gamma: Any, beta: Any) -> Any:
    """LayerNorm over the last axis."""
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(variance + LAYER_NORM_EPS) * gamma + beta


def gelu(xp: Any, h: Any) -> Any:
    """GELU in its tanh form."""
    return 0.5 * h * (1.0 + xp.tanh(math.sqrt(2.0 / math.pi) * (h + 0.044715 * h * h * h)))


def block(xp: Any, weights: dict[str, Any], prefix: str, x: Any, heads: int, mask: Any) -> Any:
    """Pre-LN block on (B, T, D); `mask` is 0 where seen and very negative elsewhere."""
    B, T, D = x.shape
    w = {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}
    h = normalise(xp, x, w["ln1.gamma"], w["ln1.beta"])

    def split(letter: str) -> Any:
        projected = xp.matmul(h, w[f"attn.W_{letter}"]) + w[f"attn.b_{letter}"]
        return xp.swapaxes(xp.reshape(projected, (B, T, heads, D // heads)), 1, 2)

    q, k, v = split("q"), split("k"), split("v")
    scores = xp.matmul(q, xp.swapaxes(k, -1, -2)) * (1.0 / math.sqrt(D // heads)) + mask
    exponentials = xp.exp(scores - xp.largest(scores))
    attention = exponentials / xp.sum(exponentials, axis=-1, keepdims=True)
    joined = xp.reshape(xp.swapaxes(xp.matmul(attention, v), 1, 2), (B, T, D))
    x = x + xp.matmul(joined, w["attn.W_o"]) + w["attn.b_o"]
    h = normalise(xp, x, w["ln2.gamma"], w["ln2.beta"])
    return x + xp.matmul(gelu(xp, xp.matmul(h, w["ffn.W1"]) + w["ffn.b1"]), w["ffn.W2"]) + w["ffn.b2"]


def loss(xp: Any, weights: dict[str, Any], tokens: Any, targets: Any, workload: Workload, mask: Any) -> Any:
    """Mean cross-entropy of the targets, in nats."""
    x = weights["embedding.E"][tokens] + weights["position_embedding.E"][: workload.T]
    for i in range(workload.L):
        x = block(xp, weights, f"blocks.{i}.", x, workload.H, mask)
    x = normalise(xp, x, weights["ln_final.gamma"], weights["ln_final.beta"])
    logits = xp.reshape(xp.matmul(x, xp.transpose(weights["embedding.E"])), (-1, workload.V))
    shifted = logits - xp.largest(logits)
    chosen = shifted[np.arange(workload.B * workload.T), targets.reshape(-1)]
    return xp.mean(xp.log(xp.sum(xp.exp(shifted), axis=-1)) - chosen)


def causal_mask(length: int, dtype: str) -> np.ndarray:
    """0 up to the diagonal, very negative above."""
    return np.where(np.tri(length, dtype=bool), 0.0, -1e30).astype(dtype)


class PlainAdamW:
    """Clipping and AdamW, array by array, in place."""

    def __init__(self, weights: Weights) -> None:
        self.first = {name: np.zeros_like(array) for name, array in weights.items()}
        self.second = {name: np.zeros_like(array) for name, array in weights.items()}
        self.steps = 0

    def step(self, weights: Weights, gradients: dict[str, Any]) -> None:
        self.steps += 1
        norm = math.sqrt(sum(float(np.vdot(g, g)) for g in gradients.values()))
        clip = min(1.0, MAX_NORM / (norm + 1e-6))
        size = LEARNING_RATE / (1.0 - BETA1**self.steps)
        root = math.sqrt(1.0 - BETA2**self.steps)
        for name, p in weights.items():
            g, m, v = gradients[name] * clip, self.first[name], self.second[name]
            m *= BETA1
            m += (1.0 - BETA1) * g
            v *= BETA2
            v += (1.0 - BETA2) * g * g
            p *= 1.0 - LEARNING_RATE * WEIGHT_DECAY
            p -= size * m / (np.sqrt(v) / root + EPS)
