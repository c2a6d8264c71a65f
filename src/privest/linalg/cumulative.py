"""PI_k = Σ_{j ≤ k} G_jᵀG_j of whitened rows G (M, n), and its inverse, after every step k.

One entry of the matrices of a chunk of steps is one contiguous vector, (n, n, steps): the n³
operations of a factorisation are passes over vectors in cache instead of a call for every step.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy

from privest.arrays import Array, Index
from privest.errors import NumericalFailure
from privest.linalg._root import InformationRoot
from privest.linalg.batched import substitute
from privest.linalg.tolerances import INFLATION, rank_tolerance

CHUNK_ENTRIES = 2**16  # numbers in the matrices of a chunk of steps: they stay in cache
LONGEST = 2048  # steps: the rounding of a sum grows with them


def information(rows: Array, ends: Index) -> Array:
    """PI_k for every k, (K, n, n); `ends` (K,): the rows seen after each step."""
    n = rows.shape[1]
    result = np.empty((n, n, len(ends)))
    total: Array = np.zeros((n, n, 1))
    for start, stop in _chunks(0, len(ends), n):
        sums = _sums(*_between(rows, ends, start, stop))
        sums += total
        _mirror(sums)
        result[:, :, start:stop], total = sums, sums[:, :, -1:].copy()
    return result.transpose(2, 0, 1)


def every_step(rows: Array, ends: Index, first: int) -> Array:
    """PI_k⁻¹ for every k, (K, n, n), from step `first` on, at which θ must be identifiable.

    Sums of squares lose digits with cond(R)², R the root of PI. Where that would show (`INFLATION`)
    the rows of a chunk of steps are multiplied by R⁻¹ of its last step: in these coordinates PI_k
    is near the identity. A chunk in which it is not is halved. The relative error is about
    eps·cond(R).
    """
    n = rows.shape[1]
    result = np.empty((n, n, len(ends)))
    before = int(ends[first - 1]) if first else 0
    with np.errstate(all="ignore"):
        total: Array = rows[:before].T @ rows[:before]
    seen = 0
    front: Array = np.zeros((0, n))  # R after so many rows
    for start, stop in _chunks(first, len(ends), n):
        sums = _sums(*_between(rows, ends, start, stop))
        sums += total[:, :, None]
        total = sums[:, :, -1].copy()
        if not _invert(sums, result[:, :, start:stop]):
            before = int(ends[start - 1]) if start else 0
            front = np.asarray(np.linalg.qr(np.concatenate([front, rows[seen:before]]), mode="r"))
            front = _fill(rows, ends, result, front, start, stop)
            seen = int(ends[stop - 1])
    return result.transpose(2, 0, 1)


def _fill(rows: Array, ends: Index, result: Array, front: Array, start: int, stop: int) -> Array:
    """The steps start..stop−1 into `result`, from R before them; returns R after them."""
    new, local = _between(rows, ends, start, stop)
    end = np.asarray(np.linalg.qr(np.concatenate([front, new]), mode="r"))
    _require_rank(end, stop - 1)
    back = np.triu(scipy.linalg.lapack.dtrtri(end)[0])
    if stop - start == 1:
        result[:, :, start] = back @ back.T
        return end
    before = substitute(end, front.T, transposed=True)
    sums = _sums(substitute(end, new.T, transposed=True).T, local)
    sums += (before @ before.T)[:, :, None]
    found = result[:, :, start:stop]
    if not _invert(sums, found):
        middle = (start + stop) // 2
        front = _fill(rows, ends, result, front, start, middle)
        return _fill(rows, ends, result, front, middle, stop)
    found[...] = np.matmul(back, np.tensordot(back, found, 1))
    _mirror(found)
    return end


def _chunks(first: int, steps: int, n: int) -> Iterator[tuple[int, int]]:
    size = min(max(CHUNK_ENTRIES // n**2, 64), LONGEST)
    return ((at, min(at + size, steps)) for at in range(first, steps, size))


def _between(rows: Array, ends: Index, start: int, stop: int) -> tuple[Array, Index]:
    """The rows of the steps start..stop−1, and their ends counted from there."""
    before = int(ends[start - 1]) if start else 0
    return rows[before : ends[stop - 1]], ends[start:stop] - before


def _sums(rows: Array, ends: Index) -> Array:
    """The lower triangles of Σ g gᵀ after every step, (n, n, c)."""
    columns = np.ascontiguousarray(rows.T)
    n, count = columns.shape
    sums = np.zeros((n, n, count))
    for j in range(n):
        np.multiply(columns[j:], columns[j], out=sums[j:, j])
        np.cumsum(sums[j:, j], axis=1, out=sums[j:, j])
    return sums if count == len(ends) else sums[:, :, ends - 1]


def _mirror(matrices: Array) -> None:
    """The lower triangles above the diagonals too, in place: symmetric to the last digit."""
    for i in range(1, len(matrices)):
        matrices[:i, i] = matrices[i, :i]


def _invert(sums: Array, found: Array) -> bool:
    """Inverses of sums (n, n, c), which are destroyed, into `found`; False beyond `INFLATION`."""
    n = len(sums)
    size = np.einsum("jjc->jc", sums).copy()
    inverse = np.zeros_like(sums)  # of L
    with np.errstate(all="ignore"):  # NaN is beyond it too
        for j in range(n):
            sums[j:, j] /= np.sqrt(sums[j, j])
            for k in range(j + 1, n):
                sums[k:, k] -= sums[k:, j] * sums[k, j]
            inverse[j, j] = 1.0 / sums[j, j]
            for k in range(j):
                inverse[j, : k + 1] -= sums[j, k] * inverse[k, : k + 1]
            inverse[j, :j] *= inverse[j, j]
        for j in range(n):
            np.multiply(inverse[n - 1, : j + 1], inverse[n - 1, j], out=found[j, : j + 1])
            for k in range(j, n - 1):
                found[j, : j + 1] += inverse[k, : j + 1] * inverse[k, j]
            if not (size[j] * found[j, j]).max() <= INFLATION:
                return False
    _mirror(found)
    return True


def _require_rank(triangle: Array, step: int) -> None:
    n, scale = len(triangle), np.linalg.norm(triangle, axis=0)
    if InformationRoot(triangle, scale, rank_tolerance(n)).rank < n:
        raise NumericalFailure(
            f"After step {step} the information has directions so different (beyond 1e11) that "
            "rounding hides what earlier steps showed. Scale or drop the weak ones."
        )
