"""Sums over rows with variances v_k = σ² + a_k, for many σ² in one pass.

    W = diag(1/v) ,  C = (HᵀWH)⁻¹ ,  P = W − WHCHᵀW

From them come the restricted likelihood of σ² and what the errors of θ̂ need. Rows are scaled to
orthonormal columns and centred at a first fit before they are summed (P does not see either), so
that differences of sums keep their digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import AnyArray, Array
from privest.errors import InvalidInput
from privest.estimator.inference._errors import require_freedom
from privest.linalg.running import RunningLeastSquares, tall_triangle
from privest.linalg.tolerances import rank_tolerance

CHUNK = 2048  # rows at a time: with some tens of σ² they stay in cache


@dataclass(frozen=True, eq=False)
class LevelRows:
    """Rows H (r, n) and z (r,) of a release with variances σ² + added.

    added  > 0: the known variance of the release noise, a number or one a row.
    """

    H: Array
    z: Array
    added: Array | float

    def variances(self) -> Array:
        """`added`, one a row."""
        return np.broadcast_to(np.asarray(self.added, float), self.z.shape)


Blocks = Callable[[], Iterable[LevelRows]]


@dataclass(frozen=True, eq=False)
class WeightedSums:
    """What a pass gives for each of m values of σ², θ = θ₀ + R⁻¹δ in scaled coordinates.

    variances  (m,) the values of σ².
    inverse    (m, n, n): C of the scaled rows.
    shift      (m, n): δ̂.
    spread     (m, n, n): C·HᵀW²H·C.
    quadratic  (m,) zᵀPz;  `slope` (m,) zᵀP²z.
    trace      (m,) tr P.
    logarithm  (m,) Σ log v_k + log |HᵀWH|.
    """

    variances: Array
    inverse: Array
    shift: Array
    spread: Array
    quadratic: Array
    slope: Array
    trace: Array
    logarithm: Array

    @property
    def score(self) -> Array:
        """Twice the derivative of the restricted log-likelihood: zᵀP²z − tr P."""
        return self.slope - self.trace

    @property
    def likelihood(self) -> Array:
        """The restricted log-likelihood, but for a constant."""
        return -0.5 * (self.logarithm + self.quadratic)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A release of which a first pass is done.

    start, scale  θ₀, and R⁻¹: the rows are summed as H·R⁻¹.
    rows          K; freedom = K − n.
    least, most   of a_k: where σ² begins to matter, and where it is all.
    ceiling       the residual sum of squares of least squares.
    """

    blocks: Blocks
    start: Array
    scale: Array
    rows: int
    least: float
    most: float
    ceiling: float

    @property
    def freedom(self) -> int:
        return self.rows - len(self.start)

    def sums(self, variances: Array) -> WeightedSums:
        """One pass over the release for these values of σ² ≥ 0."""
        total = None
        for part in self.blocks():
            found = _part_sums(part, self.start, self.scale, variances)
            total = found if total is None else [a + b for a, b in zip(total, found)]
        assert total is not None
        return _concluded(variances, *total)


def prepared(blocks: Blocks, parameters: int) -> Prepared:
    """The first pass: least squares (as if there were no release noise)."""
    fit = RunningLeastSquares(parameters, rank_tolerance(parameters))
    rows, least, most = 0, np.inf, 0.0
    for part in blocks():
        if not len(part.z):
            continue
        added = part.variances()
        if not (np.min(added) > 0 and np.isfinite(added).all()):
            raise InvalidInput("variances of release noise must be finite and > 0.")
        fit.add(tall_triangle(part.H, part.z, 1.0, 1.0, 0.0, compiled=False))
        rows += len(part.z)
        least, most = min(least, float(added.min())), max(most, float(added.max()))
    require_freedom(rows - parameters)
    if not fit.full:
        raise InvalidInput("the rows do not tell all coefficients apart: leave a column out.")
    scale = scipy.linalg.lapack.dtrtri(fit.triangle[:parameters, :parameters])[0]
    return Prepared(blocks, fit.solution(), scale, rows, least, most, fit.misfit)


def _part_sums(part: LevelRows, start: Array, scale: Array, variances: Array) -> list[Array]:
    """The sums of a block for every σ², (m, …): HᵀWH, HᵀW²H of the rows with their residuals
    [H, r]; and scalar ones.

    Products of columns are made once, and all σ² multiply them together: (m, r)·(r, pairs).
    """
    added = part.variances()
    n = part.H.shape[1]
    upper = np.triu_indices(n + 1)
    total = [np.zeros((len(variances), len(upper[0]))) for _ in range(2)]
    scalar = np.zeros((len(variances), 2))
    for at in range(0, len(part.z), CHUNK):
        rows = slice(at, at + CHUNK)
        wide = np.column_stack([part.H[rows] @ scale, part.z[rows] - part.H[rows] @ start])
        pairs = wide[:, upper[0]] * wide[:, upper[1]]
        size = variances[:, None] + added[rows]
        weight = 1 / size
        scalar[:, 0] += np.log(size).sum(axis=1)
        scalar[:, 1] += weight.sum(axis=1)
        total[0] += weight @ pairs
        weight *= weight
        total[1] += weight @ pairs
    return [*(_symmetric(one, upper, n + 1) for one in total), scalar]


def _symmetric(upper: Array, places: tuple[AnyArray, AnyArray], size: int) -> Array:
    """(m, size, size) from the entries on and above the diagonal."""
    found = np.empty((len(upper), size, size))
    found[:, places[0], places[1]] = found[:, places[1], places[0]] = upper
    return found


def _concluded(variances: Array, first: Array, second: Array, scalar: Array) -> WeightedSums:
    n = first.shape[-1] - 1
    inverse = np.linalg.inv(first[:, :n, :n])
    right, middle = first[:, :n, n], second[:, :n, :n]
    shift = np.einsum("mij,mj->mi", inverse, right)
    crossed = np.einsum("mi,mi->m", shift, second[:, :n, n])
    bent = np.einsum("mi,mij,mj->m", shift, middle, shift)
    logs, weights = scalar.T
    product = inverse @ middle
    return WeightedSums(
        variances=variances,
        inverse=inverse,
        shift=shift,
        spread=product @ inverse,
        quadratic=first[:, n, n] - np.einsum("mi,mi->m", shift, right),
        slope=second[:, n, n] - 2 * crossed + bent,
        trace=weights - np.trace(product, axis1=1, axis2=2),
        logarithm=logs + np.linalg.slogdet(first[:, :n, :n])[1],
    )


def in_memory(rows: LevelRows) -> Blocks:
    """One block that is held."""

    def blocks() -> Iterator[LevelRows]:
        yield rows

    return blocks
