"""Dropout."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..randomness import generator
from ..tensor import Operand, Tensor, as_floating


def dropout(x: Operand, p: float, *, rng: np.random.Generator, training: bool = True) -> Tensor:
    """Return x with each entry zeroed with probability `p` and the others divided by 1 - p.

    Parameters
    ----------
    x : Tensor, any shape
    p : float in [0, 1)
    rng : numpy.random.Generator
        Draws the mask; not touched when `training` is False or p is 0.
    training : bool
        False returns x itself.

    Raises
    ------
    ValueError
        If p is outside [0, 1).
    TypeError
        If `rng` is needed and is no generator.

    References
    ----------
    Srivastava et al., "Dropout" (JMLR 2014), in the inverted form, which leaves evaluation alone.
    """
    if not 0.0 <= p < 1.0:
        raise ValueError(f"dropout: p must be in [0, 1); got {p}.")
    x = as_floating(x)
    if not training or p == 0.0:
        return x
    scale = (generator("dropout", rng).random(x.shape, dtype=np.float32) >= p).astype(x.dtype)
    scale *= 1.0 / (1.0 - p)

    def vjp(grad_out: Array) -> tuple[Array]:
        return (grad_out * scale,)

    return Tensor.from_op(x.value * scale, (x,), vjp, "dropout")
