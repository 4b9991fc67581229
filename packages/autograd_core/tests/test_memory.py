"""Freed arrays are used again instead of being returned to the kernel and fetched anew."""

import platform
import subprocess
import sys

import pytest

resource = pytest.importorskip("resource", reason="page faults are counted on Unix")

COUNT = """
import resource
import numpy as np
import {module}

def step():
    kept = [np.ones(1 << 17) for _ in range(20)]  # 20 arrays of 1 MiB, freed together as after a backward

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(3):
    step()
before = faults()
for _ in range(10):
    step()
print((faults() - before) / 10)
"""


def page_faults_a_step(module: str) -> float:
    program = COUNT.format(module=module)
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators ignore it")
def test_importing_the_package_ends_the_page_faults_of_steps_that_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)
    without, with_package = page_faults_a_step("math"), page_faults_a_step("autograd_core")
    assert with_package < 256  # fewer than the pages of a single array
    assert with_package < 0.1 * without or without < 256  # a system may do so by itself
