"""Tell glibc's allocator that arrays come and go.

A training step makes some megabytes of arrays and drops them. By default glibc fetches each array of 128 KiB and more
from the kernel and gives it back when freed, and gives back whatever is free at the end of its heap, so every step pays
for fresh pages: a third to a half of a small model's step, a fifth of a larger one's. Two settings of `mallopt(3)` end
that. What it costs: up to 256 MiB of freed memory stays with the process.
"""

from __future__ import annotations

import ctypes
import os
import sys

# Numbers of the settings in glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

_KEPT_AT_MOST = 256 << 20  # bytes free at the end of the heap before they are given back
_FROM_THE_HEAP = 32 << 20  # bytes; larger blocks are always the kernel's, and glibc accepts no more here


def reuse_freed_memory() -> None:
    """Set both thresholds, unless the user's environment sets one, or the C library has none (not glibc)."""
    environment = os.environ
    if (
        not sys.platform.startswith("linux")
        or "MALLOC_TRIM_THRESHOLD_" in environment
        or "MALLOC_MMAP_THRESHOLD_" in environment
        or "glibc.malloc" in environment.get("GLIBC_TUNABLES", "")
    ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _FROM_THE_HEAP)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_MOST)
