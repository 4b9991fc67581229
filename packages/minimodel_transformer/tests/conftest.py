"""Fixtures of this package's tests: reference vectors, a check of gradients by direction, and guards."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from autograd_core import Parameter, Tensor, no_grad

DATA = Path(__file__).parent / "data"


class Case(NamedTuple):
    """One case of the reference vectors (see data/ORIGIN.md)."""

    arrays: dict[str, Any]
    params: dict[str, Any]
    tolerance: dict[str, float]

    def assert_close(self, found: Any, name: str) -> None:
        np.testing.assert_allclose(found, self.arrays[name], **self.tolerance, err_msg=name)


class Reference:
    """Reads cases, and gives their packed parameters our names."""

    def load(self, name: str) -> Case:
        """Return a case, with its own prefix taken off the arrays' names."""
        entry = json.loads((DATA / "index.json").read_text())["cases"][name]
        with np.load(DATA / entry["file"]) as file:
            prefix = f"{name}."
            has_prefix = any(key.startswith(prefix) for key in file)
            arrays = {key.removeprefix(prefix): file[key] for key in file if not has_prefix or key.startswith(prefix)}
        return Case(arrays, entry["params"], entry["tol"])

    def attention_arrays(self, source: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        """Return W_q … b_o by our names from a packed `<prefix>qkv.weight` and its like."""
        names = {}
        for kind, letter in (("weight", "W"), ("bias", "b")):
            for name, part in zip("qkv", np.split(source[f"{prefix}qkv.{kind}"], 3, axis=-1), strict=True):
                names[f"{letter}_{name}"] = part
            names[f"{letter}_o"] = source[f"{prefix}proj.{kind}"]
        return names

    def block_arrays(self, source: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        """Return a block's arrays by our dotted names."""
        names = {f"attn.{name}": array for name, array in self.attention_arrays(source, f"{prefix}attn.").items()}
        for layer in ("ln1", "ln2"):
            names[f"{layer}.gamma"] = source[f"{prefix}{layer}.weight"]
            names[f"{layer}.beta"] = source[f"{prefix}{layer}.bias"]
        for number, layer in (("1", "fc"), ("2", "proj")):
            names[f"ffn.W{number}"] = source[f"{prefix}mlp.{layer}.weight"]
            names[f"ffn.b{number}"] = source[f"{prefix}mlp.{layer}.bias"]
        return names

    def gpt_arrays(self, source: Mapping[str, Any], prefix: str, n_layers: int = 2) -> dict[str, Any]:
        """Return a whole model's arrays by our dotted names."""
        names = {
            "embedding.E": source[f"{prefix}wte"],
            "position_embedding.E": source[f"{prefix}wpe"],
            "ln_final.gamma": source[f"{prefix}ln_f.weight"],
            "ln_final.beta": source[f"{prefix}ln_f.bias"],
        }
        for i in range(n_layers):
            arrays = self.block_arrays(source, f"{prefix}blocks.{i}.")
            names.update({f"blocks.{i}.{name}": array for name, array in arrays.items()})
        return names


@pytest.fixture
def reference() -> Reference:
    return Reference()


@pytest.fixture
def check_directions(rng: np.random.Generator) -> Callable[[Callable[[], Tensor], Iterable[Parameter]], None]:
    """Compare the gradient of a scalar with central differences, for each parameter in a random direction."""

    def check(run: Callable[[], Tensor], parameters: Iterable[Parameter]) -> None:
        parameters = list(parameters)
        assert parameters
        for parameter in parameters:
            parameter.zero_grad()
        run().backward()
        with no_grad():
            for parameter in parameters:
                direction = rng.standard_normal(parameter.shape)
                start, step = parameter.value.copy(), 1e-6
                parameter.value = start + step * direction
                above = run().item()
                parameter.value = start - step * direction
                below = run().item()
                parameter.value = start
                assert parameter.grad is not None
                expected = (above - below) / (2 * step)
                assert abs(expected) > 1e-6, "a direction in which nothing changes checks nothing"
                assert float((parameter.grad * direction).sum()) == pytest.approx(expected, rel=1e-5, abs=1e-8)

    return check


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_260_313)


@pytest.fixture(autouse=True)
def _floating_point_errors_are_errors() -> Iterator[None]:
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        yield


@pytest.fixture(autouse=True)
def _global_random_state_is_untouched() -> Iterator[None]:
    before = np.random.get_state()  # noqa: NPY002  the very state that nothing may touch
    yield
    after = np.random.get_state()  # noqa: NPY002
    assert before[2:] == after[2:]
    assert np.array_equal(before[1], after[1])
