"""A reading clipped to a public range, then Gaussian noise: z = clip(y, a, b) + e, e ~ N(0, τ²).

    p(z; η) = Φ(α) φ_τ(z − a) + ∫_a^b φ_τ(z − y) φ_σ(y − η) dy + Φ(−β) φ_τ(z − b) ,

α = (a − η)/σ, β = (b − η)/σ: below the range, inside it, above it. In each part y has a truncated
normal law given z; with its masses π_j, means μ_j and variances v_j

    ℓ' = Σ π_j (μ_j − η)/σ² ,   −ℓ'' = 1/σ² − [Σ π_j v_j + Σ π_j (μ_j − E[y|z])²]/σ⁴ .

The parts are made of a standard normal below a point, and of a Gaussian product inside an interval.
Nothing is a difference of large logarithms: an interval on one side of the centre is integrated
from its nearer end,

    ∫_A^B φ(x) dx = φ(A) T_0 ,   T_k = ∫_0^d t^k e^{−At − t²/2} dt ,   d = B − A ,  A ≥ 0 ,

and T_k are made of M_k(A) = ∫_0^∞ t^k e^{−At − t²/2} dt, M_0 = √(π/2) erfcx(A/√2) (Mills' ratio).
Absolute error of a mean or a variance (the normal has 1): about eps·max(1, A², 1/d), A ≤ 100.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms

FAR = 100.0  # beyond it M_1, M_2 by their asymptotic series: the first term left out is < 1e-12
ROOT_HALF, LOG_ROOT_2PI = math.sqrt(0.5), 0.5 * math.log(2 * math.pi)


class Part(NamedTuple):
    """Ln of the mass, the mean and the variance of what lies in it."""

    log_mass: Array
    mean: Array
    variance: Array


def log_normal(x: Array, sd: Array) -> Array:
    """ln N(x; 0, sd²)."""
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
    """A standard normal between x and y, x < 0 < y: no two numbers of one sign are subtracted."""
    mass = 0.5 * (scipy.special.erf(ROOT_HALF * y) - scipy.special.erf(ROOT_HALF * x))
    left, right = (np.exp(-0.5 * end * end - LOG_ROOT_2PI) / mass for end in (x, y))
    mean = left - right
    return Part(np.log(mass), mean, 1 + x * left - y * right - mean * mean)


def beyond(near: Array, width: Array) -> Part:
    """The density ∝ e^{−At − t²/2}, A = `near` ≥ 0, on 0 < t < `width`: mass T_0."""
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

    σ², τ², low and high are numbers or one for each reading. For a release at level s τ² = 1/s; for
    a real one noise_variance/s, which counts its rounding. ℓ is not concave in general. Error:
    about 1e-15 of 1 + |ℓ|, of the slope 1e-13/σ, of the curvature 1e-11/σ² (a range narrower than
    1e-3 of στ/√(σ² + τ²) loses digits in proportion). Arrays are NumPy's.

    >>> likelihood = ClippedLikelihood(1.0, noise=1.0, low=-50.0, high=50.0)  # nothing is clipped
    >>> terms = likelihood(np.array([[2.0]]), np.array([[1.0]]))
    >>> terms.slope.round(12).tolist(), terms.curvature.round(12).tolist()  # those of N(η, 2)
    ([[0.5]], [[0.5]])
    """

    several_maxima = True

    def __init__(
        self, variance: ArrayLike, *, noise: ArrayLike, low: ArrayLike, high: ArrayLike
    ) -> None:
        super().__init__(variance)
        self.noise = as_array(noise, "the variance of the release noise", ndim=(0, 1))
        self.low = as_array(low, "the lower end of the range", ndim=(0, 1))
        self.high = as_array(high, "the upper end of the range", ndim=(0, 1))
        if not (self.noise > 0).all():
            raise InvalidInput("the variance of the release noise must be > 0 in every reading.")
        if not (self.low < self.high).all():
            raise InvalidInput("the lower end of a range must be below its upper end.")

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        value, slope, spread = clipped_terms(
            z, eta, np.sqrt(self.variance), np.sqrt(self.noise), self.low, self.high
        )
        weight = np.broadcast_to(1 / self.variance, value.shape)
        return Terms(value, slope, weight * (1 - spread), weight)

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        return np.clip(z, self.low, self.high)


def clipped_terms(
    z: ArrayLike, eta: ArrayLike, sigma: ArrayLike, tau: ArrayLike, low: ArrayLike, high: ArrayLike
) -> tuple[Array, Array, Array]:
    """ℓ, ℓ' and Var[y|z]/σ² for z = clip(y, low, high) + e; σ and τ are standard deviations."""
    value, slope, spread, _ = clipped_parts(z, eta, sigma, tau, low, high)
    return value, slope, spread


def clipped_parts(
    z: ArrayLike, eta: ArrayLike, sigma: ArrayLike, tau: ArrayLike, low: ArrayLike, high: ArrayLike
) -> tuple[Array, Array, Array, Array]:
    """The same, and P(y was clipped at low, at neither end, at high | z), (3, ...)."""
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
    """ln ∫_a^b φ_τ(z − y) φ_σ(y − η) dy, and the moments of y − η under that integrand.

    It is φ_v(z − η) N(y; c, w²), v² = σ² + τ², c = (σ²z + τ²η)/v², w = στ/v. Where c lies outside
    the range the integral starts from the nearer end, with which the part of the clipped readings
    shares φ_τ(z − end): the two are compared without rounding of large exponents.
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
