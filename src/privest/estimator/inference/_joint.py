"""Several private columns with the same features: their joint test, and their covariance.

    Z = HB + E ,   rows of E independent, covariance V = Σ + S⁻¹ (q, q) ,   A = (HᵀH)⁻¹ ,  f = K − n

Σ is what the columns have in common given the features, S⁻¹ the known noise of the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_array, as_count
from privest.errors import InvalidInput
from privest.records import Record


@dataclass(frozen=True, eq=False)
class Joint(Record):
    """What q columns of a release show together.

    scatter     V̂ = EᵀE/f (q, q), of Wishart's law: tests use it.
    covariance  Σ̂ = V̂ − S⁻¹: unbiased, and often no covariance matrix, because the noise of the
                release is larger than what is under it. `shown_covariance` is the nearest one.
    statistic   T²_j (n,), of each coefficient on all columns at once.
    p_value     (n,): the chance of a larger one where the coefficient is 0 for every column; exact
                for Gaussian noise. None where f < q: there are too few rows.
    freedom     (q, f − q + 1), of Fisher's F.
    """

    scatter: Array
    covariance: Array
    statistic: Array | None
    p_value: Array | None
    freedom: tuple[int, int]

    DERIVED: ClassVar[tuple[str, ...]] = ("shown_covariance",)

    @property
    def shown_covariance(self) -> Array:
        """Σ̂ with its negative eigenvalues at 0: to be looked at, not to be tested with."""
        return nearest_covariance(self.covariance)


def joint_test(
    estimate: ArrayLike, inverse: ArrayLike, residuals: ArrayLike, freedom: int, added: ArrayLike
) -> Joint:
    """The test of every coefficient on all columns at once, from sums.

        T²_j = b̂_jᵀV̂⁻¹b̂_j/A_jj ,   T²_j (f − q + 1)/(qf) ~ F(q, f − q + 1)  exactly,

    where row j of B is 0 (Hotelling). estimate B̂ (n, q), inverse A (n, n), residuals EᵀE (q, q),
    freedom f = K − n ≥ 1, added S⁻¹: (q,) a diagonal, or (q, q). Nothing of it needs Σ.
    With the quantile of χ²_q instead, 20 rows and 3 columns would show what is not there in 12 %.
    Cost O(nq² + q³).

    >>> one = joint_test([[2.0]], [[0.25]], [[8.0]], 4, [1.0])  # t² = 4/(2/4) = 8, four degrees
    >>> round(float(one.statistic[0]), 9), round(float(one.p_value[0]), 4), one.freedom
    (8.0, 0.0474, (1, 4))
    """
    B = as_array(estimate, "the estimates", ndim=2)
    A, squares = as_array(inverse, "A", ndim=2), as_array(residuals, "EᵀE", ndim=2)
    n, q = B.shape
    f = as_count(freedom, "the rows to spare", least=1)
    noise = as_array(added, "the noise of the release", ndim=(1, 2))
    noise = np.diag(noise) if noise.ndim == 1 else noise
    if A.shape != (n, n) or squares.shape != (q, q) or noise.shape != (q, q):
        raise InvalidInput(
            f"{n} coefficients of {q} columns need A {n}×{n}, EᵀE and S⁻¹ {q}×{q}; received shapes "
            f"{A.shape}, {squares.shape}, {noise.shape}."
        )
    V = squares / f
    statistic = p_value = None
    if f >= q:
        statistic = _hotelling(B, A, V)
        p_value = scipy.special.fdtrc(q, f - q + 1, statistic * (f - q + 1) / (q * f))
    return Joint(V, V - noise, statistic, p_value, (q, f - q + 1))


def _hotelling(B: Array, A: Array, V: Array) -> Array:
    """b̂_jᵀV̂⁻¹b̂_j/A_jj, with columns in units of their scatter: their units decide nothing."""
    size = np.sqrt(np.diagonal(V))
    if not (size > 0).all():
        raise InvalidInput("a column fits exactly: it shows no noise, and there is no test.")
    try:
        lower = np.linalg.cholesky(V / size / size[:, None])
    except np.linalg.LinAlgError:
        raise InvalidInput(
            "columns are tied: one of them is a combination of the others, noise and all. Leave "
            "one of them out."
        ) from None
    half = scipy.linalg.solve_triangular(lower, (B / size).T, lower=True)
    return np.asarray((half * half).sum(axis=0) / np.diagonal(A))


def nearest_covariance(matrix: ArrayLike) -> Array:
    """A symmetric matrix with its negative eigenvalues at 0: the nearest that is a covariance."""
    values, vectors = np.linalg.eigh(as_array(matrix, "the covariance", ndim=2))
    if values[0] >= 0:
        return as_array(matrix, "the covariance").copy()
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
