"""The feed-forward network: its equation, its initial values, and GELU at the extremes through a whole FFN."""

import math

import numpy as np
import pytest
from autograd_core import GELU, Parameter, Tensor, no_grad
from minimodel.transformer import FFN

GELU_VALUES = {
    -6.0: -8.439646700762e-11,
    -3.0: -3.637392081773e-3,
    -1.0: -0.158808009391723,
    0.0: 0.0,
    0.5: 0.345714009825144,
    1.0: 0.841191990608277,
    3.0: 2.996362607918227,
}
GELU_DERIVATIVES = {
    -3.0: -1.158416663097e-2,
    -1.0: -8.296408384578e-2,
    0.0: 0.5,
    0.5: 0.867369903534642,
    1.0: 1.082964083845783,
    3.0: 1.011584166630970,
}
FAR = [-1e20, -1e3, 10.0, 1e3, 1e20]


def identity_ffn(dtype=np.float64):
    """An FFN of width 1 that computes GELU(x) and nothing else."""
    ffn = FFN(1, 1, dtype=dtype)
    ffn.W1.value[...] = ffn.W2.value[...] = 1.0
    return ffn


def test_equals_its_equation(rng):
    ffn = FFN(5, 7, rng=rng)
    ffn.b1.value[...] = rng.standard_normal(7)
    ffn.b2.value[...] = rng.standard_normal(5)
    x = rng.standard_normal((2, 3, 5))
    h = x @ ffn.W1.value + ffn.b1.value
    gelu = 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
    np.testing.assert_allclose(ffn(x).value, gelu @ ffn.W2.value + ffn.b2.value, rtol=1e-12, atol=1e-13)


def test_each_position_is_computed_alone(rng):
    ffn = FFN(5, 7, rng=rng)
    x = rng.standard_normal((3, 5))
    other = x.copy()
    other[1] = 9.0
    changed = (ffn(other).value != ffn(x).value).any(axis=-1)
    assert changed.tolist() == [False, True, False]


def test_gradients_agree_with_differences(rng, check_directions):
    ffn, x = FFN(5, 7, rng=rng), Parameter(rng.standard_normal((2, 3, 5)))
    ffn.b1.value, ffn.b2.value = rng.standard_normal(7), rng.standard_normal(5)
    cotangent = rng.standard_normal((2, 3, 5))
    check_directions(lambda: (ffn(x) * cotangent).sum(), [x, *ffn.parameters()])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gelu_at_ordinary_points(dtype):
    ffn = identity_ffn(dtype)
    x = Tensor(np.array([[v] for v in GELU_VALUES], dtype=dtype), requires_grad=True)
    y = ffn(x)
    y.backward(np.ones(y.shape, dtype))
    exact = dtype is np.float64
    relative, absolute = (1e-9, 1e-13) if exact else (1e-4, 1e-7)
    np.testing.assert_allclose(y.value[:, 0], list(GELU_VALUES.values()), rtol=relative, atol=absolute)
    assert x.grad is not None
    slopes = dict(zip(GELU_VALUES, x.grad[:, 0], strict=True))
    for point, slope in GELU_DERIVATIVES.items():
        assert slopes[point] == pytest.approx(slope, rel=relative, abs=1e-12 if exact else 1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gelu_far_out_is_the_identity_or_zero_with_slope_one_or_zero(dtype):
    points = [*FAR, -1e200, 1e200] if dtype is np.float64 else FAR
    ffn = identity_ffn(dtype)
    x = Tensor(np.array([[v] for v in points], dtype=dtype), requires_grad=True)
    y = ffn(x)
    y.backward(np.ones(y.shape, dtype))
    expected = np.maximum(x.value, 0)
    np.testing.assert_allclose(y.value, expected, rtol=1e-6, atol=1e-30)
    np.testing.assert_allclose(x.grad, (x.value > 0).astype(dtype), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gelu_of_infinities_is_infinity_and_zero(dtype):
    ffn = identity_ffn(dtype)
    with no_grad():
        y = ffn(np.array([[-np.inf], [np.inf]], dtype=dtype))
    assert y.value.tolist() == [[0.0], [np.inf]]


def test_matrices_are_xavier_uniform_and_biases_zero():
    ffn = FFN(53, 211, rng=np.random.default_rng(3))
    bound = math.sqrt(6 / (53 + 211))
    for matrix in (ffn.W1.value, ffn.W2.value):
        assert 0.99 * bound < np.abs(matrix).max() <= bound
        assert matrix.std() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert not ffn.b1.value.any()
    assert not ffn.b2.value.any()
    assert not np.array_equal(ffn.W1.value, ffn.W2.value.T)


def test_declares_its_parameters_and_its_activation():
    ffn = FFN(3, 5)
    assert {name: p.shape for name, p in ffn.named_parameters()} == {"W1": (3, 5), "b1": (5,), "W2": (5, 3), "b2": (3,)}
    assert isinstance(dict(ffn.named_modules())["act"], GELU)


def test_hidden_layer_can_be_watched_after_the_activation(rng):
    ffn = FFN(3, 5, rng=rng)
    seen = []
    with ffn.act.register_forward_hook(lambda module, args, kwargs, output: seen.append(output)):
        y = ffn(rng.standard_normal((2, 3)))
    assert [s.shape for s in seen] == [(2, 5)]
    np.testing.assert_allclose(seen[0].value @ ffn.W2.value, y.value, rtol=1e-12)


@pytest.mark.parametrize("shape", [(4,), (2, 6), ()])
def test_wrong_last_axis_is_refused_with_both_sizes(shape):
    with pytest.raises(ValueError, match=r"FFN: the last axis must be d_model=3; got shape"):
        FFN(3, 5)(np.zeros(shape))


@pytest.mark.parametrize(("sizes", "name"), [((0, 5), "d_model"), ((3, 0), "d_ff")])
def test_sizes_below_one_are_refused(sizes, name):
    with pytest.raises(ValueError, match=f"FFN: {name} must be at least 1; got 0"):
        FFN(*sizes)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dtype_is_kept(rng, dtype):
    ffn = FFN(3, 5, rng=rng, dtype=dtype)
    y = ffn(rng.standard_normal((2, 3)).astype(dtype))
    y.sum().backward()
    assert y.dtype == dtype
    assert {p.dtype for p in ffn.parameters()} == {np.dtype(dtype)}
    assert {p.grad.dtype for p in ffn.parameters() if p.grad is not None} == {np.dtype(dtype)}
