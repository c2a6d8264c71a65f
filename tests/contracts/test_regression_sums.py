"""PrivateLinearRegression(form="aggregate"): scikit-learn's contract, coverage, what is charged."""

import pickle
import struct

import numpy as np
import pytest
import scipy.stats
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import privest as pv
from privest.errors import BudgetExceeded, InvalidInput, NotIdentifiable

ENDS = (-4.0, 6.0)
THETA = np.array([1.0, 0.5, -0.2])


def table(rows=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 2)) * [1.0, 3.0]
    return X, THETA[0] + X @ THETA[1:] + 0.5 * rng.standard_normal(rows)


def sums(**other):
    asked = {"epsilon": 1.0, "range": ENDS, "simulate": True}
    return pv.PrivateLinearRegression(form="aggregate", **asked | other)


NO_WEIGHTS = dict.fromkeys(
    [
        "check_sample_weights_pandas_series", "check_sample_weights_not_an_array",
        "check_sample_weights_list", "check_all_zero_sample_weights_error",
        "check_sample_weights_shape", "check_sample_weights_not_overwritten",
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ],
    "noisy sums take no weights",
)  # fmt: skip


@parametrize_with_checks(
    [sums(epsilon=1e4, range=(-10, 10))], expected_failed_checks=lambda _: NO_WEIGHTS
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_intervals_cover_and_errors_are_those_of_the_plan():
    """Coverage of 3 × 300 intervals: .95 within 5 binomial deviations of 300 (intervals of one
    release are dependent)."""
    X, _ = table()
    plan = pv.plan(
        {"a": X[:, 0], "b": X[:, 1], "y": X[:, 0]}, target="y", features=["a", "b"],
        form="aggregate", epsilon=1.0, range=ENDS, residual_variance=0.25,
    )  # fmt: skip
    inside, found = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        y = THETA[0] + X @ THETA[1:] + 0.5 * rng.standard_normal(len(X))
        model = sums(random_state=seed).fit(X, y)
        low, high = model.interval().T
        inside.append((low < THETA) & (high > THETA))
        found.append(np.append(model.intercept_, model.coef_))
    share = np.mean(inside)
    assert abs(share - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 300), share
    spread = np.var(np.array(found) - THETA, axis=0)
    away = scipy.stats.chi2.ppf([1e-5, 1 - 1e-5], 300) / 300
    assert (
        (away[0] < spread / plan.standard_error**2) & (spread / plan.standard_error**2 < away[1])
    ).all()


def test_the_account_is_charged_what_the_plan_says(tmp_path):
    X, y = table(500)
    named = {"a": X[:, 0], "b": X[:, 1], "y": y}
    plan = pv.plan(
        named, target="y", features=["a", "b"], form="aggregate", epsilon=1.0, range=ENDS
    )
    with pv.Ledger(tmp_path / "ledger.db", marks=tmp_path / "marks") as ledger:
        account = ledger.account("y")
        model = sums(simulate=False, account=account).fit(X, y)
        assert not model.result_.simulated
        (entry,) = [one for one in ledger.history("y") if one.cost is not None]
        assert entry.cost == plan.cost
        assert (entry.start, entry.stop) == (0, 500)
        before = model.coef_
        with pytest.raises(BudgetExceeded):
            model.fit(X, y)
        assert not np.array_equal(getattr(model, "coef_", None), before)
    again = clone(sums(simulate=False))
    with pytest.raises(InvalidInput, match="account"):
        again.fit(X, y)


def test_missing_readings_are_left_out_and_infinite_ones_clipped(tmp_path):
    X, y = table(400)
    y[3], y[5] = np.nan, np.inf
    with pv.Ledger(tmp_path / "ledger.db", marks=tmp_path / "marks") as ledger:
        model = sums(simulate=False, account=ledger.account("y")).fit(X, y)
    assert model.n_samples_seen_ == 399
    assert np.isfinite(model.result_.standard_error).all()
    with pytest.raises(ValueError, match="NaN"):
        sums().fit(X, y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"range": None}, "need a range"),
        ({"range": (1, 2, 3)}, "pair"),
        ({"epsilon": None}, "epsilon or level"),
        ({"level": 0.1}, "epsilon or level"),
        ({"epsilon": None, "level": pv.PrivacyLevel(0.1)}, "numbers"),
        ({"epsilon": None, "level": -1.0}, "level"),
        ({"noise": pv.noise.Laplace(1.0)}, "numbers"),
        ({"noise": -1.0}, "noise"),
        ({"form": "sums"}, "form"),
        ({"form": "rows"}, "epsilon is for"),
        ({"simulate": False, "random_state": 1}, "account|random_state"),
    ],
)
def test_what_sums_do_not_have_is_refused(given, message):
    X, y = table(100)
    with pytest.raises(InvalidInput, match=message):
        pv.PrivateLinearRegression(
            **{"form": "aggregate", "epsilon": 1.0, "range": ENDS, "simulate": True} | given
        ).fit(X, y)


def test_weights_pieces_and_deviations_are_refused():
    X, y = table(100)
    with pytest.raises(InvalidInput, match="no sample_weight"):
        sums().fit(X, y, sample_weight=np.ones(100))
    assert not hasattr(sums(), "partial_fit")
    model = sums().fit(X, y)
    with pytest.raises(InvalidInput, match="state noise"):
        model.predict(X, return_std=True)
    stated = sums(noise=0.25, random_state=1).fit(X, y)
    mean, deviation = stated.predict(X, return_std=True)
    H = np.insert(X, 0, 1.0, axis=1)
    expected = np.einsum("ij,jk,ik->i", H, stated.covariance_, H) + 0.25
    np.testing.assert_allclose(deviation**2, expected, rtol=1e-12)
    np.testing.assert_allclose(mean, H @ stated.result_.value, rtol=1e-12)
    with pytest.raises(NotIdentifiable, match="x1"):
        sums().fit(X[:, [0, 0]], y)


def test_no_reading_is_kept():
    X, y = table(100)
    model = sums(random_state=2).fit(X, y)
    text = pickle.dumps(model)
    assert not any(struct.pack("<d", x) in text for x in y)
    assert np.array_equal(pickle.loads(text).coef_, model.coef_)
