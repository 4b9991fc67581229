"""MiniGPT: token ids to the logits of the next token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from autograd_core import Dropout, Module, Tensor
from autograd_core import functional as F
from minimodel.embedding import Embedding
from minimodel.embedding.arguments import array_argument, ids_argument, rng_argument

from .attention import checked_positions
from .block import TransformerBlock
from .cache import KeyValueCache, LayerCache
from .config import MiniGPTConfig
from .generation import generate
from .layer_norm import LayerNorm


class MiniGPT(Module):
    """A stack of Pre-LN blocks between an embedding and its transpose.

    Parameters
    ----------
    config : MiniGPTConfig
        Sizes and switches.
    rng : numpy.random.Generator, optional
        Draws the weights; a fresh unseeded one by default. Equal seeds give equal models; dropout's generators are
        spawned from it, so that switching dropout on changes no weight.

    Raises
    ------
    TypeError
        If `config` is none, or `rng` is no generator, as a seed.

    Attributes
    ----------
    config : MiniGPTConfig
    embedding : Embedding, E of shape (V, D)
        Also the head: logits are the final stream times Eᵀ.
    position_embedding : Embedding, E of shape (context_len, D)
        Only with learned positions.
    dropout : Dropout or None
        On the embedded tokens.
    blocks : list of TransformerBlock
    ln_final : LayerNorm

    Notes
    -----
    Number of parameters, with a = 1 for attention biases and p = 1 for learned positions, else 0:

        V·D + p·context_len·D + L·(4D² + 4aD + 2DF + F + D + 4D) + 2D

    The default configuration gives 4,096 + 2 · 49,728 + 128 = 103,680. Without learned positions it does not depend on
    `context_len`.

    References
    ----------
    Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), §2.3. Press and Wolf, "Using the
    Output Embedding to Improve Language Models" (2017), for the tied head.

    Examples
    --------
    >>> model = MiniGPT(MiniGPTConfig(), rng=np.random.default_rng(0))
    >>> sum(p.size for p in model.parameters())
    103680
    >>> model(np.array([[3, 1, 4, 1, 5]])).shape
    (1, 5, 64)
    """

    position_embedding: Embedding  # only with learned positions

    def __init__(self, config: MiniGPTConfig, *, rng: np.random.Generator | None = None) -> None:
        if not isinstance(config, MiniGPTConfig):
            raise TypeError(
                f"MiniGPT: config must be a MiniGPTConfig; got {type(config).__name__}. "
                "Give MiniGPTConfig(…); of a dict, MiniGPTConfig(**it)."
            )
        rng = rng_argument("MiniGPT", rng)
        d_model, dtype = config.d_model, config.dtype
        self.config = config
        self.embedding = Embedding(config.vocab_size, d_model, rng=rng, dtype=dtype)  # (B, T, D)
        self._learned = config.position == "learned"
        if self._learned:
            self.position_embedding = Embedding(config.context_len, d_model, rng=rng, dtype=dtype)  # (T, D)
        self.dropout = Dropout(config.dropout, rng=rng.spawn(1)[0]) if config.dropout else None
        self.blocks = [
            TransformerBlock(
                d_model,
                config.n_heads,
                config.d_ff,
                causal=config.causal,
                bias=config.attention_bias,
                rope=not self._learned,
                dropout=config.dropout,
                ln_eps=config.ln_eps,
                rng=rng,
                dtype=dtype,
            )  # (B, T, D)
            for _ in range(config.n_layers)
        ]
        self.ln_final = LayerNorm(d_model, config.ln_eps, dtype=dtype)  # (B, T, D)
        for parameter in self.parameters():
            if parameter.ndim == 2:  # the drawn ones; gains start at 1 and biases at 0 whatever the gain
                parameter.value[...] *= config.init_gain

    def forward(
        self,
        tokens: Tensor | npt.NDArray[np.integer[Any]] | Sequence[Any],
        *,
        pad_mask: npt.NDArray[np.bool_] | None = None,
        position_ids: npt.NDArray[np.integer[Any]] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Return the logits of the token after each position.

        Parameters
        ----------
        tokens : int array or nested list, shape (T,) or (B, T)
            Ids in [0, V); T is at most `context_len`.
        pad_mask : bool array, shape of `tokens`, optional
            True where the token is real. Padded tokens are never attended to; their own logits mean nothing.
        position_ids : int array, shape (T,) or (B, T), optional
            0 … T − 1 by default, or on from where the cache ends. With padding on the left, give 0 to the first real
            token. Learned positions must be in [0, context_len).
        cache : KeyValueCache, optional
            `tokens` follow those it has seen and are added to it; without gradients, and without padding.

        Returns
        -------
        Tensor, shape (T, V) or (B, T, V)
            Unnormalised log-probabilities, in nats.

        Raises
        ------
        ValueError
            If the sequence, what the cache has seen included, is longer than `context_len`, or a shape does not fit, or
            the rows of a nested list are not equally long; for a cache as `MultiHeadAttention.forward`.
        RuntimeError
            If a cache is given and gradients are on.
        IndexError
            If a token or a learned position is out of range.
        TypeError
            If `tokens` or `position_ids` are not integers, `pad_mask` is not bool, or `cache` is none.
        """
        tokens = ids_argument("MiniGPT", "tokens", tokens, self.config.vocab_size)
        if tokens.ndim not in (1, 2):
            raise ValueError(
                f"MiniGPT: tokens must be (T,) or (B, T); got shape {tokens.shape}. Give one sequence or a batch."
            )
        caches = self._layers_of(cache)
        start = 0 if cache is None else cache.length
        length = start + tokens.shape[-1]
        if length > self.config.context_len:
            raise ValueError(
                f"MiniGPT: a sequence must fit context_len={self.config.context_len}; got {length} tokens. "
                "Cut it, or make the model with a longer context_len."
            )
        x = self.embedding(tokens)  # (B, T, D)
        if self._learned:
            given = np.arange(start, length) if position_ids is None else position_ids
            x = x + self.position_embedding(checked_positions(given, tokens.shape))
        if self.dropout is not None:
            x = self.dropout(x)
        for block, layer_cache in zip(self.blocks, caches, strict=True):
            x = block(x, pad_mask=pad_mask, position_ids=position_ids, cache=layer_cache)
        return F.linear(self.ln_final(x), self.embedding.E.T)  # (B, T, V)

    def _layers_of(self, cache: KeyValueCache | None) -> Sequence[LayerCache | None]:
        """Return the cache of each block, None without one."""
        if cache is None:
            return [None] * len(self.blocks)
        if not isinstance(cache, KeyValueCache):
            raise TypeError(
                f"MiniGPT: cache must be a KeyValueCache; got {type(cache).__name__}. "
                "Make it with KeyValueCache(model.config.n_layers, model.config.context_len)."
            )
        if len(cache.layers) != len(self.blocks):
            raise ValueError(
                f"MiniGPT: a cache must have as many layers as the model, {len(self.blocks)}; got {len(cache.layers)}. "
                "Make it with KeyValueCache(model.config.n_layers, model.config.context_len)."
            )
        return cache.layers

    def loss(
        self,
        tokens: Tensor | npt.NDArray[np.integer[Any]] | Sequence[Any],
        targets: Tensor | npt.NDArray[np.integer[Any]] | Sequence[Any],
        *,
        pad_mask: npt.NDArray[np.bool_] | None = None,
        position_ids: npt.NDArray[np.integer[Any]] | None = None,
        ignore_index: int = -100,
        reduction: Literal["mean", "sum", "none"] = "mean",
    ) -> Tensor:
        """Return the cross-entropy of `targets` under the logits, in nats.

        Parameters
        ----------
        tokens, pad_mask, position_ids
            See `forward`.
        targets : int array, shape of `tokens`
            The id that follows each position, or `ignore_index` where no loss is counted. `pad_mask` ignores no
            target by itself: give padded positions the `ignore_index`.
        ignore_index : int
            The target that is not counted.
        reduction : "mean", "sum" or "none"
            Mean over the counted targets (0 if there are none), their sum, or one loss a target, 0 where ignored.

        Returns
        -------
        Tensor, shape () or, with "none", that of `targets`

        Raises
        ------
        ValueError, IndexError, TypeError
            As `forward`, and for targets as `autograd_core.functional.cross_entropy`.
        """
        logits = self(tokens, pad_mask=pad_mask, position_ids=position_ids)
        array_argument("MiniGPT", "targets", targets)  # refuses ragged lists by their rule
        return F.cross_entropy(logits, targets, ignore_index=ignore_index, reduction=reduction)

    def generate(
        self,
        prompt_ids: Tensor | npt.NDArray[np.integer[Any]] | Sequence[Any],
        max_new_tokens: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        rng: np.random.Generator | None = None,
    ) -> npt.NDArray[np.int64]:
        """Return prompt and continuation. See `generation.generate`."""
        return generate(self, prompt_ids, max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p, rng=rng)

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """Return a copy with all parameters converted, whose `config` says so too."""
        converted = super().astype(dtype)
        converted.config = replace(self.config, dtype=np.dtype(dtype).name)
        return converted
