"""Initial values of weights. Each takes the generator to draw from; nothing touches NumPy's global random state."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from .arrays import Array
from .randomness import generator


def _fans(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) < 2:
        raise ValueError(f"Xavier: needs a shape of two or more axes, (in, out) last; got {shape}.")
    return shape[-2], shape[-1]


def xavier_uniform(
    shape: tuple[int, ...], *, rng: np.random.Generator, gain: float = 1.0, dtype: npt.DTypeLike = np.float64
) -> Array:
    """Return draws from U(-a, a) with a = gain √(6/(fan_in + fan_out)).

    Drawn in float64 and then converted, so that one seed gives one model in every dtype.

    Raises
    ------
    ValueError
        For a shape of fewer than two axes.
    TypeError
        If `rng` is no generator.

    References
    ----------
    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010), eq. 16.
    """
    bound = gain * math.sqrt(6.0 / sum(_fans(shape)))
    return generator("xavier_uniform", rng).uniform(-bound, bound, shape).astype(dtype)


def xavier_normal(
    shape: tuple[int, ...], *, rng: np.random.Generator, gain: float = 1.0, dtype: npt.DTypeLike = np.float64
) -> Array:
    """Return draws from N(0, σ²) with σ = gain √(2/(fan_in + fan_out)); Glorot and Bengio (2010), eq. 12."""
    return normal(shape, std=gain * math.sqrt(2.0 / sum(_fans(shape))), rng=rng, dtype=dtype)


def normal(
    shape: tuple[int, ...],
    *,
    std: float,
    rng: np.random.Generator,
    mean: float = 0.0,
    dtype: npt.DTypeLike = np.float64,
) -> Array:
    """Return draws from N(mean, std²)."""
    return generator("normal", rng).normal(mean, std, shape).astype(dtype)
