"""The best release under tr I_z(Y) ≤ s (theory.md 3)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privest as pv
from privest.bounds import best_linear_release, trace_bound
from strategies import orthogonal, problems, psd_matrix

budgets = st.floats(-2, 2).map(lambda e: 10.0**e)


def model_of(p):
    return pv.LinearModel(p.H, noise=pv.noise.Gaussian(cov=p.cov))


def square_root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def theta_map(release):
    """T with θ̂ = Ty before noise, for W > 0."""
    return np.linalg.solve(release.root.T, release.map)


def theta_noise(release):
    """The covariance of the noise on θ̂ itself."""
    half = np.linalg.solve(release.root.T, release.noise)
    return np.linalg.solve(release.root.T, half.T).T


@given(problems(noise_kinds=("number",)), budgets)
def test_closed_form_for_white_noise(p, s):
    A = np.linalg.inv(p.H.T @ p.H)
    floor = trace_bound(model_of(p), budget=s)
    privacy = np.trace(square_root(A)) ** 2 / s
    assert floor.sampling == pytest.approx(p.cov * np.trace(A), rel=1e-9)
    assert floor.privacy == pytest.approx(privacy, rel=1e-9)
    assert floor.total == pytest.approx(floor.simple_floor, rel=1e-9)
    assert floor.paper_release == pytest.approx((p.cov + p.n / s) * np.trace(A), rel=1e-9)
    release = best_linear_release(model_of(p), s)
    expected = np.trace(square_root(A)) / s * square_root(A)
    assert np.allclose(
        theta_noise(release), expected, rtol=1e-8, atol=1e-12 * np.abs(expected).max()
    )
    assert np.allclose(theta_map(release), np.linalg.pinv(p.H), atol=1e-9)


@given(problems(noise_kinds=("number",)), budgets)
def test_weight_is_mapped_back_to_theta(p, s):
    """Trap: (tr Ã^½/s)Ã^½ is the noise of W^½θ; unmapped it breaks the budget."""
    W = psd_matrix(p.rng, p.n)
    A = np.linalg.inv(p.H.T @ p.H)
    half = square_root(W)
    shaped = square_root(half @ A @ half)
    inverse = np.linalg.inv(half)
    expected = inverse @ (np.trace(shaped) / s * shaped) @ inverse
    release = best_linear_release(model_of(p), s, weight=W)
    assert np.allclose(
        theta_noise(release), expected, rtol=1e-7, atol=1e-10 * np.abs(expected).max()
    )
    assert release.sampling + release.privacy == pytest.approx(
        p.cov * np.trace(W @ A) + np.trace(shaped) ** 2 / s, rel=1e-9
    )


@given(problems(), budgets, st.booleans())
def test_the_release_spends_the_budget_and_is_unbiased(p, s, weighted):
    rank = int(p.rng.integers(1, p.n + 1)) if weighted else p.n
    W = psd_matrix(p.rng, p.n, rank) if weighted else None
    release = best_linear_release(model_of(p), s, weight=W)
    information = release.map.T @ np.linalg.solve(release.noise, release.map)
    assert np.trace(information) == pytest.approx(s, rel=1e-7)
    assert np.allclose(release.map @ p.H, release.root.T, atol=1e-8)
    assert release.root.shape == (p.n, rank)
    sampling = np.trace(release.map @ p.Sigma @ release.map.T)
    assert release.sampling == pytest.approx(sampling, rel=1e-8)
    assert release.privacy == pytest.approx(np.trace(release.noise), rel=1e-8)


@given(problems(), budgets)
def test_nothing_beats_it(p, s):
    """Other unbiased maps and noise shapes that spend the same budget cost more, and so does the
    bound of every level with that trace."""
    best = trace_bound(model_of(p), budget=s)
    H, Sigma = p.H, p.Sigma
    for shape in range(4):
        C = psd_matrix(p.rng, p.m)
        T = np.linalg.solve(H.T @ C @ H, H.T @ C)
        D = psd_matrix(p.rng, p.n) if shape else square_root(T @ T.T)
        D *= np.trace(T.T @ np.linalg.solve(D, T)) / s
        assert np.trace(T @ Sigma @ T.T) + np.trace(D) >= (best.total - best.gap) * (1 - 1e-9)
    S = psd_matrix(p.rng, p.m)
    private = pv.bound(model_of(p), pv.PrivacyLevel(s * S / np.trace(S))).covariance
    assert np.trace(private) >= (best.total - best.gap) * (1 - 1e-9)
    assert best.simple_floor <= best.total * (1 + 1e-9)
    assert best.total <= best.paper_release * (1 + 1e-9)


@given(problems(), budgets)
def test_attained_as_a_level(p, s):
    """The release is a level of trace s whose PPCRLB has exactly that trace."""
    release = best_linear_release(model_of(p), s)
    S = release.map.T @ np.linalg.solve(release.noise, release.map)
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    values[: p.m - p.n] = 0  # rank n by construction
    b = pv.bound(model_of(p), pv.PrivacyLevel((vectors * values) @ vectors.T))
    assert np.trace(b.covariance) == pytest.approx(release.sampling + release.privacy, rel=1e-6)


@pytest.mark.parametrize(("s", "target"), [(1e-7, "ols"), (1e9, "gls")])
def test_limits_are_ordinary_and_generalised_least_squares(s, target):
    rng = np.random.default_rng(3)
    H, Sigma = rng.standard_normal((9, 3)), psd_matrix(rng, 9)
    T = theta_map(best_linear_release(pv.LinearModel(H, noise=pv.noise.Gaussian(cov=Sigma)), s))
    inverse = np.linalg.inv(Sigma)
    gls = np.linalg.solve(H.T @ inverse @ H, H.T @ inverse)
    expected = np.linalg.pinv(H) if target == "ols" else gls
    assert np.abs(T - expected).max() < 1e-4


def test_gain_over_the_paper_for_an_ill_scaled_design():
    """n tr A/(tr A^½)²: three parameters on very different scales gain almost n = 3."""
    rng = np.random.default_rng(5)
    q = orthogonal(rng, 12)[:, :3]
    model = pv.LinearModel(q * [1.0, 100.0, 100.0], noise=pv.noise.Gaussian(cov=1e-9))
    floor = trace_bound(model, budget=1.0)
    A = np.array([1.0, 1e-4, 1e-4])
    predicted = 3 * A.sum() / np.sqrt(A).sum() ** 2
    assert floor.paper_release / floor.total == pytest.approx(predicted, rel=1e-6)
    assert predicted > 2.8


def test_singular_weight_releases_only_what_is_asked_for():
    rng = np.random.default_rng(6)
    model = pv.LinearModel(rng.standard_normal((7, 3)), noise=pv.noise.Gaussian(cov=0.1))
    release = best_linear_release(model, 2.0, weight=[1.0, 0.0, 0.0])
    assert release.map.shape == (1, 7)
    with pytest.raises(pv.errors.InvalidInput, match="weight is zero"):
        best_linear_release(model, 2.0, weight=np.zeros((3, 3)))


def test_non_gaussian_noise_has_a_floor_from_its_information_and_a_release_from_its_variance():
    rng = np.random.default_rng(8)
    H = rng.standard_normal((20, 2))
    model = pv.LinearModel(H, noise=pv.noise.Laplace(1.0))
    floor, release = trace_bound(model, budget=4.0), best_linear_release(model, 4.0)
    A = np.trace(np.linalg.inv(H.T @ H))
    assert floor.sampling == pytest.approx(A, rel=1e-9)  # 1/I = b² = 1
    assert release.sampling == pytest.approx(2 * A, rel=1e-9)  # variance 2b²
    with pytest.raises(pv.errors.InvalidInput, match="no finite variance"):
        best_linear_release(pv.LinearModel(H, noise=pv.noise.Cauchy(1.0)), 4.0)


@pytest.mark.parametrize("decades", [3, 6, 8, 10])
def test_ill_conditioned_designs_stay_unbiased(decades):
    """MH = Bᵀ to eps·κ, not eps·κ²."""
    rng = np.random.default_rng(decades)
    u = np.linalg.qr(rng.standard_normal((8, 3)))[0]
    H = (u * np.logspace(0, -decades, 3)) @ orthogonal(rng, 3).T
    kappa = 10.0**decades
    for cov in (1.0, psd_matrix(rng, 8)) if decades < 8 else (1.0,):
        release = best_linear_release(pv.LinearModel(H, noise=pv.noise.Gaussian(cov=cov)), 2.0)
        assert np.abs(theta_map(release) @ H - np.eye(3)).max() < 1e3 * kappa * 2.3e-16


def test_the_weight_enters_every_floor():
    rng = np.random.default_rng(11)
    H, W = rng.standard_normal((9, 3)), np.diag([1.0, 100.0, 1e-4])
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.5))
    floor = trace_bound(model, budget=3.0, weight=W)
    A = np.linalg.inv(H.T @ H)
    half = np.sqrt(W)
    strength = np.sqrt(np.linalg.eigvalsh(half @ A @ half)).sum()
    assert floor.simple_floor == pytest.approx(0.5 * np.trace(W @ A) + strength**2 / 3.0)
    assert floor.paper_release == pytest.approx((0.5 + 3 / 3.0) * np.trace(W @ A))
