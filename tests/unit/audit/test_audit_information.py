"""fisher_information: from the density and from samples, against closed forms."""

import math

import numpy as np
import pytest
import scipy

from privest import noise
from privest.audit import fisher_information
from privest.audit._samples import information_from_samples
from privest.errors import InvalidInput
from privest.mechanism import (
    Additive,
    Componentwise,
    Mechanism,
    PrivacyWeights,
    ProbabilisticQuantiser,
)
from toy_channels import Sign, TriangularDither, UniformDither


class Correlated(Mechanism):
    """z = y + N(0, C): not componentwise."""

    measurements = outputs = 2
    covariance = np.array([[1.0, 0.6], [0.6, 2.0]])

    def simulate(self, y, rng, trials=None):
        shape = (2,) if trials is None else (trials, 2)
        return self._given(y) + rng.standard_normal(shape) @ np.linalg.cholesky(self.covariance).T

    def log_density(self, z, y):
        raise NotImplementedError

    def score(self, z, y):
        return (np.asarray(z) - np.asarray(y)) @ np.linalg.inv(self.covariance)

    def information(self, y):
        return np.linalg.inv(self.covariance)

    def worst_information(self):
        return np.linalg.inv(self.covariance)


def shifted(law):
    return lambda y, rng, n: y[0] + law.sample(n, rng)


def test_channels_add_through_the_matrix():
    A = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, -1.0]])
    channels = [Additive(noise.Laplace(0.5)), TriangularDither(), Additive(noise.Cauchy(1.0))]
    y = np.array([0.4, 0.3])
    found = fisher_information(Componentwise(channels, A, 0.2), y)
    s = 0.5  # u₂ = 0.3 + 0.2: on the edge between two outcomes
    assert abs(s - (A @ y + 0.2)[1]) < 1e-15
    expected = A.T @ np.diag([4.0, 6.0, 0.5]) @ A
    assert (np.abs(found.matrix - expected) <= found.error + 1e-12).all()
    assert found.error.max() < 1e-4
    assert found.confidence is None


def test_infinite_entries_are_those_that_are_seen():
    A = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    both = Componentwise([UniformDither(), Additive(noise.Laplace())], A)
    found = fisher_information(both, [0.5, 0.5, 0.1]).matrix
    expected = [[math.inf, math.inf, 0], [math.inf, math.inf, 0], [0, 0, 1]]
    assert np.allclose(found, expected)


def test_any_other_mechanism_by_its_scores():
    mechanism = Correlated()
    found = fisher_information(
        mechanism, [3.0, 1.0], rng=np.random.default_rng(2), confidence=0.9999
    )
    expected = np.linalg.inv(mechanism.covariance)
    assert (np.abs(found.matrix - expected) <= found.error).all()  # false alarm 4e-4
    assert found.error.max() < 0.03
    assert found.confidence == 0.9999
    assert "confidence" in str(found)


@pytest.mark.parametrize(
    "law",
    [noise.Gaussian(0.3), noise.Laplace(0.5), noise.Cauchy(2.0)],
    ids=lambda law: type(law).__name__,
)
def test_samples_alone_are_right_to_a_few_percent(law):
    found = fisher_information(shifted(law), [0.2], samples=500_000, rng=np.random.default_rng(1))
    truth = law.fisher_information
    assert abs(found.matrix[0, 0] - truth) < 0.04 * truth  # measured: 1.0 %, 1.9 %, 0.8 %
    assert abs(found.matrix[0, 0] - truth) <= found.error[0, 0]
    assert 0.9 * truth < found.lower[0] <= truth


def test_samples_of_a_sampler_that_ignores_the_generator():
    # Nothing in common between the two ends: long steps, and an interval that says so.
    own = np.random.default_rng(8)
    found = fisher_information(
        lambda y, rng, n: y + own.laplace(size=(n, 1)), [0.0], rng=np.random.default_rng(1)
    )
    assert abs(found.matrix[0, 0] - 1) <= 2 * found.error[0, 0]
    assert 0.02 < found.error[0, 0] < 0.25
    assert 0.5 < found.lower[0] <= 1


def test_samples_of_a_few_outcomes():
    sign = Sign()
    found = fisher_information(
        lambda y, rng, n: sign.sample(np.full(n, y[0]), rng), [0.0], rng=np.random.default_rng(3)
    )
    assert abs(found.matrix[0, 0] - 2 / math.pi) <= found.error[0, 0]


def test_samples_of_two_readings_give_a_matrix():
    mechanism = Correlated()
    found = fisher_information(
        mechanism, [0.0, 1.0], method="samples", samples=60_000, rng=np.random.default_rng(4)
    )
    expected = np.linalg.inv(mechanism.covariance)
    assert (np.abs(found.matrix - expected) <= 1.5 * found.error + 0.03).all()
    assert (found.lower <= np.diagonal(expected)).all()


def test_samples_of_a_jump_show_more_the_closer_they_look():
    # Uniform noise on (−1, 1): the distance over 2h is ~√h, so the bound grows like 1/h.
    law = noise.Uniform()
    found = [
        fisher_information(shifted(law), [0.0], samples=n, rng=np.random.default_rng(5)).lower[0]
        for n in (20_000, 500_000)
    ]
    assert found[0] > 5
    assert found[1] > 1.3 * found[0]


def test_the_lower_bound_covers():
    # 25 audits at 90 %: nine or more false ones have probability 2e-4 (binomial).
    rng = np.random.default_rng(6)
    lower = [
        information_from_samples(
            lambda y, rng, n: y + rng.standard_normal((n, 1)),
            np.zeros(1),
            samples=10_000,
            rng=rng,
            confidence=0.9,
        ).lower[0]
        for _ in range(25)
    ]
    assert scipy.stats.binom.sf(8, 25, 0.1) < 5e-4
    assert (np.array(lower) > 1).sum() <= 8
    assert np.median(lower) > 0.8  # and it says something


def test_no_signal_no_information():
    found = fisher_information(
        lambda y, rng, n: rng.standard_normal((n, 1)), [0.0], samples=20_000,
        rng=np.random.default_rng(7),
    )  # fmt: skip
    assert found.lower[0] < 0.01
    assert abs(found.matrix[0, 0]) < 0.01


def test_refusals():
    with pytest.raises(InvalidInput, match="no density"):
        fisher_information(shifted(noise.Laplace()), [0.0], method="density")
    with pytest.raises(InvalidInput, match="rng"):
        fisher_information(shifted(noise.Laplace()), [0.0])
    with pytest.raises(InvalidInput, match="n = 200000"):
        fisher_information(lambda y, rng, n: np.zeros(3), [0.0], rng=np.random.default_rng(1))
    with pytest.raises(InvalidInput, match="received int"):
        fisher_information(3, [0.0])


def test_samples_at_smooth_points():
    for channel, u in (
        (ProbabilisticQuantiser(1.0, dither="triangular"), 0.2),
        (PrivacyWeights(1.5, 1.0), 0.57),
    ):
        rng = np.random.default_rng(1)
        found = fisher_information(channel, [u], method="samples", samples=50_000, rng=rng)
        assert abs(found.matrix[0, 0] - channel.information(u)) <= found.error[0, 0]
