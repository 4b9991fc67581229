"""Attention at the level of operations: what a query sees, and that what it does not see changes nothing at all."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from autograd_core import Tensor, no_grad
from autograd_core import functional as F

T, K = 13, 8

Triple = tuple[np.ndarray, np.ndarray, np.ndarray]


def triple(rng: np.random.Generator, dtype: type = np.float64, spread: float = 1.0) -> Triple:
    """q, k, v of shape (2, T, K), with scores of about `spread`."""
    q, k, v = (rng.standard_normal((2, T, K)) for _ in range(3))
    return (q * math.sqrt(spread)).astype(dtype), (k * math.sqrt(spread)).astype(dtype), v.astype(dtype)


def attend(arrays: Triple, **kwargs: object) -> np.ndarray:
    return F.scaled_dot_product_attention(*arrays, **kwargs).value


def attention_weights(q: np.ndarray, k: np.ndarray, **kwargs: object) -> np.ndarray:
    """With the identity as values, the output is the weights."""
    return F.scaled_dot_product_attention(q, k, np.eye(k.shape[-2], dtype=q.dtype), **kwargs).value


def gradients(arrays: Triple, cotangent: np.ndarray, **kwargs: object) -> list[np.ndarray]:
    inputs = [Tensor(a.copy(), requires_grad=True) for a in arrays]
    F.scaled_dot_product_attention(*inputs, **kwargs).backward(cotangent)
    return [x.grad for x in inputs]


def test_two_keys_by_hand() -> None:
    # Scores 2 · 1 / √4 = 1 and 0: weights e/(1 + e) and 1/(1 + e).
    q = np.array([[2.0, 0.0, 0.0, 0.0]])
    k = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    expected = [[math.e / (1 + math.e), 1 / (1 + math.e)]]
    np.testing.assert_allclose(attention_weights(q, k), expected, rtol=1e-15)


def test_equal_scores_give_running_means_when_causal() -> None:
    zeros = np.zeros((3, 2))
    v = np.array([[1.0], [3.0], [8.0]])
    assert attend((zeros, zeros, v), causal=True)[:, 0].tolist() == [1.0, 2.0, 4.0]


def test_a_row_whose_keys_are_all_masked_is_zero_with_zero_gradient() -> None:
    zeros, v = np.zeros((1, 3, 2)), np.array([[[1.0], [3.0], [8.0]]])
    mask = np.array([[False, True, True]])
    assert attend((zeros, zeros, v), causal=True, key_mask=mask)[0, :, 0].tolist() == [0.0, 3.0, 5.5]
    only_the_dead_row = np.array([[[1.0], [0.0], [0.0]]])
    for grad in gradients((zeros, zeros, v), only_the_dead_row, causal=True, key_mask=mask):
        assert not grad.any()


def test_a_batch_without_any_real_key_is_zero_with_zero_gradient(rng: np.random.Generator) -> None:
    arrays = triple(rng)
    mask = np.array([[False] * T, [True] * T])
    out = attend(arrays, key_mask=mask)
    assert not out[0].any()
    assert out[1].all()
    for grad in gradients(arrays, rng.standard_normal(out.shape), key_mask=mask):
        assert not grad[0].any()
        assert grad[1].any()


def test_a_causal_mask_is_aligned_at_the_end() -> None:
    rows = attention_weights(np.zeros((2, 3)), np.zeros((5, 3)), causal=True)
    assert rows.tolist() == [[0.25, 0.25, 0.25, 0.25, 0.0], [0.2] * 5]


def test_one_causal_query_sees_every_key() -> None:
    assert attention_weights(np.zeros((1, 3)), np.zeros((5, 3)), causal=True).tolist() == [[0.2] * 5]


def test_causal_queries_before_the_first_key_see_nothing() -> None:
    rows = attention_weights(np.zeros((3, 2)), np.zeros((2, 2)), causal=True)
    assert rows.tolist() == [[0.0, 0.0], [1.0, 0.0], [0.5, 0.5]]


@pytest.mark.parametrize("causal", [False, True])
def test_a_single_position_returns_its_value(causal: bool, rng: np.random.Generator) -> None:
    q, k, v = (rng.standard_normal((1, 5)) for _ in range(3))
    np.testing.assert_allclose(attend((q, k, v), causal=causal), v, rtol=1e-15)


@pytest.mark.parametrize("spread", [1.0, 1e3, 2e10])
def test_weights_above_the_diagonal_are_exactly_zero(spread: float, rng: np.random.Generator) -> None:
    q, k, _ = triple(rng, spread=spread)
    weights = attention_weights(q, k, causal=True)
    assert not np.triu(weights, 1).any()
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-14)


def test_a_mask_without_batch_serves_inputs_without_batch(rng: np.random.Generator) -> None:
    q, k, v = triple(rng)
    mask = np.arange(T) < 9
    np.testing.assert_allclose(
        attend((q[0], k[0], v[0]), key_mask=mask), attend((q[0], k[0, :9], v[0, :9])), rtol=1e-12
    )


def test_padding_is_as_if_the_keys_were_not_there(rng: np.random.Generator) -> None:
    q, k, v = triple(rng)
    mask = np.stack([np.arange(T) < 9, np.arange(T) >= 2])
    out = attend((q, k, v), key_mask=mask)
    np.testing.assert_allclose(out[0], attend((q[0], k[0, :9], v[0, :9])), rtol=1e-12)
    np.testing.assert_allclose(out[1], attend((q[1], k[1, 2:], v[1, 2:])), rtol=1e-12)


SPREADS = pytest.mark.parametrize("spread", [1.0, 100.0, 2e10], ids=["mild", "strong", "2e10"])
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@SPREADS
@DTYPES
@pytest.mark.parametrize("new", [1.0, 1e4, np.nan, np.inf], ids=["ordinary", "large", "nan", "inf"])
def test_future_keys_change_no_bit_of_the_past(
    spread: float, dtype: type, new: float, rng: np.random.Generator
) -> None:
    arrays = triple(rng, dtype, spread)
    before = attend(arrays, causal=True)
    for t in range(T - 1):
        changed = tuple(a.copy() for a in arrays)
        for a in changed:
            a[:, t + 1 :] = rng.standard_normal(a[:, t + 1 :].shape) * new
        assert np.array_equal(attend(changed, causal=True)[:, : t + 1], before[:, : t + 1])


@SPREADS
@DTYPES
@pytest.mark.parametrize("rope", [False, True])
def test_future_positions_change_no_bit_of_the_past_of_self_attention(
    spread: float, dtype: type, rope: bool, rng: np.random.Generator
) -> None:
    angles = rng.uniform(-3.0, 3.0, (T, 4))
    tables = (np.cos(angles), np.sin(angles)) if rope else None
    packed = np.concatenate(triple(rng, dtype, spread), axis=-1).reshape(2, T, 3 * K)
    before = F.self_attention(packed, 1, causal=True, rope=tables).value
    for t in range(T - 1):
        for new in (1.0, 1e4, np.nan):
            changed = packed.copy()
            changed[:, t + 1 :] = rng.standard_normal(changed[:, t + 1 :].shape) * new
            after = F.self_attention(changed, 1, causal=True, rope=tables).value
            assert np.array_equal(after[:, : t + 1], before[:, : t + 1])


@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_a_truncated_sequence_agrees_to_1e_12(spread: float, rng: np.random.Generator) -> None:
    arrays = triple(rng, spread=spread)
    whole = attend(arrays, causal=True)
    for t in range(1, T):
        part = attend(tuple(a[:, :t] for a in arrays), causal=True)
        np.testing.assert_allclose(part, whole[:, :t], rtol=1e-12, atol=1e-12)


@SPREADS
def test_the_gradient_of_a_position_with_respect_to_later_ones_is_exactly_zero(
    spread: float, rng: np.random.Generator
) -> None:
    arrays = triple(rng, spread=spread)
    for t in range(T):
        cotangent = np.zeros((2, T, K))
        cotangent[:, t] = rng.standard_normal((2, K))
        grads = gradients(arrays, cotangent, causal=True)
        assert grads[2][:, : t + 1].any()
        for grad in grads:
            assert not grad[:, t + 1 :].any()


JUNK = pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 1e30], ids=str)


@JUNK
@DTYPES
@pytest.mark.parametrize("places", ["k", "v", "kv"])
@pytest.mark.parametrize("causal", [False, True])
def test_junk_under_a_key_mask_changes_no_bit_of_output_or_gradient(
    junk: float, dtype: type, places: str, causal: bool, rng: np.random.Generator
) -> None:
    arrays = triple(rng, dtype)
    mask = np.ones((2, T), bool)
    mask[0, -4:] = False
    mask[1, :3] = False
    cotangent = rng.standard_normal((2, T, K)).astype(dtype)
    dirty = tuple(a.copy() for a in arrays)
    for name, a in zip("qkv", dirty, strict=True):
        if name in places:
            a[~mask] = junk
    clean_out = attend(arrays, causal=causal, key_mask=mask)
    assert np.array_equal(attend(dirty, causal=causal, key_mask=mask), clean_out)
    clean = gradients(arrays, cotangent, causal=causal, key_mask=mask)
    found = gradients(dirty, cotangent, causal=causal, key_mask=mask)
    for grad, expected in zip(found, clean, strict=True):
        assert np.array_equal(grad, expected)


@JUNK
def test_junk_in_padded_positions_of_self_attention_stays_there(junk: float, rng: np.random.Generator) -> None:
    packed = rng.standard_normal((2, T, 6 * K))
    mask = np.arange(T) < np.array([[T], [T - 4]])
    cotangent = np.where(mask[..., None], rng.standard_normal((2, T, 2 * K)), 0.0)  # nothing depends on padding
    dirty = np.where(mask[..., None], packed, junk)
    runs = []
    for qkv in (packed, dirty):
        x = Tensor(qkv, requires_grad=True)
        with np.errstate(invalid="ignore", over="ignore"):
            out = F.self_attention(x, 2, causal=True, key_mask=mask)
            out.backward(cotangent)
        runs.append((out.value[mask], x.grad))
    assert np.array_equal(runs[0][0], runs[1][0])
    assert np.array_equal(runs[0][1], runs[1][1])


def test_a_nan_that_is_seen_is_not_hidden(rng: np.random.Generator) -> None:
    for place in (1, 2):
        arrays = triple(rng)
        arrays[place][0, 5] = np.nan
        out = attend(arrays, causal=True)
        assert np.isfinite(out[0, :5]).all()
        assert np.isnan(out[0, 5:]).all()
        assert np.isfinite(out[1]).all()


@pytest.mark.parametrize("place", [1, 2], ids=["key", "value"])
def test_a_nan_that_is_seen_leaves_the_gradient_of_masked_keys_zero(place: int, rng: np.random.Generator) -> None:
    arrays = triple(rng)
    arrays[place][0, 5] = np.nan
    mask = np.ones((2, T), bool)
    mask[0, -4:] = False
    grads = gradients(arrays, rng.standard_normal((2, T, K)), causal=True, key_mask=mask)
    for grad in grads[1:]:
        assert not grad[0, -4:].any()
        assert np.isfinite(grad[1]).all()
    assert np.isnan(grads[1][0, 3]).any()
    assert np.isfinite(grads[0][0, :5]).all()


def test_an_infinite_value_reaches_only_its_own_column(rng: np.random.Generator) -> None:
    q, k, v = triple(rng)
    v[0, 5, 3] = np.inf
    out = attend((q, k, v), causal=True)
    assert np.isposinf(out[0, 5:, 3]).all()
    assert np.isfinite(np.delete(out, 3, axis=-1)).all()


@pytest.mark.parametrize(("dtype", "edge"), [(np.float32, 60.0), (np.float64, 500.0)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rows_on_both_sides_of_the_shortcut_are_softmaxes(dtype: type, edge: float, sign: float) -> None:
    tops = np.array([0.5, 0.99, 1.01, 2.0, 1e4]) * edge * sign
    q = tops[:, None].astype(dtype)
    k = np.array([[1.0], [0.999], [0.998]], dtype)
    scores = (q @ k.T).astype(np.float64)
    expected = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected /= expected.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(
        attention_weights(q, k), expected, rtol=1e-12 if dtype is np.float64 else 1e-5, atol=1e-30
    )


@DTYPES
def test_scores_of_2e10_choose_the_largest(dtype: type) -> None:
    q = np.array([[2e10], [-2e10]], dtype)
    k = np.array([[1.0], [-1.0], [0.5]], dtype)
    assert attention_weights(q, k).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def test_angles_of_zero_turn_nothing(rng: np.random.Generator) -> None:
    packed = rng.standard_normal((2, T, 6 * K))
    tables = np.ones((T, K // 2)), np.zeros((T, K // 2))
    np.testing.assert_array_equal(F.self_attention(packed, 2, rope=tables).value, F.self_attention(packed, 2).value)


def test_a_rotation_common_to_all_positions_changes_nothing(rng: np.random.Generator) -> None:
    packed = rng.standard_normal((T, 3 * K))
    steps = np.arange(T)[:, None] * np.array([1.0, 0.1, 0.01, 0.001])
    outs = [
        F.self_attention(packed, 1, causal=True, rope=(np.cos(steps + start), np.sin(steps + start))).value
        for start in (0.0, 17.0)
    ]
    np.testing.assert_allclose(outs[0], outs[1], rtol=1e-10, atol=1e-12)
    assert not np.allclose(outs[0], F.self_attention(packed, 1, causal=True).value)


def test_a_rotation_by_hand() -> None:
    # Width 2, one plane: the query at position 1 turned by 90° meets the unturned key of position 0.
    q, k = [[5.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]
    v = [[1.0, 0.0], [0.0, 1.0]]
    packed = np.concatenate([q, k, v], axis=-1)
    out = F.self_attention(packed, 1, causal=True, rope=(np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]]))).value
    strong = math.exp(1 / math.sqrt(2.0))
    np.testing.assert_allclose(out[1], [strong / (strong + 1), 1 / (strong + 1)], rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: F.scaled_dot_product_attention(np.ones((3, 5)), np.ones((3, 4)), np.ones((3, 5))),
            ValueError,
            r"must agree in K and Tk; got q \(3, 5\), k \(3, 4\), v \(3, 5\)",
        ),
        (
            lambda: F.scaled_dot_product_attention(np.ones((3, 5)), np.ones((2, 5)), np.ones((3, 5))),
            ValueError,
            r"k \(2, 5\), v \(3, 5\)",
        ),
        (lambda: F.scaled_dot_product_attention(np.ones(5), np.ones(5), np.ones(5)), ValueError, r"got q \(5,\)"),
        (
            lambda: F.scaled_dot_product_attention(*[np.ones((2, 3, 5))] * 3, key_mask=np.ones((2, 3))),
            TypeError,
            "key_mask must be boolean, True where the key is real; got float64",
        ),
        (
            lambda: F.scaled_dot_product_attention(*[np.ones((2, 3, 5))] * 3, key_mask=np.ones((2, 4), bool)),
            ValueError,
            r"\(B, Tk\) = \(2, 3\), matching the keys; got \(2, 4\)",
        ),
        (
            lambda: F.scaled_dot_product_attention(*[np.ones((2, 3, 5))] * 3, key_mask=np.ones((5, 3), bool)),
            ValueError,
            r"got \(5, 3\)",
        ),
        (lambda: F.self_attention(np.ones((3, 10)), 1), ValueError, r"got \(3, 10\) and n_heads=1"),
        (lambda: F.self_attention(np.ones((3, 12)), 3), ValueError, "D divisible by n_heads; got .* n_heads=3"),
        (lambda: F.self_attention(np.ones((3, 12)), 0), ValueError, "n_heads=0"),
        (lambda: F.self_attention(np.ones(12), 1), ValueError, r"must be \(T, 3D\) or \(B, T, 3D\)"),
        (lambda: F.self_attention(np.ones((3, 12)), 1, key_mask=np.ones(4, bool)), ValueError, r"got \(1, 4\)"),
        (
            lambda: F.self_attention(np.ones((3, 12)), 1, rope=(np.ones((1, 2)), np.ones((1, 2)))),
            ValueError,
            r"cos and sin \(T, K/2\) = \(3, 2\) or \(B, T, K/2\); got head width 4, cos \(1, 2\)",
        ),
        (
            lambda: F.self_attention(np.ones((3, 12)), 1, rope=(np.ones((3, 2)), np.ones((3, 1)))),
            ValueError,
            r"sin \(3, 1\)",
        ),
        (
            lambda: F.self_attention(np.ones((3, 9)), 1, rope=(np.ones((3, 1)), np.ones((3, 1)))),
            ValueError,
            "even head width.* got head width 3",
        ),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_it(
    call: Callable[[], Tensor], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


HIDDEN = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-40, 0.0]


@pytest.mark.parametrize("junk", HIDDEN)
@pytest.mark.parametrize("places", ["k", "v", "kv"])
@pytest.mark.parametrize("spread", [1.0, 1e4])
def test_what_no_query_sees_changes_no_bit_of_any_gradient(
    junk: float, places: str, spread: float, rng: np.random.Generator
) -> None:
    # Also where the masked score or product overflows, or is inf against a zero weight.
    q, k, v = triple(rng, np.float32, spread)
    mask = np.ones((2, T), bool)
    mask[:, [3, 7]] = False
    cotangent = rng.standard_normal((2, T, K)).astype(np.float32)
    expected = gradients((q, k, v), cotangent, causal=True, key_mask=mask)
    for name, array in (("k", k), ("v", v)):
        if name in places:
            array[:, [3, 7]] = junk
    for got, wanted in zip(gradients((q, k, v), cotangent, causal=True, key_mask=mask), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_hidden_infinite_key_by_hand() -> None:
    q, k, v = np.array([[-1.0], [-1.0]]), np.array([[1.0], [np.inf]]), np.array([[1.0], [2.0]])
    grad_q, grad_k, grad_v = gradients((q, k, v), np.ones((2, 1)), key_mask=np.array([True, False]))
    np.testing.assert_array_equal(grad_q, 0.0)
    np.testing.assert_array_equal(grad_k, 0.0)
    np.testing.assert_array_equal(grad_v, [[2.0], [0.0]])


@pytest.mark.parametrize("spoilt", ["query", "overflow"])
def test_rows_on_which_nothing_depends_leave_the_gradients_of_earlier_ones(
    spoilt: str, rng: np.random.Generator
) -> None:
    q, k, v = triple(rng, np.float32)
    cotangent = rng.standard_normal((2, T, K)).astype(np.float32)
    cotangent[:, 8:] = 0.0
    expected = gradients((q, k, v), cotangent, causal=True)
    if spoilt == "query":
        q[:, 9] = np.nan
    else:
        q[:, 8:] *= 3e19
        k[:, 8:] *= 3e19
    for got, wanted in zip(gradients((q, k, v), cotangent, causal=True), expected, strict=True):
        np.testing.assert_array_equal(got[:, :8], wanted[:, :8])
        np.testing.assert_array_equal(got[:, 8:], 0.0)


def test_a_visible_infinity_beside_a_hidden_one_stays_what_it_is() -> None:
    q = k = np.zeros((2, 1))
    for hidden in (5.0, np.nan, np.inf, -np.inf):
        out = attend((q, k, np.array([[np.inf], [hidden]])), causal=True)
        assert out[0, 0] == np.inf
    assert attend((q, k, np.array([[-np.inf], [5.0]])), causal=True)[0, 0] == -np.inf
    assert np.isnan(attend((q, k, np.array([[np.inf], [-np.inf]])), causal=True)[1, 0])


def test_scores_that_are_in_range_once_scaled() -> None:
    q = np.full((1, 64), 2.5e18, np.float32)
    np.testing.assert_array_equal(attend((q, q, np.array([[3.0]], np.float32))), [[3.0]])


def test_one_visible_key_is_returned_to_the_bit(rng: np.random.Generator) -> None:
    q, k, v = triple(rng, np.float32)
    np.testing.assert_array_equal(attend((q, k, v), causal=True)[:, 0], v[:, 0])


def test_a_key_mask_is_by_the_batch_of_q_and_k() -> None:
    v = np.ones((3, 6, 2))
    with pytest.raises(ValueError, match=r"key_mask must be .* got \(3, 6\)"):
        attend((np.ones((3, 5)), np.ones((6, 5)), v), key_mask=np.ones((3, 6), bool))


def test_heads_without_width_are_refused() -> None:
    with pytest.raises(ValueError, match="K, the width of q and k, must be at least 1"):
        attend((np.ones((2, 0)), np.ones((2, 0)), np.ones((2, 3))))
    with pytest.raises(ValueError, match="self_attention: qkv must be"):
        F.self_attention(np.ones((2, 0)), 1)


@pytest.mark.parametrize("junk", [1.0, np.nan, np.inf])
def test_recording_changes_no_bit(junk: float, rng: np.random.Generator) -> None:
    q, k, v = triple(rng, np.float32)
    k[:, 5] = junk
    recorded = F.scaled_dot_product_attention(*(Tensor(a, requires_grad=True) for a in (q, k, v)), causal=True).value
    with no_grad():
        np.testing.assert_array_equal(attend((q, k, v), causal=True), recorded)
