"""A program as a user of the four packages would write it, checked by `mypy --strict` against the installed packages.

It holds what a user's types meet: their own module, their own hook, their own batches. It fails to type-check when a
package does not carry `py.typed`. `test_packaging.py` also runs it.
"""

from __future__ import annotations

from collections.abc import Iterator

import autograd_core as ag
import autograd_core.functional as F
import numpy as np
import numpy.typing as npt
from autograd_core import optim
from minimodel.embedding import Embedding
from minimodel.transformer import MiniGPT, MiniGPTConfig
from minitrain.batches import Batch
from minitrain.inspect import Inspector
from minitrain.loop import train
from minitrain.per_class_loss import partition_batch_loss


class Bigram(ag.Module):
    """Logits of the next id from this one alone."""

    def __init__(self, vocab_size: int, width: int, *, rng: np.random.Generator) -> None:
        super().__init__()
        self.embedding = Embedding(vocab_size, width, rng=rng)
        self.head = ag.Linear(width, vocab_size, rng=rng)

    def forward(self, ids: npt.NDArray[np.integer]) -> ag.Tensor:
        return self.head(self.embedding(ids))


def bigram_loss(model: ag.Module, batch: Batch) -> ag.Tensor:
    """Loss of each target position, in nats."""
    return F.cross_entropy(model(batch.inputs), batch.targets, reduction="none")


def counting_batches(vocab_size: int, rng: np.random.Generator) -> Iterator[Batch]:
    """Lines that count upwards."""
    while True:
        starts = rng.integers(0, vocab_size, size=(3, 1))
        ids = (starts + np.arange(8)) % vocab_size
        yield Batch(inputs=ids[:, :-1], targets=ids[:, 1:])


def main() -> float:
    """The loss of the last step, in nats."""
    rng = np.random.default_rng(0)
    model = Bigram(7, 5, rng=rng)
    seen: list[tuple[int, ...]] = []

    def note_shape(module: ag.Module, args: tuple[object, ...], kwargs: dict[str, object], output: ag.Tensor) -> None:
        seen.append(output.shape)

    handle: ag.HookHandle = model.register_forward_hook(note_shape)
    optimizer = optim.AdamW(optim.decay_groups(model, 0.01), lr=1e-2)
    with handle, Inspector(model, model.parameters()) as inspector:
        inspector.watch()
        train(
            model,
            optimizer,
            optim.WarmupCosine(1e-2, 1e-3, 5, 50),
            counting_batches(7, rng),
            steps=50,
            objective=bigram_loss,
            inspector=inspector,
        )
        names = sorted(inspector.snapshot())

    gpt = MiniGPT(MiniGPTConfig(vocab_size=11, context_len=13), rng=rng)
    ids = np.arange(10)
    gpt.loss(ids[:-1], ids[1:]).backward()
    gradient = gpt.embedding.E.grad
    assert gradient is not None
    assert names
    assert seen
    regular, irregular = partition_batch_loss([1.0, 3.0], ["work", "go"])
    assert (regular, irregular) == (1.0, 3.0)
    return float(bigram_loss(model, next(counting_batches(7, rng))).mean().item())
