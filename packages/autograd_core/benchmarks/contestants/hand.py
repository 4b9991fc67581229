"""The reference: the same training step written by hand in NumPy for this one model, as fast as we know how.

It has no graph, no modules and no checks, and nothing in it can be watched. What it gains from that:

- every buffer is allocated once, and every call writes into one (`out=`);
- parameters, gradients and moments are flat arrays, so clipping and AdamW are a dozen calls;
- LayerNorm's gain and shift, and attention's 1/√K, are multiplied into the next matrix once a step (`_fold`), and
  gradients of the product taken apart afterwards (`_unfold`). Columns of the product are centred, which changes
  nothing, because normalised rows have mean 0, and makes the rows that come back have mean 0: LayerNorm's backward
  loses a term;
- a bias is one more row of its matrix, met by a column of ones beside the activations;
- scores are exponentiated as they are unless one of the whole array is beyond a bound, and so are logits;
- GELU is x σ(2u) with one `exp`, and its derivative is kept.

Methods are named after what the profile (`op_times.py`) sets side by side.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
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
)

Array = npt.NDArray[Any]

SAFE = {"float32": 60.0, "float64": 500.0}  # exp of what lies inside ± this neither overflows nor sums to 0
SLOPE = 2.0 * math.sqrt(2.0 / math.pi)  # 2u = SLOPE h + CUBIC h³
CUBIC = SLOPE * 0.044715
PIECE = 65536  # elements of an optimiser's piece: its operands stay in the cache


def with_ones(rows: int, columns: int, dtype: str) -> tuple[Array, Array]:
    """Return (rows, columns + 1) with ones in the last column, and the view without it; rows begin at 32 bytes."""
    padded = np.zeros((rows, columns + 8), dtype)
    padded[:, columns] = 1.0
    return padded[:, : columns + 1], padded[:, :columns]


class Layer:
    """What a block keeps from forward to backward, with the views of it that products read."""

    def __init__(self, workload: Workload, rows: int, dtype: str, row_blocks: list[tuple[int, int]]) -> None:
        B, T, H, D = workload.B, workload.T, workload.H, workload.D
        F, K = 4 * D, D // H
        self.norm1, self.norm2 = with_ones(rows, D, dtype), with_ones(rows, D, dtype)
        self.r1, self.r2 = np.empty((rows, 1), dtype), np.empty((rows, 1), dtype)
        self.qkv = np.empty((rows, 3 * D), dtype)
        self.q, self.k, self.v = self.qkv.reshape(B, T, 3, H, K).transpose(2, 0, 3, 1, 4)  # each (B, H, T, K)
        self.attended = with_ones(rows, D, dtype)
        # The padded rows leave no reshape that is a view on every path; the strides are written out.
        row, item = self.attended[1].strides
        self.heads = np.lib.stride_tricks.as_strided(
            self.attended[1], (B, H, T, K), (T * row, K * item, row, item)
        )  # (B, H, T, K)
        self.weights = [np.empty((B, H, last - first, last), dtype) for first, last in row_blocks]
        self.middle, self.end = np.empty((rows, D), dtype), np.empty((rows, D), dtype)
        self.hidden = with_ones(rows, F, dtype)
        self.slope = np.empty((rows, F), dtype)


class Contestant:
    """Flat arrays, buffers, and the step."""

    def __init__(self, workload: Workload, dtype: str, weights: Weights, threads: int = 1) -> None:
        self.workload, self.dtype = workload, dtype
        self.rows = workload.B * workload.T
        self.safe = SAFE[dtype]
        self.tokens, self.targets = batch(workload)
        self._lay_out(weights)
        self._allocate()
        self._fold()

    # ------------------------------------------------------------------ memory

    def _lay_out(self, weights: Weights) -> None:
        """One flat array; each matrix lies before its bias, so that the pair is a matrix of one more row."""
        D, L, F = self.workload.D, self.workload.L, 4 * self.workload.D
        shapes: dict[str, tuple[int, ...]] = {
            "embedding": (self.workload.V, D),
            "positions": (self.workload.context_len, D),
        }
        for i in range(L):
            shapes |= {f"{i}.qkv": (D + 1, 3 * D), f"{i}.o": (D + 1, D), f"{i}.1": (D + 1, F), f"{i}.2": (F + 1, D)}
            shapes |= {f"{i}.{name}": (D,) for name in ("gamma1", "beta1", "gamma2", "beta2")}
        shapes |= {"gamma": (D,), "beta": (D,)}
        total = sum(math.prod(shape) for shape in shapes.values())

        def views(flat: Array) -> dict[str, Array]:
            found, start = {}, 0
            for name, shape in shapes.items():
                end = start + math.prod(shape)
                found[name] = flat[start:end].reshape(shape)
                start = end
            return found

        self.flat = np.empty(total, self.dtype)
        self.p = views(self.flat)
        for name, view in self._by_name(self.p).items():
            view[...] = weights[name]
        self.flat_gradient = np.zeros(total, self.dtype)
        self.g = views(self.flat_gradient)
        self.first, self.second = np.zeros(total, self.dtype), np.zeros(total, self.dtype)
        self.scratch = np.empty(min(PIECE, total), self.dtype)
        self.steps = 0

    def _by_name(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """Views of `arrays` (parameters or gradients) under the names of `workloads.shapes`."""
        D = self.workload.D
        found = {"embedding.E": arrays["embedding"], "position_embedding.E": arrays["positions"]}
        for i in range(self.workload.L):
            for j, letter in enumerate("qkv"):
                third = arrays[f"{i}.qkv"][:, j * D : (j + 1) * D]
                found |= {f"blocks.{i}.attn.W_{letter}": third[:D], f"blocks.{i}.attn.b_{letter}": third[D]}
            for name, weight, bias in (
                ("o", "attn.W_o", "attn.b_o"),
                ("1", "ffn.W1", "ffn.b1"),
                ("2", "ffn.W2", "ffn.b2"),
            ):
                pair = arrays[f"{i}.{name}"]
                found |= {f"blocks.{i}.{weight}": pair[:-1], f"blocks.{i}.{bias}": pair[-1]}
            for n in (1, 2):
                found |= {f"blocks.{i}.ln{n}.{kind}": arrays[f"{i}.{kind}{n}"] for kind in ("gamma", "beta")}
        return found | {"ln_final.gamma": arrays["gamma"], "ln_final.beta": arrays["beta"]}

    def _allocate(self) -> None:
        B, T, H, D, V = (getattr(self.workload, letter) for letter in "BTHDV")
        F, K, rows = 4 * D, D // H, self.rows

        def empty(*shape: int) -> Array:
            return np.empty(shape, self.dtype)

        # Long sequences: rows in blocks see no key after the block's end. The last block comes first, because it
        # alone writes the gradients of all keys.
        size = T if T < 48 else T // 2
        self.row_blocks = [(first, min(first + size, T)) for first in range(0, T, size)][::-1]
        self.causal = [np.tri(last - first, last, first, dtype=self.dtype) for first, last in self.row_blocks]
        self.ones = {n: np.ones(n, self.dtype) for n in {last for _, last in self.row_blocks} | {V, rows, B}}
        self.average = np.full(D, 1.0 / D, self.dtype)
        self.layers = [Layer(self.workload, rows, self.dtype, self.row_blocks) for _ in range(self.workload.L)]
        self.folded_qkv = [empty(D + 1, 3 * D) for _ in self.layers]
        self.folded_1 = [empty(D + 1, F) for _ in self.layers]
        self.row = empty(rows)
        self.centred, self.hidden = empty(rows, D), empty(rows, F)
        self.norms = [empty(B, H, last - first) for first, last in self.row_blocks]
        width = min(rows, max(1, 16384 // F)) if rows > 1024 else rows
        self.pieces = [slice(i, min(i + width, rows)) for i in range(0, rows, width)]
        self.piece = empty(2, width, F)
        self.embedded = empty(rows, D)
        self.final, self.r = with_ones(rows, D, self.dtype), empty(rows, 1)
        self.folded_head = empty(V, D + 1)
        self.logits = empty(rows, V)
        self.offsets = np.arange(0, rows * V, V)
        self.grad_stream, self.grad_norm, self.product = empty(rows, D), empty(rows, D), empty(rows, D)
        self.grad_heads = empty(rows, D)
        by_token = self.grad_heads.reshape(B, T, H, K)
        self.grad_by_token, self.grad_by_head = by_token, by_token.transpose(0, 2, 1, 3)
        self.delta = empty(B, T, H)
        self.grad_qkv = empty(rows, 3 * D)
        self.grad_q, self.grad_k, self.grad_v = self.grad_qkv.reshape(B, T, 3, H, K).transpose(2, 0, 3, 1, 4)
        self.grad_weights = [empty(*each.shape) for each in self.layers[0].weights]
        self.grad_keys = empty(B, H, T, K)
        self.grad_head = empty(V, D + 1)
        self.sums: dict[tuple[int, int], Callable[[Array, Array, Array], None]] = {}

    # ------------------------------------------------------------------ gains and shifts, into matrices and out again

    def _fold(self) -> None:
        D, scale = self.workload.D, 1.0 / math.sqrt(self.workload.D // self.workload.H)
        p = self.p
        for i in range(self.workload.L):
            for folded, pair, n in ((self.folded_qkv[i], p[f"{i}.qkv"], 1), (self.folded_1[i], p[f"{i}.1"], 2)):
                np.multiply(pair[:D], p[f"{i}.gamma{n}"][:, None], out=folded[:D])
                np.matmul(p[f"{i}.beta{n}"], pair[:D], out=folded[D])
                folded[D] += pair[D]
                folded[:D] -= self.average @ folded[:D]
            self.folded_qkv[i][:, :D] *= scale
        head = self.folded_head
        np.multiply(p["embedding"], p["gamma"], out=head[:, :D])
        np.matmul(p["embedding"], p["beta"], out=head[:, D])
        head[:, :D] -= (head[:, :D] @ self.average)[:, None]

    def _unfold(self) -> None:
        D, scale = self.workload.D, 1.0 / math.sqrt(self.workload.D // self.workload.H)
        p, g = self.p, self.g
        for i in range(self.workload.L):
            g[f"{i}.qkv"][:, :D] *= scale
            for name, n in (("qkv", 1), ("1", 2)):
                weight, grad, grad_bias = p[f"{i}.{name}"][:D], g[f"{i}.{name}"][:D], g[f"{i}.{name}"][D]
                np.vecdot(grad, weight, out=g[f"{i}.gamma{n}"])
                np.matmul(weight, grad_bias, out=g[f"{i}.beta{n}"])
                grad *= p[f"{i}.gamma{n}"][:, None]
                grad += p[f"{i}.beta{n}"][:, None] * grad_bias
        embedding, grad, last = p["embedding"], self.grad_head[:, :D], self.grad_head[:, D]
        np.multiply(grad, embedding, out=g["embedding"])
        np.matmul(self.ones[self.workload.V], g["embedding"], out=g["gamma"])
        np.matmul(last, embedding, out=g["beta"])
        np.multiply(grad, p["gamma"], out=g["embedding"])
        g["embedding"] += last[:, None] * p["beta"]

    # ------------------------------------------------------------------ operations

    def _normalise(self, x: Array, out: Array, r: Array) -> None:
        row, centred = self.row, self.centred
        np.matmul(x, self.average, out=row)
        np.subtract(x, row[:, None], out=centred)
        np.vecdot(centred, centred, out=row)
        row *= 1.0 / x.shape[1]
        row += LAYER_NORM_EPS
        np.sqrt(row, out=row)
        np.reciprocal(row, out=r[:, 0])
        np.multiply(centred, r, out=out)

    def _normalise_vjp(self, grad: Array, x_hat: Array, r: Array, out: Array) -> None:
        """Add into `out`; rows of `grad` have mean 0 (see `_fold`)."""
        row, product = self.row, self.product
        np.vecdot(grad, x_hat, out=row)
        row *= 1.0 / grad.shape[1]
        np.multiply(x_hat, row[:, None], out=product)
        grad -= product
        grad *= r
        out += grad

    def _product(self, a: Array, b: Array, out: Array) -> None:
        np.matmul(a, b, out=out)

    def _attend(self, layer: Layer) -> None:
        k_t, v = layer.k.swapaxes(-1, -2), layer.v
        for (first, last), weights, causal, norm in zip(
            self.row_blocks, layer.weights, self.causal, self.norms, strict=True
        ):
            np.matmul(layer.q[:, :, first:last], k_t[..., :last], out=weights)
            if weights.max() > self.safe or weights.min() < -self.safe:
                weights[...] = np.where(causal != 0, weights, -np.inf)
                weights -= weights.max(axis=-1, keepdims=True)
                np.exp(weights, out=weights)
            else:
                np.exp(weights, out=weights)
                weights *= causal
            np.matmul(weights.reshape(-1, last), self.ones[last], out=norm.reshape(-1))
            np.reciprocal(norm, out=norm)
            weights *= norm[..., None]
            np.matmul(weights, v[:, :, :last], out=layer.heads[:, :, first:last])

    def _attend_vjp(self, layer: Layer) -> None:
        np.vecdot(self.grad_by_token, layer.heads.transpose(0, 2, 1, 3), out=self.delta)
        delta = self.delta.transpose(0, 2, 1)[..., None]  # (B, H, T, 1)
        v_t = layer.v.swapaxes(-1, -2)
        for n, ((first, last), weights, grad_weights) in enumerate(
            zip(self.row_blocks, layer.weights, self.grad_weights, strict=True)
        ):
            grad = self.grad_by_head[:, :, first:last]
            np.matmul(grad, v_t[..., :last], out=grad_weights)
            grad_weights -= delta[:, :, first:last]
            grad_weights *= weights
            np.matmul(grad_weights, layer.k[:, :, :last], out=self.grad_q[:, :, first:last])
            weights_t, grad_weights_t = weights.swapaxes(-1, -2), grad_weights.swapaxes(-1, -2)
            if n == 0:
                np.matmul(weights_t, grad, out=self.grad_v)
                np.matmul(grad_weights_t, layer.q[:, :, first:last], out=self.grad_k)
            else:
                part = self.grad_keys[:, :, :last]
                self.grad_v[:, :, :last] += np.matmul(weights_t, grad, out=part)
                self.grad_k[:, :, :last] += np.matmul(grad_weights_t, layer.q[:, :, first:last], out=part)

    def _gelu(self, layer: Layer) -> None:
        out, slope = layer.hidden[1], layer.slope
        for piece in self.pieces:
            h = self.hidden[piece]
            square, e = self.piece[0, : len(h)], self.piece[1, : len(h)]
            np.multiply(h, h, out=square)
            np.multiply(square, -CUBIC, out=e)
            e -= SLOPE
            e *= h
            np.exp(e, out=e)
            e += 1.0  # its reciprocal is σ(2u)
            a, d = out[piece], slope[piece]
            np.divide(h, e, out=a)
            # s (1 + (h - h s)(SLOPE + 3 CUBIC h²)) with s = 1/e
            square *= 3.0 * CUBIC
            square += SLOPE
            np.subtract(h, a, out=h)
            h *= square
            h += 1.0
            np.divide(h, e, out=d)

    def _weight_gradient(self, a: Array, grad: Array, out: Array) -> None:
        plan = self.sums.get(out.shape)
        if plan is None:
            plan = self.sums[out.shape] = fastest_sum(a, grad, out)
        plan(a, grad, out)

    def _loss(self) -> float:
        """Return the mean loss and leave its gradient in `logits`."""
        logits, row, rows = self.logits, self.row, self.rows
        flat = logits.reshape(-1)
        places = self.offsets + self.targets.reshape(-1)
        if logits.max() > self.safe or logits.min() < -self.safe:
            logits -= logits.max(axis=-1, keepdims=True)
        chosen = flat[places]
        np.exp(logits, out=logits)
        np.matmul(logits, self.ones[self.workload.V], out=row)
        loss = float(np.log(row).sum(dtype=np.float64) - chosen.sum(dtype=np.float64)) / rows
        row *= rows
        np.reciprocal(row, out=row)
        logits *= row[:, None]
        flat[places] -= 1.0 / rows
        return loss

    def _embed(self) -> Array:
        B, T, D = self.workload.B, self.workload.T, self.workload.D
        x = np.take(self.p["embedding"], self.tokens.reshape(-1), axis=0, out=self.embedded, mode="clip")
        by_token = x.reshape(B, T, D)
        by_token += self.p["positions"][:T]
        return x

    def _embed_vjp(self) -> None:
        """Add to the head's gradient of the embedding, and write that of the positions."""
        B, T, D, V = self.workload.B, self.workload.T, self.workload.D, self.workload.V
        ids, grad = self.tokens.reshape(-1), self.grad_stream
        if V <= 64:
            one_hot = np.zeros((V, ids.size), self.dtype)
            one_hot[ids, np.arange(ids.size)] = 1.0
            self.g["embedding"] += one_hot @ grad
        else:
            order = np.argsort(ids, kind="stable")
            ordered = ids[order]
            starts = np.flatnonzero(np.diff(ordered, prepend=-1))
            self.g["embedding"][ordered[starts]] += np.add.reduceat(grad[order], starts, axis=0)
        np.matmul(self.ones[B], grad.reshape(B, T * D), out=self.g["positions"][:T].reshape(-1))

    # ------------------------------------------------------------------ the step

    def _forward(self) -> float:
        p, x = self.p, self._embed()
        for i, layer in enumerate(self.layers):
            self._normalise(x, layer.norm1[1], layer.r1)
            self._product(layer.norm1[0], self.folded_qkv[i], layer.qkv)
            self._attend(layer)
            self._product(layer.attended[0], p[f"{i}.o"], layer.middle)
            layer.middle += x
            self._normalise(layer.middle, layer.norm2[1], layer.r2)
            self._product(layer.norm2[0], self.folded_1[i], self.hidden)
            self._gelu(layer)
            x = layer.end
            self._product(layer.hidden[0], p[f"{i}.2"], x)
            x += layer.middle
        self._normalise(x, self.final[1], self.r)
        self._product(self.final[0], self.folded_head.T, self.logits)
        return self._loss()

    def _backward(self) -> None:
        D, p, g, x = self.workload.D, self.p, self.g, self.grad_stream
        self._product(self.logits.T, self.final[0], self.grad_head)
        self._product(self.logits, self.folded_head[:, :D], self.grad_norm)
        x.fill(0.0)
        self._normalise_vjp(self.grad_norm, self.final[1], self.r, x)
        for i, layer in reversed(list(enumerate(self.layers))):
            self._weight_gradient(layer.hidden[0], x, g[f"{i}.2"])
            self._product(x, p[f"{i}.2"][:-1].T, self.hidden)
            self.hidden *= layer.slope
            self._weight_gradient(layer.norm2[0], self.hidden, g[f"{i}.1"])
            self._product(self.hidden, self.folded_1[i][:D].T, self.grad_norm)
            self._normalise_vjp(self.grad_norm, layer.norm2[1], layer.r2, x)
            self._weight_gradient(layer.attended[0], x, g[f"{i}.o"])
            self._product(x, p[f"{i}.o"][:D].T, self.grad_heads)
            self._attend_vjp(layer)
            self._weight_gradient(layer.norm1[0], self.grad_qkv, g[f"{i}.qkv"])
            self._product(self.grad_qkv, self.folded_qkv[i][:D].T, self.grad_norm)
            self._normalise_vjp(self.grad_norm, layer.norm1[1], layer.r1, x)
        self._unfold()
        self._embed_vjp()

    def _update(self) -> None:
        """Clip and take AdamW's step; the moments are kept without their factors 1 - β, which go into two constants."""
        self.steps += 1
        norm = math.sqrt(float(np.dot(self.flat_gradient, self.flat_gradient)))
        clip = min(1.0, MAX_NORM / (norm + 1e-6))
        root = math.sqrt((1.0 - BETA2) / (1.0 - BETA2**self.steps))
        size = LEARNING_RATE * (1.0 - BETA1) / (1.0 - BETA1**self.steps) / root
        for start in range(0, self.flat.size, PIECE):
            piece = slice(start, start + PIECE)
            p, m, v = self.flat[piece], self.first[piece], self.second[piece]
            t = self.scratch[: p.size]
            np.multiply(self.flat_gradient[piece], clip, out=t)
            m *= BETA1
            m += t
            t *= t
            v *= BETA2
            v += t
            np.sqrt(v, out=t)
            t += EPS / root
            np.divide(m, t, out=t)
            t *= size
            p *= 1.0 - LEARNING_RATE * WEIGHT_DECAY
            p -= t
        self._fold()

    def loss_and_gradients(self) -> tuple[float, Weights]:
        loss = self._forward()
        self._backward()
        return loss, {name: view.copy() for name, view in self._by_name(self.g).items()}

    def step(self) -> float:
        loss = self._forward()
        self._backward()
        self._update()
        return loss


def fastest_sum(a: Array, grad: Array, out: Array) -> Callable[[Array, Array, Array], None]:
    """Return the faster of two ways to compute aᵀ grad: in one product, or in products of a hundred rows, added.

    With some of OpenBLAS's kernels a float32 product with a long sum and a small result runs at a third of its speed.
    """
    rows = a.shape[0]
    pieces = next(n for n in range(-(-rows // 112), rows + 1) if rows % n == 0)
    scratch = np.empty_like(out)

    def whole(a: Array, grad: Array, out: Array) -> None:
        np.matmul(a.T, grad, out=out)

    def pieced(a: Array, grad: Array, out: Array) -> None:
        size = rows // pieces
        np.matmul(a[:size].T, grad[:size], out=out)
        for start in range(size, rows, size):
            np.matmul(a[start : start + size].T, grad[start : start + size], out=scratch)
            np.add(out, scratch, out=out)

    def seconds(way: Callable[[Array, Array, Array], None]) -> float:
        took = []
        for _ in range(7):
            start = time.thread_time()
            way(a, grad, out)
            took.append(time.thread_time() - start)
        return sorted(took)[2]

    return min((whole, pieced), key=seconds)
