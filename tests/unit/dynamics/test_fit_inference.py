"""What a fit says of its parameters and of the future, by independent routes."""

import json
import math

import numpy as np
import pytest
import scipy

import privest as pv
from privest import dynamics
from privest.dynamics import fit
from privest.errors import InvalidInput

LEVEL = pv.StreamLevel.constant(1.0)
CHI = float(scipy.special.chdtri(1, 0.05))


def released(steps=150, phi=0.8, mean=0.0, seed=3, extra=0.0):
    rng = np.random.default_rng(seed)
    system = dynamics.AR(1, mean=False).system([phi, 1 - phi**2])
    measurements = mean + extra + system.sample(steps, rng)[1][:, 0]
    return pv.StreamMechanism(LEVEL).simulate(measurements, rng)


@pytest.fixture(scope="module")
def found():
    return fit(dynamics.AR(1, mean=False), released(), level=LEVEL)


def test_profile_ends_by_another_route(found):
    intervals = found.interval(0.95)

    def height(phi, q):
        system = found.family.system([phi, q])
        return float(dynamics.filter(system, released()).log_likelihood)

    for phi in intervals[0]:
        best = scipy.optimize.minimize_scalar(
            lambda q, phi=phi: -height(phi, q),
            bounds=(0.01, 3.0), method="bounded", options={"xatol": 1e-9},
        )  # fmt: skip
        assert 2 * (found.log_likelihood + best.fun) == pytest.approx(CHI, abs=1e-5)
    for q in intervals[1]:
        best = scipy.optimize.minimize_scalar(
            lambda phi, q=q: -height(phi, q),
            bounds=(-0.999, 0.999), method="bounded", options={"xatol": 1e-9},
        )  # fmt: skip
        assert 2 * (found.log_likelihood + best.fun) == pytest.approx(CHI, abs=1e-5)
    assert not found.open_ends(0.95).any()
    assert found.notes(0.95) == ()
    wider = found.interval(0.99)
    assert (wider[:, 0] < intervals[:, 0]).all()
    assert (wider[:, 1] > intervals[:, 1]).all()


def test_intervals_are_found_once(found):
    found.interval(0.9)
    before = found._objective.evaluations
    found.interval(0.9)[:] = 0.0  # a copy
    assert found.interval(0.9).all()
    assert found._objective.evaluations == before


def test_wald_and_bad_methods(found):
    t = np.arctanh(found.interval(method="wald")[0])
    assert np.tanh(t.mean()) == pytest.approx(found.value[0], abs=1e-9)  # symmetric in artanh φ
    with pytest.raises(InvalidInput, match="profile, wald"):
        found.interval(method="bootstrap")
    with pytest.raises(InvalidInput, match="mixture, plug-in"):
        found.forecast(1, method="bootstrap")
    with pytest.raises(InvalidInput, match="steps"):
        found.forecast(0)


def test_flat_directions_of_fits(found):
    assert found.flat == {}
    # φ near 0 does not tell the noise of the readings from that of the process.
    both = fit(dynamics.AR(1, noise=True, mean=False), released(400, phi=0.1), level=LEVEL)
    assert any("log r" in one for one in both.flat)
    assert json.dumps(both.to_dict()["flat"])


def test_criteria(found):
    assert found.parameters == 2
    assert found.aic == pytest.approx(4 - 2 * found.log_likelihood)
    assert found.bic == pytest.approx(2 * math.log(150) - 2 * found.log_likelihood)
    walk = fit(dynamics.LocalLevel(), released(), level=LEVEL)
    assert walk.parameters == 3  # two variances and a level of which nothing was known


def test_a_plug_in_forecast_is_a_prediction(found):
    ahead = found.forecast(4, method="plug-in")
    system = found.family.system(found.value)
    peer = dynamics.filter(system, released()).forecast(4)
    np.testing.assert_allclose(ahead.value, peer.value, rtol=1e-9)
    np.testing.assert_allclose(ahead.standard_error, peer.standard_error, rtol=1e-9)
    half = 1.959963985 * ahead.standard_error
    edges = np.stack([ahead.value - half, ahead.value + half], axis=-1)
    np.testing.assert_allclose(ahead.interval(0.95), edges, rtol=1e-8)


def test_a_mixture_is_wider(found):
    mixed, plain = found.forecast(3), found.forecast(3, method="plug-in")
    assert (mixed.standard_error > plain.standard_error).all()
    assert json.dumps(mixed.to_dict())
    assert mixed.notes == ()


def test_public_inputs_ahead():
    rng = np.random.default_rng(8)
    u, later = rng.standard_normal((200, 1)), rng.standard_normal((3, 1))
    own = fit(dynamics.RegressionAR(1), released(200, extra=2 * u[:, 0]), level=LEVEL, inputs=u)
    ahead = own.forecast(3, inputs=later)
    assert np.corrcoef(ahead.value.ravel(), own.value[2] * later.ravel())[0, 1] > 0.9
    with pytest.raises(InvalidInput, match=r"\(3, 1\)"):
        own.forecast(3)
    with pytest.raises(InvalidInput, match=r"\(3, 1\)"):
        own.forecast(3, inputs=later[:2])


def test_many_series_share_parameters_and_have_forecasts_of_their_own():
    rng = np.random.default_rng(4)
    system = dynamics.AR(1, mean=False).system([0.8, 0.36])
    measurements = system.sample(60, rng, trials=3)[1]
    release = pv.StreamMechanism(LEVEL).simulate(measurements, rng)
    own = fit(dynamics.AR(1, mean=False), release, level=LEVEL)
    ahead = own.forecast(2)
    assert ahead.value.shape == (3, 2, 1)
    assert ahead.interval().shape == (3, 2, 1, 2)
    plain = own.forecast(2, method="plug-in")
    filtered = dynamics.filter(own.family.system(own.value), release, level=LEVEL)
    np.testing.assert_allclose(plain.value, filtered.forecast(2).value, rtol=1e-8)


def test_a_level_of_nothing_leaves_correlations_without_an_interval():
    weak = pv.StreamLevel.constant(1e-4)
    rng = np.random.default_rng(1)
    release = pv.StreamMechanism(weak).simulate(rng.standard_normal(80), rng)
    told = fit(dynamics.AR(1, mean=False), release, level=weak)
    assert told.open_ends()[0].all()
    assert told.open_ends()[1, 0]
    assert any("phi1" in note for note in told.notes())


def low_level_autoregression(seed, K=60, s=0.05):
    rng, level = np.random.default_rng(seed), pv.StreamLevel.constant(s)
    system = pv.dynamics.AR(1).system([0.6, 1.0, 5.0])
    _, y = system.sample(K, rng, inputs=np.ones((K, 1)))
    return pv.dynamics.fit("ar1", pv.StreamMechanism(level).simulate(y, rng), level=level)


def test_a_mean_may_be_far_where_the_process_may_hardly_move():
    """q̂ = 0. With φ → 1 the process is one number of variance γ beside the mean, and at distance d
    2(ℓ̂ − ℓ) = log c + d²Ks/c with c = 1 + Ksγ, at best 1 + log(d²Ks): no parabola.
    """
    found, (K, s) = low_level_autoregression(1), (60, 0.05)
    low, high = found.interval()[2]
    d = np.sqrt(np.exp(scipy.stats.chi2.ppf(0.95, 1) - 1) / (K * s))
    # φ is not quite 1, q̂ is not quite 0.
    assert [low, high] == pytest.approx([found.value[2] - d, found.value[2] + d], abs=2e-3)


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_a_root_has_no_interval_where_nothing_may_move(seed):
    """q = 0 is not excluded with another mean than the estimate; then no φ is."""
    found = low_level_autoregression(seed)
    assert found.open_ends()[:2].tolist() == [[True, True], [True, False]]
    assert found.interval()[0].tolist() == [-1.0, 1.0]
    assert "phi1 has no interval: q = 0 is not excluded" in found.notes()[0]


@pytest.mark.slow
def test_a_coefficient_that_is_not_determined_matters_where_the_next_inputs_show_it():
    rng, level = np.random.default_rng(3), pv.StreamLevel.constant(1.0)
    release = pv.StreamMechanism(level).simulate(rng.standard_normal((50, 1)), rng)
    found = fit("regression1", release, level=level, inputs=np.zeros((50, 1)))
    same = fit("ar1-mean", release, level=level).forecast(2)
    assert found.forecast(2, inputs=np.zeros((2, 1))).standard_error == pytest.approx(
        same.standard_error, rel=1e-6
    )
    with pytest.raises(pv.errors.NotIdentifiable, match="depends on a mean or on coefficients"):
        found.forecast(1, inputs=[[1.0]])
    doubled = fit("regression1", release, level=level, inputs=np.ones((50, 2)))
    known = fit("regression1", release, level=level, inputs=np.ones(50))
    assert doubled.forecast(1, inputs=[[1.0, 1.0]]).standard_error == pytest.approx(
        known.forecast(1, inputs=[[1.0]]).standard_error, rel=1e-4
    )
    with pytest.raises(pv.errors.NotIdentifiable, match="depends on a mean or on coefficients"):
        doubled.forecast(1, inputs=[[1.0, 2.0]])
