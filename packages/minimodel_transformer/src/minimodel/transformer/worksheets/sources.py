"""Where each kind of step comes from: paper, section, equation."""

from __future__ import annotations

_LAYER_NORM = "Ba, Kiros, Hinton 2016, “Layer Normalization”, §3, eq. 3"
_GAIN = "Ba, Kiros, Hinton 2016, “Layer Normalization”, §3.1, eq. 4"
_HEADS = "Vaswani et al. 2017, “Attention Is All You Need”, §3.2.2"
_SCORES = "Vaswani et al. 2017, “Attention Is All You Need”, §3.2.1, eq. 1"
_MASK = "Vaswani et al. 2017, “Attention Is All You Need”, §3.2.3"
_SOFTMAX = "Goodfellow, Bengio, Courville 2016, “Deep Learning”, §4.1, eq. 4.1"
_FFN = "Vaswani et al. 2017, “Attention Is All You Need”, §3.3, eq. 2"
_GELU = "Hendrycks, Gimpel 2016, “Gaussian Error Linear Units”, §2"
_ROPE = "Su et al. 2021, “RoFormer”, §3.2.2, eq. 15"
_RESIDUAL = "Xiong et al. 2020, “On Layer Normalization in the Transformer Architecture”, fig. 1b"

SOURCES = {
    "x": "",
    "mean": _LAYER_NORM,
    "centred": _LAYER_NORM,
    "variance": _LAYER_NORM,
    "std": _LAYER_NORM,
    "normalised": _GAIN,
    "scaled_and_shifted": _GAIN,
    "q": _HEADS,
    "k": _HEADS,
    "v": _HEADS,
    "angles": _ROPE,
    "cos": _ROPE,
    "sin": _ROPE,
    "q_rotated": _ROPE,
    "k_rotated": _ROPE,
    "scores": _SCORES,
    "scaled": _SCORES,
    "masked": _MASK,
    "unmasked": _MASK,
    "max": _SOFTMAX,
    "exp": _SOFTMAX,
    "sum": _SOFTMAX,
    "weights": _SCORES,
    "head_out": _SCORES,
    "joined": _HEADS,
    "attn_out": _HEADS,
    "z": _RESIDUAL,
    "pre": _FFN,
    "inner": _GELU,
    "tanh": _GELU,
    "gelu": _GELU,
    "ffn_out": _FFN,
    "y": _RESIDUAL,
}
"""Kind of step to its source; empty for what is given."""
