"""What ran, where, and with which versions: `manifest.json` of a run or an experiment.

It holds what is needed to repeat a run and to judge its times, and nothing that says whose machine it was: no host or
user name, no path.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
from autograd_core.files import write_atomic
from threadpoolctl import threadpool_info

from .config import RunConfig

MANIFEST_SCHEMA = 1

_DISTRIBUTION = "minitrain-inspect"

# What is reported where the distribution is not installed and cannot say what it needs.
_FAMILY = ("autograd-core", "minimodel-embedding", "minimodel-transformer", _DISTRIBUTION, "numpy")

_CPU_INFO = Path("/proc/cpuinfo")

_COMMAND_SECONDS = 10.0  # no command asked here takes a tenth of it; a hanging file system must not hang a run


def build_manifest(
    config: RunConfig | Mapping[str, Any], *, seed: int | None = None, threads: int | None = None
) -> dict[str, Any]:
    """Return the manifest as strict JSON values.

    Parameters
    ----------
    config : RunConfig or mapping
        Resolved configuration. Absolute paths in it are cut to the file's name.
    seed : int, optional
        None takes `train.seed` of a `RunConfig`.
    threads : int, optional
        BLAS threads that were asked for; those in use are recorded anyway.

    Returns
    -------
    dict
        `schema`, `created_time` (UTC, ISO 8601), `seed`, `config`, `python`, `packages` (name to version, or None
        where not installed), `blas` (what NumPy was built with, and every BLAS loaded with its threads), `git_commit`
        and `git_modified` (None outside a checkout), `hardware` (`cpu`, `cores`, `usable_cores`, `memory_bytes`,
        `machine`, `system`; None where unknown).
    """
    if isinstance(config, RunConfig):
        seed = config.train.seed if seed is None else seed
        config = config.to_dict()
    commit, modified = _git_state(Path(__file__).resolve())
    return {
        "schema": MANIFEST_SCHEMA,
        "created_time": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "config": _shareable(config),
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "packages": {name: _version(name) for name in _packages()},
        "blas": {"numpy_built_with": _numpy_blas(), "threads_asked": threads, "loaded": _loaded_blas()},
        "git_commit": commit,
        "git_modified": modified,
        "hardware": {
            "cpu": _cpu_model(),
            "cores": os.cpu_count(),
            "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "memory_bytes": _memory_bytes(),
            "machine": platform.machine(),
            "system": platform.system(),
        },
    }


def write_manifest(path: str | os.PathLike[str], manifest: Mapping[str, Any]) -> None:
    """Write a manifest as strict JSON, whole or not at all.

    Raises
    ------
    ValueError
        If it holds NaN or infinity; nothing is written.
    OSError
        If the file cannot be written.
    """
    write_atomic(path, json.dumps(manifest, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def _packages() -> list[str]:
    """Return this distribution, what it declares to need at run time, and NumPy."""
    try:
        declared = importlib.metadata.requires(_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return list(_FAMILY)
    needed = {re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in declared if "extra ==" not in line}
    return sorted({_DISTRIBUTION, *needed})


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numpy_blas() -> dict[str, str | None]:
    built: Mapping[str, Any] = dict(np.show_config(mode="dicts"))
    blas = built.get("Build Dependencies", {}).get("blas", {})
    return {"name": blas.get("name"), "version": blas.get("version")}  # its folders are somebody's paths


def _loaded_blas() -> list[dict[str, Any]]:
    kept = ("internal_api", "version", "num_threads", "architecture", "threading_layer")
    return [
        {key: library.get(key) for key in kept} for library in threadpool_info() if library.get("user_api") == "blas"
    ]


def _git_state(file: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the checkout that tracks `file`, and whether tracked files differ from it."""
    # Tracked, not merely inside: a copy installed into somebody's repository is not that repository's code.
    if _run("git", "-C", str(file.parent), "ls-files", "--error-unmatch", "--", file.name) is None:
        return None, None
    commit = _run("git", "-C", str(file.parent), "rev-parse", "HEAD")
    changes = _run("git", "-C", str(file.parent), "status", "--porcelain", "--untracked-files=no")
    return commit, None if changes is None else bool(changes)


def _cpu_model() -> str | None:
    try:
        for line in _CPU_INFO.read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    if platform.system() == "Darwin":
        return _run("sysctl", "-n", "machdep.cpu.brand_string")
    return platform.processor() or None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None  # Windows, or a system that does not say


def _run(*command: str) -> str | None:
    """Return what a command printed, stripped; None if it failed, hung or does not exist."""
    # Variables such as GIT_DIR, set inside a hook, would answer for another repository.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            check=True,
            timeout=_COMMAND_SECONDS,
            text=True,
            errors="replace",
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _shareable(value: Any) -> Any:
    """Return `value` as strict JSON without paths: an absolute one becomes the file's name, a non-finite float text."""
    if isinstance(value, Mapping):
        return {str(key): _shareable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shareable(item) for item in value]
    if isinstance(value, (os.PathLike, str)):
        written = os.fspath(value)
        for kind in (PurePosixPath, PureWindowsPath):
            if kind(written).is_absolute():
                return kind(written).name
        return written
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
