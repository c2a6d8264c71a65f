"""θ̂ and its errors from sums of persons, against dense formulas and another package."""

import numpy as np
import pytest
import scipy
from scipy.stats import binom, t

from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator.inference import (
    EffectSums,
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


def effects(world, shown):
    made = EffectSums(3)
    made.add(world.sums(shown), world.sizes, world.noise.variances(world.sizes))
    return made


def restricted(world, z, within, between):
    """−2 log-likelihood, dense."""
    V = world.covariance(within, between)
    inverse = np.linalg.inv(V)
    information = world.H.T @ inverse @ world.H
    left = z - world.H @ np.linalg.solve(information, world.H.T @ inverse @ z)
    return np.linalg.slogdet(V)[1] + np.linalg.slogdet(information)[1] + left @ inverse @ left


@pytest.mark.parametrize("most", [None, 9])
def test_reml_is_the_dense_one(most):
    world = World(np.random.default_rng(2), SIZES * 3, s=4.0, most=most)
    shown, z = world.released()
    found = effects(world, shown).fit()
    best = scipy.optimize.minimize(
        lambda x: restricted(world, z, *np.exp(x)), [-1.0, -1.0], method="Nelder-Mead",
        options={"xatol": 1e-8, "fatol": 1e-11, "maxiter": 4000},
    )  # fmt: skip
    assert restricted(world, z, found.within, found.between) <= best.fun + 1e-7
    inverse = np.linalg.inv(world.covariance(found.within, found.between))
    covariance = np.linalg.inv(world.H.T @ inverse @ world.H)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(
        found.value, covariance @ world.H.T @ inverse @ z, rtol=1e-8, atol=1e-12
    )
    assert found.degrees_of_freedom == 25
    assert found.people == 27


def test_reml_agrees_with_statsmodels():
    """Nearly without release noise it is the mixed model of statsmodels."""
    sm = pytest.importorskip("statsmodels.api")
    world = World(np.random.default_rng(3), SIZES * 4, s=1e12, between=1.0)
    shown, z = world.released()
    found = effects(world, shown).fit()
    other = sm.MixedLM(z, world.H, groups=world.labels).fit(reml=True)
    assert found.within == pytest.approx(other.scale, rel=1e-3)
    assert found.between == pytest.approx(float(other.cov_re.squeeze()), rel=2e-3)
    np.testing.assert_allclose(found.value, other.fe_params, rtol=1e-4, atol=1e-5)
    # theirs are of the joint Hessian with the variances, ours at these variances: O(1/G) apart
    np.testing.assert_allclose(np.sqrt(found.covariance.diagonal()), other.bse_fe, rtol=1e-2)


def test_slopes_of_the_likelihood():
    world = World(np.random.default_rng(4), SIZES)
    shown, _ = world.released()
    from privest.estimator.inference._people import _Likelihood

    made = _Likelihood(effects(world, shown)._strata)
    for point in ((0.3, 0.7), (1e-3, 2.0), (2.0, 0.0)):
        slope = made.value(*point)[1]
        for j in range(2):
            step = np.zeros(2)
            step[j] = 1e-5
            if point[j] == 0:
                continue
            up, down = (made.value(*(np.array(point) + sign * step))[0] for sign in (1, -1))
            assert slope[j] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-5)


def test_parts_are_added_up():
    """Strata grow as persons come; the fit is that of all at once."""
    world = World(np.random.default_rng(5), SIZES * 2)
    shown, _ = world.released()
    whole, parts = effects(world, shown).fit(), EffectSums(3)
    sums = world.sums(shown)
    own = world.noise.variances(world.sizes)
    for g in range(0, 18, 4):
        at = slice(g, g + 4)
        parts.add(sums[at], world.sizes[at], own[at])
    np.testing.assert_allclose(parts.fit().value, whole.value, rtol=1e-6)


def test_what_cannot_be_told_is_said():
    world = World(np.random.default_rng(6), [2, 3])
    shown, _ = world.released()
    with pytest.raises(InvalidInput, match=r"3 persons or more .* received 2"):
        effects(world, shown).fit()
    world = World(np.random.default_rng(6), [1] * 9)
    with pytest.raises(InvalidInput, match="every person has one row"):
        effects(world, world.released()[0]).fit()
    world.H[:, 2] = 2 * world.H[:, 1]
    with pytest.raises(NotIdentifiable, match="do not determine"):
        people_errors(world.sums(world.released()[0]), world.sizes, world.noise)


def coverage(world, trials, reml=False):
    """Shares of 95 % intervals that hold θ: intercept, between, within."""
    hits = np.zeros(3)
    for _ in range(trials):
        sums = world.sums(world.released()[0])
        if reml:
            made = EffectSums(3)
            made.add(sums, world.sizes, world.noise.variances(world.sizes))
            found = made.fit()
            estimate, error = found.value, np.sqrt(found.covariance.diagonal())
            freedom = found.degrees_of_freedom
        else:
            found, errors = people_errors(sums, world.sizes, world.noise)
            estimate, error = found.value, errors.standard_error
            freedom = errors.degrees_of_freedom
        hits += np.abs(estimate - THETA) <= t.ppf(0.975, freedom) * error
    return hits / trials


@pytest.mark.parametrize("people", [15, 40])
def test_intervals_cover(people):
    """real-tables.md: .938 to .971; five deviations below .938 is a failure."""
    world = World(np.random.default_rng(people), np.resize([1, 2, 5, 8], people))
    covered = coverage(world, 250)
    assert (covered >= binom.ppf(3e-7, 250, 0.938) / 250).all()


@pytest.mark.slow
@pytest.mark.parametrize("reml", [False, True])
@pytest.mark.parametrize("people", [15, 40, 100])
def test_intervals_cover_over_designs(people, reml):
    """Ten designs: on average 93 to 98 %."""
    rng = np.random.default_rng(people)
    worlds = [World(rng, np.resize([1, 2, 5, 20], people)) for _ in range(10)]
    covered = np.mean([coverage(world, 100 if reml else 400, reml) for world in worlds], axis=0)
    low = 0.93 - 3 * np.sqrt(0.93 * 0.07 / (1000 if reml else 4000))
    assert (covered > low).all()
    assert (covered < 0.985).all()


def test_degrees_of_freedom_count_what_persons_differ_in():
    """Persons less the intercept and what is constant within each of them, whatever its size."""
    rng = np.random.default_rng(4)
    for columns, left in (([0], 8), ([0, 1], 7), ([0, 2], 8), ([0, 1, 2], 7)):
        world = World(rng, SIZES)
        world.H[:, 1] += 1e4
        world.H = world.H[:, columns]
        made = EffectSums(len(columns))
        shown = rng.standard_normal(len(world.H))
        made.add(world.sums(shown), world.sizes, world.noise.variances(world.sizes))
        assert made.fit().degrees_of_freedom == left
