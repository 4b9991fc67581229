"""What the Inspector costs: the same training steps without it, with everything every step, and with `every = 10`.

    python experiments/19-overhead/measure.py

Three copies of a run take turns, ten steps a turn, so that whatever else the machine does falls on all of them alike.
Each makes 200 steps (`--steps`) of the public loop with a row of the log a step, which is all that panels 1 to 7
need; spectral norms are measured in every tenth row. Writes `results.csv` and `manifest.json` beside this file unless
`--smoke`. Unset OPENBLAS_CORETYPE for this command where it is set: it slows NumPy and flatters the Inspector.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from autograd_core.files import write_atomic
from autograd_core.optim import AdamW, decay_groups
from minimodel.transformer import MiniGPT, MiniGPTConfig
from minitrain.batches import PaddedBatches
from minitrain.inspect import Inspector
from minitrain.loop import Progress, train
from minitrain.manifest import build_manifest, write_manifest
from minitrain.verbs import encode_example, verb_corpus
from threadpoolctl import threadpool_limits

HERE = Path(__file__).resolve().parent
TURN = 10  # steps
SIZES = {"default": {"d_model": 64, "n_layers": 2, "d_ff": 256}, "larger": {"d_model": 128, "n_layers": 4, "d_ff": 512}}
VARIANTS = {"plain": None, "every step": 1, "every = 10": 10}
COLUMNS = ("model", "dtype", "variant", "wall_ms", "wall_ms_p10", "wall_ms_p90", "cpu_ms", "cpu_overhead_percent")


def runner(size: str, dtype: str, every: int | None) -> Callable[[int], None]:
    """Return a function that makes so many steps of a run of its own."""
    corpus = verb_corpus()
    lines = [encode_example(example, corpus.tokenizer) for example in corpus.train]
    model = MiniGPT(MiniGPTConfig(context_len=64, dtype=dtype, **SIZES[size]), rng=np.random.default_rng(0))
    optimizer = AdamW(decay_groups(model, 0.3), lr=1e-3)
    batches = PaddedBatches(lines, 32, seed=0)
    progress = Progress()
    inspector = None
    if every is not None:
        inspector = Inspector(model, dict(model.named_parameters()), every=every, spectral_every=10)
        inspector.watch()

    def advance(steps: int) -> None:
        train(
            model,
            optimizer,
            lambda step: 1e-3,
            batches,
            steps=progress.step + steps,
            grad_clip=1.0,
            inspector=inspector,
            log=lambda row: None,
            log_every=every or 1,
            progress=progress,
        )

    return advance


def measure(size: str, dtype: str, turns: int) -> list[dict[str, object]]:
    """Time the variants turn by turn; return a row each."""
    runs = {name: runner(size, dtype, every) for name, every in VARIANTS.items()}
    wall: dict[str, list[float]] = {name: [] for name in runs}
    cpu: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run(TURN)  # the first steps pay for caches and cold spectral norms
    for _ in range(turns):
        for name, run in runs.items():
            began, began_cpu = time.perf_counter(), time.process_time()
            run(TURN)
            cpu[name].append((time.process_time() - began_cpu) / TURN * 1e3)
            wall[name].append((time.perf_counter() - began) / TURN * 1e3)
    rows = []
    for name in runs:
        # Turn against turn, then the median: a busy moment spoils one ratio, not the mean of all.
        ratio = statistics.median(a / b for a, b in zip(cpu[name], cpu["plain"], strict=True))
        low, high = np.percentile(wall[name], [10, 90])
        numbers = (statistics.median(wall[name]), low, high, statistics.median(cpu[name]), (ratio - 1.0) * 100.0)
        rows.append(dict(zip(COLUMNS, (size, dtype, name, *(f"{n:.2f}" for n in numbers)), strict=True)))
    return rows


def main() -> None:
    """Measure every size and dtype and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="a variant (default: 200)")
    parser.add_argument("--out", type=Path, default=HERE, help="default: beside this file")
    parser.add_argument("--smoke", action="store_true", help="a few steps of one model; not into the default folder")
    arguments = parser.parse_args()
    turns = 1 if arguments.smoke else max(1, arguments.steps // TURN)
    cases = [("default", "float32"), ("default", "float64"), ("larger", "float32")]
    table: list[dict[str, object]] = []
    with threadpool_limits(1):
        for size, dtype in cases[:1] if arguments.smoke else cases:
            for row in measure(size, dtype, turns):
                table.append(row)
                print("  ".join(str(value) for value in row.values()))
    if not arguments.smoke or arguments.out != HERE:
        arguments.out.mkdir(parents=True, exist_ok=True)
        lines = [",".join(COLUMNS), *(",".join(str(v) for v in row.values()) for row in table)]
        write_atomic(arguments.out / "results.csv", "\n".join(lines) + "\n")
        write_manifest(arguments.out / "manifest.json", build_manifest({"steps": turns * TURN}, seed=0, threads=1))


if __name__ == "__main__":
    main()
