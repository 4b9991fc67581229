"""`Columns`: parameters whose values lie side by side in one array, so that one product serves them all.

Three projections of one input, as of attention, are three parameters to their reader and one matrix to BLAS. Each value
is a view of its columns: writing into it, or assigning, writes into the joined array.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import Array
from .tensor import Tensor


class Columns:
    """Lay the values of `parameters` side by side along the last axis of one new array.

    Arrays taken from `.value` before are cut off. A copy of a parameter has an array of its own again: whoever copies a
    module makes new `Columns` of the copies (`Module` tells it when, by `_arrays_replaced`).

    Parameters
    ----------
    parameters : sequence of Parameter, or of other leaves
        Of one dtype, and of one shape but for the last axis.

    Attributes
    ----------
    parameters : tuple of Parameter
    ends : tuple of int
        The column after each parameter's last.
    """

    __slots__ = ("_array", "_pairs", "ends", "parameters")

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = tuple(parameters)
        self._array = np.concatenate([parameter.value for parameter in parameters], axis=-1)
        self.ends = tuple(np.cumsum([parameter.shape[-1] for parameter in parameters]).tolist())
        starts = (0, *self.ends[:-1])
        views = [self._array[..., start:end] for start, end in zip(starts, self.ends, strict=True)]
        self._pairs = list(zip(self.parameters, views, strict=True))
        for parameter, view in self._pairs:
            parameter._value = view

    def joined(self) -> Array:
        """Return the joined array, or a newly joined one if a parameter got another array since."""
        for parameter, view in self._pairs:
            if parameter._value is not view:
                return np.concatenate([parameter.value for parameter in self.parameters], axis=-1)
        return self._array
