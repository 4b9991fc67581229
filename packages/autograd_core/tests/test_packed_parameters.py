"""`pack_columns`: parameters that are columns of one array, so that one product serves them all."""

import copy
import pickle

import numpy as np
import pytest
from autograd_core import Module, Parameter, pack_columns
from autograd_core import functional as F
from autograd_core.optim import AdamW


@pytest.fixture
def parts(rng: np.random.Generator) -> list[Parameter]:
    return [Parameter(rng.standard_normal((3, width))) for width in (2, 7, 5)]


def test_values_stay_the_same_and_become_views_of_the_packed_array(parts: list[Parameter]) -> None:
    before = [p.value.copy() for p in parts]
    packed = pack_columns(parts)
    assert packed.shape == (3, 14)
    for p, value in zip(parts, before, strict=True):
        assert np.array_equal(p.value, value)
        assert np.shares_memory(p.value, packed)
    assert np.array_equal(packed, np.concatenate(before, axis=1))


def test_an_optimisers_steps_reach_the_product_with_the_bits_of_separate_parameters(
    parts: list[Parameter], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((5, 3))
    separate = [Parameter(p.value) for p in parts]
    packed = pack_columns(parts)
    results = []
    for group, whole in ((parts, packed), (separate, None)):
        optimizer = AdamW(group, lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            F.joined_linear(x, group, packed=(whole, None)).tanh().sum().backward()
            optimizer.step()
        results.append([p.value.tobytes() for p in group])
    assert results[0] == results[1]
    assert np.array_equal(packed, np.concatenate([p.value for p in parts], axis=1))


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "astype"])
def test_a_copy_of_a_packed_parameter_is_no_longer_packed(how: str, parts: list[Parameter]) -> None:
    packed = pack_columns(parts)
    holder = Module()
    holder.parts = parts
    twin = {
        "deepcopy": lambda: copy.deepcopy(holder),
        "pickle": lambda: pickle.loads(pickle.dumps(holder)),
        "astype": lambda: holder.astype(np.float64),
    }[how]()
    for p in twin.parts:
        p.value[...] = 0.0
    assert packed.all()
    assert not F.joined_linear(np.ones((5, 3)), twin.parts, packed=(packed, None)).value.any()


@pytest.mark.parametrize("order", [[1, 0, 2], [0, 1], [1, 2], [0, 1, 1]], ids=str)
def test_another_order_or_number_of_parts_is_joined_as_given(
    order: list[int], parts: list[Parameter], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((5, 3))
    packed = pack_columns(parts)
    chosen = [parts[i] for i in order]
    out = F.joined_linear(x, chosen, packed=(packed, None))
    np.testing.assert_allclose(out.value, np.concatenate([x @ p.value for p in chosen], axis=1), rtol=1e-13)


def test_what_does_not_fit_is_an_error_that_names_it(rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match=r"joined_linear: x .* got x \(2, 5\) and weight \(3, 4\)"):
        F.joined_linear(np.ones((2, 5)), [np.ones((3, 2)), np.ones((3, 2))])
    with pytest.raises(ValueError, match=r"joined_linear: bias must be \(out,\) = \(4,\); got \(3,\)"):
        F.joined_linear(np.ones((2, 3)), [np.ones((3, 2)), np.ones((3, 2))], [np.ones(2), np.ones(1)])
