"""Persons with several rows, from sums XᵀX of each person, X = [H, z, 1] with r rows.

The privacy noise of a row has precision a = s/r (or s/most): θ̂ = (Σ HᵀSH)⁻¹ Σ HᵀSz, S = a·I, is
least squares whitened by it. Random effects by REML,

    z_p = H_pθ + τ·a_p·1 + σ·w_p + noise_p ,     V_p = v_p·I + τ²·11ᵀ ,   v_p = σ² + noise
    V_p⁻¹ = (I − k_p·11ᵀ)/v_p ,   k_p = τ²/(v_p + r·τ²) ,   log|V_p| = (r − 1)·log v_p + log(v_p +
                                  rτ²)

so persons with the same r and noise enter by Σ XᵀX and Σ Xᵀ11ᵀX alone. REML maximises

    −½ (Σ log|V_p| + log|HᵀV⁻¹H| + zᵀPz)   over σ², τ² ≥ 0 .

Student's t has G − b degrees of freedom, b the coefficients that do not vary within a person.
Assumes effects independent of the features; CR2 errors (`_cluster`) need no such model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array, Index
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator.inference._cluster import ClusterSums
from privest.linalg.tolerances import condition, rank_tolerance
from privest.records import Record


@dataclass(frozen=True)
class PeopleNoise:
    """Privacy noise of persons: level s, `most` rows if stated; variances within and between
    persons.
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
        """a and b of S = aI + b·11ᵀ for persons with these numbers of rows."""
        v = self.variances(rows) + self.within
        return 1 / v, -self.between / (v * (v + rows * self.between))

    def variances(self, rows: Index) -> Array:
        """Variance of the noise of a row, for persons with these numbers of rows."""
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
    """θ̂ whitened by S; `floor`: (Σ HᵀSH)⁻¹, its covariance by the privacy noise alone."""

    value: Array
    floor: Array
    misfit: float


class PeopleSums:
    """Σ XᵀSX over persons as they come, O(n²) memory; θ̂; then a second pass for errors."""

    def __init__(self, parameters: int, noise: PeopleNoise) -> None:
        self.noise, self.people, self.rows = noise, 0, 0
        self.total: Array = np.zeros((parameters + 1, parameters + 1))

    def add(self, sums: Array, rows: Index) -> None:
        """Persons: sums of [H, z, 1] (G, n + 2, n + 2), and how many rows each has."""
        self.total += self.noise.whitened(sums, rows).sum(axis=0)
        self.people += len(rows)
        self.rows += int(rows.sum())

    def solve(self, names: tuple[str, ...] = ()) -> PeopleEstimate:
        """θ̂ and its floor. Raises NotIdentifiable where the rows do not determine it."""
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
        """The sums of the second pass: `add_errors` for the same persons, then `errors()`."""
        return ClusterSums(self.total[:-1, :-1])

    def turned(self, found: ClusterSums) -> Array:
        """T (n + 2, n + 2) with [H, v, 1]·T = [HC, v, 1], cov θ̂ = CCᵀ by the known noise."""
        n = len(found.root)
        map_ = np.eye(n + 2)
        map_[:n, :n] = found.root
        return map_

    def add_errors(self, found: ClusterSums, estimate: Array, sums: Array, rows: Index) -> None:
        """Persons of the second pass, by sums of [HC, z, 1]."""
        whole = self.noise.whitened(sums, rows)
        shares = whole[:, :-1, :-1]
        found.add_turned(shares, whole[:, :-1, -1] - shares @ np.linalg.solve(found.root, estimate))


STARTS = ((0.05, 0.05), (0.05, 1.0), (1.0, 0.05), (1.0, 1.0))  # of σ², τ² in units of the scatter
LEAST = 3  # persons
# What varies within persons, as a share of the squares of a column: sums of products are right to
# about 1e-14 of them; a year that varies by one has 2e-7.
WITHIN = 1e-11


@dataclass(frozen=True, eq=False, kw_only=True)
class RandomEffects(Record):
    """θ̂ (n,) with its covariance, σ̂² within and τ̂² between persons, and G − b."""

    value: Array
    covariance: Array
    within: float
    between: float
    degrees_of_freedom: float
    people: int


@dataclass(frozen=True)
class _Stratum:
    """Persons with r rows and one noise: how many, Σ XᵀX and Σ Xᵀ11ᵀX."""

    people: int
    inner: Array
    outer: Array


class EffectSums:
    """Sums for `fit`, as persons come. Memory: a few matrices for each different number of rows."""

    def __init__(self, parameters: int) -> None:
        self.parameters = parameters
        self._strata: dict[tuple[int, float], _Stratum] = {}

    def add(self, sums: Array, rows: Index, own: Array) -> None:
        """Persons: sums of [H, z, 1] (G, n + 2, n + 2), their rows, and the variance of the noise
        of a row, (G,) each.
        """
        keys, which = np.unique(np.column_stack([rows, own]), axis=0, return_inverse=True)
        for place, key in enumerate(keys):
            part = sums[which.ravel() == place]
            total = part[:, :-1, -1]
            at = int(key[0]), float(key[1])
            nothing = np.zeros((self.parameters + 1,) * 2)
            old = self._strata.get(at, _Stratum(0, nothing, nothing))
            self._strata[at] = _Stratum(
                old.people + len(part),
                old.inner + part[:, :-1, :-1].sum(axis=0),
                old.outer + total.T @ total,
            )

    def fit(self) -> RandomEffects:
        """REML, and generalised least squares at its variances."""
        people = sum(part.people for part in self._strata.values())
        if people < LEAST:
            raise InvalidInput(
                f"random effects need {LEAST} persons or more to see how they differ; received "
                f"{people}."
            )
        if max(rows for rows, _ in self._strata) == 1:
            raise InvalidInput(
                "every person has one row: what differs between persons and what differs within "
                "them cannot be told apart. Leave the column of persons out: rows are persons."
            )
        likelihood = _Likelihood(self._strata)
        freedom = people - likelihood.between_coefficients()
        if freedom < 1:
            raise InvalidInput(
                f"{people} persons, and {people - freedom} coefficients that persons differ in: "
                "nothing is left to see how persons differ beside them. Fewer features, or more "
                "persons."
            )
        within, between = likelihood.best()
        covariance, estimate = likelihood.solved(within, between)
        return RandomEffects(
            value=estimate, covariance=covariance, within=within, between=between,
            degrees_of_freedom=float(freedom), people=people,
        )  # fmt: skip


class _Likelihood:
    """−2 × the restricted log-likelihood, and its slope in (σ², τ²)."""

    def __init__(self, strata: dict[tuple[int, float], _Stratum]) -> None:
        self.rows = np.array([key[0] for key in strata], dtype=float)
        self.own = np.array([key[1] for key in strata])
        self.people = np.array([part.people for part in strata.values()], dtype=float)
        self.inner = np.stack([part.inner for part in strata.values()])
        self.outer = np.stack([part.outer for part in strata.values()])
        if not (self.own > 0).all():
            raise InvalidInput("every row of a release has noise of its own, > 0.")
        self.unit = self._scatter()

    def between_coefficients(self) -> int:
        """How many directions of θ do not vary within a person, the intercept among them."""
        within = self.inner - self.outer / self.rows[:, None, None]
        gram, whole = (part.sum(axis=0)[:-1, :-1] for part in (within, self.inner))
        size = np.sqrt(np.diagonal(whole))
        scaled = np.linalg.eigvalsh(gram / np.outer(size, size))
        return int((scaled <= WITHIN).sum())

    def _scatter(self) -> float:
        """The variance of the residuals of plain least squares: a scale for the search."""
        total = self.inner.sum(axis=0)
        information = total[:-1, :-1]
        if not condition(information) * rank_tolerance(len(information)) < 1:
            raise NotIdentifiable(
                "the rows do not determine the coefficients: one of the features is constant, or a "
                "combination of others. Leave it out."
            )
        rest = total[-1, -1] - total[:-1, -1] @ np.linalg.solve(information, total[:-1, -1])
        freedom = max(float(self.rows @ self.people) - len(information), 1.0)
        return max(float(rest) / freedom, float(self.own.min()))

    def _weighted(self, own: Array, ones: Array) -> Array:
        """Σ (own·XᵀX + ones·Xᵀ11ᵀX)."""
        found = np.tensordot(own, self.inner, 1) + np.tensordot(ones, self.outer, 1)
        return np.asarray(found)

    def _parts(self, within: float, between: float) -> tuple[Array, Array]:
        v = within + self.own
        return v, between / (v + self.rows * between)

    def solved(self, within: float, between: float) -> tuple[Array, Array]:
        """(HᵀV⁻¹H)⁻¹ and θ̂."""
        v, k = self._parts(within, between)
        whole = self._weighted(1 / v, -k / v)
        scale = 1 / np.sqrt(whole.diagonal()[:-1])
        inner = np.linalg.inv(whole[:-1, :-1] * scale * scale[:, None])
        covariance = inner * scale * scale[:, None]
        return covariance, covariance @ whole[:-1, -1]

    def value(self, within: float, between: float) -> tuple[float, Array]:
        """−2 log-likelihood, and its derivatives in σ² and τ²."""
        v, k = self._parts(within, between)
        whole = self._weighted(1 / v, -k / v)
        covariance, estimate = self.solved(within, between)
        logs = (self.rows - 1) * np.log(v) + np.log(v + self.rows * between)
        _, size = np.linalg.slogdet(whole[:-1, :-1])
        rest = whole[-1, -1] - whole[:-1, -1] @ estimate
        found = float(self.people @ logs + size + rest)
        # V⁻² = (I − (2k − rk²)·11ᵀ)/v², V⁻¹11ᵀV⁻¹ = (1 − rk)²·11ᵀ/v²
        residual = np.append(estimate, -1.0)
        traces = (
            self.people @ ((self.rows - self.rows * k) / v),
            self.people @ (self.rows * (1 - self.rows * k) / v),
        )
        squares = (
            self._weighted(1 / v**2, -(2 * k - self.rows * k**2) / v**2),
            self._weighted(np.zeros(len(v)), ((1 - self.rows * k) / v) ** 2),
        )
        slope = [
            float(trace - np.sum(covariance * part[:-1, :-1]) - residual @ part @ residual)
            for trace, part in zip(traces, squares, strict=True)
        ]
        return found, np.array(slope)

    def best(self) -> tuple[float, float]:
        """σ̂², τ̂²: the best of several searches, in units of the residual variance."""

        def objective(x: Array) -> tuple[float, Array]:
            found, slope = self.value(float(x[0]) * self.unit, float(x[1]) * self.unit)
            return found, slope * self.unit

        runs = [
            scipy.optimize.minimize(
                objective, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * 2,
                options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 200},
            )
            for start in STARTS
        ]  # fmt: skip
        ended = [run for run in runs if np.isfinite(run.fun)]
        if not ended:
            raise NumericalFailure(
                "no variances within and between persons were found: the sums are not numbers of "
                "one scale. Take CR2 errors instead."
            )
        best = min(ended, key=lambda run: float(run.fun))
        return float(best.x[0]) * self.unit, float(best.x[1]) * self.unit
