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


@pytest.mark.parametrize("path", ["9" * 400, "~nobody-of-this-name/a.csv", "a\x01", "/"])
def test_a_release_that_cannot_be_a_file(stage, path):
    answer = stage.client.post("/release", {"path": path})
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text


@pytest.mark.parametrize("field", ["separator", "decimal", "encoding"])
def test_a_way_of_writing_that_is_none(stage, field):
    given = {"separator": "semicolon", "decimal": "comma", "encoding": "cp1252", field: "<b>"}
    answer = stage.client.post(f"/work/{stage.works[2].id}/data/written", given)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert "<b>" not in answer.text
