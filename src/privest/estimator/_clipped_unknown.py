"""Maximum likelihood from clipped readings whose noise variance σ² is not known: θ and σ² together.

    z_k = clip(y_k, a_k, b_k) + e_k ,  y_k ~ N(h_kᵀθ, σ²c_k) ,  var e_k = n_k known, c_k known (1)

in θ and ψ = ln(σ² + n), n the mean of the n_k/c_k: what is clipped depends on σ², so that here its
error moves θ̂ too. Since φ_σ solves the heat equation,

    ∂ℓ/∂σ² = ½c_k(ℓ'² − (1 − Var[y|z]/σ_k²)/σ_k²) .

What is maximised is Σℓ − ½ ln|Σ h_kh_kᵀ/(σ²c_k + n_k)|: the second part is that of REML without
clipping, and makes σ̂² = RSS/(K − n) − 1/s there instead of RSS/K − 1/s. Newton's steps; derivatives
in ψ of the slopes by a difference within the same pass, and where the curvature is not positive the
outer products of the slopes take its place.

σ² = 0 is one end of its range, and a normal result where sσ² is small: σ̂² = 0 then, and θ̂ is that
of σ² at 10⁻³ of the release noise. The other is σ = twice the width of the range, where 80 % of
the readings or more would be clipped wherever they lie: who arrives there does not know σ², because
a release at a low level hardly shows whether readings were clipped. That is an error that says so
(with 21 % clipped and 1/s = 5σ² in half of all releases of 200 rows; never at 1/s = σ²/2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator._beyond_range import EndTest, require_within
from privest.estimator._clipped_rows import ClippedRows, chunks
from privest.estimator.likelihood._clipped import clipped_terms
from privest.estimator.likelihood._clipped_information import clipped_information, clipped_moments
from privest.linalg._running import RunningLeastSquares
from privest.linalg.tolerances import rounding


class VarianceHidden(NotIdentifiable):
    """The release does not tell the noise variance of clipped readings."""


VARIANCE_HIDDEN = (
    "the release does not tell the noise variance of the readings: it may be so large that most of "
    "them are clipped. State the noise variance, or release with a wider range or at a higher "
    "level."
)
Rows = Callable[[], Iterable[ClippedRows]]

ITERATIONS = 100
TOLERANCE = 1e-6  # standard errors that the maximum is away
ENOUGH = 0.01  # the same where the steps have come to an end: a kink, at σ² near 0
SAFE = 0.02  # of the outer products: where the curvature is below it they take its place
RISE = 0.1  # part of the promised rise that a step must bring
ROUNDING = 1e-13  # of the log-likelihood, relative
LONGEST = 1.5  # step in ψ
DIFFERENCE = 1e-5  # in ψ
LEAST = 1e-3  # σ² in units of n at the end of its range: below it ℓ has kinks where h_kθ is an end


@dataclass
class Point:
    """Sums over all rows at one (θ, ψ), in the units of the start."""

    height: float  # what is maximised
    gradient: Array  # (n + 1,)
    curvature: Array  # minus the second derivatives
    outer: Array  # Σ of products of slopes
    log_likelihood: float = 0.0  # Σℓ alone


@dataclass
class Expected:
    """What the rows are expected to say at the maximum, in the units of the start and in σ²."""

    information: Array  # (n + 1, n + 1): of θ and σ²
    plain: Array  # Σ h_kh_kᵀ/(σ²c_k + 1/s_k)
    shape: Array  # Σ h_kh_kᵀ/c_k
    clipped: float = 0.0
    scatter: float = 0.0


class Reference(NamedTuple):
    """σ̂_r² of public data, and its degrees of freedom m: more to know σ² by.

    Its logarithm is ln L = −(m/2)(ln σ² + σ̂_r²/σ²), that of a χ².
    """

    variance: float
    freedom: float

    def slopes(self, size: float) -> tuple[float, float, float]:
        """ln L, and its first and second derivative in σ² = size."""
        half, ratio = self.freedom / 2, self.variance / size
        return (
            -half * (math.log(size) + ratio),
            half * (ratio - 1) / size,
            half * (1 - 2 * ratio) / size**2,
        )


class JointClimb:
    """The way up in θ and ψ over rows that are read again and again."""

    def __init__(self, source: Rows, noise: float, reference: Reference | None = None) -> None:
        self.source, self.noise, self.reference = source, noise, reference
        sums: RunningLeastSquares | None = None
        total, count, widest, ends = 0.0, 0, 0.0, EndTest()
        for H, z, shape, level, low, high in chunks(source()):
            if sums is None:
                sums = RunningLeastSquares(H.shape[1], rounding(H.shape[1]))
            ends.add(z, noise / level, low, high)
            own = noise / (level * shape)
            total, count = total + float(np.broadcast_to(own, z.shape).sum()), count + len(z)
            widest = max(widest, float(((high - low) ** 2 / shape).max()))
            weight = np.reshape(1 / np.sqrt(own * shape), (-1, 1))
            sums.add(np.asfortranarray(np.column_stack([H, z]) * weight))
        if sums is None:
            raise InvalidInput("the release has no rows with a reading.")
        n = sums.parameters
        if not sums.full:
            raise NotIdentifiable(
                "the rows do not determine all coefficients, whatever was clipped. More rows are "
                "needed, or fewer coefficients.",
                sums.root().hidden,
            )
        if count <= n and reference is None:
            raise InvalidInput(
                f"{count} rows for {n} coefficients leave nothing to see the noise by. Give the "
                "noise variance, more rows, or fewer coefficients."
            )
        require_within(ends, source)
        self.added, self.readings = total / count, count
        ratio = 1 + (0.0 if reference is None else reference.variance / self.added)
        if count > n:
            ratio = float(sums.triangle[n, n]) ** 2 / (count - n)  # v̂ in units of n
        self.back = np.linalg.inv(np.triu(sums.triangle[:n, :n])) * math.sqrt(max(ratio, 1.0))
        self.least = math.log1p(LEAST) + math.log(self.added)
        self.most = math.log(4 * widest + self.added)
        first = min(math.log(self.added * max(ratio, 1.05)), self.most)
        self.start = np.append(np.linalg.solve(self.back, sums.solution()), first)

    def variance(self, psi: float) -> float:
        """σ² = e^ψ − n, not below its least value."""
        return max(self.added * math.expm1(psi - math.log(self.added)), LEAST * self.added)

    def look(self, at: Array) -> Point:
        """One pass over the rows at (θ, ψ), θ in units of the start."""
        n, psi = len(at) - 1, float(at[-1])
        point = Point(0.0, np.zeros(n + 1), np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1)))
        sizes = self.variance(psi), self.variance(psi + DIFFERENCE)
        total = sizes[0] + self.added  # dσ²/dψ
        gram = np.zeros((3, n, n))
        for H, z, shape, level, low, high in chunks(self.source()):
            unit, noise = H @ self.back, self.noise / level
            eta, tau = unit @ at[:n], np.sqrt(noise)
            value, slope, own, spread = self._slopes(z, eta, shape, tau, low, high, sizes[0])
            _, later, other, _ = self._slopes(z, eta, shape, tau, low, high, sizes[1])
            slopes = np.column_stack([slope[:, None] * unit, own])
            point.height += float(value.sum())
            point.gradient += slopes.sum(axis=0)
            point.outer += slopes.T @ slopes
            precision = (1 - spread) / (sizes[0] * shape)
            point.curvature[:n, :n] += unit.T @ (precision[:, None] * unit)
            point.curvature[:n, n] -= ((later - slope) / DIFFERENCE) @ unit
            point.curvature[n, n] -= float((other - own).sum()) / DIFFERENCE
            per = 1 / (sizes[0] * shape + noise)
            for power in range(3):
                weight = np.broadcast_to(per ** (power + 1) * shape**power, z.shape)
                gram[power] += unit.T @ (weight[:, None] * unit)
        point.curvature[n, :n] = point.curvature[:n, n]
        self._restrict(point, gram, total)
        if self.reference is not None:
            public, first, second = self.reference.slopes(sizes[0])
            point.height += public
            point.gradient[n] += total * first
            point.curvature[n, n] -= total * first + total**2 * second
            point.outer[n, n] += (total / sizes[0]) ** 2 * self.reference.freedom / 2
        return point

    def _slopes(
        self, z: Array, eta: Array, shape: Array, tau: Array, low: Array, high: Array, size: float
    ) -> tuple[Array, Array, Array, Array]:
        """ℓ, ∂ℓ/∂η, ∂ℓ/∂ψ and Var[y|z]/σ_k² of every row."""
        own = size * shape
        value, slope, spread = clipped_terms(z, eta, np.sqrt(own), tau, low, high)
        by_variance = 0.5 * shape * (slope**2 - (1 - spread) / own)
        return value, slope, (size + self.added) * by_variance, spread

    def _restrict(self, point: Point, gram: Array, total: float) -> None:
        """Add −½ ln|M|, M = Σ h_kh_kᵀ/v_k, and its derivatives in ψ."""
        point.log_likelihood = point.height
        inverse = np.linalg.inv(gram[0])
        first = inverse @ gram[1]
        slope = 0.5 * float(np.trace(first))  # in σ²
        bend = 0.5 * float(np.trace(first @ first)) - float(np.trace(inverse @ gram[2]))
        point.height -= 0.5 * float(np.linalg.slogdet(gram[0])[1])
        point.gradient[-1] += total * slope
        point.curvature[-1, -1] -= total * slope + total**2 * bend

    def step(self, at: Array, point: Point) -> tuple[Array, float]:
        """The step and the rise that it promises, twice; ψ stays at its end where it pushes."""
        if at[-1] >= self.most and point.gradient[-1] > 0:
            raise VarianceHidden(VARIANCE_HIDDEN)
        ended = at[-1] <= self.least and point.gradient[-1] <= 0
        kept = slice(0, len(at) - 1 if ended else len(at))
        gradient, matrix = point.gradient[kept], point.curvature[kept, kept]
        try:
            root = np.linalg.inv(np.linalg.cholesky(point.outer[kept, kept]))
        except np.linalg.LinAlgError:
            raise NotIdentifiable(
                "clipping leaves nothing of a combination of the coefficients, or of the noise "
                "variance: it cannot be estimated from this release. A wider range is needed."
            ) from None
        values, vectors = np.linalg.eigh(root @ matrix @ root.T)
        if values[0] < SAFE:
            values = np.maximum(values, 1.0)
        along = vectors.T @ (root @ gradient)
        step = np.zeros(len(at))
        step[kept] = root.T @ (vectors @ (along / values))
        promised = float((along**2 / values).sum())
        longest = abs(float(step[-1]))
        return (step * (LONGEST / longest) if longest > LONGEST else step), promised

    def risen(self, at: Array, point: Point, step: Array) -> tuple[Array, Point]:
        """The place after the step, shortened until the height rises; ψ within its ends."""
        length = 1.0
        while length > ROUNDING:
            tried = at + length * step
            tried[-1] = min(max(tried[-1], self.least), self.most)
            new = self.look(tried)
            hoped = float((tried - at) @ point.gradient)
            gained = new.height - point.height
            if gained >= RISE * max(hoped, 0.0) - ROUNDING * abs(point.height):
                return tried, new
            length *= float(np.clip(0.5 * hoped / (hoped - gained), 0.1, 0.5)) if hoped > 0 else 0.5
        raise NumericalFailure(
            "the log-likelihood does not rise along its own gradient: the rows change from one "
            "reading of them to the next, or they are out of range."
        )

    def climb(self) -> tuple[Array, Point, int]:
        """The maximum, the sums there, and the number of steps."""
        at = self.start.copy()
        point = self.look(at)
        for steps in range(ITERATIONS):
            step, promised = self.step(at, point)
            if promised <= TOLERANCE**2:
                return at, point, steps
            at, point = self.risen(at, point, step)
        if promised <= ENOUGH**2:
            return at, point, ITERATIONS
        raise NumericalFailure(
            f"no maximum of the likelihood was reached in {ITERATIONS} steps. Are range and level "
            "those of the release? A stated noise variance, or a wider range, makes it easier."
        )

    def expected(self, at: Array) -> Expected:
        """One more pass: what the rows say on average at (θ, σ²)."""
        n, size = len(at) - 1, self.variance(float(at[-1]))
        found = Expected(np.zeros((n + 1, n + 1)), np.zeros((n, n)), np.zeros((n, n)))
        for H, z, shape, level, low, high in chunks(self.source()):
            unit, noise, own = H @ self.back, self.noise / level, size * shape
            eta, sigma = unit @ at[:n], np.sqrt(own)
            square, mixed, both = clipped_information(eta, sigma, np.sqrt(noise), low, high)
            share, shift, scatter = clipped_moments(eta, sigma, low, high)
            found.information[:n, :n] += unit.T @ (square[:, None] * unit)
            found.information[:n, n] += (shape * mixed) @ unit
            found.information[n, n] += float((shape**2 * both).sum())
            for sums, per in ((found.plain, own + 1 / level), (found.shape, shape)):
                sums += unit.T @ (np.broadcast_to(1 / per, z.shape)[:, None] * unit)
            found.clipped += float(share.sum())
            found.scatter += float(((z - eta - shift) ** 2 / (scatter + noise)).sum())
        left = max(self.readings - n, 0)
        found.information[n, n] *= left / self.readings  # as many as σ̂² has degrees of freedom
        if self.reference is not None:
            found.information[n, n] += self.reference.freedom / (2 * size**2)
        found.information[n, :n] = found.information[:n, n]
        return found

    def freedom(self, at: Array) -> float:
        """Of Student's t: K − n, and (Satterthwaite) m(σ² + n)²/σ⁴ of a reference set."""
        left, size = float(self.readings - len(at) + 1), self.variance(float(at[-1]))
        if self.reference is None:
            return left
        return left + self.reference.freedom * ((size + self.added) / size) ** 2


def variance_interval(
    variance: float, error: float, added: float, confidence: float
) -> tuple[float, float]:
    """The interval of σ² from σ̂² and its standard error, by a χ² for σ̂² + n.

    With ν = 2(σ̂² + n)²/error² degrees of freedom: without clipping ν = K − n and it is exact.
    """
    total = variance + added
    freedom = 2 * (total / error) ** 2
    low, high = (
        total * freedom / float(scipy.special.chdtri(freedom, tail)) - added
        for tail in ((1 - confidence) / 2, (1 + confidence) / 2)
    )
    return max(low, 0.0), max(high, 0.0)
