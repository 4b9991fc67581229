"""Compare the block with the numbers from paper, count what each mistake would cost, and time the forward.

    python experiments/2026-11-29-phase-17-block-by-hand/measure.py --record

writes `diff.csv`, `mistakes.csv`, `timing.csv` and `manifest.json` into `runs/block-by-hand`, and with `--record`
beside this file as well. `--smoke` times a few calls only. The exit status is 1 if an entry is off by 1e-5 or more.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from autograd_core import no_grad
from autograd_core.files import write_atomic
from minimodel.transformer import TransformerBlock, worksheet
from minitrain.manifest import build_manifest, write_manifest
from mistakes import MISTAKES, NONE, forward
from parameters import EPS, PARAMETERS
from threadpoolctl import threadpool_limits

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-5
Array = npt.NDArray[Any]


def hand_numbers(attention: str) -> dict[str, Array]:
    """Return the numbers of hand.csv for causal or full attention, by name."""
    cells: dict[str, dict[tuple[int, int], float]] = {}
    with (HERE / "hand.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["attention"] in ("both", attention):
                place = int(row["row"]), int(row["column"])
                cells.setdefault(row["name"], {})[place] = float(row["value"])
    return {
        name: np.array([values[place] for place in sorted(values)]).reshape([n + 1 for n in max(values)])
        for name, values in cells.items()
    }


def the_block(attention: str) -> tuple[TransformerBlock, Array]:
    """Return the block of parameters.py and its input."""
    arrays = {name: np.array(rows, dtype=np.float64) for name, rows in PARAMETERS.items()}
    x = arrays.pop("x")
    block = TransformerBlock(4, 1, 8, causal=attention == "causal", ln_eps=float(EPS), rng=np.random.default_rng(0))
    shapes = {name: parameter.shape for name, parameter in block.named_parameters()}
    block.load_state_dict({name: array.reshape(shapes[name]) for name, array in arrays.items()})
    return block, x


def computed(block: TransformerBlock, x: Array) -> tuple[dict[str, Array], set[str]]:
    """Return what the code computes, by name, and which of it came out of the layers themselves.

    The fused operations hand on no scores and no weights: what no layer puts out is taken from the worksheet.
    """
    values = worksheet(block, x).values
    layers: dict[str, Array] = {}
    handles = [
        module.register_forward_hook(
            lambda module, args, kwargs, output, name=name: layers.update({name: output.value})
        )
        for name, module in block.named_modules()
        if name
    ]
    layers["y"] = block(x).value
    for handle in handles:
        handle.remove()
    layers["z"] = x + layers["attn"]
    return {**values, **layers}, set(layers)


def differences(attention: str) -> list[dict[str, Any]]:
    """Return a row for each entry: from paper, from the code, and the absolute difference."""
    block, x = the_block(attention)
    found, from_layers = computed(block, x)
    rows = []
    for name, hand in hand_numbers(attention).items():
        if found[name].shape != hand.shape:
            raise ValueError(f"{name}: paper has shape {hand.shape}, the code {found[name].shape}")
        for (row, column), number in np.ndenumerate(hand):
            code = float(found[name][row, column])
            rows.append(
                {
                    "attention": attention,
                    "name": name,
                    "row": row,
                    "column": column,
                    "hand": repr(float(number)),
                    "code": repr(code),
                    "error": f"{0.0 if code == number else abs(code - number):.2e}",
                    "from": "layer" if name in from_layers else "worksheet",
                }
            )
    return rows


def mistakes(attention: str) -> list[dict[str, Any]]:
    """Return a row for each mistake: the largest error of the output, in all and in each row."""
    block, x = the_block(attention)
    hand = hand_numbers(attention)["y"]
    rows = []
    for mistake in (NONE, *MISTAKES):
        errors = np.abs(forward(block, x, mistake) - hand)
        rows.append(
            {
                "attention": attention,
                "mistake": mistake,
                "max_error": f"{errors.max():.3e}",
                "row_0": f"{errors[0].max():.3e}",
                "row_1": f"{errors[1].max():.3e}",
                "noticed": errors.max() >= TOLERANCE,
            }
        )
    return rows


def timings(calls: int) -> list[dict[str, Any]]:
    """Return how long one forward at (8, 64) takes, in microseconds, over `calls` calls."""
    rng = np.random.default_rng(0)
    block, x = TransformerBlock(64, 4, 256, rng=rng), rng.standard_normal((8, 64))

    def sample() -> Array:
        seconds = np.empty(calls)
        for call in range(-calls // 10, calls):  # the first tenth warms up
            start = time.perf_counter()
            block(x)
            if call >= 0:
                seconds[call] = time.perf_counter() - start
        return seconds * 1e6

    with_graph = sample()
    with no_grad():
        without_graph = sample()
    marks = {"min": 0, "p25": 25, "median": 50, "p75": 75, "p95": 95, "p99": 99, "max": 100}
    return [
        {"graph": graph, "calls": calls, **{f"{name}_us": f"{np.percentile(us, q):.1f}" for name, q in marks.items()}}
        for graph, us in (("recorded", with_graph), ("none", without_graph))
    ]


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return rows as CSV."""
    rows = list(rows)
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def main() -> int:
    """Measure, write and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/block-by-hand"), help="default: runs/block-by-hand")
    parser.add_argument("--record", action="store_true", help="write the files beside this one as well")
    parser.add_argument("--smoke", action="store_true", help="time a few calls only, to see that it works")
    arguments = parser.parse_args()

    calls = 20 if arguments.smoke else 5000
    diff = [row for attention in ("causal", "full") for row in differences(attention)]
    wrong = [row for attention in ("causal", "full") for row in mistakes(attention)]
    with threadpool_limits(1):
        timing = timings(calls)
        manifest = build_manifest({"calls": calls, "tolerance": TOLERANCE}, threads=1)
    largest = max(float(row["error"]) for row in diff)
    for folder in [arguments.out, *([HERE] if arguments.record else [])]:
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in (("diff", diff), ("mistakes", wrong), ("timing", timing)):
            write_atomic(folder / f"{name}.csv", table(rows))
        write_manifest(folder / "manifest.json", {**manifest, "max_error": largest})
    print(f"{len(diff)} entries, largest error {largest:.2e}")
    print(table(wrong) + table(timing), end="")
    return 0 if largest < TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
