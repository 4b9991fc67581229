"""Install the peers into the environment that runs this, each by itself: one that cannot be installed stops no other.

What an installation said when it failed is kept beside the environment and stands in the peer's row of the tables.
`--only torch,jax` installs some.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

# By the names of `run.py --only`. tinygrad's CPU device compiles with `clang`, which pip cannot install.
PEERS = {
    "torch": ["torch==2.13.0"],
    "jax": ["jax==0.10.2", "jaxlib==0.10.2"],
    "tinygrad": ["tinygrad==0.14.0"],
    "autograd": ["autograd==1.9.1"],
    "mygrad": ["mygrad==2.5.0"],
}
ERRORS = Path(sys.prefix) / "peers-not-installed.json"


def errors() -> dict[str, str]:
    """What failed installations said, by peer."""
    if not ERRORS.is_file():
        return {}
    found: dict[str, str] = json.loads(ERRORS.read_text(encoding="utf-8"))
    return found


def main() -> int:
    """0 if every peer that was asked for is installed."""
    parser = argparse.ArgumentParser(description="Install the peers of the benchmark into this environment.")
    parser.add_argument("--only", help=f"some of {','.join(PEERS)} (default: all)")
    chosen = (parser.parse_args().only or ",".join(PEERS)).split(",")
    if unknown := [name for name in chosen if name not in PEERS]:
        parser.error(f"a peer is one of {', '.join(PEERS)}; got {', '.join(unknown)}")
    failed = errors()
    for name in chosen:
        failed.pop(name, None)
        run = subprocess.run(
            [sys.executable, "-m", "pip", "install", *PEERS[name]], capture_output=True, text=True, check=False
        )
        if run.returncode:
            said = [line for line in (run.stdout + run.stderr).splitlines() if line.startswith("ERROR")]
            failed[name] = (said or [f"pip ended with status {run.returncode}"])[-1]
        print(f"{name:<9} {failed.get(name, 'installed')}", flush=True)
    ERRORS.write_text(json.dumps(failed), encoding="utf-8")
    return 1 if failed.keys() & set(chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
