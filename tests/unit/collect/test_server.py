"""The collector over HTTP, in process: answers, problems, tokens, the queue, the live page."""

import asyncio
import contextlib
import json
import os
import random
import threading

import pytest
from starlette.testclient import TestClient

from privest.collect import CollectionPlan, Device, Report, open_store, replay
from privest.collect.device import Reply
from privest.collect.mqtt import broker_of, listen
from privest.collect.server import MOST_BYTES, Collector, Problem, Tokens, make_app, new_token
from privest.errors import InvalidInput

PLAN = CollectionPlan.from_dict(
    {
        "name": "meter", "features": ["hour"], "range": [0, 2], "residual_variance": 0.04,
        "levels": {"low": 1.0, "high": 4.0}, "steps": 1000,
    }
)  # fmt: skip


def sent(k=0, **other):
    own = {
        "id": f"{k:032x}", "device": "d1", "step": k, "level": "low", "features": [k * 64], "z": 5,
    }  # fmt: skip
    return own | other


def body(*reports, plan=PLAN.hash):
    return {"plan": plan, "reports": list(reports)}


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / "c.db", PLAN)


@pytest.fixture
def client(store):
    collector = Collector(store)
    with TestClient(make_app(collector), raise_server_exceptions=False) as found:
        yield found
    collector.close()


def test_same_id_and_body_give_the_first_answer_another_body_409(client, store):
    first, again = (client.post("/reports", json=body(sent(1))) for _ in range(2))
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert client.post("/reports", json=body(sent(1, z=6))).status_code == 409
    assert client.post("/reports", json=body(sent(2, step=1))).status_code == 410
    mixed = client.post("/reports", json=body(sent(1), sent(1, z=6), sent(3)))
    assert mixed.status_code == 207
    assert [one["status"] for one in mixed.json()["answers"]] == [201, 409, 201]
    assert store.count() == (2, 1)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (b"", 400), (b"{", 400), (b"[]", 400), (b"\xff\xfe", 400), (b"[" * 100_000, 400),
        (body(), 400), (body(sent(), plan="x"), 422), (body(sent(z=2**26)), 422),
        (body(sent(z=2**27)), 400), (body(sent(z=1.5)), 400), (body(sent(z="5")), 400),
        (body(sent(id="F" * 32)), 400), (body(sent(id="f" * 31)), 400), (body(sent(y=1.0)), 400),
        (body(sent(device="a b")), 400), (body(sent(step=-1)), 400), (body(sent(step=1000)), 422),
        (body(sent(level="none")), 422), (body(sent(features=[])), 422),
        (body(*(sent(k) for k in range(1001))), 400), (b" " * (1 << 21), 413),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_problem_and_changes_nothing(client, store, given, status):
    content = given if isinstance(given, bytes) else json.dumps(given)
    answer = client.post("/reports", content=content)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert store.count() == (0, 0)


@pytest.mark.parametrize("count", [500, pytest.param(100_000, marks=pytest.mark.slow)])
def test_malformed_bodies_are_4xx_problems_only(client, store, count):
    """Bytes of a good body changed, cut and doubled at random."""
    good, rng = json.dumps(body(sent(1))).encode(), random.Random(1)
    for _ in range(count):
        made = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(made))
            kind = rng.randrange(3)
            if kind == 0:
                made[at] = rng.randrange(256)
            elif kind == 1:
                del made[at : at + rng.randint(1, 9)]
            else:
                made[at:at] = made[at : at + rng.randint(1, 30)]
            if not made:
                made = bytearray(b"x")
        answer = client.post("/reports", content=bytes(made))
        assert answer.status_code in (201, 400, 409, 410, 422)
        if answer.status_code in (400, 422):
            assert answer.headers["content-type"] == "application/problem+json"
    assert replay(store)


def test_unknown_paths_and_methods_are_problems(client):
    assert client.get("/none").status_code == 404
    assert client.get("/reports").status_code == 405
    assert client.get("/none").headers["content-type"] == "application/problem+json"


def tokens(folder, *lines):
    (folder / "lines.txt").write_text("\n".join(lines))
    return Tokens(folder / "lines.txt")


def test_answers_to_get_and_without_a_token_say_what_is_needed(client, store, tmp_path):
    assert client.get("/reports").headers["allow"] == "POST"
    with TestClient(make_app(Collector(store, tokens(tmp_path)))) as other:
        answer = other.post("/reports", json=body(sent(1)))
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_a_body_that_does_not_arrive_is_408(store, monkeypatch):
    monkeypatch.setattr("privest.collect.server.LONGEST_BODY", 0.05)
    parts = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive():
        if not parts:
            await asyncio.sleep(5)
        return parts.pop()

    async def run(receive):
        said = []

        async def send(message):
            said.append(message)

        scope = {"type": "http", "method": "POST", "path": "/reports", "headers": []}
        scope["query_string"] = b""
        await make_app(Collector(store))(scope, receive, send)
        return said[0]["status"], dict(said[0]["headers"])[b"content-type"]

    async def gone():
        return {"type": "http.disconnect"}

    problem = b"application/problem+json"
    assert asyncio.run(run(receive)) == asyncio.run(run(gone)) == (408, problem)


def test_a_store_that_went_away_is_503(client, store):
    store.close()
    for path in ("/health", "/estimate", "/events"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "the store does not answer" in answer.json()["title"]
    assert client.post("/reports", json=body(sent(1))).status_code == 503


def test_as_many_reports_as_parameters_leave_no_residuals(client):
    client.post("/reports", json=body(sent(1), sent(2)))
    found = client.get("/estimate").json()
    assert found["residual_ratio"] is None
    assert len(found["parameters"]) == 2


def test_counts_and_rows_are_of_one_moment(client, store, monkeypatch):
    """Reports that arrive while the state is read are in the next one."""
    client.post("/reports", json=body(sent(1)))
    count = store.count

    def later():
        store.add([planned(2)])
        return count()

    monkeypatch.setattr(store, "count", later)
    found = client.get("/estimate").json()
    assert found["reports"] == found["rows"]["low"] == 1


def test_devices_of_another_plan_are_told(store):
    """Without a request to answer, the problem goes to the devices that a body names."""
    other = json.dumps(body(sent(1), sent(2, device="d2"), plan="x")).encode()
    answers = asyncio.run(Collector(store).answers_by_device(other))
    assert [device for device, _ in answers] == ["d1", "d2"]
    assert all("fetch /plan" in text for _, text in answers)


def test_a_body_from_a_broker_is_limited_as_a_request_is(store):
    """It is not parsed, so that it names no device to answer."""
    large = json.dumps(body(sent(1))).encode() + b" " * MOST_BYTES
    collector = Collector(store)
    assert asyncio.run(collector.answers_by_device(large)) == []
    assert asyncio.run(collector.state())["refused"] == 1
    assert store.count() == (0, 0)


def test_few_messages_of_a_broker_wait_in_memory():
    assert 0 < broker_of("mqtt://127.0.0.1")["max_queued_incoming_messages"] <= 100


def test_a_broker_that_does_not_answer_is_told_once(store, monkeypatch, caplog):
    monkeypatch.setattr("privest.collect.mqtt.PAUSE", 0.01)
    with contextlib.suppress(TimeoutError):
        url = "mqtt://user:secret@127.0.0.1:1"
        asyncio.run(asyncio.wait_for(listen(Collector(store), url), 1.0))
    (told,) = [one.getMessage() for one in caplog.records if one.name == "privest.collect.mqtt"]
    assert "does not answer" in told
    assert "secret" not in told


def test_tokens_are_of_one_device_or_of_a_gateway(store, tmp_path):
    (own, line), (gate, star) = new_token("d1"), new_token("site-*")
    low, least = new_token("d3", 1.0)
    collector = Collector(store, tokens(tmp_path, line, "# a comment", star, least))
    with TestClient(make_app(collector)) as client:

        def status(token, *reports):
            headers = {"authorization": token}
            return client.post("/reports", json=body(*reports), headers=headers).status_code

        assert status("", sent(1)) == status("Bearer none", sent(1)) == 401
        assert status(f"Basic {own}", sent(1)) == 401
        assert status(f"Bearer {own}", sent(1)) == 201
        assert status(f"Bearer {own}", sent(2, device="d2")) == 403
        assert status(f"Bearer {own}", sent(3), sent(2, device="d2")) == 403
        assert status(f"Bearer {gate}", sent(4, device="site-1"), sent(5, device="site-2")) == 201
        assert status(f"Bearer {gate}", sent(6)) == 403
        assert status(f"Bearer {low}", sent(7, device="d3")) == 201
        assert status(f"Bearer {low}", sent(8, device="d3", level="high")) == 403
        assert status(f"Bearer {own}", sent(9, level="none")) == 422
    assert store is collector.store
    for wrong in ("d1", "d1 xyz 1", f"a/b {'0' * 64} 1", f"a {'0' * 64}", f"a {'0' * 64} nan"):
        with pytest.raises(InvalidInput):
            tokens(tmp_path, wrong)


def test_a_file_of_tokens_is_followed(store, tmp_path):
    """A device is added and removed while the collector runs; a damaged file lets nobody send."""
    file = tmp_path / "tokens.txt"
    (first, line), (second, added) = new_token("d1"), new_token("d2")
    file.write_text(line)
    with TestClient(make_app(Collector(store, Tokens(file)))) as client:

        def status(token, report):
            headers = {"authorization": f"Bearer {token}"}
            return client.post("/reports", json=body(report), headers=headers).status_code

        def write(text, at):
            file.write_text(text)
            os.utime(file, ns=(at, at))

        assert [status(first, sent(1)), status(second, sent(2, device="d2"))] == [201, 401]
        write(line + added, 1)
        assert [status(first, sent(3)), status(second, sent(2, device="d2"))] == [201, 201]
        write(added, 2)
        assert [status(first, sent(4)), status(second, sent(5, device="d2"))] == [401, 201]
        write("d1 none", 3)
        assert status(second, sent(6, device="d2")) == 503
        file.unlink()
        assert status(second, sent(6, device="d2")) == 503
        write(line, 4)
        assert status(first, sent(6)) == 201


def test_a_full_queue_is_answered_with_429_and_a_broken_store_with_503(store, monkeypatch):
    monkeypatch.setattr("privest.collect.server.MOST_WAITING", 3)

    async def run():
        collector = Collector(store)
        reports = [planned(k) for k in range(4)]
        first = asyncio.create_task(collector.submit(reports[:3]))
        await asyncio.sleep(0)
        with pytest.raises(Problem) as busy:
            await collector.submit(reports[3:])
        assert (busy.value.status, busy.value.wait) == (429, 1)
        writer = asyncio.create_task(collector.run())
        assert [one.value for one in await first] == [201] * 3
        await collector.submit(reports[3:])
        store.close()
        with pytest.raises(Problem) as broken:
            await collector.submit([planned(9)])
        assert broken.value.status == 503
        assert collector._waiting == 0
        writer.cancel()

    asyncio.run(run())


def planned(k):
    return Report(f"{k:032x}", "d", k, "low", (0,), 1)


def test_plan_estimate_health_metrics_and_page(client):
    answer = client.get("/plan")
    assert CollectionPlan.from_dict(answer.json()).hash == PLAN.hash
    assert answer.headers["etag"] == f'"{PLAN.hash}"'
    assert answer.json()["grid"] == 2.0**-10
    assert client.get("/health").json() == {"status": "ok"}
    client.post("/reports", json=body(*(sent(k, z=1000 + 3 * k) for k in range(50))))
    client.post("/reports", content=b"")
    found = client.get("/estimate").json()
    assert (found["reports"], found["devices"]) == (50, 1)
    client.post("/reports", json=body(sent(50)))
    assert client.get("/estimate").json() == found  # at most half a second old
    assert found["refused"] == 1
    assert [one["name"] for one in found["parameters"]] == ["intercept", "hour"]
    for one in found["parameters"]:
        assert one["low"] < one["value"] < one["high"]
        assert one["bound"] <= one["se"] < one["bound"] * (1 + 1e-5)
    text = client.get("/metrics").text
    assert 'privest_reports_total{answer="accepted"} 51.0' in text
    assert 'privest_refused_total{status="400"} 1.0' in text
    page = client.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for name in ("live.js", "live.css"):
        assert name in page.text
        assert client.get(f"/{name}").status_code == 200


def test_an_estimate_of_nothing_says_so(client):
    assert "0 measurements" in client.get("/estimate").json()["note"]


def test_devices_over_http_from_several_threads(client, store, tmp_path):
    """Each device sends again whatever it likes; every step counts once."""

    def post(url, content, headers):
        path = url.removeprefix("http://c")
        answer = client.get(path) if content is None else client.post(path, content=content)
        return Reply(answer.status_code, answer.content)

    def work(j):
        with Device("http://c", f"d{j}", tmp_path / f"{j}.db", budget=1.0, post=post) as own:
            for k in range(5):
                own.contribute(1.0, [k / 8])
            own._box.execute("UPDATE outbox SET answer = NULL")  # as if no answer had come
            assert own.flush() == 5

    threads = [threading.Thread(target=work, args=(j,)) for j in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert store.count() == (20, 4)
    assert replay(store)
