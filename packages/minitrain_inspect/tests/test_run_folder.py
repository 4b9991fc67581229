"""Who may write into a run folder: one run at a time, also where two begin at once, and whatever a kill left there."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command_line import DRIVER, minitrain, minitrain_with_trap, posix, refusal
from minitrain import run_folder
from minitrain.run_folder import check_free, check_out, claimed, dated_folder
from tiny_run import FILES, assert_equal_runs, files_in, options, tree, waiting

IN_USE = "a run folder must be free; 'run' is in use by another run. Wait until that ends, or name another with --out."


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished tiny run on the verbs; not to be written into."""
    out = tmp_path_factory.mktemp("finished") / "run"
    assert minitrain("train", "--out", out, *options()).exit_code == 0
    return out


# --------------------------------------------------------------------------- one folder, one run


@posix
def test_a_folder_is_held_until_the_context_ends_however_it_ends(tmp_path: Path) -> None:
    out = tmp_path / "run"

    with claimed(out):
        (out / "config.toml").touch()
        before = tree(tmp_path)
        for resume in (False, True):
            with pytest.raises(ValueError, match="in use by another run"), claimed(out, resume=resume):
                raise AssertionError
        with pytest.raises(ValueError, match="in use"):
            check_out(out)
        with pytest.raises(ValueError, match="in use"):
            check_free(out)
        assert tree(tmp_path) == before
    with pytest.raises(KeyboardInterrupt), claimed(out, resume=True):
        raise KeyboardInterrupt
    with claimed(out, resume=True):
        pass
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["run", "runs/far/run"])
def test_a_folder_that_was_made_and_left_empty_is_removed_again(tmp_path: Path, name: str) -> None:
    with claimed(tmp_path / name):
        assert (tmp_path / name).is_dir()
    assert tree(tmp_path) == {}
    (tmp_path / "own").mkdir()
    with claimed(tmp_path / "own"):
        pass
    assert tree(tmp_path) == {"own": "folder"}


def test_a_folder_that_somebody_made_since_it_was_looked_for_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"

    def nobody_yet(folder: Path) -> bool:
        monkeypatch.undo()
        out.mkdir()
        return False

    check_out(out)
    monkeypatch.setattr(run_folder, "check_out", lambda _: monkeypatch.setattr(Path, "exists", nobody_yet))
    with pytest.raises(ValueError, match="in use"), claimed(out):
        raise AssertionError
    assert tree(tmp_path) == {"run": "folder"}


def test_a_name_that_leads_back_leaves_nothing_on_its_way(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").touch()
    before = tree(tmp_path)
    with pytest.raises(ValueError, match="run"), claimed(tmp_path / "new" / ".." / "run"):
        raise AssertionError
    assert tree(tmp_path) == before


@posix
def test_where_folders_cannot_be_locked_runs_go_on_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def flock(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(fcntl, "flock", flock)
    with claimed(tmp_path / "run"):
        assert (tmp_path / "run").is_dir()


@posix
def test_the_folder_of_a_run_that_goes_on_is_refused_and_can_be_read(here: Path, finished: Path) -> None:
    # It stops where it stands, as if it computed for long, until it is told to go on.
    command = [sys.executable, "-c", DRIVER, "at_step(signal.SIGSTOP, 6)", "train", "--out", "run", *options()]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
        try:
            for _ in waiting("the run to stop"):
                if os.waitpid(running.pid, os.WUNTRACED | os.WNOHANG) != (0, 0):
                    break
            for arguments in (("--resume", "run"), ("--out", "run", *options("train.seed=5"))):
                assert refusal("train", *arguments, below=here) == IN_USE
            assert minitrain("diagnose", "run").exit_code == 0
            assert minitrain("dashboard", "run").exit_code == 0
        finally:
            os.kill(running.pid, signal.SIGCONT)
        running.communicate(timeout=120)
    assert running.returncode == 0
    assert_equal_runs(here / "run", finished)
    assert files_in(here / "run") == FILES


@posix
def test_of_two_runs_that_begin_at_once_in_one_folder_one_trains(here: Path, finished: Path) -> None:
    command = [sys.executable, "-m", "minitrain", "train", "--out", "run", *options()]
    both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [each.communicate(timeout=120)[1] for each in both]
    assert sorted(each.returncode for each in both) == [0, 2]
    (refused,) = (text for each, text in zip(both, said, strict=True) if each.returncode == 2)
    assert re.fullmatch(r"minitrain: .* 'run' is (in use by another run|not)\..*\n", refused)
    assert_equal_runs(here / "run", finished)


@posix
def test_a_killed_run_holds_nothing(here: Path, finished: Path) -> None:
    assert minitrain_with_trap("at_step(signal.SIGKILL, 6)", "train", "--out", "run", *options()).returncode < 0
    assert minitrain("train", "--resume", "run").exit_code == 0
    assert_equal_runs(here / "run", finished)


# --------------------------------------------------------------------------- names by the clock


class Noon(datetime):
    @classmethod
    def now(cls, tz: object = None) -> "Noon":
        return cls(2031, 5, 6, 12, 0, 0, tzinfo=UTC)


def test_runs_that_begin_in_one_second_get_a_folder_each(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "datetime", Noon)
    for _ in range(3):
        assert minitrain("train", *options("train.steps=1")).exit_code == 0
    names = ["20310506-120000", "20310506-120000-2", "20310506-120000-3"]
    assert sorted(folder.name for folder in (here / "runs").iterdir()) == names
    assert all(files_in(here / "runs" / name) == FILES for name in names)


def test_a_name_is_taken_as_soon_as_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "datetime", Noon)
    with dated_folder(tmp_path / "runs") as first, dated_folder(tmp_path / "runs") as second:
        assert [first.name, second.name] == ["20310506-120000", "20310506-120000-2"]
    assert tree(tmp_path) == {}, "neither wrote anything"


def test_a_run_without_out_that_is_refused_leaves_no_folder(here: Path) -> None:
    said = refusal("train", *options("data.source=missing.txt"), below=here)
    assert "'missing.txt'" in said
    (here / "runs").write_text("a file")
    assert "Name another with --out." in refusal("train", *options(), below=here)


# --------------------------------------------------------------------------- what a kill leaves


@posix
def test_a_folder_in_which_a_run_was_killed_at_its_first_file_can_be_used(here: Path, finished: Path) -> None:
    trap = "at_replace(signal.SIGKILL, 'config.toml', 1)"
    assert minitrain_with_trap(trap, "train", "--out", "run", *options()).returncode == -signal.SIGKILL
    (left,) = files_in(here / "run")
    assert left.endswith(".tmp")
    # There is nothing yet that could be continued.
    assert "must hold config.toml; 'run' does not" in refusal("train", "--resume", "run", below=here)
    assert minitrain("train", "--out", "run", *options()).exit_code == 0
    assert files_in(here / "run") == FILES
    assert_equal_runs(here / "run", finished)


@posix
@pytest.mark.parametrize("ending", ["state.safetensors", "model.safetensors", "results.json", "dashboard.html"])
def test_what_a_kill_leaves_of_a_file_is_removed_when_the_run_goes_on(here: Path, finished: Path, ending: str) -> None:
    trap = f"at_replace(signal.SIGKILL, '{ending}', 1)"
    assert minitrain_with_trap(trap, "train", "--out", "run", *options()).returncode == -signal.SIGKILL
    assert any(name.endswith(".tmp") for name in files_in(here / "run"))
    assert minitrain("train", "--resume", "run").exit_code == 0
    assert files_in(here / "run") - {"inspector.log.rewound.jsonl"} == FILES
    assert_equal_runs(here / "run", finished)


def test_a_refused_run_removes_nothing(here: Path, finished: Path) -> None:
    shutil.copytree(finished, here / "run")
    (here / "run" / "checkpoint" / ".0123456789abcdef.tmp").touch()
    (here / "run" / "checkpoint" / "state.safetensors").write_bytes(b"torn")
    assert "a checkpoint must be a whole" in refusal("train", "--resume", "run", below=here)


def test_only_what_our_own_writer_left_counts_as_nothing(here: Path) -> None:
    (here / "run").mkdir()
    (here / "run" / ".0123456789abcdef.tmp").touch()
    check_out(here / "run")
    (here / "run" / ".notes.tmp").touch()
    with pytest.raises(ValueError, match="must be new or empty"):
        check_out(here / "run")


@posix
def test_a_link_to_nowhere_is_no_folder_in_use(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is a link to what is not there"), claimed(link):
        raise AssertionError
