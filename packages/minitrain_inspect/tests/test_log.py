"""The log: strict JSON, fixed order, one flushed line a row; the reader forgives a torn last line and nothing else."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from minitrain import log
from minitrain.log import SCHEMA, SCHEMA_VERSION, LogWriter, read_log, read_until

BLUEPRINT = Path(__file__).parents[1] / "BLUEPRINT.md"
LOG = "inspector.log.jsonl"


def reject(token: str) -> NoReturn:
    raise AssertionError(f"{token} in the log")


def strict(line: str) -> Any:
    return json.loads(line, parse_constant=reject)


def write_rows(path: Path, steps: list[int]) -> None:
    with LogWriter(path) as log:
        for step in steps:
            log.write({"step": step, "train_loss": 1.0 / step})


def blueprint_rows() -> Iterator[tuple[str, str]]:
    section = BLUEPRINT.read_text("utf-8").split("### The row of")[1].split("###")[0]
    for keys, meaning in re.findall(r"^\| (`.*?`) \| (.*?) \|$", section, flags=re.MULTILINE):
        for key in re.findall(r"`(\w+)`", keys):
            yield key, meaning


def test_schema_is_the_table_of_the_blueprint() -> None:
    assert list(blueprint_rows()) == list(SCHEMA.items())


def test_a_row_comes_back_equal_with_its_keys_in_the_order_of_the_schema(tmp_path: Path) -> None:
    row = {
        "elapsed_seconds": 7.25,
        "grad_norm": 0.1 + 0.2,
        "train_loss": 1e-310,
        "step": 13,
        "inspect": {"modules": {"blocks.0": {"n": 3, "mean": -0.5}}, "dead_fraction": {"blocks.0.ffn.act": None}},
        "wall_time": "2024-01-01T00:00:00Z",
    }
    with LogWriter(tmp_path / LOG) as log:
        log.write(row)
    (back,) = read_log(tmp_path / LOG)
    assert {key: back[key] for key in row} == row
    assert back["schema"] == SCHEMA_VERSION
    assert list(back) == [key for key in SCHEMA if key != "non_finite"] + ["wall_time"]
    assert back["val_loss"] is None
    assert back["inspect"]["modules"]["blocks.0"]["mean"] == -0.5


def test_the_order_of_the_callers_keys_changes_no_byte(tmp_path: Path) -> None:
    row = {"step": 5, "train_loss": 0.3, "a_time": 1, "b_time": 2, "learning_rate": 1e-3}
    for name, keys in (("one", list(row)), ("two", list(row)[::-1])):
        with LogWriter(tmp_path / name) as log:
            log.write({key: row[key] for key in keys})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_each_row_can_be_read_while_the_writer_is_open(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / LOG)
    for step in (2, 3, 5):
        log.write({"step": step})
        assert [row["step"] for row in read_log(tmp_path / LOG)][-1] == step
    log.close()
    log.close()


def test_numpy_scalars_become_python_numbers(tmp_path: Path) -> None:
    with LogWriter(tmp_path / LOG) as log:
        log.write(
            {
                "step": np.int64(11),
                "train_loss": np.float32(0.1),
                "val_loss": np.array(2.5),
                "inspect": {"flag": np.bool_(True), "counts": (np.uint8(3), 7)},
            }
        )
    line = (tmp_path / LOG).read_text("ascii")
    row = strict(line)
    assert (row["step"], row["train_loss"], row["val_loss"]) == (11, float(np.float32(0.1)), 2.5)
    assert row["inspect"] == {"flag": True, "counts": [3, 7]}


def test_non_finite_numbers_are_null_and_named_by_their_path(tmp_path: Path) -> None:
    with LogWriter(tmp_path / LOG) as log:
        log.write(
            {
                "step": 3,
                "train_loss": float("nan"),
                "grad_norm": np.float32("inf"),
                "learning_rate": 0.5,
                "inspect": {"update_ratio": {"blocks.0.attn.W_q": -np.inf, "E": 0.25}, "list": [1.0, np.nan]},
            }
        )
        log.write({"step": 5, "train_loss": 1.0})
    first, second = (strict(line) for line in (tmp_path / LOG).read_text("ascii").splitlines())
    assert first["train_loss"] is None
    assert first["grad_norm"] is None
    assert first["inspect"] == {"update_ratio": {"blocks.0.attn.W_q": None, "E": 0.25}, "list": [1.0, None]}
    assert first["non_finite"] == {
        "train_loss": "nan",
        "grad_norm": "inf",
        "inspect.update_ratio.blocks.0.attn.W_q": "-inf",
        "inspect.list.1": "nan",
    }
    assert "non_finite" not in second


def test_names_survive_whatever_they_contain(tmp_path: Path) -> None:
    names = ['</script>"', "a\nb", "línea\u2028otra", "\ud800", "🙂", "\\", ""]
    with LogWriter(tmp_path / LOG) as log:
        log.write({"step": 2, "inspect": {"spectral_norm": {name: float(i) for i, name in enumerate(names)}}})
        log.write({"step": 3})
    assert (tmp_path / LOG).read_bytes().count(b"\n") == 2
    first, _ = read_log(tmp_path / LOG)
    assert list(first["inspect"]["spectral_norm"].items()) == [(name, float(i)) for i, name in enumerate(names)]


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        ({"step": 1, "loss": 2.0}, ValueError, r"keys are those of SCHEMA .*; got 'loss'"),
        ({"train_loss": 2.0}, ValueError, r"`step` is an integer; got None"),
        ({"step": 1.5}, ValueError, r"`step` is an integer; got 1\.5"),
        ({"step": True}, ValueError, r"`step` is an integer; got True"),
        ({"step": 7}, ValueError, r"steps increase; got step 7 after 7\. Call rewind"),
        ({"step": 8, "schema": 2}, ValueError, r"the writer sets 'schema' itself; got 2"),
        ({"step": 8, "non_finite": {}}, ValueError, r"the writer sets 'non_finite' itself"),
        ({"step": 8, "inspect": {"a": np.ones(3)}}, TypeError, r"inspect\.a holds JSON values .*; got ndarray"),
        ({"step": 8, "inspect": b"x"}, TypeError, r"inspect holds JSON values .*; got bytes"),
    ],
)
def test_a_refused_row_names_its_fault_and_leaves_the_log_alone(
    tmp_path: Path, row: dict[str, object], error: type[Exception], message: str
) -> None:
    with LogWriter(tmp_path / LOG) as log:
        log.write({"step": 7})
        before = (tmp_path / LOG).read_bytes()
        with pytest.raises(error, match=message):
            log.write(row)
        assert (tmp_path / LOG).read_bytes() == before


def test_every_way_to_tear_the_last_line_leaves_the_rows_before_it(tmp_path: Path) -> None:
    write_rows(tmp_path / LOG, [2, 3])
    whole = (tmp_path / LOG).read_bytes()
    start = whole.index(b"\n") + 1
    for cut in range(start, len(whole) - 2):
        (tmp_path / LOG).write_bytes(whole[:cut])
        assert [row["step"] for row in read_log(tmp_path / LOG)] == [2]
    (tmp_path / LOG).write_bytes(whole[:-1])  # complete but for its line end: a row
    assert [row["step"] for row in read_log(tmp_path / LOG)] == [2, 3]
    (tmp_path / LOG).write_bytes(whole + b"\0\0\0\xff")
    assert [row["step"] for row in read_log(tmp_path / LOG)] == [2, 3]


def test_an_empty_log_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / LOG).touch()
    assert list(read_log(tmp_path / LOG)) == []


def test_a_missing_log_is_a_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_log(tmp_path / LOG))


@pytest.mark.parametrize(
    ("middle", "message"),
    [
        ('{"schema": 1, "st', r"line 2: .*only the last may be torn"),
        ("", r"line 2: .*only the last may be torn"),
        ('{"schema": 1, "step": 3, "train_loss": NaN}', r"line 2: .*NaN is not JSON"),
        ('{"schema": 2, "step": 3}', r"line 2: rows have schema 1; got 2"),
        ('{"step": 3}', r"line 2: rows have schema 1; got None"),
        ("[1]", r"line 2: rows have schema 1; got None"),
        ('{"schema": 1, "step": "3"}', r"line 2: a row has an integer `step`; got '3'"),
    ],
)
def test_an_unreadable_line_in_the_middle_is_named(tmp_path: Path, middle: str, message: str) -> None:
    write_rows(tmp_path / LOG, [2])
    write_rows(tmp_path / "more", [5, 7])
    text = (tmp_path / LOG).read_text("ascii") + middle + "\n" + (tmp_path / "more").read_text("ascii")
    (tmp_path / LOG).write_text(text, "ascii")
    rows = read_log(tmp_path / LOG)
    assert next(rows)["step"] == 2
    with pytest.raises(ValueError, match=message):
        list(rows)


def test_rewind_keeps_rows_up_to_the_step_and_saves_the_others_beside_the_log(tmp_path: Path) -> None:
    path = tmp_path / LOG
    write_rows(path, [2, 3, 5, 7, 11])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines) + b'{"schema": 1, "st')
    with LogWriter(path) as log:
        assert log.rewind(5) == 2
        with pytest.raises(ValueError, match="got step 5 after 5"):
            log.write({"step": 5})
        log.write({"step": 6, "train_loss": 0.5})
    assert [row["step"] for row in read_log(path)] == [2, 3, 5, 6]
    assert path.read_bytes().startswith(b"".join(lines[:3]))
    side = tmp_path / "inspector.log.rewound.jsonl"
    assert side.read_bytes() == b"".join(lines[3:]) + b'{"schema": 1, "st\n'
    with LogWriter(path) as log:
        assert log.rewind(0) == 4
        log.write({"step": 1})
    assert [row["step"] for row in read_log(path)] == [1]
    assert side.read_bytes().count(b"\n") == 7


def test_rewind_completes_a_last_row_that_lacks_only_its_line_end(tmp_path: Path) -> None:
    path = tmp_path / LOG
    write_rows(path, [2, 3])
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with LogWriter(path) as log:
        assert log.rewind(3) == 0
        assert path.read_bytes() == whole
        log.write({"step": 5})
    assert [row["step"] for row in read_log(path)] == [2, 3, 5]


def test_a_row_is_never_glued_to_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / LOG
    write_rows(path, [2, 3])
    torn = path.read_bytes()[:-7]
    path.write_bytes(torn)
    with LogWriter(path) as log:
        with pytest.raises(ValueError, match=r"ends in one that a kill tore\. Call rewind"):
            log.write({"step": 5})
        assert path.read_bytes() == torn
        assert log.rewind(2) == 0
        log.write({"step": 3})
    assert [row["step"] for row in read_log(path)] == [2, 3]


def test_rewind_past_the_end_moves_nothing(tmp_path: Path) -> None:
    path = tmp_path / LOG
    write_rows(path, [2, 3])
    before = path.read_bytes()
    with LogWriter(path) as log:
        assert log.rewind(100) == 0
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [LOG]


def test_a_resumed_log_is_byte_equal_to_one_that_never_stopped(tmp_path: Path) -> None:
    write_rows(tmp_path / "whole", [2, 3, 5, 7])
    write_rows(tmp_path / LOG, [2, 3, 5])
    with LogWriter(tmp_path / LOG) as log:
        log.rewind(3)
        for step in (5, 7):
            log.write({"step": step, "train_loss": 1.0 / step})
    assert (tmp_path / LOG).read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"train_loss": "abc"}, "line 2: `train_loss` is a number or null; got 'abc'"),
        ({"grad_norm": True}, "line 2: `grad_norm` is a number or null; got 'True'"),
        ({"train_loss": 10**400}, "line 2: `train_loss` is a number or null; got '1000"),
        ({"elapsed_seconds": []}, "line 2: `elapsed_seconds` is a number or null"),
        ({"inspect": 3}, "line 2: `inspect` is an object or null; got '3'"),
        ({"train_loss": float("inf")}, "line 2: `train_loss` is a number or null; got 'inf'"),
        ({"non_finite": "nan"}, "line 2: `non_finite` is an object of"),
        ({"non_finite": {"train_loss": []}}, "line 2: `non_finite` is an object of"),
        ({"non_finite_place": 3}, "line 2: `non_finite_place` is text or null"),
        ({"inspect": {"modules": {"a": {"mean": "b"}}}}, r"line 2: `inspect\.modules` is an object of the schema"),
        ({"inspect": {"gradients": {"a": {"l2": {}}}}}, r"line 2: `inspect\.gradients` is an object of the schema"),
        ({"inspect": {"gradients": []}}, r"line 2: `inspect\.gradients` is an object of the schema"),
        ({"inspect": {"modules": {"a": 1.0}}}, r"line 2: `inspect\.modules` is an object of the schema"),
        (
            {"inspect": {"dead_fraction": {"a": 1.7e308}}},
            r"line 2: a fraction lies in \[0, 1\]; .* of 'a' is 1\.7e\+308",
        ),
        ({"inspect": {"dead_fraction": {"a": None, "b": -0.1}}}, r"line 2: a fraction lies in \[0, 1\]; .* of 'b'"),
        ({"inspect": {"update_ratio": {"a": "b"}}}, r"line 2: `inspect\.update_ratio` is an object of the schema"),
        ({"step": True}, "line 2: a row has an integer `step`; got True"),
        ({"step": 10**20}, "line 2: a row has an integer `step`; got 1"),
        ({"step": -1}, "line 2: a row has an integer `step`; got -1"),
        ({"step": 1}, "line 2: steps increase from row to row; got 1 after 1"),
    ],
    ids=str,
)
def test_a_row_that_the_schema_does_not_allow_is_refused_by_line_and_key(tmp_path, edit, message):
    path = tmp_path / "log.jsonl"
    rows = [{"schema": 1, "step": 1}, {"schema": 1, "step": 2, **edit}]
    # 1e400 is how JSON can say infinity.
    path.write_text("".join(json.dumps(row).replace("Infinity", "1e400") + "\n" for row in rows), "utf-8")
    with pytest.raises(ValueError, match=message):
        list(read_log(path))


def test_a_line_nested_deeper_than_the_reader_goes_is_a_line_that_cannot_be_read(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("[" * 100_000 + "\n" + '{"schema":1,"step":1}\n', "utf-8")
    with pytest.raises(ValueError, match="line 1: a log holds one JSON object a line"):
        list(read_log(path))


def test_a_resumed_run_reads_the_rows_up_to_its_checkpoint(tmp_path):
    write_rows(tmp_path / LOG, [2, 3, 5, 7])
    assert [row["step"] for row in read_until(tmp_path / LOG, 5)] == [2, 3, 5]
    assert list(read_until(tmp_path / LOG, 0)) == list(read_until(tmp_path / "missing", 0)) == []


@pytest.mark.parametrize(("steps", "last"), [([2, 3], 3), ([2, 3, 7], 3), ([7], 0), ([], 0)])
def test_rows_missing_before_a_checkpoint_are_named(tmp_path, steps, last):
    write_rows(tmp_path / LOG, steps)
    with pytest.raises(ValueError, match=f"checkpoint, which is of step 5; the rows after step {last} up to that one"):
        list(read_until(tmp_path / LOG, 5))


def test_rows_are_on_the_disk_after_sync(tmp_path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    with LogWriter(tmp_path / LOG) as log:
        log.write({"step": 1})
        log.sync()
    assert synced == [(tmp_path / LOG).stat().st_size]


# --------------------------------------------------------------------------- the faster parser

ODD = (
    b'{"schema":1,"step":1,"train_loss":5e-324,"wall_time":"\\ud800 \\u2028","a_seconds":-0.0}',
    b'{"schema":1,"step":2,"train_loss":0.1,"train_loss":1.7976931348623157e308}',
    b' {"schema" : 1, "step":3, "grad_norm":2.2250738585072011e-308, "tokens":9223372036854775807} ',
    b'{"schema":1,"step":4,"train_loss":NaN}',
    b'{"schema":1,"step":4,"train_loss":1e400}',
    b'{"schema":1,"step":4,"train_loss":01}',
    b'{"schema":1,"step":4}{}',
    b"\xef\xbb\xbf{}",
    b'"\xff"',
    b"[" * 100_000,
)


@pytest.mark.parametrize("line", ODD, ids=range(len(ODD)))
def test_a_line_reads_the_same_with_and_without_the_faster_parser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    pytest.importorskip("orjson", reason="the extra [fast] is not installed")
    path = tmp_path / LOG
    path.write_bytes(line + b"\n" + b'{"schema":1,"step":5}\n')

    def read() -> str:
        try:
            return repr(list(read_log(path)))
        except ValueError as error:
            return str(error)

    fast = read()
    monkeypatch.setattr(log, "orjson", None)
    assert read() == fast
