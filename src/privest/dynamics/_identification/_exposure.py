"""λmax(S̄) of a stream level: how much all releases show of readings that move together."""

from __future__ import annotations

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.linalg.tolerances import SQUARED
from privest.privacy import EndlessLevel, SequentialLevel

GRID = 4096  # frequencies
LEAST = 1e10 * SQUARED  # level: errors of variances, some 1/level², are still numbers


def exposure(level: SequentialLevel, steps: int) -> float:
    """The largest eigenvalue of S̄ = AᵀA for these steps.

    Without lags the largest of the levels of single steps. With them A is banded: the largest
    singular value by Lanczos' method. An EndlessLevel is taken for an endless stream, sup_ω
    λmax(A(ω)ᴴA(ω)), A(ω) = Σ A_j e^{−ijω}, which no finite stream exceeds.
    """
    if level.form == "dense":
        return float(np.linalg.norm(level.dense_rows(0, steps), 2) ** 2)
    alike = isinstance(level, EndlessLevel) and not level.reach
    blocks = level.blocks(0, 1 if alike else steps)
    if not level.reach:
        return float(np.linalg.norm(blocks[0], 2, axis=(1, 2)).max() ** 2)
    if isinstance(level, EndlessLevel):
        return _endless(level.blocks(level.reach, level.reach + 1)[:, 0])
    return _finite(blocks)


def require_level(shown: float) -> None:
    """Refuse levels from which nothing can be fitted, by their λmax."""
    if not shown > 0:
        raise InvalidInput("The level is 0: the releases are noise and show nothing to fit.")
    if not LEAST <= shown <= 1.0 / LEAST:
        raise InvalidInput(
            f"A level of {shown:.1g} is beyond the range in which variances can be computed: state "
            "the readings in other units."
        )


def _endless(lags: Array) -> float:
    """By a grid and, at its best point, a parabola's refinement."""
    place = np.arange(len(lags))

    def size(frequency: Array) -> Array:
        turns = np.exp(-1j * np.multiply.outer(frequency, place))
        return np.asarray(np.linalg.norm(np.tensordot(turns, lags, 1), 2, axis=(1, 2)) ** 2)

    grid = np.linspace(0.0, np.pi, GRID)
    rough = size(grid)
    top = int(rough.argmax())
    low, high = grid[max(top - 1, 0)], grid[min(top + 1, GRID - 1)]
    fine = scipy.optimize.minimize_scalar(
        lambda w: -float(size(np.array([w]))[0]), bounds=(low, high), method="bounded",
        options={"xatol": 1e-10},
    )  # fmt: skip
    return max(float(rough.max()), -float(fine.fun))


def _finite(blocks: Array) -> float:
    lags, steps, m, _ = blocks.shape
    rows, columns, values = [], [], []
    own = np.arange(steps)
    for lag in range(min(lags, steps)):
        k = own[lag:]
        i, j = np.meshgrid(np.arange(m), np.arange(m), indexing="ij")
        rows.append((k[:, None, None] * m + i).ravel())
        columns.append(((k - lag)[:, None, None] * m + j).ravel())
        values.append(blocks[lag, lag:].ravel())
    size = steps * m
    A = scipy.sparse.csr_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), (size, size)
    )
    if size <= 64:
        return float(np.linalg.norm(A.toarray(), 2) ** 2)
    largest = scipy.sparse.linalg.svds(A, k=1, return_singular_vectors=False, v0=np.ones(size))
    return float(largest[0] ** 2)
