"""Where fits begin and how far they climb: moments, several peaks, units, the fewest steps."""

import numpy as np
import pytest

import privest as pv
from privest import dynamics

# A family, parameters, a level, cov0 where it starts diffuse.
CASES = [
    (dynamics.AR(1), [0.8, 0.36, 7.0], 1.0, None),
    (dynamics.AR(2, noise=True), [1.5, -0.75, 0.2, 0.5, -3.0], 2.0, None),
    (dynamics.ARMA(2, 1), [1.5, -0.75, 0.5, 0.2, 7.0], 5.0, None),
    (dynamics.ARMA(1, 2), [0.8, 0.4, 0.3, 0.2, 7.0], 20.0, None),
    (dynamics.ARMA(0, 2), [0.4, 0.3, 1.0, 7.0], 5.0, None),
    (dynamics.RegressionAR(1, 2), [0.8, 0.36, 5.0, -2.0], 1.0, None),
    (dynamics.ARX(2, 2), [1.2, -0.5, 0.5, 2.0, -1.0], 0.5, 1.0),
    (dynamics.ARX(1, 2, lags=2), [0.8, 0.5, 2.0, 1.0, -1.0, 0.5], 0.5, 1.0),
    (dynamics.LocalLevel(), [0.1, 1.0], 1.0, 1.0),
    (dynamics.LocalLevel(noise=False), [0.01], 0.2, 1.0),
    (dynamics.LocalTrend(), [0.1, 0.001, 1.0], 1.0, 1.0),
    (dynamics.Seasonal(4), [0.1, 0.05, 1.0], 1.0, 1.0),
    (dynamics.Seasonal(12, trend="trend"), [0.1, 0.001, 0.05, 1.0], 5.0, 1.0),
]


def simulated(family, theta, cov0, steps, seed, trials=None):
    """Inputs for the fit, inputs of the system (with ones for a mean), measurements."""
    rng = np.random.default_rng(seed)
    columns = family.inputs - family.constant
    u = rng.normal(size=(steps, columns)) if columns else None
    driven = u
    if family.constant:
        driven = np.column_stack([*([] if u is None else [u]), np.ones(steps)])
    system = family.system(theta) if cov0 is None else family.system(theta, cov0=cov0)
    return u, driven, system.sample(steps, rng, inputs=driven, trials=trials)[1]


def shown(y, level, seed):
    return pv.StreamMechanism(level).simulate(y, np.random.default_rng(seed + 1))


def height(family, theta, release, driven):
    return float(dynamics.filter(family.system(theta), release, inputs=driven).log_likelihood)


@pytest.mark.parametrize(("family", "theta", "level", "cov0"), CASES, ids=repr)
def test_fits_are_above_the_truth_and_near_it(family, theta, level, cov0):
    """2(ℓ̂ − ℓ) is χ²_p of p parameters, up to what is at a limit: below its 1e-6 quantile."""
    u, driven, y = simulated(family, theta, cov0, 800, seed=3)
    release = shown(y, level, 3)
    found = dynamics.fit(family, release, inputs=u)
    above = 2 * (found.log_likelihood - height(family, theta, release, driven))
    assert 0 <= above < 24 + 2.5 * family.size
    assert found.converged


@pytest.mark.parametrize("case", [0, 8, 11], ids=["ar", "level", "seasonal"])
def test_changing_levels_gaps_and_lags_have_starts(case):
    family, theta, _, cov0 = CASES[case]
    rng = np.random.default_rng(9)
    _, driven, y = simulated(family, theta, cov0, 400, seed=4)
    lost = np.where(rng.random(400)[:, None] < 0.1, np.nan, y)
    changing = pv.StreamLevel(np.where(rng.random(400) < 0.5, 4.0, 0.1))
    for level, own in ((changing, lost), (pv.StreamLevel.constant(2.0, lags=[0.8]), y)):
        release = shown(own, level, 4)
        found = dynamics.fit(family, release)
        assert found.log_likelihood >= height(family, theta, release, driven)


def test_unstable_measurements_have_a_stable_fit():
    found = dynamics.fit("ar2", shown(1.02 ** np.arange(300.0), 1.0, 0))
    assert np.isfinite(found.log_likelihood)
    assert np.abs(np.linalg.eigvals(found.system.A)).max() < 1


@pytest.mark.parametrize(("family", "theta", "level", "cov0"), CASES, ids=repr)
def test_the_fewest_steps_have_a_fit_and_fewer_are_refused(family, theta, level, cov0):
    least = family.least_steps()
    u, _, y = simulated(family, theta, cov0, least, seed=2)
    assert np.isfinite(dynamics.fit(family, shown(y, level, 2), inputs=u).log_likelihood)
    with pytest.raises(pv.errors.InvalidInput, match=f"at least {least} steps that show something"):
        dynamics.fit(family, shown(y[:-1], level, 2), inputs=None if u is None else u[:-1])


@pytest.mark.parametrize("case", [0, 5], ids=["ar", "regression"])
def test_weak_releases_have_several_peaks_and_the_highest_is_found(case):
    """At s γ_0 = .1 and 200 steps these have a peak at φ > 0 and a higher one at φ < 0."""
    family, theta, _, _ = CASES[case]
    u, driven, y = simulated(family, theta, None, 200, seed=8)
    release = shown(y, 0.1, 8)
    found = dynamics.fit(family, release, inputs=u)
    assert found.value[0] < 0
    others = [
        height(family, [phi, q, *found.value[2:]], release, driven)
        for phi in (-0.95, -0.7, -0.4, 0.1, 0.4, 0.7, 0.95)
        for q in (0.1, 0.3, 1.0, 3.0)
    ]
    assert found.log_likelihood > max(others)


@pytest.mark.parametrize("case", [1, 2, 6, 8, 10], ids=lambda case: repr(CASES[case][0]))
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_other_units_are_another_scale(case, unit):
    """Measurements c·y at level s/c² show the same: variances are c² times, gains and means c."""
    family, theta, level, cov0 = CASES[case]
    u, _, y = simulated(family, theta, cov0, 300, seed=3)
    release = shown(y, level, 3)
    other = pv.StreamLevel.constant(level / unit**2)
    values = release.values[None, :, None]
    scaled = pv.Release(0, 300, values, None, other.fingerprint, True)
    found = dynamics.fit(family, release, inputs=u)
    there = dynamics.fit(family, scaled, level=other, inputs=u)
    power = [0 if name[0] in "pt" else 2 if name[0] in "qr" else 1 for name in family.names]
    # Both end within 1e-7 standard errors of the maximum, which are below 1 relatively.
    np.testing.assert_allclose(
        there.value / unit ** np.array(power), found.value, rtol=1e-5, atol=1e-7
    )
    # A flat density of δ in other units is another number.
    unknown = (found.parameters - len(found.names)) * np.log(unit)
    assert there.log_likelihood == pytest.approx(found.log_likelihood + unknown, rel=1e-9)


@pytest.mark.parametrize("case", [0, 8], ids=["ar", "level"])
def test_many_series_have_one_fit(case):
    """Series with gaps of their own; one shows nothing and changes nothing."""
    family, theta, level, cov0 = CASES[case]
    _, _, y = simulated(family, theta, cov0, 100, seed=1, trials=20)
    y[:5, 20:40], y[7] = np.nan, np.nan
    found = dynamics.fit(family, pv.StreamMechanism(level).simulate(y, np.random.default_rng(2)))
    assert found.observations == 5 * 80 + 14 * 100
    assert (np.abs(found.value - theta) < 5 * found.standard_error).all()
