"""Graphs and weights: what is taken, and what each refusal says."""

import networkx
import numpy as np
import pytest
import scipy.sparse

import privest as pv
from privest import network
from privest.errors import InvalidInput


def test_edges_are_kept_once_and_sorted():
    graph = network.Graph([(2, 1), (0, 1), (1, 2), (1, 0)])
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.degrees.tolist() == [1, 2, 1]
    assert graph.neighbours(1).tolist() == [0, 2]
    assert network.Graph([], agents=1).connected


@pytest.mark.parametrize(
    ("edges", "agents", "text"),
    [
        ([(0, 0)], None, "agent 0 has an edge to itself"),
        ([(0, 5)], 3, "numbered 0 … 2; an edge names agent 5"),
        ([(-1, 0)], 3, "names agent -1"),
        ([(0, 1, 2)], None, "pairs of agent numbers"),
        ([(0.5, 1.0)], None, "pairs of agent numbers"),
        ([], None, "whole number ≥ 1"),
    ],
)
def test_bad_edges(edges, agents, text):
    with pytest.raises(InvalidInput, match=text):
        network.Graph(edges, agents)


def test_shapes_are_those_of_networkx():
    for own, peer in (
        (network.ring(7), networkx.cycle_graph(7)),
        (network.star(6), networkx.star_graph(5)),
        (
            network.grid(3, 4),
            networkx.convert_node_labels_to_integers(networkx.grid_2d_graph(3, 4)),
        ),
    ):
        same = {tuple(sorted(edge)) for edge in peer.edges}
        assert {tuple(edge) for edge in own.edges.tolist()} == same
    places = np.random.default_rng(0).random((40, 2))
    peer = networkx.random_geometric_graph(40, 0.3, pos=dict(enumerate(map(tuple, places))))
    own = network.random_geometric(places, 0.3)
    assert {tuple(e) for e in own.edges.tolist()} == {tuple(sorted(e)) for e in peer.edges}
    for bad in (lambda: network.ring(2), lambda: network.star(1), lambda: network.grid(0, 3)):
        with pytest.raises(InvalidInput, match="must be a whole number ≥"):
            bad()


def test_components_are_named():
    graph = networkx.Graph([("roof", "yard"), ("lab", "hall")])
    graph.add_node("attic")
    net = network.Graph.from_networkx(graph)
    assert not net.connected
    assert sorted(len(part) for part in net.components) == [1, 2, 2]
    with pytest.raises(InvalidInput, match=r"3 components, \{'roof', 'yard'\}.*\{'attic'\}"):
        network.metropolis(graph)
    with pytest.raises(InvalidInput, match="directed"):
        network.metropolis(networkx.DiGraph([(0, 1)]))
    with pytest.raises(InvalidInput, match="not a networkx graph; received list"):
        network.metropolis([(0, 1)])


def test_long_lists_are_cut():
    with pytest.raises(InvalidInput, match=r"… 14 more\}, \{20\}.* and 15 more"):
        network.Graph([(i, i + 1) for i in range(19)], agents=40).require_connected()


def test_metropolis_weights():
    graph = networkx.connected_watts_strogatz_graph(20, 4, 0.5, seed=0)
    W = network.metropolis(graph).matrix.toarray()
    d = dict(graph.degree)
    for i in range(20):
        for j in range(20):
            if i != j:
                share = 1 / (1 + max(d[i], d[j])) if graph.has_edge(i, j) else 0.0
                assert W[i, j] == pytest.approx(share, rel=1e-15)
    assert np.allclose(W.sum(axis=1), 1.0, atol=1e-15)
    assert (np.diagonal(W) > 0).all()


def test_user_weights():
    W = [[0.6, 0.4, 0.0], [0.4, 0.3, 0.3], [0.0, 0.3, 0.7]]
    for given in (W, scipy.sparse.csr_array(W), scipy.sparse.coo_matrix(W)):
        found = network.Weights(given)
        assert np.allclose(found.matrix.toarray(), W, atol=1e-15)
        others, shares = found.of(1)
        assert others.tolist() == [0, 2]
        assert np.allclose(shares, [0.4, 0.3])
    assert network.Weights(W, graph=network.Graph([(0, 1), (1, 2)])).agents == 3


def test_rounding_in_user_weights_is_taken_out():
    W = np.array([[0.6, 0.4], [0.4, 0.6]]) + 1e-13 * np.array([[1.0, 2.0], [-1.0, 0.5]])
    found = network.Weights(W).matrix.toarray()
    assert np.array_equal(found, found.T)
    assert (found.sum(axis=1) == 1.0).all()


@pytest.mark.parametrize(
    ("W", "text"),
    [
        ([[0.5, 0.5], [0.4, 0.6]], "agent 0 gives agent 1 the weight 0.5"),
        ([[0.5, 0.4], [0.4, 0.6]], "weights of agent 0 sum to 0.9"),
        ([[1.5, -0.5], [-0.5, 1.5]], "between agents 0 and 1 is -0.5"),
        ([[0.0, 1.0], [1.0, 0.0]], "agent 0 keeps a_ii = 0"),
        ([[1.0, 0.0], [0.0, 1.0]], r"2 components, \{0\}, \{1\}"),
        ([[1.0, 0.0]], "must be square"),
        ([[1.0, np.nan], [0.0, 1.0]], "finite"),
    ],
)
def test_bad_weights(W, text):
    with pytest.raises(InvalidInput, match=text):
        network.Weights(W)


def test_weights_must_fit_their_graph():
    W = [[0.6, 0.4, 0.0], [0.4, 0.3, 0.3], [0.0, 0.3, 0.7]]
    with pytest.raises(InvalidInput, match="between agents 0 and 1, which the graph does not link"):
        network.Weights(W, graph=network.Graph([(0, 2), (1, 2)]))
    with pytest.raises(InvalidInput, match="no weight on the edge between agents 0 and 2"):
        network.Weights(W, graph=network.ring(3))
    with pytest.raises(InvalidInput, match="W is for 3 agents, the graph for 4"):
        network.Weights(W, graph=network.ring(4))
    with pytest.raises(InvalidInput, match="must be > 0"):
        network.Weights.on_edges(network.ring(3), [0.3, 0.3, -0.1])
    with pytest.raises(InvalidInput, match="2 weights were given for 3 edges"):
        network.Weights.on_edges(network.ring(3), [0.3, 0.3])


def test_one_agent_alone():
    assert network.spectrum_of(network.Weights([[1.0]]).matrix).gap == 1.0


def test_time_varying_links_must_be_jointly_connected():
    first, second = network.Graph([(0, 1)], 4), network.Graph([(2, 3)], 4)
    with pytest.raises(InvalidInput, match="union of the time-varying graphs is not connected"):
        network.TimeVarying([first, second])
    found = network.TimeVarying([first, second, network.Graph([(1, 2)], 4)])
    assert np.array_equal(found.matrix(0).toarray(), found.matrix(3).toarray())
    with pytest.raises(InvalidInput, match="at least one"):
        network.TimeVarying([])
    with pytest.raises(InvalidInput, match="different numbers of agents"):
        network.TimeVarying([first, network.ring(5)])


def test_loss_is_a_probability_below_one():
    ring = network.metropolis(network.ring(4))
    for bad in (-0.1, 1.0):
        with pytest.raises(InvalidInput, match=r"loss must lie in \[0, 1\)"):
            network.Lossy(ring, bad, np.random.default_rng(0))
    none = network.Lossy(ring, 0.0, np.random.default_rng(0))
    assert np.allclose(none.matrix(0).toarray(), ring.matrix.toarray(), atol=1e-16)


def test_without_networkx_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "networkx", None)
    with pytest.raises(pv.errors.MissingDependency, match="extra 'network'"):
        network.Graph.from_networkx(object())


@pytest.mark.parametrize(("lowest", "second"), [(-1.0, 0.5), (0.0, 1.0), (0.5, 0.2)])
def test_bad_spectra(lowest, second):
    with pytest.raises(InvalidInput, match="−1 < λ_N ≤ λ_2 < 1"):
        network.Spectrum(lowest, second)


def test_spectrum_of_a_ring():
    count = 30
    found = network.spectrum_of(network.metropolis(network.ring(count)).matrix)
    assert found.second == pytest.approx((1 + 2 * np.cos(2 * np.pi / count)) / 3, abs=1e-14)
    assert found.lowest == pytest.approx(-1 / 3, abs=1e-14)
    for factor in (1e-3, 1e-9):
        for rounds, bound in (
            (found.plain_rounds(factor), found.plain_bound),
            (found.chebyshev_rounds(factor), found.chebyshev_bound),
        ):
            assert bound(rounds) <= factor * (1 + 1e-9) < bound(rounds - 1) * (1 + 1e-6)
    ratio = (1 - found.middle) / ((found.second - found.lowest) / 2)
    series = np.polynomial.chebyshev.Chebyshev([0] * 12 + [1])
    assert found.chebyshev_bound(12) == pytest.approx(1 / series(ratio), rel=1e-12)
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        found.plain_rounds(1.5)


def test_a_complete_graph_is_done_in_one_round():
    """All other eigenvalues coincide: the interval has no width."""
    count = 5
    W = network.Weights(np.full((count, count), 1 / count))
    found = network.spectrum_of(W.matrix)
    assert abs(found.second) < 1e-14
    exact = network.Spectrum(0.0, 0.0)
    assert exact.chebyshev_rounds(1e-9) == 1
    assert exact.chebyshev_bound(1) == 0.0
    parts = network.Contributions(np.arange(5.0)[:, None], np.ones((5, 1, 1)))
    result = network.consensus(parts, W, spectrum=exact)
    assert result.rounds == 1
    assert np.allclose(result.estimates, 2.0, atol=1e-14)
