"""`algo:average`, `thm:eff/fusion`, its time-varying remark, and `coro:consensus` attained."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from network_sample import (
    contributions,
    distance,
    linear_information,
    links_of_every_kind,
    metropolis,
    releases,
    rounds,
    sensors,
)
from privest import network
from privest.estimator import Estimate
from privest.network._consensus import certified
from privest.network._graph import as_links
from privest.network._rounds import known_spectrum, packed, spectrum_of, states, unpacked
from privest.network._sensor import SensorRelease

AGENTS = 36


@pytest.fixture(scope="module")
def sample():
    made = sensors(AGENTS)
    sent = releases(made)
    return made, sent, contributions(made, sent), network.fuse(made, sent)


@pytest.mark.parametrize("name", links_of_every_kind())
def test_every_agent_reaches_the_efficient_estimate(sample, name):
    """1e-9 standard errors, and 1e-9 of the largest parameter; the certificate holds."""
    _, _, parts, central = sample
    found = network.consensus(parts, links_of_every_kind()[name], tolerance=1e-9)
    apart = distance(found.estimates, central)
    assert found.certified_error <= 1e-9
    # The two central routes (QR of rows, Cholesky of the mean) differ by rounding of their own:
    # cond(PI)·n·eps·|θ| in standard errors is below 1e-11 here.
    assert (apart <= found.certified_errors + 1e-11).all()
    assert np.abs(found.estimates - central.value).max() <= 1e-9 * np.abs(central.value).max()
    for member in (0, AGENTS // 2):
        assert np.allclose(found.result(member).covariance, central.covariance, rtol=1e-8, atol=0)


def test_methods_agree_and_chebyshev_is_the_default(sample):
    _, _, parts, _ = sample
    plain = network.consensus(parts, network.Graph.grid(6, 6), method="plain", tolerance=1e-9)
    fast = network.consensus(parts, network.Graph.grid(6, 6), tolerance=1e-9)
    assert fast.method == "chebyshev"
    assert fast.rounds < plain.rounds / 2
    assert np.abs(fast.estimates - plain.estimates).max() < 1e-9


@pytest.mark.parametrize("method", ["plain", "chebyshev"])
@pytest.mark.parametrize("name", ["ring", "grid", "random geometric", "star"])
def test_the_certificate_is_met_when_its_bound_predicts(sample, method, name):
    """An upper bound, up to the 5 % between two looks at the certificate."""
    _, _, parts, _ = sample
    for tolerance in (1e-4, 1e-9):
        found = network.consensus(
            parts, links_of_every_kind()[name], method=method, tolerance=tolerance
        )
        assert found.rounds <= 1.06 * found.predicted_rounds + 1
        assert found.predicted_rounds <= 2 * found.rounds  # and it is no idle bound


def relative_errors(graph, method, rounds, seed=5):
    """‖x_k − x̄‖/‖x_0 − x̄‖ for k = 0, 1, …"""
    start = np.random.default_rng(seed).standard_normal((graph.agents, 1))
    mean, links = start.mean(), as_links(graph)
    first = np.linalg.norm(start - mean)
    run = states(start, links, method, known_spectrum(links, method))
    return np.array([np.linalg.norm(x - mean) / first for x in itertools.islice(run, rounds + 1)])


def test_ring_of_100_chebyshev_against_its_bound_and_against_plain():
    ring = network.Graph.ring(100)
    spectrum = spectrum_of(as_links(ring).table)
    values = np.linalg.eigvalsh(metropolis(ring))
    predicted = spectrum.rounds("chebyshev", 1e-9)
    fast = relative_errors(ring, "chebyshev", 2 * predicted)
    needed = int((fast <= 1e-9).argmax())
    assert 0 < needed <= 1.2 * predicted
    over = 1 + 2 * (1 - values[-2]) / (values[-2] - values[0])
    limit = 1 / np.cosh(np.arange(len(fast)) * np.arccosh(over))  # 1/T_k(1/q)
    assert (fast <= limit * (1 + 1e-9) + 1e-13).all()
    assert limit[predicted] <= 1e-9 * (1 + 1e-6) < limit[predicted - 1] * (1 + 1e-5)
    slow = relative_errors(ring, "plain", 5 * needed)
    assert slow[-1] > 1e-9  # five times the rounds are not enough
    rate = max(values[-2], -values[0])
    assert (slow <= rate ** np.arange(len(slow)) * (1 + 1e-9)).all()


def test_rounds_of_plain_averaging_follow_the_gap_and_chebyshevs_its_root():
    spectra = [spectrum_of(as_links(network.Graph.ring(k)).table) for k in (20, 40, 80)]
    plain = np.array([s.rounds("plain", 1e-9) for s in spectra])
    fast = np.array([s.rounds("chebyshev", 1e-9) for s in spectra])
    # gap ~ N⁻² on a ring: rounds × 4 and × 2 when N doubles (to the next order, 1/N²)
    assert plain[1:] / plain[:-1] == pytest.approx(4.0, rel=0.03)
    assert fast[1:] / fast[:-1] == pytest.approx(2.0, rel=0.03)


def test_no_estimate_from_an_agent_whose_information_is_not_positive_definite():
    """Trap: Chebyshev weights are negative in early rounds; r_i,k is then indefinite."""
    made = sensors(36, seed=9)
    graph = network.Graph.grid(6, 6)
    parts = contributions(made, releases(made))
    indefinite = 0
    found = network.consensus(parts, graph, tolerance=1e-9, trace=True)
    for view, estimates in zip(itertools.islice(rounds(parts, graph), 30), found.trace):
        least = np.linalg.eigvalsh(view.r)[:, 0]
        indefinite += int((least < -1e-8).sum())
        shown = ~np.isnan(estimates).any(axis=1)
        assert not shown[least <= 0].any()
        assert shown[least > 1e-6].all()
    assert indefinite > 0  # the trap was met
    trace = network.consensus(parts, graph, trace=True)
    assert trace.trace.shape == (trace.rounds + 1, 36, 3)
    assert np.isnan(trace.trace[0]).any()
    assert np.array_equal(trace.trace[-1], trace.estimates)


def parts_of_ones(count):
    return network.Contribution(np.ones((count, 1)), np.ones((count, 1, 1)))


# --- privacy -----------------------------------------------------------------------------------


def all_messages(made, graph, rounds):
    """Z = A Y + B e: every x_i,k of every round as a linear map of all readings and all noise."""
    reads = np.cumsum([0] + [s.measurements for s in made])
    outs = np.cumsum([0] + [s.outputs for s in made])
    n = made[0].parameters
    A = np.zeros((len(made) * n, reads[-1]))
    B = np.zeros((len(made) * n, outs[-1]))
    for i, sensor in enumerate(made):
        rows = slice(i * n, (i + 1) * n)
        unit = SensorRelease(np.eye(sensor.outputs), sensor.level.fingerprint, True)
        if sensor.outputs == 0:
            continue
        map_z = sensor.contribution(unit).x.T  # (n, r): x_i of z̃ = e_1, e_2, …
        L = np.linalg.svd(
            sensor.level.dense(sensor.measurements)
        )  # any factor with L Lᵀ = S will do
        half = sensor.level_matrix.factor_rows(np.eye(sensor.measurements))
        half = half[(half != 0).any(axis=1)]
        assert np.allclose(half.T @ half, L[0] * L[1] @ L[2], atol=1e-12)
        A[rows, reads[i] : reads[i + 1]] = map_z @ half
        B[rows, outs[i] : outs[i + 1]] = map_z
    mixing = np.kron(metropolis(graph), np.eye(n))
    steps = [np.linalg.matrix_power(mixing, k) for k in range(rounds)]
    return np.vstack([p @ A for p in steps]), np.vstack([p @ B for p in steps])


def test_an_eavesdropper_of_all_messages_learns_at_most_the_level():
    """I_Z(y_i) by the messages of six rounds, against the closed form and against S_i."""
    made = sensors(8, seed=4)
    A, B = all_messages(made, network.Graph.ring(8), rounds=6)
    found = linear_information(A, B)
    at = 0
    for sensor in made:
        own = slice(at, at + sensor.measurements)
        at += sensor.measurements
        learnt = found[own, own]
        assert np.allclose(learnt, sensor.exposed, atol=1e-9)
        assert pv.linalg.loewner(learnt, sensor.level.dense(sensor.measurements))
        found[own, own] = 0.0
    assert np.abs(found).max() < 1e-9  # nothing joint: I_Z(Y) ≤ diag{S_1, …, S_N}


def test_later_rounds_tell_nothing_new():
    made = sensors(8, seed=4)
    graph = network.Graph.star(8)
    once = linear_information(*all_messages(made, graph, rounds=1))
    often = linear_information(*all_messages(made, graph, rounds=9))
    assert np.allclose(once, often, atol=1e-9)


def test_few_readings_are_exposed_fully_many_only_through_n_combinations():
    rng = np.random.default_rng(0)
    noise = pv.noise.Gaussian(cov=0.3)
    few = network.Sensor(rng.standard_normal((2, 3)), noise, pv.PrivacyLevel([1.0, 2.0]))
    assert np.allclose(few.exposed, np.diag([1.0, 2.0]), atol=1e-12)
    many = network.Sensor(rng.standard_normal((9, 3)), noise, pv.PrivacyLevel(1.5))
    assert np.linalg.matrix_rank(many.exposed) == 3
    assert pv.linalg.loewner(many.exposed, 1.5 * np.eye(9))


levels = st.lists(st.floats(-2, 2).map(lambda e: 10.0**e), min_size=3, max_size=9)


@settings(deadline=None, max_examples=25)
@given(levels)
def test_private_average_attains_the_joint_bound(values):
    """Exactly: error (1/N)Σd_i, information diag(S_i), by the linear maps of the algorithm."""
    count = len(values)
    W, noise = metropolis(network.Graph.ring(count)), np.diag(1 / np.sqrt(values))
    steps = [np.linalg.matrix_power(W, k) for k in range(5)]
    found = linear_information(np.vstack(steps), np.vstack([p @ noise for p in steps]))
    assert np.allclose(found, np.diag(values), rtol=1e-9, atol=1e-9 * max(values))
    limit = np.full((count, count), 1 / count) @ noise
    attained = (limit**2).sum(axis=1)
    floor = pv.bounds.consensus_bound(pv.PrivacyLevel(values))
    assert attained == pytest.approx(floor, rel=1e-12)


def test_correlated_noise_beats_the_floor_under_per_agent_constraints():
    """Why the joint form: with Σd_i = 0 every message alone shows y_i no better than S_i, the
    average comes out exactly; the joint information is not below diag(S_i)."""
    count = 5
    shared = np.sqrt(count / (count - 1)) * (np.eye(count) - 1 / count)  # cov has unit diagonal
    own = np.array([linear_information([[1.0]], shared[i : i + 1])[0, 0] for i in range(count)])
    assert own == pytest.approx(1.0, rel=1e-12)
    assert np.abs(shared.sum(axis=0)).max() < 1e-14  # the average of the messages is exact,
    assert pv.bounds.consensus_bound(pv.PrivacyLevel(own)) == pytest.approx(1 / count)  # below this
    assert linear_information(np.eye(count), shared) is None  # infinite


# --- the certificate ------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["plain", "chebyshev", "lossy"]))
def test_the_certificate_is_never_wrong(seed, way):
    """Any round, any graph, random contributions: distance ≤ certificate, agent by agent."""
    rng = np.random.default_rng(seed)
    count, n = int(rng.integers(3, 12)), int(rng.integers(1, 4))
    ring = network.Graph.ring(count)
    chords = rng.integers(count, size=(int(rng.integers(0, 6)), 2))
    chords = chords[chords[:, 0] != chords[:, 1]]
    graph = network.Graph(np.concatenate([ring.edges, chords]))
    links = network.TimeVarying([graph], loss=0.4, rng=rng) if way == "lossy" else graph
    rows = rng.standard_normal((count, n + 1, n)) * np.exp(rng.uniform(-1, 1, (count, 1, 1)))
    stack = network.Contribution(rng.standard_normal((count, n)), np.swapaxes(rows, 1, 2) @ rows)
    x, r = stack.x.mean(axis=0), stack.r.mean(axis=0)
    central = Estimate(value=np.linalg.solve(r, x), covariance=np.linalg.inv(count * r))
    method = None if way == "lossy" else way
    known = 0
    for view in itertools.islice(rounds(stack, links, method=method), 0, 120, 7):
        wide_x, wide_r = unpacked(np.ptp(packed(view.x, view.r), axis=0), n)
        theta, errors = certified(view.x[:, None], view.r, wide_x[None], wide_r)
        finite = np.isfinite(errors)
        known += finite.sum()
        apart = distance(theta[finite, 0], central)
        # Rounding of the dense route and of the averages (a few eps of 20 standard errors or so).
        assert (apart <= errors[finite] + 1e-11).all()
    assert known > 0
