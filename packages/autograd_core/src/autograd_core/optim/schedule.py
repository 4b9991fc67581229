"""The learning-rate schedule: linear warm-up, then a cosine."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WarmupCosine:
    """Learning rate by step, counted from 0: up in `warmup_steps` steps, half a cosine down to `lr_min`, then held.

    Parameters
    ----------
    lr_max, lr_min : float, lr_max at least lr_min, both at least 0
    warmup_steps : int
        0 starts at the top.
    total_steps : int, at least `warmup_steps` and 1

    Notes
    -----
    lr(s) = lr_max (s + 1)/W for s < W, else lr_min + (lr_max - lr_min)(1 + cos(π min(1, (s - W)/(N - W))))/2: no step
    is spent at rate 0, and the peak is reached at s = W - 1.

    References
    ----------
    Loshchilov and Hutter, "SGDR" (2017), eq. 5, without restarts.
    """

    lr_max: float
    lr_min: float
    warmup_steps: int
    total_steps: int

    def __post_init__(self) -> None:
        if not 0.0 <= self.lr_min <= self.lr_max:
            raise ValueError(
                f"WarmupCosine: needs 0 <= lr_min <= lr_max; got lr_min={self.lr_min}, lr_max={self.lr_max}."
            )
        if self.total_steps < 1 or not 0 <= self.warmup_steps <= self.total_steps:
            raise ValueError(
                "WarmupCosine: needs total_steps >= 1 and 0 <= warmup_steps <= total_steps; "
                f"got warmup_steps={self.warmup_steps}, total_steps={self.total_steps}."
            )

    def __call__(self, step: int) -> float:
        """Return the learning rate of step `step`, the first being 0."""
        if step < self.warmup_steps:
            return self.lr_max * (step + 1) / self.warmup_steps
        span = self.total_steps - self.warmup_steps
        progress = min(1.0, (step - self.warmup_steps) / span) if span else 1.0
        return self.lr_min + (self.lr_max - self.lr_min) * 0.5 * (1.0 + math.cos(math.pi * progress))
