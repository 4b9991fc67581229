"""`Parameter`: a tensor that is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import Array
from .hooks import HookHandle
from .tensor import Tensor


class Parameter(Tensor):
    """A tensor with `requires_grad=True` that `Module`s find among their attributes.

    Parameters
    ----------
    value : array_like, floating
        Copied: two parameters never share memory.
    dtype : dtype, optional

    Attributes
    ----------
    name : str or None
        The attribute it was first assigned to in a module; for messages only.

    Notes
    -----
    Clearing `requires_grad` freezes it: no gradient, no hook, untouched by optimisers and their decay.
    Setting it thaws it.

    Raises
    ------
    TypeError
        If the dtype is not floating.
    """

    __slots__ = ("name", "_hooks", "_grad_home")

    def __init__(self, value: npt.ArrayLike | Tensor, *, dtype: npt.DTypeLike | None = None) -> None:
        source = value.value if isinstance(value, Tensor) else value
        super().__init__(np.array(source, dtype=dtype, order="C"), requires_grad=True)
        self.name: str | None = None
        self._hooks: dict[HookHandle, None] = {}
        # Where an optimiser wants the gradient: a view into its flat array (see optim/flat.py).
        self._grad_home: Array | None = None

    def register_grad_hook(self, fn: Callable[[Parameter, Array], None]) -> HookHandle:
        """Call `fn(param, grad)` once in each `backward` that reaches this parameter; return the handle.

        It runs when all parameters' whole gradients are in `.grad`; `grad` is that `.grad`, sums of earlier backwards
        included. A parameter used several times fires once. Silent while the parameter is frozen.

        Raises
        ------
        TypeError
            If `fn` is not callable, or, when it runs, if it returns anything but None.
        """
        return HookHandle(self, fn, "backward")

    def _grad_hooks(self) -> tuple[HookHandle, ...]:
        return tuple(self._hooks)

    def _accumulate(self, grad: Array, own: bool) -> None:
        home = self._grad_home
        if self._grad is None and home is not None:
            np.copyto(home, grad)
            self._grad = home
        else:
            super()._accumulate(grad, own)

    def _describe(self) -> str:
        return f"parameter {self.name or '(unnamed)'} of shape {self._value.shape}"

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "name": self.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.name = state["name"]
        self._hooks = {}
        self._grad_home = None
