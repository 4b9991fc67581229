"""Record: medians where it promises them, bounded in memory, and blind to what a row may lack."""

import itertools
import math
from pathlib import Path
from statistics import median

from diagnosed_rows import course
from minitrain.diagnosis import Point, Record
from minitrain.log import LogWriter, read_log


def test_smoothed_series_are_medians_of_five_rows() -> None:
    rows = course()
    record = Record(rows)
    losses = [row["train_loss"] for row in rows]
    assert [point.value for point in record.smooth_loss.points] == [
        median(losses[end - 5 : end]) for end in range(5, len(rows) + 1)
    ]
    updates = [median(row["inspect"]["update_ratio"].values()) for row in rows]
    assert [point.value for point in record.typical_update.points] == updates
    assert record.smooth_update.count == len(rows) - 4
    assert record.largest_update.first == Point(1, max(rows[0]["inspect"]["update_ratio"].values()))


def test_a_row_may_lack_everything_but_its_step() -> None:
    record = Record([{"step": 3}, {"step": 5, "inspect": {}}, {"step": 7, "inspect": {"gradients": {"w.grad": {}}}}])
    assert (record.rows, record.steps, record.non_finite) == (3, 7, None)
    assert record.first("train_loss") is None


def test_rows_of_the_loop_and_of_its_log_make_the_same_record(tmp_path: Path) -> None:
    rows = course()
    rows[-1]["train_loss"] = math.inf
    rows[-1]["inspect"]["update_ratio"]["embedding.E"] = math.nan
    with LogWriter(tmp_path / "log.jsonl") as writer:
        for row in rows:
            writer.write(row)
    handed, logged = Record(rows), Record(read_log(tmp_path / "log.jsonl"))
    assert handed.non_finite == logged.non_finite
    assert handed.non_finite is not None
    for key, ours in handed.scalars.items():
        assert ours.points == logged.scalars[key].points
    assert handed.smooth_update.points == logged.smooth_update.points


def test_memory_does_not_grow_with_the_rows() -> None:
    def kept(count: int) -> int:
        rows = itertools.islice(itertools.cycle(course(steps=60)), count)
        record = Record({**row, "step": place} for place, row in enumerate(rows, start=1))
        lengths = [len(each._points) for each in (*record.scalars.values(), record.smooth_loss, record.typical_update)]
        lengths += [len(each._kept) for each in (record.update_ratio, record.dead_fraction, record.gradient)]
        return max(lengths)

    assert kept(100) == 100
    assert kept(3000) <= 512
