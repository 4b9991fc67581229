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
    """The units behind one activation that were below `THRESHOLD` on every real token since the last reset.

    Layers of several widths may share it, and count side by side; those of one width cannot be told apart.

    Attributes
    ----------
    suspects : dict of int to int array
        Width of a layer to its units not yet seen alive, ascending; empty before the first real token.
    """

    def __init__(self) -> None:
        self.suspects: dict[int, npt.NDArray[np.intp]] = {}

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
        suspects = self.suspects.get(width)
        start, size = 0, _FIRST_LOOK
        while start < len(rows) and (suspects is None or suspects.size):
            look = rows[start : start + size]
            if real is not None:
                look = look[real[start : start + size]]
            start, size = start + size, size * 4
            if not len(look):
                continue
            # The first look takes whole rows: cheaper than picking columns while all units are still suspected.
            if suspects is not None:
                look = look[:, suspects]
            asleep = np.maximum.reduce(np.abs(look), axis=0) < THRESHOLD  # NaN is not below
            self.suspects[width] = suspects = np.flatnonzero(asleep) if suspects is None else suspects[asleep]

    def fraction(self) -> float | None:
        """Return the share of dead units in [0, 1]; None where no real token was observed."""
        return sum(map(len, self.suspects.values())) / sum(self.suspects) if self.suspects else None

    def state_dict(self) -> dict[str, Any]:
        """Return widths and suspects as JSON values."""
        return {"suspects": [[width, units.tolist()] for width, units in self.suspects.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned."""
        self.suspects = {width: np.array(units, dtype=np.intp) for width, units in state["suspects"]}

    def reset(self) -> None:
        """Suspect every unit again."""
        self.suspects = {}
