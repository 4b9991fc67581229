"""The spectral norm: never above the truth, below by less than is said, warm, deterministic."""

import json
import math

import numpy as np
import pytest
from minitrain.spectral import SpectralNorm


@pytest.fixture(autouse=True)
def _floating_point_errors_are_errors():
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        yield


def truth(matrix: np.ndarray) -> float:
    return float(np.linalg.svd(matrix.astype(np.float64), compute_uv=False)[0])


def assert_close_from_below(estimate: float | None, matrix: np.ndarray, below: float = 1e-3) -> None:
    assert estimate is not None
    assert (1.0 - below) * truth(matrix) <= estimate <= (1.0 + 1e-6) * truth(matrix)


def test_a_matrix_with_a_known_norm() -> None:
    assert SpectralNorm().measure(np.array([[3.0, 0.0], [4.0, 5.0]])) == pytest.approx(6.708203932499369, rel=1e-12)


@pytest.mark.parametrize(
    ("matrix", "start", "norm"),
    [
        (np.diag([3.0, 1.0]), [0.0, 1.0], 3.0),
        (np.array([[1.0, -1.0], [1.0, -1.0]]), [1.0, 1.0], 2.0),
        (np.diag([1.02, 1.0] + [0.3] * 60), [0.0, 1.0] + [0.0] * 60, 1.02),
        (np.diag([5.0] + [1.0] * 126), [0.0] * 126 + [1.0], 5.0),
    ],
)
def test_a_start_at_right_angles_to_the_leading_vector_does_not_matter(matrix, start, norm) -> None:
    assert SpectralNorm(start=np.array(start)).measure(matrix) == pytest.approx(norm, rel=1e-4)


def test_two_values_close_together() -> None:
    estimate = SpectralNorm().measure(np.diag([1.0, 0.999] + [0.5] * 6))
    assert 0.999 <= estimate <= 1.0 + 1e-6


def test_zero_is_zero_and_does_not_spoil_what_follows() -> None:
    norm = SpectralNorm()
    assert norm.measure(np.zeros((5, 3))) == 0.0
    assert norm.measure(np.diag([2.0, 1.0, 1.0])) == pytest.approx(2.0)
    assert norm.measure(np.zeros((3, 3), dtype=np.float32)) == 0.0
    assert norm.measure(np.diag([2.0, 1.0, 1.0])) == pytest.approx(2.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 23), (23, 1), (5, 3), (12, 8), (64, 64), (64, 257), (257, 64)])
def test_random_matrices_of_every_shape(shape: tuple[int, int], dtype: type) -> None:
    for seed in range(20):
        matrix = np.random.default_rng(seed).uniform(-1.0, 1.0, size=shape).astype(dtype)
        copy = matrix.copy()
        assert_close_from_below(SpectralNorm(seed=seed).measure(matrix), matrix)
        assert np.array_equal(matrix, copy)


def test_low_rank_and_strided_matrices() -> None:
    rng = np.random.default_rng(6)
    rank_one = np.outer(rng.normal(size=31), rng.normal(size=17))
    for matrix in (rank_one, rank_one.T, np.asfortranarray(rank_one), rank_one[::2, ::-3]):
        assert_close_from_below(SpectralNorm().measure(matrix), matrix, below=1e-9)


@pytest.mark.parametrize("scale", [1e20, 1e-20, 1e38, 1e-42])
def test_extreme_scales_in_float32(scale: float) -> None:
    matrix = (np.random.default_rng(2).uniform(0.5, 1.0, size=(13, 7)) * scale).astype(np.float32)
    assert_close_from_below(SpectralNorm().measure(matrix), matrix)


def test_what_is_not_a_finite_matrix() -> None:
    norm = SpectralNorm()
    assert norm.measure(np.ones(5)) is None
    assert norm.measure(np.ones((2, 3, 5))) is None
    assert norm.measure(np.empty((0, 3))) is None
    healthy = norm.measure(np.eye(3))
    assert math.isnan(norm.measure(np.array([[1.0, math.nan], [0.0, 1.0]])))
    assert norm.measure(np.array([[1.0, -math.inf], [0.0, 1.0]])) == math.inf
    assert norm.measure(np.eye(3)) == pytest.approx(healthy)


def test_integers_are_measured_as_numbers() -> None:
    assert SpectralNorm().measure(np.array([[3, 0], [4, 5]])) == pytest.approx(math.sqrt(45.0))


def test_a_warm_start_needs_few_iterations_and_follows_the_matrix() -> None:
    rng = np.random.default_rng(3)
    matrix = rng.uniform(-0.1, 0.1, size=(64, 256)).astype(np.float32)
    norm = SpectralNorm()
    norm.measure(matrix)
    cold, spent = norm.iterations, []
    for _ in range(50):
        matrix += rng.normal(scale=1e-3, size=matrix.shape).astype(np.float32)
        assert_close_from_below(norm.measure(matrix), matrix)
        spent.append(norm.iterations)
    assert cold >= 8
    assert max(spent) <= 4


def test_a_matrix_that_jumps_is_found_again() -> None:
    values = np.linspace(0.2, 1.0, 64)
    norm = SpectralNorm()
    assert norm.measure(np.diag(values)) == pytest.approx(1.0, rel=1e-4)
    jumped = values.copy()
    jumped[0] = 1.5  # exactly at right angles to what is warm
    measured = [norm.measure(np.diag(jumped)) for _ in range(6)]
    assert measured[-1] == pytest.approx(1.5, rel=1e-4)
    other = np.random.default_rng(0).normal(size=(64, 64))
    assert_close_from_below(norm.measure(other), other)
    assert_close_from_below(norm.measure(other[:, :7]), other[:, :7])  # another size begins anew


def test_equal_seeds_give_equal_bits_and_global_randomness_is_untouched() -> None:
    matrix = np.random.default_rng(1).normal(size=(31, 17)).astype(np.float32)
    before = np.random.get_state()[1].copy()  # noqa: NPY002  the state that must not move
    runs = [[norm.measure(matrix * k) for k in (1, 2, 3)] for norm in (SpectralNorm(seed=5), SpectralNorm(seed=5))]
    assert runs[0] == runs[1]
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_a_saved_state_goes_on_bit_for_bit() -> None:
    rng = np.random.default_rng(1)
    norm = SpectralNorm(seed=4)
    norm.measure(rng.normal(size=(31, 17)))
    again = SpectralNorm(seed=99)
    again.load_state_dict(json.loads(json.dumps(norm.state_dict())))
    for _ in range(3):
        matrix = rng.normal(size=(31, 17))
        assert norm.measure(matrix) == again.measure(matrix)
    fresh = SpectralNorm(seed=1)
    fresh.load_state_dict(SpectralNorm(seed=2).state_dict())
    assert fresh.measure(np.eye(5) * 3.0) == pytest.approx(3.0)
