"""Exact outputs that move with y are found; outcomes that stay are not mistaken for them."""

import math

import numpy as np
import pytest

from privest import PrivacyLevel
from privest.audit import certify, fisher_information
from privest.audit._samples import moving_atoms
from toy_channels import Sign, TriangularDither


def itself(y, rng, n):
    return np.tile(y, (n, 1))


def sometimes(y, rng, n):
    """The reading in 1 % of the releases, else with unit noise."""
    return np.where(rng.random((n, 1)) < 0.01, y, y + rng.standard_normal((n, y.size)))


def first_only(y, rng, n):
    """Reading 0 exactly in a tenth of the releases, reading 1 with unit noise always."""
    z = y + rng.standard_normal((n, 2))
    z[:, 0] = np.where(rng.random(n) < 0.1, y[0], z[:, 0])
    return z


def joint(y, rng, n):
    """Each output is a fair sign whatever y is; their product is the sign of y."""
    sign = rng.choice([-1.0, 1.0], n)
    return np.stack([sign, sign * np.where(y[0] >= 0, 1.0, -1.0)], axis=1)


def rounded(y, rng, n):
    return np.tile(np.round(y, 2), (n, 1))


def dithered(y, rng, n):
    return TriangularDither().sample(np.broadcast_to(y, (n, y.size)), rng)


def signs(y, rng, n):
    return Sign().sample(np.broadcast_to(y, (n, y.size)), rng)


def noise_on_a_grid(y, rng, n):
    return np.round(y + rng.standard_normal((n, y.size)), 1)


def clipped(y, rng, n):
    return np.clip(y + rng.standard_normal((n, y.size)), -1, 1)


def jittery(y, rng, n):
    """Fixed outcomes, computed with a rounding error that depends on y."""
    return y + (rng.choice([1.0, 2.0], (n, y.size)) - y)


def search_atoms(sampler, y, seed=1, samples=20_000):
    y = np.asarray(y)
    rng = np.random.default_rng(seed)
    return [a is not None for a in moving_atoms(sampler, y, np.eye(y.size), samples, rng)]


@pytest.mark.parametrize("sampler", [itself, sometimes])
@pytest.mark.parametrize("y", [0.0, 0.3, -1e6, 1e-6])
def test_the_reading_itself_is_a_violation(sampler, y):
    rng = np.random.default_rng(1)
    found = certify(sampler, PrivacyLevel([1.0]), search=[[y]], rng=rng)
    assert found.verdict == "violated"
    assert found.margin == math.inf
    assert found.worst_y[0] == y
    assert "moves with y" in str(found)
    information = fisher_information(sampler, [y], rng=rng)
    assert information.matrix[0, 0] == math.inf
    assert "moves with y" in str(information)


def test_only_the_reading_that_is_shown_is_infinite():
    found = fisher_information(
        first_only, [0.3, 0.4], samples=50_000, rng=np.random.default_rng(2), confidence=0.999
    )
    assert found.matrix[0, 0] == found.lower[0] == math.inf
    assert abs(found.matrix[1, 1] - 1) <= found.error[1, 1]
    assert np.isnan(found.matrix[0, 1])


def test_noise_that_is_a_few_values_moves():
    assert search_atoms(lambda y, rng, n: y + rng.integers(-5, 6, (n, 1)), [0.3]) == [True]


@pytest.mark.parametrize(("slope", "offset"), [(1e-5, 0.0), (1e-3, 1e3), (1.0, 1e6)])
def test_outputs_that_follow_slowly_or_from_afar(slope, offset):
    assert search_atoms(lambda y, rng, n: np.tile(offset + slope * y, (n, 1)), [0.3]) == [True]


def test_fine_steps_at_large_readings_are_no_alarm():
    # Steps of 1e-6 of the reading: the second move crosses one, and the outcomes are not close.
    assert search_atoms(dithered, [1e6 + 0.3]) == [False]
    assert search_atoms(rounded, [1e5 + 0.003]) == [False]


def test_a_pattern_of_outputs_counts_as_well():
    assert search_atoms(joint, [0.0]) == [True]
    assert search_atoms(joint, [0.3]) == [False]


@pytest.mark.parametrize(
    "sampler",
    [rounded, dithered, signs, noise_on_a_grid, clipped, jittery],
    ids=lambda f: f.__name__,
)
def test_outcomes_that_stay_are_no_alarm(sampler):
    for seed, y in enumerate(([0.3, -0.7], [1e3, 0.1], [0.0, 0.2])):
        assert search_atoms(sampler, y, seed) == [False, False]


def test_a_rare_exact_output_needs_enough_samples():
    # 1 % of 2000 releases are 20 occurrences: 2^-20 is no proof.
    assert search_atoms(sometimes, [0.3], samples=2000) == [False]
    assert search_atoms(sometimes, [0.3], samples=10_000) == [True]


def test_quantisers_are_judged_as_before():
    rng = np.random.default_rng(3)
    assert certify(dithered, 10.0, search=[[0.3]], samples=50_000, rng=rng).verdict == "undecided"
    assert certify(signs, 0.3, search=[[0.0]], samples=50_000, rng=rng).verdict == "violated"


def test_a_rounded_reading_is_shown_on_an_edge():
    rng = np.random.default_rng(4)
    found = certify(rounded, PrivacyLevel([1.0]), search=[[0.3]], samples=20_000, rng=rng)
    assert found.verdict == "undecided"
    assert "did not change at all" in str(found)  # close to the reading
    information = fisher_information(rounded, [0.3], samples=20_000, rng=rng)
    assert "none seen" in str(information)
    assert "shows nothing of what happens elsewhere" in str(information)
    # On an edge of the rounding the output jumps.
    assert certify(rounded, 1.0, search=[[0.125]], rng=rng).margin == math.inf
