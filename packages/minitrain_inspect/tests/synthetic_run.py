"""A made-up run folder with the shape of a real one: smooth falls, warm-up, noise, and whatever a test asks for.

The numbers follow plain formulas of the step and a seeded generator; nothing is trained. The tests share it.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from minitrain.log import LogWriter

MATRICES = ("attn.W_q", "attn.W_k", "attn.W_v", "attn.W_o", "ffn.W1", "ffn.W2")
INNER = ("", ".ln1", ".attn", ".ln2", ".ffn", ".ffn.act")
NGRAM_LOSS = 1.537
UNIFORM_LOSS = math.log(59)


def module_names(layers: int) -> list[str]:
    blocks = [f"blocks.{block}{inner}" for block in range(layers) for inner in INNER]
    return ["MiniGPT", "embedding", *blocks, "ln_final"]


def matrix_names(layers: int) -> list[str]:
    return ["embedding.E", *(f"blocks.{block}.{matrix}" for block in range(layers) for matrix in MATRICES)]


def rows(
    *, count: int, layers: int, log_every: int = 1, verbs: bool = True, inspected: bool = True, seed: int = 31
) -> list[dict[str, Any]]:
    """Rows of the log, ready for `LogWriter.write`."""
    rng = np.random.default_rng(seed)
    total = count * log_every
    return [_row(index, total, layers, log_every, rng, verbs=verbs, inspected=inspected) for index in range(count)]


def _row(
    index: int, total: int, layers: int, log_every: int, rng: np.random.Generator, *, verbs: bool, inspected: bool
) -> dict[str, Any]:
    step = (index + 1) * log_every
    done = step / total
    rate = 1e-3 * min(1.0, step / (0.05 * total)) * (0.55 + 0.45 * math.cos(math.pi * done))

    def noisy(value: float, spread: float = 0.03) -> float:
        return float(value * math.exp(spread * rng.standard_normal()))

    train = noisy(0.75 + 3.3 * math.exp(-7 * done))
    measured = (index + 1) % 10 == 0 or step == total
    row: dict[str, Any] = {
        "step": step,
        "tokens": step * 523,
        "train_loss": train,
        "val_loss": noisy(0.95 + 3.2 * math.exp(-6 * done) + 0.15 * done, 0.01) if measured else None,
        "ngram_loss": NGRAM_LOSS if measured else None,
        "uniform_loss": UNIFORM_LOSS,
        "learning_rate": rate,
        "grad_norm": (grad_norm := noisy(0.35 + 4 * math.exp(-12 * done), 0.25)),
        "grad_norm_max": 1.1 * grad_norm,
        "future_leak": 0.0 if measured or index == 0 else None,
        "regular_loss": None,
        "irregular_loss": None,
        "inspect": _inspection(index, done, rate, layers, noisy) if inspected else None,
        "elapsed_seconds": 0.057 * step,
    }
    if verbs:
        regular, irregular = rng.random(2)
        row["regular_loss"] = noisy(0.55 + 3.4 * math.exp(-9 * done), 0.05) if regular > 0.03 else None
        row["irregular_loss"] = noisy(0.8 + 3.2 * math.exp(-4 * done), 0.09) if irregular > 0.08 else None
    return row


def _inspection(
    index: int, done: float, rate: float, layers: int, noisy: Callable[[float, float], float]
) -> dict[str, Any]:
    def statistics(size: float) -> dict[str, Any]:
        spread = noisy(size, 0.02)
        return {"n": 4096, "mean": 0.1 * spread, "std": spread, "min": -3 * spread, "max": 3 * spread} | {
            "l2": 64 * spread, "nan": 0, "inf": 0,
        }  # fmt: skip

    modules: dict[str, Any] = {}
    for place, name in enumerate(module_names(layers)):
        size = {"MiniGPT": 2.5 + 3 * done, "embedding": 0.03 + 0.05 * done, "ln_final": 0.9}.get(name)
        if size is None:
            size = (
                0.25 + 0.6 * done + 0.04 * place
                if name.count(".") == 1
                else 0.8
                if ".ln" in name
                else 0.15 + 0.3 * done
            )
        modules[name] = statistics(1.25 * size) | {"mean_abs": noisy(size, 0.02)}
    matrices = matrix_names(layers)
    return {
        "modules": modules,
        "gradients": {f"{name}.grad": statistics(0.01 / (1 + 9 * done)) for name in matrices},
        "spectral_norm": {
            name: noisy(1.2 + 0.13 * (place % 7) + (1 + 0.1 * (place % 5)) * done, 0.004) if index % 10 == 0 else None
            for place, name in enumerate(matrices)
        },
        "dead_fraction": {f"blocks.{block}.ffn.act": min(1.0, noisy(0.02 + 0.11 * done * (block + 1) / layers, 0.1))
                          for block in range(layers)},
        "update_ratio": {name: noisy(rate * (1.5 + 0.2 * (place % 6)), 0.15) for place, name in enumerate(matrices)},
    }  # fmt: skip


def write_run(
    folder: Path,
    log: list[dict[str, Any]],
    *,
    finished: bool | None = True,
    verbs: bool = True,
    config: Mapping[str, Any] | None = None,
) -> Path:
    """`folder` as a run leaves it; `finished=None` leaves no results, as a run killed early does."""
    folder.mkdir(parents=True, exist_ok=True)
    with LogWriter(folder / "inspector.log.jsonl") as writer:
        for row in log:
            writer.write(row)
    steps = log[-1]["step"]
    (folder / "config.toml").write_text(
        '[data]\nsource = "verbs"\n\n[model]\nd_model = 64\nn_heads = 4\nn_layers = 2\n\n'
        f"[train]\nsteps = {steps}\nbatch_size = 16\nlr_max = 0.001\nseed = 7\n",
        "utf-8",
    )
    manifest = {"seed": 7, "python": "3.11.7", "packages": {"minitrain-inspect": "0.1.0", "numpy": "2.4.6"}}
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    if finished is not None:
        results = {
            "schema": 1, "finished": finished, "steps": steps, "parameters": 103680,
            "train_loss": log[-1]["train_loss"], "val_loss": 1.119, "best_val_loss": 1.087, "best_step": 2410,
            "ngram_loss": NGRAM_LOSS, "train_seconds": 171.3,
        }  # fmt: skip
        if verbs:
            results["held_out_exact"] = {
                "regular": {"exact": 59, "of": 72, "share": 59 / 72},
                "irregular": {"exact": 31, "of": 48, "share": 31 / 48},
            }
        (folder / "results.json").write_text(json.dumps(results), "utf-8")
    return folder
