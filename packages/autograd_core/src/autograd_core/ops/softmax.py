"""Softmax and the losses built on it, each shifted by the row's maximum so that no finite input overflows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Array, IntArray, integers
from ..tensor import Operand, Tensor, as_floating


def _shifted(value: Array, axis: int) -> tuple[Array, Array]:
    """Return `value` less its maximum along `axis`, and that maximum, kept.

    It is 0 for a row that is -inf throughout, so that -inf - -inf cannot arise.
    """
    top = value.max(axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isneginf(top), np.zeros((), value.dtype), top).astype(value.dtype, copy=False)
    # A distance beyond the largest float is -inf, and its exp 0, as it should be. A row with inf becomes NaN, which
    # shows in the result; cross_entropy may ignore that row.
    with np.errstate(over="ignore", invalid="ignore"):
        return value - top, top


def softmax(x: Operand, axis: int = -1) -> Tensor:
    """Return exp(x) normalised to sum 1 along `axis`."""
    x = as_floating(x)
    p = np.exp(_shifted(x.value, axis)[0])
    p /= p.sum(axis=axis, keepdims=True)

    def vjp(grad_out: Array) -> tuple[Array]:
        grad_x = grad_out - (grad_out * p).sum(axis=axis, keepdims=True)
        grad_x *= p
        return (grad_x,)

    return Tensor.from_op(p, (x,), vjp, "softmax")


def log_softmax(x: Operand, axis: int = -1) -> Tensor:
    """Return the logarithm of the softmax along `axis`, in nats."""
    x = as_floating(x)
    out = _shifted(x.value, axis)[0]
    out -= np.log(np.exp(out).sum(axis=axis, keepdims=True))

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out - np.exp(out) * grad_out.sum(axis=axis, keepdims=True),)

    return Tensor.from_op(out, (x,), vjp, "log_softmax")


def logsumexp(x: Operand, axis: int = -1) -> Tensor:
    """Return log(sum(exp(x))) along `axis`, which goes; -inf for a row that is -inf throughout, with gradient 0."""
    x = as_floating(x)
    shifted, shift = _shifted(x.value, axis)
    p = np.exp(shifted)
    total = p.sum(axis=axis, keepdims=True)
    with np.errstate(divide="ignore"):
        out = np.squeeze(np.where(np.isposinf(shift), shift, np.log(total) + shift), axis)
    np.divide(p, total, out=p, where=total != 0)

    def vjp(grad_out: Array) -> tuple[Array]:
        return (p * np.expand_dims(grad_out, axis),)

    return Tensor.from_op(out, (x,), vjp, "logsumexp")


def cross_entropy(
    logits: Operand, targets: npt.ArrayLike | Tensor, *, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """Return the negative log-likelihood of `targets` under softmax(`logits`), fused, in nats.

    Parameters
    ----------
    logits : Tensor, shape (..., V), floating
        Unnormalised log-probabilities; classes on the last axis.
    targets : int array_like, shape (...)
        A class in [0, V), or `ignore_index` for a position that counts nothing.
    ignore_index : int
    reduction : {"mean", "sum", "none"}
        The mean divides by the number of targets not ignored. If all are ignored it is 0.0, with zero gradients.

    Returns
    -------
    Tensor, shape () or, for "none", the shape of `targets` (0 where ignored); dtype of `logits`

    Raises
    ------
    ValueError
        If `targets.shape != logits.shape[:-1]`, if there is no class, or for another reduction.
    TypeError
        If targets are bool or float, or ignore_index is no integer.
    IndexError
        If a target is outside [0, V) and is not `ignore_index`, naming it and its position.

    Notes
    -----
    Forward  ℓ_i = logsumexp(z_i) - z_i[y_i].  VJP  ∂z_i = (softmax(z_i) - onehot(y_i)) g_i, g_i divided by the count
    for the mean.  Saves softmax(z): one array of the size of `logits`.

    References
    ----------
    Bishop, "Pattern Recognition and Machine Learning" (2006), §4.3.4, eq. 4.109.

    Examples
    --------
    >>> import numpy as np
    >>> round(cross_entropy(np.zeros((1, 3)), np.array([0])).item(), 4)
    1.0986
    """
    logits = as_floating(logits)
    classes = _checked_targets(logits, targets, ignore_index)
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, (int, np.integer)):
        raise TypeError(f"cross_entropy: ignore_index must be an integer; got {ignore_index!r}. The usual one is -100.")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'cross_entropy: reduction must be "mean", "sum" or "none"; got {reduction!r}.')
    y = classes.reshape(-1)
    z = logits.value.reshape(y.size, logits.shape[-1])  # (N, V)
    ignored = np.flatnonzero(y == ignore_index)
    count = y.size - ignored.size
    if ignored.size:
        y = y.copy()
        y[ignored] = 0
    places = np.arange(0, z.size, z.shape[1]) + y  # of each target's logit in the flat array

    p = np.ascontiguousarray(_shifted(z, -1)[0])  # (N, V), becomes softmax(z) below
    if ignored.size:
        p[ignored] = 0.0  # whatever they hold, they are not to warn
    losses = p.reshape(-1)[places]
    np.exp(p, out=p)
    total = np.matmul(p, np.ones(p.shape[1], p.dtype))  # (N,)
    np.subtract(np.log(total), losses, out=losses)
    p /= total[:, None]
    if ignored.size:
        losses[ignored] = 0.0
        p[ignored] = 0.0

    dtype, shape = logits.dtype, logits.shape
    if reduction == "none":
        out = losses.reshape(classes.shape)
    else:
        # Summed in float64: a float32 mean over a batch of tokens would lose the digits the log shows.
        summed = losses.sum(dtype=np.float64)
        out = np.asarray(summed / count if reduction == "mean" and count else summed, dtype)

    def vjp(grad_out: Array) -> tuple[Array]:
        scale = grad_out.reshape(-1, 1)  # (N, 1) or (1, 1)
        if reduction == "mean" and count:
            scale = scale / count
        if ignored.size:
            scale = np.array(np.broadcast_to(scale, (len(p), 1)))
            scale[ignored] = 0.0  # before the product: the cotangent of an ignored position may be inf
        grad_z = p * scale
        grad_z.reshape(-1)[places] -= scale[:, 0]
        return (grad_z.reshape(shape),)

    return Tensor.from_op(out, (logits,), vjp, "cross_entropy")


def _checked_targets(logits: Tensor, targets: npt.ArrayLike | Tensor, ignore_index: int) -> IntArray:
    classes = integers("cross_entropy: targets", targets.value if isinstance(targets, Tensor) else targets)
    if logits.ndim == 0 or classes.shape != logits.shape[:-1]:
        raise ValueError(
            f"cross_entropy: targets must have the shape of logits without the class axis, {logits.shape[:-1]}; "
            f"got {classes.shape}."
        )
    size = logits.shape[-1]
    if not size:
        raise ValueError(f"cross_entropy: logits must have at least one class; got shape {logits.shape}.")
    wide = classes.astype(np.int64, copy=False)
    # Read as unsigned, a negative class is beyond any vocabulary: mostly one pass says that all is well.
    if classes.size == 0 or wide.view(np.uint64).max() < size:
        return wide
    bad = ((classes < 0) | (classes >= size)) & (classes != ignore_index)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise IndexError(
            f"cross_entropy: each target must be in [0, {size}) or equal ignore_index={ignore_index}; "
            f"got {classes[where]} at position {where}."
        )
    return wide
