"""Operations where a convention decides: kinks, ties, zeros, extremes, ignored targets; and their error messages."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autograd_core import Tensor
from autograd_core import functional as F
from autograd_core.ops.indexing import scatter_add_rows
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def leaf(value: Any, dtype: type = np.float64) -> Tensor:
    return Tensor(np.array(value, dtype), requires_grad=True)


def slopes(fn: Callable[..., Tensor], *values: Any) -> list[Any]:
    """The gradients of sum(fn(values)): of elementwise functions, the derivatives."""
    inputs = [leaf(v) for v in values]
    fn(*inputs).sum().backward()
    return [x.grad.tolist() for x in inputs]


@pytest.mark.parametrize("op", ["relu", "abs", "sqrt"])
def test_gradient_at_zero_is_zero(op: str) -> None:
    assert slopes(getattr(F, op), [0.0, -0.0]) == [[0.0, 0.0]]


def test_ties_of_maximum_and_minimum_share_the_gradient_equally() -> None:
    for op in (F.maximum, F.minimum):
        assert slopes(op, [1.0, 2.0], [1.0, 2.0]) == [[0.5, 0.5], [0.5, 0.5]]
    assert slopes(F.maximum, [1.0, 3.0], [2.0, 2.0]) == [[0.0, 1.0], [1.0, 0.0]]
    assert slopes(F.minimum, [1.0, 3.0], [2.0, 2.0]) == [[1.0, 0.0], [0.0, 1.0]]


def test_ties_of_max_and_min_share_the_gradient_equally() -> None:
    assert slopes(F.max, [[3.0, 1.0, 3.0], [2.0, 2.0, 2.0]]) == [[[0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]]
    assert slopes(lambda x: F.min(x, axis=1), [[3.0, 1.0, 3.0], [2.0, 2.0, 2.0]]) == [
        [[0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3]]
    ]


@pytest.mark.parametrize("op", ["max", "min"])
def test_nan_wins_the_extreme_and_takes_its_gradient(op: str) -> None:
    x = leaf([[1.0, math.nan, 2.0], [1.0, 5.0, 2.0]])
    y = getattr(F, op)(x, axis=1)
    y.backward(np.array([7.0, 11.0]))
    assert np.isnan(y.value).tolist() == [True, False]
    assert x.grad[0].tolist() == [0.0, 7.0, 0.0]
    assert x.grad[1].sum() == 11.0


def test_clip_passes_the_gradient_inside_and_at_the_ends() -> None:
    assert slopes(lambda x: F.clip(x, -1, 1), [-2.0, -1.0, 0.0, 1.0, 2.0]) == [[0.0, 1.0, 1.0, 1.0, 0.0]]


def test_where_keeps_an_infinite_cotangent_in_its_branch() -> None:
    a, b = leaf([1.0, 1.0]), leaf([2.0, 2.0])
    F.where(np.array([True, False]), a, b).backward(np.array([math.inf, math.inf]))
    assert a.grad.tolist() == [math.inf, 0.0]
    assert b.grad.tolist() == [0.0, math.inf]


def test_powers_of_zero() -> None:
    assert slopes(lambda x: x**2, 0.0) == [0.0]
    assert slopes(lambda x: x**1, 0.0) == [1.0]
    assert slopes(lambda x: x**0, [0.0, 2.0]) == [[0.0, 0.0]]
    assert slopes(F.power, [0.0, 0.0, 2.0], [2.0, 0.0, 0.0]) == [[0.0, 0.0, 0.0], [0.0, 0.0, math.log(2.0)]]


def test_a_power_by_a_number_keeps_the_sign_of_odd_powers() -> None:
    assert (leaf([-2.0]) ** 3).value.tolist() == [-8.0]
    assert (leaf([-2.0]) ** 2).value.tolist() == [4.0]
    assert (2 ** leaf([3.0])).value.tolist() == [8.0]


def test_variance_of_a_constant_is_zero_with_zero_gradient() -> None:
    x = leaf([0.1] * 7)
    (F.var(x) + 0.0).sqrt().backward()
    assert not x.grad.any()


def test_variance_is_of_the_population() -> None:
    assert F.var(np.array([4.0, 7.0, 13.0, 16.0])).item() == 22.5
    assert F.var(np.array([4.0, 7.0, 13.0, 16.0]) + 1e9).item() == 22.5


GELU_VALUES = {
    -3.0: -3.637392081773e-3,
    -1.0: -0.158808009391723,
    0.0: 0.0,
    0.5: 0.345714009825144,
    1.0: 0.841191990608277,
    3.0: 2.996362607918227,
}
GELU_SLOPES = {
    -3.0: -1.158416663097e-2,
    -1.0: -8.296408384578e-2,
    0.0: 0.5,
    0.5: 0.867369903534642,
    1.0: 1.082964083845783,
    3.0: 1.011584166630970,
}


@DTYPES
def test_gelu_has_the_tabulated_values_and_slopes(dtype: type) -> None:
    tolerance = 1e-12 if dtype is np.float64 else 1e-6
    x = leaf(list(GELU_VALUES), dtype)
    y = F.gelu(x)
    y.sum().backward()
    np.testing.assert_allclose(y.value, list(GELU_VALUES.values()), rtol=tolerance, atol=tolerance * 0.1)
    np.testing.assert_allclose(x.grad, list(GELU_SLOPES.values()), rtol=tolerance)
    assert F.gelu(np.array([-6.0])).item() == pytest.approx(-8.439646700762e-11, rel=1e-9)


@DTYPES
@pytest.mark.parametrize("approximate", ["tanh", "none"])
def test_gelu_of_large_entries_is_the_entry_or_zero(dtype: type, approximate: str) -> None:
    far = [10.0, 12.0, 1e3, 1e20, np.inf] + ([1e200] if dtype is np.float64 else [])
    x = leaf(far + [-v for v in far], dtype)
    y = F.gelu(x, approximate)
    y.backward(np.ones(x.shape, dtype))
    positive, negative = np.split(y.value, 2)
    assert np.array_equal(positive, np.array(far, dtype))
    # The exact form still has 1e-22 at -10.
    assert (np.abs(negative) < (1e-30 if approximate == "tanh" else 1e-21)).all()
    np.testing.assert_allclose(x.grad, [1.0] * len(far) + [0.0] * len(far), rtol=1e-7, atol=1e-20)


def test_the_exact_gelu_of_float32_is_that_of_float64_rounded(rng: np.random.Generator) -> None:
    points = (rng.standard_normal(997) * 3.0).astype(np.float32)
    assert np.array_equal(
        F.gelu(points, "none").value, F.gelu(points.astype(np.float64), "none").value.astype(np.float32)
    )


def test_gelu_passes_nan_on() -> None:
    x = leaf([np.nan, 1.0])
    for approximate in ("tanh", "none"):
        assert np.isnan(F.gelu(x, approximate).value).tolist() == [True, False]


@DTYPES
def test_sigmoid_and_tanh_saturate_without_overflow(dtype: type) -> None:
    ends = [-np.inf, -1e30, -800.0, 800.0, 1e30, np.inf]
    x = leaf(ends, dtype)
    y = F.sigmoid(x) + F.tanh(x)
    y.backward(np.ones(6, dtype))
    assert y.value.tolist() == [-1.0] * 3 + [2.0] * 3
    assert not x.grad.any()


def test_a_linear_layer_of_mixed_dtypes_gives_what_numpy_gives() -> None:
    x, w = np.ones((2, 3), np.float32), np.ones((3, 5), np.float32)
    bias = leaf(np.full(5, 0.1))
    out = F.linear(x, w, bias)
    out.sum().backward()
    assert out.dtype == np.float64
    assert np.array_equal(out.value, x @ w + bias.value)
    assert bias.grad.tolist() == [2.0] * 5


def test_softmax_does_not_see_a_shift_and_does_not_overflow(rng: np.random.Generator) -> None:
    x = rng.integers(-8, 8, (3, 5)) * 0.25  # sums with 1024 are exact
    for op in (F.softmax, F.log_softmax):
        assert np.array_equal(op(x + 1024.0).value, op(x).value)
    assert F.softmax(np.array([1e308, -1e308, 0.0])).value.tolist() == [1.0, 0.0, 0.0]
    assert F.logsumexp(np.array([1000.0, 1000.0])).item() == pytest.approx(1000.0 + math.log(2.0), rel=1e-15)


def test_entries_of_minus_infinity_have_probability_and_gradient_zero() -> None:
    x = leaf([[-np.inf, 0.0, math.log(3.0)]])
    p = F.softmax(x)
    p.backward(np.array([[5.0, 1.0, 2.0]]))
    np.testing.assert_allclose(p.value, [[0.0, 0.25, 0.75]], rtol=1e-15)
    np.testing.assert_allclose(x.grad, [[0.0, -0.1875, 0.1875]], rtol=1e-14)


def test_logsumexp_of_nothing_is_minus_infinity_with_gradient_zero() -> None:
    x = leaf([[-np.inf, -np.inf], [0.0, -np.inf]])
    y = F.logsumexp(x)
    y.backward(np.array([3.0, 5.0]))
    assert y.value.tolist() == [-np.inf, 0.0]
    assert x.grad.tolist() == [[0.0, 0.0], [5.0, 0.0]]
    assert F.logsumexp(np.zeros((2, 0))).value.tolist() == [-np.inf, -np.inf]


def test_layer_norm_of_constant_rows_is_exactly_the_bias(rng: np.random.Generator) -> None:
    bias = rng.standard_normal(7)
    for value in (0.0, 0.1, -1 / 3, 1e-300, 1e150, 1.7e308):
        for dtype in (np.float32, np.float64):
            if value > float(np.finfo(dtype).max):
                continue
            out = F.layer_norm(np.full((3, 7), value, dtype), rng.standard_normal(7).astype(dtype), bias.astype(dtype))
            assert np.array_equal(out.value, np.broadcast_to(bias.astype(dtype), (3, 7)))


def test_layer_norm_keeps_the_digits_of_a_small_variation_on_a_large_offset() -> None:
    # Far apart for float32: x² is 1.6e9, where neighbours are 128 apart.
    x = leaf([[40000.0, 40001.0, 40002.0, 40003.0]], np.float32)
    y = F.layer_norm(x, np.ones(4, np.float32), np.zeros(4, np.float32))
    y.backward(np.array([[1.0, 0.0, 0.0, 0.0]], np.float32))
    np.testing.assert_allclose(y.value, [[-1.341635420, -0.447211807, 0.447211807, 1.341635420]], atol=1e-5)
    np.testing.assert_allclose(x.grad, [[0.26833030, -0.35776837, -0.08944343, 0.17888150]], atol=1e-5)
    assert abs(float(x.grad.sum())) < 1e-6


def test_layer_norm_has_mean_zero_and_the_variance_that_eps_leaves(rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 101)) * np.array([[1e-4], [1e-2], [1.0], [1e2], [1e4]])
    out = F.layer_norm(x, np.ones(101), np.zeros(101), eps=1e-3).value
    variance = x.var(axis=-1)
    np.testing.assert_allclose(out.mean(axis=-1), 0.0, atol=1e-14)
    np.testing.assert_allclose(out.var(axis=-1), variance / (variance + 1e-3), rtol=1e-11)


def test_cross_entropy_of_uniform_logits_is_the_log_of_the_classes() -> None:
    assert F.cross_entropy(np.zeros((3, 7)), [0, 3, 6]).item() == pytest.approx(math.log(7.0), rel=1e-15)


def test_the_mean_divides_by_the_targets_not_ignored_and_their_rows_get_no_gradient() -> None:
    z = leaf([[0.0, 0.0], [0.0, math.log(3.0)]])
    loss = F.cross_entropy(z, np.array([0, -100]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2.0), rel=1e-15)
    assert z.grad.tolist() == [[-0.5, 0.5], [0.0, 0.0]]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("shape", "targets"), [((2, 5), [-100, -100]), ((0, 5), [])], ids=["all_ignored", "empty"])
def test_a_batch_with_nothing_to_learn_is_zero_with_zero_gradient(
    shape: tuple[int, ...], targets: list[int], reduction: str, rng: np.random.Generator
) -> None:
    z = leaf(rng.standard_normal(shape))
    loss = F.cross_entropy(z, targets, reduction=reduction)
    loss.sum().backward()
    assert not loss.value.any()
    assert z.grad.shape == shape
    assert not z.grad.any()


def test_an_ignored_class_is_ignored_and_not_learned() -> None:
    z = np.log(np.array([[1.0, 1.0, 2.0], [1.0, 1.0, 2.0]]))
    assert F.cross_entropy(z, [2, 0], ignore_index=0).item() == pytest.approx(math.log(2.0), rel=1e-14)


def test_reductions_agree_with_each_other(rng: np.random.Generator) -> None:
    z, targets = rng.standard_normal((2, 3, 5)), np.array([[0, -100, 4], [1, 2, -100]])
    none = F.cross_entropy(z, targets, reduction="none").value
    assert none.shape == (2, 3)
    assert (none == 0.0).tolist() == (targets == -100).tolist()
    assert F.cross_entropy(z, targets, reduction="sum").item() == pytest.approx(none.sum(), rel=1e-14)
    assert F.cross_entropy(z, targets).item() == pytest.approx(none.sum() / 4, rel=1e-14)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.uint64, np.int64])
def test_targets_and_ids_of_every_integer_dtype_mean_the_same(dtype: type, rng: np.random.Generator) -> None:
    z, targets = rng.standard_normal((3, 5)), np.array([0, 4, 2])
    assert F.cross_entropy(z, targets.astype(dtype)).item() == F.cross_entropy(z, targets).item()
    assert np.array_equal(F.embedding(z.T, targets.astype(dtype)).value, z.T[targets])


def test_a_mean_of_many_float32_losses_keeps_its_digits(rng: np.random.Generator) -> None:
    z = rng.standard_normal((40_000, 3))
    targets = rng.integers(0, 3, 40_000)
    exact = F.cross_entropy(z, targets).item()
    assert F.cross_entropy(z.astype(np.float32), targets).item() == pytest.approx(exact, rel=2e-7)
    losses = F.cross_entropy(z.astype(np.float32) * 100.0, targets, reduction="none").value
    mean = F.cross_entropy(z.astype(np.float32) * 100.0, targets)
    assert mean.item() == np.float32(losses.sum(dtype=np.float64) / 40_000)  # the rounding of one number


def test_gradients_of_repeated_ids_add_up() -> None:
    weight = leaf(np.zeros((2, 1)))
    F.embedding(weight, [1, 1, 0, 1]).backward(np.ones((4, 1)))
    assert weight.grad.tolist() == [[1.0], [3.0]]


def test_gradients_of_repeated_indices_add_up() -> None:
    x = leaf(np.zeros(3))
    x[np.array([2, -1, 0, 2])].backward(np.array([1.0, 10.0, 100.0, 1000.0]))
    assert x.grad.tolist() == [100.0, 0.0, 1011.0]


@pytest.mark.parametrize("rows", [7, 5000], ids=["dense", "sparse"])
@DTYPES
def test_scatter_add_is_the_sum_that_add_at_defines(rows: int, dtype: type, rng: np.random.Generator) -> None:
    ids = rng.integers(0, rows, 211)
    ids[:50] = ids[50]
    grad = rng.standard_normal((211, 3)).astype(dtype)
    expected, magnitudes = np.zeros((rows, 3)), np.zeros((rows, 3))
    np.add.at(expected, ids, grad.astype(np.float64))
    np.add.at(magnitudes, ids, np.abs(grad.astype(np.float64)))
    out = scatter_add_rows(ids, grad, rows)
    assert out.dtype == dtype
    assert (np.abs(out - expected) <= magnitudes * (2e-6 if dtype is np.float32 else 1e-14)).all()


def test_many_repetitions_of_one_id_lose_no_digits_in_float32() -> None:
    grad = np.full((100_000, 1), 0.1, np.float32)
    total = scatter_add_rows(np.zeros(100_000, int), grad, 1).item()
    assert total == pytest.approx(100_000 * float(np.float32(0.1)), rel=1e-7)


@pytest.mark.parametrize("ids", [np.zeros(0, int), np.zeros((0, 3), int), np.zeros((2, 0), int), []], ids=repr)
@DTYPES
def test_no_ids_give_no_rows_and_a_gradient_of_zeros(ids: Any, dtype: type) -> None:
    weight = leaf(np.ones((5, 3)), dtype)
    out = F.embedding(weight, ids)
    out.sum().backward()
    assert out.shape == (*np.shape(ids), 3)
    assert out.dtype == dtype
    assert weight.grad.tolist() == np.zeros((5, 3)).tolist()


def test_split_takes_apart_what_concatenate_joins(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 7))
    for cuts in (7, [2, 3], np.array([5]), [0, 7]):
        parts = F.split(x, cuts, axis=1)
        assert [p.shape for p in parts] == [p.shape for p in np.split(x, cuts, axis=1)]
        assert np.array_equal(F.concatenate(parts, axis=1).value, x)


@given(
    arrays_of.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4, min_side=0),
    st.integers(0, 2**32 - 1),
)
def test_gradients_of_broadcast_operands_are_sums_over_the_stretched_axes(shapes: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (leaf(rng.standard_normal(shape)) for shape in shapes.input_shapes)
    cotangent = np.asarray(rng.standard_normal(shapes.result_shape))
    (a * b).backward(cotangent)
    for x, other in ((a, b), (b, a)):
        whole = np.broadcast_to(cotangent * other.value, shapes.result_shape)
        lead = whole.ndim - x.ndim
        stretched = tuple(i for i in range(whole.ndim) if i < lead or x.shape[i - lead] == 1)
        np.testing.assert_allclose(x.grad, whole.sum(axis=stretched).reshape(x.shape), rtol=1e-12, atol=1e-12)


@given(st.data())
def test_any_index_numpy_takes_scatters_the_cotangent_back(data: st.DataObject) -> None:
    shape = data.draw(arrays_of.array_shapes(min_dims=1, max_dims=3, max_side=4))
    index = data.draw(
        arrays_of.basic_indices(shape, allow_newaxis=True)
        | arrays_of.integer_array_indices(shape)
        | arrays_of.arrays(bool, shape)
    )
    x = leaf(np.arange(math.prod(shape), dtype=float).reshape(shape))
    y = x[index]
    assert np.array_equal(y.value, x.value[index])
    cotangent = np.arange(1.0, y.size + 1.0).reshape(y.shape)
    y.backward(cotangent)
    expected = np.zeros(shape)
    np.add.at(expected, index, cotangent)
    assert np.array_equal(x.grad, expected)


def test_dropout_zeroes_the_share_p_and_scales_the_rest(rng: np.random.Generator) -> None:
    out = F.dropout(np.ones((200, 300)), 0.25, rng=rng).value
    assert np.unique(out).tolist() == [0.0, 1.0 / 0.75]
    assert (out == 0.0).mean() == pytest.approx(0.25, abs=0.01)


def test_dropout_passes_the_gradient_through_the_same_entries(rng: np.random.Generator) -> None:
    x = leaf(np.ones(1000))
    y = F.dropout(x, 0.5, rng=rng)
    y.backward(np.full(1000, 3.0))
    assert np.array_equal(x.grad, 3.0 * y.value)


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.5, False)])
def test_dropout_that_drops_nothing_returns_its_input_and_draws_nothing(p: float, training: bool) -> None:
    rng = np.random.default_rng(3)
    before = rng.bit_generator.state
    x = leaf([1.0, 2.0])
    assert F.dropout(x, p, rng=rng, training=training) is x
    assert rng.bit_generator.state == before


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.where(np.ones(3), 1.0, 2.0), TypeError, "condition must be boolean; got float64"),
        (lambda: F.clip(np.ones(3)), ValueError, "at least one of low and high"),
        (lambda: F.gelu(np.ones(3), "erf"), ValueError, 'approximate must be "tanh" or "none"; got \'erf\''),
        (lambda: F.dropout(np.ones(3), 1.0, rng=np.random.default_rng(0)), ValueError, r"p must be in \[0, 1\); got 1"),
        (lambda: F.dropout(np.ones(3), -0.1, rng=np.random.default_rng(0)), ValueError, "got -0.1"),
        (
            lambda: F.linear(np.ones((2, 3)), np.ones((5, 3))),
            ValueError,
            r"got x \(2, 3\) and weight \(5, 3\).*transpose one that is \(out, in\)",
        ),
        (lambda: F.linear(1.0, np.ones((5, 3))), ValueError, r"got x \(\)"),
        (
            lambda: F.linear(np.ones((2, 3)), np.ones((3, 5)), np.ones(3)),
            ValueError,
            r"bias must be \(out,\) = \(5,\); got \(3,\)",
        ),
        (
            lambda: F.layer_norm(np.ones((2, 3)), np.ones(5), np.ones(5)),
            ValueError,
            r"got x \(2, 3\), weight \(5,\), bias \(5,\)",
        ),
        (lambda: F.layer_norm(np.ones((2, 3)), np.ones(3), np.ones(2)), ValueError, r"bias \(2,\)"),
        (
            lambda: F.cross_entropy(np.ones((2, 3)), [0]),
            ValueError,
            r"without the class axis, \(2,\); got \(1,\)",
        ),
        (lambda: F.cross_entropy(1.0, 0), ValueError, "class axis"),
        (lambda: F.cross_entropy(np.ones((2, 3)), [0, 1], reduction="avg"), ValueError, "got 'avg'"),
        (lambda: F.cross_entropy(np.ones((2, 3)), [True, False]), TypeError, "must be integers; got dtype bool"),
        (lambda: F.cross_entropy(np.ones((2, 3)), [0.0, 1.0]), TypeError, "got dtype float64"),
        (
            lambda: F.cross_entropy(np.ones((2, 2, 3)), [[0, 1], [2, 3]]),
            IndexError,
            r"in \[0, 3\) or equal ignore_index=-100; got 3 at position \(1, 1\)",
        ),
        (lambda: F.cross_entropy(np.ones((2, 3)), [0, -1]), IndexError, r"got -1 at position \(1,\)"),
        (lambda: F.cross_entropy(np.ones((2, 3)), [0, -100], ignore_index=1), IndexError, "got -100"),
        (lambda: F.embedding(np.ones(3), [0]), ValueError, r"weight must be \(V, D\); got \(3,\)"),
        (
            lambda: F.embedding(np.ones((5, 2)), [[0, 1], [-1, 9]]),
            IndexError,
            r"in \[0, 5\), that is 0\.\.4; got -1 at position \(1, 0\)",
        ),
        (lambda: F.embedding(np.ones((5, 2)), np.int64(5)), IndexError, r"got 5 at position \(\)"),
        (lambda: F.embedding(np.ones((5, 2)), [np.iinfo(np.int64).min]), IndexError, "got -9223372036854775808"),
        (
            lambda: F.embedding(np.ones((5, 2)), np.array([2**63], np.uint64)),
            IndexError,
            r"got 9223372036854775808 at position \(0,\)",
        ),
        *[
            (lambda ids=ids: F.embedding(np.ones((5, 2)), ids), TypeError, f"must be integers; got dtype {name}")
            for ids, name in [
                (np.ones(5, bool), "bool"),
                ([1.0], "float64"),
                (np.array([]), "float64"),
                (np.array([1], object), "object"),
                (["1"], "<U1"),
            ]
        ],
    ],
)
def test_what_does_not_fit_is_an_error_that_names_it(
    call: Callable[[], Tensor], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
