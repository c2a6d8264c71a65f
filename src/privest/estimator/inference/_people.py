"""Persons with several rows, from sums XᵀX of each person, X = [H, z, 1] with r rows.

The privacy noise of a row has precision a = s/r (or s/most). θ̂ = (Σ aHᵀH)⁻¹ Σ aHᵀz is least squares
whitened by it; errors are CR2 by person (`_cluster`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, Index
from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator.inference._cluster import ClusterSums
from privest.linalg.tolerances import condition, rank_tolerance


@dataclass(frozen=True)
class PeopleNoise:
    """Privacy noise of persons with level s; `most`: rows that a person may have, if stated."""

    level: float
    most: int | None = None

    def variances(self, rows: Index) -> Array:
        """Noise variance 1/a of a row, for persons with these numbers of rows."""
        return self.divided(rows) / self.level

    def divided(self, rows: Index) -> Array:
        found = rows if self.most is None else np.full_like(rows, self.most)
        return found.astype(float)

    def readings(self, sums: Array, rows: Index) -> Array:
        """Sums of [H, z, 1] from those of [H, v, 1], z = √r·v, both (G, n + 2, n + 2)."""
        found, divided = sums.copy(), self.divided(rows)
        found[:, :, -2] *= np.sqrt(divided)[:, None]
        found[:, -2, :] = found[:, :, -2]
        found[:, -2, -2] = divided * sums[:, -2, -2]
        return found

    def whitened(self, sums: Array, rows: Index) -> Array:
        """a[H, z]ᵀ[H, z], (G, n + 1, n + 1), from sums of [H, z, 1]."""
        return np.asarray(sums[:, :-1, :-1] / self.variances(rows)[:, None, None])


@dataclass(frozen=True, eq=False)
class PeopleEstimate:
    """θ̂ and `floor` = (Σ aHᵀH)⁻¹, its covariance by the privacy noise alone.

    misfit    Σ a_k(z_k − h_kᵀθ̂)²/(K − n): 1 under privacy noise alone.
    variance  of a value given the features, by moments: (misfit − 1)₊(K − n)/Σ a_k.
    """

    value: Array
    floor: Array
    misfit: float
    variance: float


class PeopleSums:
    """Σ aXᵀX over persons as they come, O(n²) memory; θ̂; then a second pass for errors."""

    def __init__(self, parameters: int, noise: PeopleNoise) -> None:
        self.noise, self.people, self.rows, self.precision = noise, 0, 0, 0.0
        self.total: Array = np.zeros((parameters + 1, parameters + 1))

    def add(self, sums: Array, rows: Index) -> None:
        """Persons: sums of [H, z, 1] (G, n + 2, n + 2), and how many rows each has."""
        self.total += self.noise.whitened(sums, rows).sum(axis=0)
        self.people += len(rows)
        self.rows += int(rows.sum())
        self.precision += float((rows / self.noise.variances(rows)).sum())

    def solve(self, names: tuple[str, ...] = ()) -> PeopleEstimate:
        information, right = self.total[:-1, :-1], self.total[:-1, -1]
        if not self.people:
            raise InvalidInput("there is nobody to estimate from: add the sums of persons first.")
        if not condition(information) * rank_tolerance(len(right)) < 1:
            said = f" {', '.join(names)}" if names else ""
            raise NotIdentifiable(
                f"the rows do not determine the coefficients{said}: one of the features is "
                "constant, or a combination of others. Leave it out."
            )
        scale = 1 / np.sqrt(information.diagonal())
        floor = np.linalg.inv(information * scale * scale[:, None]) * scale * scale[:, None]
        estimate = floor @ right
        freedom = self.rows - len(right)
        rest = float(self.total[-1, -1] - right @ estimate)
        misfit = rest / freedom if freedom > 0 else 1.0
        return PeopleEstimate(
            estimate, floor, misfit, variance=max(misfit - 1, 0.0) * freedom / self.precision
        )

    def errors(self) -> ClusterSums:
        """Sums of the second pass: `add_errors` for the same persons, then `errors()`."""
        return ClusterSums(self.total[:-1, :-1])

    def turned(self, found: ClusterSums) -> Array:
        """T (n + 2, n + 2) with [H, v, 1]·T = [HC, v, 1], cov θ̂ = CCᵀ by the known noise."""
        n = len(found.root)
        map_ = np.eye(n + 2)
        map_[:n, :n] = found.root
        return map_

    def add_errors(self, found: ClusterSums, estimate: Array, sums: Array, rows: Index) -> None:
        whole = self.noise.whitened(sums, rows)
        shares = whole[:, :-1, :-1]
        found.add_turned(shares, whole[:, :-1, -1] - shares @ np.linalg.solve(found.root, estimate))
