"""Rows of a log for the diagnosis: a healthy course, made up, and whatever a test changes of it; small models trained.

`course` trains nothing. `bigram_rows` are those of the README's own model, which learns in a tenth of a second.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import autograd_core.functional as F
import numpy as np
from autograd_core import Linear, Module, Tensor, optim
from minimodel.embedding import Embedding
from minitrain import Batch, Inspector, train

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


class Bigram(Module):
    """The next token from this one alone; with `std`, all matrices are normal of that deviation, else Xavier's."""

    def __init__(self, vocab_size: int, width: int, rng: np.random.Generator, std: float | None = None) -> None:
        super().__init__()
        self.embedding = Embedding(vocab_size, width, rng=rng)
        self.head = Linear(width, vocab_size, rng=rng)
        for matrix in (self.embedding.E, self.head.weight) if std is not None else ():
            matrix.value = (rng.standard_normal(matrix.value.shape) * std).astype(matrix.value.dtype)

    def forward(self, ids: np.ndarray) -> Tensor:
        return self.head(self.embedding(ids))


def _counting(vocab_size: int, noise: float, rng: np.random.Generator) -> Iterator[Batch]:
    """Lines that count upwards from anywhere, a share `noise` of their tokens replaced by any."""
    while True:
        ids = (rng.integers(vocab_size, size=(8, 1)) + np.arange(12)) % vocab_size
        ids = np.where(rng.random(ids.shape) < noise, rng.integers(vocab_size, size=ids.shape), ids)
        yield Batch(inputs=ids[:, :-1], targets=ids[:, 1:])


def trained_rows(
    model: Module,
    batches: Iterator[Batch],
    *,
    vocab_size: int,
    rate: float,
    log_every: int = 10,
    steps: int = 120,
) -> list[Row]:
    """The rows of a model of ids, trained with the README's optimiser and schedule."""
    rows: list[Row] = []
    with Inspector(model, model.parameters()) as inspector:
        inspector.watch()
        train(
            model,
            optim.AdamW(model.parameters(), lr=rate),
            optim.WarmupCosine(rate, rate / 10, warmup_steps=min(10, steps), total_steps=steps),
            batches,
            steps=steps,
            objective=lambda model, batch: F.cross_entropy(model(batch.inputs), batch.targets, reduction="none"),
            inspector=inspector,
            log=rows.append,
            log_every=log_every,
            uniform=math.log(vocab_size),
        )
    return rows


def bigram_rows(rate: float, log_every: int, *, noise: float = 0.0) -> list[Row]:
    """Rows of the README's model: 26 letters, a width of 16, 120 steps."""
    rng = np.random.default_rng(0)
    return trained_rows(Bigram(26, 16, rng), _counting(26, noise, rng), vocab_size=26, rate=rate, log_every=log_every)


def uniform_rows(seed: int, std: float, *, zero_head: bool = False) -> list[Row]:
    """The first row of embedding and head of a normal start, 65 tokens, width 64, on uniform random tokens."""
    rng = np.random.default_rng(seed)
    model = Bigram(65, 64, rng, std)
    if zero_head:
        model.head.weight.value = np.zeros_like(model.head.weight.value)
    return trained_rows(model, _counting(65, 1.0, rng), vocab_size=65, rate=1e-3, steps=1)
