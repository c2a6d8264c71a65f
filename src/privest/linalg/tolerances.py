"""Every tolerance of the linear algebra: what counts as zero, and which route is safe.

All are relative, for matrices of unit diagonal and columns of unit length.
"""

from __future__ import annotations

import numpy as np

from privest.arrays import EPS, Array

# Eigenvalues and squared pivots below this part of a unit diagonal count as zero: a singular matrix
# that was computed rather than typed in carries rounding of the order of eps times the spread of
# its diagonal; 1e-11 leaves room for a spread of 1e4 and still tells a condition number of 1e10
# from a singular matrix.
SINGULAR = 1e-11
# A squared pivot above this part of its diagonal entry is no rounding error unless the leading
# block has a condition number beyond 1e10, which shows in earlier pivots.
SAFE_PIVOT = 1e-4
# Entries (i, j) and (j, i) may differ by this part of √(S_ii S_jj); the nearest symmetric matrix is
# then taken.
ASYMMETRY = 1e-10
# Up to this condition number of the (column-scaled) Gram matrix its Cholesky factor is used: the
# relative error stays below about 1e4·n·eps. Beyond it the rows are factored by QR.
GRAM_CONDITION = 1e4
# A matrix with unit diagonal has an eigenvalue ≥ 1, so that the singular values of such a factor
# are above 1/√GRAM_CONDITION; half of it is beyond rounding.
SEEN = 0.5 / GRAM_CONDITION**0.5
# Gram matrices with diagonals in between have entries and Cholesky factors in double range.
SMALLEST, LARGEST = 1e-250, 1e250
# Entries of R⁻¹, and of rows, below this have squares, and sums of 1e8 of them, in double range.
LARGEST_ROOT = 1e150
# Sizes of columns of H between this and its inverse have squares in double range, and so has what a
# million of them add up to.
SQUARED = 1e-150
# Levels and variances between this and its inverse can be inverted and added up.
EXTREME = 1e-301
# A parameter takes part in a direction (a unit vector) if its entry is above this: rounding of
# directions is far below, and what is smaller cannot matter to a reader.
TAKES_PART = 1e-8
# A vector lies in the range of a factor if what is left of it is below this part: the factor has
# singular values down to √SINGULAR, which enlarge rounding to 1e-10.
IN_RANGE = 1e-8
# Iterations with a certificate stop at the first relative gap and refuse results beyond the second.
CERTIFICATE, GIVE_UP = 1e-9, 1e-6
# Relative error of PI that rounding of the eigenvalues of Σ may cause; beyond it another route.
INVISIBLE = 1e-10
# Below this ratio of eigenvalues the one-Cholesky route is left for the whitening kernel: its error
# is about eps over the ratio.
GRADED = 1e-4
# PI_jj [PI⁻¹]_jj says how much the other parameters inflate the variance of θ_j. The largest lies
# within a factor n of ‖PI⁻¹‖ for PI scaled to unit diagonal: up to this inflation the sums of a
# stream are factored as they are, to a relative error of about 100·n·eps.
INFLATION = 100.0
# An inverse that rounding moves by more than this part is not known: nothing is accepted beyond it.
UNCERTAIN = 1e-6
# Squared size of new rows, in units of the old ones, after which a running rank is looked at again.
GROWTH = 100.0


def rounding(size: int) -> float:
    """10·m·eps: LAPACK's backward error for a matrix of m rows, with a margin."""
    return 10.0 * size * EPS


def inverse_rounding(matrix: Array) -> float:
    """Relative rounding of an inverse `matrix`: 10·m·eps·cond, at most `UNCERTAIN`."""
    return min(rounding(len(matrix)) * condition(matrix), UNCERTAIN)


def condition(matrix: Array) -> float:
    """λ_max/λ_min of a positive semi-definite matrix scaled to unit diagonal; ∞ if singular."""
    size = np.sqrt(matrix.diagonal())
    if not size.all():
        return np.inf
    values = np.linalg.eigvalsh(matrix / size / size[:, None])
    return float(values[-1] / values[0]) if values[0] > 0 else np.inf


def rank_tolerance(size: int) -> float:
    """Relative size below which an eigenvalue counts as zero: 1e-11, at least 10·m·eps."""
    return max(SINGULAR, rounding(size))
