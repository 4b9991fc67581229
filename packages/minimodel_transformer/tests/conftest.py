"""Fixtures of this package's tests."""

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_260_313)


@pytest.fixture(autouse=True)
def _floating_point_errors_are_errors() -> Iterator[None]:
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        yield


@pytest.fixture(autouse=True)
def _global_random_state_is_untouched() -> Iterator[None]:
    before = np.random.get_state()  # noqa: NPY002  the very state that nothing may touch
    yield
    after = np.random.get_state()  # noqa: NPY002
    assert before[2:] == after[2:]
    assert np.array_equal(before[1], after[1])
