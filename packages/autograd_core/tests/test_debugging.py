"""`debug()`: a write into an array that a pending backward needs is an error that names the operation."""

import autograd_core
import numpy as np
import pytest
from autograd_core import Parameter, Tensor
from autograd_core import functional as F


def test_outside_debug_a_direct_write_goes_unnoticed() -> None:
    # The documented limit; versions notice steps, loads and assignments only (tests/test_graph.py).
    x, w = Tensor(np.array([1.0, 2.0])), Parameter([3.0, 4.0])
    y = (x * w).sum()
    x.value[0] = 99.0
    y.backward()
    assert w.grad.tolist() == [99.0, 2.0]


def test_a_direct_write_is_an_error_naming_shape_and_operation() -> None:
    x, w = Tensor(np.array([1.0, 2.0])), Parameter([3.0, 4.0])
    with autograd_core.debug():
        y = (x * w).sum()
    x.value[0] = 99.0
    with pytest.raises(
        RuntimeError, match=r"must not be written into; one of shape \(2,\) used by operation 'multiply'"
    ):
        y.backward()
    assert w.grad is None


def test_writing_back_what_was_there_is_no_error() -> None:
    w = Parameter([3.0, np.nan])
    with autograd_core.debug():
        y = (w * w).sum()
    w.value[0] = 99.0
    w.value[0] = 3.0
    y.backward()
    assert w.grad[0] == 6.0


def test_a_write_into_what_backward_does_not_need_is_no_error() -> None:
    w = Parameter([3.0, 4.0])
    with autograd_core.debug():
        y = (w + 1.0).sum()
    w.value[0] = 99.0
    y.backward()
    assert w.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("which", [1, 2])
def test_arrays_that_an_operation_keeps_in_a_tuple_are_watched_too(which: int, rng: np.random.Generator) -> None:
    q, k, v = inputs = [Parameter(rng.standard_normal((3, 5))) for _ in range(3)]
    with autograd_core.debug():
        y = F.scaled_dot_product_attention(q, k, v)
    inputs[which].value[0, 0] += 1.0
    with pytest.raises(RuntimeError, match="operation 'scaled_dot_product_attention'"):
        y.backward(np.ones(y.shape))


def test_a_write_into_an_output_that_its_own_vjp_reads_is_an_error() -> None:
    w = Parameter([3.0, 4.0])
    with autograd_core.debug():
        y = w.exp()
    y.value[0] = 0.0
    with pytest.raises(RuntimeError, match="operation 'exp'"):
        y.backward(np.ones(2))


def test_graphs_recorded_outside_the_block_are_not_watched() -> None:
    w = Parameter([3.0, 4.0])
    with autograd_core.debug():
        pass
    y = (w * w).sum()
    w.value[0] = 5.0
    y.backward()
    assert w.grad is not None


def test_values_and_gradients_are_the_same_inside(rng: np.random.Generator) -> None:
    value = rng.standard_normal((2, 3))
    grads = []
    for inside in (False, True):
        w = Parameter(value)
        if inside:
            with autograd_core.debug():
                (F.softmax(w).exp() * w).sum().backward()
        else:
            (F.softmax(w).exp() * w).sum().backward()
        grads.append(w.grad)
    assert np.array_equal(*grads)


def test_an_exception_leaves_debug_switched_off() -> None:
    with pytest.raises(KeyError), autograd_core.debug():
        raise KeyError
    w = Parameter([3.0])
    y = w * w
    assert y._node.guards is None
