"""thm:rate_attainablility and what goes past it: noise shapes, budgets, realised information."""

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from privest.bounds import trace_bound
from privest.mechanism import OutputPerturbation
from scores import optimal_score
from strategies import psd_matrix

LAPLACE, LOGISTIC, CAUCHY = pv.noise.Laplace(1.0), pv.noise.Logistic(1.0), pv.noise.Cauchy(1.0)
SKEWED = pv.noise.GaussianMixture([0.8, 0.2], means=[-0.5, 2.0], sds=[0.5, 1.2])


def matrix(seed, count, n, scales=1.0):
    return np.random.default_rng(seed).standard_normal((count, n)) * scales


def square_root(a):
    values, vectors = np.linalg.eigh(a)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


# --- noise shapes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("score", "law"), [("optimal", LAPLACE), ("likelihood", LOGISTIC)])
def test_the_trace_shape_gains_what_the_theory_says(score, law):
    """Ill-scaled H: privacy noise less by n tr A/(tr A^½)², for the same sensitivity."""
    H = matrix(0, 200, 3, scales=[0.02, 1.0, 30.0])
    model = pv.LinearModel(H, noise=law)
    A = np.linalg.inv(H.T @ H)
    best = OutputPerturbation(model, 200.0, score=score)
    paper = OutputPerturbation(model, 200.0, score=score, shape="paper")
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
    release = OutputPerturbation(
        pv.LinearModel(H, noise=LOGISTIC), 7.0, shape="paper", score="likelihood"
    )
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
        release = OutputPerturbation(model, 5.0, noise=noise, **options, score="least_squares")
        report = release.for_data_owner(H @ np.ones(n) + LOGISTIC.sample(30, rng))
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
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=2.0))
    release = OutputPerturbation(model, 3.0, weight=weight)
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
    best = OutputPerturbation(model, 50.0)
    assert best.private_bound < best.limit_loss
    assert best.limit_loss < OutputPerturbation(model, 50.0, shape="paper").limit_loss
    if law is not LAPLACE:
        assert best.limit_loss < OutputPerturbation(model, 50.0, score="likelihood").limit_loss
    if law is not CAUCHY:
        assert best.limit_loss < OutputPerturbation(model, 50.0, score="least_squares").limit_loss


def test_the_best_bandwidth_lies_between():
    """No other bandwidth costs less, and the optimal score costs less still."""
    model = pv.LinearModel(matrix(3, 100, 2, [1.0, 0.1]), noise=LAPLACE)
    tuned = OutputPerturbation(model, 50.0, bandwidth="best", score="likelihood")
    assert OutputPerturbation(model, 50.0).limit_loss < tuned.limit_loss
    for factor in (0.01, 0.5, 0.9, 1.1, 2.0, 100.0):
        other = OutputPerturbation(
            model, 50.0, bandwidth=factor * tuned.bandwidth, score="likelihood"
        )
        assert tuned.limit_loss < other.limit_loss


def test_laplace_rate_of_the_trap():
    """s = K, location: the cost of privacy is b·K^(−3/2), not O(K⁻²)."""
    for count in (10**4, 10**6):
        extra = optimal_score(LAPLACE, 1 / count).cost(1 / count) - 1
        assert extra * np.sqrt(count) == pytest.approx(1.0, abs=1 / np.sqrt(count))


# --- what is realised -----------------------------------------------------------------------------

CASES = {
    "laplace": ("optimal", LAPLACE, {}),
    "logistic": ("likelihood", LOGISTIC, {"shape": "paper"}),
    "cauchy": ("optimal", CAUCHY, {}),
    "cauchy likelihood": ("likelihood", CAUCHY, {}),
    "skewed": ("optimal", SKEWED, {"weight": [[2.0, 0.3], [0.3, 1.0]]}),
    "singular": ("optimal", LAPLACE, {"weight": [[1.0, 0.5], [0.5, 0.25]]}),
    "smoothed": ("likelihood", LAPLACE, {"bandwidth": 0.5}),
}


def holder_case(name, seed=4, count=20):
    score, law, options = CASES[name]
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((count, 2))
    release = OutputPerturbation(pv.LinearModel(H, noise=law), budget=8.0, score=score, **options)
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
    J = release.jacobian(y[None], theta[None])[0]
    differences = central(release.estimate, y)
    np.testing.assert_allclose(J, differences, atol=3e-7 * np.abs(J).max())
    # Equivariance: moving y by Hδ moves θ̂ by δ.
    np.testing.assert_allclose(J @ release.model.matrix, np.eye(2), atol=1e-10)
    report = release.for_data_owner(y)
    T, D = release.shape.targets, release.privacy
    measured = np.trace((T @ differences).T @ np.linalg.solve(D, T @ differences))
    assert report.realised == pytest.approx(measured, rel=1e-5)
    assert report.ratio == report.realised / 8.0


def test_the_classical_certificate_of_the_linear_case():
    """audit-style: numerical Fisher information of a scalar release is what `realised` says."""
    H = np.ones((12, 1))
    release = OutputPerturbation(
        pv.LinearModel(H, noise=LOGISTIC), 4.0, noise=pv.noise.Laplace(1.0), score="least_squares"
    )
    scale = np.sqrt(release.information_scale[0, 0])  # noise = scale·(unit-information Laplace)
    law = pv.noise.Laplace(1.0).with_fisher_information(1.0).scaled(scale)
    # Each reading moves the mean by 1/12: Σ_k (1/12)²·I = I/12.
    found = scipy.integrate.quad(
        lambda x: float(law.score(x)) ** 2 * float(law.pdf(x)), -40 * scale, 40 * scale, points=[0]
    )[0]
    assert found / 12 == pytest.approx(4.0, rel=1e-6)
    assert release.privacy[0, 0] == pytest.approx(law.variance, rel=1e-12)
