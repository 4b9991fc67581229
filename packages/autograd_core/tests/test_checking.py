"""The checks themselves: they pass what is right, and name what is wrong in the ways a vjp can be wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autograd_core import GradcheckError, Tensor, gradcheck, testing
from autograd_core import functional as F

Check = Callable[[Callable[..., Tensor], np.ndarray], None]


def by_gradcheck(fn: Callable[..., Tensor], *arrays: np.ndarray) -> None:
    gradcheck(fn, arrays)


def by_check_vjp(fn: Callable[..., Tensor], *arrays: np.ndarray) -> None:
    testing.check_vjp(fn, *arrays, rng=np.random.default_rng(3))


EITHER = pytest.mark.parametrize("check", [by_gradcheck, by_check_vjp])


def op(
    value: Callable[[np.ndarray], np.ndarray],
    vjp: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    aliases: bool = False,
) -> Callable[[Tensor], Tensor]:
    """An operation of one operand, with a vjp that is given the operand and `grad_out`."""

    def fn(x: Tensor) -> Tensor:
        array = x.value
        return Tensor.from_op(value(array), (x,), lambda grad_out: (vjp(array, grad_out),), "test", aliases=aliases)

    return fn


@EITHER
def test_right_gradients_pass(check: Check, rng: np.random.Generator) -> None:
    check(lambda x: F.softmax(x * x.tanh()), rng.standard_normal((2, 3)))
    check(lambda x: x.sum(), np.array(2.0))
    check(lambda a: a @ a.T, rng.standard_normal((2, 3)))


@EITHER
def test_a_gradient_wrong_in_one_entry_is_found(check: Check) -> None:
    def vjp(x: np.ndarray, grad_out: np.ndarray) -> np.ndarray:
        grad = 2.0 * x * grad_out
        grad[1] *= 1.01
        return grad

    with pytest.raises(AssertionError):
        check(op(np.square, vjp), np.array([1.0, 2.0, 3.0]))


@EITHER
def test_a_softmax_gradient_five_times_too_large_is_found(check: Check, rng: np.random.Generator) -> None:
    # Under a sum the true gradient of a softmax is 0, and so is five times it.
    def softmax(x: np.ndarray) -> np.ndarray:
        e = np.exp(x)
        return e / e.sum()

    def vjp(x: np.ndarray, grad_out: np.ndarray) -> np.ndarray:
        p = softmax(x)
        return 5.0 * p * (grad_out - (grad_out * p).sum())

    with pytest.raises(AssertionError):
        check(op(softmax, vjp), rng.standard_normal(5))


@EITHER
def test_a_gradient_that_is_nan_is_found(check: Check) -> None:
    with pytest.raises(AssertionError):
        check(op(np.square, lambda x, grad_out: grad_out * np.nan), np.array([1.0, 2.0]))


@EITHER
def test_a_missing_gradient_is_found(check: Check) -> None:
    def forgets(x: Tensor) -> Tensor:
        return Tensor.from_op(x.value * 2.0, (x,), lambda grad_out: (None,), "forgets")

    with pytest.raises(AssertionError):
        check(forgets, np.array([1.0, 2.0]))
    with pytest.raises(AssertionError):
        check(lambda x: x.detach() * 2.0 + x * 0.0, np.array([1.0, 2.0]))


@EITHER
def test_an_operand_that_does_not_matter_has_gradient_zero(check: Callable[..., None]) -> None:
    check(lambda x, y: x * 2.0, np.array([1.0, 2.0]), np.array([3.0]))


def test_gradcheck_names_input_index_and_both_values() -> None:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        x_value, y_value = x.value, y.value
        wrong = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 2.0]])
        return Tensor.from_op(x_value * y_value, (x, y), lambda g: (g * y_value, g * x_value * wrong), "product")

    x = np.full((2, 3), 3.0)
    with pytest.raises(
        GradcheckError, match=r"input 1 at index \(1, 2\) has gradient (\S+) and finite difference (\S+)\.$"
    ) as caught:
        gradcheck(fn, [x, np.full((2, 3), 5.0)])
    words = str(caught.value).rstrip(".").split()
    analytic, numeric = float(words[-5]), float(words[-1])
    assert analytic == pytest.approx(2.0 * numeric, rel=1e-6)


def test_gradcheck_returns_none_and_changes_no_input() -> None:
    x, y = np.array([1.0, 2.0]), Tensor(np.array([3.0, 4.0]), requires_grad=True)
    kept = x.copy()
    assert gradcheck(lambda x, y: x * y.exp(), [x, y]) is None
    assert np.array_equal(x, kept)
    assert y.value.tolist() == [3.0, 4.0]
    assert y.grad is None


def test_gradcheck_passes_integers_and_bools_on_as_data() -> None:
    weight = np.random.default_rng(0).standard_normal((5, 3))
    gradcheck(
        lambda w, ids, mask: F.embedding(w, ids) * F.where(mask, 1.0, 2.0),
        [weight, np.array([4, 4]), [[True], [False]]],
    )


def test_gradcheck_of_what_needs_no_gradient_passes() -> None:
    gradcheck(lambda ids: F.embedding(np.ones((5, 3)), ids), [np.array([1, 2])])


def test_gradcheck_takes_tolerances_and_a_step() -> None:
    nearly = op(np.square, lambda x, grad_out: 2.0001 * x * grad_out)
    x = np.array([1.0, 2.0])
    gradcheck(nearly, [x], rtol=1e-3)
    gradcheck(nearly, [x], atol=1e-2)
    with pytest.raises(GradcheckError):
        gradcheck(nearly, [x], rtol=1e-6)
    with pytest.raises(GradcheckError):  # a step so long that the curvature shows
        gradcheck(lambda x: x.exp(), [x], eps=0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_gradcheck_needs_float64(dtype: type) -> None:
    with pytest.raises(TypeError, match=f"must be float64; input 1 is {np.dtype(dtype)}. Convert"):
        gradcheck(lambda x, y: x * y, [np.ones(2), np.ones(2, dtype)])


def test_a_gradcheck_error_is_an_assertion_error() -> None:
    assert issubclass(GradcheckError, AssertionError)


def writes_into_the_cotangent(x: np.ndarray, grad_out: np.ndarray) -> np.ndarray:
    grad_out *= 2.0
    return grad_out * x


def writes_into_the_input(x: np.ndarray, grad_out: np.ndarray) -> np.ndarray:
    grad = 2.0 * x * grad_out
    x += 1.0
    return grad


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (op(np.square, writes_into_the_cotangent), "cotangent was written into"),
        (op(np.square, writes_into_the_input), "input 0 was written into"),
        (op(lambda x: x * 1.0, lambda x, grad_out: grad_out), "gradient 0 shares memory with the cotangent"),
        (op(lambda x: np.square(x).sum() / 2.0, lambda x, grad_out: x), "gradient 0 shares memory with its input"),
    ],
)
def test_check_vjp_finds_bad_manners(fn: Callable[..., Tensor], message: str) -> None:
    # The second and third hand on arrays that are not theirs without saying aliases=True.
    with pytest.raises(AssertionError, match=f"check_vjp: .*{message}"):
        by_check_vjp(fn, np.array([1.0, 2.0]))


def test_check_vjp_finds_two_gradients_in_one_array() -> None:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        def vjp(grad_out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            grad = grad_out * 1.0
            return grad, grad

        return Tensor.from_op(x.value + y.value, (x, y), vjp, "add_badly")

    with pytest.raises(AssertionError, match=r"gradients 1 and \[0\] share memory"):
        by_check_vjp(fn, np.ones(2), np.ones(2))


def test_what_aliases_says_is_enough_for_good_manners() -> None:
    by_check_vjp(op(lambda x: x * 1.0, lambda x, grad_out: grad_out, aliases=True), np.array([1.0, 2.0]))


def test_check_vjp_names_the_input_that_is_off() -> None:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        x_value = x.value
        return Tensor.from_op(x_value * y.value, (x, y), lambda g: (g * 0.5, g * x_value), "product")

    with pytest.raises(AssertionError, match="gradient of input 0 differs from its finite difference"):
        by_check_vjp(fn, np.array([1.0, 2.0]), np.array([3.0, 4.0]))


@pytest.mark.parametrize(
    ("array", "expected"), [(np.ones((2, 3), np.float32), np.float64), ([[1.0]], np.float64), (3, np.float64)]
)
def test_check_vjp_works_in_float64_whatever_it_is_given(array: Any, expected: type) -> None:
    seen: list[np.dtype] = []

    def fn(x: Tensor) -> Tensor:
        seen.append(x.dtype)
        return x * 2.0

    testing.check_vjp(fn, array, rng=np.random.default_rng(0))
    assert set(seen) == {np.dtype(expected)}


def test_graph_size_counts_each_operation_once() -> None:
    x = Tensor(1.0, requires_grad=True)
    y = x * 2.0
    assert testing.graph_size(x) == 0
    assert testing.graph_size(y * y + y) == 3
    assert testing.graph_size(Tensor(1.0) * 2.0) == 0
