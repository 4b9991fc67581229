"""Layer normalisation."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ..arrays import Array
from ..grad_mode import is_grad_enabled
from ..tensor import Operand, Tensor, as_floating, as_tensor, operands


@lru_cache(maxsize=32)
def _constants(width: int, eps: float, dtype: str) -> tuple[Array, Array, Array]:
    """Return the vector whose product with a row is the row's mean, D ε and √D.

    The product is 4 to 10 times faster than mean(); NumPy takes an array of no axes sooner than a Python float.
    """
    size = max(width, 1)  # rows without entries: nothing is computed, and nothing divided by 0
    average = np.full(width, 1.0 / size, dtype)
    average.flags.writeable = False
    return average, np.array(size * eps, dtype), np.array(math.sqrt(size), dtype)


def layer_norm(x: Operand, weight: Operand, bias: Operand, eps: float = 1e-5) -> Tensor:
    """Return x normalised over its last axis, times `weight`, plus `bias`; fused.

    Parameters
    ----------
    x : Tensor, shape (..., D), floating
    weight, bias : Tensor, shape (D,)
        γ and β of the paper.
    eps : float, above 0
        Keeps the division finite for constant rows, which come out as exactly `bias`.

    Raises
    ------
    ValueError
        If the last axis of x is not D.

    Notes
    -----
    Forward  y = x̂ γ + β,  x̂ = (x - μ) r,  r = (σ² + ε)^(-1/2), σ² the population variance.
    VJP      ∂x = r (h - mean(h) - x̂ mean(h x̂)) with h = g γ;  ∂γ = Σ g x̂,  ∂β = Σ g.
    Saves x̂ (the size of x) and r (one number a row). Rows whose squares overflow the dtype have r = 0, as elsewhere.

    References
    ----------
    Ba, Kiros and Hinton, "Layer Normalization" (2016), eq. 4.
    """
    x, weight = operands(x, weight)
    x, bias = as_floating(x), as_tensor(bias)
    rows, gain, shift = x._value, weight._value, bias._value
    shape = rows.shape
    if len(gain.shape) != 1 or shape[-1:] != gain.shape or shift.shape != gain.shape:
        raise ValueError(
            f"layer_norm: the last axis of x must equal the size of weight and bias, both (D,); "
            f"got x {shape}, weight {gain.shape}, bias {shift.shape}."
        )
    width = shape[-1]
    if len(shape) != 2:
        rows = rows.reshape(math.prod(shape[:-1]), width)  # (N, D)
    average, total_eps, root = _constants(width, float(eps), rows.dtype.char)

    # The first entry goes before the mean: then a constant row is exactly 0 whatever the rounding of the mean, and
    # the offset of rows such as 40000 + small costs no digits.
    x_hat = rows - rows[:, :1]  # (N, D)
    x_hat -= x_hat.dot(average)[:, None]
    # r = √D / √(Σ x̂² + D ε): the mean's division is left to the last step.
    r = np.vecdot(x_hat, x_hat)[:, None]  # (N, 1)
    r += total_eps
    np.sqrt(r, r)
    np.divide(root, r, r)
    x_hat *= r
    out = x_hat * gain
    out = np.add(out, shift, out if out.dtype == shift.dtype else None)
    if len(shape) != 2:
        out = out.reshape(shape)
    if not is_grad_enabled():
        return Tensor(out)

    def vjp(grad_out: Array) -> tuple[Array, Array, Array]:
        g = grad_out.reshape(rows.shape)
        ones = np.ones(len(g), g.dtype)
        scratch = g * x_hat
        grad_gain = ones.dot(scratch)
        grad_x = g * gain
        along = scratch.dot(gain * average)[:, None]  # mean of h x̂, as (g x̂) · γ/D
        mean = grad_x.dot(average)[:, None]
        np.multiply(x_hat, along, out=scratch)
        grad_x -= mean
        grad_x -= scratch
        grad_x *= r
        return grad_x.reshape(shape), grad_gain, ones.dot(g)

    return Tensor.from_op(out, (x, weight, bias), vjp, "layer_norm")
