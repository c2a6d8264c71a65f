"""Every route of the app, found from its table, for work in every state: a page or a way on."""

import re

import pytest

from app_fuzz import require_message
from app_stage import Stage

pytestmark = pytest.mark.browser  # without one; but pages with pictures take their time


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    found = Stage(tmp_path_factory.mktemp("routes"))
    yield found
    found.close()


def answered(stage, answer, said):
    desk = stage.client.desk
    sentinels = () if re.search(r"/data(/\w+)?$", said) else stage.sentinels  # its owner sees it
    require_message(answer, (desk.session,), sentinels, said)
    return answer.status_code


def test_every_page_answers(stage):
    for place in stage.places("GET"):
        for headers in ({}, {"hx-request": "true"}):
            answer = stage.client.get(place, headers=headers)
            assert answered(stage, answer, place) in (200, 204, 303, 404, 422), place


def test_every_link_leads_somewhere(stage):
    links = [place for method, place in stage.forms if method == "get"]
    assert len(links) > 10
    for place in links:
        answer = stage.client.get(place)
        assert answered(stage, answer, place) in (200, 204, 303, 404, 422), place


def test_every_form_sent_empty_gives_a_message(stage):
    for place in stage.places("POST"):
        status = answered(stage, stage.client.post(place), place)
        assert status in (200, 204, 303, 404, 409, 422), place
    stage.set()


def test_work_that_is_not_there(stage):
    for method in ("GET", "POST"):
        for place in stage.places(method):
            gone = place
            for work in stage.works:
                gone = gone.replace(work.id, "nowhere")
            if gone != place:
                answer = getattr(stage.client, method.lower())(gone)
                assert answered(stage, answer, gone) == 404
