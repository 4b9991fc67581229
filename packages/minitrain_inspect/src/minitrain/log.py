"""The log of a run, `inspector.log.jsonl`: one line of strict JSON for each logged step.

Read in this order: `SCHEMA` says what a row holds, `LogWriter` appends rows, `read_log` streams them back. A run may be
killed at any byte, so the reader forgives a torn last line and nothing else. This file does not know what the numbers
mean: it keeps them exact, in a fixed order, and free of the `NaN` tokens that other JSON readers refuse.
"""

import contextlib
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np

try:
    import orjson
except ModuleNotFoundError:  # without the extra [fast]
    orjson = None  # type: ignore[assignment, unused-ignore]

SCHEMA_VERSION = 1

_CLASS_LOSS = "mean loss of the class's examples since the last row; null where it had none"

SCHEMA: dict[str, str] = {
    "schema": "1",
    "step": "optimiser steps finished",
    "tokens": "target positions counted since the run began",
    "train_loss": "nats per target position, mean over the positions since the last row",
    "val_loss": "nats per target position on the validation split, or null where not measured at this step",
    "ngram_loss": "the baseline on the same validation positions, or null",
    "uniform_loss": "ln of the number of classes to choose from, what a guess without knowledge costs, or null",
    "learning_rate": "rate used by this step",
    "grad_norm": "global L2 norm of this step's gradient before clipping",
    "grad_norm_max": "the largest `grad_norm` of the steps since the last row",
    "future_leak": "greatest change of a logit when only later tokens change, 0 where nothing leaks, "
    "or null where not measured",
    "regular_loss": _CLASS_LOSS,
    "irregular_loss": _CLASS_LOSS,
    "inspect": "null with inspection off, else the object below",
    "non_finite_place": "module, gradient or parameter where NaN or infinity was first seen when it ended the run, "
    "or null",
    "non_finite": 'present where a number above was not finite (it is null there): key to `"nan"`, `"inf"` or `"-inf"`',
    "elapsed_seconds": "since the run began, resumed parts included",
}
"""Key of a row to its meaning, in the order in which the keys are written. A test holds it to the BLUEPRINT's table."""

# Keys that the writer computes, so that no caller can contradict it.
_WRITTEN_BY_US = frozenset({"schema", "non_finite"})


class LogWriter:
    """Appends rows to a log, each complete on disk (flushed) when `write` returns; usable in `with`.

    An existing log is continued. Call `rewind` first when its last rows belong to steps that will be run again.

    Parameters
    ----------
    path : path of the log
        Its folder must exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._last_step: int | None = None
        self._torn = _ends_torn(self.path)
        self._file: BinaryIO = self.path.open("ab")

    def write(self, row: Mapping[str, object]) -> None:
        """Append one row; nothing is written if the row is refused.

        Parameters
        ----------
        row : mapping
            Keys of `SCHEMA`, and any whose name ends in `_seconds` or `_time`. `step` is required, other keys left out
            become null; `schema` and `non_finite` are added here. Values are JSON values, NumPy scalars and 0-d
            arrays. Numbers that are not finite become null, at any depth, and are named in `non_finite` by their
            dotted path.

        Raises
        ------
        ValueError
            If a key is unknown, `step` is missing, steps do not increase, or the log ends in a torn line.
        TypeError
            If a value is neither a JSON value nor a NumPy scalar.
        """
        unknown = [key for key in row if key not in SCHEMA and not key.endswith(("_seconds", "_time"))]
        if unknown:
            raise ValueError(
                f"log row: keys are those of SCHEMA or end in _seconds or _time; got {unknown[0]!r}. "
                "Rename it, or add it to SCHEMA and the BLUEPRINT."
            )
        ours = sorted(_WRITTEN_BY_US & row.keys())
        if ours:
            raise ValueError(f"log row: the writer sets {ours[0]!r} itself; got {row[ours[0]]!r}. Leave it out.")
        non_finite: dict[str, str] = {}
        plain = {str(key): _plain(value, str(key), non_finite) for key, value in row.items()}
        step = plain.get("step")
        if not isinstance(step, int) or isinstance(step, bool):
            raise ValueError(f"log row: `step` is an integer; got {step!r}. Pass the optimiser steps finished.")
        if self._last_step is not None and step <= self._last_step:
            raise ValueError(
                f"log row: steps increase; got step {step} after {self._last_step}. Call rewind() before resuming."
            )
        if self._torn:
            raise ValueError(
                f"{self.path}: rows follow a complete line; the log ends in one that a kill tore. Call rewind() first."
            )
        ordered: dict[str, object] = {}
        for key in SCHEMA:
            if key == "schema":
                ordered[key] = SCHEMA_VERSION
            elif key == "non_finite":
                if non_finite:
                    ordered[key] = non_finite
            else:
                ordered[key] = plain.pop(key, None)
        ordered.update(sorted(plain.items()))  # the clock's own keys
        line = json.dumps(ordered, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
        # One write call of a whole line: a kill tears at most the last line.
        self._file.write(line.encode("ascii") + b"\n")
        self._file.flush()
        self._last_step = step

    def rewind(self, step: int) -> int:
        """Number of rows moved away: those past `step`, so that a resumed run can write them again.

        The rows, and a torn last line, go to `<stem>.rewound.jsonl` beside the log before the log is cut: a kill
        between the two loses nothing.

        Parameters
        ----------
        step : int
            The last optimiser step whose row is kept.

        Raises
        ------
        ValueError
            As `read_log`.
        """
        self._file.close()
        kept_bytes, moved, last = 0, 0, None
        with self.path.open("rb") as log:
            for _, end, row in _parsed_lines(log, self.path):
                if row["step"] <= step and moved == 0:
                    kept_bytes, last = end, row["step"]
                else:
                    moved += 1
            log.seek(kept_bytes)
            tail = log.read()
        if tail:
            with self.path.with_name(f"{self.path.stem}.rewound.jsonl").open("ab") as side:
                side.write(tail if tail.endswith(b"\n") else tail + b"\n")
                side.flush()
                os.fsync(side.fileno())
            os.truncate(self.path, kept_bytes)
        torn = _ends_torn(self.path)
        self._file = self.path.open("ab")
        if torn:  # the last kept row lacks nothing but its line end
            self._file.write(b"\n")
            self._file.flush()
        self._torn = False
        self._last_step = last
        return moved

    def sync(self) -> None:
        """Return once the rows are on the disk: what is written afterwards is not there without them."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_log(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Rows of a log, one at a time, in the order in which they were written; memory holds one row.

    Parameters
    ----------
    path : path of the log

    Raises
    ------
    ValueError
        If a line before the last cannot be read, or a row has another schema, no step, one that does not increase, or
        values that the schema does not allow; the message has the line number. A last line that cannot be read
        was torn by a kill and is left out.
    FileNotFoundError
        If there is no such file.
    """
    with Path(path).open("rb") as log:
        for _, _, row in _parsed_lines(log, Path(path)):
            yield row


def read_until(path: str | os.PathLike[str], step: int) -> Iterator[dict[str, Any]]:
    """Rows of a log up to `step`, the last of which must be of that step: what a run resumed from there goes on from.

    The rows behind it are read too, since they may be damaged. Step 0 is before the first row and needs no log.

    Raises
    ------
    ValueError
        As `read_log`; or, at the end, if rows are missing.
    """
    last = 0
    for row in read_log(path) if Path(path).exists() else ():
        if row["step"] <= step:
            last = row["step"]
            yield row
    if last != step:
        raise ValueError(
            f"{path}: a log must reach the checkpoint, which is of step {step}; the rows after step {last} up to that "
            "one are missing. Put the whole log back, or delete checkpoint/state.safetensors to begin again with the "
            "run's configuration."
        )


def read_further(
    path: str | os.PathLike[str], *, lines: int = 0, offset: int = 0
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Rows of a log after the first `lines` lines, which end at byte `offset`: line number, end in bytes, and row.

    For a log that is still being written: what comes last is where to go on. Otherwise as `read_log`.
    """
    with Path(path).open("rb") as log:
        log.seek(offset)
        # The row before may have been read when its line end was still missing.
        if offset and log.read(1) != b"\n":
            log.seek(offset)
        yield from _parsed_lines(log, Path(path), lines + 1)


def _ends_torn(path: Path) -> bool:
    """Whether the file holds something and its last byte ends no line."""
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as log:
        log.seek(-1, os.SEEK_END)
        return log.read() != b"\n"


def _parsed_lines(log: BinaryIO, path: Path, first: int = 1) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Line number, offset of the line's end and row of each line from where `log` stands, which is line `first`.

    Stops before a torn last line.
    """
    end = log.tell()
    torn: tuple[int, str] | None = None
    before = -1
    for number, line in enumerate(log, start=first):
        if torn is not None:
            raise ValueError(
                f"{path}, line {torn[0]}: a log holds one JSON object a line, and only the last may be torn; "
                f"this one is followed by others and cannot be read ({torn[1]}). Mend or delete the line."
            )
        try:
            row = _decoded(line)
        except (ValueError, RecursionError) as error:  # RecursionError: nested deeper than any row
            torn = (number, str(error))
            continue
        end += len(line)
        schema = row.get("schema") if isinstance(row, dict) else None
        if schema != SCHEMA_VERSION:
            raise ValueError(
                f"{path}, line {number}: rows have schema {SCHEMA_VERSION}; got {schema!r}. "
                "Read this log with the version that wrote it."
            )
        _check_row(row, f"{path}, line {number}", before)
        before = row["step"]
        yield number, end, row


def _check_row(row: dict[str, Any], where: str, before: int) -> None:
    """Raise ValueError unless the row's values are of the kinds that the schema gives them, after step `before`."""
    step = row.get("step")
    if type(step) is not int or not 0 <= step <= _MOST_STEPS:
        raise ValueError(f"{where}: a row has an integer `step`; got {step!r}. Delete the line.")
    if step <= before:
        raise ValueError(f"{where}: steps increase from row to row; got {step} after {before}. Delete the line.")
    for key, value in row.items():
        if key in _NOT_NUMBERS or (key not in SCHEMA and not key.endswith("_seconds")):
            continue
        if not _is_null_or_number(value):
            raise ValueError(f"{where}: `{key}` is a number or null; got {str(value)[:40]!r}. Delete the line.")
    if not (row.get("non_finite_place") is None or isinstance(row["non_finite_place"], str)):
        raise ValueError(f"{where}: `non_finite_place` is text or null; it is not here. Delete the line.")
    flagged = row.get("non_finite", {})
    if not isinstance(flagged, dict) or not all(value in ("nan", "inf", "-inf") for value in flagged.values()):
        raise ValueError(
            f'{where}: `non_finite` is an object of "nan", "inf" and "-inf"; it is not here. Delete the line.'
        )
    inspect = row.get("inspect")
    if inspect is not None and not isinstance(inspect, dict):
        raise ValueError(f"{where}: `inspect` is an object or null; got {str(inspect)[:40]!r}. Delete the line.")
    for name, group in (inspect or {}).items():
        # Modules and gradients have an object of statistics each, everything else a number.
        fits = _are_numbers if name not in ("modules", "gradients") else _are_statistics
        if not fits(group):
            raise ValueError(f"{where}: `inspect.{name}` is an object of the schema; it is not here. Delete the line.")
    for name, value in ((inspect or {}).get("dead_fraction") or {}).items():
        if value is not None and not 0 <= value <= 1:
            raise ValueError(
                f"{where}: a fraction lies in [0, 1]; `inspect.dead_fraction` of {name!r} is {value!r}. "
                "Delete the line."
            )


def _are_numbers(group: object) -> bool:
    return isinstance(group, dict) and _null_or_numbers(group.values())


def _are_statistics(group: object) -> bool:
    if not isinstance(group, dict) or not all(isinstance(each, dict) for each in group.values()):
        return False
    return _null_or_numbers(chain.from_iterable(map(dict.values, group.values())))


def _null_or_numbers(values: Iterable[object]) -> bool:
    """`_is_null_or_number` of all of them, by built-in functions: rows of many layers hold thousands."""
    numbers = [value for value in values if value is not None]
    if not set(map(type, numbers)) <= {int, float}:
        return False
    return not numbers or (min(numbers) >= -_MOST and max(numbers) <= _MOST)  # type: ignore[type-var, operator]


_NOT_NUMBERS = frozenset({"schema", "step", "inspect", "non_finite", "non_finite_place"})


def _is_null_or_number(value: object) -> bool:
    # JSON may say 1e400, which is read as infinity, or an integer beyond any float: nothing that was measured.
    return value is None or (type(value) in (int, float) and -_MOST <= value <= _MOST)  # type: ignore[operator]


_MOST = sys.float_info.max
_MOST_STEPS = 2**53
"""As far as a float, and a page's script, counts without a gap."""


def _reject_constant(token: str) -> float:
    raise ValueError(f"{token} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)


def _decoded(line: bytes) -> Any:
    """The JSON value of a line; ValueError if it is none.

    Most of the time that a long log takes goes into this; orjson, where it is installed, needs a fifth of it. What it
    refuses (a lone surrogate, for instance, which JSON allows) the standard library decides.
    """
    if orjson is not None:
        with contextlib.suppress(ValueError):
            return orjson.loads(line)
    return _DECODER.decode(line.decode("utf-8"))


def _plain(value: object, path: str, non_finite: dict[str, str]) -> object:
    """`value` as what JSON knows; what is not finite becomes None and is entered in `non_finite` under `path`."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        non_finite[path] = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{path}.{key}", non_finite) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_plain(item, f"{path}.{index}", non_finite) for index, item in enumerate(value)]
    raise TypeError(
        f"log row: {path} holds JSON values or NumPy scalars; got {type(value).__name__}. "
        "Pass numbers, for instance array.tolist()."
    )
