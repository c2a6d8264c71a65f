"""A statistic that follows the score of an unknown mechanism, learnt from samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array

# Knots at these shares of a sample: dense in the middle, down to 1e-4 in the tails.
TAIL = np.array([1e-4, 3e-4, 1e-3, 3e-3, 0.006])
MOST_KNOTS = 320
# An output with at most so many values is discrete: every value is a knot.
FEW = 256
# Combinations of hats that vary by less than this part of the strongest are left out.
LEAST = 1e-7
ROWS = 20_000


@dataclass(frozen=True)
class Splines:
    """φ(z): for each coordinate of z, and its norm, hat functions on knots.

    Linear between knots, constant beyond the last ones: bounded, whatever the tails are.
    Outcomes of a quantiser become knots of their own: exact indicators.
    """

    knots: tuple[Array, ...]

    @classmethod
    def through(cls, z: Array, many: int) -> Splines:
        """Knots at quantiles of a sample (n, q), as many as a fit on `many` rows bears."""
        columns = _columns(z)
        count = max(min(60, MOST_KNOTS // len(columns), many // 200), 8)
        tail = TAIL[TAIL * many >= 20]
        shares = np.concatenate([[0.0], tail, np.linspace(0.01, 0.99, count), 1 - tail, [1.0]])
        return cls(tuple(_knots(column, shares) for column in columns))

    def features(self, z: Array) -> Array:
        """φ(z) (n, K)."""
        return np.concatenate([_hats(c, k) for c, k in zip(_columns(z), self.knots)], axis=1)

    def moments(self, z: Array) -> tuple[Array, Array]:
        """Mean (K,) and covariance (K, K) of φ over a sample."""
        size = sum(knots.size for knots in self.knots)
        first, second = np.zeros(size), np.zeros((size, size))
        for begin in range(0, len(z), ROWS):
            phi = self.features(z[begin : begin + ROWS])
            first += phi.sum(axis=0)
            second += phi.T @ phi
        first /= len(z)
        return first, second / len(z) - np.outer(first, first)


@dataclass(frozen=True)
class Statistic:
    """g(z) = φ(z)·w − c, one column a direction; clipped to ±`most`."""

    basis: Splines
    weights: Array  # (K, directions)
    offset: Array
    most: Array

    def __call__(self, z: Array) -> Array:
        """g (n, directions)."""
        ends = np.cumsum([knots.size for knots in self.basis.knots])[:-1]
        pieces = np.split(self.weights, ends)
        total = np.zeros((len(z), self.weights.shape[1]))
        for column, knots, weights in zip(_columns(z), self.basis.knots, pieces):
            for j, w in enumerate(weights.T):
                total[:, j] += np.interp(column, knots, w)
        return np.clip(total - self.offset, -self.most, self.most)


def fitted(low: list[Array], high: list[Array], step: Array) -> Statistic:
    """The combination of splines that tells most about the direction in which y moved.

        w = C⁻¹ Δμ/2h ,   which maximises (∂E g)²/Var g over g = φ·w; the best g of all is the score

    `low[i]` and `high[i]` are samples (n, q) at y − h_i e_i and y + h_i e_i.
    Cost: n·K² flops, K at most a few hundred.
    """
    basis = Splines.through(np.concatenate([part[:ROWS] for part in (*low, *high)]), len(low[0]))
    below, above = [basis.moments(z) for z in low], [basis.moments(z) for z in high]
    slopes = np.stack([(b[0] - a[0]) for a, b in zip(below, above)], axis=1) / (2 * step)
    mean = np.mean([m for m, _ in below + above], axis=0)
    weights = solved(np.mean([c for _, c in below + above], axis=0), slopes, LEAST)
    return Statistic(basis, weights, mean @ weights, 2 / step)


def solved(covariance: Array, right: Array, least: float) -> Array:
    """C⁺ right, without the combinations that vary by less than `least` of the strongest.

    The hats of one output sum to one, and what does not vary tells nothing.
    """
    values, vectors = np.linalg.eigh(covariance)
    kept = values > least * max(float(values[-1]), np.finfo(float).tiny)
    return np.asarray(vectors[:, kept] @ ((vectors[:, kept].T @ right) / values[kept][:, None]))


def _columns(z: Array) -> list[Array]:
    columns = [z[:, i] for i in range(z.shape[1])]
    return [*columns, np.linalg.norm(z, axis=1)] if z.shape[1] > 1 else columns


def _knots(column: Array, shares: Array) -> Array:
    values = np.unique(column)
    return values if values.size <= FEW else np.unique(np.quantile(column, shares))


def _hats(column: Array, knots: Array) -> Array:
    """The weights of linear interpolation (n, knots)."""
    result = np.zeros((column.size, knots.size))
    rows = np.arange(column.size)
    if knots.size == 1:
        result[:, 0] = 1.0
        return result
    i = np.clip(np.searchsorted(knots, column, side="right") - 1, 0, knots.size - 2)
    t = np.clip((column - knots[i]) / (knots[i + 1] - knots[i]), 0.0, 1.0)
    result[rows, i], result[rows, i + 1] = 1 - t, t
    return result
