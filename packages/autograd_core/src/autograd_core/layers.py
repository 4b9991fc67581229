"""Small modules that any model uses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter
from .randomness import generator
from .tensor import Operand, Tensor, as_tensor


class Linear(Module):
    """x W + b, with W of shape (in, out) drawn Xavier uniform and b zero.

    Parameters
    ----------
    in_features, out_features : int, at least 1
    bias : bool
    rng : numpy.random.Generator, optional
        None draws from a fresh, unseeded one.
    dtype : floating dtype
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        rng: np.random.Generator | None = None,
        dtype: npt.DTypeLike = np.float64,
    ) -> None:
        if in_features < 1 or out_features < 1:
            raise ValueError(f"Linear: sizes must be at least 1; got in {in_features}, out {out_features}.")
        rng = np.random.default_rng() if rng is None else generator("Linear", rng)
        self.weight = Parameter(init.xavier_uniform((in_features, out_features), rng=rng, dtype=dtype))  # (in, out)
        self.bias = Parameter(np.zeros(out_features, dtype)) if bias else None  # (out,)

    def forward(self, x: Operand) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Sequential(Module):
    """The modules called one after the other."""

    def __init__(self, *layers: Module) -> None:
        self.layers = list(layers)

    def forward(self, x: Operand) -> Tensor:
        out = as_tensor(x)
        for layer in self.layers:
            out = layer(out)
        return out


class Dropout(Module):
    """Inverted dropout with its own generator, so that no other draw depends on how often it ran.

    Parameters
    ----------
    p : float in [0, 1)
        Probability of zeroing an entry in training; in evaluation the input passes.
    rng : numpy.random.Generator, optional
        Kept as `.rng`; save `rng.bit_generator.state` to resume.
    """

    def __init__(self, p: float, *, rng: np.random.Generator | None = None) -> None:
        if not 0.0 <= p < 1.0:
            raise ValueError(f"Dropout: p must be in [0, 1); got {p}.")
        self.p = p
        self.rng = np.random.default_rng() if rng is None else generator("Dropout", rng)

    def forward(self, x: Operand) -> Tensor:
        return F.dropout(x, self.p, rng=self.rng, training=self.training)


class GELU(Module):
    """The GELU as a module, so that what leaves it can be watched; `approximate` as in `functional.gelu`."""

    def __init__(self, approximate: str = "tanh") -> None:
        if approximate not in ("tanh", "none"):
            raise ValueError(f'GELU: approximate must be "tanh" or "none"; got {approximate!r}.')
        self.approximate = approximate

    def forward(self, x: Operand) -> Tensor:
        return F.gelu(x, self.approximate)


class ReLU(Module):
    """The rectifier as a module, so that what leaves it can be watched."""

    def forward(self, x: Operand) -> Tensor:
        return F.relu(x)
