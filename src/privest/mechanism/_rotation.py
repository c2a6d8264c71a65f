"""Random rotation of all measurements, with Gaussian noise or without."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_count, as_nonnegative
from privest.errors import InfiniteInformation, InvalidInput, NotCalibratable
from privest.linalg import PSD, Blocks, Scalar
from privest.mechanism._mechanism import Mechanism, repeated
from privest.mechanism.source import require_room
from privest.noise.quadrature import gauss
from privest.privacy import PrivacyLevel, as_level

NODES = 320
# scipy's ive gives NaN beyond 1e9; below κ = 2√(m/2) it may underflow (from m = 600).
LARGE = 1e8
DIMENSIONS = 500
LN2 = math.log(2.0)
LOG_2PI = math.log(2.0 * math.pi)


class GeometricPerturbation(Mechanism):
    """z = R y + e: R a uniform random orthogonal matrix, fresh for each y, e ~ N(0, σ²I).

    With ρ = ‖y‖, r = ‖z‖, κ = rρ/σ², c the cosine of a uniform direction (`log_average`):

        p(z|y) = (2πσ²)^{−m/2} e^{−(r−ρ)²/2σ²} E e^{κ(c−1)}
        score  = n (r A_m(κ) − ρ)/σ² ,   n = y/ρ ,  A_m = I_{m/2}/I_{m/2−1}
        I_z(y) = i(ρ) n nᵀ ,   i(ρ) = E (r A_m − ρ)²/σ⁴ < 1/σ² ,  → 1/σ² as ρ → ∞, 0 at 0

    The supremum I/σ² is a limit in every direction. No finite ε. Chen and Liu 2011 (a public
    translation besides changes nothing). variance = 0 is the pure rotation (Chen and Liu 2005): z
    reveals ‖y‖ exactly, information infinite along y, and no density.

    >>> mechanism = GeometricPerturbation(2, variance=0.25)
    >>> mechanism.worst_information().diagonal().tolist()
    [4.0, 4.0]
    >>> near, far = (mechanism.information([0.0, r]).diagonal()[1] for r in (0.1, 100.0))
    >>> bool(near < 0.16), bool(3.9999 < far < 4.0)
    (True, True)
    >>> GeometricPerturbation(2, variance=0.0).information([2.0, 0.0]).dense().tolist()
    [[inf, 0.0], [0.0, 0.0]]
    """

    outputs: int

    def __init__(self, measurements: int, variance: float = 1.0) -> None:
        count = as_count(measurements, "the number of measurements of a rotation", least=2)
        if count > DIMENSIONS:
            raise InvalidInput(
                f"at most {DIMENSIONS} measurements are rotated at once; received {count}. "
                "Rotate groups of them."
            )
        self.measurements = self.outputs = count
        self.variance: float = as_nonnegative(variance, "variance")

    def simulate(self, y: ArrayLike, rng: np.random.Generator, trials: int | None = None) -> Array:
        u, sigma = self._given(y), math.sqrt(self.variance)
        if sigma > 0:
            require_room(np.asarray(np.linalg.norm(u, axis=-1)), sigma)
        u = repeated(u, trials)
        normal = rng.standard_normal(u.shape)  # its direction is uniform, as that of Ru
        length = np.linalg.norm(u, axis=-1, keepdims=True)
        turned = normal * (length / np.linalg.norm(normal, axis=-1, keepdims=True))
        noise = rng.normal(0.0, sigma, turned.shape) if sigma > 0 else 0.0
        return np.asarray(turned + noise)

    def log_density(self, z: ArrayLike, y: ArrayLike) -> Array:
        self._require_noise()
        r, rho, _ = self._radii(z, y)
        constant = 0.5 * self.outputs * math.log(2.0 * math.pi * self.variance)
        average = log_average(r * rho, self.outputs)
        return np.asarray(-0.5 * (r - rho) ** 2 + average - constant)

    def score(self, z: ArrayLike, y: ArrayLike) -> Array:
        self._require_noise()
        r, rho, direction = self._radii(z, y)
        slope = (r * mean_cosine(r * rho, self.outputs) - rho) / math.sqrt(self.variance)
        return np.asarray(slope[..., None] * direction)

    def information(self, y: ArrayLike) -> PSD:
        given = self._one_vector(y)
        length = float(np.linalg.norm(given))
        along = given / (length or 1.0)
        if self.variance == 0:
            seen = along != 0 if length else np.ones(self.measurements, dtype=bool)
            return Blocks([np.where(seen[:, None] & seen, np.inf, 0.0)])
        value = radial_information(length / math.sqrt(self.variance), self.outputs)
        return Blocks([value / self.variance * np.outer(along, along)])

    def worst_information(self) -> PSD:
        if self.variance == 0:
            return Blocks([np.full((self.measurements, self.measurements), np.inf)])
        return Scalar(1.0 / self.variance, self.measurements)

    @classmethod
    def calibrated(cls, level: PrivacyLevel | ArrayLike, measurements: int) -> Self:
        """σ² = 1/s, for a level that is one number, S = s·I."""
        made = cls(measurements)
        S = as_level(level).for_size(made.measurements)
        values = S.diagonal()
        if S.pointwise is None or not (values == values[0]).all() or values[0] == 0:
            raise NotCalibratable(
                "a rotation treats all directions alike: it needs one number s > 0, the level s·I."
            )
        return cls(measurements, 1.0 / float(values[0]))

    def __repr__(self) -> str:
        return (
            f"GeometricPerturbation({self.measurements} measurements, variance={self.variance:g})"
        )

    def _require_noise(self) -> None:
        if self.variance == 0:
            raise InfiniteInformation(
                "a random rotation without noise has no density: z lies on the sphere of radius "
                "‖y‖, so its information about ‖y‖ is infinite."
            )

    def _radii(self, z: ArrayLike, y: ArrayLike) -> tuple[Array, Array, Array]:
        """r and ρ in units of σ, and n."""
        u = self._given(y)
        length = np.linalg.norm(u, axis=-1)
        direction = u / np.where(length > 0, length, 1.0)[..., None]
        sigma = math.sqrt(self.variance)
        r = np.linalg.norm(self._outputs(z), axis=-1) / sigma
        return np.asarray(r), np.asarray(length / sigma), direction


def radial_information(rho: float, dimension: int) -> float:
    """i(ρ) for σ = 1, by a Gauss-Legendre rule."""
    # E r² = ρ² + m and var r ≤ 1: the mean lies within 1 of the root.
    centre = math.hypot(rho, math.sqrt(dimension))
    low, high = max(0.0, centre - 14.0), centre + 13.0
    x, weight = gauss(NODES)
    r = low + (high - low) * (x + 1.0) / 2.0
    kappa = r * rho
    constant = (1 - dimension / 2) * math.log(2.0) - math.lgamma(dimension / 2)
    log_p = constant + (dimension - 1) * np.log(r) - 0.5 * (r - rho) ** 2
    density = np.exp(log_p + log_average(kappa, dimension))
    slope = r * mean_cosine(kappa, dimension) - rho
    return float(weight @ (density * slope**2)) * (high - low) / 2.0


def log_average(kappa: Array, dimension: int) -> Array:
    """ln E e^{κ(c − 1)}, c the first coordinate of a uniform point on the sphere in R^m.

        E e^{κc} = ₀F₁(m/2; κ²/4) = Γ(ν + 1)(2/κ)^ν I_ν(κ) ,   ν = m/2 − 1

    By the power series for κ² ≤ 2m, scipy's Bessel function, and from κ = 1e8 its asymptotic
    series.

    >>> k = np.array([0.0, 1e-3, 2.0, 50.0, 1e9])  # m = 3: sinh(κ)/κ
    >>> np.allclose(log_average(k, 3)[1:], np.log(-np.expm1(-2 * k[1:]) / 2 / k[1:]), rtol=1e-14)
    True
    """
    nu = dimension / 2 - 1
    small, large, middle = _ranges(kappa, dimension)
    bessel = np.log(scipy.special.ive(nu, middle)) - nu * np.log(middle / 2)
    far = np.log(_asymptotic(nu, large)) - (nu + 0.5) * np.log(large) - 0.5 * LOG_2PI + nu * LN2
    tail = np.where(kappa > LARGE, far, bessel) + math.lgamma(nu + 1)
    near = np.log(_series(small, nu + 1)) - small
    return np.where(kappa**2 <= 2 * dimension, near, tail)


def mean_cosine(kappa: Array, dimension: int) -> Array:
    """A(κ) = d/dκ ln E e^{κc} = I_{ν+1}(κ)/I_ν(κ), from 0 to 1.

    >>> round(float(mean_cosine(np.asarray(2.0), 3)), 12)  # m = 3: 1/tanh κ − 1/κ
    0.537314720728
    """
    nu = dimension / 2 - 1
    small, large, middle = _ranges(kappa, dimension)
    bessel = scipy.special.ive(nu + 1, middle) / scipy.special.ive(nu, middle)
    far = _asymptotic(nu + 1, large) / _asymptotic(nu, large)
    near = small / dimension * _series(small, nu + 2) / _series(small, nu + 1)
    return np.where(kappa**2 <= 2 * dimension, near, np.where(kappa > LARGE, far, bessel))


def _ranges(kappa: Array, dimension: int) -> tuple[Array, Array, Array]:
    edge = math.sqrt(2.0 * dimension)
    return np.minimum(kappa, edge), np.maximum(kappa, LARGE), np.clip(kappa, edge, LARGE)


def _series(kappa: Array, a: float) -> Array:
    """₀F₁(a; κ²/4)."""
    q = kappa**2 / 4
    term = total = np.ones_like(q)
    for k in range(1, 22):
        term = term * q / (k * (a + k - 1))
        total = total + term
    return total


def _asymptotic(nu: float, kappa: Array) -> Array:
    """e^{−κ} I_ν(κ) √(2πκ) for large κ."""
    term = total = np.ones_like(kappa)
    for k in range(1, 6):
        term = -term * (4 * nu**2 - (2 * k - 1) ** 2) / (8 * k * kappa)
        total = total + term
    return total
