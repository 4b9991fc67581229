"""The example that is worked out by hand: width 4, one head, hidden width 8, two tokens, all parameters in tenths."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..block import TransformerBlock

_TENTHS = {
    "ln1.gamma": [10, 5, 15, 10],
    "ln1.beta": [1, 0, -1, 2],
    "attn.W_q": [[5, 0, -2, 1], [0, 3, 2, -5], [2, -1, 4, 0], [-3, 5, 0, 2]],
    "attn.W_k": [[2, 5, 0, -1], [-4, 1, 3, 0], [0, 2, -5, 4], [5, 0, 1, -3]],
    "attn.W_v": [[3, -1, 5, 0], [0, 4, -2, 1], [-5, 0, 1, 3], [2, 1, 0, -4]],
    "attn.W_o": [[4, 0, -1, 2], [-2, 5, 0, 1], [1, -3, 4, 0], [0, 2, 1, -5]],
    "ln2.gamma": [15, 10, 10, 5],
    "ln2.beta": [0, 1, 2, -1],
    "ffn.W1": [
        [5, -3, 0, 2, 10, -1, 4, 0],
        [0, 6, -2, 1, 3, 5, 0, -10],
        [-4, 0, 8, -5, 0, 2, 1, 3],
        [1, 2, 0, 7, -6, 0, -3, 4],
    ],
    "ffn.b1": [1, -1, 2, 0, 3, -2, 0, 5],
    "ffn.W2": [
        [3, 0, -2, 1],
        [-1, 4, 0, 2],
        [0, 1, 5, -3],
        [2, -2, 0, 4],
        [6, 0, 1, 0],
        [0, 3, -4, 1],
        [-5, 1, 0, 2],
        [1, 0, 2, -6],
    ],
    "ffn.b2": [1, 0, -1, 2],
}


def hand_example(*, causal: bool = True) -> tuple[TransformerBlock, npt.NDArray[Any]]:
    """Return the block and its input, shape (2, 4), float64.

    Examples
    --------
    >>> block, x = hand_example()
    >>> x.mean(axis=-1).tolist()
    [0.25, 0.5]
    """
    block = TransformerBlock(4, 1, 8, causal=causal, rng=np.random.default_rng(0))
    # Divided, not multiplied by 0.1: 3 / 10 is the float nearest to 0.3, 3 · 0.1 is not.
    block.load_state_dict({name: np.array(tenths) / 10.0 for name, tenths in _TENTHS.items()})
    return block, np.array([[0.5, 1.0, 0.0, -0.5], [-1.0, 0.5, 1.5, 1.0]])
