"""Every mechanism of the catalogue has a likelihood that is right, or says why it has none.

Right: ℓ, ℓ', −ℓ'' agree with Gauss-Legendre rules on ∫ p(z|y) N(y; η, σ²) dy, p(z|y) from the
channel itself, in the centre and in the tails.
"""

import math

import numpy as np
import pytest

from privest.bounds import bound
from privest.errors import NotIdentifiable
from privest.estimator import estimate_release
from privest.estimator.likelihood import QuadratureLikelihood, likelihood_of
from privest.mechanism import CATALOGUE
from privest.model import LinearModel
from privest.noise import Gaussian
from privest.privacy import PrivacyLevel

SD = 0.3
NODES, WEIGHTS = np.polynomial.legendre.leggauss(80)
CHANNELS = [name for name, entry in CATALOGUE.items() if entry.channel is not None]
# Those that have none, and the reason that must be given.
REFUSED = {"rotation": "through ‖Ay‖ alone", "geometric": "through ‖Ay‖ alone"}
# By panels in y (320 values a reading); all others are closed forms or tables made once.
BY_QUADRATURE = {"privacy-weights", "gain-gaussian", "gain-uniform", "truncated-gain-gaussian"}


def special_points(channel, z):
    """Values of y where p(z|·) is not smooth, by the formulas in the channels' docstrings."""
    p = channel.parameters
    name = type(channel).__name__
    if name == "Additive":
        law = channel.law
        ends = (*law.landmarks, *law.jumps, *law.support)
        return [z - point for point in ends if math.isfinite(point)]
    if name == "Inverse":
        edge = channel.truncate or 0.0
        return [-edge, 0.0, edge, z]
    if name == "Gain":
        edge, law = channel.truncate or 0.0, channel.law
        ends = (*law.landmarks, *law.jumps, *law.support)
        return [-edge, 0.0, edge, *(z / d for d in ends if d != 0)]
    if name == "TwinUniform":
        return [z / (1 + s * p[key]) for s in (-1, 1) for key in ("inner", "outer")]
    if name == "BinaryQuantiser":
        return [channel.threshold]
    if name in ("ProbabilisticQuantiser", "LaplaceQuantiser"):
        return [z + part * channel.step for part in (-1.5, -1, -0.5, 0, 0.5, 1, 1.5)]
    return [z]


def by_quad(channel, z, eta, sd):
    """ℓ, ℓ', −ℓ'' by Gauss-Legendre between breaks, where the integrand is not negligible."""
    breaks = np.unique([b for b in special_points(channel, z) if abs(b - eta) < 1e3 * sd])

    def size(y):
        with np.errstate(all="ignore"):
            log_p = channel.log_density(np.full(np.shape(y), float(z)), y)
        return np.where(np.isnan(log_p), -np.inf, log_p) - ((y - eta) / sd) ** 2 / 2

    fine = sd * np.concatenate([np.linspace(-60, 60, 4801), 60 * 0.5 ** np.arange(30)])
    grid = np.unique(np.concatenate([eta + fine, *(b + s * fine for b in breaks for s in (1, -1))]))
    middle = (grid[1:] + grid[:-1]) / 2  # never on a jump
    height = size(middle)
    top = height.max()
    seen = np.flatnonzero(height > top - 45)
    low, high = grid[seen[0]], grid[seen[-1] + 1]
    peak = middle[height.argmax()]
    cuts = [peak + s * sd * 2.0**k for s in (-1, 1) for k in range(-6, 5)]
    cuts = np.unique([low, high, peak, *(c for c in (*cuts, *breaks) if low < c < high)])

    low, high = cuts[:-1, None], cuts[1:, None]
    y = (low + high) / 2 + (high - low) / 2 * NODES
    mass = np.exp(size(y) - top) * WEIGHTS * (high - low) / 2
    x, total = (y - eta) / sd, mass.sum()
    mean = (mass * x).sum() / total
    spread = (mass * (x - mean) ** 2).sum() / total
    return top + math.log(total / (sd * math.sqrt(2 * math.pi))), mean / sd, (1 - spread) / sd**2


@pytest.mark.parametrize("name", CHANNELS)
def test_value_slope_and_curvature_are_those_of_an_integral(name):
    """Tolerance: 1e-9 times 1 + |ℓ|; in the curvature what it leaves of 1/σ²."""
    channel = CATALOGUE[name].example(1).common
    likelihood = likelihood_of(channel, SD**2)
    assert isinstance(likelihood, QuadratureLikelihood) == (name in BY_QUADRATURE)
    binary = channel.discrete and name.startswith("binary")
    for z in (0.0, 1.0) if binary else (1.0, -3.0):
        for eta in (0.2, 1.4, -2.5, 9.0):  # up to 40 σ from z
            terms = likelihood(np.array([[z]]), np.array([[eta]]))
            value, slope, curvature = by_quad(channel, z, eta, SD)
            assert abs(terms.value[0, 0] - value) < 1e-9 * (1 + abs(value)), (z, eta)
            assert abs(terms.slope[0, 0] - slope) < 1e-8 * (1 / SD + abs(slope)), (z, eta)
            assert abs(terms.curvature[0, 0] - curvature) < 1e-6 / SD**2, (z, eta)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_entry_is_estimated_from_or_refused_with_its_reason(name):
    rng = np.random.default_rng(0)
    model = LinearModel(rng.uniform(-1, 1, (6, 2)), noise=Gaussian(cov=0.04))
    mechanism = CATALOGUE[name].example(6)
    z = mechanism.simulate(model.sample([1.0, -0.5], rng, trials=3), rng)
    if name in REFUSED:
        with pytest.raises(NotIdentifiable, match=REFUSED[name]):
            estimate_release(z, model, mechanism)
        return
    found = estimate_release(z, model, mechanism)
    assert found.value.shape == (3, 2)
    assert np.isfinite(found.log_likelihood).all()
    if name == "gaussian":  # s = 1: y + w with variance 1 + σ²
        rest = z - found.value @ model.matrix.T
        expected = -0.5 * (rest**2).sum(axis=1) / 1.04 - 3 * math.log(2 * math.pi * 1.04)
        assert np.abs(expected - found.log_likelihood).max() < 1e-12
        return
    eta = model.matrix @ found.value[0]
    parts = [by_quad(mechanism.common, a, b, 0.2)[0] for a, b in zip(z[0], eta)]
    assert abs(sum(parts) - found.log_likelihood[0]) < 1e-8 * (1 + np.abs(parts).sum())


def test_the_gaussian_mechanism_attains_the_bound_matrix():
    """The information of the whitened readings is the bound's, for a dense S and Σ."""
    rng = np.random.default_rng(1)
    H, a, b = rng.uniform(-1, 1, (5, 2)), rng.standard_normal((5, 5)), rng.standard_normal((5, 3))
    model = LinearModel(H, noise=Gaussian(cov=a @ a.T))
    level = PrivacyLevel(b @ b.T)
    from privest.mechanism import GaussianMechanism

    mechanism = GaussianMechanism(level, 5)
    found = estimate_release(np.zeros(mechanism.outputs), model, mechanism)
    assert np.abs(found.covariance - bound(model, level).covariance).max() < 1e-12 * 1e3
