"""The table: every case of `cases.py` trained and diagnosed, a row each, resumable.

    nice python experiments/19-break-it/table.py --record

A run takes seconds and stays in `--out`; a row is written as it ends, so the script may be stopped at any time and goes
on where it was. Logs that are there are diagnosed again: a changed threshold needs no training. `--record` writes
`table.csv` and `manifest.json` beside this file as well. `--smoke` makes two short runs, to see that it works.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograd_core.files import write_atomic
from cases import BETWEEN, HARM_NATS, HERE, SIZES, TUNED_ON, Case, all_cases
from minitrain.diagnosis import RULES, Watch, findings
from minitrain.log import read_log
from minitrain.manifest import build_manifest, write_manifest
from minitrain.run import execute, prepare
from threadpoolctl import threadpool_limits

COLUMNS = ("kind", "name", "size", "seed", "steps", "val_loss", "without", "harm", "expected", "found", "seen", "right")

SMOKE = (
    "train.steps=12",
    "train.log_every=4",
    "train.val_every=6",
    "train.warmup_steps=2",
    "train.checkpoint_every=12",
)


def train(case: Case, out: Path, sets: tuple[str, ...]) -> None:
    """Train `case` into `out`, unless that was finished before."""
    results = out / "results.json"
    if results.is_file():
        done = json.loads(results.read_text("utf-8"))
        if done["finished"] or "stopped" in done:
            return
        shutil.rmtree(out)  # broken off: it takes seconds
    elif out.exists():
        shutil.rmtree(out)
    execute(prepare(case.config(*sets)), out, threads=1)


def row(case: Case, out: Path, losses: dict[str, float | None]) -> dict[str, Any]:
    """Return the case's row: what it cost, what was found at its end and what while it ran."""
    results = json.loads((out / "results.json").read_text("utf-8"))
    rows = list(read_log(out / "inspector.log.jsonl"))
    watch = Watch(RULES)
    seen = [f"{finding.code}@{each['step']}" for each in rows for finding in watch.add(each)]
    found = [finding.code for finding in findings(out, rules=RULES)]
    losses[case.slug] = loss = results["val_loss"]
    without = losses.get(case.without.slug) if case.kind in ("fault", *BETWEEN) else None
    harm: bool | None = None
    if case.kind in ("fault", *BETWEEN):
        leaks = any(each["future_leak"] for each in rows)
        harm = leaks or "stopped" in results or (None not in (loss, without) and loss > without + HARM_NATS)
    # Healthy is healthy at every step; of a fault the first finding counts. The other kinds are measured, not judged.
    right = {"fault": found[:1] == [case.expected], "healthy": not (found or seen)}.get(case.kind)
    values = (case.kind, case.name, case.size, case.seed, results["steps"], loss, without, harm, case.expected)
    return dict(zip(COLUMNS, (*values, " ".join(found), " ".join(seen), right), strict=True))


def report(rows: list[dict[str, Any]]) -> str:
    """Return counts: right of those that count, for all seeds and for those nothing was tuned on; and `between`."""
    lines = []
    for title, chosen in (("seeds tuned on", TUNED_ON), ("the others", None)):
        here = [each for each in rows if (each["seed"] in TUNED_ON) == (chosen is not None)]
        faults = [each for each in here if each["kind"] == "fault" and each["harm"]]
        healthy = [each for each in here if each["kind"] == "healthy"]
        named, flagged = sum(each["right"] for each in faults), sum(not each["right"] for each in healthy)
        lines.append(
            f"{title}: {named} of {len(faults)} faults named first, {flagged} of {len(healthy)} healthy flagged"
        )

    def words(each: dict[str, Any]) -> str:
        return f"{each['name']} {each['size']} {each['seed']}: {each['found'] or 'nothing found'}"

    harmless = [words(each) for each in rows if each["kind"] == "fault" and not each["harm"]]
    wrong = [words(each) for each in rows if each["right"] is False]
    warm = [words(each) for each in rows if each["kind"] == "reference" and each["found"]]
    lines += [f"did no harm, not counted: {harmless or 'none'}", f"not right: {wrong or 'none'}"]
    return "\n".join([*lines, f"found in runs to compare with: {warm or 'nothing'}", *between(rows)])


def between(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what each value between healthy and broken costs, and how often it is named."""
    for kind, (key, values, code) in BETWEEN.items():
        for size, value in itertools.product(SIZES, values):
            here = [each for each in rows if (each["kind"], each["name"], each["size"]) == (kind, value, size)]
            if here:
                costs = [each["val_loss"] - each["without"] for each in here]
                named = sum(each["found"].partition(" ")[0] == code for each in here)
                cost = f"{min(costs):.2f} to {max(costs):.2f} nats"
                yield f"{key} {value}, {size}: {cost}; named in {named} of {len(here)}"


def main() -> None:
    """Run what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/19-break-it"), help="default: runs/19-break-it")
    parser.add_argument("--seeds", type=int, nargs="+", help="only these seeds")
    parser.add_argument("--record", action="store_true", help="write table.csv and manifest.json beside this file")
    parser.add_argument("--smoke", action="store_true", help="two short runs, to see that it works")
    arguments = parser.parse_args()
    cases = [case for case in all_cases() if arguments.seeds is None or case.seed in arguments.seeds]
    if arguments.smoke:
        cases = [Case("healthy", "plain", "deep", 0), Case("fault", "bad-init", "deep", 0)]
    sets = SMOKE if arguments.smoke else ()
    places = [arguments.out, *([HERE] if arguments.record else [])]
    rows: list[dict[str, Any]] = []
    losses: dict[str, float | None] = {}
    with threadpool_limits(1):
        for case in cases:
            folder = arguments.out / "runs" / case.slug
            train(case, folder, sets)
            rows.append(row(case, folder, losses))
            print(*rows[-1].values(), sep="  ", flush=True)
            text = io.StringIO()
            writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            for place in places:
                write_atomic(place / "table.csv", text.getvalue())
        manifest = build_manifest(cases[0].config(*sets), threads=1)
    for place in places:
        write_manifest(place / "manifest.json", {**manifest, "cases": len(cases)})
    print(report(rows))


if __name__ == "__main__":
    main()
