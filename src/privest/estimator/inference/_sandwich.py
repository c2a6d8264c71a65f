"""Errors that hold when rows scatter differently: sandwiches with leverages, from blocks of rows.

    θ̂ = A·HᵀWz ,  A = (HᵀWH)⁻¹ ,  e = z − Hθ̂ ,  l_k = w_k h_kᵀAh_k
    cov = A·(Σ_k w_k² u_k² h_kh_kᵀ)·A ,   u_k = e_k/(1 − l_k)^{p/2} ,   p = 1: HC2,  p = 2: HC3

w = 1 without weights; survey weights, which say how many others a row stands for; 1/(σ² + 1/s_k) of
rows with levels of their own; and for families rows are whitened first. With b_k = w_k(Ah_k)_j u_k,
what row k adds to coefficient j, the degrees of freedom of Student's t are the least of K − n,
3(Σb²)²/Σb⁴ (Satterthwaite's, with the fourth moments of the release) and those of Bell and
McCaffrey; and the quantile is at least t_{K−n} + 2|γ|, γ = Σb³/(Σb²)^{3/2}, Johnson's (1978)
correction for skewness, (1 + 2t²)/6 = 1.45, and more because a sample shows less skewness than
there is.

Coverage of 95 %: variances equal .955 to .975, growing with |x| .95 to .97; lognormal x with
variance ∝ x .95 to .97 (t_{K−n}: .87 to .91); lognormal errors, K = 50, intercept .94 (.89).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from privest.arrays import CONFIDENCE, Array, as_choice
from privest.errors import InvalidInput
from privest.estimator.inference._cluster import ClusterErrors, ClusterSums
from privest.estimator.inference._errors import Errors, Scatter, freedom_of, unknown_errors
from privest.records import Record, quantile, standard_errors

POWERS = {"HC2": 1.0, "HC3": 2.0}
ALONE = 1e-8  # a row with 1 − l_k below this determines a coefficient by itself: e_k is rounding
SKEWED = 2.0  # by how many times γ a quantile is larger
CHUNK = 4096  # rows looked at together
FEW = 30  # rows that decide a coefficient: below it Bell-McCaffrey's degrees of freedom are counted


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows H (r, n), z (r,), weights w > 0 and variances of the release noise: numbers or (r,)."""

    H: Array
    z: Array
    weight: Array | float = 1.0
    added: Array | float = 0.0


Rows = Callable[[], Iterable[WeightedRows]]


@dataclass(frozen=True, eq=False, kw_only=True)
class SecondPass(Record):
    """What a second look at the rows gives, once θ̂ and A are known.

    meat      the matrix between the two A; without meaning where a row stands alone.
    known     A·(Σ w_k²·added_k·h_kh_kᵀ)·A: the covariance of θ̂ by the release noise.
    moments   Σe², Σe⁴ of the residuals.
    leverage  the largest l_k.
    deciding  (n,): how many rows decide a coefficient, (Σc_k²)²/Σc_k⁴ with c_k = √w_k(Ah_k)_j: K
              of a mean of K rows, m of a category that m of many rows have.
    powers    (3, n): Σb², Σb³, Σb⁴ of what rows add to a coefficient, in units of √A_jj.
    rows      K.
    """

    meat: Array
    known: Array
    moments: tuple[float, float]
    leverage: float
    deciding: Array
    powers: Array
    rows: int

    @property
    def alone(self) -> bool:
        """Whether some row determines a coefficient by itself: sandwiches are not defined then."""
        return self.leverage > 1 - ALONE


def second_pass(
    blocks: Iterable[WeightedRows], estimate: Array, inverse: Array, kind: str = "HC3"
) -> SecondPass:
    """Leverages and residuals of every row, in one pass; memory of a block."""
    n = len(estimate)
    root = np.linalg.cholesky(inverse)
    meat, noise, powers = np.zeros((n, n)), np.zeros((n, n)), np.zeros((3, n))
    second, fourth, largest, rows = 0.0, 0.0, 0.0, 0
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
        squares = left**2
        second, fourth = second + float(squares.sum()), fourth + float(squares @ squares)
        rows += len(left)
        noise += part.H.T @ (part.H * (weight**2 * part.added)[:, None])
        if largest <= 1 - ALONE:
            size = weight * left / (1 - leverage) ** (POWERS[kind] / 2)
            scores = part.H * size[:, None]
            meat += scores.T @ scores
            own = own * size[:, None]
            powers += [(own**power).sum(axis=0) for power in (2, 3, 4)]
    return SecondPass(
        meat=meat,
        known=inverse @ noise @ inverse,
        moments=(second, fourth),
        leverage=largest,
        deciding=influence[0] ** 2 / influence[1],
        powers=powers,
        rows=rows,
    )


def sandwich_errors(kind: str, inverse: Array, seen: SecondPass, rows: Rows) -> Errors:
    """HC2 or HC3 with Student's t, not below the known release noise. `rows`: where few decide."""
    if seen.alone:
        raise InvalidInput(
            "one row alone determines a coefficient (a category with one row?): what it scatters "
            f"cannot be seen, and {kind} does not exist. Leave that feature out, join the category "
            "to another, or ask for other errors."
        )
    covariance = inverse @ seen.meat @ inverse
    return Errors.above(seen.known, covariance, _freedom(inverse, seen, rows), kind)


def _freedom(inverse: Array, seen: SecondPass, rows: Rows) -> Array:
    """Of Student's t, (n,): see the module."""
    most = np.full(len(inverse), float(seen.rows - len(inverse)))
    few = seen.deciding < FEW
    bell = row_freedom(rows(), inverse) if few.any() else seen.deciding - 1
    second, third, fourth = seen.powers
    with np.errstate(divide="ignore", invalid="ignore"):  # no residual at all: nothing is skewed
        shown = np.nan_to_num(3 * second**2 / fourth, nan=np.inf)
        skewness = np.nan_to_num(np.abs(third) / second**1.5)
    least = np.minimum(np.minimum(bell, shown), most)
    wide = np.maximum(quantile(CONFIDENCE, least), quantile(CONFIDENCE, most) + SKEWED * skewness)
    return np.asarray(np.minimum(freedom_of(wide, most), most))


def row_freedom(blocks: Iterable[WeightedRows], inverse: Array) -> Array:
    """Bell-McCaffrey degrees of freedom of HC2, (n,), one a coefficient.

    With rows x_k = √w_k·h_k and d_k = x_kᵀAe_j/√(1 − l_k) they are (tr B)²/tr B² of the matrix
    B_pq = d_p d_q (δ_pq − x_pᵀAx_q), which is not made: tr B = Σ d_k²(1 − l_k) and
    tr B² = Σ d_k⁴(1 − 2l_k) + tr ASAS, S = Σ d_k²x_kx_kᵀ. Of a category with m rows: m − 1.

    One pass, O(K n³) time, memory of a block and of n³ numbers. No row may stand alone: its d_k
    does not exist (`SecondPass.alone`).
    """
    scale = standard_errors(inverse)  # in units of which A has ones: d⁴ is far from underflow
    unit = inverse / scale / scale[:, None]
    n = len(unit)
    trace, squares, spread = np.zeros(n), np.zeros(n), np.zeros((n, n, n))
    for X in _whitened(blocks, scale):
        plain = X @ unit
        leverage = np.einsum("ij,ij->i", plain, X)
        part = plain.T**2 / (1 - leverage)  # d_k², a row of them for every coefficient
        trace += part @ (1 - leverage)
        squares += part**2 @ (1 - 2 * leverage)
        for j in range(n):
            spread[j] += X.T @ (X * part[j][:, None])
    turned = unit @ spread
    return np.asarray(trace**2 / (squares + np.einsum("jab,jba->j", turned, turned)))


def _whitened(blocks: Iterable[WeightedRows], scale: Array) -> Iterator[Array]:
    """Rows √w_k·h_k, in units of `scale`."""
    for part in blocks:
        size = np.sqrt(np.broadcast_to(np.asarray(part.weight, float), part.z.shape))
        for at in range(0, len(part.z), CHUNK):
            piece = slice(at, at + CHUNK)
            yield part.H[piece] * scale * size[piece, None]


def row_clusters(blocks: Iterable[WeightedRows], estimate: Array, inverse: Array) -> ClusterErrors:
    """HC2 with the degrees of freedom of Bell and McCaffrey: CR2 with every row a group of its own.

    Where a row stands alone: its coefficients are refused, and only they.
    """
    sums = ClusterSums(np.linalg.inv(inverse))
    for part in blocks:
        weight = np.broadcast_to(np.asarray(part.weight, float), part.z.shape)
        scores = part.H * (weight * (part.z - part.H @ estimate))[:, None]
        sums.add(np.einsum("k,ki,kj->kij", weight, part.H, part.H), scores)
    return sums.errors()


# --- which errors are taken where nobody says: those that cover at this number of rows  -----------


CHOICES = ("auto", "t", "HC3", "HC2", "stated", "huber")
ENOUGH = 25  # degrees of freedom from which HC3 covers; below it t is exact for equal variances


def row_errors(
    how: str, estimate: Array, inverse: Array, rows: Rows, scatter: Scatter | None = None
) -> tuple[Errors, SecondPass | None]:
    """Errors of weighted least squares on independent rows, A = (HᵀWH)⁻¹ = `inverse`.

    "auto" is HC3, which holds whatever the variances of the rows are. scatter: of least squares
    without weights at one level, where Student's t is exact if the variances are equal: then it is
    taken below 25 degrees of freedom, and where a row stands alone. Elsewhere such a row has its
    coefficients refused (NaN). Also returned is what the second look at the rows saw.
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
        freedom = found.degrees_of_freedom
        return Errors.above(seen.known, found.covariance, freedom, "HC2, Bell-McCaffrey"), seen
    return sandwich_errors(kind, inverse, seen, rows), seen
