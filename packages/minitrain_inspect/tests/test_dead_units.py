"""Dead units: one real token proves a unit alive, nothing but real tokens can."""

import numpy as np
import pytest
from minitrain.dead_units import THRESHOLD, DeadUnits


def by_definition(activations: np.ndarray, real: np.ndarray | None = None) -> float:
    rows = activations.reshape(-1, activations.shape[-1])
    rows = rows if real is None else rows[real]
    return float((np.abs(rows) < THRESHOLD).all(axis=0).mean())


@pytest.mark.parametrize("tokens", [1, 7, 8, 9, 41, 1009])
def test_the_share_is_that_of_the_definition(tokens: int) -> None:
    rng = np.random.default_rng(tokens)
    # Units that live on one token in 3, 20, 200, and never.
    rate = np.repeat([1 / 3, 1 / 20, 1 / 200, 0.0], [5, 7, 11, 3])
    activations = np.where(rng.random((tokens, 26)) < rate, rng.normal(size=(tokens, 26)), 1e-4)
    units = DeadUnits()
    units.observe(activations.reshape(tokens, 1, 26))
    assert units.fraction() == by_definition(activations)
    real = rng.random(tokens) < 0.5
    masked = DeadUnits()
    masked.observe(activations, real)
    assert masked.fraction() == (by_definition(activations, real) if real.any() else None)


def test_a_unit_stays_alive_until_the_reset() -> None:
    units = DeadUnits()
    assert units.fraction() is None
    units.observe(np.array([[0.0, 2.0, 0.0, 0.0]]))
    assert units.fraction() == 0.75
    units.observe(np.array([[0.0, 0.0, -2.0, 0.0]]))
    assert units.fraction() == 0.5
    assert units.suspects[4].tolist() == [0, 3]
    units.reset()
    assert units.fraction() is None
    units.observe(np.zeros((5, 4)))
    assert units.fraction() == 1.0


def test_the_threshold_itself_is_alive_and_so_is_nan() -> None:
    units = DeadUnits()
    units.observe(np.array([[THRESHOLD, -THRESHOLD, 0.999 * THRESHOLD, np.nan]]))
    assert units.fraction() == 0.25


def test_padding_is_neither_life_nor_an_observation() -> None:
    activations = np.array([[[0.0, 5.0], [7.0, 7.0]]])
    units = DeadUnits()
    units.observe(activations, np.array([False, False]))
    assert units.fraction() is None
    units.observe(activations, np.array([True, False]))
    assert units.fraction() == 0.5


def test_an_empty_batch_is_no_observation() -> None:
    units = DeadUnits()
    units.observe(np.empty((0, 3)))
    units.observe(np.array(1.0))
    assert units.fraction() is None


def test_layers_of_two_widths_behind_one_activation_count_both() -> None:
    units = DeadUnits()
    wide, narrow = np.zeros((3, 8)), np.ones((3, 5))
    narrow[:, 2] = wide[:, 1:] = 0.0
    wide[:, 0] = 1.0
    for _ in range(2):  # in every forward again
        units.observe(wide)
        units.observe(narrow)
    assert units.fraction() == (7 + 1) / (8 + 5)
    again = DeadUnits()
    again.load_state_dict(units.state_dict())
    assert again.fraction() == units.fraction()


def test_a_resumed_count_goes_on() -> None:
    units = DeadUnits()
    units.observe(np.array([[0.0, 2.0, 0.0]]))
    again = DeadUnits()
    again.load_state_dict(units.state_dict())
    for each in (units, again):
        each.observe(np.array([[2.0, 0.0, 0.0]]))
        assert each.fraction() == pytest.approx(1 / 3)
    fresh = DeadUnits()
    fresh.load_state_dict(DeadUnits().state_dict())
    assert fresh.fraction() is None
