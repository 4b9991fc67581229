"""Installing from a checkout: the declared closure and nothing else, siblings by path, pins that are held.

Each test makes its own environment in a temporary folder. Third-party libraries come from wherever the installer is set
up to find them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
import zlib
from pathlib import Path

import pytest
import typed_program
from test_readmes import EXAMPLE

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ROOT / "packages"

CORE, EMBEDDING, TRANSFORMER, MINITRAIN = (
    "autograd-core",
    "minimodel-embedding",
    "minimodel-transformer",
    "minitrain-inspect",
)
IMPORT_NAMES = {
    CORE: "autograd_core",
    EMBEDDING: "minimodel.embedding",
    TRANSFORMER: "minimodel.transformer",
    MINITRAIN: "minitrain",
}

# What each package brings. `packaging` and `narwhals` come with plotly, `colorama` with click and tqdm on Windows.
BY_PATH = {
    CORE: {CORE},
    EMBEDDING: {CORE, EMBEDDING},
    TRANSFORMER: {CORE, EMBEDDING, TRANSFORMER},
    MINITRAIN: {CORE, EMBEDDING, TRANSFORMER, MINITRAIN},
}
LIBRARIES = {
    CORE: {"numpy"},
    EMBEDDING: {"numpy"},
    TRANSFORMER: {"numpy", "safetensors"},
    MINITRAIN: {"numpy", "safetensors", "click", "tqdm", "plotly", "tomli-w", "threadpoolctl", "packaging", "narwhals"}
    | ({"colorama"} if sys.platform == "win32" else set()),
}

each_distribution = pytest.mark.parametrize("distribution", BY_PATH)


def folder_of(distribution: str) -> str:
    return distribution.replace("-", "_")


def run(*command: str | Path, cwd: Path = ROOT, siblings: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {
        key: value for key, value in os.environ.items() if key not in ("SIBLINGS", "PYTHONPATH", "VIRTUAL_ENV")
    }
    if siblings is not None:
        environment["SIBLINGS"] = siblings
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def succeed(*command: str | Path, cwd: Path = ROOT, siblings: str | None = None) -> str:
    done = run(*command, cwd=cwd, siblings=siblings)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def new_environment(folder: Path, *, with_pip: bool = False) -> Path:
    """The Python of a fresh virtual environment."""
    venv.create(folder, with_pip=with_pip, symlinks=os.name != "nt")
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def installed(python: Path) -> dict[str, str | None]:
    """Name of each installed distribution to the URL it came from, None if from an index."""
    program = (
        "import json, importlib.metadata as m\n"
        "urls = {d.name.lower().replace('_', '-'): d.read_text('direct_url.json') for d in m.distributions()}\n"
        "print(json.dumps({name: json.loads(url)['url'] if url else None for name, url in urls.items()}))"
    )
    found: dict[str, str | None] = json.loads(succeed(python, "-c", program))
    return found


def check_closure(python: Path, distribution: str, checkout: Path = PACKAGES) -> None:
    found = installed(python)
    assert set(found) - {"pip", "setuptools"} == BY_PATH[distribution] | LIBRARIES[distribution]
    by_path = {name: url for name, url in found.items() if url is not None}
    assert by_path == {name: (checkout / folder_of(name)).as_uri() for name in BY_PATH[distribution]}


@each_distribution
def test_a_path_install_brings_exactly_the_declared_closure(distribution: str, tmp_path: Path) -> None:
    python = new_environment(tmp_path / "venv")
    succeed("uv", "pip", "install", "--python", python, f"./packages/{folder_of(distribution)}")
    check_closure(python, distribution)
    succeed("uv", "pip", "check", "--python", python)
    # Outside the checkout, so that the installed files are what is imported.
    program = (
        f"import {IMPORT_NAMES[distribution]} as p, {IMPORT_NAMES[distribution]}.__about__ as about, pathlib\n"
        "print(about.__version__, (pathlib.Path(p.__file__).parent / 'py.typed').is_file())"
    )
    assert succeed(python, "-W", "error", "-c", program, cwd=tmp_path) == "0.1.0 True\n"


def test_pip_takes_siblings_from_the_path_as_well(tmp_path: Path) -> None:
    python = new_environment(tmp_path / "venv", with_pip=True)
    succeed(python, "-m", "pip", "install", "./packages/minimodel_transformer")
    check_closure(python, TRANSFORMER)
    succeed(python, "-m", "pip", "check")


def test_the_embedding_alone_runs_the_examples_of_its_readme(tmp_path: Path) -> None:
    python = new_environment(tmp_path / "venv", with_pip=True)
    succeed(python, "-m", "pip", "install", "./packages/minimodel_embedding")
    check_closure(python, EMBEDDING)
    examples = list(EXAMPLE.finditer((PACKAGES / "minimodel_embedding" / "README.md").read_text(encoding="utf-8")))
    program = "\n".join(example["code"] for example in examples)
    assert "Embedding(" in program
    printed = succeed(python, "-W", "error", "-c", program, cwd=tmp_path)
    assert printed == "".join(example["output"] or "" for example in examples)


USES = {
    EMBEDDING: "from minimodel.embedding import Embedding\n\nsize: int = Embedding(5, 3).num_embeddings\n",
    TRANSFORMER: "from minimodel.transformer import LayerNorm\n\nsize: int = LayerNorm(5).gamma.ndim\n",
}


def type_check(python: Path, program: str, folder: Path) -> str:
    """What mypy says of `program` where `python`'s packages are installed."""
    # A file a program: mypy's cache takes a file of the same size and second for the same.
    file = folder / f"program_{zlib.crc32(program.encode())}.py"
    file.write_text(program, encoding="utf-8")
    options = ["--strict", "--config-file", "", "--cache-dir", folder / "cache", "--python-executable", python]
    return run(sys.executable, "-m", "mypy", *options, file, cwd=folder).stdout


def check_usable_and_typed(python: Path, distribution: str, folder: Path) -> None:
    succeed(python, "-W", "error", "-c", USES[distribution], cwd=folder)
    assert type_check(python, USES[distribution], folder).startswith("Success")
    # Without py.typed everything would be Any, and nothing would be wrong with this.
    wrong = type_check(python, USES[distribution].replace(": int", ": str"), folder)
    assert 'expression has type "int", variable has type "str"' in wrong


def test_uninstalling_one_of_the_namespace_leaves_the_other(tmp_path: Path) -> None:
    python = new_environment(tmp_path / "venv")
    succeed("uv", "pip", "install", "--python", python, "./packages/minimodel_transformer")
    for distribution in (EMBEDDING, TRANSFORMER):
        check_usable_and_typed(python, distribution, tmp_path)

    succeed("uv", "pip", "uninstall", "--python", python, TRANSFORMER)
    assert "No module named 'minimodel.transformer'" in run(python, "-c", USES[TRANSFORMER], cwd=tmp_path).stderr
    check_usable_and_typed(python, EMBEDDING, tmp_path)

    # The other way round takes away what the transformer declares to need. Its own files stay, and with the embedding
    # back it is whole, without having been installed again.
    succeed("uv", "pip", "install", "--python", python, "./packages/minimodel_transformer")
    succeed("uv", "pip", "uninstall", "--python", python, EMBEDDING)
    assert "No module named 'minimodel.embedding'" in run(python, "-c", USES[TRANSFORMER], cwd=tmp_path).stderr
    assert type_check(python, USES[TRANSFORMER], tmp_path).startswith("Success")
    succeed("uv", "pip", "install", "--no-deps", "--python", python, "./packages/minimodel_embedding")
    check_usable_and_typed(python, TRANSFORMER, tmp_path)


def test_the_command_is_installed_and_says_its_version(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("minitrain.exe" if os.name == "nt" else "minitrain")
    assert "0.1.0" in succeed(command, "--version", cwd=tmp_path)


@pytest.fixture
def copied_packages(tmp_path: Path) -> Path:
    """A copy of `packages/` that a test may change."""
    copy = tmp_path / "packages"
    shutil.copytree(PACKAGES, copy, ignore=shutil.ignore_patterns("__pycache__", "tests", "*.egg-info"))
    return copy


def set_version(packages: Path, distribution: str, version: str) -> None:
    about = packages / folder_of(distribution) / "src" / Path(*IMPORT_NAMES[distribution].split(".")) / "__about__.py"
    text = about.read_text(encoding="utf-8")
    assert text.count('"0.1.0"') == 1
    about.write_text(text.replace('"0.1.0"', f'"{version}"'), encoding="utf-8")


@pytest.mark.parametrize(
    ("changed", "dependent"), [(CORE, EMBEDDING), (EMBEDDING, TRANSFORMER), (TRANSFORMER, MINITRAIN)]
)
def test_a_sibling_of_another_version_than_its_pin_is_an_error_that_names_both(
    changed: str, dependent: str, copied_packages: Path
) -> None:
    set_version(copied_packages, changed, "0.1.7")
    python = new_environment(copied_packages.parent / "venv")
    done = run("uv", "pip", "install", "--no-deps", "--python", python, copied_packages / folder_of(dependent))
    assert done.returncode != 0
    assert f"{dependent} pins {changed}==0.1.0; the sibling in" in done.stderr
    assert f"{folder_of(changed)} is 0.1.7. Change the pin in {dependent}'s pyproject.toml" in done.stderr
    assert installed(python) == {}


def test_pip_shows_the_drifted_pin_too(copied_packages: Path) -> None:
    set_version(copied_packages, CORE, "0.1.7")
    python = new_environment(copied_packages.parent / "venv", with_pip=True)
    done = run(python, "-m", "pip", "install", "--no-deps", copied_packages / "minimodel_embedding")
    assert done.returncode != 0
    assert re.search(
        r"minimodel-embedding pins autograd-core==0\.1\.0; the sibling in .* is 0\.1\.7\.", done.stderr + done.stdout
    )


def test_a_package_without_its_siblings_beside_it_is_an_error_that_says_so(copied_packages: Path) -> None:
    shutil.rmtree(copied_packages / "autograd_core")
    python = new_environment(copied_packages.parent / "venv")
    done = run("uv", "pip", "install", "--no-deps", "--python", python, copied_packages / "minimodel_embedding")
    assert done.returncode != 0
    assert "minimodel-embedding is built beside its siblings; autograd-core is not in" in done.stderr


def test_an_unknown_mode_of_the_hook_is_an_error_that_lists_the_modes(copied_packages: Path) -> None:
    python = new_environment(copied_packages.parent / "venv")
    command = ("uv", "pip", "install", "--no-deps", "--python", python, copied_packages / "minimodel_embedding")
    done = run(*command, siblings="wheel")
    assert done.returncode != 0
    assert "SIBLINGS is 'path' (the default) or 'version'; got 'wheel'." in done.stderr


@each_distribution
def test_archives_that_leave_the_checkout_pin_versions_and_no_paths(distribution: str, tmp_path: Path) -> None:
    # Builds the source archive, and the wheel from it: there the hook must be off.
    succeed("uv", "build", "--out-dir", tmp_path, PACKAGES / folder_of(distribution), siblings="version")
    stem = f"{folder_of(distribution)}-0.1.0"
    with zipfile.ZipFile(tmp_path / f"{stem}-py3-none-any.whl") as wheel:
        names = wheel.namelist()
        metadata = wheel.read(f"{stem}.dist-info/METADATA").decode()
    requirements = re.findall(r"^Requires-Dist: (.*)$", metadata, flags=re.MULTILINE)
    ours = {f"{sibling}==0.1.0" for sibling in BY_PATH[distribution] - {distribution}}
    assert {requirement for requirement in requirements if requirement.split("==")[0] in BY_PATH} == ours
    assert not [requirement for requirement in requirements if "@" in requirement]
    assert f"{IMPORT_NAMES[distribution].replace('.', '/')}/py.typed" in names
    assert "minimodel/__init__.py" not in names
    assert not [name for name in names if name.startswith(("tests/", "src/"))]
    with tarfile.open(tmp_path / f"{stem}.tar.gz") as archive:
        assert f"{stem}/LICENSE" in archive.getnames()


@each_distribution
def test_the_changelog_speaks_of_the_version_that_is_built(distribution: str) -> None:
    package = PACKAGES / folder_of(distribution)
    about = package / "src" / Path(*IMPORT_NAMES[distribution].split(".")) / "__about__.py"
    version = re.search(r'__version__ = "(.*)"', about.read_text(encoding="utf-8"))
    assert version
    assert version[1] in (package / "CHANGELOG.md").read_text(encoding="utf-8")
    assert tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"] == distribution


def test_the_program_that_the_type_check_reads_also_runs() -> None:
    # Below ln 7: the program has learnt to count.
    assert typed_program.main() < 1.9
