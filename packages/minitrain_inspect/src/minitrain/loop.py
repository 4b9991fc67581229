"""The training loop: forward, backward, clip, update, observe, log, validate, checkpoint.

It trains any model made of `autograd_core` modules on any iterator of `Batch`es. What a run is *for* comes in as
arguments: an objective, a validation function, somewhere to put rows, somewhere to put checkpoints. Read `train` from
the top; the few things it carries from step to step are in `Progress`, and the sums since the last row in `_Window`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from autograd_core import Module, Tensor, no_grad
from autograd_core.optim import Optimizer, clip_grad_norm

from .batches import IGNORED, Batch
from .per_class_loss import IRREGULAR_VERBS, REGULAR_VERBS, partition_batch_loss

if TYPE_CHECKING:
    from .inspect import Inspector

Row = dict[str, Any]
"""One row of the log; its keys are those of `log.SCHEMA`."""

Objective = Callable[[Module, Batch], Tensor]
"""From a model and a batch to the loss of each target position, shape `batch.targets.shape`, 0 where ignored."""


def model_loss(model: Module, batch: Batch) -> Tensor:
    """Loss of each target position, in nats, of a model with MiniGPT's `loss` method."""
    losses: Tensor = model.loss(batch.inputs, batch.targets, pad_mask=batch.pad_mask, reduction="none")
    return losses


@dataclass(slots=True)
class Progress:
    """Where a run stands: plain numbers, so that a checkpoint can keep them as JSON.

    Attributes
    ----------
    step : int
        Optimiser steps finished.
    tokens : int
        Target positions counted.
    train_loss : float or None
        Of the last row, nats per target position.
    val_loss, best_val_loss : float or None
        The last and the lowest validation loss.
    best_step : int or None
        Where the lowest was measured.
    elapsed_seconds : float
        Wall clock spent in the loop, earlier parts of a resumed run included.
    """

    step: int = 0
    tokens: int = 0
    train_loss: float | None = None
    val_loss: float | None = None
    best_val_loss: float | None = None
    best_step: int | None = None
    elapsed_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TrainResult:
    """How a run ended.

    Attributes
    ----------
    outcome : str
        "finished", "stopped" (a stop condition spoke) or "non-finite".
    reason : str
        Empty when finished; else a sentence naming step and place.
    progress : Progress
    """

    outcome: str
    reason: str
    progress: Progress


class _Window:
    """What has been summed since the last row."""

    def __init__(self) -> None:
        self.loss = 0.0
        self.tokens = 0
        self.grad_norm_max = 0.0
        self.example_losses: list[npt.NDArray[np.float64]] = []
        self.verb_labels: list[str] = []

    def add(self, losses: npt.NDArray[Any], batch: Batch) -> None:
        counts = np.count_nonzero(batch.targets != IGNORED, axis=1)  # (B,)
        sums = losses.sum(axis=1, dtype=np.float64)  # (B,)
        self.loss += float(sums.sum())
        self.tokens += int(counts.sum())
        if batch.verb_labels is not None:
            seen = counts > 0  # an example without a counted position has no loss, which is not a loss of 0
            self.example_losses.append(sums[seen] / counts[seen])
            self.verb_labels += [label for label, has in zip(batch.verb_labels, seen, strict=True) if has]

    def note_grad_norm(self, norm: float) -> None:
        # Not `max`: NaN must stay.
        if not norm <= self.grad_norm_max:
            self.grad_norm_max = norm

    def mean(self) -> float:
        return self.loss / self.tokens if self.tokens else 0.0

    def by_class(self) -> tuple[float | None, float | None]:
        """Mean loss of regular and irregular verbs; None where there were none."""
        if not self.verb_labels:
            return None, None
        regular, irregular = partition_batch_loss(np.concatenate(self.example_losses), self.verb_labels)
        # A class that is present and NaN has diverged, and the log must say so; one that is absent is a gap.
        return (
            None if REGULAR_VERBS.isdisjoint(self.verb_labels) else regular,
            None if IRREGULAR_VERBS.isdisjoint(self.verb_labels) else irregular,
        )


def evaluate(model: Module, batches: Iterable[Batch], objective: Objective = model_loss) -> float:
    """Mean loss in nats per counted target position, without gradients and in evaluation mode.

    Every module's mode is put back as it was, also if the data raise. Returns 0.0 if no position counts.

    Parameters
    ----------
    model : Module
    batches : iterable of Batch
        Finite.
    objective : callable
    """
    total, count = 0.0, 0
    with model.evaluating(), no_grad():
        for batch in batches:
            total += float(objective(model, batch).value.sum(dtype=np.float64))
            count += batch.counted
    return total / count if count else 0.0


def train(
    model: Module,
    optimizer: Optimizer,
    schedule: Callable[[int], float],
    batches: Iterator[Batch],
    *,
    steps: int,
    objective: Objective = model_loss,
    accumulate: int = 1,
    grad_clip: float | None = None,
    inspector: Inspector | None = None,
    validate: Callable[[], float] | None = None,
    val_every: int = 0,
    baseline: float | None = None,
    uniform: float | None = None,
    leak: Callable[[], float] | None = None,
    log: Callable[[Row], None] | None = None,
    log_every: int = 1,
    checkpoint: Callable[[Progress], None] | None = None,
    checkpoint_every: int = 0,
    stop: Callable[[Row], str | None] | None = None,
    before_step: Callable[[int], None] | None = None,
    on_step: Callable[[int, float], None] | None = None,
    progress: Progress | None = None,
) -> TrainResult:
    """Train `model` and return how it ended.

    Parameters
    ----------
    model : Module
        Put into training mode.
    optimizer : Optimizer
        Over the model's parameters.
    schedule : callable
        Learning rate by step, the first being 0.
    batches : iterator of Batch
        Endless; `accumulate` of them make a step.
    steps : int
        Optimiser steps of the whole run; a resumed one makes the rest.
    objective : callable
        `objective(model, batch) -> Tensor`: the loss of each target position, shape `batch.targets.shape`, 0 where
        ignored. The loop minimises the sum over the step divided by the number of counted positions of the step, so
        that accumulated micro-batches equal one large batch.
    accumulate : int
        Batches a step.
    grad_clip : float, optional
        Global norm to clip to.
    inspector : Inspector, optional
        Told the padding before each forward, closed after each update, read and reset at each row.
    validate : callable, optional
        Returns the validation loss; called every `val_every` steps and at the end.
    baseline : float, optional
        A constant loss to log beside the validation loss: the n-gram model's.
    uniform : float, optional
        A constant loss to log: that of a guess without knowledge, the logarithm of the number of classes.
    leak : callable, optional
        Returns how far later tokens move the model's earlier outputs (`diagnosis.probes.future_leak`); called at step
        1 and with each validation.
    log : callable, optional
        Receives each row: at step 1, every `log_every` steps, at validations, at checkpoints, and at the last step.
    checkpoint : callable, optional
        Called with the progress every `checkpoint_every` steps, at the end and at a stop, after the row of that step.
    stop : callable, optional
        Receives each row; a string it returns ends the run with that reason.
    before_step : callable, optional
        `before_step(step)` before anything of that step, counted from 1, is computed.
    on_step : callable, optional
        `on_step(step, loss)` after each step: a progress bar.
    progress : Progress, optional
        Continue from there. It is updated in place.

    Returns
    -------
    TrainResult
        "non-finite" if a loss or gradient was not finite: the run stops before the update, parameters and moments
        unchanged, with a last row that shows it. Also if a validation loss was not finite: no checkpoint follows it.

    Raises
    ------
    ValueError
        For counts that make no sense, an objective that returns another shape, or batches that end.
    """
    for name, number, least in (("steps", steps, 1), ("accumulate", accumulate, 1), ("log_every", log_every, 1)):
        if number < least:
            raise ValueError(f"train: {name} must be {least} or more; got {number}.")
    at = Progress() if progress is None else progress
    parameters = list(model.parameters())
    limit = math.inf if grad_clip is None else grad_clip
    began = time.perf_counter() - at.elapsed_seconds
    window = _Window()
    model.train()

    while at.step < steps:
        if before_step is not None:
            before_step(at.step + 1)
        rate = schedule(at.step)
        optimizer.lr = rate
        optimizer.zero_grad()
        model.zero_grad()  # also what the optimiser was not given: its gradients would pile up in the norm
        step_loss = _accumulate_gradients(model, batches, objective, accumulate, inspector, window)
        grad_norm = clip_grad_norm(parameters, limit)
        window.note_grad_norm(grad_norm)
        updates = math.isfinite(grad_norm) and math.isfinite(step_loss)
        if updates:
            optimizer.step()
            at.step += 1
        if inspector is not None:
            inspector.step()
        if on_step is not None:
            on_step(at.step, step_loss)

        last = at.step == steps
        validates = updates and validate is not None and (last or _due(at.step, val_every))
        saves = updates and checkpoint is not None and (last or _due(at.step, checkpoint_every))
        first = at.step == 1
        if updates and not (first or last or validates or saves or _due(at.step, log_every)):
            continue

        # The step that failed has a row of its own, with the number it would have had.
        row_step = at.step if updates else at.step + 1
        finite = updates
        at.tokens += window.tokens
        at.train_loss = window.mean()
        if validates and validate is not None:
            at.val_loss = validate()
            finite = math.isfinite(at.val_loss)
            # NaN is below nothing, so that it never becomes the best.
            if at.val_loss < (math.inf if at.best_val_loss is None else at.best_val_loss):
                at.best_val_loss, at.best_step = at.val_loss, at.step
        place: str | None = None
        if not finite:
            place = _first_bad(model, inspector) or ("the validation loss" if updates else "the loss")
        at.elapsed_seconds = time.perf_counter() - began
        regular, irregular = window.by_class()
        row: Row = {
            "step": row_step,
            "tokens": at.tokens,
            "train_loss": at.train_loss,
            "val_loss": at.val_loss if validates else None,
            "ngram_loss": baseline,
            "uniform_loss": uniform,
            "learning_rate": rate,
            "grad_norm": grad_norm,
            "grad_norm_max": window.grad_norm_max,
            "future_leak": leak() if leak is not None and updates and (first or validates) else None,
            "regular_loss": regular,
            "irregular_loss": irregular,
            "inspect": None if inspector is None else inspector.measurements(),
            "non_finite_place": place,
            "elapsed_seconds": at.elapsed_seconds,
        }
        window = _Window()
        if log is not None:
            log(row)
        if not finite:
            seen = None if inspector is None else inspector.first_non_finite
            where = place if seen is None else f"{seen.name} at step {seen.step}"
            return TrainResult("non-finite", f"step {row_step}: the first NaN or infinity was seen in {where}", at)
        if inspector is not None:
            inspector.reset()
        reason = None if stop is None else stop(row)
        if checkpoint is not None and (saves or reason is not None):
            checkpoint(at)
        if reason is not None:
            return TrainResult("stopped", reason, at)
    return TrainResult("finished", "", at)


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _accumulate_gradients(
    model: Module,
    batches: Iterator[Batch],
    objective: Objective,
    accumulate: int,
    inspector: Inspector | None,
    window: _Window,
) -> float:
    """Run forward and backward over the batches of one step; return its mean loss in nats per counted position."""
    try:
        micro = [next(batches) for _ in range(accumulate)]
    except StopIteration:
        # Left alone it would end the caller's own loop without a word.
        raise ValueError(
            "train: batches must be endless; the iterator ended before the steps did. "
            "Use itertools.cycle, or fewer steps."
        ) from None
    counted = max(1, sum(batch.counted for batch in micro))
    total = 0.0
    for batch in micro:
        if inspector is not None:
            inspector.set_pad_mask(batch.pad_mask)
        losses = objective(model, batch)
        if losses.shape != batch.targets.shape:
            raise ValueError(
                f"train: the objective must return one loss a target, shape {batch.targets.shape}; got {losses.shape}. "
                'Use reduction="none".'
            )
        # The cotangent of the mean over the step, without recording a mean.
        losses.backward(np.full(losses.shape, 1.0 / counted, losses.dtype))
        window.add(losses.value, batch)
        total += float(losses.value.sum(dtype=np.float64))
    return total / counted


def _first_bad(model: Module, inspector: Inspector | None) -> str | None:
    """Name the module, parameter or gradient that was the first not to be finite; None if all are."""
    if inspector is not None and inspector.first_non_finite is not None:
        return inspector.first_non_finite.name
    for name, parameter in model.named_parameters():
        if not np.isfinite(parameter.value).all():
            return f"the parameter {name}"
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not np.isfinite(parameter.grad).all():
            return f"the gradient of {name}"
    return None
