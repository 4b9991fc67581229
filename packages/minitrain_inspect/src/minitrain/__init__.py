"""Train a model made of `autograd_core` modules, see every layer while it happens, leave a folder a person can open.

`loop.train` and `inspect.Inspector` work on any model and any data; `run` and the `minitrain` command are the preset
that trains MiniGPT. BLUEPRINT.md has the reading order.
"""

from .__about__ import __version__
from .batches import Batch
from .inspect import Inspector, merge, welford_update
from .loop import Progress, TrainResult, evaluate, train
from .per_class_loss import IRREGULAR_VERBS, REGULAR_VERBS, partition_batch_loss

__all__ = [
    "IRREGULAR_VERBS",
    "REGULAR_VERBS",
    "Batch",
    "Inspector",
    "Progress",
    "TrainResult",
    "__version__",
    "evaluate",
    "merge",
    "partition_batch_loss",
    "train",
    "welford_update",
]
