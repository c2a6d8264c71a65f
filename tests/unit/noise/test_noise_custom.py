"""Laws from a log-density: what is refused, what is found, what an error estimate is worth."""

import math

import numpy as np
import pytest
from scipy import special

from privest.errors import InvalidInput, NumericalFailure
from privest.noise import (
    Distribution,
    GaussianMixture,
    StudentT,
    from_logpdf,
)

INF = math.inf


def gaussian(x):
    return -(x**2) / 2 - 0.5 * math.log(2 * math.pi)


class TestRefused:
    def test_an_integral_other_than_one_is_named(self):
        with pytest.raises(InvalidInput, match=r"its integral is 2\.5066"):
            from_logpdf(lambda x: -(x**2) / 2)
        with pytest.raises(InvalidInput, match=r"its integral is 1\.00001"):
            from_logpdf(lambda x: gaussian(x) + 1e-5)
        assert from_logpdf(lambda x: gaussian(x) + 1e-8).fisher_information == pytest.approx(1)
        with pytest.raises(InvalidInput, match="its integral is 2"):
            from_logpdf(lambda x: -np.abs(x))

    def test_an_integral_that_diverges(self):
        for logpdf in (
            lambda x: 0 * x,
            lambda x: -np.log1p(np.abs(x)),
            lambda x: -np.log(np.abs(x)),
        ):
            with pytest.raises(InvalidInput, match="the integral diverges"):
                from_logpdf(logpdf, normalise=True)

    def test_a_class_that_does_not_integrate_to_one(self):
        class Half(Distribution):
            def logpdf(self, x):
                return gaussian(np.asarray(x)) - math.log(2)

        with pytest.raises(InvalidInput, match=r"its integral is 0\.5"):
            _ = Half().fisher_information

    def test_a_missed_part_shows_in_the_integral(self):
        spike = GaussianMixture((0.5, 0.5), (0.123, 0.0), (1e-7, 1.0))
        with pytest.raises(InvalidInput, match=r"its integral is 0\.5.*break"):
            from_logpdf(spike.logpdf)
        found = from_logpdf(spike.logpdf, breaks=(0.123,)).fisher_information
        assert math.isclose(found, spike.fisher_information, rel_tol=1e-6)

    def test_nothing_anywhere(self):
        with pytest.raises(InvalidInput, match="−∞ at every point"):
            from_logpdf(lambda x: np.full(x.shape, -INF))

    def test_not_a_number_inside(self):
        with pytest.raises(InvalidInput, match=r"NaN at x = 1\.\d"):
            from_logpdf(lambda x: np.where((x > 1) & (x < 2), np.nan, gaussian(x)))

    @pytest.mark.parametrize("support", [(1, 1), (2, 1), (math.nan, 1), (1,), "ab", None, 3])
    def test_support(self, support):
        with pytest.raises(InvalidInput, match="support must"):
            from_logpdf(gaussian, support=support)

    @pytest.mark.parametrize("option", [{"breaks": (3,)}, {"breaks": (-1,)}])
    def test_points_outside_the_support(self, option):
        with pytest.raises(InvalidInput, match="must lie in the support"):
            from_logpdf(lambda x: 0 * x - math.log(2), support=(0, 2), **option)

    def test_other_arguments(self):
        with pytest.raises(InvalidInput, match="logpdf must be a function; received int"):
            from_logpdf(3)
        with pytest.raises(InvalidInput, match="score must be a function"):
            from_logpdf(gaussian, score="x")
        with pytest.raises(InvalidInput, match="breaks must be finite"):
            from_logpdf(gaussian, breaks=(math.nan,))

    def test_functions_of_one_number_only(self):
        with pytest.raises(InvalidInput, match="must take an array"):
            from_logpdf(lambda x: -math.fabs(x))
        with pytest.raises(InvalidInput, match="must take an array"):
            from_logpdf(lambda x: -x if x > 0 else x)
        with pytest.raises(InvalidInput, match="one number for each entry"):
            from_logpdf(lambda x: -1.0)
        assert from_logpdf(np.vectorize(lambda x: gaussian(x)))

    def test_a_wrong_score(self):
        with pytest.raises(InvalidInput, match="score is not the derivative of logpdf: at x = "):
            from_logpdf(gaussian, score=lambda x: x)
        with pytest.raises(InvalidInput, match=r"not the derivative of logpdf: at x = 0\.3"):
            # wrong only between the quantiles 0.6 and 0.8
            from_logpdf(gaussian, score=lambda x: np.where((x > 0.25) & (x < 0.84), -x - 1, -x))
        assert from_logpdf(gaussian, score=lambda x: -x)

    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
    def test_curvature_at_a_kink_scales_with_the_density(self, scale):
        """l = −|x|/b − x²/2b² has l'' = −1/b² on both sides of its kink."""
        law = from_logpdf(
            lambda x: -np.abs(x) / scale - (x / scale) ** 2 / 2, breaks=[0.0], normalise=True
        )
        # Differences over a hundredth of the width: rounding of l (EPS) over 1e-4, and some.
        assert law.curvature([0.0]) * scale**2 == pytest.approx(-1.0, abs=1e-8)

    def test_tails_too_heavy_to_sample(self):
        law = from_logpdf(StudentT(0.05).logpdf)
        exact = StudentT(0.05).fisher_information
        assert math.isclose(law.fisher_information, exact, rel_tol=1e-6)
        with pytest.raises(NumericalFailure, match="too heavy"):
            law.sample(3, np.random.default_rng(1))


class TestFound:
    """Everything from the log-density alone, compared with closed forms within the stated error."""

    @pytest.mark.parametrize("where", [0.0, 1e3, -1e6])
    @pytest.mark.parametrize("width", [1e-3, 1.0, 1e4])
    def test_a_law_anywhere_of_any_width(self, where, width):
        def logpdf(x):  # logistic
            z = np.abs(x - where) / width
            return -z - 2 * np.log1p(np.exp(-z)) - math.log(width)

        law = from_logpdf(logpdf, breaks=(where,))
        found = law.fisher_information_estimate
        exact = 1 / (3 * width**2)
        assert abs(found.value - exact) <= found.error
        # x is known to 1e-16·|x|, a part 1e-16·|x|/width of the law's width.
        assert found.error <= exact * (1e-9 + 1e-12 * abs(where) / width)
        assert abs(law.mean - where) <= 1e-9 * (width + abs(where))
        assert math.isclose(law.variance, (math.pi * width) ** 2 / 3, rel_tol=1e-6)

    @pytest.mark.parametrize("q", [1.2, 1.5, 2.0, 3.0, 3.5, 5.0])
    def test_densities_that_vanish_like_a_power_at_the_ends(self, q):
        law = from_logpdf(lambda x: q * np.log1p(-x * x), support=(-1, 1), normalise=True)
        mass = special.beta(q + 1, 0.5)
        exact = 4 * q * q * special.beta(1.5, q - 1) / mass
        found = law.fisher_information_estimate
        assert abs(found.value - exact) <= found.error < 1e-4 * exact
        square = law._numbers.expected_squared_curvature
        if q <= 3:
            assert square.value == INF
        else:
            top = special.beta(0.5, q - 3) + 2 * special.beta(1.5, q - 3) + special.beta(2.5, q - 3)
            exact = 4 * q * q * top / mass
            assert abs(square.value - exact) <= square.error < 1e-5 * exact

    @pytest.mark.parametrize("q", [-0.5, 0.0, 0.5, 1.0])
    def test_too_steep_at_the_ends(self, q):
        law = from_logpdf(lambda x: q * np.log1p(-x * x), support=(-1, 1), normalise=True)
        assert law.fisher_information == INF
        # A jump or a pole at the ends is called so; a density that vanishes there has none.
        assert law.jumps == ((-1.0, 1.0) if q <= 0 else ())

    @pytest.mark.parametrize(
        ("df", "mean", "variance"),
        [
            (0.9, math.nan, math.nan),
            (1.0, math.nan, math.nan),
            (1.5, 0.0, INF),
            (2.0, 0.0, INF),
            (2.1, 0.0, 21.0),
            (3.0, 0.0, 3.0),
        ],
    )
    def test_moments_that_do_not_exist(self, df, mean, variance):
        law = from_logpdf(StudentT(df).logpdf)
        np.testing.assert_allclose(law.mean, mean, atol=1e-6)
        np.testing.assert_allclose(law.variance, variance, rtol=1e-6)

    def test_a_mean_of_one_sign_only(self):
        # Pareto-like on (0, ∞): f = x/(1 + x²)^1.5 has an infinite mean, not an undefined one.
        law = from_logpdf(lambda x: np.log(x) - 1.5 * np.log1p(x * x), support=(0, INF))
        assert law.mean == INF
        assert math.isnan(law.variance)

    def test_huber_has_no_kink_and_laplace_has(self):
        def huber(x):
            a = np.abs(x)
            return np.where(a < 1, -a * a / 2, 0.5 - a)

        core = math.sqrt(2 * math.pi) * math.erf(1 / math.sqrt(2))
        tail = 2 * math.exp(-0.5)
        exact = core / (core + tail)  # E l''², and E l'² too (integrate by parts)
        for breaks in ((), (-1.0, 1.0)):
            law = from_logpdf(huber, normalise=True, breaks=breaks)
            found = law.fisher_information_estimate
            assert abs(found.value - exact) <= found.error < 1e-8
            square = law._numbers.expected_squared_curvature
            assert abs(square.value - exact) <= square.error < 1e-4
        skewed = from_logpdf(lambda x: np.where(x < 0, x / 0.3, -x) - math.log(1.3))
        assert skewed.expected_squared_curvature == INF
        assert math.isclose(skewed.fisher_information, 1 / 0.3, rel_tol=1e-11)

    def test_a_kink_at_the_middle_of_nothing(self):
        for breaks in ((), (0.77,)):
            law = from_logpdf(
                lambda x: -(x**2) / 2 - 0.1 * np.abs(x - 0.77), normalise=True, breaks=breaks
            )
            assert law.expected_squared_curvature == INF

    def test_score_and_curvature_at_a_kink_are_the_mean_of_both_sides(self):
        law = from_logpdf(lambda x: np.where(x < 0, x / 0.3, -x) - math.log(1.3), breaks=(0.0,))
        assert law.score(0.0) == pytest.approx((1 / 0.3 - 1) / 2, rel=1e-6)
        assert law.curvature(0.0) == pytest.approx(0, abs=1e-3)
        law = from_logpdf(lambda x: -np.abs(x) - math.log(2))
        assert law.score(0.0) == 0

    def test_formulas_that_overflow_far_out_are_no_trouble(self):
        law = from_logpdf(lambda x: np.log(np.exp(-x) / (1 + np.exp(-x)) ** 2))
        assert math.isclose(law.fisher_information, 1 / 3, rel_tol=1e-9)

    def test_the_cdf_of_a_numerical_law(self):
        law = from_logpdf(lambda x: -x - np.exp(-x))
        x = np.linspace(-3, 30, 500)
        np.testing.assert_allclose(law.cdf(x), np.exp(-np.exp(-x)), atol=1e-13, rtol=0)


@pytest.mark.parametrize(
    ("logpdf", "message"),
    [
        (lambda x: x * np.nan, "is NaN at every point"),
        (lambda x: np.full(x.shape, -np.inf), "is −∞ at every point"),
        (lambda x: x**2, "grows without end"),
        (lambda x: x, "grows without end"),
        (lambda x: 0 * x, "integral diverges"),
    ],
)
def test_what_is_no_density_is_named(logpdf, message):
    with pytest.raises(InvalidInput, match=message):
        from_logpdf(logpdf)


def test_derivatives_are_asked_for_inside_the_support_only():
    """f = 6x(1 − x): l' = 1/x − 1/(1 − x), l'' = −1/x² − 1/(1 − x)²; no number at the ends."""
    asked = []

    def logpdf(x):
        asked.append(np.asarray(x))
        with np.errstate(divide="ignore"):
            return np.log(6 * x * (1 - x))

    law = from_logpdf(logpdf, support=(0.0, 1.0))
    x, middle = np.array([[-1.0, 0.0, 0.25], [0.75, 1.0, 2.0]]), np.array([0.25, 0.75])
    for found, exact in (
        (law.score, 1 / middle - 1 / (1 - middle)),
        (law.curvature, -1 / middle**2 - 1 / (1 - middle) ** 2),
    ):
        found(0.5)  # all that is done once
        asked.clear()
        value = found(x)
        assert np.isnan(value).tolist() == [[True, True, False], [False, True, True]]
        np.testing.assert_allclose(value[~np.isnan(value)], exact, rtol=1e-8)
        assert all(((points > 0) & (points < 1)).all() for points in asked)
        assert np.isnan(found(1.0))
