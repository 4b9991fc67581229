"""One pass over a log: values as logged, bands from raw rows, gaps and marks where they were, bounded size."""

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from minitrain.dashboard.decimate import Point
from minitrain.dashboard.series import BAND, LAYER_BUCKETS, LAYERS, SCALAR_BUCKETS, SCALARS, RunSeries, read_series
from minitrain.log import LogWriter

synthetic_run = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("synthetic_run.py"))))

Row = dict[str, Any]


def written(folder: Path, rows: list[Row]) -> Path:
    path = folder / "inspector.log.jsonl"
    with LogWriter(path) as writer:
        for row in rows:
            writer.write(row)
    return path


def read(folder: Path, rows: list[Row]) -> RunSeries:
    return read_series(written(folder, rows))


def bare(step: int, **values: Any) -> Row:
    return {"step": step, "train_loss": 1.0, **values}


def module(mean_abs: float | None, *, nan: int = 0, inf: int = 0) -> Row:
    return {"n": 0 if mean_abs is None else 7, "mean_abs": mean_abs, "nan": nan, "inf": inf}


def inspect(**parts: Any) -> Row:
    return {"modules": {}, "gradients": {}, "spectral_norm": {}, "dead_fraction": {}, "update_ratio": {}, **parts}


@pytest.fixture(scope="module")
def log() -> list[Row]:
    return synthetic_run.rows(count=97, layers=2, log_every=10)


def test_scalars_are_those_of_the_log(tmp_path: Path, log: list[Row]) -> None:
    series = read(tmp_path, log)
    for key in SCALARS:
        logged = {row["step"]: row[key] for row in log if row[key] is not None}
        drawn = {
            step: value
            for step, value in zip(series.scalars[key].steps, series.scalars[key].values, strict=True)
            if value is not None
        }
        assert drawn == logged, key


def test_layers_are_those_of_the_log(tmp_path: Path, log: list[Row]) -> None:
    series = read(tmp_path, log)
    for name in synthetic_run.module_names(2):
        line = series.layers["activation"].lines[name]
        assert line.values == [row["inspect"]["modules"][name]["mean_abs"] for row in log]
        assert line.steps == [row["step"] for row in log]
    for key in LAYERS[1:]:
        for name, line in series.layers[key].lines.items():
            logged = {row["step"]: row["inspect"][key][name] for row in log if row["inspect"][key][name] is not None}
            assert dict(zip(line.steps, line.values, strict=True)) == logged, (key, name)
    assert list(series.layers["update_ratio"].lines) == synthetic_run.matrix_names(2)


def test_the_run_is_summed_up(tmp_path: Path, log: list[Row]) -> None:
    series = read(tmp_path, log)
    assert (series.rows, series.first_step, series.last_step) == (97, 10, 970)
    assert series.tokens == log[-1]["tokens"]
    assert series.elapsed_seconds == log[-1]["elapsed_seconds"]
    assert series.inspected
    assert series.has_verbs
    assert series.not_finite is None


def test_bands_are_the_quantiles_of_each_row(tmp_path: Path, log: list[Row]) -> None:
    band = read(tmp_path, log).layers["activation"].band
    for index, row in enumerate(log):
        values = [stats["mean_abs"] for stats in row["inspect"]["modules"].values()]
        expected = np.quantile(values, [0.0, 0.1, 0.5, 0.9, 1.0])
        assert [band[name].values[index] for name in BAND] == pytest.approx(expected.tolist(), rel=1e-14)


def test_bands_leave_out_layers_without_a_value(tmp_path: Path) -> None:
    ratios = {"a": 3.0, "b": None, "c": 5.0, "d": 11.0}
    band = read(tmp_path, [bare(2, inspect=inspect(update_ratio=ratios))]).layers["update_ratio"].band
    assert [band[name].values for name in BAND] == [[3.0], [pytest.approx(3.4)], [5.0], [pytest.approx(9.8)], [11.0]]


def test_bands_are_taken_before_decimation(tmp_path: Path) -> None:
    # Each layer is noisy by a factor 30, the band across layers is narrow in every row.
    rng = np.random.default_rng(71)
    rows = []
    for step in range(1, 3 * SCALAR_BUCKETS):
        noise = float(np.exp(3.4 * rng.random()))
        rows.append(bare(step, inspect=inspect(update_ratio={f"w{k}": noise * (1 + 0.1 * k) for k in range(11)})))
    band = read(tmp_path, rows).layers["update_ratio"].band
    low, high = (dict(zip(band[name].steps, band[name].values, strict=True)) for name in ("p10", "p90"))
    common = sorted(low.keys() & high.keys())
    assert len(common) > SCALAR_BUCKETS
    assert [high[step] / low[step] for step in common] == pytest.approx([1.9 / 1.1] * len(common))  # type: ignore[operator]


def test_a_sparse_series_runs_on_and_a_missing_class_leaves_a_gap(tmp_path: Path) -> None:
    rows = [
        bare(2, val_loss=3.0, regular_loss=1.0, irregular_loss=2.0),
        bare(3, regular_loss=1.5),
        bare(5, val_loss=2.0, regular_loss=1.25, irregular_loss=1.75),
    ]
    scalars = read(tmp_path, rows).scalars
    assert (scalars["val_loss"].steps, scalars["val_loss"].values) == ([2, 5], [3.0, 2.0])
    assert scalars["regular_loss"].values == [1.0, 1.5, 1.25]
    assert scalars["irregular_loss"].values == [2.0, None, 1.75]
    assert (scalars["irregular_loss"].gaps, scalars["irregular_loss"].not_finite) == (1, 0)


def test_a_run_without_verbs_has_none_and_no_gaps(tmp_path: Path) -> None:
    series = read(tmp_path, [bare(2), bare(3)])
    assert not series.has_verbs
    assert series.scalars["regular_loss"].gaps == 0


def test_what_was_not_finite_is_a_gap_and_a_mark(tmp_path: Path) -> None:
    rows = [bare(2), bare(3, train_loss=float("nan")), bare(5, train_loss=float("inf")), bare(7)]
    series = read(tmp_path, rows)
    line = series.scalars["train_loss"]
    assert line.values == [1.0, None, None, 1.0]
    assert line.marks == [(3, 1.0), (5, 1.0)]
    assert line.not_finite == 2
    assert series.not_finite is not None
    assert (series.not_finite.step, series.not_finite.where, series.not_finite.kind) == (3, "train_loss", "nan")


def test_a_weight_statistic_that_was_not_finite_differs_from_one_not_measured(tmp_path: Path) -> None:
    rows = [
        bare(2, inspect=inspect(spectral_norm={"E": 2.0, "W": 3.0})),
        bare(3, inspect=inspect(spectral_norm={"E": None, "W": float("nan")})),
        bare(5, inspect=inspect(spectral_norm={"E": 2.5, "W": 3.5})),
    ]
    lines = read(tmp_path, rows).layers["spectral_norm"].lines
    assert (lines["E"].values, lines["E"].not_finite) == ([2.0, 2.5], 0)
    assert (lines["W"].values, lines["W"].not_finite) == ([3.0, None, 3.5], 1)


def test_a_module_with_some_bad_values_keeps_its_finite_mean_and_is_marked(tmp_path: Path) -> None:
    modules = {"act": module(2.0, nan=1, inf=1)}
    series = read(tmp_path, [bare(2, inspect=inspect(modules=modules))])
    line = series.layers["activation"].lines["act"]
    assert (line.values, line.marks, line.not_finite) == ([2.0], [(2, 2.0)], 1)


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        ({"Root", "blocks.0", "blocks.0.ffn", "blocks.1"}, "blocks.0.ffn"),
        ({"Root", "blocks.1"}, "blocks.1"),
        ({"Root"}, "Root"),
    ],
)
def test_the_first_bad_place_is_the_innermost_module(tmp_path: Path, bad: set[str], where: str) -> None:
    names = ["Root", "embedding", "blocks.0", "blocks.0.ffn", "blocks.1"]

    def row(step: int, nan: set[str]) -> Row:
        modules = {name: module(None if name in nan else 1.0, nan=7 * (name in nan)) for name in names}
        return bare(step, inspect=inspect(modules=modules, gradients={"E.grad": module(None, nan=3)} if nan else {}))

    found = read(tmp_path, [row(2, set()), row(3, bad), row(5, set(names))]).not_finite
    assert found is not None
    assert (found.step, found.where, found.kind) == (3, where, "nan")


def test_a_gradient_is_the_first_bad_place_when_no_module_is(tmp_path: Path) -> None:
    row = bare(
        2,
        grad_norm=float("inf"),
        inspect=inspect(modules={"a": module(1.0)}, gradients={"a.W.grad": module(None, inf=2)}),
    )
    found = read(tmp_path, [row]).not_finite
    assert found is not None
    assert (found.where, found.kind) == ("a.W.grad", "inf")


def test_modules_that_never_ran_are_unobserved_and_not_zero(tmp_path: Path) -> None:
    modules = {"used": module(0.0), "idle": module(None)}
    layers = read(tmp_path, [bare(2, inspect=inspect(modules=modules))]).layers["activation"]
    assert layers.unobserved == ("idle",)
    assert list(layers.observed) == ["used"]
    assert layers.lines["idle"].values == []


def test_a_name_that_comes_late_starts_late(tmp_path: Path) -> None:
    rows = [bare(2, inspect=inspect(modules={"a": module(1.0)}))]
    rows.append(bare(3, inspect=inspect(modules={"b": module(7.0), "a": module(2.0)})))
    lines = read(tmp_path, rows).layers["activation"].lines
    assert {name: (line.steps, line.values) for name, line in lines.items()} == {
        "a": ([2, 3], [1.0, 2.0]),
        "b": ([3], [7.0]),
    }


def test_rows_without_inspection_leave_layers_empty(tmp_path: Path) -> None:
    series = read(tmp_path, [bare(2, inspect=None)])
    assert not series.inspected
    assert all(not series.layers[key].lines for key in LAYERS)


def test_a_missing_log_reads_as_an_empty_run(tmp_path: Path) -> None:
    series = read_series(tmp_path / "inspector.log.jsonl")
    assert (series.rows, series.last_step, series.table) == (0, None, [])


def test_a_torn_last_row_is_left_out_and_a_torn_middle_one_is_an_error(tmp_path: Path, log: list[Row]) -> None:
    path = written(tmp_path, log)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    assert read_series(path).last_step == log[-2]["step"]
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[3][:50] + b"\n", *lines[4:]]))
    with pytest.raises(ValueError, match="line 4"):
        read_series(path)


def test_points_are_bounded_however_long_the_run_and_spikes_survive(tmp_path: Path) -> None:
    count = 2 * SCALAR_BUCKETS + 331
    rows = [bare(step, grad_norm=1.0, inspect=inspect(modules={"a": module(1.0)})) for step in range(1, count + 1)]
    rows[1234]["grad_norm"] = 99.0
    rows[2345]["inspect"] = inspect(modules={"a": module(77.0)})
    series = read(tmp_path, rows)
    norm, layer = series.scalars["grad_norm"], series.layers["activation"].lines["a"]
    assert len(norm.steps) <= 2 * SCALAR_BUCKETS + 4
    assert len(layer.steps) <= 2 * LAYER_BUCKETS + 4
    assert norm.high == Point(1235, 99.0)
    assert layer.high == Point(2346, 77.0)
    assert 99.0 in norm.values
    assert 77.0 in layer.values
    assert (layer.steps[0], layer.steps[-1]) == (1, count)


def test_more_layers_mean_fewer_points_each(tmp_path: Path) -> None:
    rng = np.random.default_rng(43)
    rows = [
        bare(step, inspect=inspect(update_ratio={f"w{k}": float(rng.random()) for k in range(701)}))
        for step in range(1, 150)
    ]
    lines = read(tmp_path, rows).layers["update_ratio"].lines
    assert len(lines) == 701
    assert sum(len(line.steps) for line in lines.values()) <= 44_000
    assert all(len(line.steps) >= 28 for line in lines.values())


@pytest.mark.parametrize("count", [1, 23, 24, 25, 49, 1000])
def test_the_table_spans_the_run_in_about_two_dozen_rows(tmp_path: Path, count: int) -> None:
    rows = [bare(step, train_loss=float(step), val_loss=2.0 if step % 7 == 0 else None) for step in range(1, count + 1)]
    series = read(tmp_path, rows)
    steps = [step for step, _ in series.table]
    assert (steps[0], steps[-1]) == (1, count)
    assert min(count, 12) <= len(steps) <= 25
    assert all(values["train_loss"] == step for step, values in series.table)
    assert all(values["val_loss"] == 2.0 for _, values in series.validation_table)
    assert len(series.validation_table) == min(count // 7, len(series.validation_table))
    if count >= 7:
        assert series.validation_table[-1][0] == count // 7 * 7
