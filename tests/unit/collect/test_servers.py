"""The collector with real servers: PostgreSQL, mosquitto, uvicorn; killed, and heard again."""

import contextlib
import json
import socket
import subprocess
import threading
import time
import urllib.request

import psycopg
import pytest
from benchmarks import collector_kills

import privest as pv
from collector_servers import (
    Served,
    free_port,
    mosquitto,
    needs_mosquitto,
    needs_postgres,
    postgres,
)
from privest.collect import Answer, CollectionPlan, Device, Report, load_plan, open_store, replay
from privest.errors import CollectorSilent, InvalidInput

pytestmark = pytest.mark.processes

TEXT = """
name = "meter"
features = ["hour"]
range = [0, 2]
residual_variance = 0.04
steps = 1000
[levels]
low = 1.0
"""


@pytest.fixture
def plan_file(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(TEXT)
    return path


def made(k, step=None, z=5, device="d"):
    return Report(f"{k:032x}", device, k if step is None else step, "low", (k,), z)


@needs_postgres
def test_postgresql_counts_once_and_survives_a_kill(plan_file):
    plan = load_plan(plan_file)
    with postgres() as server, open_store(server.address, plan) as store:
        assert store.add([made(k) for k in range(900)]) == [Answer.ACCEPTED] * 900
        again = [made(1), made(1, z=6), made(901, step=2), made(902), made(902), made(902, z=7)]
        found = [one.value for one in store.add(again)]
        assert found == [201, 409, 410, 201, 201, 409]
        assert store.count() == (901, 1)
        assert store.known == 2
        server.kill()
        with pytest.raises(Exception, match=r"connection|server|terminat"):
            store.add([made(950)])
        server.start()
        assert store.add([made(950)]) == [Answer.ACCEPTED]  # connected again by itself
        assert store.count() == (902, 1)
        assert replay(store)
        with open_store(server.address, plan) as second:  # two collectors, one database
            assert second.add([made(951), made(950)]) == [Answer.ACCEPTED] * 2
        assert store.count() == (903, 1)
        assert replay(store)
        with pytest.raises(InvalidInput, match="another plan"):
            open_store(server.address, CollectionPlan.from_dict(plan.to_dict() | {"steps": 5}))
    with pytest.raises(InvalidInput, match="does not answer"):
        open_store(server.address, plan)


@needs_postgres
def test_a_connection_that_ends_inside_a_transaction_leaves_nothing(plan_file, monkeypatch):
    """The statements after it do not go on over a new connection, each on its own."""
    plan = load_plan(plan_file)
    with postgres() as server, open_store(server.address, plan) as store:
        insert = store._insert

        def ended(*given):
            found = insert(*given)
            store._connection.close()
            return found

        monkeypatch.setattr(store, "_insert", ended)
        with pytest.raises(Exception, match="clos"):
            store.add([made(1)])
        monkeypatch.undo()
        assert store.count() == (0, 0)
        assert store.add([made(1)]) == [Answer.ACCEPTED]
        assert replay(store)


@needs_postgres
def test_a_database_that_keeps_a_statement_waiting_is_given_up(plan_file, monkeypatch):
    """Somebody else holds the lock: the report is refused after a time, and taken later."""
    monkeypatch.setattr("privest.collect.store.PATIENCE", 1)
    plan = load_plan(plan_file)
    with postgres() as server, open_store(server.address, plan) as store:
        with psycopg.connect(server.address, autocommit=True) as other:
            other.execute("SELECT pg_advisory_lock(5327)")
            begun, refused = time.monotonic(), []

            def add():
                try:
                    store.add([made(1)])
                except psycopg.errors.QueryCanceled as error:
                    refused.append(error)

            thread = threading.Thread(target=add)
            thread.start()
            thread.join(20.0)
            assert not thread.is_alive()
            assert refused
            assert time.monotonic() - begun < 15.0
        assert store.add([made(1)]) == [Answer.ACCEPTED]
        assert store.count() == (1, 1)


@needs_postgres
def test_two_collectors_write_one_database_at_once(plan_file):
    plan = load_plan(plan_file)
    with postgres() as server:

        def work(j):
            with open_store(server.address, plan) as store:
                for k in range(0, 1000, 50):
                    store.add([made(i) for i in range(k, k + 50)])  # all send the same

        threads = [threading.Thread(target=work, args=(j,)) for j in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        with open_store(server.address, plan) as store:
            assert store.count() == (1000, 1)
            assert replay(store)


@needs_mosquitto
def test_devices_over_mqtt_and_a_broker_that_goes_away(plan_file, tmp_path):
    port = free_port()
    url = f"mqtt://127.0.0.1:{port}/meter"
    with Served(plan_file, tmp_path / "c.db", "--mqtt", f"mqtt://127.0.0.1:{port}") as served:
        with mosquitto(port), Device(url, "m1", tmp_path / "m1.db", budget=1.0) as own:
            for k in range(3):
                assert own.contribute(1.0, [k / 8])
            own._box.execute("UPDATE outbox SET answer = NULL")  # as if no answer had come
            assert own.flush() == 3
        # The broker is gone, and with it what it kept: neither plan nor reports.
        with mosquitto(port), Device(url, "m1", tmp_path / "m1.db", budget=1.0) as own:
            own.put(1.0, [1.0])
            assert own.flush() == 1  # the collector came back to the broker by itself
        with pytest.raises(CollectorSilent):
            Device(url, "m1", tmp_path / "m1.db", budget=1.0, tries=1)
        (tmp_path / "b").mkdir()
        more = "--mqtt", f"mqtt://127.0.0.1:{port}"
        with Served(plan_file, tmp_path / "b" / "c.db", *more) as second:
            # Two collectors on one broker count the same reports, each once.
            with mosquitto(port), Device(url, "m1", tmp_path / "m1.db", budget=1.0) as own:
                end, counted = time.monotonic() + 20, 0
                while counted < 2 and time.monotonic() < end:  # once it has found the broker
                    own.contribute(1.0, [0.5])
                    time.sleep(0.5)
                    counted = json.loads(second.get("/estimate"))["reports"]
                steps = own.steps
            assert second.close() == 0
        assert served.close() == 0
    with pytest.raises(InvalidInput, match="begins with"):
        Device("amqp://127.0.0.1/meter", "m2", tmp_path / "m2.db", budget=1.0)
    with open_store(tmp_path / "c.db", load_plan(plan_file)) as store:
        assert store.count() == (steps, 1)
    with open_store(tmp_path / "b" / "c.db", load_plan(plan_file)) as store:
        assert store.count()[0] >= 2
        assert replay(store)


HALF = b"POST /reports HTTP/1.1\r\nHost: c\r\nX-Slow: "


def opened(stack, port, count, sent=HALF):
    """Connections that send these bytes and then wait."""
    made = []
    for _ in range(count):
        own = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        own.sendall(sent)
        made.append(own)
    return made


def test_half_sent_headers_shut_nobody_out(plan_file, tmp_path):
    """More of them than the process may have files; then they are closed."""
    with Served(plan_file, tmp_path / "c.db", files=200) as served, contextlib.ExitStack() as stack:
        slow = opened(stack, served.port, 260)
        with Device(served.url, "m1", tmp_path / "m1.db", budget=1.0, tries=3) as own:
            assert own.contribute(1.0, [0.5])
        begun = time.monotonic()
        assert b"live.js" in served.get("/")
        assert time.monotonic() - begun < 5.0
        slow[-1].settimeout(25.0)
        assert slow[-1].recv(1) == b""
        assert served.close() == 0


def test_watchers_of_the_page_shut_nobody_out(plan_file, tmp_path):
    with Served(plan_file, tmp_path / "c.db", files=200) as served, contextlib.ExitStack() as stack:
        watching = opened(stack, served.port, 150, b"GET /events HTTP/1.1\r\nHost: c\r\n\r\n")
        answers = [own.recv(12) for own in watching]
        assert set(answers) == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
        assert b"live.js" in served.get("/")


def test_tls_of_its_own(plan_file, tmp_path, monkeypatch):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1",
         "-addext", "keyUsage=critical,digitalSignature,keyCertSign"],
        check=True, capture_output=True,
    )  # fmt: skip
    words = "--certificate", str(certificate), "--key", str(key)
    with Served(plan_file, tmp_path / "c.db", *words) as served, contextlib.ExitStack() as stack:
        (silent,) = opened(stack, served.port, 1, b"")
        url = served.url.replace("http", "https")
        with pytest.raises(InvalidInput, match="does not trust the collector's certificate"):
            Device(url, "m1", tmp_path / "m1.db", budget=1.0)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.setattr(urllib.request, "_opener", None)  # keeps what was trusted before
        with Device(url, "m1", tmp_path / "m1.db", budget=1.0) as own:
            assert own.contribute(1.0, [0.5])
        silent.settimeout(25.0)
        assert silent.recv(1) == b""  # a handshake has as long as the head of a request
        assert served.close() == 0


@needs_postgres
@pytest.mark.parametrize("database", [False, True])
def test_kills_under_load_lose_nothing_and_double_nothing(tmp_path, database):
    """`python -m benchmarks.collector_kills` does it fifty times."""
    with postgres() if database else contextlib.nullcontext() as server:
        address = server.address if server else tmp_path / "c.db"
        found = collector_kills.run(tmp_path, address, 5, seed=1, server=server)
    assert found["lost after a 2xx"] == found["doubled"] == 0
    assert found["drawn"] == found["answered"] == found["in the store"] > 0
    assert found["as drawn"]
    assert found["sums are those of the reports"]


def test_a_ledger_of_a_device_is_charged_for_what_it_sent(plan_file, tmp_path):
    with (
        Served(plan_file, tmp_path / "c.db") as served,
        Device(served.url, "m1", tmp_path / "m1.db", budget=1.0) as own,
    ):
        own.contribute(1.0, [0.5])
    account = pv.Ledger(tmp_path / "m1.db").account("m1")
    assert float(account.spent.level) == pytest.approx(1.0, abs=1e-12)
