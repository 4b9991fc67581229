"""Reverse-mode automatic differentiation on NumPy arrays.

>>> import numpy as np
>>> from autograd_core import Parameter
>>> w = Parameter(np.array([1.0, 2.0]))
>>> loss = (w * w).sum()
>>> loss.backward()
>>> w.grad
array([2., 4.])

Reading order of the source: `tensor`, `graph`, `ops`, `parameter`, `module`, `optim`; BLUEPRINT.md says why.
"""

from . import functional, init, optim, testing
from .__about__ import __version__
from .checking import GradcheckError, gradcheck
from .columns import Columns
from .debugging import debug
from .grad_mode import is_grad_enabled, no_grad
from .graph import after_backward
from .hooks import HookHandle
from .layers import GELU, Dropout, Linear, ReLU, Sequential
from .memory import reuse_freed_memory
from .module import Module
from .parameter import Parameter
from .tensor import Tensor

__all__ = [
    "Columns",
    "Dropout",
    "GELU",
    "GradcheckError",
    "HookHandle",
    "Linear",
    "Module",
    "Parameter",
    "ReLU",
    "Sequential",
    "Tensor",
    "__version__",
    "after_backward",
    "debug",
    "functional",
    "gradcheck",
    "init",
    "is_grad_enabled",
    "no_grad",
    "optim",
    "testing",
]

reuse_freed_memory()
