"""The steps of one block in order: first each layer's arithmetic in plain NumPy, then what is written about it.

Nothing here calls the layers or the fused operations: this is the second way to the same numbers. Names follow
BLUEPRINT, section 4.12. The entry that is worked out is that of row 0 and column 0; in attention that of the last row,
which sees every position.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..block import TransformerBlock
from .attention_arithmetic import attention
from .digits import equals, factor, products, summed, tex
from .step import Paper

Array = npt.NDArray[Any]


def block_on_paper(block: TransformerBlock, x: Array) -> Paper:
    """Return the steps of `block` on `x`, shape (T, D), from `x` to `y`.

    Dropout is left out, as after `block.eval()`.
    """
    paper = Paper({name: parameter.value.copy() for name, parameter in block.named_parameters()})
    # A number that overflows on the way is written as ∞.
    with np.errstate(over="ignore", invalid="ignore"):
        paper.begin("input")
        paper.write("x", "x", r"\mathbf{X}", ("T", "D"), x)
        z = residual(paper, "z", x, attention(paper, block.attn, layer_norm(paper, "ln1", x, block.ln1.eps)))
        residual(paper, "y", z, feed_forward(paper, layer_norm(paper, "ln2", z, block.ln2.eps)))
    return paper


def layer_norm(paper: Paper, name: str, x: Array, eps: float) -> Array:
    """Write and return gamma · (x − μ)/√(σ² + ε) + beta, μ and σ² of each row of `x`, shape (T, D)."""
    gamma, beta = paper.parameters[f"{name}.gamma"], paper.parameters[f"{name}.beta"]
    d_model = x.shape[-1]
    mean = x.sum(axis=-1, keepdims=True) / d_model  # (T, 1)
    centred = x - mean  # (T, D)
    variance = (centred * centred).sum(axis=-1, keepdims=True) / d_model  # (T, 1)
    std = np.sqrt(variance + eps)  # (T, 1)
    normalised = centred / std  # (T, D)
    out: Array = gamma * normalised + beta  # (T, D)

    # The letters of the second LayerNorm carry a prime.
    prime = "'" if name == "ln2" else ""
    c, n, a = (f"{letter}{prime}_{{t,i}}" for letter in "cna")
    mu, s = rf"\mu{prime}_t", rf"\hat{{\sigma}}{prime}_t"
    square, c_square = rf"\sigma_t{prime}^2", f"c_{{t,i}}{prime}^2"
    stream = "z_{t,i}" if prime else "x_{t,i}"
    paper.begin(name)
    paper.write(
        f"{name}.mean",
        "mean",
        mu,
        ("T", "1"),
        mean,
        rf"{mu} = \frac{{1}}{{D}} \sum_i {stream}",
        f"({summed([factor(v) for v in x[0]])}) / {d_model} {equals(mean[0, 0])}",
    )
    paper.write(
        f"{name}.centred",
        "centred",
        rf"\mathbf{{C}}{prime}",
        ("T", "D"),
        centred,
        rf"{c} = {stream} - {mu}",
        f"{tex(x[0, 0])} - {factor(mean[0, 0])} {equals(centred[0, 0])}",
    )
    paper.write(
        f"{name}.variance",
        "variance",
        square,
        ("T", "1"),
        variance,
        rf"{square} = \frac{{1}}{{D}} \sum_i {c_square}",
        f"({summed([f'{factor(v)}^2' for v in centred[0]])}) / {d_model} {equals(variance[0, 0])}",
    )
    paper.write(
        f"{name}.std",
        "std",
        s,
        ("T", "1"),
        std,
        rf"{s} = \sqrt{{{square} + \varepsilon}}",
        rf"\sqrt{{{tex(variance[0, 0])} + {tex(eps)}}} {equals(std[0, 0])}",
    )
    paper.write(
        f"{name}.normalised",
        "normalised",
        rf"\mathbf{{N}}{prime}",
        ("T", "D"),
        normalised,
        rf"{n} = \frac{{{c}}}{{{s}}}",
        rf"\frac{{{tex(centred[0, 0])}}}{{{tex(std[0, 0])}}} {equals(normalised[0, 0])}",
    )
    paper.write(
        name,
        "scaled_and_shifted",
        rf"\mathbf{{A}}{prime}",
        ("T", "D"),
        out,
        rf"{a} = \gamma{prime}_i {n} + \beta{prime}_i",
        rf"{factor(gamma[0])} \cdot {factor(normalised[0, 0])} + {factor(beta[0])} {equals(out[0, 0])}",
        given=(f"{name}.gamma", f"{name}.beta"),
    )
    return out


def residual(paper: Paper, name: str, stream: Array, update: Array) -> Array:
    """Write and return stream + update, both (T, D)."""
    out = stream + update
    before, update_symbol, after = (
        (r"\mathbf{X}", r"\mathbf{U}", r"\mathbf{Z}") if name == "z" else (r"\mathbf{Z}", r"\mathbf{U}'", r"\mathbf{Y}")
    )
    paper.begin(name)
    paper.write(
        name,
        name,
        after,
        ("T", "D"),
        out,
        f"{after} = {before} + {update_symbol}",
        f"{tex(stream[0, 0])} + {factor(update[0, 0])} {equals(out[0, 0])}",
    )
    return out


def feed_forward(paper: Paper, a: Array) -> Array:
    """Write and return GELU(a W1 + b1) W2 + b2 for `a`, shape (T, D); GELU in its tanh form."""
    w1, b1, w2, b2 = (paper.parameters[f"ffn.{name}"] for name in ("W1", "b1", "W2", "b2"))
    pre = a @ w1 + b1  # (T, F)
    inner = math.sqrt(2.0 / math.pi) * (pre + 0.044715 * pre * pre * pre)  # (T, F)
    tanh = np.tanh(inner)  # (T, F)
    act = 0.5 * pre * (1.0 + tanh)  # (T, F)
    out: Array = act @ w2 + b2  # (T, D)

    g = pre[0, 0]
    paper.begin("ffn")
    paper.write(
        "ffn.pre",
        "pre",
        r"\mathbf{G}",
        ("T", "F"),
        pre,
        r"\mathbf{G} = \mathbf{A}' \mathbf{W}_1 + \mathbf{b}_1",
        f"{products(a[0], w1[:, 0], b1[0])} {equals(g)}",
        given=("ffn.W1", "ffn.b1"),
    )
    paper.write(
        "ffn.act.inner",
        "inner",
        r"\mathbf{R}",
        ("T", "F"),
        inner,
        r"r_{t,j} = \sqrt{\frac{2}{\pi}} \left( g_{t,j} + 0.044715 g_{t,j}^3 \right)",
        rf"0.79788 \cdot ({tex(g)} + 0.044715 \cdot {factor(g)}^3) {equals(inner[0, 0])}",
    )
    paper.write(
        "ffn.act.tanh",
        "tanh",
        r"\bar{\mathbf{R}}",
        ("T", "F"),
        tanh,
        r"\bar{r}_{t,j} = \tanh r_{t,j}",
        rf"\tanh {factor(inner[0, 0])} {equals(tanh[0, 0])}",
    )
    paper.write(
        "ffn.act",
        "gelu",
        r"\bar{\mathbf{G}}",
        ("T", "F"),
        act,
        r"\bar{g}_{t,j} = \frac{1}{2} g_{t,j} \left( 1 + \bar{r}_{t,j} \right)",
        rf"0.5 \cdot {factor(g)} \cdot (1 + {factor(tanh[0, 0])}) {equals(act[0, 0])}",
    )
    paper.write(
        "ffn",
        "ffn_out",
        r"\mathbf{U}'",
        ("T", "D"),
        out,
        r"\mathbf{U}' = \bar{\mathbf{G}} \mathbf{W}_2 + \mathbf{b}_2",
        f"{products(act[0], w2[:, 0], b2[0])} {equals(out[0, 0])}",
        given=("ffn.W2", "ffn.b2"),
    )
    return out
