"""From a configuration to a run folder: what is in it, what it depends on, and what is left when a run breaks off."""

import json
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from autograd_core.optim import WarmupCosine
from minimodel.transformer import MiniGPT
from minitrain import inspect
from minitrain import run as run_module
from minitrain.config import load_config
from minitrain.log import LogWriter, read_log
from minitrain.loop import TrainResult
from minitrain.run import Prepared, execute, load_run, prepare, recorded_threads
from minitrain.run_folder import check_out
from tiny_run import (
    FILES,
    ROWS,
    TINY,
    assert_equal_runs,
    files_in,
    log_without_clock,
    results_of,
    rows_of,
    tree,
    weights_of,
    write_text,
)


def prepared(*sets: str) -> Prepared:
    return prepare(load_config(None, (*TINY, *sets)))


def run(out: Path, *sets: str, **kwargs: Any) -> TrainResult:
    return execute(prepared(*sets), out, threads=1, **kwargs)


class Killed(BaseException):
    """What stands for a signal."""


def killed_at(step: int) -> Callable[[int, float], None]:
    def on_step(at: int, loss: float) -> None:
        if at == step:
            raise Killed

    return on_step


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished tiny run on the verbs; not to be written into."""
    out = tmp_path_factory.mktemp("finished") / "run"
    run(out)
    return out


# --------------------------------------------------------------------------- the folder


def test_a_run_leaves_these_files_and_no_others(finished: Path) -> None:
    assert files_in(finished) == FILES
    assert [row["step"] for row in read_log(finished / "inspector.log.jsonl")] == ROWS
    assert files_in(finished.parent) == {f"run/{name}" for name in FILES}


def test_the_configuration_in_the_folder_is_the_resolved_one(finished: Path) -> None:
    config = load_config(None, TINY)
    assert load_config(finished / "config.toml") == config
    assert "lr_max = 0.003" in (finished / "config.toml").read_text("utf-8")
    manifest = json.loads((finished / "manifest.json").read_text("utf-8"))
    assert manifest["config"] == json.loads(json.dumps(config.to_dict()))
    assert manifest["seed"] == 0
    assert recorded_threads(finished) == 1


def test_results_hold_what_the_last_row_says(finished: Path) -> None:
    results, rows = results_of(finished), rows_of(finished)
    validated = {row["step"]: row["val_loss"] for row in rows if row["val_loss"] is not None}
    assert list(validated) == [5, 10, 11]
    assert results["schema"] == 1
    assert results["finished"] is True
    assert results["steps"] == 11
    assert results["train_loss"] == rows[-1]["train_loss"]
    assert results["val_loss"] == validated[11]
    assert results["best_val_loss"] == min(validated.values())
    assert validated[results["best_step"]] == results["best_val_loss"]
    assert {row["ngram_loss"] for row in rows} == {results["ngram_loss"]}
    assert results["train_seconds"] == rows[-1]["elapsed_seconds"] > 0.0
    assert results["parameters"] == sum(p.size for p in prepared().model.parameters())
    assert {name: share["of"] for name, share in results["held_out_exact"].items()} == {"regular": 20, "irregular": 11}


def test_results_have_the_keys_that_the_blueprint_lists(finished: Path) -> None:
    blueprint = (Path(__file__).parents[1] / "BLUEPRINT.md").read_text("utf-8")
    match = re.search(r"`results\.json`, schema 1: `([a-z_ ]+)`", blueprint)
    assert match
    assert set(results_of(finished)) == {*match[1].split(), "held_out_exact", "train_seconds"}


def test_the_row_is_filled_in(finished: Path) -> None:
    row = rows_of(finished)[-1]
    assert row["tokens"] > rows_of(finished)[0]["tokens"] > 0
    assert all(np.isfinite(row[key]) for key in ("train_loss", "val_loss", "learning_rate", "grad_norm"))
    assert {"blocks.0.attn", "blocks.0.ffn", "ln_final", "MiniGPT"} <= row["inspect"]["modules"].keys()
    names = {name for name, _ in prepared().model.named_parameters()}
    assert row["inspect"]["gradients"].keys() == {f"{name}.grad" for name in names}
    assert all(entry["n"] > 0 for entry in row["inspect"]["gradients"].values())
    assert all(0.0 <= share <= 1.0 for share in row["inspect"]["dead_fraction"].values())
    assert len(row["inspect"]["dead_fraction"]) == 1
    losses = [(each["regular_loss"], each["irregular_loss"]) for each in rows_of(finished)]
    assert any(regular is not None for regular, _ in losses)
    assert any(irregular is not None for _, irregular in losses)


def test_the_weights_in_the_folder_are_those_of_the_last_step(tmp_path: Path) -> None:
    ready = prepared()
    execute(ready, tmp_path / "run", threads=1)
    config, model, tokenizer = load_run(tmp_path / "run")
    assert config == ready.config
    assert tokenizer == ready.data.tokenizer
    for name, value in ready.model.state_dict().items():
        assert model.state_dict()[name].tobytes() == value.tobytes()
    assert {parameter.dtype for parameter in model.parameters()} == {np.dtype("float32")}


def test_the_default_model_has_its_103680_parameters() -> None:
    model = prepare(load_config()).model
    assert sum(p.size for p in model.parameters()) == 103_680


def test_a_larger_alphabet_makes_a_larger_model(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.txt", 3000, "".join(map(chr, range(0x4E00, 0x4E00 + 83))))
    ready = prepared(f"data.source={path}")
    assert ready.model.config.vocab_size == ready.data.tokenizer.vocab_size == 87
    assert prepared().model.config.vocab_size == 64 > prepared().data.tokenizer.vocab_size


@pytest.mark.parametrize("steps", [1, 2])
def test_any_number_of_steps_is_a_run(tmp_path: Path, steps: int) -> None:
    result = execute(prepare(load_config(None, (*TINY[:5], f"train.steps={steps}"))), tmp_path / "run", threads=1)
    assert (result.outcome, result.progress.step) == ("finished", steps)
    assert files_in(tmp_path / "run") == FILES
    assert [row["step"] for row in rows_of(tmp_path / "run")] == [*{1, steps}]
    assert results_of(tmp_path / "run")["finished"] is True


def test_a_text_file_is_a_run_without_verbs(tmp_path: Path) -> None:
    path = write_text(tmp_path / "book.txt")
    run(tmp_path / "run", f"data.source={path}", "model.context_len=13")
    assert files_in(tmp_path / "run") == FILES
    assert all(row["regular_loss"] is row["irregular_loss"] is None for row in rows_of(tmp_path / "run"))
    assert "held_out_exact" not in results_of(tmp_path / "run")
    page = (tmp_path / "run" / "dashboard.html").read_text("utf-8")
    panel = page[page.index('<section class="panel" id="verbs"') :].split("</section>")[0]
    assert "not applicable" in panel.lower()
    manifest = (tmp_path / "run" / "manifest.json").read_text("utf-8")
    assert str(tmp_path) not in manifest


def test_on_the_verbs_panel_7_has_its_chart(finished: Path) -> None:
    page = (finished / "dashboard.html").read_text("utf-8")
    panel = page[page.index('<section class="panel" id="verbs"') :].split("</section>")[0]
    assert "not applicable" not in panel.lower()
    assert 'data-chart="verbs"' in panel


# --------------------------------------------------------------------------- what a run depends on


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, finished: Path) -> None:
    run(tmp_path / "again")
    assert_equal_runs(tmp_path / "again", finished)


def test_another_seed_gives_another_run(tmp_path: Path, finished: Path) -> None:
    run(tmp_path / "other", "train.seed=1")
    first, other = rows_of(finished)[0], rows_of(tmp_path / "other")[0]
    assert first["train_loss"] != other["train_loss"]
    assert first["tokens"] != other["tokens"]
    assert weights_of(finished) != weights_of(tmp_path / "other")


@pytest.mark.parametrize("settings", [(), ("model.dropout=0.2", "model.dtype=float64", "inspect.every=3")])
def test_the_inspector_changes_no_bit(tmp_path: Path, settings: tuple[str, ...]) -> None:
    run(tmp_path / "on", *settings)
    run(tmp_path / "off", *settings, "inspect.enabled=false")
    assert weights_of(tmp_path / "on") == weights_of(tmp_path / "off")
    assert log_without_clock(tmp_path / "on", "inspect") == log_without_clock(tmp_path / "off", "inspect")
    assert all(row["inspect"] is not None for row in rows_of(tmp_path / "on"))
    assert all(row["inspect"] is None for row in rows_of(tmp_path / "off"))


def test_every_setting_of_the_model_reaches_it() -> None:
    sets = {
        "d_model": "12",
        "n_heads": "3",
        "n_layers": "2",
        "d_ff": "13",
        "context_len": "59",
        "position": "learned",
        "causal": "false",
        "dropout": "0.25",
        "init_gain": "0.5",
        "dtype": "float64",
    }
    config = prepared(*(f"model.{key}={value}" for key, value in sets.items())).model.config
    assert {key: str(getattr(config, key)).lower() for key in sets} == sets


def test_the_seed_draws_the_weights() -> None:
    drawn = [prepared(f"train.seed={seed}").model.blocks[0].attn.W_q.value for seed in (0, 1, 0)]
    assert np.array_equal(drawn[0], drawn[2])
    assert not np.array_equal(drawn[0], drawn[1])


def test_the_schedule_is_that_of_the_configuration(tmp_path: Path) -> None:
    run(tmp_path / "run", "train.lr_max=0.02", "train.lr_min=0.01", "train.warmup_steps=3", "train.log_every=1")
    schedule = WarmupCosine(0.02, 0.01, 3, 11)
    assert [row["learning_rate"] for row in rows_of(tmp_path / "run")] == [schedule(step) for step in range(11)]


@pytest.mark.parametrize("setting", ["train.grad_clip=0.01", "train.weight_decay=0.9"])
def test_clipping_and_decay_change_the_weights_and_not_the_first_gradient(
    tmp_path: Path, finished: Path, setting: str
) -> None:
    run(tmp_path / "run", setting, "train.steps=2", "train.log_every=1")
    run(tmp_path / "plain", "train.steps=2", "train.log_every=1")
    row, plain = rows_of(tmp_path / "run")[0], rows_of(tmp_path / "plain")[0]
    assert row["grad_norm"] == plain["grad_norm"] > 0.02
    assert weights_of(tmp_path / "run") != weights_of(tmp_path / "plain")


def test_accumulated_batches_are_more_tokens_a_step(tmp_path: Path, finished: Path) -> None:
    run(tmp_path / "run", "train.accumulate=3")
    assert rows_of(tmp_path / "run")[-1]["tokens"] > 2.5 * rows_of(finished)[-1]["tokens"]


def test_the_rhythms_of_the_inspector_are_those_of_the_configuration(tmp_path: Path) -> None:
    run(tmp_path / "run", "inspect.every=3", "inspect.spectral_every=4", "train.log_every=1")
    rows = [row["inspect"] for row in rows_of(tmp_path / "run")]
    assert [entry["modules"]["ln_final"]["n"] > 0 for entry in rows] == [step % 3 == 0 for step in range(11)]
    assert [entry["spectral_norm"]["embedding.E"] is not None for entry in rows] == [
        step % 4 == 0 for step in range(11)
    ]


def test_a_run_leaves_no_hook_and_no_mark_on_shared_state(tmp_path: Path) -> None:
    shared = np.random.get_state()[1].tobytes()  # noqa: NPY002 - that it stays untouched is the point
    errors = np.geterr()
    ready = prepared()
    execute(ready, tmp_path / "run", threads=1)
    assert hooks_of(ready.model) == 0
    assert np.random.get_state()[1].tobytes() == shared  # noqa: NPY002
    assert np.geterr() == errors


def hooks_of(model: MiniGPT) -> int:
    return sum(len(target._hooks) for target in (*model.modules(), *model.parameters()))


# --------------------------------------------------------------------------- breaking off and resuming


@pytest.mark.parametrize(
    ("step", "rows", "saved"),
    [(1, [], None), (4, [1, 2], None), (7, ROWS[:5], 4), (8, ROWS[:5], 4), (11, ROWS[:7], 8)],
)
def test_what_a_killed_run_leaves_is_readable(tmp_path: Path, step: int, rows: list[int], saved: int | None) -> None:
    out = tmp_path / "run"
    ready = prepared()
    with pytest.raises(Killed):
        execute(ready, out, threads=1, on_step=killed_at(step))
    assert hooks_of(ready.model) == 0
    assert [row["step"] for row in read_log(out / "inspector.log.jsonl")] == rows
    assert load_config(out / "config.toml") == ready.config
    if saved is None:
        assert files_in(out) == {"config.toml", "manifest.json", "inspector.log.jsonl", "checkpoint/tokenizer.json"}
        return
    assert files_in(out) == FILES
    results = results_of(out)
    assert (results["finished"], results["steps"]) == (False, saved)
    assert results["train_loss"] == rows_of(out)[rows.index(saved)]["train_loss"]
    assert "held_out_exact" not in results
    assert load_run(out)[1].config == ready.model.config
    assert "</html>" in (out / "dashboard.html").read_text("utf-8")[-20:]


OTHERWISE = ("model.dropout=0.2", "train.accumulate=2", "model.dtype=float64", "inspect.every=2")


@pytest.mark.parametrize(
    ("step", "settings"), [(1, ()), (4, ()), (5, ()), (9, ()), (11, ()), (5, OTHERWISE), (11, OTHERWISE)]
)
def test_a_resumed_run_equals_one_that_never_stopped(
    tmp_path: Path, finished: Path, step: int, settings: tuple[str, ...]
) -> None:
    whole = finished
    if settings:
        whole = tmp_path / "whole"
        run(whole, *settings)
    with pytest.raises(Killed):
        run(tmp_path / "parts", *settings, on_step=killed_at(step))
    seen: list[int] = []
    run(tmp_path / "parts", *settings, on_step=lambda at, loss: seen.append(at), resume=True)
    assert_equal_runs(whole, tmp_path / "parts")
    # What the last checkpoint holds is not made again.
    assert seen == list(range((step - 1) // 4 * 4 + 1, 12))
    assert files_in(tmp_path / "parts") - {"inspector.log.rewound.jsonl"} == FILES


def test_time_goes_on_in_a_resumed_run(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run(tmp_path / "run", on_step=killed_at(9))
    before = results_of(tmp_path / "run")["train_seconds"]
    run(tmp_path / "run", resume=True)
    seconds = [row["elapsed_seconds"] for row in rows_of(tmp_path / "run")]
    assert seconds == sorted(seconds)
    assert results_of(tmp_path / "run")["train_seconds"] > before


@pytest.mark.parametrize("name", sorted(FILES - {"checkpoint/state.safetensors", "inspector.log.jsonl"}))
def test_resuming_a_finished_run_writes_what_is_missing(tmp_path: Path, finished: Path, name: str) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    (out / name).unlink()
    trained: list[int] = []
    result = run(out, on_step=lambda step, loss: trained.append(step), resume=True)
    assert (result.outcome, trained) == ("finished", [])
    assert files_in(out) == FILES
    assert (out / "inspector.log.jsonl").read_bytes() == (finished / "inspector.log.jsonl").read_bytes()
    assert weights_of(out) == weights_of(finished)
    assert results_of(out) == results_of(finished)


def test_a_checkpoint_that_cannot_be_used_is_refused_and_nothing_is_touched(tmp_path: Path, finished: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    (out / "checkpoint" / "state.safetensors").write_bytes(b"torn")
    (out / "manifest.json").unlink()  # refused before anything is written, also what is missing
    before = tree(out)
    ready = prepared()
    with pytest.raises(ValueError, match=r"^[^\n]*state\.safetensors: a checkpoint must be a whole safetensors file"):
        execute(ready, out, threads=1, resume=True)
    assert tree(out) == before
    assert hooks_of(ready.model) == 0


def test_a_run_of_another_configuration_is_not_continued(tmp_path: Path, finished: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    before = tree(out)
    for settings, named in (
        ("train.seed=5", r"train\.seed was 0 when it was written and is 5 in config\.toml\. Put it back"),
        ("train.weight_decay=0.0", r"train\.weight_decay was .* is 0\.0"),
        ("train.lr_max=0.03", r"train\.lr_max was .* is 0\.03"),
        ("model.d_ff=13", r"blocks\.0\.ffn\.W1"),
    ):
        with pytest.raises(ValueError, match=named):
            run(out, settings, resume=True)
        assert tree(out) == before


@pytest.mark.parametrize("fate", ["removed", "moved", "replaced"])
def test_a_run_whose_folder_went_away_writes_into_no_other(tmp_path: Path, fate: str) -> None:
    out, elsewhere = tmp_path / "run", tmp_path / "elsewhere"

    def meddle(step: int, _loss: float) -> None:
        if step == 2:
            if fate == "moved":
                out.rename(elsewhere)
            else:
                shutil.rmtree(out)
            if fate == "replaced":
                out.mkdir()
                (out / "config.toml").write_text("another run's", "utf-8")

    with pytest.raises(OSError, match="the folder of the run was moved or removed while it trained"):
        run(out, on_step=meddle)
    assert out.exists() == (fate == "replaced")
    if fate == "replaced":
        assert list(tree(out)) == ["config.toml"]
        assert (out / "config.toml").read_text("utf-8") == "another run's"


@pytest.mark.parametrize("place", [30, 390], ids=["training", "validation"])
def test_a_text_that_changed_at_equal_length_is_not_gone_on_with(tmp_path: Path, place: int) -> None:
    text = write_text(tmp_path / "book.txt")
    settings = (f"data.source={text}", "model.context_len=13")
    with pytest.raises(Killed):
        run(tmp_path / "run", *settings, on_step=killed_at(6))
    content = text.read_text("utf-8")
    others = [character for character in "abcd" if character != content[place]]
    text.write_text(content[:place] + others[0] + content[place + 1 :], "utf-8")
    before = tree(tmp_path)
    with pytest.raises(ValueError, match=r"data must be those of the run; got .*sha256 \w+ where .* as it was then"):
        run(tmp_path / "run", *settings, resume=True)
    assert tree(tmp_path) == before


def test_a_text_of_other_characters_is_not_gone_on_with(tmp_path: Path) -> None:
    text = write_text(tmp_path / "book.txt")
    settings = (f"data.source={text}", "model.context_len=13")
    with pytest.raises(Killed):
        run(tmp_path / "run", *settings, on_step=killed_at(3))  # before there is a checkpoint
    # Every id stays what it was.
    text.write_text(text.read_text("utf-8").replace("d", "e"), "utf-8")
    before = tree(tmp_path)
    with pytest.raises(ValueError, match=r"tokenizer\.json: a run must be resumed with .* the characters of '.*book"):
        run(tmp_path / "run", *settings, resume=True)
    assert tree(tmp_path) == before


def test_a_damaged_tokenizer_is_refused_and_a_missing_one_written_anew(tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    tokenizer = tmp_path / "run" / "checkpoint" / "tokenizer.json"
    tokenizer.write_text("{", "utf-8")
    before = tree(tmp_path)
    with pytest.raises(ValueError, match=r"tokenizer\.json: .* Delete the file: it is then written anew from"):
        run(tmp_path / "run", resume=True)
    assert tree(tmp_path) == before
    tokenizer.unlink()
    run(tmp_path / "run", resume=True)
    assert tokenizer.read_bytes() == (finished / "checkpoint" / "tokenizer.json").read_bytes()


@pytest.mark.parametrize(("kept", "last"), [(5, 6), (1, 1), (0, 0), (None, 0)])
def test_a_log_that_lost_rows_is_not_gone_on_with(tmp_path: Path, finished: Path, kept: int | None, last: int) -> None:
    shutil.copytree(finished, tmp_path / "run")
    log = tmp_path / "run" / "inspector.log.jsonl"
    if kept is None:
        log.unlink()
    else:
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:kept]))
    before = tree(tmp_path)
    with pytest.raises(ValueError, match=rf"of step 11; the rows after step {last} up to that one are missing"):
        run(tmp_path / "run", resume=True)
    assert tree(tmp_path) == before
    # What the message offers.
    (tmp_path / "run" / "checkpoint" / "state.safetensors").unlink()
    run(tmp_path / "run", resume=True)
    assert_equal_runs(tmp_path / "run", finished)


def test_the_rows_are_on_the_disk_before_their_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, save = LogWriter.sync, run_module.save_checkpoint
    monkeypatch.setattr(LogWriter, "sync", lambda self: (done.append("log"), sync(self)))
    monkeypatch.setattr(run_module, "save_checkpoint", lambda *args: (done.append("state"), save(*args)))
    run(tmp_path / "run")
    assert done == ["log", "state"] * 3


# --------------------------------------------------------------------------- numbers that are not finite


def test_what_a_model_of_far_too_large_weights_writes_brings_no_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(tmp_path / "run", "model.init_gain=1e6", "train.steps=1").outcome == "finished"


def test_a_run_that_meets_a_number_that_is_not_finite_leaves_a_whole_folder(tmp_path: Path) -> None:
    out = tmp_path / "run"
    sets = ("train.lr_max=1e30", "train.warmup_steps=0", "train.grad_clip=inf")
    result = run(out, *sets)
    assert result.outcome == "non-finite"
    assert re.fullmatch(r"step \d+: the first NaN or infinity was seen in \S+ at step \d+", result.reason)
    rows = rows_of(out)
    assert rows[-1]["step"] == result.progress.step + 1
    assert rows[-1]["train_loss"] is None
    assert rows[-1]["non_finite"]["train_loss"] in ("nan", "inf")
    results = results_of(out)
    assert (results["finished"], results["stopped"], results["train_loss"]) == (False, result.reason, None)
    assert files_in(out) == FILES - {"checkpoint/state.safetensors"}
    assert "NaN," not in (out / "results.json").read_text("utf-8")
    # Seen with the Inspector off, too.
    without = run(tmp_path / "off", *sets, "inspect.enabled=false")
    assert without.progress.step == result.progress.step
    assert "step" in without.reason


def test_a_last_update_that_breaks_the_model_is_not_a_finished_run(tmp_path: Path) -> None:
    result = run(tmp_path / "run", "train.lr_max=1e30", "train.steps=1", "train.warmup_steps=0", "train.log_every=1")
    assert result.reason == "step 1: the first NaN or infinity was seen in the validation loss"
    assert results_of(tmp_path / "run")["finished"] is False
    assert rows_of(tmp_path / "run")[0]["non_finite"] == {"val_loss": "nan"}


# --------------------------------------------------------------------------- refusals


def test_preparing_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepared()
    assert tree(tmp_path) == {}


def test_the_output_folder_must_be_new_or_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("the only copy")
    (tmp_path / "file").write_text("")
    check_out(tmp_path / "empty")
    check_out(tmp_path / "new" / "below")
    before = tree(tmp_path)
    for name, said in (
        ("full", r"must be new or empty; '.*full' is not\. Name another with --out, or continue it with --resume\."),
        ("file", r"must be a folder; '.*file' is a file\. Name another with --out\."),
        ("file/below", r"must lie in a folder; '.*file' above it is a file\. Name another with --out\."),
        ("file/far/below", r"must lie in a folder; '.*file' above it is a file\. Name another with --out\."),
    ):
        with pytest.raises(ValueError, match=said):
            check_out(tmp_path / name)
        with pytest.raises(ValueError, match=said):
            run(tmp_path / name)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("source", ["verbs", "text"])
@pytest.mark.parametrize("size", [10**11, 10**18, 10**30])
def test_a_batch_that_no_memory_holds_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, size: int
) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "text")
    with pytest.raises(ValueError, match=f"^train.batch_size: a step must fit into memory; {size} examples need "):
        prepared(f"data.source={source}", f"train.batch_size={size}", "data.val_fraction=0.3")


@pytest.mark.parametrize("missing", ["config.toml", "checkpoint/model.safetensors", "", "everything"])
def test_only_a_run_folder_can_be_loaded(tmp_path: Path, finished: Path, missing: str) -> None:
    out = tmp_path / "run"
    if missing == "":
        out.write_text("a file")
    elif missing != "everything":
        shutil.copytree(finished, out)
        (out / missing).unlink()
    with pytest.raises(
        ValueError, match=rf"must hold config\.toml and checkpoint/model\.safetensors; '{out}' does not"
    ):
        load_run(out)


DAMAGED_MANIFESTS = [
    *(None, "", "[]", "{}", '{"blas": 3}', "\xff"),
    *(f'{{"blas": {{"threads_asked": {threads}}}}}' for threads in ('"two"', "true", "0", f"{10**20}", "1e400", "NaN")),
    "[" * 100_000,
]


@pytest.mark.parametrize(
    "content", [None, "", "[]", "{}", '{"blas": 3}', '{"blas": {"threads_asked": "two"}}', "\xff", *DAMAGED_MANIFESTS]
)
def test_a_manifest_that_does_not_tell_the_threads_is_no_error(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "manifest.json").write_text(content, encoding="latin-1")
    assert recorded_threads(tmp_path) is None


def test_the_inspector_watches_only_while_the_run_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = prepared()
    hooked: list[int] = []
    execute(ready, tmp_path / "run", threads=1, on_step=lambda step, loss: hooked.append(hooks_of(ready.model)))
    watched = inspect.Inspector(ready.model, ready.model.parameters())
    assert set(hooked) == {len(watched.watch())}
    watched.remove_all()
