"""What reviewers tried to break: scales, grading, tall matrices, merged singular blocks."""

import numpy as np
import pytest

import literal
import privest as pv
from privest.errors import InvalidInput
from privest.linalg import loewner, psd, weighted_roots
from privest.linalg._root import CHUNK_ENTRIES
from strategies import psd_matrix, relative_error

GAUSS = pv.noise.Gaussian


def bound(H, level, cov):
    return pv.bound(pv.LinearModel(H, noise=GAUSS(cov=cov)), pv.PrivacyLevel(level))


@pytest.mark.parametrize("columns", ["orthogonal", "nearly dependent"])
@pytest.mark.parametrize("weights", ["number", "vector"])
def test_tall_matrices_use_every_chunk(columns, weights):
    """More rows than one chunk, with all the information in the later ones."""
    rng = np.random.default_rng(0)
    m, n = 4 * CHUNK_ENTRIES // 5, 5
    H = rng.standard_normal((m, n))
    H[: m // 2] *= 1e-3
    if columns == "nearly dependent":
        H[:, 1] = H[:, 0] + 1e-5 * H[:, 1]
    s = 2.0 if weights == "number" else rng.uniform(0.5, 2, m)
    v = 0.3 if weights == "number" else rng.uniform(0.1, 1, m)
    weight = np.broadcast_to(s / (1 + np.multiply(s, v)), m)
    whole = np.linalg.qr(np.sqrt(weight)[:, None] * H, mode="r")
    inverse = np.linalg.inv(whole)
    b = bound(H, s, v)
    assert relative_error(b.covariance, inverse @ inverse.T) < 1e-8
    level = np.linalg.inv(np.linalg.qr(np.sqrt(np.broadcast_to(s, m))[:, None] * H, mode="r"))
    assert relative_error(b.cost_floor, level @ level.T) < 1e-8


def test_the_gram_matrix_is_left_in_time():
    """Condition 3e4 of H: the Gram route would lose nine digits, the QR loses five."""
    rng = np.random.default_rng(1)
    u, v = (
        np.linalg.qr(rng.standard_normal((300, 3)))[0],
        np.linalg.qr(rng.standard_normal((3, 3)))[0],
    )
    H = (u * [1.0, 1e-2, 3e-5]) @ v.T
    expected = literal.ppcrlb_50_digits(H[:40], np.eye(40), np.eye(40))
    assert relative_error(bound(H[:40], 1.0, 1.0).covariance, expected) < 1e-10


@pytest.mark.parametrize("unit", [1e155, 1e-163])
def test_squares_may_leave_the_range_of_double_precision(unit):
    H = unit * np.array([[1.0, 0.5], [0.3, 1.0], [1.0, 1.0]])
    one = pv.LinearModel(H / unit, noise=GAUSS(cov=1.0))
    far = pv.LinearModel(H, noise=GAUSS(cov=1.0))
    assert pv.identifiability(far, pv.PrivacyLevel(1.0)).rank == 2
    root = weighted_roots(far.matrix, [1.0])[0]
    same = weighted_roots(one.matrix, [1.0])[0]
    assert relative_error(np.abs(root.triangle) / unit, np.abs(same.triangle)) < 1e-12
    assert bound(np.ones((2, 1)), 1e200, 1e200).covariance[0, 0] == pytest.approx(5e199)


def test_many_rows_do_not_hide_a_direction():
    for m in (100, 100_000):
        H = np.vander(np.linspace(2000, 2020, m), 4)
        verdict = pv.identifiability(pv.LinearModel(H, noise=GAUSS()), pv.PrivacyLevel(1.0))
        assert verdict.rank == 4
        double = np.column_stack([H[:, :2], H[:, 0] + H[:, 1]])
        verdict = pv.identifiability(pv.LinearModel(double, noise=GAUSS()), pv.PrivacyLevel(1.0))
        assert verdict.rank == 2


def test_a_very_exact_reading_does_not_make_h_singular():
    b = bound([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]], 1.0, [1e-32, 1.0, 1.0])
    exact = bound([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]], 1.0, [0.0, 1.0, 1.0])
    assert relative_error(b.covariance, exact.covariance) < 1e-12


@pytest.mark.parametrize("r", [1.0, 1e-3, 1e-4])
def test_graded_dense_levels_keep_their_digits(r):
    """S = D K D with K well-conditioned: the one-Cholesky route hands over to the kernel."""
    rng = np.random.default_rng(2)
    K = psd_matrix(rng, 3) + np.eye(3)
    d = np.array([1.0, r, 1.3 * r])
    S, H = K * d * d[:, None], rng.standard_normal((3, 2))
    expected = literal.ppcrlb_50_digits(H, S, np.eye(3))
    assert relative_error(bound(H, S, 1.0).covariance, expected) < 1e-11


@pytest.mark.parametrize("zero", ["one block", "all", "scaled"])
def test_blocks_that_reveal_nothing(zero):
    H = np.random.default_rng(3).standard_normal((5, 1))
    model = pv.LinearModel(H, noise=GAUSS(cov=1.0))
    ones = np.ones((4, 4))
    level = {
        "one block": lambda: pv.PrivacyLevel.from_blocks([[[0.0]], ones]),
        "all": lambda: pv.PrivacyLevel.from_blocks([[[0.0]], 0 * ones]),
        "scaled": lambda: pv.PrivacyLevel(np.ones((5, 5))) * 0,
    }[zero]()
    b = pv.bound(model, level)
    if zero == "one block":
        weight = H[1:].sum() ** 2 / (1 + 4)
        assert b.covariance[0, 0] == pytest.approx(1 / weight)
    else:
        assert not b.identifiable


def test_a_dense_level_with_one_reading_without_noise():
    """The one-Cholesky route needs Σ > 0; a zero variance goes through the kernel."""
    rng = np.random.default_rng(5)
    H, S = rng.standard_normal((4, 2)), psd_matrix(rng, 4)
    cov = np.array([1.0, 0.0, 2.0, 0.5])
    expected = literal.ppcrlb_50_digits(H, S, np.diag(cov))
    assert relative_error(bound(H, S, cov).covariance, expected) < 1e-11


def test_singular_noise_in_any_units():
    cov = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1e-20]])
    b = bound([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 1.0, cov)
    assert b.classical[1, 1] == pytest.approx(1e-20)
    assert b.classical[0, 0] == pytest.approx(1.0)
    small = bound([[1.0, 0.0], [0.0, 1e-20], [1.0, 1e-20]], 1.0, [0.0, 0.0, 1.0])
    assert np.abs(small.classical).max() == 0
    # y₁ − y₂ has variance 0 up to rounding: an exact equation, not a noise of 1e-16
    nearly = np.array([[1.0, 1.0 - 1e-16], [1.0 - 1e-16, 1.0]])
    exact = bound([[1.0, 0.0], [0.0, 1.0]], 1.0, nearly).classical
    assert np.allclose(exact, np.ones((2, 2)))


def test_asymmetry_and_indefiniteness_are_judged_entry_by_entry():
    with pytest.raises(InvalidInput, match=r"entries \(1, 2\) and \(2, 1\) differ by 1"):
        psd([[1e20, 0, 0], [0, 1, 0.5], [0, -0.5, 1]], "S")
    with pytest.raises(InvalidInput, match="must be symmetric"):
        psd([[1.0, 0.5], [0.5 + 1e-6, 1.0]], "S")
    rounded = psd([[1.0, 0.5], [0.5 + 1e-12, 1.0]], "S").dense()
    assert rounded[0, 1] == rounded[1, 0] == pytest.approx(0.5 + 5e-13, abs=1e-16)
    for part in (1e-9, 1e-6, 1e-3):
        with pytest.raises(InvalidInput, match="eigenvalue -"):
            psd([[1.0, 1.0 + part], [1.0 + part, 1.0]], "S")
    assert psd([[1.0, 1.0 + 1e-15], [1.0 + 1e-15, 1.0]], "S").rank == 1


def test_large_finite_numbers_are_finite():
    assert psd([1e308, 1e308], "S").rank == 2
    with pytest.raises(pv.errors.InvalidInput, match="range of double precision"):
        pv.PrivacyLevel([1e308, 1.0]) + pv.PrivacyLevel([1e308, 1.0])


def test_the_order_does_not_broadcast():
    for a, b in ([[1.0], [2.0, 3.0]], [[], []]):
        with pytest.raises(InvalidInput, match="one size"):
            loewner(a, b)


def test_moves_do_not_overflow():
    assert pv.PrivacyLevel(1e-300).to_mu(sensitivity=1e200) == pytest.approx(1e50)
    assert pv.PrivacyLevel(1e300).to_mu(sensitivity=1e-200) == pytest.approx(1e-50)
    with pytest.raises(InvalidInput):
        pv.PrivacyLevel.from_mu(1e200, sensitivity=1.0)
    with pytest.raises(InvalidInput, match="shape must be a PrivacyLevel"):
        pv.PrivacyLevel.from_mu(1.0, sensitivity=1.0, shape=3.0)
