"""The diagnosis of real, small runs: the folder, the command, exit statuses, and stopping at a finding."""

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from minitrain import cli
from minitrain.config import load_config
from minitrain.diagnosis import RULES, Watch, findings
from minitrain.log import read_log
from minitrain.run import execute, prepare
from safetensors.numpy import load_file, save_file
from tiny_run import FILES, assert_equal_runs, files_in, options, results_of, rows_of, write_text

FAULTS = {
    "healthy": (),
    "bad-init": ("model.init_gain=100",),
    "no-warmup": ("train.lr_max=0.05", "train.warmup_steps=0"),
    "broken-mask": ("model.causal=false",),
    "non-finite": ("faults.nan_step=7",),
}


def minitrain(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(cli.main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Result]]:
    """Each fault, and none, as a tiny run, with what the command said; not to be written into."""
    folder = tmp_path_factory.mktemp("faults")
    return {
        name: (folder / name, minitrain("train", "--out", folder / name, *options(*sets)))
        for name, sets in FAULTS.items()
    }


def copied(run: Path, to: Path) -> Path:
    shutil.copytree(run, to)
    return to


def codes(run: Path) -> list[str]:
    return [finding.code for finding in findings(run)]


def report(*arguments: str | Path) -> dict[str, Any]:
    result = minitrain("diagnose", "--json", *arguments)
    assert result.exit_code in (0, 1)

    def reject(token: str) -> None:
        raise AssertionError(f"{token} in JSON")

    parsed: dict[str, Any] = json.loads(result.stdout, parse_constant=reject)
    assert parsed["healthy"] == (result.exit_code == 0)
    return parsed


# --------------------------------------------------------------------------- what is found


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_named_first_and_a_healthy_run_is_healthy(
    trained: dict[str, tuple[Path, Result]], name: str
) -> None:
    run, _ = trained[name]
    assert codes(run)[:1] == ([] if name == "healthy" else [name])


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("hidden", ["deleted", "changed"])
def test_findings_do_not_depend_on_configuration_or_manifest(
    trained: dict[str, tuple[Path, Result]], name: str, hidden: str, tmp_path: Path
) -> None:
    run, _ = trained[name]
    before = [finding.to_json() for finding in findings(run)]
    run = copied(run, tmp_path / "run")
    if hidden == "deleted":
        for file in ("config.toml", "manifest.json", "results.json", "dashboard.html"):
            (run / file).unlink()
    else:
        text = (run / "config.toml").read_text("utf-8")
        for key, value in (("causal", "true"), ("init_gain", "1.0"), ("warmup_steps", "5"), ("nan_step", "0")):
            if name == "healthy":  # the faults of the others, so that a reader of the file would be misled
                value = {"causal": "false", "init_gain": "100.0", "warmup_steps": "0", "nan_step": "7"}[key]
            text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
            assert count == 1
        (run / "config.toml").write_text(text, "utf-8")
        (run / "manifest.json").write_text("{}", "utf-8")
    assert [finding.to_json() for finding in findings(run)] == before


def test_a_longer_healthy_run_is_healthy_at_every_row(tmp_path: Path) -> None:
    sets = ("train.steps=150", "train.batch_size=8", "model.d_model=16", "model.d_ff=32", "train.checkpoint_every=500")
    result = minitrain("train", "--out", tmp_path / "run", *options(*sets))
    assert result.exit_code == 0
    watch = Watch(RULES)
    rows = list(read_log(tmp_path / "run" / "inspector.log.jsonl"))
    assert len(rows) > 75
    assert [found for row in rows for found in watch.add(row)] == []
    assert findings(tmp_path / "run") == []


def test_a_run_with_validations_enough_is_called_healthy(tmp_path: Path) -> None:
    assert minitrain("train", "--out", tmp_path / "run", *options("train.val_every=2")).exit_code == 0
    assert minitrain("diagnose", tmp_path / "run").stdout == "healthy: no finding\n"
    assert minitrain("diagnose", tmp_path / "run", "--language", "es").stdout == "sano: ningún hallazgo\n"


def test_nan_names_step_and_first_bad_module(trained: dict[str, tuple[Path, Result]]) -> None:
    run, result = trained["non-finite"]
    (found,) = findings(run)
    # The weight that became NaN is in the feed-forward network, whose activation is the first module after it.
    assert (found.where, found.step) == ("blocks.0.ffn.act", 7)
    assert found.evidence["nan"] > 0
    assert math.isfinite(found.evidence["last_train_loss"])
    assert result.exit_code == 3
    assert "error: non-finite at step 7, blocks.0.ffn.act" in result.stderr


def test_a_run_that_its_rate_drove_to_infinity_blames_the_rate_first(tmp_path: Path) -> None:
    sets = ("train.lr_max=1e30", "train.lr_min=0", "train.warmup_steps=9", "train.log_every=1")
    result = minitrain("train", "--out", tmp_path / "run", *options(*sets))
    assert result.exit_code == 3
    found = findings(tmp_path / "run")
    assert found[0].code == "learning-rate-too-high"
    last = next(finding for finding in found if finding.code == "non-finite")
    assert last.where
    assert last.step == rows_of(tmp_path / "run")[-1]["step"]


SIZES = {"default": (), "deep": ("model.d_model=32", "model.d_ff=128", "model.n_layers=4")}


@pytest.fixture(scope="module")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("text") / "text.txt", 4_000)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("source", ["verbs", "text"])
@pytest.mark.parametrize("gain", [1.0, 0.3, 0.1, 0.01, 0.0, 100.0])
def test_a_start_is_judged_at_its_first_step_whatever_size_and_corpus(
    tmp_path: Path, text_file: Path, size: str, source: str, gain: float
) -> None:
    sets = ("train.steps=12", "train.log_every=1", "train.val_every=6", "train.batch_size=4", f"model.init_gain={gain}")
    data = (f"data.source={text_file if source == 'text' else 'verbs'}",)
    prepared = prepare(load_config(None, (*sets, *SIZES[size], *data)))
    result = execute(prepared, tmp_path / "run", threads=1, stop_on=[rule.code for rule in RULES])
    found = findings(tmp_path / "run")
    if gain == 1.0:
        assert (result.outcome, found) == ("finished", [])
        return
    assert result.reason == "step 1: the diagnosis found bad-init"
    assert found[0].code == "bad-init"
    assert ("too large" if gain > 1.0 else "too small") in found[0].cause.en
    assert ("larger" if gain < 1.0 else "smaller") in found[0].advice.en


# --------------------------------------------------------------------------- the probe of the folder


def without_recorded_probe(run: Path, to: Path) -> Path:
    """A copy whose log is that of somebody who did not probe while training."""
    copied(run, to)
    log = to / "inspector.log.jsonl"
    lines = [json.dumps({**row, "future_leak": None}) for row in rows_of(run)]
    log.write_text("\n".join(lines) + "\n", "utf-8")
    return to


def test_weights_are_probed_where_no_row_tells(trained: dict[str, tuple[Path, Result]], tmp_path: Path) -> None:
    broken = without_recorded_probe(trained["broken-mask"][0], tmp_path / "broken")
    whole = without_recorded_probe(trained["healthy"][0], tmp_path / "whole")
    (found,) = findings(broken)
    assert (found.code, found.step) == ("broken-mask", 11)
    assert found.evidence["future_leak"] > 0.0
    assert findings(whole) == []


def test_weights_that_are_nan_are_probed_without_a_word(
    trained: dict[str, tuple[Path, Result]], tmp_path: Path
) -> None:
    assert codes(without_recorded_probe(trained["non-finite"][0], tmp_path / "nan")) == ["non-finite"]


@pytest.mark.parametrize("said", ["true", "false", "nothing"])
@pytest.mark.parametrize("name", ["broken-mask", "healthy"])
def test_the_probe_of_weights_does_not_believe_the_configuration(
    trained: dict[str, tuple[Path, Result]], tmp_path: Path, name: str, said: str
) -> None:
    run = without_recorded_probe(trained[name][0], tmp_path / "run")
    before = [finding.to_json() for finding in findings(run)]
    assert [finding["code"] for finding in before] == (["broken-mask"] if name == "broken-mask" else [])
    config = run / "config.toml"
    if said == "nothing":
        for file in (config, run / "checkpoint" / "tokenizer.json"):
            file.unlink()
    else:
        text, count = re.subn(r"(?m)^causal = .*$", f"causal = {said}", config.read_text("utf-8"))
        assert count == 1
        config.write_text(text, "utf-8")
    assert [finding.to_json() for finding in findings(run)] == before


@pytest.mark.parametrize("there", ["nothing", "weights alone"])
def test_without_weights_that_know_their_model_a_mask_is_not_accused(
    trained: dict[str, tuple[Path, Result]], tmp_path: Path, there: str
) -> None:
    broken = without_recorded_probe(trained["broken-mask"][0], tmp_path / "broken")
    weights = broken / "checkpoint" / "model.safetensors"
    if there == "nothing":
        weights.unlink()
    else:
        save_file(load_file(weights), weights)
    assert findings(broken) == []


def test_damaged_weights_that_the_probe_needs_are_unusable_input(
    trained: dict[str, tuple[Path, Result]], tmp_path: Path
) -> None:
    broken = without_recorded_probe(trained["broken-mask"][0], tmp_path / "broken")
    (broken / "checkpoint" / "model.safetensors").write_bytes(b"\x00" * 100)
    result = minitrain("diagnose", broken, "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "model.safetensors" in result.stderr


# --------------------------------------------------------------------------- the command


@pytest.mark.parametrize("name", FAULTS)
def test_the_exit_status_says_whether_something_was_found(trained: dict[str, tuple[Path, Result]], name: str) -> None:
    run, _ = trained[name]
    before = files_in(run)
    result = minitrain("diagnose", run)
    assert result.exit_code == (0 if name == "healthy" else 1)
    assert result.stderr == ""
    assert files_in(run) == before
    if name == "healthy":
        # Three validations.
        assert result.stdout == "no finding; too few validations to judge overfitting (train.val_every)\n"
        spanish = minitrain("diagnose", run, "--language", "es").stdout
        assert spanish == "ningún hallazgo; demasiado pocas validaciones para juzgar el sobreajuste (train.val_every)\n"
    else:
        assert result.stdout.startswith(f"error: {name} at step ")
        assert all(word in result.stdout for word in ("healthy: ", "Likely cause: ", "Try: "))


def test_json_is_as_documented(trained: dict[str, tuple[Path, Result]]) -> None:
    assert report(trained["healthy"][0]) == {"healthy": True, "findings": []}
    said = report(trained["bad-init"][0])
    keys = ["code", "severity", "where", "step", "evidence", "healthy_range", "cause", "advice"]
    assert said["findings"]
    for finding in said["findings"]:
        assert list(finding) == keys
        assert finding["severity"] in ("error", "warning")
        assert isinstance(finding["step"], int)
        assert all(type(finding[key]) is str and finding[key] for key in ("code", "where", "cause", "advice"))
        assert all(type(number) in (int, float) for number in finding["evidence"].values())
        for name, bounds in finding["healthy_range"].items():
            assert name in finding["evidence"]
            assert len(bounds) == 2
    spanish = report(trained["bad-init"][0], "--language", "es")
    assert [finding["code"] for finding in spanish["findings"]] == [finding["code"] for finding in said["findings"]]
    assert spanish["findings"][0]["cause"] != said["findings"][0]["cause"]


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    def refuse(*arguments: str | Path) -> str:
        before = files_in(tmp_path)
        result = minitrain(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert files_in(tmp_path) == before
        (line,) = result.stderr.splitlines()
        return line

    return refuse


def test_what_cannot_be_diagnosed_is_refused_in_one_line(tmp_path: Path, refused: Callable[..., str]) -> None:
    run = tmp_path / "run"
    assert "a run folder must hold inspector.log.jsonl" in refused("diagnose", run, "--json")
    run.mkdir()
    log = run / "inspector.log.jsonl"
    log.write_bytes(b"")
    assert "a log must hold a row to be diagnosed" in refused("diagnose", run)
    log.write_bytes(b'{"schema":1,"step":1}\nnonsense\n{"schema":1,"step":3}\n')
    assert "line 2" in refused("diagnose", run, "--json")
    log.write_bytes(b'{"schema":99,"step":1}\n')
    assert "rows have schema 1; got 99" in refused("diagnose", run)


# --------------------------------------------------------------------------- while training


def test_training_prints_each_finding_once(trained: dict[str, tuple[Path, Result]]) -> None:
    assert "error" not in trained["healthy"][1].stderr
    for name in ("bad-init", "no-warmup", "broken-mask"):
        _, result = trained[name]
        assert result.exit_code == 0
        assert result.stderr.count(f"error: {name} at step 1, ") == 1


def test_stop_on_ends_the_run_there_with_whole_files_that_resume_to_the_same_bytes(
    trained: dict[str, tuple[Path, Result]], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    stop = ("--stop-on", "overfitting", "--stop-on", "broken-mask")
    result = minitrain("train", "--out", run, *stop, *options(*FAULTS["broken-mask"]))
    assert result.exit_code == 1
    assert "minitrain: step 1: the diagnosis found broken-mask" in result.stderr.splitlines()
    assert files_in(run) == FILES
    assert [row["step"] for row in rows_of(run)] == [1]
    results = results_of(run)
    assert (results["finished"], results["steps"]) == (False, 1)
    assert results["stopped"] == "step 1: the diagnosis found broken-mask"
    assert "</html>" in (run / "dashboard.html").read_text("utf-8")[-20:]
    assert minitrain("sample", run, "--prompt", "en:I go / es:").exit_code == 0
    # What the log shows already stops nothing again.
    result = minitrain("train", "--resume", run, *stop)
    assert result.exit_code == 0
    assert "error: broken-mask" not in result.stderr
    assert_equal_runs(run, trained["broken-mask"][0])


def test_stop_on_a_finding_that_does_not_come_changes_nothing(
    trained: dict[str, tuple[Path, Result]], tmp_path: Path
) -> None:
    result = minitrain("train", "--out", tmp_path / "run", "--stop-on", "bad-init", *options(*FAULTS["broken-mask"]))
    assert result.exit_code == 0
    assert_equal_runs(tmp_path / "run", trained["broken-mask"][0])


def test_a_run_that_ends_by_nan_has_status_3_whatever_it_should_stop_on(tmp_path: Path) -> None:
    sets = options(*FAULTS["non-finite"])
    assert minitrain("train", "--out", tmp_path / "run", "--stop-on", "non-finite", *sets).exit_code == 3


def test_a_code_that_there_is_not_is_refused_with_those_there_are(tmp_path: Path, refused: Callable[..., str]) -> None:
    line = refused("train", "--out", tmp_path / "run", "--stop-on", "bad_init", *options())
    assert line.startswith(
        "minitrain: --stop-on must be a code of the diagnosis; got 'bad_init'. The codes are bad-init, "
    )
    assert all(rule.code in line for rule in RULES)
