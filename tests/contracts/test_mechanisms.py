"""Every mechanism of the catalogue keeps the same promises, at every level.

Independent routes only: scipy's `quad`, plain sums and central differences, none of the package's
own numerics. Statistical tests have a false alarm of 1e-6 each (seeds are fixed).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from privest.errors import InfiniteInformation, InvalidInput, NotCalibratable
from privest.linalg import loewner
from privest.mechanism import (
    CATALOGUE,
    Additive,
    BinaryQuantiser,
    Channel,
    Gain,
    GaussianMechanism,
    GeometricPerturbation,
    Inverse,
    LaplaceQuantiser,
    PrivacyWeights,
    ProbabilisticQuantiser,
    TwinUniform,
    calibrate,
)
from privest.mechanism._factor import ClosedForm
from privest.model import LinearModel
from privest.noise import (
    Bump,
    Cauchy,
    CosSquared,
    Gaussian,
    Laplace,
    Logistic,
    Staircase,
    StudentT,
    Uniform,
)

INF = math.inf
FALSE_ALARM = 1e-6
LEVELS = (0.1, 1.0, 10.0)
SAMPLES = 40_000
TRUNCATED = Inverse | Gain


# --- the cases ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A channel, inputs u at which it is looked at, and a length on which it acts."""

    channel: Channel
    inputs: tuple[float, ...]
    width: float

    def pieces(self, u):
        """Intervals that cover the support, split where the density is not smooth or narrow."""
        low, high = self.channel.support(u)
        points = {0.0, u, *self.channel.landmarks(u)}
        if isinstance(self.channel, Inverse | Gain):
            size = max(abs(u), getattr(self.channel, "truncate", 0.0) or 0.0)
            points |= {sign * k * size for sign in (-1, 1) for k in (0.1, 0.3, 1, 3, 30, 1000)}
        else:
            points |= {u + k * self.width for k in (-300, -30, -10, -4, 4, 10, 30, 300)}
        inner = sorted(p for p in points if low < p < high)
        return list(zip([low, *inner], [*inner, high]))

    def integral(self, function, u):
        return sum(
            integrate.quad(function, a, b, limit=200, epsabs=1e-13, epsrel=1e-11)[0]
            for a, b in self.pieces(u)
        )

    def density(self, z, u):
        return float(np.exp(self.channel.log_density(z, u)))

    def grid(self, u):
        """Every outcome that could matter, found without asking the channel which ones do."""
        if isinstance(self.channel, BinaryQuantiser):
            return np.array([0.0, 1.0])
        step = self.channel.step
        reach = 60 * getattr(self.channel, "scale", step)
        return step * np.arange(math.floor((u - reach) / step), math.ceil((u + reach) / step) + 1)

    def expectation(self, function, u):
        """E g(z) for g of arrays."""
        channel = self.channel

        def weighted(z):
            log_p = channel.log_density(z, u)
            with np.errstate(invalid="ignore"):
                value = np.exp(log_p) * function(z)
            return np.where(np.isfinite(log_p), value, 0.0)

        if channel.discrete:
            return float(weighted(self.grid(u)).sum())
        return self.integral(lambda z: float(weighted(np.asarray(z))), u)

    @cached_property
    def regular(self):
        return math.isfinite(self.channel.worst)


def case(channel, width, *extra):
    return Case(channel, (0.0, -0.4 * width, 1.7 * width, 6.0 * width, *extra), width)


def at_level(name, s):
    channel = CATALOGUE[name].channel(s)
    width = 1 / math.sqrt(s)
    if isinstance(channel, TRUNCATED):
        e = channel.truncate
        return case(channel, width, e, -e * (1 - 1e-7), 0.9 * e)
    if isinstance(channel, ProbabilisticQuantiser):
        return case(channel, width, 0.5 * channel.step, 0.4999 * channel.step)
    return case(channel, width)


CHANNELS = [name for name, entry in CATALOGUE.items() if entry.channel is not None]
BOUNDED = [name for name in CHANNELS if not CATALOGUE[name].supremum.startswith("∞")]
CASES = {f"{name} at {s}": at_level(name, s) for name in BOUNDED for s in (0.1, 10.0)}
CASES |= {
    "inverse gaussian": Case(Inverse(Gaussian(0.25)), (1.0, -3.0), 1.0),
    "inverse gaussian, narrow": Case(Inverse(Gaussian(0.01)), (1.0, -0.2), 0.1),
    "inverse laplace": Case(Inverse(Laplace(0.5)), (1.0, -3.0), 1.0),
    "truncated gaussian, narrow": case(Inverse(Gaussian(0.25), 0.5), 0.5, 0.49),
    "truncated gaussian, wide": case(Inverse(Gaussian(25.0), 2.0), 0.5, 1.9, -1.0),
    "truncated laplace, narrow": case(Inverse(Laplace(0.2), 0.5), 0.5, 0.49),
    "truncated laplace, wide": case(Inverse(Laplace(30.0), 0.5), 0.5, 0.49),
    "gain gaussian": Case(Gain(Gaussian(0.25, 1.0)), (1.0, -3.0), 1.0),
    "gain cos²": Case(Gain(2 - CosSquared(1.5)), (1.0, -3.0), 1.0),
    "gain uniform": Case(Gain(1 + Uniform(0.5)), (1.0, -3.0), 1.0),
    "truncated gain, laplace": case(Gain(1 + Laplace(0.6), 0.5), 0.5, 0.49),
    "twin uniform": Case(TwinUniform(0.25, 0.75), (1.0, -3.0), 1.0),
    "weights, heavy": case(PrivacyWeights(1.5, 1.0), 1.0),
    "uniform": case(Additive(Uniform(2.0)), 1.0),
    "staircase": case(Additive(Staircase(1.0, 0.5)), 0.5),
    "probabilistic": Case(ProbabilisticQuantiser(0.5), (0.1, 0.25, -3.3), 0.5),
    "laplace quantiser, fine": case(LaplaceQuantiser(0.05, 1.0), 1.0, 0.025, 0.01),
    "laplace quantiser, coarse": case(LaplaceQuantiser(20.0, 1.0), 1.0, 10.0, 9.0),
    "binary logistic": case(BinaryQuantiser(Logistic(0.5), -1.0), 1.0),
    "binary shifted": case(BinaryQuantiser(Gaussian(4.0, 1.0), 1.0), 1.0),
    "additive logistic": case(Additive(Logistic()), 1.0),
}

every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
regular = {name: case for name, case in CASES.items() if case.regular}
bounded = pytest.mark.parametrize("case", regular.values(), ids=regular)


# --- the law of z -------------------------------------------------------------------------------


@every
def test_density_has_mass_one(case):
    for u in case.inputs:
        total = case.expectation(np.ones_like, u)
        # Discrete: everything beyond 60 scales, e^-60. Continuous: quad's 1e-11 a piece; Cauchy
        # tails and the many steps of the staircase cost it some digits.
        assert total == pytest.approx(1, abs=1e-12 if case.channel.discrete else 1e-7)


@every
def test_sampler_agrees_with_density(case):
    rng = np.random.default_rng(20240607)
    for u in case.inputs[1:4]:
        z = case.channel.sample(np.full(SAMPLES, u), rng)
        assert z.shape == (SAMPLES,)
        if case.channel.discrete:
            grid = case.grid(u)
            mass = np.exp(case.channel.log_density(grid, u))
            index = np.searchsorted(grid, z - 1e-6 * case.width)
            count = np.bincount(index, minlength=len(grid))
            assert not count[mass == 0].any()
            often = mass * SAMPLES >= 10
            seen = np.append(count[often], count[~often].sum())
            wanted = np.append(mass[often], mass[~often].sum()) * SAMPLES
            keep = wanted > 0
            if keep.sum() > 1 and wanted[keep].min() > 1e-3:
                seen, wanted = seen[keep], wanted[keep] * (SAMPLES / wanted[keep].sum())
                assert stats.chisquare(seen, wanted).pvalue > FALSE_ALARM
        else:
            # Kolmogorov-Smirnov on a grid of edges: P(sup > D) ≤ 2 exp(−2nD²) (Massart).
            edges = np.unique(
                np.concatenate([np.quantile(z, np.linspace(0.0005, 0.9995, 400)),
                                case.channel.landmarks(u)])
            )  # fmt: skip
            edges = edges[(edges > z.min()) & (edges < z.max())]
            x, w = np.polynomial.legendre.leggauss(24)
            half = np.diff(edges)[:, None] / 2
            points = edges[:-1, None] + half * (x + 1)
            first = sum(
                integrate.quad(case.density, a, min(b, edges[0]), args=(u,), limit=200)[0]
                for a, b in case.pieces(u)
                if a < edges[0]
            )
            inside = (np.exp(case.channel.log_density(points, u)) * w * half).sum(axis=1)
            cdf = first + np.concatenate([[0.0], np.cumsum(inside)])
            empirical = np.searchsorted(np.sort(z), edges, side="right") / SAMPLES
            limit = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * SAMPLES))
            assert np.abs(empirical - cdf).max() < limit + 1e-5


@every
def test_score_is_the_derivative(case):
    """Central differences of order four, at two steps: where they agree they are the derivative.

    They disagree only at kinks (and at a jump of p, an outcome that appears): a few points.
    """
    rng = np.random.default_rng(5)
    channel = case.channel

    def differences(z, u, h):
        near = channel.log_density(z, u + h) - channel.log_density(z, u - h)
        far = channel.log_density(z, u + 2 * h) - channel.log_density(z, u - 2 * h)
        return (8 * near - far) / (12 * h)

    agreed = []
    for u in case.inputs:
        h = 1e-3 * case.width
        if isinstance(channel, TRUNCATED) and channel.truncate:
            h = min(h, 0.1 * abs(abs(u) - channel.truncate))
        if h < 1e-6 * case.width:
            continue  # at the kink in u
        z = channel.sample(np.full(400, u), rng)
        with np.errstate(invalid="ignore", divide="ignore"):
            coarse, fine = differences(z, u, h), differences(z, u, h / 2)
        scale = 1 / case.width + np.abs(fine)
        good = np.abs(coarse - fine) < 1e-6 * scale
        agreed.append(good.mean())
        assert np.all(np.abs(channel.score(z, u) - fine)[good] < 1e-5 * scale[good])
    assert np.mean(agreed) > (0.6 if channel.discrete else 0.9)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_far_tails_are_finite_and_quiet(case):
    """Nothing overflows, nothing is NaN where there is mass; pytest makes warnings errors."""
    z = np.concatenate([[0.0], *([10.0**k, -(10.0**k)] for k in range(-12, 13))])
    if case.channel.discrete and not isinstance(case.channel, BinaryQuantiser):
        z = np.rint(z[np.abs(z) < 1e9]) * case.channel.step
    elif case.channel.discrete:
        z = np.array([0.0, 1.0])
    u = np.array([[-1e8], [-40.0], [0.1], [3.0], [1e5]]) * case.width
    log_p = case.channel.log_density(z, u)
    assert log_p.shape == (5, len(z))
    assert not np.isnan(log_p).any()
    score = case.channel.score(z, u)
    assert not np.isnan(score[np.isfinite(log_p)]).any()
    assert (case.channel.information(u) >= 0).all()


# --- information --------------------------------------------------------------------------------


@bounded
def test_information_is_the_integral_of_the_squared_score(case):
    channel = case.channel
    for u in case.inputs:
        if isinstance(channel, ProbabilisticQuantiser) and u == 0.5 * channel.step:
            continue  # below: an outcome of probability 0
        if isinstance(channel, TRUNCATED) and abs(u) == channel.truncate:
            continue  # a kink in u: the larger of two limits

        def squared(z, u=u):
            return channel.score(z, u) ** 2

        found = case.expectation(squared, u)
        assert channel.information(u) == pytest.approx(found, rel=2e-6, abs=1e-12)
        assert channel.information_estimate(u).value == float(channel.information(u))


@pytest.mark.parametrize("law", [Gaussian(0.25), Laplace(0.5)], ids=repr)
def test_inverse_information(law):
    case = Case(Inverse(law), (), 1.0)
    for u in (1.0, -2.0):
        found = case.expectation(lambda z, u=u: case.channel.score(z, u) ** 2, u)
        assert case.channel.information(u) == pytest.approx(found, rel=1e-7)


def test_probabilistic_information():
    channel = ProbabilisticQuantiser(0.5)
    for u in (0.1, 0.25, -3.3):
        z = channel.outcomes(u)
        found = np.sum(np.exp(channel.log_density(z, u)) * channel.score(z, u) ** 2)
        t = u - 0.5 * math.floor(u / 0.5)
        assert channel.information(u) == pytest.approx(found, rel=1e-12)
        assert channel.information(u) == pytest.approx(1 / (t * (0.5 - t)), rel=1e-12)
    assert np.all(channel.information([-1.0, 0.0, 0.5]) == INF)


def places(case):
    """A dense, scale-free set of inputs, and both sides of every special one."""
    spread = case.width * np.concatenate([np.linspace(-8, 8, 4001), np.geomspace(1e-6, 1e4, 400)])
    special = [case.channel.worst_input or 0.0, 0.0]
    near = [p + side * case.width * 10.0**-k for p in special for k in range(1, 12)
            for side in (-1, 0, 1)]  # fmt: skip
    return np.concatenate([spread, -spread, near])


@bounded
def test_nothing_exceeds_the_supremum_and_it_is_approached(case):
    found = case.channel.information(places(case)).max()
    worst, at = case.channel.worst, case.channel.worst_input
    assert found <= worst * (1 + 1e-9)
    assert found >= worst * (1 - 1e-3)
    if at is not None:  # attained there, or a limit from one side
        near = at + 1e-9 * case.width * np.array([-1.0, 0.0, 1.0])
        assert case.channel.information(near).max() == pytest.approx(worst, rel=1e-6)


@pytest.mark.parametrize("s", [*LEVELS, 1e-8, 3e7])
@pytest.mark.parametrize("name", BOUNDED)
def test_calibrated_spends_the_level_exactly(name, s):
    assert CATALOGUE[name].channel(s).worst == pytest.approx(s, rel=1e-12)


CLOSED_FORMS = {  # once more by hand
    "laplace": (Additive(Laplace(0.5)), 4.0),
    "cauchy": (Additive(Cauchy(0.5)), 2.0),
    "cos²": (Additive(CosSquared(2.0)), math.pi**2 / 4),
    "bump 2": (Additive(Bump(2.0)), 15.115),
    "bump 3": (Additive(Bump(3.0)), 19.301),
    "bump 5": (Additive(Bump(5.0)), 28.361),
    "binary gaussian": (BinaryQuantiser(Gaussian(4.0), 3.0), 0.5 / math.pi),
    "binary laplace": (BinaryQuantiser(Laplace(0.5), 3.0), 4.0),
    "binary cauchy": (BinaryQuantiser(Cauchy(0.5), 3.0), 16 / math.pi**2),
    "laplace quantiser": (LaplaceQuantiser(7.0, 0.5), 4.0),
    "triangular": (ProbabilisticQuantiser(0.5, dither="triangular"), 24.0),
    "truncated gaussian, inside": (
        Inverse(Gaussian(0.5), 2.0),
        math.expm1(8.0) / 16,
    ),
    "truncated gaussian, outside": (Inverse(Gaussian(4.0), 2.0), 2.25 / 4),
    "truncated laplace, inside": (
        Inverse(Laplace(0.5), 2.0),
        (2 / 3 * math.exp(4) + math.exp(-8) / 3 - 1) / 16,
    ),
    "truncated laplace, outside": (Inverse(Laplace(2.0), 2.0), 1.25 / 4),
    "truncated gain, turned": (Gain(Gaussian(16.0, -2.0), 2.0), 2.25 / 4),
    "truncated gain, laplace": (Gain(3 + Laplace(6.0), 2.0), 1.25 / 4),
    "weights, light": (PrivacyWeights(0.5, 0.25), 4.0),
    "weights, heavy": (PrivacyWeights(1.5, 0.5), 8 / 3),
}


@pytest.mark.parametrize(("channel", "value"), CLOSED_FORMS.values(), ids=CLOSED_FORMS)
def test_supremum_in_closed_form(channel, value):
    assert channel.worst == pytest.approx(value, rel=4e-5)  # bump: 5 digits known


def test_trap_the_edge_from_inside():
    """σ < 1.281: the supremum is a limit that neither the edge itself nor a coarse grid shows."""
    channel = Inverse(Gaussian(0.25), 1.0)
    off = channel.information(np.linspace(-3, 3, 32))  # a grid that does not hit the edge
    assert off.max() < 1e-4 * channel.worst
    assert channel.information(1 - 1e-15) == pytest.approx(channel.worst, rel=1e-2)
    assert channel.information(1 + 1e-15) == pytest.approx(6.0)  # outside: 2 + 4


@pytest.mark.parametrize("width", [0.3, 0.65, 1.3, 5.0])
@pytest.mark.parametrize("law", [Gaussian, Laplace])
def test_the_edge_from_inside_is_an_integral(law, width):
    """k = (∫ f(−g)²/f(g) dg − 1)/4, f the density of g = 1 + d."""
    noise = law(width**2) if law is Gaussian else law(width)

    def integrand(g):
        return math.exp(2 * noise.logpdf(-g - 1) - noise.logpdf(g - 1))

    reach = 40 * width
    ends = [-3 - reach, -3, -1, 0, 1, 3, 3 + reach]
    total = sum(integrate.quad(integrand, a, b, limit=200)[0] for a, b in pairwise(ends))
    assert ClosedForm(noise).edge == pytest.approx((total - 1) / 4, rel=1e-8)


def test_truncated_score_keeps_its_digits_near_zero():
    """z → 0 means |g| → ∞: the sign of z then tells which end it was."""
    for noise, odds in ((Gaussian(0.25), INF), (Laplace(0.5), 4.0)):
        channel = Inverse(noise, 1.0)
        for t in (-0.9, 0.3, 1 - 1e-12):
            e = math.exp(-odds)
            up, down = (1 - e) / (1 + t + (1 - t) * e), (e - 1) / (1 - t + (1 + t) * e)
            np.testing.assert_allclose(channel.score([1e-9, -1e-9], t), [up, down], rtol=1e-12)


def test_trap_the_outcome_of_probability_zero():
    channel = ProbabilisticQuantiser(1.0, dither="triangular")
    z = np.array([-1.0, 0.0, 1.0, 2.0])
    mass, score = np.exp(channel.log_density(z, 0.5)), channel.score(z, 0.5)
    assert np.nansum(mass * score**2) == pytest.approx(4)
    assert channel.information(0.5) == pytest.approx(6)
    assert channel.information([0.5 - 1e-9, 0.5 + 1e-9]) == pytest.approx(6, rel=1e-7)


@pytest.mark.parametrize("noise", [Gaussian(1e-3), Laplace(1e-3)])
def test_too_little_noise_needs_a_threshold_beyond_doubles(noise):
    with pytest.raises(NotCalibratable, match="more noise"):
        Inverse.calibrated(1.0, noise=noise)


# --- infinite information -----------------------------------------------------------------------

INFINITE = {
    "uniform", "staircase", "inverse-gaussian", "inverse-laplace", "twin-uniform", "rotation",
    "probabilistic-quantiser", "gain-gaussian", "gain-uniform",
}  # fmt: skip


@pytest.mark.parametrize("name", CATALOGUE)
def test_infinite_exactly_where_the_theory_says_so(name):
    entry = CATALOGUE[name]
    assert entry.name == name
    assert entry.supremum.startswith("∞") == (name in INFINITE)
    example = entry.example(3)
    assert np.isinf(np.diag(example.worst_information())).all() == (name in INFINITE)
    if name in INFINITE:
        with pytest.raises(NotCalibratable, match=r"cannot be calibrated: .*infinite"):
            calibrate(name, 1.0, model=3)
    else:
        assert np.isfinite(example.worst_information()).all()
        worst = calibrate(name, 2.0, model=3).worst_information()
        np.testing.assert_allclose(worst, 2 * np.eye(3), rtol=1e-12)


@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - INFINITE - {"geometric"}))
@pytest.mark.parametrize(
    "level",
    [[0.5, 1.0, 2.0], [[2.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]],
     [[2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 1.0]]],
    ids=["diagonal", "dense", "singular"],
)  # fmt: skip
def test_any_level_is_kept(name, level):
    from privest.privacy import PrivacyLevel

    S = PrivacyLevel(level)
    mechanism = calibrate(name, S, model=3)
    assert loewner(mechanism.worst_information(), S.dense(), rtol=1e-12)
    np.testing.assert_allclose(mechanism.worst_information(), S.dense(), atol=1e-12)
    for y in ([0.0, 0.0, 0.0], [0.3, -0.2, 5.0], [40.0, 1.0, -3.0]):
        assert loewner(mechanism.information(y), S.dense(), rtol=1e-9)


@pytest.mark.parametrize("name", BOUNDED)
def test_on_the_estimate(name):
    rng = np.random.default_rng(3)
    H = rng.normal(size=(6, 2))
    mechanism = calibrate(name, 2.0, model=LinearModel(H, noise=1.0), on="estimate")
    projection = H @ np.linalg.solve(H.T @ H, H.T)
    np.testing.assert_allclose(mechanism.worst_information(), 2 * projection, atol=1e-12)
    assert mechanism.simulate(rng.normal(size=6), rng, trials=7).shape == (7, 2)


# --- differential privacy -----------------------------------------------------------------------

DP = {  # channel, whether the inequality must be met with equality
    "laplace": (Additive(Laplace(0.5)), True),
    "cauchy": (Additive(Cauchy(0.5)), True),
    "student": (Additive(StudentT(3.0, 0.5)), True),
    "logistic": (Additive(Logistic(0.5)), True),
    "staircase": (Additive(Staircase(0.7, 0.5)), True),
    "shifted, scaled": (Additive(Staircase(0.7, 0.5) * 2.0 + 1.0), True),
    "laplace quantiser": (LaplaceQuantiser(0.3, 0.5), True),
    "binary laplace": (BinaryQuantiser(Laplace(0.5), 0.2), True),
    "binary cauchy": (BinaryQuantiser(Cauchy(0.5), 0.2), True),
}


@pytest.mark.parametrize("move", [0.1, 0.5, 1.3, 4.0])
@pytest.mark.parametrize(("channel", "tight"), DP.values(), ids=DP)
def test_epsilon(channel, tight, move):
    if isinstance(channel, BinaryQuantiser):
        z, u = np.array([[0.0, 1.0]]), np.linspace(-8, 8, 32001)[:, None]
    elif channel.discrete:
        z, u = channel.step * np.arange(-60, 61), np.linspace(-1, 1, 401)[:, None]
    else:
        z, u = np.linspace(-9.0, 9.0, 36001), 0.0
    moved = max(
        (channel.log_density(z, u) - channel.log_density(z, u + c)).max()
        for c in (move, -move, 0.7 * move)
    )
    epsilon = channel.epsilon(move)
    assert moved <= epsilon * (1 + 1e-9) + 1e-12
    if tight:
        assert moved >= epsilon * (1 - 1e-3)
    assert channel.epsilon(0.0) == 0


WITHOUT_DP = {
    "gaussian": Additive(Gaussian()),
    "cos²": Additive(CosSquared()),
    "bump": Additive(Bump()),
    "uniform": Additive(Uniform()),
    "binary gaussian": BinaryQuantiser(Gaussian()),
    "probabilistic": ProbabilisticQuantiser(1.0),
    "triangular": ProbabilisticQuantiser(1.0, dither="triangular"),
    "inverse gaussian": Inverse(Gaussian(0.25)),
    "inverse laplace": Inverse(Laplace(0.5)),
    "truncated gaussian": Inverse(Gaussian(0.25), 1.0),
    "truncated laplace": Inverse(Laplace(0.5), 1.0),
    "twin uniform": TwinUniform(0.25, 0.5),
    "weights": PrivacyWeights(0.25, 1.0),
}


@pytest.mark.parametrize("channel", WITHOUT_DP.values(), ids=WITHOUT_DP)
def test_no_epsilon_where_the_ratio_is_unbounded(channel):
    assert channel.epsilon(1.0) == INF
    z = np.concatenate([np.linspace(-60, 60, 24001), np.geomspace(1e-6, 1e-2, 200)])
    u = 2.3
    if isinstance(channel, BinaryQuantiser):
        z, u = np.array([0.0, 1.0]), 40.0
    with np.errstate(invalid="ignore"):
        ratio = channel.log_density(z, u) - channel.log_density(z, u + 1.0)
    assert np.nanmax(np.abs(ratio)) > 30


# --- what is unbiased ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in CHANNELS if CATALOGUE[n].unbiased])
def test_unbiased_where_it_is_claimed(name):
    entry = CATALOGUE[name]
    for channel in [entry.unit] + [entry.channel(s) for s in LEVELS if name in BOUNDED]:
        width = 1.0 if name not in BOUNDED else 1 / math.sqrt(channel.worst)
        case = Case(channel, (), width)
        for u in (0.3 * width, -1.3 * width):
            assert case.expectation(lambda z: z, u) == pytest.approx(u, rel=1e-6)


def test_what_is_unbiased_is_recorded():
    biased = {
        "cauchy", "inverse-gaussian", "inverse-laplace", "truncated-inverse-gaussian",
        "truncated-inverse-laplace", "rotation", "geometric", "laplace-quantiser",
        "binary-gaussian", "binary-laplace", "binary-cauchy",
    }  # fmt: skip
    assert {name for name, entry in CATALOGUE.items() if not entry.unbiased} == biased


@pytest.mark.parametrize("noise", [Gaussian(0.25), Laplace(0.5)], ids=repr)
def test_the_inverse_of_an_inverse_is_unbiased(noise):
    for channel in (Inverse(noise), Inverse(noise, 1.0)):
        case = Case(channel, (), 1.0)
        with np.errstate(divide="ignore"):
            assert case.expectation(lambda z: 1 / z, 2.0) == pytest.approx(0.5, rel=1e-7)


def test_the_bias_of_the_laplace_quantiser_is_bounded():
    for step in (0.3, 1.0, 4.0):
        case = Case(LaplaceQuantiser(step, 1.0), (), 1.0)
        k = np.arange(1, 2000)
        bound = step / math.pi * np.sum(1 / (k * (1 + (2 * math.pi * k / step) ** 2)))
        off = [abs(case.expectation(lambda z: z, u) - u) for u in np.linspace(0, step, 41)]
        assert 0.5 * bound < max(off) <= bound + 1e-12


def test_triangular_error_variance():
    case = Case(ProbabilisticQuantiser(0.5, dither="triangular"), (), 0.5)
    for u in (0.0, 0.1, 0.25, 7.3):
        assert case.expectation(lambda z, u=u: (z - u) ** 2, u) == pytest.approx(0.25 / 4)


# --- bad parameters -----------------------------------------------------------------------------

BAD = {
    "additive law": (lambda: Additive(1.0), "distribution of privest.noise"),
    "inverse law": (lambda: Inverse(Cauchy()), "Gaussian of mean 0 or a Laplace"),
    "inverse loc": (lambda: Inverse(Gaussian(1.0, 1.0)), "Gaussian of mean 0"),
    "threshold": (lambda: Inverse(Laplace(), 0.0), "truncate must be > 0"),
    "twin order": (lambda: TwinUniform(0.5, 0.25), "0 ≤ inner < outer"),
    "twin negative": (lambda: TwinUniform(-0.5, 0.25), "0 ≤ inner < outer"),
    "weights": (lambda: PrivacyWeights(0.0, 1.0), "weight_variance must be > 0"),
    "step": (lambda: ProbabilisticQuantiser(-1.0), "step must be > 0"),
    "triangular step": (
        lambda: ProbabilisticQuantiser(float("nan"), dither="triangular"),
        "step must be finite",
    ),
    "scale": (lambda: LaplaceQuantiser(1.0, 0.0), "scale must be > 0"),
    "binary law": (lambda: BinaryQuantiser("laplace"), "received str"),
    "binary bounded law": (lambda: BinaryQuantiser(Uniform()), "received Uniform"),
    "level": (lambda: ProbabilisticQuantiser.calibrated(0.0), "level must be > 0"),
    "negative move": (lambda: Additive(Laplace()).epsilon(-1.0), "sensitivity must be"),
    "u": (lambda: PrivacyWeights(1.0, 1.0).log_density(0.0, np.nan), "u must be finite"),
    "rotation size": (lambda: GeometricPerturbation(1, variance=0.0), "≥ 2"),
    "geometric size": (lambda: GeometricPerturbation(501), "groups"),
    "level zero": (lambda: GaussianMechanism(0.0, 3), "nothing may be released"),
    "reading at level zero": (
        lambda: calibrate("laplace", 0.0, model=2),
        "must not be released",
    ),
    "number of readings": (
        lambda: calibrate("laplace", 1.0, model=2).log_density([0.0, 0.0], [0.0]),
        "for 2 measurements",
    ),
}


@pytest.mark.parametrize(("make", "text"), BAD.values(), ids=BAD)
def test_bad_parameters_are_refused(make, text):
    with pytest.raises(InvalidInput, match=text):
        make()


def test_a_rotation_has_no_density():
    with pytest.raises(InfiniteInformation, match="no density"):
        GeometricPerturbation(2, variance=0.0).log_density([1.0, 0.0], [0.0, 1.0])
