"""`pv.estimate(…, prior=…)`: posterior mean, covariance and interval, and the bound beside it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from privest.errors import InvalidInput
from privest.estimator.result import Estimate
from strategies import psd_matrix

RNG = np.random.default_rng(14)
FEATURES = RNG.standard_normal((300, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
THETA = np.array([1.0, 0.2, -0.1])


def table(rng=RNG):
    y = THETA[0] + FEATURES @ THETA[1:] + rng.standard_normal(300)
    return {"a": FEATURES[:, 0], "b": FEATURES[:, 1], "y": y}


def released(**more):
    asked = {"epsilon": 1.0, "range": (-6.0, 8.0), "residual_variance": 1.0} | more
    return pv.plan(table(), "y ~ a + b", **asked).simulate(rng=3)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_it_is_the_printed_formula(seed, n):
    """(C⁻¹ + P⁻¹)⁻¹ and its mean; covariances of condition below 1e4: rounding below 1e-9."""
    rng = np.random.default_rng(seed)
    C, P = (psd_matrix(rng, n) + 0.01 * np.eye(n) for _ in range(2))
    value, m = rng.standard_normal((2, n))
    found = pv.estimate(Estimate(value=value, covariance=C), prior=P, prior_mean=m)
    inverse = np.linalg.inv(C), np.linalg.inv(P)
    covariance = np.linalg.inv(sum(inverse))
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-7, atol=1e-9)
    mean = covariance @ (inverse[0] @ value + inverse[1] @ m)
    np.testing.assert_allclose(found.value, mean, rtol=1e-7, atol=1e-9)
    assert (found.standard_error <= np.sqrt(np.diagonal(C)) * (1 + 1e-9)).all()


def test_ends_of_the_prior():
    """A wide prior changes nothing; one of variance 0 knows the coefficient."""
    z = released(publish="matrix")
    plain = pv.estimate(z)
    wide = pv.estimate(z, prior=1e12)
    np.testing.assert_allclose(wide.value, plain.value, rtol=1e-6)
    np.testing.assert_allclose(wide.interval(), plain.interval(), rtol=1e-6)
    known = pv.estimate(z, prior=[1.0, 0.0, 1.0], prior_mean=[0.0, 0.25, 0.0])
    assert known.value[1] == 0.25
    assert known.standard_error[1] == 0


def test_without_a_matrix_every_coefficient_has_its_own_posterior():
    z = released()
    plain, found = pv.estimate(z), pv.estimate(z, prior=0.04, prior_mean=0.1)
    variance = np.diagonal(plain.covariance)
    share = 0.04 / (0.04 + variance)
    np.testing.assert_allclose(found.value, 0.1 + share * (plain.value - 0.1), rtol=1e-9)
    np.testing.assert_allclose(found.standard_error**2, share * variance, rtol=1e-9)
    assert np.isnan(found.covariance[0, 1])
    assert found.bound is None
    # A matrix of the prior counts by its diagonal: covariances of θ̂ are not known.
    tied = 0.04 * (np.eye(3) + 0.5 * (1 - np.eye(3)))
    np.testing.assert_allclose(pv.estimate(z, prior=tied, prior_mean=0.1).value, found.value)
    assert any("mean of the prior" in text for text in found.warnings)


def test_degrees_of_freedom_count_the_share_that_is_from_the_release():
    """d log v_post/d log v = share: f/share², so a strong prior makes intervals normal."""
    z = released()
    plain = pv.estimate(z)
    for prior in (1e-9, 0.04, 1e9):
        found = pv.estimate(z, prior=prior)
        share = prior / (prior + np.diagonal(plain.covariance))
        expected = plain.degrees_of_freedom / share**2
        np.testing.assert_allclose(found.degrees_of_freedom, expected, rtol=1e-9)


def test_the_bayesian_bound_of_the_matrix_is_that_of_its_model():
    """Σ_BPPCR of z = √c₁·Bθ + noise, by its formula; the posterior is near it."""
    z = released(publish="matrix")
    P = np.diag([4.0, 0.04, 0.04])
    found = pv.estimate(z, prior=P)
    sums = z.sums[0]
    B, gram = sums.matrix["cross"], sums.matrix["gram"]
    V = np.eye(3) + sums.level * 1.0 * gram
    information = sums.level * B.T @ np.linalg.solve(V, B)
    bound = np.linalg.inv(information + np.linalg.inv(P))
    np.testing.assert_allclose(found.bound, bound, rtol=1e-9)
    assert found.efficiency > 0.8
    assert pv.estimate(z).bound is None


def test_a_model_and_rows_take_a_prior_too():
    model = pv.LinearModel(FEATURES, noise=1.0)
    mechanism = pv.GaussianMechanism(np.eye(300))
    y = FEATURES @ [0.2, -0.1] + RNG.standard_normal(300)
    z = mechanism.simulate(y, np.random.default_rng(1))
    found = pv.estimate(z, model, mechanism=mechanism, prior=0.01)
    bound = pv.bound(model, np.eye(300), prior=0.01).covariance
    np.testing.assert_allclose(found.bound, bound, rtol=1e-9)
    np.testing.assert_allclose(found.covariance, bound, rtol=1e-5)  # the grid's part of the noise
    rows = pv.plan(table(), "y ~ a + b", form="rows", level=1.0).simulate(rng=2)
    before, after = pv.estimate(rows), pv.estimate(rows, prior=0.01)
    assert np.abs(after.value).sum() < np.abs(before.value).sum()
    assert (after.standard_error < before.standard_error).all()


def test_what_has_no_posterior_is_refused():
    two = pv.plan(
        table() | {"u": RNG.standard_normal(300)}, "y + u ~ a", epsilon=3.0,
        range={"y": (-6, 8), "u": (-5, 5)},
    ).simulate(rng=1)  # fmt: skip
    with pytest.raises(InvalidInput, match="one private column"):
        pv.estimate(two, prior=1.0)
    z = released()
    for wrong in (-1.0, np.ones(2), "x", np.diag([1.0, -1.0, 1.0])):
        with pytest.raises(InvalidInput, match="prior"):
            pv.estimate(z, prior=wrong)
    with pytest.raises(InvalidInput, match="prior_mean"):
        pv.estimate(z, prior=1.0, prior_mean=[1.0, 2.0])
    unknown = Estimate(value=np.array([np.nan]), covariance=np.array([[np.inf]]))
    with pytest.raises(InvalidInput, match="finite"):
        pv.estimate(unknown, prior=1.0)


def test_intervals_cover_on_average_over_the_prior():
    """400 θ drawn from the prior: 95% to within four standard errors of a proportion."""
    rng = np.random.default_rng(6)
    P = np.array([1.0, 0.04, 0.04])
    data = table()
    plan = pv.plan(data, "y ~ a + b", epsilon=1.0, range=(-6.0, 6.0))
    inside = []
    for _ in range(400):
        theta = np.sqrt(P) * rng.standard_normal(3)
        data["y"] = theta[0] + FEATURES @ theta[1:] + rng.standard_normal(300)
        ends = pv.estimate(plan.simulate(rng=rng), prior=P).interval()
        inside.append((ends[:, 0] <= theta) & (theta <= ends[:, 1]))
    cover = np.mean(inside, axis=0)
    assert cover.min() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 400)
