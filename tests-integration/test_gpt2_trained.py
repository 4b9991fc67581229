"""A small GPT-2 that others trained: sampled by the command and fine-tuned on text that it has not seen."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result
from minitrain import cli

ROOT = Path(__file__).resolve().parents[1]
TRAINED = ROOT / "packages" / "minimodel_transformer" / "tests" / "data" / "gpt2" / "trained"
META = json.loads((TRAINED / "meta.json").read_text(encoding="utf-8"))


def minitrain(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments], catch_exceptions=False)


def test_the_command_writes_what_its_trainer_saw() -> None:
    new = len(META["greedy_text"]) - len(META["prompt"])
    result = minitrain("sample", "--gpt2", TRAINED, "--prompt", META["prompt"], "--tokens", str(new))
    assert (result.exit_code, result.stdout) == (0, META["greedy_text"] + "\n")


def test_fine_tuning_begins_where_training_ended(tmp_path: Path) -> None:
    # The folder has the held-out tenth of its novel; the last tenth of that is held out here.
    sets = ["train.steps=30", "train.batch_size=4", "train.lr_max=1e-4", "train.val_every=10", "model.dropout=0.0"]
    options = [part for each in (f"data.source={TRAINED / 'held_out.txt'}", *sets) for part in ("--set", each)]
    result = minitrain("train", "--from-gpt2", TRAINED, "--out", tmp_path / "run", *options)
    assert result.exit_code == 0
    rows = [json.loads(line) for line in (tmp_path / "run" / "inspector.log.jsonl").read_text("utf-8").splitlines()]
    measured = [row for row in rows if row["val_loss"] is not None]
    assert measured[-1]["val_loss"] < measured[0]["val_loss"] < META["held_out_loss_nats_per_char"] + 0.2
    # Counting the same text is far behind.
    assert measured[0]["ngram_loss"] > measured[0]["val_loss"] + 0.3
    sampled = minitrain("sample", tmp_path / "run", "--prompt", META["prompt"], "--tokens", "20")
    assert sampled.stdout.startswith(META["prompt"])
    assert len(sampled.stdout) == len(META["prompt"]) + 21
