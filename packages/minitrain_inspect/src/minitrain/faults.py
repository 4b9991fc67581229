"""Faults made on purpose while a run trains: dead units and a NaN, each before the step that the configuration names.

What a fault looks like is learned by making one. Other faults need no code here: `model.init_gain`, `model.causal`,
`train.warmup_steps`, `train.lr_max`, and `faults.data_fraction`, which `data.py` reads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from minimodel.transformer import MiniGPT

from .config import FaultsConfig

# GELU(x) is below 1e-3 in size from x = -4 on; -10 leaves room for what the inputs add.
_DEAD_BIAS = -10.0


def faulty_steps(model: MiniGPT, faults: FaultsConfig) -> Callable[[int], None] | None:
    """What `loop.train` calls as `before_step`; None where nothing is to be broken.

    It depends on the number of the step alone, so a resumed run breaks where the run it continues would have.

    Parameters
    ----------
    model : MiniGPT
        Whose parameters are written.
    faults : FaultsConfig
    """
    if faults.dead_units == 0.0 and faults.nan_step == 0:
        return None

    def before_step(step: int) -> None:
        if faults.dead_units > 0.0 and step == faults.dead_units_step:
            for block in model.blocks:
                bias = block.ffn.b1.value  # (F,)
                bias[: round(faults.dead_units * bias.size)] = _DEAD_BIAS
        if step == faults.nan_step:
            model.blocks[0].ffn.W1.value[0, 0] = np.nan

    return before_step
