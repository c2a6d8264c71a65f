"""A smooth function of one number as a table of polynomials, with its first two derivatives."""

from __future__ import annotations

import itertools
import math

import numpy as np

from privest.arrays import Array
from privest.estimator.likelihood._smear import Smear
from privest.estimator.likelihood._terms import NUMPY, Backend

DEGREE = 14
# A panel is halved until its last Chebyshev coefficients are below this (times 1 + |ℓ|).
TOLERANCE = 1e-13
MARGIN = 30.0  # the table goes this many σ beyond bounded noise


class Table:
    """ℓ(r), ℓ'(r), −ℓ''(r) of a `Smear`: panels of degree 14, direct sums outside them.

    `error` is the largest difference from direct quadrature at points that were not used.
    Cost: to make, some hundred sums a panel; to use, one search and 15 gathers for each r.
    """

    def __init__(self, smear: Smear) -> None:
        self.smear = smear
        margin = MARGIN * smear.sd if smear.bounded else 0.0
        low, high = smear.low - margin, smear.high + margin
        cuts = np.linspace(low, high, 1 + math.ceil((high - low) / (2 * smear.sd)))
        todo = list(itertools.pairwise(cuts.tolist()))
        points = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
        to_chebyshev = np.linalg.inv(np.polynomial.chebyshev.chebvander(points, DEGREE))
        found = []
        while todo:
            left, right = todo.pop()
            middle, half = (left + right) / 2, (right - left) / 2
            value = smear.at(middle + half * points)[0]
            coefficients = to_chebyshev @ value
            rough = np.abs(coefficients[-2:]).max() > TOLERANCE * (1 + np.abs(value).max())
            if rough and half > 1e-4 * smear.sd:
                todo += [(left, middle), (middle, right)]
                continue
            found.append((left, right, np.polynomial.chebyshev.cheb2poly(coefficients)))
        found.sort(key=lambda panel: panel[0])
        self.edges = np.array([left for left, _, _ in found] + [found[-1][1]])
        # cheb2poly drops zeros at the end
        self.coefficients = np.array(
            [np.pad(c, (0, DEGREE + 1 - len(c))) for _, _, c in found]
        ).T.copy()
        self.error, self.mode, self.concave = self._examine()

    def _examine(self) -> tuple[float, float, bool]:
        error, mode, best, concave = 0.0, 0.0, -math.inf, True
        for left, right in itertools.pairwise(self.edges.tolist()):
            r = left + (right - left) * np.array([0.03, 0.37, 0.5, 0.81])
            value, _, curvature = self.smear.at(r)
            off = np.abs(self(r, NUMPY)[0] - value) / (1 + np.abs(value))
            error = max(error, float(off.max()))
            concave = concave and bool((curvature > -1e-9 / self.smear.sd**2).all())
            if value.max() > best:
                best, mode = float(value.max()), float(r[value.argmax()])
        return error, mode, concave

    def __call__(self, r: Array, backend: Backend) -> tuple[Array, Array, Array]:
        """ℓ, ℓ', −ℓ'' for r of any shape."""
        xp = backend.xp
        edges = xp.asarray(self.edges)
        panel = xp.searchsorted(edges, r, side="right") - 1
        outside = (panel < 0) | (panel >= len(self.edges) - 1)
        panel = xp.clip(panel, 0, len(self.edges) - 2)
        left, right = edges[panel], edges[panel + 1]
        half = (right - left) / 2
        t = xp.clip((r - left) / half - 1, -1.0, 1.0)
        value = slope = bend = xp.zeros_like(t)
        for row in xp.asarray(self.coefficients)[::-1]:
            bend = bend * t + slope
            slope = slope * t + value
            value = value * t + row[panel]
        slope, curvature = slope / half, -2 * bend / (half * half)
        if xp.any(outside):
            for array, direct in zip((value, slope, curvature), self.smear.beyond(r[outside])):
                array[outside] = direct
        return value, slope, curvature
