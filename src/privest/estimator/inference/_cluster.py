"""Cluster-robust errors: rows correlated in any way within groups (persons, blocks of a stream).

    CR2 (Bell & McCaffrey 2002)   cov = A Σ s_gs_gᵀ A,  s_g = H_gᵀ(I − H_gAH_gᵀ)^{-½}(z_g − H_gθ̂)
    df_j = (tr B)²/tr B²,  B_pq = u_pᵀu_q,  u_p = (I − HAHᵀ)_{·p}(I − H_pAH_pᵀ)^{-½}H_pAe_j

from M_g = H_gᵀH_g and g_g = H_gᵀ(z_g − H_gθ̂). With A = (Σ M_g)⁻¹ = CCᵀ, N_g = CᵀM_gC,
a_g = (I − N_g)^{-½}Cᵀe_j, b_g = N_ga_g:

    s_g = C⁻ᵀ(I − N_g)^{-½}Cᵀg_g,   B_pq = δ_pq a_pᵀN_pa_p − b_pᵀb_q

O(Gn³) time, O(n³) memory. A coefficient along a null eigenvector of I − N_g (one group alone shows
it) gets NaN. HC2 is CR2 with groups of one row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Flags, as_array, as_count
from privest.errors import InvalidInput, NotIdentifiable
from privest.linalg.tolerances import TAKES_PART, condition, rank_tolerance, rounding
from privest.records import Record, standard_errors

BATCH = 4096  # groups at a time
COPIED = 64  # rows of a group up to which its transpose is written down
SMALL = 2.0**-6  # part of the information below which a group's root is a series of few terms


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterErrors(Record):
    """CR2 covariance (…, n, n), Bell-McCaffrey degrees of freedom (n,); `refused` (n,): NaN."""

    covariance: Array
    degrees_of_freedom: Array
    groups: int
    refused: Flags

    DERIVED: ClassVar[tuple[str, ...]] = ("standard_error",)

    @property
    def standard_error(self) -> Array:
        return standard_errors(self.covariance)

    def reason(self, names: Sequence[str], group: str = "group") -> str | None:
        """Why some coefficients have no interval; None where all have one."""
        alone = [name for name, refused in zip(names, self.refused, strict=True) if refused]
        if not alone:
            return None
        if self.groups == 1:
            return f"there is one {group} only: without a second there is nothing to compare with."
        return (
            f"a single {group} decides {', '.join(alone)}: no other shows it, and how much it "
            "would vary from one to the next cannot be seen; it has no interval. Leave it out, or "
            f"merge it with what more {group}s have."
        )


class ClusterSums:
    """CR2 errors of groups that come in batches; `freedom=False`: errors alone."""

    def __init__(self, information: ArrayLike, *, freedom: bool = True) -> None:
        total = as_array(information, "the information", ndim=2)
        n = len(total)
        if total.shape != (n, n) or not n:
            raise InvalidInput(f"the information must be square; received {total.shape}.")
        spread = condition(total)
        if not spread * rank_tolerance(n) < 1:
            raise NotIdentifiable(
                f"the {n} coefficients cannot be told apart from these rows: some feature is "
                "constant or a combination of others. Leave it out."
            )
        scale = np.sqrt(total.diagonal())
        upper = np.linalg.cholesky(total / scale / scale[:, None]).T
        # A = CCᵀ, C = D⁻¹R⁻¹ with the information DRᵀRD
        self.root: Array = scipy.linalg.solve_triangular(upper, np.eye(n)) / scale[:, None]
        self.groups, self.freedom = 0, freedom
        self._null = max(TAKES_PART, 10 * rounding(n) * spread)
        self._unit: Array = self.root / np.abs(self.root).max(axis=1)[:, None]
        self._trace: Array = np.zeros(n)  # tr B, one a coefficient
        self._squares: Array = np.zeros(n)  # Σ (α_p² − 2α_p|b_p|²)
        self._outer: Array = np.zeros((n, n, n))  # Σ b_p b_pᵀ
        self._alone: Array = np.zeros(n)  # largest part that a null direction has in a coefficient
        self._meat: Array | None = None

    def add(self, matrices: ArrayLike, scores: ArrayLike) -> None:
        """Groups by M_g (B, n, n) and g_g (B, n), or (trials, B, n)."""
        n = len(self.root)
        given = as_array(matrices, "matrices of groups", ndim=3)
        right = as_array(scores, "scores of groups", ndim=(2, 3))
        if given.shape[1:] != (n, n) or right.shape[-2:] != given.shape[:2]:
            raise InvalidInput(
                f"{n} coefficients need matrices (groups, {n}, {n}) and scores (groups, {n}); "
                f"received {given.shape} and {right.shape}."
            )
        for at in range(0, len(given), BATCH):
            part = given[at : at + BATCH]
            shares = self.root.T @ part @ self.root
            self._add(shares, right[..., at : at + BATCH, :] @ self.root)

    def add_turned(self, shares: Array, scores: Array) -> None:
        """Groups whose rows were multiplied by C: N_g (B, n, n) and Cᵀg_g (B, n)."""
        for at in range(0, len(shares), BATCH):
            self._add(shares[at : at + BATCH], scores[at : at + BATCH])

    def _add(self, shares: Array, scores: Array) -> None:
        n, several = len(self.root), scores.ndim > 2
        # a_g, one column a coefficient (its degrees of freedom do not depend on its units), and
        # (I − N_g)^{-½}Cᵀg_g next to it; for several trials the root itself
        right = np.empty((len(shares), n, 2 * n if several else n + 1))
        right[:, :, :n] = self._unit.T
        right[:, :, n:] = np.eye(n) if several else scores[..., None]
        rooted, null = self._rooted(shares, right)
        if len(null):
            towards = np.abs(null @ self._unit.T)  # |vᵀCᵀe_j|
            size = np.linalg.norm(self._unit, axis=1)
            self._alone = np.maximum(self._alone, (towards / size).max(axis=0))
        own, rest = rooted[:, :, :n], rooted[:, :, n:]
        turned = (rest @ scores[..., None] if several else rest)[..., 0]
        meat = np.swapaxes(turned, -1, -2) @ turned
        self._meat = meat if self._meat is None else self._meat + meat
        self.groups += len(shares)
        if not self.freedom:
            return
        seen = shares @ own  # b_g
        alpha = (own * seen).sum(axis=1)
        length = (seen * seen).sum(axis=1)
        self._trace += (alpha - length).sum(axis=0)
        self._squares += (alpha * (alpha - 2 * length)).sum(axis=0)
        columns = seen.transpose(2, 1, 0)  # (n, n, B)
        self._outer += columns @ columns.transpose(0, 2, 1)

    def _rooted(self, shares: Array, right: Array) -> tuple[Array, Array]:
        """(I − N_g)^{-½}·right (B, n, k), zero along null directions, and these (how many, n)."""
        sizes = np.trace(shares, axis1=1, axis2=2)  # at least their largest eigenvalues
        small = sizes < SMALL
        if small.all():
            return _series(shares, right, float(sizes.max(initial=0.0))), np.zeros(
                (0, len(self.root))
            )
        found = np.empty_like(right)
        found[small] = _series(shares[small], right[small], SMALL)
        left, vectors = np.linalg.eigh(np.eye(shares.shape[-1]) - shares[~small])
        null = left < self._null
        powers = np.where(null, 0.0, 1 / np.sqrt(np.where(null, 1.0, left)))
        back = vectors.transpose(0, 2, 1)
        found[~small] = (vectors * powers[:, None, :]) @ (back @ right[~small])
        return found, back[null]

    def errors(self) -> ClusterErrors:
        if self._meat is None:
            raise InvalidInput("no group was added: errors need the sums of every group.")
        with np.errstate(over="ignore"):  # an error that is no number any more is infinite
            covariance = self.root @ self._meat @ self.root.T
        refused = self._alone > self._null
        freedom = np.full(len(refused), np.nan)
        if self.freedom:
            squared = self._squares + np.einsum("jab,jab->j", self._outer, self._outer)
            with np.errstate(divide="ignore", invalid="ignore"):
                freedom = np.where(refused, np.nan, self._trace**2 / squared)
        covariance[..., refused, :] = covariance[..., :, refused] = np.nan
        return ClusterErrors(
            covariance=covariance, degrees_of_freedom=freedom, groups=self.groups, refused=refused
        )


def _series(shares: Array, right: Array, size: float) -> Array:
    """(I − N)^{-½}·right = (I + N/2 + 3N²/8 + …)·right to rounding, for ‖N‖ ≤ `size` ≤ 1/64."""
    terms = max(1, math.ceil(55 / -math.log2(max(size, 2.0**-55))))
    found = right
    for k in range(terms, 0, -1):  # c_k/c_{k−1} = (2k − 1)/(2k)
        found = shares @ found
        found *= (2 * k - 1) / (2 * k)
        found += right
    return found


def cluster_errors(
    matrices: ArrayLike, scores: ArrayLike, *, freedom: bool = True
) -> ClusterErrors:
    """CR2 errors of groups held at once: M_g (G, n, n), scores (G, n) or (trials, G, n)."""
    given = as_array(matrices, "matrices of groups", ndim=3)
    sums = ClusterSums(given.sum(axis=0), freedom=freedom)
    sums.add(given, scores)
    return sums.errors()


def group_sums(rows: ArrayLike, labels: ArrayLike, groups: int) -> Array:
    """Σ x xᵀ over the rows of each group, (groups, m, m); labels (K,) from 0."""
    values = as_array(rows, "rows", ndim=2)
    count = as_count(groups, "groups", least=1)
    which = np.asarray(labels)
    fits = which.dtype.kind in "iu" and which.shape == (len(values),)
    if not fits or (which.size and not 0 <= which.min() <= which.max() < count):
        raise InvalidInput(
            f"labels must be {len(values)} whole numbers from 0 to {count - 1}; received an array "
            f"of type {which.dtype} and shape {which.shape}."
        )
    if (which[1:] < which[:-1]).any():
        values = values[np.argsort(which, kind="stable")]
    sizes = np.bincount(which, minlength=count)
    starts = np.cumsum(sizes) - sizes
    sums = np.zeros((count, values.shape[1], values.shape[1]))
    for size in np.unique(sizes[sizes > 0]):
        own = np.flatnonzero(sizes == size)
        part = values[starts[own][:, None] + np.arange(size)]
        turned = part.transpose(0, 2, 1)
        if size <= COPIED:  # BLAS multiplies small matrices faster than it squares them
            turned = np.ascontiguousarray(turned)
        sums[own] = turned @ part
    return sums
