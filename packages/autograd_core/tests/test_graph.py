"""The engine: order, accumulation, ownership of gradients, the life of a graph, and what it refuses."""

import copy
import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from autograd_core import Parameter, Tensor, no_grad
from autograd_core import functional as F
from autograd_core.graph import sum_to_shape
from autograd_core.optim import SGD
from autograd_core.testing import graph_size
from hypothesis import given
from hypothesis import strategies as st


def leaf(value: Any, dtype: type = np.float64) -> Tensor:
    return Tensor(np.array(value, dtype), requires_grad=True)


@pytest.fixture
def no_cycle_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_backward_adds_to_what_grad_holds() -> None:
    x = leaf([1.0, 2.0])
    (x * 3.0).sum().backward()
    (x * 4.0).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]
    x.zero_grad()
    assert x.grad is None
    (x * 5.0).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_a_value_used_several_times_receives_the_sum() -> None:
    x = leaf(3.0)
    (x * x * x + x + x).backward()
    assert x.grad == 29.0


def test_the_engine_sums_to_the_shape_and_casts_to_the_dtype_of_the_parent() -> None:
    x = leaf([[1.0], [2.0]], np.float32)

    def vjp(grad_out: np.ndarray) -> tuple[np.ndarray]:
        return (grad_out.astype(np.float64) * 2.0,)

    Tensor.from_op(np.broadcast_to(x.value, (5, 2, 3)), (x,), vjp, "stretch").backward(np.ones((5, 2, 3)))
    assert x.grad.tolist() == [[30.0], [30.0]]
    assert x.grad.dtype == np.float32


@pytest.mark.parametrize(
    ("grad", "shape", "expected"),
    [
        (np.ones((2, 3)), (3,), [2.0, 2.0, 2.0]),
        (np.ones((2, 3)), (2, 1), [[3.0], [3.0]]),
        (np.ones((2, 3)), (), 6.0),
        (np.ones((2, 3)), (1, 1), [[6.0]]),
        (np.ones((0, 3)), (1, 3), [[0.0, 0.0, 0.0]]),
        (np.ones((5, 1, 3)), (1, 3), [[5.0, 5.0, 5.0]]),
    ],
)
def test_sum_to_shape(grad: np.ndarray, shape: tuple[int, ...], expected: Any) -> None:
    assert sum_to_shape(grad, shape).tolist() == expected


def test_a_vjp_that_returns_too_few_gradients_is_an_error() -> None:
    x, y = leaf(1.0), leaf(2.0)
    out = Tensor.from_op(x.value + y.value, (x, y), lambda grad_out: (grad_out,), "half")
    with pytest.raises(ValueError, match="zip"):
        out.backward()
    assert x.grad is None


def test_a_vjp_may_return_none_for_a_parent() -> None:
    x, y = leaf(1.0), leaf(2.0)
    Tensor.from_op(x.value + y.value, (x, y), lambda grad_out: (None, 1.0 * grad_out), "right").backward()
    assert x.grad is None
    assert y.grad == 1.0


def test_a_part_of_the_graph_that_gets_no_cotangent_is_passed_over_and_freed_too() -> None:
    x, y = leaf(1.0), leaf(2.0)
    h = x * 3.0
    Tensor.from_op(h.value + y.value, (h, y), lambda grad_out: (None, 1.0 * grad_out), "right").backward()
    assert x.grad is None
    assert y.grad == 1.0
    with pytest.raises(RuntimeError, match="freed"):
        h.backward()


def test_branches_of_different_depth_are_all_summed_before_they_pass_on() -> None:
    x = leaf(2.0)
    h = x * 3.0  # reached at depth 2 and, through five more operations, at depth 7
    long = h
    for _ in range(5):
        long = long * 2.0
    (h + long).backward()
    assert x.grad == 3.0 + 3.0 * 32.0


def test_only_what_leads_to_a_wanted_leaf_is_recorded() -> None:
    x, data = leaf([1.0, 2.0]), Tensor(np.array([3.0, 4.0]))
    side = (data * 2.0).exp()
    assert graph_size(side) == 0
    assert graph_size(x * side) == 1
    assert graph_size(x * x + x) == 2


def test_the_same_graph_gives_the_same_bits_whatever_memory_it_lands_in(rng: np.random.Generator) -> None:
    # Seven branches of one depth, of sizes whose sum depends on the order of adding.
    factors = rng.standard_normal((7, 5)) * 10.0 ** rng.integers(-8, 8, (7, 1))
    seen, ballast = set(), []
    for i in range(100):
        x = leaf(np.ones(5))
        h = x * 1.0
        loss = F.stack([h * factor for factor in factors]).sum()
        ballast.append([object() for _ in range(i * 7 % 13)])
        loss.backward()
        seen.add(x.grad.tobytes())
    assert len(seen) == 1


def test_leaves_that_get_the_same_cotangent_get_arrays_of_their_own(rng: np.random.Generator) -> None:
    leaves = [leaf(rng.standard_normal((2, 3))) for _ in range(4)]
    cotangent = rng.standard_normal((2, 3))
    kept = cotangent.copy()
    a, b, c, d = leaves
    out = a + b + (c - d).reshape(3, 2).reshape(2, 3)
    out.backward(cotangent)
    arrays = [x.grad for x in leaves] + [x.value for x in leaves] + [out.value, cotangent]
    for i, first in enumerate(arrays):
        assert not any(np.shares_memory(first, second) for second in arrays[i + 1 :])
    a.grad[...] = 77.0
    assert np.array_equal(b.grad, kept)
    assert np.array_equal(cotangent, kept)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x,
        lambda x: x.sum(),
        lambda x: x.mean(axis=0),
        lambda x: x.T,
        lambda x: x[1:],
        lambda x: x.reshape(6),
        lambda x: F.broadcast_to(x, (5, 2, 3)),
        lambda x: F.concatenate([x, x]),
        lambda x: F.split(x, 3, axis=1)[1],
        lambda x: x + 1.0,
        lambda x: x.exp(),
    ],
)
def test_grad_is_a_writable_contiguous_array_that_shares_memory_with_nothing(fn: Callable[[Tensor], Tensor]) -> None:
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    out = fn(x)
    cotangent = np.ones(out.shape)
    out.backward(cotangent)
    assert x.grad.flags.writeable
    assert x.grad.flags.c_contiguous
    assert not np.shares_memory(x.grad, cotangent)
    assert not np.shares_memory(x.grad, x.value)
    x.grad += 1.0
    assert np.array_equal(cotangent, np.ones(out.shape))


Step = tuple[str, int, int]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "subtract", "scale", "transpose", "mix", "sum", "negate", "join"]),
            st.integers(0, 100),
            st.integers(0, 100),
        ),
        min_size=1,
        max_size=14,
    )
)
def test_random_linear_graphs_have_exact_gradients(steps: list[Step]) -> None:
    mixing = np.array([[1.0, 2.0], [-1.0, 3.0]])

    def build(leaves: list[Any]) -> Any:
        """Any mixture of operations that are linear, and exact on small integers."""
        values = list(leaves)
        for op, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(
                {
                    "add": lambda a=a, b=b: F.add(a, b),
                    "subtract": lambda a=a, b=b: F.subtract(a, b),
                    "scale": lambda a=a: F.multiply(a, 2.0),
                    "transpose": lambda a=a: F.transpose(a),
                    "mix": lambda a=a: F.matmul(a, mixing),
                    "sum": lambda a=a: F.broadcast_to(F.sum(a, axis=0, keepdims=True), (2, 2)),
                    "negate": lambda a=a: F.negative(a),
                    "join": lambda a=a, b=b: F.concatenate([a, b], axis=1)[:, 1:3],
                }[op]()
            )
        return values[-1]

    leaves = [leaf(np.zeros((2, 2))) for _ in range(3)]
    cotangent = np.array([[1.0, -2.0], [3.0, 5.0]])
    kept = cotangent.copy()
    out = build(leaves)
    if not out.requires_grad:
        return
    out.backward(cotangent)
    assert np.array_equal(cotangent, kept)
    for number, x in enumerate(leaves):
        expected = np.zeros((2, 2))
        for index in np.ndindex(2, 2):
            basis = [np.zeros((2, 2)) for _ in leaves]
            basis[number][index] = 1.0
            expected[index] = (build(basis).value * cotangent).sum()
        assert np.array_equal(np.zeros((2, 2)) if x.grad is None else x.grad, expected)
    grads = [x.grad for x in leaves if x.grad is not None]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(grads) for b in grads[i + 1 :])


def shared_sum() -> tuple[Tensor, Tensor, Tensor]:
    a, b, d = leaf(3.0), leaf(2.0), leaf(1.0)
    return a, d, (a + b) * d


def test_a_second_backward_says_that_the_graph_is_freed_and_how_to_keep_it() -> None:
    a, d, e = shared_sum()
    e.backward()
    assert (a.grad.item(), d.grad.item()) == (1.0, 5.0)
    with pytest.raises(RuntimeError, match=r"freed by the backward that runs it.*'multiply'.*retain_graph=True"):
        e.backward()
    assert (a.grad.item(), d.grad.item()) == (1.0, 5.0)


def test_a_retained_graph_doubles_the_gradients_exactly() -> None:
    a, d, e = shared_sum()
    e.backward(retain_graph=True)
    e.backward()
    assert (a.grad.item(), d.grad.item()) == (2.0, 10.0)
    with pytest.raises(RuntimeError, match="freed"):
        e.backward()


def test_after_zero_grad_a_fresh_graph_gives_the_first_gradients() -> None:
    a, d, e = shared_sum()
    e.backward()
    for x in (a, d):
        x.zero_grad()
    ((a + 2.0) * d).backward()
    assert (a.grad.item(), d.grad.item()) == (1.0, 5.0)


def test_two_losses_on_a_part_that_was_freed_name_the_operation() -> None:
    x = leaf(2.0)
    h = x.exp()
    (h * 2.0).backward()
    with pytest.raises(RuntimeError, match="at operation 'exp'"):
        (h * 3.0).backward()


@pytest.mark.parametrize("retain_graph", [False, True])
def test_an_exception_in_a_vjp_leaves_every_grad_as_it_was(retain_graph: bool) -> None:
    x, y = leaf(2.0), leaf(3.0)
    x.grad = 10.0
    broken = True

    def vjp(grad_out: np.ndarray) -> tuple[np.ndarray]:
        if broken:
            raise ArithmeticError("no")
        return (grad_out * 5.0,)

    inner = Tensor.from_op(x.value * 5.0, (x,), vjp, "fragile")
    loss = inner * y + y
    with pytest.raises(ArithmeticError):
        loss.backward(retain_graph=retain_graph)
    assert x.grad == 10.0
    assert y.grad is None
    broken = False
    if not retain_graph:
        with pytest.raises(RuntimeError, match="was run before"):
            loss.backward()
        loss = Tensor.from_op(x.value * 5.0, (x,), vjp, "fragile") * y + y
    loss.backward()
    assert x.grad == 25.0
    assert y.grad == 11.0


def test_backward_of_many_elements_needs_a_gradient() -> None:
    with pytest.raises(RuntimeError, match=r"shape \(2,\).*Pass gradient=.*or reduce with sum"):
        (leaf([1.0, 2.0]) * 2.0).backward()


def test_backward_of_one_element_in_any_number_of_axes_starts_from_one() -> None:
    x = leaf([[3.0]])
    (x * 2.0).backward()
    assert x.grad.tolist() == [[2.0]]


def test_backward_of_what_needs_no_gradient_is_an_error() -> None:
    for tensor in (Tensor(1.0), Tensor(1.0) * 2.0, leaf(1.0).detach()):
        with pytest.raises(RuntimeError, match=r"requires a gradient; this one does not\..*requires_grad=True"):
            tensor.backward()


def test_a_gradient_of_another_shape_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"tensor's shape \(2,\); got \(3,\)"):
        (leaf([1.0, 2.0]) * 2.0).backward(np.ones(3))


def test_a_gradient_may_be_a_tensor_a_list_or_of_another_dtype() -> None:
    for gradient in (Tensor([1.0, 2.0]), [1.0, 2.0], np.array([1, 2]), np.array([1.0, 2.0], np.float32)):
        x = leaf([5.0, 7.0])
        (x * 3.0).backward(gradient)
        assert x.grad.tolist() == [3.0, 6.0]
        assert x.grad.dtype == np.float64


def test_a_leaf_can_be_its_own_root() -> None:
    x = leaf([1.0, 2.0])
    x.backward(np.array([3.0, 4.0]))
    x.backward(np.array([3.0, 4.0]))
    assert x.grad.tolist() == [6.0, 8.0]


@pytest.fixture
def product() -> tuple[Parameter, Tensor, Tensor]:
    """w, x and sum(w x); the gradient of w is x."""
    w, x = Parameter([3.0, 4.0]), Tensor(np.array([1.0, 2.0]))
    w.name = "w"
    return w, x, (w * x).sum()


def assert_refused(loss: Tensor, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        loss.backward()


def test_a_step_between_forward_and_backward_is_an_error_naming_the_parameter(
    product: tuple[Parameter, Tensor, Tensor],
) -> None:
    w, _, loss = product
    w.grad = np.ones(2)
    SGD([w], lr=0.1).step()
    assert_refused(
        loss, r"parameter w of shape \(2,\) changed after operation 'multiply' used it.*run the forward again"
    )
    assert w.grad.tolist() == [1.0, 1.0]


def test_an_assignment_to_a_parameter_in_between_is_an_error(product: tuple[Parameter, Tensor, Tensor]) -> None:
    w, _, loss = product
    w.value = np.array([9.0, 9.0])
    assert_refused(loss, "parameter w")


def test_an_assignment_to_data_in_between_is_an_error(product: tuple[Parameter, Tensor, Tensor]) -> None:
    w, x, loss = product
    x.value = np.array([99.0, 99.0])
    assert_refused(loss, r"a tensor of shape \(2,\) changed")
    assert w.grad is None


def test_an_assignment_to_a_frozen_parameter_in_between_is_an_error() -> None:
    w, frozen = Parameter([3.0]), Parameter([2.0])
    frozen.requires_grad = False
    loss = (w * frozen).sum()
    frozen.value = np.array([5.0])
    assert_refused(loss, "parameter .unnamed.")


def test_a_change_before_the_forward_or_after_backward_is_none_of_its_business() -> None:
    w = Parameter([3.0])
    w.value = np.array([4.0])
    loss = (w * w).sum()
    loss.backward()
    w.value = np.array([5.0])
    (w * w).sum().backward()
    assert w.grad.tolist() == [18.0]


def test_a_leaf_frozen_in_between_gets_no_gradient() -> None:
    w, v = Parameter([3.0]), Parameter([5.0])
    loss = (w * v).sum()
    w.requires_grad = False
    loss.backward()
    assert w.grad is None
    assert v.grad.tolist() == [3.0]


def test_a_leaf_thawed_in_between_gets_no_gradient() -> None:
    w, v = Parameter([3.0]), Parameter([5.0])
    w.requires_grad = False
    loss = (w * v + w).sum()
    w.requires_grad = True
    loss.backward()
    assert w.grad is None


@pytest.fixture
def recursion_limit_is_untouched() -> Iterator[None]:
    before = sys.getrecursionlimit()
    yield
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize("length", [5_000, 100_000])
def test_a_long_chain_runs_backwards_and_goes_away(length: int, recursion_limit_is_untouched: None) -> None:
    x = leaf(1.0)
    y = x
    for _ in range(length):
        y = y + x
    assert repr(y) == f"Tensor({length + 1}., dtype=float64, requires_grad=True)"
    assert copy.deepcopy(y).item() == length + 1.0
    y.backward()
    assert x.grad == length + 1.0
    del y


def test_a_long_chain_that_never_ran_goes_away(recursion_limit_is_untouched: None, no_cycle_collector: None) -> None:
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y * 1.0
    first = weakref.ref(x)
    del x, y
    assert first() is None


def test_a_graph_that_nobody_holds_is_freed_without_the_cycle_collector(no_cycle_collector: None) -> None:
    x = leaf(np.ones(3))
    middle = (x * 2.0).exp()
    loss = F.softmax(F.layer_norm(middle, np.ones(3), np.zeros(3))).sum()
    watched = [weakref.ref(item) for item in (middle, middle.value, middle._node, loss, loss._node)]
    del middle, loss
    assert [ref() for ref in watched] == [None] * 5


def test_backward_frees_what_the_graph_kept_while_the_loss_is_still_held(no_cycle_collector: None) -> None:
    x, data = leaf(np.ones(3)), Tensor(np.full(3, 2.0))
    middle = (x * data).exp()
    loss = (middle * middle).sum()
    watched = [weakref.ref(item) for item in (middle.value, middle._node, data, data.value)]
    del middle, data
    assert all(ref() is not None for ref in watched)
    loss.backward()
    assert [ref() for ref in watched] == [None] * 4
    assert loss.item() == pytest.approx(3 * np.exp(4.0))


def test_a_failed_backward_holds_nothing_afterwards(no_cycle_collector: None) -> None:
    def vjp(grad_out: np.ndarray) -> tuple[np.ndarray]:
        raise ArithmeticError("no")

    x = leaf(np.ones(3))
    inner = Tensor.from_op(x.value * 1.0, (x,), vjp, "fragile")
    loss = (inner * 2.0).sum()
    watched = weakref.ref(inner._node)
    with pytest.raises(ArithmeticError) as caught:
        loss.backward()
    caught.value.__traceback__ = None
    del inner, loss, caught
    assert watched() is None


def test_tensors_can_be_weakly_referenced() -> None:
    x = leaf(1.0)
    assert weakref.ref(x)() is x


def test_detach_cuts_the_graph_and_shares_the_array() -> None:
    x = leaf([1.0, 2.0])
    y = (x * 2.0).detach()
    assert not y.requires_grad
    (x * y).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert x.detach().value is x.value


def test_no_grad_inside_a_graph_makes_a_constant() -> None:
    x = leaf(3.0)
    with no_grad():
        y = x * x
    (x * y).backward()
    assert x.grad == 9.0
