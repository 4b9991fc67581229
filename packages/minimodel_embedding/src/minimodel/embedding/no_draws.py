"""For models whose weights are read from a file: a generator that does not draw them first.

Randomness is an argument of every constructor, so building a model without it takes another argument and no other way
to build. At GPT-2's 124 million weights the draws, all to be overwritten, take three times as long as all the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class NoDraws(np.random.Generator):
    """A generator whose draws are zeros.

    Generators spawned from it do draw, as those of dropout must: the same as another generator on its bit generator
    would spawn. Its own state does not move.

    Examples
    --------
    >>> no_draws = NoDraws(np.random.default_rng(0).bit_generator)
    >>> no_draws.normal(0.0, 1.0, (1, 3)).tolist()
    [[0.0, 0.0, 0.0]]
    """

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Return zeros."""
        return np.zeros(size)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Return zeros."""
        return np.zeros(size)

    def spawn(self, n_children: int) -> Any:
        """Return generators that draw."""
        return np.random.Generator(self.bit_generator).spawn(n_children)
