"""The information in a density given by its logarithm: derivatives, jumps, kinks, Fisher."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from privest.arrays import EPS, Array, Flags
from privest.noise.numerics.differences import find_jumps, first_derivative, second_derivative
from privest.noise.numerics.mass import Function, Mass
from privest.noise.quadrature import Quadrature

CELLS_PER_PANEL = 16


class NumericalDensity(Mass):
    # -- derivatives of the log-density -------------------------------------------------------

    def score(self, x: Array) -> tuple[Array, Array]:
        """l'(x) and its error (0 when the score was given)."""
        if self._score is not None:
            return self._exactly(self._score, x)
        gap, at = self._room(x)
        with np.errstate(all="ignore"):
            return first_derivative(self._raw, x, np.where(at, gap, gap / 2))

    def curvature(self, x: Array) -> tuple[Array, Array]:
        """l''(x) and its error (0 when given); at a special point the mean of both sides."""
        if self._curvature is not None:
            return self._exactly(self._curvature, x)
        gap, at = self._room(x)
        if at.any():
            near = np.where(at, 1e-2 * gap, 0.0)
            left, right = self.curvature(x - near), self.curvature(x + near)
            return (left[0] + right[0]) / 2, (left[1] + right[1]) / 2
        # Close to a special point short steps drown in rounding; most such points are smooth peaks,
        # over which longer steps are good. Those that are not must never be stepped over.
        hard = np.array(self._rough)
        clear = np.abs(x[..., None] - hard).min(axis=-1, initial=np.inf) / 2
        return self._second(x, np.minimum(clear, np.maximum(gap, self.width) / 2))

    def _second(self, x: Array, step: Array) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            if self._score is not None:
                return first_derivative(self._score, x, step, unit=1 / self.width)
            return second_derivative(self._raw, x, step)

    @cached_property
    def _rough(self) -> tuple[float, ...]:
        """Special points at which the second derivative is not continuous: ends, kinks, cusps."""
        points = np.array([p for p in self.special_points if p not in self.support])
        near = np.minimum(1e-2 * self.width, self._room_between(points) / 4)
        offsets = near[:, None] * np.array([-1, -1 / 8, 1 / 8, 1])
        values, _ = self._second(points[:, None] + offsets, np.abs(offsets) / 2)
        spread = values.max(axis=1) - values.min(axis=1)
        smooth = spread < 0.05 * (np.abs(values).max(axis=1) + self.width**-2)
        return tuple(p for p in self.special_points if p not in points[smooth])

    @staticmethod
    def _exactly(function: Function, x: Array) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            return np.asarray(function(x), dtype=np.float64), np.zeros(x.shape)

    def _room(self, x: Array) -> tuple[Array, Flags]:
        """Distance to the nearest special point (a step stays clear of it), and where x is one."""
        points = np.array(self.special_points)
        i = np.searchsorted(points, x)
        below, above = points[np.maximum(i - 1, 0)], points[np.minimum(i, points.size - 1)]
        gap = np.minimum(np.abs(x - below), np.abs(x - above))
        at = gap <= 64 * EPS * np.abs(x)
        return np.where(at, 1e-2 * self.width, gap), at

    # -- information --------------------------------------------------------------------------

    @cached_property
    def jumps(self) -> tuple[float, ...]:
        """Points where the density jumps (or has a pole), ends of the support included."""
        inside = self._density_jumps(self._search_cells(1e-10, 1e-8 * self.width))
        ends = [e for e in self.support if math.isfinite(e) and self._jumps_at_end(e)]
        return tuple(sorted({*self._snapped(inside, 1e-11 * self.width), *ends}))

    def _density_jumps(self, cells: tuple[Array, Array]) -> tuple[float, ...]:
        def least(a: Array, b: Array) -> Array:
            # More than rounding at the peak, and more than rounding where it is.
            return 1e-10 + 1e-6 * np.maximum(a, b)

        width = 1e-12 * self.width
        return find_jumps(self.relative, cells, width=width, least=least, kept=0.9)

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
    def kinks(self) -> tuple[float, ...]:
        """Points where the score jumps; not searched for when the density itself jumps.

        A score taken by differences is good to 1e-5 widths of a kink that nobody declared, so
        there a change over 1e-4 widths is a jump; at special points it is looked at closer.
        """
        if self.jumps:
            return ()
        scale = self.width
        if self._score is not None:
            found = self._score_jumps(self._search_cells(1e-8, 1e-6 * scale), 1e-10 * scale)
            return self._snapped(found, 1e-9 * scale)
        near = 1e-4 * scale
        found = self._score_jumps(self._search_cells(1e-8, 1.2e-2 * scale), near)
        found = self._snapped(found, 3 * near)
        known = self.special_points
        return tuple(k for k in found if k not in known or self._is_kink(k))

    def _score_jumps(self, cells: tuple[Array, Array], width: float) -> tuple[float, ...]:
        def least(a: Array, b: Array) -> Array:
            return 1e-3 * (1 / self.width + np.minimum(np.abs(a), np.abs(b)))

        return find_jumps(
            lambda x: self.score(x)[0], cells, width=width, least=least, kept=0.4, zoom=100
        )

    def _is_kink(self, point: float) -> bool:
        # The score has digits down to 4096 units of rounding of x.
        reach = max(3e-6 * self.width, 1e2 * 4096 * EPS * abs(point))
        around = np.array([point - 1.1 * reach]), np.array([point + reach])
        return bool(self._score_jumps(around, reach / 300))

    def _snapped(self, points: tuple[float, ...], reach: float) -> tuple[float, ...]:
        """The points found, each replaced by the special point that it is close to."""
        known = self.special_points
        nearest = [min(known, key=lambda k: abs(k - p)) for p in points]
        return tuple(sorted({k if abs(k - p) <= reach else p for k, p in zip(nearest, points)}))

    def _search_cells(self, floor: float, narrowest: float) -> tuple[Array, Array]:
        """Cells to search for jumps, where the density is above `floor` times its peak.

        16 to a wide panel; the narrow panels, which the quadrature made around whatever it could
        not resolve; and one across each special point.
        """
        cells = self.mass.cells
        live = cells.values.max(axis=1) > floor
        a, b = cells.left[live], cells.right[live]
        middle, half = (a + b) / 2, np.maximum((b - a) / 2, narrowest)
        narrow = b - a < 2e-3 * self.width
        lo, hi = self.support
        inside = narrow & (middle - 1.2 * half > lo) & (middle + 1.2 * half < hi)
        thin = ((middle - 1.13 * half)[inside], (middle + 1.07 * half)[inside])
        a, b = a[~narrow], b[~narrow]
        cuts = a[:, None] + (b - a)[:, None] * np.linspace(0, 1, CELLS_PER_PANEL + 1)
        points = np.array(self.special_points)
        points = points[(points > self.support[0]) & (points < self.support[1])]
        gap = self._room_between(points)
        return (
            np.concatenate([cuts[:, :-1].ravel(), thin[0], points - 0.37 * gap]),
            np.concatenate([cuts[:, 1:].ravel(), thin[1], points + 0.41 * gap]),
        )

    def _room_between(self, points: Array) -> Array:
        """Distance from each special point to the nearest other one, at most width/10."""
        every = np.array(self.special_points)
        apart = np.abs(points[:, None] - every)
        apart[apart == 0] = np.inf
        return np.asarray(np.minimum(apart.min(axis=1, initial=np.inf), 0.1 * self.width))

    @cached_property
    def fisher_information(self) -> Quadrature:
        if self.jumps:
            return Quadrature(math.inf, 0.0)
        return self.expectation(lambda x: _squared(*self.score(x)))

    @cached_property
    def expected_squared_curvature(self) -> Quadrature:
        if self.jumps or self.kinks:
            return Quadrature(math.inf, 0.0)
        return self.expectation(lambda x: _squared(*self.curvature(x)))


def _squared(value: Array, error: Array) -> tuple[Array, Array]:
    with np.errstate(all="ignore"):
        return value**2, 2 * np.abs(value) * error + error**2
