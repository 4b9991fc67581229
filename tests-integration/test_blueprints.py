"""What a BLUEPRINT promises is guarded: the tests that its contracts name exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLUEPRINTS = [ROOT / "BLUEPRINT.md", *sorted(ROOT.glob("packages/*/BLUEPRINT.md"))]

# `test_x.py`, `tests/test_x.py::test_y`, or `::test_y` for another test of the file named last.
REFERENCE = re.compile(r"`(?:[\w./-]*?(?P<file>test_\w+\.py))?(?:::(?P<test>test_\w+))?`")


def references(text: str) -> list[tuple[str, str | None]]:
    """Test files that `text` names, each with a test of it or None."""
    found: list[tuple[str, str | None]] = []
    file = None
    for match in REFERENCE.finditer(text):
        file = match["file"] or file
        if match["file"] or match["test"]:
            assert file is not None, f"{match[0]} comes before the name of a test file"
            found.append((file, match["test"]))
    return found


def functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_references_are_found_in_all_their_spellings() -> None:
    text = "`tests/test_a.py::test_one`, `::test_two`, `test_b.py` and `other.py`, `F.x`"
    assert references(text) == [("test_a.py", "test_one"), ("test_a.py", "test_two"), ("test_b.py", None)]


@pytest.mark.parametrize("blueprint", BLUEPRINTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_tests_that_a_blueprint_names_exist(blueprint: Path) -> None:
    files = {
        file.name: functions_of(file)
        for pattern in ("packages/*/tests/**/test_*.py", "tests-integration/test_*.py")
        for file in ROOT.glob(pattern)
    }
    wrong = [
        f"{file}::{test}" if test else file
        for file, test in references(blueprint.read_text(encoding="utf-8"))
        if file not in files or (test is not None and test not in files[file])
    ]
    assert not wrong, f"{blueprint.relative_to(ROOT)} names tests that are not there: {wrong}"
