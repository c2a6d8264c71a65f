"""What a release shows of persons with several rows, from sums of each person alone.

A table has v = z̃/√s for every row (`mechanism.RowMechanism`). The r rows X = [H, v, 1] of a
person enter by XᵀX (m, m) and r only. Readings with their noise are z = L⁻ᵀz̃, and the noise of the
release has the precision

    S = a·I ,     a = s/r (or s/most)

so that θ̂ = (Σ HᵀSH)⁻¹ Σ HᵀSz is least squares whitened by the public noise, and HᵀSH, HᵀSz follow
from the sums. With variances within and between persons S is the precision of a person's rows,
(I − k·11ᵀ)/v with v = 1/a + within, k = between/(v + r·between): generalised least squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, Index
from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator.inference._cluster import ClusterErrors, ClusterSums
from privest.linalg.tolerances import condition, rank_tolerance


@dataclass(frozen=True)
class PeopleNoise:
    """The noise of a release of persons: level s, and `most` if stated.

    within, between  variances of the readings that are whitened by too (`RandomEffects`).
    """

    level: float
    most: int | None = None
    within: float = 0.0
    between: float = 0.0

    def divided(self, rows: Index) -> Array:
        """By how much the level of a row is below that of the person."""
        found = rows if self.most is None else np.full_like(rows, self.most)
        return found.astype(float)

    def precision(self, rows: Index) -> tuple[Array, Array]:
        """a and b of S = aI + b·11ᵀ for persons with so many rows."""
        v = self.variances(rows) + self.within
        return 1 / v, -self.between / (v * (v + rows * self.between))

    def variances(self, rows: Index) -> Array:
        """Of the noise of a row, for persons with so many rows."""
        return self.divided(rows) / self.level

    def readings(self, sums: Array, rows: Index) -> Array:
        """Sums of [H, z, 1] from those of [H, v, 1], z = √r·v, both (G, n + 2, n + 2)."""
        found, divided = sums.copy(), self.divided(rows)
        found[:, :, -2] *= np.sqrt(divided)[:, None]
        found[:, -2, :] = found[:, :, -2]
        found[:, -2, -2] = divided * sums[:, -2, -2]
        return found

    def whitened(self, sums: Array, rows: Index) -> Array:
        """XᵀSX of X = [H, z], (G, n + 1, n + 1), from sums of [H, z, 1]."""
        a, b = (one[:, None, None] for one in self.precision(rows))
        total = sums[:, :-1, -1]
        found = a * sums[:, :-1, :-1]
        return found + b * (total[:, :, None] * total[:, None, :]) if self.between else found


@dataclass(frozen=True, eq=False)
class PeopleEstimate:
    """θ̂ whitened by S; `floor`: (Σ HᵀSH)⁻¹, its covariance if S is all, as of the noise alone."""

    estimate: Array
    floor: Array
    misfit: float


class PeopleSums:
    """Σ XᵀSX over persons, as they come: O(n²) memory. Then θ̂, then a second pass for errors."""

    def __init__(self, parameters: int, noise: PeopleNoise) -> None:
        self.noise, self.people, self.rows = noise, 0, 0
        self.total: Array = np.zeros((parameters + 1, parameters + 1))

    def add(self, sums: Array, rows: Index) -> None:
        """Persons: sums of [H, z, 1] (G, n + 2, n + 2), and how many rows each has."""
        self.total += self.noise.whitened(sums, rows).sum(axis=0)
        self.people += len(rows)
        self.rows += int(rows.sum())

    def solve(self, names: tuple[str, ...] = ()) -> PeopleEstimate:
        """θ̂, and what the known noise alone makes of it.

        Raises NotIdentifiable where the rows do not determine it.
        """
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
        rest = self.total[-1, -1] - right @ estimate
        return PeopleEstimate(estimate, floor, float(rest / freedom) if freedom > 0 else 1.0)

    def errors(self) -> ClusterSums:
        """Where the second pass goes: `add_errors` for the same persons, then its `errors()`.

        Persons whose rows [H, v, 1] were multiplied by `turned` before they were summed: with
        `add_turned_errors`.
        """
        return ClusterSums(self.total[:-1, :-1])

    def add_errors(self, found: ClusterSums, estimate: Array, sums: Array, rows: Index) -> None:
        """Persons of the second pass."""
        whole = self.noise.whitened(sums, rows)
        matrices = whole[:, :-1, :-1]
        found.add(matrices, whole[:, :-1, -1] - matrices @ estimate)

    def turned(self, found: ClusterSums) -> Array:
        """T (n + 2, n + 2) with [H, v, 1]·T = [HC, v, 1], cov θ̂ = CCᵀ by the known noise."""
        n = len(found.root)
        map_ = np.eye(n + 2)
        map_[:n, :n] = found.root
        return map_

    def add_turned_errors(
        self, found: ClusterSums, estimate: Array, sums: Array, rows: Index
    ) -> None:
        """Persons of the second pass, by sums of [HC, z, 1]."""
        whole = self.noise.whitened(sums, rows)
        shares = whole[:, :-1, :-1]
        found.add_turned(shares, whole[:, :-1, -1] - shares @ np.linalg.solve(found.root, estimate))


def people_errors(
    sums: Array, rows: Index, noise: PeopleNoise
) -> tuple[PeopleEstimate, ClusterErrors]:
    """θ̂ and its CR2 errors of persons held at once: sums of [H, z, 1] (G, n + 2, n + 2)."""
    made = PeopleSums(sums.shape[-1] - 2, noise)
    made.add(sums, rows)
    found, second = made.solve(), made.errors()
    made.add_errors(second, found.estimate, sums, rows)
    return found, second.errors()
