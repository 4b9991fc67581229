"""The sizes and switches of a MiniGPT, validated when written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from minimodel.embedding.arguments import dtype_argument, flag_argument, number_argument, size_argument

from .attention import head_width


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniGPTConfig:
    """What a MiniGPT is made of.

    All values are plain: `dataclasses.asdict` of it is JSON, and `MiniGPTConfig(**that)` is equal to it.

    Attributes
    ----------
    d_model : int
        Width D of the residual stream.
    n_heads : int
        Attention heads H, which divide D.
    n_layers : int
        Blocks L.
    d_ff : int
        Hidden width F of the feed-forward networks.
    vocab_size : int
        Number of token ids V.
    context_len : int
        Longest sequence, in tokens.
    position : "rope" or "learned"
        Rotations of queries and keys, without parameters (D / H must be even), or a table of `context_len` vectors
        that is added to the token's, as in GPT-2.
    attention_bias : bool
        Biases on the four attention projections, as in GPT-2.
    causal : bool
        Position t sees positions up to t only.
    dropout : float
        Fraction in [0, 1) zeroed in training: of the embedded tokens, and of what each sub-layer adds to the stream.
    init_gain : float
        Multiplies every drawn weight; 1 is the healthy start.
    ln_eps : float
        See `LayerNorm`.
    dtype : "float64" or "float32"
        Of all parameters, hence of everything computed. A NumPy dtype is taken too and kept as its name.

    Raises
    ------
    ValueError
        If a value is out of range; names the field and what is allowed.
    TypeError
        If a value is of another type.
    """

    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 2
    d_ff: int = 256
    vocab_size: int = 64
    context_len: int = 32
    position: Literal["rope", "learned"] = "rope"
    attention_bias: bool = False
    causal: bool = True
    dropout: float = 0.0
    init_gain: float = 1.0
    ln_eps: float = 1e-5
    dtype: str = "float64"

    def __post_init__(self) -> None:
        for name in ("d_model", "n_heads", "n_layers", "d_ff", "vocab_size", "context_len"):
            self._set(name, size_argument("MiniGPTConfig", name, getattr(self, name)))
        for name in ("attention_bias", "causal"):
            self._set(name, flag_argument("MiniGPTConfig", name, getattr(self, name)))
        for name in ("dropout", "init_gain", "ln_eps"):
            self._set(name, number_argument("MiniGPTConfig", name, getattr(self, name)))
        self._set("dtype", dtype_argument("MiniGPTConfig", self.dtype).name)
        if self.position not in ("rope", "learned"):
            raise ValueError(f"MiniGPTConfig: position must be 'rope' or 'learned'; got {self.position!r}. Choose one.")
        _in_range("dropout", self.dropout, 0.0 <= self.dropout < 1.0, "at least 0 and below 1")
        _in_range("init_gain", self.init_gain, 0.0 <= self.init_gain < np.inf, "finite and not negative")
        _in_range("ln_eps", self.ln_eps, 0.0 < self.ln_eps < np.inf, "finite and positive")
        head_width(self.d_model, self.n_heads, self.position == "rope")

    def _set(self, name: str, value: object) -> None:
        """Store a checked value; the dataclass is frozen for everybody else."""
        object.__setattr__(self, name, value)


def _in_range(name: str, value: float, holds: bool, allowed: str) -> None:
    """Raise unless `holds`, which says that `value` is `allowed`."""
    if not holds:
        raise ValueError(f"MiniGPTConfig: {name} must be {allowed}; got {value}. Choose another value.")
