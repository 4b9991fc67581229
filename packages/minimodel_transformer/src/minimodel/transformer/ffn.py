"""The feed-forward network of a block: two linear layers around a GELU, applied to each position alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from autograd_core import GELU, Module, Parameter, Tensor, init
from autograd_core import functional as F
from minimodel.embedding.arguments import dtype_argument, rng_argument, size_argument, stream_argument


class FFN(Module):
    """y = GELU(x W1 + b1) W2 + b2.

    Parameters
    ----------
    d_model : int
        Width D of the input and of the output.
    d_ff : int
        Width F of the hidden layer, usually 4 D.
    rng : numpy.random.Generator, optional
        Draws the matrices; a fresh unseeded one by default, and a `TypeError` for a seed.
    dtype : dtype
        float64 or float32.

    Attributes
    ----------
    W1 : Parameter, shape (D, F)
        Xavier uniform.
    b1 : Parameter, shape (F,)
        Initially 0.
    act : GELU
        A child, so that the hidden layer after it can be watched.
    W2 : Parameter, shape (F, D)
        Xavier uniform.
    b2 : Parameter, shape (D,)
        Initially 0.

    Raises
    ------
    ValueError
        If a size is below 1.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), §3.3, eq. 2, with GELU in the place of max(0, ·): its tanh form,
    Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), §2. Initial values: Glorot and Bengio (2010), eq. 16.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        rng: np.random.Generator | None = None,
        dtype: npt.DTypeLike = np.float64,
    ) -> None:
        self.d_model = size_argument("FFN", "d_model", d_model)
        self.d_ff = size_argument("FFN", "d_ff", d_ff)
        dtype = dtype_argument("FFN", dtype)
        rng = rng_argument("FFN", rng)
        self.W1 = Parameter(init.xavier_uniform((self.d_model, self.d_ff), rng=rng, dtype=dtype))  # (D, F)
        self.b1 = Parameter(np.zeros(self.d_ff, dtype))  # (F,)
        self.act = GELU(approximate="tanh")  # (..., F)
        self.W2 = Parameter(init.xavier_uniform((self.d_ff, self.d_model), rng=rng, dtype=dtype))  # (F, D)
        self.b2 = Parameter(np.zeros(self.d_model, dtype))  # (D,)

    def forward(self, x: Tensor | npt.NDArray[Any]) -> Tensor:
        """Return the output of each position.

        Parameters
        ----------
        x : Tensor or array, shape (..., D)

        Returns
        -------
        Tensor, shape (..., D)

        Raises
        ------
        ValueError
            If the last axis of `x` is not D.
        TypeError
            If `x` holds no real numbers.
        """
        if not isinstance(x, Tensor):
            x = stream_argument("FFN", x)
        if x.shape[-1:] != (self.d_model,):
            raise ValueError(
                f"FFN: the last axis must be d_model={self.d_model}; got shape {x.shape}. "
                f"Give rows of {self.d_model} numbers."
            )
        hidden = self.act(F.linear(x, self.W1, self.b1))  # (..., F)
        return F.linear(hidden, self.W2, self.b2)
