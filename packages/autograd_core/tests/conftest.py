"""Fixtures of this package's tests: a seeded generator, and guards against what a test could leave behind."""

import os
from collections.abc import Iterator

import numpy as np
import pytest
from autograd_core import is_grad_enabled
from hypothesis import settings

# `HYPOTHESIS_PROFILE=thorough pytest …` looks longer; the default keeps the suite short and the same on every run.
settings.register_profile("dev", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_260_311)


@pytest.fixture(autouse=True)
def _floating_point_errors_are_errors() -> Iterator[None]:
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        yield


@pytest.fixture(autouse=True)
def _grad_mode_is_restored() -> Iterator[None]:
    assert is_grad_enabled()
    yield
    assert is_grad_enabled(), "the test left recording switched off"


@pytest.fixture(autouse=True)
def _global_random_state_is_untouched() -> Iterator[None]:
    before = np.random.get_state()  # noqa: NPY002  the very state that nothing may touch
    yield
    after = np.random.get_state()  # noqa: NPY002
    assert before[2:] == after[2:]
    assert np.array_equal(before[1], after[1])
