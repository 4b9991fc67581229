"""LayerNorm: each row shifted to mean 0 and scaled to variance 1, then given a learned gain and shift."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from autograd_core import Module, Parameter, Tensor
from autograd_core import functional as F
from minimodel.embedding.arguments import dtype_argument, number_argument, size_argument, stream_argument


class LayerNorm(Module):
    """y = gamma · (x − μ)/√(σ² + eps) + beta, with μ and σ² of each row alone.

    Parameters
    ----------
    d_model : int
        Width D of a row.
    eps : float
        Inside the root; keeps 1/σ finite for a constant row, which gives exactly beta.
    dtype : dtype
        float64 or float32.

    Attributes
    ----------
    gamma : Parameter, shape (D,)
        The gain, initially 1.
    beta : Parameter, shape (D,)
        The shift, initially 0.

    Raises
    ------
    ValueError
        If `d_model` is below 1 or `eps` is not positive and finite.

    Notes
    -----
    σ² is the population variance: the mean of the squared deviations, divided by D and not by D − 1.

    References
    ----------
    Ba, Kiros and Hinton, "Layer Normalization" (2016), §3; their g and b are our gamma and beta.
    """

    def __init__(self, d_model: int, eps: float = 1e-5, *, dtype: npt.DTypeLike = np.float64) -> None:
        self.eps = number_argument("LayerNorm", "eps", eps)
        if not 0.0 < eps < np.inf:
            raise ValueError(f"LayerNorm: eps must be positive and finite; got {eps}. The usual value is 1e-5.")
        self.d_model = size_argument("LayerNorm", "d_model", d_model)
        dtype = dtype_argument("LayerNorm", dtype)
        self.gamma = Parameter(np.ones(self.d_model, dtype))  # (D,)
        self.beta = Parameter(np.zeros(self.d_model, dtype))  # (D,)

    def forward(self, x: Tensor | npt.NDArray[Any]) -> Tensor:
        """Return the normalised rows.

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
            x = stream_argument("LayerNorm", x)
        if x.shape[-1:] != (self.d_model,):
            raise ValueError(
                f"LayerNorm: the last axis must be d_model={self.d_model}; got shape {x.shape}. "
                f"Give rows of {self.d_model} numbers."
            )
        return F.layer_norm(x, self.gamma, self.beta, self.eps)
