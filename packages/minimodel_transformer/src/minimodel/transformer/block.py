"""One transformer block: attention and feed-forward network, each on a normalised copy of the residual stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from autograd_core import Dropout, Module, Tensor
from minimodel.embedding.arguments import number_argument, rng_argument

from .attention import MultiHeadAttention
from .cache import LayerCache
from .ffn import FFN
from .layer_norm import LayerNorm


class TransformerBlock(Module):
    """x = x + attn(ln1(x));  x = x + ffn(ln2(x)).

    Parameters
    ----------
    d_model, n_heads, d_ff : int
        Width D of the residual stream, heads H, hidden width F.
    causal, bias, rope : bool
        See `MultiHeadAttention`; `bias` concerns attention alone, the other layers always have theirs.
    dropout : float
        Fraction in [0, 1) of what attention and feed-forward network add to the stream that is zeroed in training.
    ln_eps : float
        See `LayerNorm`.
    rng : numpy.random.Generator, optional
        Draws the matrices; a fresh unseeded one by default, and a `TypeError` for a seed.
    dtype : dtype
        float64 or float32.

    Attributes
    ----------
    ln1, ln2 : LayerNorm
    attn : MultiHeadAttention
    ffn : FFN
    dropout : Dropout or None
        After the feed-forward network; attention has its own.

    References
    ----------
    Xiong et al., "On Layer Normalization in the Transformer Architecture" (2020), figure 1b (Pre-LN): the stream
    itself is never normalised, so the gradient reaches every layer through the additions.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        *,
        causal: bool = True,
        bias: bool = False,
        rope: bool = False,
        dropout: float = 0.0,
        ln_eps: float = 1e-5,
        rng: np.random.Generator | None = None,
        dtype: npt.DTypeLike = np.float64,
    ) -> None:
        rng = rng_argument("TransformerBlock", rng)
        dropout = number_argument("TransformerBlock", "dropout", dropout)
        self.ln1 = LayerNorm(d_model, ln_eps, dtype=dtype)
        self.attn = MultiHeadAttention(
            d_model, n_heads, causal=causal, bias=bias, rope=rope, dropout=dropout, rng=rng, dtype=dtype
        )
        self.ln2 = LayerNorm(d_model, ln_eps, dtype=dtype)
        self.ffn = FFN(d_model, d_ff, rng=rng, dtype=dtype)
        self.dropout = Dropout(dropout, rng=rng.spawn(1)[0]) if dropout else None

    def forward(
        self,
        x: Tensor | npt.NDArray[Any],
        *,
        pad_mask: npt.NDArray[np.bool_] | None = None,
        position_ids: npt.NDArray[np.integer[Any]] | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Return the residual stream after the block.

        Parameters
        ----------
        x : Tensor or array, shape (T, D) or (B, T, D)
        pad_mask, position_ids, cache
            See `MultiHeadAttention.forward`.

        Returns
        -------
        Tensor, shape of `x`

        Raises
        ------
        ValueError, TypeError, RuntimeError
            As its parts.
        """
        x = x + self.attn(self.ln1(x), pad_mask=pad_mask, position_ids=position_ids, cache=cache)
        update = self.ffn(self.ln2(x))
        return x + (update if self.dropout is None else self.dropout(update))
