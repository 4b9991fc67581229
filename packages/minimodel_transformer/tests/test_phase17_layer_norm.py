"""LayerNorm: the block lab's properties, reference values, and rows that break careless arithmetic."""

import numpy as np
import pytest
from autograd_core import Parameter, Tensor
from minimodel.transformer import LayerNorm


def test_rows_have_zero_mean_and_unit_variance(rng):
    y = LayerNorm(64)(rng.standard_normal((5, 7, 64))).value
    np.testing.assert_allclose(y.mean(axis=-1), 0.0, atol=1e-12)
    np.testing.assert_allclose(y.var(axis=-1), 1.0, atol=1e-4)


def test_variance_is_exactly_what_eps_leaves(rng):
    x = rng.standard_normal((5, 13))
    variance = x.var(axis=-1)
    y = LayerNorm(13, eps=0.5)(x).value
    np.testing.assert_allclose(y.var(axis=-1), variance / (variance + 0.5), rtol=1e-12)


def test_normalised_input_passes_unchanged(rng):
    x = rng.standard_normal((5, 7, 31))
    x = (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)
    np.testing.assert_allclose(LayerNorm(31)(x).value, x, atol=1e-4)


def test_gain_and_shift_set_standard_deviation_and_mean(rng):
    layer = LayerNorm(101)
    layer.gamma.value[...] = 2.0
    layer.beta.value[...] = 5.0
    y = layer(rng.standard_normal((5, 101))).value
    np.testing.assert_allclose(y.mean(axis=-1), 5.0, atol=1e-12)
    np.testing.assert_allclose(y.var(axis=-1), 4.0, atol=1e-3)


def test_each_row_is_normalised_alone(rng):
    layer = LayerNorm(5)
    x = rng.standard_normal((3, 2, 5))
    whole = layer(x).value
    for b in range(3):
        for t in range(2):
            np.testing.assert_allclose(layer(x[b, t]).value, whole[b, t], rtol=1e-13, atol=1e-14)
    other = x.copy()
    other[1] += 7.0 * rng.standard_normal((2, 5))
    assert np.array_equal(layer(other).value[[0, 2]], whole[[0, 2]])


@pytest.mark.parametrize("name", ["ln_3d", "ln_2d", "ln_constant_row", "ln_small_variance", "ln_large_offset"])
def test_agrees_with_reference(reference, name):
    case = reference.load(name)
    x = Tensor(case.arrays["in.x"], requires_grad=True)
    layer = LayerNorm(x.shape[-1], eps=case.params["eps"])
    layer.gamma.value = case.arrays["in.weight"]
    layer.beta.value = case.arrays["in.bias"]
    y = layer(x)
    y.backward(case.arrays["gout"])
    case.assert_close(y.value, "out")
    case.assert_close(x.grad, "grad.x")
    case.assert_close(layer.gamma.grad, "grad.weight")
    case.assert_close(layer.beta.grad, "grad.bias")


def test_gradients_agree_with_differences(rng, check_directions):
    layer, x = LayerNorm(5), Parameter(rng.standard_normal((2, 3, 5)))
    layer.gamma.value, layer.beta.value = rng.standard_normal((2, 5))
    cotangent = rng.standard_normal((2, 3, 5))
    check_directions(lambda: (layer(x) * cotangent).sum(), [x, *layer.parameters()])


def test_large_offset_in_float32_costs_no_digits():
    layer = LayerNorm(4, dtype=np.float32)
    x = Tensor(np.array([40000, 40001, 40002, 40003], dtype=np.float32), requires_grad=True)
    y = layer(x)
    y.backward(np.array([1, 0, 0, 0], dtype=np.float32))
    np.testing.assert_allclose(y.value, [-1.341635420, -0.447211807, 0.447211807, 1.341635420], atol=1e-5)
    np.testing.assert_allclose(x.grad, [0.26833030, -0.35776837, -0.08944343, 0.17888150], atol=1e-5)
    assert x.grad is not None
    assert abs(x.grad.sum()) < 1e-6


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 1 / 3, -7.7, 1e-30, 1e30, 3.3e38])
@pytest.mark.parametrize("width", [1, 3, 64])
def test_constant_row_of_any_size_gives_exactly_beta(rng, dtype, value, width):
    layer = LayerNorm(width, dtype=dtype)
    layer.beta.value[...] = rng.standard_normal(width)
    layer.gamma.value[...] = 1e6
    x = Tensor(np.full((2, width), value, dtype=dtype), requires_grad=True)
    y = layer(x)
    y.backward(rng.standard_normal((2, width)).astype(dtype))
    assert np.array_equal(y.value, np.broadcast_to(layer.beta.value, (2, width)))
    assert np.isfinite(x.grad).all()


@pytest.mark.parametrize("shape", [(4,), (2, 6), (), (5, 1)])
def test_wrong_last_axis_is_refused_with_both_sizes(shape):
    with pytest.raises(ValueError, match=r"last axis must be d_model=5; got shape \(.*Give rows of 5") as error:
        LayerNorm(5)(np.zeros(shape))
    assert str(shape) in str(error.value)


@pytest.mark.parametrize("eps", [0.0, -1e-5, float("nan"), float("inf")])
def test_impossible_eps_is_refused(eps):
    with pytest.raises(ValueError, match="eps must be positive and finite; got"):
        LayerNorm(5, eps)


def test_impossible_size_and_dtype_are_refused():
    with pytest.raises(ValueError, match="d_model must be at least 1; got 0"):
        LayerNorm(0)
    with pytest.raises(TypeError, match="dtype must be float64 or float32; got int64"):
        LayerNorm(5, dtype=np.int64)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (0, 5)])
def test_dtype_and_shape_are_kept(rng, dtype, shape):
    layer = LayerNorm(5, dtype=dtype)
    x = Tensor(rng.standard_normal(shape).astype(dtype), requires_grad=True)
    y = layer(x)
    y.backward(np.ones(shape, dtype))
    assert y.shape == shape
    assert x.grad is not None
    assert layer.gamma.grad is not None
    assert layer.beta.grad is not None
    assert y.dtype == x.grad.dtype == layer.gamma.grad.dtype == layer.beta.grad.dtype == dtype
