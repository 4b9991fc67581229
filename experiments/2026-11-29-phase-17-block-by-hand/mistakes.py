"""The block's forward with one of five mistakes in it, in plain NumPy: what a wrong block would have given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from autograd_core import functional as F
from minimodel.transformer import LayerNorm, TransformerBlock

Array = npt.NDArray[Any]

NONE = "none"
WRONG_AXIS = "LayerNorm over axis 0"
EXACT_GELU = "exact GELU"
NORM_AFTER = "x + LN(attn(x))"
NO_PROJECTION = "output projection skipped"
SWAPPED = "Q and K swapped"

MISTAKES = (WRONG_AXIS, EXACT_GELU, NORM_AFTER, NO_PROJECTION, SWAPPED)


def forward(block: TransformerBlock, x: Array, mistake: str) -> Array:
    """Return the block's output for `x`, shape (T, D), with `mistake` made everywhere it can be made."""

    def norm(layer: LayerNorm, rows: Array) -> Array:
        axis = 0 if mistake == WRONG_AXIS else -1
        mean, variance = rows.mean(axis=axis, keepdims=True), rows.var(axis=axis, keepdims=True)
        return layer.gamma.value * (rows - mean) / np.sqrt(variance + layer.eps) + layer.beta.value

    def attend(rows: Array) -> Array:
        q, k, v = (rows @ weight.value for weight in (block.attn.W_q, block.attn.W_k, block.attn.W_v))
        if mistake == SWAPPED:
            q, k = k, q
        scores = q @ k.T / math.sqrt(q.shape[-1])  # one head
        if block.attn.causal:
            scores[np.triu_indices(len(rows), 1)] = -np.inf
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        gathered = powers / powers.sum(axis=-1, keepdims=True) @ v
        return gathered if mistake == NO_PROJECTION else gathered @ block.attn.W_o.value

    def feed(rows: Array) -> Array:
        ffn = block.ffn
        hidden = F.gelu(rows @ ffn.W1.value + ffn.b1.value, approximate="none" if mistake == EXACT_GELU else "tanh")
        return hidden.value @ ffn.W2.value + ffn.b2.value

    if mistake == NORM_AFTER:
        z = x + norm(block.ln1, attend(x))
        return z + norm(block.ln2, feed(z))
    z = x + attend(norm(block.ln1, x))
    return z + feed(norm(block.ln2, z))
