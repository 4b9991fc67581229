"""Every experiment runs: its script with `--smoke`, in seconds, writing into a folder of the test.

An experiment is a row of `SCRIPTS`: the script, and the files that its `--smoke` must leave in `--out`. What else an
experiment promises is tested below the table.
"""

import ast
import csv
import importlib.util
import json
import math
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest
from minimodel.transformer.worksheets import hand_example

EXPERIMENTS = Path(__file__).resolve().parents[1] / "experiments"
EMBEDDING = EXPERIMENTS / "2026-11-29-phase-13-embedding"
CBOW = EXPERIMENTS / "2026-11-29-phase-13-cbow"
BY_HAND = EXPERIMENTS / "2026-11-29-phase-17-block-by-hand"

SCRIPTS = [
    (EMBEDDING / "measure.py", ["lookup_timing.csv", "scatter.csv", "manifest.json"]),
    (CBOW / "train.py", ["results.csv", "similarity.svg", "context.npy", "context.json", "manifest.json"]),
    (EXPERIMENTS / "19-healthy" / "train.py", ["results.csv", "manifest.json", "seed-0"]),
    (EXPERIMENTS / "19-overhead" / "measure.py", ["results.csv", "manifest.json"]),
    (BY_HAND / "measure.py", ["diff.csv", "mistakes.csv", "timing.csv", "manifest.json"]),
]


def run(script: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", str(script), *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def loaded(file: Path) -> ModuleType:
    """A module of an experiment, under a name that no other experiment's has."""
    spec = importlib.util.spec_from_file_location(f"{file.parent.name}/{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize(
    ("script", "files"), SCRIPTS, ids=lambda value: value.parent.name if isinstance(value, Path) else ""
)
def test_an_experiment_runs(script: Path, files: list[str], tmp_path: Path) -> None:
    done = run(script, "--smoke", "--out", str(tmp_path / "out"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == sorted(files)
    assert all((tmp_path / "out" / file).stat().st_size > 0 for file in files)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"], "nothing is written anywhere else"


@pytest.mark.parametrize("script", [script for script, _ in SCRIPTS], ids=lambda script: script.parent.name)
def test_a_readme_says_what_was_expected_before_it_says_what_came(script: Path) -> None:
    readme = (script.parent / "README.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", readme, re.MULTILINE)
    assert headings[:4] == ["Question", "Expectation, written before the run", "Command and cost", "Result"]


def test_the_index_has_every_experiment() -> None:
    linked = set(
        re.findall(r"^\| \[.*?\]\(([^/)]+)", (EXPERIMENTS / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert linked == {folder.name for folder in EXPERIMENTS.iterdir() if folder.is_dir() and any(folder.glob("*.py"))}


def test_the_lookup_is_as_fast_as_copying_its_output_and_faster_than_one_hot() -> None:
    rows = {(row["dtype"], int(row["vocabulary"])): row for row in rows_of(EMBEDDING / "lookup_timing.csv")}
    assert {vocabulary for _, vocabulary in rows} >= {16, 64, 65_536}
    for dtype, limit in (("float64", 1.25), ("float32", 1.6)):
        assert float(rows[dtype, 64]["lookup_over_copy"]) <= limit
        assert float(rows[dtype, 64]["one_hot_over_write"]) < 100, "what the README says no lookup can reach"
        assert float(rows[dtype, 512]["one_hot_over_lookup"]) > 100
        assert float(rows[dtype, 64]["lookup_us"]) < float(rows[dtype, 64]["pytorch_us"])


def test_of_three_ways_to_add_only_one_is_right_in_every_case() -> None:
    right: dict[str, set[str]] = {}
    for row in rows_of(EMBEDDING / "scatter.csv"):
        right.setdefault(row["way"], set()).update({row["case"]} if row["right"] == "True" else set())
    cases = {row["case"] for row in rows_of(EMBEDDING / "scatter.csv")}
    assert right == {
        "+=": {"all ids distinct"},
        "np.add.at": cases - {"100000 times one id"},
        "ours": cases,
    }


def test_forms_of_one_verb_lie_together_with_every_seed() -> None:
    rows = rows_of(CBOW / "results.csv")
    for text, most in (("line", 0.8), ("verb", 1.1)):
        seeds = [row for row in rows if row["text"] == text]
        assert len(seeds) == 5
        for row in seeds:
            assert abs(float(row["loss_start"]) - math.log(291)) < 0.01
            assert float(row["loss_end"]) < most < float(row["loss_epoch_10"])
            assert float(row["within"]) > float(row["across"])
    picture = ElementTree.parse(CBOW / "similarity.svg").getroot()
    assert len(picture.findall("{http://www.w3.org/2000/svg}image")) == 2


def test_the_numbers_from_paper_are_reproduced_without_the_package() -> None:
    tree = ast.parse((BY_HAND / "by_hand.py").read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"decimal", "fractions", "parameters", "sys"}
    done = run(BY_HAND / "by_hand.py", "--check", cwd=BY_HAND)
    assert (done.returncode, done.stdout) == (0, "all 370 numbers of hand.csv reproduced\n")


def test_a_number_that_was_typed_wrong_is_noticed(tmp_path: Path) -> None:
    for name in ("by_hand.py", "parameters.py", "hand.csv"):
        (tmp_path / name).write_text((BY_HAND / name).read_text(encoding="utf-8"), encoding="utf-8")
    typed = (tmp_path / "hand.csv").read_text(encoding="utf-8")
    assert typed.count("0.559025938575304") == 1
    (tmp_path / "hand.csv").write_text(typed.replace("0.559025938575304", "0.559025938575305"), encoding="utf-8")
    done = run(tmp_path / "by_hand.py", "--check", cwd=tmp_path)
    assert done.returncode == 1
    assert "typed 'both,ln1.std,0,0,0.559025938575305'" in done.stdout


def test_the_derivation_shows_every_number_from_paper() -> None:
    readme = (BY_HAND / "README.md").read_text(encoding="utf-8").replace("−", "-")
    derivation = readme.partition("## The derivation")[2]
    shown = set(re.findall(r"-?\d+(?:\.\d+|/\d+)?|-∞", derivation))
    rows = rows_of(BY_HAND / "hand.csv")
    assert len(rows) == 370
    for row in rows:
        value = row["value"]
        exact = Fraction(value) if value != "-inf" else None
        spellings = {"-∞"} if exact is None else {f"{float(value):.10f}", str(exact)}
        assert spellings & shown, row


def test_code_and_paper_agree_in_every_entry() -> None:
    rows = rows_of(BY_HAND / "diff.csv")
    typed = {
        (attention, row["name"], row["row"], row["column"]): float(row["value"])
        for row in rows_of(BY_HAND / "hand.csv")
        for attention in (("causal", "full") if row["attention"] == "both" else (row["attention"],))
    }
    assert len(rows) == len(typed) == 440
    for row in rows:
        hand, code = float(row["hand"]), float(row["code"])
        assert hand == typed[row["attention"], row["name"], row["row"], row["column"]]
        assert code == hand or abs(code - hand) < 1e-12, row
    assert json.loads((BY_HAND / "manifest.json").read_text(encoding="utf-8"))["max_error"] < 1e-12


def test_every_mistake_is_noticed() -> None:
    rows = rows_of(BY_HAND / "mistakes.csv")
    assert len(rows) == 12
    for row in rows:
        assert (row["noticed"] == "True") == (float(row["max_error"]) >= 1e-5) == (row["mistake"] != "none"), row


def test_the_command_shows_the_example_of_the_paper() -> None:
    parameters = loaded(BY_HAND / "parameters.py")
    block, x = hand_example()
    assert np.array_equal(x, np.array(parameters.PARAMETERS["x"], dtype=float))
    assert block.ln1.eps == block.ln2.eps == float(parameters.EPS)
    named = dict(block.named_parameters())
    assert {"x", *named} == set(parameters.PARAMETERS)
    for name, parameter in named.items():
        written = np.array(parameters.PARAMETERS[name], dtype=float)
        assert np.array_equal(parameter.value, written.reshape(parameter.shape)), name
