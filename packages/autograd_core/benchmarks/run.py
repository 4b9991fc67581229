"""Measure a workload and print a Markdown table: `hatch run benchmarks:run --workload w2 --rounds 8`.

`--workload` takes w1, w2, w3 (`workloads.py` says what they are), `memory`, `import` or `all`, which prints everything
to keep as `RESULTS.md`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import footprint
import op_times
import peers
from contest import Entry, Process, compete, environment, table
from workloads import WORKLOADS, Workload

HAND = Entry("hand-written NumPy", "hand")
HAND_BLOCK = Entry("hand-written NumPy", "hand_block")
OURS = Entry("**autograd-core**", "ours")
DEFAULT = Entry("autograd-core, default configuration (RoPE, no biases)", "ours", {"default": True}, same_model=False)
ENTRIES = {
    "hand": HAND,
    "ours": OURS,
    "default": DEFAULT,
    "torch": Entry("PyTorch eager", "torch_eager"),
    "torch-fused": Entry("PyTorch eager, fused AdamW", "torch_eager", {"fused": True}),
    "jax": Entry("JAX jit", "jax_jit"),
    "tinygrad": Entry("tinygrad, TinyJit", "tinygrad_jit"),
    "autograd": Entry("HIPS autograd", "hips_autograd"),
    "mygrad": Entry("MyGrad", "mygrad_tensors"),
}
DISTRIBUTIONS = ("numpy", "autograd-core", "torch", "jax", "jaxlib", "tinygrad", "autograd", "mygrad")


def machine(kernels: str | None = None) -> str:
    """Processor, cores, load, and what OpenBLAS chose for the processor."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    code = (
        "import json, numpy, threadpoolctl; "
        "print(json.dumps([f\"{p['internal_api']} {p['version']}, {p.get('architecture')} kernels\" "
        "for p in threadpoolctl.threadpool_info() if p['user_api'] == 'blas']))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(1, kernels))
    blas = ", ".join(json.loads(found.stdout)) if found.returncode == 0 else "unknown BLAS"
    load = "unknown" if not hasattr(os, "getloadavg") else f"{os.getloadavg()[0]:.1f}"
    return f"{model}, {os.cpu_count()} cores, {platform.system()}; {blas}; load {load} when begun"


def versions() -> str:
    """Python and every contestant's distribution."""
    found = [f"Python {platform.python_version()}"]
    for name in DISTRIBUTIONS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} not installed")
    return ", ".join(found)


def hand_for(workload: Workload) -> Entry:
    """The reference of a workload."""
    return HAND if workload.training else HAND_BLOCK


def contest(name: str, asked: argparse.Namespace, *, dtype: str, threads: int = 1) -> str:
    """One table with its heading."""
    workload = WORKLOADS[name]
    chosen = asked.only.split(",") if asked.only else list(ENTRIES)
    if unknown := [key for key in chosen if key not in ENTRIES]:
        raise SystemExit(f"run: --only takes some of {', '.join(ENTRIES)}; got {', '.join(unknown)}.")
    entries = [hand_for(workload)] + [ENTRIES[key] for key in chosen if key != "hand"]
    if name != "w2":
        entries = [entry for entry in entries if entry is not DEFAULT]
    if not workload.training:
        entries = [entry for entry in entries if "fused" not in entry.options]
    not_installed = peers.errors()
    started = time.monotonic()
    rows = compete(
        entries,
        workload,
        dtype,
        processes=asked.processes,
        rounds=asked.rounds,
        slice_seconds=asked.slice,
        threads=threads,
        kernels=asked.kernels,
    )
    labels = {ENTRIES[key].label: key for key in ENTRIES}
    for row in rows:
        row.error = row.error and not_installed.get(labels[row.entry.label], row.error)
    how = "one thread" if threads == 1 else f"{threads} threads each: wall time is what counts"
    return (
        f"### {name.upper()} {dtype}: {workload.says}\n\n"
        f"{how}; {asked.processes} processes each, {asked.rounds} rounds of {asked.slice} s; "
        f"{time.monotonic() - started:.0f} s in all\n\n{table(rows)}\n"
    )


def profile(name: str, dtype: str, asked: argparse.Namespace) -> str:
    """One table of CPU time an operation; the two run in turns."""
    workload = WORKLOADS[name]
    running = [Process(entry, workload, dtype, kernels=asked.kernels) for entry in (OURS, hand_for(workload))]
    turns: list[list[list[dict[str, Any]]]] = [[], []]
    for _ in range(asked.rounds):
        for process, found in zip(running, turns, strict=True):
            answer = process.ask("profile", steps=asked.steps) if process.error is None else {}
            if process.error is not None:
                label = process.entry.label
                raise SystemExit(f"run: {label} failed: {process.error}. BENCHMARK_ERRORS=1 shows where.")
            found.append(answer["operations"])
    for process in running:
        process.close()
    how = f"medians over {asked.rounds} rounds of {asked.steps} steps"
    heading = f"### {name.upper()} {dtype}: CPU time an operation, {how}"
    return f"{heading}\n\n{op_times.table(op_times.middle(turns[0]), op_times.middle(turns[1]))}\n"


def main() -> None:
    """Read the command line and print what it asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workload", choices=[*WORKLOADS, "memory", "import", "all"], default="w2")
    parser.add_argument("--dtype", choices=["float32", "float64"], help="default: both for w1 and w2, float32 for w3")
    parser.add_argument("--rounds", type=int, default=8, help="turns a process (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=3, help="fresh processes a contestant (default: %(default)s)")
    parser.add_argument("--slice", type=float, default=0.25, help="seconds a turn (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of every contestant (default: %(default)s)")
    parser.add_argument("--only", help=f"some of {','.join(ENTRIES)}; the hand-written step always runs")
    parser.add_argument("--kernels", help="OPENBLAS_CORETYPE, such as Haswell: as on another processor")
    parser.add_argument("--profile", action="store_true", help="CPU time an operation instead, ours and hand-written")
    parser.add_argument("--steps", type=int, default=20, help="steps of a profile's round (default: %(default)s)")
    asked = parser.parse_args()

    command = " ".join(["hatch run benchmarks:run", *sys.argv[1:]])
    print(f"`{command}`, {time.strftime('%Y-%m-%d')}\n\n{machine(asked.kernels)}.\n\n{versions()}.\n", flush=True)
    dtypes = {name: ("float32",) if name == "w3" else ("float32", "float64") for name in WORKLOADS}
    names = list(WORKLOADS) if asked.workload == "all" else [n for n in WORKLOADS if n == asked.workload]
    for name in names:
        for dtype in (asked.dtype,) if asked.dtype else dtypes[name]:
            if asked.profile:
                print(profile(name, dtype, asked), flush=True)
            else:
                print(contest(name, asked, dtype=dtype, threads=asked.threads), flush=True)
    if asked.workload == "all" and not asked.profile:
        print(contest("w3", asked, dtype="float32", threads=2), flush=True)
        for name in WORKLOADS:
            print(profile(name, "float32", asked), flush=True)
    if asked.workload in ("memory", "all") and not asked.profile:
        print("### Peak memory, from before the model is built to after the third step\n")
        print(footprint.memory([HAND, OURS]), flush=True)
    if asked.workload in ("import", "all") and not asked.profile:
        print(f"\n### Import\n\n{footprint.import_time()}\n")


if __name__ == "__main__":
    main()
