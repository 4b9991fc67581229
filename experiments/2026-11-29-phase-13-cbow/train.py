"""Train CBOW on the verb corpus and measure whether forms of one verb come to lie together.

    python experiments/2026-11-29-phase-13-cbow/train.py --record

writes `results.csv`, `similarity.svg`, `manifest.json` and the embedding of the last run (`context.npy` with
`context.json`) into `runs/phase-13-cbow`, and with `--record` all but the embedding beside this file as well. `--smoke`
makes two epochs.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path

import autograd_core as ag
import numpy as np
import numpy.typing as npt
from autograd_core import functional as F
from autograd_core import optim
from autograd_core.files import write_atomic
from minimodel.embedding import Embedding
from minitrain.manifest import build_manifest, write_manifest
from picture import similarity_svg
from threadpoolctl import threadpool_limits
from words import FORMS, IDS, JOINED, LEMMAS, texts

HERE = Path(__file__).resolve().parent
REACH, WIDTH, BATCH, LEARNING_RATE = 2, 32, 256, 1e-2
Array = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]


class CBOW(ag.Module):
    """The word in the middle from the mean of those around it (Mikolov et al. 2013, arXiv 1301.3781, section 3.1)."""

    def __init__(self, vocabulary: int, width: int, *, rng: np.random.Generator) -> None:
        self.context = Embedding(vocabulary, width, rng=rng)  # (V, d)
        self.output = ag.Linear(width, vocabulary, bias=False, rng=rng)  # (d, V), a matrix of its own

    def forward(self, around: Ids, weights: Array) -> ag.Tensor:
        """Logits (B, V) for the middles, from ids (B, 2 REACH) and weights that are 0 where the text has ended."""
        mean = (self.context(around) * weights[..., np.newaxis]).sum(axis=1)  # (B, d)
        return self.output(mean)


def windows(lines: list[list[int]]) -> tuple[Ids, Array, Ids]:
    """Return for every word with a neighbour: ids around it, their weights (they sum to 1), and its own id."""
    around, weights, middles = [], [], []
    for line in lines:
        for i, middle in enumerate(line):
            near = line[max(0, i - REACH) : i] + line[i + 1 : i + 1 + REACH]
            if near:
                missing = 2 * REACH - len(near)
                around.append(near + [0] * missing)
                weights.append([1 / len(near)] * len(near) + [0.0] * missing)
                middles.append(middle)
    return np.array(around), np.array(weights), np.array(middles)


def train(text: str, seed: int, epochs: int) -> tuple[CBOW, list[float]]:
    """Return the model, and the mean loss of the first batch and of each epoch, in nats a word."""
    rng = np.random.default_rng(seed)
    model = CBOW(len(IDS), WIDTH, rng=rng)
    optimizer = optim.AdamW(list(model.parameters()), LEARNING_RATE, weight_decay=0.0)
    schedule = optim.WarmupCosine(LEARNING_RATE, LEARNING_RATE / 20, 0, epochs)
    losses = []
    for epoch in range(epochs):
        around, weights, middles = windows(texts(text, rng))
        optimizer.lr = schedule(epoch)
        batch_losses = []
        for rows in np.array_split(rng.permutation(len(middles)), len(middles) // BATCH):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(around[rows], weights[rows]), middles[rows])
            loss.backward()
            optimizer.step()
            batch_losses.append(loss.item())
        losses += [batch_losses[0]] * (epoch == 0) + [float(np.mean(batch_losses))]
    return model, losses


def cosines(embedding: Embedding) -> Array:
    """Return the cosine of each two forms of verbs."""
    rows = embedding.E.value[[IDS[form] for form in FORMS]]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


def similarity(cosine: Array) -> Iterator[tuple[str, float]]:
    """Yield mean cosines within and across verbs, and how often the nearest form is one of the same verb."""
    same = LEMMAS[:, np.newaxis] == LEMMAS
    others = ~np.eye(len(LEMMAS), dtype=bool)
    yield "within", cosine[same & others].mean()
    yield "within_joined", cosine[same & others & JOINED].mean()
    yield "within_apart", cosine[same & ~JOINED].mean()
    yield "across", cosine[~same].mean()
    nearest = np.where(others, cosine, -2.0).argmax(axis=1)
    yield "nearest_is_same_verb", (LEMMAS[nearest] == LEMMAS).mean()


def main() -> None:
    """Train every text with every seed; write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path("runs/phase-13-cbow")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="default: 0 1 2 3 4")
    parser.add_argument("--out", type=Path, default=default, help=f"default: {default}")
    parser.add_argument("--record", action="store_true", help="write the results beside this file as well")
    parser.add_argument("--smoke", action="store_true", help="two epochs of one seed, to see that it works")
    asked = parser.parse_args()
    seeds, epochs = (asked.seeds[:1], 2) if asked.smoke else (asked.seeds, 100)
    asked.out.mkdir(parents=True, exist_ok=True)

    rows, pictures = [], {}
    with threadpool_limits(1):
        for text in ("line", "verb"):
            for seed in seeds:
                model, losses = train(text, seed, epochs)
                model.context.save(asked.out / "context")
                embedding = Embedding.load(asked.out / "context")  # what is measured is what was saved
                assert embedding.E.value.tobytes() == model.context.E.value.tobytes()
                pictures.setdefault(text, cosines(embedding))
                row = {"loss_start": losses[0], "loss_epoch_10": losses[min(10, epochs)], "loss_end": losses[-1]}
                row |= dict(similarity(cosines(embedding)))
                rows.append({"text": text, "seed": seed, **{name: f"{value:.4f}" for name, value in row.items()}})
                print(rows[-1], flush=True)
        sizes = {"width": WIDTH, "reach": REACH, "batch": BATCH, "epochs": epochs, "learning_rate": LEARNING_RATE}
        manifest = build_manifest({**sizes, "seeds": seeds, "vocabulary": len(IDS)}, seed=seeds[0], threads=1)
    print(f"ln V = {math.log(len(IDS)):.4f}, {len(FORMS)} forms of {len(set(LEMMAS))} verbs")

    table = io.StringIO()
    writer = csv.DictWriter(table, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    for folder in [asked.out, *([HERE] if asked.record else [])]:
        write_atomic(folder / "results.csv", table.getvalue())
        write_atomic(folder / "similarity.svg", similarity_svg(pictures, LEMMAS))
        write_manifest(folder / "manifest.json", manifest)


if __name__ == "__main__":
    main()
