"""Tell glibc's allocator that arrays come and go.

A training step makes some megabytes of arrays and drops them. By default glibc fetches each array of 128 KiB and more
from the kernel and gives it back when freed, and gives back whatever is free at the end of its heap, so every step pays
for fresh pages: a third to a half of a small model's step, a fifth of a larger one's. Two settings of `mallopt(3)` end
that. What it costs: up to 256 MiB of freed memory stays with the process.
"""

from __future__ import annotations

import contextlib
import os
import sys

# Numbers of the settings in glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

_KEPT_AT_MOST = 256 << 20  # bytes free at the end of the heap before they are given back
_FROM_THE_HEAP = 32 << 20  # bytes; larger blocks are always the kernel's, and glibc accepts no more here


# Settings of these in the environment stand: each of them ends glibc's own adaptation of the two thresholds.
_USERS_OWN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_")


def reuse_freed_memory() -> None:
    """Set both thresholds, unless the user's environment sets one, or the C library has none (not glibc)."""
    environment = os.environ
    own = any(name in environment for name in _USERS_OWN) or "glibc.malloc" in environment.get("GLIBC_TUNABLES", "")
    if own or not sys.platform.startswith("linux"):
        return
    # Python may be built without ctypes, and a C library without mallopt: then all stays as it is.
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _FROM_THE_HEAP)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_MOST)
