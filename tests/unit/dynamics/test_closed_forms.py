"""Profile intervals, flat directions and mixtures where the answers are known in closed form."""

import json
import math

import numpy as np
import pytest
import scipy

import privest as pv
from privest import dynamics

THRESHOLD = float(scipy.special.chdtri(1, 0.05))
N, S = 12, 1e6  # of a normal sample; the privacy noise has a variance of 1e-6


def white(theta):
    """Independent measurements of mean μ and variance v."""
    mu, v = theta
    return dynamics.StateSpace(A=1.0, C=1.0, Q=0.0, R=v, mean0=[mu], cov0=0.0)


def line(theta):
    mu, v, slope = theta
    return dynamics.StateSpace(
        A=1.0, C=1.0, Q=0.0, R=v, mean0=[mu], cov0=0.0, B=0.0, D=slope
    )  # fmt: skip


NORMAL = dynamics.CustomFamily(white, {"mu": 0.0, "v": 1.0}, {"v": "positive"})
LINE = dynamics.CustomFamily(line, {"mu": 0.0, "v": 1.0, "slope": 0.0}, {"v": "positive"})


@pytest.fixture(scope="module")
def sample():
    """The fit, the mean of what was released, and its variance."""
    rng = np.random.default_rng(3)
    release = pv.StreamMechanism(S).simulate(0.7 + math.sqrt(2.0) * rng.standard_normal(N), rng)
    y = release.values / math.sqrt(S)
    return dynamics.fit(NORMAL, release), y.mean(), y.var()


def test_profile_ends_of_mean_and_variance(sample):
    """2(ℓ̂ − ℓ_p) = n log(1 + (ȳ − μ)²/σ̂²), and n(log σ²/σ̂² + σ̂²/σ² − 1)."""
    found, mean, variance = sample
    assert found.value == pytest.approx([mean, variance - 1 / S], rel=1e-6)
    half = math.sqrt(variance * math.expm1(THRESHOLD / N))

    def off(v):
        return N * (math.log(v / variance) + variance / v - 1) - THRESHOLD

    ends = [scipy.optimize.brentq(off, *pair) for pair in ((0.01, variance), (variance, 100))]
    told = found.interval()
    assert told[0] == pytest.approx([mean - half, mean + half], abs=1e-5)
    assert told[1] == pytest.approx(np.array(ends) - 1 / S, rel=1e-5)
    assert not found.open_ends().any()


def test_wald_is_the_curvature_in_working_scale(sample):
    found, _, variance = sample
    told, spread = found.interval(method="wald"), math.sqrt(2 / N)  # of log σ²
    half = scipy.special.ndtri(0.975) * spread
    assert told[1] == pytest.approx(variance * np.exp([-half, half]), rel=1e-5)


def test_a_variance_that_may_be_zero_has_an_open_end():
    """z ~ N(0, 1 + sv) with Σz² < n: v̂ = 0, and only the upper end is met."""
    z = np.linspace(-1, 1, 30)
    level = pv.StreamLevel.constant(1.0)
    family = dynamics.CustomFamily(
        lambda theta: white([0.0, theta[0]]), {"v": 1.0}, {"v": "positive"}
    )
    release = pv.Release(0, 30, z, None, level.fingerprint, True)
    told = dynamics.fit(family, release, level=level)

    def twice(v):
        return 30 * math.log1p(v) + z @ z / (1 + v)

    high = scipy.optimize.brentq(lambda v: twice(v) - twice(0.0) - THRESHOLD, 1e-3, 10)
    assert told.open_ends().tolist() == [[True, False]]
    assert told.interval()[0] == pytest.approx([0.0, high], abs=1e-5)


def test_forecasts_are_the_posterior_predictive(sample):
    """Flat in μ and σ: Student's t with n − 2 degrees of freedom."""
    found, mean, variance = sample
    scale = math.sqrt(N * variance / (N - 2) * (1 + 1 / N))
    ends = mean + scale * scipy.special.stdtrit(N - 2, [0.025, 0.975])
    forecast = found.forecast(1)
    # 400 draws at a lattice: a chance is known to some 1/400, over the density there, .03.
    assert forecast.interval()[0, 0] == pytest.approx(ends, abs=1 / 400 / 0.03)
    assert forecast.value[0, 0] == pytest.approx(mean, abs=1e-2 * scale)
    # The variance of t, ν/(ν − 2).
    assert forecast.standard_error[0, 0] == pytest.approx(scale * math.sqrt(10 / 8), rel=1e-2)
    assert json.dumps(forecast.to_dict())
    assert np.array_equal(forecast.interval(), found.forecast(1).interval())  # nothing is random


@pytest.mark.slow
def test_draws_give_the_posterior_predictive_too():
    """A coefficient more: Student's t with n − 3 degrees of freedom."""
    rng, u = np.random.default_rng(4), np.linspace(-1, 1, N)
    release = pv.StreamMechanism(S).simulate(0.7 + 2 * u + rng.standard_normal(N), rng)
    y = release.values / math.sqrt(S)
    X = np.column_stack([np.ones(N), u])
    beta, (rest,), _, _ = np.linalg.lstsq(X, y)
    forecast = dynamics.fit(LINE, release, inputs=u).forecast(1, inputs=[[0.5]])
    x = np.array([1.0, 0.5])
    scale = math.sqrt(rest / (N - 3) * (1 + x @ np.linalg.solve(X.T @ X, x)))
    ends = x @ beta + scale * scipy.special.stdtrit(N - 3, [0.025, 0.975])
    # A lattice does better than one standard error of 300 independent draws.
    error = scale * math.sqrt(0.025 * 0.975 / 300) / 0.03
    assert forecast.interval()[0, 0] == pytest.approx(ends, abs=error)


def test_directions_that_releases_do_not_show_are_named():
    """Two variances of one sum."""
    family = dynamics.CustomFamily(
        lambda theta: white([0.0, theta.sum()]), {"a": 1.0, "b": 1.0},
        {"a": "positive", "b": "positive"},
    )  # fmt: skip
    rng = np.random.default_rng(1)
    found = dynamics.fit(family, pv.StreamMechanism(1.0).simulate(2 * rng.standard_normal(50), rng))
    assert list(found.flat.values()) == [np.inf]
    # The sum is determined, and with it the forecast: 2 v̂/n of v̂ widens it by a few per cent.
    plain = found.forecast(1, method="plug-in").standard_error[0, 0]
    assert 1.0 < found.forecast(1).standard_error[0, 0] / plain < 1.1


def test_an_unknown_start_is_integrated_exactly():
    """y_k = μ + N(0, 1) with μ = x_0: the forecast has variance 1 + (1 + 1/s)/K."""
    family = dynamics.CustomFamily(
        lambda theta: dynamics.StateSpace(1.0, 1.0, 0.0, 1.0, mean0=theta, cov0=0.0), {"mu": 1.0}
    )
    rng = np.random.default_rng(5)
    release = pv.StreamMechanism(0.5).simulate(3.0 + rng.standard_normal(40), rng)
    ahead = dynamics.fit(family, release).forecast(1)
    assert ahead.standard_error[0, 0] == pytest.approx(math.sqrt(1 + 3.0 / 40), rel=1e-9)


@pytest.mark.slow
def test_many_parameters_have_a_forecast():
    rng = np.random.default_rng(2)
    level = pv.StreamLevel.constant(1e-2)
    release = pv.StreamMechanism(level).simulate(rng.standard_normal(40).cumsum(), rng)
    ahead = dynamics.fit("ar6-mean", release).forecast(2)
    assert np.isfinite(ahead.interval()).all()
