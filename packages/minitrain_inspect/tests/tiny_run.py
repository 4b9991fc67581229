"""Runs small enough for tests, and what is compared of them."""

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

TINY = (
    "model.d_model=8",
    "model.n_heads=2",
    "model.n_layers=1",
    "model.d_ff=11",
    "train.batch_size=3",
    "train.steps=11",
    "train.log_every=2",
    "train.val_every=5",
    "train.checkpoint_every=4",
    "inspect.spectral_every=2",
)
"""Rows at 1, 2, 4, 5, 6, 8, 10, 11; validation at 5, 10, 11; checkpoints at 4, 8, 11."""

ROWS = [1, 2, 4, 5, 6, 8, 10, 11]

FILES = {
    "checkpoint/model.safetensors",
    "checkpoint/state.safetensors",
    "checkpoint/tokenizer.json",
    "config.toml",
    "dashboard.html",
    "inspector.log.jsonl",
    "manifest.json",
    "results.json",
}


def options(*sets: str) -> list[str]:
    """Command line options for a tiny run with further settings."""
    return [part for setting in (*TINY, *sets) for part in ("--set", setting)]


def rows_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "inspector.log.jsonl").read_text("utf-8").splitlines()]


def log_without_clock(run: Path, *others: str) -> bytes:
    """The log's bytes without the top-level keys that tell the time, and without `others`."""
    lines = []
    for row in rows_of(run):
        kept = {k: v for k, v in row.items() if not k.endswith(("_seconds", "_time")) and k not in others}
        lines.append(json.dumps(kept, separators=(",", ":")).encode())
    return b"\n".join(lines)


def weights_of(run: Path) -> bytes:
    return (run / "checkpoint" / "model.safetensors").read_bytes()


def results_of(run: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((run / "results.json").read_text("utf-8"))
    return results


def results_without_clock(run: Path) -> dict[str, Any]:
    return {key: value for key, value in results_of(run).items() if not key.endswith("_seconds")}


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def tree(folder: Path) -> dict[str, str]:
    """Everything below `folder`: contents of files by checksum."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }


def assert_equal_runs(a: Path, b: Path) -> None:
    """Hold two runs of one configuration to each other: equal bytes but for the clock."""
    assert log_without_clock(a) == log_without_clock(b)
    assert weights_of(a) == weights_of(b)
    assert results_without_clock(a) == results_without_clock(b)
    assert (a / "config.toml").read_bytes() == (b / "config.toml").read_bytes()


def write_text(path: Path, length: int = 400, alphabet: str = "abcdé ñ.\n") -> Path:
    """A text file of random characters."""
    characters = np.random.default_rng(6).choice(list(alphabet), size=length)
    path.write_text("".join(characters), encoding="utf-8")
    return path


def waiting(what: str, seconds: float = 60.0) -> Iterator[None]:
    """Yield every few milliseconds until the caller breaks off; AssertionError when it takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.005)
    raise AssertionError(f"waited {seconds} s in vain for {what}")
