"""The interval from noisy squares against another route: fine quadrature, and its limits.

Its nodes (48 × 16) agree with 800 × 200 of them to 1.5e-3 of h. At 95% coverage changes by .23
times the change of ln h: that is a tenth of the Monte Carlo error of 4,000 repetitions, .0034.
"""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammainc, gammaincinv, ndtr, ndtri, stdtrit

from privest.aggregate import VarianceFromSquares

CLOSE = 1.5e-3
CASES = {  # v₀, u, d, top, ν
    "usual": (1, 1, 0.5, 50, 20),
    "little noise": (1, 1, 1e-6, 1e4, 8),
    "below 0": (1, -3, 1, 50, 5),
    "far below 0": (1, -300, 1, 50, 5),
    "beyond the top": (1, 80, 1, 50, 5),
    "at the top": (0.1, 3, 3, 3, 500),
    "a range that says more than the squares": (1, 0, 1e4, 2, 50),
    "few rows": (1, 5, 2, 6, 1),
    "almost no noise of the sums": (1e-6, 0, 1, 100, 1),
}


def evidence(*facts):
    return VarianceFromSquares(*np.array(facts, dtype=float)[:, None])


def half_by_quadrature(v0, u, d, top, nu, confidence):
    """Gauss-Legendre over S up to 9 sd from the densest point, and over the chance of χ².

    S below the top and S beyond it, which counts as the top, have nodes of their own.
    """
    points, weights = np.polynomial.legendre.leggauss(400)
    peak = max(u, 0.0)
    away = abs(u - peak)
    reach = 81 * d**2 / (np.sqrt(away**2 + 81 * d**2) + away)
    ends = np.array([max(0.0, peak - reach), peak + reach])
    parts = [(ends.clip(None, top)), (ends.clip(top, None))]
    S = np.concatenate([low + (high - low) * (points + 1) / 2 for low, high in parts])
    width = np.concatenate([(high - low) / 2 * weights for low, high in parts])
    mass = width * np.exp(((peak - u) ** 2 - (S - u) ** 2) / (2 * d**2))
    S = np.minimum(S, top)
    mass *= np.sqrt(v0 + S)
    mass /= mass.sum()
    capped = gammainc(nu / 2, S * nu / top / 2)[:, None]  # χ² below Sν/top: τ is the top
    points, weights = np.polynomial.legendre.leggauss(200)
    p = capped + (1 - capped) * (points + 1)[None] / 2
    tau = np.minimum(S[:, None] * nu / (2 * gammaincinv(nu / 2, p)), top)
    weights = mass[:, None] * (1 - capped) * weights[None] / 2

    def excess(h):
        inside = (weights * (2 * ndtr(h / np.sqrt(v0 + tau)) - 1)).sum()
        at_top = float(mass @ capped[:, 0]) * (2 * ndtr(h / np.sqrt(v0 + top)) - 1)
        return inside + at_top - confidence

    z = ndtri((1 + confidence) / 2)
    return scipy.optimize.brentq(excess, 0.5 * z * np.sqrt(v0), 1.01 * z * np.sqrt(v0 + top))


@pytest.mark.parametrize("name", CASES)
def test_half_widths_are_those_of_fine_quadrature(name):
    for confidence in (0.8, 0.95, 0.99):
        found = evidence(*CASES[name]).half_width(confidence)[0]
        assert found == pytest.approx(half_by_quadrature(*CASES[name], confidence), rel=CLOSE)


@pytest.mark.parametrize("nu", [1, 2, 5, 30, 1000])
def test_without_any_noise_it_is_student(nu):
    """d → 0, v₀ → 0, and a range that says nothing."""
    for confidence in (0.8, 0.95, 0.99):
        found = evidence(1e-12, 2.0, 1e-9, 1e12, nu).half_width(confidence)[0]
        t = stdtrit(nu, (1 + confidence) / 2)
        assert found == pytest.approx(np.sqrt(2) * t, rel=2 * CLOSE)


def test_squares_that_show_nothing_leave_the_range():
    """d → ∞: the normal interval of the largest variance, far from t with 1."""
    found = evidence(1.0, 5.0, 1e12, 3.0, 1e6)
    assert found.half_width(0.95)[0] == pytest.approx(1.95996 * np.sqrt(1 + 3), rel=CLOSE)
    assert found.student()[1][0] > 10


@pytest.mark.parametrize("d", [0.1, 0.3, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("v0", [0.02, 0.1, 0.5, 3.0])
def test_coverage_for_every_true_variance_up_to_the_top(v0, d):
    """By Gauss-Hermite over u, with squares of many rows (ν = 10⁶), in units of the top.

    41 nodes miss the kink of the top: coverage then is right to .002 (against 161 nodes).
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    for tau in (0.0, 0.05, 0.25, 0.5, 0.8, 1.0):
        full = np.full(len(nodes), 1.0)
        facts = v0 * full, tau + d * nodes, d * full, full, 1e6 * full
        half = VarianceFromSquares(*facts).half_width(0.95)
        covered = weights @ (2 * ndtr(half / np.sqrt(v0 + tau)) - 1) / weights.sum()
        assert covered > 0.928 - 0.002, (tau, covered)
        if tau == 1.0:
            assert covered < 0.96


def test_a_variance_with_freedom_stands_for_it():
    """t_f(.975)·√v = h; other confidences agree to 5%, but for 1 degree of freedom."""
    for facts in CASES.values():
        found = evidence(*facts)
        variance, freedom = (float(one[0]) for one in found.student())
        half = stdtrit(freedom, 0.975) * np.sqrt(variance)
        assert half == pytest.approx(found.half_width(0.95)[0], rel=1e-9)
        if facts[-1] > 1:
            for confidence in (0.8, 0.9, 0.99):
                by_student = stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(variance)
                assert by_student == pytest.approx(found.half_width(confidence)[0], rel=0.05)


sizes = st.floats(-3, 3).map(lambda x: 10.0**x)
facts = st.tuples(
    sizes, st.floats(-1e3, 1e3), sizes, sizes, st.floats(1, 1e5), st.sampled_from([1e-30, 1, 1e30])
)


@settings(max_examples=100, deadline=None)
@given(facts)
def test_half_widths_are_between_the_known_and_the_widest(given):
    """They grow with the confidence, and with the units."""
    *numbers, unit = given
    found = evidence(*numbers)
    v0, top = numbers[0], numbers[3]
    before = 0.0
    for confidence in (0.5, 0.8, 0.95, 0.99):
        half, z = found.half_width(confidence)[0], ndtri((1 + confidence) / 2)
        # A bisection of 50 steps, and a sum of 768 chances: 1e-9.
        assert z * np.sqrt(v0) * (1 - 1e-9) <= half <= z * np.sqrt(v0 + top) * (1 + 1e-9)
        assert half > before
        before = half
    other = evidence(*(x * unit for x in numbers[:4]), numbers[4]).half_width(0.95)[0]
    assert other == pytest.approx(found.half_width(0.95)[0] * np.sqrt(unit), rel=1e-9)


@settings(max_examples=50, deadline=None)
@given(facts)
def test_its_variance_and_freedom_are_those_of_a_document(given):
    """Positive, finite, at least 1; and several coefficients at once are each alone."""
    *numbers, _ = given
    variance, freedom = evidence(*numbers).student()
    assert 0 < variance[0] < np.inf
    assert 1 <= freedom[0] < np.inf
    several = np.array([numbers, CASES["usual"]], dtype=float).T
    both = VarianceFromSquares(*several).student()
    np.testing.assert_allclose(both[0][0], variance[0], rtol=1e-9)
    np.testing.assert_allclose(both[1][0], freedom[0], rtol=1e-6)
