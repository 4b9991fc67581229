"""Reads the reference vectors in `data/` (see ORIGIN.md there) and moves their packed parameters into our modules."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DATA = Path(__file__).parent / "data"
_CASES = json.loads((DATA / "index.json").read_text())["cases"]


class Case(NamedTuple):
    arrays: dict[str, Any]
    params: dict[str, Any]
    tolerance: dict[str, float]

    def assert_close(self, found: Any, name: str) -> None:
        np.testing.assert_allclose(found, self.arrays[name], **self.tolerance, err_msg=name)


def load(name: str) -> Case:
    """Return a case, with its own prefix taken off the arrays' names."""
    entry = _CASES[name]
    with np.load(DATA / entry["file"]) as file:
        prefix = f"{name}."
        has_prefix = any(key.startswith(prefix) for key in file)
        arrays = {key.removeprefix(prefix): file[key] for key in file if not has_prefix or key.startswith(prefix)}
    return Case(arrays, entry["params"], entry["tol"])


def attention_arrays(source: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return W_q … b_o by our names from a packed `<prefix>qkv.weight` and its like."""
    names = {}
    for kind, letter in (("weight", "W"), ("bias", "b")):
        for name, part in zip("qkv", np.split(source[f"{prefix}qkv.{kind}"], 3, axis=-1), strict=True):
            names[f"{letter}_{name}"] = part
        names[f"{letter}_o"] = source[f"{prefix}proj.{kind}"]
    return names


def block_arrays(source: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return a block's arrays by our dotted names."""
    names = {f"attn.{name}": array for name, array in attention_arrays(source, f"{prefix}attn.").items()}
    for layer in ("ln1", "ln2"):
        names[f"{layer}.gamma"] = source[f"{prefix}{layer}.weight"]
        names[f"{layer}.beta"] = source[f"{prefix}{layer}.bias"]
    for number, layer in (("1", "fc"), ("2", "proj")):
        names[f"ffn.W{number}"] = source[f"{prefix}mlp.{layer}.weight"]
        names[f"ffn.b{number}"] = source[f"{prefix}mlp.{layer}.bias"]
    return names


def gpt_arrays(source: Mapping[str, Any], prefix: str, n_layers: int = 2) -> dict[str, Any]:
    """Return a whole model's arrays by our dotted names."""
    names = {
        "embedding.E": source[f"{prefix}wte"],
        "position_embedding.E": source[f"{prefix}wpe"],
        "ln_final.gamma": source[f"{prefix}ln_f.weight"],
        "ln_final.beta": source[f"{prefix}ln_f.bias"],
    }
    for i in range(n_layers):
        arrays = block_arrays(source, f"{prefix}blocks.{i}.")
        names.update({f"blocks.{i}.{name}": array for name, array in arrays.items()})
    return names
