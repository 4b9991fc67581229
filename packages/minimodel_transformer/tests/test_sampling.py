"""Temperature, top-k and top-p against reference values and by hand; draws that follow their distribution."""

import numpy as np
import pytest
from minimodel.transformer.sampling import Sampler

CASES = ["temperature", "top_k", "top_k_1", "top_k_over", "top_p", "top_p_small", "top_p_1"]


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_reference(reference, name):
    case = reference.load(name)
    p = Sampler(**case.params).probabilities(case.arrays["logits"])
    case.assert_close(p, "probs")
    assert np.array_equal(p == 0, np.isneginf(case.arrays["out"]))


LOGITS = np.log([0.5, 0.2, 0.2, 0.07, 0.03])


def test_temperature_by_hand():
    p = Sampler(temperature=0.5).probabilities(LOGITS)
    squares = np.array([0.25, 0.04, 0.04, 0.0049, 0.0009])
    np.testing.assert_allclose(p, squares / squares.sum(), rtol=1e-12)


def test_top_k_keeps_the_k_best_and_ties_with_the_last():
    np.testing.assert_allclose(Sampler(top_k=1).probabilities(LOGITS), [1, 0, 0, 0, 0])
    np.testing.assert_allclose(Sampler(top_k=2).probabilities(LOGITS), np.array([5, 2, 2, 0, 0]) / 9, rtol=1e-12)
    np.testing.assert_allclose(Sampler(top_k=4).probabilities(LOGITS), np.array([50, 20, 20, 7, 0]) / 97, rtol=1e-12)
    np.testing.assert_allclose(Sampler(top_k=5).probabilities(LOGITS), np.exp(LOGITS), rtol=1e-12)


@pytest.mark.parametrize(
    ("p", "kept"), [(0.01, 1), (0.499, 1), (0.501, 2), (0.699, 2), (0.701, 3), (0.95, 4), (0.98, 5), (1.0, 5)]
)
def test_top_p_keeps_the_id_that_crosses_the_line(p, kept):
    found = Sampler(top_p=p).probabilities(LOGITS)
    expected = np.exp(LOGITS)
    expected[kept:] = 0
    np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-12)


def test_top_p_counts_the_lower_of_equally_likely_ids_first():
    logits = np.where(np.arange(512) % 3 == 0, 1.0, 0.0)
    p = np.exp(logits) / np.exp(logits).sum()
    found = Sampler(top_p=p[::3].sum() + 20.5 * p[1]).probabilities(logits)
    others = [i for i in range(512) if i % 3]
    assert np.flatnonzero(found).tolist() == sorted([*range(0, 512, 3), *others[:21]])


def test_top_p_of_one_keeps_ids_that_rounding_would_lose():
    logits = np.array([0.0, -45.0, -50.0])
    assert (Sampler(top_p=1.0).probabilities(logits) > 0).all()


def test_temperature_comes_before_top_p():
    # At temperature 1 the best id alone reaches 0.5; at 2 it does not.
    assert np.count_nonzero(Sampler(top_p=0.49).probabilities(LOGITS)) == 1
    assert np.count_nonzero(Sampler(top_p=0.49, temperature=2.0).probabilities(LOGITS)) == 2


def test_top_k_comes_before_top_p():
    # Among the best three ids the first has 5/9: more than 0.52 of what is left, less than 0.52 of everything.
    assert np.count_nonzero(Sampler(top_p=0.52).probabilities(LOGITS)) == 2
    assert np.count_nonzero(Sampler(top_p=0.52, top_k=3).probabilities(LOGITS)) == 1


def test_temperature_zero_is_the_best_id_and_of_equals_the_lowest(rng):
    logits = np.array([[1.0, 3.0, 3.0], [5.0, 2.0, 1.0]])
    assert Sampler(temperature=0.0).draw(logits, rng).tolist() == [1, 0]
    assert Sampler(temperature=0.0).probabilities(logits).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_temperature_zero_draws_no_number():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    Sampler(temperature=0.0).draw(LOGITS, rng)
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("temperature", [1e-300, 5e-324, 1e-8])
def test_tiny_temperature_approaches_greedy_without_overflow(rng, temperature):
    assert Sampler(temperature=temperature).draw(1e3 * LOGITS, rng) == 0


def test_huge_temperature_approaches_uniform():
    np.testing.assert_allclose(Sampler(temperature=1e300).probabilities(LOGITS), 0.2, rtol=1e-12)


@pytest.mark.parametrize("offset", [-1e6, 1e6, 1e300])
def test_only_differences_of_logits_count(offset):
    logits = np.array([0.0, -1.0]) + (0 if offset == 1e300 else offset)
    shifted = logits if offset != 1e300 else np.array([1e300, -1e300])
    p = Sampler().probabilities(shifted)
    assert p[0] == pytest.approx(1.0 if offset == 1e300 else 1 / (1 + np.exp(-1)), rel=1e-9)


def test_rows_are_filtered_alone(rng):
    logits = rng.standard_normal((2, 3, 11)) * 3
    sampler = Sampler(temperature=0.8, top_k=5, top_p=0.7)
    together = sampler.probabilities(logits)
    for index in np.ndindex(2, 3):
        assert np.array_equal(sampler.probabilities(logits[index]), together[index])


def test_float32_logits_give_float64_probabilities():
    assert Sampler().probabilities(LOGITS.astype(np.float32)).dtype == np.float64


def test_logits_are_not_written_into():
    logits = LOGITS.copy()
    for sampler in (Sampler(), Sampler(temperature=0), Sampler(top_k=2, top_p=0.5)):
        sampler.probabilities(logits)
    assert np.array_equal(logits, LOGITS)


def test_draws_follow_the_distribution():
    rng = np.random.default_rng(8)
    logits = np.broadcast_to(LOGITS, (100_000, 5))
    counts = np.bincount(Sampler(top_k=4).draw(logits, rng), minlength=5)
    expected = np.array([50, 20, 20, 7, 0]) / 97 * 100_000
    assert counts[4] == 0
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()


class FixedDraws:
    """Stands for a generator whose uniform numbers are given."""

    def __init__(self, values):
        self.values = np.array(values)

    def random(self, shape):
        return self.values.reshape(shape)


def test_extreme_draws_never_pick_a_filtered_or_missing_id():
    largest = 1.0 - 2.0**-53
    logits = np.tile(np.array([-900.0, 0.0, 0.0, 0.0, -900.0]), (2, 1))
    assert Sampler().draw(logits, FixedDraws([0.0, largest])).tolist() == [1, 3]


def test_draw_beyond_a_sum_that_rounding_left_below_one_picks_the_last_id():
    largest = 1.0 - 2.0**-53
    assert np.cumsum(np.full(10, 0.1))[-1] <= largest
    assert Sampler().draw(np.zeros((1, 10)), FixedDraws([largest])).tolist() == [9]


def test_draw_of_one_row_is_a_scalar(rng):
    drawn = Sampler().draw(LOGITS, rng)
    assert drawn.shape == ()
    assert drawn.dtype == np.int64


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_refused(bad):
    for sampler in (Sampler(), Sampler(temperature=0.0)):
        with pytest.raises(ValueError, match="logits must be finite; 1 of 3 are not"):
            sampler.probabilities(np.array([0.0, bad, 1.0]))


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_impossible_temperature_is_refused(value):
    with pytest.raises(ValueError, match=f"temperature must be finite and not negative; got {value}"):
        Sampler(temperature=value)


def test_impossible_top_k_is_refused():
    with pytest.raises(ValueError, match="top_k must be at least 1; got 0"):
        Sampler(top_k=0)
    for value in (2.0, True, "3"):
        with pytest.raises(TypeError, match=f"top_k must be an integer; got {value!r}"):
            Sampler(top_k=value)


@pytest.mark.parametrize("value", [0.0, -0.5, 1.01, float("nan")])
def test_impossible_top_p_is_refused(value):
    with pytest.raises(ValueError, match=f"top_p must be above 0 and at most 1; got {value}"):
        Sampler(top_p=value)


@pytest.mark.parametrize("name", ["temperature", "top_p"])
@pytest.mark.parametrize("value", ["1", True, 1j, np.ones(2)], ids=repr)
def test_settings_that_are_no_numbers_are_refused(name, value):
    with pytest.raises(TypeError, match=f"^sampling: {name} must be a number; got "):
        Sampler(**{name: value})
