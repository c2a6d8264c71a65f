"""The posterior mixture where it is known in closed form, and forecasts of known systems."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy

import privest as pv
from privest import dynamics
from privest.dynamics._forecast import (
    DRAWS,
    ENOUGH,
    FEWEST,
    ROUNDS,
    Coordinates,
    Predictive,
    _tempered,
    mixture,
    posterior,
    predictive,
    privacy_variance,
)
from privest.dynamics._identification._data import data_of
from privest.dynamics._identification._likelihood import last_state
from privest.dynamics._identification._matrices import Matrices
from privest.dynamics._maximum import Maximum
from privest.errors import InvalidInput, NotIdentifiable

N, MEAN, VARIANCE = 12, 0.7, 2.0  # a normal sample: size, and its sufficient statistics
FREE = [-np.inf, np.inf]


def working(theta):
    if not theta[1] > 0:
        raise InvalidInput("a variance")
    return np.concatenate([[theta[0], math.log(theta[1])], theta[2:]])


CHART = SimpleNamespace(
    names=("μ", "σ²", "other"), labels=("μ", "log σ²", "other"), working=working,
    natural=lambda t: np.concatenate([[t[0], np.exp(t[1])], t[2:]]),
    natural_slopes=lambda t: np.diag([1.0, np.exp(t[1]), *np.ones(len(t) - 2)]),
)  # fmt: skip


def sample(t):
    """ℓ in (μ, log σ²), and where there is a third coordinate a standard normal one."""
    off = N * (VARIANCE + (MEAN - t[0]) ** 2) * math.exp(-t[1])
    slope = [N * (MEAN - t[0]) * math.exp(-t[1]), off / 2 - N / 2, *-np.asarray(t[2:])]
    return -N / 2 * t[1] - off / 2 - float(np.square(t[2:]).sum()) / 2, np.array(slope)


def next_one(t):
    """The next number of the sample, as a forecast of one step."""
    mean, variance = np.array([[[t[0]]]]), np.array([[[math.exp(t[1])]]])
    return sample(t)[0], Predictive(mean, variance, mean, variance)


def peak_of(p):
    top = np.array([MEAN, math.log(VARIANCE), 0.0])[:p]
    curvature = np.diag([N / VARIANCE, N / 2, 1.0])[:p, :p]
    limits = np.array([FREE, [-30.0, 30.0], FREE])[:p]
    chart = SimpleNamespace(**{**vars(CHART), "names": CHART.names[:p], "labels": CHART.labels[:p]})
    free = np.zeros(p, dtype=bool)
    return Likelihood(sample, chart), Maximum(top, sample(top)[0], curvature, limits, free, True)


class Likelihood:
    """A function with the family of its parameters."""

    def __init__(self, function, family):
        self.function, self.family = function, family

    def __call__(self, t):
        return self.function(t)


def student():
    """Flat in μ and σ: Student's t with n − 2 degrees of freedom."""
    scale = math.sqrt(N * VARIANCE / (N - 2) * (1 + 1 / N))
    return lambda p: MEAN + scale * scipy.special.stdtrit(N - 2, p), scale


def test_a_grid_gives_the_posterior_predictive():
    likelihood, peak = peak_of(2)
    found = posterior(likelihood, next_one, peak, np.ones(len(peak.t), dtype=bool))
    forecast = mixture(found, np.zeros(1), one=True, method="mixture")
    quantile, scale = student()
    # The edges of the grid leave out a chance of 1e-5, which moves quantiles near 2.5 % by some
    # 1e-5 over the density there, .03.
    known = [quantile(0.025), quantile(0.975)]
    assert forecast.interval()[0, 0] == pytest.approx(known, abs=2e-3)
    assert forecast.quantile(0.5)[0, 0] == pytest.approx(MEAN, abs=1e-6)
    assert forecast.estimate[0, 0] == pytest.approx(MEAN, abs=1e-6)
    # The variance of t, ν/(ν − 2); its tails are cut at the edges.
    assert forecast.standard_error[0, 0] == pytest.approx(scale * math.sqrt(10 / 8), rel=3e-3)
    assert forecast.to_dict()["method"] == "mixture"
    assert found.effective == found.points


def test_draws_give_it_too_and_say_how_many_count():
    likelihood, peak = peak_of(3)
    found = posterior(likelihood, next_one, peak, np.ones(len(peak.t), dtype=bool))
    assert ENOUGH <= found.effective < found.points
    forecast = mixture(found, np.zeros(1), one=True, method="mixture")
    quantile, _ = student()
    # A lattice does better than one standard error of 300 independent draws, √(.025·.975/300)/.03.
    error = math.sqrt(0.025 * 0.975 / 300) / 0.03
    known = [quantile(0.025), quantile(0.975)]
    assert forecast.interval()[0, 0] == pytest.approx(known, abs=error)


def test_few_draws_that_count_are_made_more_even_and_told():
    """A ridge a thousand times narrower than the profiles of ℓ say."""

    def narrow(t):
        return -1e9 * (t[0] - MEAN - 0.1 * t[2]) ** 2 + sample(t)[0], next_one(t)[1]

    likelihood, peak = peak_of(3)
    rough = posterior(likelihood, narrow, peak, np.ones(3, dtype=bool))
    assert rough.effective < FEWEST
    assert "made more even" in rough.notes[0]
    assert 1 / float(rough.weights @ rough.weights) == pytest.approx(FEWEST, rel=1e-2)


def test_draws_without_a_likelihood_leave_the_estimate():
    likelihood, peak = peak_of(3)
    visits = []

    def none(t):
        visits.append(t)
        return -math.inf, next_one(t)[1]

    found = posterior(likelihood, none, peak, np.ones(3, dtype=bool))
    assert len(visits) == DRAWS + 1
    assert "taken for true" in found.notes[0]
    forecast = mixture(found, np.zeros(1), one=True, method="mixture")
    assert forecast.estimate[0, 0] == pytest.approx(MEAN)
    assert forecast.standard_error[0, 0] == pytest.approx(math.sqrt(VARIANCE))


def test_weights_are_made_no_more_even_than_needed():
    logs = -np.arange(200.0) * 50
    weights = scipy.special.softmax(_tempered(logs))
    assert 1 / float(weights @ weights) == pytest.approx(FEWEST, rel=1e-2)
    assert np.array_equal(_tempered(np.zeros(100)), np.zeros(100))


def test_many_parameters_have_a_forecast():
    rng = np.random.default_rng(2)
    level = pv.EndlessLevel(1e-2)
    release = pv.StreamMechanism(level).simulate(rng.standard_normal(40).cumsum(), rng)
    ahead = dynamics.fit("ar6-mean", level, release).forecast(2)
    assert np.isfinite(ahead.interval()).all()
    assert ahead.points <= ROUNDS * DRAWS


def test_nothing_is_random():
    likelihood, peak = peak_of(3)
    first, second = (
        posterior(likelihood, next_one, peak, np.ones(len(peak.t), dtype=bool)).weights
        for _ in range(2)
    )
    assert np.array_equal(first, second)


def test_a_variance_at_zero_is_regular_in_its_root():
    # No event: ℓ = −λT. Flat in √λ: √λ is half-normal, so that λ ~ χ²_1/2T.
    scale = SimpleNamespace(
        names=("λ",), labels=("log λ",), natural=np.exp, working=np.log,
        natural_slopes=lambda t: np.exp(t)[:, None],
    )  # fmt: skip

    def none_seen(t):
        return -math.exp(t[0]), np.array([-math.exp(t[0])])

    peak = Maximum(
        np.array([-25.0]), none_seen([-25.0])[0], np.array([[1e-11]]), np.array([[-25.0, 9]]),
        np.ones(1, dtype=bool), True,
    )  # fmt: skip

    def visit(t):
        return none_seen(t)[0], math.exp(t[0])

    found = posterior(Likelihood(none_seen, scale), visit, peak, np.array([True]))
    mean = float(found.weights @ np.array(found.found))
    assert mean == pytest.approx(0.5, rel=1e-3)  # E χ²_1/2


def test_what_is_not_determined_has_no_forecast():
    def flat(t):
        return sample(t[:2])[0], np.append(sample(t[:2])[1], 0.0)

    likelihood, peak = peak_of(3)
    level = peak._replace(curvature=np.diag([N / VARIANCE, N / 2, 0.0]))
    with pytest.raises(NotIdentifiable, match="other is not determined"):
        posterior(Likelihood(flat, likelihood.family), next_one, level, np.ones(3, dtype=bool))


def test_coordinates_know_variances_by_their_labels():
    likelihood, peak = peak_of(3)
    own = Coordinates(likelihood.family, peak, np.ones(3, dtype=bool))
    assert own.variance.tolist() == [False, True, False]
    assert own.of(peak.t) == pytest.approx([MEAN, math.sqrt(VARIANCE), 0.0])
    assert own.working(own.of(peak.t)) == pytest.approx(peak.t)
    points = own.folded(np.array([[0.0, -0.1, -0.2]]))
    assert points.tolist() == [[0.0, 0.1, -0.2]]
    law = scipy.stats.multivariate_t(np.zeros(3), np.eye(3), df=5)
    both = law.pdf([0.0, 0.1, -0.2]) + law.pdf([0.0, -0.1, -0.2])
    assert own.log_law(points, np.zeros(3), np.eye(3)) == pytest.approx(math.log(both))


# --- the state after the last release, and the steps that follow ---

RNG = np.random.default_rng(3)
SYSTEM = dynamics.StateSpace(
    A=[[0.9, 0.2], [0.0, 0.7]], C=[[1.0, 0.4]], Q=[[0.3, 0.1], [0.1, 0.2]], R=0.5, cov0=2.0,
    B=[[0.3], [1.0]], D=[[0.7]],
)  # fmt: skip


def released(steps=40):
    inputs = RNG.standard_normal((steps, 1))
    y = SYSTEM.simulate(steps, RNG, inputs=inputs)[1]
    y[5:9] = np.nan
    level = pv.EndlessLevel(0.8)
    return level, pv.StreamMechanism(level).simulate(y, RNG), inputs


def test_the_last_state_is_the_filters():
    level, release, inputs = released()
    (data,) = data_of(level, release, inputs, 1)
    value, mean, covariance = last_state(Matrices.of(SYSTEM), data)
    peer = dynamics.filter_releases(SYSTEM, level, release, inputs=inputs)
    assert value == pytest.approx(float(peer.log_likelihood), rel=1e-12)
    np.testing.assert_allclose(mean[:, 0], peer.estimate[-1], rtol=1e-10)
    np.testing.assert_allclose(covariance, peer.covariance[-1], rtol=1e-10)


def test_a_diffuse_start_is_the_limit_of_vague_ones():
    level, release, inputs = released()
    (data,) = data_of(level, release, inputs, 1)
    own = Matrices.of(SYSTEM)._replace(cov0=np.zeros((2, 2)), diffuse=np.eye(2))
    _, mean, covariance = last_state(own, data)
    vague = dynamics.StateSpace(
        SYSTEM.A, SYSTEM.C, SYSTEM.Q, SYSTEM.R, cov0=1e9, B=SYSTEM.B, D=SYSTEM.D
    )
    peer = dynamics.filter_releases(vague, level, release, inputs=inputs)
    # Of the order of 1e-9, and rounding of 1e9·eps.
    np.testing.assert_allclose(mean[:, 0], peer.estimate[-1], rtol=1e-6)
    np.testing.assert_allclose(covariance, peer.covariance[-1], rtol=1e-6)


def test_the_next_steps_are_predictions():
    level, release, inputs = released()
    (data,) = data_of(level, release, inputs, 1)
    later = RNG.standard_normal((3, 1))
    _, ahead = predictive(Matrices.of(SYSTEM), data, np.concatenate([inputs[-1:], later]))
    found = dynamics.filter_releases(SYSTEM, level, release, inputs=inputs)
    peer = dynamics.predict(found, 3, inputs=later)
    np.testing.assert_allclose(ahead.states[:, :, 0], peer.estimate, rtol=1e-10)
    np.testing.assert_allclose(ahead.state_covariance, peer.covariance, rtol=1e-10)
    C, D = SYSTEM.C, SYSTEM.D
    np.testing.assert_allclose(ahead.values[:, :, 0], peer.estimate @ C.T + later @ D.T)
    spread = C @ peer.covariance @ C.T + 0.5
    np.testing.assert_allclose(ahead.covariance, spread, rtol=1e-10)


def test_the_noise_of_a_release_in_units_of_readings():
    level, release, inputs = released()
    (data,) = data_of(level, release, inputs, 1)
    assert privacy_variance(data) == pytest.approx([1 / 0.8 / data.unit**2])
