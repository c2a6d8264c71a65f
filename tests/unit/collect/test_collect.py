"""The collector: plans, reports, stores, devices, the server; nothing lost, nothing doubled."""

import asyncio
import contextlib
import dataclasses
import math
import os
import socket
import sqlite3
import stat
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import privest as pv
from privest.collect import (
    Answer,
    CollectionPlan,
    Device,
    Report,
    Sums,
    estimate,
    in_process,
    load_plan,
    merge,
    open_store,
    replay,
    running_sums,
)
from privest.collect.device import Reply
from privest.errors import CollectorSilent, InvalidInput, NotIdentifiable

PLAN = {
    "name": "meter", "features": ["hour"], "range": [0, 2], "residual_variance": 0.04,
    "levels": {"low": 1.0, "high": 4.0}, "steps": 100,
}  # fmt: skip


def plan(**other):
    return CollectionPlan.from_dict(PLAN | other)


def report(k=0, device="d", step=0, level="low", hour=0.5, z=7):
    return Report(f"{k:032x}", device, step, level, (round(hour * 65536),), z)


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "c.db", plan()) as found:
        yield found


# --- plans ----------------------------------------------------------------------------------------


def test_a_plan_from_toml_with_an_epsilon(tmp_path):
    text = 'name = "m"\nfeatures = []\nrange = [0, 1]\nresidual_variance = 1\nsteps = 3\n'
    (tmp_path / "p.toml").write_text(text + "[levels]\none = {epsilon = 1}\ntwo = 0.5\n")
    found = load_plan(tmp_path / "p.toml")
    assert found.names == ("intercept",)
    assert 0.99 < found.statement("one").epsilon <= 1 + 1e-9
    assert CollectionPlan.from_dict(found.to_dict()).hash == found.hash


@pytest.mark.parametrize(
    "wrong",
    [
        {"range": [1, 0]}, {"range": [0, math.inf]}, {"range": [0]}, {"levels": {}}, {"levels": []},
        {"levels": {"a b": 1}}, {"levels": {"a": 0}}, {"levels": {"a": -1}}, {"steps": 0},
        {"residual_variance": 5e-324}, {"residual_variance": 1e60}, {"levels": {"a": 1e-60}},
        {"features": ["a", "a"]}, {"features": "a"}, {"residual_variance": 0}, {"delta": 1},
        {"delta": 2e-3}, {"name": ""}, {"extra": 1}, {"grid": 1.0}, {"feature_grid": 1},
        {"levels": {"a": 1e12}}, {"levels": {"a": 1e300}, "range": [0, 1e300]},
        {"features": [], "intercept": False},
    ],
)  # fmt: skip
def test_wrong_plans_are_refused(wrong):
    with pytest.raises(InvalidInput):
        plan(**wrong)


def test_whole_numbers_and_floats_are_the_same_plan():
    whole = CollectionPlan("m", ("h",), (0, 2), 1, {"low": 1}, 5)
    floats = CollectionPlan("m", ("h",), (0.0, 2.0), 1.0, {"low": 1.0}, 5)
    assert whole.hash == floats.hash == CollectionPlan.from_dict(whole.to_dict()).hash


def test_a_plan_in_python_is_checked_as_one_in_a_file():
    """A list of features is as good as a tuple; a text is not taken for a list of letters."""
    given = {"range": (0.0, 2.0), "residual_variance": 0.04, "levels": {"low": 1.0}}
    assert CollectionPlan("m", ["h"], steps=5, **given).names == ("intercept", "h")
    for features, steps in (("hour", 5), (("intercept",), 5), (("h",), 0), (("h",), 2.5)):
        with pytest.raises(InvalidInput, match=r"features|steps"):
            CollectionPlan("m", features, steps=steps, **given)


def test_epsilon_of_all_measurements_is_that_of_their_sum():
    """n releases of μ-GDP are √n·μ-GDP: against δ(ε) by the normal distribution."""
    made = plan(steps=24)
    mu, epsilon = made.statement("low").mu * math.sqrt(24), made.epsilon_of_all("low")
    delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(made.delta, rel=1e-6)
    assert epsilon > made.statement("low").epsilon


# --- sums -----------------------------------------------------------------------------------------

WHOLE = st.integers(-(2**26), 2**26)


@given(st.lists(st.lists(WHOLE, min_size=3, max_size=3), max_size=30), st.randoms())
def test_sums_are_exact_in_any_order(rows, random):
    found, again = Sums(3), Sums(3)
    if rows:
        found.add(rows)
    mixed = rows[:]
    random.shuffle(mixed)
    for row in mixed:
        again.add([row])
    assert found == again == Sums.from_text(found.to_text())
    for i in range(3):
        for j in range(3):
            assert found.gram[i, j] == sum(row[i] * row[j] for row in rows)


def test_the_largest_chunk_fits_into_64_bits():
    found = Sums(2)
    found.add([[2**26, -(2**26)]] * 5000)
    assert found.gram[0, 0] == 5000 * 2**52
    assert found.gram[0, 1] == -5000 * 2**52


# --- stores ---------------------------------------------------------------------------------------


def test_a_report_counts_once_and_conflicts_are_told(store):
    assert store.add([report(1), report(2, step=1)]) == [Answer.ACCEPTED] * 2
    assert store.add([report(1)]) == [Answer.ACCEPTED]  # again: the first answer
    assert store.add([report(1, z=8)]) == [Answer.CONFLICT]  # another body
    assert store.add([report(3)]) == [Answer.TAKEN]  # another id of the same step
    assert store.count() == (2, 1)
    assert store.known == 1
    assert store.sums()["low"].count == 2
    assert replay(store)


def test_stores_and_outboxes_are_their_owners_alone_from_the_first_byte(tmp_path, monkeypatch):
    """Their journals too; a file that was there keeps its mode."""
    connect, modes, umask = sqlite3.connect, [], os.umask(0)

    def asked(path, *more, **options):
        if str(path).endswith(("c.db", ".outbox")):  # the ledger moves its file to its place
            modes.append(stat.S_IMODE(os.stat(path).st_mode))
        return connect(path, *more, **options)

    monkeypatch.setattr(sqlite3, "connect", asked)
    try:
        with (
            open_store(tmp_path / "c.db", plan()) as store,
            device(tmp_path, in_process(store)) as own,
        ):
            own.contribute(1.0, [0.5])
            found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        (tmp_path / "c.db").chmod(0o640)
        with open_store(tmp_path / "c.db", plan()):
            pass
    finally:
        os.umask(umask)
    assert {"c.db", "c.db-wal", "c.db-shm", "m1.db", "m1.db.outbox"} <= set(found)
    assert set(found.values()) == {0o600}
    assert set(modes[:-1]) == {0o600}
    assert modes[-1] == 0o640


def test_a_group_is_written_whole_or_not_at_all(store):
    with pytest.raises(InvalidInput):
        store.add([report(1), report(2, step=100)])
    assert store.count() == (0, 0)


def test_a_changed_report_is_found_by_a_replay(store, tmp_path):
    store.add([report(1), report(2, step=1, level="high")])
    assert replay(store)
    with contextlib.closing(sqlite3.connect(tmp_path / "c.db")) as other, other:
        other.execute("UPDATE reports SET z = z + 1 WHERE step = 1")
    assert not replay(store)


def test_a_store_is_of_one_plan(store, tmp_path):
    with pytest.raises(InvalidInput, match="another plan"):
        open_store(tmp_path / "c.db", plan(steps=5))


@pytest.mark.parametrize(
    "wrong",
    [
        report(step=100), report(level="none"), report(z=2**26), report(hour=2000.0),
        Report("0" * 32, "d", 0, "low", (), 1),
    ],
)  # fmt: skip
def test_reports_that_no_device_makes_are_refused(store, wrong):
    with pytest.raises(InvalidInput):
        store.add([wrong])


SENT = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1)), max_size=60)


@settings(max_examples=40)
@given(SENT)
def test_lost_answers_late_and_repeated_reports_at_two_collectors(sent):
    """Each report carries its own value: a double count or a loss would show in the sums."""
    made = plan(range=[0, 2000])
    stores = [open_store(":memory:", made) for _ in range(3)]
    for k, where in sent:  # the answer may be lost: the device asks again, perhaps elsewhere
        own = report(k + 1, f"d{k % 4}", k, "low" if k % 3 else "high", k / 8, 1 << k)
        assert stores[where].add([own]) == [Answer.ACCEPTED]
    for other in stores[:2]:
        merge(stores[2], other)
    numbers = {k for k, _ in sent}
    for level, kept in (("low", True), ("high", False)):
        own = [k for k in numbers if bool(k % 3) == kept]
        found = stores[2].sums().get(level, Sums(3))
        assert found.count == len(own)
        assert found.gram[0, 2] == 65536 * sum(1 << k for k in own)
    assert replay(stores[2])
    for one in stores:
        one.close()


# --- estimates ------------------------------------------------------------------------------------


def test_the_estimate_is_that_of_the_model_and_its_error_that_of_the_bound():
    """Against weighted least squares by rows, and against `pv.bound`."""
    made, rng = plan(), np.random.default_rng(1)
    hours, levels = rng.uniform(0, 1, 400), np.where(np.arange(400) % 2, 1.0, 4.0)
    shown = np.sqrt(levels) * (0.5 + hours + 0.2 * rng.standard_normal(400))
    z = np.rint((shown + rng.standard_normal(400)) * 1024).astype(int)
    found = [
        report(k, "d", k % 100, "low" if levels[k] == 1 else "high", hours[k], int(z[k]))
        for k in range(400)
    ]
    sums = {}
    for name in ("low", "high"):
        sums[name] = Sums(3)
        sums[name].add([made.row(one) for one in found if one.level == name])
    collected = estimate(made, sums)
    H = np.column_stack([np.ones(400), np.rint(hours * 65536) / 65536])
    variance = 0.04 + (1 + 0.75 / 1024**2) / levels
    u = z / 1024 / np.sqrt(levels)
    J = H.T @ (H / variance[:, None])
    np.testing.assert_allclose(
        collected.estimate.value, np.linalg.solve(J, H.T @ (u / variance)), rtol=1e-10
    )
    np.testing.assert_allclose(collected.estimate.covariance, np.linalg.inv(J), rtol=1e-10)
    model = pv.LinearModel(H, noise=0.04)
    bound = pv.bound(model, pv.PrivacyLevel(levels))
    np.testing.assert_allclose(collected.estimate.bound, bound.covariance, rtol=1e-9)
    assert 0.7 < collected.residual_ratio < 1.3  # six standard errors of 400 rows
    assert dict(collected.rows) == {"low": 200, "high": 200}


def test_the_course_is_that_of_recursive_least_squares(tmp_path):
    """θ̂_k from the sums of steps 0 to k, however late they came: `algo:PP_RLS` by its recursion."""
    made, rng = plan(), np.random.default_rng(2)
    hours = np.round(rng.uniform(0, 1, 60) * 65536) / 65536
    z = np.rint((0.5 + hours + 1.02 * rng.standard_normal(60)) * 1024).astype(int)
    found = [report(k, f"d{k % 2}", k // 2, "low", hours[k], int(z[k])) for k in range(60)]
    with open_store(tmp_path / "c.db", made) as store:
        for k in rng.permutation(60):
            store.add([found[k]])
        course = {step: estimate(made, sums) for step, sums in running_sums(store) if step}
    assert list(course) == list(range(1, 30))
    level = pv.StreamLevel.constant(1.0)
    private, drawn = pv.PrivateRLS(level, 2, noise=0.04), pv.StreamMechanism(level)
    for k in range(60):
        own = drawn.simulate(0.0, rng)
        own = dataclasses.replace(own, values=z[k : k + 1] / 1024, grid=2.0**-10)
        private.update(own, [1.0, hours[k]])
        step = k // 2
        if k % 2 and step:
            np.testing.assert_allclose(
                course[step].estimate.value, private.estimate.value, rtol=1e-9
            )
            np.testing.assert_allclose(
                course[step].estimate.covariance, private.estimate.covariance, rtol=1e-9
            )


@pytest.mark.parametrize("tasks", [2, 7])
def test_a_replay_in_parts_by_dask(tmp_path, tasks):
    with open_store(tmp_path / "c.db", plan()) as store:
        store.add([report(k, step=k, level="low" if k % 3 else "high") for k in range(100)])
        assert replay(store, tasks)
        store._run("UPDATE reports SET z = z + 1 WHERE step = 99")
        assert not replay(store, tasks)
    with open_store(":memory:", plan()) as store, pytest.raises(InvalidInput, match="on disk"):
        replay(store, tasks)


def test_a_replay_beside_a_collector_that_goes_on(tmp_path, monkeypatch):
    """Reports that arrive while the sums are computed again are in neither."""
    made = plan()
    with open_store(tmp_path / "c.db", made) as store, open_store(tmp_path / "c.db", made) as live:
        store.add([report(k, step=k) for k in range(50)])
        read = type(store).reports

        def reports(self, *given, **options):
            live.add([report(60, step=60)])
            return read(self, *given, **options)

        monkeypatch.setattr(type(store), "reports", reports)
        assert replay(store)
        assert store.count() == (51, 1)


def test_intervals_cover(tmp_path):
    """95% intervals of θ from devices that simulate: 400 collections, five standard errors."""
    made, rng = plan(), np.random.default_rng(3)
    hours = np.arange(64) / 64
    H, covered = np.column_stack([np.ones(64), hours]), np.zeros(2)
    for _ in range(400):
        y = H @ [0.5, 0.8] + 0.2 * rng.standard_normal(64)
        low = made.mechanism("low").simulate(y, rng)
        z = np.rint(np.asarray(low.values) * 1024).astype(int)
        sums = Sums(3)
        sums.add([made.row(report(0, hour=h, z=int(one))) for h, one in zip(hours, z)])
        (a, b) = estimate(made, {"low": sums}).estimate.interval().T
        covered += (a <= [0.5, 0.8]) & (b >= [0.5, 0.8])
    assert np.all(np.abs(covered / 400 - 0.95) < 5 * math.sqrt(0.95 * 0.05 / 400))


def test_too_few_measurements_are_said():
    with pytest.raises(NotIdentifiable, match="0 measurements"):
        estimate(plan(), {})
    sums = Sums(3)
    sums.add([plan().row(report())])
    with pytest.raises(NotIdentifiable):
        estimate(plan(), {"low": sums})


# --- devices --------------------------------------------------------------------------------------


class Collecting:
    """A collector in this process, over a line that loses requests and answers."""

    def __init__(self, made, lose=()):
        self.store, self.lose, self.posts = open_store(":memory:", made), list(lose), 0

    def __call__(self, url, body, headers):
        post = in_process(self.store)
        if body is None:
            return post(url, body, headers)
        self.posts += 1
        how = self.lose.pop(0) if self.lose else ""
        if how == "request":
            return Reply(0, b"")
        reply = post(url, body, headers)
        return Reply(503, b"") if how == "answer" else reply


def device(tmp_path, collecting, **more):
    more = {"budget": 4.0, "post": collecting, "sleep": lambda _: None, "tries": 3} | more
    return Device("http://collector", "m1", tmp_path / "m1.db", **more)


def test_a_device_sends_until_it_is_heard(tmp_path):
    line = Collecting(plan(), lose=["request", "answer", "", "answer", "request"])
    with device(tmp_path, line, level="high") as own:
        assert own.contribute(1.0, [0.25])
        assert own.contribute(1.5, [0.5])
        assert not own.contribute(math.nan, [0.5])
        assert own.waiting == own.refused == 0
    (first, second) = line.store.reports()
    assert (first.step, second.step, first.level) == (0, 1, "high")
    assert first.features == (16384,)
    assert abs(first.z / 1024 - 2.0) < 8  # √4 · 1 and unit noise; chance 1e-15
    assert replay(line.store)


def test_a_collector_cannot_choose_a_level_beyond_the_budget(tmp_path):
    with pytest.raises(InvalidInput, match="above the budget"):
        device(tmp_path, Collecting(plan()), budget=0.5)
    with pytest.raises(InvalidInput, match="another plan"):
        device(tmp_path, Collecting(plan()), plan="0" * 64)
    assert not (tmp_path / "m1.db").exists()


def test_an_unreachable_collector_leaves_the_report_in_the_outbox(tmp_path):
    line = Collecting(plan(), lose=["request"] * 3)
    with device(tmp_path, line) as own:
        with pytest.raises(CollectorSilent, match="do not contribute it again"):
            own.contribute(1.0, [0.0])
        assert own.waiting == 1
        z = own._box.execute("SELECT z FROM outbox").fetchone()[0]
    with device(tmp_path, line) as own:
        assert not own.put(1.9, [0.0], step=0)  # drawn already: it stays as it was
        assert own.flush() == 1
    (found,) = line.store.reports()
    assert found.z == z


@pytest.mark.parametrize("charged", [True, False])
def test_a_crash_between_outbox_and_ledger(tmp_path, charged, monkeypatch):
    """With the step in the ledger it leaves as it was drawn; without, nothing was revealed."""
    line = Collecting(plan())
    with device(tmp_path, line) as own:
        if charged:
            own.put(1.0, [0.0])
            z = own._box.execute("SELECT z FROM outbox").fetchone()[0]
            own._box.execute("UPDATE outbox SET z = NULL")
        else:
            own._box.execute("INSERT INTO outbox VALUES (0, 'low', '0', NULL, NULL)")
    with device(tmp_path, line) as own:
        assert own.waiting == charged
        own.flush()
    assert [one.z for one in line.store.reports()] == ([z] if charged else [])


def test_a_report_that_a_crash_left_keeps_its_level(tmp_path):
    """Whatever level the device has when it is started again."""
    line = Collecting(plan())
    with device(tmp_path, line, level="high") as own:
        own.put(1.0, [0.0])
        (z,) = own._box.execute("SELECT z FROM outbox").fetchone()
        own._box.execute("UPDATE outbox SET z = NULL")
    with device(tmp_path, line, level="low") as own:
        assert own.flush() == 1
    assert [(one.level, one.z) for one in line.store.reports()] == [("high", z)]


def test_other_features_and_other_outboxes_are_refused(tmp_path):
    line = Collecting(plan())
    with device(tmp_path, line) as own:
        own.put(1.0, [0.5], step=3)
        assert not own.put(1.0, [math.nan])  # a gap
        for wrong in ([0.6], [], [5000.0]):
            with pytest.raises(InvalidInput):
                own.put(1.0, wrong, step=3)
        with pytest.raises(InvalidInput):
            own.put(1.0, [0.5], step=100)
        assert own.steps == 4
    with pytest.raises(InvalidInput, match="another plan or device"):
        device(tmp_path, Collecting(plan(steps=7)))


def test_a_device_that_was_refused_keeps_no_outbox(tmp_path):
    """Also where the error is kept, as a notebook does."""
    line = Collecting(plan())
    with device(tmp_path, line) as own:
        own.put(1.0, [0.5])
    ledger = tmp_path / "m1.db"
    with pytest.raises(InvalidInput, match="another plan or device") as kept:
        Device("http://collector", "m2", ledger, budget=4.0, post=line)
    with device(tmp_path, line) as own:
        assert own.flush() == 1
    assert kept.value.__traceback__ is not None


def test_an_outbox_is_of_one_process_at_a_time(tmp_path):
    line = Collecting(plan())
    with device(tmp_path, line), pytest.raises(InvalidInput, match="in use"):
        device(tmp_path, line)
    with device(tmp_path, line) as own:
        assert own.contribute(1.0, [0.5])


def test_a_lost_outbox_draws_nothing_again(tmp_path):
    """The ledger has what was drawn: it is sent again, and refused where it was counted."""
    line = Collecting(plan())
    with device(tmp_path, line) as own:
        own.contribute(1.0, [0.5])
    (tmp_path / "m1.db.outbox").unlink()
    with device(tmp_path, line) as own:
        assert own.steps == 1
        assert own.put(1.9, [0.5], step=0)
        (z,) = own._box.execute("SELECT z FROM outbox").fetchone()
        assert own.flush() == own.refused == 1
    (found,) = line.store.reports()
    assert found.z == z


def test_a_step_that_the_ledger_has_otherwise_is_refused_and_stays_as_it_was(tmp_path):
    """After a lost outbox: another level and other features are refused, and leave no trace."""
    line = Collecting(plan())
    with device(tmp_path, line) as own:
        own.put(1.0, [0.5])
        (z,) = own._box.execute("SELECT z FROM outbox").fetchone()
    (tmp_path / "m1.db.outbox").unlink()
    with device(tmp_path, line, level="high") as own, pytest.raises(InvalidInput):
        own.put(1.0, [0.5], step=0)
    with device(tmp_path, line) as own, pytest.raises(InvalidInput):
        own.put(1.0, [0.6], step=0)
    with device(tmp_path, line) as own:
        assert own.put(1.0, [0.5], step=0)
        own.flush()
    (found,) = line.store.reports()
    assert (found.level, found.z, found.features) == ("low", z, (32768,))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 20", b"BOOM\r\n\r\n", b"",
        b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"ans',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nab",
        b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nab",
    ],
)  # fmt: skip
def test_an_answer_that_was_cut_is_silence(tmp_path, answer):
    """Nothing is drawn anew; the device asks again, without its password in the message."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            for _ in range(2):
                one, _ = server.accept()
                with one:
                    one.recv(65536)
                    one.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(CollectorSilent, match="does not answer"):
            Device(url, "m", tmp_path / "m.db", budget=1.0, tries=2, sleep=lambda _: None)
        thread.join()


@pytest.mark.parametrize(
    "status", [0, 200, 429, 503, 10**30, "1e999", 201.7, 201.0, '"201"', "true", "null", "[201]"]
)
def test_only_a_final_answer_ends_a_report(tmp_path, status):
    """A report with any other answer waits in the outbox."""
    line = Collecting(plan())
    with device(tmp_path, line) as own:
        own.put(1.0, [0.0])
        own._post = lambda *_: Reply(
            207, f'{{"answers": [{{"id": "{own._report(0, "low", "0", 0)["id"]}", '
            f'"status": {status}}}]}}'.encode(),
        )  # fmt: skip
        with pytest.raises(InvalidInput, match="collector"):
            own.flush()
        assert own.waiting == 1


def test_a_token_goes_to_the_stated_address_only(tmp_path):
    """An address that leads elsewhere is refused; the other host is never asked."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_server(("127.0.0.1", 0)) as elsewhere,
    ):
        elsewhere.settimeout(0.2)
        there = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/plan"

        def serve():
            one, _ = server.accept()
            with one:
                one.recv(65536)
                one.sendall(f"HTTP/1.1 301 Moved\r\nLocation: {there}\r\n\r\n".encode())

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InvalidInput, match="leads to another one"):
            Device(url, "m", tmp_path / "m.db", budget=1.0, token="secret")
        thread.join()
        with pytest.raises(TimeoutError):
            elsewhere.accept()


@pytest.mark.parametrize(
    "url",
    ["http://[::1", "http://", "http://a:b", "http://c:99999", "http://a..b",
     "http://a b", "http://c/\u00e9", "mqtt://[::1/meter", "https:/c", "//c", "amqp://c/meter", ""],
)  # fmt: skip
def test_what_is_no_address_is_refused(tmp_path, url):
    """At once, before a file is made; it is not taken for a collector that is silent."""
    with pytest.raises(InvalidInput, match="the address of a collector"):
        Device(url, "m", tmp_path / "m.db", budget=1.0, sleep=lambda _: pytest.fail("it waits"))
    assert list(tmp_path.iterdir()) == []


def test_no_password_in_a_message(tmp_path):
    url = "mqtt://user:secret@127.0.0.1:1/meter"
    with pytest.raises(CollectorSilent) as told:
        Device(url, "m", tmp_path / "m.db", budget=1.0, tries=1, sleep=lambda _: None)
    assert "secret" not in str(told.value)


def test_a_device_over_mqtt_where_a_loop_runs_already(tmp_path):
    """As in a notebook."""

    async def cell():
        Device("mqtt://127.0.0.1:1/meter", "m", tmp_path / "m.db", budget=1.0, tries=1)

    with pytest.raises(CollectorSilent):
        asyncio.run(cell())


def test_the_budget_of_a_device_holds_over_several_plans(tmp_path):
    """Both plans ask for the same measurement; together they exceed what the device accepts."""
    with device(tmp_path, Collecting(plan(levels={"a": 1.0})), budget=1.5) as own:
        own.put(1.0, [0.5], step=0)
    (tmp_path / "m1.db.outbox").unlink()
    with device(tmp_path, Collecting(plan(levels={"a": 1.0}, steps=9)), budget=1.5) as own:
        with pytest.raises(pv.errors.BudgetExceeded):
            own.put(1.0, [0.5], step=0)
        assert own.waiting == 0  # a refused step is not sent
        assert own.put(1.0, [0.5], step=1)
        assert own.flush() == 1
