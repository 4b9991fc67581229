"""Flip each sign of each hand-derived backward, one at a time, and list the flips that no test notices.

    python packages/autograd_core/mutations/flip_signs.py [--factors] [--only attention.py] [--list]

What is flipped: `+` and `-`, `+=` and `-=`, a unary `-`, `np.add` and `np.subtract`; with `--factors` also `*` and `/`
in the same spellings. Where: in the `vjp` inside each operation of `src/autograd_core/ops`, in functions whose name
ends in `_vjp`, in the functions of `ops` that those call, in the statements of an operation that compute what its `vjp`
reads, and in the forward functions that write a derivative for later (`PREPARE`).

Each flip is made in a temporary copy of the package and its tests, so the working tree is never touched and may change
meanwhile. First the tests whose names hold the operation's name are run, then, if they pass, all but the slow ones
(`NOT_ABOUT_GRADIENTS`). A copy without any flip must pass, else nothing is run.

Verdicts are written to a file as they come (`--state`). A run that was stopped goes on where it was; a later run takes
flips that were noticed as noticed while the function is unchanged, and tries survivors again. `--fresh` forgets all.

It takes 4 seconds of CPU time a flip: 108 signs and, with `--factors`, 102 more took 21 minutes on a busy machine of
two cores. What is left is estimated as it goes. The exit status is 1 if a flip survived; survivors that no test can
notice are explained in `BLUEPRINT.md`, section 13.

Needs what the tests need: pytest, hypothesis, NumPy.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
OPS = Path("src", "autograd_core", "ops")

# Forward functions that write a derivative for later.
PREPARE = (("gelu.py", "_tanh_form"), ("gelu.py", "_gelu_exact"))

# Test files that say nothing about a gradient.
NOT_ABOUT_GRADIENTS = ("blueprint", "files", "grad_mode", "init", "memory", "schedule", "checking", "hooks", "module")

SIGNS = {ast.Add: ast.Sub, ast.Sub: ast.Add}
FACTORS = {ast.Mult: ast.Div, ast.Div: ast.Mult}
SIGN_CALLS = {"add": "subtract", "subtract": "add", "negative": "positive"}
FACTOR_CALLS = {"multiply": "divide", "divide": "multiply"}

SECONDS = 300  # after which a test run counts as hanging, which somebody would notice


@dataclass(frozen=True)
class Flip:
    """One change: node number `index` of a walk through function `function` of `file`."""

    file: str
    function: str  # dotted: "layer_norm.vjp"
    index: int
    line: int
    before: str
    after: str
    digest: str  # of the function's source

    @property
    def key(self) -> str:
        return f"{self.file}:{self.function}:{self.index}:{self.digest}"


# ---------------------------------------------------------------------- what is flipped


def functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Every function of a module by dotted name."""
    found: dict[str, ast.FunctionDef] = {}

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                found[prefix + child.name] = child
                walk(child, f"{prefix}{child.name}.")
            else:
                walk(child, prefix)

    walk(tree, "")
    return found


def backward_functions(trees: dict[str, ast.Module]) -> dict[tuple[str, str], ast.FunctionDef]:
    """Functions that take part in a backward pass, by file and dotted name."""
    by_file = {file: functions(tree) for file, tree in trees.items()}
    for file, name in PREPARE:
        if name not in by_file.get(file, {}):
            raise SystemExit(f"flip_signs: PREPARE names {name} of {file}; it is not there. Bring PREPARE up to date.")
    waiting = [
        (file, name)
        for file, own in by_file.items()
        for name in own
        if name.split(".")[-1] == "vjp" or name.endswith("_vjp")
    ] + list(PREPARE)
    imported = {
        file: {
            alias.asname or alias.name: (f"{node.module}.py", alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
            for alias in node.names
        }
        for file, tree in trees.items()
    }
    found: dict[tuple[str, str], ast.FunctionDef] = {}
    while waiting:
        file, name = waiting.pop()
        if (file, name) in found:
            continue
        found[file, name] = by_file[file][name]
        for node in ast.walk(found[file, name]):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            called = node.func.id
            scopes = [name.rsplit(".", depth)[0] for depth in range(name.count(".") + 1)]
            inner = next((f"{scope}.{called}" for scope in scopes if f"{scope}.{called}" in by_file[file]), None)
            target = (file, inner or called)
            if inner is None and called not in by_file[file]:
                target = imported[file].get(called, target)
            if target[1] in by_file.get(target[0], {}):
                waiting.append(target)
    return dict(sorted(found.items()))


def flipped(node: ast.AST, factors: bool) -> ast.AST | None:
    """Return a copy of the node with its sign flipped, or None if it has none."""
    operators = SIGNS | FACTORS if factors else SIGNS
    calls = SIGN_CALLS | FACTOR_CALLS if factors else SIGN_CALLS
    changed = copy.deepcopy(node)
    if isinstance(changed, (ast.BinOp, ast.AugAssign)) and type(changed.op) in operators:
        changed.op = operators[type(changed.op)]()
        return changed
    if isinstance(changed, ast.UnaryOp) and isinstance(changed.op, ast.USub):
        changed.op = ast.UAdd()
        return changed
    if isinstance(changed, ast.Attribute) and changed.attr in calls and ast.unparse(changed.value) == "np":
        changed.attr = calls[changed.attr]
        return changed
    return None


def own_nodes(function: ast.FunctionDef) -> Iterator[tuple[int, ast.AST]]:
    """Nodes of the function's body that belong to no function inside it, with their number in the walk."""
    inner = {
        id(node)
        for child in ast.walk(function)
        if isinstance(child, ast.FunctionDef) and child is not function
        for node in ast.walk(child)
    }
    for index, node in enumerate(ast.walk(function)):
        if id(node) not in inner:
            yield index, node


def prepared(operation: ast.FunctionDef, vjp: ast.FunctionDef) -> Iterator[tuple[int, ast.AST]]:
    """Nodes, numbered likewise, of the operation's statements that assign what its vjp reads, or write into it."""
    read = {node.id for node in ast.walk(vjp) if isinstance(node, ast.Name)}
    chosen: set[int] = set()
    for _, node in own_nodes(operation):
        names: list[ast.AST] = []
        if isinstance(node, ast.Assign):
            names = [name for target in node.targets for name in ast.walk(target)]
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            names = list(ast.walk(node.target))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            names = [keyword.value for keyword in node.value.keywords if keyword.arg == "out"]
        if any(isinstance(name, ast.Name) and name.id in read for name in names):
            chosen |= {id(part) for part in ast.walk(node)}
    for index, node in own_nodes(operation):
        if id(node) in chosen:
            yield index, node


def flips(package: Path, factors: bool) -> list[Flip]:
    """All flips, in the order of the files."""
    trees = {file.name: ast.parse(file.read_text(encoding="utf-8")) for file in sorted((package / OPS).glob("*.py"))}
    backward = backward_functions(trees)
    places = [(file, name, function, own_nodes(function)) for (file, name), function in backward.items()]
    for (file, name), vjp in backward.items():
        outer = name.rpartition(".")[0]
        if name.endswith(".vjp") and (file, outer) not in backward:
            operation = functions(trees[file])[outer]
            places.append((file, outer, operation, prepared(operation, vjp)))
    found = []
    for file, name, function, nodes in places:
        digest = hashlib.sha256(ast.dump(function).encode()).hexdigest()[:12]
        for index, node in nodes:
            changed = flipped(node, factors)
            if changed is not None:
                line: int = node.lineno  # type: ignore[attr-defined]
                found.append(Flip(file, name, index, line, ast.unparse(node), ast.unparse(changed), digest))
    return sorted(found, key=lambda flip: (flip.file, flip.line, flip.index))


def apply(flip: Flip, source: str, factors: bool) -> str:
    """Return the module's source with the flip made."""
    tree = ast.parse(source)
    function = functions(tree)[flip.function]
    target = list(ast.walk(function))[flip.index]
    changed = flipped(target, factors)

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            if node is target:
                assert changed is not None
                return changed
            return self.generic_visit(node)

    return ast.unparse(ast.fix_missing_locations(Replace().visit(tree)))


# ---------------------------------------------------------------------- whether a test notices


class Copy:
    """A temporary copy of the package, in which tests run."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "packages" / PACKAGE.name
        skip = shutil.ignore_patterns("__pycache__", ".*", "benchmarks", "mutations")
        shutil.copytree(PACKAGE, self.package, ignore=skip)
        shutil.copy(PACKAGE.parents[1] / "pytest.ini", folder)
        # A byte-code file is recognised by the source's size and second of change: too coarse for flips in a row.
        self.environment = os.environ | {
            "PYTHONPATH": str(self.package / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self.quick = [
            f"tests/{file.name}"
            for file in sorted((self.package / "tests").glob("test_*.py"))
            if file.stem.removeprefix("test_") not in NOT_ABOUT_GRADIENTS
        ]

    def check_import(self) -> None:
        """End the program if tests would import another copy."""
        code = "import autograd_core; print(autograd_core.__file__)"
        run = subprocess.run([sys.executable, "-c", code], env=self.environment, capture_output=True, text=True)
        if not run.stdout.startswith(str(self.package)):
            raise SystemExit(f"flip_signs: tests would import {run.stdout or run.stderr}, not the copy {self.package}.")

    def tests(self, *selection: str) -> tuple[int, str]:
        """Run tests until one fails; pytest's exit status, and the name of the test that failed."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
        try:
            run = subprocess.run(
                [*command, *selection, *self.quick],
                cwd=self.package,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return 1, "hangs"
        named = [line.split(" ", 1)[1] for line in run.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return run.returncode, named[0].split(" - ")[0] if named else ""

    def verdict(self, flip: Flip, factors: bool) -> str:
        """Return the name of a test that notices, or "survived"."""
        file = self.package / OPS / flip.file
        source = file.read_text(encoding="utf-8")
        file.write_text(apply(flip, source, factors), encoding="utf-8")
        try:
            status, test = self.tests("-k", flip.function.split(".")[0].strip("_"))
            if status not in (0, 5):  # 5: no test has the name
                return test or f"status {status}"
            status, test = self.tests()
            return "survived" if status == 0 else test or f"status {status}"
        finally:
            file.write_text(source, encoding="utf-8")


def remembered(state: Path, fresh: bool) -> dict[str, str]:
    """What earlier runs noticed."""
    if fresh or not state.is_file():
        state.unlink(missing_ok=True)
        return {}
    records = [json.loads(line) for line in state.read_text(encoding="utf-8").splitlines()]
    return {record["key"]: record["verdict"] for record in records if record["verdict"] != "survived"}


def main() -> int:
    """0 if every flip is noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--factors", action="store_true", help="flip * and / too")
    parser.add_argument("--only", default="", help="flips whose file and function, 'softmax.py:softmax.vjp', hold this")
    parser.add_argument("--list", action="store_true", help="say what would be flipped, and stop")
    parser.add_argument("--fresh", action="store_true", help="forget earlier verdicts")
    parser.add_argument(
        "--state", type=Path, default=PACKAGE / "build" / "flip_signs.jsonl", help="file of verdicts (default: build/)"
    )
    asked = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="flip_signs_") as folder:
        place = Copy(Path(folder))
        chosen = [f for f in flips(place.package, asked.factors) if asked.only in f"{f.file}:{f.function}"]
        if asked.list or not chosen:
            for flip in chosen:
                print(f"{flip.file}:{flip.line} {flip.function}: {flip.before}  ->  {flip.after}")
            print(f"{len(chosen)} flips")
            return 0
        asked.state.parent.mkdir(parents=True, exist_ok=True)
        known = remembered(asked.state, asked.fresh)
        place.check_import()
        started = time.monotonic()
        status, test = place.tests()
        if status:
            raise SystemExit(f"flip_signs: the tests must pass before anything is flipped; {test or status} does not.")
        print(f"without a flip: passes, {time.monotonic() - started:.0f} s", flush=True)

        survivors = []
        started, run = time.monotonic(), 0
        missing = sum(flip.key not in known for flip in chosen)
        for flip in chosen:
            if flip.key in known:
                continue
            verdict = place.verdict(flip, asked.factors)
            with asked.state.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": flip.key, "verdict": verdict}) + "\n")
            run += 1
            left = (time.monotonic() - started) / run * (missing - run)
            print(f"{flip.file}:{flip.line} {flip.before}  ->  {flip.after}: {verdict}, {left:.0f} s left", flush=True)
            if verdict == "survived":
                survivors.append(flip)
    took = time.monotonic() - started
    print(f"\n{len(chosen)} flips, {len(chosen) - missing} noticed by earlier runs, {run} run in {took:.0f} s")
    print(f"{len(survivors)} survived")
    for flip in survivors:
        print(f"  {flip.file}:{flip.line} {flip.function}: {flip.before}  ->  {flip.after}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
