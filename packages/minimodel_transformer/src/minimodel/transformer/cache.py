"""Keys and values of positions already seen, so that a new token costs one position and not all of them again.

In a causal model the keys and values of a position depend on it and on earlier ones alone: later tokens change nothing
about them. A cache is an argument of `forward`, never a part of a layer: whoever generates makes one, and drops it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from minimodel.embedding.arguments import size_argument

Array = npt.NDArray[Any]


class LayerCache:
    """What one attention layer has seen.

    Parameters
    ----------
    context_len : int
        Positions it has room for. The room is taken when the first keys come, whose shape and dtype it gets.

    Attributes
    ----------
    length : int
        Positions seen so far; the next token stands at this position.
    """

    def __init__(self, context_len: int) -> None:
        self.length = 0
        self._context_len = size_argument("LayerCache", "context_len", context_len)
        self._kept: Array | None = None  # (2, ..., H, context_len, K): keys, then values

    def append(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Return the keys and the values of all positions seen, these the last.

        Parameters
        ----------
        keys, values : array, shape (..., H, T, K)

        Returns
        -------
        two arrays, shape (..., H, length, K)
            Views of the cache, not to be written into.

        Raises
        ------
        ValueError
            If there is no room for T more, or the shape is not that of the positions before.
        """
        *lead, new, width = keys.shape
        end = self.length + new
        if end > self._context_len:
            raise ValueError(
                f"cache: {self._context_len} positions fit; got {new} after {self.length}. "
                "Begin again with a new cache and the last tokens of the sequence."
            )
        room = (2, *lead, self._context_len, width)
        if self._kept is None:
            self._kept = np.empty(room, keys.dtype)
        elif self._kept.shape != room:
            raise ValueError(
                f"cache: new keys must have the shape of those before, {self._kept.shape[1:-2]} and width "
                f"{self._kept.shape[-1]}; got {tuple(lead)} and {width}. Make a cache for each batch."
            )
        self._kept[0, ..., self.length : end, :] = keys
        self._kept[1, ..., self.length : end, :] = values
        self.length = end
        return self._kept[0, ..., :end, :], self._kept[1, ..., :end, :]


class KeyValueCache:
    """What all attention layers of a model have seen of one sequence, or of one batch of equally long ones.

    Each call `model(tokens, cache=cache)` takes `tokens` as following those of the calls before. After an error in such
    a call the cache is of no use: its layers may have come to different lengths.

    Parameters
    ----------
    n_layers : int
        Blocks L of the model.
    context_len : int
        Positions to have room for: at most the model's `context_len` will be used. The cache takes
        2 · L · context_len · D numbers a sequence.

    Examples
    --------
    >>> from autograd_core import no_grad
    >>> from minimodel.transformer import MiniGPT, MiniGPTConfig
    >>> model = MiniGPT(MiniGPTConfig(), rng=np.random.default_rng(0))
    >>> cache = KeyValueCache(model.config.n_layers, model.config.context_len)
    >>> tokens = np.array([3, 1, 4, 1, 5])
    >>> with no_grad():
    ...     whole = model(tokens).value
    ...     first, rest = model(tokens[:2], cache=cache).value, model(tokens[2:], cache=cache).value
    >>> bool(np.allclose(np.concatenate([first, rest]), whole, rtol=0, atol=1e-12)), cache.length
    (True, 5)
    """

    def __init__(self, n_layers: int, context_len: int) -> None:
        self.layers = [LayerCache(context_len) for _ in range(size_argument("KeyValueCache", "n_layers", n_layers))]

    @property
    def length(self) -> int:
        """Positions seen so far."""
        return self.layers[0].length
