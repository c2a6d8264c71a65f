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
from privest.errors import InvalidInput, NumericalFailure
from privest.estimator.inference._cluster import ClusterErrors, ClusterSums
from privest.estimator.inference._errors import (
    Errors,
    Scatter,
    freedom_of,
    unknown_errors,
    without_noise,
)
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
    moments   Σe², Σe⁴ of the residuals;  `leverage` the largest l_k.
    deciding  (n,): how many rows decide a coefficient, (Σc_k²)²/Σc_k⁴ with c_k = √w_k(Ah_k)_j.
    powers    (3, n): Σb², Σb³, Σb⁴, in units of √A_jj.
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
        """Whether some row determines a coefficient by itself: no sandwich exists then."""
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


def _freedom(inverse: Array, seen: SecondPass, rows: Rows) -> Array:
    most = np.full(len(inverse), float(seen.rows - len(inverse)))
    bell = seen.deciding - 1
    if (seen.deciding < FEW).any():
        bell = row_clusters(rows(), np.zeros(len(inverse)), inverse).degrees_of_freedom
    second, third, fourth = seen.powers
    with np.errstate(divide="ignore", invalid="ignore"):  # no residual at all: nothing is skewed
        shown = np.nan_to_num(3 * second**2 / fourth, nan=np.inf)
        skewness = np.nan_to_num(np.abs(third) / second**1.5)
    least = np.minimum(np.minimum(bell, shown), most)
    wide = np.maximum(quantile(CONFIDENCE, least), quantile(CONFIDENCE, most) + SKEWED * skewness)
    return np.asarray(np.minimum(freedom_of(wide, most), most))


def row_clusters(blocks: Iterable[WeightedRows], estimate: Array, inverse: Array) -> ClusterErrors:
    """HC2 with Bell-McCaffrey degrees of freedom: CR2 with every row a group of its own."""
    sums = ClusterSums(np.linalg.inv(inverse))
    for part in blocks:
        weight = np.broadcast_to(np.asarray(part.weight, float), part.z.shape)
        scores = part.H * (weight * (part.z - part.H @ estimate))[:, None]
        for at in range(0, len(scores), CHUNK):
            rows = part.H[at : at + CHUNK]
            shares = np.einsum("k,ki,kj->kij", weight[at : at + CHUNK], rows, rows)
            sums.add(shares, scores[at : at + CHUNK])
    return sums.errors()


# --- which errors are taken where nobody says: those that cover at this number of rows  -----------


CHOICES = ("auto", "t", "HC3", "HC2", "stated", "huber")
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
        freedom = found.degrees_of_freedom
        return Errors.above(seen.known, found.covariance, freedom, "HC2, Bell-McCaffrey"), seen
    if seen.alone:
        raise InvalidInput(
            "one row alone determines a coefficient (a category with one row?): what it scatters "
            f"cannot be seen, and {kind} does not exist. Leave that feature out, join the category "
            "to another, or ask for other errors."
        )
    covariance = inverse @ seen.meat @ inverse
    return Errors.above(seen.known, covariance, _freedom(inverse, seen, rows), kind), seen


# --- Huber's estimate ------------------------------------------------------------------------


TUNING = 1.345  # 95 % efficient for Gaussian values
NORMAL = 0.6744897501960817  # median of |N(0, 1)|
FINE, WIDE = 512, 400  # bins of log₂|e| in a factor of 2, and how many of these
MOST = 100  # passes; a dozen are enough
KNOWN = 2e-3  # of the scale, and of a standard error: what the bins leave open
SETTLED = 1e-7  # of a standard error: a smaller step is the last


@dataclass(frozen=True, eq=False)
class HuberFit(Record):
    """θ̂, its errors, and the share of the rows with weight below one."""

    value: Array
    errors: Errors
    downweighted: float

    def remark(self, variance: float, added: float) -> str:
        said = (
            f"{100 * self.downweighted:.2g} % of the rows count for less than one. Where readings "
            "are skewed the intercept of Huber's estimate is no mean, and depends on the level."
        )
        if variance >= 0.5 * added:
            return said
        return said + (
            " The noise of the release is more than twice what the readings scatter: wild ones are "
            "hidden in it, and least squares is about as good."
        )


def fit_huber(blocks: Rows, start: Array, inverse: Array, added: float) -> HuberFit:
    """Iterated weighted least squares, a pass a step, from least squares with A = `inverse`."""
    estimate, scale, held = start, _reweighted(blocks, start, np.inf)[1], False
    for passes in range(MOST):
        step, median = _reweighted(blocks, estimate, scale)
        size = scale * standard_errors(inverse)
        estimate = estimate + step
        if held and (np.abs(step) <= SETTLED * size).all():
            return _huber_fit(blocks, estimate, scale, inverse, added)
        if not held:  # from then on the problem is convex, and the steps shrink
            before, scale = scale, median
            near = (np.abs(step) <= KNOWN * size).all() and abs(scale / before - 1) < KNOWN
            held = bool(near) or passes > MOST // 2
    raise NumericalFailure(
        f"Huber's estimate did not settle in {MOST} passes: most readings may be equal. Take the "
        "estimate of least squares (without huber)."
    )


def _reweighted(blocks: Rows, estimate: Array, scale: float) -> tuple[Array, float]:
    """The next step of θ̂, and the scale median|e|/0.674 before it, by a histogram of log₂|e|."""
    n = len(estimate)
    gram, right, counts = np.zeros((n, n)), np.zeros(n), np.zeros(FINE * WIDE, dtype=np.intp)
    for part in blocks():
        left = part.z - part.H @ estimate
        weight = np.minimum(1.0, TUNING * scale / np.maximum(np.abs(left), 1e-300))
        gram += part.H.T @ (part.H * weight[:, None])
        right += part.H.T @ (weight * left)
        with np.errstate(divide="ignore"):
            place = np.floor(FINE * (np.log2(np.abs(left)) + WIDE / 2))
        inside = np.clip(np.nan_to_num(place, neginf=0.0), 0, FINE * WIDE - 1).astype(np.intp)
        counts += np.bincount(inside, minlength=len(counts))
    filled = np.flatnonzero(counts)
    below = np.cumsum(counts[filled])
    at = int(np.searchsorted(below, below[-1] / 2))
    place = filled[at]
    part = (below[-1] / 2 - (below[at] - counts[place])) / counts[place]
    median = float(2.0 ** ((place + part) / FINE - WIDE / 2))
    return np.linalg.solve(gram, right), median / NORMAL


def _huber_fit(
    blocks: Rows, estimate: Array, scale: float, inverse: Array, added: float
) -> HuberFit:
    squares, inside, rows, n = 0.0, 0, 0, len(estimate)
    for part in blocks():
        size = np.abs(part.z - part.H @ estimate) / scale
        squares += float((np.minimum(size, TUNING) ** 2).sum())
        inside, rows = inside + int((size <= TUNING).sum()), rows + len(size)
    mean = inside / rows
    kappa = 1 + (n / rows) * (1 - mean) / mean
    covariance = (kappa * scale / mean) ** 2 * squares / (rows - n) * inverse
    own = without_noise(covariance, added * inverse)
    errors = Errors(
        covariance=covariance,
        degrees_of_freedom=float(rows - n),
        floor=None,  # it counts noise for less too: least squares' floor is not its own
        sampling=own,
        classical=own,
        method="Huber's estimate, k = 1.345",
    )
    return HuberFit(estimate, errors, 1 - mean)
