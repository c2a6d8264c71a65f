"""A few forms that no page would send (`make browser` sends 10⁴), and those that once broke it."""

import pytest

from app_fuzz_run import fuzz
from app_stage import Stage


def test_forms_never_break_the_app(tmp_path):
    told = fuzz(tmp_path, 200, quick=True)
    assert sum(told.values()) == 200


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    found = Stage(tmp_path_factory.mktemp("fuzz"), quick=True)
    yield found
    found.close()
