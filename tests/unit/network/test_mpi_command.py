"""`mpiexec -n 4 privest consensus`: real processes, a table each."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privest as pv
from mpi_launch import launched, needs_mpi
from privest import network
from privest.cli import consensus as command
from privest.errors import InvalidInput
from privest.mechanism.source import seeded

pytestmark = [*needs_mpi, pytest.mark.processes]
COMMAND = Path(__file__).parents[2] / "mpi_command.py"
AGENTS, LEVEL, VARIANCE = 4, 4.0, 0.25
OPTIONS = [
    "--target", "load", "--features", "warm", "--level", str(LEVEL), "--simulate", "--seed", "5",
    "--residual-variance", str(VARIANCE), "--tolerance", "1e-9",
]  # fmt: skip


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(1)
    for agent in range(AGENTS):
        frame = pd.DataFrame({"warm": rng.uniform(0, 1, 3 + agent)})
        frame["load"] = 2 - frame["warm"] + 0.5 * rng.standard_normal(len(frame))
        frame.to_csv(tmp_path / f"meter-{agent}.csv", index=False)
    return tmp_path


def simulated(folder):
    """The same noise and the estimate of all readings in one place."""
    sensors, releases = [], []
    for agent in range(AGENTS):
        frame = pd.read_csv(folder / f"meter-{agent}.csv")
        H = np.column_stack([np.ones(len(frame)), frame["warm"]])
        rng = seeded(5, "consensus", agent, "load", float(LEVEL))
        sensor = network.Sensor(H, pv.noise.Gaussian(cov=VARIANCE), pv.PrivacyLevel(LEVEL))
        sensors.append(sensor)
        releases.append(sensor.simulate(frame["load"].to_numpy(), rng))
    return network.fuse(sensors, releases)


def test_every_agent_has_the_estimate_of_all(tables):
    done, _ = launched(
        AGENTS, COMMAND, "meter-{agent}.csv", *OPTIONS,
        "--output", "found-{agent}.json", "--json", "--graph", "grid:2x2", folder=tables,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    central = simulated(tables)
    found = [json.loads((tables / f"found-{k}.json").read_text()) for k in range(AGENTS)]
    assert json.loads(done.stdout) == found[0]
    for agent, one in enumerate(found):
        assert (one["agent"], one["names"]) == (agent, ["intercept", "warm"])
        # tolerance 1e-9 standard errors, and rounding far below it
        error = np.abs(one["estimate"] - central.estimate) / central.standard_error
        assert error.max() < 2e-9
        np.testing.assert_allclose(one["standard_error"], central.standard_error, rtol=1e-8)
        assert one["simulated"] is True


def test_text_and_pairs(tables):
    (tables / "pairs.csv").write_text("0,1\n1,2\n1,3\n")
    done, _ = launched(
        AGENTS, COMMAND, "meter-{agent}.csv", *OPTIONS, "--graph", "pairs.csv", folder=tables
    )
    assert done.returncode == 0, done.stderr
    assert "Estimate of 4 agents together" in done.stdout
    assert "no protected release" in done.stdout


def test_an_agent_without_its_table(tables):
    """It says so and leaves; mpiexec then ends the others."""
    (tables / "meter-2.csv").unlink()
    done, seconds = launched(AGENTS, COMMAND, "meter-{agent}.csv", *OPTIONS, folder=tables)
    assert done.returncode != 0
    assert "agent 2: meter-2.csv does not exist" in done.stderr
    assert seconds < 20


def test_started_again_after_a_failure_it_shows_nothing_new(tables):
    """Agent 1 fails, agent 0 waits in vain; both released nothing twice in the end."""
    late = (tables / "meter-1.csv").rename(tables / "late.csv")
    plain = [option for option in OPTIONS if option not in ("--simulate", "--seed", "5")]
    run = [2, COMMAND, "meter-{agent}.csv", *plain, "--timeout", "2"]
    done, _ = launched(*run, options=["-disable-auto-cleanup"], folder=tables)
    assert done.returncode != 0
    assert "start again" in done.stderr
    assert "with the same releases" in done.stderr
    kept = tables / "meter-0.csv.release"
    before = np.load(kept)["values"]
    late.rename(tables / "meter-1.csv")
    done, _ = launched(*run, "--output", "found-{agent}.json", folder=tables)
    assert done.returncode == 0, done.stderr
    assert "meter-0.csv.release is used again" in done.stderr
    assert "meter-1.csv.release is used again" not in done.stderr
    assert np.array_equal(np.load(kept)["values"], before)
    sensors, releases = [], []
    for agent in range(2):
        frame = pd.read_csv(tables / f"meter-{agent}.csv")
        H = np.column_stack([np.ones(len(frame)), frame["warm"]])
        sensor = network.Sensor(H, VARIANCE, LEVEL)
        values = np.load(tables / f"meter-{agent}.csv.release")["values"]
        sensors.append(sensor)
        releases.append(network.SensorRelease(values, sensor.level.fingerprint, False, 2.0**-10))
    central = network.fuse(sensors, releases)
    found = json.loads((tables / "found-0.json").read_text())
    error = np.abs(found["estimate"] - central.estimate) / central.standard_error
    assert error.max() < 2e-9  # the tolerance is 1e-9 of them
    assert found["simulated"] is False
    assert "simulated" not in done.stdout
    assert np.array_equal(np.rint(before * 2**10), before * 2**10)  # whole numbers of the grid


def test_a_ledger_keeps_it_too(tables, monkeypatch):
    """Two runs, one release: every agent's ledger sends what it has."""
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tables / "marks"))
    plain = [option for option in OPTIONS if option not in ("--simulate", "--seed", "5")]
    run = [2, COMMAND, "meter-{agent}.csv", *plain, "--ledger", "l-{agent}.db"]
    estimates = []
    for _ in range(2):
        done, _ = launched(*run, "--output", "found-{agent}.json", folder=tables)
        assert done.returncode == 0, done.stderr
        estimates.append(json.loads((tables / "found-1.json").read_text())["estimate"])
    assert estimates[0] == estimates[1]
    assert not list(tables.glob("*.release"))
    for agent in range(2):
        with pv.Ledger(tables / f"l-{agent}.db") as book:
            (subject,) = book.subjects()
            assert subject == f"load of meter-{agent}.csv"
            assert [one.kind for one in book.history()].count("spent") == 1
            assert 3.99 < float(book.account(subject).spent.level) <= LEVEL


def test_one_process():
    with pytest.raises(InvalidInput, match="start it with mpiexec"):
        command.consensus(data="m-{agent}.csv", target="y", level=1.0, residual_variance=1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [("grid:2", "two sides"), ("grid:2xx", "two sides"), ("moon", "neither ring"), ("f", "a line")],
)
def test_refused_graphs(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    Path("f").write_text("0,0.5\n")
    with pytest.raises(InvalidInput, match=message):
        command.graph_of(text, 4)


def test_graphs():
    assert len(command.graph_of("ring", 5).edges) == 5
    assert len(command.graph_of("star", 5).edges) == 4
    assert len(command.graph_of("grid:2x3", 6).edges) == 7
