"""Families with inputs, families of users, families by name."""

import numpy as np
import pytest

import privest as pv
from privest import dynamics
from privest.dynamics import (
    AR,
    ARMA,
    ARX,
    CustomFamily,
    LocalLevel,
    LocalTrend,
    RegressionAR,
    Seasonal,
    StateSpace,
)
from privest.errors import InvalidInput, NotIdentifiable

DRIVEN = [
    ARX(1), ARX(2, 2, lags=3), ARX(1, 1, noise=True, mean=True),
]  # fmt: skip


def five_point(function, t, i, h=1e-3):
    step = h * np.eye(len(t))[i]
    far = function(t - 2 * step) - function(t + 2 * step)
    return (far + 8 * (function(t + step) - function(t - step))) / (12 * h)


def shown(y, level, seed=5):
    return pv.StreamMechanism(level).simulate(y, np.random.default_rng(seed))


# --- driven autoregressions -------------------------------------------------------------------


@pytest.mark.parametrize("family", DRIVEN, ids=repr)
def test_slopes_of_driven_autoregressions(family):
    t = np.random.default_rng(2).normal(size=family.size) * 0.6
    slopes = family.slopes(t)
    for i in range(family.size):
        for part in slopes._fields:
            near = five_point(lambda at, part=part: getattr(family.matrices(at), part), t, i)
            np.testing.assert_allclose(getattr(slopes, part)[i], near, atol=1e-10)
    theta = family.natural(t)
    np.testing.assert_allclose(family.working(theta), t, atol=1e-12)


@pytest.mark.parametrize(("order", "lags"), [(1, 1), (2, 1), (1, 3), (2, 2)])
def test_the_readings_follow_the_difference_equation(order, lags):
    """The simulated readings against the recursion written out, without noise."""
    family = ARX(order, 2, lags=lags)
    rng = np.random.default_rng(order + 10 * lags)
    phi = family.natural(rng.normal(size=family.size) * 0.5)[:order]
    b = rng.normal(size=(lags, 2))
    system = family.system([*phi, 1e-24, *b.ravel()], cov0=0.0)
    u = rng.normal(size=(30, 2))
    _, y = system.sample(30, rng, inputs=u)
    y = y[:, 0]
    for k in range(max(order, lags + 1), 30):
        past = sum(phi[j] * y[k - 1 - j] for j in range(order))
        driven = sum(b[lag] @ u[k - 1 - lag] for lag in range(lags))
        assert y[k] == pytest.approx(past + driven, abs=1e-10)


@pytest.mark.parametrize("lags", [1, 2])
def test_without_privacy_a_driven_autoregression_is_least_squares(lags):
    rng = np.random.default_rng(6)
    family, K = ARX(2, 1, lags=lags), 300
    u = rng.normal(size=K)
    theta = [1.1, -0.4, 0.5, 2.0, -1.0][: family.size]
    _, y = family.system(theta, cov0=1.0).sample(K, rng, inputs=u)
    y, level = y[:, 0], 1e12
    found = dynamics.fit(family, shown(y, level), inputs=u)
    X = np.column_stack([y[1:-1], y[:-2], *(u[2 - lag : K - lag] for lag in range(1, lags + 1))])
    own, left, _, _ = np.linalg.lstsq(X, y[2:], rcond=None)
    # Release noise of deviation 1e-6; the climb ends within 1e-7 deviations, here about 1e-8.
    np.testing.assert_allclose(found.value[[0, 1, *range(3, family.size)]], own, atol=1e-6)
    assert found.value[2] == pytest.approx(left[0] / (K - 2), rel=1e-5)


# --- families of users ------------------------------------------------------------------------


def decay(theta):
    a, q = theta
    return StateSpace(A=a, C=1.0, Q=q, R=0.0, cov0=q / (1 - a**2))


def test_a_custom_family_is_the_library_s():
    custom = CustomFamily(decay, {"a": 0.5, "q": 1.0}, {"a": "correlation", "q": "positive"})
    own = AR(1, mean=False)
    t = np.array([0.7, -0.4])
    for part in own.matrices(t)._fields:
        np.testing.assert_allclose(
            getattr(custom.matrices(t), part), getattr(own.matrices(t), part), rtol=1e-14
        )
        np.testing.assert_allclose(
            getattr(custom.slopes(t), part), getattr(own.slopes(t), part), atol=1e-8
        )
    assert custom.labels == ("artanh a", "log q")
    _, y = own.system([0.8, 0.36]).sample(200, np.random.default_rng(0))
    release = shown(y, 1.0)
    by_user, by_us = dynamics.fit(custom, release), dynamics.fit(own, release)
    assert by_user.log_likelihood == pytest.approx(by_us.log_likelihood, rel=1e-10)
    np.testing.assert_allclose(by_user.value, by_us.value, rtol=1e-5)


def test_a_custom_family_of_vectors_is_fitted():
    def pair(theta):
        a, q = theta
        return StateSpace(A=a * np.eye(2), C=np.eye(2), Q=q, R=0.0, cov0=q / (1 - a**2))

    family = CustomFamily(pair, {"a": 0.5, "q": 1.0}, {"a": "correlation", "q": "positive"})
    _, y = pair([0.8, 0.36]).sample(150, np.random.default_rng(3))
    release = shown(y, 2.0 * np.eye(2))
    found = dynamics.fit(family, release)
    # The same numbers as two series of one autoregression.
    alone = pv.StreamLevel.constant(2.0)
    values = release.values.reshape(150, 2).T[:, :, None]
    series = pv.Release(0, 150, values, None, alone.fingerprint, True)
    expected = dynamics.fit(AR(1, mean=False), series, level=alone)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-10)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-5)


def test_a_custom_family_may_start_with_nothing_known():
    def walk(theta):
        return StateSpace(A=1.0, C=1.0, Q=theta[0], R=theta[1], diffuse=True)

    family = CustomFamily(walk, {"q": 1.0, "r": 1.0}, {"q": "positive", "r": "positive"})
    y = np.random.default_rng(2).normal(size=80).cumsum()
    release = shown(y, 2.0)
    own, same = dynamics.fit(family, release), dynamics.fit(LocalLevel(), release)
    # r̂ = 0, and the limits that stand for it differ.
    assert own.log_likelihood == pytest.approx(same.log_likelihood, abs=1e-3)
    assert own.value == pytest.approx(same.value, abs=1e-3)


def test_what_is_no_custom_family_is_explained():
    with pytest.raises(InvalidInput, match="kind of a must be one of positive, correlation, free"):
        CustomFamily(decay, {"a": 0.5, "q": 1.0}, {"a": "unit"})
    with pytest.raises(InvalidInput, match="kinds are given for b; the parameters are a, q"):
        CustomFamily(decay, {"a": 0.5, "q": 1.0}, {"b": "free"})
    with pytest.raises(InvalidInput, match=r"start must be .name: value."):
        CustomFamily(decay, [0.5])
    with pytest.raises(InvalidInput, match=r"a must lie between -1 and 1; received 1\.5"):
        CustomFamily(decay, {"a": 1.5, "q": 1.0}, {"a": "correlation"})
    with pytest.raises(InvalidInput, match="must return a StateSpace; received float"):
        CustomFamily(lambda theta: 1.0, {"a": 1.0})
    with pytest.raises(InvalidInput, match=r"start must be .name: value."):
        CustomFamily(decay, {})


# --- by name ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("ar2", AR(2)), ("AR 2", AR(2)), ("ar3+noise", AR(3, noise=True)),
        ("ar1 - mean", AR(1, mean=False)), ("arma2,1", ARMA(2, 1)), ("arma0,2", ARMA(0, 2)),
        ("arx1", ARX(1, 3)), ("arx2+noise+mean", ARX(2, 3, noise=True, mean=True)),
        ("regression1", RegressionAR(1, 3)), ("level", LocalLevel()),
        ("level-noise", LocalLevel(noise=False)), ("trend", LocalTrend()),
        ("seasonal12", Seasonal(12)), ("level+seasonal12", Seasonal(12)),
        ("trend+seasonal4-noise", Seasonal(4, trend="trend", noise=False)),
    ],
)  # fmt: skip
def test_families_by_name(text, family):
    inputs = np.random.default_rng(0).normal(size=(60, 3)) if family.columns else None
    found = dynamics.fit(text, shown(np.sin(np.arange(60.0)), 1.0), inputs=inputs)
    assert repr(found.family) == repr(family)


@pytest.mark.parametrize(
    "text",
    ["", "ar", "foo", "level2", "ar2+foo", "ar2+ar1", "-ar2", "ar-2", "noise", "+", "ar2,1",
     "trend+level", "seasonal", "+noise", "arx", "ar2.5", "ar²"],
)  # fmt: skip
def test_names_of_no_family_are_explained(text):
    with pytest.raises(InvalidInput, match=r"names no family\. Families are"):
        dynamics.fit(text, shown(np.zeros(9), 1.0))


def test_names_that_say_too_little_or_too_much():

    def as_family(text):
        return dynamics.fit(text, shown(np.zeros(9), 1.0))

    with pytest.raises(InvalidInput, match="order must be a whole number ≥ 1; received 0"):
        as_family("ar0")
    with pytest.raises(InvalidInput, match="period must be a whole number ≥ 2; received 1"):
        as_family("seasonal1")
    with pytest.raises(InvalidInput, match="a level, trend or season has no mean of its own"):
        as_family("level+mean")
    with pytest.raises(InvalidInput, match="order must be at most 500; received 100000"):
        as_family("ar100000")
    with pytest.raises(NotIdentifiable, match="r cannot be told from the moving average"):
        as_family("arma1,1+noise")
    with pytest.raises(InvalidInput, match="received int"):
        as_family(3)


def test_inputs_that_a_family_does_not_take_are_explained():
    release = shown(np.zeros(30), 1.0)
    with pytest.raises(InvalidInput, match=r"AR\(1\) takes 0 public inputs; received 1"):
        dynamics.fit(AR(1), release, inputs=np.ones(30))
    with pytest.raises(InvalidInput, match=r"ARX\(1, 2\) takes 2 public inputs; received 0"):
        dynamics.fit(ARX(1, 2), release)
    with pytest.raises(InvalidInput, match="needs at least 16 steps that show something"):
        dynamics.fit(Seasonal(12), shown(np.zeros(15), 1.0))


# --- not identifiable -------------------------------------------------------------------------


def test_a_constant_beside_a_mean_is_named():
    y = np.random.default_rng(1).normal(size=150) + 3.0
    found = dynamics.fit(RegressionAR(1, 1, mean=True), shown(y, 2.0), inputs=np.ones(150))
    assert found.flat == {"beta1 − mean": np.inf}
    assert np.isinf(found.standard_error[-2:]).all()
    # Their sum is the mean, and it is known.
    assert found.value[-2:].sum() == pytest.approx(3.0, abs=5 * np.sqrt(1.5 / 150))


def test_an_input_that_is_always_zero_is_named():
    y = np.random.default_rng(1).normal(size=100)
    found = dynamics.fit("arx1", shown(y, 2.0), inputs=np.zeros(100))
    assert found.flat["b1"] == np.inf


def test_noise_that_white_readings_do_not_tell_is_named():
    """φ = 0: the variance of the readings is q + r, and nothing else is seen of the two."""
    y = np.random.default_rng(1).normal(size=400)
    found = dynamics.fit("ar1+noise-mean", shown(y, 2.0))
    assert any("log" in flat for flat in found.flat)


# --- continuous time --------------------------------------------------------------------------


def test_a_custom_family_in_continuous_time_at_irregular_times():
    """An Ornstein-Uhlenbeck process: the likelihood of the multivariate normal, written out."""
    rng = np.random.default_rng(4)
    times = np.cumsum(rng.exponential(size=60) + 0.05)

    def process(theta):
        rate, variance = theta
        return StateSpace.from_continuous(
            -rate, 1.0, 2 * rate * variance, 0.0, cov0=variance, times=times
        )

    kinds = {"rate": "positive", "variance": "positive"}
    family = CustomFamily(process, {"rate": 1.0, "variance": 1.0}, kinds)
    _, y = process([0.3, 2.0]).sample(60, rng)
    level = pv.StreamLevel(np.full(60, 3.0))
    release = shown(y, level)
    found = dynamics.fit(family, release)

    def dense(theta):
        rate, variance = theta
        apart = np.abs(np.subtract.outer(times, times))
        cov = 3.0 * variance * np.exp(-rate * apart) + np.eye(60)
        z = release.values
        return -0.5 * (z @ np.linalg.solve(cov, z) + np.linalg.slogdet(2 * np.pi * cov)[1])

    assert found.log_likelihood == pytest.approx(dense(found.value), rel=1e-11)
    around = [dense(np.exp(np.log(found.value) + step)) for step in ((1e-2, 0), (-1e-2, 0))]
    around += [dense(np.exp(np.log(found.value) + step)) for step in ((0, 1e-2), (0, -1e-2))]
    assert max(around) < found.log_likelihood


@pytest.mark.slow
def test_a_custom_family_is_walked_as_far_as_the_equivalent_one():
    """Far out its function overflows: no model there, and the walk turns back."""

    def process(theta):
        a, q, r = theta
        return dynamics.StateSpace(A=a, C=1.0, Q=q, R=r, cov0=q / (1 - a * a))

    kinds = {"a": "correlation", "q": "positive", "r": "positive"}
    own = CustomFamily(process, {"a": 0.5, "q": 1.0, "r": 0.5}, kinds)
    rng = np.random.default_rng(0)
    _, y = process([0.8, 1.0, 0.3]).sample(100, rng)
    release = shown(y[:, 0], 1.0)
    found, same = dynamics.fit(own, release), dynamics.fit("ar1+noise-mean", release)
    # r̂ = 0, and the limits that stand for it differ.
    assert found.log_likelihood == pytest.approx(same.log_likelihood, abs=1e-3)
    assert found.interval() == pytest.approx(same.interval(), abs=2e-3)
    spread = found.forecast(2).standard_error
    assert spread == pytest.approx(same.forecast(2).standard_error, rel=0.05)
