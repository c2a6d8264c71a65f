"""A measurement clipped to a range, then Gaussian noise: z = clip(y, a, b) + e, e ~ N(0, τ²).

    p(z; η) = Φ(α)φ_τ(z − a) + ∫_a^b φ_τ(z − y)φ_σ(y − η) dy + Φ(−β)φ_τ(z − b) ,

α = (a − η)/σ, β = (b − η)/σ. With masses π_j, means μ_j and variances v_j of y given z in each part

    ℓ' = Σ π_j(μ_j − η)/σ² ,   −ℓ'' = 1/σ² − [Σ π_jv_j + Σ π_j(μ_j − E[y|z])²]/σ⁴ .

An interval on one side of the centre is integrated from its nearer end by Mills' ratio.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms
from privest.noise.quadrature import gauss, on_panels

FAR = 100.0  # beyond it M_1, M_2 by their asymptotic series: the first term left out is < 1e-12
ROOT_HALF, LOG_ROOT_2PI = math.sqrt(0.5), 0.5 * math.log(2 * math.pi)


class Part(NamedTuple):
    """ln of the mass, the mean and the variance of what lies in it."""

    log_mass: Array
    mean: Array
    variance: Array


def log_normal(x: Array, sd: Array) -> Array:
    t = x / sd
    return np.asarray(-0.5 * t * t - np.log(sd) - LOG_ROOT_2PI)


def below(x: Array) -> Part:
    """A standard normal that is below x: mean −φ/Φ(x)."""
    hazard = np.sqrt(2 / np.pi) / scipy.special.erfcx(-ROOT_HALF * x)
    far = 1 / np.square(np.maximum(-x, FAR))
    tail = far * (1 - far * (6 - 50 * far))
    variance = np.where(x < -FAR, tail, 1 - hazard * (hazard + x))
    return Part(scipy.special.log_ndtr(x), -hazard, variance)


def between(x: Array, y: Array) -> Part:
    """A standard normal between x < 0 and y > 0."""
    mass = 0.5 * (scipy.special.erf(ROOT_HALF * y) - scipy.special.erf(ROOT_HALF * x))
    left, right = (np.exp(-0.5 * end * end - LOG_ROOT_2PI) / mass for end in (x, y))
    mean = left - right
    return Part(np.log(mass), mean, 1 + x * left - y * right - mean * mean)


def beyond(near: Array, width: Array) -> Part:
    """The density ∝ e^{−At − t²/2}, A = `near` ≥ 0, on 0 < t < `width`."""
    far = near + width
    left = np.exp(-width * (near + 0.5 * width))  # of the density, at the far end
    a, b = _mills(near), _mills(far)
    zeroth = a[0] - left * b[0]
    mean = (a[1] - left * (b[1] + width * b[0])) / zeroth
    square = (a[2] - left * (b[2] + width * (2 * b[1] + width * b[0]))) / zeroth
    return Part(np.log(zeroth), mean, square - mean * mean)


def _mills(x: Array) -> tuple[Array, Array, Array]:
    """M_0, M_1 = 1 − x M_0, M_2 = M_0 − x M_1 for x ≥ 0."""
    zeroth = math.sqrt(math.pi / 2) * scipy.special.erfcx(ROOT_HALF * x)
    first = 1 - x * zeroth
    second = zeroth - x * first
    distant = x > FAR
    if distant.any():
        u = 1 / np.square(x[distant])
        first[distant] = u * (1 - u * (3 - u * (15 - 105 * u)))
        second[distant] = 2 * u / x[distant] * (1 - u * (6 - u * (45 - 420 * u)))
    return zeroth, first, second


class ClippedLikelihood(Likelihood):
    """ℓ(z, η) of z = clip(y, low, high) + e, y ~ N(η, σ²), e ~ N(0, τ²); `noise` is τ².

    Error: 1e-15 of 1 + |ℓ|, of the slope 1e-13/σ, of the curvature 1e-11/σ². Arrays are NumPy's.
    """

    several_maxima = True

    def __init__(
        self, variance: ArrayLike, *, noise: ArrayLike, low: ArrayLike, high: ArrayLike
    ) -> None:
        super().__init__(variance)
        self.noise: Array = as_array(noise, "the variance of the release noise", ndim=(0, 1))
        self.low: Array = as_array(low, "the lower end of the range", ndim=(0, 1))
        self.high: Array = as_array(high, "the upper end of the range", ndim=(0, 1))
        if not (self.noise > 0).all():
            raise InvalidInput(
                "the variance of the release noise must be > 0 in every measurement."
            )
        if not (self.low < self.high).all():
            raise InvalidInput("the lower end of a range must be below its upper end.")

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        value, slope, spread, _ = clipped_terms(
            z, eta, np.sqrt(self.variance), np.sqrt(self.noise), self.low, self.high
        )
        weight = np.broadcast_to(1 / self.variance, value.shape)
        return Terms(value, slope, weight * (1 - spread), weight)

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        return np.clip(z, self.low, self.high)


def clipped_terms(
    z: ArrayLike, eta: ArrayLike, sigma: ArrayLike, tau: ArrayLike, low: ArrayLike, high: ArrayLike
) -> tuple[Array, Array, Array, Array]:
    """ℓ, ℓ', Var[y|z]/σ², and P(y was clipped at low, at neither end, at high | z), (3, …)."""
    parts = np.broadcast_arrays(z, eta, sigma, tau, low, high)
    shape = parts[0].shape
    z, eta, sigma, tau, low, high = (np.asarray(a, dtype=np.float64).ravel() for a in parts)
    under, over = below((low - eta) / sigma), below((eta - high) / sigma)
    middle = _inside(z, eta, sigma, tau, low, high)
    logs = np.stack([
        under.log_mass + log_normal(z - low, tau),
        middle.log_mass,
        over.log_mass + log_normal(z - high, tau),
    ])  # fmt: skip
    means = np.stack([sigma * under.mean, middle.mean, -sigma * over.mean])  # of y − η
    top = logs.max(axis=0)
    with np.errstate(under="ignore"):
        masses = np.exp(logs - top)
    total = masses.sum(axis=0)
    masses /= total
    mean = (masses * means).sum(axis=0)
    spreads = np.stack([under.variance, middle.variance / sigma**2, over.variance])
    spread = (masses * (spreads + ((means - mean) / sigma) ** 2)).sum(axis=0)
    found = top + np.log(total), mean / sigma**2, spread
    value, slope, spread = (array.reshape(shape) for array in found)
    return value, slope, spread, masses.reshape(3, *shape)


def _inside(z: Array, eta: Array, sigma: Array, tau: Array, low: Array, high: Array) -> Part:
    """ln ∫_a^b φ_τ(z − y)φ_σ(y − η) dy, and the moments of y − η under that integrand.

    It is φ_v(z − η)N(y; c, w²), v² = σ² + τ², c = (σ²z + τ²η)/v², w = στ/v.
    """
    v = np.hypot(sigma, tau)
    w = sigma * tau / v
    first, last = (
        -((sigma / tau) * (z - end) + (tau / sigma) * (eta - end)) / v for end in (low, high)
    )  # (a − c)/w, (b − c)/w
    log_mass, mean, variance = (np.empty_like(z) for _ in range(3))
    over = last <= 0
    out = over | (first >= 0)
    if not out.all():
        k = ~out
        part = between(first[k], last[k])
        log_mass[k] = log_normal(z[k] - eta[k], v[k]) + part.log_mass
        mean[k] = sigma[k] * (sigma[k] / v[k]) * ((z[k] - eta[k]) / v[k]) + w[k] * part.mean
        variance[k] = w[k] ** 2 * part.variance
    if out.any():
        side, end = np.where(over, -1.0, 1.0)[out], np.where(over, high, low)[out]
        near, k = np.where(over, -last, first)[out], out
        part = beyond(near, (high[k] - low[k]) / w[k])
        heights = log_normal(z[k] - end, tau[k]) + log_normal(end - eta[k], sigma[k])
        log_mass[k] = heights + np.log(w[k]) + part.log_mass
        mean[k] = end - eta[k] + side * w[k] * part.mean
        variance[k] = w[k] ** 2 * part.variance
    return Part(log_mass, mean, variance)


# Panels of 1.5 standard deviations about both ends (of the noise) and about the mean (of z), as far
# as 12: what is beyond them has a probability of 1e-33. Ten points each: |error of i| < 1e-11 of
# its largest value for τ/σ from 0.01 up, measured against panels of a quarter with 12 points.
EDGES, POINTS = np.arange(-12, 12.1, 1.5), 10
# A mean that is this many σ outside says less than 1e-16 of one inside: it counts as nothing.
OUTSIDE, INSIDE = 9.0, 12.0  # one that is INSIDE σ within the range is not clipped: 1e-33
DEGREE = 14  # of the polynomials, on panels at most one σ wide
Numbers = Array | float  # one for all measurements, or one each
FEW = 8  # groups of measurements that have a table however small they are: it is kept
AT_ONCE = 2**17  # values of the integrand held at a time


Three = tuple[Array, Array, Array]


def direct_information(x: Array, width: Numbers, tau: Numbers) -> Three:
    """(E ℓ'², E ℓ' ∂ℓ/∂σ², E (∂ℓ/∂σ²)²) for y ~ N(x, 1) clipped to [0, width]: half a ms each."""
    points = np.broadcast_arrays(*(np.atleast_1d(a) for a in (x, width, tau)))
    step = max(1, AT_ONCE // (3 * EDGES.size * POINTS))
    parts = [
        _integrals(*(a[at : at + step, None] for a in points))
        for at in range(0, len(points[0]), step)
    ]
    first, second, third = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return first, second, third


def _integrals(x: Array, width: Array, tau: Array) -> Three:
    about = np.clip(x + np.hypot(1.0, tau) * EDGES, 0.0, width)
    edges = np.sort(np.concatenate([tau * EDGES, width + tau * EDGES, about], axis=1), axis=1)
    nodes, weights = gauss(POINTS)
    z, half = on_panels(edges[:, :-1], edges[:, 1:], nodes)
    value, slope, spread, _ = clipped_terms(
        z, x[..., None], 1.0, tau[..., None], 0.0, width[..., None]
    )
    with np.errstate(under="ignore"):
        mass = np.exp(value) * half * weights
        square = slope * slope
        by_variance = 0.5 * (spread - 1 + square)
        pairs = (square, slope * by_variance, by_variance * by_variance)
        first, second, third = ((mass * pair).sum(axis=(1, 2)) for pair in pairs)
        return first, second, third


class InformationTable:
    """These for one width and one τ (in σ), as functions of x: Chebyshev panels, made in 0.1 s."""

    def __init__(self, width: float, tau: float) -> None:
        self.width = width
        self.first, self.last = -OUTSIDE, min(width / 2, INSIDE)
        self.panels = math.ceil(self.last - self.first)
        self.step = (self.last - self.first) / self.panels
        cosines = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
        points = self.first + self.step * (np.arange(self.panels)[:, None] + (cosines + 1) / 2)
        squares, mixed, own = direct_information(points.ravel(), width, tau)
        fit = np.linalg.inv(np.polynomial.chebyshev.chebvander(cosines, DEGREE)).T
        shape = self.panels, DEGREE + 1
        self.coefficients = [np.reshape(f, shape) @ fit for f in (np.log(squares), mixed, own)]

    def __call__(self, x: Array) -> Three:
        folded = np.minimum(x, self.width - x)
        place = (np.minimum(folded, self.last) - self.first) / self.step
        panel = np.clip(place.astype(np.intp), 0, self.panels - 1)
        t = np.clip(2 * (place - panel) - 1, -1.0, 1.0)
        log_square, mixed, own = (
            np.polynomial.chebyshev.chebval(t, c[panel].T, tensor=False) for c in self.coefficients
        )
        seen = folded >= self.first
        side = np.where(x > folded, -1.0, 1.0)
        found = np.exp(log_square), side * mixed, own
        square, mixed, own = (np.where(seen, part, 0.0) for part in found)
        return square, mixed, own


information_table = lru_cache(maxsize=64)(InformationTable)


def clipped_information(
    eta: Array, sigma: Numbers, tau: Numbers, low: Numbers, high: Numbers
) -> Three:
    """I(η), E[ℓ' ∂ℓ/∂σ²], E[(∂ℓ/∂σ²)²]; measurements of one width/σ and τ/σ share a table."""
    sd = np.asarray(sigma, dtype=np.float64)
    width, noise = np.asarray((high - low) / sd), np.asarray(tau / sd)
    x = (eta - low) / sd
    if width.size == 1 and noise.size == 1:
        found = information_table(float(width.flat[0]), float(noise.flat[0]))(x)
    else:
        found = _by_groups(x, np.broadcast_to(width, x.shape), np.broadcast_to(noise, x.shape))
    return found[0] / sd**2, found[1] / sd**3, found[2] / sd**4


def _by_groups(x: Array, width: Array, tau: Array) -> Three:
    pairs = np.stack([width, tau])
    # What differs by rounding only is one group: far below the error of a table.
    _, where, group, counts = np.unique(
        np.round(np.log(pairs), 11), axis=1, return_index=True, return_inverse=True,
        return_counts=True,
    )  # fmt: skip
    found = np.zeros((3, *x.shape))
    dear = (OUTSIDE + INSIDE) * (DEGREE + 1)  # quadratures in a table
    tabled = (counts >= dear) | (len(counts) <= FEW)
    alone = ~tabled[group] & (np.minimum(x, width - x) >= -OUTSIDE)
    if alone.any():
        found[:, alone] = direct_information(x[alone], width[alone], tau[alone])
    for number in np.flatnonzero(tabled):
        rows, (one, other) = group == number, pairs[:, where[number]].tolist()
        found[:, rows] = information_table(one, other)(x[rows])
    return found[0], found[1], found[2]


def clipped_moments(
    eta: Array, sigma: Numbers, low: Numbers, high: Numbers
) -> tuple[Array, Array, Array]:
    """P(y outside), E clip(y) − η and Var clip(y), y ~ N(η, σ²)."""
    sd = np.asarray(sigma, dtype=np.float64)
    a, b = (low - eta) / sd, (high - eta) / sd
    under, over = scipy.special.ndtr(a), scipy.special.ndtr(-b)
    left, right = (np.exp(-0.5 * end * end) / math.sqrt(2 * math.pi) for end in (a, b))
    shift = under * a + over * b + left - right
    # About `shift`, so that nothing large cancels where nearly all of it is clipped.
    inside = 1 - under - over
    within = inside * (1 + shift**2) + (a - 2 * shift) * left - (b - 2 * shift) * right
    square = under * (a - shift) ** 2 + over * (b - shift) ** 2 + within
    return under + over, sd * shift, sd**2 * square
