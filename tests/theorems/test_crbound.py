"""`thm:crbound`: the privacy-preserving Cramér-Rao bound."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import literal
import privest as pv
from privest.linalg import loewner
from strategies import RTOL, Problem, problems, psd_matrix, relative_error

REGULAR = ("number", "vector", "blocks", "matrix")


def bound(p: Problem):
    return pv.bound(
        pv.LinearModel(p.H, noise=pv.noise.Gaussian(cov=p.cov)), pv.PrivacyLevel(p.level)
    )


def well_posed(p: Problem):
    """A singular level may hide a direction, or nearly: keep HᵀSH well-conditioned."""
    return np.linalg.cond(p.H.T @ p.S @ p.H) < 1e5


@given(problems())
def test_equals_the_printed_formula(p):
    assume(well_posed(p))
    b = bound(p)
    assert b.identifiable
    assert relative_error(b.covariance, literal.ppcrlb(p.H, p.S, p.Sigma)) < RTOL
    assert relative_error(b.classical, literal.classical(p.H, p.Sigma)) < RTOL
    assert relative_error(b.information @ b.covariance, np.eye(p.n)) < RTOL
    assert np.array_equal(b.covariance, b.covariance.T)


@given(problems(level_kinds=("singular matrix", "singular blocks", "zeros")))
def test_singular_level_is_the_limit_of_the_proof(p):
    assume(well_posed(p))
    limit = literal.epsilon_limit_50_digits(p.H, literal.square_root(p.S), p.Sigma)
    assert (
        relative_error(bound(p).covariance, limit) < 10 * RTOL
    )  # S^½ itself carries √eps·κ rounding


@given(problems())
def test_monotone_in_the_level(p):
    assume(well_posed(p))
    more = p.S + psd_matrix(p.rng, p.m, rank=int(p.rng.integers(1, p.m + 1)))
    laxer = bound(Problem(p.H, more, p.cov, p.rng))
    assert loewner(laxer.covariance, bound(p).covariance, rtol=RTOL)


@given(problems())
def test_monotone_in_the_noise(p):
    assume(well_posed(p))
    more = p.Sigma + psd_matrix(p.rng, p.m, rank=int(p.rng.integers(1, p.m + 1)))
    noisier = bound(Problem(p.H, p.level, more, p.rng))
    assert loewner(bound(p).covariance, noisier.covariance, rtol=RTOL)


@given(problems(level_kinds=REGULAR), st.floats(0, 14))
def test_no_privacy_gives_the_classical_bound(p, exponent):
    # tS ≥ t λ_min(S) I makes X⁻¹ = Σ + (tS)⁻¹ ≤ (1 + 1/(t λ_min(S) λ_min(Σ))) Σ.
    t = 10.0**exponent
    b = bound(Problem(p.H, t * np.asarray(p.level), p.cov, p.rng))
    excess = 1 / (t * np.linalg.eigvalsh(p.S)[0] * np.linalg.eigvalsh(p.Sigma)[0])
    assert loewner(b.classical, b.covariance, rtol=RTOL)
    assert loewner(b.covariance, (1 + excess) * b.classical, rtol=RTOL)


@given(problems(level_kinds=REGULAR))
def test_invariant_under_a_change_of_readings(p):
    """y → Ty, S → T⁻ᵀST⁻¹."""
    T = psd_matrix(p.rng, p.m) @ np.linalg.qr(p.rng.standard_normal((p.m, p.m)))[0]
    inverse = np.linalg.inv(T)
    S, Sigma = inverse.T @ p.S @ inverse, T @ p.Sigma @ T.T
    moved = Problem(T @ p.H, (S + S.T) / 2, (Sigma + Sigma.T) / 2, p.rng)
    # T has condition number up to 55 and enters S and Σ squared.
    assert relative_error(bound(moved).covariance, bound(p).covariance) < 55**2 * RTOL


@given(problems())
def test_covariant_under_a_change_of_parameters(p):
    assume(well_posed(p))
    A = psd_matrix(p.rng, p.n)
    inverse = np.linalg.inv(A)
    moved = bound(Problem(p.H @ A, p.level, p.cov, p.rng))
    assert relative_error(moved.covariance, inverse @ bound(p).covariance @ inverse.T) < RTOL


@given(problems(), st.integers(1, 6))
def test_units_of_the_readings_do_not_matter(p, decades):
    """Readings in other units, up to 10^±decades each: the digits stay."""
    assume(well_posed(p))
    unit = 10.0 ** p.rng.integers(-decades, decades + 1, p.m)
    S = p.S / unit / unit[:, None]
    Sigma = p.Sigma * unit * unit[:, None]
    moved = bound(Problem(p.H * unit[:, None], S, Sigma, p.rng))
    assert relative_error(moved.covariance, bound(p).covariance) < RTOL


@given(problems(noise_kinds=("number", "vector")))
def test_every_structure_gives_the_same_number(p):
    """A level kept as a number, a vector or blocks agrees with the same level as a matrix."""
    assume(well_posed(p))
    as_matrix = bound(Problem(p.H, p.S, p.Sigma, p.rng))
    assert relative_error(bound(p).covariance, as_matrix.covariance) < RTOL
    assert relative_error(bound(p).cost_floor, as_matrix.cost_floor) < RTOL


def condition_1e8(rng, size):
    """Eigenvalues from 1e-4 to 1e4."""
    q = np.linalg.qr(rng.standard_normal((size, size)))[0]
    result = (q * np.logspace(-4, 4, size)) @ q.T
    return (result + result.T) / 2


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("which", ["H", "S", "Sigma", "S and Sigma"])
def test_digits_at_condition_1e8_against_50_digits(which, seed):
    """What is left of 16 digits: eps times the condition of the problem, with room for m = 8.

    A perturbation of S or Σ by eps·‖·‖ changes the result by up to eps·κ relative, so no algorithm
    on double-precision input can promise more; H enters with κ, not κ², because of the QR."""
    rng = np.random.default_rng(seed)
    m, n = 8, 3
    H, S, Sigma = rng.standard_normal((m, n)), psd_matrix(rng, m), psd_matrix(rng, m)
    if which == "H":
        u, v = (
            np.linalg.qr(rng.standard_normal((m, n)))[0],
            np.linalg.qr(rng.standard_normal((n, n)))[0],
        )
        H = (u * np.logspace(-4, 4, n)) @ v.T
    if "S" in which.split():
        S = condition_1e8(rng, m)
    if "Sigma" in which:
        Sigma = condition_1e8(rng, m)
    b = bound(Problem(H, S, Sigma, rng))
    kappa = 1e16 if which == "S and Sigma" else 1e8
    tolerance = min(100 * kappa * np.finfo(float).eps, 1e-3)
    assert relative_error(b.covariance, literal.ppcrlb_50_digits(H, S, Sigma)) < tolerance
    assert relative_error(b.classical, literal.classical_50_digits(H, Sigma)) < 1e8 * 100 * 2.3e-16


@pytest.mark.parametrize("s", [1e-12, 1e-6, 1.0, 1e6, 1e12])
def test_digits_with_ill_conditioned_design_and_diagonal_structure(s):
    """Number levels and variances: only H is ill-conditioned, and costs κ, not κ²."""
    rng = np.random.default_rng(7)
    H = np.vander(np.linspace(0.5, 1.5, 40), 8)  # condition about 1e7
    b = bound(Problem(H, s, 0.3, rng))
    expected = literal.ppcrlb_50_digits(H, s * np.eye(40), 0.3 * np.eye(40))
    assert relative_error(b.covariance, expected) < 100 * np.linalg.cond(H) * np.finfo(float).eps


def test_far_apart_level_and_noise_lose_nothing_when_diagonal():
    H = np.ones((3, 1))
    for s, v in [(1e-300, 1e300), (1e300, 1e-300), (1e200, 1e100)]:
        b = bound(Problem(H, s, v, None))
        assert b.covariance[0, 0] == pytest.approx((1 / s + v) / 3, rel=1e-14)


def test_lost_unit_noise_is_said_not_patched():
    """‖LᵀΣL‖ = 1e20 with a singular Σ: the "+ I" is below rounding."""
    rng = np.random.default_rng(0)
    Sigma = psd_matrix(rng, 6, rank=2)
    S = 1e20 * psd_matrix(rng, 6)
    model = pv.LinearModel(rng.standard_normal((6, 2)), noise=pv.noise.Gaussian(cov=Sigma))
    with pytest.raises(pv.errors.NumericalFailure, match="rounding loses the unit release noise"):
        pv.bound(model, pv.PrivacyLevel(S))
