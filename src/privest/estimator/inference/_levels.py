"""Levels that differ from row to row, σ² unknown: random-effects meta-regression by REML.

    z_k ~ N(h_kᵀθ, v_k) ,  v_k = σ² + a_k ,  a_k = 1/s_k known
    W = diag(1/v) ,  C = (HᵀWH)⁻¹ ,  P = W − WHCHᵀW ,  f = K − n

σ̂² maximises the restricted likelihood over all roots of zᵀP²z − tr P and 0; errors of θ̂ are the
sandwich with weights W. The interval of σ² is exact: zᵀPz ~ χ²_f at the true σ² (Q-profile,
Viechtbauer 2007).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, as_confidence
from privest.errors import InvalidInput
from privest.estimator.inference._errors import Errors, require_freedom
from privest.estimator.inference._sandwich import Rows, WeightedRows, row_errors
from privest.linalg.running import RunningLeastSquares, tall_triangle
from privest.linalg.tolerances import rank_tolerance
from privest.records import Record

CHUNK = 2048  # rows at a time: with some tens of σ² they stay in cache
A_DECADE = 4  # values of σ² a factor of ten, among which roots are looked for
# Chebyshev nodes between two of them: sums have their poles at σ² = −a_k < 0, so that the error
# of the interpolation falls by a factor of 7 a node, to 1e-9.
NODES = 11
BELOW = 0.1  # of the least a_k: sums are nearly straight below


@dataclass(frozen=True, eq=False)
class WeightedSums:
    """Sums for each of m values of σ², with θ̂ = θ₀ + R⁻¹`shift`.

    inverse    (m, n, n): C of the scaled rows HR⁻¹.
    quadratic  (m,) zᵀPz;  `score` (m,) zᵀP²z − tr P.  The restricted log-likelihood is
               −½(`logarithm` + `quadratic`).
    """

    variances: Array
    inverse: Array
    shift: Array
    quadratic: Array
    score: Array
    logarithm: Array


@dataclass(frozen=True, eq=False)
class Prepared:
    """A release after a first pass: θ₀ and R⁻¹ of least squares, K, least and largest a_k, RSS."""

    blocks: Rows
    start: Array
    scale: Array
    rows: int
    least: float
    most: float
    ceiling: float

    @property
    def freedom(self) -> int:
        return self.rows - len(self.start)

    def sums(self, variances: Array) -> WeightedSums:
        """One pass over the release for these values of σ² ≥ 0."""
        n = len(self.start)
        upper = np.triu_indices(n + 1)
        pairs = np.zeros((2, len(variances), len(upper[0])))
        logs, weights = np.zeros((2, len(variances)))
        for part in self.blocks():
            added = _added(part)
            for at in range(0, len(part.z), CHUNK):
                rows = slice(at, at + CHUNK)
                left = part.z[rows] - part.H[rows] @ self.start
                wide = np.column_stack([part.H[rows] @ self.scale, left])
                products = wide[:, upper[0]] * wide[:, upper[1]]
                size = variances[:, None] + added[rows]
                weight = 1 / size
                logs += np.log(size).sum(axis=1)
                weights += weight.sum(axis=1)
                pairs[0] += weight @ products
                weight *= weight
                pairs[1] += weight @ products
        whole = np.empty((2, len(variances), n + 1, n + 1))
        whole[..., upper[0], upper[1]] = whole[..., upper[1], upper[0]] = pairs
        first, second = whole
        inverse = np.linalg.inv(first[:, :n, :n])
        right, middle = first[:, :n, n], second[:, :n, :n]
        shift = np.einsum("mij,mj->mi", inverse, right)
        crossed = np.einsum("mi,mi->m", shift, second[:, :n, n])
        bent = np.einsum("mi,mij,mj->m", shift, middle, shift)
        trace = weights - np.einsum("mij,mji->m", inverse, middle)
        return WeightedSums(
            variances=variances,
            inverse=inverse,
            shift=shift,
            quadratic=first[:, n, n] - np.einsum("mi,mi->m", shift, right),
            score=second[:, n, n] - 2 * crossed + bent - trace,
            logarithm=logs + np.linalg.slogdet(first[:, :n, :n])[1],
        )


def _added(part: WeightedRows) -> Array:
    return np.broadcast_to(np.asarray(part.added, float), part.z.shape)


def prepared(blocks: Rows, parameters: int) -> Prepared:
    fit = RunningLeastSquares(parameters, rank_tolerance(parameters))
    rows, least, most = 0, np.inf, 0.0
    for part in blocks():
        if not len(part.z):
            continue
        added = _added(part)
        if not (np.min(added) > 0 and np.isfinite(added).all()):
            raise InvalidInput("variances of release noise must be finite and > 0.")
        fit.add(tall_triangle(part.H, part.z, 1.0, 1.0, 0.0))
        rows += len(part.z)
        least, most = min(least, float(added.min())), max(most, float(added.max()))
    require_freedom(rows - parameters)
    if not fit.full:
        raise InvalidInput("the rows do not tell all coefficients apart: leave a column out.")
    scale = scipy.linalg.lapack.dtrtri(fit.triangle[:parameters, :parameters])[0]
    return Prepared(blocks, fit.solution(), scale, rows, least, most, fit.misfit)


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelFit(Record):
    """θ̂ = C·HᵀWz at σ̂² with its errors, and σ̂² with its exact interval (None: σ² ≈ 0).

    quadratic        zᵀPz at σ̂²; at σ² = 0 `least_noise`, χ²_f under privacy noise alone.
    """

    value: Array
    errors: Errors
    noise_variance: float
    noise_interval: tuple[float, float] | None
    confidence: float
    quadratic: float
    least_noise: float
    freedom: int
    rows: int


def fit_levels(blocks: Rows, parameters: int, confidence: float = CONFIDENCE) -> LevelFit:
    """REML fit of rows (H, z, added) in blocks, read four times; O(K·n²) a value of σ²."""
    first = prepared(blocks, parameters)
    tail = (1 - as_confidence(confidence)) / 2
    upper, lower = scipy.special.chdtri(first.freedom, [tail, 1 - tail])
    # zᵀPz ≤ Q/σ², zᵀP²z ≤ Q/σ⁴ for the RSS Q, and tr P ≥ f/(2σ²) for σ² ≥ a_k: no root beyond.
    most = 1.01 * max(2 * first.ceiling / first.freedom, first.most, first.ceiling / lower)
    least = BELOW * first.least
    count = 2 + math.ceil(A_DECADE * math.log10(most / least))
    grid = np.append(0.0, np.geomspace(least, most, count))
    coarse = first.sums(grid)

    def score(sums: WeightedSums) -> Array:
        return sums.score

    falls = _falls(grid, coarse.score)
    low, high = (_falls(grid, coarse.quadratic - end)[:1] for end in (upper, lower))
    roots = _roots(first, [
        *((score, bracket) for bracket in falls),
        *((lambda sums: sums.quadratic - upper, bracket) for bracket in low),
        *((lambda sums: sums.quadratic - lower, bracket) for bracket in high),
    ])  # fmt: skip
    final = first.sums(np.array([0.0, *roots[: len(falls)]]))
    best = int(np.argmin(final.logarithm + final.quadratic))
    interval = None
    if coarse.quadratic[0] >= lower:  # at σ² = 0 the scatter is not too small already
        interval = (roots[len(falls)] if low else 0.0, roots[-1])
    scale, variance = first.scale, float(final.variances[best])

    def weighted() -> Iterator[WeightedRows]:
        for part in blocks():
            yield replace(part, weight=1 / (variance + _added(part)))

    estimate = first.start + scale @ final.shift[best]
    errors, _ = row_errors("auto", estimate, scale @ final.inverse[best] @ scale.T, weighted)
    method = f"REML over the levels, {errors.method}"
    return LevelFit(
        value=estimate,
        errors=replace(errors, classical=variance * scale @ scale.T, method=method),
        noise_variance=variance,
        noise_interval=interval,
        confidence=confidence,
        quadratic=float(final.quadratic[best]),
        least_noise=float(final.quadratic[0]),
        freedom=first.freedom,
        rows=first.rows,
    )


def _falls(grid: Array, values: Array) -> list[tuple[float, float]]:
    """The steps of the grid in which a function falls through 0."""
    places = np.flatnonzero((values[:-1] > 0) & (values[1:] <= 0))
    return [(float(grid[k]), float(grid[k + 1])) for k in places]


def _roots(
    first: Prepared, sought: list[tuple[Callable[[WeightedSums], Array], tuple[float, float]]]
) -> list[float]:
    """Roots of functions of the sums in their brackets, by interpolation: one pass for all."""
    if not sought:
        return []
    place = np.cos(np.pi * np.arange(NODES) / (NODES - 1))[::-1]  # −1 … 1, ends included
    nodes = np.array([(a + b) / 2 + (b - a) / 2 * place for _, (a, b) in sought])
    sums = first.sums(nodes.ravel())
    found = []
    for k, (value, (a, b)) in enumerate(sought):
        at = value(sums)[k * NODES : (k + 1) * NODES]
        curve = scipy.interpolate.BarycentricInterpolator(place, at)
        if at[0] <= 0 or at[-1] >= 0:  # rounding at an end
            found.append(a if at[0] <= 0 else b)
            continue
        root = scipy.optimize.brentq(lambda x, curve=curve: float(curve(x)), -1.0, 1.0, xtol=1e-14)
        found.append((a + b) / 2 + (b - a) / 2 * float(root))
    return found
