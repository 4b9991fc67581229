"""Every check of the repository in its own hatch environment, all of them even when one fails, then one summary.

`hatch run test` calls it; `hatch run test lint types` runs only those named. The exit status is 1 if any check failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

# In the order that tells soonest what is wrong: a package before those that import it.
CHECKS = {
    "lint": "lint:check",
    "types": "types:check",
    "autograd_core": "autograd_core:test",
    "minimodel_embedding": "minimodel_embedding:test",
    "minimodel_transformer": "minimodel_transformer:test",
    "minitrain_inspect": "minitrain_inspect:test",
    "integration": "integration:test",
}


def main() -> int:
    """0 if every chosen check passed, else 1."""
    parser = argparse.ArgumentParser(description="Run the checks of the repository, each in its own environment.")
    parser.add_argument(
        "checks", nargs="*", metavar="CHECK", help=f"one or more of: {', '.join(CHECKS)} (default: all)"
    )
    chosen = parser.parse_args().checks or list(CHECKS)
    if unknown := [name for name in chosen if name not in CHECKS]:
        parser.error(f"a check is one of {', '.join(CHECKS)}; got {', '.join(unknown)}")

    results: list[tuple[str, int, float]] = []
    for name in chosen:
        print(f"\n=== {name}: hatch run {CHECKS[name]}", flush=True)
        started = time.monotonic()
        status = subprocess.run(["hatch", "run", CHECKS[name]], check=False).returncode
        results.append((name, status, time.monotonic() - started))

    print("\n=== summary")
    for name, status, seconds in results:
        verdict = "ok" if status == 0 else f"FAILED with exit status {status}"
        print(f"{name:<22} {seconds:6.1f} s  {verdict}")
    failed = sum(status != 0 for _, status, _ in results)
    print(f"checks: {len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
