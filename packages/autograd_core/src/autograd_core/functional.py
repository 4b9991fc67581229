"""Every operation as a function: `from autograd_core import functional as F`.

Operands are tensors, NumPy arrays or numbers. Each function's documentation stands where it is defined, in `ops`.
"""

from .ops.arithmetic import add, clip, divide, maximum, minimum, multiply, negative, power, subtract, where
from .ops.attention import scaled_dot_product_attention, self_attention
from .ops.dropout import dropout
from .ops.elementwise import abs, exp, log, relu, sigmoid, sqrt, tanh
from .ops.gelu import gelu
from .ops.indexing import embedding, getitem
from .ops.normalization import layer_norm
from .ops.products import joined_linear, linear, matmul
from .ops.reductions import max, mean, min, sum, var
from .ops.shaping import (
    broadcast_to,
    concatenate,
    expand_dims,
    reshape,
    split,
    squeeze,
    stack,
    swapaxes,
    transpose,
)
from .ops.softmax import cross_entropy, log_softmax, logsumexp, softmax

__all__ = [
    "abs",
    "add",
    "broadcast_to",
    "clip",
    "concatenate",
    "cross_entropy",
    "divide",
    "dropout",
    "embedding",
    "exp",
    "expand_dims",
    "gelu",
    "getitem",
    "joined_linear",
    "layer_norm",
    "linear",
    "log",
    "log_softmax",
    "logsumexp",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "multiply",
    "negative",
    "power",
    "relu",
    "reshape",
    "scaled_dot_product_attention",
    "self_attention",
    "sigmoid",
    "softmax",
    "split",
    "sqrt",
    "squeeze",
    "stack",
    "subtract",
    "sum",
    "swapaxes",
    "tanh",
    "transpose",
    "var",
    "where",
]
