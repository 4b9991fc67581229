"""The sum of rows by id against `np.add.at` in float64: each way to compute it, each regime of vocabulary and batch."""

import numpy as np
import pytest
from autograd_core import Parameter, Tensor
from autograd_core import functional as F
from autograd_core.ops import scatter_add
from autograd_core.ops.scatter_add import scatter_add_rows
from hypothesis import given
from hypothesis import strategies as st

# Rows of the table, rows of the batch, width: on both sides of each limit between two ways of computing it.
REGIMES = {
    "no rows": (7, 0, 3),
    "no width": (7, 5, 0),
    "one row": (7, 1, 3),
    "a handful": (7, 11, 3),
    "narrow": (7, 211, 1),
    "small vocabulary": (61, 223, 67),
    "one id": (1, 223, 67),
    "small vocabulary, many rows": (61, 8191, 37),
    "one id, many rows": (1, 8191, 37),
    "many narrow rows": (61, 8191, 5),
    "large vocabulary, few rows": (5003, 31, 67),
    "large vocabulary, small batch": (5003, 223, 67),
    "large vocabulary": (5003, 2039, 127),
    "most rows unused": (50021, 401, 97),
}
ACCURACY = {np.float32: 1.9e-6, np.float64: 2e-14}  # times the sum of magnitudes

regimes = pytest.mark.parametrize(("rows", "n", "width"), REGIMES.values(), ids=REGIMES)
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])


def defined_sum(ids: np.ndarray, grad: np.ndarray, rows: int) -> np.ndarray:
    out = np.zeros((rows, grad.shape[1]))
    np.add.at(out, ids, grad.astype(np.float64))
    return out


def check(ids: np.ndarray, grad: np.ndarray, rows: int) -> None:
    ids.flags.writeable = grad.flags.writeable = False
    out = scatter_add_rows(ids, grad, rows)
    assert out.dtype == grad.dtype
    assert out.shape == (rows, grad.shape[1])
    magnitudes = defined_sum(ids, np.abs(grad), rows)
    assert (np.abs(out - defined_sum(ids, grad, rows)) <= ACCURACY[grad.dtype.type] * magnitudes).all()


@regimes
@dtypes
@pytest.mark.parametrize("skew", ["even", "skewed"])
def test_the_sum_is_the_one_that_add_at_defines(
    rows: int, n: int, width: int, skew: str, dtype: type, rng: np.random.Generator
) -> None:
    ids = rng.integers(0, rows, n)
    if skew == "skewed":  # as words are: few ids make up half of a text
        ids = np.minimum(rng.zipf(1.3, n), rows) - 1
    check(ids, rng.standard_normal((n, width)).astype(dtype), rows)


@dtypes
@pytest.mark.parametrize("count", [31, 32, 33, 64, 65, 1023, 1024, 1025, 32_769])
def test_runs_of_one_id_of_every_length_among_others(count: int, dtype: type, rng: np.random.Generator) -> None:
    rest = max(0, 3001 - count)
    ids = rng.permutation(np.concatenate([np.full(count, 2), rng.integers(3, 1009, rest), np.zeros(2, int)]))
    check(ids, rng.standard_normal((len(ids), 37)).astype(dtype), 1013)


@pytest.mark.parametrize("width", [1, 3, 64])
@pytest.mark.parametrize("values", ["equal", "mixed", "one sign"])
def test_a_hundred_thousand_float32_duplicates_give_the_float64_sum(
    width: int, values: str, rng: np.random.Generator
) -> None:
    grad = {
        "equal": lambda: np.full((100_000, width), 0.1),
        "mixed": lambda: rng.standard_normal((100_000, width)),
        "one sign": lambda: rng.random((100_000, width)),
    }[values]().astype(np.float32)
    table = Parameter(np.zeros((5, width), np.float32))
    F.embedding(table, np.full(100_000, 3)).backward(grad)
    exact = grad.sum(axis=0, dtype=np.float64)
    assert table.grad is not None
    # Of the sum itself, not of the magnitudes: cancellation must not show either.
    np.testing.assert_allclose(table.grad[3], exact, rtol=1e-7)
    assert not table.grad[[0, 1, 2, 4]].any()


@pytest.mark.parametrize("rows", [61, 5003])
@pytest.mark.parametrize("n", [33, 223, 2039])
def test_more_than_32_float32_rows_of_one_id_are_rounded_once(rows: int, n: int, rng: np.random.Generator) -> None:
    ids = rng.permutation(np.concatenate([np.full(n, 7), [0, 60]]))
    grad = rng.random((n + 2, 127)).astype(np.float32)
    expected = grad[ids == 7].sum(axis=0, dtype=np.float64)
    np.testing.assert_allclose(scatter_add_rows(ids, grad, rows)[7], expected, rtol=6e-8)


@dtypes
def test_short_runs_are_bit_equal_to_add_at(dtype: type, rng: np.random.Generator) -> None:
    ids = rng.permutation(np.repeat(np.arange(211), rng.integers(1, 33, 211)))
    grad = rng.standard_normal((len(ids), 101)).astype(dtype)
    expected = np.zeros((223, 101), dtype)
    np.add.at(expected, ids, grad)
    assert np.array_equal(scatter_add_rows(ids, grad, 223), expected)


@pytest.mark.parametrize("n", [13, 223, 2039])
def test_a_non_finite_row_spoils_no_other(n: int, rng: np.random.Generator) -> None:
    ids = rng.integers(0, 61, n)
    ids[:3] = 5, 7, 7
    grad = rng.standard_normal((n, 67)).astype(np.float32)
    grad[0], grad[1] = np.inf, np.nan
    spoilt = ~np.isfinite(scatter_add_rows(ids, grad, 61)).all(axis=1)
    assert np.flatnonzero(spoilt).tolist() == [5, 7]


@regimes
@dtypes
def test_the_same_input_gives_the_same_bits(
    rows: int, n: int, width: int, dtype: type, rng: np.random.Generator
) -> None:
    ids, grad = rng.integers(0, rows, n), rng.standard_normal((n, width)).astype(dtype)
    assert scatter_add_rows(ids, grad, rows).tobytes() == scatter_add_rows(ids.copy(), grad.copy(), rows).tobytes()


def test_cotangents_of_any_memory_order_are_read_right(rng: np.random.Generator) -> None:
    for n, width in ((13, 5), (223, 67), (2039, 127)):
        ids = rng.integers(0, 61, (2 * n,))[::2]
        for grad in (rng.standard_normal((width, n)).T, np.broadcast_to(rng.standard_normal(width), (n, width))):
            np.testing.assert_allclose(
                scatter_add_rows(ids, grad, 61), defined_sum(ids, grad, 61), rtol=1e-12, atol=1e-12
            )


def test_ids_of_several_axes_are_rows_of_one_batch(rng: np.random.Generator) -> None:
    ids, grad = rng.integers(0, 257, (5, 7, 61)), rng.standard_normal((5, 7, 61, 31))
    table = Tensor(np.zeros((257, 31)), requires_grad=True)
    F.embedding(table, ids).backward(grad)
    assert table.grad is not None
    np.testing.assert_allclose(
        table.grad, defined_sum(ids.reshape(-1), grad.reshape(-1, 31), 257), rtol=1e-12, atol=1e-12
    )


@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]), sort=st.booleans())
def test_both_ways_agree_on_any_ids(data: st.DataObject, dtype: type, sort: bool) -> None:
    rows, width = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 3))
    ids = np.array(data.draw(st.lists(st.integers(0, rows - 1), max_size=200)), int)
    grad = np.random.default_rng(len(ids)).standard_normal((len(ids), width)).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        # Small inputs are quick to shrink: the limits move instead, so that they take the ways of large ones.
        patch.setattr(scatter_add, "_TOO_FEW_TO_SORT", 0 if sort else 1 << 30)
        patch.setattr(scatter_add, "_WIDE_ENOUGH_TO_SORT", 1)
        patch.setattr(scatter_add, "_TOO_FEW_TO_INDEX", 0)
        patch.setattr(scatter_add, "_SHORT", data.draw(st.integers(2, 32)))
        check(ids, grad, rows)
