"""The experiment that breaks runs: its configurations, its three scripts, and that practice gives nothing away."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parents[1] / "experiments" / "19-break-it"

FAULT_KEYS = {
    "bad-init": {"model.init_gain"},
    "no-warmup": {"train.lr_max", "train.warmup_steps"},
    "broken-mask": {"model.causal"},
    "dead-units": {"faults.dead_units", "faults.dead_units_step"},
    "rate-times-30": {"train.lr_max"},
    "rate-over-300": {"train.lr_max"},
    "tenth": {"faults.data_fraction"},
    "nan": {"faults.nan_step"},
}


def script(name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(HERE / name), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def settings(name: str) -> dict[str, Any]:
    table = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
    return {f"{section}.{key}": value for section, values in table.items() for key, value in values.items()}


@pytest.mark.parametrize("name", FAULT_KEYS)
def test_a_fault_differs_from_the_healthy_run_in_the_fault_alone(name: str) -> None:
    fault, healthy = settings(name), settings("healthy")
    assert {key for key in fault if fault[key] != healthy.get(key)} == FAULT_KEYS[name]
    assert healthy.keys() <= fault.keys()


def test_there_is_a_configuration_for_each_fault() -> None:
    assert {file.stem for file in HERE.glob("*.toml")} == {"healthy", *FAULT_KEYS}


def test_the_readme_says_what_was_expected_before_it_says_what_came() -> None:
    headings = re.findall(r"^## (.*)$", (HERE / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == ["Question", "Expectation, written before the run", "Command and cost", "Result"]


def test_one_fault_is_trained_and_named(tmp_path: Path) -> None:
    done = script("run.py", "broken-mask", "--smoke", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "step 1: broken-mask (future_leak)" in done.stdout + done.stderr
    assert "expected first: broken-mask; found first: broken-mask" in done.stdout.splitlines()
    assert (tmp_path / "out" / "dashboard.html").is_file()
    again = script("run.py", "broken-mask", "--out", "out", cwd=tmp_path)
    assert "finished after" not in again.stdout, "what is there is only diagnosed again"
    assert "found first: broken-mask" in again.stdout


def test_the_table_goes_on_where_it_was(tmp_path: Path) -> None:
    done = script("table.py", "--smoke", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    first = (tmp_path / "out" / "table.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(first.splitlines()))
    assert [(row["kind"], row["found"].split()[:1], row["right"]) for row in rows] == [
        ("healthy", [], "True"),
        ("fault", ["bad-init"], "True"),
    ]
    logs = {file: file.stat().st_mtime_ns for file in tmp_path.glob("out/runs/*/inspector.log.jsonl")}
    assert len(logs) == 2
    (tmp_path / "out" / "table.csv").unlink()
    assert script("table.py", "--smoke", "--out", "out", cwd=tmp_path).returncode == 0
    assert (tmp_path / "out" / "table.csv").read_text(encoding="utf-8") == first
    assert {file: file.stat().st_mtime_ns for file in logs} == logs, "no run was trained again"


def test_practice_gives_nothing_away_and_is_scored(tmp_path: Path) -> None:
    done = script("shuffle.py", "--smoke", "--seed", "3", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("run-a", "run-b", "run-c"):
        folder = tmp_path / "out" / name
        assert {file.name for file in folder.iterdir()} == {"inspector.log.jsonl", "results.json", "dashboard.html"}
        page = (folder / "dashboard.html").read_text(encoding="utf-8")
        assert not re.search(r"bad-init|no-warmup|broken-mask|init_gain", page)
        # Neither a verdict nor a false word in its place.
        assert not re.search(r'class="verdict|Not diagnosed|Unfinished|finding-\d', page)
        assert "Finished after 12 steps." in page
        rows = [json.loads(line) for line in (folder / "inspector.log.jsonl").read_text("utf-8").splitlines()]
        assert {row["future_leak"] for row in rows} == {None}
    guesses = ["run-a=bad-init", "run-b=bad-init", "run-c=bad-init"]
    scored = script("shuffle.py", "--out", "out", "--answer", *guesses, cwd=tmp_path)
    assert (scored.returncode, scored.stdout.splitlines()[-1]) == (1, "1 of 3 right")
    right = {}
    for fault in ("bad-init", "no-warmup", "broken-mask"):
        answers = [guess.replace("bad-init", fault) for guess in guesses]
        for line in script("shuffle.py", "--out", "out", "--answer", *answers, cwd=tmp_path).stdout.splitlines()[:3]:
            if line.endswith("is right"):
                right[line.partition(":")[0]] = fault
    assert len(right) == 3
    answers = [f"{name}={fault}" for name, fault in right.items()]
    scored = script("shuffle.py", "--out", "out", "--answer", *answers, cwd=tmp_path)
    assert (scored.returncode, scored.stdout.splitlines()[-1]) == (0, "3 of 3 right")
    refused = script("shuffle.py", "--out", "out", "--answer", "run-d=bad-init", cwd=tmp_path)
    assert refused.returncode == 1
    assert "an answer is one of run-a" in refused.stderr
