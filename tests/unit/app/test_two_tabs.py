"""Two tabs on one piece of work: what was shown or computed of one table, model or release is never
stored for another.
"""

import threading
from contextlib import contextmanager

import numpy as np
import pytest

import privest.app._privacy_screen as privacy_screen
import privest.app._release_screen as release_screen
import privest.app._results_screen as results_screen
from app_client import Client
from privest.app._release_job import CHOICE

ROLES = {
    "role-0": "public", "role-1": "public", "list-1": "a\nb", "lists_public": "yes",
    "role-2": "private", "low-2": "0", "high-2": "10", "noise_variance": "4", "gaps": "refuse",
}  # fmt: skip


@pytest.fixture
def client(tmp_path):
    found = Client(tmp_path)
    yield found
    found.close()


def a_table(seed):
    rng = np.random.default_rng(seed)
    rows = zip(rng.random(60), "ab" * 30, 9 * rng.random(60), strict=True)
    return "\n".join(["x,g,y", *(f"{x:.3f},{g},{y:.2f}" for x, g, y in rows)]).encode()


def send(client, work, name, seed, **changes):
    """A table, and what its columns are."""
    place = f"/work/{work.id}/data"
    assert client.post(f"{place}/file", files={"table": (name, a_table(seed))}).status_code == 303
    answer = client.post(place, ROLES | changes)
    assert answer.status_code == 303, answer.text


@pytest.fixture
def work(client):
    found = client.desk.begin()
    send(client, found, "first.csv", 1)
    return found


@contextmanager
def held(monkeypatch, room, name):
    """Whoever calls this function has its answer, and brings it back only after what is within."""
    call, arrived, go = getattr(room, name), threading.Event(), threading.Event()

    def slow(*given, **more):
        found = call(*given, **more)
        if threading.current_thread() is not threading.main_thread() and not go.is_set():
            arrived.set()
            go.wait(20)
        return found

    monkeypatch.setattr(room, name, slow)
    answers = []

    def begin(ask):
        thread = threading.Thread(target=lambda: answers.append(ask()))
        thread.start()
        assert arrived.wait(20)
        monkeypatch.setattr(room, name, call)
        return thread

    threads = []
    yield lambda ask: threads.append(begin(ask)), answers
    go.set()
    for thread in threads:
        thread.join(20)


def at(work, rest):
    return f"/work/{work.id}{rest}"


def test_what_is_said_of_a_group_is_said_of_its_table(client, work, monkeypatch):
    with held(monkeypatch, privacy_screen, "withdrawn") as (begin, answers):
        begin(lambda: client.post(at(work, "/privacy/without"), {"no": ["0-1"]}))
        send(client, work, "second.csv", 2)
    assert answers[0].status_code == 422
    assert "would have to be shown" not in client.get(at(work, "/privacy")).text


def test_what_is_said_of_a_group_is_said_of_its_level(client, work):
    client.post(at(work, "/privacy/without"), {"no": ["0-1"]})
    assert "“g=b”" in client.get(at(work, "/privacy")).text
    client.post(at(work, "/privacy"), {"level": "3"})
    assert "“g=b”" not in client.get(at(work, "/privacy")).text


def test_a_page_of_another_model_decides_nothing(client, work):
    """It was open in a tab; in another one the model was changed."""
    model = work.models
    assert f'name="model" value="{model}"' in client.get(at(work, "/privacy")).text
    assert client.post(at(work, "/data"), ROLES | {"high-2": "50"}).status_code == 303
    plan, old = work.plan, {"model": str(model)}
    taken = {"level": "3", "then": "take"}
    for rest, form in {"": taken, "/numbers": taken, "/without": {"no": "0-1"}}.items():
        answer = client.post(at(work, f"/privacy{rest}"), form | old)
        assert (answer.status_code, "was changed meanwhile" in answer.text) == (422, True)
    assert work.plan is plan


def test_columns_of_another_table_are_not_taken_for_these(client, work):
    """Columns are counted in the form: which of them is private would be said of another table."""
    looks, plan = work.looks, None
    assert f'name="looks" value="{looks}"' in client.get(at(work, "/data")).text
    files = {"table": ("turned.csv", b"y,x,g\n1,2,a\n3,4,b\n")}
    assert client.post(at(work, "/data/file"), files=files).status_code == 303
    answer = client.post(at(work, "/data"), ROLES | {"looks": str(looks)})
    assert (answer.status_code, "Another table was chosen" in answer.text) == (422, True)
    assert work.plan is plan
    assert not work.typed
    assert f'name="looks" value="{work.looks}"' in answer.text


def test_the_data_form_can_be_sent_again_after_going_back(client, work):
    looks = str(work.looks)
    for high in ("20", "30"):
        answer = client.post(at(work, "/data"), ROLES | {"looks": looks, "high-2": high})
        assert answer.status_code == 303
        assert work.spec.privacy.range == {"y": (0.0, float(high))}


# --- release and results --------------------------------------------------------------------------


def test_an_account_that_was_looked_at_is_that_of_its_table(client, work, monkeypatch):
    with held(monkeypatch, release_screen, "_as_choice") as (begin, _):
        begin(lambda: client.post(at(work, "/release/look"), {"subject": "the first table"}))
        send(client, work, "second.csv", 2)
    assert CHOICE not in work.more
    assert "the first table" not in client.get(at(work, "/release")).text


def tried(client, work):
    """A trial, as the release screen leaves it."""
    assert client.post(at(work, "/release/trial"), {"seed": "1"}).status_code == 303
    for thread in client.desk._threads:
        thread.join(20)
    assert work.released is not None


def test_an_estimate_is_kept_under_its_own_release_and_errors(client, work, monkeypatch):
    """While one is made, another release and other errors are asked for."""
    tried(client, work)
    first = work.released
    with held(monkeypatch, results_screen, "estimate_release") as (begin, answers):
        given = {"at-0": "0.5", "at-1": "a"}
        begin(lambda: client.post(at(work, "/results/predict"), given))
        tried(client, work)
        second = work.released
        assert client.post(at(work, "/results/ask"), {"confidence": "0.9"}).status_code == 303
    assert answers[0].status_code == 422  # the table of the first trial went with it
    assert "There is no table trial.csv any more" in answers[0].text
    assert first is not second
    assert "at" not in work.asked  # it was asked of the first release
    assert work.asked["confidence"] == 0.9
    seen = results_screen.seen_of(work)
    held_now = work.more[results_screen.PARTS]
    kept = {key[1]: one.release for key, one in held_now.items() if key[0] == "estimate"}
    assert kept.keys() == {str(first), str(second)}
    assert results_screen.estimate_of(seen).release is kept[str(second)]


def test_what_cannot_be_asked_takes_nothing_back(client, work, monkeypatch):
    """A refused question puts back nothing that another tab asked meanwhile."""
    tried(client, work)
    client.get(at(work, "/results"))

    def refused(*given, **more):
        work.asked["total"] = True  # another tab
        raise results_screen.InvalidInput("no such errors.")

    with monkeypatch.context() as patch:
        patch.setattr(results_screen, "estimate_of", refused)
        with pytest.raises(results_screen.InvalidInput):
            results_screen._answer(None, results_screen.seen_of(work), {"confidence": 0.9})
    assert work.asked == {"total": True}
