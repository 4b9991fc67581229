"""What is watched of a weight matrix beside its gradient: the size of its updates, and its spectral norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from autograd_core import Parameter

from .moments import norm
from .spectral import SpectralNorm


class WatchedMatrix:
    """One parameter with two axes.

    Parameters
    ----------
    parameter : Parameter of shape (rows, columns)
    seed : int
        Of the generator of its spectral norm.

    Attributes
    ----------
    update_ratio : float or None
        |Δw| / |w| of the last closed update, |w| from before it; None where none was closed since `forget`, or the
        matrix was zero. NaN or Inf where a weight is.
    spectral : SpectralNorm
    """

    __slots__ = ("_before", "parameter", "spectral", "update_ratio")

    def __init__(self, parameter: Parameter, *, seed: int) -> None:
        self.parameter = parameter
        self.spectral = SpectralNorm(seed=seed)
        self.update_ratio: float | None = None
        self._before = np.empty_like(parameter.value)

    def open_update(self) -> None:
        """Copy the weights: what follows until `close_update` is the update."""
        np.copyto(self._before, self.parameter.value)

    def close_update(self) -> None:
        """Measure the update. Callers take care of floating point warnings: they close many under one `errstate`."""
        size = norm(self._before)
        change = np.subtract(self.parameter.value, self._before, out=self._before)
        self.update_ratio = norm(change) / size if size else None

    def forget(self) -> None:
        """Forget the update ratio."""
        self.update_ratio = None

    def state_dict(self) -> dict[str, Any]:
        """Return update ratio and the state of the spectral norm as JSON values."""
        return {"update_ratio": self.update_ratio, "spectral": self.spectral.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned."""
        self.update_ratio = state["update_ratio"]
        self.spectral.load_state_dict(state["spectral"])

    def spectral_norm(self) -> float | None:
        """Return the spectral norm of the weights as they are now."""
        return self.spectral.measure(self.parameter.value)
