"""The distribution function of a density given on panels, and its inverse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array
from privest.noise.quadrature import FINE, Cells, gauss

CHUNK = 50_000


@dataclass(frozen=True)
class CdfTable:
    """On each cell the density is a Legendre series; its integral, exact, is the cdf.

        f(x) ≈ Σ_j c_j P_j(t),   t = 2(x − left)/(right − left) − 1,
        F(x) = F(left) + (right − left)/2 · ∫_{−1}^{t} Σ_j c_j P_j

    The cells come from the quadrature, which has refined them until a polynomial of half the
    degree gave the same mass: the series is good to rounding.
    """

    left: Array
    right: Array
    series: Array  # (FINE, cells)
    integral: Array  # (FINE + 1, cells)
    before: Array  # mass to the left of each cell, and the whole at the end

    @classmethod
    def from_cells(cls, cells: Cells) -> CdfTable:
        """Fit the series through the Gauss points; cells without mass are left out."""
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
        """Return F(x), scaled so that the cells hold all the mass."""
        flat = np.ravel(x)
        i = np.maximum(np.searchsorted(self.left, flat, side="right") - 1, 0)
        left, right = self.left[i], self.right[i]
        # Between cells (and outside them all) F is flat: t stays at an end of its interval.
        t = np.clip(2 * (flat - left) / (right - left) - 1, -1, 1)
        part = np.polynomial.legendre.legval(t, self.integral[:, i], tensor=False)
        value = (self.before[i] + (right - left) / 2 * part) / self.before[-1]
        return np.asarray(np.clip(value, 0, 1).reshape(np.shape(x)))

    def quantile(self, u: Array) -> Array:
        """Return F⁻¹(u) for 0 < u < 1 by Newton's method, kept inside a shrinking bracket."""
        flat = np.ravel(u)
        result = np.empty(flat.shape)
        for begin in range(0, flat.size, CHUNK):
            result[begin : begin + CHUNK] = self._invert(flat[begin : begin + CHUNK])
        return result.reshape(np.shape(u))

    def _invert(self, u: Array) -> Array:
        target = u * self.before[-1]
        i = np.searchsorted(self.before[1:-1], target, side="right")
        left, half = self.left[i], (self.right[i] - self.left[i]) / 2
        goal = (target - self.before[i]) / half
        low, high = np.full(u.shape, -1.0), np.full(u.shape, 1.0)
        share = (self.before[i + 1] - self.before[i]) / half
        t = np.clip(2 * goal / share - 1, -1, 1)
        todo = np.arange(u.size)
        for _ in range(80):
            k = i[todo]
            excess = np.polynomial.legendre.legval(t[todo], self.integral[:, k], tensor=False)
            excess -= goal[todo]
            density = np.polynomial.legendre.legval(t[todo], self.series[:, k], tensor=False)
            low[todo] = np.where(excess < 0, t[todo], low[todo])
            high[todo] = np.where(excess < 0, high[todo], t[todo])
            newton = t[todo] - excess / np.where(density > 0, density, np.inf)
            good = (density > 0) & (newton > low[todo]) & (newton < high[todo])
            new = np.where(good, newton, (low[todo] + high[todo]) / 2)
            moved = np.abs(new - t[todo])
            t[todo] = new
            todo = todo[moved > 1e-14]
            if todo.size == 0:
                break
        return np.asarray(left + half * (t + 1))
