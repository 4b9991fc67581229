"""The allocator keeps what a step frees: the next step asks the kernel for no pages."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

# Twelve arrays of 8 MiB, written to and dropped, as a step does it: 24,576 pages a turn.
TURN = """
import resource, sys
import numpy as np
if sys.argv[1] == "core":
    import autograd_core
def turn():
    kept = [np.empty(8 << 20, np.uint8) for _ in range(12)]
    for array in kept:
        array.fill(1)
turn()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    turn()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(which: str, **settings: str) -> int:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_") and k != "GLIBC_TUNABLES"}
    done = subprocess.run(
        [sys.executable, "-c", TURN, which], env=environment | settings, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is one of glibc's allocator")
class TestFreedMemory:
    def test_is_used_again(self) -> None:
        assert page_faults("core") < page_faults("numpy alone") / 4

    def test_the_users_own_setting_stands(self) -> None:
        kept = page_faults("core")
        for settings in (
            {"MALLOC_TRIM_THRESHOLD_": "131072"},
            {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"},
        ):
            assert page_faults("core", **settings) > 4 * max(kept, 100), settings
