"""A file as a stream for one who looks on: the numbers of `privest stream`, and nothing twice."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput, PrivestError
from privest.streaming import (
    Account,
    Replay,
    ReplayPlan,
    Trial,
    _replay_plan,
    live_sections,
    privacy_of,
)
from privest.streaming._replay import as_readings, noise_of_reading
from workflow_command import called

METER = Path(pv.__file__).with_name("streaming") / "meter.csv"
FEATURES = ("temperature", "evening", "weekend")
SENTINEL = "4711.0815"


def trial_plan(source=METER, **more):
    given = {
        "source": source, "target": "load", "features": FEATURES, "block": 24,
        "privacy": privacy_of(known_to=0.5), "trial": Trial(True, 7),
    }  # fmt: skip
    return ReplayPlan(**(given | more))


def real_plan(folder, **more):
    given = {
        "trial": Trial(), "output": folder / "z.jsonl", "span": (0.0, 5.0),
        "account": Account(folder / "ledger.db", "load of a meter"),
    }  # fmt: skip
    return trial_plan(**(given | more))


def run(replay, blocks=None):
    done = 0
    while (blocks is None or done < blocks) and replay.next_block():
        done += 1
    return replay.state()


def by_command(line):
    done = called(*shlex.split(line)[1:])
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- the same numbers as on the command line --------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {"noise_variance": 0.0625},
        {"shared_day": 24},
        {"privacy": privacy_of(epsilon=4.0, delta=1e-6), "span": (0.0, 5.0), "intercept": False},
        {"privacy": privacy_of(apart=1.0, chance=0.75)},
    ],
    ids=["stated", "day", "epsilon", "apart"],
)
def test_a_trial_has_the_numbers_of_its_command(more):
    plan = trial_plan(**more)
    with Replay(plan) as replay:
        state = run(replay)
    (command,) = plan.commands()
    last = by_command(command).splitlines()[-1].split(",")
    assert int(last[0]) + 1 == state.used == 336
    np.testing.assert_array_equal(
        np.array(last[1 : 1 + len(state.names)], dtype=float), state.found.estimate
    )


def test_the_trail_has_an_estimate_for_every_line_of_the_command():
    plan = trial_plan(noise_variance=0.0625)
    with Replay(plan) as replay:
        run(replay)
        points = replay.trail.points
    lines = list(csv.reader(by_command(plan.commands()[0]).splitlines()[1:]))
    told = {int(line[0]): line[1:5] for line in lines if line[1]}
    assert {step for step, _, _ in points} == set(told)
    for step, estimate, _ in points:
        np.testing.assert_array_equal(np.array(told[step], dtype=float), estimate)


def test_real_releases_are_read_by_the_second_command(tmp_path, monkeypatch):
    plan = real_plan(tmp_path)
    with Replay(plan) as replay:
        state = run(replay)
    monkeypatch.chdir(tmp_path)
    found = json.loads(by_command(plan.commands()[1]).splitlines()[-1])
    assert list(found["estimate"].values()) == state.found.estimate.tolist()
    assert found["interval"]["evening"] == state.found.interval()[2].tolist()


def test_the_first_command_goes_on_with_what_the_replay_left(tmp_path, monkeypatch):
    plan = real_plan(tmp_path)
    with Replay(plan) as replay:
        run(replay, 3)
    before = plan.output.read_bytes()
    monkeypatch.chdir(tmp_path)
    by_command(plan.commands(str(METER))[0])
    assert plan.output.read_bytes().startswith(before)
    assert plan.output.read_bytes().count(b"\n") == 1 + 336


# --- nothing twice, nothing before it is paid for --------------------------------------------


def test_begun_again_it_goes_on_where_it_was(tmp_path):
    plan = real_plan(tmp_path)
    with Replay(plan) as replay:
        half = run(replay, 8)
        points = len(replay.trail.points)
    before = plan.output.read_bytes()
    with Replay(plan) as replay:
        again = replay.state()
        assert again.resumed
        np.testing.assert_array_equal(again.found.estimate, half.found.estimate)
        np.testing.assert_array_equal(
            [one.value for one in again.last], [one.value for one in half.last]
        )
        assert len(replay.trail.points) == points
        run(replay)
    assert plan.output.read_bytes().startswith(before)
    whole = plan.output.read_bytes()
    with Replay(plan) as replay:  # all of it was released
        assert not replay.next_block()
        assert replay.state().used == 336
    assert plan.output.read_bytes() == whole
    with pv.Ledger(tmp_path / "ledger.db") as ledger:
        spends = [one for one in ledger.history() if one.kind not in ("account", "ledger")]
        assert spends[-1].stop == 336


def test_a_long_one_is_caught_up_with_in_few_steps(tmp_path, monkeypatch):
    """The estimate is the same but for rounding; the picture has fewer points."""
    plan = real_plan(tmp_path)
    with Replay(plan) as replay:
        once = run(replay)
    monkeypatch.setattr(_replay_plan, "CAUGHT_UP", 2)
    with Replay(plan) as replay:
        assert len(replay.trail.points) == 2
        again = replay.state()
    np.testing.assert_allclose(again.found.estimate, once.found.estimate, rtol=1e-9)
    assert again.last[-1] == once.last[-1]


def test_a_lost_checkpoint_draws_nothing_again(tmp_path):
    """What the ledger has is sent again as it was."""
    plan = real_plan(tmp_path)
    with Replay(plan) as replay:
        run(replay, 4)
    lines = plan.output.read_text("utf-8").splitlines()
    plan.output.unlink()
    plan.checkpoint.unlink()
    with Replay(plan) as replay:
        run(replay, 4)
    assert [json.loads(a).get("z") for a in plan.output.read_text("utf-8").splitlines()] == [
        json.loads(a).get("z") for a in lines
    ]


def test_releases_of_another_are_not_written_over(tmp_path):
    plan = real_plan(tmp_path)
    plan.output.write_text("something\n", "utf-8")
    with pytest.raises(InvalidInput, match="choose another name"):
        Replay(plan)
    assert plan.output.read_text("utf-8") == "something\n"


def test_it_is_charged_before_it_is_shown(tmp_path):
    """A budget below the level: nothing is released, nothing is seen."""
    plan = real_plan(tmp_path, account=Account(tmp_path / "ledger.db", "load", 1.0))
    with Replay(plan) as replay:
        with pytest.raises(PrivestError, match="budget"):
            replay.next_block()
        assert replay.state().last == ()
        assert replay.state().found is None
    assert not plan.output.stat().st_size


def test_only_one_replay_at_a_time(tmp_path):
    plan = real_plan(tmp_path)
    with Replay(plan), pytest.raises(PrivestError, match="held by another process"):
        Replay(plan)
    with Replay(plan) as replay:  # the lock is free again
        assert replay.next_block()


def test_the_account_says_what_is_left(tmp_path):
    plan = real_plan(tmp_path, account=Account(tmp_path / "ledger.db", "load", 10.0))
    with Replay(plan) as replay:
        assert (replay.state().spent, replay.state().left) == (0.0, 10.0)
        state = run(replay, 1)
    # Less than 4 by the rounding of the noise to its grid, (2⁻¹⁰)²/2 deviations and less.
    assert (state.spent, state.left, state.budget) == pytest.approx((4.0, 6.0, 10.0), rel=1e-6)


# --- what is seen ----------------------------------------------------------------------------


def test_releases_as_readings_are_readings_with_their_noise():
    level = pv.EndlessLevel.shared(4.0, 3)
    y = np.arange(6.0)
    root = level.blocks(0, 1)[0, 0]
    shown = (root @ y.reshape(2, 3).T).T.ravel()
    np.testing.assert_allclose(as_readings(level, shown), y, atol=1e-12)
    # 1/s on every reading and (r − 1)/(rs) that all share
    assert noise_of_reading(level, 0.0) == pytest.approx(np.sqrt(1 / 4 + 2 / 12))
    with pytest.raises(InvalidInput, match="look back"):
        as_readings(pv.EndlessLevel(1.0, [0.5]), y)


def test_nothing_of_a_reading_is_in_what_is_shown(tmp_path):
    lines = METER.read_text("utf-8").splitlines()
    lines[5:8] = [line.rsplit(",", 1)[0] + "," + SENTINEL for line in lines[5:8]]
    source = tmp_path / "meter.csv"
    source.write_text("\n".join(lines) + "\n", "utf-8")
    plan = real_plan(tmp_path, source=source)
    with Replay(plan) as replay:
        state = run(replay, 10)
        parts = live_sections(plan, state, replay.trail)
    for text in (repr(state), json.dumps(state.to_dict()), repr(parts), plan.output.read_text()):
        assert SENTINEL[:6] not in text  # 4711.0: no hash and no picture holds a point
    assert not plan.checkpoint.stat().st_mode & 0o077


def test_the_example_is_the_one_of_the_docs():
    assert METER.read_bytes() == (Path(__file__).parents[3] / "examples/meter.csv").read_bytes()


# --- what is asked ---------------------------------------------------------------------------


def test_privacy_in_words():
    assert privacy_of(known_to=0.25).level == "16"
    assert privacy_of(level=0.3).level == "0.3"
    close = float(privacy_of(apart=1.0, chance=0.75).level)
    assert pv.privacy.attacker.chance_between(close, 1.0) == pytest.approx(0.75, abs=1e-3)
    with pytest.raises(InvalidInput, match="exactly one way"):
        privacy_of(level=1.0, known_to=1.0)
    with pytest.raises(InvalidInput, match="none of them"):
        privacy_of()
    with pytest.raises(InvalidInput, match="need a chance"):
        privacy_of(apart=1.0)


def test_what_cannot_be_is_refused_before_anything_is_drawn(tmp_path):
    with pytest.raises(InvalidInput, match="file for its releases and a ledger"):
        trial_plan(trial=Trial())
    with pytest.raises(InvalidInput, match="a trial spends nothing"):
        real_plan(tmp_path, trial=Trial(True, 1))
    with pytest.raises(InvalidInput, match="whole number"):
        trial_plan(block=0)
    with pytest.raises(InvalidInput, match="at most 100,000 rows"):
        trial_plan(block=10**6)
    with pytest.raises(InvalidInput, match="--epsilon together with"):
        trial_plan(privacy=privacy_of(epsilon=1.0))
    with pytest.raises(InvalidInput, match="no column"):
        Replay(trial_plan(features=("wind",)))
    empty = tmp_path / "empty.csv"
    empty.write_text("", "utf-8")
    with pytest.raises(InvalidInput, match="no rows"):
        Replay(trial_plan(empty))


def test_the_command_keeps_odd_names_and_the_way_a_file_is_written():
    plan = trial_plan(
        features=("a, b", "c"), span=(-5.0, 5.0), reading=pv.data.Reading(";", ",", "cp1252")
    )
    words = shlex.split(plan.commands("my file.csv")[0])
    assert words[:3] == ["privest", "stream", "my file.csv"]
    assert words[words.index("--features") + 1] == '"a, b",c'
    assert "--range=-5,5" in words
    assert words[words.index("--separator") + 1 : words.index("--separator") + 6] == [
        ";", "--decimal", ",", "--encoding", "cp1252",
    ]  # fmt: skip
