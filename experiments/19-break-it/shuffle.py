"""Practice: the three faults of the lab under neutral names, and a score for what you make of them.

    python experiments/19-break-it/shuffle.py                       # runs/19-break-it/practice/run-a, run-b, run-c
    python experiments/19-break-it/shuffle.py --answer run-a=broken-mask run-b=bad-init run-c=no-warmup

What would give a run away is not copied: configuration, manifest, weights, and what the probe of the mask said. Each
folder has a log, how far the run came, and a dashboard drawn from them, without a verdict. Which run is which follows
from the number in `practice.json`; without `--seed` it is drawn anew.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import numpy as np
from autograd_core.files import write_atomic
from cases import HERE, LAB
from minitrain.config import load_config
from minitrain.dashboard.follow import Follower
from minitrain.log import LogWriter, read_log
from minitrain.run import execute, prepare
from threadpoolctl import threadpool_limits

NAMES = ("run-a", "run-b", "run-c")
SMOKE = (
    "train.steps=12",
    "train.log_every=4",
    "train.val_every=6",
    "train.warmup_steps=0",
    "train.checkpoint_every=12",
)


def key(seed: int) -> dict[str, str]:
    """Return which run is which fault."""
    order = np.random.default_rng(seed).permutation(len(LAB))
    return {name: LAB[place] for name, place in zip(NAMES, order, strict=True)}


class Undiagnosed(Follower):
    """A page that keeps its findings to itself."""

    def found(self) -> None:
        """Return nothing: the reader is to find it."""


def neutral(source: Path, target: Path) -> None:
    """Copy of the run at `source` what may be seen into `target`, and draw it."""
    target.mkdir(parents=True)
    with LogWriter(target / "inspector.log.jsonl") as log:
        for row in read_log(source / "inspector.log.jsonl"):
            log.write(
                {name: value for name, value in row.items() if name not in ("schema", "non_finite", "future_leak")}
            )
    results = json.loads((source / "results.json").read_text("utf-8"))
    shown = {name: results[name] for name in ("schema", "finished", "steps", "stopped") if name in results}
    write_atomic(target / "results.json", json.dumps(shown) + "\n")
    Undiagnosed(target).write()


def practise(out: Path, seed: int, sets: tuple[str, ...]) -> None:
    """Train the three faults where they are not yet, and lay them out in `out` in the order of `seed`."""
    hidden = out / ".trained"
    for fault in LAB:
        if not (hidden / fault / "results.json").is_file():
            print(f"training {LAB.index(fault) + 1} of {len(LAB)}")
            shutil.rmtree(hidden / fault, ignore_errors=True)
            with threadpool_limits(1):
                execute(prepare(load_config(HERE / f"{fault}.toml", sets)), hidden / fault, threads=1)
    for name, fault in key(seed).items():
        shutil.rmtree(out / name, ignore_errors=True)
        neutral(hidden / fault, out / name)
        print((out / name / "dashboard.html").resolve().as_uri())
    write_atomic(out / "practice.json", json.dumps({"seed": seed}) + "\n")
    print(f"Which is which? One of {', '.join(LAB)} each; answer with --answer {NAMES[0]}=… {NAMES[1]}=… {NAMES[2]}=…")


def score(out: Path, answers: list[str]) -> int:
    """Print what is right; return the exit status, 0 if everything is."""
    try:
        right = key(json.loads((out / "practice.json").read_text("utf-8"))["seed"])
    except OSError:
        sys.exit(f"there is no practice in {out}; run this script without --answer first")
    given = dict(answer.partition("=")[::2] for answer in answers)
    unknown = (given.keys() - right.keys()) | (set(given.values()) - set(LAB))
    if unknown:
        sys.exit(f"an answer is one of {', '.join(NAMES)}, =, one of {', '.join(LAB)}; got {sorted(unknown)[0]!r}")
    for name, fault in given.items():
        print(f"{name}: {fault} is {'right' if right[name] == fault else 'wrong'}")
    correct = sum(right[name] == fault for name, fault in given.items())
    print(f"{correct} of {len(right)} right")
    return 0 if correct == len(right) else 1


def main() -> None:
    """Lay out a practice, or score one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/19-break-it/practice"), help="default: %(default)s")
    parser.add_argument("--answer", nargs="+", metavar="RUN=FAULT", help="score these answers")
    parser.add_argument("--seed", type=int, help="order of the runs; default: another each time")
    parser.add_argument("--smoke", action="store_true", help="short runs, to see that it works")
    arguments = parser.parse_args()
    if arguments.answer:
        sys.exit(score(arguments.out, arguments.answer))
    seed = arguments.seed if arguments.seed is not None else int(np.random.default_rng().integers(2**31))
    practise(arguments.out, seed, SMOKE if arguments.smoke else ())


if __name__ == "__main__":
    main()
