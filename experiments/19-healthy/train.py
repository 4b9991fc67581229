"""The healthy run: train the default model on the verb corpus, once a seed, and write what came of it.

    python experiments/19-healthy/train.py --seeds 0 1 2

trains into `runs/19-healthy/seed-N`, each with its dashboard, and writes `results.csv` and `manifest.json` there.
`--record` writes those two beside this file as well. The Inspector is switched by one flag in `config.toml`,
`inspect.enabled`; the loss by verb class is in the log and in panel 7 because the data name their verbs: nothing is
wired here. `--smoke` makes a short run, to see that it works.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from autograd_core.files import write_atomic
from minitrain.config import load_config
from minitrain.manifest import build_manifest, write_manifest
from minitrain.run import execute, prepare
from minitrain.run_folder import check_out
from threadpoolctl import threadpool_limits
from tqdm import tqdm

HERE = Path(__file__).resolve().parent

# A short run of everything: too short to learn.
SMOKE = ("train.steps=12", "train.log_every=4", "train.val_every=6", "model.d_model=16", "model.d_ff=32")

COLUMNS = ("seed", "steps", "val_loss", "best_val_loss", "best_step", "ngram_loss", "regular", "irregular")


def train_seed(seed: int, out: Path, sets: tuple[str, ...]) -> dict[str, object]:
    """Train one seed into `out`; return its row of the table."""
    config = load_config(HERE / "config.toml", (*sets, f"train.seed={seed}"))
    prepared = prepare(config)
    with tqdm(total=config.train.steps, unit="step", desc=f"seed {seed}", dynamic_ncols=True) as bar:
        execute(prepared, out, threads=1, on_step=lambda step, loss: bar.update(step - bar.n))
    results = json.loads((out / "results.json").read_text("utf-8"))
    exact = results["held_out_exact"]
    shares = {name: f"{exact[name]['exact']}/{exact[name]['of']}" for name in ("regular", "irregular")}
    return {"seed": seed, **{name: results[name] for name in COLUMNS[1:6]}, **shares}


def main() -> None:
    """Train the seeds asked for and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="default: 0")
    parser.add_argument("--out", type=Path, help="default: runs/19-healthy, or runs/19-healthy-smoke")
    parser.add_argument("--record", action="store_true", help="write results.csv and manifest.json beside this file")
    parser.add_argument("--smoke", action="store_true", help="a short run, to see that it works")
    arguments = parser.parse_args()
    sets = SMOKE if arguments.smoke else ()
    if arguments.smoke and arguments.record:
        parser.error("--record is for real runs; leave out --smoke")
    out = arguments.out or Path("runs/19-healthy-smoke" if arguments.smoke else "runs/19-healthy")
    folders = [out / f"seed-{seed}" for seed in arguments.seeds]
    for folder in folders:
        try:
            check_out(folder)
        except ValueError as refusal:
            parser.error(str(refusal).replace("--resume", "minitrain train --resume"))

    rows = []
    with threadpool_limits(1):
        for seed, folder in zip(arguments.seeds, folders, strict=True):
            rows.append(train_seed(seed, folder, sets))
            print(rows[-1])
        manifest = build_manifest(load_config(HERE / "config.toml", sets), seed=arguments.seeds[0], threads=1)
    for folder in [out, *([HERE] if arguments.record else [])]:
        lines = [",".join(COLUMNS), *(",".join(str(row[name]) for name in COLUMNS) for row in rows)]
        write_atomic(folder / "results.csv", "\n".join(lines) + "\n")
        write_manifest(folder / "manifest.json", {**manifest, "seeds": arguments.seeds})
    print(f"dashboard: {(folders[-1] / 'dashboard.html').resolve().as_uri()}")


if __name__ == "__main__":
    main()
