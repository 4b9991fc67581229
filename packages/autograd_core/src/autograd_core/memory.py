"""Tell glibc's allocator that arrays come and go.

A training step makes a few megabytes of arrays and drops them. By default glibc fetches each array of 128 KiB and more
from the kernel and gives it back when freed, so every step pays for fresh pages: a third to a half of a small model's
step. Its threshold adapts: freeing a large block once raises it to that block's size, for this process, and from then
on freed memory is reused. So one block just below the adaptation's limit (32 MiB) is taken and freed. It is never
written to, so it costs no memory and a few microseconds; other allocators ignore it. What it costs: up to 64 MiB of
freed memory stays with the process.
"""

from __future__ import annotations

import numpy as np

# malloc's DEFAULT_MMAP_THRESHOLD_MAX on 64-bit systems is 32 MiB; its header must fit below.
_JUST_BELOW = (32 << 20) - (1 << 16)


def reuse_freed_memory() -> None:
    """Take and free one large block, after which glibc reuses freed arrays instead of returning them to the kernel."""
    block = np.empty(_JUST_BELOW, np.uint8)
    del block
