"""The promise and the errors of a release of sums, from public rows alone.

    z = √c₁·Σ ℓ_i y_i + e ,   θ̂ = B⁻¹z/√c₁ ,   var θ̂_j = b_j/c₁ + a_j·σ²

b_j = ‖β_j‖², a_j = Σ_i (β_jᵀℓ_i)², β_j the rows of B⁻¹. A second release, of squared residuals
weighted by q_ij = (β_jᵀℓ_i)²/b_j, shows a_j·σ² with its heteroscedasticity (`privest.aggregate`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from privest.aggregate._lewis import (
    FeatureRows,
    RowWeights,
    Sums,
    lewis_weights,
    log_det,
    most_information,
    norms,
    sums_of,
)
from privest.aggregate._planner import SQUARE_UNIT, UNIT, UNIT_OF_PERSONS, Split
from privest.arrays import Array, Index
from privest.errors import InvalidInput
from privest.privacy import Range
from privest.vault.noise import Integers

NARROW = 0.2  # a_j·R²c/4 ≤ .2·b_j: without squares intervals are at most 10 % wider
SURE = 1 + 2.0**-16  # of a level for wanted errors: weights that are rounded, and a step's own cost


@dataclass(frozen=True, eq=False)
class SumDesign:
    """The rows, their weights, and sums that follow from both; all of it is public.

    persons  where persons have several rows: `rows` are then x_i/m, m the rows of a person.
    shown    (n,) Σ_i q_ij; `left`: times the share N_ii of σ² that a residual keeps, where N is the
             correlation of the residuals; `doubled`: Σ_i q_ij²(N²)_ii; `peak`: max ‖q_i‖.
    """

    rows: FeatureRows
    weights: RowWeights
    sums: Sums
    persons: RowPersons | None
    shown: Array
    left: Array
    doubled: Array
    peak: float

    def map(self, made: Callable[..., Any], values: Iterable[Array] | None = None) -> Iterator[Any]:
        """made(X, L) of every block of x_i and ℓ_i; with values y made(X, L, y)."""
        return _weighted(self.rows, self.weights, self.persons, made, values)

    @cached_property
    def whole_weights(self) -> Integers:
        """W_i of all rows, (K, n): `unit`·ℓ_i."""
        unit = _unit(self.persons)
        blocks = self.map(lambda _, L: np.rint(unit * L).astype(np.int64))
        return np.concatenate(list(blocks))

    @cached_property
    def whole_shares(self) -> Integers:
        """q_ij in whole numbers, (K, n), the largest row of norm about `SQUARE_UNIT`."""
        unit = SQUARE_UNIT / self.peak

        def rounded(_: Array, L: Array) -> Integers:
            whole: Integers = np.rint(unit * self.shares(L)).astype(np.int64)
            return whole

        return np.concatenate(list(self.map(rounded)))

    @cached_property
    def inverse(self) -> Array:
        return np.linalg.inv(self.sums.cross)

    @cached_property
    def noise(self) -> Array:
        """b_j = ‖β_j‖²: variance of θ̂_j by noise of variance 1, for c₁ = 1."""
        return np.asarray((self.inverse**2).sum(axis=1))

    @cached_property
    def sampling(self) -> Array:
        """a_j = Σ_i A_ji²: variance of θ̂_j by independent residuals of variance 1, A = B⁻¹Lᵀ."""
        spread = np.einsum("ij,jk,ik->i", self.inverse, self.sums.gram, self.inverse)
        return np.asarray(spread)

    @cached_property
    def shared_sampling(self) -> Array:
        """Σ_P (Σ_{i∈P} A_ji)²: the same where all residuals of a person are equal."""
        return self._person_squares(np.asarray)

    @cached_property
    def largest_sampling(self) -> Array:
        """Σ_P (Σ_{i∈P} |A_ji|)²: the same at most, however residuals of a person depend."""
        return self._person_squares(np.abs)

    def planned_sampling(self, correlation: float | None) -> Array:
        """a_j where any two residuals of a person have this correlation; None: at most."""
        if correlation is None:
            return self.largest_sampling
        return (1 - correlation) * self.sampling + correlation * self.shared_sampling

    def _person_squares(self, of: Callable[[Array], Array]) -> Array:
        """Σ_P (Σ_{i∈P} of(A_ji))², (n,); without persons every row is one."""

        def weights(_: Array, L: Array) -> Array:
            return of(L @ self.inverse.T)

        if self.persons is None:
            squares = self.map(lambda X, L: norms(weights(X, L)) ** 2)
            return np.asarray(sum(squares))
        sums = self.persons.sums(self.map(weights), self.rows.n)
        return norms(sums) ** 2

    @property
    def saturated(self) -> bool:
        """Whether H has as many different rows as coefficients: a mean, or means of groups."""
        return self.sums.distinct == self.rows.n

    @cached_property
    def inflation(self) -> Array:
        """f_j: residuals are smaller than errors by 1/f_j; at most 2."""
        if self.persons is not None:
            count = len(self.persons.rows)
            return np.full(self.rows.n, count / max(count - self.rows.n, count / 2))
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.shown / self.left
        return np.where((found > 0) & (found < 2), np.maximum(found, 1.0), 2.0)

    @cached_property
    def freedom(self) -> Array:
        """ν_j of the squares of coefficient j without their noise, for normal residuals.

        With Q = diag(q_j) it is tr(QN)²/tr(QNQN), at least 1. tr(Q²N²) ≥ tr(QNQN) is taken, which
        is a sum over rows, and equal where q_j is constant. Persons: (Σ q_P)²/Σ q_P² with
        q_P = Σ_{i∈P} A_ji².
        """
        if self.persons is not None:
            return self.sampling**2 / self._person_squares(np.square)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.left**2 / self.doubled
        return np.where(ratio >= 1, ratio, 1.0)

    @property
    def shares(self) -> Callable[[Array], Array]:
        """q_ij of some rows ℓ_i, (rows, n)."""
        return partial(_shares, self.inverse, self.noise)

    def efficiency(self, level: float, variance: float | None) -> float:
        """A proved lower bound on (det/best)^(1/n) among all levels with S_ii ≤ c."""
        sigma2 = 0.0 if variance is None else variance
        B = math.sqrt(level) * self.sums.cross
        own = B.T @ np.linalg.solve(np.eye(len(B)) + sigma2 * level * self.sums.gram, B)
        most = most_information(self.map, self.sums, level, sigma2)
        return min(1.0, math.exp((log_det(own) - most) / len(B)))


@dataclass(frozen=True, eq=False)
class RowPersons:
    """The persons of the rows: numbers 0, 1, … in blocks, and how many rows each has."""

    numbers: Sequence[Index]
    rows: Index

    def sums(self, blocks: Iterable[Array], n: int) -> Array:
        found = np.zeros((len(self.rows), n))
        for numbers, block in zip(self.numbers, blocks, strict=True):
            np.add.at(found, numbers, block)
        return found


def person_rows(rows: FeatureRows, persons: RowPersons) -> FeatureRows:
    """x_i/m, m the number of rows of its person: Σ‖ℓ_i‖ over a person is then 1."""
    blocks = zip(rows, persons.numbers, strict=True)
    return FeatureRows(rows.n, (X / persons.rows[own][:, None] for X, own in blocks))


def _unit(persons: RowPersons | None) -> int:
    return UNIT if persons is None else UNIT_OF_PERSONS


def _weighted(
    rows: FeatureRows,
    weights: RowWeights,
    persons: RowPersons | None,
    made: Callable[..., Any],
    values: Iterable[Array] | None = None,
) -> Iterator[Any]:
    """made(X, L) of every block; L are the doubles of whole numbers over a power of two."""
    unit = _unit(persons)

    def whole(L: Array) -> Array:
        return np.rint(unit * L) / unit

    if persons is None:
        return rows.map(lambda X, *y: made(X, whole(weights.of(X)), *y), values)
    counts = (persons.rows[own][:, None] for own in persons.numbers)
    blocks = zip(rows, counts, *(() if values is None else (values,)), strict=True)
    return (made(X * m, whole(weights.of(X) / m), *y) for X, m, *y in blocks)


def _shares(inverse: Array, noise: Array, L: Array) -> Array:
    parts = inverse @ L.T
    parts **= 2
    parts /= noise[:, None]
    return parts.T


def sum_design(rows: FeatureRows, triangle: Array, persons: RowPersons | None = None) -> SumDesign:
    """Lewis weights of the rows and their sums; of persons `person_rows`.

    triangle  R with RᵀR = HᵀH of these rows.
    """
    weights, n = lewis_weights(rows, triangle), rows.n
    sums = sums_of(partial(_weighted, rows, weights, persons), n)
    none = np.zeros(n)
    design = SumDesign(rows, weights, sums, persons, none, none, none, 0.0)
    inverse, shares = design.inverse, design.shares
    G = inverse @ sums.gram @ inverse.T
    spread, size = np.linalg.cholesky(G), np.linalg.cholesky(sums.features)

    def residuals(X: Array, L: Array) -> tuple[Array, Array, Array, float]:
        # N = I − P with P = HA + AᵀHᵀ − HGHᵀ, so P's column i is H·moved_i + Aᵀx_i.
        q, A = shares(L), inverse @ L.T
        moved = A - G @ X.T
        spread_of_mean = norms(spread.T @ X.T) ** 2
        P = 2 * np.einsum("ji,ij->i", A, X) - spread_of_mean
        P2 = norms(size.T @ moved) ** 2 + 2 * np.einsum("ji,ij->i", moved, X) + spread_of_mean
        doubled = np.maximum(1 - 2 * P + P2, 0.0) @ q**2
        return q.sum(axis=0), (1 - P) @ q, doubled, float(norms(q.T).max(initial=0.0))

    parts = list(zip(*design.map(residuals), strict=True))
    shown, left, doubled = (np.sum(part, axis=0) for part in parts[:3])
    return replace(design, shown=shown, left=left, doubled=doubled, peak=max(parts[3]))


# --- what a promise gives -------------------------------------------------------------------------


def kind_of(
    design: SumDesign, limits: Range, *, mu: float | None = None, level: float | None = None
) -> str:
    """Which squares a release with this promise needs: none where the range does as well."""
    alone = (mu / limits.width) ** 2 if mu is not None else level or 0.0
    widest = design.largest_sampling * limits.width**2 * alone / 4
    if (widest <= NARROW * design.noise).all():
        return "none"
    if design.persons is not None:
        return "persons"
    return "free" if design.saturated and mu is not None else "squares"


def level_for_errors(design: SumDesign, variance: float, errors: dict[int, float]) -> float:
    """The least c₁ at which all of these standard errors are met: b_j/(e_j² − a_jσ²)."""
    noise, sampling = design.noise, design.sampling
    sure = SURE * (1 + design.rows.n / _unit(design.persons)) ** 2
    found = 0.0
    for j, error in errors.items():
        left = error**2 - float(sampling[j]) * variance
        if left <= 0:
            raise InvalidInput(
                f"coefficient {j} cannot have the standard error {error:g}: without privacy noise "
                f"it is {math.sqrt(sampling[j] * variance):.4g}."
            )
        found = max(found, sure * float(noise[j]) / left)
    return found


def planned_errors(
    design: SumDesign,
    own: Split,
    variance: float | None,
    correlation: float | None = None,
    level: float | None = None,
) -> tuple[Array, Array, Array | None]:
    """Standard errors by noise, and with residuals (NaN: σ² unknown); rel_j of the squares.

    correlation  of any two residuals of a person; None: they may depend in any way.
    level        c₁ of other sums, beside the same squares.
    """
    noise = noise_variance(design, own, level)
    sampling = design.planned_sampling(correlation)
    total = noise + sampling * (math.nan if variance is None else variance)
    relative = None
    if own.kind != "none":
        relative = noise_of_squares(design, squares_scale(design, own)) / total
    return np.sqrt(noise), np.sqrt(total), relative


def noise_variance(design: SumDesign, own: Split, level: float | None = None) -> Array:
    """b_j/c₁, and at most a quarter of a step squared for each rounded value."""
    return design.noise / (level or own.level) + design.sampling * own.step**2 / 4


def sum_covariance(cross: Array, gram: Array, level: float, variance: Array) -> Array:
    """(n, n) of θ̂ with these variances; exact where all residuals have one variance."""
    inverse = np.linalg.inv(cross)
    noise, shape = inverse @ inverse.T / level, inverse @ gram @ inverse.T
    own = np.sqrt(np.maximum(variance - np.diagonal(noise), 0.0) / np.diagonal(shape))
    found = noise + shape * own * own[:, None]
    np.fill_diagonal(found, variance)
    return np.asarray(found)


def noise_of_squares(design: SumDesign, scale: float | Array) -> Array:
    return np.asarray(design.inflation * design.noise / scale)


def squares_scale(design: SumDesign, own: Split, M: float = 0.75) -> float:
    """k of t = k·Σ q_i ρ_i + e, where the fitted means are M of the width from an end.

    Persons: t = k·Σ u_P u_Pᵀ + e with k²·2r⁴ the reserved μ², r = M of the width.
    """
    steps = own.range.steps
    if own.kind == "persons":
        assert own.reserve is not None
        times = 2 if design.rows.n > 1 else 1
        radius = M * steps * own.step
        return math.sqrt(float(own.reserve.amounts["mu2"]) / times) / radius**2
    reach = np.array([steps if own.kind == "free" else 2 * M * steps])
    return math.sqrt(float(own.curve(reach)[0])) / (design.peak * own.step**2)
