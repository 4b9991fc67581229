"""Decimation: short series untouched, spikes and ends of long ones kept, gaps and marks where they were."""

from collections.abc import Set

import numpy as np
import pytest
from minitrain.dashboard.decimate import Decimator, Line, Point

NAN = float("nan")


NONE: frozenset[int] = frozenset()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_011)


def fed(values: list[float], buckets: int, *, stride: int = 1, gaps: Set[int] = NONE, bad: Set[int] = NONE) -> Line:
    decimator = Decimator(1, buckets)
    for row, value in enumerate(values):
        decimator.add(
            (row + 1) * stride, np.array([value]), gap=np.array([row in gaps]), not_finite=np.array([row in bad])
        )
    return decimator.line(0)


def test_rows_that_fit_are_kept_exactly(rng: np.random.Generator) -> None:
    values = rng.normal(size=13).tolist()
    line = fed(values, 14, stride=10)
    assert line.steps == [10 * (row + 1) for row in range(13)]
    assert line.values == values


@pytest.mark.parametrize("rows", [14, 15, 28, 29, 57, 1000, 4999])
def test_long_series_are_bounded_and_their_points_are_the_logs(rng: np.random.Generator, rows: int) -> None:
    values = rng.normal(size=rows).tolist()
    line = fed(values, 14)
    assert len(line.steps) <= 2 * (14 + 1) + 2
    assert line.steps == sorted(set(line.steps))
    assert line.values == [values[step - 1] for step in line.steps]
    assert (line.first, line.last) == (Point(1, values[0]), Point(rows, values[-1]))
    assert (line.steps[0], line.steps[-1]) == (1, rows)


@pytest.mark.parametrize("row", [0, 1, 499, 500, 997, 998])
@pytest.mark.parametrize("height", [1e6, -1e6])
def test_a_spike_of_one_row_survives_wherever_it_is(rng: np.random.Generator, row: int, height: float) -> None:
    values = rng.normal(size=999).tolist()
    values[row] = height
    line = fed(values, 10)
    assert Point(row + 1, height) in (line.low, line.high)
    assert line.values[line.steps.index(row + 1)] == height


def test_extremes_are_those_of_all_rows(rng: np.random.Generator) -> None:
    values = rng.normal(size=641).tolist()
    line = fed(values, 8)
    assert line.low == Point(int(np.argmin(values)) + 1, min(values))
    assert line.high == Point(int(np.argmax(values)) + 1, max(values))


def test_of_equal_extremes_the_first_is_kept() -> None:
    line = fed([3.0, 1.0, 1.0, 7.0, 2.0, 7.0, 1.0] * 29, 6)
    assert (line.low, line.high) == (Point(2, 1.0), Point(4, 7.0))


def test_every_bucket_keeps_the_range_of_its_rows(rng: np.random.Generator) -> None:
    values = np.cumsum(rng.normal(size=1024))
    line = fed(values.tolist(), 16)
    kept = dict(zip(line.steps, line.values, strict=True))
    for start in range(0, 1024, 64):  # 1024 rows in 16 buckets: 64 rows each
        inside = [kept[step] for step in range(start + 1, start + 65) if step in kept]
        assert min(inside) == values[start : start + 64].min()  # type: ignore[type-var]
        assert max(inside) == values[start : start + 64].max()  # type: ignore[type-var]


def test_a_sparse_series_keeps_every_point_and_has_no_gap() -> None:
    values = [float(row) if row % 100 == 0 else NAN for row in range(2000)]
    line = fed(values, 64)
    assert line.steps == [row + 1 for row in range(0, 2000, 100)]
    assert None not in line.values


def test_a_gap_breaks_the_line_and_is_counted() -> None:
    values = [1.0, 2.0, NAN, NAN, 5.0, NAN]
    line = fed(values, 8, gaps={2, 3})
    assert line.steps == [1, 2, 3, 4, 5]
    assert line.values == [1.0, 2.0, None, None, 5.0]
    assert (line.gaps, line.not_finite, line.marks) == (2, 0, [])


def test_a_gap_of_one_row_still_breaks_a_decimated_line() -> None:
    values = [float(row) for row in range(800)]
    values[397] = NAN
    line = fed(values, 8, gaps={397})
    assert line.values[line.steps.index(398)] is None
    assert line.gaps == 1


def test_marks_stand_at_the_value_logged_or_the_last_one_before() -> None:
    values = [NAN, 3.0, 7.0, NAN, NAN, 11.0]
    line = fed(values, 8, gaps={0, 3, 4}, bad={0, 2, 3, 4})
    assert line.marks == [(1, None), (3, 7.0), (4, 7.0), (5, 7.0)]
    assert line.not_finite == 4


def test_merged_buckets_mark_their_first_bad_row_and_count_them_all() -> None:
    values = [NAN if 500 <= row < 507 else 2.0 for row in range(1024)]
    line = fed(values, 16, gaps=set(range(500, 507)), bad=set(range(500, 507)))
    assert line.marks[0] == (501, 2.0)
    assert line.not_finite == 7


def test_columns_are_decimated_as_if_alone(rng: np.random.Generator) -> None:
    values = rng.normal(size=(333, 5))
    values[rng.random(size=values.shape) < 0.1] = NAN
    together = Decimator(5, 12)
    for row, row_values in enumerate(values):
        together.add(row, row_values, gap=np.isnan(row_values), not_finite=np.zeros(5, bool))
    for column in range(5):
        alone = Decimator(1, 12)
        for row, value in enumerate(values[:, column]):
            alone.add(row, np.array([value]), gap=np.array([np.isnan(value)]), not_finite=np.array([False]))
        assert together.line(column) == alone.line(0)


@pytest.mark.parametrize("start", [3, 5, 300])
def test_a_column_that_comes_late_loses_nothing(rng: np.random.Generator, start: int) -> None:
    values = rng.normal(size=331)
    decimator = Decimator(1, 6)
    for row, value in enumerate(values):
        if row == start:
            decimator.widen(2)
            decimator.widen(1)  # asking for fewer changes nothing
        now = np.array([value] if row < start else [value, -value])
        none = np.zeros(now.shape, bool)
        decimator.add(row, now, gap=none, not_finite=none)
    late = decimator.line(1)
    assert late.first == Point(start, -values[start])
    assert late.low == Point(start + int(np.argmax(values[start:])), -values[start:].max())
    assert decimator.line(0) == fed_from_zero(values.tolist())


def fed_from_zero(values: list[float]) -> Line:
    decimator = Decimator(1, 6)
    for row, value in enumerate(values):
        decimator.add(row, np.array([value]), gap=np.array([False]), not_finite=np.array([False]))
    return decimator.line(0)


def test_memory_does_not_depend_on_the_number_of_rows() -> None:
    decimator = Decimator(3, 4)
    none = np.zeros(3, bool)
    for step in range(5000):
        decimator.add(step, np.full(3, float(step)), gap=none, not_finite=none)
    assert decimator._buckets.low.shape == (4, 3)
    assert len(decimator.line(2).steps) <= 12


def test_a_column_that_was_never_seen_is_empty() -> None:
    assert fed([NAN, NAN, NAN], 2) == Line()


@pytest.mark.parametrize("buckets", [0, 1, 7])
def test_an_odd_number_of_buckets_is_refused(buckets: int) -> None:
    with pytest.raises(ValueError, match=rf"`buckets` is even and at least 2; got {buckets}"):
        Decimator(1, buckets)
