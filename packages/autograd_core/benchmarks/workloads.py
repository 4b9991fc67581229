"""Sizes, weights and batches of the workloads: every contestant gets exactly these arrays.

Names of weights are those of `MiniGPT.state_dict()`; matrices are (in, out), as in x @ W.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEARNING_RATE, BETA1, BETA2, EPS, WEIGHT_DECAY = 1e-3, 0.9, 0.999, 1e-8, 0.01  # AdamW, every array decays
MAX_NORM = 1.0  # of the gradients, clipped by their global norm
LAYER_NORM_EPS = 1e-5

Weights = dict[str, npt.NDArray[np.floating]]


@dataclass(frozen=True)
class Workload:
    """One thing to measure. V, D, H and L as in the root BLUEPRINT; F is 4 D; B sequences of T tokens."""

    name: str
    V: int
    D: int
    H: int
    L: int
    context_len: int
    B: int
    T: int
    training: bool
    says: str


WORKLOADS = {
    each.name: each
    for each in (
        Workload("w1", 64, 64, 4, 1, 8, 1, 8, False, "one block forward, (T, D) = (8, 64), no gradient"),
        Workload("w2", 64, 64, 4, 2, 32, 16, 14, True, "training step, 16 x 14 tokens, D 64, 2 layers"),
        Workload("w3", 256, 128, 4, 4, 64, 32, 64, True, "training step, 32 x 64 tokens, D 128, 4 layers"),
    )
}


def shapes(workload: Workload) -> dict[str, tuple[int, ...]]:
    """Shape of every weight by name, with learned positions and attention biases."""
    d, f = workload.D, 4 * workload.D
    found: dict[str, tuple[int, ...]] = {
        "embedding.E": (workload.V, d),
        "position_embedding.E": (workload.context_len, d),
    }
    for layer in range(workload.L):
        block = f"blocks.{layer}."
        for norm in ("ln1", "ln2"):
            found |= {f"{block}{norm}.gamma": (d,), f"{block}{norm}.beta": (d,)}
        for letter in "qkvo":
            found |= {f"{block}attn.W_{letter}": (d, d), f"{block}attn.b_{letter}": (d,)}
        found |= {f"{block}ffn.W1": (d, f), f"{block}ffn.b1": (f,), f"{block}ffn.W2": (f, d), f"{block}ffn.b2": (d,)}
    return found | {"ln_final.gamma": (d,), "ln_final.beta": (d,)}


def weights(workload: Workload, dtype: npt.DTypeLike) -> Weights:
    """Weights with nothing at a special value: gains are not 1 and biases not 0, so that a term left out shows."""
    rng = np.random.default_rng(11)
    drawn = {}
    for name, shape in shapes(workload).items():
        if name.endswith(".gamma"):
            array = 1.0 + 0.1 * rng.standard_normal(shape)
        elif len(shape) == 1 or name.endswith(".E"):
            array = 0.05 * rng.standard_normal(shape)
        else:
            array = 0.7 / shape[0] ** 0.5 * rng.standard_normal(shape)
        drawn[name] = array.astype(dtype)
    return drawn


def batch(workload: Workload) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Tokens and the token after each, both (B, T)."""
    ids = np.random.default_rng(12).integers(0, workload.V, (workload.B, workload.T + 1))
    return ids[:, :-1].copy(), ids[:, 1:].copy()


def stream(workload: Workload, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
    """A residual stream (B, T, D), the input of a block."""
    return np.random.default_rng(13).standard_normal((workload.B, workload.T, workload.D)).astype(dtype)
