"""The modules that any model uses."""

import numpy as np
import pytest
from autograd_core import GELU, Dropout, Linear, Module, Parameter, ReLU, Sequential, Tensor
from autograd_core import functional as F


def test_linear_is_x_w_plus_b(rng: np.random.Generator) -> None:
    layer = Linear(3, 5, rng=rng)
    layer.bias.value = rng.standard_normal(5)
    x = rng.standard_normal((2, 7, 3))
    np.testing.assert_allclose(layer(x).value, x @ layer.weight.value + layer.bias.value, rtol=1e-13)
    assert [(name, p.shape) for name, p in layer.named_parameters()] == [("weight", (3, 5)), ("bias", (5,))]


def test_linear_starts_with_xavier_weights_from_its_generator_and_zero_bias() -> None:
    layer = Linear(30, 50, rng=np.random.default_rng(3))
    bound = np.sqrt(6.0 / 80.0)
    assert 0.95 * bound < np.abs(layer.weight.value).max() <= bound
    assert not layer.bias.value.any()
    assert np.array_equal(Linear(30, 50, rng=np.random.default_rng(3)).weight.value, layer.weight.value)


def test_linear_without_a_generator_draws_afresh() -> None:
    assert not np.array_equal(Linear(3, 5).weight.value, Linear(3, 5).weight.value)


def test_linear_may_do_without_a_bias(rng: np.random.Generator) -> None:
    layer = Linear(3, 5, bias=False, rng=rng)
    assert layer.bias is None
    assert len(list(layer.parameters())) == 1
    x = rng.standard_normal(3)
    np.testing.assert_allclose(layer(x).value, x @ layer.weight.value, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layers_take_a_dtype_and_keep_it(dtype: type, rng: np.random.Generator) -> None:
    model = Sequential(
        Linear(3, 5, rng=rng, dtype=dtype), GELU(), Linear(5, 2, rng=rng, dtype=dtype), ReLU(), Dropout(0.5)
    )
    x = Tensor(rng.standard_normal((7, 3)).astype(dtype), requires_grad=True)
    y = model(x)
    y.sum().backward()
    assert y.dtype == dtype
    assert x.grad.dtype == dtype
    assert all(p.dtype == p.grad.dtype == dtype for p in model.parameters())


@pytest.mark.parametrize(("sizes", "message"), [((0, 3), "in 0, out 3"), ((3, -1), "in 3, out -1")])
def test_linear_needs_sizes_of_at_least_1(sizes: tuple[int, int], message: str) -> None:
    with pytest.raises(ValueError, match=f"sizes must be at least 1; got {message}"):
        Linear(*sizes)


def test_sequential_calls_its_layers_in_order(rng: np.random.Generator) -> None:
    first, second = Linear(3, 5, rng=rng), Linear(5, 2, rng=rng)
    x = rng.standard_normal((7, 3))
    assert np.array_equal(Sequential(first, ReLU(), second)(x).value, second(F.relu(first(x))).value)
    assert np.array_equal(Sequential()(x).value, x)
    assert [name for name, _ in Sequential(first, second).named_parameters()][::2] == [
        "layers.0.weight",
        "layers.1.weight",
    ]


def test_activations_are_modules_whose_output_can_be_watched(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3))
    for module, expected in (
        (GELU(), F.gelu(x)),
        (GELU("none"), F.gelu(x, "none")),
        (ReLU(), F.relu(x)),
    ):
        assert isinstance(module, Module)
        seen: list[Tensor] = []
        module.register_forward_hook(lambda m, args, kwargs, output, seen=seen: seen.append(output))
        out = module(x)
        assert seen == [out]
        assert np.array_equal(out.value, expected.value)


def test_gelu_refuses_another_form() -> None:
    with pytest.raises(ValueError, match='must be "tanh" or "none"; got \'sigmoid\''):
        GELU("sigmoid")


def test_dropout_draws_from_its_own_generator_in_training_and_passes_its_input_in_evaluation() -> None:
    layer = Dropout(0.5, rng=np.random.default_rng(5))
    x = Parameter(np.ones(1000))
    out = layer(x)
    assert np.array_equal(out.value, F.dropout(x, 0.5, rng=np.random.default_rng(5)).value)
    assert not np.array_equal(layer(x).value, out.value)
    state = layer.rng.bit_generator.state
    assert layer.eval()(x) is x
    assert layer.rng.bit_generator.state == state


def test_a_saved_generator_state_continues_the_masks() -> None:
    layer, x = Dropout(0.5, rng=np.random.default_rng(5)), np.ones(100)
    layer(x)
    state = layer.rng.bit_generator.state
    expected = layer(x).value
    layer.rng.bit_generator.state = state
    assert np.array_equal(layer(x).value, expected)


@pytest.mark.parametrize("p", [-0.1, 1.0, 2.0, float("nan")])
def test_dropout_needs_a_probability_below_1(p: float) -> None:
    with pytest.raises(ValueError, match=rf"p must be in \[0, 1\); got {p}"):
        Dropout(p)


def test_a_small_model_learns_one_batch_by_heart(rng: np.random.Generator) -> None:
    from autograd_core.optim import AdamW

    model = Sequential(Linear(3, 17, rng=rng), GELU(), Linear(17, 5, rng=rng))
    x, targets = rng.standard_normal((11, 3)), rng.integers(0, 5, 11)
    optimizer = AdamW(model.parameters(), lr=0.05, weight_decay=0.0)
    first = F.cross_entropy(model(x), targets).item()
    for _ in range(300):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), targets)
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-2 < 1.0 < first
