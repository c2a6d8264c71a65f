"""`fit` against statsmodels: SARIMAX and UnobservedComponents, without privacy and at a level.

A release at level s is y + noise of variance 1/s, in units of that noise: SARIMAX with its
measurement variance fixed at 1/s sees the same, and ℓ(z̃) = ℓ(z̃/√s) − (K/2) log s. statsmodels is
started at our estimates and told to go on until nothing moves: had we missed the maximum it would.
"""

import warnings

import numpy as np
import pytest
import statsmodels.api as sm

import privest as pv
from privest.dynamics import AR, ARMA, LocalLevel, LocalTrend, Seasonal, fit

K = 200
NO_PRIVACY = 1e8  # release noise of 1e-8 of the variances below
TIGHT = {"method": "lbfgs", "pgtol": 1e-10, "factr": 10, "maxiter": 500, "disp": 0}


def arma(phi, theta, mean, rng):
    noise, x = rng.standard_normal(K + 200), np.zeros(K + 200)
    for k in range(2, K + 200):
        past = sum(a * x[k - 1 - i] for i, a in enumerate(phi))
        x[k] = past + noise[k] + sum(b * noise[k - 1 - i] for i, b in enumerate(theta))
    return mean + x[200:]


def released(measurements, s, rng):
    level = pv.StreamLevel.constant(s)
    release = pv.StreamMechanism(level).simulate(measurements, rng)
    return level, release, np.asarray(release.values).ravel() / np.sqrt(s)


def agree(ours, peer, at, fixed, s):
    """Our ℓ is theirs at our parameters; their search from there finds nothing better."""
    shift = 0.5 * K * np.log(s)
    named = np.array([at[name] for name in peer.param_names])
    assert ours.converged
    assert peer.loglike(named) - shift == pytest.approx(ours.log_likelihood, abs=1e-6)
    free = [at[name] for name in peer.param_names if name not in fixed]
    with warnings.catch_warnings(), peer.fix_params(fixed):
        warnings.simplefilter("ignore")  # it says that it cannot improve
        found = peer.fit(start_params=free, **TIGHT)
    assert found.llf - shift == pytest.approx(ours.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(found.params, named, atol=1e-6, rtol=1e-6)
    # Criteria count the same parameters, diffuse states included; constants of the units differ.
    assert found.aic + 2 * shift == pytest.approx(ours.aic, abs=1e-5)
    assert found.bic + 2 * shift == pytest.approx(ours.bic, abs=1e-5)


@pytest.mark.parametrize("s", [NO_PRIVACY, 0.3])
@pytest.mark.parametrize(
    ("family", "phi", "theta"),
    [(AR(1), [0.8], []), (AR(2), [1.2, -0.5], []), (ARMA(1, 1), [0.8], [0.4])],
    ids=["AR(1)", "AR(2)", "ARMA(1,1)"],
)
def test_autoregressions_with_a_mean(family, phi, theta, s):
    rng = np.random.default_rng(11)  # a series whose likeliest θ is not 1, where no search rests
    level, release, z = released(arma(phi, theta, 3.0, rng), s, rng)
    ours = fit(family, release, level=level)
    found = dict(zip(ours.names, ours.value))
    at = {f"ar.L{i + 1}": found[f"phi{i + 1}"] for i in range(len(phi))}
    at |= {f"ma.L{i + 1}": found[f"theta{i + 1}"] for i in range(len(theta))}
    at |= {"intercept": found["mean"] * (1 - sum(found[f"phi{i + 1}"] for i in range(len(phi))))}
    fixed = {"var.measurement_error": 1 / s}
    order = (len(phi), 0, len(theta))
    peer = sm.tsa.SARIMAX(z, order=order, trend="c", measurement_error=True)
    agree(ours, peer, at | {"sigma2": found["q"]} | fixed, fixed, s)


NAMES = {"q_level": "sigma2.level", "q_slope": "sigma2.trend", "q_season": "sigma2.seasonal"}


def moving(slope, season, rng):
    noise = rng.standard_normal((4, K))
    drift = np.cumsum(0.1 * noise[1]) if slope else 0.0
    season_now = np.zeros(K + 3)
    if season:
        for k in range(3, K + 3):
            season_now[k] = -season_now[k - 3 : k].sum() + 0.5 * noise[3, k - 3]
    return np.cumsum(0.7 * noise[0] + drift) + 0.8 * noise[2] + season_now[3:]


@pytest.mark.parametrize(("s", "noise"), [(NO_PRIVACY, True), (2.0, True), (2.0, False)])
@pytest.mark.parametrize(
    ("family", "asked"),
    [
        (LocalLevel, {"level": "llevel"}),
        (LocalTrend, {"level": "lltrend"}),
        (lambda noise: Seasonal(4, noise=noise), {"level": "llevel", "seasonal": 4}),
    ],
    ids=["level", "trend", "season"],
)
def test_components_that_start_diffuse(family, asked, s, noise):
    rng = np.random.default_rng(5)
    measurements = moving(asked["level"] == "lltrend", "seasonal" in asked, rng)
    level, release, z = released(measurements, s, rng)
    ours = fit(family(noise=noise), release, level=level)
    found = dict(zip(ours.names, ours.value))
    # Only r + 1/s is seen: without noise of the readings it is known.
    at = {NAMES[name]: value for name, value in found.items() if name != "r"}
    at["sigma2.irregular"] = found.get("r", 0.0) + 1 / s
    fixed = {} if noise else {"sigma2.irregular": 1 / s}
    peer = sm.tsa.UnobservedComponents(z, use_exact_diffuse=True, **asked)
    agree(ours, peer, at, fixed, s)
