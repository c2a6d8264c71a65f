"""thm:rate_attainablility and what goes past it: noise shapes, budgets, realised information."""

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from privest.bounds import trace_bound
from privest.pipeline import (
    LeastSquaresRelease,
    MaximumLikelihoodRelease,
    OptimalScoreRelease,
    jacobian,
    optimal_score,
)
from strategies import psd_matrix

LAPLACE, LOGISTIC, CAUCHY = pv.noise.Laplace(1.0), pv.noise.Logistic(1.0), pv.noise.Cauchy(1.0)
SKEWED = pv.noise.GaussianMixture([0.8, 0.2], means=[-0.5, 2.0], sds=[0.5, 1.2])


def matrix(seed, count, n, scales=1.0):
    return np.random.default_rng(seed).standard_normal((count, n)) * scales


def square_root(a):
    values, vectors = np.linalg.eigh(a)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


# --- noise shapes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "law"), [(OptimalScoreRelease, LAPLACE), (MaximumLikelihoodRelease, LOGISTIC)]
)
def test_the_trace_shape_gains_what_the_theory_says(cls, law):
    """Ill-scaled H: privacy noise less by n tr A/(tr A^½)², for the same sensitivity."""
    H = matrix(0, 200, 3, scales=[0.02, 1.0, 30.0])
    model = pv.LinearModel(H, noise=law)
    A = np.linalg.inv(H.T @ H)
    best, paper = cls(model, 200.0), cls(model, 200.0, shape="paper")
    factor = 3 * np.trace(A) / np.trace(square_root(A)) ** 2
    assert factor > 2.5
    gain = np.trace(paper.privacy) / np.trace(best.privacy)
    per_sensitivity = gain * best.score.sensitivity / paper.score.sensitivity
    assert per_sensitivity == pytest.approx(factor, rel=1e-9)
    assert best.limit_loss < paper.limit_loss
    np.testing.assert_allclose(
        best.privacy, best.score.sensitivity * np.trace(square_root(A)) / 200 * square_root(A),
        rtol=1e-7, atol=1e-9 * np.abs(best.privacy).max(),
    )  # fmt: skip
    np.testing.assert_allclose(paper.privacy, paper.score.sensitivity * 3 / 200 * A, rtol=1e-9)
    # λ = (tr A^½)²/(s tr A), and n/s for the paper's: the loss is J(λ)·tr A in both.
    for release, weight in ((best, np.trace(square_root(A)) ** 2 / 200 / np.trace(A)),
                            (paper, 3 / 200)):  # fmt: skip
        assert release.shape.weight == pytest.approx(weight, rel=1e-9)
        assert release.limit_loss == pytest.approx(
            release.score.cost(weight) * np.trace(A), rel=1e-9
        )


def test_the_paper_formula_for_maximum_likelihood():
    """cov d = (n/s)·E l''²/(E l'')²·A: for logistic noise I = 1/3, E l''² = 2/15."""
    H = matrix(1, 50, 2)
    release = MaximumLikelihoodRelease(pv.LinearModel(H, noise=LOGISTIC), 7.0, shape="paper")
    A = np.linalg.inv(H.T @ H)
    np.testing.assert_allclose(release.privacy, 2 / 7 * (2 / 15) * 9 * A, rtol=1e-10)
    np.testing.assert_allclose(release.limit_sampling, 3 * A, rtol=1e-10)
    np.testing.assert_allclose(release.classical, 3 * A, rtol=1e-10)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from(["trace", "paper", "weight", 1]))
def test_least_squares_keeps_the_budget_for_every_data_set(seed, n, kind):
    """tr I_z(Y) = s whatever Y is: also for weights, singular ones, and other noise laws."""
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((30, n))
    model = pv.LinearModel(H, noise=LOGISTIC)
    options = {"trace": {}, "paper": {"shape": "paper"}}.get(kind)
    if options is None:
        rank = n if kind == "weight" else max(1, n - 1)
        options = {"weight": psd_matrix(rng, n, rank)}
    for noise in (None, pv.noise.Laplace(3.0)):
        release = LeastSquaresRelease(model, 5.0, noise=noise, **options)
        report = release.for_data_holder(H @ np.ones(n) + LOGISTIC.sample(30, rng))
        assert report.realised == pytest.approx(5.0, rel=1e-9)
        assert report.ratio == pytest.approx(1.0, rel=1e-9)
        # The same number from the dense formula with T and D as reported.
        T, D = release.shape.targets, release.information_scale
        inner = T @ np.linalg.pinv(H)
        assert np.trace(inner.T @ np.linalg.solve(D, inner)) == pytest.approx(5.0, rel=1e-8)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans())
def test_gaussian_releases_attain_the_private_bound(seed, n, singular):
    """Gaussian noise, trace shape: efficiency 1 for every weight; bound as in bounds/."""
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((25, n))
    weight = psd_matrix(rng, n, max(1, n - 1) if singular else n)
    model = pv.LinearModel(H, noise=pv.noise.GaussianLaw(variance=2.0))
    release = OptimalScoreRelease(model, 3.0, weight=weight)
    floor = trace_bound(model, budget=3.0, weight=weight)
    assert release.private_bound == pytest.approx(floor.total, rel=1e-6)
    assert release.limit_loss == pytest.approx(release.private_bound, rel=1e-8)
    A = np.linalg.inv(H.T @ H)
    assert np.sum(release.shape.loss * release.limit_sampling) == pytest.approx(
        2 * np.trace(weight @ A), rel=1e-8
    )


@pytest.mark.parametrize("law", [LAPLACE, LOGISTIC, CAUCHY, SKEWED])
def test_order_of_the_releases(law):
    """bound ≤ optimal score ≤ maximum likelihood, least squares; paper's shape costs more."""
    model = pv.LinearModel(matrix(3, 100, 2, [1.0, 0.1]), noise=law)
    best = OptimalScoreRelease(model, 50.0)
    assert best.private_bound < best.limit_loss
    assert best.limit_loss < OptimalScoreRelease(model, 50.0, shape="paper").limit_loss
    if law is not LAPLACE:
        assert best.limit_loss < MaximumLikelihoodRelease(model, 50.0).limit_loss
    if law is not CAUCHY:
        assert best.limit_loss < LeastSquaresRelease(model, 50.0).limit_loss


def test_the_best_bandwidth_lies_between():
    """No other bandwidth costs less, and the optimal score costs less still."""
    model = pv.LinearModel(matrix(3, 100, 2, [1.0, 0.1]), noise=LAPLACE)
    tuned = MaximumLikelihoodRelease(model, 50.0, bandwidth="best")
    assert OptimalScoreRelease(model, 50.0).limit_loss < tuned.limit_loss
    for factor in (0.01, 0.5, 0.9, 1.1, 2.0, 100.0):
        other = MaximumLikelihoodRelease(model, 50.0, bandwidth=factor * tuned.bandwidth)
        assert tuned.limit_loss < other.limit_loss


def test_laplace_rate_of_the_trap():
    """s = K, location: the cost of privacy is b·K^(−3/2), not O(K⁻²)."""
    for count in (10**4, 10**6):
        extra = optimal_score(LAPLACE, 1 / count).cost(1 / count) - 1
        assert extra * np.sqrt(count) == pytest.approx(1.0, abs=1 / np.sqrt(count))


# --- what is realised -----------------------------------------------------------------------------

CASES = {
    "laplace": (OptimalScoreRelease, LAPLACE, {}),
    "logistic": (MaximumLikelihoodRelease, LOGISTIC, {"shape": "paper"}),
    "cauchy": (OptimalScoreRelease, CAUCHY, {}),
    "cauchy likelihood": (MaximumLikelihoodRelease, CAUCHY, {}),
    "skewed": (OptimalScoreRelease, SKEWED, {"weight": [[2.0, 0.3], [0.3, 1.0]]}),
    "singular": (OptimalScoreRelease, LAPLACE, {"weight": [[1.0, 0.5], [0.5, 0.25]]}),
    "smoothed": (MaximumLikelihoodRelease, LAPLACE, {"bandwidth": 0.5}),
}


def holder_case(name, seed=4, count=20):
    cls, law, options = CASES[name]
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((count, 2))
    release = cls(pv.LinearModel(H, noise=law), budget=8.0, **options)
    return release, H @ np.array([1.0, -2.0]) + law.sample(count, rng)


def central(function, y, step=1e-3):
    """∂f/∂y by fourth-order differences, (…, K); f takes all moved copies of y at once."""
    moves = step * np.eye(len(y))
    ahead, back, far, near = (np.asarray(function(y + c * moves)) for c in (1.0, -1.0, 2.0, -2.0))
    return ((8 * (ahead - back) - (far - near)) / (12 * step)).T


@pytest.mark.parametrize("name", CASES)
def test_the_jacobian_is_that_of_the_implemented_estimate(name):
    """Differences of the estimate itself, step 1e-3.

    θ̂ is right to about 1e-12, so differences are to 1e-9; their own error is step⁴·|θ̂⁗|, near
    1e-10, but step·(jump of ψ''): 1e-3·step·ρ²-ish at the kink of a Laplace score, which only
    residuals within 2e-3 of zero meet (none here).
    """
    release, y = holder_case(name)
    theta = release.estimate(y)
    assert np.abs(y - release.model.matrix @ theta).min() > 2.5e-3
    J = jacobian(release, y, theta)
    differences = central(release.estimate, y)
    np.testing.assert_allclose(J, differences, atol=3e-7 * np.abs(J).max())
    # Equivariance: moving y by Hδ moves θ̂ by δ.
    np.testing.assert_allclose(J @ release.model.matrix, np.eye(2), atol=1e-10)
    report = release.for_data_holder(y)
    T, D = release.shape.targets, release.privacy
    measured = np.trace((T @ differences).T @ np.linalg.solve(D, T @ differences))
    assert report.realised == pytest.approx(measured, rel=1e-5)
    assert report.ratio == report.realised / 8.0


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_of_the_realised_information(name):
    release, y = holder_case(name)
    report = release.for_data_holder(y)
    found = central(lambda rows: [np.log(release.for_data_holder(v).realised) for v in rows], y)
    np.testing.assert_allclose(report.gradient, found, atol=2e-5 * np.abs(found).max())


@pytest.mark.parametrize("name", ["laplace", "cauchy", "skewed", "singular"])
def test_noise_scaled_to_the_data_counts_both_terms(name):
    """I_z = E score² of N(Tθ̂(Y), D(Y)) by Gauss-Hermite quadrature over z.

    ∂ ln p/∂Y comes from differences of the implemented θ̂ and r: no formula for I_z is used.
    """
    release, y = holder_case(name)
    report = release.for_data_holder(y)
    T, D = release.shape.targets, release.privacy
    margin, r = 1.3, len(T)

    def laws_of(rows):
        reports = [release.for_data_holder(v) for v in rows]
        return [np.concatenate([T @ own.estimate, [margin * own.ratio]]) for own in reports]

    moved = central(laws_of, y)  # ∂(mean, scale)/∂y
    scale = margin * report.ratio
    covariance = scale * D
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    grid = np.stack([g.ravel() for g in np.meshgrid(*[nodes] * r)], axis=-1)
    mass = np.prod(np.stack(np.meshgrid(*[weights] * r)), axis=0).ravel()
    mass = mass / mass.sum()
    off = grid @ np.linalg.cholesky(covariance).T
    solved = np.linalg.solve(covariance, off.T).T
    by_mean = solved @ moved[:r]
    by_scale = ((off * solved).sum(axis=1) - r)[:, None] / (2 * scale) * moved[r]
    score = by_mean + by_scale
    information = float((mass @ score**2).sum())
    assert information == pytest.approx(report.counted(margin), rel=1e-5)
    alone = float((mass @ by_mean**2).sum())
    assert alone == pytest.approx(8.0 / margin, rel=1e-5)
    assert information > alone * (1 + 1e-6)  # the second term is there


def test_scaled_noise_is_refused_where_its_own_information_breaks_the_budget():
    release, y = holder_case("cauchy", count=20)
    report = release.for_data_holder(y)
    extra = 0.5 * report.released * float(report.gradient @ report.gradient)
    enough = report.budget / (report.budget - extra)
    report.require_scaled(enough * 1.001)
    with pytest.raises(pv.errors.BudgetExceeded, match="Nothing was released"):
        report.require_scaled(enough * 0.999)
    with pytest.raises(pv.errors.BudgetExceeded):
        release.simulate_scaled(y, np.random.default_rng(0), margin=1 + 1e-9)


def test_the_classical_certificate_of_the_linear_case():
    """audit-style: numerical Fisher information of a scalar release is what `realised` says."""
    H = np.ones((12, 1))
    release = LeastSquaresRelease(
        pv.LinearModel(H, noise=LOGISTIC), 4.0, noise=pv.noise.Laplace(1.0)
    )
    scale = np.sqrt(release.information_scale[0, 0])  # noise = scale·(unit-information Laplace)
    law = pv.noise.Laplace(1.0).with_fisher_information(1.0).scaled(scale)
    # Each reading moves the mean by 1/12: Σ_k (1/12)²·I = I/12.
    found = scipy.integrate.quad(
        lambda x: float(law.score(x)) ** 2 * float(law.pdf(x)), -40 * scale, 40 * scale, points=[0]
    )[0]
    assert found / 12 == pytest.approx(4.0, rel=1e-6)
    assert release.privacy[0, 0] == pytest.approx(law.variance, rel=1e-12)
