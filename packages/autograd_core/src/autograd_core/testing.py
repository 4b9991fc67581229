"""`check_vjp`: the check that every operation and module of the four packages goes through."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .arrays import Array
from .graph import Node
from .tensor import Tensor


def check_vjp(
    fn: Callable[..., Tensor],
    *arrays: npt.ArrayLike,
    rng: np.random.Generator,
    eps: float = 1e-6,
    rtol: float = 1e-6,
    atol: float = 1e-8,
) -> None:
    """Check the gradient of `fn` at `arrays` under a random cotangent, and the manners of its vjp.

    Parameters
    ----------
    fn : callable
        From tensors, one an array, to a tensor.
    arrays : float64 array_like
        Tiny: every entry is moved twice.
    rng : numpy.random.Generator
        Draws the cotangent.
    eps, rtol, atol : float
        Of the central difference and the comparison.

    Raises
    ------
    AssertionError
        If a gradient is off; if an input or the cotangent was written into; if a gradient has another shape or dtype
        than its input; if two gradients, or a gradient and an input, share memory.
    """
    values = [np.asarray(a, dtype=np.float64) for a in arrays]
    copies = [v.copy() for v in values]
    inputs = [Tensor(v, requires_grad=True) for v in values]
    out = fn(*inputs)
    cotangent = rng.standard_normal(out.shape)
    kept = cotangent.copy()
    out.backward(cotangent)
    grads: list[Array] = []
    for number, (tensor, value, copy) in enumerate(zip(inputs, values, copies, strict=True)):
        grad = tensor.grad if tensor.grad is not None else np.zeros_like(value)
        assert np.array_equal(value, copy, equal_nan=True), f"check_vjp: input {number} was written into"
        assert (grad.shape, grad.dtype) == (value.shape, value.dtype), (
            f"check_vjp: gradient {number} is {grad.shape} {grad.dtype}, its input {value.shape} {value.dtype}"
        )
        shared = [i for i, other in enumerate(grads) if np.shares_memory(grad, other)]
        assert not shared, f"check_vjp: gradients {number} and {shared} share memory"
        assert not np.shares_memory(grad, value), f"check_vjp: gradient {number} shares memory with its input"
        assert not np.shares_memory(grad, cotangent), f"check_vjp: gradient {number} shares memory with the cotangent"
        grads.append(grad)
    assert np.array_equal(cotangent, kept), "check_vjp: the cotangent was written into"

    for number, value in enumerate(values):
        numeric = np.empty_like(value)
        for index in np.ndindex(value.shape):
            moved = []
            for sign in (eps, -eps):
                point = [v.copy() for v in copies]
                point[number][index] += sign
                moved.append(fn(*[Tensor(p) for p in point]).value)
            # Subtract before contracting: entries that do not depend on this input cancel exactly.
            numeric[index] = np.sum((moved[0] - moved[1]) * cotangent) / (2.0 * eps)
        np.testing.assert_allclose(
            grads[number],
            numeric,
            rtol=rtol,
            atol=atol,
            err_msg=f"check_vjp: gradient of input {number} differs from its finite difference",
        )


def graph_size(out: Tensor) -> int:
    """Return the number of recorded operations below `out`."""
    if out._node is None:
        return 0
    seen = {out._node}
    stack = [out._node]
    while stack:
        for parent in stack.pop().parents:
            if isinstance(parent, Node) and parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return len(seen)
