"""Optimisers, gradient clipping and the learning-rate schedule."""

from .adamw import AdamW
from .clipping import clip_grad_norm
from .groups import Optimizer, decay_groups
from .schedule import WarmupCosine
from .sgd import SGD

__all__ = ["AdamW", "Optimizer", "SGD", "WarmupCosine", "clip_grad_norm", "decay_groups"]
