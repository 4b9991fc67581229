"""`Tensor`: an array, its gradient, and its place in the graph.

The class holds state and graph life. Arithmetic lives in `ops`: operators and methods here are one-line delegates, and
their documentation is that of the function in `functional` with the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from .arrays import Array, Axis, Number, Vjp
from .debugging import guard
from .grad_mode import _recording
from .graph import Node, run_backward

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .hooks import HookHandle

Operand: TypeAlias = "Tensor | Array | Number | Sequence[Any]"
"""What may stand on either side of an operator; sequences are nested lists of numbers."""


class Tensor:
    """A NumPy array that can take part in differentiation.

    Parameters
    ----------
    value : array_like or Tensor
        Shared, not copied, if it is an ndarray of the wanted dtype. Python numbers and lists of floats become float64.
    requires_grad : bool
        Whether `backward` should fill `.grad`.
    dtype : dtype, optional
        Convert to this dtype.

    Attributes
    ----------
    value : ndarray
        Writing into it in place changes the tensor. Assigning copies into it; another shape or dtype is a `ValueError`.
    grad : ndarray or None
        Same shape and dtype as `value`, private to this tensor and writable; None before the first `backward` and after
        `zero_grad`. Only leaves keep one. It may be assigned (copied in the same way).

    Raises
    ------
    TypeError
        If `requires_grad` is asked of a dtype that is not floating: integers and bools are data.

    Notes
    -----
    Operands may be NumPy arrays and numbers on either side. Numbers, lists of them, arrays of no axes, integers and
    bools adopt the floating dtype of the tensor they meet, so they never widen float32; a float64 array does.
    """

    __slots__ = ("_value", "_grad", "_requires_grad", "_node", "_version", "__weakref__")

    # Makes `ndarray @ tensor` and `np.float64(2) * tensor` ask the tensor instead of looping over it.
    __array_ufunc__ = None

    _value: Array
    _grad: Array | None
    _requires_grad: bool
    _node: Node | None
    _version: int

    def __init__(
        self, value: npt.ArrayLike | Tensor, *, requires_grad: bool = False, dtype: npt.DTypeLike | None = None
    ) -> None:
        if type(value) is np.ndarray and dtype is None:
            self._value = value  # what most calls give: a quarter of a microsecond sooner
        else:
            self._value = np.asarray(value._value if isinstance(value, Tensor) else value, dtype=dtype)
        self._grad = None
        self._node = None
        self._version = 0
        self._requires_grad = False
        if requires_grad:
            self.requires_grad = True

    @staticmethod
    def from_op(value: Any, parents: tuple[Tensor, ...], vjp: Vjp, op: str, *, aliases: bool = False) -> Tensor:
        """Return the result of an operation, recorded if recording is on and a parent requires a gradient.

        Parameters
        ----------
        value : ndarray or NumPy scalar
        parents : tuple of Tensor
        vjp : callable
            From `grad_out` to one array or None a parent. May return arrays of the broadcast shape: the engine sums
            them to the parents'. Must close over arrays, never over tensors, and never write into `grad_out`.
        op : str
            Name for messages.
        aliases : bool
            Say True if `vjp` may return `grad_out` or a view of it.
        """
        out = Tensor(value)
        if _recording.get():
            for parent in parents:
                if parent._requires_grad:
                    out._node = Node(op, parents, out._value, vjp, aliases)
                    out._requires_grad = True
                    guard(out._node)
                    break
        return out

    # ------------------------------------------------------------------ state

    @property
    def value(self) -> Array:
        return self._value

    @value.setter
    def value(self, new: npt.ArrayLike | Tensor) -> None:
        if self._node is not None:
            # Its operation's vjp, or the next one's, may read this very array.
            raise RuntimeError(
                "value: only a leaf's value can be assigned; this tensor was computed. Assign to a leaf or to detach()."
            )
        array = new._value if isinstance(new, Tensor) else np.asarray(new)
        if array.shape != self._value.shape or array.dtype != self._value.dtype:
            raise ValueError(
                f"value: an assigned array must have the tensor's shape and dtype, {self._value.shape} "
                f"{self._value.dtype}; got {array.shape} {array.dtype}. Convert it, or make a new tensor."
            )
        self._value[...] = array
        self._version += 1

    @property
    def grad(self) -> Array | None:
        return self._grad

    @grad.setter
    def grad(self, new: npt.ArrayLike | Tensor | None) -> None:
        if new is None:
            self._grad = None
            return
        array = new._value if isinstance(new, Tensor) else np.asarray(new)
        if array.shape != self._value.shape or array.dtype != self._value.dtype:
            raise ValueError(
                f"grad: an assigned gradient must have the tensor's shape and dtype, {self._value.shape} "
                f"{self._value.dtype}; got {array.shape} {array.dtype}. Convert it first."
            )
        self._grad = array.copy()

    @property
    def requires_grad(self) -> bool:
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        if flag and self._value.dtype.kind != "f":
            raise TypeError(
                f"requires_grad: only floating dtypes have gradients; got {self._value.dtype}. "
                "Convert with dtype=float, or leave integer and bool arrays as data."
            )
        if self._node is not None and not flag:
            raise RuntimeError(
                "requires_grad: only a leaf can be frozen; this tensor was computed. Use detach() to cut it off."
            )
        self._requires_grad = bool(flag)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._value.shape

    @property
    def ndim(self) -> int:
        return self._value.ndim

    @property
    def size(self) -> int:
        return self._value.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._value.dtype

    @property
    def T(self) -> Tensor:
        return ops.transpose(self)

    def item(self) -> float:
        """Return the only element as a Python number; `ValueError` if there is not exactly one."""
        number: float = self._value.item()
        return number

    def numpy(self) -> Array:
        """Return the array itself, not a copy."""
        return self._value

    def detach(self) -> Tensor:
        """Return a tensor that shares the array and is cut off from the graph."""
        return Tensor(self._value)

    # ------------------------------------------------------------------ differentiation

    def backward(self, gradient: npt.ArrayLike | Tensor | None = None, *, retain_graph: bool = False) -> None:
        """Add the gradient of `sum(self * gradient)` to `.grad` of every leaf that requires one.

        Parameters
        ----------
        gradient : array_like, shape of this tensor, optional
            The cotangent. May be left out for a tensor of one element, where it is 1.
        retain_graph : bool
            Keep the graph, so that backward can run again and add the same gradients once more.

        Raises
        ------
        RuntimeError
            Without `gradient` on more than one element; on a tensor that requires no gradient; on a graph that an
            earlier backward freed; if a parameter changed since the forward used it. No `.grad` is changed then.
        ValueError
            If `gradient` has another shape.
        """
        if not self._requires_grad:
            raise RuntimeError(
                "backward: needs a tensor that requires a gradient; this one does not. "
                "Make a leaf with requires_grad=True, and compute outside no_grad()."
            )
        if gradient is None:
            if self._value.size != 1:
                raise RuntimeError(
                    "backward: without a gradient argument the tensor must have one element; "
                    f"this one has shape {self._value.shape}. Pass gradient=..., or reduce with sum() or mean() first."
                )
            seed = np.ones_like(self._value)
        else:
            source = gradient._value if isinstance(gradient, Tensor) else np.asarray(gradient)
            if source.shape != self._value.shape:
                raise ValueError(
                    f"backward: gradient must have the tensor's shape {self._value.shape}; got {source.shape}."
                )
            seed = source.astype(self._value.dtype, copy=False)
        run_backward(self, seed, retain_graph)

    def zero_grad(self) -> None:
        """Set `.grad` to None."""
        self._grad = None

    def _accumulate(self, grad: Array, own: bool) -> None:
        """Add a whole gradient of one backward; `own` says that nobody else holds `grad`."""
        if self._grad is not None:
            self._grad += grad
        elif own and grad.flags.writeable and grad.flags.c_contiguous and grad.base is None:
            self._grad = grad
        else:
            self._grad = np.array(grad, order="C")  # not grad.copy(): a NumPy scalar would stay one

    def _grad_hooks(self) -> tuple[HookHandle, ...]:
        """Only parameters have gradient hooks."""
        return ()

    def _describe(self) -> str:
        return f"a tensor of shape {self._value.shape}"

    # ------------------------------------------------------------------ copies

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """Return a copy of value and gradient, without the graph (a copied graph would compute with the old leaves)."""
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        copy.__setstate__(self.__getstate__())
        copy._value = self._value.copy()
        copy._grad = None if self._grad is None else self._grad.copy()
        return copy

    def __getstate__(self) -> dict[str, Any]:
        return {"value": self._value, "grad": self._grad, "requires_grad": self._requires_grad}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._value = state["value"]
        self._grad = state["grad"]
        self._requires_grad = state["requires_grad"]
        self._node = None
        self._version = 0

    # ------------------------------------------------------------------ Python's protocols

    if not TYPE_CHECKING:
        # Hidden from type checkers, which would take `array + tensor` for an array; `__array_ufunc__` makes it ours.

        def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
            """For `np.asarray(tensor)`; a tensor that requires a gradient is not cut from its graph unasked."""
            if self._requires_grad:
                raise TypeError(
                    "np.asarray: would cut a tensor that requires a gradient from its graph; got one. "
                    "Use tensor.numpy() for its array, or functional.stack to join tensors."
                )
            return np.array(self._value, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        body = np.array2string(self._value, threshold=20, edgeitems=2, separator=", ")
        flag = ", requires_grad=True" if self._requires_grad else ""
        return f"{type(self).__name__}({body}, dtype={self._value.dtype}{flag})"

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[Tensor]:
        if self._value.ndim == 0:
            raise TypeError("iteration over a 0-d tensor; use item()")
        return (ops.getitem(self, i) for i in range(len(self._value)))

    def __float__(self) -> float:
        return float(self.item())

    def __bool__(self) -> bool:
        return bool(self._value)

    # ------------------------------------------------------------------ operators

    def __neg__(self) -> Tensor:
        return ops.negative(self)

    def __add__(self, other: Operand) -> Tensor:
        return ops.add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Tensor:
        return ops.subtract(self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return ops.subtract(other, self)

    def __mul__(self, other: Operand) -> Tensor:
        return ops.multiply(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Tensor:
        return ops.divide(self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return ops.divide(other, self)

    def __pow__(self, exponent: Operand) -> Tensor:
        return ops.power(self, exponent)

    def __rpow__(self, base: Operand) -> Tensor:
        return ops.power(base, self)

    def __matmul__(self, other: Tensor | Array) -> Tensor:
        return ops.matmul(self, other)

    def __rmatmul__(self, other: Tensor | Array) -> Tensor:
        return ops.matmul(other, self)

    def __getitem__(self, index: Any) -> Tensor:
        return ops.getitem(self, index)

    # ------------------------------------------------------------------ methods

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return ops.sum(self, axis, keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return ops.mean(self, axis, keepdims)

    def var(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return ops.var(self, axis, keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return ops.max(self, axis, keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return ops.min(self, axis, keepdims)

    def reshape(self, *shape: SupportsIndex | tuple[SupportsIndex, ...]) -> Tensor:
        return ops.reshape(self, *shape)

    def transpose(self, *axes: SupportsIndex | tuple[SupportsIndex, ...]) -> Tensor:
        return ops.transpose(self, *axes)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        return ops.swapaxes(self, axis1, axis2)

    def exp(self) -> Tensor:
        return ops.exp(self)

    def log(self) -> Tensor:
        return ops.log(self)

    def sqrt(self) -> Tensor:
        return ops.sqrt(self)

    def tanh(self) -> Tensor:
        return ops.tanh(self)

    def sigmoid(self) -> Tensor:
        return ops.sigmoid(self)

    def relu(self) -> Tensor:
        return ops.relu(self)

    def abs(self) -> Tensor:
        return ops.abs(self)

    __abs__ = abs


def as_tensor(x: Operand) -> Tensor:
    """Return `x` itself if it is a tensor, else a tensor that shares it."""
    return x if isinstance(x, Tensor) else Tensor(x)


def as_floating(x: Operand) -> Tensor:
    """Return `x` as `as_tensor` does, integers and bools as float64: what a function of real numbers works on.

    Raises
    ------
    TypeError
        If it holds no numbers.
    """
    tensor = x if isinstance(x, Tensor) else Tensor(x)
    if tensor._value.dtype.kind == "f":
        return tensor
    if tensor._value.dtype.kind not in "iub":
        raise TypeError(f"an operand must hold real numbers; got dtype {tensor._value.dtype}. Convert it to floats.")
    return Tensor(tensor._value.astype(np.float64))


def operands(a: Operand, b: Operand) -> tuple[Tensor, Tensor]:
    """Return both as tensors, as `adopting` does."""
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a._value.dtype == b._value.dtype:
        return a, b
    a, b = adopting(a, b)
    return a, b


def adopting(*xs: Operand) -> tuple[Tensor, ...]:
    """Return all as tensors; whichever has no precision of its own adopts the floating dtype of a tensor beside it.

    Python numbers and lists, NumPy scalars, arrays of no axes, integers and bools have none: they never widen float32.

    Raises
    ------
    TypeError
        If one holds no numbers.
    """
    dtype = next((x._value.dtype for x in xs if isinstance(x, Tensor) and x._value.dtype.kind == "f"), None)
    return tuple([_adopting(x, dtype) for x in xs])


def _adopting(x: Operand, dtype: np.dtype[Any] | None) -> Tensor:
    tensor = x if isinstance(x, Tensor) else Tensor(x)
    kind = tensor._value.dtype.kind
    if kind not in "fiub":
        raise TypeError(f"an operand must hold real numbers; got dtype {tensor._value.dtype}. Convert it to floats.")
    if dtype is None or tensor._value.dtype == dtype:
        return tensor
    if kind != "f" or (tensor is not x and (tensor.ndim == 0 or not isinstance(x, np.ndarray))):
        return Tensor(tensor._value, dtype=dtype)
    return tensor


from . import functional as ops  # noqa: E402 - the methods delegate to operations, which are defined on tensors
