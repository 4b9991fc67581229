"""The reference of W1: one block forward, written by hand for frozen weights and one input, 32 calls.

Beyond what `hand.py` does, all that does not change between calls is folded away: LayerNorm's √D, and a scale of the
hidden layer by which GELU's exponent is p (p² + k). Every view and every buffer is made once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from workloads import LAYER_NORM_EPS, Weights, Workload, stream

from .hand import CUBIC, SAFE, SLOPE, with_ones

Array = npt.NDArray[Any]


class Contestant:
    """Folded weights, buffers, and the forward."""

    def __init__(self, workload: Workload, dtype: str, weights: Weights, threads: int = 1) -> None:
        T, D, H = workload.T, workload.D, workload.H
        F, K = 4 * D, D // H
        self.safe = SAFE[dtype]
        self.x = stream(workload, dtype)[0]
        w = {name.removeprefix("blocks.0."): array for name, array in weights.items()}

        # -2u = -SLOPE h - CUBIC h³ = p (p² + k) for h = beta p
        beta = -(CUBIC ** (-1.0 / 3.0))
        self.k = -SLOPE * beta

        def folded(gain: Array, shift: Array, matrix: Array, bias: Array, scale: Any) -> Array:
            product = gain[:, None] * matrix
            rows = np.concatenate([(product - product.mean(axis=0)) * math.sqrt(D), [shift @ matrix + bias]])
            result: Array = (rows * scale).astype(dtype)
            return result

        qkv = np.concatenate([w[f"attn.W_{letter}"] for letter in "qkv"], axis=1)
        qkv_bias = np.concatenate([w[f"attn.b_{letter}"] for letter in "qkv"])
        column_scale = np.where(np.arange(3 * D) < D, 1.0 / math.sqrt(K), 1.0)
        self.w_qkv = folded(w["ln1.gamma"], w["ln1.beta"], qkv, qkv_bias, column_scale)
        self.w_1 = folded(w["ln2.gamma"], w["ln2.beta"], w["ffn.W1"], w["ffn.b1"], 1.0 / beta)
        self.w_o = np.concatenate([w["attn.W_o"], w["attn.b_o"][None]])
        self.w_2 = np.concatenate([w["ffn.W2"] * beta, w["ffn.b2"][None]]).astype(dtype)

        def empty(*shape: int) -> Array:
            return np.empty(shape, dtype)

        self.average = np.full((D, 1), 1.0 / D, dtype)
        self.small = np.full((T, 1), D * LAYER_NORM_EPS, dtype)
        self.mean, self.square, self.centred = empty(T, 1), empty(T, 1), empty(T, D)
        self.square_row = self.square[:, 0]
        self.norm, self.norm_inner = with_ones(T, D, dtype)
        self.qkv = empty(T, 3 * D)
        self.q, k, self.v = self.qkv.reshape(T, 3, H, K).transpose(1, 2, 0, 3)  # each (H, T, K)
        self.k_t = k.swapaxes(-1, -2)
        self.weights, self.sums = empty(H, T, T), empty(H, T, 1)
        self.weights_rows, self.weights_flat = self.weights.reshape(-1, T), self.weights.reshape(-1)
        self.sums_flat = self.sums.reshape(-1)
        self.causal, self.ones = np.tri(T, dtype=dtype), np.ones(T, dtype)
        self.attended, inner = with_ones(T, D, dtype)
        row, item = inner.strides
        self.heads = np.lib.stride_tricks.as_strided(inner, (H, T, K), (K * item, row, item))
        self.middle, self.end = empty(T, D), empty(T, D)
        self.p, self.e = empty(T, F), empty(T, F)
        self.hidden, self.hidden_inner = with_ones(T, F, dtype)

    def _normalise(self, x: Array) -> None:
        np.matmul(x, self.average, self.mean)
        np.subtract(x, self.mean, self.centred)
        np.vecdot(self.centred, self.centred, self.square_row)
        np.add(self.square, self.small, self.square)
        np.sqrt(self.square, self.square)
        np.divide(self.centred, self.square, self.norm_inner)

    def _attend(self) -> None:
        weights = self.weights
        np.matmul(self.q, self.k_t, weights)
        flat = self.weights_flat
        if np.maximum.reduce(flat) > self.safe or np.minimum.reduce(flat) < -self.safe:
            weights[...] = np.where(self.causal != 0, weights, -np.inf)
            weights -= weights.max(axis=-1, keepdims=True)
            np.exp(weights, weights)
        else:
            np.exp(weights, weights)
            np.multiply(weights, self.causal, weights)
        np.matmul(self.weights_rows, self.ones, self.sums_flat)
        np.matmul(weights, self.v, self.heads)
        np.divide(self.heads, self.sums, self.heads)

    def _gelu(self) -> None:
        p, e = self.p, self.e
        np.multiply(p, p, e)
        np.add(e, self.k, e)
        np.multiply(e, p, e)
        np.exp(e, e)
        np.add(e, 1.0, e)
        np.divide(p, e, self.hidden_inner)

    def _product(self, a: Array, b: Array, out: Array) -> None:
        np.matmul(a, b, out)

    def forward(self) -> Array:
        """Return the block's output, in a buffer that the next call overwrites."""
        x, middle, end = self.x, self.middle, self.end
        self._normalise(x)
        self._product(self.norm, self.w_qkv, self.qkv)
        self._attend()
        self._product(self.attended, self.w_o, middle)
        np.add(middle, x, middle)
        self._normalise(middle)
        self._product(self.norm, self.w_1, self.p)
        self._gelu()
        self._product(self.hidden, self.w_2, end)
        np.add(end, middle, end)
        return end

    def output(self) -> Array:
        return self.forward()[None].copy()
