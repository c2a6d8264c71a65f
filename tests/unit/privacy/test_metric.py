import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from privest.errors import InvalidInput
from privest.privacy import metric_trace

epsilons = st.floats(1e-3, 1e3)
untimed = settings(deadline=None)
by_quadrature = settings(deadline=None, max_examples=25)


def information(noise):
    """∫ (p'/p)² p of a symmetric scalar law that is smooth off 0, from its log-density alone."""
    scale = noise.std()

    def integrand(d):
        h = 1e-4 * d  # relative: stays on one side of the kink at 0
        score = (noise.logpdf(d + h) - noise.logpdf(d - h)) / (2 * h)
        return score**2 * noise.pdf(d)

    value, _ = scipy.integrate.quad(integrand, 0, 40 * scale, points=[scale], limit=200)
    return 2 * value


@by_quadrature
@given(epsilon=epsilons)
def test_laplace_noise_is_metric_private_and_attains_the_bound(epsilon):
    noise = scipy.stats.laplace(scale=1 / epsilon)
    z, step = np.meshgrid(np.linspace(-5, 5, 41) / epsilon, np.geomspace(1e-6, 1e2, 30) / epsilon)
    loss = noise.logpdf(z) - noise.logpdf(z - step)
    assert np.all(np.abs(loss) <= epsilon * step + 1e-12)
    assert information(noise) == pytest.approx(metric_trace(epsilon), rel=1e-6)


@by_quadrature
@given(epsilon=epsilons)
def test_logistic_noise_is_metric_private_and_stays_below_the_bound(epsilon):
    noise = scipy.stats.logistic(scale=1 / epsilon)  # score ε·tanh, hence metric ε-DP
    assert information(noise) == pytest.approx(metric_trace(epsilon) / 3, rel=1e-6)


@untimed
@given(epsilon=epsilons, size=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_the_radial_law_attains_the_bound_for_vector_readings(epsilon, size, seed):
    d = np.random.default_rng(seed).standard_normal(size) / epsilon
    h = 1e-5 / epsilon * np.eye(size)
    log_density = lambda x: -epsilon * np.linalg.norm(x, axis=-1)  # noqa: E731
    score = (log_density(d + h) - log_density(d - h)) / (2e-5 / epsilon)
    # ‖score‖ = ε wherever the noise falls (here: not within a finite difference of 0).
    if np.linalg.norm(d) > 1e-2 / epsilon:
        assert score @ score == pytest.approx(metric_trace(epsilon), rel=1e-4)


@untimed
@given(epsilon=epsilons, measurements=st.integers(1, 10**6))
def test_trace_bound_is_the_sum_over_readings(epsilon, measurements):
    assert metric_trace(epsilon, measurements) == pytest.approx(
        measurements * epsilon**2, rel=1e-15
    )
    assert metric_trace(epsilon, 1) == metric_trace(epsilon)


def test_the_staircase_is_classically_private_with_infinite_information():
    # Density c·e^{−ε⌊|d| + ½⌋} with ε = 1: the ratio at distance ≤ 1 is at most e^ε, and yet the
    # squared Hellinger distance of a shift h is of order h, not h²: information ≥ 8H²/h² → ∞
    # (H² = ½∫(√p − √p')², which is I h²/8 to second order where I is finite).
    epsilon = 1.0
    mass = 1 + 2 * math.exp(-epsilon) / (1 - math.exp(-epsilon))

    def density(d):
        return np.exp(-epsilon * np.floor(np.abs(d) + 0.5)) / mass

    d = np.linspace(-8.01, 8.02, 4001)[:, None]
    shift = np.linspace(-1, 1, 101)[None, :]
    assert np.all(density(d) <= density(d + shift) * math.exp(epsilon) * (1 + 1e-12))

    def hellinger(h):  # a jump at each half-integer: the densities differ on a width h there
        steps = np.arange(60)
        before, after = density(steps.astype(float)), density(steps + 1.0)
        return h * float(np.sum((np.sqrt(before) - np.sqrt(after)) ** 2))

    apparent = [8 * hellinger(h) / h**2 for h in (1e-1, 1e-2, 1e-3)]
    assert apparent[0] > 0
    assert apparent[2] == pytest.approx(100 * apparent[0], rel=1e-9)
    assert apparent[2] > 100 * metric_trace(epsilon)


def test_bounded_information_implies_no_privacy():
    # cos² noise on (−1, 1): information π², and a shift of 1/2 meets outputs of density 0.
    density = lambda d: math.cos(math.pi * d / 2) ** 2 if abs(d) < 1 else 0.0  # noqa: E731
    score2 = lambda d: (math.pi * math.tan(math.pi * d / 2)) ** 2 * density(d)  # noqa: E731
    assert scipy.integrate.quad(score2, -1, 1)[0] == pytest.approx(math.pi**2)
    assert density(-0.9) > 0
    assert density(-0.9 - 0.5) == 0


def test_results_are_plain_floats():
    assert type(metric_trace(np.float64(2))) is float
    assert type(metric_trace(2, np.int64(3))) is float


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metric_trace(0.0), "epsilon must be > 0; received 0"),
        (lambda: metric_trace(-1.0), "epsilon must be > 0; received -1"),
        (lambda: metric_trace(math.nan), "epsilon must be finite"),
        (lambda: metric_trace(1e200), "Measure y in a larger unit"),
        (lambda: metric_trace(0.0, 3), "epsilon must be > 0; received 0"),
        (lambda: metric_trace(1.0, 0), "measurements must be a whole number ≥ 1; received 0"),
        (lambda: metric_trace(1.0, 2.0), "measurements must be a whole number ≥ 1; received 2.0"),
        (lambda: metric_trace(1e154, 10), "Measure y in a larger unit"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
