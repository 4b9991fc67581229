"""Which units of a hidden layer have not been seen alive: few rows are looked at where units live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

THRESHOLD = 1e-3
"""A unit is alive on a token where the absolute value of its activation reaches this (or is NaN)."""

# Tokens in the first look: enough to prove a healthy GELU or ReLU layer alive. Each further look takes four times as
# many.
_FIRST_LOOK = 8


class DeadUnits:
    """The units of one layer that were below `THRESHOLD` on every real token since the last reset.

    Attributes
    ----------
    suspects : int array or None
        Units not yet seen alive, ascending; None before the first real token.
    width : int
        Units of the layer, 0 before the first real token.
    """

    def __init__(self) -> None:
        self.suspects: npt.NDArray[np.intp] | None = None
        self.width = 0

    def observe(self, activations: npt.NDArray[Any], real: npt.NDArray[np.bool_] | None = None) -> None:
        """Strike off the units that are alive in `activations`; returns None.

        Parameters
        ----------
        activations : array of shape (..., F), floating
            The layer's output; F units.
        real : bool array, optional
            For each row (position of the flattened leading axes) whether it holds a real token; None means all do.
        """
        if activations.ndim == 0 or activations.size == 0:
            return
        width = activations.shape[-1]
        rows = activations.reshape(-1, width)
        if self.width != width:
            self.reset()
        start, size = 0, _FIRST_LOOK
        while start < len(rows) and (self.suspects is None or self.suspects.size):
            look = rows[start : start + size]
            if real is not None:
                look = look[real[start : start + size]]
            start, size = start + size, size * 4
            if not len(look):
                continue
            # The first look takes whole rows: cheaper than picking columns while all units are still suspected.
            if self.suspects is not None:
                look = look[:, self.suspects]
            asleep = np.maximum.reduce(np.abs(look), axis=0) < THRESHOLD  # NaN is not below
            self.suspects = np.flatnonzero(asleep) if self.suspects is None else self.suspects[asleep]
            self.width = width

    def fraction(self) -> float | None:
        """Return the share of dead units in [0, 1]; None where no real token was observed."""
        return None if self.suspects is None else self.suspects.size / self.width

    def state_dict(self) -> dict[str, Any]:
        """Return width and suspects as JSON values."""
        return {"width": self.width, "suspects": None if self.suspects is None else self.suspects.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned."""
        suspects = state["suspects"]
        self.width = state["width"]
        self.suspects = None if suspects is None else np.array(suspects, dtype=np.intp)

    def reset(self) -> None:
        """Suspect every unit again."""
        self.suspects, self.width = None, 0
