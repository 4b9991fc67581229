"""Time the lookup against a materialised one-hot product, and show what `+=`, `np.add.at` and ours make of duplicates.

    python experiments/2026-11-29-phase-13-embedding/measure.py --record

writes `lookup_timing.csv`, `scatter.csv` and `manifest.json` into `runs/phase-13-embedding`, and with `--record` beside
this file as well. `--smoke` measures a few calls at two sizes only. PyTorch is timed where it is installed.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from autograd_core import no_grad
from autograd_core.files import write_atomic
from duplicates import CASES, WAYS, Call, judged
from minimodel.embedding import Embedding
from minitrain.manifest import build_manifest, write_manifest
from threadpoolctl import threadpool_limits

HERE = Path(__file__).resolve().parent
N, WIDTH = 8192, 32
VOCABULARIES = (16, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096, 16_384, 65_536)
BLOCK_BYTES = 1 << 28  # of one-hot matrix at a time: whole, the largest would take 4 GiB
Array = npt.NDArray[Any]


def one_hot_lookup(ids: Array, table: Array) -> Array:
    """Return the rows of `ids` as a product with the one-hot matrix, made and multiplied in blocks of rows."""
    out = np.empty((len(ids), table.shape[1]), table.dtype)
    step = max(1, BLOCK_BYTES // (len(table) * table.itemsize))
    for start in range(0, len(ids), step):
        block = ids[start : start + step]
        one_hot = np.zeros((len(block), len(table)), table.dtype)
        one_hot[np.arange(len(block)), block] = 1.0
        np.matmul(one_hot, table, out=out[start : start + step])
    return out


def interleaved(calls: dict[str, Call], rounds: int, seconds: float = 0.005) -> dict[str, Array]:
    """Return the CPU seconds a call of each, one number a round; the calls take turns, forth and back."""
    repeats = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        repeats[name] = max(1, min(1000, round(seconds / max(time.perf_counter() - start, 1e-7))))
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        for name in list(calls) if turn % 2 == 0 else reversed(list(calls)):
            call = calls[name]
            start = time.thread_time()
            for _ in range(repeats[name]):
                call()
            spent[name].append((time.thread_time() - start) / repeats[name])
    return {name: np.array(values) for name, values in spent.items()}


def pytorch() -> Any | None:
    """Return PyTorch on one thread, or None where it is not installed."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    torch.set_num_threads(1)
    return torch


def lookup_row(vocabulary: int, dtype: type, rounds: int) -> dict[str, Any]:
    """Return the row of lookup_timing.csv for one size: medians in microseconds, and ratios within a round."""
    rng = np.random.default_rng(0)
    embedding = Embedding(vocabulary, WIDTH, rng=rng, dtype=dtype)
    table, ids = embedding.E.value, rng.integers(0, vocabulary, N)
    rows = embedding(ids).value
    np.testing.assert_allclose(one_hot_lookup(ids, table), rows, rtol=1e-12)  # 1 · E + 0 + … + 0

    def lookup() -> object:
        with no_grad():
            return embedding(ids)

    calls: dict[str, Call] = {"lookup": lookup, "recorded": lambda: embedding(ids), "copy": rows.copy}
    calls["write"] = lambda: np.full(rows.shape, 1.0, dtype)
    calls["one_hot"] = lambda: one_hot_lookup(ids, table)
    if (torch := pytorch()) is not None:
        weight, torch_ids = torch.from_numpy(table), torch.from_numpy(ids)
        calls["pytorch"] = lambda: torch.nn.functional.embedding(torch_ids, weight)
    seconds = interleaved(calls, rounds)
    marks = dict(
        zip(("low", "", "high"), np.percentile(seconds["one_hot"] / seconds["lookup"], (10, 50, 90)), strict=True)
    )
    return {
        "vocabulary": vocabulary,
        "width": WIDTH,
        "ids": N,
        "dtype": np.dtype(dtype).name,
        **{
            f"{name}_us": f"{np.median(seconds[name]) * 1e6:.1f}" if name in seconds else ""
            for name in (*calls, "pytorch")
        },
        "one_hot_over_lookup": f"{marks['']:.1f}",
        "low_10_percent": f"{marks['low']:.1f}",
        "high_90_percent": f"{marks['high']:.1f}",
        "one_hot_over_copy": f"{np.median(seconds['one_hot'] / seconds['copy']):.1f}",
        "one_hot_over_write": f"{np.median(seconds['one_hot'] / seconds['write']):.1f}",
        "lookup_over_copy": f"{np.median(seconds['lookup'] / seconds['copy']):.2f}",
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path("runs/phase-13-embedding")
    parser.add_argument("--out", type=Path, default=default, help=f"default: {default}")
    parser.add_argument("--record", action="store_true", help="write the files beside this one as well")
    parser.add_argument("--smoke", action="store_true", help="a few calls at two sizes, to see that it works")
    arguments = parser.parse_args()

    sizes = (16, 64) if arguments.smoke else VOCABULARIES
    rounds = 3 if arguments.smoke else 41
    with threadpool_limits(1):
        lookup = []
        for dtype in (np.float64, np.float32):
            for vocabulary in sizes:
                lookup.append(lookup_row(vocabulary, dtype, rounds if vocabulary < 16_384 else 7))
                print(lookup[-1], flush=True)
        scatter = []
        for case in CASES:
            calls = {name: way(case) for name, way in WAYS.items()}
            seconds = interleaved(calls, rounds)
            scatter += [
                {**judged(case, name, calls[name]), "us": f"{np.median(seconds[name]) * 1e6:.1f}"} for name in WAYS
            ]
        version = str(torch.__version__) if (torch := pytorch()) is not None else None
        sizes_and_peer = {"vocabularies": sizes, "width": WIDTH, "ids": N, "rounds": rounds, "pytorch": version}
        manifest = build_manifest(sizes_and_peer, seed=0, threads=1)
    print(table(scatter), end="")
    for folder in [arguments.out, *([HERE] if arguments.record else [])]:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "lookup_timing.csv", table(lookup))
        write_atomic(folder / "scatter.csv", table(scatter))
        write_manifest(folder / "manifest.json", manifest)


if __name__ == "__main__":
    main()
