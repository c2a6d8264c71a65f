"""The information of a release on the grid, summed term by term (PROOF.md §5-§7).

p(z|u) = (1−f)p(z−n) + f p(z−n−1), u = g(n + f). All sums run until what is left is below 1e-50.
"""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from privest.lattice import GAUSSIAN, LAPLACE

DIGITS = 50


def gaussian(j):
    """p(k) and g for σ² = 4^j + 1/2."""
    return gaussian_law(mpmath.mpf(4) ** j + mpmath.mpf(1) / 2), mpmath.mpf(2) ** -j


def gaussian_law(variance):
    most = int(mpmath.ceil(mpmath.sqrt(2 * variance * (DIGITS + 5) * mpmath.log(10))))
    q, r, weights = mpmath.exp(-1 / variance), mpmath.exp(-1 / (2 * variance)), [mpmath.mpf(1)]
    for _ in range(most):
        weights.append(weights[-1] * r)
        r *= q
    return two_sided(weights)


def laplace(j):
    """p(k) and g for q = 1 − g + g²/2."""
    g = mpmath.mpf(2) ** -j
    q, weights = 1 - g + g**2 / 2, [mpmath.mpf(1)]
    while weights[-1] > mpmath.mpf(10) ** -(DIGITS + 5):
        weights.append(weights[-1] * q)
    return two_sided(weights), g


def two_sided(weights):
    whole = weights[:0:-1] + weights
    total = mpmath.fsum(whole)
    return [weight / total for weight in whole]


def information(p, f, g):
    """g^−2 Σ (p1 − p0)²/((1−f)p0 + f p1)."""
    zero = mpmath.mpf(0)
    terms = []
    for p0, p1 in zip([*p, zero], [zero, *p]):
        both = (1 - f) * p0 + f * p1
        if both:
            terms.append((p1 - p0) ** 2 / both)
    return mpmath.fsum(terms) / g**2


@pytest.mark.parametrize("j", [1, 3, 10])
def test_the_gaussian_supremum(j):
    """(e^{1/σ²} − 1)/g² at grid points, and that is at most 1; less in between."""
    with mpmath.workdps(DIGITS):
        p, g = gaussian(j)
        variance = mpmath.mpf(4) ** j + mpmath.mpf(1) / 2
        top = mpmath.expm1(1 / variance) / g**2
        # p is cut at 1e-55 of its top, where p1²/p0 is still below 1e-45.
        assert abs(information(p, mpmath.mpf(0), g) - top) < mpmath.mpf(10) ** -40
        assert top <= 1
        assert 1 - top < g**4 / 11  # tight: 1 − g⁴/12
        assert information(p, mpmath.mpf(1) / 2, g) < top


@pytest.mark.parametrize(("sigma", "ratio"), [(2, 0.8302), (8, 0.98836)])
def test_between_grid_points_it_is_less(sigma, ratio):
    """I(1/2)/I(0) as it is in the notes of the project, to the digits they give."""
    with mpmath.workdps(DIGITS):
        p = gaussian_law(mpmath.mpf(sigma) ** 2)
        found = information(p, mpmath.mpf(1) / 2, 1) / information(p, mpmath.mpf(0), 1)
        assert float(found) == pytest.approx(ratio, abs=6e-6 if sigma == 8 else 6e-5)


@pytest.mark.parametrize("j", [1, 3, 6])
def test_the_laplace_supremum(j):
    """(1−q)²/(q g²) ≤ 1 at grid points; variance times information is 2 there."""
    with mpmath.workdps(DIGITS):
        p, g = laplace(j)
        q = 1 - g + g**2 / 2
        top = (1 - q) ** 2 / (q * g**2)
        assert abs(information(p, mpmath.mpf(0), g) - top) < mpmath.mpf(10) ** -40
        assert information(p, mpmath.mpf(1) / 2, g) < top <= 1
        half = len(p) // 2
        variance = g**2 * mpmath.fsum((k - half) ** 2 * x for k, x in enumerate(p))
        assert abs(variance * top - 2) < mpmath.mpf(10) ** -40


@pytest.mark.parametrize("law", [gaussian, laplace])
def test_information_is_convex_between_grid_points(law):
    with mpmath.workdps(DIGITS):
        p, g = law(1)
        found = [information(p, mpmath.mpf(i) / 16, g) for i in range(17)]
        for before, here, after in zip(found, found[1:], found[2:]):
            assert before + after > 2 * here
        assert max(found) in (found[0], found[-1])
        assert abs(found[0] - found[-1]) < mpmath.mpf(10) ** -40  # a symmetric law


def cell(p, f, g):
    """[(p(z|u), ∂p/∂u)] over z for u = g·f (n moves everything along)."""
    zero = mpmath.mpf(0)
    pairs = zip([*p, zero], [zero, *p])
    return [((1 - f) * p0 + f * p1, (p1 - p0) / g) for p0, p1 in pairs]


@pytest.mark.parametrize(
    "fractions", [(0, 0), (0, 0.5), (0.25, 0.7), (1, 0), (0.5, 0.5), (0.01, 1)]
)
def test_vector_levels_are_kept(fractions):
    """3×2 L: I_z(y), summed over both coordinates of z, is at most LLᵀ."""
    with mpmath.workdps(40):
        p, g = gaussian(1)
        p = [x for x in p if x > mpmath.mpf(10) ** -40]
        first, second = (cell(p, mpmath.mpf(f), g) for f in fractions)
        inner = mpmath.zeros(2)
        for a, da in first:
            for b, db in second:
                density, slope = a * b, (da * b, a * db)
                if not density:  # beyond where p was cut
                    continue
                for i in range(2):
                    for k in range(2):
                        inner[i, k] += slope[i] * slope[k] / density
        L = mpmath.matrix([[1, 0.3], [-0.7, 2], [0.25, -1.5]])
        gap = L * (mpmath.eye(2) - inner) * L.T
        least = min(mpmath.eigsy(gap, eigvals_only=True))
        assert least > -(mpmath.mpf(10) ** -28)
        assert abs(inner[0, 1]) < mpmath.mpf(10) ** -30


@pytest.mark.parametrize("law", [gaussian, laplace])
@pytest.mark.parametrize("f", [0, 0.3, 0.5, 0.99])
def test_mean_and_variance(law, f):
    """E z = u, Var(z|u) = g²(σ_X² + f(1−f)), by sums."""
    with mpmath.workdps(DIGITS):
        p, g = law(2)
        f = mpmath.mpf(f)
        half = len(p) // 2
        here = [density for density, _ in cell(p, f, g)]
        mean = g * mpmath.fsum((k - half) * x for k, x in enumerate(here))
        square = g**2 * mpmath.fsum((k - half) ** 2 * x for k, x in enumerate(here))
        own = mpmath.fsum((k - half) ** 2 * x for k, x in enumerate(p))
        small = mpmath.mpf(10) ** -40
        assert abs(mean - g * f) < small
        assert abs(square - mean**2 - g**2 * (own + f * (1 - f))) < small
        if law is gaussian:  # the variance of X is at most that of the formula
            most = 4**2 + mpmath.mpf(1) / 2
            assert own <= most + small
            assert square - mean**2 <= g**2 * (most + mpmath.mpf(1) / 4) + small


def test_distances_without_derivatives():
    """‖√P_u − √P_u'‖² ≤ (u−u')²/4, also across grid points."""
    with mpmath.workdps(30):
        p, g = gaussian(1)
        law = {k - len(p) // 2: x for k, x in enumerate(p)}

        def at(u):
            n = int(mpmath.floor(u / g))
            f = u / g - n
            support = range(-len(p), len(p))
            return [(1 - f) * law.get(z - n, 0) + f * law.get(z - n - 1, 0) for z in support]

        for u, moved in ((0, 0.1), (0.2, 0.45), (0.4, 1.9), (0, 2.0), (0.13, 3.4)):
            one, two = at(mpmath.mpf(u)), at(mpmath.mpf(moved))
            distance = mpmath.fsum((mpmath.sqrt(a) - mpmath.sqrt(b)) ** 2 for a, b in zip(one, two))
            assert distance <= mpmath.mpf(moved - u) ** 2 / 4


def test_rounding_in_a_bounded_law_is_no_release():
    """Why cos² noise is not made this way: I is infinite where p1 > 0 = p0."""
    with mpmath.workdps(30):
        p = two_sided([mpmath.cos(mpmath.pi * k / 8) ** 2 for k in range(4)])
        assert information(p, mpmath.mpf("1e-6"), 1) > 100 * information(p, mpmath.mpf("0.5"), 1)


def test_these_are_the_laws_of_the_lattice():
    assert GAUSSIAN.variance == Fraction(4**10) + Fraction(1, 2)
    assert LAPLACE.ratio == 1 - Fraction(1, 2**10) + Fraction(1, 2**21)
    assert np.log2(float(GAUSSIAN.variance)) == pytest.approx(20, abs=1e-6)
