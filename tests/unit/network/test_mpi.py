"""Agents as MPI ranks: the simulation's numbers, messages without readings, agents that vanish."""

from pathlib import Path

import numpy as np
import pytest

import privest as pv
from mpi_launch import launched, needs_mpi
from network_sample import rounds as simulated
from privest.errors import InvalidInput
from privest.network import Contribution, Graph, Sensor, mpi
from privest.network._rounds import packed
from privest.network._sensor import SensorRelease

AGENT = Path(__file__).parents[2] / "mpi_agents.py"
AGENTS, GONE = 8, 3

pytestmark = [*needs_mpi, pytest.mark.processes]


def prepared(folder, agents=AGENTS):
    """Multiples of 2⁻²⁰, so that y + e is exact however it is split."""
    rng = np.random.default_rng(9)
    own = []
    for rank in range(agents):
        m = 1 + rank % 3
        parts = {"H": rng.standard_normal((m, 2))}
        for name in ("y", "e", "shift"):
            parts[name] = np.round(rng.normal(0, 3, m) * 2**20) / 2**20
        np.savez(folder / f"agent-{rank}.npz", **parts)
        own.append(parts)
    return own


SCENARIOS = ("ring", "star", "trials", "other_readings", "slow", "different", "hidden", "impatient")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Eight ranks, several runs one after another in the same processes."""
    folder = tmp_path_factory.mktemp("mpi")
    own = prepared(folder)
    done, _ = launched(AGENTS, AGENT, folder, *SCENARIOS)
    assert done.returncode == 0, done.stderr
    return folder, own


def results(folder, scenario, agents=AGENTS):
    return [dict(np.load(folder / f"{scenario}-{rank}.npz")) for rank in range(agents)]


def contributions(own, trials=False):
    made = []
    for parts in own:
        sensor = Sensor(parts["H"], pv.noise.Gaussian(cov=0.5), pv.PrivacyLevel(1.0))
        y = np.stack([parts["y"], 2 * parts["y"]]) if trials else parts["y"]
        release = SensorRelease(y + parts["e"], sensor.level.fingerprint, simulated=True)
        made.append(sensor.contribution(release))
    return made


CASES = {
    "ring": (Graph.ring(AGENTS), "chebyshev"),
    "star": (Graph.star(AGENTS), "plain"),
    "trials": (Graph.ring(AGENTS), "chebyshev"),
}


@pytest.mark.parametrize("scenario", CASES)
def test_the_numbers_of_the_simulation(ran, scenario):
    """1e-12 of the largest: the rounds add the same terms in another order."""
    folder, own = ran
    found = results(folder, scenario)
    links, method = CASES[scenario]
    rounds = {int(one["rounds"]) for one in found}
    assert len(rounds) == 1
    for view in simulated(contributions(own, scenario == "trials"), links, method=method):
        if view.number in rounds:
            break
    x = view.x.reshape(AGENTS, -1, 2).swapaxes(1, 2)
    estimates = np.linalg.solve(view.r, x).swapaxes(1, 2).reshape(view.x.shape)
    for rank, one in enumerate(found):
        for mine, theirs in ((one["value"], estimates), (one["information"], view.r)):
            np.testing.assert_allclose(
                mine, theirs[rank], rtol=0, atol=1e-12 * np.abs(theirs).max()
            )


@pytest.mark.parametrize("scenario", CASES)
def test_the_certificate_holds(ran, scenario):
    """Every agent is as near the efficient estimate as it says, and as was asked for."""
    folder, own = ran
    parts = contributions(own, scenario == "trials")
    r = sum(part.r for part in parts)
    central = np.linalg.solve(r, sum(part.x for part in parts).T).T
    asked = 1e-6 if scenario == "star" else 1e-9
    for one in results(folder, scenario):
        e = one["value"] - central
        distance = np.sqrt(np.einsum("...a,ab,...b->...", e, r, e)).max()
        assert distance <= one["certified_error"] + 1e-13
        assert one["certified_error"] <= asked
        expected = np.sqrt(np.diagonal(np.linalg.inv(r)))
        np.testing.assert_allclose(one["standard_error"], expected, rtol=10 * asked)
    assert len({float(one["certified_error"]) for one in results(folder, scenario)}) == 1


def test_messages_are_those_of_the_simulation(ran):
    """What every rank sends in round k is the simulation's state of it, made of releases alone."""
    folder, own = ran
    found = results(folder, "ring")
    size = 2 + 3
    for view in simulated(contributions(own), Graph.ring(AGENTS), method="chebyshev"):
        if view.number == len(found[0]["sent"]):
            break
        states = packed(view.x, view.r)
        sent = np.array([one["sent"][view.number][:size] for one in found])
        np.testing.assert_allclose(sent, states, rtol=0, atol=1e-12 * np.abs(states).max())
    assert view.number > 20


def test_ranks_hear_their_neighbours_only(ran):
    folder, _ = ran
    for scenario, (links, _) in CASES.items():
        found = results(folder, scenario)
        for rank, one in enumerate(found):
            edges = links.edges
            neighbours = np.sort(edges[(edges == rank).any(axis=1)].sum(axis=1) - rank)
            assert one["heard"].shape[1] == len(neighbours)
            for place, j in enumerate(neighbours):
                np.testing.assert_array_equal(one["heard"][:, place], found[j]["sent"])


def test_no_message_holds_a_reading(ran):
    """Neither as a number nor as bytes anywhere; the greetings are a digest of public facts."""
    folder, own = ran
    everything = [(results(folder, "ring"), "y"), (results(folder, "other_readings"), "both")]
    for found, which in everything:
        numbers = np.concatenate(
            [np.r_[one["sent"].ravel(), one["heard"].ravel()] for one in found]
        )
        for parts in own:
            y = parts["y"] if which == "y" else parts["y"] + parts["shift"]
            assert not np.isin(y, numbers).any()
            for one in found:
                stream = one["sent"].tobytes() + one["heard"].tobytes() + one["small"].tobytes()
                assert not any(value.tobytes() in stream for value in y)
        assert len({one["small"].tobytes()[:32] for one in found}) == 1


def test_messages_depend_on_releases_only(ran):
    """Other readings with the same releases: the same messages, bit by bit."""
    folder, own = ran
    assert all((parts["shift"] != 0).all() for parts in own)
    for one, other in zip(results(folder, "ring"), results(folder, "other_readings")):
        np.testing.assert_array_equal(one["sent"], other["sent"])
        np.testing.assert_array_equal(one["heard"], other["heard"])
        np.testing.assert_array_equal(one["small"], other["small"])


def test_a_slow_agent_changes_nothing(ran):
    folder, _ = ran
    for one, other in zip(results(folder, "ring"), results(folder, "slow")):
        for name in ("value", "information", "rounds", "sent", "heard"):
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize(
    ("scenario", "kind", "words"),
    [
        ("different", "InvalidInput", "takes part with another graph"),
        ("hidden", "NotIdentifiable", "do not show all 2 directions"),
        ("impatient", "NumericalFailure", "max_rounds"),
    ],
)
def test_all_agents_refuse_alike(ran, scenario, kind, words):
    for rank in range(AGENTS):
        text = (ran[0] / f"{scenario}-{rank}.txt").read_text()
        assert text.startswith(kind)
        assert words in text


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param("dies", marks=pytest.mark.slow), "hangs",
        pytest.param("dies_at_once", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_an_agent_that_is_gone(tmp_path, scenario):
    """Timeout 1.5 s: the error comes after that, one second to see who is alive, and no hang."""
    agents = 5
    prepared(tmp_path, agents)
    options = [] if scenario == "hangs" else ["-disable-auto-cleanup"]
    done, seconds = launched(agents, AGENT, tmp_path, scenario, options=options)
    assert done.returncode != 0, done.stderr
    assert seconds < 30
    for rank in range(agents):
        file = tmp_path / f"{scenario}-{rank}.txt"
        if rank == GONE:
            assert not file.exists()
            continue
        kind, waited, message = file.read_text().split("\n", 2)
        assert kind == "AgentSilent"
        assert 1.5 <= float(waited) < 10
        assert f"agent {rank} waited 1.5 s in vain" in message
        if rank in (GONE - 1, GONE + 1):
            assert f"agent {GONE} died, hangs" in message
        else:
            assert "an agent beyond its neighbours" in message


def test_a_run_after_one_that_failed_sends_the_same_release(tmp_path):
    """Else everybody who heard both runs would know each reading twice as well."""
    agents = 4
    prepared(tmp_path, agents)
    done, _ = launched(agents, AGENT, tmp_path, "kept_dies", options=["-disable-auto-cleanup"])
    assert done.returncode != 0
    done, _ = launched(agents, AGENT, tmp_path, "kept")
    assert done.returncode == 0, done.stderr
    for rank, now in enumerate(results(tmp_path, "kept", agents)):
        assert f"{rank}.release is used again" in done.stderr
        if rank == GONE:
            continue
        assert (tmp_path / f"kept_dies-{rank}.txt").read_text().startswith("AgentSilent")
        before = np.load(tmp_path / f"kept_dies-{rank}.npz")["sent"]
        assert len(before)  # it had been heard
        assert np.array_equal(before[0], now["sent"][0])


# --- one process ----------------------------------------------------------------------------------


def test_refused():
    own = Contribution(np.ones(2), np.eye(2))
    with pytest.raises(InvalidInput, match=r"8 agents.*mpiexec -n 8"):
        mpi.consensus(own, Graph.ring(8))
    with pytest.raises(InvalidInput, match="method must be"):
        mpi.consensus(own, Graph.ring(8), method="fast")
    with pytest.raises(InvalidInput, match="timeout must be > 0"):
        mpi.consensus(own, Graph.ring(8), timeout=0)
    alone = Graph([], 1)
    with pytest.raises(InvalidInput, match="received ndarray"):
        mpi.consensus(np.ones(2), alone)


def test_alone():
    found = mpi.consensus(Contribution(np.array([2.0, 6.0]), np.diag([1.0, 2.0])), Graph([], 1))
    np.testing.assert_allclose(found.value, [2.0, 3.0], rtol=1e-15)
    np.testing.assert_allclose(found.covariance, np.diag([1.0, 0.5]), rtol=1e-15)
    assert (found.agent, found.agents) == (0, 1)


def test_the_example_sends_the_same_release_again(tmp_path):
    """`examples/agents.py`: the estimate of all tables from what is on disk, twice."""
    rng, agents = np.random.default_rng(1), 3
    rows = [np.column_stack([np.ones(4), rng.uniform(0, 1, 4)]) for _ in range(agents)]
    for k, H in enumerate(rows):
        load = 2 - H[:, 1] + 0.5 * rng.standard_normal(4)
        lines = ["warm,load", *(f"{warm},{y}" for warm, y in zip(H[:, 1], load))]
        (tmp_path / f"m-{k}.csv").write_text("\n".join(lines))
    example = Path(__file__).parents[3] / "examples" / "agents.py"
    printed = []
    for _ in range(2):
        done, _ = launched(agents, example, "m-{agent}.csv", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    z = np.concatenate([np.load(tmp_path / f"m-{k}.csv.release")["values"] for k in range(agents)])
    found = np.linalg.lstsq(np.vstack(rows), z / 2.0, rcond=None)[0]  # z = √4·y + noise
    assert f"estimate       {found.round(3).tolist()}" in printed[0]
