"""One contestant in a process of its own, commanded over its standard input: `contest.py` starts it.

Its only argument is a JSON object with `contestant`, `workload`, `dtype`, `threads` and `options`. It answers each line
of input, a JSON object with `do`, by one line of JSON:

    check     {"file": f}    losses and gradients, or the block's output, into the .npz file f
    time      {"steps": n}   CPU seconds and wall seconds a step, of n steps
    profile   {"steps": n}   CPU seconds an operation, medians over n steps; nothing else afterwards
    memory    {}             peak bytes from before the model was built to after the third step (a fresh worker only)

An answer with `error` ends the process.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import op_times
from workloads import WORKLOADS, batch, weights


class Worker:
    """Builds the contestant at the first command that needs it, so that `memory` can watch it being built."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.workload = WORKLOADS[spec["workload"]]
        self.name = spec["contestant"]
        contestant = importlib.import_module(f"contestants.{self.name}").Contestant
        arrays = weights(self.workload, spec["dtype"])
        batch(self.workload)  # NumPy loads its generators now, not while memory is watched
        self.build: Callable[[], Any] = lambda: contestant(
            self.workload, spec["dtype"], arrays, spec["threads"], **spec["options"]
        )
        self.contestant: Any = None
        self.profiled: op_times.Profile | None = None
        self.run: Callable[[], Any]

    def ready(self) -> None:
        if self.contestant is None:
            self.contestant = self.build()
            self.run = self.contestant.step if self.workload.training else self.contestant.forward

    def check(self, file: str) -> dict[str, Any]:
        self.ready()
        if self.workload.training:
            loss, gradients = self.contestant.loss_and_gradients()
            losses = [loss, *(float(self.contestant.step()) for _ in range(4))]
            np.savez(file, losses=losses, **gradients)
        else:
            np.savez(file, output=np.asarray(self.contestant.output()))
        for _ in range(3):
            self.run()
        return {}

    def time(self, steps: int) -> dict[str, float]:
        self.ready()
        run = self.run
        run()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            run()
        return {"cpu": (time.process_time() - cpu) / steps, "wall": (time.perf_counter() - wall) / steps}

    def profile(self, steps: int) -> dict[str, Any]:
        self.ready()
        if self.profiled is None:
            self.profiled = op_times.Profile(self.name, self.contestant, self.run)
        return {"operations": self.profiled.measure(steps)}

    def memory(self) -> dict[str, int]:
        tracemalloc.start()
        self.ready()
        for _ in range(3):
            self.run()
        return {"peak": tracemalloc.get_traced_memory()[1]}


def main() -> None:
    """Answer commands until standard input ends."""
    spec = json.loads(sys.argv[1])
    if spec["threads"] == 1 and hasattr(os, "sched_setaffinity") and spec["contestant"] in ("jax_jit", "tinygrad_jit"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # they size their thread pools by the cores they see
    # What a framework prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(content: dict[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    try:
        worker = Worker(spec)
        answer({})
        for line in sys.stdin:
            command = json.loads(line)
            answer(getattr(worker, command.pop("do"))(**command))
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}".split("\n")[0][:200]})
        raise


if __name__ == "__main__":
    main()
