"""Fixtures shared by all tests."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# kernels are compiled and the machines that run the tests are shared: a slow example is no failure
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def data_home():
    """Folder of real data sets; tests on them are skipped where it is not given."""
    folder = os.environ.get("SKLEARN_SEQLAB_DATA")
    if not folder:
        pytest.skip("SKLEARN_SEQLAB_DATA is not set: no real data to test on")
    return Path(folder)
