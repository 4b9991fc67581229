"""A run folder as a place: who may write into it, and what a kill left of files that were being replaced.

`check_out` looks before the data are read, `claimed` makes the folder and holds it while a run lasts. What stands in it
is the business of `run.py`. Readers (dashboard, diagnosis) ask for nothing here.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["check_free", "check_out", "claimed", "dated_folder", "remove_leftovers", "require_writable", "writing_to"]

_LEFTOVER = re.compile(r"\.[0-9a-f]{16}\.tmp")
"""How `autograd_core.files.write_atomic` names the file that it has not yet put in its place."""


def check_out(out: Path) -> None:
    """Raise unless `out` is a new or an empty folder that can be written and that no run holds.

    Raises
    ------
    ValueError
        If it is in use, holds something, is no folder, or is to lie in what is none.
    OSError
        If it cannot be written.
    """
    with writing_to(out):
        _check_out(out)


def _check_out(out: Path) -> None:
    above = next((folder for folder in out.absolute().parents if folder.exists()), None)
    if above is not None and not above.is_dir():
        raise ValueError(
            f"the output folder must lie in a folder; {str(above)!r} above it is a file. Name another with --out."
        )
    if out.exists():
        if not out.is_dir():
            raise ValueError(f"the output must be a folder; {str(out)!r} is a file. Name another with --out.")
        check_free(out)
        _require_empty(out)
    nearest = out if out.exists() else above
    if nearest is not None:
        require_writable(nearest)


def _require_empty(out: Path) -> None:
    if set(out.iterdir()) - set(_leftovers(out)):
        raise ValueError(
            f"the output folder must be new or empty; {str(out)!r} is not. Name another with --out, "
            "or continue it with --resume."
        )


def require_writable(folder: Path) -> None:
    """Raise PermissionError unless files can be made in `folder`, which exists."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def check_free(folder: Path) -> None:
    """Raise ValueError if a run holds `folder`, which exists."""
    with _locked(folder):
        pass


@contextmanager
def writing_to(out: Path, *, resume: bool = False) -> Iterator[None]:
    """Say of an OSError which folder it is about and what to do."""
    name, advice = (
        ("run", "Allow it, or copy the run to where it can be.") if resume else ("output", "Name another with --out.")
    )
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            f"the {name} folder cannot be written: {reason}: {str(error.filename or out)!r}. {advice}"
        ) from error


@contextmanager
def dated_folder(parent: Path) -> Iterator[Path]:
    """A new folder in `parent` named after the time (UTC), with a number where runs begin in the same second.

    It is made at once, since what exists nobody else makes; if nothing is in it at the end, it is removed again.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    for number in itertools.count(1):
        folder = parent / (stamp if number == 1 else f"{stamp}-{number}")
        with writing_to(folder):
            try:
                made = _make(folder)
            except FileExistsError:
                continue
        break
    try:
        yield folder
    finally:
        _remove_empty(made)


@contextmanager
def claimed(out: Path, *, resume: bool = False) -> Iterator[Callable[[], None]]:
    """Hold the folder of a run while the context lasts: no other run writes into it.

    Yields a function to call before writing: FileNotFoundError if the folder was moved or removed meanwhile, also if
    another stands in its place, into which the run must not write.

    The lock is the kernel's, on the folder itself: it leaves no file behind, ends with the process however that ends,
    and readers do not ask for it. A new folder is made; if nothing is in it at the end, it is removed again.

    Parameters
    ----------
    out : Path
        New or empty; with `resume` the folder of a run.
    resume : bool

    Raises
    ------
    ValueError
        If another run holds the folder or, without `resume`, as `check_out`.
    OSError
        If it cannot be made.

    Notes
    -----
    On Windows, and on file systems that cannot lock a folder (NFS), only the making of a new one is exclusive.
    """
    made: list[Path] = []
    if not resume:
        check_out(out)
        with writing_to(out):
            try:
                made = [] if out.exists() else _make(out)
            except FileExistsError:  # it was not there a moment ago
                if out.is_symlink():
                    raise ValueError(
                        f"the output must be a folder; {str(out)!r} is a link to what is not there. "
                        "Name another with --out."
                    ) from None
                raise _in_use(out) from None
    with _locked(out) as require_here:
        try:
            if not resume:
                _require_empty(out)  # once more: now nobody else can fill it
            yield require_here
        finally:
            _remove_empty(made)


def remove_leftovers(out: Path) -> None:
    """Remove from a run folder what a kill left of files that were being replaced."""
    for folder in (out, out / "checkpoint"):
        for path in _leftovers(folder):
            path.unlink(missing_ok=True)


def _leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.glob(".*.tmp") if _LEFTOVER.fullmatch(path.name) and path.is_file()]


def _make(folder: Path) -> list[Path]:
    """Make a folder and those above it; return those that were not there, the lowest first.

    FileExistsError if it is there: of two that make it at once, one does.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True)
    except OSError:
        _remove_empty(missing[1:])  # what was made above a name that cannot be, or that another made
        raise
    return missing


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # it holds something
            folder.rmdir()


@contextmanager
def _locked(folder: Path) -> Iterator[Callable[[], None]]:
    own = os.stat(folder)

    def require_here() -> None:
        with contextlib.suppress(OSError):
            if os.path.samestat(own, os.stat(folder)):
                return
        raise FileNotFoundError(
            errno.ENOENT, "the folder of the run was moved or removed while it trained; the run ends here", str(folder)
        )

    if sys.platform == "win32":
        yield require_here
        return
    import fcntl  # POSIX alone has it

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(folder) from None
        except OSError:
            pass  # a file system that cannot
        yield require_here
    finally:
        os.close(descriptor)


def _in_use(folder: Path) -> ValueError:
    return ValueError(
        f"a run folder must be free; {str(folder)!r} is in use by another run. Wait until that ends, or name another "
        "with --out."
    )
