"""Graphs and weights: what is taken, and what each refusal says."""

import networkx
import numpy as np
import pytest

import privest as pv
from privest import network
from privest.errors import InvalidInput
from privest.network._graph import weights_of
from privest.network._rounds import Spectrum, spectrum_of

PATH = network.Graph([(0, 1), (1, 2)])
PAIR = network.Graph([(0, 1)])


def test_edges_are_kept_once_and_sorted():
    graph = network.Graph([(2, 1), (0, 1), (1, 2), (1, 0)])
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.degrees.tolist() == [1, 2, 1]
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
        (network.Graph.ring(7), networkx.cycle_graph(7)),
        (network.Graph.star(6), networkx.star_graph(5)),
        (
            network.Graph.grid(3, 4),
            networkx.convert_node_labels_to_integers(networkx.grid_2d_graph(3, 4)),
        ),
    ):
        same = {tuple(sorted(edge)) for edge in peer.edges}
        assert {tuple(edge) for edge in own.edges.tolist()} == same
    places = np.random.default_rng(0).random((40, 2))
    peer = networkx.random_geometric_graph(40, 0.3, pos=dict(enumerate(map(tuple, places))))
    own = network.Graph.random_geometric(places, 0.3)
    assert {tuple(e) for e in own.edges.tolist()} == {tuple(sorted(e)) for e in peer.edges}
    for bad in (
        lambda: network.Graph.ring(2),
        lambda: network.Graph.star(1),
        lambda: network.Graph.grid(0, 3),
    ):
        with pytest.raises(InvalidInput, match="must be a whole number ≥"):
            bad()


def test_components_are_named():
    graph = networkx.Graph([("roof", "yard"), ("lab", "hall")])
    graph.add_node("attic")
    net = network.Graph.from_networkx(graph)
    assert not net.connected
    assert sorted(len(part) for part in net.components) == [1, 2, 2]
    with pytest.raises(InvalidInput, match=r"3 components, \{'roof', 'yard'\}.*\{'attic'\}"):
        weights_of(graph)
    with pytest.raises(InvalidInput, match="directed"):
        weights_of(networkx.DiGraph([(0, 1)]))
    with pytest.raises(InvalidInput, match="not a networkx graph; received list"):
        weights_of([(0, 1)])


def test_long_lists_are_cut():
    with pytest.raises(InvalidInput, match=r"… 14 more\}, \{20\}.* and 15 more"):
        network.Graph([(i, i + 1) for i in range(19)], agents=40).require_connected()


def test_metropolis_weights():
    graph = networkx.connected_watts_strogatz_graph(20, 4, 0.5, seed=0)
    W = weights_of(graph).matrix.toarray()
    d = dict(graph.degree)
    for i in range(20):
        for j in range(20):
            if i != j:
                share = 1 / (1 + max(d[i], d[j])) if graph.has_edge(i, j) else 0.0
                assert W[i, j] == pytest.approx(share, rel=1e-15)
    assert np.allclose(W.sum(axis=1), 1.0, atol=1e-15)
    assert (np.diagonal(W) > 0).all()


def test_one_agent_alone():
    assert spectrum_of(weights_of(network.Graph([], 1)).matrix).gap == 1.0


def test_time_varying_links_must_be_jointly_connected():
    first, second = network.Graph([(0, 1)], 4), network.Graph([(2, 3)], 4)
    with pytest.raises(InvalidInput, match="union of the time-varying graphs is not connected"):
        network.TimeVarying([first, second])
    found = network.TimeVarying([first, second, network.Graph([(1, 2)], 4)])
    assert np.array_equal(found.matrix(0).toarray(), found.matrix(3).toarray())
    with pytest.raises(InvalidInput, match="at least one"):
        network.TimeVarying([])
    with pytest.raises(InvalidInput, match="different numbers of agents"):
        network.TimeVarying([first, network.Graph.ring(5)])


def test_loss_is_a_probability_below_one():
    ring = network.Graph.ring(4)
    for bad in (-0.1, 1.0):
        with pytest.raises(InvalidInput, match=r"loss must lie in \[0, 1\)"):
            network.TimeVarying([ring], loss=bad, rng=0)
    with pytest.raises(InvalidInput, match="need rng="):
        network.TimeVarying([ring], loss=0.1)
    none = network.TimeVarying([ring], loss=0.0, rng=0)
    assert np.allclose(none.matrix(0).toarray(), weights_of(ring).matrix.toarray(), atol=0)


def test_without_networkx_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "networkx", None)
    with pytest.raises(pv.errors.MissingDependency, match="extra 'network'"):
        network.Graph.from_networkx(object())


@pytest.mark.parametrize(("lowest", "second"), [(-1.0, 0.5), (0.0, 1.0), (0.5, 0.2)])
def test_no_spectral_gap(lowest, second):
    with pytest.raises(pv.errors.NumericalFailure, match="below rounding"):
        Spectrum(lowest, second)


def test_spectrum_of_a_ring():
    count = 30
    found = spectrum_of(weights_of(network.Graph.ring(count)).matrix)
    assert found.second == pytest.approx((1 + 2 * np.cos(2 * np.pi / count)) / 3, abs=1e-14)
    assert found.lowest == pytest.approx(-1 / 3, abs=1e-14)


def test_a_complete_graph_is_done_in_one_round():
    """All other eigenvalues coincide: the interval has no width."""
    complete = network.Graph([(i, j) for i in range(5) for j in range(i)])
    assert Spectrum(0.0, 0.0).rounds("chebyshev", 1e-9) == 1
    parts = network.Contribution(np.arange(5.0)[:, None], np.ones((5, 1, 1)))
    result = network.consensus(parts, complete)
    assert result.rounds == 1
    assert np.allclose(result.estimates, 2.0, atol=1e-14)
