"""The steps of multi-head self-attention, one head after another, in plain NumPy.

On paper a head is a block of columns of Q, K and V. Each head's scores, mask and softmax stand on their own, so that
one can be followed without the others. The entry that is worked out is in the last row, which sees every position.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..attention import MultiHeadAttention
from ..rope import BASE
from .digits import equals, factor, largest, products, summed, tex
from .step import Paper

Array = npt.NDArray[Any]


def attention(paper: Paper, layer: MultiHeadAttention, a: Array) -> Array:
    """Write and return softmax(Q Kᵀ/√K + mask) V W_o, heads joined, for `a` of shape (T, D)."""
    q, k, v = (project(paper, a, letter, layer.bias) for letter in "qkv")  # (T, D)
    if has_rope(layer):
        q, k = rope(paper, q, k, layer.n_heads)
    heads = []
    for head in range(layer.n_heads):
        own = slice(head * layer.d_head, (head + 1) * layer.d_head)
        heads.append(one_head(paper, layer, head, q[:, own], k[:, own], v[:, own]))  # (T, K)
    joined = np.concatenate(heads, axis=-1)  # (T, D)
    w_o, b_o = paper.parameters["attn.W_o"], paper.parameters.get("attn.b_o")
    out: Array = joined @ w_o if b_o is None else joined @ w_o + b_o  # (T, D)

    paper.begin("attn")
    names = r" \enspace ".join(_of_head(r"\mathbf{O}", head, layer.n_heads) for head in range(layer.n_heads))
    row, column = len(joined) - 1, joined.shape[1] - 1
    # The last column of the last head, and where it comes to stand.
    place = rf"{layer.n_heads - 1} \cdot {layer.d_head} + {layer.d_head - 1} = {column}, \quad "
    place = place if layer.n_heads > 1 else ""
    paper.write(
        "attn.joined",
        "joined",
        r"\mathbf{O}",
        ("T", "D"),
        joined,
        _joined_equation(names, layer.n_heads),
        rf"{place}o_{{{row},{column}}} {equals(joined[row, column])}",
        entry=(row, column),
    )
    bias = "" if b_o is None else r" + \mathbf{b}_o"
    paper.write(
        "attn",
        "attn_out",
        r"\mathbf{U}",
        ("T", "D"),
        out,
        rf"\mathbf{{U}} = \mathbf{{O}} \mathbf{{W}}_o{bias}",
        f"{products(joined[0], w_o[:, 0], None if b_o is None else b_o[0])} {equals(out[0, 0])}",
        given=("attn.W_o",) if b_o is None else ("attn.W_o", "attn.b_o"),
    )
    return out


def has_rope(layer: MultiHeadAttention) -> bool:
    """Return whether the layer turns queries and keys by their positions."""
    return layer._rotary is not None


def _of_head(symbol: str, head: int, n_heads: int) -> str:
    """Return a head's symbol; a single head needs no number."""
    return symbol if n_heads == 1 else f"{symbol}_{head}"


def _joined_equation(names: str, n_heads: int) -> str:
    return r"\mathbf{O} = \mathbf{P} \mathbf{V}" if n_heads == 1 else rf"\mathbf{{O}} = [ {names} ]"


def project(paper: Paper, a: Array, letter: str, has_bias: bool) -> Array:
    """Write and return a W + b, shape (T, D), for one of the letters q, k, v."""
    weight = paper.parameters[f"attn.W_{letter}"]
    bias = paper.parameters[f"attn.b_{letter}"] if has_bias else None
    out: Array = a @ weight if bias is None else a @ weight + bias  # (T, D)
    if letter == "q":
        paper.begin("projections")
    symbol = rf"\mathbf{{{letter.upper()}}}"
    added = rf" + \mathbf{{b}}_{letter}" if has_bias else ""
    paper.write(
        f"attn.{letter}",
        letter,
        symbol,
        ("T", "D"),
        out,
        rf"{symbol} = \mathbf{{A}} \mathbf{{W}}_{letter}{added}",
        f"{products(a[0], weight[:, 0], None if bias is None else bias[0])} {equals(out[0, 0])}",
        given=(f"attn.W_{letter}", f"attn.b_{letter}") if has_bias else (f"attn.W_{letter}",),
    )
    return out


def rope(paper: Paper, q: Array, k: Array, n_heads: int) -> tuple[Array, Array]:
    """Write the angles and return queries and keys turned by them, each (T, D)."""
    length, d_model = q.shape
    d_head = d_model // n_heads
    half = d_head // 2
    # In float64 whatever the block's dtype, as the block does: in float32 a large angle loses its digits.
    angles = np.arange(length)[:, None] * BASE ** (-2.0 * np.arange(half) / d_head)  # (T, K/2)
    cos, sin = np.cos(angles).astype(q.dtype), np.sin(angles).astype(q.dtype)  # (T, K/2)

    def turned(x: Array) -> Array:
        out = np.empty_like(x)
        for start in range(0, d_model, d_head):
            first, second = slice(start, start + half), slice(start + half, start + d_head)
            out[:, first] = x[:, first] * cos - x[:, second] * sin
            out[:, second] = x[:, second] * cos + x[:, first] * sin
        return out

    q_turned, k_turned = turned(q), turned(k)
    last = length - 1
    paper.begin("rope")
    paper.write(
        "attn.angles",
        "angles",
        r"\theta_{t,i}",
        ("T", "K/2"),
        angles.astype(q.dtype),
        rf"\theta_{{t,i}} = t \cdot {BASE:.0f}^{{-2i/K}}",
        rf"{last} \cdot {BASE:.0f}^{{0}} {equals(angles[last, 0])}",
        entry=(last, 0),
    )
    for name, table in (("cos", cos), ("sin", sin)):
        paper.write(
            f"attn.{name}",
            name,
            rf"\{name} \theta_{{t,i}}",
            ("T", "K/2"),
            table,
            (),
            rf"\{name} {factor(angles[last, 0])} {equals(table[last, 0])}",
            entry=(last, 0),
        )
    for letter, before, after in (("q", q, q_turned), ("k", k, k_turned)):
        new = rf"\tilde{{{letter}}}"
        paper.write(
            f"attn.{letter}_rotated",
            f"{letter}_rotated",
            rf"\tilde{{\mathbf{{{letter.upper()}}}}}",
            ("T", "D"),
            after,
            (
                rf"{new}_{{t,i}} = {letter}_{{t,i}} \cos \theta_{{t,i}} - {letter}_{{t,i+K/2}} \sin \theta_{{t,i}}",
                rf"{new}_{{t,i+K/2}} = {letter}_{{t,i+K/2}} \cos \theta_{{t,i}} + {letter}_{{t,i}} \sin \theta_{{t,i}}",
            ),
            rf"{factor(before[last, 0])} \cdot {factor(cos[last, 0])} - "
            rf"{factor(before[last, half])} \cdot {factor(sin[last, 0])} {equals(after[last, 0])}",
            entry=(last, 0),
        )
    return q_turned, k_turned


def one_head(paper: Paper, layer: MultiHeadAttention, head: int, q: Array, k: Array, v: Array) -> Array:
    """Write the steps of softmax(Q Kᵀ/√K + mask) V of one head; return its output, shape (T, K)."""
    length, d_head = q.shape
    scores = q @ k.T  # (T, T)
    scaled = scores / math.sqrt(d_head)  # (T, T)
    unseen = np.triu(np.ones((length, length), bool), 1) if layer.causal else np.zeros((length, length), bool)
    masked = scaled.copy()  # (T, T)
    masked[unseen] = -np.inf
    top = masked.max(axis=-1, keepdims=True)  # (T, 1)
    powers = np.exp(masked - top)  # (T, T)
    sums = powers.sum(axis=-1, keepdims=True)  # (T, 1)
    weights = powers / sums  # (T, T)
    out: Array = weights @ v  # (T, K)

    def of_head(symbol: str) -> str:
        return _of_head(symbol, head, layer.n_heads)

    queries, keys, values = r"\mathbf{Q}", r"\mathbf{K}", of_head(r"\mathbf{V}")
    if has_rope(layer):
        queries, keys = rf"\tilde{{{queries}}}", rf"\tilde{{{keys}}}"
    pattern, gathered = of_head(r"\mathbf{P}"), of_head(r"\mathbf{O}")
    t = length - 1
    j = t if int(masked[t].argmax()) == 0 else 0  # not the largest of its row, whose exponential is always 1
    name = f"attn.head{head}"
    paper.begin("head", head)
    paper.write(
        f"{name}.scores",
        "scores",
        r"\mathbf{S}",
        ("T", "T"),
        scores,
        rf"\mathbf{{S}} = {of_head(queries)} {of_head(keys)}^\top",
        f"{products(q[t], k[j])} {equals(scores[t, j])}",
        entry=(t, j),
    )
    paper.write(
        f"{name}.scaled",
        "scaled",
        r"\bar{\mathbf{S}}",
        ("T", "T"),
        scaled,
        r"\bar{s}_{t,j} = \frac{s_{t,j}}{\sqrt{K}}",
        rf"\frac{{{tex(scores[t, j])}}}{{\sqrt{{{d_head}}}}} {equals(scaled[t, j])}",
        entry=(t, j),
    )
    # The upper right corner is masked out, where there is one to mask.
    row, column = (0, t) if layer.causal else (t, j)
    condition = "" if not layer.causal else rf"{column} \gt {row}, \quad " if t else r"0 \le 0, \quad "
    seen = r"m_{t,j} = \bar{s}_{t,j}"
    paper.write(
        f"{name}.masked",
        "masked" if layer.causal else "unmasked",
        r"\mathbf{M}",
        ("T", "T"),
        masked,
        (rf"{seen} \quad (j \le t)", r"m_{t,j} = -\infty \quad (j \gt t)") if layer.causal else seen,
        rf"{condition}m_{{{row},{column}}} {equals(masked[row, column])}",
        entry=(row, column),
    )
    paper.write(
        f"{name}.max",
        "max",
        r"\hat{m}_t",
        ("T", "1"),
        top,
        r"\hat{m}_t = \max_j m_{t,j}",
        f"{largest(masked[t])} {equals(top[t, 0])}",
        entry=(t, 0),
    )
    paper.write(
        f"{name}.exp",
        "exp",
        r"\mathbf{E}",
        ("T", "T"),
        powers,
        r"e_{t,j} = \exp \left( m_{t,j} - \hat{m}_t \right)",
        rf"\exp({tex(masked[t, j])} - {factor(top[t, 0])}) {equals(powers[t, j])}",
        entry=(t, j),
    )
    paper.write(
        f"{name}.sum",
        "sum",
        r"\lambda_t",
        ("T", "1"),
        sums,
        r"\lambda_t = \sum_j e_{t,j}",
        f"{summed([factor(p) for p in powers[t]])} {equals(sums[t, 0])}",
        entry=(t, 0),
    )
    paper.write(
        f"{name}.weights",
        "weights",
        pattern,
        ("T", "T"),
        weights,
        r"p_{t,j} = \frac{e_{t,j}}{\lambda_t}",
        rf"\frac{{{tex(powers[t, j])}}}{{{tex(sums[t, 0])}}} {equals(weights[t, j])}",
        entry=(t, j),
    )
    paper.write(
        name,
        "head_out",
        gathered,
        ("T", "K"),
        out,
        f"{gathered} = {pattern} {values}",
        f"{products(weights[t], v[:, 0])} {equals(out[t, 0])}",
        entry=(t, 0),
    )
    return out
