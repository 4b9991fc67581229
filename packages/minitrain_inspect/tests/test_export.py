"""The log for other tools: every number as it was, what is missing absent, what is not finite there as such."""

import builtins
import csv
import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
import synthetic_run
from minitrain.export import write_csv, write_tensorboard
from minitrain.log import read_log

STARTED = 1_700_000_000


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rows = synthetic_run.rows(count=13, layers=1)
    rows[4]["grad_norm"] = float("nan")
    rows[7]["inspect"]["modules"]["blocks.0.ffn"].update(mean_abs=float("inf"), std=float("-inf"), inf=3)
    for row in rows[9:]:
        row["inspect"]["modules"]['late, "quoted"\ud800'] = row["inspect"]["modules"]["embedding"]
    rows[11]["inspect"] = None
    folder = synthetic_run.write_run(tmp_path / "run", rows)
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    began = "2023-11-14T22:13:20+00:00"
    (folder / "manifest.json").write_text(json.dumps(manifest | {"created_time": began}), "utf-8")
    return folder


def logged(run: Path) -> list[dict[str, Any]]:
    return list(read_log(run / "inspector.log.jsonl"))


def flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


# --------------------------------------------------------------------------- CSV


def test_every_number_of_the_log_is_in_its_cell(run: Path, tmp_path: Path) -> None:
    assert write_csv(run, tmp_path / "log.csv") == tmp_path / "log.csv"
    with (tmp_path / "log.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    rows = logged(run)
    assert len(lines) == len(rows)
    numbers = 0
    for line, row in zip(lines, rows, strict=True):
        bad = row.pop("non_finite", {})
        for key, value in flat(row).items():
            if key == "inspect":
                continue
            cell = line[key.encode("ascii", "backslashreplace").decode()]
            if value is None:
                assert cell == bad.get(key, ""), key
            else:
                assert type(value)(cell) == value, key
                numbers += 1
    assert numbers > 13 * 50
    assert lines[4]["grad_norm"] == "nan"
    assert (lines[7]["inspect.modules.blocks.0.ffn.mean_abs"], lines[7]["inspect.modules.blocks.0.ffn.std"]) == (
        *("inf", "-inf"),
    )


def test_columns_stand_in_the_order_of_the_log_and_late_ones_last(run: Path, tmp_path: Path) -> None:
    write_csv(run, tmp_path / "log.csv")
    with (tmp_path / "log.csv").open(encoding="utf-8", newline="") as file:
        header, *_ = csv.reader(file)
    assert header[:4] == ["schema", "step", "tokens", "train_loss"]
    assert "non_finite" not in header
    assert all(name.startswith('inspect.modules.late, "quoted"\\ud800.') for name in header[-9:])
    assert len(header) == len(set(header))


def test_an_older_file_is_replaced_whole_or_not_at_all(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "log.csv"
    target.parent.mkdir()
    target.write_text("old", "utf-8")
    log = run / "inspector.log.jsonl"
    log.write_bytes(b"no row\n" + log.read_bytes())
    with pytest.raises(ValueError, match="line 1: a log holds one JSON object a line"):
        write_csv(run, target)
    assert [(path.name, path.read_text("utf-8")) for path in target.parent.iterdir()] == [("log.csv", "old")]


# --------------------------------------------------------------------------- TensorBoard


def events(folder: Path) -> list[Any]:
    """The events of the one file, by the record format: length, its checksum, bytes, their checksum."""
    from tensorboardX.proto.event_pb2 import Event

    (file,) = folder.iterdir()
    data, found, at = file.read_bytes(), [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        found.append(Event.FromString(data[at + 12 : at + 12 + length]))
        at += 12 + length + 4
    return found


def test_tensorboard_gets_every_row_with_its_step_time_and_numbers(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the extra [tensorboard] is not installed")
    assert write_tensorboard(run, tmp_path / "board") == tmp_path / "board"
    version, *written = events(tmp_path / "board")
    assert version.file_version == "brain.Event:2"
    rows = logged(run)
    assert [event.step for event in written] == [row["step"] for row in rows]
    for event, row in zip(written, rows, strict=True):
        assert event.wall_time == pytest.approx(STARTED + row["elapsed_seconds"])
        values = {value.tag: value.simple_value for value in event.summary.value}
        assert values["loss/train"] == pytest.approx(row["train_loss"], rel=1e-6)
        assert ("loss/validation" in values) == (row["val_loss"] is not None)
        if row["inspect"] is None:
            assert not any(tag.startswith("activation/") for tag in values)
            continue
        for name, ratio in row["inspect"]["update_ratio"].items():
            assert values[f"update_ratio/{name}"] == pytest.approx(ratio, rel=1e-6)
        gradient = row["inspect"]["gradients"]["embedding.E.grad"]["l2"]
        assert values["gradient_l2/embedding.E.grad"] == pytest.approx(gradient, rel=1e-6)
        assert ("spectral_norm/embedding.E" in values) == (row["inspect"]["spectral_norm"]["embedding.E"] is not None)
    by_step = [{value.tag: value.simple_value for value in event.summary.value} for event in written]
    assert math.isnan(by_step[4]["gradient/norm"])
    assert by_step[7]["activation/blocks.0.ffn"] == math.inf
    assert 'activation/late, "quoted"?' in by_step[12]


def test_the_event_file_says_nothing_of_the_machine(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the extra [tensorboard] is not installed")
    write_tensorboard(run, tmp_path / "board")
    assert [file.name for file in (tmp_path / "board").iterdir()] == [f"events.out.tfevents.{STARTED}.minitrain"]


def test_a_folder_that_holds_something_is_refused(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the extra [tensorboard] is not installed")
    (tmp_path / "board").mkdir()
    write_tensorboard(run, tmp_path / "board")
    before = {path: path.read_bytes() for path in (tmp_path / "board").iterdir()}
    with pytest.raises(ValueError, match=r"must be new or empty, .* is not\. Name another\."):
        write_tensorboard(run, tmp_path / "board")
    assert {path: path.read_bytes() for path in (tmp_path / "board").iterdir()} == before


def test_a_damaged_log_leaves_no_folder(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the extra [tensorboard] is not installed")
    log = run / "inspector.log.jsonl"
    log.write_bytes(b"no row\n" + log.read_bytes())
    before = set(tmp_path.iterdir())
    with pytest.raises(ValueError, match="line 1"):
        write_tensorboard(run, tmp_path / "board")
    assert set(tmp_path.iterdir()) == before


def test_a_missing_extra_is_named_with_what_installs_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("tensorboardX"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        ValueError,
        match=r"events need the extra \[tensorboard\], which is not installed\. .*minitrain_inspect\[tensorboard\]'\.$",
    ):
        write_tensorboard(run, tmp_path / "board")
    assert not (tmp_path / "board").exists()


@pytest.mark.parametrize("export", [write_csv, write_tensorboard])
def test_a_folder_without_a_log_is_refused(export: Any, tmp_path: Path) -> None:
    if export is write_tensorboard:
        pytest.importorskip("tensorboardX", reason="the extra [tensorboard] is not installed")
    with pytest.raises(ValueError, match=r"a run folder must hold inspector\.log\.jsonl; .* does not\."):
        export(tmp_path, tmp_path / "out")
