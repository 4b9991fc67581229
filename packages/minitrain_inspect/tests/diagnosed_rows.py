"""Made-up rows of a log for the diagnosis: a healthy course, and whatever a test changes of it. Nothing is trained."""

import math
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]

UNIFORM = math.log(61)
MATRICES = ("embedding.E", "blocks.0.ffn.W1", "blocks.0.ffn.W2")


def healthy_row(step: int, total: int = 410) -> Row:
    """A row that no rule has anything against, at any step."""
    rate = 3e-3 * min(1.0, step / 41) * (1.0 if step <= 41 else 1.0 - 0.9 * (step - 41) / total)
    fallen = math.exp(-6 * step / total)
    return {
        "step": step,
        "tokens": 17 * step,
        "train_loss": 0.4 + (UNIFORM - 0.4) * fallen,
        "val_loss": 0.5 + (UNIFORM - 0.5) * fallen if step % 50 == 0 else None,
        "ngram_loss": 0.83,
        "uniform_loss": UNIFORM,
        "learning_rate": rate,
        "grad_norm": 1.3,
        "grad_norm_max": 1.9,
        "future_leak": 0.0 if step == 1 or step % 50 == 0 else None,
        "inspect": {
            "modules": {"Model": {"n": 7, "nan": 0, "inf": 0}, "blocks.0.ffn.act": {"n": 7, "nan": 0, "inf": 0}},
            "gradients": {f"{name}.grad": {"l2": 0.3 + 0.1 * place, "nan": 0} for place, name in enumerate(MATRICES)},
            "spectral_norm": dict.fromkeys(MATRICES, 2.0),
            "dead_fraction": {"blocks.0.ffn.act": 0.03, "blocks.1.ffn.act": 0.05},
            "update_ratio": {name: rate * factor for name, factor in zip(MATRICES, (5.0, 3.0, 3.1), strict=True)},
        },
        "non_finite_place": None,
    }


def course(change: Callable[[Row], None] = lambda row: None, *, steps: int = 410) -> list[Row]:
    """Rows at step 1 and every tenth, each changed in place by `change`."""
    rows = [healthy_row(step) for step in (1, *range(10, steps + 1, 10))]
    for row in rows:
        change(row)
    return rows
