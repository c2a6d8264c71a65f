"""A public range: what may be clipped, how far one reading then moves, levels for it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privest as pv
from privest.errors import InvalidInput
from privest.linalg import psd, uncorrelated
from privest.privacy import PrivacyLevel, Range


def test_a_range_is_the_move_of_one_reading():
    found = Range(-1, 3.0)
    assert found.width == 4.0
    assert found.to_dict() == {"low": -1.0, "high": 3.0}
    level = PrivacyLevel([0.25, 4.0])
    assert level.to_mu(sensitivity=found.width) == 8.0  # 2·(3 − (−1)): the larger of √s


@pytest.mark.parametrize("bad", [(1, 1), (2, 1), (np.nan, 1), (-np.inf, 1), (-1e308, 1e308)])
def test_no_range(bad):
    with pytest.raises(InvalidInput):
        Range(*bad)


def factors(seed):
    """A random L (m, r) of any rank, with some entries 0."""
    rng = np.random.default_rng(seed)
    m, r = rng.integers(1, 6, 2)
    return rng.standard_normal((m, r)) * (rng.random((m, r)) < 0.8), rng


def test_clipping_correlated_readings_breaks_the_level():
    """The trap of safe-release.md 6: S = [[1, −.9], [−.9, 1]], one reading clipped. I = DSD."""
    S, D = np.array([[1.0, -0.9], [-0.9, 1.0]]), np.diag([1.0, 0.0])
    least = np.linalg.eigvalsh(S - D @ S @ D)[0]
    assert least == pytest.approx((1 - np.sqrt(1 + 4 * 0.81)) / 2)  # −.53
    assert least < -0.5


@given(st.integers(0, 10**6))
def test_clipping_coordinates_never_does(seed):
    """LDLᵀ ≤ LLᵀ for 0 ≤ D ≤ I; down to the rounding of the product."""
    L, rng = factors(seed)
    D = np.diag(rng.random(L.shape[1]) * (rng.random(L.shape[1]) < 0.7))
    S = L @ L.T
    rounding = 10 * len(S) * np.finfo(float).eps * np.abs(S).max()
    assert np.linalg.eigvalsh(S - L @ D @ L.T)[0] >= -rounding


def seeded(seed):
    """S of some rank and a dense Σ."""
    rng = np.random.default_rng(seed)
    half, root = rng.standard_normal((5, 5 - seed % 3)), rng.standard_normal((5, 5))
    return half @ half.T, root @ root.T


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", ["dense", "diagonal", "singular"])
def test_an_uncorrelated_level_is_the_same_level(seed, noise):
    """S = LLᵀ and LᵀΣL diagonal: to rounding, 1e-12 of their sizes; of any rank."""
    S, sigma = seeded(seed)
    if noise == "diagonal":
        sigma = np.diag(np.diagonal(sigma))
    if noise == "singular":
        sigma = np.outer(sigma[0], sigma[0])
    level = PrivacyLevel(S)
    turned = level.uncorrelated(sigma)
    matrix = turned.for_size(5)
    L = matrix.times_factor(np.eye(5))
    assert matrix.rank == level.rank == 5 - seed % 3
    assert np.abs(L @ L.T - S).max() < 1e-12 * np.abs(S).max()
    V = L.T @ sigma @ L
    assert np.abs(V - np.diag(np.diagonal(V))).max() < 1e-12 * np.abs(V).max()
    assert turned.fingerprint != level.fingerprint  # another release: both sides must agree
    model = pv.LinearModel(np.vander(np.arange(5.0), 2), noise=pv.noise.Gaussian(cov=sigma))
    if level.rank > 2:
        one, other = (pv.bound(model, given).covariance for given in (level, turned))
        assert np.abs(one - other).max() < 1e-9 * np.abs(one).max()


def test_blocks_stay_blocks_where_the_noise_is_diagonal():
    level = PrivacyLevel.from_blocks([seeded(0)[0], seeded(1)[0][:2, :2]])
    turned = level.uncorrelated(np.arange(1.0, 8.0)).for_size(7)
    assert turned.sizes == (5, 2)
    L = turned.times_factor(np.eye(7))
    assert np.abs(L @ L.T - level.dense()).max() < 1e-12 * np.abs(level.dense()).max()
    V = L.T @ np.diag(np.arange(1.0, 8.0)) @ L
    assert np.abs(V - np.diag(np.diagonal(V))).max() < 1e-11
    assert PrivacyLevel([1.0, 2.0]).uncorrelated([3.0, 4.0]).for_size(2).pointwise is not None


def test_an_uncorrelated_level_needs_its_own_size():
    with pytest.raises(InvalidInput, match="size 3"):
        PrivacyLevel(np.eye(3) + 1).uncorrelated(np.eye(2))
    with pytest.raises(InvalidInput, match="3 measurements"):
        uncorrelated(psd(np.eye(3), "S"), psd(np.eye(2), "Σ"))
