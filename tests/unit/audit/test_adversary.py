"""Attackers: right where the answer is known, and reported next to the right floors."""

import math

import numpy as np
import pytest

from privest import PrivacyLevel, noise
from privest.audit import attack
from privest.audit._attackers import unbiased_floors
from privest.errors import InvalidInput, NumericalFailure
from privest.mechanism import Additive, Componentwise
from toy_channels import Shift, Sign, TriangularDither


def test_gaussian_noise_attains_every_floor():
    level = PrivacyLevel([2.0, 0.5])
    channels = [Additive(noise.Gaussian(0.5)), Additive(noise.Gaussian(2.0))]
    attacks = attack(
        Componentwise(channels),
        [1.0, -2.0],
        rng=np.random.default_rng(2),
        level=level,
        prior=(0.0, 1.0),
        trials=4000,
    )
    for one, s in zip(attacks, (2.0, 0.5)):
        # Four standard errors, eight comparisons: false alarm 5e-4.
        assert one.level_floor == pytest.approx(1 / s)
        assert one.unbiased_floor == pytest.approx(1 / s)
        assert abs(one.likelihood.mse - 1 / s) < 4 * one.likelihood.mse_error
        assert abs(one.likelihood.bias) < 4 * one.likelihood.bias_error
        assert one.van_trees == pytest.approx(1 / (1 + s))
        assert abs(one.averaged.mse - one.van_trees) < 4 * one.averaged.mse_error
        # The posterior mean pulls towards the prior: bias −u/(1 + s).
        shrunk = -(1.0 if one.output == 0 else -2.0) / (1 + s)
        assert abs(one.bayesian.bias - shrunk) < 4 * one.bayesian.bias_error
        assert "van Trees" in str(one)


def test_other_noise_stays_above_the_floors():
    one = attack(
        Additive(noise.Laplace(1.0)),
        0.7,
        rng=np.random.default_rng(3),
        level=1.0,
        prior=(0.0, 4.0),
    )[0]
    assert one.likelihood.mse - 4 * one.likelihood.mse_error > one.level_floor  # 2 > 1
    assert one.averaged.mse - 4 * one.averaged.mse_error > one.van_trees
    assert one.van_trees == pytest.approx(0.8)


def test_floors_follow_the_matrix():
    A = np.array([[1.0, 1.0]])
    mechanism = Componentwise(Additive(noise.Gaussian(1.0)), A)
    one = attack(
        mechanism, [1.0, 2.0], rng=np.random.default_rng(4), level=PrivacyLevel([1.0, 4.0])
    )[0]
    assert one.level_floor == pytest.approx(1.25)  # aᵀS⁻¹a
    assert one.bayesian is None
    hidden = attack(
        mechanism, [1.0, 2.0], rng=np.random.default_rng(4), level=PrivacyLevel([1.0, 0.0])
    )[0]
    assert hidden.level_floor == math.inf


def test_a_level_floor_inside_the_range_of_a_singular_level():
    # S = ggᵀ, g = (2, 1): aᵀS⁺a = 1 for a = g, and nothing but multiples of g may be shown.
    S = PrivacyLevel([[4.0, 2.0], [2.0, 1.0]])
    mechanism = Componentwise(Additive(noise.Gaussian(1.0)), [[2.0, 1.0], [2.0, 1.1]])
    attacks = attack(mechanism, [1.0, 2.0], rng=np.random.default_rng(4), level=S, trials=50)
    assert attacks[0].level_floor == pytest.approx(1.0, rel=1e-9)
    assert attacks[1].level_floor == math.inf


def test_very_different_levels_do_not_hide_each_other():
    S = np.array([[1e8, 0.0], [0.0, 1e-8]])
    assert unbiased_floors(np.eye(2), S) == pytest.approx([1e-8, 1e8])
    L = np.array([[1e6, 0.0], [1.0, 2.0], [1e-6, 1e-6]])
    rows = np.vstack([L.T, np.eye(3)])
    floors = unbiased_floors(rows, L @ L.T)
    assert floors[:2] == pytest.approx([1.0, 1.0], rel=1e-9)
    assert np.isinf(floors[2:]).all()


def test_refusals():
    rng = np.random.default_rng(1)
    channel = Additive(noise.Laplace())
    with pytest.raises(InvalidInput, match="variance must be > 0"):
        attack(channel, 0.0, rng=rng, prior=(0.0, 0.0))
    for prior in ((0.0,), (0.0, 1.0, 2.0)):
        with pytest.raises(InvalidInput, match="two numbers"):
            attack(channel, 0.0, rng=rng, prior=prior)
    for trials in (0, 1, -3, 2.5, True):
        with pytest.raises(InvalidInput, match="trials must be a whole number ≥ 2"):
            attack(channel, 0.0, rng=rng, trials=trials)
    with pytest.raises(InvalidInput, match="received int"):
        attack(3, 0.0, rng=rng)
    with pytest.raises(InvalidInput, match="for 1 measurements"):
        attack(channel, [0.0, 1.0], rng=rng)
    with pytest.raises(InvalidInput, match="for 3"):
        attack(channel, 0.0, rng=rng, level=PrivacyLevel([1.0, 2.0, 3.0]))
    with pytest.raises(InvalidInput, match="state its prior"):
        attack(lambda y, rng, n: y + rng.standard_normal((n, 1)), 0.0, rng=rng)


# --- both attackers, against a fine grid on the same releases -------------------------------------


def releases(channel, u, seed, trials=300):
    """The releases of `attack(rng=default_rng(seed))`: the first it draws."""
    return channel.sample(np.full(trials, u), np.random.default_rng(seed))


def attacked(channel, u, seed, prior=None, trials=300):
    return attack(channel, u, rng=np.random.default_rng(seed), prior=prior, trials=trials)[0]


@pytest.mark.parametrize("law", [noise.Gaussian(0.3), noise.Laplace(0.5), noise.Cauchy(2.0)])
def test_the_most_likely_input_of_a_shift_is_the_release(law):
    channel = Additive(law)
    found, z = attacked(channel, 5.0, 1), releases(channel, 5.0, 1)
    assert found.likelihood.mse == pytest.approx(((z - 5) ** 2).mean(), rel=1e-6)
    assert found.likelihood.unbounded == 0


def test_the_most_likely_input_among_several_peaks():
    # A mixture of far peaks: the higher one, at z − 6, must win, wherever the truth is.
    law = noise.from_logpdf(
        lambda x: np.logaddexp(np.log(0.4) - (x + 6) ** 2 / 2, np.log(0.6) - (x - 6) ** 2 / 2),
        normalise=True,
        breaks=[-6.0, 6.0],
    )
    channel = Shift(law, False)
    found, z = attacked(channel, 0.0, 1, trials=100), releases(channel, 0.0, 1, 100)
    assert found.likelihood.mse == pytest.approx(((z - 6) ** 2).mean(), rel=1e-5)


def test_a_single_answer_has_no_most_likely_input():
    assert attacked(Sign(), 0.2, 1).likelihood.unbounded == 1.0


def test_the_most_likely_input_of_a_quantiser_is_the_outcome():
    found, z = attacked(TriangularDither(), 0.3, 2), releases(TriangularDither(), 0.3, 2)
    assert found.likelihood.mse == pytest.approx(((z - 0.3) ** 2).mean(), rel=1e-5)


def test_a_flat_top_is_taken_in_its_middle():
    # u + uniform noise on (−1, 1): every u within 1 of z is equally likely. The best is z itself,
    # up to the spacing of the grid at a distance of 1.
    channel = Additive(noise.Uniform())
    found, z = attacked(channel, 5.0, 3), releases(channel, 5.0, 3)
    assert found.likelihood.unbounded == 0
    assert math.sqrt(found.likelihood.mse) == pytest.approx(
        math.sqrt(((z - 5) ** 2).mean()), abs=0.2
    )


@pytest.mark.parametrize(
    ("channel", "u", "prior"),
    [
        (Additive(noise.Gaussian(1e-12)), 5.0, (2.0, 4.0)),
        (Additive(noise.Gaussian(1e-4)), 102.0, (2.0, 4.0)),  # 50 deviations away
        (Additive(noise.Gaussian(1e6)), 5.0, (2.0, 4.0)),
        (Additive(noise.Laplace(1e-5)), 0.5, (0.5, 4.0)),
        (Additive(noise.Laplace(20.0)), 8.0, (0.5, 4.0)),
        (Additive(noise.Uniform(1.0)), 2.0, (0.5, 4.0)),
        (Additive(noise.Cauchy(1.0)), 30.0, (0.5, 4.0)),  # a peak at the prior and one at z
        (Sign(), 0.3, (0.0, 4.0)),
        (TriangularDither(), 0.3, (0.0, 1.0)),
    ],
    ids=lambda one: repr(one)[:40],
)
def test_the_posterior_mean(channel, u, prior):
    found, z = attacked(channel, u, 4, prior=prior), releases(channel, u, 4)
    mean, variance = prior
    # A fine grid over the posterior: 40 points a deviation of the narrower of the two.
    exact = []
    for one in z:
        low, high = min(mean, u, one), max(mean, u, one)
        if isinstance(channel, Additive) and isinstance(channel.law, noise.Gaussian):
            gain = variance / (variance + channel.law.variance)
            exact.append(mean + gain * (one - mean))
            continue
        wide = 12 * math.sqrt(variance)
        grid = np.concatenate([
            np.linspace(low - wide, high + wide, 40_001), one + 1e-4 * np.linspace(-3, 3, 2001),
        ])  # fmt: skip
        grid = np.unique(grid)
        log = (
            channel.log_density(np.full(grid.shape, one), grid) - (grid - mean) ** 2 / variance / 2
        )
        w = np.exp(log - log.max())
        exact.append(np.trapezoid(w * grid, grid) / np.trapezoid(w, grid))
    exact = np.array(exact)
    # The grid of the attacker is 0.08 units wide where both are known best.
    assert found.bayesian.mse == pytest.approx(((exact - u) ** 2).mean(), rel=0.01)
    assert found.bayesian.bias == pytest.approx(
        (exact - u).mean(), abs=0.1 * math.sqrt(found.bayesian.mse)
    )


def test_a_posterior_that_nothing_explains_is_an_error():
    with pytest.raises(NumericalFailure, match="releases are explained by no input"):
        attack(Nowhere(), 0.0, rng=np.random.default_rng(1), prior=(0.0, 1.0), trials=3)


class Nowhere(Sign):
    def log_density(self, z, u):
        return np.full(np.broadcast_shapes(np.shape(z), np.shape(u)), -np.inf)

    def information(self, u):
        return np.ones(np.shape(u))

    @property
    def worst(self):
        return 1.0
