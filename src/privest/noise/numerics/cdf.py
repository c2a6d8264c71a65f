"""The distribution function of a density known on the cells of its quadrature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array
from privest.noise.quadrature import FINE, Cells, gauss, legendre_series

CHUNK = 50_000  # quantiles found at once


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
