"""Families of state-space models: scales, slopes, and the same models as statsmodels has."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import privest as pv
from privest import dynamics
from privest.dynamics import AR, ARMA, LocalLevel, LocalTrend, RegressionAR, Seasonal
from privest.errors import InvalidInput, NotIdentifiable

STATIONARY = [
    AR(1), AR(1, mean=False), AR(2, noise=True), AR(5), ARMA(2, 1), ARMA(1, 3), ARMA(0, 2),
    ARMA(12, 2), RegressionAR(2, 3, noise=True, mean=True),
]  # fmt: skip
DIFFUSE = [
    LocalLevel(), LocalLevel(noise=False), LocalTrend(), Seasonal(2), Seasonal(4),
    Seasonal(12, trend="trend", noise=False),
]  # fmt: skip
FAMILIES = [*STATIONARY, *DIFFUSE]


def five_point(function, t, i, h=1e-3):
    """∂function/∂t_i, error of order h⁴ = 1e-12 and of rounding eps/h = 2e-13."""
    step = h * np.eye(len(t))[i]
    far = function(t - 2 * step) - function(t + 2 * step)
    return (far + 8 * (function(t + step) - function(t - step))) / (12 * h)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_slopes_are_those_of_differences(family):
    t = np.random.default_rng(1).normal(size=family.size) * 0.6
    slopes, natural = family.slopes(t), family.natural_slopes(t)
    for i in range(family.size):
        for part in slopes._fields:
            near = five_point(lambda at, part=part: getattr(family.matrices(at), part), t, i)
            own = getattr(slopes, part)[i]
            assert own.shape == getattr(family.matrices(t), part).shape
            # Of a stationary covariance: times its curvature, below 1e3 here.
            assert np.abs(own - near).max(initial=0) <= 1e-9 * (1 + np.abs(near).max(initial=0))
        near = five_point(family.natural, t, i)
        np.testing.assert_allclose(natural[:, i], near, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(data=st.data())
def test_working_parameters_lead_back(family, data):
    numbers = st.lists(st.floats(-2, 2), min_size=family.size, max_size=family.size)
    t = np.array(data.draw(numbers))
    theta = family.natural(t)
    np.testing.assert_allclose(family.natural(family.working(theta)), theta, rtol=1e-6, atol=1e-9)
    own = family.matrices(t)
    if not own.diffuse.size:  # every t is a stable model with a covariance that stays
        assert np.abs(np.linalg.eigvals(own.A)).max() < 1
        left = own.A @ own.cov0 @ own.A.T + own.Q - own.cov0
        assert np.abs(left).max() <= 1e-10 * np.abs(own.cov0).max()


def test_two_coefficients_are_as_in_the_books():
    phi = AR(2, mean=False).natural(np.array([*np.arctanh([0.6, -0.3]), 0.0]))
    np.testing.assert_allclose(phi, [0.6 * 1.3, -0.3, 1.0], rtol=1e-14)
    theta = ARMA(0, 1, mean=False).natural(np.array([np.arctanh(0.4), 0.0]))
    np.testing.assert_allclose(theta, [0.4, 1.0], rtol=1e-14)


# --- against statsmodels ----------------------------------------------------------------------


def shown(y, level, seed=5):
    return pv.StreamMechanism(pv.StreamLevel.constant(level)).simulate(
        y, np.random.default_rng(seed)
    )


@pytest.mark.parametrize(
    ("family", "theta", "order"),
    [
        (AR(1), [0.8, 0.5, 3.0], (1, 0, 0)),
        (AR(3, noise=True), [0.5, -0.3, 0.2, 0.7, 0.4, -1.0], (3, 0, 0)),
        (ARMA(2, 1), [1.2, -0.5, 0.6, 0.9, 2.0], (2, 0, 1)),
        (ARMA(1, 2), [0.7, 0.4, -0.3, 0.9, 2.0], (1, 0, 2)),
        (ARMA(0, 2), [0.4, -0.3, 0.9, 2.0], (0, 0, 2)),
    ],
    ids=repr,
)
def test_the_likelihood_is_that_of_sarimax(family, theta, order):
    from statsmodels.tsa.statespace.sarimax import SARIMAX

    y = np.random.default_rng(3).normal(size=60) + 1.0
    y[7:10] = np.nan
    level, release = 4.0, shown(y, 4.0)
    system = family.system(theta)
    found = dynamics.filter(system, release, level=level, inputs=np.ones(60))
    values = dict(zip(family.names, theta))
    peer = SARIMAX(
        release.values / 2 - values["mean"], order=order, measurement_error=True,
        enforce_stationarity=True, enforce_invertibility=True,
    )  # fmt: skip
    terms = [values[name] for name in family.names if name[0] in "pt"]
    error = values.get("r", 0.0) + 1 / level
    expected = peer.loglike([*terms, error, values["q"]])
    # A release is √s times what the peer sees: its density is smaller by √s a step.
    expected -= np.isfinite(y).sum() * np.log(level) / 2
    assert found.log_likelihood == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("family", "theta", "said"),
    [
        (LocalLevel(), [0.3, 0.5], {"level": "llevel"}),
        (LocalTrend(), [0.3, 0.1, 0.5], {"level": "lltrend"}),
        (Seasonal(4), [0.3, 0.2, 0.5], {"level": "llevel", "seasonal": 4}),
        (Seasonal(12, trend="trend"), [0.3, 0.1, 0.2, 0.5], {"level": "lltrend", "seasonal": 12}),
    ],
    ids=repr,
)
def test_the_likelihood_is_that_of_unobserved_components(family, theta, said):
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    y = np.random.default_rng(4).normal(size=50).cumsum()
    level, release = 4.0, shown(y, 4.0)
    system = family.system(theta, cov0=9.0)
    peer = UnobservedComponents(release.values / 2, **said)
    n = family.states
    peer.ssm.initialize_known(np.zeros(n), 9.0 * np.eye(n))
    peer.ssm.loglikelihood_burn = 0
    # Theirs: irregular, level, trend, seasonal.
    expected = peer.loglike([theta[-1] + 1 / level, *theta[:-1]]) - 25 * np.log(level)
    found = dynamics.filter(system, release, level=level)
    assert found.log_likelihood == pytest.approx(expected, rel=1e-9)
    # With nothing known of x_0, theirs by the exact diffuse filter.
    peer = UnobservedComponents(release.values / 2, use_exact_diffuse=True, **said)
    expected = peer.loglike([theta[-1] + 1 / level, *theta[:-1]]) - 25 * np.log(level)
    found = dynamics.filter(family.system(theta), release, level=level)
    assert found.log_likelihood == pytest.approx(expected, rel=1e-9)


def test_a_regression_is_that_of_sarimax():
    from statsmodels.tsa.statespace.sarimax import SARIMAX

    rng = np.random.default_rng(8)
    H, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    release, family = shown(y, 1.0), RegressionAR(2, 2)
    theta = [0.5, 0.2, 0.8, 1.5, -2.0]
    found = dynamics.filter(family.system(theta), release, level=1.0, inputs=H)
    peer = SARIMAX(release.values, exog=H, order=(2, 0, 0), measurement_error=True)
    expected = peer.loglike([1.5, -2.0, 0.5, 0.2, 1.0, 0.8])
    assert found.log_likelihood == pytest.approx(expected, rel=1e-9)


# --- what is refused --------------------------------------------------------------------------


def test_what_is_no_family_is_explained():
    with pytest.raises(InvalidInput, match="order must be a whole number ≥ 1; received 0"):
        AR(0)
    with pytest.raises(InvalidInput, match="order must be a whole number ≥ 1; received 0"):
        ARMA(0, 0)
    with pytest.raises(InvalidInput, match="period must be a whole number ≥ 2; received 1"):
        Seasonal(1)
    with pytest.raises(InvalidInput, match="trend must be one of level, trend; received"):
        Seasonal(4, trend="cubic")
    for p, q in ((1, 1), (0, 2), (2, 3)):
        with pytest.raises(NotIdentifiable, match="r cannot be told from the moving average"):
            ARMA(p, q, noise=True)


def test_parameters_that_no_model_has_are_explained():
    with pytest.raises(InvalidInput, match=r"phi1 = 1.2 .* not the coefficients of a stationary"):
        AR(1, mean=False).system([1.2, 1.0])
    with pytest.raises(InvalidInput, match=r"theta1, theta2 = 0.5, 1.5 .* invertible"):
        ARMA(0, 2).system([0.5, 1.5, 1.0, 0.0])
    with pytest.raises(InvalidInput, match="q must be > 0; received -1"):
        AR(1, mean=False).system([0.2, -1.0])
    with pytest.raises(InvalidInput, match="theta must hold phi1, q, mean; received shape"):
        AR(1).system([0.2, 1.0])
    with pytest.raises(InvalidInput, match="cov0 must be 1×1"):
        LocalLevel().system([1.0, 1.0], cov0=np.eye(2))


def test_systems_start_as_the_family_says_or_as_told():
    assert LocalTrend().system([1.0, 1.0, 1.0]).diffuse.shape == (2, 2)
    assert LocalTrend().system([1.0, 1.0, 1.0], cov0=3.0).cov0.tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert AR(1, mean=False).system([0.5, 0.75], cov0=0.0).cov0.tolist() == [[0.0]]
