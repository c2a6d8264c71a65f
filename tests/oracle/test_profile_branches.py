"""Ends of profile intervals at a low level against a dense profile on a grid.

AR(1) with a mean, K = 60 releases at s = .05: z = √s(μ + x) + e, cov x = γ₀ φ^|i−j|. For every φ
the correlations are diagonalised once; then ℓ is a sum over eigenvalues, and quadratic in μ.
Nothing of the package's likelihood, search or scales is used, and every branch of (φ, γ₀) is seen.
"""

import numpy as np
import pytest
import scipy

import privest as pv
from privest import dynamics

K, S = 60, 0.05
THRESHOLD = float(scipy.special.chdtri(1, 0.05))
# artanh φ and log γ₀, apart so little that ℓ (second derivatives of some units) is known to .01.
ROOTS = np.tanh(np.linspace(-8.0, 8.0, 161))
SIZES = np.exp(np.linspace(np.log(1e-5), np.log(1e3), 160))


def released(seed, truth=(0.6, 1.0, 5.0)):
    rng, level = np.random.default_rng(seed), pv.StreamLevel.constant(S)
    _, y = dynamics.AR(1).system(truth).sample(K, rng, inputs=np.ones((K, 1)))
    return level, pv.StreamMechanism(level).simulate(y, rng)


class Dense:
    """ℓ over (φ, γ₀) as c₀ + c₁μ + c₂μ², arrays (roots, sizes)."""

    def __init__(self, z):
        apart = np.abs(np.subtract.outer(np.arange(K), np.arange(K)))
        parts = []
        for phi in ROOTS:
            values, vectors = np.linalg.eigh(phi**apart)
            seen, ones = vectors.T @ z, np.sqrt(S) * vectors.sum(axis=0)
            variance = 1.0 + S * SIZES[:, None] * values
            constant = K * np.log(2 * np.pi) + np.log(variance).sum(1) + (seen**2 / variance).sum(1)
            parts.append([constant, (seen * ones / variance).sum(1), (ones**2 / variance).sum(1)])
        self.constant, self.cross, self.square = np.array(parts).transpose(1, 0, 2)

    def at_mean(self, mu):
        return np.max(-0.5 * self.constant + mu * self.cross - 0.5 * mu**2 * self.square)

    def best(self):
        """Over the mean, (roots, sizes)."""
        return -0.5 * self.constant + 0.5 * self.cross**2 / self.square


def seeds(quick, more):
    """The first of them always, the others among the longer statistics."""
    return [*quick, *(pytest.param(seed, marks=pytest.mark.slow) for seed in more)]


@pytest.mark.parametrize("seed", seeds([0, 1, 2, 1013, 1022], [3, 4, 5, 1018, 1030]))
def test_no_branch_is_above_the_threshold_where_a_mean_ends(seed):
    level, release = released(seed)
    found = dynamics.fit("ar1", release, level=level)
    dense = Dense(np.ravel(release.values))
    assert not found.open_ends()[2].any()
    assert not any("rough" in note for note in found.notes())
    top = dense.best().max()
    # The fit is not above the true maximum, nor below that of the grid.
    assert found.log_likelihood - top == pytest.approx(0.0, abs=0.05)
    for end in found.interval()[2]:
        off = 2 * (found.log_likelihood - dense.at_mean(end))
        assert off == pytest.approx(THRESHOLD, abs=0.05)


@pytest.mark.parametrize("seed", seeds([0, 3, 1019], [1, 2, 4, 5]))
def test_a_root_has_no_interval_where_no_process_at_all_is_not_excluded(seed):
    level, release = released(seed)
    found = dynamics.fit("ar1", release, level=level)
    z = np.ravel(release.values)
    nothing = -0.5 * (K * np.log(2 * np.pi) + ((z - z.mean()) ** 2).sum())
    assert 2 * (found.log_likelihood - nothing) < THRESHOLD
    assert found.open_ends()[:2].tolist() == [[True, True], [True, False]]
    assert found.interval()[0].tolist() == [-1.0, 1.0]
    assert any("phi1 has no interval: q = 0 is not excluded" in note for note in found.notes())


def test_five_steps_leave_a_root_open():
    rng, level = np.random.default_rng(3), pv.StreamLevel.constant(1.0)
    pv.StreamMechanism(level).simulate(rng.standard_normal(50), rng)
    release = pv.StreamMechanism(level).simulate(rng.standard_normal(5) * 3 + 2, rng)
    told = dynamics.fit("ar1", release, level=level)
    assert told.open_ends()[0].all()
    assert any("phi1 has no interval" in note for note in told.notes())


def test_regular_fits_look_for_no_other_branch():
    rng, level = np.random.default_rng(1), pv.StreamLevel.constant(5.0)
    _, y = dynamics.AR(1).system([0.6, 1.0, 5.0]).sample(600, rng, inputs=np.ones((600, 1)))
    found = dynamics.fit("ar1", pv.StreamMechanism(level).simulate(y, rng), level=level)
    before = found._objective.evaluations
    assert not found.open_ends().any()
    assert found._objective.evaluations - before <= 6 * 15
