"""What may be given as `rng`: a generator, because nothing here touches NumPy's global random state."""

from __future__ import annotations

import numpy as np


def generator(owner: str, rng: object) -> np.random.Generator:
    """Return `rng`, or raise TypeError, in the name of `owner`, if it is something else, such as a seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    is_seed = isinstance(rng, (int, np.integer)) and not isinstance(rng, bool)
    found, seed = (f"{type(rng).__name__} {rng}", rng) if is_seed else (type(rng).__name__, "seed")
    raise TypeError(f"{owner}: rng must be a numpy.random.Generator; got {found}. Pass np.random.default_rng({seed}).")
