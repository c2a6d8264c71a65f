"""The mass of a density given by its logarithm: integral, distribution function, moments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privest.arrays import EPS, Array
from privest.errors import InvalidInput, NumericalFailure
from privest.noise.numerics import landscape
from privest.noise.quadrature import (
    FINE,
    Cells,
    Chain,
    Integral,
    Quadrature,
    gauss,
    integrate,
    on_panels,
)

# A density whose mass differs from 1 by more than this (and the quadrature error) is refused.
MASS_TOLERANCE = 1e-6
# At densities below this part of the peak an infinite score is not taken seriously.
NO_DENSITY = 1e-150
# Mass that may lie beyond the last octave (1e60 scales) before sampling is refused.
TAIL_TOLERANCE = 1e-12
CHUNK = 50_000  # quantiles found at once

Function = Callable[[Array], Array]


class Mass:
    """Integral, distribution function and moments; arguments as for `from_logpdf`."""

    def __init__(
        self,
        logdensity: Function,
        *,
        support: tuple[float, float] = (-math.inf, math.inf),
        landmarks: tuple[float, ...] = (),
        scale: float | None = None,
        score: Function | None = None,
        curvature: Function | None = None,
        normalise: bool = False,
    ) -> None:
        self._logdensity = logdensity
        self._score, self._curvature = score, curvature
        self.support = support
        self._landmarks = landmarks
        width = support[1] - support[0]
        self._hint = scale if scale is not None else width / 2 if math.isfinite(width) else 1.0
        self._normalise = normalise

    # -- the mass ---------------------------------------------------------------------------

    @cached_property
    def _landscape(self) -> landscape.Landscape:
        return landscape.survey(self._raw, self.support, self._landmarks, self._hint)

    @cached_property
    def _chains(self) -> tuple[Chain, ...]:
        return landscape.chains(self._raw, self._landscape, self._hint)

    @cached_property
    def _integral(self) -> Integral:
        """Integral of e^(l − peak): the peak is taken out so that nothing overflows."""
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
                "was missed: give its position as a landmark."
            )
        return 0.0

    @property
    def _peak(self) -> float:
        # At a pole the log-density is +∞; any finite reference does.
        return self._landscape.peak if math.isfinite(self._landscape.peak) else 0.0

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
                "sign, and give the support if it is bounded."
            )
        return relative

    @property
    def special_points(self) -> tuple[float, ...]:
        return self._landscape.points

    @property
    def mass(self) -> Integral:
        """∫ `relative`; refuses a density that does not integrate to 1."""
        _ = self.log_mass
        return self._integral

    # -- distribution function and moments ------------------------------------------------------

    @cached_property
    def _table(self) -> CdfTable:
        cells = self.mass.cells
        # What lies between the innermost octaves and a special point: flat cells.
        inner: dict[float, list[float]] = {}
        for chain, beyond in zip(self._chains, self._integral.beyond):
            if chain.distances[-1] < chain.distances[0]:
                ends = inner.setdefault(chain.anchor, [chain.anchor, chain.anchor, 0.0])
                reach = chain.anchor + chain.side * float(chain.distances[-1])
                ends[0], ends[1] = min(ends[0], reach), max(ends[1], reach)
                ends[2] += beyond
        a, b, m = np.array(list(inner.values())).T
        level = np.where(b > a, m / np.where(b > a, b - a, 1), 0)
        left, right = np.concatenate([cells.left, a]), np.concatenate([cells.right, b])
        values = np.concatenate([cells.values, np.repeat(level[:, None], FINE, axis=1)])
        order = np.argsort(left, kind="stable")
        return CdfTable.from_cells(Cells(left[order], right[order], values[order]))

    def cdf(self, x: Array) -> Array:
        """F(x), with an absolute error near 1e-13."""
        return self._table.cdf(x)

    def quantile(self, u: Array) -> Array:
        mass = self.mass
        beyond = sum(
            abs(part)
            for chain, part in zip(self._chains, mass.beyond)
            if chain.distances[-1] > chain.distances[0]
        )
        if beyond > TAIL_TOLERANCE * mass.estimate.value:
            raise NumericalFailure(
                f"The tails are too heavy to invert: a part {beyond:.1e} of the mass lies beyond "
                "1e60 scales. Write a `sample` method for this distribution."
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
        """Half the interquartile range, or the width of the narrowest peak if that is smaller."""
        quartiles = self._table.quantile(np.array([0.25, 0.75]))
        half = float(quartiles[1] - quartiles[0]) / 2
        narrow = self._landscape.width
        return min(half, narrow) if narrow > 1e-9 * half else half

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
                    f"infinite at x = {float(x[bad][0])!r}, where the density is not zero."
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


@dataclass(frozen=True)
class CdfTable:
    """On each cell the density is a Legendre series; its integral, exact, is the cdf.

        f(x) ≈ Σ_j c_j P_j(t),   t = 2(x − left)/(right − left) − 1,
        F(x) = F(left) + (right − left)/2 · ∫_{−1}^{t} Σ_j c_j P_j

    The quadrature has refined the cells until a polynomial of half the degree gave the same mass.
    """

    left: Array
    right: Array
    series: Array  # (FINE, cells)
    integral: Array  # (FINE + 1, cells)
    before: Array  # mass to the left of each cell, and the whole at the end

    @classmethod
    def from_cells(cls, cells: Cells) -> CdfTable:
        nodes, weights = gauss(FINE)
        half = (cells.right - cells.left) / 2
        mass = half * (cells.values @ weights)
        full = mass > 0
        degrees = np.arange(FINE)
        legendre = np.polynomial.legendre.legvander(nodes, FINE - 1)
        project = (legendre * weights[:, None]).T * ((2 * degrees + 1) / 2)[:, None]
        series = project @ cells.values[full].T
        integral = np.polynomial.legendre.legint(series, lbnd=-1, axis=0)
        before = np.concatenate([[0.0], np.cumsum(mass[full])])
        return cls(cells.left[full], cells.right[full], series, integral, before)

    def cdf(self, x: Array) -> Array:
        """F(x), scaled so that the cells hold all the mass."""
        flat = np.ravel(x)
        i = np.maximum(np.searchsorted(self.left, flat, side="right") - 1, 0)
        left, right = self.left[i], self.right[i]
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
        left, half = self.left[i], (self.right[i] - self.left[i]) / 2
        goal, whole = (target - self.before[i]) / half, (self.before[i + 1] - self.before[i]) / half

        def excess(t: Array, cell: Array, goal: Array) -> Array:
            series = self.integral[:, cell.astype(np.intp)]
            return np.asarray(np.polynomial.legendre.legval(t, series, tensor=False) - goal)

        ends = np.full(u.shape, -1.0), np.full(u.shape, 1.0)
        found = elementwise.find_root(excess, ends, args=(i, goal), tolerances={"xatol": 1e-15})
        # Where rounding leaves no change of sign: the end of the cell that is near.
        t = np.where(found.success, found.x, np.where(2 * goal > whole, 1.0, -1.0))
        return np.asarray(left + half * (t + 1))
