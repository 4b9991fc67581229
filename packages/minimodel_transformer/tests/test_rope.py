"""Rotary tables, and what the rotation does to attention: only distances matter."""

import numpy as np
import pytest
from autograd_core import functional as F
from minimodel.transformer import MultiHeadAttention
from minimodel.transformer.rope import RotaryCache, rotary_tables, rotated


def complex_rotation(x, positions):
    """RoPE on (T, K) as the paper has it: entries i and i + K/2 as one complex number, multiplied by e^(iθ)."""
    half = x.shape[-1] // 2
    theta = 10000.0 ** (-np.arange(half) / half)
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * positions[:, None] * theta)
    return np.concatenate([z.real, z.imag], axis=-1)


def test_tables_by_hand():
    cos, sin = rotary_tables(np.array([0, 1, 100]), 4)
    np.testing.assert_allclose(cos, np.cos([[0, 0], [1, 0.01], [100, 1]]), rtol=1e-13)
    np.testing.assert_allclose(sin, np.sin([[0, 0], [1, 0.01], [100, 1]]), rtol=1e-13, atol=1e-15)


def test_float32_tables_are_rounded_from_float64_angles():
    positions = np.array([10_007])
    for narrow, wide in zip(rotary_tables(positions, 6, np.float32), rotary_tables(positions, 6), strict=True):
        assert narrow.dtype == np.float32
        assert np.array_equal(narrow, wide.astype(np.float32))


def test_cache_gives_the_tables_of_any_length_and_dtype_in_any_order():
    cache = RotaryCache(6)
    for length, dtype in [
        (5, np.float64),
        (3, np.float64),
        (11, np.float64),
        (7, np.float32),
        (7, np.float64),
        (0, np.float64),
    ]:
        for found, expected in zip(
            cache.tables(length, dtype), rotary_tables(np.arange(length), 6, dtype), strict=True
        ):
            assert found.dtype == dtype
            assert np.array_equal(found, expected)


def test_cache_gives_the_tables_from_any_position_on():
    cache = RotaryCache(6)
    for start, length in [(0, 3), (3, 1), (4, 1), (9, 5), (5, 2), (100, 1)]:
        for found, expected in zip(
            cache.tables(length, np.float64, start=start),
            rotary_tables(np.arange(start, start + length), 6),
            strict=True,
        ):
            assert np.array_equal(found, expected)


def test_cache_doubles_for_a_sequence_that_grows():
    cache = RotaryCache(6)
    cache.tables(7, np.float64)
    grown = cache.tables(1, np.float64, start=7)[0]
    assert np.shares_memory(grown, cache.tables(16, np.float64)[0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rotated_multiplies_by_a_complex_number(rng, dtype):
    x, positions = rng.standard_normal((2, 7, 3, 10)).astype(dtype), rng.integers(0, 50, size=7)
    found = rotated(x, rotary_tables(positions, 10, dtype))
    assert found.dtype == dtype
    for b in range(2):
        for h in range(3):
            np.testing.assert_allclose(
                found[b, :, h],
                complex_rotation(x[b, :, h], positions),
                rtol=0,
                atol=1e-12 if dtype == np.float64 else 1e-5,
            )


def test_cache_computes_a_length_once():
    cache = RotaryCache(6)
    first = cache.tables(7, np.float64)
    assert np.shares_memory(first[0], cache.tables(5, np.float64)[0])


@pytest.mark.parametrize("causal", [True, False])
def test_attention_equals_rotating_queries_and_keys_first(rng, causal):
    attention = MultiHeadAttention(12, 3, causal=causal, rope=True, rng=rng)
    x = rng.standard_normal((7, 12))
    positions = np.arange(7)
    heads = []
    for h in range(3):
        columns = slice(4 * h, 4 * h + 4)
        q, k, v = (x @ w.value[:, columns] for w in (attention.W_q, attention.W_k, attention.W_v))
        q, k = complex_rotation(q, positions), complex_rotation(k, positions)
        heads.append(F.scaled_dot_product_attention(q, k, v, causal=causal).value)
    expected = np.concatenate(heads, axis=-1) @ attention.W_o.value
    np.testing.assert_allclose(attention(x).value, expected, rtol=1e-11, atol=1e-13)


def test_only_distances_between_positions_matter(rng):
    attention = MultiHeadAttention(8, 2, rope=True, rng=rng)
    x = rng.standard_normal((3, 5, 8))
    y = attention(x).value
    shifted = attention(x, position_ids=np.arange(5) + 1009).value
    np.testing.assert_allclose(shifted, y, rtol=1e-9, atol=1e-11)
    spread = attention(x, position_ids=np.arange(5) * 2).value
    assert np.abs(spread - y).max() > 1e-3


def test_position_ids_of_a_batch_act_row_by_row(rng):
    attention = MultiHeadAttention(8, 2, rope=True, rng=rng)
    x = rng.standard_normal((3, 5, 8))
    positions = rng.integers(0, 50, size=(3, 5))
    together = attention(x, position_ids=positions).value
    for b in range(3):
        np.testing.assert_allclose(
            attention(x[b], position_ids=positions[b]).value, together[b], rtol=1e-12, atol=1e-13
        )


def test_default_positions_are_counted_from_zero(rng):
    attention = MultiHeadAttention(8, 2, rope=True, rng=rng)
    x = rng.standard_normal((3, 5, 8))
    assert np.array_equal(attention(x).value, attention(x, position_ids=np.arange(5)).value)


def test_rope_makes_attention_tell_orders_apart(rng):
    x = rng.standard_normal((5, 8))
    order = np.array([2, 0, 1, 4, 3])
    for rope in (False, True):
        attention = MultiHeadAttention(8, 2, causal=False, rope=rope, rng=np.random.default_rng(1))
        same = np.allclose(attention(x[order]).value, attention(x).value[order], atol=1e-10)
        assert same is not rope


def test_odd_head_width_is_refused():
    with pytest.raises(ValueError, match=r"must be even; got 9 / 3 = 3"):
        MultiHeadAttention(9, 3, rope=True)
    MultiHeadAttention(9, 3)


def test_float_and_misshapen_position_ids_are_refused(rng):
    attention = MultiHeadAttention(8, 2, rope=True, rng=rng)
    x = rng.standard_normal((3, 5, 8))
    with pytest.raises(TypeError, match="position_ids must be integers; got dtype float64"):
        attention(x, position_ids=np.arange(5.0))
    with pytest.raises(ValueError, match=r"got shape \(4,\) for tokens \(3, 5\)"):
        attention(x, position_ids=np.arange(4))
    with pytest.raises(ValueError, match=r"got shape \(1, 5\) for tokens \(3, 5\)"):
        attention(x, position_ids=np.arange(5)[None])
