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
    """Medians over fresh processes; times in seconds a step, ratios one a process."""

    entry: Entry
    error: str | None = None
    distance: float | None = None
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    over_hand: list[float] = field(default_factory=list)
    over_ours: list[float] = field(default_factory=list)
    wall_over_hand: list[float] = field(default_factory=list)


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
    """Rows in the order of the entries, of which the first is the hand-written step.

    `processes` times over, every contestant gets a fresh process, and `rounds` times over each runs for about
    `slice_seconds`, in turns and back. A process's ratio is the median over rounds of its time over the other's in the
    same round: what slows the machine for a while slows both.
    """
    rows = {entry.label: Row(entry) for entry in entries}
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
        hand = able[0]
        ours = next((p for p in able if p.entry.contestant == "ours" and p.entry.same_model), None)
        for process in running:
            row = rows[process.entry.label]
            row.error, row.distance = process.error, process.distance
            process.close()
        for process in able:
            row = rows[process.entry.label]
            row.cpu.append(statistics.median(process.cpu))
            row.wall.append(statistics.median(process.wall))
            row.over_hand.append(median_ratio(process.cpu, hand.cpu))
            row.wall_over_hand.append(median_ratio(process.wall, hand.wall))
            if ours is not None:
                row.over_ours.append(median_ratio(process.cpu, ours.cpu))
    return list(rows.values())


def median_ratio(times: list[float], others: list[float]) -> float:
    """Median over rounds."""
    return statistics.median(a / b for a, b in zip(times, others, strict=True))


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| contestant | CPU ms a step | CPU, × hand | least – most | CPU, × ours | wall ms a step | wall, × hand "
        "| disagreement |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        label = row.entry.label
        if row.error:
            lines.append(f"| {label} | – | – | – | – | – | – | {row.error} |")
            continue
        distance = "not compared" if row.distance is None else f"{row.distance:.0e}"
        over_ours = f"{statistics.median(row.over_ours):.2f}" if row.over_ours else "–"
        lines.append(
            f"| {label} | {statistics.median(row.cpu) * 1e3:.3f} | **{statistics.median(row.over_hand):.2f}** "
            f"| {min(row.over_hand):.2f} – {max(row.over_hand):.2f} | {over_ours} "
            f"| {statistics.median(row.wall) * 1e3:.3f} | {statistics.median(row.wall_over_hand):.2f} | {distance} |"
        )
    return "\n".join(lines)
