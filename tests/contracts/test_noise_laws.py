"""Every noise law keeps the same promises, whatever it is and however it was made.

One list of laws; each test runs over all of it (or over the part that has the closed form).
The integrals are scipy's `quad`, which the package itself does not use.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import integrate, stats

from privest.errors import InvalidInput
from privest.noise import (
    Bump,
    Cauchy,
    CosSquared,
    Distribution,
    Gaussian,
    GaussianMixture,
    Laplace,
    Logistic,
    Staircase,
    StudentT,
    Uniform,
    from_logpdf,
)

INF = math.inf
EULER = 0.5772156649015329


class Sech(Distribution):
    """A user's law: f = sech(x)/π, nothing but the log-density."""

    def logpdf(self, x):
        return math.log(2 / math.pi) - np.logaddexp(x, -np.asarray(x))


@dataclass(frozen=True)
class Case:
    """A law, a point and a width that describe where it is, and known values for numerical laws."""

    law: Distribution
    centre: float = 0.0
    width: float = 1.0
    # (Fisher information, E l''², mean, variance), for laws that have no closed form of their own.
    truth: tuple[float, float, float, float] | None = None


def gumbel(x):
    return -x - np.exp(-x)


def gumbel_score(x):
    return np.expm1(-x)


# Gumbel: with t = e^-x ~ Exp(1), l' = t − 1 and l'' = −t.
GUMBEL = (1.0, 2.0, EULER, math.pi**2 / 6)

SKEWED = GaussianMixture((0.2, 0.5, 0.3), (-2.0, 0.0, 1.5), (0.4, 1.0, 2.0))

CASES = {
    "gaussian": Case(Gaussian()),
    "gaussian, located": Case(Gaussian(6.25, -3.0), -3.0, 2.5),
    "laplace": Case(Laplace()),
    "laplace, narrow": Case(Laplace(0.01), 0.0, 0.01),
    "cauchy": Case(Cauchy()),
    "cauchy, wide": Case(Cauchy(40.0), 0.0, 40.0),
    "student 0.8": Case(StudentT(0.8)),
    "student 1.5": Case(StudentT(1.5)),
    "student 3": Case(StudentT(3.0, 2.0), 0.0, 2.0),
    "student 7": Case(StudentT(7)),
    "student 1e6": Case(StudentT(1e6)),
    "logistic": Case(Logistic()),
    "logistic, narrow": Case(Logistic(0.2), 0.0, 0.2),
    "two modes": Case(GaussianMixture((0.5, 0.5), (-3.0, 3.0), (1.0, 1.0)), 0.0, 3.0),
    "outliers": Case(GaussianMixture((0.9, 0.1), (0.0, 0.0), (1.0, 10.0))),
    "spike": Case(GaussianMixture((0.5, 0.5), (0.0, 0.0), (1e-3, 1.0)), 0.0, 1e-3),
    "skewed": Case(SKEWED),
    "cos²": Case(CosSquared(), 0.0, 0.3),
    "cos², wide": Case(CosSquared(25.0), 0.0, 8.0),
    "bump 2": Case(Bump(), 0.0, 0.25),
    "bump 2.5": Case(Bump(2.5), 0.0, 0.25),
    "bump 5": Case(Bump(5), 0.0, 0.2),
    "bump 400": Case(Bump(400.0), 0.0, 0.03),
    "uniform": Case(Uniform(), 0.0, 0.5),
    "staircase": Case(Staircase(1.0)),
    "staircase, wide": Case(Staircase(0.5, sensitivity=3.0, gamma=0.7), 0.0, 3.0),
    "staircase, steep": Case(Staircase(6.0), 0.0, 0.05),
    "affine laplace": Case(1.0 + -0.5 * Laplace(), 1.0, 0.5),
    "affine logistic": Case(300.0 + 2.0 * Logistic(), 300.0, 2.0),
    "affine student": Case(-7.0 + -0.1 * StudentT(4.0), -7.0, 0.1),
    "mirrored": Case(-SKEWED),
    "affine bump": Case(10 + 4 * Bump(3.0), 10.0, 1.0),
    "affine uniform": Case(Uniform() - 2, -2.0, 0.5),
    "affine staircase": Case(5.0 + -2.0 * Staircase(1.0), 5.0, 2.0),
    "custom gumbel": Case(from_logpdf(gumbel), truth=GUMBEL),
    "custom gumbel, score": Case(from_logpdf(gumbel, score=gumbel_score), truth=GUMBEL),
    "custom gumbel, mirrored": Case(
        3 - 2 * from_logpdf(gumbel),
        3.0,
        2.0,
        (1 / 4, 2 / 16, 3 - 2 * EULER, 4 * math.pi**2 / 6),
    ),
    "custom laplace": Case(
        from_logpdf(lambda x: -np.abs(x - 1) / 2 - math.log(4), breaks=(1.0,)),
        1.0,
        2.0,
        (0.25, INF, 1.0, 8.0),
    ),
    # 9x⁴, 36x² under exp(−|x|³): Gamma functions of thirds.
    "custom cubic, normalised": Case(
        from_logpdf(lambda x: 5.0 - np.abs(x) ** 3, normalise=True),
        0.0,
        0.5,
        (
            9 * math.gamma(5 / 3) / math.gamma(1 / 3),
            36 * math.gamma(1) / math.gamma(1 / 3),
            0.0,
            math.gamma(1) / math.gamma(1 / 3),
        ),
    ),
    "custom cos²": Case(
        from_logpdf(lambda x: 2 * np.log(np.cos(np.pi * x / 2)), support=(-1, 1)),
        0.0,
        0.3,
        (math.pi**2, INF, 0.0, 1 / 3 - 2 / math.pi**2),
    ),
    # Gamma(5): l' = 4/x − 1, l'' = −4/x².
    "custom gamma": Case(
        from_logpdf(lambda x: 4 * np.log(x) - x - math.log(24), support=(0, INF)),
        4.0,
        2.0,
        (1 / 3, 16 / 24, 5.0, 5.0),
    ),
    # sech: l' = −tanh, l'' = −sech²; moments of sech/π.
    "subclass sech": Case(Sech(), truth=(0.5, 3 / 8, 0.0, math.pi**2 / 4)),
}

parameters = [pytest.param(case, id=name) for name, case in CASES.items()]
every_law = pytest.mark.parametrize("case", parameters)


def grid(case, spread=3.3, points=37):
    """Points over the bulk, inside the support, clear of kinks and jumps by the stencil's reach."""
    law, h = case.law, 1e-3 * case.width
    # 37 points at an irrational offset: none falls on a symmetric point by accident.
    x = case.centre + case.width * (np.linspace(-spread, spread, points) + 0.01 / math.sqrt(2))
    lo, hi = law.support
    x = x[(x > lo + 0.02 * case.width) & (x < hi - 0.02 * case.width)]
    for p in (*law.landmarks, *law.jumps):
        x = x[np.abs(x - p) > 5 * h]
    assert x.size >= 10
    return x, h


def stencil(g, x, h):
    """g'(x) by the fourth-order stencil at two steps: value and an error found from them.

    The step-h error is C h⁴, so |D(h) − D(h/2)| is 15 times the error of D(h/2); ten units of
    rounding of g, and of x through g', divided by the step, are added.
    """

    def difference(step):
        return (8 * (g(x + step) - g(x - step)) - (g(x + 2 * step) - g(x - 2 * step))) / (12 * step)

    whole, half = difference(h), difference(h / 2)
    size = np.abs(g(x)) + np.abs(x * half)
    return half, np.abs(whole - half) + 10 * 2.2e-16 * size / h


def expectation(case, g, size):
    """E g by scipy's quad between breakpoints, and the sum of its error estimates.

    `size` is the order of magnitude of the result; tolerances are relative to it.
    """
    law = case.law

    def integrand(x):
        weight = float(law.pdf(x))
        return float(g(x)) * weight if weight > 0 else 0.0

    lo, hi = law.support
    steps = case.width * 2.0 ** np.arange(-3, 11)
    cuts = {case.centre, *(case.centre + steps), *(case.centre - steps), *law.landmarks}
    cuts |= {*law.jumps}
    inner = sorted(c for c in cuts if lo < c < hi)
    total, error = 0.0, 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", integrate.IntegrationWarning)
        for a, b in zip([lo, *inner], [*inner, hi]):
            value, doubt = integrate.quad(integrand, a, b, epsabs=1e-13 * size, limit=80)
            total, error = total + value, error + doubt
    return total, error


# -- density ----------------------------------------------------------------


@every_law
def test_the_density_integrates_to_one(case):
    total, error = expectation(case, lambda x: 1.0, 1.0)
    assert abs(total - 1) <= error + 1e-11
    assert error < 1e-6


@every_law
def test_score_and_curvature_are_the_derivatives(case):
    law = case.law
    x, h = grid(case)
    slope, doubt = stencil(law.logpdf, x, h)
    # Numerical laws have errors of their own, about 1e-10 of the natural unit.
    unit = 1 / case.width
    assert np.all(np.abs(law.score(x) - slope) <= doubt + 1e-9 * (unit + np.abs(slope)))
    bend, doubt = stencil(law.score, x, h)
    noise = 1e-7 if case.truth else 1e-9
    assert np.all(np.abs(law.curvature(x) - bend) <= doubt + noise * (unit**2 + np.abs(bend)))


@every_law
def test_the_cdf_is_the_integral_of_the_density(case):
    law = case.law
    x, h = grid(case)
    slope, doubt = stencil(law.cdf, x, h)
    assert np.all(np.abs(law.pdf(x) - slope) <= doubt + 1e-9 / case.width)
    F = law.cdf(np.sort(x))
    assert np.all(np.diff(F) >= 0)
    lo, hi = law.support
    far = [max(lo, case.centre - 1e9 * case.width), min(hi, case.centre + 1e9 * case.width)]
    # The heaviest tail here, Student's with 0.8 degrees, has (1e9)^-0.8 of its mass beyond.
    np.testing.assert_allclose(law.cdf(far), [0, 1], atol=1e-7)
    assert np.allclose(np.log(law.pdf(x)), law.logpdf(x), rtol=1e-12, atol=1e-12)


@every_law
def test_any_shape_goes_in_and_comes_out(case):
    law = case.law
    x = np.full((2, 1, 3), case.centre + 0.1 * case.width)
    for method in (law.pdf, law.logpdf, law.score, law.curvature, law.cdf):
        assert method(x).shape == (2, 1, 3)
        assert np.shape(method(float(x[0, 0, 0]))) == ()
        assert method([]).shape == (0,)
        np.testing.assert_allclose(method(x)[1, 0, 2], method(float(x[0, 0, 0])), rtol=1e-12)
        if isinstance(law, Sech):  # a user's class checks what it likes
            continue
        with pytest.raises(InvalidInput, match="x must be finite"):
            method([0.0, math.nan])


@every_law
def test_outside_the_support_there_is_nothing(case):
    law = case.law
    lo, hi = law.support
    outside = [end + side for end, side in ((lo, -1.0), (hi, 1.0)) if math.isfinite(end)]
    for x in outside:
        assert law.pdf(x) == 0
        assert law.logpdf(x) == -INF
        assert math.isnan(law.score(x))
        assert math.isnan(law.curvature(x))
        assert law.cdf(x) == (0 if x < lo else 1)


@every_law
def test_far_tails_are_finite_and_silent(case):
    law = case.law
    lo, hi = law.support
    x = np.array([case.centre - 1e6 * case.width, case.centre + 1e6 * case.width])
    x = x[(x > lo) & (x < hi)]
    # e^-x of a Gumbel law overflows on its left side: l = −∞ is then right.
    x = x[np.isfinite(law.logpdf(x))]
    unbounded = math.isinf(lo) or math.isinf(hi)
    assert x.size == 0 or unbounded
    if unbounded and case.truth is None:
        assert x.size == 2
    for method in (law.logpdf, law.score, law.curvature, law.pdf, law.cdf):
        assert np.all(np.isfinite(method(x)))
    if case.truth is None and unbounded:
        assert np.all(np.isfinite(law.logpdf([case.centre - 1e140, case.centre + 1e140])))
        assert np.all(np.isfinite(law.score([case.centre - 1e140, case.centre + 1e140])))


# -- moments and information ----------------------------------------------------------------


def known(case):
    """(I, E l''², mean, variance): the closed forms of the law, or the truth of the case."""
    law = case.law
    own = (
        law.fisher_information,
        law.expected_squared_curvature,
        law.mean,
        law.variance,
    )
    return own if case.truth is None else case.truth


@every_law
def test_mean_and_variance(case):
    law = case.law
    _, _, mean, variance = known(case)
    if case.truth is not None:
        assert math.isclose(law.mean, mean, abs_tol=1e-10 * case.width)
        assert math.isclose(law.variance, variance, rel_tol=1e-9)
        return
    if math.isfinite(mean):
        found, error = expectation(case, lambda x: x, abs(mean) + case.width)
        assert abs(found - mean) <= error + 1e-10 * (abs(mean) + case.width)
    if math.isfinite(variance):
        found, error = expectation(case, lambda x: (x - mean) ** 2, variance)
        assert abs(found - variance) <= error + 1e-9 * variance
        assert error < 1e-4 * variance
    else:
        assert isinstance(law, Cauchy) or law.df <= 2


@every_law
def test_information_and_squared_curvature(case):
    law = case.law
    information, square, _, _ = known(case)
    if case.truth is not None:
        found = law.fisher_information_estimate
        assert found.value == law.fisher_information
        assert abs(found.value - information) <= found.error <= 1e-8 * information
        assert math.isclose(law.expected_squared_curvature, square, rel_tol=1e-6)
        return
    if math.isfinite(information):
        found, error = expectation(case, lambda x: law.score(x) ** 2, information)
        assert abs(found - information) <= error + 1e-9 * information
        assert error < 1e-4 * information
    else:
        assert law.jumps
    if math.isfinite(square):
        found, error = expectation(case, lambda x: law.curvature(x) ** 2, square)
        assert abs(found - square) <= error + 1e-9 * square
        assert error < 1e-4 * square
    else:
        kink = isinstance(getattr(law, "law", law), Laplace)
        assert law.jumps or kink or isinstance(law, CosSquared)


@every_law
def test_the_package_quadrature_agrees_within_its_error(case):
    information, square, _, _ = known(case)
    found = case.law._numbers.fisher_information
    assert found.value == information or abs(found.value - information) <= found.error + (
        # A law known by quadrature only is compared with itself: rounding.
        1e-13 * information
    )
    assert found.error <= 1e-8 * information
    found = case.law._numbers.expected_squared_curvature
    assert found.value == square or abs(found.value - square) <= found.error + 1e-13 * square
    assert not math.isfinite(square) or found.error <= 1e-6 * square


@every_law
def test_cramer_rao(case):
    law = case.law
    if not (math.isfinite(law.variance) and math.isfinite(law.fisher_information)):
        return
    product = law.fisher_information * law.variance
    if isinstance(law, Gaussian):
        assert math.isclose(product, 1, rel_tol=1e-15)
    else:
        # The closest here, Student's t with 1e6 degrees: 1 + 6/ν² or so.
        assert product > 1 + 1e-12


@every_law
def test_rescaling_to_a_wanted_information(case):
    law = case.law
    if math.isfinite(law.fisher_information):
        wanted = law.with_fisher_information(0.3)
        assert math.isclose(wanted.fisher_information, 0.3, rel_tol=1e-8)
    else:
        with pytest.raises(InvalidInput, match="has Fisher information inf"):
            law.with_fisher_information(0.3)


# -- sampling ----------------------------------------------------------------


@every_law
def test_samples_follow_the_cdf(case):
    sample = case.law.sample(20_000, np.random.default_rng(20240917))
    assert stats.kstest(sample, case.law.cdf).pvalue > 1e-4
    lo, hi = case.law.support
    assert np.all((sample >= lo) & (sample <= hi))


@every_law
def test_sampling_uses_the_given_generator_only(case):
    law = case.law
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is the subject
    one = law.sample((3, 5), np.random.default_rng(7))
    two = law.sample((3, 5), np.random.default_rng(7))
    other = law.sample((3, 5), np.random.default_rng(8))
    assert one.shape == (3, 5)
    np.testing.assert_array_equal(one, two)
    assert not np.any(one == other)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    with pytest.raises(InvalidInput, match="Generator"):
        law.sample(3, 7)
