"""Weights of rows through plan, release and estimate, against dense formulas and statsmodels."""

import numpy as np
import pytest
import statsmodels.api as sm

from charged import charged
from privest.errors import InvalidInput
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import simulate_release
from privest.workflow.spec import Privacy, Public
from workflow_tables import LEVEL, UNIT, VARIANCE, matrix, people, spec


def table(rows=200, seed=0):
    rng = np.random.default_rng([seed, rows])
    return people(rows, seed) | {"weight": np.exp(rng.normal(size=rows)).round(4) + 1e-3}


def weighted(**changes):
    return spec(weights="weight", **changes)


def released(folder, given, seed=11, **changes):
    """z, and the file."""
    path = folder / f"z{len(list(folder.iterdir()))}.csv"
    plan = make_plan(weighted(**changes), given)
    return simulate_release(plan, path, np.random.default_rng(seed), given).values, path


@pytest.mark.parametrize("noise", [Public(), Public(VARIANCE)])
@pytest.mark.parametrize(("errors", "kind"), [("auto", "HC3"), ("HC2", "HC2")])
def test_survey_weights_are_weighted_least_squares_with_a_sandwich(tmp_path, errors, kind, noise):
    given = table()
    z, path = released(tmp_path, given, public=noise)
    found = estimate(path, cov_type=errors)
    known = sm.WLS(z, matrix(given), weights=given["weight"]).fit(cov_type=kind, use_t=True)
    np.testing.assert_allclose(found.value, known.params, rtol=1e-9)
    assert (found.standard_error >= known.bse * (1 - 1e-9)).all()
    np.testing.assert_allclose(found.standard_error, known.bse, rtol=0.05)
    assert (np.diff(found.interval()) > 0.99 * np.diff(known.conf_int())).all()
    assert found.method == f"{kind}, survey weights"
    added = found.release.drawn.variance
    assert found.noise_found == pytest.approx(
        sm.OLS(z, matrix(given)).fit().mse_resid - added, rel=1e-9
    )
    with pytest.raises(InvalidInput, match="auto, HC2, HC3"):
        estimate(path, cov_type="t")


def test_few_rows_with_survey_weights_have_few_degrees_of_freedom(tmp_path):
    given = table(20)
    z, path = released(tmp_path, given, seed=12)
    found = estimate(path)
    known = sm.WLS(z, matrix(given), weights=given["weight"]).fit(cov_type="HC3")
    assert (found.standard_error >= known.bse * (1 - 1e-9)).all()
    assert found.method == "HC3, survey weights"
    assert (found.degrees_of_freedom < 16).all()


def test_a_plan_with_survey_weights_is_the_sandwich():
    given = table()
    H, w = matrix(given), given["weight"][:, None]
    A = np.linalg.inv(H.T @ (w * H))
    V = A @ (H.T @ (w**2 * H)) @ A
    plan = make_plan(weighted(), given)
    for level in (LEVEL, 10 * LEVEL):
        known = np.sqrt((VARIANCE + UNIT / level) * np.diag(V))
        np.testing.assert_allclose(plan.errors(plan.column, level).total, known, rtol=1e-8)
    np.testing.assert_allclose(plan.classical_error, np.sqrt(VARIANCE * np.diag(V)), rtol=1e-8)
    open_ = make_plan(weighted(public=Public()), given)
    np.testing.assert_allclose(open_.privacy_error, np.sqrt(UNIT * np.diag(V) / LEVEL), rtol=1e-8)
    wanted = Privacy(standard_error={"age": float(plan.standard_error[1])})
    assert make_plan(weighted(privacy=wanted), given).level == pytest.approx(LEVEL)
    # A mean: the variance of Kish, (σ² + 1/s)Σw²/(Σw)², and the grid's.
    mean = make_plan(weighted(features=(), categories={}), given)
    kish = (w**2).sum() / w.sum() ** 2
    assert mean.standard_error[0] ** 2 == pytest.approx((VARIANCE + UNIT / LEVEL) * kish, rel=1e-9)


def test_rows_of_weight_zero_are_refused_before_anything_is_drawn(tmp_path):
    given = table()
    given["weight"][3] = 0.0
    with pytest.raises(InvalidInput, match="weights must be above 0"):
        make_plan(weighted(), given)
    with pytest.raises(InvalidInput, match="weights must be above 0"):
        charged(stated_plan(weighted()), tmp_path / "z.csv", given)
    assert not (tmp_path / "z.csv").exists()


def test_equal_weights_are_none(tmp_path):
    given = table() | {"weight": np.full(200, 2.5)}
    _, path = released(tmp_path, given)
    found = estimate(path)
    plain = tmp_path / "plain.csv"
    simulate_release(make_plan(spec(), given), plain, np.random.default_rng(11), given)
    known = estimate(plain)
    np.testing.assert_allclose(found.value, known.value, rtol=1e-9)
    np.testing.assert_allclose(found.interval(), known.interval(), rtol=1e-8)
