"""The examples of every README run, and print what the README says they print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
READMES = [ROOT / "README.md", *sorted(ROOT.glob("packages/*/README.md"))]

# A block of code, with the block of output that may follow it.
EXAMPLE = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_examples_print_what_the_readme_says(readme: Path, tmp_path: Path) -> None:
    examples = list(EXAMPLE.finditer(readme.read_text(encoding="utf-8")))
    assert any(example["output"] for example in examples), "a README has an example and its output"
    # One after the other in one program, as a reader would type them.
    program = "\n".join(example["code"] for example in examples)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(example["output"] or "" for example in examples)
