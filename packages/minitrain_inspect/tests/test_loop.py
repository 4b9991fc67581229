"""The loop on models that are no transformers: what a row holds, when it is written, and how runs end.

Two models serve most tests. `Weight` has one number and a loss that is linear in it, so that every figure of a row can
be worked out by hand; `Network` has an activation, dropout and enough parameters for bits to differ.
"""

import copy
import itertools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from autograd_core import GELU, Dropout, Linear, Module, Parameter, ReLU, Tensor
from autograd_core import functional as F
from autograd_core.optim import SGD, AdamW, Optimizer, WarmupCosine
from minitrain.batches import IGNORED, Batch
from minitrain.inspect import Inspector
from minitrain.log import SCHEMA, LogWriter, read_log
from minitrain.loop import Progress, Row, TrainResult, evaluate, train

SYMBOLS, WIDTH, HIDDEN, EXAMPLES, LENGTH = 13, 5, 7, 3, 11


class Weight(Module):
    """One number, times whatever comes in."""

    def __init__(self, start: float = 2.0) -> None:
        self.w = Parameter([start])

    def forward(self, inputs: np.ndarray) -> Tensor:
        return self.w * inputs.astype(float)


def weight_objective(model: Module, batch: Batch) -> Tensor:
    return model(batch.inputs) * (batch.targets != IGNORED).astype(float)


def weight_batch(*rows: list[int], ignore: tuple[tuple[int, int], ...] = (), **kwargs: Any) -> Batch:
    """Inputs are what the weight is multiplied by; targets say only which positions count."""
    inputs = np.array(rows)
    targets = np.zeros_like(inputs)
    for place in ignore:
        targets[place] = IGNORED
    return Batch(inputs, targets, **kwargs)


class Fuse(Module):
    """Passes its input on until it has been called `calls` times while training; from then on it gives NaN."""

    def __init__(self, calls: float) -> None:
        self.calls = calls

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls -= 1
        return x * 1.0 if self.calls >= 0 else x * math.nan


class Network(Module):
    """Ids to logits, through a hidden layer with dropout."""

    def __init__(self, seed: int = 5, dropout: float = 0.2, calls: float = math.inf) -> None:
        rng = np.random.default_rng(seed)
        self.table = Parameter(rng.normal(size=(SYMBOLS, WIDTH)))
        self.up = Linear(WIDTH, HIDDEN, rng=rng)
        self.act = GELU()
        self.fuse = Fuse(calls)
        self.dropout = Dropout(dropout, rng=rng)
        self.down = Linear(HIDDEN, SYMBOLS, rng=rng)

    def forward(self, ids: np.ndarray) -> Tensor:
        return self.down(self.dropout(self.fuse(self.act(self.up(F.embedding(self.table, ids))))))


def network_objective(model: Module, batch: Batch) -> Tensor:
    return F.cross_entropy(model(batch.inputs), batch.targets, reduction="none")


def network_batches(seed: int = 1, *, examples: int = EXAMPLES, start: int = 0) -> Iterator[Batch]:
    """Batches in which a different number of positions counts each time."""
    for number in itertools.count(start):
        rng = np.random.default_rng([seed, number])
        ids = rng.integers(0, SYMBOLS, size=(examples, LENGTH + 1))
        ignored = (0.1, 0.6, 0.3)[number % 3]
        targets = np.where(rng.random((examples, LENGTH)) < ignored, IGNORED, ids[:, 1:])
        yield Batch(ids[:, :-1], targets)


def constant(rate: float) -> Callable[[int], float]:
    return lambda step: rate


def train_weight(model: Weight, batches: list[Batch], *, steps: int, rate: float = 0.5, **kwargs: Any) -> TrainResult:
    optimizer = SGD(model.parameters(), lr=0.0)
    return train(
        model, optimizer, constant(rate), itertools.cycle(batches), steps=steps, objective=weight_objective, **kwargs
    )


def train_network(model: Network, optimizer: Optimizer | None = None, **kwargs: Any) -> tuple[TrainResult, list[Row]]:
    rows: list[Row] = []
    settings: dict[str, Any] = {"steps": 6, "objective": network_objective, "log": rows.append, **kwargs}
    optimizer = optimizer or AdamW(model.parameters(), lr=0.0)
    batches = settings.pop("batches", None) or network_batches()
    schedule = settings.pop("schedule", WarmupCosine(1e-2, 1e-3, 3, 20))
    return train(model, optimizer, schedule, batches, **settings), rows


def weights(model: Module) -> dict[str, np.ndarray]:
    return model.state_dict()


def assert_same_bits(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys()
    assert [name for name in a if a[name].tobytes() != b[name].tobytes()] == []


def without_clock(row: Row, *others: str) -> Row:
    return {k: v for k, v in row.items() if not k.endswith(("_seconds", "_time")) and k not in others}


# --------------------------------------------------------------------------- what a row holds


def test_rows_by_hand() -> None:
    def row(**values: float | None) -> Row:
        constant = {"val_loss": None, "ngram_loss": 0.75, "uniform_loss": 1.25, "future_leak": None, "inspect": None}
        return {**constant, "regular_loss": None, "irregular_loss": None, "non_finite_place": None, **values}

    rows: list[Row] = []
    model = Weight(2.0)
    rates = [0.5, 0.5, 0.25]
    # Step 1: w 2, loss 2·(1+2+3)/3 = 4, gradient 2, w becomes 1. Step 2: the 6 is ignored, loss 1·4, gradient 4, w -1.
    # Step 3: loss -1·5, gradient 5, rate 0.25, w -2.25.
    batches = [weight_batch([1, 2, 3]), weight_batch([4, 6], ignore=((0, 1),)), weight_batch([5])]
    losses: list[tuple[int, float]] = []
    result = train(
        model,
        SGD(model.parameters(), lr=99.0),
        lambda step: rates[step],
        iter(batches),
        steps=3,
        objective=weight_objective,
        log=rows.append,
        log_every=5,
        baseline=0.75,
        uniform=1.25,
        leak=lambda: 0.25,
        on_step=lambda step, loss: losses.append((step, loss)),
    )
    assert [without_clock(row) for row in rows] == [
        row(step=1, tokens=3, train_loss=4.0, learning_rate=0.5, grad_norm=2.0, grad_norm_max=2.0, future_leak=0.25),
        # Since the last row: the gradients 4 and 5, the losses 4 and -5.
        row(step=3, tokens=5, train_loss=(4.0 - 5.0) / 2, learning_rate=0.25, grad_norm=5.0, grad_norm_max=5.0),
    ]
    assert losses == [(1, 4.0), (2, 4.0), (3, -5.0)]
    assert model.w.value.tolist() == [-2.25]
    assert (result.outcome, result.reason) == ("finished", "")
    assert (result.progress.step, result.progress.tokens, result.progress.train_loss) == (3, 5, -0.5)
    assert 0.0 <= rows[0]["elapsed_seconds"] <= rows[1]["elapsed_seconds"] == result.progress.elapsed_seconds


def test_a_row_has_the_keys_of_the_schema(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log.jsonl") as writer:
        rows: list[Row] = []
        train_weight(Weight(), [weight_batch([1])], steps=1, log=lambda row: (rows.append(row), writer.write(row)))
    assert rows[0].keys() == SCHEMA.keys() - {"schema", "non_finite"}
    assert [row["step"] for row in read_log(tmp_path / "log.jsonl")] == [1]


def test_gradient_norm_is_from_before_clipping_and_the_update_from_after() -> None:
    rows: list[Row] = []
    model = Weight(2.0)
    train_weight(model, [weight_batch([8])], steps=1, rate=1.0, grad_clip=2.0, log=rows.append)
    assert rows[0]["grad_norm"] == 8.0
    assert model.w.value[0] == pytest.approx(2.0 - 2.0, abs=1e-6)
    unclipped = Weight(2.0)
    train_weight(unclipped, [weight_batch([8])], steps=1, rate=1.0)
    assert unclipped.w.value.tolist() == [-6.0]


def test_the_schedule_is_asked_for_each_step_from_zero_and_the_optimiser_uses_its_answer() -> None:
    asked: list[int] = []
    optimizer_rates: list[float] = []
    model = Weight()
    optimizer = SGD(model.parameters(), lr=9.0)
    rows: list[Row] = []
    train(
        model,
        optimizer,
        lambda step: asked.append(step) or 0.125 * (step + 1),  # type: ignore[func-returns-value]
        itertools.cycle([weight_batch([1])]),
        steps=4,
        objective=weight_objective,
        log=rows.append,
        on_step=lambda step, loss: optimizer_rates.append(optimizer.lr),
    )
    assert asked == [0, 1, 2, 3]
    assert optimizer_rates == [0.125, 0.25, 0.375, 0.5] == [row["learning_rate"] for row in rows]
    assert model.w.value.tolist() == [2.0 - 1.25]


def test_training_runs_in_training_mode() -> None:
    model = Network().eval()
    seen: list[bool] = []

    def objective(model: Module, batch: Batch) -> Tensor:
        seen.extend(modes(model))
        return network_objective(model, batch)

    train_network(model, objective=objective, steps=1)
    assert len(seen) == 6
    assert all(seen)


def test_a_step_without_a_counted_position_has_loss_zero_and_moves_nothing() -> None:
    rows: list[Row] = []
    model = Weight()
    train_weight(model, [weight_batch([7, 3], ignore=((0, 0), (0, 1)))], steps=1, log=rows.append)
    assert (rows[0]["train_loss"], rows[0]["tokens"], rows[0]["grad_norm"]) == (0.0, 0, 0.0)
    assert model.w.value.tolist() == [2.0]


def test_gradients_of_parameters_that_the_optimiser_was_not_given_do_not_pile_up() -> None:
    model = Network(dropout=0.0)
    batch = next(network_batches())
    _, rows = train_network(
        model, SGD([model.down.bias], lr=0.0), batches=itertools.repeat(batch), schedule=constant(0.0)
    )
    assert len({row["grad_norm"] for row in rows}) == 1
    assert rows[0]["grad_norm"] > 0.0


# --------------------------------------------------------------------------- accumulation


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_accumulated_batches_equal_one_large_batch(kind: str) -> None:
    def optimizer(model: Module) -> Optimizer:
        if kind == "sgd":
            return SGD(model.parameters(), lr=0.0, momentum=0.9)
        return AdamW(model.parameters(), lr=0.0, weight_decay=0.1)

    def joined() -> Iterator[Batch]:
        parts = network_batches()
        while True:
            three = [next(parts) for _ in range(3)]
            # A mean of means would also agree if every part counted the same.
            assert len({part.counted for part in three}) > 1
            yield Batch(np.concatenate([p.inputs for p in three]), np.concatenate([p.targets for p in three]))

    apart, together = Network(dropout=0.0), Network(dropout=0.0)
    result, rows = train_network(apart, optimizer(apart), accumulate=3, steps=5)
    large_result, large_rows = train_network(together, optimizer(together), batches=joined(), steps=5)
    for name, value in weights(apart).items():
        np.testing.assert_allclose(value, weights(together)[name], rtol=1e-11, atol=1e-13)
    for row, large in zip(rows, large_rows, strict=True):
        assert row["train_loss"] == pytest.approx(large["train_loss"], rel=1e-13)
        assert row["grad_norm"] == pytest.approx(large["grad_norm"], rel=1e-12)
        assert row["tokens"] == large["tokens"]
    assert result.progress.step == large_result.progress.step == 5


def test_each_step_takes_as_many_batches_as_it_accumulates() -> None:
    batches = network_batches()
    train_network(Network(), batches=batches, accumulate=4, steps=3)
    expected = next(network_batches(start=12))
    assert np.array_equal(next(batches).inputs, expected.inputs)


# --------------------------------------------------------------------------- when rows are written


def test_rows_stand_at_the_first_step_multiples_validations_checkpoints_and_the_end() -> None:
    events: list[tuple[str, int]] = []
    rows: list[Row] = []

    def log(row: Row) -> None:
        rows.append(row)
        events.append(("row", row["step"]))

    result = train_weight(
        Weight(),
        [weight_batch([1])],
        steps=13,
        rate=0.0,
        log=log,
        log_every=4,
        validate=lambda: 0.5,
        val_every=5,
        checkpoint=lambda at: events.append(("checkpoint", at.step)),
        checkpoint_every=6,
    )
    assert [row["step"] for row in rows] == [1, 4, 5, 6, 8, 10, 12, 13]
    assert [row["step"] for row in rows if row["val_loss"] is not None] == [5, 10, 13]
    # A checkpoint follows the row of its step, so that a resumed log continues it.
    assert events == [
        ("row", 1),
        ("row", 4),
        ("row", 5),
        ("row", 6),
        ("checkpoint", 6),
        ("row", 8),
        ("row", 10),
        ("row", 12),
        ("checkpoint", 12),
        ("row", 13),
        ("checkpoint", 13),
    ]
    assert [row["tokens"] for row in rows] == [1, 4, 5, 6, 8, 10, 12, 13]
    assert result.progress.step == 13


def test_validation_and_checkpoint_come_at_the_end_whatever_the_rhythm() -> None:
    validated: list[int] = []
    saved: list[int] = []
    result = train_weight(
        Weight(),
        [weight_batch([1])],
        steps=3,
        validate=lambda: validated.append(1) or 0.5,  # type: ignore[func-returns-value]
        checkpoint=lambda at: saved.append(at.step),
    )
    assert (len(validated), saved) == (1, [3])
    assert result.progress.val_loss == 0.5


def test_the_lowest_validation_loss_is_kept_with_its_step() -> None:
    values = iter([3.0, 1.5, 2.0, 1.5])
    result = train_weight(Weight(), [weight_batch([1])], steps=7, validate=lambda: next(values), val_every=2)
    at = result.progress
    assert (at.val_loss, at.best_val_loss, at.best_step) == (1.5, 1.5, 4)


# --------------------------------------------------------------------------- losses by class


def labelled_batch(*labels: str, ignore: tuple[tuple[int, int], ...] = ()) -> Batch:
    """Losses of a weight of ln 2: ln 2 in rows of ones, ln 4 in rows of twos."""
    rows = [[2, 2] if label == "go" else [1, 1] for label in labels]
    return weight_batch(*rows, ignore=ignore, verb_labels=labels)


def test_losses_by_class_and_overall_with_an_ignored_token(tmp_path: Path) -> None:
    batch = labelled_batch("work", "play", "go", ignore=((0, 1), (1, 1), (2, 0)))
    regular_only = labelled_batch("work", "play", ignore=((0, 1),))
    with LogWriter(tmp_path / "log.jsonl") as writer:
        train_weight(Weight(math.log(2)), [batch, regular_only], steps=2, rate=0.0, log=writer.write)
    first, second = read_log(tmp_path / "log.jsonl")
    assert first["regular_loss"] == pytest.approx(0.693147, abs=1e-6)
    assert first["irregular_loss"] == pytest.approx(1.386294, abs=1e-6)
    assert first["train_loss"] == pytest.approx(0.924196, abs=1e-6)
    # Absent is null without a mark: a gap, not a loss that is not finite.
    assert second["regular_loss"] == pytest.approx(0.693147, abs=1e-6)
    assert second["irregular_loss"] is None
    assert "non_finite" not in second


def test_the_mean_of_a_class_is_over_its_examples_since_the_last_row() -> None:
    # Examples of 2 and 1 counted positions weigh the same in the class, and 2 to 1 in the loss of all.
    model = Weight(1.0)
    batches = [
        weight_batch([3, 5], [8, 8], ignore=((1, 0), (1, 1)), verb_labels=("work", "be")),
        weight_batch([10, 0], ignore=((0, 1),), verb_labels=("look",)),
    ]
    rows: list[Row] = []
    # Step 1 has a row of its own; the two batches follow.
    alone = weight_batch([7], verb_labels=("go",))
    train_weight(model, [alone, *batches], steps=3, rate=0.0, log=rows.append, log_every=3)
    first, row = rows
    assert (first["regular_loss"], first["irregular_loss"]) == (None, 7.0)
    assert row["regular_loss"] == (4.0 + 10.0) / 2
    assert row["train_loss"] == 18.0 / 3
    # "be" had no counted position: no loss, which is not a loss of 0.
    assert row["irregular_loss"] is None


def test_a_class_that_is_there_and_nan_is_not_taken_for_absent(tmp_path: Path) -> None:
    def objective(model: Module, batch: Batch) -> Tensor:
        broken = np.array([[label == "go"] for label in batch.verb_labels or ()])
        return weight_objective(model, batch) * np.where(broken, math.nan, 1.0)

    model = Weight()
    with LogWriter(tmp_path / "log.jsonl") as writer:
        result = train(
            model,
            SGD(model.parameters(), lr=0.0),
            constant(0.5),
            itertools.repeat(labelled_batch("work", "go")),
            steps=3,
            objective=objective,
            log=writer.write,
        )
    (row,) = read_log(tmp_path / "log.jsonl")
    assert result.outcome == "non-finite"
    assert row["regular_loss"] == 2.0
    assert row["irregular_loss"] is None
    assert row["non_finite"] == dict.fromkeys(("train_loss", "grad_norm", "grad_norm_max", "irregular_loss"), "nan")
    assert row["non_finite_place"] == "the gradient of w"


# --------------------------------------------------------------------------- stopping


def stopped_by_the_fuse(
    inspected: int | None, log: Callable[[Row], None] | None = None
) -> tuple[TrainResult, Any, Any]:
    """A run whose third step meets NaN; with what weights and moments were after the second, and are at the end."""
    model = Network(calls=2)
    optimizer = AdamW(model.parameters(), lr=0.0)
    inspector = None
    if inspected is not None:
        inspector = Inspector(model, model.parameters(), every=inspected)
        inspector.watch()
    states: dict[int, Any] = {}

    def remember(step: int, loss: float) -> None:
        states.setdefault(step, copy.deepcopy((weights(model), optimizer.state_dict())))

    result, _ = train_network(
        model,
        optimizer,
        inspector=inspector,
        on_step=remember,
        **({} if log is None else {"log": log}),
    )
    assert list(states) == [1, 2]
    return result, states[2], (weights(model), optimizer.state_dict())


@pytest.mark.parametrize(
    ("inspected", "place"),
    [
        (1, "fuse at step 3"),
        # Every third step, from the first on, is observed: the third is not.
        (3, "the gradient of table"),
        (None, "the gradient of table"),
    ],
)
def test_a_run_stops_before_an_update_that_is_not_finite_and_says_where(inspected: int | None, place: str) -> None:
    result, before, after = stopped_by_the_fuse(inspected)
    assert result.outcome == "non-finite"
    assert result.reason == f"step 3: the first NaN or infinity was seen in {place}"
    assert result.progress.step == 2
    assert_same_bits(before[0], after[0])
    moments_before, moments_after = before[1]["parameters"], after[1]["parameters"]
    assert [entry["steps"] for entry in moments_after] == [2] * len(moments_after)
    for old, new in zip(moments_before, moments_after, strict=True):
        assert old["m"].any()
        assert np.array_equal(old["m"], new["m"])
        assert np.array_equal(old["v"], new["v"])


def test_the_step_that_failed_has_a_row_that_the_log_can_write(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log.jsonl") as writer:
        stopped_by_the_fuse(1, writer.write)
    lines = (tmp_path / "log.jsonl").read_text("utf-8").splitlines()
    assert not any("NaN" in line or "Infinity" in line for line in lines)
    rows = list(read_log(tmp_path / "log.jsonl"))
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all(math.isfinite(row["train_loss"]) and "non_finite" not in row for row in rows[:2])
    last = rows[-1]
    assert (last["train_loss"], last["grad_norm"]) == (None, None)
    assert last["non_finite"] == {"train_loss": "nan", "grad_norm": "nan", "grad_norm_max": "nan"}
    assert [row["non_finite_place"] for row in rows] == [None, None, "fuse"]
    modules = last["inspect"]["modules"]
    assert (modules["up"]["nan"], modules["up"]["n"]) == (0, EXAMPLES * LENGTH * HIDDEN)
    assert (modules["fuse"]["nan"], modules["fuse"]["n"]) == (EXAMPLES * LENGTH * HIDDEN, 0)


def test_a_parameter_that_is_not_finite_is_named_before_the_gradients() -> None:
    model = Network(dropout=0.0)
    model.down.bias.value[4] = math.inf
    with np.errstate(invalid="ignore"):
        result, _ = train_network(model)
    assert result.reason == "step 1: the first NaN or infinity was seen in the parameter down.bias"


def test_a_gradient_that_overflows_stops_the_run_though_the_loss_is_finite() -> None:
    def objective(model: Module, batch: Batch) -> Tensor:
        return weight_objective(model, batch) * 1e200 * 1e200

    model = Weight(0.0)
    rows: list[Row] = []
    with np.errstate(over="ignore"):
        result = train(
            model,
            SGD(model.parameters(), lr=0.0),
            constant(0.5),
            itertools.repeat(weight_batch([1])),
            steps=2,
            objective=objective,
            log=rows.append,
        )
    assert result.reason == "step 1: the first NaN or infinity was seen in the gradient of w"
    assert (rows[-1]["train_loss"], rows[-1]["grad_norm"]) == (0.0, math.inf)
    assert model.w.value.tolist() == [0.0]


def test_a_loss_that_is_not_finite_stops_the_run_though_the_gradients_are() -> None:
    def objective(model: Module, batch: Batch) -> Tensor:
        return weight_objective(model, batch) + math.inf

    model = Weight()
    result = train(
        model,
        SGD(model.parameters(), lr=0.0),
        constant(0.5),
        itertools.repeat(weight_batch([1])),
        steps=2,
        objective=objective,
    )
    assert result.reason == "step 1: the first NaN or infinity was seen in the loss"
    assert model.w.value.tolist() == [2.0]


def test_a_validation_loss_that_is_not_finite_ends_the_run_without_a_checkpoint() -> None:
    values = iter([1.5, math.nan])
    saved: list[int] = []
    rows: list[Row] = []
    result = train_weight(
        Weight(),
        [weight_batch([1])],
        steps=9,
        validate=lambda: next(values),
        val_every=2,
        checkpoint=lambda at: saved.append(at.step),
        checkpoint_every=2,
        log=rows.append,
    )
    assert result.reason == "step 4: the first NaN or infinity was seen in the validation loss"
    assert (result.outcome, saved) == ("non-finite", [2])
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    # NaN is not taken for the best, and does not wipe it out.
    assert (result.progress.best_val_loss, result.progress.best_step) == (1.5, 2)


def test_a_stop_condition_ends_the_run_at_its_row_and_leaves_a_checkpoint() -> None:
    heard: list[int] = []
    saved: list[int] = []

    def stop(row: Row) -> str | None:
        heard.append(row["step"])
        return "low enough" if row["train_loss"] < 0.0 else None

    # Losses 2, 1.5, 1, 0.5, 0, -0.5 as the weight loses a half a step.
    model = Weight(2.0)
    result = train_weight(
        model, [weight_batch([1])], steps=99, log_every=2, stop=stop, checkpoint=lambda at: saved.append(at.step)
    )
    assert (result.outcome, result.reason, result.progress.step) == ("stopped", "low enough", 6)
    assert heard == [1, 2, 4, 6]
    assert saved == [6]
    assert model.w.value.tolist() == [-1.0]


# --------------------------------------------------------------------------- validation


def modes(model: Module) -> list[bool]:
    return [module.training for module in model.modules()]


def mixed_modes(model: Network) -> list[bool]:
    model.train()
    model.up.training = False  # a module that somebody froze
    return modes(model)


def test_evaluate_gives_the_mean_over_counted_positions() -> None:
    batches = [weight_batch([1, 2], [3, 4], ignore=((0, 1),)), weight_batch([100, 6], ignore=((0, 0),))]
    assert evaluate(Weight(0.5), batches, weight_objective) == 0.5 * (1 + 3 + 4 + 6) / 4
    assert evaluate(Weight(), [weight_batch([1], ignore=((0, 0),))], weight_objective) == 0.0


def test_evaluate_is_without_dropout_gradients_and_traces() -> None:
    model = Network(dropout=0.5)
    batches = list(itertools.islice(network_batches(), 3))
    before = mixed_modes(model)
    seen: list[tuple[list[bool], bool]] = []

    def objective(model: Module, batch: Batch) -> Tensor:
        losses = network_objective(model, batch)
        seen.append((modes(model), losses.requires_grad))
        return losses

    generator = copy.deepcopy(model.dropout.rng.bit_generator.state)
    first = evaluate(model, batches, objective)
    assert first == evaluate(model, batches, network_objective)
    assert modes(model) == before
    assert seen == [([False] * len(before), False)] * 3
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.dropout.rng.bit_generator.state == generator
    model.eval()
    assert evaluate(model, batches, network_objective) == first
    assert not any(modes(model))


def test_evaluate_restores_the_modes_after_an_exception() -> None:
    def failing() -> Iterator[Batch]:
        yield next(network_batches())
        raise OSError("the disk went away")

    model = Network()
    before = mixed_modes(model)
    with pytest.raises(OSError, match="went away"):
        evaluate(model, failing(), network_objective)
    assert modes(model) == before
    # Gradients are on again.
    network_objective(model, next(network_batches())).sum().backward()
    assert model.table.grad is not None


def test_how_often_a_run_is_validated_changes_no_bit_of_it() -> None:
    held_out = list(itertools.islice(network_batches(99), 2))
    trained = []
    for val_every in (0, 1, 4):
        model = Network(dropout=0.5)
        _, rows = train_network(
            model, validate=lambda m=model: evaluate(m, held_out, network_objective), val_every=val_every, log_every=1
        )
        trained.append((weights(model), [without_clock(row, "val_loss") for row in rows]))
    for other in trained[1:]:
        assert_same_bits(other[0], trained[0][0])
        assert other[1] == trained[0][1]


def test_validation_leaves_the_training_statistics_alone() -> None:
    model = Network()
    held_out = list(itertools.islice(network_batches(99, examples=101), 2))
    inspector = Inspector(model, model.parameters())
    inspector.watch()
    _, rows = train_network(
        model,
        inspector=inspector,
        steps=1,
        validate=lambda: evaluate(model, held_out, network_objective),
        batches=network_batches(examples=4),
    )
    assert rows[0]["val_loss"] is not None
    assert rows[0]["inspect"]["modules"]["up"]["n"] == 4 * LENGTH * HIDDEN
    assert rows[0]["inspect"]["gradients"]["up.weight.grad"]["n"] == WIDTH * HIDDEN


# --------------------------------------------------------------------------- the Inspector


@pytest.mark.parametrize("settings", [{}, {"every": 3}, {"spectral_every": 1}, {"every": 2, "spectral_every": 3}])
def test_a_run_is_bit_identical_with_and_without_inspector(settings: dict[str, int]) -> None:
    def run(inspected: bool) -> tuple[dict[str, np.ndarray], Any, list[Row], Any]:
        model = Network(dropout=0.3)
        optimizer = AdamW(model.parameters(), lr=0.0)
        inspector = Inspector(model, model.parameters(), **settings) if inspected else None
        if inspector is not None:
            inspector.watch()
        _, rows = train_network(
            model, optimizer, steps=20, accumulate=2, grad_clip=0.5, inspector=inspector, log_every=5
        )
        return weights(model), optimizer.state_dict()["parameters"], rows, model.dropout.rng.bit_generator.state

    shared = np.random.get_state()[1].tobytes()  # noqa: NPY002 - that it stays untouched is the point
    with_inspector, without = run(True), run(False)
    assert np.random.get_state()[1].tobytes() == shared  # noqa: NPY002
    assert_same_bits(with_inspector[0], without[0])
    for ours, theirs in zip(with_inspector[1], without[1], strict=True):
        assert ours["steps"] == theirs["steps"] == 20
        assert ours["m"].tobytes() == theirs["m"].tobytes()
        assert ours["v"].tobytes() == theirs["v"].tobytes()
    assert [without_clock(row, "inspect") for row in with_inspector[2]] == [
        without_clock(row, "inspect") for row in without[2]
    ]
    assert [row["inspect"] is None for row in with_inspector[2]] == [False] * 5
    assert [row["inspect"] is None for row in without[2]] == [True] * 5
    assert with_inspector[3] == without[3]


def test_statistics_run_from_row_to_row_and_gradients_are_whole() -> None:
    model = Network()
    inspector = Inspector(model, model.parameters(), spectral_every=2)
    inspector.watch()
    _, rows = train_network(model, inspector=inspector, steps=7, log_every=3, accumulate=2)
    found = [row["inspect"] for row in rows]
    steps = [1, 2, 3, 1]
    assert [row["step"] for row in rows] == [1, 3, 6, 7]
    assert [each["modules"]["up"]["n"] for each in found] == [s * 2 * EXAMPLES * LENGTH * HIDDEN for s in steps]
    # Once a step, not once a batch.
    assert [each["gradients"]["table.grad"]["n"] for each in found] == [s * SYMBOLS * WIDTH for s in steps]
    assert [each["spectral_norm"]["table"] is None for each in found] == [False, True, False, True]
    assert all(each["update_ratio"]["up.weight"] > 0.0 for each in found)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_inspector_is_told_the_padding_of_each_batch() -> None:
    class Gate(Module):
        """A hidden unit that only a 9 wakes."""

        def __init__(self) -> None:
            self.w = Parameter([1.0])
            self.act = ReLU()

        def forward(self, inputs: np.ndarray) -> Tensor:
            hidden = self.act(self.w * (inputs.astype(float)[..., np.newaxis] - 8.5))  # (B, T, 1)
            return hidden.sum(axis=-1)

    def dead(mask: list[list[bool]] | None) -> float:
        model = Gate()
        inspector = Inspector(model, model.parameters())
        inspector.watch()
        pad_mask = None if mask is None else np.array(mask)
        batch = weight_batch([1, 9], ignore=((0, 1),), pad_mask=pad_mask)
        rows: list[Row] = []
        train(
            model,
            SGD(model.parameters(), lr=0.0),
            constant(0.0),
            itertools.repeat(batch),
            steps=2,
            objective=weight_objective,
            inspector=inspector,
            log=rows.append,
        )
        fractions = {row["inspect"]["dead_fraction"]["act"] for row in rows}
        assert len(fractions) == 1
        return float(fractions.pop())

    assert dead([[True, False]]) == 1.0
    assert dead([[True, True]]) == 0.0
    assert dead(None) == 0.0


# --------------------------------------------------------------------------- resuming and refusals


def test_a_run_in_two_parts_equals_one() -> None:
    held_out = list(itertools.islice(network_batches(99), 2))

    def settings(model: Network) -> dict[str, Any]:
        return {"validate": lambda: evaluate(model, held_out, network_objective), "val_every": 3, "accumulate": 2}

    whole = Network()
    result, rows = train_network(whole, steps=11, **settings(whole))

    parts = Network()
    optimizer, batches, progress = AdamW(parts.parameters(), lr=0.0), network_batches(), Progress()
    _, first = train_network(parts, optimizer, steps=4, batches=batches, progress=progress, **settings(parts))
    assert progress.step == 4
    progress.elapsed_seconds = 1000.0
    again, second = train_network(parts, optimizer, steps=11, batches=batches, progress=progress, **settings(parts))
    assert_same_bits(weights(whole), weights(parts))
    assert again.progress is progress
    assert [row["step"] for row in first + second] == list(range(1, 12))
    # The first part validated at its end, step 4, which the whole run did not.
    assert [without_clock(row, "val_loss") for row in first + second] == [
        without_clock(row, "val_loss") for row in rows
    ]
    assert [row["val_loss"] for row in second] == [row["val_loss"] for row in rows[4:]]
    assert (progress.tokens, progress.best_step) == (result.progress.tokens, result.progress.best_step)
    assert all(row["elapsed_seconds"] > 1000.0 for row in second)


def test_a_finished_run_resumed_does_nothing() -> None:
    model = Weight()
    done = Progress(step=5, tokens=8, train_loss=0.25)
    rows: list[Row] = []
    result = train_weight(model, [], steps=5, progress=done, log=rows.append, checkpoint=lambda at: rows.append({}))
    assert (result.outcome, result.progress, rows) == ("finished", done, [])
    assert model.w.value.tolist() == [2.0]


@pytest.mark.parametrize(
    ("objective", "got"),
    [
        (lambda model, batch: weight_objective(model, batch).mean(), r"got \(\)"),
        (lambda model, batch: weight_objective(model, batch).sum(axis=0), r"got \(3,\)"),
    ],
)
def test_an_objective_of_another_shape_is_refused(objective: Any, got: str) -> None:
    model = Weight()
    with pytest.raises(ValueError, match=rf"one loss a target, shape \(2, 3\); {got}. Use reduction=\"none\"\."):
        train(
            model,
            SGD(model.parameters(), lr=0.0),
            constant(0.5),
            itertools.repeat(weight_batch([1, 2, 3], [4, 5, 6])),
            steps=1,
            objective=objective,
        )
    assert model.w.value.tolist() == [2.0]


@pytest.mark.parametrize("name", ["steps", "accumulate", "log_every"])
def test_counts_below_one_are_refused(name: str) -> None:
    settings: dict[str, Any] = {"steps": 3, name: 0}
    with pytest.raises(ValueError, match=rf"train: {name} must be 1 or more; got 0\."):
        train_weight(Weight(), [weight_batch([1])], **settings)


def test_batches_that_end_are_an_error_and_not_a_silent_stop() -> None:
    model = Weight()
    with pytest.raises(ValueError, match="batches must be endless; the iterator ended before the steps did"):
        train(
            model,
            SGD(model.parameters(), lr=0.0),
            constant(0.5),
            iter([weight_batch([1])] * 3),
            steps=2,
            accumulate=2,
            objective=weight_objective,
        )
