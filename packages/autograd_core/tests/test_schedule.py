"""Warm-up and cosine: values at the corners, holding, and what is refused."""

import dataclasses
import math

import pytest
from autograd_core.optim import WarmupCosine


def test_the_corners() -> None:
    schedule = WarmupCosine(lr_max=1.0, lr_min=0.1, warmup_steps=4, total_steps=14)
    assert [schedule(step) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert schedule(9) == pytest.approx(0.55)  # half-way down
    assert schedule(14) == pytest.approx(0.1)


def test_every_step_follows_the_formula() -> None:
    schedule = WarmupCosine(3e-4, 3e-5, 5, 30)
    for step in range(60):
        if step < 5:
            expected = 3e-4 * (step + 1) / 5
        else:
            expected = 3e-5 + (3e-4 - 3e-5) * 0.5 * (1 + math.cos(math.pi * min(1.0, (step - 5) / 25)))
        assert schedule(step) == pytest.approx(expected, rel=1e-14)
        assert type(schedule(step)) is float


def test_the_minimum_is_held_after_the_end() -> None:
    schedule = WarmupCosine(1.0, 0.1, 2, 10)
    assert schedule(10) == schedule(11) == schedule(10**6) == pytest.approx(0.1, rel=1e-15)


def test_it_falls_from_the_top_and_never_below_the_minimum() -> None:
    rates = [WarmupCosine(1.0, 0.1, 3, 20)(step) for step in range(3, 40)]
    assert rates == sorted(rates, reverse=True)
    assert min(rates) >= 0.1


def test_without_warm_up_it_starts_at_the_top() -> None:
    schedule = WarmupCosine(1.0, 0.0, 0, 10)
    assert schedule(0) == 1.0
    assert schedule(5) == pytest.approx(0.5)


def test_warm_up_may_take_all_steps() -> None:
    schedule = WarmupCosine(1.0, 0.1, 4, 4)
    assert [schedule(step) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 0.1, 0.1]


def test_one_step_is_a_schedule() -> None:
    assert WarmupCosine(1.0, 0.1, 0, 1)(0) == 1.0
    assert WarmupCosine(1.0, 0.1, 1, 1)(0) == 1.0


def test_a_constant_rate_is_a_schedule() -> None:
    assert {WarmupCosine(0.5, 0.5, 0, 10)(step) for step in range(20)} == {0.5}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.1, 0.2, 1, 10), "0 <= lr_min <= lr_max; got lr_min=0.2, lr_max=0.1"),
        ((0.1, -0.1, 1, 10), "got lr_min=-0.1"),
        ((math.nan, 0.0, 1, 10), "lr_max=nan"),
        ((1.0, 0.1, 11, 10), "warmup_steps <= total_steps; got warmup_steps=11, total_steps=10"),
        ((1.0, 0.1, -1, 10), "got warmup_steps=-1"),
        ((1.0, 0.1, 0, 0), "got warmup_steps=0, total_steps=0"),
    ],
)
def test_settings_that_do_not_fit_are_refused(arguments: tuple[float, float, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WarmupCosine(*arguments)


def test_a_schedule_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        WarmupCosine(1.0, 0.1, 1, 10).lr_max = 2.0  # type: ignore[misc]
