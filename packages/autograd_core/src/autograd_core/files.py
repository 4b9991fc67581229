"""Writing a file so that a reader finds the old one or the new one and never half of either."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

__all__ = ["require_replaceable", "write_atomic"]


def require_replaceable(target: str | os.PathLike[str]) -> None:
    """Raise OSError, naming it, if `target` is a device, a pipe or a socket: replacing would turn it into a file."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        kind = stat.S_IFMT(os.stat(target).st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFDIR):
            raise OSError(errno.EINVAL, "not a regular file, which alone can be replaced", os.fspath(target))


def write_atomic(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Replace the file at `path` by `data`, whole or not at all.

    The bytes go into a temporary file in the same folder (a rename is atomic within one file system only), are flushed
    to the disk, and the file is renamed over the target. On failure the target is as it was and nothing else is left.

    Parameters
    ----------
    path : path
        Target; its folder must exist. A symbolic link is replaced, not followed.
    data : bytes or str
        Text is written as UTF-8, its line ends untouched.

    Raises
    ------
    OSError
        If the folder is missing, not writable or full, or the target is a device or a pipe; its `filename` is the
        target.
    UnicodeEncodeError
        If text holds a lone surrogate; nothing has been touched then.

    Notes
    -----
    The folder itself is not flushed: after a power cut the old file may be the one found, whole.
    """
    target = Path(path)
    payload = data.encode("utf-8") if isinstance(data, str) else data
    require_replaceable(target)
    temporary = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        # "x" never opens somebody else's file, and the mode is the umask's, where tempfile would leave 0600.
        with temporary.open("xb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno is not None:
            # The temporary name tells nobody anything.
            raise OSError(error.errno, error.strerror, os.fspath(target)) from error
        raise
