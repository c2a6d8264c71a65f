"""A density given by its logarithm: mass, distribution function, moments, derivatives, Fisher."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from privest.arrays import EPS, Array
from privest.errors import InvalidInput, NumericalFailure
from privest.noise.numerics.differences import first_derivative, second_derivative
from privest.noise.quadrature import (
    FINE,
    Cells,
    Chain,
    Integral,
    Quadrature,
    gauss,
    integrate,
    legendre_series,
    on_panels,
)

# A density whose mass differs from 1 by more than this (and the quadrature error) is refused.
MASS_TOLERANCE = 1e-6
# At densities below this part of the peak an infinite score is not taken seriously.
NO_DENSITY = 1e-150
# Mass that may lie beyond the last octaves before the cdf is not inverted.
TAIL_TOLERANCE = 1e-12
# Octaves towards a special point, and to infinity (1e60: x⁴ is still finite).
CHAIN_IN = 60
CHAIN_OUT = 200
# Closer to a point p than this part of |p| differences of the log-density have no digits.
FINEST = 4096 * EPS
# e^-800 is below the smallest double: where the log-density has fallen by that, there is no mass.
UNDERFLOW = 800.0
# A change of the density over nothing: more than rounding at the peak, and where it is.
JUMP = 1e-10
JUMP_PART = 1e-6
# E l'' = −I where density and score are continuous; off by more than this part: they are not.
KINK = 1e-4
# Distance from a special point beyond which sums overflow.
LARGEST = 1e300
CHUNK = 50_000  # quantiles found at once

Function = Callable[[Array], Array]


class NumericalDensity:
    """f = e^l on octaves around `breaks`, the points where l is not smooth or f is narrow.

    Without breaks and finite ends of the support the octaves lie around 0. Arguments as for
    `from_logpdf`.
    """

    def __init__(
        self,
        logdensity: Function,
        *,
        support: tuple[float, float] = (-math.inf, math.inf),
        breaks: tuple[float, ...] = (),
        score: Function | None = None,
        curvature: Function | None = None,
        normalise: bool = False,
    ) -> None:
        self._logdensity = logdensity
        self._score = score
        self._curvature = curvature
        self.support = support
        ends = (end for end in support if math.isfinite(end))
        self._hard = tuple(sorted({*breaks, *ends}))
        self.special_points: tuple[float, ...] | tuple[float] = self._hard or (0.0,)
        self._normalise = normalise

    # -- the mass ---------------------------------------------------------------------------

    @cached_property
    def _peak(self) -> float:
        """The largest log-density seen on the octaves: taken out so that nothing overflows."""
        chains = _octaves(self.special_points, self.support)
        places = [c.anchor + c.side * c.distances[:-1] * np.array([[1.0], [0.75]]) for c in chains]
        x = np.append(np.concatenate([p.ravel() for p in places]), self.special_points)
        values = self._raw(x[(x >= self.support[0]) & (x <= self.support[1])])
        if not np.any(values > -np.inf):
            raise InvalidInput(
                f"The log-density is {'NaN' if np.isnan(values).all() else '−∞'} at every point "
                "looked at. Give the support, or a break where the density is not zero."
            )
        return float(values[np.isfinite(values)].max(initial=-1e300))

    @cached_property
    def _chains(self) -> tuple[Chain, ...]:
        return tuple(self._live(c) for c in _octaves(self.special_points, self.support))

    def _live(self, chain: Chain) -> Chain:
        """The chain; outwards, up to where the density has underflowed."""
        if chain.distances[-1] < chain.distances[0]:
            return chain
        height = self._raw(chain.anchor + chain.side * chain.distances)
        live = np.flatnonzero(height > self._peak - UNDERFLOW)
        stop = int(live[-1]) + 1 if len(live) else 1
        closed = stop < len(chain.distances)
        return Chain(chain.anchor, chain.side, chain.distances[: stop + 1], closed)

    @cached_property
    def _integral(self) -> Integral:
        return integrate(lambda x: (self.relative(x), np.zeros(x.shape)), self._chains)

    @cached_property
    def log_mass(self) -> float:
        """Logarithm of the integral of the density as given: 0 unless `normalise` is set."""
        found = self._integral.estimate
        if not (math.isfinite(found.value) and found.value > 0):
            raise InvalidInput(
                "The density cannot be integrated: the integral "
                f"{'diverges' if found.value == math.inf else f'is {found.value:g}'}. Check its "
                "tails and poles, and give the support if it is bounded."
            )
        log_mass = math.log(found.value) + self._peak
        if self._normalise:
            return log_mass
        slack = min(max(MASS_TOLERANCE, 10 * found.error / found.value), 1e-3)
        if not abs(math.expm1(min(log_mass, 700.0))) <= slack:
            raise InvalidInput(
                "The density must integrate to 1; its integral is "
                f"{math.exp(min(log_mass, 700.0)):.10g}. Subtract the logarithm of that from the "
                "log-density or set normalise=True; if you expected 1, a narrow part of it "
                "was missed: give its position as a break."
            )
        return 0.0

    def _raw(self, x: Array) -> Array:
        """The log-density as given, without warnings."""
        if x.size == 0:
            return np.zeros(x.shape)
        with np.errstate(all="ignore"):
            return np.asarray(self._logdensity(x), dtype=np.float64)

    def relative(self, x: Array) -> Array:
        """e^(l(x) − peak): f as a part of its peak, so that nothing underflows before the tails."""
        value = self._raw(x)
        bad = np.isnan(value)
        if bad.any():
            raise InvalidInput(
                f"The log-density is NaN at x = {float(x[bad][0])!r}, inside the support "
                f"{self.support}. Return −inf where the density is zero."
            )
        with np.errstate(over="ignore"):
            relative = np.asarray(np.exp(value - self._peak))
        high = np.isinf(relative) & np.isfinite(value)
        if high.any():
            raise InvalidInput(
                "The density cannot be integrated: the log-density grows without end "
                f"(at x = {float(x[high][0])!r} it is {float(value[high][0]):.3g}). Check its "
                "sign, give the support if it is bounded and breaks where it is narrow."
            )
        return relative

    @property
    def mass(self) -> Integral:
        """∫ `relative`; refuses a density that does not integrate to 1."""
        _ = self.log_mass
        return self._integral

    # -- distribution function and moments ------------------------------------------------------

    @cached_property
    def _table(self) -> CdfTable:
        return CdfTable.from_cells(self._filled(self.mass.cells))

    def _filled(self, cells: Cells) -> Cells:
        """The cells, and flat ones between the innermost octaves and their special point."""
        left = [cells.left]
        right = [cells.right]
        level = [cells.values]
        for chain, beyond in zip(self._chains, self._integral.beyond):
            if chain.distances[-1] < chain.distances[0]:
                end = chain.anchor + chain.side * float(chain.distances[-1])
                low, high = sorted([chain.anchor, end])
                if low < high:
                    left.append(np.array([low]))
                    right.append(np.array([high]))
                    level.append(np.full((1, FINE), beyond / (high - low)))
        order = np.argsort(np.concatenate(left), kind="stable")
        parts = (np.concatenate(part)[order] for part in (left, right, level))
        return Cells(*parts)

    def cdf(self, x: Array) -> Array:
        """F(x), with an absolute error near 1e-13."""
        return self._table.cdf(x)

    def quantile(self, u: Array) -> Array:
        beyond = sum(
            abs(part)
            for chain, part in zip(self._chains, self.mass.beyond)
            if chain.distances[-1] > chain.distances[0]
        )
        if beyond > TAIL_TOLERANCE * self.mass.estimate.value:
            raise NumericalFailure(
                f"The tails are too heavy to invert: a part {beyond:.1e} of the mass lies beyond "
                "1e60. Write a `sample` method for this distribution."
            )
        return self._table.quantile(u)

    @cached_property
    def nodes(self) -> tuple[Array, Array]:
        """Points x and probabilities: Σ w g(x) is E g for a g as smooth as the density."""
        cells = self.mass.cells
        points, weights = gauss(FINE)
        x, half = on_panels(cells.left, cells.right, points)
        w = half * weights * cells.values
        return x.ravel(), (w / w.sum()).ravel()

    @cached_property
    def width(self) -> float:
        """Half the interquartile range."""
        return float(np.ptp(self._table.quantile(np.array([0.25, 0.75])))) / 2

    def expectation(self, function: Callable[[Array], tuple[Array, Array]]) -> Quadrature:
        """E g for g with values and errors; ±inf where the integral diverges, NaN for ∞ − ∞."""
        mass = self.mass.estimate

        def integrand(x: Array) -> tuple[Array, Array]:
            weight = self.relative(x)
            value, error = function(x)
            # Close to underflow differences of the log-density may well be infinite.
            finite = np.isfinite(value)
            live = (weight > 0) & (finite | (weight > NO_DENSITY))
            bad = live & ~finite
            if bad.any():
                raise NumericalFailure(
                    "The quantity to be averaged (the score or curvature) is NaN or "
                    f"infinite at x = {float(x[bad][0])!r}, where the density is not zero: give "
                    "the support, and breaks where it is not smooth."
                )
            with np.errstate(all="ignore"):
                return np.where(live, weight * value, 0.0), np.where(live, weight * error, 0.0)

        top = integrate(integrand, self._chains).estimate
        value = top.value / mass.value
        if not math.isfinite(value):
            return Quadrature(value, 0.0)
        return Quadrature(value, (top.error + abs(value) * mass.error) / mass.value)

    @cached_property
    def mean(self) -> Quadrature:
        centre = float(self._table.quantile(np.array(0.5)))
        moved = self.expectation(lambda x: (x - centre, np.zeros(x.shape)))
        return Quadrature(centre + moved.value, moved.error + EPS * abs(centre))

    @cached_property
    def variance(self) -> Quadrature:
        mean = self.mean
        if not math.isfinite(mean.value):
            return Quadrature(math.nan, 0.0)
        found = self.expectation(lambda x: ((x - mean.value) ** 2, np.zeros(x.shape)))
        return Quadrature(found.value, found.error + mean.error**2)

    # -- derivatives of the log-density -------------------------------------------------------

    def score(self, x: Array) -> tuple[Array, Array]:
        """l'(x) and its error (0 when the score was given); at a break the mean of both sides."""
        if self._score is not None:
            return self._exactly(self._score, x)
        gap = self._gap(x, self.special_points)
        with np.errstate(all="ignore"):
            return first_derivative(self._raw, x, np.where(gap > 0, gap / 2, 1e-2 * self.width))

    def curvature(self, x: Array) -> tuple[Array, Array]:
        """l''(x) and its error (0 when given); at a break the mean of both sides."""
        if self._curvature is not None:
            return self._exactly(self._curvature, x)
        clear = self._gap(x, self._hard)
        if (clear == 0).any():
            near = np.where(clear == 0, 1e-2 * self.width, 0.0)
            left = self.curvature(x - near)
            right = self.curvature(x + near)
            return (left[0] + right[0]) / 2, (left[1] + right[1]) / 2
        step = np.minimum(clear, np.maximum(self._gap(x, self.special_points), self.width)) / 2
        with np.errstate(all="ignore"):
            if self._score is not None:
                return first_derivative(self._score, x, step, unit=1 / self.width)
            return second_derivative(self._raw, x, step)

    @staticmethod
    def _exactly(function: Function, x: Array) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            return np.asarray(function(x), dtype=np.float64), np.zeros(x.shape)

    @staticmethod
    def _gap(x: Array, points: tuple[float, ...]) -> Array:
        """Distance to the nearest of the points, 0 where x is one but for rounding."""
        gap = np.abs(x[..., None] - np.array(points)).min(axis=-1, initial=np.inf)
        return np.asarray(np.where(gap <= 64 * EPS * np.abs(x), 0.0, gap))

    # -- information --------------------------------------------------------------------------

    @cached_property
    def jumps(self) -> tuple[float, ...]:
        """Points where the density jumps (or has a pole), ends of the support included.

        In cells that halving did not resolve, and between cells. A cusp that is no break counts.
        """
        cells = self.mass.cells
        known = np.array(self.special_points)
        values = cells.values
        wide = cells.right - cells.left
        highest = values.max(axis=1)
        reach = np.maximum(np.abs(cells.left), np.abs(cells.right))
        noise = 2 * EPS * reach * np.ptp(values, axis=1)  # x is rounded
        rough = np.abs(legendre_series(values)[-4:]).max(axis=0)
        # Times the width: it is 0 between breaks that are a subnormal number apart.
        rough = rough * wide > (JUMP + JUMP_PART * highest) * wide + noise
        # Between two cells, and over a special point.
        before = cells.right[:-1]
        after = cells.left[1:]
        over = np.searchsorted(known, after, "right") > np.searchsorted(known, before, "left")
        near = np.where(over, 0.0, 1e-9 * np.minimum(wide[1:], wide[:-1]))
        seen = over | (near > 2 * EPS * np.abs(after))
        a = self.relative(before - near)
        b = self.relative(after + near)
        slope = 4 * (after - before + 2 * near) / self.width
        step = seen & (np.abs(b - a) > JUMP + (JUMP_PART + slope) * np.maximum(a, b))
        found = np.append((cells.left + cells.right)[rough] / 2, ((before + after) / 2)[step])
        ends = [e for e in self.support if math.isfinite(e) and self._jumps_at_end(e)]
        close = known[np.abs(found[:, None] - known).argmin(axis=1)]
        snapped = np.where(np.abs(found - close) <= 1e-9 * self.width, close, found)
        return tuple(sorted({*snapped.tolist(), *ends}))

    def _jumps_at_end(self, end: float) -> bool:
        """Does the density stay above zero towards a finite end?

        With f ~ d^α at distance d from the end, α = Δl/Δ ln d; α ≈ 0 is a jump, however low
        the density is there (a Gaussian cut off at eight standard deviations has one).
        """
        side = 1 if end == self.support[0] else -1
        near = max(1e-12 * self.width, 4096 * EPS * abs(end))
        far = min(1e6 * near, 1e-2 * self.width)
        low, high = self._raw(np.array([end + side * near, end + side * far]))
        if math.isnan(low) or low == -math.inf:
            return False
        return bool((high - low) < 0.05 * math.log(far / near))

    @cached_property
    def fisher_information(self) -> Quadrature:
        if self.jumps:
            return Quadrature(math.inf, 0.0)
        return self.expectation(lambda x: _squared(*self.score(x)))

    @cached_property
    def expected_squared_curvature(self) -> Quadrature:
        """E l''²; ∞ where E l'' = −I fails: then the score jumps."""
        information = self.fisher_information
        if math.isfinite(information.value):
            mean = self.expectation(self.curvature)
            off = abs(mean.value + information.value) + mean.error
            if off <= KINK * information.value:
                return self.expectation(lambda x: _squared(*self.curvature(x)))
        return Quadrature(math.inf, 0.0)


@dataclass(frozen=True)
class CdfTable:
    """On each cell the density is a Legendre series; its integral, exact, is the cdf.

        f(x) ≈ Σ_j c_j P_j(t),   t = 2(x − left)/(right − left) − 1,
        F(x) = F(left) + (right − left)/2 · ∫_{−1}^{t} Σ_j c_j P_j

    The quadrature has refined the cells until a polynomial of half the degree gave the same mass.
    """

    left: Array
    right: Array
    integral: Array  # (FINE + 1, cells)
    before: Array  # mass to the left of each cell, and the whole at the end

    @classmethod
    def from_cells(cls, cells: Cells) -> CdfTable:
        mass = (cells.right - cells.left) / 2 * (cells.values @ gauss(FINE)[1])
        full = mass > 0
        series = legendre_series(cells.values[full])
        integral = np.polynomial.legendre.legint(series, lbnd=-1, axis=0)
        before = np.concatenate([[0.0], np.cumsum(mass[full])])
        return cls(cells.left[full], cells.right[full], integral, before)

    def cdf(self, x: Array) -> Array:
        """F(x), scaled so that the cells hold all the mass."""
        flat = np.ravel(x)
        i = np.maximum(np.searchsorted(self.left, flat, side="right") - 1, 0)
        left = self.left[i]
        right = self.right[i]
        # Between cells (and outside them all) F is flat: t stays at an end of its interval.
        t = np.clip(2 * (flat - left) / (right - left) - 1, -1, 1)
        part = np.polynomial.legendre.legval(t, self.integral[:, i], tensor=False)
        value = (self.before[i] + (right - left) / 2 * part) / self.before[-1]
        return np.asarray(np.clip(value, 0, 1).reshape(np.shape(x)))

    def quantile(self, u: Array) -> Array:
        flat = np.ravel(u)
        parts = [self._invert(flat[at : at + CHUNK]) for at in range(0, flat.size, CHUNK)]
        return np.concatenate(parts or [flat]).reshape(np.shape(u))

    def _invert(self, u: Array) -> Array:
        from scipy.optimize import elementwise

        target = u * self.before[-1]
        i = np.searchsorted(self.before[1:-1], target, side="right")
        left = self.left[i]
        half = (self.right[i] - self.left[i]) / 2
        goal = (target - self.before[i]) / half
        whole = (self.before[i + 1] - self.before[i]) / half

        def excess(t: Array, cell: Array, goal: Array) -> Array:
            series = self.integral[:, cell.astype(np.intp)]
            return np.asarray(np.polynomial.legendre.legval(t, series, tensor=False) - goal)

        ends = np.full(u.shape, -1.0), np.full(u.shape, 1.0)
        found = elementwise.find_root(excess, ends, args=(i, goal), tolerances={"xatol": 1e-15})
        # Where rounding leaves no change of sign: the end of the cell that is near.
        t = np.where(found.success, found.x, np.where(2 * goal > whole, 1.0, -1.0))
        return np.asarray(left + half * (t + 1))


def _octaves(points: tuple[float, ...], support: tuple[float, float]) -> list[Chain]:
    """The support in octaves around the special points, which meet half-way between them."""
    result = []
    for p, q in pairwise(points):
        half = (q - p) / 2
        result += [_inward(p, +1, half), _inward(q, -1, half)]
    for p, side, end in ((points[0], -1, support[0]), (points[-1], +1, support[1])):
        if math.isinf(end):
            base = max(1.0, 16 * FINEST * abs(p))
            octaves = min(CHAIN_OUT, int(math.log2(LARGEST / base)))
            result += [
                _inward(p, side, base),
                Chain(p, side, base * 2.0 ** np.arange(octaves + 1)),
            ]
    return result


def _inward(p: float, side: int, half: float) -> Chain:
    """Octaves from `half` down to the resolution of floating point at p."""
    finest = FINEST * abs(p)
    ratio = half / finest if finest > 0 else math.inf
    octaves = CHAIN_IN if math.isinf(ratio) else int(math.log2(max(ratio, 4.0)))
    return Chain(p, side, half * 2.0 ** -np.arange(min(octaves, CHAIN_IN) + 1))


def _squared(value: Array, error: Array) -> tuple[Array, Array]:
    with np.errstate(all="ignore"):
        return value**2, 2 * np.abs(value) * error + error**2
