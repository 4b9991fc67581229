"""`Tensor` and `Parameter` as objects: construction, attributes, operators on either side, Python's protocols."""

import copy
import itertools
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autograd_core import Columns, Parameter, Tensor
from autograd_core import functional as F


def test_a_tensor_shares_an_array_and_a_parameter_copies_it() -> None:
    array = np.array([1.0, 2.0])
    assert Tensor(array).value is array
    assert not np.shares_memory(Parameter(array).value, array)
    assert not np.shares_memory(Parameter(Tensor(array)).value, array)


def test_a_parameter_of_a_transposed_view_is_contiguous() -> None:
    assert Parameter(np.ones((3, 2)).T).value.flags.c_contiguous


def test_numbers_and_lists_become_float64_and_dtypes_are_kept() -> None:
    assert Tensor(1.5).dtype == np.float64
    assert Tensor([1.0, 2.0]).dtype == np.float64
    assert Tensor(np.float32(1.5)).dtype == np.float32
    assert Tensor(np.ones(2, np.float32)).dtype == np.float32
    assert Tensor(3).dtype.kind == "i"


def test_a_dtype_converts() -> None:
    assert Tensor([1, 2], dtype=np.float32).dtype == np.float32
    assert Parameter([1, 2], dtype=np.float32).dtype == np.float32
    assert Parameter(np.ones(2), dtype=np.float32).value.dtype == np.float32


def test_a_parameter_requires_a_gradient_and_a_tensor_does_not_unless_asked() -> None:
    assert Parameter([1.0]).requires_grad
    assert not Tensor([1.0]).requires_grad
    assert Tensor([1.0], requires_grad=True).requires_grad


@pytest.mark.parametrize("value", [3, np.array([1, 2]), True, np.array([True, False])])
def test_integers_and_bools_are_data(value: Any) -> None:
    with pytest.raises(TypeError, match=r"only floating dtypes have gradients; got .* dtype=float"):
        Tensor(value, requires_grad=True)
    with pytest.raises(TypeError, match="floating"):
        Parameter(value)
    assert (Tensor(value) * 0.5).dtype.kind == "f"


@pytest.mark.parametrize("other", [np.ones(2, np.complex128), "a", None, np.array([1.0, None], object)])
def test_what_is_no_real_number_is_no_operand(other: Any) -> None:
    x = Parameter([1.0, 2.0])
    for compute in (lambda: x + other, lambda: F.exp(other), lambda: F.matmul(x, other), lambda: F.softmax(other)):
        with pytest.raises(TypeError, match="an operand must hold real numbers; got dtype"):
            compute()


ELEMENTWISE = ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum"]
WITHOUT_PRECISION = {
    "ints": np.array([[1, 2], [3, 4]]),
    "bools": np.array([[True, True], [True, True]]),
    "list": [[1.0, 2.0], [3.0, 4.0]],
    "int tensor": Tensor([[1, 2], [3, 4]]),
    "no axes": np.array(2.0),
    "scalar": np.float64(2.0),
    "number": 2,
}


@pytest.mark.parametrize(
    ("op", "kind"),
    [*itertools.product(ELEMENTWISE, WITHOUT_PRECISION), *(("matmul", kind) for kind in list(WITHOUT_PRECISION)[:4])],
)
def test_what_has_no_precision_of_its_own_never_widens_float32(op: str, kind: str) -> None:
    x, other = Parameter(np.array([[1.5, 2.5], [3.5, 4.5]], np.float32)), WITHOUT_PRECISION[kind]
    for out in (getattr(F, op)(x, other), getattr(F, op)(other, x)):
        assert out.dtype == np.float32
        out.sum().backward()
        assert x.grad is not None
        assert x.grad.dtype == np.float32


def test_a_float64_array_or_tensor_widens_float32() -> None:
    x = Tensor(np.ones(2, np.float32))
    assert (x * np.ones(2)).dtype == np.float64
    assert (x * Tensor(np.ones(2))).dtype == np.float64
    assert (x * Tensor(2.0)).dtype == np.float64


@pytest.mark.parametrize(
    "compute",
    [
        *(F.exp, F.log, F.sqrt, F.tanh, F.sigmoid, F.gelu, F.softmax, F.log_softmax, F.logsumexp, F.mean, F.var),
        lambda x: F.gelu(x, "none"),
        lambda x: F.layer_norm(x, np.ones(3), np.zeros(3)),
        lambda x: F.dropout(x, 0.5, rng=np.random.default_rng(0)),
        lambda x: F.scaled_dot_product_attention(x, x, x),
        lambda x: F.self_attention(x, 1),
        lambda x: F.linear(x, np.ones((3, 2)), np.ones(2)),
        lambda x: F.cross_entropy(x, np.array([0, 1])),
    ],
)
def test_functions_of_real_numbers_take_integers_and_bools_as_float64(compute: Any) -> None:
    for data in (np.array([[1, 2, 4], [3, 1, 2]]), np.array([[True, True, True], [True, True, True]])):
        out = compute(data)
        assert out.dtype == np.float64
        np.testing.assert_array_equal(out.value, compute(data.astype(np.float64)).value)


def test_an_integer_tensor_times_a_half_is_a_float() -> None:
    assert (Tensor(3) * 0.5).item() == 1.5
    assert (Tensor(np.array([True, False])) * 0.5).value.tolist() == [0.5, 0.0]


def test_shape_and_its_relatives() -> None:
    x = Tensor(np.ones((2, 3), np.float32))
    assert (x.shape, x.ndim, x.size, x.dtype) == ((2, 3), 2, 6, np.dtype(np.float32))
    assert x.T.shape == (3, 2)
    assert x.numpy() is x.value
    assert len(x) == 2


def test_writing_into_value_changes_the_tensor_and_assigning_copies() -> None:
    p = Parameter([1.0, 2.0])
    home = p.value
    p.value[0] = 5.0
    source = np.array([7.0, 8.0])
    p.value = source
    assert p.value is home
    assert home.tolist() == [7.0, 8.0]
    source[0] = 9.0
    assert home[0] == 7.0
    p.value = Tensor([3.0, 4.0])
    assert home.tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (np.ones(3), r"shape and dtype, \(2,\) float64; got \(3,\) float64"),
        (np.ones((2, 1)), r"got \(2, 1\) float64"),
        (np.ones(2, np.float32), r"got \(2,\) float32"),
        (1.0, r"got \(\) float64"),
    ],
)
def test_another_shape_or_dtype_is_refused_for_value_and_grad(new: Any, message: str) -> None:
    p = Parameter([1.0, 2.0])
    with pytest.raises(ValueError, match=f"value: .*{message}"):
        p.value = new
    with pytest.raises(ValueError, match=f"grad: .*{message}"):
        p.grad = new
    assert p.value.tolist() == [1.0, 2.0]
    assert p.grad is None


def test_grad_may_be_assigned_is_copied_and_is_added_to() -> None:
    p = Parameter([1.0, 2.0])
    source = np.array([10.0, 20.0])
    p.grad = source
    assert not np.shares_memory(p.grad, source)
    (p * 3.0).sum().backward()
    assert p.grad.tolist() == [13.0, 23.0]
    p.grad = Tensor([1.0, 1.0])
    assert p.grad.tolist() == [1.0, 1.0]
    p.grad = None
    assert p.grad is None


def test_a_read_only_array_may_be_assigned_as_grad() -> None:
    p = Parameter([1.0, 2.0])
    p.grad = np.broadcast_to(1.0, (2,))
    p.grad += 1.0
    assert p.grad.tolist() == [2.0, 2.0]


def test_freezing_and_thawing() -> None:
    p, q = Parameter([1.0]), Parameter([2.0])
    p.requires_grad = False
    (p * q).backward()
    assert p.grad is None
    assert q.grad.tolist() == [1.0]
    p.requires_grad = True
    (p * q).backward()
    assert p.grad.tolist() == [2.0]


def test_only_a_leaf_can_be_frozen() -> None:
    y = Parameter([1.0]) * 2.0
    with pytest.raises(RuntimeError, match=r"only a leaf can be frozen; .*detach"):
        y.requires_grad = False
    y.requires_grad = True


def test_a_result_has_no_grad_of_its_own() -> None:
    p = Parameter([1.0])
    y = p * 2.0
    (y * 3.0).backward()
    assert y.grad is None


OPERATORS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "pow": operator.pow,
}
both_ways = pytest.mark.parametrize("op", OPERATORS.values(), ids=OPERATORS)


@both_ways
@pytest.mark.parametrize(
    "other",
    [3, 2.5, True, np.float64(2.5), np.float32(2.5), np.int64(3), np.bool_(True), np.full((2, 3), 1.5)],
    ids=repr,
)
def test_numbers_and_arrays_stand_on_either_side(op: Callable[..., Any], other: Any, rng: np.random.Generator) -> None:
    value = rng.uniform(0.5, 2.0, (2, 3))
    x = Tensor(value, requires_grad=True)
    for found, expected in ((op(x, other), op(value, other)), (op(other, x), op(other, value))):
        assert isinstance(found, Tensor)
        assert found.requires_grad
        np.testing.assert_allclose(found.value, expected, rtol=1e-14)


@both_ways
@pytest.mark.parametrize("number", [3, 2.5, True, np.float64(2.5), np.float32(2.5), np.int64(3)], ids=repr)
def test_numbers_never_widen_float32(op: Callable[..., Any], number: Any) -> None:
    for shape in ((2, 3), ()):
        x = Tensor(np.full(shape, 1.5, np.float32), requires_grad=True)
        for y in (op(x, number), op(number, x)):
            assert y.dtype == np.float32
            y.sum().backward()
            assert x.grad.dtype == np.float32


def test_numbers_never_widen_float32_in_functions_of_two_operands() -> None:
    x = Tensor(np.ones(3, np.float32))
    assert F.maximum(x, 0.5).dtype == np.float32
    assert F.minimum(np.float64(0.5), x).dtype == np.float32
    assert F.where(x.value > 0, x, 0.0).dtype == np.float32
    assert F.where(x.value > 0, np.float64(1.0), x).dtype == np.float32
    assert F.clip(x, 0, np.float64(0.5)).dtype == np.float32
    assert (-x).dtype == np.float32


def test_a_float64_array_widens_as_in_numpy() -> None:
    x = Tensor(np.ones(3, np.float32), requires_grad=True)
    y = x * np.ones(3)
    assert y.dtype == np.float64
    y.sum().backward()
    assert x.grad.dtype == np.float32


def test_matrix_products_take_arrays_on_either_side() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(15.0).reshape(3, 5)
    for y in (a @ Tensor(b), Tensor(a) @ b, Tensor(a) @ Tensor(b)):
        assert isinstance(y, Tensor)
        assert np.array_equal(y.value, a @ b)


def test_in_place_operators_make_new_tensors() -> None:
    p = Parameter([1.0, 2.0])
    y: Tensor = p
    y += 1.0
    assert y is not p
    assert p.value.tolist() == [1.0, 2.0]
    array: Any = np.array([1.0, 2.0])
    with pytest.raises(TypeError, match="ufunc"):  # an array cannot become a tensor in place
        array += p


METHODS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("sum", "mean", "var", "max", "min"), (1, True)),
    **dict.fromkeys(("exp", "log", "sqrt", "tanh", "sigmoid", "relu", "abs"), ()),
    "reshape": (3, 2),
    "transpose": (1, 0),
    "swapaxes": (0, 1),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_the_functions(name: str, rng: np.random.Generator) -> None:
    x = Tensor(rng.uniform(0.5, 2.0, (2, 3)))
    found, expected = getattr(x, name)(*METHODS[name]), getattr(F, name)(x, *METHODS[name])
    assert found.shape == expected.shape
    assert np.array_equal(found.value, expected.value)


def test_python_abs_is_the_method() -> None:
    assert abs(Tensor([-1.0, 2.0])).value.tolist() == [1.0, 2.0]


def test_item_and_float_need_exactly_one_element() -> None:
    assert Tensor([[2.5]]).item() == 2.5
    assert float(Tensor(2.5)) == 2.5
    assert bool(Tensor(1.0))
    assert not Tensor(0.0)
    for call in (Tensor([1.0, 2.0]).item, lambda: float(Tensor([1.0, 2.0])), lambda: bool(Tensor([1.0, 2.0]))):
        with pytest.raises(ValueError, match=r"one|size 1"):
            call()


def test_iteration_goes_over_the_first_axis_with_gradients() -> None:
    x = Tensor(np.array([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
    first, second = x
    (first * 10.0 + second).sum().backward()
    assert x.grad.tolist() == [[10.0, 10.0], [1.0, 1.0]]


def test_a_0d_tensor_has_no_length_and_no_iteration() -> None:
    with pytest.raises(TypeError, match=r"0-d tensor; use item\(\)"):
        iter(Tensor(1.0))
    with pytest.raises(TypeError):
        len(Tensor(1.0))


def test_equality_and_hash_are_by_identity() -> None:
    a, b = Tensor(1.0), Tensor(1.0)
    assert a in [b, a]
    assert a != b
    assert len({a, b, a}) == 2


def test_repr_shows_values_dtype_and_whether_it_is_differentiated() -> None:
    assert repr(Tensor([1.0, 2.0])) == "Tensor([1., 2.], dtype=float64)"
    assert repr(Parameter(np.float32(1.5))) == "Parameter(1.5, dtype=float32, requires_grad=True)"
    assert "..." in repr(Tensor(np.zeros(1000)))


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("kind", [Tensor, Parameter])
def test_copies_have_their_own_value_and_grad(clone: Callable[[Any], Any], kind: type) -> None:
    x = kind([1.0, 2.0])
    x.requires_grad = True
    x.grad = np.array([3.0, 4.0])
    twin = clone(x)
    assert type(twin) is kind
    assert twin.requires_grad
    assert np.array_equal(twin.value, x.value)
    assert np.array_equal(twin.grad, x.grad)
    assert not np.shares_memory(twin.value, x.value)
    assert not np.shares_memory(twin.grad, x.grad)
    (twin * 2.0).sum().backward()
    assert twin.grad.tolist() == [5.0, 6.0]
    assert x.grad.tolist() == [3.0, 4.0]


def test_a_copy_of_a_result_is_a_leaf() -> None:
    p = Parameter([1.0])
    twin = copy.deepcopy(p * 2.0)
    (twin * 3.0).backward()
    assert twin.grad.tolist() == [3.0]
    assert p.grad is None


def test_a_frozen_parameter_stays_frozen_in_its_copy() -> None:
    p = Parameter([1.0])
    p.requires_grad = False
    p.name = "w"
    twin = copy.deepcopy(p)
    assert not twin.requires_grad
    assert twin.name == "w"


def test_the_value_of_a_computed_tensor_cannot_be_assigned() -> None:
    leaf = Tensor(np.ones(3), requires_grad=True)
    inner = leaf * 2.0
    loss = (inner * inner).sum()
    with pytest.raises(RuntimeError, match="only a leaf's value can be assigned"):
        inner.value = np.full(3, 5.0)
    loss.backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [8.0, 8.0, 8.0]


def test_joining_and_fused_operations_keep_float32_beside_what_has_no_precision() -> None:
    x = Tensor(np.ones((2, 3), np.float32))
    weight = Tensor(np.ones((3, 2), np.float32))
    ints = np.ones((2, 3), int)
    for out in (
        F.linear(x, weight, [0.0, 1.0]),
        F.linear(ints, weight, np.array([0, 1])),
        F.scaled_dot_product_attention(x, ints, x),
        F.scaled_dot_product_attention(x, x, [[1.0], [2.0]]),
        F.concatenate([x, ints]),
        F.concatenate([[[1.0, 2.0, 3.0]], x]),
        F.stack([Tensor(np.float32(1.0)), 1.0]),
        F.joined_linear(ints, Columns([Parameter(np.ones((3, 2), np.float32))])),
    ):
        assert out.dtype == np.float32


def test_numpy_takes_the_array_of_a_tensor_that_is_data_and_cuts_no_graph() -> None:
    x = Tensor([1.0, 2.0])
    assert np.asarray(x) is not None
    np.testing.assert_array_equal(np.asarray(x), [1.0, 2.0])
    assert np.asarray(x, np.float32).dtype == np.float32
    assert Tensor([Tensor(1.0), Tensor(2.0)]).value.tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match=r"would cut a tensor .* Use tensor.numpy\(\)"):
        np.asarray(Parameter([1.0]))


def test_axes_and_shapes_may_be_whatever_numpy_takes() -> None:
    x = Tensor(np.ones((1, 6)))
    assert F.squeeze(x, np.int64(0)).shape == (6,)
    assert F.broadcast_to(Tensor(1.0), 3).shape == (3,)
    assert F.reshape(x, np.array([2, 3])).shape == (2, 3)
