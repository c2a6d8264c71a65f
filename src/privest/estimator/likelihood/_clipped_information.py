"""What one clipped and released reading says about its mean: I(η) = E ℓ'², by numbers, once.

In units of σ it is a function of x = (η − low)/σ with two numbers, the width of the range and τ:

    I(η) σ² = i(x; width, τ) ,     i(width − x) = i(x) ,     i → σ²/(σ² + τ²) far inside .

Beside it E[ℓ' ∂ℓ/∂σ²] σ³, odd about the middle: how an error of σ² moves the estimate, and
E[(∂ℓ/∂σ²)²] σ⁴, even: what the reading says about σ². Since φ_σ solves the heat equation,
∂ℓ/∂σ² = ½ ∂²p/∂η² / p = ½(ℓ'' + ℓ'²).
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np
import scipy

from privest.arrays import Array
from privest.estimator.likelihood._clipped import clipped_terms
from privest.noise.quadrature import gauss, on_panels

# Panels of 1.5 standard deviations about both ends (of the noise) and about the mean (of z), as far
# as 12: what is beyond them has a probability of 1e-33. Ten points each: |error of i| < 1e-11 of
# its largest value for τ/σ from 0.01 up, measured against panels of a quarter with 12 points.
EDGES, POINTS = np.arange(-12, 12.1, 1.5), 10
# A mean that is this many σ outside says less than 1e-16 of one inside: it counts as nothing.
OUTSIDE, INSIDE = 9.0, 12.0  # one that is INSIDE σ within the range is not clipped: 1e-33
DEGREE = 14  # of the polynomials, on panels at most one σ wide
Numbers = Array | float  # one for all readings, or one each
FEW = 8  # groups of readings that have a table however small they are: it is kept
AT_ONCE = 2**17  # values of the integrand held at a time


Three = tuple[Array, Array, Array]


def direct_information(x: Array, width: Numbers, tau: Numbers) -> Three:
    """(E ℓ'², E ℓ' ∂ℓ/∂σ², E (∂ℓ/∂σ²)²) for y ~ N(x, 1) clipped to [0, width].

    A quadrature for every entry: 510 evaluations of ℓ, about half a millisecond.
    """
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
    value, slope, spread = clipped_terms(
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
    """i(x), the mixed term and that of σ² for one width and one τ (in σ): polynomials on panels.

    ln i is kept: its relative error stays small where i does. (The last nearly vanishes within a
    narrow range, where its logarithm is no polynomial.) Cost: 0.1 s to make, then 22 products an
    entry. `error`: the largest relative error of i found at points that were not used.
    """

    def __init__(self, width: float, tau: float) -> None:
        self.width, self.tau = width, tau
        self.first, self.last = -OUTSIDE, min(width / 2, INSIDE)
        self.panels = math.ceil(self.last - self.first)
        self.step = (self.last - self.first) / self.panels
        cosines = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
        squares, mixed, own = direct_information(self._points(cosines).ravel(), width, tau)
        fit = np.linalg.inv(np.polynomial.chebyshev.chebvander(cosines, DEGREE)).T
        shape = self.panels, DEGREE + 1
        self.coefficients = [np.reshape(f, shape) @ fit for f in (np.log(squares), mixed, own)]

    def _points(self, t: Array) -> Array:
        """The points t of [−1, 1] in every panel, (panels, points)."""
        return self.first + self.step * (np.arange(self.panels)[:, None] + (t + 1) / 2)

    def __call__(self, x: Array) -> Three:
        """(i, mixed, that of σ²) at x."""
        folded = np.minimum(x, self.width - x)
        place = (np.minimum(folded, self.last) - self.first) / self.step
        panel = np.clip(place.astype(np.intp), 0, self.panels - 1)
        t = np.clip(2 * (place - panel) - 1, -1.0, 1.0)
        log_square, mixed, own = (_clenshaw(c, panel, t) for c in self.coefficients)
        seen = folded >= self.first
        side = np.where(x > folded, -1.0, 1.0)
        found = np.exp(log_square), side * mixed, own
        square, mixed, own = (np.where(seen, part, 0.0) for part in found)
        return square, mixed, own

    @cached_property
    def error(self) -> float:
        """The largest |relative error| of i at points that were not used, within 4σ outside."""
        points = self._points(np.array([-0.95, -0.31, 0.07, 0.62])).ravel()
        points = points[points > -4.0]
        exact = direct_information(points, self.width, self.tau)[0]
        return float(np.abs(self(points)[0] / exact - 1).max())


def _clenshaw(coefficients: Array, panel: Array, t: Array) -> Array:
    """Σ_k c_k(panel) T_k(t)."""
    later = before = np.zeros_like(t)
    for k in range(coefficients.shape[1] - 1, 0, -1):
        later, before = coefficients[panel, k] + 2 * t * later - before, later
    return np.asarray(coefficients[panel, 0] + t * later - before)


information_table = lru_cache(maxsize=64)(InformationTable)


def clipped_information(
    eta: Array, sigma: Numbers, tau: Numbers, low: Numbers, high: Numbers
) -> Three:
    """I(η), E[ℓ' ∂ℓ/∂σ²] and E[(∂ℓ/∂σ²)²] of every reading.

    σ, τ and the ends are numbers or one a reading. Readings of one width/σ and one τ/σ share a
    table; where there are many groups, smaller than what it takes to make one, each reading has
    its own quadrature.
    """
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
