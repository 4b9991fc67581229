"""A fused operation equals its composition from smaller ones: value and gradients, under random cotangents."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autograd_core import Columns, Parameter, Tensor
from autograd_core import functional as F

Compare = Callable[..., None]


@pytest.fixture
def assert_equal_to_composition(rng: np.random.Generator) -> Compare:
    """Run both in float64 and float32 on the same arrays and cotangent, and compare values and all gradients."""

    def compare(fused: Callable[..., Tensor], composed: Callable[..., Tensor], *arrays: np.ndarray) -> None:
        cotangent = rng.standard_normal(fused(*arrays).shape)
        for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 2e-5)):
            runs = []
            for fn in (fused, composed):
                inputs = [Tensor(a, requires_grad=True, dtype=dtype) for a in arrays]
                out = fn(*inputs)
                out.backward(cotangent)
                assert out.dtype == dtype
                runs.append([out.value, *[x.grad for x in inputs]])
            for found, expected in zip(*runs, strict=True):
                assert np.abs(expected).max() > 0.01, "an array of zeros shows nothing"
                np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)

    return compare


def test_gelu_tanh(assert_equal_to_composition: Compare, rng: np.random.Generator) -> None:
    def composed(x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + (math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)).tanh())

    assert_equal_to_composition(F.gelu, composed, rng.standard_normal((5, 7)) * 2.0)


def test_gelu_exact_is_x_times_the_normal_distribution_function(rng: np.random.Generator) -> None:
    points = rng.standard_normal(23) * 3.0
    x = Tensor(points, requires_grad=True)
    cotangent = rng.standard_normal(23)
    y = F.gelu(x, approximate="none")
    y.backward(cotangent)
    phi = np.array([0.5 * math.erfc(-p / math.sqrt(2.0)) for p in points])
    density = np.exp(-0.5 * points**2) / math.sqrt(2.0 * math.pi)
    np.testing.assert_allclose(y.value, points * phi, rtol=1e-14)
    np.testing.assert_allclose(x.grad, cotangent * (phi + points * density), rtol=1e-13)


def test_gelu_works_through_long_arrays_piece_by_piece_without_a_seam(rng: np.random.Generator) -> None:
    points = rng.standard_normal(70_001).astype(np.float32)  # two whole pieces and a part of a third
    x = Tensor(points, requires_grad=True)
    y = F.gelu(x)
    y.backward(np.ones_like(points))
    for part in (slice(0, 5), slice(32_766, 32_771), slice(65_534, 65_539), slice(69_996, 70_001)):
        small = Tensor(points[part], requires_grad=True)
        out = F.gelu(small)
        out.backward(np.ones(5, np.float32))
        np.testing.assert_allclose(y.value[part], out.value, rtol=1e-6)
        np.testing.assert_allclose(x.grad[part], small.grad, rtol=1e-6)


@pytest.mark.parametrize("extreme", [np.inf, -np.inf, np.nan, 1e20, -30.0])
def test_an_extreme_entry_changes_no_bit_of_the_gelu_of_the_others(extreme: float, rng: np.random.Generator) -> None:
    points = rng.standard_normal(40)
    cotangent = rng.standard_normal(40)
    runs = []
    for last in (0.5, extreme):
        x = Tensor(np.append(points, last), requires_grad=True)
        y = F.gelu(x)
        y.backward(np.append(cotangent, 1.0))
        runs.append((y.value[:-1], x.grad[:-1]))
    assert np.array_equal(runs[0][0], runs[1][0])
    assert np.array_equal(runs[0][1], runs[1][1])


@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 7), (7,)], ids=str)
def test_layer_norm(shape: tuple[int, ...], assert_equal_to_composition: Compare, rng: np.random.Generator) -> None:
    def composed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / (x.var(axis=-1, keepdims=True) + 1e-5).sqrt() * weight + bias

    arrays = rng.standard_normal(shape) * 3.0 + 2.0, rng.standard_normal(7), rng.standard_normal(7)
    assert_equal_to_composition(F.layer_norm, composed, *arrays)


def test_joined_linear(assert_equal_to_composition: Compare, rng: np.random.Generator) -> None:
    def joined(x: Tensor, *rest: Tensor) -> Tensor:
        leaves = [part if isinstance(part, Tensor) else Tensor(part) for part in rest]
        return F.joined_linear(x, Columns(leaves[:3]), Columns(leaves[3:]))

    def composed(x: Tensor, *rest: Tensor) -> Tensor:
        return F.concatenate([x @ w + b for w, b in zip(rest[:3], rest[3:], strict=True)], axis=-1)

    shapes = [(2, 5, 3), (3, 2), (3, 7), (3, 11), (2,), (7,), (11,)]
    assert_equal_to_composition(joined, composed, *(rng.standard_normal(shape) for shape in shapes))


@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3), (3,)], ids=str)
def test_linear(shape: tuple[int, ...], assert_equal_to_composition: Compare, rng: np.random.Generator) -> None:
    arrays = rng.standard_normal(shape), rng.standard_normal((3, 7)), rng.standard_normal(7)
    assert_equal_to_composition(F.linear, lambda x, w, b: x @ w + b, *arrays)
    assert_equal_to_composition(F.linear, lambda x, w: x @ w, *arrays[:2])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_family(axis: int, assert_equal_to_composition: Compare, rng: np.random.Generator) -> None:
    def softmax(x: Tensor) -> Tensor:
        return x.exp() / x.exp().sum(axis=axis, keepdims=True)

    x = rng.standard_normal((3, 5, 7))
    assert_equal_to_composition(lambda x: F.softmax(x, axis), softmax, x)
    assert_equal_to_composition(lambda x: F.log_softmax(x, axis), lambda x: softmax(x).log(), x)
    assert_equal_to_composition(lambda x: F.logsumexp(x, axis), lambda x: x.exp().sum(axis=axis).log(), x)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(reduction: str, assert_equal_to_composition: Compare, rng: np.random.Generator) -> None:
    targets = np.array([[2, -100, 4], [0, 0, -100]])
    counted = targets != -100

    def composed(z: Tensor) -> Tensor:
        chosen = F.log_softmax(z)[(*np.indices(targets.shape), np.where(counted, targets, 0))]
        losses = F.where(counted, -chosen, 0.0)
        return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / int(counted.sum())}[reduction]

    z = rng.standard_normal((2, 3, 5)) * 3.0
    assert_equal_to_composition(lambda z: F.cross_entropy(z, targets, reduction=reduction), composed, z)


def composed_attention(q: Tensor, k: Tensor, v: Tensor, visible: np.ndarray) -> Tensor:
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    return F.softmax(F.where(visible, scores, -math.inf)) @ v


@pytest.mark.parametrize("spread", [1.0, 40.0], ids=["mild_scores", "strong_scores"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention(
    spread: float, causal: bool, masked: bool, assert_equal_to_composition: Compare, rng: np.random.Generator
) -> None:
    # (B, H, T, K) = (2, 3, 5, 7)
    key_mask = np.array([[True, True, True, False, False], [True, False, True, True, True]])
    visible = np.tri(5, dtype=bool) if causal else np.ones((5, 5), bool)
    if masked:
        visible = visible & key_mask[:, None, None, :]
    q, k, v = (rng.standard_normal((2, 3, 5, 7)) for _ in range(3))
    assert_equal_to_composition(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, causal=causal, key_mask=key_mask if masked else None),
        lambda q, k, v: composed_attention(q, k, v, visible),
        q * math.sqrt(spread),
        k,
        v,
    )


def turned(x: Tensor, cos: np.ndarray, sin: np.ndarray) -> Tensor:
    """x (B, H, T, K) turned in the planes (i, i + K/2) by (T, K/2) or (B, 1, T, K/2) tables."""
    a, b = F.split(x, 2, axis=-1)
    return F.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("rope", ["none", "shared", "per_example"])
@pytest.mark.parametrize("batch", [True, False])
def test_self_attention(
    causal: bool, masked: bool, rope: str, batch: bool, assert_equal_to_composition: Compare, rng: np.random.Generator
) -> None:
    examples, length, heads, d_head = (2 if batch else 1), 5, 3, 4
    width = heads * d_head
    key_mask = np.array([[True, True, True, False, False], [True, False, True, True, True]])[:examples]
    shape = {"none": None, "shared": (length, d_head // 2), "per_example": (examples, length, d_head // 2)}[rope]
    angles = None if shape is None else rng.uniform(-3.0, 3.0, shape)

    def fused(qkv: Tensor) -> Tensor:
        tables = None if angles is None else (np.cos(angles), np.sin(angles))
        return F.self_attention(qkv, heads, causal=causal, key_mask=key_mask if masked else None, rope=tables)

    def composed(qkv: Tensor) -> Tensor:
        qkv = qkv.reshape(examples, length, 3 * width)
        q, k, v = (
            part.reshape(examples, length, heads, d_head).transpose(0, 2, 1, 3) for part in F.split(qkv, 3, axis=-1)
        )
        if angles is not None:
            by_head = (angles if angles.ndim == 2 else angles[:, None]).astype(q.dtype)
            q, k = (turned(x, np.cos(by_head), np.sin(by_head)) for x in (q, k))
        out = F.scaled_dot_product_attention(q, k, v, causal=causal, key_mask=key_mask if masked else None)
        joined = out.transpose(0, 2, 1, 3).reshape(examples, length, width)
        return joined if batch else joined[0]

    qkv = rng.standard_normal((examples, length, 3 * width)) * 2.0
    assert_equal_to_composition(fused, composed, qkv if batch else qkv[0])


def test_an_ignored_row_may_hold_anything_without_a_warning() -> None:
    z = Parameter(np.array([[1.0, 2.0], [np.inf, 1.0], [np.nan, 0.0], [-np.inf, -np.inf]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss = F.cross_entropy(z, np.array([0, -100, -100, -100]))
        loss.backward()
    assert loss.item() == pytest.approx(np.log1p(np.e))
    assert z.grad is not None
    np.testing.assert_array_equal(z.grad[1:], 0.0)


@pytest.mark.parametrize("ignore_index", [1.5, None, True, "a"])
def test_cross_entropy_needs_an_integer_to_ignore(ignore_index: Any) -> None:
    with pytest.raises(TypeError, match="cross_entropy: ignore_index must be an integer; got"):
        F.cross_entropy(np.zeros((1, 2)), np.array([0]), ignore_index=ignore_index)


@pytest.mark.parametrize("look_up", [lambda ids: F.embedding(np.ones((3, 2)), ids), None], ids=["ids", "targets"])
def test_ids_that_are_no_array_of_integers_are_refused_by_their_rule(look_up: Any) -> None:
    look_up = look_up or (lambda ids: F.cross_entropy(np.zeros((2, 3)), ids))
    with pytest.raises(ValueError, match="nested lists must be of equal lengths"):
        look_up([[1], [0, 1]])
    for huge in (2**70, 2**63):
        with pytest.raises(IndexError, match=f"must fit 64 bits; got {huge}"):
            look_up([0, huge] if huge == 2**70 else [huge, -1])
    for mixed in ([1.5, 2**70], [True, 2**70], [None, 2**70], np.array([0, "a"], object), np.array([0.0, 1.0])):
        with pytest.raises(TypeError, match="must be integers; got dtype"):
            look_up(mixed)


@pytest.mark.parametrize(
    ("compute", "shapes"),
    [
        (F.matmul, ((2, 3, 0), (0, 4))),
        (F.matmul, ((2, 3, 4), (4, 0))),
        (F.matmul, ((2, 3, 0), (0,))),
        (F.matmul, ((2, 2, 3, 0), (0, 5))),
        (F.linear, ((2, 3, 0), (0, 4), (4,))),
        (F.linear, ((2, 0, 3), (3, 4), (4,))),
        (F.layer_norm, ((3, 0), (0,), (0,))),
        (F.layer_norm, ((2, 3, 0), (0,), (0,))),
        (F.layer_norm, ((2, 0, 3), (3,), (3,))),
        (lambda weight: F.embedding(weight, np.array([0, 1, 1])), ((2, 0),)),
        (lambda z: F.cross_entropy(z, np.zeros((2, 0), int)), ((2, 0, 3),)),
        (F.gelu, ((2, 0),)),
        (F.softmax, ((0, 3),)),
    ],
)
def test_axes_of_size_0_have_gradients_too(compute: Any, shapes: tuple[tuple[int, ...], ...]) -> None:
    inputs = [Parameter(np.ones(shape)) for shape in shapes]
    compute(*inputs).sum().backward()
    for parameter in inputs:
        assert parameter.grad is not None
        assert parameter.grad.shape == parameter.shape
        assert np.isfinite(parameter.grad).all()


def test_cross_entropy_needs_a_class() -> None:
    with pytest.raises(ValueError, match="at least one class"):
        F.cross_entropy(np.zeros((2, 0)), np.array([-100, -100]))


@pytest.mark.parametrize("target", [2**63, 2**64 - 100])
def test_targets_beyond_63_bits_are_out_of_range_as_given(target: int) -> None:
    with pytest.raises(IndexError, match=f"got {target} at position"):
        F.cross_entropy(np.zeros((1, 3)), np.array([target], np.uint64))


def test_an_infinite_cotangent_of_an_ignored_position_goes_nowhere() -> None:
    z = Parameter(np.zeros((2, 3)))
    F.cross_entropy(z, np.array([0, -100]), reduction="none").backward([1.0, np.inf])
    assert z.grad is not None
    np.testing.assert_array_equal(z.grad[1], 0.0)


def test_logsumexp_of_an_infinity_is_infinite() -> None:
    assert F.logsumexp(np.array([np.inf, 0.0])).item() == np.inf
    assert F.logsumexp(np.array([-np.inf, 0.0])).item() == 0.0
    assert np.isnan(F.logsumexp(np.array([np.inf, np.nan])).item())


def test_maximum_gives_the_gradient_to_the_nan_that_won() -> None:
    for op in (F.maximum, F.minimum):
        a, b = Parameter([np.nan, 1.0, np.nan]), Parameter([1.0, np.nan, np.nan])
        op(a, b).backward([1.0, 1.0, 1.0])
        assert a.grad is not None
        assert b.grad is not None
        assert a.grad.tolist() == [1.0, 0.0, 0.5]
        assert b.grad.tolist() == [0.0, 1.0, 0.5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("beside", [3e8, np.inf, np.nan])
def test_gelu_of_an_entry_has_the_same_bits_whatever_stands_beside_it(dtype: type, beside: float) -> None:
    x = np.array([-3e4, -1e4, -200.0, -10.5, -11.0, -1.0, 0.0, 2.0, 12.0, 3e4], dtype)
    alone, together = Parameter(x), Parameter(np.append(x, dtype(beside)))
    out = F.gelu(alone)
    out.sum().backward()
    with np.errstate(all="ignore"):
        mixed = F.gelu(together)
        mixed.sum().backward()
    np.testing.assert_array_equal(mixed.value[:-1], out.value)
    assert alone.grad is not None
    assert together.grad is not None
    np.testing.assert_array_equal(together.grad[:-1], alone.grad)
    if np.isinf(beside):
        assert together.grad[-1] == 1.0


def test_gelu_of_minus_infinity_is_the_zero_from_below() -> None:
    for x in (-np.inf, -1e20, -50.0):
        out = F.gelu(np.array([x, 1.0]))
        assert out.value[0] == 0.0
        assert np.signbit(out.value[0])


@pytest.mark.parametrize(("dtype", "most"), [(np.float64, 16), (np.float32, 12)])
def test_the_slope_of_gelu_keeps_its_digits(dtype: type, most: int) -> None:
    x = np.linspace(-8.0, 8.0, 20001).astype(dtype)
    parameter = Parameter(x)
    F.gelu(parameter).sum().backward()
    wide = x.astype(np.longdouble)
    c = np.sqrt(np.longdouble(2) / np.arccos(np.longdouble(-1)))
    tanh = np.tanh(c * (wide + np.longdouble("0.044715") * wide**3))
    exact = 0.5 * (1 + tanh) + 0.5 * wide * (1 - tanh**2) * c * (1 + 3 * np.longdouble("0.044715") * wide**2)
    assert np.abs(parameter.grad - exact).max() <= most * np.finfo(dtype).eps


def test_gelu_of_float16_does_not_overflow_on_the_way() -> None:
    x = Parameter(np.array([-200.0, 1.0, 200.0], np.float16))
    out = F.gelu(x)
    out.sum().backward()
    assert out.dtype == np.float16
    assert x.grad is not None
    np.testing.assert_allclose(out.value, [0.0, 0.8413, 200.0], atol=1e-3)
    np.testing.assert_allclose(x.grad, [0.0, 1.083, 1.0], atol=1e-3)


def test_a_float64_bias_widens_layer_norm_as_it_does_linear() -> None:
    x, weight = Tensor(np.ones((2, 3), np.float32)), Tensor(np.ones(3, np.float32))
    assert F.layer_norm(x, weight, np.zeros(3)).dtype == np.float64
    assert F.linear(x, np.ones((3, 2), np.float32), np.zeros(2)).dtype == np.float64
    assert F.layer_norm(x, weight, np.zeros(3, np.float32), eps=np.array(1e-5)).dtype == np.float32
