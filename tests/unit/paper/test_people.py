"""The set-up of the recursive experiments: what is public, the weights, and the chance band."""

import dataclasses

import numpy as np
import pytest
import scipy

import privest as pv
from privest.data.frames import Table
from privest.errors import InvalidInput
from privest.paper import _people as people
from privest.paper._fig2 import mean_square_moments
from privest.paper._people import DIABETES, NHANES, Plan, ratio_error

SMALL = Plan(reference=60, blocks=3, length=12)


def table(seed=0, people=120, logarithm=False):
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.uniform(12, 80, people), rng.integers(0, 2, people)])
    u = 3.0 + 0.01 * features[:, 0] - 0.1 * features[:, 1] + 0.3 * rng.standard_normal(people)
    return Table(u if logarithm else np.exp(u), features, "fat", ("age", "sex"), "test", logarithm)


def test_nothing_public_comes_from_the_blocks():
    """Other responses in the blocks change the measurements and nothing else."""
    one, plan = table(), SMALL
    order = np.random.default_rng(4).permutation(len(one))
    reference, others = order[:60], order[60:96]
    changed = one.response.copy()
    changed[order[60:]] *= 1.7
    other = dataclasses.replace(one, response=changed)
    first = people.split(one, plan, np.random.default_rng(4))
    second = people.split(other, plan, np.random.default_rng(4))
    for name in ("theta", "variance", "reference_covariance", "centre", "rows"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert not np.allclose(first.measurements, second.measurements)
    # by hand
    u = scipy.special.boxcox(one.response, scipy.stats.boxcox(one.response[reference])[1])
    y = (u - u[reference].mean()) / u[reference].std(ddof=1)
    X = one.features
    H = np.column_stack([np.ones(120), (X - X[reference].mean(0)) / X[reference].std(0, ddof=1)])
    theta, rest, *_ = np.linalg.lstsq(H[reference], y[reference])
    np.testing.assert_allclose(first.theta, theta, atol=1e-13)
    assert first.variance == pytest.approx(float(rest[0]) / 57, rel=1e-12)
    np.testing.assert_array_equal(first.measurements, y[others].reshape(3, 12))
    gram = H[reference].T @ H[reference]
    np.testing.assert_allclose(
        first.reference_covariance, first.variance * np.linalg.inv(gram), rtol=1e-12, atol=1e-16
    )


def test_a_logarithm_is_not_transformed_again():
    one = table(logarithm=True)
    found = people.split(one, SMALL, np.random.default_rng(0))
    reference = one.response[np.random.default_rng(0).permutation(len(one))[:60]]
    back = found.measurements * reference.std(ddof=1) + reference.mean()
    assert np.isin(back.round(9), one.response.round(9)).all()


def test_the_plans_fit_their_data_and_bad_ones_are_named():
    assert NHANES.reference + 20 * 100 == 2704
    assert DIABETES.reference + 4 * 50 == len(pv.data.load_diabetes()) == 442
    with pytest.raises(InvalidInput, match=r"test has 120 people; 3 blocks of 30 .* need 150"):
        people.split(table(), Plan(60, 3, 30), np.random.default_rng(0))
    constant = dataclasses.replace(table(), features=np.ones((120, 2)))
    with pytest.raises(InvalidInput, match="is constant"):
        people.split(constant, SMALL, np.random.default_rng(0))


def test_the_drawn_level_is_that_of_the_paper():
    """S_k in [0.2, 2] on the diagonal of its own step, U_k = 0.1 √S_k ξ_k before it."""
    level = people.drawn_level(400, np.random.default_rng(2))
    own = np.diagonal(level.rows.dense()) ** 2
    assert own.min() >= 0.2
    assert own.max() <= 2.0
    # mean of 400 uniform numbers: 1.1 within 5 standard errors
    assert abs(own.mean() - 1.1) < 5 * (1.8 / np.sqrt(12)) / 20
    # A_k = [U_kᵀ/√S_k, √S_k] = [0.1 ξ_kᵀ, √S_k]
    ties = level.rows.dense()[np.tril_indices(400, -1)] / 0.1
    count = len(ties)
    assert abs(ties.mean()) < 5 / np.sqrt(count)
    assert abs(ties.var() - 1) < 5 * np.sqrt(2 / count)


@pytest.mark.parametrize("kind", ["drawn", "constant"])
def test_weights_are_the_private_rls(kind):
    """Every estimate and covariance against the recursion that a learner runs."""
    split = people.split(table(), SMALL, np.random.default_rng(0))
    level = (
        people.drawn_level(12, np.random.default_rng(1))
        if kind == "drawn"
        else pv.StreamLevel.constant(0.7, steps=12)
    )
    noise = np.random.default_rng(2).standard_normal((4, 12))
    streams = people.Streams.of(split, level)
    first = int(np.isfinite(streams.floors[1]).argmax())
    every = streams.estimates(split.measurements, noise[:, None])
    assert every.shape == (4, 3, 12, 3)
    found = every[:, 1, first:]
    bound, measured, own = (
        part[1, first:] for part in (streams.bound, streams.measured, streams.noise)
    )
    for r in range(4):
        mechanism = pv.StreamMechanism(level)
        release = mechanism.simulate(split.measurements[1], _Given(noise[r]))
        rls = pv.PrivateRLS(level, 3, pv.noise.Gaussian(cov=split.variance))
        values, bounds = [], []
        for k, row in enumerate(split.rows[1]):
            rls.update(release.part(k, k + 1, [1] * release.steps), row)
            assert rls.identifiable == (k >= first)
            if rls.identifiable:
                values.append(rls.value)
                bounds.append(rls.covariance)
        np.testing.assert_allclose(found[r], values, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(bound, bounds, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(measured + own, bound, rtol=1e-9, atol=1e-12)
    assert (np.linalg.eigvalsh(measured) > 0).all()


class _Given(np.random.Generator):
    """A generator whose normal numbers are known."""

    def __init__(self, numbers):
        super().__init__(np.random.PCG64(0))
        self.numbers = numbers

    def standard_normal(self, size=None):
        return self.numbers.copy()


def covariances(seed, blocks=3, steps=2, n=2):
    root = np.random.default_rng(seed).normal(size=(blocks, steps, n, n))
    return root @ root.transpose(0, 1, 3, 2)


def test_moments_of_the_mean_square_error():
    """Mean, variance, skewness and tails against simulation of a, d and c.

    Moments of N draws: errors √(κ2/N), √((μ4 − κ2²)/N) and, for the skewness, that of its own
    batches; five of each allowed. Tails: binomial, five standard deviations, and a third for the
    approximation of the law.
    """
    shared, fresh, common = covariances(1), 2.0 * covariances(2), 0.1 * covariances(3)[0, 0]
    repetitions, draws = 4, 200_000
    moments = mean_square_moments(shared, fresh, common, repetitions)
    rng, step = np.random.default_rng(9), 1

    def normal(matrix, *shape):
        return rng.standard_normal((*shape, 2)) @ np.linalg.cholesky(matrix).T

    c, total = normal(common, draws), np.zeros(draws)
    for b in range(3):
        a, d = normal(shared[b, step], draws), normal(fresh[b, step], draws, repetitions)
        total += ((a[:, None] + d - c[:, None]) ** 2).sum(-1).mean(1) / 3
    centred = total - total.mean()
    variance = moments.deviation[step] ** 2
    assert abs(total.mean() - moments.mean[step]) < 5 * np.sqrt(variance / draws)
    fourth = (centred**4).mean()
    assert abs(total.var() - variance) < 5 * np.sqrt((fourth - variance**2) / draws)
    thirds = (centred.reshape(100, -1) ** 3).mean(axis=1)
    third = moments.skewness[step] * variance**1.5
    assert abs(thirds.mean() - third) < 5 * thirds.std() / 10
    for outside in (0.1, 0.01):
        low, high = (end[step] for end in moments.band(outside))
        above, below = (total > high).mean(), (total < low).mean()
        spread = 5 * np.sqrt(outside / 2 / draws)
        assert abs(above - outside / 2) < spread + outside / 6
        assert below < outside / 2 + spread + outside / 6


def test_the_band_is_exact_for_equal_squares():
    """A mean of 400 equal squares is χ²: the quantiles of scipy."""
    import scipy

    unit = np.ones((1, 1, 1, 1))
    moments = mean_square_moments(0.0 * unit, unit, np.zeros((1, 1)), 400)
    low, high = moments.band(0.05)
    assert high[0] == pytest.approx(scipy.stats.chi2.ppf(0.975, 400) / 400, rel=1e-12)
    assert low[0] == pytest.approx(scipy.stats.chi2.ppf(0.025, 400) / 400, rel=1e-12)


def test_shared_measurements_are_not_averaged_by_repetitions():
    """What repetitions share stays: with R → ∞ the variance falls to 2 Σ_b tr Σ_a²/B²."""
    shared, fresh = covariances(1), covariances(2)
    moments = mean_square_moments(shared, fresh, np.zeros((2, 2)), 10**9)
    limit = 2.0 * np.sum(shared**2, axis=(0, 2, 3)) / 9
    np.testing.assert_allclose(moments.deviation**2, limit, rtol=1e-6)


def test_ratio_error_forgives_what_designs_explain():
    floors = np.array([[1.0], [2.0], [5.0]])
    assert ratio_error(1.3 * floors, floors)[0] == pytest.approx(0.0, abs=1e-15)
    equal = np.ones((50, 1))
    values = np.random.default_rng(0).normal(3.0, 1.0, (50, 1))
    expected = values.std(ddof=1) / np.sqrt(50)
    assert ratio_error(values, equal)[0] == pytest.approx(expected, rel=1e-12)
