"""Laplace and Gaussian channels released with exact noise; every other one refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from privest.errors import InvalidInput, NotReleasable
from privest.lattice import GRID, LAPLACE
from privest.mechanism import (
    CATALOGUE,
    Additive,
    Channel,
    Componentwise,
    calibrate,
)
from privest.mechanism.running import RunningMechanism
from privest.mechanism.source import Protected
from privest.model import LinearModel
from privest.noise import Gaussian, Laplace

RELEASED = {"gaussian", "laplace"}
SPECIAL = [0.0, -0.0, 1e300, -1e300, math.inf, -math.inf, 5e-324, math.nan]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_mechanism_releases_or_says_why_not(name):
    """And whether it does has nothing to do with the readings."""
    mechanism = CATALOGUE[name].example(2)
    for value in SPECIAL:
        if name in RELEASED:
            assert mechanism.release([value, 1.0]).shape == (2,)
        else:
            with pytest.raises(NotReleasable, match="simulation only"):
                mechanism.release([value, 1.0])


def test_a_users_own_channel_is_not_released():
    own = Channel.from_functions(sample=lambda u, rng: u + rng.normal(size=u.shape))
    with pytest.raises(NotReleasable, match="from_functions"):
        Componentwise(own, measurements=1).release([0.0])


def variance_of_laplace():
    """g²·2q/(1 − q)², and at most g²/4 of rounding."""
    q = float(LAPLACE.ratio)
    return GRID**2 * 2 * q / (1 - q) ** 2


def test_a_laplace_release_has_the_law_of_its_simulation():
    """Against the exact discrete law by chi-square; p > 1e-6 on 40 cells."""
    count = 200_000
    scale, y = 0.5, 0.3
    mechanism = Componentwise(Additive(Laplace(scale)), measurements=1)
    z = mechanism.release([y], trials=count)[:, 0]
    whole = z / (scale * GRID)
    assert (whole == np.round(whole)).all()  # 1/scale is a power of two: multiples, exactly
    edges = y + Laplace(scale).quantile(np.linspace(0, 1, 41)[1:-1])
    seen = np.bincount(np.searchsorted(edges, z), minlength=40)
    # A cell of the continuous law is off by at most a step of the grid: 40·2^-10/2 of its mass.
    assert scipy.stats.chisquare(seen).pvalue > 1e-6
    assert z.mean() == pytest.approx(y, abs=5 * scale * math.sqrt(2 / count))


def test_the_mean_and_variance_of_a_matrix_release():
    """Within 5 standard errors; the variance of a Laplace variance estimate is 20 b⁴/n."""
    A, b, n = np.array([[1.0, 0.5], [0.0, 2.0], [3.0, -1.0]]), np.array([0.0, 10.0, -1.0]), 100_000
    scales = np.array([0.3, 1.0, 7.0])
    mechanism = Componentwise([Additive(Laplace(s)) for s in scales], A, b)
    y = np.array([0.123, -4.5])
    z = mechanism.release(y, trials=n)
    assert np.abs(z.mean(0) - A @ y - b).max() < 5 * 7.0 * math.sqrt(2 / n)
    expected = scales**2 * variance_of_laplace()
    assert np.abs(z.var(0) / expected - 1).max() < 5 * math.sqrt(5 / n)


def test_what_is_shown_before_the_noise_is_exact():
    """root·A·y in rationals, A any doubles: no term is rounded; and root·scale ≤ 1."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        scale = float(rng.uniform(0.1, 9))
        A, y = rng.normal(size=(2, 3)), rng.normal(size=3)
        exact = Componentwise(Additive(Laplace(scale)), A)._exact
        (noise,) = exact.noise
        assert Fraction(noise.root) * Fraction(scale) <= 1
        assert Fraction(math.nextafter(noise.root, 2e9)) * Fraction(scale) > 1
        shown = exact._shown(y)
        for i in range(2):
            found = sum(Fraction(noise.root) * Fraction(a) * Fraction(v) for a, v in zip(A[i], y))
            assert shown.exact(i) == found


@pytest.mark.parametrize("law", [Laplace(), Gaussian()])
def test_calibrated_noise_keeps_the_level_as_typed(law):
    """root² ≤ s in rationals, for levels whose roots are no doubles."""
    for s in [0.1, 0.7, 1 / 3, 2.0, 3.0, 1e-9, 12345.678]:
        mechanism = calibrate(lambda s: Additive.calibrated(s, law=law), s, model=2)
        assert Fraction(mechanism._exact.noise[0].root) ** 2 <= Fraction(s)
        assert mechanism._exact.noise[0].root ** 2 == pytest.approx(s, rel=1e-14)


def test_statements_of_a_release():
    mechanism = Componentwise(Additive(Laplace(2.0)), [[1.0, 0.0], [1.0, 4.0]])
    said = mechanism.statement(1.0)
    assert said.delta == 0.0
    assert said.epsilon == pytest.approx(mechanism.epsilon(1.0), rel=1e-6)  # 2, and just below
    assert said.epsilon < 2.0
    assert said.fisher == mechanism.worst_information().diagonal().max()
    gaussian = Componentwise(Additive(Gaussian(4.0)), measurements=3).statement(2.0)
    assert gaussian.squared_steps == 1024**2
    assert gaussian.proved


def test_output_perturbation_is_released():
    H = np.vander(np.linspace(0, 1, 6), 3)
    mechanism = calibrate("laplace", 4.0, model=LinearModel(H, noise=1.0), on="estimate")
    z = mechanism.release(np.ones(6), trials=20_000)
    shown = mechanism.matrix @ np.ones(6)
    assert np.abs(z.mean(0) - shown).max() < 5 * 0.5 * math.sqrt(2 / 20_000)


def test_missing_readings_hide_what_reads_them():
    mechanism = Componentwise(Additive(Laplace(1.0)), [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert np.isnan(mechanism.release([math.nan, 1.0])).tolist() == [True, False, True]
    pointwise = Componentwise(Additive(Gaussian()), measurements=2)
    assert np.isnan(pointwise.release([[1.0, math.nan], [0.0, 2.0]])).sum() == 1


def test_no_seed_no_simulation_no_two_laws():
    mechanism = Componentwise(Additive(Laplace(1.0)), measurements=1)
    with pytest.raises(InvalidInput, match="no seed"):
        mechanism.release([0.0], np.random.default_rng(1))
    both = Componentwise([Additive(Laplace(1.0)), Additive(Gaussian())])
    with pytest.raises(NotReleasable, match="all be Laplace"):
        both.release([0.0, 0.0])
    with pytest.raises(InvalidInput, match="for 1 measurements"):
        mechanism.release([0.0, 1.0])


def test_shifted_laws_are_released_shifted():
    z = Componentwise(Additive(5 + Laplace(0.1)), measurements=1).release([1.0], trials=1000)
    assert z.mean() == pytest.approx(6.0, abs=5 * 0.1 * math.sqrt(2 / 1000))
    z = Componentwise(Additive(Gaussian(0.01, 5.0)), measurements=1).release([1.0], trials=1000)
    assert z.mean() == pytest.approx(6.0, abs=5 * 0.1 / math.sqrt(1000))


def test_running_code_has_a_real_path_or_says_so():
    """`real()` puts the real path where audits look."""
    ours = Componentwise(Additive(Gaussian()), measurements=1)
    code = RunningMechanism(
        np.eye(1), lambda y, rng: y + rng.normal(size=1), "code",
        lambda y, source: ours.release(y, source),
    )  # fmt: skip
    assert code.release([0.0], Protected()).item() % GRID == 0
    assert code.real().simulate([0.0], np.random.default_rng(1)).item() % GRID == 0
    bare = RunningMechanism(np.eye(1), lambda y, rng: y, "code")
    with pytest.raises(NotReleasable, match="only simulates"):
        bare.release([0.0])
    with pytest.raises(NotReleasable, match="only simulates"):
        bare.real()
