"""What an independent review of the networks tried; each test failed before, or guards a claim."""

import mpmath
import numpy as np
import pytest

from privest import network
from privest.errors import InvalidInput, NotIdentifiable
from privest.network import Graph, mpi
from privest.network import _consensus as certificate
from privest.network._graph import weights_of
from privest.network._rounds import packed, spectrum_of, unpacked

HALVES = Graph([(0, 1), (1, 2), (3, 4), (4, 5)], 6)


def contributions(rng, agents, parameters=2, offset=0.0):
    H = rng.standard_normal((agents, parameters))
    z = np.sqrt(2.0) * (H @ np.full(parameters, offset)) + rng.standard_normal(agents)
    x = H * (np.sqrt(2.0) / 1.6 * z)[:, None]  # s = 2, σ² = 0.3
    return network.Contribution(x, 2.0 / 1.6 * H[:, :, None] * H[:, None, :])


def average(y, level, links):
    sensor = network.Sensor(np.ones((len(y), 1)), 1.0, level)
    return network.average(sensor.simulate(y, np.random.default_rng(0)), links)


@pytest.mark.parametrize(
    "use",
    [
        lambda parts, rng: network.consensus(parts, HALVES),
        lambda parts, rng: network.consensus(parts, HALVES, method="plain"),
        lambda parts, rng: network.TimeVarying([HALVES], loss=0.1, rng=rng),
        lambda parts, rng: average(np.ones(6), 1.0, HALVES),
        lambda parts, rng: mpi.consensus(network.Contribution(parts.x[0], parts.r[0]), HALVES),
    ],
)
def test_a_graph_in_pieces_names_the_pieces(use):
    rng = np.random.default_rng(0)
    with pytest.raises(
        InvalidInput, match=r"not connected: 2 components, \{0, 1, 2\}, \{3, 4, 5\}"
    ):
        use(contributions(rng, 6), rng)


@pytest.mark.parametrize("level", [0.0, np.array([1.0, 0.0, 1.0])])
def test_an_agent_of_level_zero_has_no_message(level):
    """1/S_i does not exist: it was a division by zero, and an infinite message."""
    ring = Graph.ring(3)
    with pytest.raises(NotIdentifiable):
        average(np.ones(3), level, ring)


def exact_errors(parts, estimates):
    """√((θ̂_i − θ*)ᵀ PI (θ̂_i − θ*)) with θ* and the forms in 50 digits."""
    n = parts.x.shape[1]
    with mpmath.workdps(50):
        r = sum((mpmath.matrix(one.tolist()) for one in parts.r), mpmath.zeros(n))
        x = sum((mpmath.matrix(one.tolist()) for one in parts.x), mpmath.zeros(n, 1))
        best = mpmath.lu_solve(r, x)
        away = [mpmath.matrix(one.tolist()) - best for one in estimates]
        return np.array([float(mpmath.sqrt((e.T * r * e)[0])) for e in away])


def barbell(half):
    first = [(i, j) for i in range(half) for j in range(i)]
    second = [(i + half, j + half) for i, j in first]
    return Graph([*first, *second, (0, half)], 2 * half)


LINKS = {
    "path": lambda rng: Graph([(i, i + 1) for i in range(11)], 12),
    "barbell": lambda rng: barbell(6),
    "lossy": lambda rng: network.TimeVarying([barbell(6)], loss=0.6, rng=rng),
    "time-varying": lambda rng: network.TimeVarying(
        [Graph([(i, i + 1) for i in range(start, 11, 2)], 12) for start in (0, 1)]
    ),
}


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_certificates_hold_in_fifty_digits(name, offset):
    """From a loose certificate down to the last one before rounding is refused."""
    rng = np.random.default_rng(3)
    links, parts = LINKS[name](rng), contributions(rng, 12, 3, offset)
    for tolerance in (1.0, 1e-3, 1e-6):
        found = network.consensus(parts, links, tolerance=tolerance)
        assert (found.certified_errors <= tolerance).all()
        assert (exact_errors(parts, found.estimates) <= found.certified_errors).all()


def averaged_agents(parts, weights, gain, method):
    """All agents of the per-agent functions, as MPI ranks run them: vectors and rounding bounds."""
    ends = spectrum_of(weights.matrix)
    chebyshev = method == "chebyshev"
    agents = [mpi.AgentState(start) for start in packed(parts.x, parts.r)]
    hears = [weights.of(i) for i in range(weights.agents)]
    for _ in range(ends.rounds(method, gain)):
        sent = np.stack([one.now for one in agents])
        agents = [
            mpi.agent_step(one, sent[j], a, ends if chebyshev else None)
            for one, (j, a) in zip(agents, hears)
        ]
    return np.stack([one.now for one in agents]), np.stack([one.drift for one in agents])


@pytest.mark.parametrize(
    ("agents", "method"), [(100, "chebyshev"), (12, "plain")], ids=["chebyshev", "plain"]
)
def test_what_rounding_moves_is_in_the_certificate_of_a_rank(agents, method):
    """Averaged down to rounding. With the spread alone a ring of 100 certified a fifth of the true
    error: the mean itself had moved, which no agent sees.
    """
    parts = contributions(np.random.default_rng(0), agents, 2, offset=1e4)
    now, moved = averaged_agents(parts, weights_of(Graph.ring(agents)), 1e-18, method)
    x, r = unpacked(now, 2)
    wide = (now + moved).max(axis=0) - (now - moved).min(axis=0)
    x_wide, r_wide = unpacked(wide, 2)
    theta, errors = certificate.certified(x[:, None], r, x_wide[None], r_wide)
    assert (exact_errors(parts, theta[:, 0]) <= errors).all()
    drift = np.abs(certificate.centre(now) - certificate.centre(packed(parts.x, parts.r)))
    assert (drift <= moved.mean(axis=0)).all()
    if agents == 100:  # the spread alone is a small part of it
        x_only, r_only = unpacked(np.ptp(now, axis=0), 2)
        alone = certificate.certified(x[:, None], r, x_only[None], r_only)[1]
        assert errors.max() > 2 * alone.max()
