"""What a fit says of its series: filtered, smoothed, diagnosed, under the model at θ̂."""

import numpy as np
import pytest

import privest as pv
from privest import dynamics
from privest.dynamics import AR, RegressionAR, fit

LEVEL = pv.StreamLevel.constant(2.0)


def released(family, theta, steps, seed, inputs=None):
    """A trial of the family; a gap in it."""
    rng = np.random.default_rng(seed)
    system = family.system(theta)
    ones = None if not system.inputs else np.ones((steps, 1)) if inputs is None else inputs
    _, y = system.sample(steps, rng, inputs=ones)
    y[20:30] = np.nan
    return y, pv.StreamMechanism(LEVEL).simulate(y, rng)


def test_the_series_is_that_of_the_filter_at_the_estimate():
    """C x + D u with the mean as an input; against the system without a mean on z̃ less it."""
    y, release = released(AR(1, noise=True), [0.8, 0.36, 0.2, 3.0], 300, 0)
    found = fit(AR(1, noise=True), release)
    phi, q, r, mean = found.value
    plain = dynamics.StateSpace(A=phi, C=1.0, Q=q, R=r, cov0=q / (1 - phi**2))
    less = pv.Release(
        0, 300, release.values - np.sqrt(2.0) * mean, release.missing, release.fingerprint, True
    )
    own = dynamics.filter(plain, less, level=LEVEL)
    assert found.states.log_likelihood == pytest.approx(found.log_likelihood, rel=1e-12)
    assert found.states.innovations == pytest.approx(own.innovations, abs=1e-9, nan_ok=True)
    series, smoothed = found.signal(), own.smoothed
    assert series.value == pytest.approx(smoothed.value + mean, abs=1e-9)
    assert series.standard_error == pytest.approx(smoothed.standard_error, rel=1e-9)
    inside = np.abs(series.value - y)[~np.isnan(y[:, 0])]
    assert inside.mean() < 1.0  # nearer than the releases, whose deviation is 1/√2 and r


def test_a_fit_is_diagnosed_with_its_degrees_of_freedom():
    _, release = released(AR(2), [1.2, -0.5, 1.0, 0.0], 400, 1)
    right = fit(AR(2), release).diagnose(lags=12, confidence=0.999)
    assert right.alarms == ()
    assert right.parameters == 2  # the φ, neither q nor the mean
    assert right.tests[0].freedom == 10
    assert "fitted to the same releases" in right.verdict
    wrong = fit(AR(1), release).diagnose(lags=12)
    assert [alarm.name for alarm in wrong.alarms] == ["whiteness"]


def test_inputs_are_in_the_series():
    rng = np.random.default_rng(2)
    u = rng.standard_normal((200, 1))
    family = RegressionAR(1, 1)
    _, release = released(family, [0.5, 0.2, 4.0], 200, 2, u)
    found = fit(family, release, inputs=u)
    left = found.signal().value[:, 0] - found.value[-1] * u[:, 0]
    assert np.corrcoef(left, u[:, 0])[0, 1] ** 2 < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("level", [100.0, 1.0])
def test_whiteness_of_fits_has_its_mean(level):
    """E of the statistic is L − 1 for an AR(1): q is scale (1.4 at lower levels, not 2)."""
    rng, family = np.random.default_rng(3), AR(1, mean=False)
    system, stream = family.system([0.8, 0.36]), pv.StreamLevel.constant(level)
    seen = []
    for _ in range(200):
        release = pv.StreamMechanism(stream).simulate(system.sample(400, rng)[1], rng)
        seen.append(fit(family, release).diagnose(lags=10).tests[0].statistic)
    error = np.std(seen) / np.sqrt(len(seen))
    assert np.mean(seen) == pytest.approx(9.0, abs=4 * error)


def test_a_series_of_which_the_start_is_unknown():
    """A random walk: against a start of a very large variance, which is nearly that."""
    rng = np.random.default_rng(4)
    family = dynamics.LocalLevel(noise=False)
    y = 1000 + rng.standard_normal(150).cumsum()
    release = pv.StreamMechanism(LEVEL).simulate(y, rng)
    found = fit(family, release)
    vague = family.system(found.value, cov0=1e10)
    own = dynamics.filter(vague, release, level=LEVEL).smoothed
    # what a variance of 1e10 still adds: (z − 0)²/1e10 of a standard error
    assert found.signal().value == pytest.approx(own.value, abs=1e-5)
    assert found.signal().standard_error == pytest.approx(own.standard_error, rel=1e-5)
    told = found.diagnose(confidence=0.999)
    assert told.count.tolist() == [149]  # one innovation is spent on the start
    assert told.alarms == ()
