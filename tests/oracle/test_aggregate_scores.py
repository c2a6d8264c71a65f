"""Yes/no from released sums against statsmodels, in the limit of no privacy noise."""

import math

import numpy as np
import pytest
import statsmodels.api as sm

from aggregate_cases import Recorded, design_of, most_of, weights_of
from privest import aggregate
from privest.errors import NotIdentifiable
from privest.privacy import Range

LEVEL = 1e6  # noise of a released sum: 1e-3 of a value


def table(groups=False, rows=400):
    rng = np.random.default_rng(rows + groups)
    H = np.column_stack([np.ones(rows), rng.standard_normal((rows, 2))])
    H[:, 2] *= np.exp(rng.standard_normal(rows))
    if groups:
        H = np.eye(3)[rng.integers(0, 3, rows)]
    eta = H @ [-0.5, 0.7, 0.2]
    return H, (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(float)


def solved(design, y, source, level=LEVEL):
    most = most_of(design)
    own = aggregate.split("none", 3, Range(0.0, 1.0), level=level, most=most)
    z = aggregate.release_sums(design, [y], Range(0.0, 1.0), own, source).sums
    return aggregate.solve_scores(design, z, own.level)[:2]


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("owners", [None, np.arange(400) // 2])
def test_without_noise_it_is_the_weighted_fit(groups, owners):
    """A canonical GLM whose rows have the weights of the release."""
    H, y = table(groups)
    design = design_of(H, owners)
    _, L = weights_of(design)
    weights = np.linalg.norm(L, axis=1) / np.linalg.norm(H @ design.weights.root.T, axis=1)
    fit = sm.GLM(y, H, family=sm.families.Binomial(), var_weights=weights).fit(
        tol=1e-14, maxiter=200
    )
    theta, covariance = solved(design, y, Recorded())
    np.testing.assert_allclose(theta, fit.params, rtol=1e-6, atol=1e-8)
    mean = fit.fittedvalues
    W = mean * (1 - mean)
    J = np.linalg.inv(L.T @ (H * W[:, None]))
    for level in (LEVEL, 0.01):
        wanted = J @ (np.eye(3) / level + L.T @ (L * W[:, None])) @ J.T
        found = solved(design, y, Recorded(), level)[1]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-9 * np.abs(wanted).max())
    if groups and owners is None:  # then weights do not matter
        plain = sm.GLM(y, H, family=sm.families.Binomial()).fit(tol=1e-14)
        np.testing.assert_allclose(theta, plain.params, rtol=1e-6)
        np.testing.assert_allclose(np.diag(covariance), plain.bse**2, rtol=1e-3)


def test_noise_moves_the_estimate_as_stated():
    """θ̂ − its noiseless value has covariance J⁻¹J⁻ᵀ/c, to first order in the noise."""
    H, y = table()
    design, rng = design_of(H), np.random.default_rng(1)
    _, L = weights_of(design)
    exact, _ = solved(design, y, Recorded(), 1e4)
    mean = 1 / (1 + np.exp(-(H @ exact)))
    W = mean * (1 - mean)
    J = np.linalg.inv(L.T @ (H * W[:, None]))
    moved = np.array([
        solved(design, y, Recorded(rng), 1e4)[0] - exact for _ in range(200)
    ])  # fmt: skip
    white = moved @ np.linalg.inv(np.linalg.cholesky(J @ J.T / 1e4)).T
    # 600 squares of standard normal numbers: five deviations are .29; curvature is below .01.
    assert abs((white**2).mean() - 1) < 5 * math.sqrt(2 / white.size)


@pytest.mark.parametrize("value", [1.02, -0.02])
def test_sums_without_a_root_have_no_estimate(value):
    """Shares that cannot be: more than all yes, fewer than none."""
    H, _ = table()
    design = design_of(H)
    z = 1e3 * weights_of(design)[1].sum(axis=0) * value
    with pytest.raises(NotIdentifiable, match="no estimate"):
        aggregate.solve_scores(design, z, LEVEL)


def test_large_noise_ends_in_an_estimate_or_in_none():
    """Sums far outside: an error of the right kind, never a wrong number."""
    H, y = table(rows=60)
    design, rng, none = design_of(H), np.random.default_rng(3), 0
    level = 0.02
    for _ in range(100):
        source = Recorded(rng)
        try:
            theta, covariance = solved(design, y, source, level)
        except NotIdentifiable:
            none += 1
            continue
        assert np.isfinite(covariance).all()
        assert (np.diag(covariance) > 0).all()
        assert np.linalg.norm(theta * np.sqrt((H**2).mean(axis=0))) < 50
    assert 5 < none < 95
