"""Text from a model: sample the next id, append it, repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from autograd_core import Tensor, no_grad
from minimodel.embedding.arguments import ids_argument, rng_argument

from .cache import KeyValueCache
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
        If ids or `max_new_tokens` are not integers, or `rng` is no generator.

    Notes
    -----
    Each id comes from the last `context_len` tokens. Up to there a key-value cache keeps what earlier tokens gave, so
    that a new one costs a forward over one position. Beyond `context_len` the window slides: its first token gets
    position 0 again, what fell out of it is forgotten, and since that changes every position, each id costs a forward
    over the window. So does every id of a model that is not causal.
    """
    sampler = Sampler(temperature=temperature, top_k=top_k, top_p=top_p)
    if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, (int, np.integer)):
        raise TypeError(
            f"generate: max_new_tokens must be an integer; got {max_new_tokens!r}. Give the number as an int."
        )
    if max_new_tokens < 0:
        raise ValueError(f"generate: max_new_tokens must not be negative; got {max_new_tokens}. 0 returns the prompt.")
    rng = rng_argument("generate", rng)
    context_len = model.config.context_len

    prompt = _checked_prompt(model, prompt_ids)
    start = prompt.shape[-1]
    try:
        ids = np.empty((*prompt.shape[:-1], start + int(max_new_tokens)), dtype=np.int64)
    except (MemoryError, ValueError):  # beyond the memory, beyond any array
        raise ValueError(
            f"generate: prompt and continuation must fit in memory; got max_new_tokens={max_new_tokens}. Give fewer."
        ) from None
    ids[..., :start] = prompt

    # Room for what there will be, which may be far less than the context.
    cache = KeyValueCache(model.config.n_layers, min(context_len, ids.shape[-1])) if model.config.causal else None
    with model.evaluating(), no_grad():
        for end in range(start, ids.shape[-1]):
            if cache is not None and end <= context_len:
                logits = model(ids[..., cache.length : end], cache=cache)
            else:
                logits = model(ids[..., max(0, end - context_len) : end])
            ids[..., end] = sampler.draw(logits.value[..., -1, :], rng)  # from (V,) or (B, V)
    return ids


def _checked_prompt(
    model: MiniGPT, prompt_ids: Tensor | npt.NDArray[np.integer[Any]] | Sequence[Any]
) -> npt.NDArray[np.int64]:
    """Return the prompt as int64 ids, all of them in the vocabulary, also those that no window will see."""
    prompt = ids_argument("generate", "the prompt", prompt_ids, model.config.vocab_size)
    if prompt.size == 0 or prompt.ndim not in (1, 2):
        raise ValueError(
            f"generate: the prompt must be (T,) or (B, T) with at least one token; got shape {prompt.shape}. "
            "Begin with a start-of-text token if there is nothing to continue."
        )
    with no_grad():
        model.embedding(prompt)
    return prompt.astype(np.int64)
