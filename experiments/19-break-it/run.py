"""One fault: train it, print what the diagnosis says and where the dashboard is.

    python experiments/19-break-it/run.py bad-init

The name is that of a TOML file beside this script, `healthy` among them. The run goes to `runs/19-break-it/demo/NAME`;
one that is there is diagnosed again without training. `--stop` ends the run at the first finding.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from cases import EXPECTED, HERE
from minitrain.config import load_config
from minitrain.diagnosis import Finding, all_rules, findings
from minitrain.run import execute, prepare
from threadpoolctl import threadpool_limits
from tqdm import tqdm

# A short run of everything: too short to learn.
SMOKE = (
    "train.steps=12",
    "train.log_every=4",
    "train.val_every=6",
    "train.warmup_steps=0",
    "train.checkpoint_every=12",
)


def train(name: str, out: Path, sets: tuple[str, ...], stop_on: tuple[str, ...]) -> None:
    """Train the fault `name` into `out`, saying each finding as it appears."""
    config = load_config(HERE / f"{name}.toml", sets)
    with threadpool_limits(1), tqdm(total=config.train.steps, unit="step", desc=name, dynamic_ncols=True) as bar:

        def show(finding: Finding) -> None:
            tqdm.write(f"step {bar.n}: {finding.code} ({finding.where})")

        prepared = prepare(config)
        result = execute(
            prepared,
            out,
            threads=1,
            on_step=lambda step, loss: bar.update(step - bar.n),
            on_finding=show,
            stop_on=stop_on,
        )
    print(f"{result.outcome} after {result.progress.step} steps {result.reason}")


def main() -> None:
    """Train if need be, and diagnose."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="bad-init", choices=("healthy", *EXPECTED), help="default: bad-init")
    parser.add_argument("--out", type=Path, help="default: runs/19-break-it/demo/NAME")
    parser.add_argument("--language", choices=("en", "es"), default="en")
    parser.add_argument(
        "--set", dest="sets", action="append", default=[], metavar="KEY=VALUE", help="as minitrain train"
    )
    parser.add_argument("--stop", action="store_true", help="end at the first finding")
    parser.add_argument("--smoke", action="store_true", help="a short run, to see that it works")
    arguments = parser.parse_args()
    out = arguments.out or Path("runs/19-break-it/demo") / arguments.name
    if not (out / "results.json").is_file():
        sets = (*(SMOKE if arguments.smoke else ()), *arguments.sets)
        train(arguments.name, out, sets, tuple(rule.code for rule in all_rules()) if arguments.stop else ())
    found = findings(out)
    print("\n\n".join(finding.describe(arguments.language) for finding in found) or "healthy: no finding")
    expected = EXPECTED.get(arguments.name, "healthy")
    print(f"\nexpected first: {expected}; found first: {found[0].code if found else 'healthy'}")
    print(f"dashboard: {(out / 'dashboard.html').resolve().as_uri()}")


if __name__ == "__main__":
    main()
