"""Every likelihood against brute force: in the bulk, in the far tails, and its derivatives."""

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats

from privest.errors import InvalidInput
from privest.estimator.likelihood import (
    Backend,
    BinaryLikelihood,
    ConvolvedLikelihood,
    GaussianLikelihood,
    InverseGaussianLikelihood,
    InverseLaplaceLikelihood,
    LaplaceLikelihood,
    QuadratureLikelihood,
    QuantiserLikelihood,
    Rowwise,
    TwinUniformLikelihood,
    VoigtLikelihood,
    likelihood_of,
)
from privest.mechanism import Additive, Componentwise, LaplaceQuantiser, ProbabilisticQuantiser
from privest.noise import (
    Bump,
    Cauchy,
    CosSquared,
    Gaussian,
    GaussianMixture,
    Laplace,
    Logistic,
    Staircase,
    StudentT,
    Uniform,
)

SD = 0.2
VARIANCE = SD**2
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


def brute(log_p, eta, sd, breaks=(), centres=()):
    """ℓ, ℓ', −ℓ'' from log p(z|y): 20 points on some thousand panels around all points named.

    Panels are at most σ/4 wide within 40σ of each and end at the breaks; what is beyond weighs
    less than e^-300 relative to the largest of them in all cases used here.
    """
    steps = sd * np.concatenate([np.arange(-40, 40.1, 0.25), 0.25 * 2.0 ** np.arange(-12, 0)])
    steps = np.concatenate([steps, -steps])
    cuts = [c + steps for c in (eta, *breaks, *centres)]
    cuts = np.unique(np.concatenate([*cuts, np.array(breaks)]))
    half = np.diff(cuts)[:, None] / 2
    y = cuts[:-1, None] + half + half * NODES
    with np.errstate(all="ignore"):
        size = log_p(y) - ((y - eta) / sd) ** 2 / 2 + np.log(half * WEIGHTS)
        size = np.where(np.isnan(size), -np.inf, size)
        part = np.exp(size - size.max())
    x = (y - eta) / sd
    mean = (part * x).sum() / part.sum()
    spread = (part * (x - mean) ** 2).sum() / part.sum()
    value = size.max() + np.log(part.sum()) - math.log(sd * math.sqrt(2 * math.pi))
    return value, mean / sd, (1 - spread) / sd**2


def at(likelihood, z, eta):
    terms = likelihood(np.array([[z]]), np.array([[eta]]))
    return [float(entry[0, 0]) for entry in terms]


def assert_close(found, expected, sd, value=1e-10, slope=1e-9, curvature=1e-7):
    assert abs(found[0] - expected[0]) <= value * (1 + abs(expected[0]))
    assert abs(found[1] - expected[1]) <= slope * (1 / sd + abs(expected[1]))
    assert abs(found[2] - expected[2]) <= curvature / sd**2


# --- closed forms against 60 digits ------------------------------------------------------------


def laplace_exactly(r, sd, b):
    r, sd, b = (mp.mpf(v) for v in (r, sd, b))
    k = sd / b

    def density(x):
        both = mp.exp(-x / b) * mp.ncdf(x / sd - k) + mp.exp(x / b) * mp.ncdf(-x / sd - k)
        return mp.exp(k * k / 2) / (2 * b) * both

    f = density(r)
    f1, f2 = mp.diff(density, r), (f - mp.npdf(r, 0, sd)) / b**2
    return mp.log(f), -f1 / f, (f1 / f) ** 2 - f2 / f


def voigt_exactly(r, sd, scale):
    r, sd, scale = (mp.mpf(v) for v in (r, sd, scale))
    zeta = (r + 1j * scale) / (sd * mp.sqrt(2))
    w = mp.exp(-zeta * zeta) * mp.erfc(-1j * zeta)
    w1 = -2 * zeta * w + 2j / mp.sqrt(mp.pi)
    f, f1, f2 = w.real, w1.real, (-2 * w - 2 * zeta * w1).real
    unit = sd * mp.sqrt(2)
    value = mp.log(f / (sd * mp.sqrt(2 * mp.pi)))
    return value, -f1 / f / unit, ((f1 / f) ** 2 - f2 / f) / unit**2


@pytest.mark.parametrize(
    ("family", "exactly"), [(LaplaceLikelihood, laplace_exactly), (VoigtLikelihood, voigt_exactly)]
)
@pytest.mark.parametrize(("sd", "scale"), [(0.2, 1.0), (1.0, 1.0), (2.0, 0.1), (0.01, 1.0)])
def test_closed_forms_to_the_far_tails(family, exactly, sd, scale):
    likelihood = family(sd**2, scale=scale)
    with mp.workdps(60):
        for r in (0.0, 0.1, -0.3, 1.0, -2.5, 7.0, 28.0, 30.0, -100.0, 600.0, 1e4, -1e6):
            expected = [float(v) for v in exactly(r, sd, scale)]
            found = at(likelihood, r, 0.0)
            # Relative, everywhere: claimed in the docstrings. Below e^-690 the curvature of the
            # Laplace tail is not claimed (it is 0 for every purpose).
            assert found[0] == pytest.approx(expected[0], rel=1e-13, abs=1e-14)
            assert found[1] == pytest.approx(expected[1], rel=1e-12, abs=1e-14)
            assert found[2] == pytest.approx(expected[2], rel=1e-10, abs=1e-25)


def test_laplace_slope_is_the_tanh_of_two_logarithms():
    r, sd, b = np.linspace(-3, 3, 25), 0.4, 0.7
    k = sd / b
    A = -r / b + scipy.special.log_ndtr(r / sd - k)
    B = r / b + scipy.special.log_ndtr(-r / sd - k)
    terms = LaplaceLikelihood(sd**2, scale=b)(r, np.zeros(25))
    assert np.abs(terms.slope - np.tanh((A - B) / 2) / b).max() < 1e-13


# --- the truncated multiplicative channel -------------------------------------------------------


def truncated(z, tau, edge):
    def fixed(u):
        return np.log(np.abs(u)) - 2 * math.log(abs(z)) + scipy.stats.norm.logpdf(u / z, 1, tau)

    def log_p(y):
        if edge == 0:
            return fixed(y)
        share = np.clip((edge + y) / (2 * edge), 0, 1)
        inside = np.logaddexp(
            np.log(share) + fixed(np.array(edge)), np.log1p(-share) + fixed(np.array(-edge))
        )
        return np.where(np.abs(y) < edge, inside, fixed(np.where(y == 0, 1.0, y)))

    return log_p


@pytest.mark.parametrize(
    ("variance", "tau", "edge"),
    [(0.04, 1.5, 2.0), (0.04, 0.3, 0.1), (1.0, 0.8, 0.5), (0.04, 1.281, 0.01), (0.04, 1.0, 0.0)],
)
def test_inverse_gaussian(variance, tau, edge):
    likelihood, sd = InverseGaussianLikelihood(variance, sd=tau, truncation=edge), variance**0.5
    pairs = [(0.7, 0.5), (3.0, 0.5), (-2.0, 0.8), (0.05, -0.9), (10.0, -2.0), (100.0, 5.0)]
    pairs += [(-0.3, 8.0), (2.0, 0.0), (1.0, 20.0), (-4.0, -100.0), (3.0, 200.0), (1e-3, 0.1)]
    for z, eta in pairs:
        own = (tau * z) ** 2
        mode = (variance * z + own * eta) / (variance + own)
        expected = brute(truncated(z, tau, edge), eta, sd, (-edge, 0.0, edge), (mode, z))
        assert_close(at(likelihood, z, eta), expected, sd)


def test_inverse_gaussian_is_a_density():
    """∫ p(z; η) dz = 1: the only check that sees a wrong constant."""
    likelihood = InverseGaussianLikelihood(0.04, sd=1.2, truncation=0.6)
    for eta in (0.0, 0.5, -2.0):

        def density(t, eta=eta):
            z = math.tan(t)  # all of the line; the density falls like 1/z²
            return math.exp(at(likelihood, z, eta)[0]) * (1 + z * z)

        parts = [(-math.pi / 2, 0.0), (0.0, math.pi / 2)]
        total = sum(
            scipy.integrate.quad(density, a + 1e-12, b - 1e-12, epsabs=1e-10, limit=400)[0]
            for a, b in parts
        )
        assert total == pytest.approx(1, abs=1e-7)


# --- bits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "frozen"),
    [
        (Gaussian(1.0), scipy.stats.norm()),
        (Gaussian(1.0, mean=0.4), scipy.stats.norm(0.4)),
        (Laplace(0.7), scipy.stats.laplace(scale=0.7)),
        (Cauchy(0.5), scipy.stats.cauchy(scale=0.5)),
    ],
    ids=["Gaussian", "shifted Gaussian", "Laplace", "Cauchy"],
)
def test_bits(law, frozen):
    likelihood = BinaryLikelihood(VARIANCE, law=law, threshold=0.3)
    for eta in (0.3, 0.35, 0.0, -1.0, 2.0, 6.0, -6.0):
        one = brute(lambda y: frozen.logcdf(0.3 - y), eta, SD, (0.3,))
        zero = brute(lambda y: frozen.logsf(0.3 - y), eta, SD, (0.3,))
        assert_close(at(likelihood, 1.0, eta), one, SD)
        assert_close(at(likelihood, 0.0, eta), zero, SD)


def test_bits_in_the_far_tail():
    found = at(BinaryLikelihood(VARIANCE, law=Laplace(0.7)), 1.0, 100.0)
    # ln G(−x) = −x/b + σ²/2b² − ln 2 beyond any Gaussian tail
    assert found[0] == pytest.approx(-100 / 0.7 + VARIANCE / (2 * 0.49) - math.log(2), abs=1e-11)
    found = at(BinaryLikelihood(VARIANCE, law=Cauchy(0.5)), 1.0, 1e4)
    assert found[0] == pytest.approx(math.log(0.5 / (math.pi * 1e4)), abs=1e-7)


# --- tables and quadrature ------------------------------------------------------------------------

LAWS = [
    Uniform(1.0),
    CosSquared(2.0),
    Bump(2.0),
    0.01 * Bump(5.0),
    StudentT(3.0),
    Staircase(1.0),
    Logistic(0.3),
    GaussianMixture((0.3, 0.7), (-3.0, 3.0), (0.1, 1.0)),
    1.5 + Laplace(0.5),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_convolved(law):
    likelihood = ConvolvedLikelihood(law, VARIANCE)
    assert likelihood.error < 1e-12  # stated, and found here at other points:
    breaks = (*law.landmarks, *law.jumps, *(e for e in law.support if math.isfinite(e)))
    for r in (0.0, 0.11, -0.5, 0.97, -2.2, 5.0, 14.0):
        # y = the noise d: smeared about r, as p(z|y) = f(z − y) is about η.
        expected = brute(law.logpdf, r, SD, breaks)
        found = at(likelihood, r, 0.0)
        assert_close((found[0], -found[1], found[2]), expected, SD)


@pytest.mark.parametrize("law", [Laplace(1.0), Cauchy(1.0), Gaussian(1.0)], ids=str)
def test_convolved_agrees_with_closed_forms_however_far(law):
    r = np.array([[0.0, 0.3, -2.0, 11.0, 50.0, 120.0, -700.0, 1e4, -1e6]])
    closed = likelihood_of(Additive(law), VARIANCE)(r, 0 * r)
    table = ConvolvedLikelihood(law, VARIANCE)(r, 0 * r)
    assert np.abs(table.value / closed.value - 1).max() < 1e-9
    assert np.abs(table.slope - closed.slope).max() < 1e-9 / SD * np.abs(closed.slope).max()


@pytest.mark.parametrize("law", [Gaussian(1.0), StudentT(3.0), Cauchy(0.5)], ids=str)
def test_any_channel_by_quadrature(law):
    channel = Additive(law)
    z, eta = np.array([[0.4, -1.0, 3.0, 12.0, 200.0]]), np.array([[0.0, 0.3, -2.0, 0.0, 1.0]])
    numerical = QuadratureLikelihood(channel, VARIANCE)
    found, expected = numerical(z, eta), ConvolvedLikelihood(law, VARIANCE)(z, eta)
    assert (np.abs(found.value - expected.value) < 1e-10 * (1 + np.abs(expected.value))).all()
    assert (np.abs(found.slope - expected.slope) < 1e-7 * (1 + np.abs(expected.slope))).all()


def test_quadrature_with_its_breaks():
    class Truncated:
        def log_density(self, z, y):
            pieces = [truncated(float(a), 1.5, 2.0)(b) for a, b in zip(z.ravel(), y.ravel())]
            return np.array(pieces).reshape(y.shape)

    z, eta = np.array([[3.0, -0.7]]), np.array([[0.5, 1.9]])
    closed = InverseGaussianLikelihood(VARIANCE, sd=1.5, truncation=2.0)(z, eta)
    numerical = QuadratureLikelihood(Truncated(), VARIANCE, breaks=(-2.0, 2.0))
    assert np.abs(numerical(z, eta).value - closed.value).max() < 1e-9


# --- what they have in common -------------------------------------------------------------------

FAMILIES = [
    GaussianLikelihood([0.04, 1.0, 0.2], noise=0.5, shift=0.1),
    LaplaceLikelihood([0.04, 1.0, 0.2], scale=0.6),
    VoigtLikelihood([0.04, 1.0, 0.2], scale=0.6),
    InverseGaussianLikelihood([0.04, 1.0, 0.2], sd=1.3, truncation=0.7),
    ConvolvedLikelihood(CosSquared(1.0), 0.04),
    ConvolvedLikelihood(StudentT(2.0), 0.04),
    BinaryLikelihood([0.04, 1.0, 0.2], law=Gaussian(0.5)),
    BinaryLikelihood([0.04, 1.0, 0.2], law=Laplace(0.5)),
    BinaryLikelihood(0.04, law=Cauchy(0.5)),
    QuadratureLikelihood(Additive(Logistic(0.5)), [0.04, 1.0, 0.2]),
    InverseLaplaceLikelihood([0.04, 1.0, 0.2], scale=0.6, truncation=0.7),
    InverseLaplaceLikelihood([0.04, 1.0, 0.2], scale=0.3),
    QuantiserLikelihood(ProbabilisticQuantiser(0.5), 0.04),
    QuantiserLikelihood(ProbabilisticQuantiser(0.5, dither="triangular"), 0.04),
    QuantiserLikelihood(LaplaceQuantiser(0.5, 0.7), 0.04),
    TwinUniformLikelihood([0.04, 1.0, 0.2], inner=0.25, outer=0.75),
]
RATIOS = InverseGaussianLikelihood | InverseLaplaceLikelihood | TwinUniformLikelihood


def releases(likelihood, rng):
    z, eta = 2 * rng.standard_normal((2, 40, 3))
    if isinstance(likelihood, QuantiserLikelihood):
        return 0.5 * np.rint(2 * z), eta
    return (1.0 * (z > 0) if isinstance(likelihood, BinaryLikelihood) else z), eta


@pytest.mark.parametrize("likelihood", FAMILIES, ids=lambda f: type(f).__name__)
def test_derivatives(likelihood):
    z, eta = releases(likelihood, np.random.default_rng(0))
    terms, h = likelihood(z, eta), 3e-5
    up, down = likelihood(z, eta + h), likelihood(z, eta - h)
    # Central differences: error h²/6 times the next derivatives but one, some 10⁴ between humps.
    assert np.abs((up.value - down.value) / (2 * h) - terms.slope).max() < 1e-5
    assert np.abs((up.slope - down.slope) / (2 * h) + terms.curvature).max() < 1e-4
    assert (terms.curvature <= 1 / likelihood.variance + 1e-9).all()


@pytest.mark.parametrize("likelihood", FAMILIES, ids=lambda f: type(f).__name__)
def test_a_step_with_the_weight_never_descends(likelihood):
    rng = np.random.default_rng(1)
    z, eta = releases(likelihood, rng)
    terms, h = likelihood(z, eta), rng.standard_normal((40, 3)) * rng.choice([0.1, 1, 5], (40, 3))
    bound = terms.value + terms.slope * h - terms.weight * h**2 / 2
    assert (likelihood(z, eta + h).value >= bound - 1e-9 * (1 + np.abs(bound))).all()


@pytest.mark.parametrize("likelihood", FAMILIES, ids=lambda f: type(f).__name__)
def test_far_away_nothing_breaks(likelihood):
    """Warnings are errors: no overflow, no NaN, at starts that are absurd."""
    z = np.array([[1.0, 1.0, 0.0]])
    if isinstance(likelihood, RATIOS):
        z = np.array([[1e3, 1e-2, -1.0]])
    for eta in (1e2, -1e4, 1e6):
        terms = likelihood(z, np.full((1, 3), eta))
        assert all(np.isfinite(entry).all() for entry in terms)


# The names that the array API standard (2023.12) gives; what runs in the hot loop uses no other.
ARRAY_API = {
    "abs", "all", "any", "arange", "argmax", "asarray", "bool", "clip", "concat", "cos", "exp",
    "floor", "full_like", "int64", "log", "log1p", "logaddexp", "max", "maximum", "minimum",
    "nonzero", "ones", "ones_like", "real", "repeat", "reshape", "round", "searchsorted", "sign",
    "sin", "sqrt", "stack", "sum", "where", "zeros", "zeros_like",
}  # fmt: skip


class Standard:
    """NumPy, of which only the standard's names can be seen."""

    def __getattr__(self, name):
        if name not in ARRAY_API:
            raise AssertionError(f"{name} is not in the array API standard")
        return getattr(np, name)


@pytest.mark.parametrize("likelihood", FAMILIES, ids=lambda f: type(f).__name__)
def test_only_the_array_api(likelihood, monkeypatch):
    from privest.estimator import _mle
    from privest.estimator._mle import maximum_likelihood

    monkeypatch.setattr(_mle, "ITERATIONS", 10)

    rng = np.random.default_rng(2)
    z, eta = releases(likelihood, rng)
    backend = Backend(Standard(), scipy.special)
    # the Voigt profile is that of another rule there (`test_voigt`)
    rounding = 1e-9 if isinstance(likelihood, VoigtLikelihood) else 0.0
    pairs = zip(likelihood(z, eta, backend), likelihood(z, eta))
    assert all(np.allclose(a, b, rtol=rounding, atol=rounding) for a, b in pairs)
    H = rng.standard_normal((3, 2))
    a = maximum_likelihood(H, z, likelihood, backend=backend, starts=0)
    b = maximum_likelihood(H, z, likelihood, starts=0)
    assert np.allclose(a.value, b.value, rtol=1e3 * rounding, atol=0.0)


def test_the_likelihood_of_a_channel():
    assert isinstance(likelihood_of(Additive(Gaussian(1.0)), 0.04), GaussianLikelihood)
    assert isinstance(likelihood_of(Additive(Cauchy(1.0)), [0.04, 0.05]), VoigtLikelihood)
    assert likelihood_of(Additive(CosSquared(1.0)), 0.04).several_maxima is False
    both = likelihood_of(Additive(CosSquared(1.0)), [0.04, 0.05, 0.04])
    assert isinstance(both, Rowwise)
    assert len(both.groups) == 2
    z = np.array([[0.3, 0.3, -0.3]])
    terms = both(z, 0 * z)
    assert terms.value[0, 0] == pytest.approx(terms.value[0, 2], abs=1e-12)  # symmetric law
    assert terms.value[0, 1] != terms.value[0, 0]
    mixed = Componentwise([Additive(Laplace(1.0)), Additive(Cauchy(1.0)), Additive(Laplace(1.0))])
    found = likelihood_of(mixed, 0.04)(z, 0 * z)
    plain = LaplaceLikelihood(0.04, scale=1.0)(z, 0 * z)
    assert found.slope[0, 2] == plain.slope[0, 2]
    assert likelihood_of(mixed, 0.04).several_maxima
    with pytest.raises(InvalidInput, match="AH"):
        likelihood_of(Componentwise(Additive(Laplace(1.0)), np.eye(2)), 0.04)
    with pytest.raises(InvalidInput, match="register"):
        likelihood_of("Laplace", 0.04)
    with pytest.raises(InvalidInput, match="> 0"):
        LaplaceLikelihood(0.0, scale=1.0)


@pytest.mark.parametrize("shift", [-7.0, 0.0, 5.0])
@pytest.mark.parametrize(
    "law", [Uniform(1.0), GaussianMixture([0.8, 0.2], [-0.5, 2.0], [0.5, 1.2])]
)
def test_first_guesses_of_convolved_noise_are_at_its_mode(law, shift):
    """The table knows where its density is highest: that of a dense grid, within a panel (2σ)."""
    moved, sd = law.shifted(shift), 0.3
    likelihood = ConvolvedLikelihood(moved, sd**2)
    grid = np.linspace(shift - 8, shift + 8, 4001)
    height = likelihood(grid[None], np.zeros((1, 4001))).value[0]
    mode = likelihood.table.mode
    assert abs(mode - grid[height.argmax()]) < 2 * sd + (1.0 if isinstance(law, Uniform) else 0.0)
    at = float(likelihood(np.array([[mode]]), np.zeros((1, 1))).value[0, 0])
    assert at > height.max() - 0.3
    np.testing.assert_allclose(likelihood.centre(np.array([2.0])), [2.0 - mode])
