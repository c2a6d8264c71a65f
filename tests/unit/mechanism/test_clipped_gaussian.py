"""A Gaussian mechanism with a range: what it shows, how much of it, and the estimate from it."""

import numpy as np
import pytest
import scipy.stats

import privest as pv
from privest.errors import InvalidInput
from privest.estimator import estimate_release
from privest.lattice import GRID
from privest.mechanism import GaussianMechanism
from privest.mechanism.rows import clip_of

LIMITS = (-1.0, 1.5)
S = np.array([[2.0, -1.2], [-1.2, 1.0]])


@pytest.mark.parametrize("level", [0.7, [0.7, 2.0], S])
def test_the_ends_hold_what_readings_in_range_show(level):
    """All corners of the box: within the ends, which are multiples of the grid next to them.

    A pointwise level is clipped inwards, a correlated one outwards, by at most two steps.
    """
    mechanism = GaussianMechanism(level, 2, range=LIMITS)
    low, high = mechanism.ends
    corners = np.array([[a, b] for a in LIMITS for b in LIMITS])
    free = GaussianMechanism(level, 2)
    shown = free.score(np.zeros(2), corners)  # −S y
    L = free._S.times_factor(np.eye(2))
    u = corners @ L
    assert np.abs(shown + corners @ free._S.dense()).max() < 1e-12
    assert (low % GRID == 0).all()
    assert (high % GRID == 0).all()
    pointwise = mechanism._S.pointwise is not None
    gap = np.array([low - u.min(axis=0), u.max(axis=0) - high])
    assert (gap >= 0).all() if pointwise else (gap <= 0).all()
    assert np.abs(gap).max() <= (1 if pointwise else 2) * GRID


def test_a_range_below_a_step_of_the_grid_is_refused():
    with pytest.raises(InvalidInput, match="narrower than a step"):
        GaussianMechanism(1.0, 1, range=(0.0001, 0.0002))
    with pytest.raises(InvalidInput, match="pair"):
        GaussianMechanism(1.0, 1, range=(1.0,))
    with pytest.raises(InvalidInput, match="low < high"):
        GaussianMechanism(1.0, 1, range=(1.0, 1.0))
    assert [end.tolist() for end in clip_of([np.array([1.0, -2.0, 0.0])], LIMITS)] == [
        [-1024, -3072, 0], [1536, 2048, 0],
    ]  # fmt: skip


def test_density_score_and_information_are_of_what_is_clipped():
    """Score by differences of ln p (1e-6), E score scoreᵀ = LDLᵀ ≤ S; the noise is drawn here."""
    mechanism = GaussianMechanism(S, 2, range=LIMITS)
    low, high = mechanism.ends
    L = mechanism._S.times_factor(np.eye(2))
    rng = np.random.default_rng(0)
    several = set()
    for y in np.array([[0.2, 0.1], [30.0, 0.3], [-40.0, 20.0], [2.0, 9.0]]):
        u = y @ L
        z = np.clip(u, low, high) + rng.standard_normal(2)
        steps = 1e-6 * np.eye(2)
        slopes = [mechanism.log_density(z, y + d) - mechanism.log_density(z, y - d) for d in steps]
        assert np.abs(np.array(slopes) / 2e-6 - mechanism.score(z, y)).max() < 1e-6
        inside = (low < u) & (u < high)
        several.add(tuple(inside))
        information = mechanism.information(y)
        assert np.abs(information - (L * inside) @ L.T).max() < 1e-12
        assert np.linalg.eigvalsh(S - information)[0] > -1e-12
    assert len(several) > 2  # both, one and no coordinate inside
    assert np.array_equal(mechanism.worst_information(), S)


@pytest.mark.parametrize("level", [[4.0, 1.0], S])
def test_the_statement_of_a_range_holds_for_every_change_of_a_reading(level):
    """‖clip(Lᵀy) − clip(Lᵀy')‖ ≤ μ for changes of any size, and the bound is near."""
    mechanism = GaussianMechanism(level, 2, range=LIMITS)
    said = mechanism.statement()
    assert said.conditions == ()
    low, high = mechanism.ends
    L = mechanism._S.times_factor(np.eye(2))
    rng, moves = np.random.default_rng(1), []
    for _ in range(500):
        y = rng.standard_normal(2) * 10 ** rng.uniform(-1, 3)
        other = y.copy()
        other[rng.integers(2)] *= -rng.uniform(-5, 5)
        moves.append(np.linalg.norm(np.clip(y @ L, low, high) - np.clip(other @ L, low, high)))
    assert said.mu / 2 < max(moves) <= said.mu * (1 + 1e-12)


def correlated_case(measurements=240):
    """Pairs of readings with correlated levels and noise."""
    rng = np.random.default_rng(4)
    H = np.column_stack([np.ones(measurements), rng.uniform(-1, 1, measurements)])
    sigma = np.kron(np.eye(measurements // 2), [[0.5, 0.2], [0.2, 0.4]])
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=sigma))
    level = pv.PrivacyLevel(np.kron(np.eye(measurements // 2), S))
    return model, level, sigma


@pytest.mark.parametrize("real", [False, True])
def test_the_estimate_of_a_correlated_release_has_its_covariance(real):
    """θ̂ − θ in standard errors, 80 releases: mean 0 and variance 1, at odds of 1e-7 for each."""
    model, level, sigma = correlated_case(100)
    mechanism = GaussianMechanism(level.uncorrelated(sigma), model.measurements, range=(-0.4, 1.2))
    theta, rng, trials = np.array([0.6, 0.7]), np.random.default_rng(5), 80
    y = model.sample(theta, rng, trials=trials)
    z = mechanism.release(y) if real else mechanism.simulate(y, rng)
    fits = [estimate_release(one, model, mechanism, grid=GRID if real else 0.0) for one in z]
    scaled = np.array([(fit.value - theta) / fit.standard_error for fit in fits])
    odds = scipy.stats.norm.isf(5e-8), scipy.stats.chi2.isf([1e-7, 1 - 1e-7], trials)
    assert (np.abs(scaled.mean(axis=0)) < odds[0] / np.sqrt(trials)).all()
    assert ((scaled**2).sum(axis=0) < odds[1][0]).all()
    assert ((scaled**2).sum(axis=0) > odds[1][1]).all()
    assert np.mean([fit.clipped for fit in fits]) == pytest.approx(0.21, abs=0.05)
    bound = pv.bound(model, level).covariance
    assert np.abs(fits[0].bound - bound).max() < 1e-9 * np.abs(bound).max()
    if not real:
        together = estimate_release(z[:10], model, mechanism)
        for fit, other in zip(fits, together.value):
            assert np.abs((fit.value - other) / fit.standard_error).max() < 1e-5


def test_a_mean_of_the_noise_is_taken_off():
    """w ~ N(2, 1) with θ = 0 is θ = 2 with w ~ N(0, 1)."""
    H = np.ones((50, 1))
    mechanism = GaussianMechanism(1.5, 50, range=(0.0, 3.0))
    z = mechanism.simulate(np.linspace(-1.0, 5.0, 50), np.random.default_rng(0))
    plain, shifted = (
        pv.estimate(z, pv.LinearModel(H, noise=law), mechanism=mechanism).value
        for law in (pv.noise.Gaussian(1.0), pv.noise.Gaussian(1.0, mean=2.0))
    )
    assert plain[0] - 2.0 == pytest.approx(shifted[0], abs=1e-7)


def test_what_it_does_not_cover_is_told():
    model, level, _ = correlated_case(4)
    mechanism = GaussianMechanism(level, 4, range=LIMITS)
    with pytest.raises(InvalidInput, match=r"level\.uncorrelated"):
        estimate_release(np.zeros(4), model, mechanism)
