"""`Columns`: parameters that are columns of one array, so that one product serves them all."""

import copy
import pickle

import numpy as np
import pytest
from autograd_core import Columns, Module, Parameter
from autograd_core import functional as F
from autograd_core.optim import AdamW


@pytest.fixture
def parts(rng: np.random.Generator) -> list[Parameter]:
    return [Parameter(rng.standard_normal((3, width))) for width in (2, 7, 5)]


def test_values_stay_the_same_and_become_views_of_the_joined_array(parts: list[Parameter]) -> None:
    before = [p.value.copy() for p in parts]
    columns = Columns(parts)
    joined = columns.joined()
    assert joined.shape == (3, 14)
    assert columns.ends == (2, 9, 14)
    for p, value in zip(parts, before, strict=True):
        assert np.array_equal(p.value, value)
        assert np.shares_memory(p.value, joined)
    assert np.array_equal(joined, np.concatenate(before, axis=1))
    assert columns.joined() is joined


def test_writing_and_assigning_change_the_joined_array(parts: list[Parameter], rng: np.random.Generator) -> None:
    columns = Columns(parts)
    parts[0].value = np.full((3, 2), 5.0)
    parts[1].value[...] = 7.0
    assert np.array_equal(columns.joined()[:, :9], np.repeat([5.0, 7.0], [2, 7]) * np.ones((3, 1)))
    x = rng.standard_normal((4, 3))
    out = F.joined_linear(x, columns)
    assert np.array_equal(out.value, x @ columns.joined())
    out.sum().backward()
    grads = [p.grad for p in parts]
    assert all(grad is not None for grad in grads)
    assert not any(np.shares_memory(grads[i], grads[i + 1]) for i in range(2))


def test_an_optimisers_steps_reach_the_product_with_the_bits_of_separate_parameters(
    parts: list[Parameter], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((5, 3))
    separate = [Parameter(p.value) for p in parts]
    columns, apart = Columns(parts), Columns(separate)
    for p in separate:
        p._value = p._value.copy()  # what a copy of a module does to its parameters
    results = []
    for group, whole in ((parts, columns), (separate, apart)):
        optimizer = AdamW(group, lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            F.joined_linear(x, whole).tanh().sum().backward()
            optimizer.step()
        results.append([p.value.tobytes() for p in group])
    assert results[0] == results[1]


def test_a_parameter_in_newer_columns_is_joined_anew_by_the_older(
    parts: list[Parameter], rng: np.random.Generator
) -> None:
    older = Columns(parts)
    stale = older.joined()
    Columns(parts[::-1])
    stale[...] = 0.0
    x = rng.standard_normal((4, 3))
    expected = np.concatenate([x @ p.value for p in parts], axis=1)
    np.testing.assert_allclose(F.joined_linear(x, older).value, expected, rtol=1e-12)


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "astype"])
def test_a_copy_of_the_parameters_leaves_the_columns(how: str, parts: list[Parameter]) -> None:
    columns = Columns(parts)
    holder = Module()
    holder.parts = parts
    twin = {
        "deepcopy": lambda: copy.deepcopy(holder),
        "pickle": lambda: pickle.loads(pickle.dumps(holder)),
        "astype": lambda: holder.astype(np.float64),
    }[how]()
    for p in twin.parts:
        p.value[...] = 0.0
    assert columns.joined().all()


def test_what_does_not_fit_is_an_error_that_names_it() -> None:
    weights = Columns([Parameter(np.ones((3, 2))), Parameter(np.ones((3, 2)))])
    with pytest.raises(ValueError, match=r"joined_linear: x .* got x \(2, 5\) and weight \(3, 4\)"):
        F.joined_linear(np.ones((2, 5)), weights)
    with pytest.raises(ValueError, match=r"joined_linear: bias must be \(out,\) = \(4,\); got \(3,\)"):
        F.joined_linear(np.ones((2, 3)), weights, Columns([Parameter(np.ones(2)), Parameter(np.ones(1))]))
