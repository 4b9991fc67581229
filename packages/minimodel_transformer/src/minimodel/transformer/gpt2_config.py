"""`config.json` of a Hugging Face GPT-2 folder: to a MiniGPTConfig, and back.

What decides about the numbers a model computes is read or required to be GPT-2's; the rest (dropout rates, special
tokens, names of classes) is passed over. Absent keys mean what they mean to transformers: its GPT-2 defaults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from .config import MiniGPTConfig

# Key to the values with which the model is GPT-2; the first is transformers' own for an absent key. The two names of
# activations are of one function: the tanh form of GELU.
_REQUIRED: dict[str, tuple[Any, ...]] = {
    "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "reorder_and_upcast_attn": (False,),
    "add_cross_attention": (False,),
    "tie_word_embeddings": (True,),
    "pruned_heads": ({}, None),
}

_GPT2_VOCABULARY, _END_OF_TEXT = 50257, 50256


def read_config(path: Path, *, dtype: npt.DTypeLike, dropout: float) -> MiniGPTConfig:
    """Return the sizes that the file at `path` names, with learned positions and attention biases.

    Parameters
    ----------
    path : Path
        A `config.json`.
    dtype, dropout
        Of the result; the file's are not read.

    Raises
    ------
    ValueError
        If the file is not a JSON object, or not of GPT-2; one line that names file and key.
    OSError
        If it cannot be read.
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # both wrong UTF-8 and wrong JSON are ValueErrors
        raise ValueError(f"{path} must be a JSON object; {' '.join(str(error).split())}. Fetch it again.") from error
    if not isinstance(table, dict):
        raise ValueError(f"{path} must be a JSON object; got {_shown(table)}. Fetch it again.")
    if "model_type" not in table:
        raise ValueError(f'{path}: model_type must be "gpt2"; the key is missing. Is this the config.json of a GPT-2?')
    for key, allowed in {"model_type": ("gpt2",), **_REQUIRED}.items():
        value = table.get(key, allowed[0])
        # JSON's true equals 1 in Python; the type must agree too.
        if not any(type(value) is type(each) and value == each for each in allowed):
            raise ValueError(
                f"{path}: {key} must be {' or '.join(map(json.dumps, allowed))}; got {_shown(value)}. "
                "Such a model computes something else than GPT-2; it cannot be loaded."
            )
    d_model, n_heads = _size(path, table, "n_embd"), _size(path, table, "n_head")
    if d_model % n_heads:
        raise ValueError(f"{path}: n_head must divide n_embd; got {n_heads} heads for {d_model}. Fetch it again.")
    return MiniGPTConfig(
        d_model=d_model,
        n_heads=n_heads,
        n_layers=_size(path, table, "n_layer"),
        d_ff=4 * d_model if table.get("n_inner") is None else _size(path, table, "n_inner"),
        vocab_size=_size(path, table, "vocab_size"),
        context_len=_size(path, table, "n_positions"),
        position="learned",
        attention_bias=True,
        dropout=dropout,
        ln_eps=_epsilon(path, table.get("layer_norm_epsilon", 1e-5)),
        dtype=dtype,  # type: ignore[arg-type]  # the configuration makes a name of it, or refuses it
    )


def config_json(config: MiniGPTConfig) -> str:
    """Return the text of a `config.json` from which transformers makes the model of `config`.

    Parameters
    ----------
    config : MiniGPTConfig
        With learned positions, attention biases and causal attention.
    """
    # Without an entry transformers would take GPT-2's own id, which a smaller vocabulary does not have.
    end_of_text = _END_OF_TEXT if config.vocab_size == _GPT2_VOCABULARY else None
    table = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": config.vocab_size,
        "n_positions": config.context_len,
        "n_embd": config.d_model,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "n_inner": None if config.d_ff == 4 * config.d_model else config.d_ff,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": config.ln_eps,
        "embd_pdrop": config.dropout,
        "resid_pdrop": config.dropout,
        "attn_pdrop": 0.0,  # see MultiHeadAttention: the attention weights have no dropout
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
        "initializer_range": 0.02,
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
        "use_cache": True,
        "dtype": config.dtype,
    }
    return json.dumps(table, indent=2, allow_nan=False) + "\n"


def _size(path: Path, table: Mapping[str, Any], key: str) -> int:
    """Return a number of things, at least 1."""
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        got = f"got {_shown(value)}" if key in table else "the key is missing"
        raise ValueError(f"{path}: {key} must be an integer of at least 1; {got}. Fetch it again.")
    return value


def _epsilon(path: Path, value: object) -> float:
    """Return the eps of LayerNorm."""
    if not isinstance(value, float) or not 0.0 < value < 1.0:
        raise ValueError(
            f"{path}: layer_norm_epsilon must be a number between 0 and 1; got {_shown(value)}. "
            "The usual value is 1e-05."
        )
    return value


def _shown(value: object) -> str:
    """Return `value` as JSON has it, cut where it is long."""
    written = json.dumps(value)
    return written if len(written) <= 60 else f"{written[:57]}..."
