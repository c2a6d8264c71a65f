"""θ̂ and its errors from sums of persons, against dense formulas and another package."""

import numpy as np
import pytest
from scipy.stats import binom, t

from privest.errors import NotIdentifiable
from privest.estimator.inference import (
    PeopleNoise,
    PeopleSums,
    cluster_errors,
    group_sums,
)
from privest.mechanism import RowMechanism
from privest.privacy.statement import person_root

THETA = np.array([1.0, -0.5, 0.3])


def people_errors(sums, rows, noise):
    """θ̂ and its CR2 errors of persons held at once, in two passes."""
    made = PeopleSums(sums.shape[-1] - 2, noise)
    made.add(sums, rows)
    found, second = made.solve(), made.errors()
    turn = made.turned(second)
    made.add_errors(second, found.value, turn.T @ sums @ turn, rows)
    return found, second.errors()


class World:
    """Persons with unequal numbers of rows, a feature between and one within persons."""

    def __init__(self, rng, sizes, s=2.0, within=0.5, between=0.5, most=None):
        self.rng, self.sizes = rng, np.asarray(sizes)
        self.labels = np.repeat(np.arange(len(sizes)), sizes)
        K = len(self.labels)
        self.H = np.column_stack(
            [np.ones(K), rng.standard_normal(len(sizes))[self.labels], rng.standard_normal(K)]
        )
        self.noise = PeopleNoise(s, most)
        self.within, self.between = within, between

    def released(self):
        """v = z̃/√s of one release, by the mechanism itself."""
        person = self.rng.standard_normal(len(self.sizes))[self.labels]
        y = self.H @ THETA + np.sqrt(self.between) * person
        y += np.sqrt(self.within) * self.rng.standard_normal(len(y))
        rows = self.sizes if self.noise.most is None else np.full_like(self.sizes, self.noise.most)
        weights = np.array([person_root(self.noise.level, int(r)) for r in rows])[self.labels]
        shown = RowMechanism().simulate(y, weights, self.rng) / np.sqrt(self.noise.level)
        return shown, shown * np.sqrt(rows[self.labels])

    def sums(self, shown):
        rows = np.column_stack([self.H, shown, np.ones(len(shown))])
        found = group_sums(rows, self.labels, len(self.sizes))
        return self.noise.readings(found, self.sizes)

    def covariance(self, within=0.0, between=0.0):
        """Of z, dense."""
        own = self.noise.variances(self.sizes)
        return np.diag(own[self.labels] + within) + between * (self.labels[:, None] == self.labels)


SIZES = [1, 2, 5, 3, 3, 1, 4, 7, 2]


@pytest.mark.parametrize("most", [None, 9])
def test_sums_give_the_dense_estimate(most):
    """Generalised least squares with the covariance of the noise, and CR2 of the whitened rows."""
    world = World(np.random.default_rng(1), SIZES, most=most)
    shown, z = world.released()
    sums = world.sums(shown)
    rows = np.column_stack([world.H, z, np.ones(len(z))])
    np.testing.assert_allclose(sums, group_sums(rows, world.labels, 9), rtol=1e-10, atol=1e-10)
    found, errors = people_errors(sums, world.sizes, world.noise)
    root = np.linalg.cholesky(np.linalg.inv(world.covariance())).T  # of the precision
    G, zeta = root @ world.H, root @ z
    floor = np.linalg.inv(G.T @ G)
    np.testing.assert_allclose(found.floor, floor, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.value, floor @ G.T @ zeta, rtol=1e-9)
    left = zeta - G @ found.value
    assert found.misfit == pytest.approx(left @ left / (len(z) - 3))
    # whitened within persons: the root is block-diagonal, so groups stay groups
    matrices = group_sums(G, world.labels, 9)
    scores = np.stack([G[world.labels == g].T @ left[world.labels == g] for g in range(9)])
    dense = cluster_errors(matrices, scores)
    np.testing.assert_allclose(errors.covariance, dense.covariance, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(errors.degrees_of_freedom, dense.degrees_of_freedom, rtol=1e-8)


def test_the_variance_of_values_is_unbiased():
    """Within and between persons together, by moments, beside privacy noise of any size."""
    world = World(np.random.default_rng(7), SIZES * 60, s=4.0, within=0.5, between=0.3)
    found = [
        people_errors(world.sums(world.released()[0]), world.sizes, world.noise)[0].variance
        for _ in range(20)
    ]
    assert np.mean(found) == pytest.approx(0.8, abs=5 * np.std(found) / np.sqrt(20) + 0.02)


def test_what_cannot_be_told_is_said():
    world = World(np.random.default_rng(6), [1] * 9)
    world.H[:, 2] = 2 * world.H[:, 1]
    with pytest.raises(NotIdentifiable, match="do not determine"):
        people_errors(world.sums(world.released()[0]), world.sizes, world.noise)


def coverage(world, trials):
    """Shares of 95 % intervals that hold θ: intercept, between, within."""
    hits = np.zeros(3)
    for _ in range(trials):
        sums = world.sums(world.released()[0])
        found, errors = people_errors(sums, world.sizes, world.noise)
        reach = t.ppf(0.975, errors.degrees_of_freedom) * errors.standard_error
        hits += np.abs(found.value - THETA) <= reach
    return hits / trials


@pytest.mark.parametrize("people", [15, 40])
def test_intervals_cover(people):
    """real-tables.md: .938 to .971; five deviations below .938 is a failure."""
    world = World(np.random.default_rng(people), np.resize([1, 2, 5, 8], people))
    covered = coverage(world, 250)
    assert (covered >= binom.ppf(3e-7, 250, 0.938) / 250).all()


@pytest.mark.slow
@pytest.mark.parametrize("people", [15, 40, 100])
def test_intervals_cover_over_designs(people):
    """Ten designs: on average 93 to 98 %."""
    rng = np.random.default_rng(people)
    worlds = [World(rng, np.resize([1, 2, 5, 20], people)) for _ in range(10)]
    covered = np.mean([coverage(world, 400) for world in worlds], axis=0)
    assert (covered > 0.93 - 3 * np.sqrt(0.93 * 0.07 / 4000)).all()
    assert (covered < 0.985).all()
