"""Random gains z = Du of any law: what they show, by scipy's quadrature and by sampling."""

import math
import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate

from privest.errors import InvalidInput, NotCalibratable
from privest.estimator import estimate_release
from privest.estimator.likelihood import likelihood_of
from privest.mechanism import Gain, Inverse, calibrate
from privest.mechanism._factor import closed_form, outside
from privest.model import LinearModel
from privest.noise import (
    CosSquared,
    Gaussian,
    Laplace,
    Logistic,
    StudentT,
    Uniform,
    from_logpdf,
)

LOG_NORMAL = from_logpdf(
    lambda d: -np.log(d) - np.log(d) ** 2 / 0.5 - 0.5 * np.log(0.5 * np.pi),
    support=(0.0, math.inf),
    breaks=[1.0],
    name="log-normal, σ = 0.5",
)
LAWS = {
    "gaussian": Gaussian(0.5, 1.0),
    "laplace": 1 + Laplace(0.5),
    "wide": 2 + Laplace(3.0),
    "mirrored": Gaussian(0.5, -2.0),
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

    found = closed_form(law)
    # Differences with steps of 1e-5 are good to 1e-10/h = 1e-6 at worst, next to a kink.
    assert found.outside == pytest.approx(
        integral(lambda x: f(x) * (1 + x * slope(x)) ** 2), rel=1e-5
    )
    assert found.edge == pytest.approx((integral(edge) - 1) / 4, rel=1e-7)
    for t in (0.0, -0.6, 0.99):
        assert found.inside(np.array([t]))[0] == pytest.approx(
            integral(lambda x, t=t: inside(x, t)), rel=1e-7
        )


@pytest.mark.parametrize("law", [1 + Logistic(0.4), 1 + StudentT(3.0), 0.5 - 2 * Logistic(0.4)])
def test_the_information_of_other_gains_is_an_integral(law):
    score = lambda x: float(law.logpdf(x + 1e-5) - law.logpdf(x - 1e-5)) / 2e-5  # noqa: E731
    found = integral(lambda x: math.exp(law.logpdf(x)) * (1 + x * score(x)) ** 2)
    assert outside(law).value == pytest.approx(found, rel=1e-5)
    assert closed_form(law) is None


@laws
def test_information_is_the_variance_of_the_score(law):
    """Monte Carlo: the mean of score² within six of its standard errors, the mean score of 0."""
    rng = np.random.default_rng(3)
    plain, truncated = Gain(law), Gain(law, 1.0)
    for channel, u in ((plain, -2.5), (truncated, 1.5), (truncated, 0.4), (truncated, -0.8)):
        score = channel.score(channel.sample(np.full(100_000, u), rng), u)
        error = np.std(score**2) / math.sqrt(score.size)
        assert abs(np.mean(score**2) - channel.information(u)) < 6 * error
        assert abs(np.mean(score)) < 6 * np.std(score) / math.sqrt(score.size)


def test_a_gain_and_its_inverse_show_the_same():
    for noise in (Gaussian(0.3), Laplace(0.4)):
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
        (1 + CosSquared(0.9), "one sign"),
        (1 + Logistic(0.4), "Gaussian or Laplace"),
        (Gaussian(1e-3, 1.0), "more noise"),  # k = e^4000: in doubles D never changes its sign
    ],
    ids=["uniform", "cos²", "logistic", "narrow"],
)
def test_what_truncation_cannot_bound(law, reason):
    with pytest.raises(NotCalibratable, match=reason):
        Gain.calibrated(1.0, law=law)


def test_estimates_from_gains():
    """Least squares on z is unbiased (E D = 1); maximum likelihood does better. 100 trials."""
    rng = np.random.default_rng(5)
    H, theta = np.array([[1.0], [0.5], [-1.0], [1.5]]), np.array([2.0])
    model = LinearModel(H, noise=0.04)
    mechanism = calibrate("truncated-gain-gaussian", 10.0, model=4)
    z = mechanism.simulate(model.sample(theta, rng, 4000), rng)
    linear = np.linalg.lstsq(H, z.T, rcond=None)[0][0]
    assert abs(linear.mean() - 2.0) < 5 * linear.std() / math.sqrt(4000)
    likely = estimate_release(z[:100], model, mechanism).value[:, 0]
    assert np.median(np.abs(likely - 2.0)) < np.median(np.abs(linear[:100] - 2.0))


@pytest.mark.parametrize(
    "channel",
    [
        Gain(Gaussian(1e-4, 1.0)),
        Gain(1 + Logistic(0.3)),
        Gain(Gaussian(1.64, 1.0), 1e-3),
        Gain(Gaussian(0.04, 1.5), 0.5),
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
    channel = Gain(1 + Laplace(0.4), 0.5)
    shown = channel.information([0.1, 0.5, 2.0])
    again = pickle.loads(pickle.dumps(channel))
    assert again == channel
    np.testing.assert_array_equal(again.information([0.1, 0.5, 2.0]), shown)


def test_only_laws():
    with pytest.raises(InvalidInput, match="must be a distribution"):
        Gain(2.0)
    with pytest.raises(InvalidInput, match="must be a distribution"):
        Gain.calibrated(1.0, law="logistic")
    with pytest.raises(InvalidInput, match="truncate must be > 0"):
        Gain(1 + Laplace(), 0.0)
