"""`gradcheck`: compare the gradients of a function with central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from .tensor import Tensor


class GradcheckError(AssertionError):
    """A gradient disagrees with its finite difference; the message names the input, the index and both values."""


def gradcheck(
    fn: Callable[..., Tensor],
    inputs: Sequence[npt.ArrayLike | Tensor],
    *,
    eps: float = 1e-6,
    atol: float = 1e-6,
    rtol: float = 1e-4,
) -> None:
    """Check the gradient of `fn` at `inputs` entry by entry; return None if all agree.

    The output is contracted with a fixed random cotangent: under a sum, the true gradient of a softmax or a layer norm
    is 0, and a wrong one passes.

    Parameters
    ----------
    fn : callable
        From tensors, one an input, to a tensor. Called many times: it must be deterministic.
    inputs : sequence of float64 arrays or tensors
        Integer and bool inputs are passed on as data. Not changed.
    eps : float
        Half the distance of the central difference; 1e-6 is the best for float64.
    atol, rtol : float

    Raises
    ------
    GradcheckError
        Naming input, index, and both values.
    TypeError
        If a floating input is not float64: differences in float32 are a third wrong.
    """
    arrays = [np.array(x.value if isinstance(x, Tensor) else x) for x in inputs]
    for number, array in enumerate(arrays):
        if array.dtype.kind == "f" and array.dtype != np.float64:
            raise TypeError(f"gradcheck: floating inputs must be float64; input {number} is {array.dtype}. Convert it.")
    tensors = [Tensor(a.copy(), requires_grad=a.dtype == np.float64) for a in arrays]
    out = fn(*tensors)
    cotangent = np.random.default_rng(0).standard_normal(out.shape)
    if out.requires_grad:
        out.backward(cotangent)

    def contracted(values: list[npt.NDArray[np.float64]]) -> float:
        return float(np.sum(fn(*[Tensor(v) for v in values]).value * cotangent))

    for number, (array, tensor) in enumerate(zip(arrays, tensors, strict=True)):
        if not tensor.requires_grad:
            continue
        grad = tensor.grad if tensor.grad is not None else np.zeros_like(array)
        for index in np.ndindex(array.shape):
            values = [a.copy() for a in arrays]
            values[number][index] = array[index] + eps
            above = contracted(values)
            values[number][index] = array[index] - eps
            below = contracted(values)
            numeric = (above - below) / (2.0 * eps)
            analytic = float(grad[index])
            if not abs(analytic - numeric) <= atol + rtol * abs(numeric):
                raise GradcheckError(
                    f"gradcheck: gradients must match finite differences; input {number} at index {index} has "
                    f"gradient {analytic:.10g} and finite difference {numeric:.10g}."
                )
