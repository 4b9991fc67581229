"""Reading on: a page made of parts of a log is the page of the whole log, and only what is new is parsed."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic_run
from minitrain.dashboard import follow
from minitrain.dashboard.follow import LOG_NAME, PATIENCE, Follower, write_dashboard
from minitrain.log import LogWriter, read_further, read_log


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    """The bytes of a log with numbers that are not finite and a module that turns up late."""
    rows = synthetic_run.rows(count=31, layers=1)
    rows[11]["train_loss"] = float("nan")
    for row in rows[17:]:
        row["inspect"]["modules"]["late"] = row["inspect"]["modules"]["embedding"]
    run = synthetic_run.write_run(tmp_path / "whole", rows)
    return (run / LOG_NAME).read_bytes()


def grow(run: Path, log: bytes) -> None:
    run.mkdir(exist_ok=True)
    (run / LOG_NAME).write_bytes(log)


def test_a_log_that_grows_byte_by_byte_gives_the_page_of_the_whole(tmp_path: Path, whole: bytes) -> None:
    run = tmp_path / "growing"
    follower = Follower(run)
    assert not follower.advance()
    cuts = sorted({*np.random.default_rng(5).integers(1, len(whole), size=53).tolist(), len(whole)})
    # Just before and just after a line's end, where a row is read without it.
    end = whole.index(b"\n", cuts[7])
    for cut in sorted({*cuts, end, end + 1}):
        grow(run, whole[:cut])
        follower.advance()
    grown = follower.render()
    assert follower.reader.rows == whole.count(b"\n")
    assert write_dashboard(run).read_text("utf-8") == grown


def test_only_what_is_new_is_parsed(tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []

    def counted(*arguments: Any, **options: Any) -> Iterator[Any]:
        for each in read_further(*arguments, **options):
            parsed.append(each[2]["step"])
            yield each

    monkeypatch.setattr(follow, "read_further", counted)
    run = tmp_path / "growing"
    follower = Follower(run)
    lines = whole.splitlines(keepends=True)
    for count in (7, 7, 13, 31):
        grow(run, b"".join(lines[:count]))
        follower.advance()
    assert parsed == list(range(1, 32))


def test_whether_there_is_more_is_said(tmp_path: Path, whole: bytes) -> None:
    run, lines = tmp_path / "growing", whole.splitlines(keepends=True)
    follower = Follower(run)
    grow(run, b"".join(lines[:3]))
    assert follower.advance()
    assert not follower.advance()
    grow(run, b"".join(lines[:3]) + lines[3][:40])
    assert not follower.advance()
    grow(run, b"".join(lines[:4]))
    assert follower.advance()


@pytest.mark.parametrize("kept", [0, 3, 6])
def test_a_log_that_was_cut_and_grew_past_the_old_end_is_read_anew(tmp_path: Path, whole: bytes, kept: int) -> None:
    run, lines = tmp_path / "growing", whole.splitlines(keepends=True)
    follower = Follower(run)
    grow(run, b"".join(lines[:7]))
    assert follower.advance()
    # The same steps, of a run on another clock, and more of them than before.
    again = [line.replace(b'"tokens":', b'"tokens":1') for line in lines[kept:20]]
    assert again[0] != lines[kept]
    grow(run, b"".join([*lines[:kept], *again]))
    assert follower.advance()
    assert follower.reader.rows == 20
    fresh = Follower(run)
    assert fresh.advance()
    assert follower.render() == fresh.render()
    assert not follower.advance()


def test_a_log_that_was_cut_for_a_resumed_run_is_read_anew(tmp_path: Path, whole: bytes) -> None:
    run, lines = tmp_path / "growing", whole.splitlines(keepends=True)
    follower = Follower(run)
    for count in (19, 5, 9):
        grow(run, b"".join(lines[:count]))
        assert follower.advance()
        assert follower.reader.rows == count


def test_a_damaged_line_is_refused_with_its_number_in_the_whole_file(tmp_path: Path, whole: bytes) -> None:
    run, lines = tmp_path / "growing", whole.splitlines(keepends=True)
    follower = Follower(run)
    grow(run, b"".join(lines[:5]))
    follower.advance()
    grow(run, b"".join([*lines[:6], b"no row\n", *lines[7:9]]))
    with pytest.raises(ValueError, match="line 7: a log holds one JSON object a line"):
        follower.advance()


def test_rows_after_a_place_are_those_of_the_whole(tmp_path: Path, whole: bytes) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(whole)
    everything = list(read_log(log))
    places = list(read_further(log))
    assert [row for _, _, row in places] == everything
    assert [line for line, _, _ in places] == list(range(1, len(everything) + 1))
    line, end, _ = places[12]
    assert [row for _, _, row in read_further(log, lines=line, offset=end)] == everything[13:]


def test_pages_in_passing_cost_a_twentieth_of_the_time(
    tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(follow.time, "perf_counter", lambda: now[0])
    written: list[float] = []

    def write_slowly(target: Path, page: str) -> None:
        now[0] += 0.5
        written.append(now[0])

    monkeypatch.setattr(follow, "write_atomic", write_slowly)
    grow(tmp_path / "run", whole)
    follower = Follower(tmp_path / "run")
    follower.write_in_passing()
    assert written == [100.5]
    for _ in range(100):
        now[0] += 0.5
        follower.write_in_passing()
    # Each page took half a second, so ten seconds lie between two.
    assert [round(b - a, 6) for a, b in itertools.pairwise(written)] == [PATIENCE * 0.5 + 0.5] * 5
    follower.write()
    assert len(written) == 7


def test_old_logs_are_diagnosed_as_the_command_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(follow, "findings", lambda folder, rules: asked.append(folder) or [])
    rows = [row | {"future_leak": None} for row in synthetic_run.rows(count=5, layers=1)]
    run = synthetic_run.write_run(tmp_path / "run", rows)
    write_dashboard(run)
    assert asked == [run]


def test_a_run_in_which_the_future_leaks_is_marked(tmp_path: Path) -> None:
    rows = [row | {"future_leak": 0.25} for row in synthetic_run.rows(count=5, layers=1)]
    run = synthetic_run.write_run(tmp_path / "run", rows)
    follower = Follower(run)
    follower.advance()
    found = follower.found()
    assert found is not None
    assert (found[0].finding.code, found[0].finding.step) == ("broken-mask", 1)
    assert "The mask lets the future through" in follower.render()


def test_an_empty_log_is_not_diagnosed(tmp_path: Path) -> None:
    (tmp_path / LOG_NAME).touch()
    follower = Follower(tmp_path)
    follower.advance()
    assert follower.found() is None
    assert "Not diagnosed" in follower.render()


def test_rows_of_a_writer_are_seen_as_soon_as_they_are_written(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    with LogWriter(tmp_path / LOG_NAME) as writer:
        for row in synthetic_run.rows(count=7, layers=1):
            writer.write(row)
            assert follower.advance()
            assert follower.reader.rows == row["step"]
    assert json.loads((tmp_path / LOG_NAME).read_text("utf-8").splitlines()[-1])["step"] == 7
