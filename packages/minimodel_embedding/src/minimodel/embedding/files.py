"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Put `data` into the file at `path`; return nothing. At every moment the file is the old one or the new one.

    Parameters
    ----------
    path : path
        The folder must exist; a file there is replaced.
    data : bytes
        The whole content.

    Raises
    ------
    OSError
        If the folder is missing, full or not writable; no temporary file is left then.

    Notes
    -----
    The bytes go into a temporary file in the same folder (a rename is only atomic within a file system) and are
    flushed to the disk; the file takes its name last.
    """
    target = Path(path)
    # A random name, created exclusively: two writers never share one. Not `tempfile`: its files are the owner's alone.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
