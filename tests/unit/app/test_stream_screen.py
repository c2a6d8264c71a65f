"""Screen 6: a file as a stream. Nothing leaves before Play, a pause is a pause, nothing twice."""

import html
import json
import shlex
import time
from pathlib import Path

import numpy as np
import pytest

import privest as pv
from app_client import Client
from privest.app._stream_work import PACES
from privest.streaming import EXAMPLE, Replay
from workflow_command import called

SENTINEL = "4711.0815"
USUAL = {
    "target": "load", "features": ["temperature", "evening", "weekend"], "constant": "yes",
    "way": "error", "error": "0.5", "low": "0", "high": "10", "block": "24", "kind": "trial",
    "seed": "7",
}  # fmt: skip
REAL = USUAL | {"kind": "real", "name": "z.jsonl", "account": "load of a meter", "sure": "yes"}


@pytest.fixture
def client(tmp_path):
    found = Client(tmp_path)
    yield found
    found.close()


def begun(client, **more):
    """The example, at its settings: its place and its work."""
    answer = client.post("/stream", {"from": "example"} | more)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"], list(client.desk.streams.values())[-1]


def set_up(client, fields=USUAL):
    where, work = begun(client)
    answer = client.post(where, fields)
    assert answer.status_code == 303, answer.text
    return where, work


def press(client, where, button):
    answer = client.post(f"{where}/do", {"do": button})
    assert answer.status_code == 303, answer.text


def until(true, seconds=20.0):
    """Wait for the thread; fails where it never comes."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def used(work):
    return work.player.now.view.state.used


def stepped(client, where, work, steps=1):
    for _ in range(steps):
        before = work.player.now.view.version
        press(client, where, "step")
        until(lambda before=before: work.player.now.view.version > before)


# --- the way through --------------------------------------------------------------------------


def test_from_the_first_page_to_the_end(client):
    assert f'href="/{client.desk.key}/stream"' in client.get("/").text
    assert "made up" in client.get("/stream").text
    where, work = begun(client)
    settings = client.get(where).text
    assert "made up" in settings
    assert 'value="load" selected' in settings.replace("\n", " ")
    client.follow(client.post(where, USUAL | {"block": "168"}))
    page = client.get(where).text
    assert "Ready." in page
    assert "Nothing has been released yet." in page
    assert "0 of 336 readings" in page
    press(client, where, "play")
    until(lambda: work.player.over)
    page = client.get(where).text
    assert "The file is at its end." in page
    assert "336 of 336 readings" in page
    assert page.count("<picture>") == 2
    assert "Begin again" in page
    assert "load of meter.csv, as a stream" in client.get("/").text
    client.follow(client.post(f"{where}/clear"))
    assert client.desk.streams == {}
    assert client.get(where).status_code == 404


def test_its_numbers_are_those_of_the_command_on_its_page(client):
    where, work = set_up(client)
    stepped(client, where, work, 14)
    (command,) = work.player.plan.commands(str(EXAMPLE))
    assert shlex.split(command)[1:] == shlex.split(
        html.unescape(client.get(where).text.split("<code>privest ")[1].split("</code>")[0])
    )
    done = called(*shlex.split(command)[1:])
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1].split(",")
    found = work.player.now.view.state
    assert int(last[0]) + 1 == found.used == 336
    np.testing.assert_array_equal(np.array(last[1:5], dtype=float), found.found.estimate)


# --- buttons ----------------------------------------------------------------------------------


def test_nothing_is_released_before_play_and_none_in_a_pause(client):
    where, work = set_up(client, USUAL | {"block": "1"})
    time.sleep(0.3)
    assert used(work) == 0
    for _ in PACES:
        press(client, where, "faster")
    assert work.player.pace == PACES[-1]
    press(client, where, "play")
    until(lambda: used(work) > 3)
    press(client, where, "pause")
    time.sleep(0.1)  # a block that was under way
    before = used(work)
    time.sleep(0.4)  # ten blocks at this pace
    assert used(work) == before < 336
    press(client, where, "step")
    until(lambda: used(work) == before + 1)
    time.sleep(0.2)
    assert used(work) == before + 1
    press(client, where, "slower")
    assert work.player.pace == PACES[-2]


def test_stop_lets_go_and_begin_again_begins_again(client):
    where, work = set_up(client)
    stepped(client, where, work, 2)
    first = work.player.now.view.state.last
    press(client, where, "stop")
    assert work.player.over
    for button in ("play", "step", "pause"):
        press(client, where, button)
    time.sleep(0.2)
    assert used(work) == 48
    press(client, where, "again")
    assert not work.player.over
    assert used(work) == 0
    stepped(client, where, work, 2)
    np.testing.assert_array_equal(
        [one.value for one in work.player.now.view.state.last], [one.value for one in first]
    )


def test_the_settings_can_be_changed(client):
    where, work = set_up(client)
    press(client, where, "change")
    assert work.player is None
    assert 'value="0.5"' in client.get(where).text
    assert client.get(f"{where}/live").status_code == 404
    client.follow(client.post(where, USUAL | {"error": "1"}))
    assert work.player.plan.privacy.level == "1"


def test_an_unknown_button_is_refused(client):
    where, _ = set_up(client)
    assert client.post(f"{where}/do", {"do": "explode"}).status_code == 422
    assert client.post(f"{where}/do", {}).status_code == 422


def test_the_live_part_is_sent_when_something_is_new(client):
    where, work = set_up(client)
    mark = work.player.now.mark
    assert client.get(f"{where}/live?seen={mark}").status_code == 204
    press(client, where, "pause")  # in another tab: other buttons
    assert client.get(f"{where}/live?seen={mark}").headers["hx-refresh"] == "true"
    mark = work.player.now.mark
    stepped(client, where, work)
    answer = client.get(f"{where}/live?seen={mark}")
    assert answer.status_code == 200
    assert answer.text.startswith('<div id="live"')
    assert "24 of 336 readings" in answer.text


# --- real -------------------------------------------------------------------------------------


def test_a_real_stream_must_be_meant(client):
    where, work = begun(client)
    answer = client.post(where, {k: v for k, v in REAL.items() if k != "sure"})
    assert answer.status_code == 422
    assert "cannot be taken back" in answer.text
    assert work.player is None
    assert not client.desk.ledger.exists()
    assert not list(client.folder.glob("z.jsonl*"))


def test_read_only_plays_trials_and_releases_nothing(tmp_path):
    client = Client(tmp_path, read_only=True)
    where, work = begun(client)
    assert "read-only: nothing is released" in client.get(where).text
    answer = client.post(where, REAL)
    assert answer.status_code == 422
    assert "read-only" in answer.text
    client.follow(client.post(where, USUAL))
    stepped(client, where, work)
    client.close()
    assert list(tmp_path.iterdir()) == []


def test_a_real_stream_is_charged_and_goes_on_after_the_app_ended(tmp_path):
    client = Client(tmp_path)
    where, work = set_up(client, REAL)
    assert "This is real" in client.get(where).text
    stepped(client, where, work, 2)
    page = client.get(where).text
    assert "Spent of one reading" in page
    before = (tmp_path / "z.jsonl").read_bytes()
    assert before.count(b"\n") == 1 + 48
    press(client, where, "play")
    client.close()  # while it plays
    assert work.player.status in ("stopped", "ended")
    there = (tmp_path / "z.jsonl").read_bytes()
    assert there.startswith(before)

    again = Client(tmp_path)
    where, work = set_up(again, REAL)
    state = work.player.now.view.state
    assert state.resumed
    assert state.used == there.count(b"\n") - 1
    stepped(again, where, work, 1)
    assert (tmp_path / "z.jsonl").read_bytes().startswith(there)
    again.close()
    with pv.Ledger(tmp_path / "privest-ledger.db") as ledger:
        assert float(ledger.spent("load of a meter").level) == pytest.approx(4.0)
        assert max(one.stop or 0 for one in ledger.history("load of a meter")) == state.used + 24


def test_another_file_or_another_name_is_refused(tmp_path):
    """What was released stays with its rows, and these with their account."""
    client = Client(tmp_path)
    where, work = set_up(client, REAL)
    stepped(client, where, work, 1)
    client.close()
    client = Client(tmp_path)
    where, work = begun(client)
    answer = client.post(where, REAL | {"name": "b", "account": "another"})
    assert answer.status_code == 422
    assert "have an account: &#39;load of a meter&#39;" in answer.text
    first, *lines = EXAMPLE.read_text("utf-8").splitlines(keepends=True)
    sent = {"file": ("meter.csv", (first + "".join(lines[24:])).encode())}
    where = client.post("/stream", {"from": "file"}, files=sent).headers["location"]
    work = client.desk.streams[where.rsplit("/", 1)[1]]
    client.follow(client.post(where, REAL | {"name": "next month"}))
    press(client, where, "step")
    until(lambda: work.player.over)
    said = client.get(where).text
    assert "not those that were released under this account" in said
    assert "--continue" not in said  # which the app has not
    assert not (tmp_path / "next month.jsonl").read_bytes()
    client.close()


def test_two_of_the_same_do_not_run_at_once(client):
    set_up(client, REAL)
    where, work = begun(client)
    answer = client.post(where, REAL)
    assert answer.status_code == 422
    assert "Two of them would release readings twice" in answer.text
    assert work.player is None


def test_a_budget_that_does_not_suffice_stops_it_before_anything_is_shown(client):
    where, work = set_up(client, REAL | {"budget": "1"})
    press(client, where, "step")
    until(lambda: work.player.over)
    page = client.get(where).text
    assert "budget" in page
    assert "Nothing has been released yet." in page
    assert not (client.folder / "z.jsonl").read_bytes()


# --- files, and what is in them ---------------------------------------------------------------


def with_sentinel(folder):
    lines = EXAMPLE.read_text("utf-8").splitlines()
    lines[3:6] = [line.rsplit(",", 1)[0] + "," + SENTINEL for line in lines[3:6]]
    path = folder / "house.csv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.mark.parametrize("way", ["file", "path"])
def test_a_reading_is_in_no_answer(client, tmp_path, way):
    source, answers = with_sentinel(tmp_path), []
    if way == "file":
        sent = {"file": ("C:\\here\\house.csv", source.read_bytes())}
        answers.append(client.post("/stream", {"from": "file"}, files=sent))
    else:
        answers.append(client.post("/stream", {"from": "path", "path": str(source)}))
    where, (work,) = answers[0].headers["location"], client.desk.streams.values()
    assert work.table.name == "house.csv"
    assert work.table.own == (way == "file")
    answers += [client.get(where), client.post(where, USUAL | {"error": "x"})]
    answers += [client.post(where, USUAL), client.get(where)]
    stepped(client, where, work, 2)
    answers += [client.get(where), client.get(f"{where}/live"), client.get("/")]
    for answer in answers:
        assert SENTINEL not in answer.text + str(answer.headers)
        assert SENTINEL[:6] not in answer.text
        assert "house" not in str(answer.headers)
    kept = work.table.path
    client.post(f"{where}/clear")
    assert kept.exists() == (way == "path")


def test_a_cell_that_is_no_number_is_named_by_its_place(client, tmp_path):
    path = with_sentinel(tmp_path)
    path.write_text(path.read_text("utf-8").replace(SENTINEL, f"{SENTINEL}x"), "utf-8")
    where = client.post("/stream", {"from": "path", "path": str(path)}).headers["location"]
    answer = client.post(where, USUAL | {"features": ["temperature"]})
    (work,) = client.desk.streams.values()
    if answer.status_code == 303:
        press(client, where, "step")
        until(lambda: work.player.over)
        answer = client.get(where)
    assert "is not a number" in answer.text
    assert SENTINEL[:6] not in answer.text


@pytest.mark.parametrize(
    ("fields", "files", "said"),
    [
        ({"from": "file"}, None, "Choose a file first"),
        ({"from": "file"}, {"file": ("a.parquet", b"PAR1")}, "a.parquet"),
        ({"from": "file"}, {"file": ("a.exe", b"MZ")}, ".csv"),
        ({"from": "file"}, {"file": ("a.csv", b"")}, "no"),
        ({"from": "path", "path": "/nowhere/at/all.csv"}, None, "no such file on this machine"),
        ({"from": "path"}, None, "missing"),
        ({"from": "elsewhere"}, None, "must be one of"),
    ],
)
def test_what_is_no_file_of_readings_is_refused_in_words(client, fields, files, said):
    answer = client.post("/stream", fields, files=files)
    assert answer.status_code == 422
    assert said in answer.text
    assert client.desk.streams == {}
    assert [one for one in client.desk.private.iterdir() if one.name != "alive"] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"features": []}, "at least one public column"),
        ({"features": ["load"]}, "cannot be a public one"),
        ({"features": ["wind"]}, "no column"),
        ({"target": ""}, "missing"),
        ({"error": ""}, "missing"),
        ({"error": "-1"}, "must be &gt; 0"),
        ({"error": "nan"}, "number"),
        ({"way": "magic"}, "must be one of"),
        ({"way": "apart", "apart": "1", "chance": "40"}, "0.5"),
        ({"way": "epsilon", "epsilon": "1", "low": "", "high": ""}, "fill in the public range"),
        ({"way": "epsilon", "epsilon": "1", "day": "24"}, "differs by at most"),
        ({"way": "level", "level": "0"}, "must be &gt; 0"),
        ({"low": "3", "high": ""}, "two ends"),
        ({"low": "3", "high": "2"}, "below the upper"),
        ({"block": "0"}, "whole number"),
        ({"day": "1"}, "2"),
        ({"noise_variance": "-2"}, "must be &gt; 0"),
        ({"seed": "-1"}, "whole number"),
        ({"kind": "real", "sure": "yes", "name": "../z.jsonl", "account": "a"}, "without a folder"),
        ({"kind": "real", "sure": "yes", "name": "z.jsonl", "account": ""}, "missing"),
        ({"kind": "real", "sure": "yes", "name": "z", "account": "a", "budget": "x"}, "number"),
    ],
)
def test_settings_that_make_no_sense_are_shown_again_with_a_message(client, change, said):
    where, work = begun(client)
    answer = client.post(where, USUAL | change)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert said in answer.text.split('role="alert"')[1].split("</div>")[0]
    assert 'name="error"' in answer.text
    assert work.player is None
    assert client.get(where).status_code == 200


def test_a_day_and_the_other_ways(client):
    where, work = set_up(client, USUAL | {"day": "24", "way": "apart", "apart": "1"} | {
        "chance": "75"})  # fmt: skip
    stepped(client, where, work)
    assert "they share a noise" in client.get(where).text
    assert used(work) == 24


def test_an_unforeseen_error_shows_none_of_its_words(client, monkeypatch):
    where, work = set_up(client)

    def broken(self):
        raise RuntimeError(f"the cell {SENTINEL}")

    monkeypatch.setattr(Replay, "next_block", broken)
    press(client, where, "step")
    until(lambda: work.player.over)
    page = client.get(where).text
    assert "nobody foresaw" in page
    assert SENTINEL[:6] not in page


def test_the_desk_does_not_hold_more_than_it_can(client, monkeypatch):
    from privest.app import _stream_screen

    monkeypatch.setattr(_stream_screen, "MOST_WORKS", 1)
    begun(client)
    answer = client.post("/stream", {"from": "example"})
    assert answer.status_code == 422
    assert "clear one away" in answer.text


def test_nothing_of_the_file_is_in_an_address(client):
    where, work = set_up(client)
    page = client.get(where).text
    for word in ("load", "meter", "temperature"):
        assert word not in where
        assert f"/{word}" not in page.replace(str(Path(EXAMPLE)), "")
    assert json.dumps(work.typed).find(SENTINEL) < 0
