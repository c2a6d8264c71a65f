"""Hypothesis: no deadline (first calls import scipy), the same examples on every CI run, 40 of them
unless a test or EXAMPLES says otherwise (`make test-slow`: 300). Marks of ledgers go to a folder of
the run, not to the user's. EMULATE=windows: see `emulated`.
"""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

if system := os.environ.get("EMULATE"):
    from emulated import emulate

    emulate(system)

settings.register_profile(
    "house",
    deadline=None,
    max_examples=int(os.environ.get("EXAMPLES", "40")),
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")


def pytest_collection_finish():
    """What was collected stays: garbage is looked for in what tests make (7% of their time)."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _marks_of_ledgers(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVEST_STATE_HOME", str(tmp_path_factory.mktemp("marks")))
        yield
