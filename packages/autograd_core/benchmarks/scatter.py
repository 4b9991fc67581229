"""Time the gradient of `embedding` and print a Markdown table: `python packages/autograd_core/benchmarks/scatter.py`.

Everything that is compared computes the same array, a table of zeros to which each row of the cotangent is added at its
id, and is checked against the sum in float64 first. The ways run in turns, forth and back, a few milliseconds each; the
figure is CPU time, whose median over the turns a busy machine moves least. PyTorch joins where it is installed.
`--markdown FILE` writes the table as well, with machine and versions.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before NumPy is loaded: one thread, and the kernels that OpenBLAS chooses for this processor.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
for pinned in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(pinned, None)

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
from autograd_core.ops.scatter_add import scatter_add_rows  # noqa: E402
from run import machine  # noqa: E402

Array = npt.NDArray[Any]
Way = Callable[[Array, Array, int], Array]

# Vocabulary, width, rows: those of the workloads first, then what lies around them.
REGIMES = (
    [(64, 64, 224), (256, 128, 2048), (64, 32, 8192), (1024, 256, 2048)]
    + [(vocabulary, width, 16) for vocabulary in (64, 4096, 50_257) for width in (32, 256)]
    + [(vocabulary, width, rows) for rows in (64, 1024) for vocabulary in (64, 4096, 50_257) for width in (32, 256)]
    + [(1, 8, 100_000), (1, 64, 100_000), (64, 8, 65_536), (4096, 8, 65_536), (50_257, 256, 8192), (50_257, 768, 8192)]
)
LARGE_VOCABULARY = 50_257  # its ids are drawn as words are: Zipf, most rows unused and a few very frequent


ABOUT = """# The gradient of `embedding`

`python packages/autograd_core/benchmarks/scatter.py --markdown packages/autograd_core/benchmarks/SCATTER.md`: CPU time
of the calls that make the array, on one thread, medians of turns. {versions}. {machine}.

Multiples of the speed of `np.add.at` on two axes, which defines the sum; 2x takes half its time. Of the ways beside
ours two are no candidates: the flat `add.at` loses digits in float32, and the one-hot product makes NaN of every row if
one is infinite. Ids are drawn evenly; those of the vocabulary of 50,257 as words are. With few rows of a large
vocabulary there is nothing to win: the zeros of the whole table are written by everybody.
"""


def versions() -> str:
    """Python, NumPy and, where it is installed, PyTorch."""
    found = f"Python {platform.python_version()}, NumPy {np.__version__}"
    try:
        return f"{found}, PyTorch {importlib.import_module('torch').__version__}"
    except ImportError:
        return found


def add_at(ids: Array, grad: Array, rows: int) -> Array:
    """What defines the sum."""
    out = np.zeros((rows, grad.shape[1]), grad.dtype)
    np.add.at(out, ids, grad)
    return out


def add_at_flat(ids: Array, grad: Array, rows: int) -> Array:
    """The same on single numbers, in their own dtype: fast, but a float32 running sum loses digits."""
    width = grad.shape[1]
    out = np.zeros(rows * width, grad.dtype)
    np.add.at(out, (ids[:, None] * width + np.arange(width)).reshape(-1), grad.reshape(-1))
    return out.reshape(rows, width)


def sort_and_reduceat(ids: Array, grad: Array, rows: int) -> Array:
    """Rows sorted by id and each run summed by `reduceat`."""
    out = np.zeros((rows, grad.shape[1]), grad.dtype)
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    out[ids[starts]] = np.add.reduceat(grad[order], starts, axis=0)
    return out


def one_hot(ids: Array, grad: Array, rows: int) -> Array:
    """The transposed one-hot matrix times the cotangent."""
    matrix = np.zeros((rows, len(ids)), grad.dtype)
    matrix[ids, np.arange(len(ids))] = 1.0
    return np.asarray(matrix @ grad)


def pytorch() -> Way | None:
    """PyTorch's own, on one thread; None where it is not installed."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    torch.set_num_threads(1)

    def backward(ids: Array, grad: Array, rows: int) -> Array:
        ids, grad = torch.from_numpy(ids), torch.from_numpy(grad)
        return np.asarray(torch.ops.aten.embedding_dense_backward(grad, ids, rows, -1, False).numpy())

    return backward


def interleaved(calls: dict[str, Callable[[], object]], turns: int, seconds: float) -> dict[str, float]:
    """CPU seconds a call of each, the median over the turns."""
    repeats = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        repeats[name] = max(1, min(1000, round(seconds / max(time.perf_counter() - start, 1e-7))))
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns):
        for name in list(calls) if turn % 2 == 0 else reversed(list(calls)):
            call = calls[name]
            start = time.thread_time()
            for _ in range(repeats[name]):
                call()
            spent[name].append((time.thread_time() - start) / repeats[name])
    return {name: statistics.median(values) for name, values in spent.items()}


def checked(name: str, way: Way, ids: Array, grad: Array, rows: int) -> None:
    """Raise unless `way` gives the sum; ours must also keep its promise on accuracy."""
    exact = add_at(ids, grad.astype(np.float64), rows)
    magnitudes = add_at(ids, np.abs(grad).astype(np.float64), rows)
    allowed = 2e-6 if name == "ours" else 1e-3
    if not (np.abs(way(ids, grad, rows) - exact) <= allowed * magnitudes).all():
        raise SystemExit(
            f"scatter: {name} is off by more than {allowed} of the magnitudes at {grad.shape}, {rows} ids."
        )


def measure(turns: int, seconds: float) -> list[str]:
    """The lines of the table."""
    ways: dict[str, Way] = {"`np.add.at`": add_at, "ours": scatter_add_rows, "`add.at` flat": add_at_flat}
    ways |= {"sort, `reduceat`": sort_and_reduceat, "one-hot product": one_hot}
    if (torch_way := pytorch()) is not None:
        ways["PyTorch"] = torch_way
    others = [name for name in ways if name != "`np.add.at`"]
    lines = [
        "| vocabulary | width | rows | dtype | `np.add.at`, µs | " + " | ".join(others) + " |",
        "|" + "---|" * (5 + len(others)),
    ]
    for vocabulary, width, n in REGIMES:
        for dtype in (np.float32, np.float64):
            rng = np.random.default_rng(0)
            words = vocabulary == LARGE_VOCABULARY
            ids = np.minimum(rng.zipf(1.2, n), vocabulary) - 1 if words else rng.integers(0, vocabulary, n)
            grad = rng.standard_normal((n, width)).astype(dtype)
            calls: dict[str, Callable[[], object]] = {}
            for name, way in ways.items():
                if way is one_hot and vocabulary * n > 1 << 22:
                    continue  # hundreds of times slower, or out of memory
                checked(name, way, ids, grad, vocabulary)
                calls[name] = lambda way=way, ids=ids, grad=grad, rows=vocabulary: way(ids, grad, rows)
            taken = interleaved(calls, turns, seconds)
            base = taken["`np.add.at`"]
            ratios = " | ".join(f"{base / taken[name]:.2f}x" if name in taken else "–" for name in others)
            lines.append(f"| {vocabulary} | {width} | {n} | {np.dtype(dtype).name} | {base * 1e6:.1f} | {ratios} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15, help="turns a regime, default 15")
    parser.add_argument("--seconds", type=float, default=0.004, help="of one way in one turn, default 0.004")
    parser.add_argument("--markdown", type=Path, help="a file to write the table to")
    asked = parser.parse_args()
    here = machine()
    lines = measure(asked.turns, asked.seconds)
    print("\n".join(lines))
    if asked.markdown:
        asked.markdown.write_text("\n".join([ABOUT.format(versions=versions(), machine=here), *lines]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
