"""Peak memory of the first three training steps, and the time `import autograd_core` adds to `import numpy`."""

from __future__ import annotations

import statistics
import subprocess
import sys

from contest import Entry, Process, environment
from workloads import WORKLOADS

IMPORT = "import time, numpy; start = {clock}(); import autograd_core; print({clock}() - start)"


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
            base = base or answer["peak"]
            lines.append(
                f"| {name} {dtype} | {entry.label} | {answer['peak'] / 1e6:.2f} | {answer['peak'] / base:.2f} |"
            )
    return "\n".join(lines)


def import_time(repeats: int = 21) -> str:
    """Markdown: milliseconds that importing this package takes when NumPy is there, medians over fresh processes."""

    def measured(clock: str) -> float:
        code = IMPORT.format(clock=f"time.{clock}")
        run = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment(1, None)
        )
        return float(run.stdout) * 1e3

    measured("process_time")  # the first writes byte code
    cpu = statistics.median(measured("process_time") for _ in range(repeats))
    wall = statistics.median(measured("perf_counter") for _ in range(repeats))
    return (
        "| | CPU ms | wall ms |\n|---|---|---|\n"
        f"| `import autograd_core` after `import numpy` | {cpu:.1f} | {wall:.1f} |"
    )
