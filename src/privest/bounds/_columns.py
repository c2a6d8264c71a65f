"""Several private columns of one record: the best split of one budget, and what columns tell of
each other.

A record y ∈ R^q is released at a level S (q, q). With the same features for all columns least
squares column by column is efficient whatever S and the covariance Σ of the columns are, and

    cov vec B̂ = (Σ + S⁻¹) ⊗ (HᵀH)⁻¹ ,

so that the best S for a loss tr(Ω cov) depends on Ω and the budget alone, not on Σ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_positive
from privest.errors import InvalidInput
from privest.linalg import psd
from privest.privacy import PrivacyLevel
from privest.records import Record

LEAST = 1e-50  # of u, b and ω; 1/LEAST is the most: levels, 1e-300 to 1e200, are then numbers


@dataclass(frozen=True, eq=False)
class ColumnSplit(Record):
    """The level S of a record that loses least under Σ_j u_j²S_jj ≤ b.

    budget  b, `units` u.
    level   S: (q,) where it is a diagonal, else (q, q). A zero: that column is never shown.
    loss    tr ΩS⁻¹ = (tr (UΩU)^½)²/b: what privacy adds to tr ΩV, V the covariance of one row.
    """

    budget: float
    units: Array
    level: Array
    loss: float


def split_budget(budget: float, units: ArrayLike, weight: ArrayLike | None = None) -> ColumnSplit:
    """The split of one budget over the columns of a record that loses least.

        minimise tr ΩS⁻¹  over  Σ_j u_j²S_jj ≤ b :   USU = b (UΩU)^½ / tr (UΩU)^½ ,
        for a diagonal Ω:   S_jj = b√ω_j / (u_j Σ_i u_i√ω_i) .

    Symbols: `budget` b > 0; `units` u_j > 0, the range or the tolerance of column j, in its units;
    `weight` Ω, a vector (its diagonal) or a matrix (q, q), PSD. Without it errors count in these
    units, ω_j = 1/u_j², and every column has the same part: S_jj = b/(q u_j²).
    With u_j the most that column j can move, b is μ² of differential privacy for replacing the
    whole record (`privacy.OneRecord`).
    Source: Lagrange; tr ΩS⁻¹ is convex in S.

    >>> split_budget(4.0, [1.0, 10.0]).level.tolist()  # half of it for each: 2 and 2/100
    [2.0, 0.02]
    >>> split_budget(9.0, [1.0, 2.0], weight=[1.0, 1.0]).level.round(12).tolist()
    [3.0, 1.5]
    """
    b, u = as_positive(budget, "the budget"), as_units(units)
    _require_numbers(np.array([b, *u]), "the budget and the units of the columns")
    if weight is None:
        return ColumnSplit(b, u, b / (len(u) * u * u), float(len(u) ** 2 / b))
    omega = as_array(weight, "the weight", ndim=(1, 2))
    _require_numbers(omega if omega.ndim == 1 else np.diagonal(omega), "the weight")
    if omega.ndim == 2:
        return _of_matrix(b, u, omega)
    if omega.shape != u.shape or (omega < 0).any() or not omega.any():
        raise InvalidInput(
            f"the weight of {len(u)} columns is one number ≥ 0 for each, not all of them 0; "
            f"received shape {omega.shape}."
        )
    parts = u * np.sqrt(omega)
    return ColumnSplit(b, u, b * (parts / parts.sum()) / (u * u), float(parts.sum() ** 2 / b))


def _of_matrix(b: float, u: Array, omega: Array) -> ColumnSplit:
    scaled = psd(omega, "the weight", size=len(u)).dense() * u * u[:, None]
    values, vectors = np.linalg.eigh(scaled)
    roots = np.sqrt(np.maximum(values, 0.0))  # checked PSD: negatives are rounding
    if not roots.any():
        raise InvalidInput("the weight is zero: nothing is asked for.")
    level = (vectors * (b * roots / roots.sum())) @ vectors.T / u / u[:, None]
    return ColumnSplit(b, u, (level + level.T) / 2, float(roots.sum() ** 2 / b))


def informed_errors(covariance: ArrayLike, level: ArrayLike) -> Array:
    """√[(Σ⁻¹ + S)⁻¹]_jj: how well one who knows Σ, and the mean of a record, knows each column of
    it after the release, through the other columns too.

    Symbols: Σ = `covariance` (q, q) of the columns given the features, PSD; S = `level`, a vector
    (a diagonal) or a matrix. Never more than 1/√(S_jj + 1/Σ_jj), which forgets the other columns.
    Numerics: as LC⁻¹Lᵀ with Σ = LLᵀ and C = I + LᵀSL ≥ I: a singular Σ does no harm.

    >>> informed_errors([[1.0, 0.0], [0.0, 1.0]], [1.0, 3.0]).round(12).tolist()
    [0.707106781187, 0.5]
    >>> round(float(1 / informed_errors(0.1 * np.eye(3) + 0.9, np.ones(3))[0] ** 2 - 1), 2)
    2.27
    """
    S = as_array(level, "the level of a record", ndim=(1, 2))
    q = len(S)
    matrix = psd(covariance, "the covariance of the columns", size=q)
    L = matrix.times_factor(np.eye(q))
    inner = np.eye(q) + L.T @ PrivacyLevel(S).dense() @ L
    half = np.linalg.solve(np.linalg.cholesky(inner), L.T)
    return np.asarray(np.sqrt((half * half).sum(axis=0)))


def as_units(units: ArrayLike) -> Array:
    """One unit > 0 a column."""
    found = as_array(units, "units of the columns", ndim=1)
    if not found.size or not (found > 0).all():
        raise InvalidInput("units of the columns are numbers > 0, one for each column.")
    return found


def _require_numbers(given: Array, name: str) -> None:
    sizes = np.abs(given[given != 0])
    if ((sizes < LEAST) | (sizes > 1 / LEAST)).any():
        raise InvalidInput(
            f"{name} must lie between {LEAST:g} and {1 / LEAST:g}, for levels that are numbers: "
            "choose other units."
        )
