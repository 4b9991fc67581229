"""The command's views of a run: `train --live`, `compare`, `export`."""

import re
import threading
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner, Result
from minitrain import cli
from minitrain.dashboard import live
from tiny_run import assert_equal_runs, options, rows_of


def minitrain(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(cli.main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished tiny run; not to be written into."""
    out = tmp_path_factory.mktemp("views") / "run"
    assert minitrain("train", "--out", out, *options()).exit_code == 0
    return out


def test_a_run_that_is_watched_live_is_the_same_bit_for_bit(
    here: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PATIENCE", 0.0)
    addresses: list[str] = []
    pages: list[str] = []
    stop = threading.Event()
    entered = live.serve_live

    def watch() -> None:
        while not stop.is_set():
            if addresses:
                try:
                    with urlopen(addresses[0], timeout=10) as answer:
                        pages.append(answer.read().decode())
                except OSError:
                    return
            time.sleep(0.01)

    class Watched:
        def __init__(self, folder: Path) -> None:
            self.inner = entered(folder)

        def __enter__(self) -> str:
            addresses.append(self.inner.__enter__())
            return addresses[0]

        def __exit__(self, *raised: object) -> None:
            self.inner.__exit__(*raised)  # type: ignore[arg-type]

    monkeypatch.setattr(cli, "serve_live", Watched)
    watcher = threading.Thread(target=watch)
    watcher.start()
    result = minitrain("train", "--live", "--out", "run", *options())
    stop.set()
    watcher.join()
    assert result.exit_code == 0
    first, *_ = result.stderr.splitlines()
    assert re.fullmatch(r"live: http://127\.0\.0\.1:\d+/", first)
    assert len(pages) >= 2
    assert all('id="live"' in page for page in pages)
    assert_equal_runs(here / "run", finished)
    with pytest.raises(OSError, match="refused"):
        urlopen(addresses[0], timeout=10)


def test_a_live_run_that_is_refused_serves_nothing(here: Path) -> None:
    result = minitrain("train", "--live", "--set", "train.steps=0")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "live" not in result.stderr


def test_compare_writes_a_page_and_prints_where(here: Path, finished: Path) -> None:
    assert minitrain("train", "--out", "other", *options("train.seed=3", "train.steps=5")).exit_code == 0
    result = minitrain("compare", finished, "other")
    assert (result.exit_code, result.stdout) == (0, f"{(here / 'comparison.html').as_uri()}\n")
    assert "train.seed" in (here / "comparison.html").read_text("utf-8")
    assert minitrain("compare", finished, "other", "--out", "c.html", "--language", "es").exit_code == 0
    assert '<html lang="es"' in (here / "c.html").read_text("utf-8")


def test_compare_says_that_it_replaced_a_file(here: Path, finished: Path) -> None:
    assert minitrain("compare", finished, finished).stderr == ""
    again = minitrain("compare", finished, finished)
    assert again.stderr == "minitrain: comparison.html was there and was replaced; --out FILE writes another.\n"
    assert again.exit_code == 0


def test_compare_refuses_one_run_and_folders_that_are_none_in_a_line(here: Path, finished: Path) -> None:
    for arguments, words in (((finished,), "got 1"), ((finished, "nothing"), "'nothing' does not")):
        result = minitrain("compare", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        assert words in line
        assert list(here.iterdir()) == []


def test_export_writes_what_is_asked_for(here: Path, finished: Path) -> None:
    result = minitrain("export", finished, "--csv", "log.csv")
    assert (result.exit_code, result.stdout) == (0, "log.csv\n")
    lines = (here / "log.csv").read_text("utf-8").splitlines()
    assert len(lines) == 1 + len(rows_of(finished))
    assert lines[0].startswith("schema,step,tokens,train_loss,")


def test_export_without_a_format_or_a_log_is_one_line(here: Path, finished: Path) -> None:
    for arguments, words in (
        ((finished,), "export needs a format: give --csv FILE, --tensorboard DIR, or both."),
        (("nothing", "--csv", "a.csv"), "a run folder must hold inspector.log.jsonl; 'nothing' does not."),
    ):
        result = minitrain("export", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        assert words in line
        assert list(here.iterdir()) == []


def test_export_to_tensorboard(here: Path, finished: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the extra [tensorboard] is not installed")
    result = minitrain("export", finished, "--tensorboard", "board")
    assert (result.exit_code, result.stdout) == (0, "board\n")
    assert [path.name.startswith("events.out.tfevents.") for path in (here / "board").iterdir()] == [True]
