"""PrivateLinearRegression releases for real: no seed, no refusal of a value, its bound attained."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import privest as pv
from paid import PAID
from privest.errors import BudgetExceeded, InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator import ClippedResult
from privest.ledger import Budget, cost_of
from privest.mechanism.source import Generated, Protected

THETA, VARIANCE = np.array([1.5, -0.7, 0.4]), 0.25
UNIT = 1 + 0.75 * 2.0**-20
rng = np.random.default_rng(5)
X = rng.standard_normal((40, 2)) * [1.0, 3.0] + 2.0
H = np.column_stack([np.ones(40), X])
Y = H @ THETA + VARIANCE**0.5 * rng.standard_normal(40)


def regression(level=2.0, noise=VARIANCE, **more):
    paid = {} if more.get("simulate") else {"account": PAID}
    return pv.PrivateLinearRegression(level, noise, **paid | more)


class Watched(Protected):
    """Protected noise that remembers what it was asked for."""

    def __init__(self):
        self.asked = []

    def add_noise(self, shown, **how):
        self.asked.append((how["at"], how["shape"]))
        return super().add_noise(shown, **how)


def test_a_release():
    one, two = (regression().fit(X, Y) for _ in range(2))
    assert (one.noise_source_, one.result_.simulated) == ("release", False)
    assert "SIMULATED" not in one.result_.summary()
    assert (one.coef_ != two.coef_).all()
    trial = regression(simulate=True).fit(X, Y)
    assert (trial.noise_source_, trial.result_.simulated) == ("simulation", True)


def test_the_covariance_counts_the_grid_and_the_bound_does_not():
    for law, floor in ((VARIANCE, VARIANCE), (pv.noise.Laplace(0.5), 0.25)):
        spread = law if isinstance(law, float) else law.variance
        found, inverse = regression(2.0, law).fit(X, Y), np.linalg.inv(H.T @ H)
        np.testing.assert_allclose(found.covariance_, (UNIT / 2 + spread) * inverse, rtol=1e-10)
        np.testing.assert_allclose(found.bound_, (1 / 2 + floor) * inverse, rtol=1e-10)
        assert found.efficiency_ == pytest.approx((1 / 2 + floor) / (UNIT / 2 + spread), rel=1e-12)


@pytest.mark.parametrize("seed", [0, np.random.default_rng(0), np.random.RandomState(0)])
def test_a_release_has_no_seed(seed):
    with pytest.raises(InvalidInput, match="random_state is the seed of a trial"):
        regression(random_state=seed).fit(X, Y)


def test_sources():
    watched = Watched()
    model = regression().fit(X[:30], Y[:30], source=watched)
    assert watched.asked == [(0, (30,))]
    assert not any(isinstance(part, Watched) for part in vars(model).values())
    with pytest.raises(InvalidInput, match="is a simulation"):
        regression().fit(X, Y, source=Generated(np.random.default_rng(0)))
    with pytest.raises(InvalidInput, match="takes no generator"):
        regression().fit(X, Y, source=np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="this is a trial"):
        regression(simulate=True).fit(X, Y, source=Protected())
    scaled = make_pipeline(StandardScaler(), regression())
    scaled.fit(X, Y, privatelinearregression__source=watched)
    assert watched.asked[-1] == (0, (40,))


def test_a_ledger_counts(tmp_path):
    """The same fit again is the same numbers and costs nothing; new noise counts, or is refused."""
    with pv.Ledger(tmp_path / "ledger.db") as ledger:
        ledger.account("t", budget=Budget(level=4.0))

        def fitted(key):
            noise = ledger.account("t").source(cost_of(2.0), start=0, key=key)
            return regression(account=None).fit(X, Y, noise)

        one, again = fitted("a"), fitted("a")
        assert np.array_equal(one.coef_, again.coef_)
        assert float(ledger.account("t").spent.level) == 2.0
        assert (fitted("b").coef_ != one.coef_).all()
        with pytest.raises(BudgetExceeded):
            fitted("c")


def with_gap(kind):
    gone = Y.copy()
    gone[[3, 8]] = np.nan
    return {
        "NaN": gone,
        "masked": np.ma.masked_array(np.where(np.isnan(gone), 7.0, gone), np.isnan(gone)),
        "pandas": pd.Series(gone),
        "pandas NA": pd.Series([None if np.isnan(y) else y for y in gone], dtype="Float64"),
        "polars": pl.Series([None if np.isnan(y) else y for y in gone]),
        "list": gone.tolist(),
    }[kind]


@pytest.mark.parametrize("kind", ["NaN", "masked", "pandas", "pandas NA", "polars", "list"])
@pytest.mark.parametrize("more", [{}, {"range": (-9.0, 9.0)}])
def test_missing_readings_are_left_out(kind, more):
    found = regression(**more).fit(X, with_gap(kind))
    kept = np.delete(H, [3, 8], axis=0)
    if not more:
        expected = (UNIT / 2 + VARIANCE) * np.linalg.inv(kept.T @ kept)
        np.testing.assert_allclose(found.covariance_, expected, rtol=1e-10)
    else:
        assert found.result_.measurements == 38
    assert found.n_samples_seen_ == 40


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e308, -1e30, 5e-324])
@pytest.mark.parametrize("more", [{}, {"range": (-9.0, 9.0)}])
def test_no_value_is_refused(value, more):
    wild = Y.copy()
    wild[4] = value
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = regression(**more).fit(X, wild)
    assert np.isfinite(found.coef_).all()
    usual = regression(**more).fit(X, Y)
    if not more:  # what is said beside the estimate does not depend on the readings at all
        assert np.array_equal(found.covariance_, usual.covariance_)


@pytest.mark.parametrize("value", [10**400, -(10**400), 2**64])
@pytest.mark.parametrize("kind", [list, lambda y: np.array(y, dtype=object), pd.Series])
def test_integers_of_any_size_are_readings(value, kind):
    found = regression(range=(-9.0, 9.0)).fit(X, kind([value, None, *map(float, Y[2:])]))
    assert found.result_.measurements == 39


@pytest.mark.parametrize(
    "bad",
    [
        None,
        ["12.345?"] * 40,
        np.full(40, 12.345 + 1j),
        np.full((40, 2), 12.345),
        np.full(39, 12.345),
    ],
)
def test_types_and_counts_are_refused(bad):
    with pytest.raises(ValueError, match=r"\by\b|number") as told:
        regression().fit(X, bad)
    assert "12.345" not in str(told.value)
    with pytest.raises(ValueError, match="NaN"):  # X is public
        regression().fit(np.where(np.eye(40, 2) > 0, np.nan, X), Y)


def test_copies_and_pickles():
    model = regression().fit(X, Y)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), clone(model)):
        assert (again.simulate, again.range) == (False, None)
        assert (again.fit(X, Y).coef_ != model.coef_).all()


@pytest.mark.parametrize(
    "level", [2.0, pv.StreamLevel.constant(2.0, lags=[0.6])], ids=["plain", "lags"]
)
def test_releases_attain_the_bound(level):
    """`thm:opt` through real noise: Wishart and mean at false alarm 1e-6; it sees 50 % too much."""
    trials, law = 500, np.random.default_rng(11)
    model, errors = regression(level), np.empty((500, 3))
    for t in range(trials):
        model.fit(X, H @ THETA + VARIANCE**0.5 * law.standard_normal(40))
        errors[t] = np.append(model.intercept_, model.coef_) - THETA
    white = np.linalg.solve(np.linalg.cholesky(model.covariance_), errors.T)
    limit = scipy.stats.chi2.isf(1e-6, 6)

    def ratio(scale):
        values = np.linalg.eigvalsh(white @ white.T / trials) / scale
        return trials * (values.sum() - np.log(values).sum() - 3)

    assert ratio(1.0) < limit < ratio(1.5)
    assert trials * (white.mean(axis=1) ** 2).sum() < scipy.stats.chi2.isf(1e-6, 3)


# --- a range --------------------------------------------------------------------------------------

SPAN = (-1.0, 1.5)


def clipped_trials(trials, samples=600):
    """Errors of the estimate and of least squares on such releases, and a model."""
    law, theta = np.random.default_rng(2), np.array([0.3, 0.8])
    x = law.standard_normal((samples, 1))
    model, found, level = regression(2.0, 0.25, range=SPAN), [], pv.StreamLevel.constant(2.0)
    for _ in range(trials):
        y = theta[0] + theta[1] * x[:, 0] + 0.5 * law.standard_normal(samples)
        model.fit(x, y)
        plain = pv.PrivateRLS(level, 2, 0.25)
        released = pv.StreamMechanism(level, range=SPAN).release(y)
        plain.update(released, np.insert(x, 0, 1.0, axis=1))
        found.append([np.append(model.intercept_, model.coef_), plain.value])
    return *np.moveaxis(np.array(found) - theta, 1, 0), model


def test_a_range_is_undone():
    """Mean error within 5 standard errors; least squares is off by more than 10 of them.

    The trace of the white errors is χ²: false alarm 1e-6. (Off by 20 in the mean of many runs.)
    """
    errors, plain, model = clipped_trials(60)
    assert isinstance(model.result_, ClippedResult)
    assert 0.1 < model.result_.clipped < 0.3
    assert model.result_.simulated is False
    spread = np.sqrt(np.diagonal(model.covariance_) / len(errors))
    assert (np.abs(errors.mean(axis=0)) < 5 * spread).all()
    white = np.linalg.solve(np.linalg.cholesky(model.covariance_), errors.T)
    low, high = scipy.stats.chi2.ppf([5e-7, 1 - 5e-7], white.size)
    assert low < (white**2).sum() < high
    assert abs(plain.mean(axis=0)[1]) > 10 * spread[1]
    assert model.efficiency_ < 1


def test_a_range_is_undone_where_nobody_knows_the_noise():
    """θ̂ within 5 of its errors and σ² within 5 of its own; and none from n samples."""
    law, samples = np.random.default_rng(5), 4000
    x = law.standard_normal((samples, 1))
    y = 0.3 + 0.8 * x[:, 0] + 0.5 * law.standard_normal(samples)
    model = regression(8.0, None, range=SPAN).fit(x, y)
    errors = np.append(model.intercept_, model.coef_) - [0.3, 0.8]
    assert (np.abs(errors) < 5 * model.result_.standard_error).all()
    assert abs(model.noise_variance_ - 0.25) < 5 * model.result_.noise_error
    assert model.result_.degrees_of_freedom == samples - 2
    with pytest.raises(InvalidInput, match="nothing is left over"):
        regression(8.0, None, range=SPAN).fit(x[:2], y[:2])


@pytest.mark.parametrize("error", [NotIdentifiable, NumericalFailure])
def test_what_clipping_hides_is_no_reason_to_release_again(monkeypatch, error):
    """No estimate from what is left: the release stays and counts."""

    def hides(*_, **__):
        raise error("clipping leaves nothing of it.")

    monkeypatch.setattr("privest.estimator.regression.estimate_clipped", hides)
    model = regression(range=(-9.0, 9.0))
    with pytest.raises(error, match="clipping leaves nothing"):
        model.fit(X, Y)
    assert model.n_samples_seen_ == 40
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert not hasattr(model, "coef_")


def test_levels_of_every_sample_and_a_range():
    levels = np.linspace(0.5, 3.0, 40)
    levels[5] = 0.0
    model = regression(levels, range=(-9.0, 9.0)).fit(X, Y)
    assert model.result_.measurements == 39
    assert model.noise_variance_ == VARIANCE


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"level": pv.StreamLevel.constant(1.0, lags=[0.5])}, "does not look back"),
        ({"noise": pv.noise.Laplace(0.5)}, "Gaussian noise"),
        ({"range": (1.0, 1.0)}, "low < high"),
        ({"range": 3.0}, "pair of numbers"),
    ],
)
def test_ranges_that_are_refused(more, message):
    with pytest.raises(InvalidInput, match=message):
        regression(**{"range": SPAN} | more).fit(X, Y)


def test_a_frame_of_one_column_is_a_vector():
    with pytest.warns(match="column-vector"):
        assert regression().fit(X, pd.DataFrame({"y": Y})).n_samples_seen_ == 40
