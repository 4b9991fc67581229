"""The command: what it refuses in one line, what it prints, and how runs end that a signal or a kill cuts off.

Where a process has to die, a real one does, with a trap at an exact place (`command_line.py`).
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from command_line import minitrain, minitrain_with_trap, posix, refusal
from minitrain import cli, run
from minitrain.config import RunConfig, load_config
from minitrain.log import read_log
from minitrain.run import execute, load_run, prepare, recorded_threads
from tiny_run import (
    FILES,
    ROWS,
    TINY,
    assert_equal_runs,
    files_in,
    options,
    results_of,
    rows_of,
    tree,
    write_text,
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder: what is written without being asked for would show there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished tiny run on the verbs; not to be written into."""
    out = tmp_path_factory.mktemp("finished") / "run"
    result = minitrain("train", "--out", out, *options())
    assert result.exit_code == 0
    return out


@pytest.fixture(scope="module")
def finished_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished tiny run on a text file; not to be written into."""
    folder = tmp_path_factory.mktemp("text")
    source = write_text(folder / "book.txt")
    result = minitrain(
        "train", "--out", folder / "run", *options(f"data.source={source}", "model.context_len=13", "train.steps=2")
    )
    assert result.exit_code == 0
    return folder / "run"


# --------------------------------------------------------------------------- training


def test_train_prints_progress_as_lines_and_where_the_dashboard_is(here: Path) -> None:
    result = minitrain("train", "--out", "runs/first", *options())
    assert result.exit_code == 0
    start, *progress = result.stderr.splitlines()
    assert start == "training a GPT of 1,011 parameters on verb forms, steps 1 to 11, into runs/first"
    assert [
        re.match(r"step (\d+)/11  train \d\.\d{3}  validation \d\.\d{3}  n-gram 0\.822 nats  \d+ s$", line)[1]  # type: ignore[index]
        for line in progress
    ] == ["5", "10", "11"]
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"validation \d\.\d{3} nats, n-gram 0\.822", lines[0])
    assert lines[1:3] == [
        "held-out regular forms completed exactly: 0 of 20",
        "held-out irregular forms completed exactly: 0 of 11",
    ]
    assert lines[3:] == [f"dashboard: {(here / 'runs/first/dashboard.html').as_uri()}"]
    assert files_in(here) == {f"runs/first/{name}" for name in FILES}


def test_without_out_a_run_gets_a_folder_of_its_own(here: Path) -> None:
    result = minitrain("train", *options("train.steps=1"))
    assert result.exit_code == 0
    (folder,) = (here / "runs").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}", folder.name)
    assert files_in(folder) == FILES


def test_settings_come_from_the_file_and_then_from_the_command_line(here: Path) -> None:
    (here / "tiny.toml").write_text(load_config(None, (*TINY, "train.steps=3")).to_toml(), encoding="utf-8")
    result = minitrain(
        "train", "--config", "tiny.toml", "--out", "run", "--set", "train.seed=4", "--set", "train.log_every=1"
    )
    assert result.exit_code == 0
    assert load_config(here / "run" / "config.toml") == load_config(
        None, (*TINY, "train.steps=3", "train.seed=4", "train.log_every=1")
    )
    assert [row["step"] for row in rows_of(here / "run")] == [1, 2, 3]


def test_one_step_is_a_run(here: Path) -> None:
    result = minitrain("train", "--out", "run", *options("train.steps=1"))
    assert result.exit_code == 0
    assert [row["step"] for row in rows_of(here / "run")] == [1]


def test_a_text_file_is_a_run(finished_text: Path) -> None:
    assert files_in(finished_text) == FILES
    assert "not applicable" in (finished_text / "dashboard.html").read_text("utf-8").lower()
    assert "held_out_exact" not in results_of(finished_text)


def test_a_run_that_meets_a_number_that_is_not_finite_ends_with_status_3(here: Path) -> None:
    result = minitrain("train", "--out", "run", *options("train.lr_max=1e30", "train.warmup_steps=0"))
    assert result.exit_code == cli.NON_FINITE == 3
    _, *findings, reason = result.stderr.splitlines()
    assert all(re.match(r"error: [a-z-]+ at step \d, |  ", line) for line in findings), "no warning of NumPy's"
    assert re.fullmatch(r"minitrain: step \d: the first NaN or infinity was seen in \S+ at step \d", reason)
    assert result.stdout.splitlines() == [f"dashboard: {(here / 'run/dashboard.html').as_uri()}"]
    assert results_of(here / "run")["stopped"] == reason.removeprefix("minitrain: ")


@pytest.mark.parametrize(("gain", "status"), [("1e6", 0), ("1e300", 3)])
def test_weights_that_are_far_too_large_bring_no_warning(here: Path, gain: str, status: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = minitrain("train", "--out", "run", *options(f"model.init_gain={gain}", "train.steps=1"))
        assert result.exit_code == status
        assert minitrain("diagnose", "run").exit_code == 1
        assert minitrain("sample", "run", "--prompt", "es:yo / en:").exit_code in (0, 2)


def test_threads_are_asked_for_recorded_and_kept_when_resuming(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    limits = cli.threadpool_limits

    def spy(threads: int) -> Any:
        asked.append(threads)
        return limits(threads)

    monkeypatch.setattr(cli, "threadpool_limits", spy)
    for name, threads in (("one", ()), ("two", ("--threads", "2"))):
        assert minitrain("train", "--out", name, *threads, *options("train.steps=1")).exit_code == 0
        assert minitrain("train", "--resume", name).exit_code == 0
    assert minitrain("train", "--resume", "two", "--threads", "1").exit_code == 0
    assert asked == [1, 1, 2, 2, 1]
    assert (recorded_threads(here / "one"), recorded_threads(here / "two")) == (1, 2)


# --------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("train.stepz=5", "unknown key 'train.stepz'; the nearest is train.steps."),
        ("nonsense=5", "unknown key 'nonsense'"),
        ("train=5", "train is a section and must hold keys; got 5."),
        ("train.steps", "a setting must be key=value; got 'train.steps'."),
        ("train.steps=many", "train.steps must be an integer of at least 1; got 'many'."),
        ("train.steps=true", "train.steps must be an integer of at least 1; got true."),
        ("train.steps=0", "train.steps must be an integer of at least 1; got 0."),
        ("train.lr_max=-1.0", "train.lr_max must be a number above 0, finite; got -1.0."),
        ("train.lr_max=nan", "train.lr_max must be a number above 0, finite; got nan."),
        ("model.dropout=1.0", "model.dropout must be a number of at least 0 and below 1; got 1.0."),
        ("model.position=absolute", 'model.position must be "rope" or "learned"; got \'absolute\'.'),
        ("model.n_heads=3", "model.n_heads must divide model.d_model; got 3 heads for a width of 8."),
        ("model.context_len=20", "model.context_len: the longest verb line needs 50 positions; got 20. Use 64."),
        ("data.source=", "data.source must be text: \"verbs\" or the path of a UTF-8 text file; got ''."),
        ("data.source=missing.txt", "data.source: a text file must exist; got 'missing.txt'. Check the path."),
        ("data.source=verb", "got 'verb'. Check the path. Or did you mean \"verbs\"?"),
        ("data.source=latin.txt", "a text file must be UTF-8; 'latin.txt' has byte 0xe9 at offset 3"),
        (
            "data.source=short.txt",
            "data.source: a text must have more than 64 characters (model.context_len) for each of",
        ),
        ("data.source=folder", "a text file must be an ordinary file; 'folder' is a folder."),
        ("inspect.enabled=1", "inspect.enabled must be true or false; got 1."),
    ],
)
def test_a_bad_setting_is_one_line_that_names_it(here: Path, setting: str, said: str) -> None:
    (here / "folder").mkdir()
    (here / "latin.txt").write_bytes(b"caf\xe9 " * 99)
    (here / "short.txt").write_text("too short", encoding="utf-8")
    assert said in refusal("train", "--out", "run", *options(setting), below=here)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.toml", "configuration 'missing.toml' cannot be read: No such file or directory."),
        ("folder", "configuration 'folder' cannot be read: Is a directory."),
        ("latin.toml", "configuration 'latin.toml' must be UTF-8; byte 5 is not."),
        ("broken.toml", "configuration 'broken.toml' must be TOML: "),
        ("key.toml", "unknown key 'train.step'; the nearest is train.steps."),
        ("type.toml", "train.steps must be an integer of at least 1; got 2.5."),
    ],
)
def test_a_bad_configuration_file_is_one_line_that_names_it(here: Path, name: str, said: str) -> None:
    (here / "folder").mkdir()
    (here / "latin.toml").write_bytes(b"# caf\xe9")
    (here / "broken.toml").write_text("[train\nsteps = 5\n", encoding="utf-8")
    (here / "key.toml").write_text("[train]\nstep = 5\n", encoding="utf-8")
    (here / "type.toml").write_text("[train]\nsteps = 2.5\n", encoding="utf-8")
    assert said in refusal("train", "--config", name, "--out", "run", below=here)


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("full", "the output folder must be new or empty; 'full' is not."),
        ("file", "the output must be a folder; 'file' is a file."),
        ("file/run", "the output folder must lie in a folder; '{here}/file' above it is a file."),
        ("x" * 300, "the output folder cannot be written: File name too long: 'xxx"),
    ],
)
def test_an_output_folder_that_cannot_be_used_is_one_line_that_names_it(here: Path, out: str, said: str) -> None:
    (here / "full").mkdir()
    (here / "full" / "thesis.txt").write_text("the only copy", encoding="utf-8")
    (here / "file").write_text("", encoding="utf-8")
    assert said.format(here=here) in refusal("train", "--out", out, *options(), below=here)


def test_a_folder_that_the_system_refuses_to_make_is_one_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Permission bits do not bind root, so the system's answer is played.
    def mkdir(self: Path, *_args: Any, **_kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert refusal("train", "--out", "run", *options(), below=here) == (
        "the output folder cannot be written: Permission denied: 'run'. Name another with --out."
    )


def test_a_full_disk_at_the_start_is_one_line_that_names_the_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_manifest(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run, "write_manifest", write_manifest)
    result = minitrain("train", "--out", "run", *options())
    assert (result.exit_code, result.stderr) == (
        2,
        "minitrain: the output folder cannot be written: No space left on device: 'run'. Name another with --out.\n",
    )


def test_a_folder_that_may_not_be_written_is_one_line_before_the_data_are_read(
    here: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(finished, here / "run")
    (here / "empty").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    for out, named in (("new/run", str(here)), ("empty", "empty")):
        assert refusal("train", "--out", out, *options("data.source=missing.txt"), below=here) == (
            f"the output folder cannot be written: Permission denied: {named!r}. Name another with --out."
        )
    assert refusal("dashboard", "run", below=here) == (
        "the run folder cannot be written: Permission denied: 'run'. Copy the run to where it can be."
    )


def test_what_else_the_system_refuses_is_named_without_an_error_number(here: Path) -> None:
    said = refusal("worksheet", "--html", "missing/block.html", below=here)
    assert said == "'missing/block.html' cannot be read or written: No such file or directory."


def test_the_output_folder_is_looked_at_before_the_data_are_read(here: Path) -> None:
    # Counting a long text takes a while, at the end of which nobody wants to hear this.
    (here / "file").write_text("", encoding="utf-8")
    assert "'file' is a file" in refusal("train", "--out", "file", *options("data.source=missing.txt"), below=here)


def test_a_message_of_several_lines_becomes_one(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(config: object) -> None:
        raise ValueError("the rule;\n  what came")

    monkeypatch.setattr(cli, "prepare", prepare)
    assert refusal("train", "--out", "run", *options(), below=here) == "the rule; what came"


def test_too_little_memory_is_one_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(config: object) -> None:
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr(cli, "prepare", prepare)
    assert refusal("train", "--out", "run", *options(), below=here) == (
        "there is not enough memory for these sizes; make model.* or the batch smaller."
    )


@pytest.mark.parametrize(
    "command",
    [("worksheet", "--html"), ("compare", "{run}", "{run}", "--out"), ("export", "{run}", "--csv")],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("target", ["missing/page", "folder"])
def test_a_file_that_cannot_be_written_is_named_as_it_was_given(
    here: Path, finished: Path, command: tuple[str, ...], target: str
) -> None:
    (here / "folder").mkdir()
    said = refusal(*(part.format(run=finished) for part in command), target, below=here)
    assert re.fullmatch(rf"'{target}' cannot be read or written: \w[\w ]+\.", said)


@pytest.mark.parametrize("name", ["missing", "file", "empty"])
def test_what_is_no_run_is_one_line_that_names_it(here: Path, name: str) -> None:
    (here / "empty").mkdir()
    (here / "file").write_text("", encoding="utf-8")
    for command, said in (
        (("sample", name, "--prompt", "es:"), f"must hold config.toml and checkpoint/model.safetensors; '{name}' does"),
        (("dashboard", name), f"a run folder must hold inspector.log.jsonl; '{name}' does not."),
        (("train", "--resume", name), f"--resume: a run folder must hold config.toml; '{name}' does not."),
    ):
        assert said in refusal(*command, below=here)


@pytest.mark.parametrize("more", [("--out", "other"), ("--set", "train.steps=9"), ("--config", "x.toml")])
def test_a_run_is_resumed_as_it_was_configured(here: Path, finished: Path, more: tuple[str, str]) -> None:
    shutil.copytree(finished, here / "run")
    said = refusal("train", "--resume", "run", *more, below=here)
    assert said.startswith("--resume continues a run as it was configured; leave out --config, --set")


@pytest.mark.parametrize(
    ("name", "content", "command", "said"),
    [
        ("config.toml", "[train", ("train", "--resume", "run"), "configuration 'run/config.toml' must be TOML"),
        ("config.toml", "[train", ("sample", "run", "--prompt", "es:"), "configuration 'run/config.toml' must be TOML"),
        ("checkpoint/state.safetensors", "torn", ("train", "--resume", "run"), "a checkpoint must be a whole"),
        (
            "checkpoint/model.safetensors",
            "torn",
            ("sample", "run", "--prompt", "es:"),
            "model.safetensors is not a whole",
        ),
        ("checkpoint/tokenizer.json", "{", ("sample", "run", "--prompt", "es:"), "tokenizer.json: a tokenizer must be"),
        (
            "checkpoint/tokenizer.json",
            '{"kind": []}',
            ("sample", "run", "--prompt", "es:"),
            "tokenizer must have the keys",
        ),
        (
            "checkpoint/tokenizer.json",
            "[" * 99_999,
            ("sample", "run", "--prompt", "es:"),
            "json: a tokenizer must be JSON",
        ),
        ("checkpoint/tokenizer.json", "{", ("train", "--resume", "run"), "Delete the file: it is then written anew"),
        ("inspector.log.jsonl", "[" * 99_999 + "\n{}\n", ("diagnose", "run"), "line 1: a log holds one JSON object"),
        ("inspector.log.jsonl", "", ("train", "--resume", "run"), "the rows after step 0 up to that one are missing"),
        ("inspector.log.jsonl", "no\nrow\n", ("dashboard", "run"), "inspector.log.jsonl, line 1: a log holds one JSON"),
        ("inspector.log.jsonl", "no\nrow\n", ("train", "--resume", "run"), "inspector.log.jsonl, line 1: a log holds"),
    ],
)
def test_a_damaged_run_is_one_line_that_names_the_file(
    here: Path, finished: Path, name: str, content: str, command: tuple[str, ...], said: str
) -> None:
    shutil.copytree(finished, here / "run")
    (here / "run" / name).write_text(content, encoding="utf-8")
    assert said in refusal(*command, below=here)


@pytest.mark.parametrize("name", ["manifest.json", "results.json"])
@pytest.mark.parametrize("content", ["[" * 99_999, '{"a":' * 99_999], ids=["arrays", "objects"])
def test_what_is_nested_too_deep_to_be_read_is_named_on_the_page(
    here: Path, finished: Path, name: str, content: str
) -> None:
    shutil.copytree(finished, here / "run")
    (here / "run" / name).write_text(content, encoding="utf-8")
    assert minitrain("dashboard", "run").exit_code == 0
    assert name in (here / "run" / "dashboard.html").read_text("utf-8")
    assert minitrain("export", "run", "--tensorboard", "board").exit_code == 0
    assert minitrain("train", "--resume", "run").exit_code == 0


@pytest.mark.parametrize("written", ["NaN", "1e400", "1" + "0" * 400, "true", '"x"', "[]"])
def test_results_that_no_run_has_measured_are_left_out_of_the_page(here: Path, finished: Path, written: str) -> None:
    shutil.copytree(finished, here / "run")
    path = here / "run" / "results.json"
    path.write_text(re.sub(r"(?<=: )(?:[-\d.e]+|null)(?=,?\n)", written, path.read_text("utf-8")), "utf-8")
    manifest = here / "run" / "manifest.json"
    manifest.write_text(re.sub(r'(?<="steps": )\d+', written, manifest.read_text("utf-8")), "utf-8")
    assert minitrain("dashboard", "run").exit_code == 0
    assert minitrain("compare", "run", finished).exit_code == 0


def test_every_option_of_the_command_has_help() -> None:
    for command in cli.main.commands.values():
        assert command.help
        undocumented = [
            p.name for p in command.params if isinstance(p, click.Option) and not (p.help or p.show_default)
        ]
        assert undocumented == []
    assert minitrain("--version").stdout.startswith("minitrain, version 0.")
    assert {"train", "dashboard", "sample"} <= set(re.findall(r"^  (\w+)", minitrain("--help").stdout, re.MULTILINE))


def test_the_help_of_train_lists_every_setting_with_its_default() -> None:
    shown = minitrain("train", "--help").stdout
    for section, keys in RunConfig().to_dict().items():
        for key, default in keys.items():
            written = re.search(rf"^ *{section}\.{key}=(.*)$", shown, re.MULTILINE)
            assert written is not None, key
            assert json.loads(written[1]) == default


def test_the_readme_lists_every_setting_with_its_default_and_what_is_allowed() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+\.\w+)` \| (.+) \| `([^`]*)`(.*) \| (.+) \|$", readme, re.MULTILINE)
    sections = {each.name: getattr(RunConfig(), each.name) for each in fields(RunConfig)}
    assert [
        (key, json.loads(default), bool(derived), allowed.replace("`", ""))
        for key, _, default, derived, allowed in rows
    ] == [
        (f"{name}.{each.name}", getattr(section, each.name), rule.derive is not None, rule.allowed)
        for name, section in sections.items()
        for each in fields(section)
        for rule in [each.metadata["rule"]]
    ]


# --------------------------------------------------------------------------- sample and dashboard


def test_sample_prints_prompt_and_continuation(finished: Path) -> None:
    prompt = "es:yo trabajo / en:"
    greedy = [minitrain("sample", finished, "--prompt", prompt, *more) for more in ((), ("--seed", "5"))]
    assert greedy[0].exit_code == 0
    assert greedy[0].stdout == greedy[1].stdout
    assert greedy[0].stdout.startswith(prompt)
    assert len(greedy[0].stdout.splitlines()) == 1
    drawn = [
        minitrain(
            "sample", finished, "--prompt", prompt, "--temperature", "2", "--top-k", "30", "--seed", str(seed)
        ).stdout
        for seed in (1, 2, 1)
    ]
    assert drawn[0] == drawn[2] != drawn[1]


def test_sample_takes_as_many_tokens_as_asked(finished_text: Path) -> None:
    assert minitrain("sample", finished_text, "--prompt", "abc", "--tokens", "0").stdout == "abc\n"
    # Past the context the window slides.
    far = minitrain("sample", finished_text, "--prompt", "abc", "--tokens", "40", "--temperature", "1", "--seed", "3")
    assert far.exit_code == 0
    assert len(far.stdout) > 20
    whole = minitrain("sample", finished_text, "--prompt", "a" * 13)
    assert whole.stdout == "a" * 13 + "\n"


def test_sample_begins_verb_lines_with_their_start_token(finished: Path) -> None:
    _, model, tokenizer = load_run(finished)
    ids = [1, *tokenizer.encode("en:I go")]
    new = model.generate(ids, 5, temperature=0.0)[len(ids) :]
    printed = minitrain("sample", finished, "--prompt", "en:I go", "--tokens", "5").stdout
    assert printed == "en:I go" + cli.written(tokenizer, new) + "\n"


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("es:yo trabajo Ω", "every character must be in the alphabet of 34; got 'Ω' at position 14."),
        ("es:tu\u0301 trabajas", "Write accented letters as one code point"),
        ("e" * 64, "--prompt: must have at least one and, without --tokens, at most 64 tokens; got 65."),
    ],
)
def test_a_prompt_that_cannot_be_used_is_one_line(here: Path, finished: Path, prompt: str, said: str) -> None:
    assert said in refusal("sample", finished, "--prompt", prompt, below=here)


def test_a_text_cannot_be_continued_from_nothing(here: Path, finished: Path, finished_text: Path) -> None:
    assert "--prompt: must have at least one" in refusal("sample", finished_text, "--prompt", "", below=here)
    # A verb line has its start token, but the model was trained on answers alone.
    said = refusal("sample", finished, "--prompt", "", below=here)
    assert 'what follows the last tag of a line as "es:yo trabajo / en:"; got no text' in said


def test_dashboard_writes_the_page_anew(here: Path, finished: Path) -> None:
    shutil.copytree(finished, here / "run")
    page = here / "run" / "dashboard.html"
    page.unlink()
    result = minitrain("dashboard", "run")
    assert (result.exit_code, result.stdout) == (0, f"{page.as_uri()}\n")
    assert '<html lang="en"' in page.read_text("utf-8")
    assert minitrain("dashboard", "run", "--language", "es").exit_code == 0
    assert '<html lang="es"' in page.read_text("utf-8")


def test_resuming_a_finished_run_completes_its_files(here: Path, finished: Path) -> None:
    shutil.copytree(finished, here / "run")
    (here / "run" / "dashboard.html").unlink()
    (here / "run" / "results.json").unlink()
    result = minitrain("train", "--resume", "run")
    assert (result.exit_code, result.stderr) == (0, "")
    assert files_in(here / "run") == FILES
    assert_equal_runs(here / "run", finished)
    assert "held-out regular forms" in result.stdout


def test_a_resumed_run_says_where_it_goes_on(here: Path) -> None:
    assert minitrain("train", "--out", "run", "--stop-on", "broken-mask", *options("model.causal=false")).exit_code == 1
    result = minitrain("train", "--resume", "run")
    assert result.stderr.splitlines()[0].endswith(" parameters on verb forms, steps 2 to 11, into run")


@posix
def test_a_reader_that_has_seen_enough_ends_the_command_silently() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "minitrain", "worksheet"], stdout=writer, stderr=subprocess.PIPE, timeout=120
    )
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 1


# --------------------------------------------------------------------------- processes that die


_RESUMING = "with: minitrain train --resume run (with hatch: hatch run minitrain ...)"
INTERRUPTED = f"minitrain: interrupted; continue from step 4, the last checkpoint, {_RESUMING}"
INTERRUPTED_EARLY = f"minitrain: interrupted; there is no checkpoint yet; begin again {_RESUMING}"


def test_the_command_trains_as_the_library_does(here: Path, finished: Path) -> None:
    with cli.threadpool_limits(1):
        execute(prepare(load_config(None, TINY)), here / "run", threads=1)
    assert_equal_runs(here / "run", finished)


def test_bytes_do_not_depend_on_the_process(here: Path, finished: Path) -> None:
    # Sets of strings have another order in each process.
    done = minitrain_with_trap("", "train", "--out", "run", *options(), PYTHONHASHSEED="5")
    assert done.returncode == 0
    assert_equal_runs(here / "run", finished)


@posix
@pytest.mark.parametrize(
    ("trap", "saved"),
    [
        ("at_step(signal.SIGKILL, 3)", None),
        ("at_step(signal.SIGKILL, 7)", 4),
        # The state is that of step 8, weights, results and page are those of step 4.
        ("at_call(signal.SIGKILL, 'save_weights', 2)", 4),
        # The state of step 8 is written, and not yet in its place.
        ("at_replace(signal.SIGKILL, 'state.safetensors', 2)", 4),
        ("at_replace(signal.SIGKILL, 'results.json', 4)", 11),
    ],
)
def test_a_run_killed_at_any_place_is_readable_and_resumes_to_the_same_bytes(
    here: Path, finished: Path, trap: str, saved: int | None
) -> None:
    done = minitrain_with_trap(trap, "train", "--out", "run", *options())
    assert done.returncode == -signal.SIGKILL
    run = here / "run"
    steps = [row["step"] for row in read_log(run / "inspector.log.jsonl")]
    assert steps == ROWS[: len(steps)]
    shown = minitrain("dashboard", "run")
    assert (shown.exit_code, shown.stdout) == (0, f"{(run / 'dashboard.html').as_uri()}\n")
    if saved is not None:
        results = results_of(run)
        assert (results["finished"], results["steps"]) == (False, saved)
        assert files_in(run) >= FILES
        assert minitrain("sample", "run", "--prompt", "en:I go / es:").exit_code == 0
    result = minitrain("train", "--resume", "run")
    assert result.exit_code == 0
    assert_equal_runs(run, finished)
    assert results_of(run)["finished"] is True


@posix
def test_a_run_killed_before_its_first_checkpoint_starts_again_from_its_configuration(here: Path) -> None:
    sets = options("train.seed=3", "train.checkpoint_every=99")
    assert (
        minitrain_with_trap("at_step(signal.SIGKILL, 9)", "train", "--out", "run", *sets).returncode == -signal.SIGKILL
    )
    assert files_in(here / "run") == {
        "config.toml",
        "manifest.json",
        "inspector.log.jsonl",
        "checkpoint/tokenizer.json",
    }
    assert minitrain("train", "--resume", "run").exit_code == 0
    assert minitrain("train", "--out", "whole", *sets).exit_code == 0
    assert_equal_runs(here / "run", here / "whole")
    # The rows that were measured twice are kept aside.
    assert [row["step"] for row in read_log(here / "run" / "inspector.log.rewound.jsonl")] == ROWS[:6]


@posix
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_a_run_in_order(here: Path, finished: Path, name: str, status: int) -> None:
    done = minitrain_with_trap(f"at_step(signal.{name}, 7)", "train", "--out", "run", *options())
    assert done.returncode == status
    assert done.stdout == ""
    assert done.stderr.splitlines()[2:] == [INTERRUPTED]
    run = here / "run"
    assert [row["step"] for row in read_log(run / "inspector.log.jsonl")] == ROWS[:5]
    assert (results_of(run)["finished"], results_of(run)["steps"]) == (False, 4)
    # Drawn anew: the page of the last checkpoint knows nothing of the rows after it.
    page = (run / "dashboard.html").read_text("utf-8")
    assert minitrain("dashboard", "run").exit_code == 0
    assert (run / "dashboard.html").read_text("utf-8") == page
    assert files_in(run) == FILES
    assert minitrain("train", "--resume", "run").exit_code == 0
    assert_equal_runs(run, finished)


@posix
def test_a_signal_before_the_first_row_leaves_a_page_too(here: Path, finished: Path) -> None:
    done = minitrain_with_trap("at_step(signal.SIGINT, 1)", "train", "--out", "run", *options())
    assert (done.returncode, done.stderr.splitlines()[1:]) == (130, [INTERRUPTED_EARLY])
    assert files_in(here / "run") == FILES - {
        "results.json",
        "checkpoint/state.safetensors",
        "checkpoint/model.safetensors",
    }
    assert minitrain("train", "--resume", "run").exit_code == 0
    assert_equal_runs(here / "run", finished)


@posix
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_before_training_leaves_nothing(here: Path, name: str, status: int) -> None:
    trap = f"import minitrain.cli as cli; run.prepare = cli.prepare = lambda config: strike(signal.{name})"
    done = minitrain_with_trap(trap, "train", "--out", "run", *options())
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "minitrain: interrupted\n")
    assert tree(here) == {}


COMMANDS = {
    "sample": ("load_run", "sample", "run", "--prompt", "es:"),
    "worksheet": ("load_run", "worksheet", "run", "--prompt", "es:"),
    "dashboard": ("write_dashboard", "dashboard", "run"),
    "diagnose": ("diagnose", "diagnose", "run"),
    "compare": ("write_comparison", "compare", "run", "run"),
    "export": ("write_csv", "export", "run", "--csv", "log.csv"),
}


@posix
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_at_ctrl_c_with_one_line_and_status_130(here: Path, finished: Path, name: str) -> None:
    assert COMMANDS.keys() == cli.main.commands.keys() - {"train"}
    shutil.copytree(finished, here / "run")
    function, *arguments = COMMANDS[name]
    trap = f"import minitrain.cli as cli; cli.{function} = lambda *args, **kwargs: strike(signal.SIGINT)"
    done = minitrain_with_trap(trap, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "minitrain: interrupted\n")


@posix
def test_ctrl_c_while_the_command_is_imported_ends_it_the_same_way() -> None:
    code = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Trap:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'minitrain.run': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Trap())\n"
        "from minitrain.__main__ import command\n"
        "command()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "minitrain: interrupted\n")


def test_the_handler_of_sigterm_is_put_back(here: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert minitrain("train", "--out", "run", *options("train.steps=1")).exit_code == 0
    assert signal.getsignal(signal.SIGTERM) is before


# --------------------------------------------------------------------------- on a terminal


@contextmanager
def terminal() -> Iterator[tuple[int, list[bytes]]]:
    """A pseudo-terminal: what to give a process as standard error, and what it wrote once the context has ended."""
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    reader, writer = pty.openpty()
    termios.tcsetwinsize(writer, (24, 100))
    heard: list[bytes] = []

    def listen() -> None:
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while chunk := os.read(reader, 65536):
                heard.append(chunk)

    # All the while, since a full terminal makes the writer wait.
    listener = threading.Thread(target=listen)
    listener.start()
    try:
        yield writer, heard
    finally:
        os.close(writer)
        listener.join(timeout=60)
        os.close(reader)


@posix
def test_on_a_terminal_there_is_a_bar_and_a_refusal_is_still_one_line(here: Path, finished: Path) -> None:
    shutil.copytree(finished, here / "damaged")
    (here / "damaged" / "checkpoint" / "state.safetensors").write_bytes(b"torn")
    heard_all = []
    for arguments in (
        ("--out", "run", *options("train.steps=300", "train.checkpoint_every=999")),
        ("--resume", "damaged"),
    ):
        with terminal() as (stderr, heard):
            subprocess.run(
                [sys.executable, "-m", "minitrain", "train", *arguments],
                stdout=subprocess.PIPE,
                stderr=stderr,
                timeout=120,
            )
        heard_all.append(b"".join(heard).decode())
    bar, refused = heard_all
    assert "300/300" in bar
    assert "loss" in bar
    assert re.search(r"loss \d\.\d{3}, validation \d\.\d{3}", bar)
    assert re.match(r"\s*training a GPT of [\d,]+ parameters on verb forms, steps 1 to 300, into run\s", bar)
    assert "n-gram" not in bar, "no line a validation"
    assert len(refused.splitlines()) == 1
    assert refused.startswith("minitrain: ")
