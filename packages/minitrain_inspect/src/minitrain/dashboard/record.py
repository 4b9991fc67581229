"""What a run folder says about itself beside the log: manifest, results and configuration.

A killed run lacks some of these files, and a copied folder may hold half of one. Reading never fails for that: what is
missing reads as empty, and what is there but cannot be read is named, so that the page can say so.
"""

import json
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class Record:
    """The files of a run folder other than its log, as plain mappings, empty where missing.

    `unreadable` names the files that are there and are not what they should be.
    """

    name: str
    manifest: Mapping[str, Any]
    results: Mapping[str, Any]
    config: Mapping[str, Any]
    unreadable: tuple[str, ...]

    @property
    def finished(self) -> bool:
        """Whether the run said that it ended; False too where it left no results."""
        return self.results.get("finished") is True

    @property
    def planned_steps(self) -> int | None:
        """`train.steps` of the configuration, where known."""
        train = self.config.get("train")
        steps = train.get("steps") if isinstance(train, Mapping) else None
        return steps if _is_count(steps) else None

    def number(self, key: str) -> float | None:
        """A number of `results.json`, or None where it is missing or nothing that a run could have measured."""
        value: Any = self.results.get(key)
        return value if type(value) in (int, float) and -_MOST <= value <= _MOST else None

    def held_out(self, kind: str) -> tuple[int, int] | None:
        """Forms completed exactly and forms asked, of `kind` "regular" or "irregular"; None where not recorded."""
        shares = self.results.get("held_out_exact")
        entry = shares.get(kind) if isinstance(shares, Mapping) else None
        if not isinstance(entry, Mapping):
            return None
        exact, of = entry.get("exact"), entry.get("of")
        return (exact, of) if _is_count(exact) and _is_count(of) else None


# JSON may hold NaN, as Python reads it, 1e400, which becomes infinity, and integers beyond any float.
_MOST = sys.float_info.max


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= _MOST


def read_record(run: str | os.PathLike[str]) -> Record:
    """The record of the run folder `run`.

    The configuration is the manifest's, which has no absolute paths, so that the page can be passed on; without a
    manifest it is `config.toml`.
    """
    folder = Path(run)
    unreadable: list[str] = []
    manifest = _mapping(folder / "manifest.json", unreadable)
    results = _mapping(folder / "results.json", unreadable)
    config = _mapping(folder / "config.toml", unreadable)
    recorded = manifest.get("config")
    if isinstance(recorded, Mapping):
        config = recorded
    return Record(folder.resolve().name, manifest, results, config, tuple(unreadable))


def _mapping(path: Path, unreadable: list[str]) -> Mapping[str, Any]:
    try:
        text = path.read_text("utf-8")
        value = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):  # not UTF-8, not JSON, not TOML, nested too deep
        value = None
    if isinstance(value, Mapping):
        return value
    unreadable.append(path.name)
    return {}


def flattened(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted key and written value of everything in a nested mapping, in its order; null is `UNKNOWN`."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flattened(value, f"{name}.")
        elif value is None:
            yield name, UNKNOWN
        elif isinstance(value, str):
            yield name, value
        else:
            yield name, json.dumps(value, ensure_ascii=False, default=str)
