"""Attention: the general op on q, k, v, and the packed self-attention that a transformer block runs.

Both share `_attend` and `_attend_vjp`, which work on arrays. Everything that decides about a row (its shift, its sum)
looks at the keys that row sees and at no others: a later or padded key cannot change a bit of an earlier output.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..arrays import Array, BoolArray
from ..grad_mode import is_grad_enabled
from ..tensor import Operand, Tensor, adopting, as_floating

# A row whose exponentials, unshifted, sum to between 1/this and this keeps them: nothing in it overflowed, and what
# underflowed is lost beside the sum anyway. Squares of it still fit the dtype, so one dot product checks all rows.
_LIMIT = {np.dtype(np.float32): 1e18, np.dtype(np.float64): 1e150}


class _Attended(NamedTuple):
    """What the backward pass reads."""

    q: Array  # (..., Tq, K)
    k: Array  # (..., Tk, K)
    v: Array  # (..., Tk, Kv)
    weights: Array  # (..., Tq, Tk), rows sum to 1, or are 0 for a query that sees no key; 0 where masked
    out: Array  # (..., Tq, Kv)
    causal: bool
    key_mask: BoolArray | None


@lru_cache(maxsize=32)
def _causal(queries: int, keys: int) -> BoolArray:
    """Return the (Tq, Tk) mask, True where seen: aligned at the end, so the last query sees every key."""
    mask = np.tri(queries, keys, keys - queries, dtype=bool)
    mask.flags.writeable = False
    return mask


@lru_cache(maxsize=32)
def _causal_factor(queries: int, keys: int, dtype: str) -> Array:
    factor = _causal(queries, keys).astype(dtype)
    factor.flags.writeable = False
    return factor


@lru_cache(maxsize=32)
def _scale(d_head: int, dtype: str) -> Array:
    """Return 1/√K: NumPy takes an array of no axes sooner than a Python float."""
    return np.array(1.0 / math.sqrt(d_head), dtype)


@lru_cache(maxsize=32)
def _ones(keys: int, dtype: str) -> Array:
    """Return a vector of ones: a product with it sums rows faster than sum() does."""
    vector = np.ones(keys, dtype)
    vector.flags.writeable = False
    return vector


def _visible(causal: bool, key_mask: BoolArray | None, shape: tuple[int, ...]) -> BoolArray:
    """Return which scores of `shape` are seen; broadcasts to (..., Tq, Tk)."""
    queries, keys = shape[-2:]
    if key_mask is None:
        return _causal(queries, keys) if causal else np.ones((1, 1), np.bool_)
    # (B, Tk) -> (B, 1, ..., 1, Tk)
    lead = key_mask.shape[:-1]
    seen = key_mask.reshape(*lead, *(1,) * (len(shape) - len(lead) - 1), keys)
    return seen & _causal(queries, keys) if causal else seen


def _attend(
    q: Array, k: Array, v: Array, scale: Array | float, causal: bool, key_mask: BoolArray | None, out: Array
) -> _Attended:
    """Write softmax(scale · q kᵀ) v over visible keys into `out`, a contiguous array or a view of all of one."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        scores = np.matmul(q, k.swapaxes(-1, -2))
        scores *= scale
        weights = np.exp(scores, scores)
        if key_mask is not None:
            weights *= _visible(causal, key_mask, weights.shape).astype(weights.dtype)
        elif causal:
            weights *= _causal_factor(*weights.shape[-2:], weights.dtype.char)
        sums = _row_sums(weights)  # (..., Tq, 1)
        # Large if a sum is, or is close to 0. NaN fails the comparison too; it may come from a masked score (inf * 0):
        # then only that row cares.
        limit = _LIMIT.get(scores.dtype, 64.0)
        if _square(sums + np.reciprocal(sums)) < limit * limit:
            weights /= sums
        else:
            weights = _weights_by_row(q, k, scale, _visible(causal, key_mask, weights.shape), limit)
        np.matmul(weights, v, out)
        # One number tells whether a NaN or inf, even under weight 0, came through the product.
        if not math.isfinite(_square(out if out.base is None else out.base)):
            _keep_masked_out(weights, v, _visible(causal, key_mask, weights.shape), out)
    return _Attended(q, k, v, weights, out, causal, key_mask)


def _row_sums(weights: Array) -> Array:
    """Return the sums over keys, (..., Tq, 1)."""
    *lead, keys = weights.shape
    sums: Array = weights.reshape(math.prod(lead), keys).dot(_ones(keys, weights.dtype.char))
    return sums.reshape(*lead, 1)


def _square(x: Array) -> float:
    """Return the sum of squares of a contiguous array: the cheapest number that every entry takes part in."""
    flat = x.reshape(-1)
    return flat.dot(flat)  # type: ignore[no-any-return]  # a NumPy scalar, which compares as a float does


def _weights_by_row(q: Array, k: Array, scale: Array | float, visible: BoolArray, limit: float) -> Array:
    """Return the weights; rows whose exponentials would sum to beyond the limits are shifted by their maximum first.

    A row that is not shifted has the bits it would have without the others: whether this function runs is decided by
    all rows together, what it does to a row by that row's visible keys.
    """
    scores = np.matmul(q, k.swapaxes(-1, -2))
    scores *= scale
    if not math.isfinite(_square(scores)):
        # A product may overflow that is within range once it is scaled.
        scores = np.where(np.isfinite(scores), scores, np.matmul(q * scale, k.swapaxes(-1, -2)))
    scores = np.where(visible, scores, -np.inf).astype(scores.dtype, copy=False)
    weights = np.exp(scores)
    sums = _row_sums(weights)
    shifted = ~((sums < limit) & (sums > 1.0 / limit))[..., 0]
    top = scores[shifted].max(axis=-1, keepdims=True, initial=-np.inf)
    top[np.isneginf(top)] = 0.0  # a row that sees no key
    weights[shifted] = np.exp(scores[shifted] - top)
    sums = _row_sums(weights)
    np.divide(weights, sums, weights, where=sums != 0)
    return np.where(visible, weights, np.zeros((), weights.dtype))  # of a row that is NaN too


def _keep_masked_out(weights: Array, v: Array, visible: BoolArray, out: Array) -> None:
    """Redo `out` where 0 times a masked NaN or inf has spoilt it: each row gets what it sees of them and no more."""
    finite = np.isfinite(v)
    if finite.all():
        return
    np.matmul(weights, np.where(finite, v, np.zeros((), v.dtype)), out)
    seen = np.broadcast_to(visible, weights.shape).astype(v.dtype)
    for kind, value in ((np.isnan(v), np.nan), (np.isposinf(v), np.inf), (np.isneginf(v), -np.inf)):
        out += np.where(np.matmul(seen, kind.astype(v.dtype)) > 0, value, 0.0).astype(v.dtype)


def _attend_vjp(
    saved: _Attended, grad: Array, into: tuple[Array, Array, Array], whole: tuple[Array, ...], scale: Array | float
) -> None:
    """Write the cotangents of q, k and v into the three arrays; `whole` are contiguous and hold the first two."""
    q, k, v, weights, out, causal, key_mask = saved
    with np.errstate(invalid="ignore", over="ignore"):
        _products_vjp(q, k, v, weights, out, grad, None, scale, into)
        # Whatever is not finite in weights, values or cotangents has come through to q's or k's.
        if all(math.isfinite(_square(each)) or np.isfinite(each).all() for each in whole):
            return
        # 0 * NaN is NaN: what is masked, and every query that nothing depends on, is taken out before the products. A
        # row that sees a NaN has NaN weights, and hands it on to what it sees.
        zero = np.zeros((), out.dtype)
        matters = (grad != 0).any(axis=-1, keepdims=True)  # (..., Tq, 1)
        q, weights, out = (np.where(matters, each, zero) for each in (q, weights, out))
        q, k, v = (np.where(np.isfinite(each), each, zero) for each in (q, k, v))
        _products_vjp(q, k, v, weights, out, grad, _visible(causal, key_mask, weights.shape), scale, into)


def _products_vjp(
    q: Array,
    k: Array,
    v: Array,
    weights: Array,
    out: Array,
    grad: Array,
    visible: BoolArray | None,
    scale: Array | float,
    into: tuple[Array, Array, Array],
) -> None:
    """Write the cotangents; `visible`, where given, zeroes those of hidden scores, whatever came out for them."""
    grad_q, grad_k, grad_v = into
    delta = np.vecdot(grad, out)[..., None]  # (..., Tq, 1)
    grad_scores = np.matmul(grad, v.swapaxes(-1, -2))  # (..., Tq, Tk)
    grad_scores -= delta
    grad_scores *= weights
    grad_scores *= scale
    if visible is not None:
        grad_scores = np.where(visible, grad_scores, np.zeros((), grad_scores.dtype))
    np.matmul(grad_scores, k, out=grad_q)
    np.matmul(grad_scores.swapaxes(-1, -2), q, out=grad_k)
    np.matmul(weights.swapaxes(-1, -2), grad, out=grad_v)


def _checked_key_mask(key_mask: Array | None, batch: tuple[int, ...], keys: int) -> BoolArray | None:
    if key_mask is None:
        return None
    mask = np.asarray(key_mask)
    if mask.dtype != np.bool_:
        raise TypeError(f"attention: key_mask must be boolean, True where the key is real; got {mask.dtype}.")
    if mask.shape[-1:] != (keys,) or mask.shape[:-1] != batch[: mask.ndim - 1]:
        raise ValueError(
            f"attention: key_mask must be (B, Tk) = {(*batch[:1], keys)}, matching the keys; got {mask.shape}."
        )
    return mask


def scaled_dot_product_attention(
    q: Operand, k: Operand, v: Operand, *, causal: bool = False, key_mask: BoolArray | None = None
) -> Tensor:
    """Return softmax(q kᵀ / √K) v over the visible keys, fused.

    Parameters
    ----------
    q : Tensor, shape (..., Tq, K)
    k : Tensor, shape (..., Tk, K)
    v : Tensor, shape (..., Tk, Kv)
    causal : bool
        Query i sees keys up to i + Tk - Tq: aligned at the end.
    key_mask : bool array, shape (B, Tk), optional
        True where the key is real; B is the first axis of q.

    Returns
    -------
    Tensor, shape (..., Tq, Kv)
        A row that sees no key is 0, with gradient 0. Masked positions contribute exactly nothing, whatever they hold.

    Raises
    ------
    ValueError, TypeError
        For shapes that do not fit; for a key_mask that is not boolean.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), eq. 1.
    """
    q, k, v = (as_floating(each) for each in adopting(q, k, v))
    if q.ndim < 2 or k.ndim < 2 or v.ndim < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(
            "attention: q (..., Tq, K), k (..., Tk, K) and v (..., Tk, Kv) must agree in K and Tk; "
            f"got q {q.shape}, k {k.shape}, v {v.shape}."
        )
    if not q.shape[-1]:
        raise ValueError(f"attention: K, the width of q and k, must be at least 1; got q {q.shape}, k {k.shape}.")
    scale = 1.0 / math.sqrt(q.shape[-1])
    batch = lead = q.shape[:-2]
    if not batch == k.shape[:-2] == v.shape[:-2]:
        batch = np.broadcast_shapes(batch, k.shape[:-2])
        lead = np.broadcast_shapes(batch, v.shape[:-2])
    queries, keys, width = q.shape[-2], k.shape[-2], v.shape[-1]
    mask = _checked_key_mask(key_mask, batch, keys)
    dtype = np.result_type(q.value, k.value, v.value)
    out = np.empty((*lead, queries, width), dtype)
    saved = _attend(q.value, k.value, v.value, scale, causal, mask, out)
    if not is_grad_enabled():
        return Tensor(out)
    d_head = q.shape[-1]

    def vjp(grad_out: Array) -> tuple[Array, Array, Array]:
        grad_q = np.empty((*lead, queries, d_head), dtype)
        grad_k = np.empty((*lead, keys, d_head), dtype)
        grad_v = np.empty((*lead, keys, width), dtype)
        _attend_vjp(saved, grad_out, (grad_q, grad_k, grad_v), (grad_q, grad_k), scale)
        return grad_q, grad_k, grad_v

    return Tensor.from_op(out, (q, k, v), vjp, "scaled_dot_product_attention")


def self_attention(
    qkv: Operand,
    n_heads: int,
    *,
    causal: bool = False,
    key_mask: BoolArray | None = None,
    rope: tuple[Array, Array] | None = None,
) -> Tensor:
    """Return multi-head self-attention of packed projections, heads joined, fused.

    Equal to splitting `qkv` into q, k, v and heads, rotating q and k if `rope` is given, and
    `scaled_dot_product_attention`; here without a copy of any head, and with one array for all three cotangents.

    Parameters
    ----------
    qkv : Tensor, shape (T, 3D) or (B, T, 3D)
        [Q | K | V] on the last axis, the H heads contiguous inside each third.
    n_heads : int
        H; divides D.
    causal, key_mask
        As in `scaled_dot_product_attention`; key_mask is (B, T), or (T,) without a batch axis.
    rope : (cos, sin), optional
        Rotary embedding (Su et al. 2021, eq. 34), each (T, K/2) or (B, T, K/2): entries i and i + K/2 of each head of q
        and k are turned by the angle, as in GPT-NeoX.

    Returns
    -------
    Tensor, shape (T, D) or (B, T, D)

    Raises
    ------
    ValueError, TypeError
        For shapes that do not fit; for a key_mask that is not boolean.
    """
    qkv = as_floating(qkv)
    shape = qkv._value.shape
    if len(shape) not in (2, 3) or n_heads < 1 or shape[-1] % (3 * n_heads) or not shape[-1]:
        raise ValueError(
            f"self_attention: qkv must be (T, 3D) or (B, T, 3D) with D divisible by n_heads; "
            f"got {shape} and n_heads={n_heads}."
        )
    length, width = shape[-2], shape[-1] // 3
    batch = shape[0] if len(shape) == 3 else 1
    d_head = width // n_heads
    mask = None if key_mask is None else np.asarray(key_mask)
    if mask is not None and mask.ndim == 1:
        mask = mask[None]
    mask = _checked_key_mask(mask, (batch,), length)

    packed = qkv._value.reshape(batch, length, 3, n_heads, d_head)
    dtype = packed.dtype
    scale = _scale(d_head, dtype.char)
    # Each (B, H, T, K): views that BLAS takes as they are.
    q, k, v = packed.transpose(2, 0, 3, 1, 4)
    turn = None
    if rope is not None:
        turn = _rope_tables(rope, (batch, length, n_heads, d_head), dtype)
        rotated = np.empty((batch, length, 2 * width), dtype)
        _rotate(packed.reshape(batch, length, 3 * width)[..., : 2 * width], *turn, d_head, out=rotated)
        q, k = rotated.reshape(batch, length, 2, n_heads, d_head).transpose(2, 0, 3, 1, 4)
    out = np.empty((batch, length, n_heads, d_head), dtype)
    saved = _attend(q, k, v, scale, causal, mask, out.transpose(0, 2, 1, 3))
    joined = out.reshape(*shape[:-1], width)
    if not is_grad_enabled():
        return Tensor(joined)

    def vjp(grad_out: Array) -> tuple[Array]:
        grad = grad_out.reshape(batch, length, n_heads, d_head).transpose(0, 2, 1, 3)
        packed_grad = np.empty((batch, length, 3, n_heads, d_head), dtype)
        grad_q, grad_k, grad_v = packed_grad.transpose(2, 0, 3, 1, 4)
        if turn is None:
            _attend_vjp(saved, grad, (grad_q, grad_k, grad_v), (packed_grad,), scale)
        else:
            turned = np.empty((batch, length, 2 * width), dtype)
            turned_q, turned_k = turned.reshape(batch, length, 2, n_heads, d_head).transpose(2, 0, 3, 1, 4)
            _attend_vjp(saved, grad, (turned_q, turned_k, grad_v), (turned,), scale)
            cos, sin = turn
            into = packed_grad.reshape(batch, length, 3 * width)[..., : 2 * width]
            _rotate(turned, cos, -sin, d_head, out=into)  # a rotation's transpose turns it back
        return (packed_grad.reshape(shape),)

    return Tensor.from_op(joined, (qkv,), vjp, "self_attention")


def _rope_tables(
    rope: tuple[Array, Array], sizes: tuple[int, int, int, int], dtype: np.dtype[np.generic]
) -> tuple[Array, Array]:
    """Return cos and ∓sin for every entry of q and k, (1 or B, T, 2HK), from tables of K/2 angles.

    Parameters
    ----------
    rope : (cos, sin)
    sizes : B, T, H and K
    dtype : of the result
    """
    batch, length, n_heads, d_head = sizes
    given = [np.asarray(table) for table in rope]
    table = (length, d_head // 2)
    if d_head % 2 or any(each.shape not in (table, (batch, *table)) for each in given):
        raise ValueError(
            f"self_attention: rope needs an even head width, and cos and sin (T, K/2) = {table} or (B, T, K/2); "
            f"got head width {d_head}, cos {given[0].shape}, sin {given[1].shape}."
        )
    cos, sin = (each[..., None, :] for each in given)  # (T, 1, K/2) or (B, T, 1, K/2)
    # Written out for all heads, so that the products below run along whole rows: 2.5 times faster than head by head.
    sequences = batch if max(cos.ndim, sin.ndim) == 4 else 1
    repeated = np.empty((2, sequences, length, 2 * n_heads, 2, d_head // 2), dtype)
    repeated[0, ..., 0, :] = repeated[0, ..., 1, :] = cos
    repeated[1, ..., 1, :] = sin
    np.negative(sin, repeated[1, ..., 0, :])
    all_cos, all_sin = repeated.reshape(2, sequences, length, 2 * n_heads * d_head)
    return all_cos, all_sin


def _rotate(x: Array, cos: Array, sin: Array, d_head: int, *, out: Array) -> None:
    """Write q and k, side by side in x (B, T, 2HK), turned in the planes (i, i + K/2) of each head into `out`.

    (a, b) becomes (a cos - b sin, b cos + a sin), as x cos plus x with the halves of each head exchanged times ∓sin.
    """
    exchanged = np.empty(x.shape, x.dtype)
    halves = (*x.shape[:2], x.shape[2] // d_head, 2, d_head // 2)
    np.copyto(exchanged.reshape(halves), x.reshape(halves)[..., ::-1, :])
    exchanged *= sin
    np.multiply(x, cos, out)
    out += exchanged
