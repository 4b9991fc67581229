"""Clipping by global norm: the norm, what is scaled, and the ends of the number range."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from autograd_core import Parameter
from autograd_core.optim import SGD, clip_grad_norm


def with_grads(*grads: object, dtype: type = np.float64) -> list[Parameter]:
    parameters = []
    for grad in grads:
        array = np.asarray(grad, dtype)
        parameters.append(Parameter(np.zeros_like(array)))
        parameters[-1].grad = array
    return parameters


def test_the_norm_before_is_returned_as_a_python_float_and_gradients_are_scaled() -> None:
    a, b = with_grads([3.0, 0.0], [[4.0]])
    norm = clip_grad_norm([a, b], 1.0)
    assert type(norm) is float
    assert norm == 5.0
    np.testing.assert_allclose(a.grad, [3.0 / (5.0 + 1e-6), 0.0], rtol=1e-15)
    np.testing.assert_allclose(b.grad, [[4.0 / (5.0 + 1e-6)]], rtol=1e-15)


@pytest.mark.parametrize("max_norm", [5.1, 1e9, math.inf])
def test_a_norm_within_the_limit_changes_no_bit(max_norm: float) -> None:
    a, b = with_grads([3.0, 0.1], [4.0])
    clip_grad_norm([a, b], max_norm)
    assert a.grad.tolist() == [3.0, 0.1]
    assert b.grad.tolist() == [4.0]


def test_gradients_of_zero_have_norm_0_and_stay_zero() -> None:
    (a,) = with_grads([0.0, 0.0])
    assert clip_grad_norm([a], 1.0) == 0.0
    assert a.grad.tolist() == [0.0, 0.0]


def test_no_gradients_have_norm_0() -> None:
    assert clip_grad_norm([Parameter([1.0]), Parameter([2.0])], 1.0) == 0.0
    assert clip_grad_norm([], 1.0) == 0.0


def test_a_parameter_without_gradient_counts_as_0_and_one_given_twice_counts_once() -> None:
    (a,) = with_grads([3.0, 4.0])
    assert clip_grad_norm(iter([a, Parameter([1.0]), a]), 2.5) == 5.0
    np.testing.assert_allclose(a.grad, [1.5, 2.0], rtol=1e-6)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan], ids=str)
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_non_finite_gradient_gives_a_non_finite_norm_and_scales_nothing(bad: float, place: int, dtype: type) -> None:
    first = [1.0, 1.0]
    first[place] = bad
    a, b = with_grads(first, [2.0, 3.0], dtype=dtype)
    norm = clip_grad_norm([a, b], 1.0)
    assert math.isnan(norm) if math.isnan(bad) else norm == math.inf
    assert np.array_equal(a.grad, first, equal_nan=True)
    assert b.grad.tolist() == [2.0, 3.0]


def test_nan_beside_infinity_is_nan() -> None:
    assert math.isnan(clip_grad_norm(with_grads([math.inf], [math.nan]), 1.0))


def test_squares_that_overflow_float32() -> None:
    (a,) = with_grads(np.full(100, 1e20), dtype=np.float32)
    assert clip_grad_norm([a], 1.0) == pytest.approx(1e21, rel=1e-6)
    np.testing.assert_allclose(a.grad, np.full(100, 0.1), rtol=1e-6)
    assert a.grad.dtype == np.float32


def test_squares_that_overflow_float64() -> None:
    (a,) = with_grads([1e200, 1e200])
    assert clip_grad_norm([a], 1.0) == pytest.approx(1.41421356237309505e200, rel=1e-15)
    np.testing.assert_allclose(a.grad, [math.sqrt(0.5)] * 2, rtol=1e-15)


@pytest.mark.parametrize(("size", "dtype"), [(1e-200, np.float64), (1e-30, np.float32)])
def test_squares_that_underflow(size: float, dtype: type) -> None:
    (a,) = with_grads([3 * size, 4 * size], dtype=dtype)
    assert clip_grad_norm([a], 1.0) == pytest.approx(5 * size, rel=1e-6)


def test_one_overflowing_parameter_among_ordinary_ones() -> None:
    a, b = with_grads([1e200], [1.0])
    assert clip_grad_norm([a, b], 1e200 / 2) == pytest.approx(1e200, rel=1e-15)
    np.testing.assert_allclose([a.grad[0], b.grad[0]], [5e199, 0.5], rtol=1e-15)


@pytest.mark.parametrize("max_norm", [0.0, -1.0, math.nan])
def test_the_limit_must_be_above_0(max_norm: float) -> None:
    with pytest.raises(ValueError, match=f"max_norm must be above 0; got {max_norm}"):
        clip_grad_norm(with_grads([1.0]), max_norm)


def backward_to(parameters: list[Parameter]) -> None:
    total = (parameters[0] * 3.0).sum()
    for p, factor in zip(parameters[1:], (4.0, 12.0), strict=True):
        total = total + (p * factor).sum()
    total.backward()


def nothing(parameters: list[Parameter]) -> None:
    """Leave the gradients as backward made them."""


def assign_one(parameters: list[Parameter]) -> None:
    parameters[1].grad = parameters[1].grad.copy()


@pytest.mark.parametrize("change", [nothing, assign_one])
@pytest.mark.parametrize("housed", [False, True], ids=["alone", "in_an_optimiser"])
def test_gradients_housed_by_an_optimiser_are_clipped_like_others(
    change: Callable[[list[Parameter]], None], housed: bool
) -> None:
    parameters = [Parameter([1.0]), Parameter([[1.0]]), Parameter([1.0])]
    if housed:
        SGD(parameters, lr=0.1)
    backward_to(parameters)
    change(parameters)
    assert clip_grad_norm(parameters, 6.5) == 13.0
    np.testing.assert_allclose([p.grad.item() for p in parameters], [1.5, 2.0, 6.0], rtol=1e-6)


def test_clipping_some_of_an_optimisers_parameters_leaves_the_others_alone() -> None:
    parameters = [Parameter([1.0]), Parameter([1.0]), Parameter([1.0])]
    SGD(parameters, lr=0.1)
    backward_to(parameters)
    assert clip_grad_norm(parameters[:2], 2.5) == 5.0
    np.testing.assert_allclose([p.grad.item() for p in parameters], [1.5, 2.0, 12.0], rtol=1e-6)


def test_a_gradient_left_in_an_optimisers_house_by_an_earlier_step_does_not_count() -> None:
    parameters = [Parameter([1.0]), Parameter([1.0]), Parameter([1.0])]
    optimizer = SGD(parameters, lr=0.1)
    backward_to(parameters)
    optimizer.zero_grad()
    (parameters[0] * 2.0).backward()
    assert clip_grad_norm(parameters, 100.0) == 2.0


def test_a_single_parameter_is_refused_and_not_taken_for_its_rows() -> None:
    with pytest.raises(TypeError, match="got a single one"):
        clip_grad_norm(Parameter(np.ones((3, 2))), 1.0)  # type: ignore[arg-type]


def test_tiny_gradients_beside_zeros_of_another_dtype() -> None:
    zero, tiny = Parameter(np.zeros(2, np.float32)), Parameter(np.zeros(1))
    zero.grad, tiny.grad = np.zeros(2, np.float32), np.array([1e-60])
    assert clip_grad_norm([zero, tiny], 1.0) == pytest.approx(1e-60)
