"""A log for other tools: as CSV for spreadsheets and data frames, as TensorBoard's event files.

Both read the log as a stream. What was not measured is absent, what was not finite is there as NaN or infinity.
"""

from __future__ import annotations

import csv
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from autograd_core.files import require_replaceable

from .log import read_log

LOG_NAME = "inspector.log.jsonl"

_TAGS = {
    "train_loss": "loss/train",
    "val_loss": "loss/validation",
    "ngram_loss": "loss/ngram",
    "uniform_loss": "loss/uniform",
    "regular_loss": "loss/regular",
    "irregular_loss": "loss/irregular",
    "learning_rate": "learning_rate",
    "grad_norm": "gradient/norm",
    "grad_norm_max": "gradient/norm_max",
    "future_leak": "future_leak",
}
_GROUPS = ("spectral_norm", "dead_fraction", "update_ratio")
_INSTALL = "Install it from the checkout: pip install './packages/minitrain_inspect[tensorboard]'."


def write_csv(run: str | os.PathLike[str], target: str | os.PathLike[str]) -> Path:
    """Path of the CSV file: a line for each row of the log of `run`, a column for each of its keys.

    Nested keys are dotted, in the order in which they turn up. A cell is empty where nothing was measured, and `nan`,
    `inf` or `-inf` where the number was not finite; floats are written so that reading them gives the same bits.

    Parameters
    ----------
    run : path
        A run folder.
    target : path
        The file; one that is there is replaced, whole or not at all.

    Raises
    ------
    ValueError
        If the folder has no log or a damaged one.
    OSError
        If the file cannot be written, or what is there is no file that can be replaced, as a pipe.
    """
    log, path = _log_of(run), Path(target)
    require_replaceable(path)
    columns = list(dict.fromkeys(key for row in read_log(log) for key, _ in _cells(row)))
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        with _naming(path, temporary):
            with temporary.open("x", encoding="utf-8", errors="backslashreplace", newline="") as file:
                writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
                writer.writeheader()
                for row in read_log(log):
                    writer.writerow(dict(_cells(row)))
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def write_tensorboard(run: str | os.PathLike[str], target: str | os.PathLike[str]) -> Path:
    """Path of the folder that TensorBoard reads: one event for each row of the log of `run`.

    Tags stand in the BLUEPRINT, section 8. Values are float32, as TensorBoard has them.

    Parameters
    ----------
    run : path
        A run folder.
    target : path
        The folder, new or empty: two event files in one are drawn as one zigzag.

    Raises
    ------
    ValueError
        If the extra `[tensorboard]` is not installed, `target` holds something, or the log is missing or damaged.
    OSError
        If the folder cannot be written.
    """
    try:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary
    except ImportError as error:
        raise ValueError(
            f"TensorBoard's events need the extra [tensorboard], which is not installed. {_INSTALL}"
        ) from error
    log, folder = _log_of(run), Path(target)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(
            f"a folder for TensorBoard must be new or empty, since it draws two exports as one zigzag; {str(folder)!r} "
            "is not. Name another."
        )
    began = _began(Path(run))
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        with _naming(folder, temporary):
            temporary.mkdir()
            with closing(EventsWriter(str(temporary / "events"))) as writer:
                for row in read_log(log):
                    values = [Summary.Value(tag=tag, simple_value=value) for tag, value in _numbers(row)]
                    wall_time = began + float(row.get("elapsed_seconds") or 0.0)
                    writer.write_event(Event(wall_time=wall_time, step=row["step"], summary=Summary(value=values)))
            # The library names the file after the host and the hour of the export.
            (written,) = temporary.iterdir()
            written.rename(temporary / f"events.out.tfevents.{int(began)}.minitrain")
            if folder.exists():
                folder.rmdir()  # empty; some systems do not rename onto one
            os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


@contextmanager
def _naming(target: Path, temporary: Path) -> Iterator[None]:
    """Say of an OSError about `temporary` that it is about `target`: the other name tells nobody anything."""
    try:
        yield
    except OSError as error:
        if error.filename is None or not Path(error.filename).is_relative_to(temporary):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(target)) from error


def _log_of(run: str | os.PathLike[str]) -> Path:
    log = Path(run) / LOG_NAME
    if not log.is_file():
        raise ValueError(
            f"a run folder must hold {LOG_NAME}; {str(run)!r} does not. Name a folder that minitrain train wrote."
        )
    return log


def _cells(
    row: Mapping[str, Any], prefix: str = "", flagged: Mapping[str, str] | None = None
) -> Iterator[tuple[str, str]]:
    """Dotted key and written value of everything in a row."""
    if flagged is None:
        flagged = row.get("non_finite") or {}
    for key, value in row.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if path != "non_finite":  # its cells say it themselves
                yield from _cells(value, f"{path}.", flagged)
        elif value is not None:
            yield path, repr(value) if isinstance(value, float) else str(value)
        elif path != "inspect":
            yield path, flagged.get(path, "")


def _numbers(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Tag and value of what TensorBoard shows of a row."""
    flagged: Mapping[str, str] = row.get("non_finite") or {}

    def number(value: float | None, path: str) -> float | None:
        return float(flagged[path]) if value is None and path in flagged else value

    found: list[tuple[str, float | None]] = [(tag, number(row.get(key), key)) for key, tag in _TAGS.items()]
    inspect: Mapping[str, Any] = row.get("inspect") or {}
    for name, statistics in (inspect.get("modules") or {}).items():
        found.append((f"activation/{name}", number(statistics.get("mean_abs"), f"inspect.modules.{name}.mean_abs")))
    for name, statistics in (inspect.get("gradients") or {}).items():
        found.append((f"gradient_l2/{name}", number(statistics.get("l2"), f"inspect.gradients.{name}.l2")))
    for group in _GROUPS:
        for name, value in (inspect.get(group) or {}).items():
            found.append((f"{group}/{name}", number(value, f"inspect.{group}.{name}")))
    # Protocol buffers hold no lone surrogates.
    return ((tag.encode("utf-8", "replace").decode(), value) for tag, value in found if value is not None)


def _began(run: Path) -> float:
    """Seconds since 1970 at which the run began, as its manifest says; 0 where it does not."""
    try:
        manifest = json.loads((run / "manifest.json").read_text("utf-8"))
        return datetime.fromisoformat(manifest["created_time"]).timestamp()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0.0
