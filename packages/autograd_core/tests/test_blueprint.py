"""BLUEPRINT.md against the package: every file has a row, every row a file, every contract a test that exists."""

import re
from pathlib import Path

from autograd_core import functional

PACKAGE = Path(__file__).parents[1]
SOURCE = PACKAGE / "src" / "autograd_core"
TEXT = (PACKAGE / "BLUEPRINT.md").read_text(encoding="utf-8")


def section(number: int) -> str:
    found = re.search(rf"^## {number} .*?(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    assert found, f"BLUEPRINT.md has a section {number}"
    return found[0]


def rows(number: int) -> list[list[str]]:
    """The cells of a section's table, without its header."""
    lines = [line for line in section(number).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_source_file_has_a_row_in_the_table_of_files_and_every_row_a_file() -> None:
    named = {name for row in rows(4) for name in re.findall(r"`([\w./]+\.py)`", row[0])}
    there = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if path.name != "__init__.py"}
    assert named == there


def test_every_row_of_the_table_of_files_says_something() -> None:
    assert all(len(row) == 2 and row[1] for row in rows(4))


def test_every_contract_names_tests_that_exist() -> None:
    contracts = rows(5)
    assert [row[0] for row in contracts] == [f"C{i + 1}" for i in range(len(contracts))]
    for number, _, guard in contracts:
        files = re.findall(r"`(tests/\w+\.py)`", guard)
        assert files, f"{number} names a test file"
        assert all((PACKAGE / name).is_file() for name in files), f"{number}: {files}"


def test_every_test_file_named_anywhere_exists() -> None:
    for name in set(re.findall(r"tests/(test_\w+\.py)", TEXT)):
        assert (PACKAGE / "tests" / name).is_file(), name


# How the table writes operations that have a sign.
SIGNS = {"add": "+", "subtract": "-", "negative": "-", "multiply": "*", "divide": "/", "power": "**", "getitem": "x[…]"}


def test_the_row_of_a_file_of_operations_names_each_of_them() -> None:
    found = re.compile(r"^def ([a-z]\w*)\([^()]*(?:\([^()]*\)[^()]*)*\) -> (?:Tensor|list\[Tensor\]):", re.MULTILINE)
    named = 0
    for file, text in rows(4):
        if not file.startswith("`ops/"):
            continue
        for name in found.findall((SOURCE / file.strip("`")).read_text(encoding="utf-8")):
            assert SIGNS.get(name, name) in text.lower(), f"{file}: {name}"
            named += 1
    assert named == len(functional.__all__)
