"""The workflow against independent routes: `pv.bound`, dense formulas, other estimators, peers."""

import math

import numpy as np
import pytest
import scipy.stats
import statsmodels.api as sm

import privest as pv
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.privacy import gdp
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.release import simulate_release
from privest.workflow.spec import Privacy, Public
from workflow_tables import LEVEL, UNIT, VARIANCE, matrix, people, spec, write

# H'H of these tables has a condition number below 1e5; QR loses digits with its root: 1e-13.
RTOL = 1e-10


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def released(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("oracle") / "z.parquet"
    plan = make_plan(spec(), table)
    header = simulate_release(plan, path, np.random.default_rng(3), table)
    return plan, header, path, header.values


# --- the plan -------------------------------------------------------------------------------------


def test_standard_errors_are_those_of_the_bound(table):
    plan = make_plan(spec(), table)
    model = pv.LinearModel(matrix(table), noise=pv.noise.Gaussian(cov=VARIANCE))
    for level in (0.01, LEVEL, 1e3):
        floor = pv.bound(model, pv.PrivacyLevel(level / UNIT))  # the grid makes 1/s a little larger
        np.testing.assert_allclose(
            plan.errors(plan.column, level).total, np.sqrt(np.diag(floor.covariance)), rtol=RTOL
        )
        np.testing.assert_allclose(
            plan.classical_error, np.sqrt(np.diag(floor.classical)), rtol=RTOL
        )
    np.testing.assert_array_equal(plan.standard_error, plan.errors(plan.column, LEVEL).total)


def test_standard_errors_are_the_dense_formula(table):
    """Theorem 2 literally: (H'(S^-1 + Σ)^-1 H)^-1 with matrices of full size."""
    H, K = matrix(table), len(table["ldl"])
    information = H.T @ np.linalg.inv(UNIT * np.eye(K) / LEVEL + VARIANCE * np.eye(K)) @ H
    dense = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(make_plan(spec(), table).standard_error, dense, rtol=1e-8)


def test_the_price_of_privacy(table):
    plan = make_plan(spec(), table)
    private = plan.standard_error**2 - plan.classical_error**2
    np.testing.assert_allclose(private, plan.privacy_error**2, rtol=RTOL)
    errors = [plan.errors(plan.column, times * LEVEL).total for times in (0.1, 1.0, 10.0)]
    np.testing.assert_allclose(errors[1], plan.standard_error, rtol=1e-12)
    assert (np.diff(errors, axis=0) < 0).all()


@pytest.mark.parametrize("of", ["intercept", "age", "sex=male"])
def test_accuracy_to_level_and_back(table, of):
    open_ = make_plan(spec(), table)
    for times in (1.0001, 1.5, 30.0):
        wanted = times * open_.classical_error[open_.index(of)]
        plan = make_plan(spec(privacy=Privacy(standard_error={of: wanted})), table)
        # (E² - σ²A)/A loses digits as E comes near σ√A: those of times² - 1.
        assert plan.standard_error[plan.index(of)] == pytest.approx(wanted, rel=RTOL)
        back = make_plan(spec(privacy=Privacy(plan.level)), table)
        assert back.standard_error[back.index(of)] == pytest.approx(wanted, rel=RTOL)


def test_an_accuracy_beyond_the_data_is_refused(table):
    open_ = make_plan(spec(), table).classical_error[1]
    with pytest.raises(InvalidInput, match="without any privacy it is"):
        make_plan(spec(privacy=Privacy(standard_error={"age": open_ * 0.999})), table)
    with pytest.raises(InvalidInput, match="no coefficient 'sex'"):
        make_plan(spec(privacy=Privacy(standard_error={"sex": 1.0})), table)


def test_differential_privacy_both_ways(table):
    """δ from ε and back by the profile of a Gaussian of shift μ = c√s, written out."""
    for epsilon, delta, move in ((0.1, 1e-9, 3.0), (1.0, 1e-6, 0.5), (8.0, 0.01, 10.0)):
        plan = make_plan(
            spec(privacy=Privacy(epsilon=epsilon, delta=delta, sensitivity=move)), table
        )
        mu = move * math.sqrt(plan.level)

        def profile(mu, epsilon=epsilon):
            low, high = scipy.stats.norm.cdf([-epsilon / mu - mu / 2, -epsilon / mu + mu / 2])
            return high - math.exp(epsilon) * low

        # The grid costs at most one step of μ; the difference has an absolute error of some 1e-16.
        assert profile(mu) <= delta * (1 + 1e-6) + 1e-14
        assert profile(mu + GRID) >= delta * (1 - 1e-6) - 1e-14
        less = gdp.epsilon_of(gdp.mu_of(epsilon, delta) - GRID, delta)
        assert plan.epsilon >= less * (1 - 1e-6)  # exact noise has a slack of 2e-7
        assert plan.epsilon <= epsilon  # never more than was promised
        stated = make_plan(spec(privacy=Privacy(plan.level, delta=delta, sensitivity=move)), table)
        assert stated.epsilon == plan.epsilon
    assert make_plan(spec(), table).epsilon is None


def test_how_many_rows(table):
    """More of the same rows: H stacked r times has errors 1/√r as large."""
    plan = make_plan(spec(), table)
    now = plan.standard_error[2]
    assert plan.rows_for(now, "bmi") == plan.rows
    for times in (2, 5):
        more = make_plan(spec(), {name: np.tile(v, times) for name, v in table.items()})
        assert plan.rows_for(float(more.standard_error[2]), "bmi") == times * plan.rows
    assert plan.rows_for(1e300, "bmi") == len(plan.names)  # fewer rows say nothing
    needed = plan.rows_for(now / 1.73, "bmi")
    assert now * math.sqrt(plan.rows / needed) <= now / 1.73
    assert now * math.sqrt(plan.rows / (needed - 1)) > now / 1.73
    with pytest.raises(InvalidInput, match="no coefficient"):
        plan.rows_for(1.0, "weight")


def test_the_noise_variance_of_a_reference_set(table, tmp_path):
    """RSS/(m - n) of ordinary least squares; of a logarithm too."""
    other = people(90, seed=8)
    file = write(other, tmp_path / "reference.csv")
    plan = make_plan(spec(public=Public(reference=str(file))), table)
    fitted = sm.OLS(other["ldl"], matrix(other)).fit()
    assert plan.column.residual_variance == pytest.approx(fitted.mse_resid, rel=RTOL)
    assert plan.column.reference_rows == 90
    other["ldl"] = np.exp(other["ldl"])
    file = write(other, tmp_path / "skewed.csv")
    plan = make_plan(spec(public=Public(reference=str(file)), transform="log"), table)
    fitted = sm.OLS(np.log(other["ldl"]), matrix(other)).fit()
    assert plan.column.residual_variance == pytest.approx(fitted.mse_resid, rel=1e-8)


# --- the estimate ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("errors", "kind"), [("t", "nonrobust"), ("HC2", "HC2"), ("auto", "HC3")])
def test_errors_from_the_release_are_those_of_statsmodels(released, table, errors, kind):
    _, header, path, z = released
    added = header.drawn.variance
    found = estimate(path, cov_type=errors)
    peer = sm.OLS(z, matrix(table)).fit(cov_type=kind, use_t=True)
    noise = peer.normalized_cov_params * added
    # The floor: in no direction less than the known noise, and theirs where it is more than that.
    values, vectors = scipy.linalg.eigh(peer.cov_params(), noise)
    turned = noise @ vectors
    floored = (turned * np.maximum(values, 1.0)) @ turned.T
    np.testing.assert_allclose(found.covariance, floored, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(found.standard_error, np.sqrt(np.diag(floored)), rtol=1e-9)
    if errors == "t":
        np.testing.assert_allclose(found.covariance, peer.cov_params(), rtol=1e-9)
        np.testing.assert_allclose(found.interval(), peer.conf_int(), rtol=1e-9)
        np.testing.assert_allclose(found.p_values(), peer.pvalues, rtol=1e-7, atol=1e-15)
    else:  # fewer degrees of freedom than K − n, by design: wider, at these rows by little
        wider = np.ptp(found.interval(), axis=1) / np.ptp(peer.conf_int(), axis=1)
        assert (wider >= 1 - 1e-9).all()
        assert (wider < 1.1).all()
    v = peer.ssr / 196
    assert found.noise_found == pytest.approx(v - added, rel=1e-9)
    ends = peer.ssr / scipy.stats.chi2.ppf([0.975, 0.025], 196) - added
    np.testing.assert_allclose(found.noise_interval, ends, rtol=1e-9)
    # Split into what the release noise adds and the rest: nowhere more than the noise, exactly that
    # where the rest is not negative by chance.
    share = np.linalg.eigvals(np.linalg.solve(noise, found.privacy)).real
    assert share.max() < 1 + 1e-9
    assert share.max() > 1 - 1e-9
    if errors == "t":
        np.testing.assert_allclose(found.privacy, noise, rtol=1e-7, atol=1e-7 * noise.max())


def test_a_transformed_target(tmp_path):
    table = people()
    table["ldl"] = np.exp(table["ldl"])
    plan = make_plan(spec(public=Public(VARIANCE), transform="log"), table)
    header = simulate_release(plan, tmp_path / "z.csv", np.random.default_rng(1), table)
    z = header.values
    noise = z - np.log(table["ldl"])
    assert np.mean(noise**2) == pytest.approx(1 / LEVEL, rel=5 * np.sqrt(2 / 200))
    peer = sm.OLS(z, matrix(table)).fit()
    # A transform needs a range, and the fit allows for what it clips under the model.
    found = estimate(tmp_path / "z.csv")
    assert found.clipped < 1e-5
    np.testing.assert_allclose(found.value, peer.params, rtol=1e-9 + found.clipped)
