"""Sensors of mixed sizes, levels and noise, and graphs of every shape, for the network tests."""

from types import SimpleNamespace

import networkx
import numpy as np

import privest as pv
from privest import network
from privest.network import _rounds
from privest.network._graph import as_links
from strategies import psd_matrix

THETA = np.array([0.8, -1.5, 2.2])


def sensors(count, seed=0, parameters=3):
    """m_i from 1 to 4; levels: number, diagonal with a hidden reading, singular matrix, nothing."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        m = int(rng.integers(1, 5))
        H = rng.standard_normal((m, parameters))
        kinds = [
            float(np.exp(rng.uniform(-1, 1))),
            np.exp(rng.uniform(-1, 1, m)) * (np.arange(m) != 1),
            psd_matrix(rng, m, max(1, m - 1)),
            0.0,
        ]
        noise = pv.noise.Gaussian(cov=[0.4, psd_matrix(rng, m)][i % 2])
        made.append(network.Sensor(H, noise, pv.PrivacyLevel(kinds[i % 4])))
    return made


def releases(made, seed=1, trials=None, theta=THETA, how="simulate"):
    rng = np.random.default_rng(seed)
    if how == "release":
        return [s.release(s.model.sample(theta, rng, trials)) for s in made]
    return [s.simulate(s.model.sample(theta, rng, trials), rng) for s in made]


def contributions(made, sent):
    return [s.contribution(z) for s, z in zip(made, sent)]


def changing(count, parts=3, seed=3):
    """A connected graph whose links are shared out over `parts` graphs, none of them connected."""
    rng = np.random.default_rng(seed)
    whole = networkx.connected_watts_strogatz_graph(count, 4, 0.3, seed=seed)
    edges = np.array(whole.edges)
    share = rng.permutation(len(edges)) % (2 * parts)
    graphs = [network.Graph(edges[share % parts == p], count) for p in range(parts)]
    return network.TimeVarying(graphs)


def links_of_every_kind(count=36, seed=2):
    rng = np.random.default_rng(seed)
    side = int(count**0.5)
    ring = network.Graph.ring(count)
    geometric = networkx.random_geometric_graph(count, 0.4, seed=seed)
    return {
        "ring": ring,
        "grid": network.Graph.grid(side, count // side),
        "random geometric": geometric,
        "star": network.Graph.star(count),
        "time-varying": changing(count),
        "lossy": network.TimeVarying([ring], loss=0.3, rng=rng),
    }


def distance(found, central):
    """√((θ̂ − θ*)ᵀ PI (θ̂ − θ*)) for every agent: in standard errors."""
    e = found - central.value
    return np.sqrt(np.einsum("...a,ab,...b->...", e, np.linalg.inv(central.covariance), e))


def metropolis(graph):
    """W of Metropolis weights, dense, by its formula."""
    W = np.zeros((graph.agents, graph.agents))
    for i, j in graph.edges:
        W[i, j] = W[j, i] = 1 / (1 + max(graph.degrees[i], graph.degrees[j]))
    return W + np.diag(1 - W.sum(axis=1))


def rounds(parts, graph, method=None):
    """Round by round what every agent holds: number, x (N, …, n), r (N, n, n)."""
    stack, net = network.Contribution.stack(parts), as_links(graph)
    way = _rounds.chosen(method, net)
    start = _rounds.packed(stack.x.reshape(len(stack.x), -1), stack.r)
    passing = _rounds.states(start, net, way, _rounds.known_spectrum(net, way))
    for number, now in enumerate(passing):
        x, r = _rounds.unpacked(now.copy(), stack.x.shape[-1])
        yield SimpleNamespace(number=number, x=x.reshape(stack.x.shape), r=r)


def linear_information(signal, noise):
    """I_Z(Y) = Aᵀ(BBᵀ)⁺A of messages Z = A Y + B e, e ~ N(0, I); None where it is infinite.

    Messages may depend on each other (B of any rank).
    """
    A, B = np.asarray(signal, float), np.asarray(noise, float)
    left, values, _ = np.linalg.svd(B, full_matrices=False)
    kept = values > values[0] * max(B.shape) * np.finfo(float).eps
    seen = left[:, kept].T @ A
    if np.abs(A - left[:, kept] @ seen).max() > 1e-9 * np.abs(A).max():
        return None
    half = seen / values[kept][:, None]
    return half.T @ half
