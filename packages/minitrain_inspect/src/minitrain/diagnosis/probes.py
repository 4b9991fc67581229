"""Probes: small experiments on a model itself, where no recorded series could decide.

`future_leak` changes later tokens and looks whether earlier logits move. It knows nothing of how the model was
configured: it only calls it.
"""

from __future__ import annotations

import numpy as np
from autograd_core import Module, no_grad

# Longer contexts cost more and show nothing new: a mask is broken at every length.
_LONGEST = 128
_SEED = 20_140  # any: its own generator, so that probing changes nothing of a run


def future_leak(model: Module, vocab_size: int, context_len: int) -> float:
    """Greatest change of an earlier logit when only later tokens change; exactly 0.0 for a causal model.

    The model is called in evaluation mode without gradients, one sequence at a time, so that equal inputs give equal
    bits. A position whose logits are NaN before and after has not moved; one that becomes or ceases to be NaN gives
    infinity.

    Parameters
    ----------
    model : Module
        `model(ids)` with ids of shape (1, T) gives logits of shape (1, T, V).
    vocab_size : int
        V; with one token there is nothing to change, and 0.0 is returned.
    context_len : int
        Longest T the model takes; with one position there is no later token.
    """
    length = min(context_len, _LONGEST)
    if length < 2 or vocab_size < 2:
        return 0.0
    rng = np.random.default_rng(_SEED)
    ids = rng.integers(vocab_size, size=(1, length))
    greatest = 0.0
    with model.evaluating(), no_grad(), np.errstate(all="ignore"):
        before = model(ids).value
        # The first and the last place, where a mask that is shifted shows, and two between.
        for cut in sorted({1, length // 3, 2 * length // 3, length - 1} - {0}):
            changed = ids.copy()
            # A shift by 1 to V - 1: every later token is another one.
            changed[:, cut:] = (ids[:, cut:] + rng.integers(1, vocab_size, size=(1, length - cut))) % vocab_size
            after = model(changed).value
            greatest = max(greatest, _moved(before[:, :cut], after[:, :cut]))
    return greatest


def _moved(before: np.ndarray, after: np.ndarray) -> float:
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    if same.all():
        return 0.0
    distance = float(np.abs(before[~same].astype(np.float64) - after[~same]).max())
    return np.inf if np.isnan(distance) else distance
