"""Partial moments against 60 digits; the piecewise closed forms far out, and as densities."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
import scipy.integrate

from privest.estimator.likelihood import (
    NUMPY,
    InverseGaussianLikelihood,
    InverseLaplaceLikelihood,
    QuantiserLikelihood,
    TwinUniformLikelihood,
)
from privest.estimator.likelihood._multiplicative import piece
from privest.mechanism import LaplaceQuantiser, ProbabilisticQuantiser


def quantiser(variance, step, dither="uniform"):
    return QuantiserLikelihood(ProbabilisticQuantiser(step, dither=dither), variance)


def moments_exactly(alpha, beta, start):
    """∫_α^β (x − x₀)^k φ(x)/φ(x₀) dx/√(2π), k = 0..2, by the plain recursion in 250 digits."""
    with mp.workdps(250):
        a, x0 = mp.mpf(alpha), mp.mpf(start)
        plain = []  # ∫ x^k φ
        for k in range(3):
            if k == 0:
                plain.append((mp.erfc(a / mp.sqrt(2)) - mp.erfc(mp.mpf(beta) / mp.sqrt(2))) / 2)
                continue
            low = a ** (k - 1) * mp.npdf(a)
            high = 0 if beta == mp.inf else mp.mpf(beta) ** (k - 1) * mp.npdf(mp.mpf(beta))
            plain.append(low - high + (k - 1) * (plain[k - 2] if k > 1 else 0))
        unit = mp.npdf(x0) * mp.sqrt(2 * mp.pi)
        return [
            float(sum(mp.binomial(k, j) * plain[j] * (-x0) ** (k - j) for j in range(k + 1)) / unit)
            for k in range(3)
        ]


@pytest.mark.parametrize(
    "alpha", [-20.0, -6.0, -2.1, -1.0, -0.25, 0.0, 0.25, 2.0, 2.75, 3.25, 10.0, 150.0]
)
@pytest.mark.parametrize("width", [2.0**-30, 2.0**-9, 0.125, 0.5, 1.0, 3.0, 8.0, np.inf])
def test_intervals(alpha, width):
    """Of N(0, 1) about the point nearest to 0. Of mass 1, 4e-13 is beyond 7.25, and 30 points leave
    about as much; both grow by 7.25 with each power."""
    ends = np.array([alpha]), np.array([alpha + width])
    zero, one = np.zeros(1), np.ones(1)
    found = piece(ends, zero, one, np.ones_like, np.zeros_like, NUMPY)
    start = min(max(0.0, alpha), alpha + width)
    assert found.at[0] == start
    exact = moments_exactly(alpha, mp.inf if np.isinf(width) else alpha + width, start)
    for k, own in enumerate(found.moments):
        assert own[0] == pytest.approx(exact[k], rel=1e-11, abs=3e-12 * 7.25**k * exact[0])


# --- far out: one piece is left, and its expansion is known ---------------------------------------


def at(likelihood, z, eta):
    terms = likelihood(np.array([[z]]), np.array([[eta]]))
    return [float(entry[0, 0]) for entry in terms[:3]]


@pytest.mark.parametrize(("dither", "degree", "end"), [("uniform", 1, 1.0), ("triangular", 2, 1.5)])
@pytest.mark.parametrize("away", [20.0, 40.0, 1e3])
def test_dither_in_the_tail(dither, degree, end, away):
    """At t = away σ beyond the end B ~ (x/Δ)^d/(d or 1): ∫ x^d e^{−tx/σ − …}, a Tail moment."""
    sd, step = 0.2, 1.0
    z, eta = 2.0, 2.0 + end * step + away * sd
    value, slope, curvature = at(quantiser(sd**2, step=step, dither=dither), z, eta)
    with mp.workdps(60):
        t = (mp.mpf(eta) - z - mp.mpf(end) * step) / mp.mpf(sd)

        def moment(k):
            return mp.quad(lambda x: x**k * mp.exp(-t * x - x * x / 2), [0, 1 / t, 5 / t, 60 / t])

        m = [moment(degree + k) for k in range(3)]
        scale = (mp.mpf(sd) / step) ** degree / degree
        exact = mp.log(scale * m[0] / mp.sqrt(2 * mp.pi)) - t * t / 2
        mean = -t - m[1] / m[0]  # (y − η)/σ, y to the left of the end
        spread = m[2] / m[0] - (m[1] / m[0]) ** 2
    assert value == pytest.approx(float(exact), rel=1e-12)
    assert slope * sd == pytest.approx(float(mean), rel=1e-12)
    assert 1 - curvature * sd**2 == pytest.approx(float(spread), rel=1e-3, abs=1e-15)
    # to the other side the mirror image
    left = at(quantiser(sd**2, step=step, dither=dither), z, 2 * z - eta)
    assert left[0] == pytest.approx(value, rel=1e-12)
    assert left[1] == pytest.approx(-slope, rel=1e-12)


@pytest.mark.parametrize("edge", [0.0, 1.5])
def test_inverse_laplace_in_the_tail(edge):
    """η ≫ z > 0: y e^{−ky}, k = 1/zb, tilts N(η, σ²) to the mean μ = η − kσ²:

    p = μ/2bz² · e^{−(η/z − 1)/b + k²σ²/2}.
    """
    z, b, sd, eta = 2.0, 0.5, 0.3, 500.0
    value, slope, curvature = at(InverseLaplaceLikelihood(sd**2, scale=b, truncation=edge), z, eta)
    k = 1 / (z * b)
    mu = eta - k * sd**2
    exact = math.log(mu / (2 * b * z * z)) - (eta / z - 1) / b + (k * sd) ** 2 / 2
    assert value == pytest.approx(exact, rel=1e-13)
    assert slope == pytest.approx(1 / mu - k, rel=1e-12)
    # 1/σ² − Var[y|z]/σ⁴, and 30 points leave 3e-12·7.25² of Var/s²
    assert curvature == pytest.approx(1 / mu**2, rel=1e-6, abs=1.6e-10 / sd**2)


# --- sums and integrals to one: the only check that sees a wrong constant -------------------------


@pytest.mark.parametrize("sd", [0.01, 0.3, 4.0])
def test_quantisers_sum_to_one(sd):
    step, eta = 0.7, 0.41
    z = step * np.arange(-400, 401)
    for likelihood in (
        quantiser(sd**2, step=step),
        quantiser(sd**2, step=step, dither="triangular"),
        QuantiserLikelihood(LaplaceQuantiser(step, 0.5), sd**2),
    ):
        value = likelihood.value(z[None], np.full((1, len(z)), eta))
        assert np.exp(np.maximum(value, -700)).sum() == pytest.approx(1.0, abs=1e-11)


@pytest.mark.parametrize("eta", [0.0, 0.5, -2.0])
@pytest.mark.parametrize(
    "likelihood",
    [
        InverseLaplaceLikelihood(0.04, scale=0.6),
        InverseLaplaceLikelihood(0.04, scale=0.6, truncation=0.6),
        InverseGaussianLikelihood(0.04, sd=1.2, truncation=0.6),
        TwinUniformLikelihood(0.04, inner=0.25, outer=0.75),
        TwinUniformLikelihood(0.04, inner=0.5, outer=1.5),
    ],
)
def test_multiplicative_ones_integrate_to_one(likelihood, eta):
    """z = tan s: all of the line; the densities fall like 1/z² (the last one has ln |z| at 0)."""

    def density(s):
        z = math.tan(s)
        return math.exp(at(likelihood, z, eta)[0]) * (1 + z * z)

    half = math.pi / 2
    cuts = [-half + 1e-12, -1.0, -0.1, -1e-3, -1e-9, 1e-9, 1e-3, 0.1, 1.0, half - 1e-12]
    pairs = [(a, b) for a, b in itertools.pairwise(cuts) if b - a > 1e-8]
    total = sum(scipy.integrate.quad(density, a, b, epsabs=1e-9, limit=400)[0] for a, b in pairs)
    assert total == pytest.approx(1.0, abs=3e-7)


def test_units_do_not_matter():
    """z, η, σ, ε, Δ in other units: ℓ changes by ln of the unit for a density, not for a mass."""
    unit = 1e6
    z, eta = np.array([[1.5, -0.5]]), np.array([[0.3, 0.9]])
    plain = InverseLaplaceLikelihood(0.04, scale=0.6, truncation=0.6)(z, eta)
    scaled = InverseLaplaceLikelihood(0.04 * unit**2, scale=0.6, truncation=0.6 * unit)(
        z * unit, eta * unit
    )
    assert np.abs(scaled.value + math.log(unit) - plain.value).max() < 1e-12
    assert np.abs(scaled.slope * unit - plain.slope).max() < 1e-11
    z = np.array([[1.5, -0.5]])
    plain = quantiser(0.04, step=0.5)(z, eta)
    scaled = quantiser(0.04 * unit**2, step=0.5 * unit)(z * unit, eta * unit)
    assert np.abs(scaled.value - plain.value).max() < 1e-12


# --- extremes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dither", "variance"), [("uniform", 1 / 6), ("triangular", 1 / 4)])
@pytest.mark.parametrize("step", [1e-2, 1e-4, 1e-8])
def test_a_fine_grid_is_gaussian_noise(dither, variance, step):
    """ln(Δ N(z; η, σ² + cΔ²)) up to the fourth cumulant, z⁴Δ⁴/100σ⁸, and rounding of z/Δ."""
    z = step * np.rint(np.array([[0.3, -2.0, 5.0, 10.0]]) / step)
    terms = quantiser(1.0, step=step, dither=dither)(z, np.zeros((1, 4)))
    total = 1 + variance * step**2
    value = -0.5 * z**2 / total - 0.5 * math.log(2 * math.pi * total) + math.log(step)
    assert np.abs(terms.value - value).max() < 1e2 * step**4 + 1e-12
    assert np.abs(terms.slope - z / total).max() < 1e2 * step**4 + 1e-11
    assert np.abs(terms.curvature - 1 / total).max() < 1e2 * step**4 + 1e-9


@pytest.mark.parametrize("z", [1e-300, 1e-100, 1e-12, 1e12, 1e100])
@pytest.mark.parametrize(
    "likelihood",
    [
        InverseLaplaceLikelihood(0.04, scale=0.6),
        InverseLaplaceLikelihood(0.04, scale=0.6, truncation=0.6),
        InverseGaussianLikelihood(0.04, sd=1.2),
        InverseGaussianLikelihood(0.04, sd=1.2, truncation=0.6),
        TwinUniformLikelihood(0.04, inner=0.25, outer=0.75),
        TwinUniformLikelihood(0.04, inner=0.5, outer=1.5),
    ],
)
def test_tiny_and_huge_releases(likelihood, z):
    """Warnings are errors: finite terms, and a curvature that keeps its bound."""
    terms = likelihood(np.full((1, 5), z), np.array([[0.0, 0.3, -2.0, 50.0, -1e5]]))
    assert all(np.isfinite(entry).all() for entry in terms)
    assert (terms.curvature <= 25.0 * (1 + 1e-9)).all()


@pytest.mark.parametrize(("z", "eta"), [(1e-30, 0.3), (1e-6, 0.3), (1e-6, -0.5), (1e-3, 5.0)])
def test_twin_uniform_with_a_factor_near_zero(z, eta):
    """D ∈ [−½, ¾] ∪ [1¼, 2½]: y from z/2½ to ∞ and from −2z down; ∫ N(±e^s; η, σ²) ds by quad."""

    def integral(side, low, high):
        def f(s):
            return math.exp(-((side * math.exp(s) - eta) ** 2) / 0.08)

        cuts = itertools.pairwise(np.linspace(low, high, 30))
        return sum(scipy.integrate.quad(f, a, b, epsabs=0, limit=500)[0] for a, b in cuts)

    log, top = math.log, 3.0
    total = integral(1, log(z / 0.75), top) + integral(-1, log(2 * z), top)
    total += integral(1, log(z / 2.5), log(z / 1.25))
    exact = log(total / (2 * 1.25) / (0.2 * math.sqrt(2 * math.pi)))
    found = at(TwinUniformLikelihood(0.04, inner=0.25, outer=1.5), z, eta)
    assert found[0] == pytest.approx(exact, abs=1e-9)
