"""Σ_BPPCR, batch form: prior J_θ, level S on everything known of Y."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privest as pv
from privest.bounds import prior_information, release_level
from privest.linalg import loewner
from strategies import RTOL, problems, psd_matrix, relative_error


def bayesian_bound(model, total, P):
    """The bound under BI_z(Y) ≤ S: the release may add S − J_Y."""
    return pv.bound(model, release_level(model, total, prior=P), prior=P)


def setting(p, prior_rank=None, extra_rank=None):
    """A prior, J_Y, and a level S = J_Y + extra."""
    P = psd_matrix(p.rng, p.n, prior_rank)
    known = np.linalg.inv(p.H @ P @ p.H.T + p.Sigma)
    extra = psd_matrix(p.rng, p.m, extra_rank)
    S = known + extra
    model = pv.LinearModel(p.H, noise=pv.noise.Gaussian(cov=p.cov))
    return model, P, known, extra, pv.PrivacyLevel((S + S.T) / 2)


@given(problems())
def test_equals_the_printed_formula(p):
    model, P, known, extra, level = setting(p)
    b = bayesian_bound(model, level, P)
    X = np.linalg.inv(np.linalg.inv(extra) + p.Sigma)
    expected = np.linalg.inv(p.H.T @ X @ p.H + np.linalg.inv(P))
    assert relative_error(b.covariance, expected) < 100 * RTOL  # S − J_Y carries the rounding of S
    assert relative_error(prior_information(model, prior=P), known) < RTOL
    added = release_level(model, level, prior=P).dense()
    assert relative_error(added, extra) < 100 * RTOL
    without = np.linalg.inv(p.H.T @ np.linalg.inv(p.Sigma) @ p.H + np.linalg.inv(P))
    assert relative_error(b.classical, without) < 100 * RTOL


@given(problems(), st.booleans())
def test_singular_prior_and_level_agree_with_the_joint_gaussian(p, singular_level):
    """P − PHᵀL(Lᵀ(HPHᵀ + Σ)L + I)⁻¹LᵀHP, the conditional covariance of θ given z̃ = LᵀY + e."""
    rank = int(p.rng.integers(0, p.n + 1))
    extra_rank = int(p.rng.integers(1, p.m + 1)) if singular_level else None
    model, P, _known, extra, level = setting(p, rank, extra_rank)
    values, vectors = np.linalg.eigh(extra)
    L = vectors * np.sqrt(np.maximum(values, 0))
    marginal = p.H @ P @ p.H.T + p.Sigma
    gain = P @ p.H.T @ L
    inner = np.linalg.inv(L.T @ marginal @ L + np.eye(p.m))
    expected = P - gain @ inner @ gain.T
    b = bayesian_bound(model, level, P)
    assert np.abs(b.covariance - expected).max() < 1e-8 * max(np.abs(P).max(), 1e-12)


@given(problems())
def test_between_no_privacy_and_the_prior(p):
    model, P, _, _, level = setting(p)
    b = bayesian_bound(model, level, P)
    assert loewner(b.classical, b.covariance, rtol=1e-8)
    assert loewner(b.covariance, b.prior, rtol=1e-8)


@given(problems())
def test_a_vague_prior_gives_the_bound_without_prior(p):
    model = pv.LinearModel(p.H, noise=pv.noise.Gaussian(cov=p.cov))
    S = psd_matrix(p.rng, p.m) + np.linalg.inv(p.Sigma)  # above J_Y ≤ Σ⁻¹ for every prior
    S = (S + S.T) / 2
    b = bayesian_bound(model, pv.PrivacyLevel(S), 1e8 * np.eye(p.n))
    known = prior_information(model, prior=1e8 * np.eye(p.n))
    expected = pv.bound(model, pv.PrivacyLevel(S - (known + known.T) / 2)).covariance
    assert relative_error(b.covariance, expected) < 1e-5


@given(problems(), st.floats(0.01, 0.99))
def test_a_level_below_the_prior_is_refused_with_its_direction(p, part):
    model, P, known, _, _ = setting(p)
    values, vectors = np.linalg.eigh(known)
    k = int(p.rng.integers(p.m))
    S = known - part * values[k] * np.outer(vectors[:, k], vectors[:, k])
    with pytest.raises(pv.errors.LevelBelowPrior, match="S − J_Y is negative in the direction"):
        bayesian_bound(model, pv.PrivacyLevel((S + S.T) / 2), P)


def test_saying_nothing_is_allowed_and_gives_the_prior():
    rng = np.random.default_rng(0)
    H, P = rng.standard_normal((4, 2)), psd_matrix(rng, 2)
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=1.0))
    known = np.linalg.inv(H @ P @ H.T + np.eye(4))
    b = bayesian_bound(model, pv.PrivacyLevel((known + known.T) / 2), P)
    assert relative_error(b.covariance, P) < 1e-10


def test_more_parameters_than_readings_are_fine_with_a_prior():
    model = pv.LinearModel([[1.0, 1.0, 1.0]], noise=pv.noise.Gaussian(cov=1.0))
    b = bayesian_bound(model, pv.PrivacyLevel(2.0), np.eye(3))
    # J_Y = 1/4, extra 7/4, X = 7/11: prior precision I plus X 11ᵀ
    expected = np.linalg.inv(np.eye(3) + 7 / 11 * np.ones((3, 3)))
    assert relative_error(b.covariance, expected) < 1e-12


@pytest.mark.parametrize("vague", [1.0, 1e4, 1e8, 1e12])
def test_the_boundary_level_is_not_refused_by_rounding(vague):
    """S = 1/σ² is exactly enough with m > n, however vague the prior."""
    H = np.random.default_rng(1).standard_normal((30, 4))
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.04))
    b = bayesian_bound(model, pv.PrivacyLevel(25.0), vague * np.eye(4))
    assert np.linalg.eigvalsh(b.covariance)[0] > 0
    with pytest.raises(pv.errors.LevelBelowPrior, match="must have s ≥ 25 here"):
        bayesian_bound(model, pv.PrivacyLevel(25.0 * (1 - 1e-9)), vague * np.eye(4))


def test_the_prior_information_of_other_noise_is_refused_the_bound_is_not():
    """With J_Y of a Gaussian the result would not be a floor (Laplace: 1.0 against 0.9055)."""
    model = pv.LinearModel([[1.0]], noise=pv.noise.Laplace(1.0))
    with pytest.raises(pv.errors.InvalidInput, match="that of Gaussian noise"):
        release_level(model, 0.5, prior=1.0)
    s = 0.5 - 0.3685  # J_Y of N(0, 1) + Laplace(1), by quadrature
    b = pv.bound(model, s, prior=1.0)
    assert b.covariance[0, 0] == pytest.approx(1 / (1 + s / (1 + s)), rel=1e-12)
    assert b.covariance[0, 0] < 0.9055


def test_readings_known_for_certain_exceed_every_level():
    model = pv.LinearModel([[1.0], [1.0]], noise=pv.noise.Gaussian(cov=[0.0, 0.0]))
    with pytest.raises(pv.errors.LevelBelowPrior, match="every finite level"):
        bayesian_bound(model, pv.PrivacyLevel(5.0), 1.0)


@pytest.mark.parametrize("unit", [1.0, 1e9, 1e-9])
def test_units_of_the_readings_do_not_matter(unit):
    H, cov = np.diag([1.0, unit]), np.array([1.0, unit**2])
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=cov))
    b = bayesian_bound(model, pv.PrivacyLevel([1.5, 1.5 / unit**2]), np.eye(2))
    assert np.diagonal(b.covariance) == pytest.approx([2 / 3, 2 / 3])
    with pytest.raises(pv.errors.LevelBelowPrior, match=r"\+1.00·y\[1\]|-1.00·y\[1\]"):
        bayesian_bound(model, pv.PrivacyLevel([1.5, 0.1 / unit**2]), np.eye(2))


@pytest.mark.parametrize("vague", [1e4, 1e12, 1e16])
def test_without_privacy_keeps_its_digits_for_a_vague_prior(vague):
    model = pv.LinearModel(np.ones((3, 1)), noise=pv.noise.Gaussian(cov=1.0))
    b = bayesian_bound(model, pv.PrivacyLevel(2.0), vague)
    assert b.classical[0, 0] == pytest.approx(1 / (3 + 1 / vague), rel=1e-6)


def test_a_known_parameter_stays_known():
    model = pv.LinearModel(np.ones((3, 1)), noise=pv.noise.Gaussian(cov=1.0))
    assert bayesian_bound(model, pv.PrivacyLevel(2.0), 0.0).covariance.tolist() == [[0.0]]


def test_the_message_names_the_reading_that_is_asked_too_much_of():
    model = pv.LinearModel(np.eye(8), noise=pv.noise.Gaussian(cov=1.0))
    level = np.full(8, 1.5)
    level[6] = 0.1
    with pytest.raises(pv.errors.LevelBelowPrior, match=r"direction [+-]1.00·y\[6\]"):
        bayesian_bound(model, pv.PrivacyLevel(level), np.eye(8))


@pytest.mark.parametrize("least", [0.1, 0.0])
def test_a_level_computed_from_the_prior_is_not_refused(least):
    """S = inv(HPHᵀ + Σ) + vvᵀ touches J_Y in m − 1 directions: only rounding decides there.

    With `least` = 0 the random Σ is often badly conditioned. And S below J_Y by more than the
    rounding of an inverse (1e-6 of it at most) is refused.
    """
    for trial in range(600):
        rng = np.random.default_rng(trial)
        m, n = rng.integers(1, 8), rng.integers(1, 4)
        H, F, G = (rng.standard_normal(shape) for shape in ((m, n), (n, n), (m, m)))
        P, Sigma = F @ F.T * 10.0 ** rng.uniform(-3, 3), G @ G.T + least * np.eye(m)
        model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=Sigma))
        known, v = np.linalg.inv(H @ P @ H.T + Sigma), rng.standard_normal((m, 1))
        S = known + v @ v.T
        added = release_level(model, (S + S.T) / 2, prior=P).dense()
        assert relative_error(added, v @ v.T) < 1e-6
        if m > 1:
            low = (1 - 1e-5) * known + v @ v.T
            with pytest.raises(pv.errors.LevelBelowPrior):
                release_level(model, (low + low.T) / 2, prior=P)
