"""The table of rules: each a small pure function of a `Record`, with its thresholds above it.

Where a threshold has no source it was measured: healthy values and those of faults stand in the package's BLUEPRINT,
section 11, and in `experiments/19-break-it`. No rule speaks before it has enough rows to be sure of them; a run is
healthy at each of its steps, not only at its end.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .finding import Range, Severity
from .judgement import Check, Rule, Sighting
from .record import Record
from .series import Point
from .wording import TOO_SMALL, WORDING

FIRST_LOSS = 1.2
"""First loss over ln V, at most. Usual: 0.98 to 1.01; matrices drawn 5, 10 and 100 times too large: up to 1.15, 1.1 to
1.6, 9. Logits of variance s² cost s²/2 nats more than ln V."""

FIRST_NORM = 0.6
"""Median spectral norm over the inner matrices of the first row, at least. Embedding and head are often begun small on
purpose: deviation 0.02, at a width of 64 a norm of 0.3, only delays them. Xavier's: 1.9 at every size (Davidson and
Szarek 2001: sqrt(2 / (m + n)) (sqrt(m) + sqrt(n))). Starts in use are lower, so the limit is: entries of deviation
1 / sqrt(3 m) have 1.15, those of 0.02 at a width of 384, with smaller last projections, 0.7."""

FIRST_UPDATE = 0.7
"""|Δw| / |w| of the first step, at most. 0.15 and less does no harm, 0.5 a little, 1.0 costs a third of what is won."""

WARMED_UP = 0.6
"""A first rate below this share of the highest is a warm-up, be it of two steps."""

TYPICAL_UPDATE_HIGH = 0.045
"""Median |Δw| / |w| over matrices and three rows, at most. Healthy runs reach 0.028; rates that cost a quarter of a nat
and more have 0.047 to 0.09, those that cost less or nothing up to 0.043."""

ONE_UPDATE_HIGH = 0.5
"""Median |Δw| / |w| over matrices in any one row, at most: half of every matrix rewritten at once. Healthy: 0.03, and
0.02 in the first step of a harmless start without warm-up."""

GRADIENT_JUMP = 2.5
"""A row's largest gradient norm over the median of five rows around it, where steps overshoot. Updates above the limits
do not harm every model: a bigram model that falls from 3.3 to 0.001 nats has 0.16 and more, and its loss never rises.
Rates that harm: 3.3 to 100, in logs with a row for 1, 10 and 50 steps; noisy data at rates that do not: 1.5."""

UNSTEADY = 0.005
"""Share of the first loss by which a row stands above the lowest before it. Rates that harm: 0.0065 and more."""

LOSS_RISE = 0.05
"""Share of the first loss by which the loss, a median of five rows, may stand above its lowest while rates are high."""

MOVING_UPDATE = 0.01
"""|Δw| / |w| from which on a rise of the loss can be blamed on the rate."""

TYPICAL_UPDATE_LOW = 5e-4
"""Median |Δw| / |w| that the highest row reaches at least, where a run starts from nothing. Usual: 4e-3 and more."""

HARDLY_LEARNED = 0.5
"""A loss above this share of the first is that of a model which has hardly learned."""

FROM_NOTHING = 0.8
"""A first loss above this share of ln V is that of a model which knows nothing yet, and needs no small steps."""

SETTLED_STEPS = 50
"""Steps after the highest rate before a run can be called slow."""

OVERFIT_RATIO, OVERFIT_NATS = 1.1, 0.1
"""By how much the validation loss may stand above its best: both must be passed. The default run: 1.05 times."""

TRAINING_FELL = 0.75
"""Training loss over that at the best validation, below which the model still learned its training data."""

STALLED = 0.95
"""The best of the last validations over the best before them, above which validation stands still."""

WORSE_THAN_COUNTING = 1.2
"""A validation loss above this multiple of the n-gram model's is worse than a table of short strings."""

BY_HEART = 0.7
"""Training loss over validation loss, below which the first tells little of the second. Where validation is above the
n-gram model, healthy runs have 0.97 and more, a tenth of the data 0.05 to 0.56."""

PLAINLY_WORSE, PLAINLY_BY_HEART = 2.0, 0.2
"""The same two limits where a single validation must do: no healthy run comes near both. A fiftieth of the data, after
200 steps: 4.2 and 0.005."""

DIVERGED_SHARE = 0.15
"""Rise of the loss above its lowest, as a share of the first loss, where it also lost half of what it had won."""

EXPLODING = 100.0
"""Gradient norm over the larger of its median and its first value."""

VANISHING = 1e-6
"""Gradient norm of a matrix over that of the matrix with the largest: healthy ones stay above 1e-4."""

DEAD = 0.6
"""Fraction of dead units. Half of them dead from step 20 on cost nothing in 400 steps, nine tenths 0.06 to 0.1 nats."""

ROWS, VANISHING_ROWS = 3, 5
"""Rows in a row that must show what could be an accident of one; gradients later than the dead units that stop them."""


def bad_init(record: Record) -> Sighting | None:
    """The untouched weights are too large or too small: the first loss is far above ln V, or no layer passes much on.

    Too small weights do not show in the first loss, which is ln V of a healthy start as well; but a guess it must be.
    """
    first, uniform, norm = record.scalars["train_loss"].first, record.first("uniform_loss"), record.typical_norm.first
    if first is None or first.step != 1 or not uniform:
        return None
    evidence = {"first_loss": first.value, "uniform_loss": uniform}
    if first.value > FIRST_LOSS * uniform:
        return Sighting("train_loss", 1, evidence, {"first_loss": (None, FIRST_LOSS * uniform)})
    if norm is None or norm.step != 1 or norm.value >= FIRST_NORM or first.value < FROM_NOTHING * uniform:
        return None
    evidence = {"spectral_norm": norm.value, **evidence}
    return Sighting("spectral_norm", 1, evidence, {"spectral_norm": (FIRST_NORM, None)}, *TOO_SMALL)


def no_warmup(record: Record) -> Sighting | None:
    """The first step used the full rate and rewrote a matrix. One row alone does not tell whether the rate grows."""
    first, rate = record.largest_update.first, record.scalars["learning_rate"]
    if first is None or first.step != 1 or first.value <= FIRST_UPDATE or rate.first is None or rate.highest is None:
        return None
    if rate.count < 2 or rate.first.value < WARMED_UP * rate.highest.value:
        return None
    where, largest = max(
        ((name, series.first.value) for name, series in record.update_ratio.items() if series.first is not None),
        key=lambda pair: pair[1],
    )
    evidence = {"update_ratio": largest, "learning_rate": rate.first.value}
    _add_gradient(evidence, record, 1)
    return Sighting(where, 1, evidence, {"update_ratio": (None, FIRST_UPDATE)})


def _add_gradient(evidence: dict[str, float], record: Record, step: int) -> None:
    """Add the largest gradient norm of the row of `step`."""
    norm = record.scalars["grad_norm_max"].at(step)
    if norm is not None:
        evidence["grad_norm_max"] = norm


def broken_mask(record: Record) -> Sighting | None:
    """The probe saw later tokens move earlier logits; of the losses alone nobody can tell."""
    leaks = record.scalars["future_leak"]
    if leaks.highest is None or leaks.highest.value == 0.0:
        return None
    first = next((point for point in leaks.points if point.value > 0.0), leaks.highest)
    evidence = {"future_leak": first.value}
    for name, key in (("last_val_loss", "val_loss"), ("ngram_loss", "ngram_loss")):
        value = record.last(key)
        if value is not None:
            evidence[name] = value
    return Sighting("future_leak", first.step, evidence, {"future_leak": (0.0, 0.0)})


def learning_rate_too_high(record: Record) -> Sighting | None:
    """Updates stay large beside the weights and do harm, or the loss turns up while they move much.

    Where the loss falls steadily, no update is too large. Of one row nobody can tell whether the rate is too high or
    came too early, which is `no_warmup`'s to say.
    """
    if record.rows < 2:
        return None
    harm = _overshoots(record)
    if harm is None:
        return None
    for name, update, limit in (
        ("update_ratio_of_3_rows", record.sustained_update, TYPICAL_UPDATE_HIGH),
        ("update_ratio", record.typical_update, ONE_UPDATE_HIGH),
    ):
        if update.highest is None or update.highest.value <= limit:
            continue
        at = next((point for point in update.points if point.value > limit), update.highest)
        evidence = {name: at.value}
        rate = record.scalars["learning_rate"].at(at.step)
        if rate is not None:
            evidence["learning_rate"] = rate
        _add_gradient(evidence, record, at.step)
        if update.highest.step > at.step:
            evidence |= {"highest": update.highest.value, "highest_step": update.highest.step}
        return Sighting(
            "update_ratio", at.step, {**evidence, **harm.evidence}, {name: (None, limit), **harm.healthy_range}
        )
    return _rise(record)


class _Harm(NamedTuple):
    """What shows that steps overshoot, as a `Sighting` has it."""

    evidence: dict[str, float]
    healthy_range: dict[str, Range]


def _overshoots(record: Record) -> _Harm | None:
    """The largest jump of the gradient and rise of the loss, where both are there; a loss far above its first; NaN.

    A rise alone is that of noisy batches, the more so the fewer steps a row has.
    """
    first, highest = record.scalars["train_loss"].first, record.scalars["train_loss"].highest
    jump, rise = record.gradient_jump.highest, record.loss_rise.highest
    if first is None or highest is None or rise is None:
        return None
    if highest.value > FIRST_LOSS * first.value:
        return _Harm(
            {"highest_train_loss": highest.value, "highest_train_loss_step": highest.step},
            {"highest_train_loss": (None, FIRST_LOSS * first.value)},
        )
    limit = UNSTEADY * first.value
    if jump is None or jump.value <= GRADIENT_JUMP or rise.value <= limit:
        seen = record.non_finite
        return None if seen is None else _Harm({"non_finite_step": seen.step}, {})
    return _Harm(
        {
            "largest_gradient_jump": jump.value,
            "largest_gradient_jump_step": jump.step,
            "largest_loss_rise": rise.value,
            "largest_loss_rise_step": rise.step,
        },
        {"largest_gradient_jump": (None, GRADIENT_JUMP), "largest_loss_rise": (None, limit)},
    )


def _rise(record: Record) -> Sighting | None:
    """The first place at which the loss stands well above its lowest while the weights move much."""
    first, update = record.scalars["train_loss"].first, dict(record.smooth_update.points)
    if first is None:
        return None
    lowest = math.inf
    for step, value in record.smooth_loss.points:
        lowest = min(lowest, value)
        limit = lowest + LOSS_RISE * first.value
        # Without an Inspector nobody knows how much the weights move.
        if value <= limit or (update and update.get(step, 0.0) < MOVING_UPDATE):
            continue
        evidence = {"train_loss_of_5_rows": value, "lowest_before": lowest}
        if step in update:
            evidence["update_ratio_of_5_rows"] = update[step]
        _add_gradient(evidence, record, step)
        return Sighting("train_loss", step, evidence, {"train_loss_of_5_rows": (None, limit)})
    return None


def learning_rate_too_low(record: Record) -> Sighting | None:
    """A model that started from nothing has hardly learned, and its weights hardly moved at any time."""
    first, loss, uniform = record.scalars["train_loss"].first, record.smooth_loss.last, record.first("uniform_loss")
    update, rate = record.typical_update.highest, record.scalars["learning_rate"].highest
    if first is None or loss is None or update is None or rate is None or update.value >= TYPICAL_UPDATE_LOW:
        return None
    if record.steps < rate.step + SETTLED_STEPS or loss.value < HARDLY_LEARNED * first.value:
        return None
    if uniform is not None and first.value < FROM_NOTHING * uniform:
        return None
    return Sighting(
        "update_ratio",
        rate.step,  # from here on it had all the rate it got
        {"highest_update_ratio": update.value, "learning_rate": rate.value, "last_train_loss": loss.value},
        {"highest_update_ratio": (TYPICAL_UPDATE_LOW, None), "last_train_loss": (None, HARDLY_LEARNED * first.value)},
    )


def overfitting(record: Record) -> Sighting | None:
    """Validation rose while training still fell, or stands still where counting does better, far above training."""
    validation, training = record.scalars["val_loss"], record.smooth_loss.last
    if training is None or validation.lowest is None:
        return None
    if not judges_overfitting(record):
        return _plain(record, training.value)
    recent = validation.tail(ROWS)
    before = [point for point in (validation.lowest, *validation.points) if point.step < recent[0].step]
    return (
        _risen(record, training.value, validation.lowest, recent)
        or _stalled(record, training.value, before, recent)
        or _plain(record, training.value)
    )


def judges_overfitting(record: Record) -> bool:
    """Whether there are validations enough for `overfitting` to see more than the plainest case."""
    return record.scalars["val_loss"].count > ROWS


def _risen(record: Record, training: float, best: Point, recent: list[Point]) -> Sighting | None:
    limit = max(OVERFIT_RATIO * best.value, best.value + OVERFIT_NATS)
    then = record.smooth_loss.at(best.step)
    if recent[0].step <= best.step or min(point.value for point in recent) <= limit:
        return None
    if then is None or training >= TRAINING_FELL * then:
        return None
    last = recent[-1].value
    evidence = {"last_val_loss": last, "best_val_loss": best.value, "above_best": last - best.value}
    evidence["last_train_loss"] = training
    return Sighting("val_loss", best.step, evidence, {"above_best": (None, limit - best.value)})


def _stalled(record: Record, training: float, before: list[Point], recent: list[Point]) -> Sighting | None:
    ngram, best = record.last("ngram_loss"), min(point.value for point in recent)
    if ngram is None or best <= WORSE_THAN_COUNTING * ngram or training >= BY_HEART * best:
        return None
    if best <= STALLED * min(point.value for point in before):
        return None
    return _by_heart(record, training, WORSE_THAN_COUNTING * ngram, BY_HEART * best)


def _plain(record: Record, training: float) -> Sighting | None:
    ngram, last = record.last("ngram_loss"), record.last("val_loss")
    if ngram is None or last is None or last <= PLAINLY_WORSE * ngram or training >= PLAINLY_BY_HEART * last:
        return None
    return _by_heart(record, training, PLAINLY_WORSE * ngram, PLAINLY_BY_HEART * last)


def _by_heart(record: Record, training: float, most: float, least: float) -> Sighting:
    """Validation above `most` beside training below `least`, from where validation was about as good as it ever was."""
    points = record.scalars["val_loss"].points
    lowest = min(point.value for point in points)
    # A lowest below 0, which no cross-entropy has, is not within a share of itself.
    turned = next(point for point in points if min(STALLED * point.value, point.value) <= lowest)
    evidence = {"last_val_loss": points[-1].value, "last_train_loss": training}
    ngram = record.last("ngram_loss")
    if ngram is not None:
        evidence["ngram_loss"] = ngram
    return Sighting(
        "val_loss", turned.step, evidence, {"last_val_loss": (None, most), "last_train_loss": (least, None)}
    )


def diverged(record: Record) -> Sighting | None:
    """The loss lost at least half of what it had won, and much of the first loss."""
    first, lowest, last = record.scalars["train_loss"].first, record.smooth_loss.lowest, record.smooth_loss.last
    if first is None or lowest is None or last is None:
        return None
    limit = lowest.value + max(DIVERGED_SHARE * first.value, 0.5 * (first.value - lowest.value))
    if last.value <= limit:
        return None
    return Sighting(
        "train_loss",
        record.smooth_loss.since_above(limit),
        {"last_train_loss": last.value, "lowest_before": lowest.value, "lowest_step": lowest.step},
        {"last_train_loss": (None, limit)},
    )


def exploding_gradients(record: Record) -> Sighting | None:
    """One gradient was a hundred times the usual."""
    usual, limit = record.scalars["grad_norm"].recent(1.0, ROWS), _gradient_limit(record)
    greatest = record.scalars["grad_norm_max"].highest
    if usual is None or limit is None or greatest is None or greatest.value <= limit:
        return None
    return Sighting(
        "grad_norm", greatest.step, {"grad_norm_max": greatest.value, "usual": usual}, {"grad_norm_max": (None, limit)}
    )


def _gradient_limit(record: Record) -> float | None:
    """The largest gradient norm that is none too large; None as long as nobody knows what is usual."""
    norms = record.scalars["grad_norm"]
    usual = norms.recent(1.0, ROWS)
    if usual is None or norms.first is None:
        return None
    limit = EXPLODING * max(usual, norms.first.value)
    return limit if math.isfinite(limit) else None


def vanishing_gradients(record: Record) -> Sighting | None:
    """In each of the last rows a matrix got next to nothing of the gradient that another got.

    One that never got any, exactly 0 in every row, is not used by the loss: the queries of a single position, say.
    """
    recent = {
        name: [point.value for point in series.tail(VANISHING_ROWS)]
        for name, series in record.gradient.items()
        if name.removesuffix(".grad") in record.update_ratio and series.count >= VANISHING_ROWS
        if series.highest is not None and series.highest.value > 0.0
    }
    if not recent:
        return None
    largest = min(max(values) for values in zip(*recent.values(), strict=False))
    name, greatest = min(((name, max(values)) for name, values in recent.items()), key=lambda pair: pair[1])
    if greatest >= VANISHING * largest:
        return None
    return Sighting(
        name,
        record.gradient[name].since_below(VANISHING * largest),
        {"gradient_norm": greatest, "largest_gradient_norm": largest},
        {"gradient_norm": (VANISHING * largest, None)},
    )


def dead_units(record: Record) -> Sighting | None:
    """In each of the last rows most hidden units of a layer were dead."""
    recent = {
        name: min(point.value for point in series.tail(ROWS))
        for name, series in record.dead_fraction.items()
        if series.count >= ROWS
    }
    if not recent:
        return None
    name, fraction = max(recent.items(), key=lambda pair: pair[1])
    if fraction <= DEAD:
        return None
    began = record.dead_fraction[name].since_above(DEAD)
    layers = sum(value > DEAD for value in recent.values())
    return Sighting(
        name, began, {"dead_fraction": fraction, "layers": layers}, {"dead_fraction": (0.0, DEAD), "layers": (0, 0)}
    )


def non_finite(record: Record) -> Sighting | None:
    """A row holds NaN or infinity."""
    seen = record.non_finite
    if seen is None:
        return None
    evidence: dict[str, float] = {"nan": seen.nan, "inf": seen.inf}
    loss = record.last("train_loss")
    if loss is not None:
        evidence["last_train_loss"] = loss
    return Sighting(seen.where, seen.step, evidence, {"nan": (0, 0), "inf": (0, 0)})


def healthy_ranges(record: Record) -> dict[str, Range]:
    """Where the rules have nothing to say, by the chart that shows it: what a page shades.

    Of `update_ratio` the median over the matrices counts, and for the lower end its highest row; `spectral_norm` is
    the median over inner matrices in the first row. A chart is missing where no rule has a limit, or not yet one.
    """
    ranges: dict[str, Range] = {
        "spectral_norm": (FIRST_NORM, None),
        "dead_fraction": (0.0, DEAD),
        "update_ratio": (TYPICAL_UPDATE_LOW, TYPICAL_UPDATE_HIGH),
    }
    limit = _gradient_limit(record)
    if limit is not None:
        ranges["grad_norm"] = (None, limit)
    return ranges


def _ours(code: str, check: Check, severity: Severity, panel: str, *explains: str) -> Rule:
    return Rule(code, check, severity, panel, *WORDING[code], frozenset(explains))


_SYMPTOMS = ("diverged", "exploding-gradients", "vanishing-gradients", "dead-units", "non-finite")
_RATES = ("no-warmup", "learning-rate-too-high", "learning-rate-too-low")

RULES: tuple[Rule, ...] = (
    _ours("bad-init", bad_init, "error", "loss", *_RATES, "overfitting", *_SYMPTOMS),
    _ours("broken-mask", broken_mask, "error", "loss", "overfitting"),
    _ours("no-warmup", no_warmup, "error", "update_ratio", "learning-rate-too-high", *_SYMPTOMS),
    _ours("learning-rate-too-high", learning_rate_too_high, "error", "update_ratio", *_SYMPTOMS),
    _ours("learning-rate-too-low", learning_rate_too_low, "warning", "update_ratio"),
    _ours("overfitting", overfitting, "warning", "loss"),
    _ours("diverged", diverged, "error", "loss"),
    _ours("exploding-gradients", exploding_gradients, "error", "grad_norm", "diverged", "dead-units", "non-finite"),
    _ours("dead-units", dead_units, "warning", "dead_fraction", "vanishing-gradients"),
    _ours("vanishing-gradients", vanishing_gradients, "warning", "grad_norm"),
    _ours("non-finite", non_finite, "error", "loss"),
)
"""Ours, in the order in which equals are named."""
