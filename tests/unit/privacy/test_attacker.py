"""What an attacker can do: closed forms against simulated attackers and dense formulas."""

import math

import numpy as np
import pytest
import scipy.stats

from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.privacy import PrivacyLevel, exposures, gdp, grid_statement

DRAWS = 200_000
# A share of right guesses, or a mean square relative to its value, is off by more than this once
# in two million checks: five standard deviations, √(p(1−p)/N) ≤ ½/√N, √(2/N) of a mean square.
SHARE, SQUARE = 2.5 / math.sqrt(DRAWS), 5 * math.sqrt(2 / DRAWS)


@pytest.fixture
def rng():
    return np.random.default_rng(16)


@pytest.mark.parametrize(("s", "tau"), [(4.0, 1.0), (0.3, 0.5), (25.0, 2.0)])
def test_guesses_of_one_reading(rng, s, tau):
    """The unbiased guess z, the posterior mean, and the side of the median by the sign of z."""
    y = rng.normal(0, tau, DRAWS)
    z = y + rng.normal(0, 1 / math.sqrt(s), DRAWS)
    believed = z * s / (s + 1 / tau**2)
    known = exposures.informed_error(s, tau) ** 2
    assert np.mean((believed - y) ** 2) == pytest.approx(known, rel=SQUARE)
    right = np.mean((z > 0) == (y > 0))
    assert right == pytest.approx(exposures.chance_of_side(s, tau), abs=SHARE)


@pytest.mark.parametrize(("s", "c"), [(4.0, 0.5), (0.3, 2.0), (25.0, 0.1)])
def test_two_values_are_told_apart_by_the_nearer_one(rng, s, c):
    truth = c * rng.integers(0, 2, DRAWS)
    z = truth + rng.normal(0, 1 / math.sqrt(s), DRAWS)
    right = np.mean((z > c / 2) == (truth > 0))
    told = exposures.chance_of_mu(c * math.sqrt(s))
    assert right == pytest.approx(told, abs=SHARE)
    assert exposures.mu_for_chance(told) == pytest.approx(c * math.sqrt(s), rel=1e-9)
    # The best attacker is right with ½(1 + total variation): δ(0) of Gaussian privacy.
    assert told == pytest.approx((1 + gdp.delta_of(c * math.sqrt(s), 0.0)) / 2, rel=1e-12)


@pytest.mark.parametrize("phi", [0.0, 0.95, -0.6])
@pytest.mark.parametrize("s", [0.1, 20.0])
def test_neighbours_in_time_help_as_a_dense_smoother_says(phi, s):
    """(Σ⁻¹ + sI)⁻¹ in the middle of 1201 steps; beyond 600 steps φ^600 < 1e-13 is left."""
    k, gamma = 1201, 1.7
    covariance = gamma * phi ** np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    middle = np.eye(k)[:, k // 2]
    # Σ − Σ(Σ + I/s)⁻¹Σ, at the middle: well conditioned.
    column = covariance @ middle
    solved = np.linalg.solve(covariance + np.eye(k) / s, column)
    dense = gamma - column @ solved
    found = exposures.neighbours_error(s, phi, math.sqrt(gamma)) ** 2
    assert found == pytest.approx(dense, rel=1e-8)
    if phi == 0:
        alone = exposures.informed_error(s, math.sqrt(gamma)) ** 2
        assert found == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize(("c", "p"), [(1.0, 0.75), (0.3, 0.6), (250.0, 0.99), (2.0, 0.501)])
def test_the_level_of_a_real_release_keeps_the_chance_and_little_less(c, p):
    """On the grid μ is rounded up to whole steps: at most p, and one step more would be beyond."""
    level = PrivacyLevel.from_attacker(c, p).number
    mu = grid_statement(level, sensitivity=c).mu
    assert exposures.chance_of_mu(mu) <= p < exposures.chance_of_mu(mu + 1.01 * GRID)
    assert level <= (exposures.mu_for_chance(p) / c) ** 2


def test_a_chance_that_is_a_coin_has_no_level_on_the_grid():
    with pytest.raises(InvalidInput, match="less than one step"):
        PrivacyLevel.from_attacker(1.0, 0.5001)


def test_a_coin_and_laplace_noise(rng):
    epsilon = 1.0
    q = 1 / (1 + math.exp(epsilon))
    truth = rng.integers(0, 2, DRAWS)
    seen = truth ^ (rng.random(DRAWS) < q)
    assert np.mean(seen == truth) == pytest.approx(exposures.coin_chance(epsilon), abs=SHARE)

    z = truth + rng.laplace(0, 1 / epsilon, DRAWS)
    right = np.mean((z > 0.5) == (truth > 0))
    assert right == pytest.approx(exposures.laplace_chance(epsilon), abs=SHARE)


def test_the_odds_change_by_more_than_epsilon_more_often_than_delta(rng):
    """δ is no probability of large odds; the Bayes factor of N(μ, 1) against N(0, 1) at z."""
    mu, epsilon = 1.3, 1.0
    z = rng.normal(mu, 1, DRAWS)
    odds = scipy.stats.norm.logpdf(z, mu) - scipy.stats.norm.logpdf(z)
    told = exposures.odds_beyond(mu, epsilon)
    assert np.mean(odds > epsilon) == pytest.approx(told, abs=SHARE)
    assert told > gdp.delta_of(mu, epsilon)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PrivacyLevel.from_attacker(1.0, 0.5), "0.5, a guess"),
        (lambda: PrivacyLevel.from_attacker(0.0, 0.75), "sensitivity must be > 0"),
        (lambda: exposures.chance_of_mu(-1.0), "≥ 0"),
        (lambda: exposures.neighbours_error(1.0, 1.0, 1.0), "between -1 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
