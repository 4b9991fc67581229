"""The rules of BLUEPRINT.md that no single package can hold: who imports whom, what is declared, what is documented."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ROOT / "packages"

# Each package's import name, in the order of the arrow: a package may import those before it.
IMPORT_NAMES = {
    "autograd_core": "autograd_core",
    "minimodel_embedding": "minimodel.embedding",
    "minimodel_transformer": "minimodel.transformer",
    "minitrain_inspect": "minitrain",
}
FOLDERS = tuple(IMPORT_NAMES)

# Where the import name of a library is not the name of its distribution.
DISTRIBUTION_OF = {"tomli_w": "tomli-w"}

each_package = pytest.mark.parametrize("folder", FOLDERS)


@dataclass(frozen=True)
class Import:
    """One imported module and the line that imports it."""

    module: str
    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


def load_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def module_folder(folder: str) -> Path:
    return PACKAGES / folder / "src" / Path(*IMPORT_NAMES[folder].split("."))


def source_files(folder: str) -> list[Path]:
    files = sorted(module_folder(folder).rglob("*.py"))
    assert files, f"{folder} has no source files where its import name says they are"
    return files


def imports_of(file: Path) -> Iterator[Import]:
    """Every module that `file` imports, inside functions too.

    `from a.b import c` yields both `a.b` and `a.b.c`, since `c` may be a module: `from minimodel import embedding`.
    """
    parts = file.relative_to(ROOT).with_suffix("").parts
    package = parts[parts.index("src") + 1 : -1] if "src" in parts else ()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, file, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield Import(base, file, node.lineno)
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", file, node.lineno)


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def sibling_of(module: str) -> str | None:
    """The folder of the package that `module` belongs to, or None."""
    return next((folder for folder, name in IMPORT_NAMES.items() if is_within(module, name)), None)


def pins(folder: str) -> dict[str, dict[str, str]]:
    metadata = load_toml(PACKAGES / folder / "pyproject.toml")["tool"]["hatch"].get("metadata", {})
    siblings: dict[str, dict[str, str]] = metadata.get("hooks", {}).get("custom", {}).get("siblings", {})
    return siblings


def pinned_folders(folder: str) -> set[str]:
    return {Path(pin["path"]).name for pin in pins(folder).values()}


def declared_libraries(folder: str) -> set[str]:
    """What the package asks for, in its extras too."""
    pyproject = load_toml(PACKAGES / folder / "pyproject.toml")
    requirements = pyproject["project"].get("dependencies")
    if requirements is None:
        requirements = pyproject["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"]
    for extra in pyproject["project"].get("optional-dependencies", {}).values():
        requirements = [*requirements, *extra]
    return {re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0] for requirement in requirements}


def imported_libraries(folder: str) -> dict[str, Import]:
    """Third-party distributions that the package imports, with one place each."""
    found: dict[str, Import] = {}
    for file in source_files(folder):
        for item in imports_of(file):
            top = item.module.split(".")[0]
            if top not in sys.stdlib_module_names and top not in {"autograd_core", "minimodel", "minitrain"}:
                found.setdefault(DISTRIBUTION_OF.get(top, top), item)
    return found


@each_package
def test_a_package_imports_only_packages_to_its_left(folder: str) -> None:
    allowed = FOLDERS[: FOLDERS.index(folder) + 1]
    wrong = [
        str(item)
        for file in source_files(folder)
        for item in imports_of(file)
        if (sibling := sibling_of(item.module)) is not None and sibling not in allowed
    ]
    assert not wrong, wrong


@each_package
def test_every_sibling_that_is_imported_is_pinned_directly(folder: str) -> None:
    # One reached through another sibling would be installed as well, until that sibling drops it.
    imported = {sibling_of(item.module) for file in source_files(folder) for item in imports_of(file)} - {None, folder}
    assert imported <= pinned_folders(folder)
    assert pinned_folders(folder) == set(FOLDERS[: FOLDERS.index(folder)])


@each_package
def test_every_library_that_is_imported_is_declared_and_the_other_way_round(folder: str) -> None:
    imported = imported_libraries(folder)
    assert set(imported) == declared_libraries(folder), [str(item) for item in imported.values()]


@each_package
def test_the_libraries_of_extras_are_imported_only_inside_functions(folder: str) -> None:
    extras = load_toml(PACKAGES / folder / "pyproject.toml")["project"].get("optional-dependencies", {})
    optional = {re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0] for extra in extras.values() for each in extra}
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in source_files(folder)
        for node in ast.parse(file.read_text(encoding="utf-8"), str(file)).body
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [])
        + ([node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else [])
        if name.split(".")[0] in optional
    ]
    assert not wrong, wrong


def test_the_core_needs_numpy_alone() -> None:
    assert declared_libraries("autograd_core") == set(imported_libraries("autograd_core")) == {"numpy"}
    assert pins("autograd_core") == {}


def test_only_the_command_imports_click() -> None:
    importers = {
        file.name
        for file in source_files("minitrain_inspect")
        if any(is_within(item.module, "click") for item in imports_of(file))
    }
    assert importers == {"cli.py"}


def observing_half() -> list[str]:
    """The modules that BLUEPRINT.md of minitrain-inspect promises work on any model."""
    blueprint = (PACKAGES / "minitrain_inspect" / "BLUEPRINT.md").read_text(encoding="utf-8")
    match = re.search(r"\*observing\* half \(([^)]*)\)", blueprint)
    assert match, "BLUEPRINT.md of minitrain-inspect lists the *observing* half (`…`, `…`)"
    return re.findall(r"`(\w+)`", match[1])


def test_the_observing_half_of_minitrain_reaches_no_package_but_the_core() -> None:
    files = {
        ".".join(file.relative_to(PACKAGES / "minitrain_inspect" / "src").with_suffix("").parts).removesuffix(
            ".__init__"
        ): file
        for file in source_files("minitrain_inspect")
    }
    promised = observing_half()
    assert {"inspect", "per_class_loss", "loop"} <= set(promised)
    waiting = [f"minitrain.{name}" for name in promised]
    assert set(waiting) <= set(files), "BLUEPRINT.md names a module that is not there"
    # Importing a sub-module also runs the package's __init__.
    waiting.append("minitrain")
    reached: set[str] = set()
    wrong: list[str] = []
    while waiting:
        module = waiting.pop()
        if module in reached or module not in files:
            continue
        reached.add(module)
        for item in imports_of(files[module]):
            waiting.append(item.module)
            if sibling_of(item.module) not in (None, "autograd_core", "minitrain_inspect"):
                wrong.append(str(item))
    assert not wrong, wrong


def test_no_package_and_no_test_imports_another_framework() -> None:
    places = [*PACKAGES.glob("*/src/**/*.py"), *PACKAGES.glob("*/tests/**/*.py"), *ROOT.glob("tests-integration/*.py")]
    assert len(places) > len(FOLDERS)
    wrong = [
        str(item)
        for file in places
        for item in imports_of(file)
        if any(is_within(item.module, framework) for framework in ("torch", "transformers", "tensorflow", "jax"))
    ]
    assert not wrong, wrong


def test_the_minimodel_namespace_has_no_init_file() -> None:
    assert list(PACKAGES.glob("minimodel_*/src/minimodel")), "the namespace folder moved"
    assert list(PACKAGES.glob("*/src/minimodel/__init__.py*")) == []


@each_package
def test_a_package_environment_holds_exactly_the_closure_of_its_pins(folder: str) -> None:
    closure, waiting = set(), [folder]
    while waiting:
        member = waiting.pop()
        closure.add(f"packages/{member}")
        waiting += pinned_folders(member)
    environment = load_toml(ROOT / "hatch.toml")["envs"][folder]
    assert set(environment["workspace"]["members"]) == closure
    assert environment["template"] == "package", "other templates are not detached, and inherit all four packages"


def test_every_environment_with_members_builds_them_in_the_main_thread() -> None:
    environments = load_toml(ROOT / "hatch.toml")["envs"]
    with_members = {
        name: env["workspace"] for name, env in environments.items() if "members" in env.get("workspace", {})
    }
    assert set(FOLDERS) < set(with_members)
    assert [name for name, workspace in with_members.items() if workspace.get("parallel") is not False] == []


def test_the_test_command_checks_every_package() -> None:
    checks = ast.parse((ROOT / ".ci" / "checks.py").read_text(encoding="utf-8"))
    table = next(
        node.value for node in checks.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CHECKS"
    )
    assert list(ast.literal_eval(table)) == ["lint", "types", *FOLDERS, "integration"]


@each_package
def test_every_source_file_is_named_in_the_blueprint_of_its_package(folder: str) -> None:
    blueprint = (PACKAGES / folder / "BLUEPRINT.md").read_text(encoding="utf-8")
    named = {Path(name).name for name in re.findall(r"`([\w./]+\.py)`", blueprint)}
    unnamed = [file.name for file in source_files(folder) if not file.name.startswith("__") and file.name not in named]
    assert not unnamed, f"{folder}/BLUEPRINT.md says nothing of {unnamed}"


@each_package
def test_every_file_that_a_blueprint_names_is_there(folder: str) -> None:
    blueprint = (PACKAGES / folder / "BLUEPRINT.md").read_text(encoding="utf-8")
    existing = {
        file.name
        for file in [*PACKAGES.rglob("*.py"), *ROOT.glob("tests-integration/*.py"), *ROOT.glob("experiments/**/*.py")]
    }
    named = {Path(name).name for name in re.findall(r"`([\w./]+\.py)`", blueprint)}
    assert named - existing == set()


def test_test_files_have_unique_names() -> None:
    names = Counter(
        file.name for pattern in ("packages/*/tests/**/*.py", "tests-integration/*.py") for file in ROOT.glob(pattern)
    )
    assert [name for name, count in names.items() if count > 1 and name != "conftest.py"] == []
    assert "__init__.py" not in names
    assert sum(name.startswith("test_") for name in names) > len(FOLDERS)


@each_package
def test_packages_carry_the_licence_of_the_repository(folder: str) -> None:
    assert (PACKAGES / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def shell_lines(readme: str) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_the_readme_and_the_clean_machine_run_the_same_commands() -> None:
    lines = shell_lines((ROOT / "README.md").read_text(encoding="utf-8"))
    scripts = load_toml(ROOT / "hatch.toml")["envs"]["default"]["scripts"]
    for script in ("train", "test"):
        assert f"pip install hatch && hatch run {script}" in lines
        assert script in scripts
    assert "pip install hatch && hatch run test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def index_installs(text: str) -> list[str]:
    """Install commands that would look one of our unpublished names up on an index.

    A path or an address has a slash before the name, `name @ address` says where, `--no-index` asks nobody.
    """
    name = "|".join(folder.replace("_", "[-_]") for folder in FOLDERS)
    commands = re.findall(rf"install\b[^\n`]*[\s\"'](?:{name})\b(?! @)[^\n`]*", text)
    return [command for command in commands if "--no-index" not in command]


def test_documentation_never_asks_an_index_for_our_names() -> None:
    assert index_installs("`pip install -U autograd-core`") == ["install -U autograd-core"]
    assert index_installs("pip install ./packages/autograd_core 'minitrain-inspect @ git+https://…'") == []
    documents = [ROOT / "README.md", *PACKAGES.glob("*/*.md"), *ROOT.glob("experiments/**/*.md")]
    assert {
        str(document): found for document in documents if (found := index_installs(document.read_text("utf-8")))
    } == {}
