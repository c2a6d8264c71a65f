"""The promise and the errors of a release of sums, from public rows alone.

    z = √c₁·Σ ℓ_i y_i + e ,   θ̂ = B⁻¹z/√c₁ ,   var θ̂_j = b_j/c₁ + a_j·σ²

b_j = ‖β_j‖², a_j = Σ_i (β_jᵀℓ_i)², β_j the rows of B⁻¹. A second release, of squared residuals
weighted by q_ij = (β_jᵀℓ_i)²/b_j, shows a_j·σ² with its heteroscedasticity (`privest.aggregate`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
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
from privest.arrays import Array, Index
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.privacy import Range
from privest.release import extra_variance

NOISE = 1.0 + extra_variance(GRID)  # variance of a released sum, in units of its noise
FOR_SQUARES = 0.15  # share of μ² for the squares under ε
FOR_SQUARES_OF_LEVEL = 0.3  # share of c under an exposure
FREE_SQUARES = 0.8325  # where H is saturated: .8325² ≤ ((1+√5)/2)⁵/16
NARROW = 0.2  # a_j·R²c/4 ≤ .2·b_j: without squares intervals are at most 10 % wider
NARROWEST, WIDEST = 1e-40, 1e40  # widths of a range beyond which squares leave the doubles
SAFE = 0.999  # covers the grid of d in `kappa`, and the rounding of squares
STEPS, POINTS = 256, 10_000  # of M between ½ and 1, and of d between 0 and 1


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


def _weighted(
    rows: FeatureRows,
    weights: RowWeights,
    persons: RowPersons | None,
    made: Callable[..., Any],
    values: Iterable[Array] | None = None,
) -> Iterator[Any]:
    if persons is None:
        return rows.map(lambda X, *y: made(X, weights.of(X), *y), values)
    counts = (persons.rows[own][:, None] for own in persons.numbers)
    blocks = zip(rows, counts, *(() if values is None else (values,)), strict=True)
    return (made(X * m, weights.of(X) / m, *y) for X, m, *y in blocks)


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


# --- the promise, divided -------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """How a promise is divided between sums and squares.

    level     c₁: Fisher information of z about one value.
    share     ω of the squares; 0: they are not released, or cost nothing.
    kind      of squares: "none"; "squares" of residuals; "free", of values, where H is saturated;
              "persons", of the sums of each person.
    mu        of both without the grid; None: the promise is an exposure.
    exposure  the most Fisher information of both about one value.
    stated    μ of both with the grid, over the range.
    pilot     c₀ of an earlier release of sums, counted in the last two; 0: none.
    """

    level: float
    share: float
    kind: str
    mu: float | None
    exposure: float
    stated: float
    pilot: float = 0.0


def kind_of(
    design: SumDesign, limits: Range, *, mu: float | None = None, level: float | None = None
) -> str:
    """Which squares a release with this promise needs: none where the range does as well."""
    alone = split("none", design.rows.n, limits, mu=mu, level=level)
    widest = design.largest_sampling * limits.width**2 * alone.level / 4
    if (widest <= NARROW * design.noise).all():
        return "none"
    if design.persons is not None:
        return "persons"
    return "free" if design.saturated and mu is not None else "squares"


def split(
    kind: str, n: int, limits: Range, *, mu: float | None = None, level: float | None = None
) -> Split:
    """c₁ and ω for a promised μ over the range, or for an exposure c; of n coefficients."""
    steps = math.sqrt(_numbers(kind, n)) * GRID
    width = _width(limits)
    if not NARROWEST < width < WIDEST:
        raise InvalidInput(
            f"a range of width {width:g} is too narrow or too wide for sums: use other units."
        )
    if mu is None:
        assert level is not None
        return _split_exposure(kind, limits, level, steps)
    left = mu - steps
    if left <= 0:
        raise InvalidInput(
            f"this ε is too small for {n} sums on the grid: take a larger ε, or fewer coefficients."
        )
    c = (left / width) ** 2
    if kind == "none":
        return Split(c, 0.0, kind, left, c, mu)
    if kind == "free":
        return Split(c, 0.0, kind, left, c * (1 + 16 * FREE_SQUARES**2), mu)
    own = (1 - FOR_SQUARES) * c
    if kind == "persons":
        # Information of the squares about a person: 4k²r² ≤ 2·ωμ²/r², and r is at least R/2.
        more = (8 if n > 1 else 16) * FOR_SQUARES
    else:
        M = np.linspace(0.5, 1.0, STEPS + 1)
        more = float((4 * (kappa(M, FOR_SQUARES) * M) ** 2).max())
    return Split(own, FOR_SQUARES, kind, left, own + more * c, mu)


def mu_apart(own: Split, n: int, limits: Range, apart: float) -> float:
    """An upper bound on μ of both releases for two values at most so far apart, with the grid.

    Sums move by √c₁·d; squares by at most k‖q‖·d·(2M·R − d), at the worst M and d.
    """
    width = _width(limits)
    u = np.linspace(0.0, min(apart / width, 1.0), POINTS // 10 + 1)
    moved = own.level * (u * width) ** 2
    if own.kind == "persons":
        moved += own.share * (own.mu or 0.0) ** 2
    elif own.kind == "free":
        moved += 16 * FREE_SQUARES**2 * (own.mu or 0.0) ** 2 * (u * (1 - u)) ** 2
    elif own.kind == "squares" and own.mu is None:
        moved += own.share * own.exposure * (u * width * (1 - u / 2)) ** 2
    elif own.kind == "squares" and own.mu is not None:
        M = np.linspace(0.5, 1.0, STEPS + 1)[:, None]
        moved += (own.mu * u) ** 2 * ((kappa(M, own.share) * (2 * M - u)) ** 2).max(axis=0)
    largest = math.sqrt(float(moved.max())) + math.sqrt(_numbers(own.kind, n)) * GRID
    if own.pilot:
        largest = math.hypot(largest, math.sqrt(own.pilot) * apart + math.sqrt(n) * GRID)
    return min(own.stated, largest)


def _numbers(kind: str, n: int) -> int:
    return n + {"none": 0, "persons": n * (n + 1) // 2}.get(kind, n)


def _split_exposure(kind: str, limits: Range, level: float, steps: float) -> Split:
    """Two values d·R apart: sums move by √c₁·R·d, squares by at most √(ωc)·R·d·(1 − d/2M)."""
    if kind == "persons":
        raise InvalidInput(
            "sums of persons with several rows are planned by ε: state epsilon, not a level."
        )
    share = 0.0 if kind == "none" else FOR_SQUARES_OF_LEVEL
    own = (1 - share) * level
    d = np.linspace(0.0, 1.0, POINTS + 1)
    moved = d**2 * (own + share * level * (1 - d / 2) ** 2)
    continuous = _width(limits) * math.sqrt(float(moved.max()) * (1 + 4 / POINTS))
    return Split(own, share, kind, None, level, continuous + steps)


def level_for_errors(design: SumDesign, variance: float, errors: dict[int, float]) -> float:
    """The least c₁ at which all of these standard errors are met: b_j/(e_j² − a_jσ²)."""
    noise, sampling = design.noise, design.sampling
    found = 0.0
    for j, error in errors.items():
        left = error**2 - float(sampling[j]) * variance
        if left <= 0:
            raise InvalidInput(
                f"coefficient {j} cannot have the standard error {error:g}: without privacy noise "
                f"it is {math.sqrt(sampling[j] * variance):.4g}."
            )
        found = max(found, NOISE * float(noise[j]) / left)
    return found


def planned_errors(
    design: SumDesign,
    own: Split,
    limits: Range,
    variance: float | None,
    correlation: float | None = None,
) -> tuple[Array, Array, Array | None]:
    """Standard errors by noise, and with residuals (NaN: σ² unknown); rel_j of the squares.

    correlation  of any two residuals of a person; None: they may depend in any way.
    """
    noise = NOISE * design.noise / own.level
    sampling = design.planned_sampling(correlation)
    total = noise + sampling * (math.nan if variance is None else variance)
    relative = None
    if own.kind != "none":
        relative = noise_of_squares(design, own, squares_scale(design, own, limits)) / total
    return np.sqrt(noise), np.sqrt(total), relative


def sum_covariance(cross: Array, gram: Array, level: float, variance: Array) -> Array:
    """(n, n) of θ̂ with these variances; exact where all residuals have one variance."""
    inverse = np.linalg.inv(cross)
    noise, shape = inverse @ inverse.T / level, inverse @ gram @ inverse.T
    own = np.sqrt(np.maximum(variance - np.diagonal(noise), 0.0) / np.diagonal(shape))
    found = noise + shape * own * own[:, None]
    np.fill_diagonal(found, variance)
    return np.asarray(found)


def noise_of_squares(design: SumDesign, own: Split, scale: float) -> Array:
    return design.inflation * design.noise / scale


def squares_scale(design: SumDesign, own: Split, limits: Range, M: float = 0.75) -> float:
    """k of t = k·Σ q_i ρ_i + e, where the fitted means are at M."""
    width, largest = _width(limits), design.peak
    if own.kind == "persons":
        return person_scale(own, design.rows.n, width * M)
    if own.kind == "free":
        assert own.mu is not None
        return FREE_SQUARES * 4 * own.mu / (width**2 * largest)
    if own.mu is None:
        return SAFE * math.sqrt(own.share * own.exposure) / (2 * width * M * largest)
    return SAFE * own.mu / width**2 * float(kappa(np.array(M), own.share)) / largest


def person_scale(own: Split, n: int, reach: float) -> float:
    """k of the squares of persons with ‖u_P‖ ≤ r: k‖A − B‖ ≤ √ω·μ, A, B ≥ 0."""
    assert own.mu is not None
    return SAFE / (1 + n**2 * 2.0**-52) * math.sqrt(own.share / min(n, 2)) * own.mu / reach**2


def _width(limits: Range) -> float:
    return math.nextafter(limits.width, math.inf)


def kappa(M: Array, share: float) -> Array:
    """κ(M): the largest scale of squares beside sums with the share 1 − ω of μ², times R²/μ.

    κ² = min over 0 < d ≤ 1 of (1 − (1−ω)d²)/(d²(2M−d)²): two values d·R apart, M = ½ + |m −
    middle|/R at the fitted mean m.
    """
    place = np.ceil(np.clip((np.asarray(M) - 0.5) * 2, 0, 1) * STEPS).astype(int)
    return np.asarray(_kappas(share)[place])


@cache
def _kappas(share: float) -> Array:
    d = np.linspace(0.0, 1.0, POINTS + 1)[1:]
    above = 1 - (1 - share) * d**2
    with np.errstate(divide="ignore"):
        least = [(above / (d * (2 * M - d)) ** 2).min() for M in np.linspace(0.5, 1.0, STEPS + 1)]
    return np.sqrt(least)
