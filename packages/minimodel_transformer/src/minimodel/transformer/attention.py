"""Multi-head self-attention with its four projections."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from autograd_core import Columns, Dropout, Module, Parameter, Tensor, init, is_grad_enabled
from autograd_core import functional as F
from minimodel.embedding.arguments import (
    array_argument,
    dtype_argument,
    flag_argument,
    number_argument,
    rng_argument,
    size_argument,
    stream_argument,
)

from .cache import LayerCache
from .rope import RotaryCache, Tables, rotary_tables, rotated

# What one product computes, so that it lies in one array.
_COLUMNS = frozenset({"W_q", "W_k", "W_v", "b_q", "b_k", "b_v"})


class MultiHeadAttention(Module):
    """Each position gathers from the positions it sees, in `n_heads` ways at once.

    Parameters
    ----------
    d_model : int
        Width D of the input and of the output.
    n_heads : int
        Number of heads H, which divides D; a head is K = D / H wide.
    causal : bool
        Position t sees positions up to t only.
    bias : bool
        Give the four projections biases, initially 0, as GPT-2 has them.
    rope : bool
        Turn queries and keys by their positions (see `rope.py`); K must be even.
    dropout : float
        Fraction in [0, 1) of the *output* zeroed in training, after the projection (GPT-2's residual dropout). The
        attention weights themselves have none: the fused operation never holds them as a tensor.
    rng : numpy.random.Generator, optional
        Draws the matrices; a fresh unseeded one by default. Dropout gets a generator spawned from it.
    dtype : dtype
        float64 or float32.

    Attributes
    ----------
    W_q, W_k, W_v, W_o : Parameter, shape (D, D)
        As in x @ W, Xavier uniform. Head h owns columns hK … (h + 1)K − 1 of the first three and the same rows of
        the last.
    b_q, b_k, b_v, b_o : Parameter, shape (D,)
        Only with `bias`.

    Raises
    ------
    ValueError
        If `n_heads` does not divide `d_model`, or K is odd with `rope`.

    Notes
    -----
    Per head, with Q, K, V of shape (T, K):  softmax(Q Kᵀ/√K + mask) V;  heads are joined and multiplied by W_o.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), §3.2; their d_k and d_v are both our K.
    """

    b_q: Parameter  # (D,)
    b_k: Parameter  # (D,)
    b_v: Parameter  # (D,)
    b_o: Parameter  # (D,)

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        causal: bool = True,
        bias: bool = False,
        rope: bool = False,
        dropout: float = 0.0,
        rng: np.random.Generator | None = None,
        dtype: npt.DTypeLike = np.float64,
    ) -> None:
        self.d_model = size_argument("MultiHeadAttention", "d_model", d_model)
        self.n_heads = size_argument("MultiHeadAttention", "n_heads", n_heads)
        self.causal = flag_argument("MultiHeadAttention", "causal", causal)
        self.bias = flag_argument("MultiHeadAttention", "bias", bias)
        rope = flag_argument("MultiHeadAttention", "rope", rope)
        dropout = number_argument("MultiHeadAttention", "dropout", dropout)
        self.d_head = head_width(self.d_model, self.n_heads, rope)
        dtype = dtype_argument("MultiHeadAttention", dtype)
        rng = rng_argument("MultiHeadAttention", rng)
        square = (self.d_model, self.d_model)
        self.W_q = Parameter(init.xavier_uniform(square, rng=rng, dtype=dtype))  # (D, D)
        self.W_k = Parameter(init.xavier_uniform(square, rng=rng, dtype=dtype))  # (D, D)
        self.W_v = Parameter(init.xavier_uniform(square, rng=rng, dtype=dtype))  # (D, D)
        self.W_o = Parameter(init.xavier_uniform(square, rng=rng, dtype=dtype))  # (D, D)
        if bias:
            self.b_q = Parameter(np.zeros(self.d_model, dtype))
            self.b_k = Parameter(np.zeros(self.d_model, dtype))
            self.b_v = Parameter(np.zeros(self.d_model, dtype))
            self.b_o = Parameter(np.zeros(self.d_model, dtype))
        self._arrays_replaced()
        self._rotary = RotaryCache(self.d_head) if rope else None
        self.dropout = Dropout(dropout, rng=rng.spawn(1)[0]) if dropout else None

    def forward(
        self,
        x: Tensor | npt.NDArray[Any],
        *,
        pad_mask: npt.NDArray[np.bool_] | None = None,
        position_ids: npt.NDArray[np.integer[Any]] | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Return what each position gathered, projected.

        Parameters
        ----------
        x : Tensor or array, shape (T, D) or (B, T, D)
        pad_mask : bool array, shape of `x` without its last axis, optional
            True where the token is real. It masks keys only: a padded position still gets an output, which nobody
            reads. A query that sees no real key gives zeros (plus `b_o`).
        position_ids : int array, shape (T,) or (B, T), optional
            The positions by which RoPE turns, 0 … T − 1 by default, or on from where the cache ends. Without RoPE
            attention knows no positions.
        cache : LayerCache, optional
            `x` follows the positions whose keys and values it holds, sees them too, and is added to it.

        Returns
        -------
        Tensor, shape of `x`

        Raises
        ------
        ValueError
            If `x`, `pad_mask` or `position_ids` has another shape, or a cache is full, of another batch, given together
            with a `pad_mask`, or given to attention that is not causal.
        TypeError
            If `x` holds no real numbers, `pad_mask` is not bool, `position_ids` are not integers, or the cache is none.
        RuntimeError
            If a cache is given and gradients are on.
        """
        if not isinstance(x, Tensor):
            x = stream_argument("MultiHeadAttention", x)
        if x.ndim not in (2, 3) or x.shape[-1] != self.d_model:
            raise ValueError(
                f"MultiHeadAttention: x must be (T, D) or (B, T, D) with D = d_model={self.d_model}; "
                f"got shape {x.shape}. Give one sequence or a batch of them."
            )
        if pad_mask is not None:
            pad_mask = _checked_mask(pad_mask, x.shape[:-1])
        if cache is not None:
            self._check_use_of_cache(cache, pad_mask)
        qkv = F.joined_linear(x, *self._columns)  # (B, T, 3D)
        tables = None
        if self._rotary is not None:
            tables = self._rope_tables(self._rotary, x, position_ids, 0 if cache is None else cache.length)
        if cache is None:
            heads = F.self_attention(qkv, self.n_heads, causal=self.causal, key_mask=pad_mask, rope=tables)  # (B, T, D)
        else:
            heads = self._attend_with(cache, qkv.value, tables)  # (B, T, D)
        out = F.linear(heads, self.W_o, self.b_o if self.bias else None)
        return out if self.dropout is None else self.dropout(out)

    def _arrays_replaced(self) -> None:
        """Lay W_q, W_k, W_v, and their biases, side by side, so that their products are one."""
        self._columns = (
            Columns([self.W_q, self.W_k, self.W_v]),  # (D, 3D)
            Columns([self.b_q, self.b_k, self.b_v]) if self.bias else None,  # (3D,)
        )

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in _COLUMNS and "_columns" in vars(self):
            self._arrays_replaced()  # another parameter took the place of one of them

    def __getstate__(self) -> dict[str, Any]:
        """Copies make columns of their own parameters."""
        state = super().__getstate__()
        del state["_columns"]
        return state

    def _check_use_of_cache(self, cache: LayerCache, pad_mask: npt.NDArray[np.bool_] | None) -> None:
        """Raise for what is no cache, and where a cache would give other numbers than the whole sequence."""
        if not isinstance(cache, LayerCache):
            raise TypeError(
                f"MultiHeadAttention: cache must be a LayerCache; got {type(cache).__name__}. "
                "Of a KeyValueCache, give the one of this layer: cache.layers[i]."
            )
        if is_grad_enabled():
            raise RuntimeError(
                "MultiHeadAttention: a cache holds plain numbers, through which no gradient flows; gradients are on. "
                "Run under autograd_core.no_grad()."
            )
        if not self.causal:
            raise ValueError(
                "MultiHeadAttention: a cache needs causal attention; this one has causal=False, so that a new position "
                "changes what earlier ones gather. Run the whole sequence without a cache."
            )
        if pad_mask is not None:
            raise ValueError(
                "MultiHeadAttention: a cache is for sequences of equal length; got a pad_mask. "
                "Give sequences without padding, or no cache."
            )

    def _attend_with(self, cache: LayerCache, qkv: npt.NDArray[Any], tables: Tables | None) -> Tensor:
        """Return the joined heads (B, T, D) of new positions with `qkv` (B, T, 3D), which see those in `cache` too."""
        lead, heads, width = qkv.shape[:-1], self.n_heads, self.d_head
        q_and_k, v = qkv[..., : 2 * self.d_model], qkv[..., 2 * self.d_model :].reshape(*lead, heads, width)
        q_and_k = q_and_k.reshape(*lead, 2 * heads, width)  # (B, T, 2H, K)
        if tables is not None:
            q_and_k = rotated(q_and_k, tables)
        q, k, v = (part.swapaxes(-3, -2) for part in (q_and_k[..., :heads, :], q_and_k[..., heads:, :], v))
        keys, values = cache.append(k, v)  # (B, H, cache.length, K)
        # A lone query is the last position, which sees every key.
        out = F.scaled_dot_product_attention(q, keys, values, causal=q.shape[-2] > 1)  # (B, H, T, K)
        return Tensor(out.value.swapaxes(-3, -2).reshape(*lead, self.d_model))

    def _rope_tables(
        self,
        rotary: RotaryCache,
        x: Tensor | npt.NDArray[Any],
        position_ids: npt.NDArray[np.integer[Any]] | None,
        start: int,
    ) -> Tables:
        """Return the cosines and sines for the positions of `x`, from `start` on by default."""
        dtype = np.result_type(x.dtype, self.W_q.dtype)
        if position_ids is None:
            return rotary.tables(x.shape[-2], dtype, start=start)
        return rotary_tables(checked_positions(position_ids, x.shape[:-1]), self.d_head, dtype)


def head_width(d_model: int, n_heads: int, rope: bool) -> int:
    """Return K = D / H, which is whole, and even with RoPE.

    Raises
    ------
    ValueError
        If it is not.
    """
    if d_model % n_heads:
        above = d_model + n_heads - d_model % n_heads
        raise ValueError(
            f"attention: n_heads must divide d_model; got d_model={d_model}, n_heads={n_heads}. "
            f"With {n_heads} heads, d_model={above} is the next that works."
        )
    d_head = d_model // n_heads
    if rope and d_head % 2:
        raise ValueError(
            f"attention: RoPE turns pairs, so d_model / n_heads must be even; got {d_model} / {n_heads} = {d_head}. "
            "Change one of the two, or use learned positions."
        )
    return d_head


def checked_positions(positions: npt.NDArray[np.integer[Any]], shape: tuple[int, ...]) -> npt.NDArray[np.integer[Any]]:
    """Return `positions` as an integer array of shape (T,) or `shape`, which is (T,) or (B, T).

    Raises
    ------
    TypeError
        If they are not integers.
    ValueError
        If they have another shape.
    """
    found = array_argument("MiniGPT", "position_ids", positions)
    if found.dtype.kind not in "iu":
        raise TypeError(f"position_ids must be integers; got dtype {found.dtype}. Convert with astype(np.int64).")
    if found.shape not in (shape, shape[-1:]):
        raise ValueError(
            f"position_ids must have one position a token; got shape {found.shape} for tokens {shape}. "
            f"Give {shape[-1:]} for all sequences alike, or {shape}."
        )
    return found


def _checked_mask(pad_mask: npt.NDArray[np.bool_], shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return the mask as a bool array of `shape`."""
    mask = array_argument("MiniGPT", "pad_mask", pad_mask)
    if mask.dtype != np.bool_:
        # A mask of 0.0 and -inf, or one that is True where the token is padding, would be taken the wrong way round.
        raise TypeError(
            f"pad_mask must be bool, True where the token is real; got dtype {mask.dtype}. Convert with pad_mask != 0."
        )
    if mask.shape != shape:
        raise ValueError(
            f"pad_mask must have one value a token; got shape {mask.shape} for tokens {shape}. Give shape {shape}."
        )
    return mask
