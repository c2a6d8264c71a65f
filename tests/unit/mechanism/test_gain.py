"""Random gains z = Du of any law: what they show, by scipy's quadrature and by sampling."""

import math
import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate

from privest.errors import InvalidInput, NotCalibratable
from privest.estimator import maximum_likelihood_of
from privest.estimator.likelihood import likelihood_of
from privest.mechanism import CATALOGUE, Gain, Inverse, TruncatedGain
from privest.mechanism._gain_information import ByNumbers, information_of
from privest.model import LinearModel
from privest.noise import (
    Cauchy,
    CosSquared,
    GaussianLaw,
    GaussianMixture,
    Laplace,
    Logistic,
    StudentT,
    Uniform,
    from_logpdf,
)

LOG_NORMAL = from_logpdf(
    lambda d: -np.log(d) - np.log(d) ** 2 / 0.5 - 0.5 * np.log(0.5 * np.pi),
    support=(0.0, math.inf),
    landmarks=[1.0],
    name="log-normal, σ = 0.5",
)
LAWS = {
    "gaussian": GaussianLaw(0.5, 1.0),
    "laplace": 1 + Laplace(0.5),
    "logistic": 1 + Logistic(0.4),
    "student": 1 + StudentT(3.0),
    "cauchy": 1 + Cauchy(1.0),
    "mixture": GaussianMixture((0.7, 0.3), (1.5, -0.5), (0.5, 0.6)),
    "mirrored": 0.5 - 2 * Logistic(0.4),
}
laws = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def integral(function):
    ends = [-math.inf, -30.0, -6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 6.0, 30.0, math.inf]
    return sum(integrate.quad(function, a, b, limit=200)[0] for a, b in pairwise(ends))


@laws
def test_the_three_numbers_are_their_integrals(law):
    """By scipy, with l' by differences: j = E(1 + Dl')², k at the edge and i(t) inside."""

    def f(x):
        return math.exp(law.logpdf(x))

    def slope(x, h=1e-5):
        return float(law.logpdf(x + h) - law.logpdf(x - h)) / (2 * h)

    def inside(x, t):
        up, down = f(x), f(-x)
        mixed = (1 + t) * up + (1 - t) * down
        return (up - down) ** 2 / (2 * mixed) if mixed > 0 else 0.0

    def edge(x):
        return math.exp(2 * float(law.logpdf(-x)) - float(law.logpdf(x)))

    found = information_of(law)
    # Differences with steps of 1e-5 are good to 1e-10/h = 1e-6 at worst, next to a kink.
    assert found.outside.value == pytest.approx(
        integral(lambda x: f(x) * (1 + x * slope(x)) ** 2), rel=1e-5
    )
    assert found.edge.value == pytest.approx((integral(edge) - 1) / 4, rel=1e-7)
    for t in (0.0, -0.6, 0.99):
        assert found.inside(np.array([t]))[0] == pytest.approx(
            integral(lambda x, t=t: inside(x, t)), rel=1e-7
        )


@pytest.mark.parametrize("law", [GaussianLaw(0.25, 1.0), GaussianLaw(9.0, -2.0), 2 + Laplace(0.7)])
def test_numbers_and_closed_forms_agree(law):
    closed, numbers = information_of(law), ByNumbers(law)
    assert not isinstance(closed, ByNumbers)
    assert numbers.outside.value == pytest.approx(closed.outside.value, rel=1e-11)
    assert numbers.edge.value == pytest.approx(closed.edge.value, rel=1e-11)
    t = np.array([0.0, 0.5, -0.97, 1 - 1e-9])
    np.testing.assert_allclose(numbers.inside(t), closed.inside(t), rtol=1e-10)
    assert all(numbers.inside_error(u) < 1e-10 * numbers.inside(t).max() for u in t)


@laws
def test_information_is_the_variance_of_the_score(law):
    """Monte Carlo: the mean of score² within six of its standard errors, the mean score of 0."""
    rng = np.random.default_rng(3)
    plain, truncated = Gain(law), TruncatedGain(law, 1.0)
    for channel, u in ((plain, -2.5), (truncated, 1.5), (truncated, 0.4), (truncated, -0.8)):
        score = channel.score(channel.sample(np.full(100_000, u), rng), u)
        error = np.std(score**2) / math.sqrt(score.size)
        assert abs(np.mean(score**2) - channel.information(u)) < 6 * error
        assert abs(np.mean(score)) < 6 * np.std(score) / math.sqrt(score.size)


def test_a_gain_and_its_inverse_show_the_same():
    for noise in (GaussianLaw(0.3), Laplace(0.4)):
        u = [0.5, -3.0]
        assert np.allclose(Gain(1 + noise).information(u), Inverse(noise).information(u))


def test_the_information_of_a_log_normal_gain():
    """ln z = ln u + N(0, σ²): I = 1/σ²u², whatever the sign of u."""
    np.testing.assert_allclose(Gain(LOG_NORMAL).information([1.0, -2.0]), [4.0, 1.0], rtol=1e-8)


def test_a_jump_at_zero_stays_put():
    """An exponential gain jumps at D = 0 alone: z = 0 does not move with u. E(1 − D)² = 1."""
    law = from_logpdf(lambda d: -d, support=(0.0, math.inf), name="exponential")
    assert Gain(law).information(2.0) == pytest.approx(0.25, rel=1e-10)
    assert np.isinf(Gain(law + 0.1).information(2.0))  # now the jump moves


@pytest.mark.parametrize(
    ("law", "reason"),
    [
        (1 + Uniform(0.5), "jumps"),
        (Uniform(1.0), "jumps"),
        (1 + CosSquared(0.9), "sign shows"),
        (1 + CosSquared(3.0), "sign shows"),  # [−2, 4]: a gain above 2 is of an unturned reading
        (LOG_NORMAL, "sign shows"),
        (GaussianLaw(1e-3, 1.0), "sign shows"),  # k = e^4000: in doubles D never changes its sign
    ],
    ids=["uniform", "centred uniform", "cos²", "wide cos²", "log-normal", "narrow"],
)
def test_what_truncation_cannot_bound(law, reason):
    with pytest.raises(NotCalibratable, match=rf"cannot be calibrated: .*{reason}.*infinite"):
        TruncatedGain.calibrated(1.0, law=law)
    assert TruncatedGain(law, 1.0).worst.information == math.inf


def test_a_centred_gain_shows_nothing_inside():
    """D and −D alike: the sign of u is lost, and with it what the truncation kept of u."""
    channel = TruncatedGain.calibrated(2.0, law=GaussianLaw(1.0))
    assert channel.threshold == pytest.approx(1.0)  # I = 2/u² outside
    assert np.abs(channel.information([0.0, 0.3, -0.99])).max() < 1e-12


def test_estimates_from_gains():
    """Least squares on z is unbiased (E D = 1); maximum likelihood does better. 100 trials."""
    rng = np.random.default_rng(5)
    H, theta = np.array([[1.0], [0.5], [-1.0], [1.5]]), np.array([2.0])
    model = LinearModel(H, noise=0.04)
    mechanism = CATALOGUE["truncated-gain-gaussian"].calibrated(10.0, 4)
    z = mechanism.simulate(model.simulate(theta, rng, 4000), rng)
    linear = np.linalg.lstsq(H, z.T, rcond=None)[0][0]
    assert abs(linear.mean() - 2.0) < 5 * linear.std() / math.sqrt(4000)
    likely = maximum_likelihood_of(model, mechanism, z[:100]).estimate[:, 0]
    assert np.median(np.abs(likely - 2.0)) < np.median(np.abs(linear[:100] - 2.0))


@pytest.mark.parametrize(
    "channel",
    [
        Gain(GaussianLaw(1e-4, 1.0)),
        Gain(1 + Logistic(0.3)),
        TruncatedGain(GaussianLaw(1.64, 1.0), 1e-3),
        TruncatedGain(GaussianMixture((0.7, 0.3), (1.5, -0.5), (0.1, 0.2)), 0.5),
    ],
    ids=repr,
)
def test_the_likelihood_of_small_outputs_and_narrow_gains(channel):
    """∫ p(z|y) N(y; η, σ²) dy on 4000 panels in ln|y| of 20 points each, ends at ±ε and around η.

    1e-8 of 1 + |ℓ|: half of it is the panels', which differ by a factor 1.01.
    """
    x, w = np.polynomial.legendre.leggauss(20)
    for sd in (0.02, 3.0):
        likelihood = likelihood_of(channel, sd**2)
        for z, eta in ((1e-6, 0.0), (1e-3, 0.2), (-0.1, 0.02), (-3.0, -2.5)):
            around = abs(eta) + sd * np.linspace(-12, 12, 400)
            ends = np.concatenate([np.geomspace(1e-12, 1e4, 4000), [0.5, 1e-3], around])
            ends = np.unique(ends[ends > 0])
            half = np.diff(ends)[:, None] / 2
            y = ends[:-1, None] + half * (x + 1)
            both = np.stack([y, -y])
            with np.errstate(all="ignore"):
                size = channel.log_density(np.full(both.shape, z), both)
            size = size - ((both - eta) / sd) ** 2 / 2 + np.log(w * half)
            value = np.logaddexp.reduce(size, axis=None) - math.log(sd * math.sqrt(2 * math.pi))
            found = likelihood.value(np.array([[z]]), np.array([[eta]]))[0, 0]
            assert abs(found - value) < 1e-8 * (1 + abs(value)), (sd, z, eta)


def test_a_gain_that_was_used_travels():
    """What it keeps of its numbers is no obstacle to pickle."""
    channel = TruncatedGain(1 + Logistic(0.4), 0.5)
    shown = channel.information([0.1, 0.5, 2.0])
    again = pickle.loads(pickle.dumps(channel))
    assert again == channel
    np.testing.assert_array_equal(again.information([0.1, 0.5, 2.0]), shown)


def test_only_laws():
    with pytest.raises(InvalidInput, match="must have a law"):
        Gain(2.0)
    with pytest.raises(InvalidInput, match="must have a law"):
        TruncatedGain.calibrated(1.0, law="logistic")
    with pytest.raises(InvalidInput, match="threshold must be > 0"):
        TruncatedGain(1 + Logistic(), 0.0)
