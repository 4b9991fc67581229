"""The embedding lab's properties, and where comparable tools went wrong: ids, duplicates, dtypes, empty batches."""

import re
from pathlib import Path

import numpy as np
import pytest
from autograd_core import Module, Parameter, Tensor, no_grad
from autograd_core import functional as F
from autograd_core.optim import SGD, AdamW
from autograd_core.testing import check_vjp
from minimodel.embedding import Embedding, gather_backward

DATA = Path(__file__).parent / "data"
INTEGER_DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


# The six of the lab.


def test_output_has_the_shape_of_the_ids_and_one_axis_more():
    y = Embedding(64, 32)(np.array([1, 2, 3]))
    assert isinstance(y, Tensor)
    assert y.shape == (3, 32)


def test_lookup_returns_the_row(rng):
    table = Embedding(7, 5, rng=rng)
    for i in range(7):
        assert np.array_equal(table(np.array([i])).value, table.E.value[i : i + 1])


def test_id_beyond_the_table_raises():
    with pytest.raises(IndexError, match="100"):
        Embedding(64, 32)(np.array([100]))


def test_gradient_is_non_zero_in_exactly_the_rows_of_the_ids(rng):
    table = Embedding(64, 32, rng=rng)
    ids = np.array([[3, 17], [60, 3]])
    table(ids).sum().backward()
    assert table.E.grad is not None
    assert table.E.grad.shape == (64, 32)
    touched = np.flatnonzero(np.abs(table.E.grad).sum(axis=1))
    assert touched.tolist() == [3, 17, 60]


def test_gradient_of_a_duplicate_id_is_the_sum(rng):
    table = Embedding(64, 32, rng=rng)
    table(np.array([3, 3])).backward(np.ones((2, 32)))
    assert table.E.grad is not None
    assert np.array_equal(table.E.grad[3], np.full(32, 2.0))
    assert np.count_nonzero(table.E.grad) == 32


def test_save_and_load_after_training_are_bit_equal(rng, tmp_path):
    table = Embedding(11, 5, rng=rng)
    before = table.E.value.copy()
    optimizer = SGD(table.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (table(np.array([0, 4, 4, 10])) ** 2).sum().backward()
        optimizer.step()
    assert not np.array_equal(table.E.value, before)

    table.save(tmp_path / "table")
    loaded = Embedding.load(tmp_path / "table")

    assert isinstance(loaded.E, Parameter)
    assert loaded.E.value.dtype == table.E.value.dtype
    assert loaded.E.value.tobytes() == table.E.value.tobytes()


# Gradients.


@pytest.mark.parametrize("case", ["embedding", "embedding_1d", "embedding_all_same"])
def test_agrees_with_reference(case):
    with np.load(DATA / "embedding.npz") as data:
        weight, ids = data[f"{case}.in.weight"], data[f"{case}.in.ids"]
        expected, cotangent, gradient = data[f"{case}.out"], data[f"{case}.gout"], data[f"{case}.grad.weight"]
    table = Embedding(*weight.shape)
    table.E.value = weight
    y = table(ids)
    y.backward(cotangent)
    np.testing.assert_array_equal(y.value, expected)
    np.testing.assert_allclose(table.E.grad, gradient, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("ids", "expected"), [([1, 1, 0, 1], [1, 3]), ([[0, 1, 1], [1, 0, 0]], [3, 3])])
def test_duplicates_within_and_across_rows_add_up(ids, expected):
    table = Embedding(2, 1)
    table(np.array(ids)).sum().backward()
    assert table.E.grad is not None
    assert table.E.grad[:, 0].tolist() == expected


def test_gradient_equals_the_readable_oracle(rng):
    for shape in [(13,), (5, 7), (2, 3, 5), ()]:
        table = Embedding(11, 3, rng=rng)
        ids = rng.integers(0, 11, size=shape)
        cotangent = rng.standard_normal((*shape, 3))
        table(ids).backward(cotangent)
        np.testing.assert_allclose(table.E.grad, gather_backward(cotangent, ids, (11, 3)), rtol=1e-13, atol=1e-14)


def test_gradient_agrees_with_finite_differences(rng):
    ids = np.array([[0, 4, 4], [2, 0, 4]])
    check_vjp(lambda weight: F.embedding(weight, ids), rng.standard_normal((5, 3)), rng=rng)


@pytest.mark.parametrize("rows", [100_000, 8_192])
def test_float32_gradient_is_accurate_over_many_duplicates(rng, rows):
    table = Embedding(3, 2, rng=rng, dtype=np.float32)
    ids = rng.choice(3, size=rows, p=[0.9, 0.1, 0.0])
    cotangent = rng.standard_normal((rows, 2)).astype(np.float32) + np.float32(0.5)
    table(ids).backward(cotangent)
    exact = gather_backward(cotangent.astype(np.float64), ids, (3, 2))
    magnitudes = gather_backward(np.abs(cotangent).astype(np.float64), ids, (3, 2))
    assert table.E.grad is not None
    assert (np.abs(table.E.grad - exact) <= 2e-6 * magnitudes).all()


def test_oracle_adds_where_assignment_would_overwrite():
    grad = gather_backward(np.array([[1.0, 2.0], [4.0, 5.0]]), np.array([3, 3]), (5, 2))
    assert grad[3].tolist() == [5.0, 7.0]
    assert np.count_nonzero(grad) == 2


def test_oracle_refuses_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"got upstream_grad \(2, 3\), ids \(2,\), table \(5, 2\)"):
        gather_backward(np.ones((2, 3)), np.array([3, 3]), (5, 2))


def test_two_uses_in_one_graph_add_up(rng):
    table = Embedding(5, 2, rng=rng)
    (table(np.array([1])) * 3.0 + table(np.array([1])) * 4.0).sum().backward()
    assert table.E.grad is not None
    assert table.E.grad[1].tolist() == [7.0, 7.0]


def test_tied_table_gets_the_sum_of_lookup_and_head():
    table = Embedding(3, 2)
    table.E.value = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    hidden = table(np.array([0, 2]))
    loss = (hidden @ table.E.T).sum()
    loss.backward()
    assert loss.item() == 150.0
    assert table.E.grad is not None
    assert table.E.grad.tolist() == [[15.0, 20.0], [6.0, 8.0], [15.0, 20.0]]


def test_without_gradients_nothing_is_recorded(rng):
    table = Embedding(5, 2, rng=rng)
    with no_grad():
        y = table(np.array([1, 2]))
    assert not y.requires_grad


def test_changing_the_output_leaves_the_table_alone(rng):
    table = Embedding(5, 2, rng=rng)
    before = table.E.value.copy()
    for ids in ([1, 2], [3], 4):
        table(np.array(ids)).value[...] = 99.0
    assert np.array_equal(table.E.value, before)


# Ids.


@pytest.mark.parametrize(
    ("ids", "bad", "position"),
    [
        ([0, -1], "-1", "(1,)"),
        ([[0, 1], [5, 7]], "5", "(1, 0)"),
        ([0, np.iinfo(np.int64).min], str(np.iinfo(np.int64).min), "(1,)"),
        (-2, "-2", "()"),
    ],
)
def test_out_of_range_id_names_id_position_and_range(ids, bad, position):
    with pytest.raises(IndexError) as error:
        Embedding(5, 3)(np.array(ids))
    message = str(error.value)
    assert bad in message
    assert position in message
    assert "5" in message.replace(bad, "", 1) or "4" in message


def test_huge_unsigned_id_is_reported_as_it_is():
    with pytest.raises(IndexError, match="9223372036854775808"):
        Embedding(5, 3)(np.array([1, 2**63], dtype=np.uint64))


@pytest.mark.parametrize(
    "ids",
    [
        np.array([True, False, True, False, True]),
        np.array([1.0]),
        np.array([]),
        np.array([1, None], dtype=object),
        np.array(["1"]),
        [1.5],
        [True],
    ],
    ids=["bool", "float", "empty float", "object", "text", "float list", "bool list"],
)
def test_non_integer_ids_are_refused(ids):
    with pytest.raises(TypeError, match=r"(?i)int.*(bool|float64|object|<?U1)|(bool|float64|object|<?U1).*int"):
        Embedding(5, 3)(ids)


@pytest.mark.parametrize(
    ("ids", "bad", "position"),
    [
        ([2**70], 2**70, "(0,)"),
        ([[1, 2], [3, -(2**70)]], -(2**70), "(1, 1)"),
        ([2**63, -1], 2**63, "(0,)"),  # which NumPy makes floats of
        ([1, -1, 2**63], -1, "(1,)"),
        (2**70, 2**70, "()"),
        (np.array([0, 2**70], dtype=object), 2**70, "(1,)"),
        (np.array([[0], [-1]], dtype=object), -1, "(1, 0)"),
    ],
    ids=repr,
)
def test_ids_beyond_64_bits_are_out_of_range_like_any_other(ids, bad, position):
    with pytest.raises(IndexError, match=re.escape(f"ids must be in [0, 5); got {bad} at position {position}. ")):
        Embedding(5, 3)(ids)


@pytest.mark.parametrize("ids", [[True, 2**70], [1.5, 2**70], [None, 2**70], [1.0, -1]], ids=repr)
def test_a_huge_id_among_others_that_are_none_is_a_wrong_type(ids):
    with pytest.raises(TypeError, match="ids: must be integers; got dtype"):
        Embedding(5, 3)(ids)


@pytest.mark.parametrize(
    ("ids", "came"),
    [
        ([[1, 2], [3]], "one of length 2 and one of length 1"),
        ([[[1, 2], [3, 4]], [[1, 2], []]], "one of length 2 and one of length 0"),
        (([1], (2, 3)), "one of length 1 and one of length 2"),
        ([[1], 2], "one of length 1 and a single value"),
        ([1, [2]], "a single value and one of length 1"),
        ([np.array([1, 2]), np.array([3])], "one of length 2 and one of length 1"),
    ],
    ids=repr,
)
def test_rows_of_different_length_are_refused(ids, came):
    with pytest.raises(
        ValueError, match=rf"Embedding: the rows of ids must be equally long; got {came}\. Pad"
    ) as error:
        Embedding(5, 3)(ids)
    assert "inhomogeneous" not in str(error.value)


def test_lists_too_deep_for_an_array_are_refused():
    ids = [1]
    for _ in range(70):
        ids = [ids]
    with pytest.raises(ValueError, match="Embedding: ids must be an array or nested lists that make one; got list"):
        Embedding(5, 3)(ids)


@pytest.mark.parametrize("dtype", INTEGER_DTYPES)
def test_every_integer_dtype_gives_the_same_rows(rng, dtype):
    table = Embedding(5, 3, rng=rng)
    y = table(np.array([[4, 0], [2, 4]], dtype=dtype))
    assert np.array_equal(y.value, table.E.value[[[4, 0], [2, 4]]])
    y.backward(np.ones(y.shape))
    assert table.E.grad is not None
    assert table.E.grad[:, 0].tolist() == [1, 0, 1, 0, 2]


@pytest.mark.parametrize("ids", [[[4, 0], [2, 4]], range(5), (1, 2), 3, Tensor(np.array([4, 0]))], ids=repr)
def test_lists_ranges_single_ids_and_integer_tensors_are_ids(rng, ids):
    table = Embedding(5, 3, rng=rng)
    plain = ids.value if isinstance(ids, Tensor) else np.array(ids)
    assert np.array_equal(table(ids).value, table.E.value[plain])


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 0), (2, 3, 5, 7)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ids_of_any_shape(rng, shape, dtype):
    table = Embedding(5, 3, rng=rng, dtype=dtype)
    y = table(rng.integers(0, 5, size=shape))
    assert y.shape == (*shape, 3)
    assert y.dtype == dtype
    y.sum().backward()
    assert table.E.grad is not None
    assert table.E.grad.shape == (5, 3)
    assert table.E.grad.sum() == 3 * np.prod(shape)


def test_empty_list_is_no_ids():
    assert Embedding(5, 3)([]).shape == (0, 3)


def test_non_contiguous_ids(rng):
    table = Embedding(5, 3, rng=rng)
    ids = np.array([[0, 1, 2], [3, 4, 0]])
    assert np.array_equal(table(ids.T[::-1]).value, table.E.value[ids.T[::-1]])


# The module.


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dtype_is_kept(rng, dtype):
    table = Embedding(5, 3, rng=rng, dtype=dtype)
    y = table(np.array([1, 1]))
    (y * 0.5).sum().backward()
    assert table.E.grad is not None
    assert table.E.value.dtype == y.dtype == table.E.grad.dtype == dtype


@pytest.mark.parametrize("dtype", [np.int64, np.float16, "complex128", ">f8"])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(TypeError, match="dtype must be float64 or float32; got"):
        Embedding(5, 3, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float13", 3, [1]])
def test_what_is_no_dtype_is_refused(dtype):
    with pytest.raises(TypeError, match="dtype must be float64 or float32; got"):
        Embedding(5, 3, dtype=dtype)


@pytest.mark.parametrize("scale", ["0.02", None, True, 1j, np.ones(2)], ids=repr)
def test_init_scale_that_is_no_number_is_refused(scale):
    with pytest.raises(TypeError, match="init_scale must be a number; got"):
        Embedding(5, 3, scale)


@pytest.mark.parametrize(("sizes", "name"), [((0, 3), "num_embeddings"), ((5, 0), "embedding_dim"), ((-1, 3), "num_")])
def test_sizes_below_one_are_refused(sizes, name):
    with pytest.raises(ValueError, match=f"{name}.* must be at least 1; got {min(sizes)}"):
        Embedding(*sizes)


@pytest.mark.parametrize("size", [2.0, True, "3"])
def test_sizes_that_are_no_integers_are_refused(size):
    with pytest.raises(TypeError, match="embedding_dim must be an integer; got"):
        Embedding(5, size)


@pytest.mark.parametrize("scale", [-0.1, float("nan"), float("inf")])
def test_impossible_init_scale_is_refused(scale):
    with pytest.raises(ValueError, match="init_scale must be finite and not negative; got"):
        Embedding(5, 3, scale)


def test_padding_idx_is_refused_with_the_alternative():
    with pytest.raises(TypeError, match=r"no padding_idx.*ignore_index"):
        Embedding(5, 3, padding_idx=0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'scale'"):
        Embedding(5, 3, scale=0)  # type: ignore[arg-type]


def test_initial_values_follow_scale_and_seed():
    table = Embedding(101, 103, 0.3, rng=np.random.default_rng(5))
    assert abs(table.E.value.std() - 0.3) < 0.01
    assert abs(table.E.value.mean()) < 0.01
    assert np.array_equal(table.E.value, Embedding(101, 103, 0.3, rng=np.random.default_rng(5)).E.value)
    assert not np.array_equal(table.E.value, Embedding(101, 103, 0.3).E.value)
    assert not Embedding(5, 3, 0.0).E.value.any()


@pytest.mark.parametrize(
    ("rng", "came"),
    [
        (0, r"int 0\. Pass np\.random\.default_rng\(0\)\."),
        (np.int64(7), r"int64 7\. Pass np\.random\.default_rng\(7\)\."),
        (np.random.RandomState(0), r"RandomState\. Pass np\.random\.default_rng\(seed\)\."),
        (np, r"module\. Pass np\.random\.default_rng\(seed\)\."),
        (True, r"bool\. Pass np\.random\.default_rng\(seed\)\."),
    ],
    ids=["int", "int64", "RandomState", "module", "bool"],
)
def test_what_is_no_generator_is_refused(rng, came):
    with pytest.raises(TypeError, match=r"^Embedding: rng must be a numpy\.random\.Generator; got " + came):
        Embedding(5, 3, rng=rng)


def test_is_a_module_with_one_parameter(rng):
    table = Embedding(5, 3, rng=rng)
    assert isinstance(table, Module)
    assert [name for name, _ in table.named_parameters()] == ["E"]
    assert (table.num_embeddings, table.embedding_dim) == (5, 3)


def test_rows_that_were_not_looked_up_stay_where_they_are(rng):
    table = Embedding(5, 3, rng=rng)
    before = table.E.value.copy()
    optimizer = AdamW(table.parameters(), lr=0.1, weight_decay=0.0)
    (table(np.array([1])) ** 2).sum().backward()
    optimizer.step()
    assert np.flatnonzero((table.E.value != before).any(axis=1)).tolist() == [1]
