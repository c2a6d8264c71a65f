"""PrivateLinearRegression without a stated noise variance, and with weights."""

import numpy as np
import pytest
import scipy
import statsmodels.api as sm
from sklearn.linear_model import LinearRegression

import privest as pv
from paid import PAID
from privest.estimator.inference import WeightedRows, fit_levels
from privest.mechanism.source import seeded

OPEN = 1e16  # a level at which the privacy noise is 1e-8
CLOSE = {"rtol": 1e-5, "atol": 1e-6}  # of what it does to estimates and errors here


def data(samples=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((samples, 2)) * [1.0, 3.0] + 2.0
    return rng, X, 1.5 + X @ [-0.7, 0.4] + 0.5 * rng.standard_normal(samples)


def half_widths(H, z, errors, weight=1.0):
    """Of 95 % intervals by HC3, densely: t of the least of three degrees of freedom, or skewed."""
    K, n = H.shape
    root = np.sqrt(weight * np.ones(K))
    X = H * root[:, None]
    own = X @ np.linalg.inv(X.T @ X)
    rest = np.eye(K) - own @ X.T
    b = own * (rest @ (root * z) / np.diag(rest))[:, None]
    second, third, fourth = ((b**power).sum(axis=0) for power in (2, 3, 4))
    bell = (own**2).sum(axis=0) ** 2 / (own**4).sum(axis=0) - 1  # rows that decide, less one
    if (bell < 29).any():
        d = own / np.sqrt(np.diag(rest))[:, None]
        B = np.einsum("pj,qj,pq->jpq", d, d, rest)
        bell = np.trace(B, axis1=1, axis2=2) ** 2 / (B**2).sum(axis=(1, 2))
    t = scipy.stats.t.ppf
    least = np.minimum(np.minimum(bell, 3 * second**2 / fourth), K - n)
    skewed = t(0.975, K - n) + 2 * np.abs(third) / second**1.5
    return errors * np.maximum(t(0.975, least), skewed)


def coefficients(model):
    return np.append(model.intercept_, model.coef_)


@pytest.mark.parametrize("simulate", [True, False])
def test_many_samples_are_hc3_and_few_students_t(simulate):
    _, X, y = data()
    how = {"simulate": True} if simulate else {"account": PAID}
    model = pv.PrivateLinearRegression(OPEN, **how).fit(X, y)
    known = sm.OLS(y, sm.add_constant(X)).fit(cov_type="HC3", use_t=True)
    np.testing.assert_allclose(coefficients(model), known.params, **CLOSE)
    np.testing.assert_allclose(model.covariance_, known.cov_params(), **CLOSE)
    half = half_widths(sm.add_constant(X), y, known.bse)
    np.testing.assert_allclose(np.ptp(model.interval(), axis=1) / 2, half, **CLOSE)
    assert (half >= np.ptp(known.conf_int(), axis=1) / 2).all()  # never narrower than t of K − n
    assert model.result_.method == "HC3"
    assert model.noise_variance_ == pytest.approx(known.scale, rel=1e-5)
    few = pv.PrivateLinearRegression(OPEN, **how).fit(X[:20], y[:20])
    known = sm.OLS(y[:20], sm.add_constant(X[:20])).fit()
    np.testing.assert_allclose(few.interval(), known.conf_int(), **CLOSE)
    np.testing.assert_allclose(few.classical_, known.cov_params(), **CLOSE)
    assert few.result_.method == "Student's t from the release"
    assert few.bound_ is None
    assert few.efficiency_ is None


def test_the_floor_is_the_known_noise():
    """Readings that are fitted exactly: the release scatters by its noise alone, or less."""
    _, X, _ = data(12)
    half = []
    for seed in range(40):
        model = pv.PrivateLinearRegression(1.0, simulate=True, random_state=seed)
        low, high = model.fit(X, X @ [1.0, 2.0]).interval().T
        half.append((high - low) / 2)
    H = sm.add_constant(X)
    floor = scipy.stats.norm.ppf(0.975) * np.sqrt(np.diag(np.linalg.inv(H.T @ H)))
    assert (np.array(half) >= floor * (1 - 1e-12)).all()
    assert np.isclose(np.array(half), floor).any()


def test_a_vector_of_levels_is_fitted_by_restricted_likelihood():
    rng, X, y = data()
    level = 10 ** rng.uniform(1, 4, 60)
    level[7] = 0.0  # shows nothing
    model = pv.PrivateLinearRegression(level, simulate=True, random_state=1).fit(X, y)
    stream = pv.StreamLevel(level)
    source = seeded(1, "regression", f"{stream.final_blocks().diagonal().max():.6g}")
    z = pv.StreamMechanism(stream).simulate(y, source).values
    used, H = level > 0, sm.add_constant(X)
    rows = WeightedRows(H[used], (z[used] / np.sqrt(level[used])), added=1 / level[used])
    known = fit_levels(lambda: [rows], 3)
    np.testing.assert_allclose(coefficients(model), known.value, rtol=1e-9)
    np.testing.assert_allclose(model.covariance_, known.errors.covariance, rtol=1e-9)
    assert model.noise_variance_ == pytest.approx(known.noise_variance, rel=1e-9)
    assert model.result_.degrees_of_freedom.shape == (3,)


def test_weights_are_repetitions():
    rng, X, y = data()
    weight = rng.integers(0, 4, 60)
    model = pv.PrivateLinearRegression(OPEN, simulate=True).fit(X, y, sample_weight=weight)
    repeated = LinearRegression().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    theirs = LinearRegression().fit(X, y, sample_weight=weight)
    for known in (repeated, theirs):
        np.testing.assert_allclose(model.coef_, known.coef_, **CLOSE)
        np.testing.assert_allclose(model.intercept_, known.intercept_, **CLOSE)
    used = weight > 0
    H = sm.add_constant(X)
    sandwich = sm.WLS(y[used], H[used], weights=weight[used]).fit(cov_type="HC3", use_t=True)
    np.testing.assert_allclose(model.covariance_, sandwich.cov_params(), **CLOSE)
    half = half_widths(H[used], y[used], sandwich.bse, weight[used])
    np.testing.assert_allclose(np.ptp(model.interval(), axis=1) / 2, half, **CLOSE)
    assert model.result_.method == "HC3, survey weights"


def test_samples_of_weight_zero_are_not_released():
    rng, X, y = data()
    weight = rng.integers(0, 2, 60)
    other = np.where(weight > 0, y, 99.0)
    one, two = (
        pv.PrivateLinearRegression(1.0, simulate=True, random_state=3).fit(
            X, each, sample_weight=weight
        )
        for each in (y, other)
    )
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_few_weighted_samples_have_few_degrees_of_freedom():
    rng, X, y = data(15)
    weight = rng.uniform(0.5, 3.0, 15)
    model = pv.PrivateLinearRegression(OPEN, simulate=True).fit(X, y, sample_weight=weight)
    known = sm.WLS(y, sm.add_constant(X), weights=weight).fit(cov_type="HC3")
    np.testing.assert_allclose(model.covariance_, known.cov_params(), **CLOSE)
    assert (model.result_.degrees_of_freedom < 12).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_weight": np.zeros(60)}, "some weight above zero"),
        ({"sample_weight": np.full(60, -1.0)}, "must be ≥ 0"),
        ({"sample_weight": np.ones(59)}, "inconsistent numbers of samples"),
        ({"sample_weight": (np.arange(60) < 3).astype(float)}, "3 samples for 3 coefficients"),
    ],
)
def test_wrong_weights_are_refused_before_anything_is_released(given, message):
    _, X, y = data()
    model = pv.PrivateLinearRegression(1.0, account=PAID)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, **given)
    assert not hasattr(model, "n_samples_seen_")


def test_a_new_reading_is_within_its_deviations():
    """12 samples at sσ² = 1: with σ̂², which is often 0, intervals of 95 % cover .88; a new reading
    at the edge of the samples, where the error of the mean counts most. False alarm 1e-6."""
    rng, trials = np.random.default_rng(21), 250
    X, new = np.arange(12.0)[:, None], np.array([[11.0]])
    covered = np.zeros(2, dtype=int)
    for _ in range(trials):
        model = pv.PrivateLinearRegression(1.0, simulate=True, random_state=rng)
        model.fit(X, 1 + 0.5 * X[:, 0] + rng.standard_normal(12))
        mean, std = model.predict(new, return_std=True)
        assert model.noise_upper_ >= model.noise_variance_
        spread = np.array([1.0, 11.0]) @ model.covariance_ @ [1.0, 11.0]
        drawn = 1 + 0.5 * 11 + rng.standard_normal()
        deviations = np.sqrt([spread + model.noise_variance_, std[0] ** 2])
        covered += abs(drawn - mean[0]) <= scipy.stats.norm.isf(0.025) * deviations
    least = scipy.stats.binom.ppf(1e-6, trials, 0.95)
    assert covered[1] >= least
    assert covered[1] > covered[0]
    assert covered[0] < scipy.stats.binom.ppf(0.05, trials, 0.95)


def test_the_limit_that_deviations_are_made_with():
    rng = np.random.default_rng(22)
    X = rng.normal(size=(40, 2))
    y = X @ [1.0, 2.0] + rng.standard_normal(40)
    H = np.column_stack([np.ones(40), X])
    model = pv.PrivateLinearRegression(4.0, simulate=True, random_state=1).fit(X, y)
    total = model.noise_variance_ + 0.25
    upper = total * 37 / scipy.stats.chi2.ppf(0.1, 37) - 0.25  # HC3, but σ² is that of residuals
    assert model.noise_upper_ == pytest.approx(upper)
    spread = np.einsum("ij,jk,ik->i", H, model.covariance_, H)
    expected = (upper + 0.25) / total * spread + upper
    np.testing.assert_allclose(model.predict(X, return_std=True)[1] ** 2, expected)
    levels = pv.PrivateLinearRegression(
        pv.PrivacyLevel(np.linspace(1, 9, 40)), simulate=True, random_state=1
    ).fit(X, y)
    assert levels.noise_upper_ > levels.noise_variance_
    known = pv.PrivateLinearRegression(4.0, noise=1.0, simulate=True, random_state=1).fit(X, y)
    assert known.noise_upper_ == known.noise_variance_ == 1.0
    clipped = pv.PrivateLinearRegression(4.0, range=(-4, 4), simulate=True, random_state=1)
    clipped.fit(X, y)
    assert clipped.noise_upper_ == clipped.result_.noise_interval(0.8)[1]
