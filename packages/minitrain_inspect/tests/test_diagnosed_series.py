"""Courses of numbers, one or many at once: exact where they promise it, evenly spread, and bounded."""

import itertools
import math

import numpy as np
import pytest
from minitrain.diagnosis import Point, Series, Table


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


@pytest.mark.parametrize("count", [1, 2, 511, 512, 513, 1024, 1025, 3001])
def test_each_course_of_a_table_is_that_of_a_series(count: int) -> None:
    rng = np.random.default_rng(count)
    columns = {name: rng.standard_normal(count).round(1).tolist() for name in ("a", "b", "c")}
    table = Table()
    for place, row in enumerate(zip(*columns.values(), strict=True)):
        table.add(place + 1, dict(zip(columns, row, strict=True)))
    assert list(table) == list(columns)
    for name, values in columns.items():
        alone, here = series(values), table[name]
        assert (here.count, here.first, here.last) == (alone.count, alone.first, alone.last)
        assert (here.lowest, here.highest) == (alone.lowest, alone.highest)
        assert here.points == alone.points
        assert here.tail(3) == alone.tail(3) == [Point(at + 1, values[at]) for at in range(count)][-3:]
        assert here.tail(20) == alone.tail(20)
        assert here.spans == alone.spans
        assert here.since_above(-9.0) == alone.since_above(-9.0) == 1
        assert here.recent() == alone.recent()
        assert here.at(count // 2) == alone.at(count // 2)


@pytest.mark.parametrize("count", [400, 3001, 7000])
@pytest.mark.parametrize("began", [17, 203, 380])
def test_a_condition_begins_where_it_does_and_rows_that_were_thinned_out_count(count: int, began: int) -> None:
    # One row in four shows it from the first on, those that are kept of a longer log; each row does from `began` on.
    values = [1.0 if place % 4 == 0 or place >= began - 1 else 0.0 for place in range(count)]
    table = Table()
    for place, value in enumerate(values):
        table.add(place + 1, {"a": value})
    alone = series(values)
    late = 0 if count <= 512 else math.ceil(count / 256)
    assert began <= alone.since_above(0.5) <= began + late
    assert table["a"].since_above(0.5) == alone.since_above(0.5)
    below = series([-value for value in values])
    assert below.since_below(-0.5) == alone.since_above(0.5)


@pytest.mark.parametrize("last", [1, 3, 8])
def test_the_last_rows_are_exact_however_long_the_log(last: int) -> None:
    values = [float(place >= 3000 - last) for place in range(3000)]
    assert series(values).since_above(0.5) == 3001 - last
    assert [point.step for point in series(values).tail(8)] == list(range(2993, 3001))


def test_the_last_values_of_a_course_with_gaps_are_exact_too() -> None:
    table = Table()
    for step in range(1, 3001):
        table.add(step, {"a": float(step) if step % 7 == 0 else None, **({"late": 1.0} if step > 2000 else {})})
    assert [point.step for point in table["a"].tail(3)] == [2982, 2989, 2996]
    assert table["late"].since_above(0.5) <= 2012


def test_names_may_turn_up_late_stay_away_and_change_their_order() -> None:
    table = Table()
    table.add(1, {"a": 1.0})
    table.add(2, {"b": 5.0, "a": None})
    table.add(3, {"a": math.inf, "b": math.nan})
    table.add(4, {})
    table.add(5, {"b": 2.0})
    table.add(6, {"c": None})
    assert {name: course.points for name, course in table.items()} == {
        "a": [Point(1, 1.0)],
        "b": [Point(2, 5.0), Point(5, 2.0)],
        "c": [],
    }
    assert (table["b"].lowest, table["b"].highest) == (Point(5, 2.0), Point(2, 5.0))
    assert table["c"].first is table["c"].last is table["c"].lowest is None
    assert [course.count for course in table.values()] == [1, 2, 0]
    assert "d" not in table
    with pytest.raises(KeyError):
        table["d"]


def test_the_last_value_is_kept_also_where_later_rows_have_none() -> None:
    table = Table()
    for step in range(1, 2002):
        table.add(step, {"a": float(step) if step <= 1003 else None})
    assert table["a"].points[-1] == table["a"].last == Point(1003, 1003.0)
    assert len(table["a"].points) <= 513
