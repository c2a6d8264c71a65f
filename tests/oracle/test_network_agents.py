"""The vectorised simulation against agents that run one by one and know their neighbours only."""

import itertools

import networkx
import numpy as np
import pytest

import privest as pv
from network_sample import contributions, distance, metropolis, releases, rounds, sensors
from privest import network
from privest.linalg import batched
from privest.network import _rounds as averaging
from privest.network import mpi as agent
from privest.network._consensus import certified
from privest.network._graph import as_links, weights_of
from privest.network._rounds import packed, spectrum_of, unpacked


@pytest.fixture(scope="module")
def sample():
    made = sensors(14, seed=3)
    sent = releases(made)
    graph = network.Graph.from_networkx(networkx.connected_watts_strogatz_graph(14, 4, 0.4, seed=1))
    return made, sent, contributions(made, sent), weights_of(graph)


def run_agents(parts, weights, rounds, step):
    """Every agent by itself: it sends `now` and hears its neighbours. Returns the states."""
    agents = [agent.AgentState(packed(part.x, part.r)) for part in parts]
    for _ in range(rounds):
        sent = [state.now for state in agents]  # all messages of a round leave before it ends
        agents = [
            step(state, np.array([sent[j] for j in weights.of(i)[0]]), weights.of(i)[1])
            for i, state in enumerate(agents)
        ]
    return agents


@pytest.mark.parametrize("method", ["plain", "chebyshev"])
def test_agents_one_by_one_are_the_simulation(sample, method):
    _, _, parts, weights = sample
    ends = spectrum_of(weights.matrix)

    def step(state, messages, shares):
        return agent.agent_step(state, messages, shares, None if method == "plain" else ends)

    views = rounds(parts, weights.graph, method=method)
    for k, view in enumerate(itertools.islice(views, 25)):
        if k in (0, 1, 2, 3, 24):
            for i, state in enumerate(run_agents(parts, weights, k, step)):
                x, r = unpacked(state.now, 3)
                assert np.allclose(x, view.x[i], rtol=1e-12, atol=1e-12)
                assert np.allclose(r, view.r[i], rtol=1e-12, atol=1e-12)


def test_agents_learn_the_spread_by_max_consensus_and_certify_themselves(sample):
    made, sent, parts, weights = sample
    ends, reach = spectrum_of(weights.matrix), weights.graph.reach
    agents = run_agents(parts, weights, 60, lambda *a: agent.agent_step(*a, spectrum=ends))
    known = [(state.now, state.now) for state in agents]
    for _ in range(reach):
        known = [
            agent.extremes_step(
                *known[i],
                np.array([known[j][0] for j in weights.of(i)[0]]),
                np.array([known[j][1] for j in weights.of(i)[0]]),
            )
            for i in range(len(agents))
        ]
    values = np.array([state.now for state in agents])
    central = network.fuse(made, sent)
    for i, (low, high) in enumerate(known):
        assert np.array_equal(high - low, np.ptp(values, axis=0))
        x, r = unpacked(agents[i].now, 3)
        wide_x, wide_r = unpacked(high - low, 3)
        theta, own = certified(x[None, None], r[None], wide_x[None], wide_r, agents=len(agents))
        assert np.allclose(theta[0, 0], np.linalg.solve(r, x), rtol=1e-10)
        assert distance(theta[0, 0], central) <= own[0] < 1e-6


def test_reach_is_at_least_the_diameter():
    regular = networkx.random_regular_graph(3, 20, seed=1)
    for graph in (networkx.path_graph(9), networkx.star_graph(5), regular):
        found = network.Graph.from_networkx(graph).reach
        assert networkx.diameter(graph) <= found <= 2 * networkx.diameter(graph)


def test_lossy_links_are_agents_that_leave_silent_neighbours_out():
    """One round: the same failures through `mix`, and every W_k symmetric and stochastic."""
    graph = network.Graph.grid(3, 4)
    weights = weights_of(graph)
    lossy = network.TimeVarying([graph], loss=0.4, rng=5)
    start = np.random.default_rng(6).standard_normal((12, 2))
    for k in range(20):
        W = lossy.matrix(k).toarray()
        assert np.array_equal(W, W.T)
        assert np.allclose(W.sum(axis=1), 1.0, atol=1e-15)
        assert (np.diagonal(W) >= weights.own_weights - 1e-15).all()
        for i in range(12):
            others, shares = weights.of(i)
            heard = W[i, others] > 0
            assert np.allclose(W[i, others][heard], shares[heard], rtol=1e-15)
            own = agent.mix(start[i], start[others[heard]], shares[heard])
            assert np.allclose(own, W[i] @ start, atol=1e-14)


def test_links_fail_as_often_as_they_should():
    lossy = network.TimeVarying([network.Graph.ring(50)], loss=0.3, rng=7)
    rounds = 400
    used = sum((lossy.matrix(k).toarray()[np.triu_indices(50, 1)] > 0).sum() for k in range(rounds))
    total = 50 * rounds
    deviation = np.sqrt(total * 0.3 * 0.7)
    assert abs(used - 0.7 * total) < 5 * deviation


@pytest.mark.parametrize("route", ["lanczos", "factors"])
@pytest.mark.parametrize("shape", ["geometric", "ring", "star"])
def test_the_ends_of_the_spectrum_without_all_eigenvalues(monkeypatch, route, shape):
    rng = np.random.default_rng(0)
    graph = {
        "geometric": lambda: network.Graph.random_geometric(rng.random((900, 2)), 0.08),
        "ring": lambda: network.Graph.ring(901),
        "star": lambda: network.Graph.star(900),
    }[shape]()
    matrix = as_links(graph).table
    values = np.linalg.eigvalsh(metropolis(graph))
    monkeypatch.setattr(averaging, "NARROW", 0.0 if route == "lanczos" else np.inf)
    found = spectrum_of(matrix)
    # Lanczos stops at a residual of 1e-6: its λ_2 is that far off at most, and never too large.
    assert found.second == pytest.approx(values[-2], abs=1e-6)
    assert found.second <= values[-2] + 1e-12
    assert values[0] - 0.012 <= found.lowest <= values[0] + 1e-12


def test_a_gap_that_cannot_be_found_is_an_error(monkeypatch):
    monkeypatch.setattr(averaging, "NARROW", 0.0)
    with pytest.raises(pv.errors.NumericalFailure, match="too small to be found by Lanczos"):
        spectrum_of(as_links(network.Graph.ring(4001)).table)


def test_many_small_factors_are_lapacks():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((50, 7, 4))
    r = rows.swapaxes(1, 2) @ rows
    lower, ready = batched.cholesky_of_many(r)
    assert ready.all()
    assert np.allclose(lower, np.linalg.cholesky(r), rtol=1e-12)
    assert np.allclose(batched.triangular_inverse_of_many(lower) @ lower, np.eye(4), atol=1e-12)
    x = rng.standard_normal((50, 3, 4))
    expected = np.linalg.solve(r, x.swapaxes(1, 2)).swapaxes(1, 2)
    assert np.allclose(batched.solve_of_many(lower, x), expected, rtol=1e-9)


def test_matrices_that_are_not_positive_definite_are_found():
    rng = np.random.default_rng(1)
    q = np.linalg.qr(rng.standard_normal((200, 4, 4)))[0]
    values = np.exp(rng.uniform(-2, 2, (200, 4)))
    values[::4, 2] = 0.0  # singular: rounding decides the sign of the pivot
    values[1::4, 1] *= -1.0
    values[2::4] *= -1.0
    r = (q * values[:, None]) @ q.swapaxes(1, 2)
    lower, ready = batched.cholesky_of_many(r)
    assert ready.tolist() == [k % 4 == 3 for k in range(200)]
    assert np.array_equal(lower[0], np.eye(4))


def test_an_agent_without_an_estimate_has_no_certificate():
    r = np.array([np.eye(2), [[1.0, 2.0], [2.0, 1.0]], np.zeros((2, 2))])
    theta, errors = certified(np.ones((3, 1, 2)), r, np.full((1, 2), 1e-9), np.zeros((2, 2)))
    assert np.isfinite(theta[0]).all()
    assert np.isfinite(errors[0])
    assert np.isnan(theta[1:]).all()
    assert np.isinf(errors[1:]).all()


@pytest.mark.parametrize("method", ["plain", "chebyshev"])
def test_the_start_is_left_alone(method):
    start = np.random.default_rng(0).standard_normal((9, 2))
    kept = start.copy()
    links = as_links(network.Graph.ring(9))
    ends = averaging.known_spectrum(links, method)
    for _ in itertools.islice(averaging.states(start, links, method, ends), 6):
        pass
    assert np.array_equal(start, kept)
