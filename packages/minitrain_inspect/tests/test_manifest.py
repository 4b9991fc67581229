"""The manifest: everything needed to repeat a run, strict JSON, and nothing that says whose machine it was."""

import getpass
import importlib.metadata
import json
import math
import os
import platform
import shutil
import socket
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from minitrain import manifest as manifest_module
from minitrain.config import load_config
from minitrain.manifest import build_manifest, write_manifest


def strict(text: str) -> Any:
    def refuse(token: str) -> NoReturn:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(text, parse_constant=refuse)


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*map(str, value), *(text for item in value.values() for text in strings(item))]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *settings, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_it_holds_what_the_contract_lists() -> None:
    config = load_config(None, ["train.seed=7"])
    manifest = build_manifest(config, threads=1)
    assert manifest["schema"] == 1
    assert manifest["seed"] == 7
    assert manifest["config"] == config.to_dict()
    assert manifest["python"] == platform.python_version()
    family = {"autograd-core", "minimodel-embedding", "minimodel-transformer", "minitrain-inspect"}
    runtime = {"numpy", "safetensors", "click", "tqdm", "plotly", "tomli-w", "threadpoolctl"}
    assert family | runtime == set(manifest["packages"])
    assert manifest["packages"]["numpy"] == np.__version__
    assert manifest["packages"]["minitrain-inspect"] == importlib.metadata.version("minitrain-inspect")
    assert manifest["blas"]["threads_asked"] == 1
    assert set(manifest["blas"]["numpy_built_with"]) == {"name", "version"}
    assert all(library["num_threads"] >= 1 for library in manifest["blas"]["loaded"])
    hardware = manifest["hardware"]
    assert set(hardware) == {"cpu", "cores", "usable_cores", "memory_bytes", "machine", "system"}
    assert 1 <= hardware["usable_cores"] <= hardware["cores"]
    assert hardware["memory_bytes"] is None or hardware["memory_bytes"] > 2**28
    made = datetime.fromisoformat(manifest["created_time"])
    assert made.utcoffset() == UTC.utcoffset(None)
    assert abs((datetime.now(UTC) - made).total_seconds()) < 60


def test_it_names_no_host_no_user_and_no_path() -> None:
    config = {
        "data": {"source": "/home/someone/book.txt", "other": [r"C:\Users\someone\book.txt", Path("/srv/x.txt")]},
        "relative": "texts/book.txt",
    }
    manifest = build_manifest(config, seed=1)
    assert manifest["config"] == {
        "data": {"source": "book.txt", "other": ["book.txt", "x.txt"]},
        "relative": "texts/book.txt",
    }
    text = json.dumps(manifest)
    assert "someone" not in text
    assert os.path.expanduser("~") not in text
    for value in strings(manifest):
        assert not Path(value).is_absolute()
        assert value not in (socket.gethostname(), platform.node(), getpass.getuser())


def test_experiments_bring_their_own_configuration_and_seed() -> None:
    manifest = build_manifest({"sizes": (1, 2), "clip": math.inf, "rate": np.float32(0.5), "flag": True}, seed=11)
    assert manifest["seed"] == 11
    assert manifest["config"] == {"sizes": [1, 2], "clip": "inf", "rate": 0.5, "flag": True}
    assert build_manifest({})["seed"] is None
    assert build_manifest({})["blas"]["threads_asked"] is None


def test_the_file_is_strict_json_and_whole(tmp_path: Path) -> None:
    target = tmp_path / "manifest.json"
    config = load_config(None, ["train.grad_clip=inf", "data.source=años.txt"])
    manifest = build_manifest(config, threads=2)
    write_manifest(target, manifest)
    assert strict(target.read_text("utf-8")) == manifest
    assert "años.txt" in target.read_text("utf-8")
    with pytest.raises(ValueError, match="JSON compliant"):
        write_manifest(target, {"x": math.nan})
    assert strict(target.read_text("utf-8")) == manifest
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_is_that_of_the_checkout_that_tracks_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "src" / "manifest.py"
    source.parent.mkdir()
    source.write_text("x = 1\n")
    assert manifest_module._git_state(source) == (None, None)  # no repository
    git(tmp_path, "init", "-q")
    assert manifest_module._git_state(source) == (None, None)  # inside one, but not its code
    git(tmp_path, "add", "src/manifest.py")
    git(tmp_path, "commit", "-q", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert manifest_module._git_state(source) == (commit, False)
    (tmp_path / "untracked.txt").write_text("")
    assert manifest_module._git_state(source) == (commit, False)
    source.write_text("x = 2\n")
    assert manifest_module._git_state(source) == (commit, True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))  # as set inside a git hook
    assert manifest_module._git_state(source) == (commit, True)


def test_without_git_or_with_one_that_hangs_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build_manifest({})["git_commit"] is None
    if os.name == "posix":
        fake = tmp_path / "git"
        fake.write_text("#!/bin/sh\nexec /bin/sleep 5\n")
        fake.chmod(0o755)
        monkeypatch.setattr(manifest_module, "_COMMAND_SECONDS", 0.05)
        assert build_manifest({})["git_commit"] is None


def test_a_machine_that_says_little_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> NoReturn:
        raise OSError

    monkeypatch.setattr(manifest_module, "_CPU_INFO", Path("no/such/file"))
    monkeypatch.setattr(os, "sysconf", absent, raising=False)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "system", lambda: "Plan 9")
    hardware = build_manifest({})["hardware"]
    assert hardware["cpu"] is None
    assert hardware["memory_bytes"] is None


def test_a_copy_that_is_not_installed_still_names_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> NoReturn:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    monkeypatch.setattr(importlib.metadata, "version", missing)
    packages = build_manifest({})["packages"]
    assert {"autograd-core", "minitrain-inspect", "numpy"} <= set(packages)
    assert set(packages.values()) == {None}
