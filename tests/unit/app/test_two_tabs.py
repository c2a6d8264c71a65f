"""Two tabs on one piece of work: what was shown or computed of one table, model or release is never
stored for another.
"""

import threading
from contextlib import contextmanager

import numpy as np
import pytest

import privest.app.release as release_screen
import privest.app.results as results_screen
from app_client import Client, words
from app_release import made

ROLES = {
    "role-0": "public", "role-1": "public", "list-1": "a\nb", "known": "yes", "form": "rows",
    "role-2": "private", "low-2": "0", "high-2": "10", "sd-2": "2", "gaps": "refuse",
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


@pytest.fixture
def work(client):
    found = client.begun(a_table(1), "first.csv", private=2)
    assert client.post(f"/work/{found.id}/data", ROLES).status_code == 303
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


def test_a_page_of_another_model_decides_nothing(client, work):
    """It was open in a tab; in another one the model was changed."""
    model = work.models
    assert f'name="model" value="{model}"' in client.get(at(work, "/privacy")).text
    assert client.post(at(work, "/data"), ROLES | {"high-2": "50"}).status_code == 303
    plan, old = work.plan, {"model": str(model), "epsilon": "3"}
    for rest in ("", "/numbers"):
        answer = client.post(at(work, f"/privacy{rest}"), old | {"then": "go"})
        assert (answer.status_code, "was changed meanwhile" in words(answer)) == (422, True)
    assert work.plan is plan


def test_the_columns_form_can_be_sent_again_after_going_back(client, work):
    for high in ("20", "30"):
        answer = client.post(at(work, "/data"), ROLES | {"high-2": high})
        assert answer.status_code == 303
        assert work.plan.spec.privacy.range == {"y": (0.0, float(high))}


# --- release and results --------------------------------------------------------------------------


def test_an_account_that_was_looked_at_is_that_of_its_plan(client, work, monkeypatch):
    with held(monkeypatch, release_screen, "_as_choice") as (begin, _):
        begin(lambda: client.post(at(work, "/release/look"), {"subject": "the first plan"}))
        assert client.post(at(work, "/data"), ROLES | {"high-2": "50"}).status_code == 303
    assert work.choice is None
    assert "the first plan" not in client.get(at(work, "/release")).text


def test_a_mean_is_kept_under_its_own_release(client, work, monkeypatch):
    """While an estimate is made, another release is. (Nothing is clipped: then there is a mean.)"""
    client.post(at(work, "/data"), ROLES | {"low-2": "-30", "high-2": "40"})
    client.post(at(work, "/privacy"), {"epsilon": "50"})
    made(client, work, limit="200")
    first = work.released
    with held(monkeypatch, results_screen, "estimate") as (begin, answers):
        begin(lambda: client.post(at(work, "/results/mean"), {"at-0": "0.5", "at-1": "a"}))
        made(client, work, again="yes")
    assert first is not work.released
    assert answers[0].status_code == 303
    assert work.asked == []  # it was asked of the first release
    assert client.get(at(work, "/results")).status_code == 200
    assert work.kept[0][0] == work.released
