"""Each rule on made-up series: silent just inside its threshold, speaking just outside, and what it then says."""

import math
from collections.abc import Callable

import pytest
from diagnosed_rows import MATRICES, UNIFORM, Row, bigram_rows, course, healthy_row, uniform_rows
from minitrain.diagnosis import RULES, Record, Sighting, Watch, diagnose, rules

Change = Callable[[Row], None]

FIRST = course()[0]["train_loss"]


def seen(check: Callable[[Record], Sighting | None], rows: list[Row]) -> Sighting:
    sighting = check(Record(rows))
    assert sighting is not None
    return sighting


def assert_beside_the_threshold(check: Callable[[Record], Sighting | None], change: Callable[[float], Change]) -> None:
    """`change(factor)` puts what is measured at `factor` times the threshold, more being worse."""
    assert check(Record(course(change(0.99)))) is None
    assert check(Record(course(change(1.01)))) is not None


def codes(rows: list[Row]) -> list[str]:
    return [finding.code for finding in diagnose(Record(rows), RULES)]


def test_a_healthy_course_is_healthy_at_each_of_its_rows() -> None:
    watch = Watch(RULES)
    assert [found for row in course() for found in watch.add(row)] == []
    assert watch.record.steps == 410


def test_a_run_without_inspection_is_healthy_too() -> None:
    assert codes(course(lambda row: row.update(inspect=None))) == []


def test_the_rules_stand_for_the_codes_of_the_contract() -> None:
    assert {rule.code for rule in RULES} == {
        *("bad-init", "no-warmup", "broken-mask", "dead-units", "exploding-gradients", "vanishing-gradients"),
        *("diverged", "learning-rate-too-high", "learning-rate-too-low", "overfitting", "non-finite"),
    }


# --------------------------------------------------------------------------- the start


def first_loss(factor: float) -> Change:
    def change(row: Row) -> None:
        if row["step"] == 1:
            row["train_loss"] = factor * rules.FIRST_LOSS * UNIFORM

    return change


def test_bad_init_is_a_first_loss_far_above_ln_v() -> None:
    assert_beside_the_threshold(rules.bad_init, first_loss)
    found = seen(rules.bad_init, course(first_loss(2.0)))
    assert (found.where, found.step) == ("train_loss", 1)
    assert found.evidence["first_loss"] == 2.0 * rules.FIRST_LOSS * UNIFORM
    assert found.healthy_range["first_loss"] == (None, rules.FIRST_LOSS * UNIFORM)


def test_a_first_row_that_is_not_the_first_step_says_nothing_of_the_start() -> None:
    rows = course()[1:]
    rows[0]["train_loss"] = 9.0 * UNIFORM
    assert rules.bad_init(Record(rows)) is None
    rows[0]["inspect"]["update_ratio"]["embedding.E"] = 9.0
    assert rules.no_warmup(Record(rows)) is None


def first_norms(factor: float) -> Change:
    def change(row: Row) -> None:
        if row["step"] == 1:
            row["inspect"]["spectral_norm"] = dict.fromkeys(MATRICES, rules.FIRST_NORM / factor)

    return change


def test_bad_init_is_also_matrices_that_shrink_all_that_passes() -> None:
    assert_beside_the_threshold(rules.bad_init, first_norms)
    found = seen(rules.bad_init, course(first_norms(3.0)))
    assert (found.where, found.step) == ("spectral_norm", 1)
    assert found.evidence == {"spectral_norm": rules.FIRST_NORM / 3.0, "first_loss": FIRST, "uniform_loss": UNIFORM}
    assert found.healthy_range == {"spectral_norm": (rules.FIRST_NORM, None)}


def test_a_few_matrices_that_start_at_zero_are_no_bad_init() -> None:
    # Projections back into the residual stream are often begun at zero.
    def change(row: Row) -> None:
        if row["step"] == 1:
            zeros = dict.fromkeys(("blocks.0.attn.W_o", "blocks.0.ffn.W2"), 0.0)
            others = ("blocks.0.ffn.W1", "blocks.1.ffn.W1", "head.weight")
            row["inspect"]["spectral_norm"] = {"embedding.E": 2.0, **zeros, **dict.fromkeys(others, 2.0)}

    assert rules.bad_init(Record(course(change))) is None


@pytest.mark.parametrize("std", [0.02, 1.0])
@pytest.mark.parametrize("zero_head", [False, True])
def test_a_small_embedding_and_head_are_a_healthy_start_and_large_ones_are_not(std: float, zero_head: bool) -> None:
    for seed in range(20):
        rows = uniform_rows(seed, std, zero_head=zero_head)
        found = rules.bad_init(Record(rows))
        assert (found is None) == (std == 0.02 or zero_head), (seed, rows[0]["train_loss"])
        if zero_head:
            assert rows[0]["train_loss"] == pytest.approx(math.log(65), abs=1e-6)


@pytest.mark.parametrize("gain", [0.01, 0.1])
def test_layers_that_start_small_are_a_bad_init_whatever_the_embedding(gain: float) -> None:
    def change(row: Row) -> None:
        if row["step"] == 1:
            row["inspect"]["spectral_norm"] = {"embedding.E": 2.0, "a": 2.0 * gain, "b": 2.0 * gain, "head": 2.0}

    assert rules.bad_init(Record(course(change))) is not None


def test_small_matrices_of_a_model_that_knows_something_are_no_bad_init() -> None:
    def change(row: Row) -> None:
        first_norms(3.0)(row)
        row["train_loss"] *= 0.99 * rules.FROM_NOTHING

    assert rules.bad_init(Record(course(change))) is None


def test_small_norms_that_were_not_measured_at_the_first_step_say_nothing_of_the_start() -> None:
    def change(row: Row) -> None:
        row["inspect"]["spectral_norm"] = dict.fromkeys(MATRICES, None if row["step"] == 1 else 0.01)

    assert rules.bad_init(Record(course(change))) is None


def first_update(factor: float, rate: float = 3e-3) -> Change:
    def change(row: Row) -> None:
        if row["step"] == 1:
            row["learning_rate"] = rate
            row["inspect"]["update_ratio"]["embedding.E"] = factor * rules.FIRST_UPDATE

    return change


def test_no_warmup_is_a_full_first_rate_that_rewrites_a_matrix() -> None:
    assert_beside_the_threshold(rules.no_warmup, first_update)
    found = seen(rules.no_warmup, course(first_update(2.0)))
    assert (found.where, found.step) == ("embedding.E", 1)
    assert found.evidence == {"update_ratio": 2.0 * rules.FIRST_UPDATE, "learning_rate": 3e-3, "grad_norm_max": 1.9}


def test_a_first_rate_that_grows_later_is_a_warmup_whatever_the_first_update() -> None:
    assert rules.no_warmup(Record(course(first_update(2.0, rate=1.7e-3)))) is None
    assert rules.no_warmup(Record(course(first_update(2.0, rate=1.9e-3)))) is not None
    # One row does not tell.
    assert rules.no_warmup(Record(course(first_update(2.0), steps=1))) is None


def test_without_warmup_at_a_rate_that_does_no_harm_nothing_is_found() -> None:
    def change(row: Row) -> None:
        row["learning_rate"] = 3e-3
        row["inspect"]["update_ratio"] = dict.fromkeys(MATRICES, 0.15 / (1 + row["step"]))

    assert codes(course(change)) == []


# --------------------------------------------------------------------------- the mask


@pytest.mark.parametrize("step", [1, 250])
def test_broken_mask_is_any_leak_at_all(step: int) -> None:
    def change(row: Row) -> None:
        if row["step"] == step:
            row["future_leak"] = 1e-30

    found = seen(rules.broken_mask, course(change))
    assert (found.where, found.step) == ("future_leak", step)
    assert found.evidence["future_leak"] == 1e-30


def test_a_loss_far_below_the_baseline_is_no_broken_mask() -> None:
    def change(row: Row) -> None:
        if row["step"] > 100:
            row["train_loss"] = 0.01
            row["val_loss"] = row["val_loss"] and 0.01

    assert codes(course(change)) == []


# --------------------------------------------------------------------------- the rate


def harmed(row: Row, *, jump: float = 2.0, rise: float = 2.0) -> None:
    """At step 50 a gradient jumps and at 80 the loss stands above its lowest: `jump`, `rise` times the limit."""
    if row["step"] == 50:
        row["grad_norm_max"] = jump * rules.GRADIENT_JUMP * row["grad_norm"]
    if row["step"] == 80:
        row["train_loss"] = course(steps=70)[-1]["train_loss"] + rise * rules.UNSTEADY * FIRST


def typical_update(factor: float, *, jump: float = 2.0, rise: float = 2.0) -> Change:
    def change(row: Row) -> None:
        harmed(row, jump=jump, rise=rise)
        if 60 <= row["step"] <= 100:
            row["inspect"]["update_ratio"] = dict.fromkeys(MATRICES, factor * rules.TYPICAL_UPDATE_HIGH)

    return change


def test_a_rate_is_too_high_where_updates_stay_large() -> None:
    # The median of three rows: two of them must pass.
    assert_beside_the_threshold(rules.learning_rate_too_high, typical_update)
    found = seen(rules.learning_rate_too_high, course(typical_update(2.0)))
    assert (found.where, found.step) == ("update_ratio", 70)
    assert found.evidence["learning_rate"] == pytest.approx(2.81e-3, rel=1e-2)


def test_large_updates_are_too_large_where_a_gradient_jumps_and_the_loss_rises() -> None:
    found = seen(rules.learning_rate_too_high, course(typical_update(2.0)))
    assert found.evidence["largest_gradient_jump"] == pytest.approx(2.0 * rules.GRADIENT_JUMP)
    assert found.evidence["largest_gradient_jump_step"] == 50
    assert found.evidence["largest_loss_rise"] == pytest.approx(2.0 * rules.UNSTEADY * FIRST)
    assert found.evidence["largest_loss_rise_step"] == 80
    assert found.healthy_range["largest_gradient_jump"] == (None, rules.GRADIENT_JUMP)
    assert found.healthy_range["largest_loss_rise"] == (None, rules.UNSTEADY * FIRST)
    assert_beside_the_threshold(rules.learning_rate_too_high, lambda factor: typical_update(2.0, jump=factor))
    assert_beside_the_threshold(rules.learning_rate_too_high, lambda factor: typical_update(2.0, rise=factor))


def test_large_updates_are_too_large_where_the_loss_is_far_above_its_first() -> None:
    def blown_up(factor: float) -> Change:
        def change(row: Row) -> None:
            typical_update(2.0, jump=0.5)(row)
            if row["step"] == 80:
                row["train_loss"] = factor * rules.FIRST_LOSS * FIRST

        return change

    assert_beside_the_threshold(rules.learning_rate_too_high, blown_up)
    found = seen(rules.learning_rate_too_high, course(blown_up(2.0)))
    assert (found.where, found.step) == ("update_ratio", 70)
    assert found.evidence["highest_train_loss_step"] == 80


@pytest.mark.parametrize("log_every", [1, 2, 5, 10, 30])
@pytest.mark.parametrize("rate", [0.01, 0.03])
def test_updates_that_only_help_are_not_too_large_at_any_logging_cadence(rate: float, log_every: int) -> None:
    assert [finding.code for finding in diagnose(Record(bigram_rows(rate, log_every)), RULES)] == []


def test_batches_that_are_noisy_are_no_rate_too_high() -> None:
    assert [finding.code for finding in diagnose(Record(bigram_rows(0.01, 1, noise=0.3)), RULES)] == []


def test_a_row_of_large_updates_is_an_accident() -> None:
    def change(row: Row) -> None:
        harmed(row)
        if row["step"] == 70:
            typical_update(3.0)(row)

    assert rules.learning_rate_too_high(Record(course(change))) is None


def one_update(factor: float) -> Change:
    def change(row: Row) -> None:
        harmed(row)
        if row["step"] == 70:
            row["inspect"]["update_ratio"] = dict.fromkeys(MATRICES, factor * rules.ONE_UPDATE_HIGH)

    return change


def test_a_rate_is_too_high_where_one_update_rewrites_half_of_every_matrix() -> None:
    assert_beside_the_threshold(rules.learning_rate_too_high, one_update)
    assert seen(rules.learning_rate_too_high, course(one_update(2.0))).step == 70


def risen(factor: float, update: float = rules.MOVING_UPDATE) -> Change:
    def change(row: Row) -> None:
        if row["step"] >= 200:
            lowest = course(steps=170)[-1]["train_loss"]  # the median of the rows 150 to 190
            row["train_loss"] = lowest + factor * rules.LOSS_RISE * FIRST
            row["inspect"]["update_ratio"] = dict.fromkeys(MATRICES, update)
        if row["step"] == 200:
            row["grad_norm_max"] = 2.0 * rules.GRADIENT_JUMP * row["grad_norm"]

    return change


def test_a_rate_is_too_high_where_the_loss_turns_up() -> None:
    assert_beside_the_threshold(rules.learning_rate_too_high, risen)
    found = seen(rules.learning_rate_too_high, course(risen(2.0)))
    assert (found.where, found.step) == ("train_loss", 220)
    assert (
        found.evidence["train_loss_of_5_rows"]
        > found.healthy_range["train_loss_of_5_rows"][1]
        > found.evidence["lowest_before"]
    )
    assert {"update_ratio_of_5_rows", "grad_norm_max"} <= found.evidence.keys()


def test_a_rise_while_the_weights_stand_still_is_not_the_rates_doing() -> None:
    assert rules.learning_rate_too_high(Record(course(risen(2.0, update=0.99 * rules.MOVING_UPDATE)))) is None


def test_without_inspection_a_rise_alone_counts() -> None:
    def change(row: Row) -> None:
        risen(2.0)(row)
        row["inspect"] = None

    assert "update_ratio_of_5_rows" not in seen(rules.learning_rate_too_high, course(change)).evidence


def test_the_evidence_of_a_rate_too_high_is_of_the_step_that_is_named() -> None:
    def change(row: Row) -> None:
        typical_update(1.01 + row["step"] / 100)(row)
        row["grad_norm_max"] += row["step"]

    found = seen(rules.learning_rate_too_high, course(change))
    # Of the rows 50, 60 and 70 the middle one.
    assert found.evidence["update_ratio_of_3_rows"] == pytest.approx(1.61 * rules.TYPICAL_UPDATE_HIGH)
    assert (found.step, found.evidence["grad_norm_max"]) == (70, 71.9)
    assert found.evidence["highest"] == pytest.approx(1.91 * rules.TYPICAL_UPDATE_HIGH)
    assert found.evidence["highest_step"] == 100
    first = seen(rules.learning_rate_too_high, course(change, steps=80))
    assert first.evidence.keys() <= found.evidence.keys()
    same = ("update_ratio_of_3_rows", "learning_rate", "grad_norm_max")
    assert [first.evidence[key] for key in same] == [found.evidence[key] for key in same]


def test_the_evidence_of_no_warmup_is_of_the_first_step() -> None:
    def change(row: Row) -> None:
        first_update(2.0)(row)
        row["grad_norm_max"] = 1.0 + row["step"]

    assert seen(rules.no_warmup, course(change)).evidence["grad_norm_max"] == 2.0


def test_one_row_does_not_tell_a_rate_too_high_from_a_missing_warmup() -> None:
    def change(row: Row) -> None:
        if row["step"] == 1:
            row["learning_rate"] = 0.3
            row["inspect"]["update_ratio"] = dict.fromkeys(MATRICES, 2.0)
        else:
            row["train_loss"] = 2.0 * FIRST

    watch = Watch(RULES)
    assert [[found.code for found in watch.add(row)] for row in course(change, steps=10)] == [
        [],
        ["no-warmup", "learning-rate-too-high"],
    ]


def test_while_training_a_symptom_is_known_from_what_explains_it() -> None:
    def change(row: Row) -> None:
        first_norms(3.0)(row)
        typical_update(2.0)(row)

    watch = Watch(RULES)
    found = [finding for row in course(change) for finding in watch.add(row)]
    assert [(finding.code, watch.is_symptom(finding)) for finding in found] == [
        ("bad-init", False),
        ("learning-rate-too-high", True),
    ]


def crawling(loss: float, update: float, start: float = UNIFORM) -> Change:
    def change(row: Row) -> None:
        row["train_loss"] = start if row["step"] == 1 else loss
        row["learning_rate"] = 1e-5
        row["inspect"]["update_ratio"] = dict.fromkeys(MATRICES, update)

    return change


def test_a_rate_is_too_low_where_nothing_moves_and_nothing_is_learned() -> None:
    loss, update = rules.HARDLY_LEARNED * UNIFORM, rules.TYPICAL_UPDATE_LOW
    too_low = rules.learning_rate_too_low
    found = seen(too_low, course(crawling(1.01 * loss, 0.99 * update)))
    assert (found.where, found.step) == ("update_ratio", 1), "where the rate was highest first"
    assert found.evidence["learning_rate"] == 1e-5
    assert too_low(Record(course(crawling(0.99 * loss, 0.99 * update)))) is None
    assert too_low(Record(course(crawling(1.01 * loss, 1.01 * update)))) is None


def test_fine_tuning_with_small_steps_is_not_too_slow() -> None:
    start = rules.FROM_NOTHING * UNIFORM
    rows = course(crawling(0.79 * UNIFORM, 1e-5, start=0.99 * start))
    assert codes(rows) == []
    assert codes(course(crawling(0.79 * UNIFORM, 1e-5, start=1.01 * start))) == ["learning-rate-too-low"]


def test_a_rate_that_still_grows_is_not_too_low_yet() -> None:
    def change(row: Row) -> None:
        crawling(UNIFORM, 1e-5)(row)
        row["learning_rate"] = 1e-8 * min(row["step"], 100)

    rows = course(change)
    at = {row["step"]: index for index, row in enumerate(rows)}
    assert rules.learning_rate_too_low(Record(rows[: at[140] + 1])) is None
    assert rules.learning_rate_too_low(Record(rows[: at[150] + 1])) is not None


# --------------------------------------------------------------------------- overfitting


def overfitted(factor: float, *, training: float = 0.02, since: int = 200) -> Change:
    def change(row: Row) -> None:
        best = 0.5 + (UNIFORM - 0.5) * math.exp(-6 * 150 / 410)  # the healthy validation at 150
        row["ngram_loss"] = None
        if row["step"] >= since:
            row["train_loss"] = training
            row["val_loss"] = row["val_loss"] and best + factor * max(0.1 * best, 0.1)

    return change


def test_overfitting_is_validation_above_its_best_while_training_falls() -> None:
    assert_beside_the_threshold(rules.overfitting, overfitted)
    found = seen(rules.overfitting, course(overfitted(2.0)))
    assert (found.where, found.step) == ("val_loss", 150), "the best validation, from which on it rose"
    assert found.evidence["best_val_loss"] == course()[15]["val_loss"]
    assert found.evidence["above_best"] == found.evidence["last_val_loss"] - found.evidence["best_val_loss"]
    assert found.healthy_range["above_best"] == (None, pytest.approx(max(0.1 * found.evidence["best_val_loss"], 0.1)))


def test_a_validation_that_rises_with_training_is_not_overfitting() -> None:
    assert rules.overfitting(Record(course(overfitted(2.0, training=0.9)))) is None


def test_two_validations_above_the_best_are_an_accident() -> None:
    rows = course(overfitted(2.0))
    at = {row["step"]: index for index, row in enumerate(rows)}
    assert rules.overfitting(Record(rows[: at[290] + 1])) is None
    assert rules.overfitting(Record(rows[: at[300] + 1])) is not None


def test_validations_from_before_the_best_do_not_count() -> None:
    def change(row: Row) -> None:
        row["train_loss"] = UNIFORM / row["step"]

    assert rules.overfitting(Record(course(change, steps=150))) is None


NGRAM = 0.83


def stalled(factor: float = 1.01, *, training: float = 0.99, last: float = 1.0, ngram: float | None = NGRAM) -> Change:
    """Validation at `factor` times what is worse than counting, training at `training` times what is by heart."""

    def change(row: Row) -> None:
        value = factor * rules.WORSE_THAN_COUNTING * NGRAM
        row["ngram_loss"] = ngram
        row["train_loss"] = FIRST if row["step"] == 1 else training * rules.BY_HEART * value * last
        row["val_loss"] = row["val_loss"] and value * (last if row["step"] > 250 else 1.0)

    return change


def test_overfitting_is_also_validation_that_stands_still_above_counting_and_far_above_training() -> None:
    found = seen(rules.overfitting, course(stalled()))
    assert (found.where, found.step) == ("val_loss", 50), "it never fell"
    assert found.evidence["ngram_loss"] == NGRAM
    assert rules.overfitting(Record(course(stalled(0.99)))) is None
    assert rules.overfitting(Record(course(stalled(training=1.01)))) is None
    assert rules.overfitting(Record(course(stalled(ngram=None)))) is None


def by_heart(worse: float, heart: float) -> Change:
    """One validation at `worse` times what is plainly worse than counting, training at `heart` times what is plain."""

    def change(row: Row) -> None:
        value = worse * rules.PLAINLY_WORSE * NGRAM
        row["ngram_loss"] = NGRAM
        row["val_loss"] = value if row["step"] == 100 else None
        row["train_loss"] = heart * rules.PLAINLY_BY_HEART * value

    return change


def test_one_validation_shows_overfitting_where_it_is_plain() -> None:
    found = seen(rules.overfitting, course(by_heart(1.01, 0.99)))
    assert (found.where, found.step) == ("val_loss", 100)
    assert found.evidence["last_val_loss"] > (found.healthy_range["last_val_loss"][1] or 0.0)
    assert rules.overfitting(Record(course(by_heart(0.99, 0.99)))) is None
    assert rules.overfitting(Record(course(by_heart(1.01, 1.01)))) is None


def test_overfitting_is_judged_from_the_fourth_validation_on() -> None:
    assert not rules.judges_overfitting(Record(course(steps=190)))
    assert rules.judges_overfitting(Record(course(steps=200)))


def test_validation_that_fell_before_it_stood_still_turned_where_it_was_first_as_good() -> None:
    def change(row: Row) -> None:
        stalled()(row)
        if row["val_loss"] and row["step"] <= 200:
            row["val_loss"] *= (1.01 if row["step"] < 200 else 0.99) / rules.STALLED

    assert seen(rules.overfitting, course(change)).step == 200


def test_validation_that_still_falls_is_not_overfitting() -> None:
    assert rules.overfitting(Record(course(stalled(2.0, last=1.01 * rules.STALLED)))) is not None
    assert rules.overfitting(Record(course(stalled(2.0, last=0.99 * rules.STALLED)))) is None


# --------------------------------------------------------------------------- symptoms


def test_diverged_is_a_loss_that_lost_what_it_had_won() -> None:
    def lost(factor: float) -> Change:
        def change(row: Row) -> None:
            if row["step"] >= 300:
                lowest = course(steps=270)[-1]["train_loss"]
                row["train_loss"] = lowest + factor * 0.5 * (FIRST - lowest)

        return change

    assert_beside_the_threshold(rules.diverged, lost)
    found = seen(rules.diverged, course(lost(1.5)))
    # A median of five rows: it passes with the third of them.
    assert (found.where, found.step, found.evidence["lowest_step"]) == ("train_loss", 320, 290)


def test_a_small_rise_at_the_start_is_not_divergence() -> None:
    def change(row: Row) -> None:
        row["train_loss"] = UNIFORM * (0.99 if row["step"] < 60 else 1.01)

    assert rules.diverged(Record(course(change))) is None


def test_exploding_gradients_are_a_hundred_times_the_usual() -> None:
    def spike(factor: float) -> Change:
        def change(row: Row) -> None:
            if row["step"] == 130:
                row["grad_norm_max"] = factor * rules.EXPLODING * 1.3

        return change

    assert_beside_the_threshold(rules.exploding_gradients, spike)
    found = seen(rules.exploding_gradients, course(spike(3.0)))
    assert (found.where, found.step, found.evidence["usual"]) == ("grad_norm", 130, 1.3)


def test_gradients_that_became_small_do_not_make_the_first_ones_large() -> None:
    def change(row: Row) -> None:
        row["grad_norm"] = row["grad_norm_max"] = 2.0 if row["step"] < 50 else 1e-3

    assert rules.exploding_gradients(Record(course(change))) is None


def starved(factor: float, since: int = 370) -> Change:
    def change(row: Row) -> None:
        if row["step"] >= since:
            # The largest gradient is that of the last matrix, 0.5.
            row["inspect"]["gradients"]["blocks.0.ffn.W1.grad"]["l2"] = rules.VANISHING * 0.5 / factor

    return change


def test_vanishing_gradients_are_a_matrix_that_gets_none() -> None:
    assert_beside_the_threshold(rules.vanishing_gradients, starved)
    found = seen(rules.vanishing_gradients, course(starved(7.0)))
    assert (found.where, found.step) == ("blocks.0.ffn.W1.grad", 370)
    assert found.evidence["largest_gradient_norm"] == 0.5


def test_four_rows_without_gradient_are_an_accident() -> None:
    assert rules.vanishing_gradients(Record(course(starved(7.0, since=380)))) is None


def test_a_bias_without_gradient_is_no_fault() -> None:
    # The bias of keys shifts every score of a query alike: its gradient is 0 by its nature.
    def change(row: Row) -> None:
        row["inspect"]["gradients"]["blocks.0.attn.b_k.grad"] = {"l2": 0.0}

    assert codes(course(change)) == []


def dying(factor: float, since: int = 390) -> Change:
    def change(row: Row) -> None:
        if row["step"] >= since:
            row["inspect"]["dead_fraction"]["blocks.1.ffn.act"] = factor * rules.DEAD

    return change


def test_dead_units_are_most_of_a_layer_in_the_last_rows() -> None:
    assert_beside_the_threshold(rules.dead_units, dying)
    found = seen(rules.dead_units, course(dying(1.5)))
    assert (found.where, found.step) == ("blocks.1.ffn.act", 390)
    assert found.evidence == {"dead_fraction": 1.5 * rules.DEAD, "layers": 1}
    assert rules.dead_units(Record(course(dying(1.5, since=400)))) is None


def test_non_finite_names_step_and_place() -> None:
    def change(row: Row) -> None:
        if row["step"] == 410:
            row["train_loss"] = math.nan
            row["inspect"]["modules"]["blocks.0.ffn.act"].update(nan=19, inf=2)
            row["inspect"]["modules"]["Model"].update(nan=23)
            row["non_finite_place"] = "blocks.0.ffn.act"

    found = seen(rules.non_finite, course(change))
    assert (found.where, found.step) == ("blocks.0.ffn.act", 410)
    assert found.evidence == {"nan": 19, "inf": 2, "last_train_loss": course()[-2]["train_loss"]}


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_a_row_is_not_finite_before_and_after_it_was_written(value: float | None) -> None:
    rows = course()
    rows[-1]["grad_norm"] = value
    if value is None:
        assert rules.non_finite(Record(rows)) is None  # not measured
        rows[-1]["non_finite"] = {"grad_norm": "nan"}
    assert seen(rules.non_finite, rows).where == "grad_norm"


def test_every_number_a_rule_gives_is_finite() -> None:
    changes = [first_loss(2.0), first_update(2.0), typical_update(2.0), overfitted(2.0), starved(7.0), dying(1.5)]
    changes += [risen(2.0), crawling(UNIFORM, 1e-5)]
    found = [finding for change in changes for finding in diagnose(Record(course(change)), RULES)]
    assert len(found) >= len(changes)
    for finding in found:
        assert finding.healthy_range.keys() <= finding.evidence.keys()
        assert all(math.isfinite(number) for number in finding.evidence.values())


@pytest.mark.parametrize("rows", [600, 1030, 2500])
def test_a_row_in_four_that_is_dead_or_starved_is_neither_in_a_long_log(rows: int) -> None:
    def made(dead: Callable[[int], bool]) -> Record:
        record = Record()
        for place in range(rows):
            row = healthy_row(place + 1, rows)
            if dead(place):
                row["inspect"]["dead_fraction"]["blocks.1.ffn.act"] = 0.9
                row["inspect"]["gradients"]["blocks.0.ffn.W1.grad"]["l2"] = 1e-9
            record.add(row)
        return record

    for check in (rules.dead_units, rules.vanishing_gradients):
        assert check(made(lambda place: place % 4 == 0)) is None
        found = check(made(lambda place: place % 4 == 0 or place >= rows - 6))
        assert found is not None
        assert found.step == rows - 5


def test_matrices_that_nobody_trains_do_not_make_a_rate_too_low() -> None:
    def change(row: Row) -> None:
        crawling(0.9 * UNIFORM, 4e-3)(row)
        row["inspect"]["update_ratio"] |= dict.fromkeys(MATRICES[1:], 0.0)

    assert rules.learning_rate_too_low(Record(course(change))) is None


def test_a_rate_at_which_nothing_moves_at_all_is_too_low() -> None:
    assert rules.learning_rate_too_low(Record(course(crawling(UNIFORM, 0.0)))) is not None


def test_a_matrix_that_never_got_a_gradient_is_not_used_and_one_that_lost_it_is_starved() -> None:
    def change(since: int) -> Change:
        def starve(row: Row) -> None:
            if row["step"] >= since:
                row["inspect"]["gradients"]["blocks.0.ffn.W1.grad"]["l2"] = 0.0

        return starve

    assert rules.vanishing_gradients(Record(course(change(1)))) is None
    assert seen(rules.vanishing_gradients, course(change(200))).step == 200
