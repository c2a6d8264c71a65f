"""The score of least J(ψ) (theory.md 7), through the numerical route, against other routes."""

import math

import numpy as np
import pytest
import scipy
from hypothesis import example, given, settings
from hypothesis import strategies as st

import privest as pv
from privest.noise.numerics.weighted import least_score
from privest.pipeline._score import LinearScore, NumericalScore
from scores import likelihood_score, optimal_score

WEIGHTS = (1e-8, 1e-4, 0.01, 0.3, 1.0, 30.0, 1e4, 1e6)
# Seen: 1e-12 and better; the elements are halved until the change is below 1e-12.
CLOSED = 1e-10


def uniform_cost(a, weight):
    return a * math.sqrt(weight) / math.tanh(a / math.sqrt(weight))


def laplace_cost(b, weight):
    return b**2 + weight / 2 + b * math.sqrt(weight + weight**2 / (4 * b**2))


class Sech(pv.noise.Distribution):
    """A user's law: only the log-density is given."""

    def logpdf(self, x):
        return -np.logaddexp(x, -np.asarray(x)) + np.log(2 / np.pi)


LAWS = {
    "logistic": pv.noise.Logistic(1.0),
    "cauchy": pv.noise.Cauchy(1.0),
    "t1": pv.noise.StudentT(0.7),
    "t3": pv.noise.StudentT(3.0),
    "contaminated": pv.noise.GaussianMixture([0.9, 0.1], means=[0.0, 0.0], sds=[1.0, 5.0]),
    "skewed": pv.noise.GaussianMixture([0.8, 0.2], means=[-0.5, 2.0], sds=[0.5, 1.2]),
    "bump": pv.noise.Bump(2.0),
    "sech": Sech(),
    "power": pv.noise.from_logpdf(lambda x: -np.log1p(x**4), normalise=True),
}


# --- J* -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("size", [1e-3, 1.0, 40.0])
@pytest.mark.parametrize("kind", ["gaussian", "laplace", "uniform"])
def test_the_numerical_route_gives_the_closed_forms(kind, size, weight):
    law, expected = {
        "gaussian": (pv.noise.Gaussian(cov=size**2), size**2 + weight),
        "laplace": (pv.noise.Laplace(size), laplace_cost(size, weight)),
        "uniform": (pv.noise.Uniform(size), uniform_cost(size, weight)),
    }[kind]
    found = least_score(law, weight)
    assert 1 / found.slope == pytest.approx(expected, rel=CLOSED, abs=0)
    assert abs(1 / found.slope - expected) <= 2 * found.error / found.slope**2
    # At the minimum E ψ² + λE ψ'² = E ψ': the three moments belong together.
    assert found.square + weight * found.slope_square == pytest.approx(found.slope, rel=1e-10)


@pytest.mark.parametrize(
    ("kind", "size"), [("gaussian", 1e-3), ("laplace", 40.0), ("uniform", 1e-3)]
)
def test_a_large_weight_is_solved_also_where_cholesky_fails(kind, size, monkeypatch):
    """Rounding decides whether it does: an LU of the same matrix then met a pivot of 0."""
    law = {"gaussian": pv.noise.Gaussian(cov=size**2), "laplace": pv.noise.Laplace(size),
           "uniform": pv.noise.Uniform(size)}[kind]  # fmt: skip
    solve, calls = scipy.linalg.solveh_banded, []

    def failing(matrix, right, **options):
        calls.append(right.ndim)
        if right.ndim == 1:
            raise np.linalg.LinAlgError
        return solve(matrix, right, **options)

    usual = least_score(law, 10.0)
    monkeypatch.setattr(scipy.linalg, "solveh_banded", failing)
    found = least_score(law, 10.0)
    assert set(calls) == {1, 2}
    for name in ("square", "slope", "slope_square"):
        assert getattr(found, name) == pytest.approx(getattr(usual, name), rel=CLOSED, abs=0)


@pytest.mark.parametrize("weight", [1e-6, 0.01, 1.0, 1e5])
def test_the_laplace_score_is_the_closed_form(weight):
    """ψ = sign(x)(1 − e^{−ρ|x|})/b , ρ = (√(1/b² + 4/λ) − 1/b)/2, within the 1e-12 of J*.

    An error of J* of 1e-12 is one of ψ of its root, 1e-6 at the worst; seen: 1e-9.
    """
    b = 0.7
    law = pv.noise.Laplace(b)
    score = optimal_score(law, weight)
    x = law.quantile(np.linspace(1e-4, 1 - 1e-4, 401))
    rate = 2 * b / weight / (1 + math.sqrt(1 + 4 * b**2 / weight))
    t = rate * np.abs(x)
    found = score.terms(x)
    value = -np.sign(x) * np.expm1(-t) / b
    np.testing.assert_allclose(found.value, value, rtol=1e-7, atol=1e-8 * value.max())
    slope = rate / b * np.exp(-t)
    np.testing.assert_allclose(found.slope, slope, rtol=1e-7, atol=1e-8 * slope.max())
    integral = (t + np.expm1(-t)) / (rate * b)
    np.testing.assert_allclose(
        found.integral - found.integral[200], integral - integral[200],
        rtol=1e-7, atol=1e-8 * integral.max(),
    )  # fmt: skip
    assert score.cost(weight) == pytest.approx(laplace_cost(b, weight), rel=CLOSED)
    assert score.one_root


def test_parts_of_a_density_that_are_apart_have_no_common_score():
    def logpdf(x):
        return np.where((np.abs(x) > 1) & (np.abs(x) < 2), math.log(0.5), -np.inf)

    law = pv.noise.from_logpdf(logpdf, support=(-2, 2), breaks=(-1, 1))
    with pytest.raises(pv.errors.NumericalFailure, match="vanishes between parts"):
        least_score(law, 1.0)


def by_finite_differences(law, weight, reach, count):
    """J* on a plain grid: minimise the discrete E ψ² + λE ψ'² − 2E ψ', error O(h²)."""
    x = np.linspace(-reach, reach, count)
    h = x[1] - x[0]
    f = np.asarray(law.pdf(x))
    between = np.asarray(law.pdf((x[1:] + x[:-1]) / 2))
    trapezoid = np.full(count, h)
    trapezoid[[0, -1]] = h / 2
    main = f * trapezoid
    main[:-1] += weight * between / h
    main[1:] += weight * between / h
    band = np.zeros((2, count))
    band[1], band[0, 1:] = main, -weight * between / h
    right = np.zeros(count)
    right[:-1] -= between
    right[1:] += between
    psi = scipy.linalg.solveh_banded(band, right)
    return 1 / (right @ psi)


@pytest.mark.parametrize("name", ["logistic", "skewed", "contaminated", "sech", "t3"])
@pytest.mark.parametrize("weight", [0.05, 2.0])
def test_against_plain_finite_differences(name, weight):
    """Richardson from two grids: what is left of the h² error is below 1e-6."""
    law = LAWS[name]
    reach = {"skewed": 15.0, "t3": 400.0}.get(name, 60.0)
    coarse = by_finite_differences(law, weight, reach, 20_001)
    fine = by_finite_differences(law, weight, reach, 40_001)
    better = fine + (fine - coarse) / 3
    # t3: beyond 400 lies 3e-8 of its mass.
    assert optimal_score(law, weight).cost(weight) == pytest.approx(better, rel=2e-6)


@pytest.mark.parametrize("name", ["logistic", "cauchy", "skewed"])
@pytest.mark.parametrize("weight", [0.1, 1.0])
def test_the_score_solves_the_boundary_value_problem(name, weight):
    """ψ − λ(ψ'' + l'ψ') = −l' by collocation (scipy.integrate.solve_bvp) between two points.

    ψ is taken at both ends, so that only the equation is tested between them.
    """
    law, score = LAWS[name], NumericalScore(LAWS[name], weight)
    a, b = law.quantile([0.02, 0.98])
    ends = score(np.array([a, b]))

    def equation(x, v):
        slope = np.asarray(law.score(x))
        return np.vstack([v[1], (v[0] + slope) / weight - slope * v[1]])

    x = np.linspace(a, b, 60)
    found = scipy.integrate.solve_bvp(
        equation, lambda u, v: np.array([u[0] - ends[0], v[0] - ends[1]]), x,
        np.vstack([score(x), score.slope(x)]), tol=1e-8, max_nodes=20_000,
    )  # fmt: skip
    assert found.success
    inside = np.linspace(a, b, 500)
    np.testing.assert_allclose(
        found.sol(inside)[0], score(inside), atol=1e-7 * np.abs(ends).max(), rtol=0
    )


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("weight", [1e-3, 1.0, 100.0])
def test_moments_by_another_quadrature(name, weight):
    """E ψ = 0, E ψ², E ψ', E ψ'² of the ψ that is used, by Gauss-Legendre panels of this test."""
    law = LAWS[name]
    score = optimal_score(law, weight)
    points, weights = np.polynomial.legendre.leggauss(40)
    lo, hi = law.support if name == "bump" else law.quantile([1e-9, 1 - 1e-9])
    # Panels of geometric length on both sides of the median hold all but 2e-9 of the mass.
    middle = float(law.quantile(0.5))
    left, right = (np.geomspace(0.01, abs(end - middle), 120) for end in (lo, hi))
    edges = np.concatenate([(middle - left)[::-1], [middle], middle + right])
    if name == "bump":
        edges = np.linspace(lo, hi, 400)
        lo, hi = 0.99 * lo, 0.99 * hi  # no tail beyond
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (1 + points)
    mass = half * weights * np.asarray(law.pdf(x))
    terms = score.terms(x)
    moments = score.moments
    # The tail beyond: 1e-9 of the mass, where ψ and ψ' are at most what they are there.
    tail = 2e-9 * (np.abs(score(np.array([lo, hi]))).max() ** 2 + moments.square) * 10
    slopes = 2e-9 * (np.abs(score.slope(np.array([lo, hi]))).max() + moments.slope) * 10
    scale = math.sqrt(moments.square)
    assert abs(float((mass * terms.value).sum())) < 1e-7 * scale + tail / scale
    assert float((mass * terms.value**2).sum()) == pytest.approx(moments.square, rel=1e-7, abs=tail)
    assert float((mass * terms.slope).sum()) == pytest.approx(moments.slope, rel=1e-7, abs=slopes)
    assert float((mass * terms.slope**2).sum()) == pytest.approx(
        moments.slope_square, rel=1e-6, abs=slopes * moments.slope
    )


# --- order and limits -----------------------------------------------------------------------------


shifts = st.integers(-500, 500).map(lambda hundredths: hundredths / 100)


@st.composite
def laws(draw):
    kind = draw(st.sampled_from(["logistic", "cauchy", "t", "mixture", "skewed", "sech", "bump"]))
    if kind == "t":
        law = pv.noise.StudentT(draw(st.floats(0.5, 40.0)))
    elif kind in ("mixture", "skewed"):
        share = draw(st.floats(0.05, 0.95))
        apart = draw(st.floats(0.0, 4.0)) if kind == "skewed" else 0.0
        wide = draw(st.floats(0.2, 6.0))
        law = pv.noise.GaussianMixture([share, 1 - share], means=[0.0, apart], sds=[1.0, wide])
    else:
        law = LAWS[kind]
    scale = 10 ** draw(st.floats(-3, 3))
    if draw(st.booleans()):
        scale = -scale
    return law.scaled(scale).shifted(draw(shifts) * abs(scale)), abs(scale)


@settings(max_examples=60)
@example((pv.noise.GaussianMixture([0.4, 0.6], means=[0.0, 2e-309], sds=[1.0, 0.2]), 1.0), 0.2)
@given(laws(), st.floats(-8, 6))
def test_no_worse_than_maximum_likelihood_and_least_squares(drawn, exponent):
    """J* ≤ J of every other score, ≥ 1/I + λ; rounding and quadrature: 1e-8."""
    law, scale = drawn
    weight = 10**exponent * scale**2
    score = optimal_score(law, weight)
    least = score.cost(weight)
    assert score.error < 1e-8
    if math.isfinite(law.expected_squared_curvature):
        assert least <= likelihood_score(law).cost(weight) * (1 + 1e-8)
    if math.isfinite(law.mean) and math.isfinite(law.variance):
        assert least <= (law.variance + weight) * (1 + 1e-8)
    assert least >= (1 / law.fisher_information + weight) * (1 - 1e-8)


@pytest.mark.parametrize("weight", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("law", [pv.noise.Cauchy(1.0), pv.noise.StudentT(3.0)])
def test_strictly_better_than_maximum_likelihood_for_heavy_tails(law, weight):
    """For Cauchy E l''²/(E l'')² = 7/2: as λ grows maximum likelihood pays 3.5 times, ψ* once."""
    gain = likelihood_score(law).cost(weight) / optimal_score(law, weight).cost(weight)
    assert gain > 1 + 1e-5
    if weight == 10.0:
        assert gain > 1.05


def test_the_logistic_figure():
    """docs/howto/nongaussian.md: J(ML)/J* = 1.022 at λ = 1."""
    law = pv.noise.Logistic(1.0)
    gain = likelihood_score(law).cost(1.0) / optimal_score(law, 1.0).cost(1.0)
    assert round(gain, 3) == 1.022


@pytest.mark.parametrize("name", ["logistic", "cauchy", "t3", "skewed", "sech", "power"])
def test_small_weights_lead_to_the_classical_bound(name):
    """J* → 1/I, and J* − 1/I ≤ λE l''²/I² (maximum likelihood), which λ = 1e-8 makes small."""
    law = LAWS[name]
    information = law.fisher_information
    excess = optimal_score(law, 1e-8).cost(1e-8) * information - 1
    likely = 1e-8 * law.expected_squared_curvature / information
    assert -1e-10 < excess <= likely * (1 + 1e-3) + 1e-10
    assert excess == pytest.approx(likely, rel=0.01, abs=1e-10)  # to first order in λ
    x = law.quantile(np.linspace(0.01, 0.99, 99))
    np.testing.assert_allclose(
        optimal_score(law, 1e-8)(x), -law.score(x), atol=1e-5 * math.sqrt(information)
    )


@pytest.mark.parametrize("name", ["logistic", "skewed", "sech", "bump"])
def test_large_weights_lead_to_the_mean(name):
    """J* − λ → var w from below: the score becomes a straight line through the mean."""
    law = LAWS[name]
    for weight, rel in ((1e3, 0.05), (1e5, 5e-4)):
        cost = optimal_score(law, weight).cost(weight)
        assert cost - weight <= law.variance * (1 + 1e-6)
        assert cost - weight == pytest.approx(law.variance, rel=rel)
    score = optimal_score(law, 1e6)
    x = law.quantile(np.linspace(0.05, 0.95, 19))
    line = score(x) / score.slope(x)
    np.testing.assert_allclose(line, x - law.mean, atol=1e-3 * math.sqrt(law.variance))


@settings(max_examples=25)
@given(st.sampled_from(sorted(LAWS)), st.floats(-3, 3), st.floats(-6, 4), shifts)
def test_scaling_and_shifting_the_law(name, log_scale, log_weight, shift):
    """J*(c·law + a, c²λ) = c²J*(law, λ); ψ moves along."""
    law, c, weight = LAWS[name], 10**log_scale, 10**log_weight
    moved = law.scaled(c).shifted(shift * c)
    here, there = optimal_score(law, weight), optimal_score(moved, c**2 * weight)
    assert there.cost(c**2 * weight) == pytest.approx(c**2 * here.cost(weight), rel=1e-9)
    x = law.quantile(np.linspace(0.01, 0.99, 21))
    np.testing.assert_allclose(
        c * there(c * x + shift * c), here(x), rtol=1e-6, atol=1e-7 * np.abs(here(x)).max()
    )


@given(st.sampled_from(sorted(LAWS)), st.floats(-6, 5), st.floats(0.01, 2))
@settings(max_examples=25)
def test_costs_grow_with_the_weight_and_are_concave(name, exponent, step):
    """J* is a minimum of functions that are linear in λ: increasing, concave."""
    law = LAWS[name]
    weights = 10**exponent * np.array([1.0, 1 + step, 1 + 2 * step])
    low, middle, high = (optimal_score(law, w).cost(w) for w in weights)
    assert low < middle < high
    assert middle >= (low + high) / 2 * (1 - 1e-9)


def test_mirrored_laws_have_mirrored_scores():
    law = LAWS["skewed"]
    x = np.linspace(-2, 4, 50)
    one, other = optimal_score(law, 0.3), optimal_score(law.scaled(-1.0), 0.3)
    np.testing.assert_allclose(other(-x), -one(x), atol=1e-8)


def test_tails_too_heavy_to_invert_are_refused():
    with pytest.raises(pv.errors.NumericalFailure, match="too heavy"):
        optimal_score(pv.noise.StudentT(0.1), 1.0)


@pytest.mark.parametrize("df", [0.3, 0.5, 1e6])
def test_extreme_tails(df):
    """From t with 0.3 degrees of freedom to all but a Gaussian."""
    law = pv.noise.StudentT(df)
    score = optimal_score(law, 1.0)
    assert score.error < 1e-9
    assert score.cost(1.0) < likelihood_score(law).cost(1.0) * (1 + 1e-9)
    far = score.terms(np.array([-1e50, -1e25, 1e25, 1e50]))
    assert all(np.isfinite(term).all() for term in far)
    if df == 1e6:
        assert score.cost(1.0) == pytest.approx(2.0, rel=3e-6)  # J* = 1 + O(1/df) + λ


@pytest.mark.parametrize(("name", "limit"), [("logistic", 1.0), ("sech", 1.0)])
def test_one_gross_outlier_counts_no_more_than_the_tail_says(name, limit):
    """−l' → 1 in an exponential tail, and so does ψ* (l'' = 0 there), however far out."""
    x = np.array([40.0, 300.0, 1e4, 1e6])
    score = optimal_score(LAWS[name], 0.3)
    np.testing.assert_allclose(score(x), limit, atol=1e-3)
    np.testing.assert_allclose(score(-x), -limit, atol=1e-3)
    np.testing.assert_allclose(score.slope(x), 0.0, atol=1e-8)


@pytest.mark.parametrize("weight", [0.01, 1.0])
def test_outliers_of_heavy_tails_fade(weight):
    """−l' = 2x/(1 + x²): ψ* → 0 as 2/x."""
    score = optimal_score(pv.noise.Cauchy(1.0), weight)
    x = np.array([1e3, 1e6, 1e9])
    np.testing.assert_allclose(score(x) * x, 2.0, rtol=1e-4)
    np.testing.assert_allclose(score(-x) * x, -2.0, rtol=1e-4)


def test_gaussian_tails_grow_by_the_widest_part():
    """Far out the mixture is N(0, 5²) alone, for which ψ = x/(σ² + λ)."""
    score = optimal_score(LAWS["contaminated"], 0.3)
    np.testing.assert_allclose(score.slope(np.array([60.0, 500.0])), 1 / 25.3, rtol=1e-4)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("weight", [1e-4, 0.3, 100.0])
def test_the_integral_belongs_to_the_score(name, weight):
    """F must be the integral of ψ to rounding: the descent compares heights to 1e-12."""
    law, score = LAWS[name], optimal_score(LAWS[name], weight)
    lo, hi = law.quantile([0.005, 0.995])
    edges = np.linspace(max(lo, -40.0) - 1.0, min(hi, 40.0) + 1.0, 4001)  # beyond finite ends too
    points, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, None] / 2
    area = (half * weights * score(edges[:-1, None] + half * (1 + points))).sum(axis=1)
    found = np.diff(score.terms(edges).integral)
    typical = math.sqrt(score.moments.square) * float(np.ptp(law.quantile([0.25, 0.75])))
    reach = np.abs(area).max()
    np.testing.assert_allclose(found, area, rtol=1e-6, atol=1e-9 * max(typical, reach))
    middle = law.quantile(0.5)
    assert abs(float(score.terms(np.array(middle)).integral)) < 3 * typical


@pytest.mark.parametrize("df", [0.5, 1.0, 3.0])
def test_beyond_the_elements_the_score_keeps_its_sign(df):
    """ψ fades like (df + 1)/x; continued downwards it would change sign, and F fall to −∞."""
    score = optimal_score(pv.noise.StudentT(df), 0.3)
    x = np.geomspace(1e2, 1e60, 59)
    assert (score(x) >= 0).all()
    assert (score(-x) <= 0).all()
    np.testing.assert_array_equal(score(x), score.terms(x).value)
    assert (np.diff(score.terms(x).integral) >= 0).all()
    assert (np.diff(score.terms(-x).integral) >= 0).all()


# --- what does not exist --------------------------------------------------------------------------


def test_separate_parts_are_refused():
    law = pv.noise.GaussianMixture([0.5, 0.5], means=[-100.0, 100.0], sds=[1.0, 1.0])
    with pytest.raises(pv.errors.NumericalFailure, match="separate"):
        optimal_score(law, 1.0)


@pytest.mark.parametrize("law", [pv.noise.Laplace(1.0), pv.noise.Uniform(1.0)])
def test_maximum_likelihood_is_refused_where_it_has_no_sensitivity(law):
    with pytest.raises(pv.errors.InvalidInput, match="score='optimal'"):
        likelihood_score(law)


def test_least_squares_is_optimal_for_gaussians_at_every_weight():
    law = pv.noise.Gaussian(cov=2.0, mean=1.0)
    assert isinstance(optimal_score(law, 3.0), LinearScore)
    numbers = NumericalScore(law, 3.0)
    assert numbers.cost(3.0) == pytest.approx(5.0, rel=1e-10)
    np.testing.assert_allclose(
        numbers([-1.0, 1.0, 4.0]) / numbers.slope(1.0), [-2.0, 0.0, 3.0], atol=1e-9
    )
