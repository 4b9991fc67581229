"""GPT-2 folders in Hugging Face's layout: `config.json` and `model.safetensors`, read and written.

GPT-2 keeps its matrices as (in, out), as we do, so nothing is transposed. `_tensors` says which of its tensors is
which of our parameters, and serves both ways.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from autograd_core.files import write_atomic
from minimodel.embedding.arguments import path_argument, rng_argument
from minimodel.embedding.no_draws import NoDraws

from .config import MiniGPTConfig
from .gpt import MiniGPT
from .gpt2_config import config_json, read_config
from .tensor_file import TensorFile

CONFIG, WEIGHTS = "config.json", "model.safetensors"
"""The two files of a folder."""

_PREFIX = "transformer."
_HEAD = "lm_head.weight"

# Masks that old versions saved as if they were weights. The first is no bias, whatever it is called.
_MASK_BUFFER = re.compile(r"h\.[0-9]{1,9}\.attn\.(masked_)?bias")

_NAMED = 4  # tensors that a message lists


class _Entry(NamedTuple):
    """One tensor of GPT-2."""

    name: str  # without prefix
    shape: tuple[int, ...]
    parts: tuple[str, ...]  # our parameters, side by side on its last axis


def load_gpt2(
    folder: str | os.PathLike[str],
    *,
    dtype: npt.DTypeLike = "float32",
    dropout: float = 0.0,
    rng: np.random.Generator | None = None,
) -> MiniGPT:
    """Return the model in a GPT-2 folder, ready to run and to train.

    Parameters
    ----------
    folder : path
        Holds `config.json` and `model.safetensors`; a tokeniser beside them is not read. Tensors may be float32,
        float16, bfloat16 or float64, with or without the prefix `transformer.`, with mask buffers, and with an
        `lm_head.weight` that equals `wte.weight`.
    dtype : "float32" or "float64"
        Of the parameters, whatever the file has.
    dropout : float
        As in `MiniGPTConfig`; the folder's rates are not read.
    rng : numpy.random.Generator, optional
        Dropout's generators are spawned from it; a fresh unseeded one by default.

    Returns
    -------
    MiniGPT
        With learned positions and attention biases; `.config.ln_eps` is the folder's.

    Raises
    ------
    ValueError
        If a file is damaged or the model is not GPT-2: another activation or scaling, missing, unknown or misshapen
        tensors. One line that names file and key or tensor.
    FileNotFoundError
        If a file is missing.
    TypeError
        For another `dtype`, or an `rng` that is no generator.

    Warns
    -----
    RuntimeWarning
        If the file holds NaN or infinite values.

    References
    ----------
    Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), §2.3.
    """
    generator = rng_argument("load_gpt2", rng)
    folder = path_argument("load_gpt2", folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"load_gpt2: a GPT-2 folder must hold {CONFIG} and {WEIGHTS}; there is no {name} in {folder}. "
                "Fetch it, or convert older weights to one safetensors file."
            )
    try:
        config = read_config(folder / CONFIG, dtype=dtype, dropout=dropout)
        file = TensorFile(folder / WEIGHTS)
        names = _checked_names(config, file)
        # Only now, when all sizes are known to be the file's, is memory taken for them.
        model = MiniGPT(config, rng=NoDraws(generator.bit_generator))
        parameters = dict(model.named_parameters())
        bad = []
        for entry in _tensors(config):
            values = file.read(names[entry.name], config.dtype)
            if not np.isfinite(values).all():
                bad.append(entry.name)
            for part, piece in zip(entry.parts, np.split(values, len(entry.parts), axis=-1), strict=True):
                parameters[part].value = piece
        _check_head(file, names, model)
    except ValueError as error:
        raise ValueError(f"load_gpt2: {error}") from error
    if bad:
        warnings.warn(
            f"load_gpt2: {file.path} holds NaN or infinite values in {_listed(bad)}; they are loaded as they are.",
            RuntimeWarning,
            stacklevel=2,
        )
    return model


def save_gpt2(model: MiniGPT, folder: str | os.PathLike[str]) -> None:
    """Write `model` as a GPT-2 folder that `load_gpt2` and Hugging Face transformers read; return nothing.

    Parameters
    ----------
    model : MiniGPT
        With learned positions, attention biases and causal attention, as GPT-2.
    folder : path
        Made if it is not there. Its `config.json` and `model.safetensors` are replaced, each whole or not at all; a
        tokeniser is not written.

    Raises
    ------
    ValueError
        If the model is not one that GPT-2 could be.
    TypeError
        If it is no MiniGPT.
    OSError
        If the folder cannot be written.
    """
    if not isinstance(model, MiniGPT):
        raise TypeError(f"save_gpt2: model must be a MiniGPT; got {type(model).__name__}. Save it with save_weights.")
    folder = path_argument("save_gpt2", folder)
    config = model.config
    for name, needed in {"position": "learned", "attention_bias": True, "causal": True}.items():
        found = getattr(config, name)
        if found != needed:
            raise ValueError(
                f"save_gpt2: GPT-2 has {name}={needed!r}; the model has {found!r}. Save it with save_weights instead."
            )
    parameters = dict(model.named_parameters())
    arrays = {}
    for entry in _tensors(config):
        *rows, columns = entry.shape
        for part in entry.parts:
            expected, found = (*rows, columns // len(entry.parts)), parameters[part].shape
            if found != expected:  # a parameter that was replaced
                raise ValueError(
                    f"save_gpt2: {part} must have shape {expected}, as the configuration says; got {found}. "
                    "Make the model with the sizes it has."
                )
        joined = np.concatenate([parameters[part].value for part in entry.parts], axis=-1)
        arrays[_PREFIX + entry.name] = np.ascontiguousarray(joined)
    folder.mkdir(parents=True, exist_ok=True)
    # transformers asks the header which framework's layout the tensors have: "pt".
    write_atomic(folder / WEIGHTS, safetensors.numpy.save(arrays, {"format": "pt"}))
    write_atomic(folder / CONFIG, config_json(config))


def _tensors(config: MiniGPTConfig) -> Iterator[_Entry]:
    """Yield every tensor of a GPT-2 of these sizes; see BLUEPRINT, section 7."""
    d_model, d_ff = config.d_model, config.d_ff
    yield _Entry("wte.weight", (config.vocab_size, d_model), ("embedding.E",))
    yield _Entry("wpe.weight", (config.context_len, d_model), ("position_embedding.E",))
    for i in range(config.n_layers):
        theirs, ours = f"h.{i}", f"blocks.{i}"
        for number in (1, 2):
            yield _Entry(f"{theirs}.ln_{number}.weight", (d_model,), (f"{ours}.ln{number}.gamma",))
            yield _Entry(f"{theirs}.ln_{number}.bias", (d_model,), (f"{ours}.ln{number}.beta",))
        for layer, rows, columns, parts in (
            ("attn.c_attn", d_model, 3 * d_model, ("attn.{}_q", "attn.{}_k", "attn.{}_v")),
            ("attn.c_proj", d_model, d_model, ("attn.{}_o",)),
            ("mlp.c_fc", d_model, d_ff, ("ffn.{}1",)),
            ("mlp.c_proj", d_ff, d_model, ("ffn.{}2",)),
        ):
            for kind, letter, shape in (("weight", "W", (rows, columns)), ("bias", "b", (columns,))):
                yield _Entry(
                    f"{theirs}.{layer}.{kind}", shape, tuple(f"{ours}.{part.format(letter)}" for part in parts)
                )
    yield _Entry("ln_f.weight", (d_model,), ("ln_final.gamma",))
    yield _Entry("ln_f.bias", (d_model,), ("ln_final.beta",))


def _checked_names(config: MiniGPTConfig, file: TensorFile) -> dict[str, str]:
    """Return the file's own names of GPT-2's tensors, once all are there, nothing else is, and all shapes fit."""
    names: dict[str, str] = {}
    for stored in file.shapes:
        name = stored.removeprefix(_PREFIX)
        if name in names:
            raise ValueError(
                f"{file.path}: a tensor must be there once; got both {_listed([names[name], stored])}. Save it again."
            )
        names[name] = stored
    # A file cannot hold more layers than tensors, whatever a damaged configuration claims.
    within_reach = replace(config, n_layers=min(config.n_layers, len(names) + 1))
    shapes = {entry.name: entry.shape for entry in _tensors(within_reach)}
    missing = [name for name in shapes if name not in names]
    shapes[_HEAD] = shapes["wte.weight"]
    unknown = [
        stored
        for name, stored in names.items()
        if name not in shapes and not (_MASK_BUFFER.fullmatch(name) and int(name.split(".")[1]) < config.n_layers)
    ]
    if missing or unknown:
        raise ValueError(
            f"{file.path} must hold a GPT-2 of {config.n_layers} layers and nothing else; missing {_listed(missing)}, "
            f"unknown {_listed(unknown)}. Does {CONFIG} belong to it?"
        )
    for name, shape in shapes.items():
        if name in names and file.shapes[names[name]] != shape:
            raise ValueError(
                f"{file.path}: {names[name]} must have shape {shape}, as {CONFIG} says; "
                f"got {file.shapes[names[name]]}. Does {CONFIG} belong to it?"
            )
    return names


def _check_head(file: TensorFile, names: dict[str, str], model: MiniGPT) -> None:
    """Raise unless the head is tied: absent, or the embedding to the last bit."""
    if _HEAD in names:
        head = file.read(names[_HEAD], model.config.dtype)
        if not np.array_equal(head, model.embedding.E.value, equal_nan=True):
            raise ValueError(
                f"{file.path}: {names[_HEAD]} must equal wte.weight, since GPT-2's head is tied; "
                f"{np.count_nonzero(head != model.embedding.E.value)} of {head.size} numbers differ. "
                "A model with a head of its own cannot be loaded."
            )


def _listed(names: list[str]) -> str:
    """Return the first names, and that there are more; "none" if there is none."""
    # A file's names may hold anything, also what would break the line or act on a terminal.
    shown = [name if name.isprintable() else repr(name) for name in names[:_NAMED]]
    return ", ".join(shown) + (" and others" if len(names) > _NAMED else "") or "none"
