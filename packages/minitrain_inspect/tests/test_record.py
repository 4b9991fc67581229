"""Series and Record: exact where they promise it, bounded in memory, and blind to what a row may lack."""

import itertools
import math
from pathlib import Path
from statistics import median

import pytest
from diagnosed_rows import course
from minitrain.diagnosis import Point, Record, Series
from minitrain.log import LogWriter, read_log


def series(values: list[float]) -> Series:
    made = Series()
    for step, value in enumerate(values, start=1):
        made.add(step, value)
    return made


@pytest.mark.parametrize("count", [1, 2, 511, 512, 513, 1024, 1025, 7001])
def test_a_series_keeps_ends_and_extremes_exactly_and_few_points(count: int) -> None:
    values = [math.sin(7.0 * place) for place in range(count)]
    made = series(values)
    assert (made.count, made.first, made.last) == (count, Point(1, values[0]), Point(count, values[-1]))
    assert made.lowest == Point(values.index(min(values)) + 1, min(values))
    assert made.highest == Point(values.index(max(values)) + 1, max(values))
    points = made.points
    assert len(points) <= 513
    assert all(values[step - 1] == value for step, value in points)
    gaps = {b.step - a.step for a, b in itertools.pairwise(points[:-1])}
    assert len(gaps) <= 1, "evenly spread"
    assert points[-1] == made.last
    if count <= 512:
        assert len(points) == count


def test_an_empty_series_has_nothing() -> None:
    empty = Series()
    assert empty.first is empty.last is empty.lowest is empty.highest is None
    assert empty.points == []
    assert empty.recent() is None
    assert empty.at(9) is None


def test_recent_is_a_median_of_the_last_points() -> None:
    made = series([9.0, 1.0, 2.0, 50.0])
    assert made.recent(0.0, 3) == 2.0
    assert made.recent(1.0) == 5.5
    assert made.recent(0.0, 5) is None


def test_the_value_at_a_step_is_the_last_one_up_to_it() -> None:
    made = Series()
    made.add(10, 0.5)
    made.add(20, 0.25)
    assert [made.at(step) for step in (9, 10, 19, 20, 99)] == [None, 0.5, 0.5, 0.25, 0.25]


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
        for group in (record.update_ratio, record.dead_fraction, record.gradient):
            lengths += [len(each._points) for each in group.values()]
        return max(lengths)

    assert kept(100) == 100
    assert kept(3000) <= 512
