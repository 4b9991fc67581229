"""Hypothesis for all tests of the package: no deadline, since machines are shared, and the same examples each time."""

import os

from hypothesis import settings

settings.register_profile("dev", deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
