"""Heteroscedasticity-robust errors: sandwiches with leverages, from blocks of rows.

    θ̂ = A·HᵀWz ,  A = (HᵀWH)⁻¹ ,  e = z − Hθ̂ ,  l_k = w_kh_kᵀAh_k
    cov = A·(Σ_k w_k²u_k²h_kh_kᵀ)·A ,   u_k = e_k/(1 − l_k)^{p/2} ,   p = 1: HC2,  p = 2: HC3

With b_k = w_k(Ah_k)_ju_k the degrees of freedom are the least of K − n, 3(Σb²)²/Σb⁴ and Bell and
McCaffrey's (CR2 with groups of one); the quantile is at least t_{K−n} + 2|γ|,
γ = Σb³/(Σb²)^{3/2}. Coverage of 95%: .94 to .975 (t_{K−n}: .87 to .91).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from privest.arrays import CONFIDENCE, Array, as_choice
from privest.errors import InvalidInput
from privest.estimator.inference._errors import Errors, Scatter, freedom_of, unknown_errors
from privest.linalg.tolerances import TAKES_PART, condition, rounding
from privest.records import Record, quantile, standard_errors

POWERS = {"HC2": 1.0, "HC3": 2.0}
ALONE = 1e-8  # a row with 1 − l_k below this determines a coefficient by itself: e_k is rounding
SKEWED = 2.0  # by how many times γ a quantile is larger
CHUNK = 4096  # rows looked at together
FEW = 30  # rows that decide a coefficient: below it Bell-McCaffrey's degrees of freedom are counted


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows H (r, n), z (r,), weights w > 0 and variances of the privacy noise: numbers or (r,)."""

    H: Array
    z: Array
    weight: Array | float = 1.0
    added: Array | float = 0.0


Rows = Callable[[], Iterable[WeightedRows]]


@dataclass(frozen=True, eq=False, kw_only=True)
class SecondPass(Record):
    """Sums over the rows once θ̂ and A are known.

    meat      the matrix between the two A;  `known`: A·(Σ w_k²·added_k·h_kh_kᵀ)·A.
    leverage  the largest l_k.
    deciding  (n,): how many rows decide a coefficient, (Σc_k²)²/Σc_k⁴ with c_k = √w_k(Ah_k)_j.
    powers    (3, n): Σb², Σb³, Σb⁴, in units of √A_jj.
    """

    meat: Array
    known: Array
    leverage: float
    deciding: Array
    powers: Array
    rows: int

    @property
    def alone(self) -> bool:
        """Whether some row determines a coefficient by itself: no sandwich exists then."""
        return self.leverage > 1 - ALONE


def second_pass(
    blocks: Iterable[WeightedRows], estimate: Array, inverse: Array, kind: str = "HC3"
) -> SecondPass:
    """Leverages and residuals of every row, in one pass; memory of a block."""
    n = len(estimate)
    root = np.linalg.cholesky(inverse)
    meat, noise, powers = np.zeros((n, n)), np.zeros((n, n)), np.zeros((3, n))
    largest, rows = 0.0, 0
    influence, scaled = np.zeros((2, n)), (root / standard_errors(inverse)[:, None]).T
    for part in blocks:
        if not len(part.z):
            continue
        weight = np.broadcast_to(np.asarray(part.weight, float), part.z.shape)
        left = part.z - part.H @ estimate
        turned = part.H @ root
        leverage = weight * np.einsum("ij,ij->i", turned, turned)
        largest = max(largest, float(leverage.max()))
        own = turned @ scaled  # c_k/√A_jj, but for w_k
        shares = weight[:, None] * own**2
        influence += shares.sum(axis=0), np.einsum("ij,ij->j", shares, shares)
        rows += len(left)
        noise += part.H.T @ (part.H * (weight**2 * part.added)[:, None])
        if largest <= 1 - ALONE:
            size = weight * left / (1 - leverage) ** (POWERS[kind] / 2)
            scores = part.H * size[:, None]
            meat += scores.T @ scores
            own = own * size[:, None]
            square = own**2  # powers by products: NumPy's x**3 is slow
            powers += [np.einsum("ij,ij->j", one, own) for one in (own, square, square * own)]
    return SecondPass(
        meat=meat,
        known=inverse @ noise @ inverse,
        leverage=largest,
        deciding=influence[0] ** 2 / influence[1],
        powers=powers,
        rows=rows,
    )


def _freedom(inverse: Array, seen: SecondPass, rows: Rows) -> Array:
    most = np.full(len(inverse), float(seen.rows - len(inverse)))
    bell = seen.deciding - 1
    if (seen.deciding < FEW).any():
        bell = row_clusters(rows(), np.zeros(len(inverse)), inverse)[1]
    second, third, fourth = seen.powers
    with np.errstate(divide="ignore", invalid="ignore"):  # no residual at all: nothing is skewed
        shown = np.nan_to_num(3 * second**2 / fourth, nan=np.inf)
        skewness = np.nan_to_num(np.abs(third) / second**1.5)
    least = np.minimum(np.minimum(bell, shown), most)
    wide = np.maximum(quantile(CONFIDENCE, least), quantile(CONFIDENCE, most) + SKEWED * skewness)
    return np.asarray(np.minimum(freedom_of(wide, most), most))


def row_clusters(
    blocks: Iterable[WeightedRows], estimate: Array, inverse: Array
) -> tuple[Array, Array]:
    """HC2 covariance and Bell-McCaffrey degrees of freedom: CR2 with every row a group of its own.

    With A = CCᵀ, c = √w·Cᵀh, l = |c|² and α_j = (Cc)_j²/(1 − l) of each row

        df_j = (Σα_j(1 − l))²/(Σα_j²(1 − 2l) + ‖Σα_jccᵀ‖²) .

    A coefficient that a row with l = 1 takes part in has NaN: no other row shows it.
    """
    n, root = len(inverse), np.linalg.cholesky(inverse)
    unit = root / np.linalg.norm(root, axis=1)[:, None]
    null = max(TAKES_PART, 10 * rounding(n) * condition(inverse))
    meat, outer, alone = np.zeros((n, n)), np.zeros((n, n, n)), np.zeros(n)
    trace, squares = np.zeros(n), np.zeros(n)
    for part in blocks:
        size = np.sqrt(np.broadcast_to(np.asarray(part.weight, float), part.z.shape))
        left = size * (part.z - part.H @ estimate)
        for at in range(0, len(left), CHUNK):
            rows = slice(at, at + CHUNK)
            c = size[rows, None] * (part.H[rows] @ root)
            leverage = np.einsum("ki,ki->k", c, c)
            own = c @ unit.T
            only = 1 - leverage < null
            if only.any():
                alone = np.maximum(alone, np.abs(own[only]).max(axis=0))
            rest = np.where(only, np.inf, 1 - leverage)[:, None]
            alpha = own**2 / rest
            meat += c.T @ (c * left[rows, None] ** 2 / rest)
            trace += (alpha * (1 - leverage)[:, None]).sum(axis=0)
            squares += (alpha**2 * (1 - 2 * leverage)[:, None]).sum(axis=0)
            outer += np.einsum("kj,ka,kb->jab", alpha, c, c, optimize=True)
    refused = alone > null
    covariance = root @ meat @ root.T
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = trace**2 / (squares + np.einsum("jab,jab->j", outer, outer))
    covariance[refused], covariance[:, refused], freedom[refused] = np.nan, np.nan, np.nan
    return covariance, freedom


# --- which errors are taken where nobody says: those that cover at this number of rows ------------


CHOICES = ("auto", "t", "HC3", "HC2")
ENOUGH = 25  # degrees of freedom from which HC3 covers; below it t is exact for equal variances


def row_errors(
    how: str, estimate: Array, inverse: Array, rows: Rows, scatter: Scatter | None = None
) -> tuple[Errors, SecondPass | None]:
    """Errors of weighted least squares on independent rows, A = (HᵀWH)⁻¹; and the second pass.

    "auto" is HC3. `scatter`, of least squares at one level without weights: Student's t below 25
    degrees of freedom, and where a row stands alone. Elsewhere HC2, coefficients of such a row NaN.
    """
    as_choice(how, ("auto", *(("t",) if scatter else ()), *POWERS), "errors")
    if scatter and (how == "t" or (how == "auto" and scatter.freedom < ENOUGH)):
        return unknown_errors(inverse, scatter), None
    kind = "HC3" if how == "auto" else how
    seen = second_pass(rows(), estimate, inverse, kind)
    if how == "auto" and seen.alone:
        if scatter:
            return unknown_errors(inverse, scatter), seen
        found = row_clusters(rows(), estimate, inverse)
        return Errors.above(seen.known, *found, "HC2, Bell-McCaffrey"), seen
    if seen.alone:
        raise InvalidInput(
            "one row alone determines a coefficient (a category with one row?): what it scatters "
            f"cannot be seen, and {kind} does not exist. Leave that feature out, join the category "
            "to another, or ask for other errors."
        )
    covariance = inverse @ seen.meat @ inverse
    return Errors.above(seen.known, covariance, _freedom(inverse, seen, rows), kind), seen
