"""Peak memory of the first three training steps, and the time `import autograd_core` adds to `import numpy`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile

from contest import Entry, Process, environment
from workloads import WORKLOADS

IMPORT = """
from time import {clock} as clock
start = clock()
import numpy
middle = clock()
import autograd_core
print(middle - start, clock() - middle)
"""


def memory(entries: list[Entry]) -> str:
    """Markdown: peak bytes by `tracemalloc`, traced from before the model is built to after the third step."""
    lines = ["| workload | contestant | peak, MB | × hand |", "|---|---|---|---|"]
    for name, dtype in (("w2", "float32"), ("w2", "float64"), ("w3", "float32")):
        base = 0.0
        for entry in entries:
            process = Process(entry, WORKLOADS[name], dtype)
            answer = process.ask("memory") if process.error is None else {"error": process.error}
            if "error" in answer:
                lines.append(f"| {name} {dtype} | {entry.label} | – | {answer['error']} |")
                continue
            process.close()
            peak = float(answer["peak"])
            base = base or peak
            lines.append(f"| {name} {dtype} | {entry.label} | {peak / 1e6:.2f} | {peak / base:.2f} |")
    return "\n".join(lines)


def import_time(repeats: int = 21) -> str:
    """Markdown: milliseconds that importing NumPy takes, and this package after it, medians over fresh processes.

    Byte code is written and used, as in any installation, into a folder of its own: the environment may forbid it.
    """
    own = environment(1, None)
    own.pop("PYTHONDONTWRITEBYTECODE", None)
    lines = ["| | CPU ms | wall ms |", "|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        own["PYTHONPYCACHEPREFIX"] = folder

        def measured(clock: str) -> list[float]:
            """Seconds of the two imports, medians."""
            runs = []
            for _ in range(repeats + 1):
                run = subprocess.run(
                    [sys.executable, "-c", IMPORT.format(clock=clock)],
                    check=True,
                    capture_output=True,
                    text=True,
                    env=own,
                )
                runs.append([float(part) for part in run.stdout.split()])
            return [statistics.median(run[i] for run in runs[1:]) for i in (0, 1)]  # the first wrote byte code

        cpu, wall = measured("process_time"), measured("perf_counter")
    for i, label in enumerate(("`import numpy`", "`import autograd_core` after it")):
        lines.append(f"| {label} | {cpu[i] * 1e3:.1f} | {wall[i] * 1e3:.1f} |")
    return "\n".join(lines)
