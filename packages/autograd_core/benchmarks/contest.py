"""Contestants against each other: a process each, in turns, agreement checked before anything is timed."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from workloads import Workload

HERE = Path(__file__).parent

# How far a contestant may be from the hand-written step: of the losses, and of gradients relative to the largest entry.
TOLERANCE = {"float32": 2e-4, "float64": 1e-8}


@dataclass(frozen=True)
class Entry:
    """A row of the table: a file of `contestants/` and how to call it."""

    label: str
    contestant: str
    options: dict[str, Any] = field(default_factory=dict)
    same_model: bool = True  # else its losses are not compared


class Process:
    """A running worker."""

    def __init__(
        self, entry: Entry, workload: Workload, dtype: str, threads: int = 1, kernels: str | None = None
    ) -> None:
        spec = {
            "contestant": entry.contestant,
            "workload": workload.name,
            "dtype": dtype,
            "threads": threads,
            "options": entry.options,
        }
        self.entry = entry
        self.cpu: list[float] = []
        self.wall: list[float] = []
        self.distance: float | None = None
        self.steps = 1
        self.popen = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("BENCHMARK_ERRORS") else subprocess.DEVNULL,
            text=True,
            env=environment(threads, kernels),
        )
        self.error: str | None = self._read().get("error")

    def _read(self) -> dict[str, Any]:
        assert self.popen.stdout is not None
        answer: dict[str, Any] = json.loads(self.popen.stdout.readline() or '{"error": "the process died"}')
        return answer

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        assert self.popen.stdin is not None
        self.popen.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.popen.stdin.flush()
        answer = self._read()
        self.error = answer.get("error", self.error)
        return answer

    def close(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.close()
        self.popen.wait(60)


def environment(threads: int, kernels: str | None) -> dict[str, str]:
    """Our own, with one number of threads for every library, and OpenBLAS free to choose what fits the processor.

    A machine's owner may have fixed OpenBLAS's kernels for reproducible results; what a user gets is the library's own
    choice. `kernels` fixes them again, to see what another processor's would give.
    """
    own = {name: value for name, value in os.environ.items() if name not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    own |= {f"{library}_NUM_THREADS": str(threads) for library in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM")}
    if kernels:
        own["OPENBLAS_CORETYPE"] = kernels
    return own


def agree(processes: list[Process], dtype: str) -> None:
    """Give every process its distance from the first, and an error to one that is too far."""
    reference: dict[str, np.ndarray] | None = None
    for process in processes:
        if process.error:
            continue
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "answers.npz")
            if "error" in process.ask("check", file=file):
                continue
            answers = dict(np.load(file))
        if reference is None:
            reference = answers
        if not process.entry.same_model:
            continue
        if missing := reference.keys() ^ answers.keys():
            process.error = f"answers differ in {sorted(missing)}"
            continue
        largest = max(float(np.abs(array).max()) for array in reference.values())
        process.distance = 0.0
        for name, array in reference.items():
            # Some gradients are zero but for rounding (that of the keys' bias): they are measured by the largest.
            scale = max(float(np.abs(array).max()), 1e-3 * largest)
            # Written so that NaN is too far.
            distance = float(np.abs(answers[name] - array).max()) / scale
            process.distance = distance if not distance <= process.distance else process.distance
            if not distance <= TOLERANCE[dtype]:
                process.error = f"disagrees in {name}: {distance:.1e} of the largest entry"


@dataclass
class Row:
    """Medians over fresh processes; times in seconds a step."""

    label: str
    error: str | None
    distance: float | None = None
    cpu: float = 0.0
    wall: float = 0.0
    ratios: tuple[float, ...] = ()  # CPU time over the first contestant's, one a process
    wall_ratio: float = 0.0


def compete(
    entries: list[Entry],
    workload: Workload,
    dtype: str,
    *,
    processes: int = 3,
    rounds: int = 8,
    slice_seconds: float = 0.25,
    threads: int = 1,
    kernels: str | None = None,
) -> list[Row]:
    """Rows in the order of the entries; ratios are to the first.

    `processes` times over, every contestant gets a fresh process, and `rounds` times over each runs for about
    `slice_seconds`, in turns and back. A process's ratio is the median over rounds of its time over the first
    contestant's of the same round: what slows the machine for a while slows both.
    """
    collected: dict[str, list[tuple[float, float, float, float]]] = {entry.label: [] for entry in entries}
    rows = {entry.label: Row(entry.label, None) for entry in entries}
    for _ in range(processes):
        running = [
            Process(entry, workload, dtype, threads, kernels) for entry in entries if rows[entry.label].error is None
        ]
        agree(running, dtype)
        able = [process for process in running if not process.error]
        for process in able:
            first = process.ask("time", steps=1)["wall"]
            process.steps = max(1, min(2000, round(slice_seconds / first)))
        for turn in range(rounds):
            for process in able if turn % 2 == 0 else reversed(able):
                answer = process.ask("time", steps=process.steps)
                process.cpu.append(answer["cpu"])
                process.wall.append(answer["wall"])
        for process in running:
            rows[process.entry.label].error = process.error
            rows[process.entry.label].distance = process.distance
            process.close()
        for process in able:
            cpu = statistics.median(a / b for a, b in zip(process.cpu, able[0].cpu, strict=True))
            wall = statistics.median(a / b for a, b in zip(process.wall, able[0].wall, strict=True))
            collected[process.entry.label].append(
                (statistics.median(process.cpu), statistics.median(process.wall), cpu, wall)
            )
    for label, measured in collected.items():
        if measured and rows[label].error is None:
            row = rows[label]
            row.cpu, row.wall = (statistics.median(each[i] for each in measured) for i in (0, 1))
            row.ratios = tuple(sorted(each[2] for each in measured))
            row.wall_ratio = statistics.median(each[3] for each in measured)
    return list(rows.values())


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| contestant | CPU ms a step | CPU, × hand | least to most | wall ms a step | wall, × hand | disagreement |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row.error:
            lines.append(f"| {row.label} | – | – | – | – | – | {row.error} |")
            continue
        distance = "not compared" if row.distance is None else f"{row.distance:.0e}"
        lines.append(
            f"| {row.label} | {row.cpu * 1e3:.3f} | **{statistics.median(row.ratios):.2f}** "
            f"| {row.ratios[0]:.2f} – {row.ratios[-1]:.2f} | {row.wall * 1e3:.3f} | {row.wall_ratio:.2f} | {distance} |"
        )
    return "\n".join(lines)
