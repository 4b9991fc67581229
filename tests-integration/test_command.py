"""The installed `minitrain` command, as a user types it: train, sample, dashboard, and what they exit with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

COMMAND = Path(sysconfig.get_path("scripts")) / ("minitrain.exe" if os.name == "nt" else "minitrain")

SMALL = {
    "model.d_model": 32,
    "model.n_heads": 2,
    "model.n_layers": 1,
    "model.d_ff": 64,
    "train.steps": 300,
    "train.lr_max": 1e-2,
    "train.val_every": 100,
    "train.checkpoint_every": 150,
}

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


def minitrain(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1"},
        timeout=300,
    )


def settings(**more: object) -> list[str]:
    """Options that set SMALL, with further values of `train`."""
    values = SMALL | {f"train.{key}": value for key, value in more.items()}
    return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with a space in its name, and in it a finished run."""
    folder = tmp_path_factory.mktemp("a place")
    done = minitrain("train", "--out", "runs/first", *settings(), cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "said").write_text(done.stdout, encoding="utf-8")
    return folder


def test_train_leaves_a_run_folder_and_says_where_to_look(place: Path) -> None:
    assert files_in(place / "runs") == {f"first/{name}" for name in FILES}
    said = (place / "said").read_text("utf-8").splitlines()
    assert said[-1] == f"dashboard: {(place / 'runs/first/dashboard.html').as_uri()}"
    results = json.loads((place / "runs/first/results.json").read_text("utf-8"))
    assert results["finished"] is True
    assert said[0] == f"validation {results['val_loss']:.3f} nats, n-gram {results['ngram_loss']:.3f}"
    # A third of the loss of guessing among 38 symbols: it learns.
    assert results["val_loss"] < 3.64 / 3
    assert results["best_val_loss"] <= results["val_loss"]


def test_sample_continues_a_prompt(place: Path) -> None:
    done = minitrain("sample", "runs/first", "--prompt", "es:yo trabajo / en:", cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("es:yo trabajo / en:")
    assert len(done.stdout.strip()) > len("es:yo trabajo / en:")
    again = minitrain("sample", "runs/first", "--prompt", "es:yo trabajo / en:", cwd=place)
    assert again.stdout == done.stdout


def test_dashboard_is_written_anew_in_either_language(place: Path) -> None:
    page = place / "runs/first/dashboard.html"
    for language in ("es", "en"):
        done = minitrain("dashboard", "runs/first", "--language", language, cwd=place)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{page.as_uri()}\n", "")
        assert f'<html lang="{language}"' in page.read_text("utf-8")


def test_a_finished_run_can_be_resumed_for_nothing(place: Path) -> None:
    log = (place / "runs/first/inspector.log.jsonl").read_bytes()
    done = minitrain("train", "--resume", "runs/first", cwd=place)
    assert (done.returncode, done.stdout) == (0, (place / "said").read_text("utf-8"))
    assert (place / "runs/first/inspector.log.jsonl").read_bytes() == log


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("train", "--out", "runs/first"), "'runs/first'"),
        (("train", "--out", "runs/second", "--set", "train.stepz=9"), "train.steps"),
        (("train", "--out", "runs/second", "--set", "data.source=nowhere.txt"), "'nowhere.txt'"),
        (("train", "--out", "said/run"), "said' above it is a file"),
        (("train", "--resume", "runs"), "'runs'"),
        (("sample", "runs/first", "--prompt", "漢字"), "'漢'"),
        (("sample", "runs", "--prompt", "es:"), "'runs'"),
        (("dashboard", "runs"), "'runs'"),
    ],
)
def test_unusable_input_is_one_line_and_status_2(place: Path, arguments: tuple[str, ...], named: str) -> None:
    before = {name: (place / name).stat().st_mtime_ns for name in files_in(place)}
    done = minitrain(*arguments, cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("minitrain: ")
    assert named in done.stderr
    assert {name: (place / name).stat().st_mtime_ns for name in files_in(place)} == before


def test_a_run_that_diverges_is_status_3(place: Path) -> None:
    done = minitrain("train", "--out", "diverged", *settings(lr_max="1e30", warmup_steps=0, steps=9), cwd=place)
    assert done.returncode == 3
    *findings, reason = done.stderr.splitlines()
    assert reason.startswith("minitrain: step ")
    # Its symptoms are left to `diagnose`; the reason has the last of them.
    assert [line.split(",")[0] for line in findings if line.startswith(("error", "warning"))] == [
        "error: no-warmup at step 1"
    ]
    assert "the first NaN or infinity was seen in" in reason
    diagnosed = minitrain("diagnose", "diverged", cwd=place).stdout
    assert diagnosed.startswith("error: no-warmup at step 1, ")
    assert "error: non-finite at step 2, " in diagnosed
    assert done.stdout.startswith("dashboard: file://")


def test_the_module_is_the_command(place: Path) -> None:
    module = subprocess.run(
        [sys.executable, "-m", "minitrain", "--version"], capture_output=True, text=True, timeout=60
    )
    assert (module.returncode, module.stdout) == (0, minitrain("--version", cwd=place).stdout)
