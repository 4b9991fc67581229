"""Text from a model: sample the next id, append it, repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from autograd_core import Tensor, no_grad

from .sampling import Sampler

if TYPE_CHECKING:
    from .gpt import MiniGPT


def generate(
    model: MiniGPT,
    prompt_ids: Tensor | npt.NDArray[np.integer[Any]] | Sequence[Any],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    rng: np.random.Generator | None = None,
) -> npt.NDArray[np.int64]:
    """Return `prompt_ids` followed by `max_new_tokens` ids sampled from `model`.

    Parameters
    ----------
    model : MiniGPT
        Runs without gradients and without dropout; its training flags are afterwards as they were.
    prompt_ids : int array or nested list, shape (T,) or (B, T)
        At least one token; may be longer than `context_len`.
    max_new_tokens : int
        How many ids to add; 0 returns the prompt.
    temperature, top_k, top_p
        See `sampling.Sampler`.
    rng : numpy.random.Generator, optional
        Draws; a fresh unseeded one by default. Not used at temperature 0.

    Returns
    -------
    array, shape (T + max_new_tokens,) or (B, T + max_new_tokens), int64

    Raises
    ------
    ValueError
        If the prompt is empty or of another number of dimensions, a number is out of range, or the logits are not
        finite.
    IndexError
        If a prompt id is outside [0, V).
    TypeError
        If ids or `max_new_tokens` are not integers.

    Notes
    -----
    Each id comes from a forward over the last `context_len` tokens. Beyond `context_len` that window slides: its
    first token gets position 0 again, and what fell out of it is forgotten.
    """
    sampler = Sampler(temperature=temperature, top_k=top_k, top_p=top_p)
    if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, (int, np.integer)):
        raise TypeError(
            f"generate: max_new_tokens must be an integer; got {max_new_tokens!r}. Give the number as an int."
        )
    if max_new_tokens < 0:
        raise ValueError(f"generate: max_new_tokens must not be negative; got {max_new_tokens}. 0 returns the prompt.")
    rng = np.random.default_rng() if rng is None else rng
    context_len = model.config.context_len

    prompt = _checked_prompt(model, prompt_ids)
    start = prompt.shape[-1]
    ids = np.empty((*prompt.shape[:-1], start + int(max_new_tokens)), dtype=np.int64)
    ids[..., :start] = prompt

    with model.evaluating(), no_grad():
        for end in range(start, ids.shape[-1]):
            window = ids[..., max(0, end - context_len) : end]
            logits = model(window).value[..., -1, :]  # (V,) or (B, V)
            ids[..., end] = sampler.draw(logits, rng)
    return ids


def _checked_prompt(
    model: MiniGPT, prompt_ids: Tensor | npt.NDArray[np.integer[Any]] | Sequence[Any]
) -> npt.NDArray[np.int64]:
    """Return the prompt as int64 ids, all of them in the vocabulary, also those that no window will see."""
    prompt = np.asarray(prompt_ids.value if isinstance(prompt_ids, Tensor) else prompt_ids)
    if prompt.size == 0 or prompt.ndim not in (1, 2):
        raise ValueError(
            f"generate: the prompt must be (T,) or (B, T) with at least one token; got shape {prompt.shape}. "
            "Begin with a start-of-text token if there is nothing to continue."
        )
    with no_grad():
        model.embedding(prompt)
    return prompt.astype(np.int64)
