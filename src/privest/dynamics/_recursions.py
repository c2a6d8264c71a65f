"""Recursions over all steps, with one table entry for each distinct step.

`entry` (K,) says which entry of a table each step has; runs of equal entries are done at once.

    recurrence    x_k = Φ_k x_{k−1} + f_k : one banded triangular solve, or steps of many series.
    backwards     V_{k−1} = M_k V_k M_kᵀ + S_k ; kept where it has arrived at its limit.

The unit lower-triangular matrix of the recurrence has half-bandwidth 2n − 1; LAPACK's forward
substitution does the same operations as the loop, so an unstable recursion does no harm.
Vectors of all steps and series are stored (K, n, series): a step of all series is one product.
"""

from __future__ import annotations

import numpy as np
import scipy

from privest.arrays import Array, Index
from privest.dynamics._parallel import MANY, backward_pieces, worthwhile

LONG = 8  # steps in a mean run of equal entries from which on work by runs pays
SERIES = 6  # series from which on a loop over steps, all series side by side, is faster
# A limit counts as reached when all further changes together stay below this part of the matrix,
# in units of its diagonal. Rounding itself is about 1e-15 a step.
REACHED = 1e-12
CONTRACTS = 1.0 - 1e-9  # spectral radius below which a sum over all further steps is solved for
PATIENCE = 1.5  # a failed check is not repeated before the steps of a run have grown by this


def runs(entry: Index) -> list[int]:
    """The first steps of the runs of equal entries."""
    if len(entry) == 1:
        return [0]
    return [0, *(np.flatnonzero(np.diff(entry)) + 1).tolist()]


def run_starts(entry: Index) -> Index:
    """For every step the first step of its run of equal entries."""
    first = runs(entry)
    return np.repeat(first, np.diff([*first, len(entry)]))


def spread(table: Array, entry: Index) -> Array:
    """table[entry], run by run where runs are long: quicker than looking each step up."""
    first = runs(entry)
    if len(first) * LONG > len(entry):
        return np.asarray(table[entry])
    result = np.empty((len(entry), *table.shape[1:]))
    for start, stop in zip(first, [*first[1:], len(entry)]):
        result[start:stop] = table[entry[start]]
    return result


def times(table: Array, entry: Index, vectors: Array) -> Array:
    """table[entry[k]] @ vectors[k] for every k; vectors (K, r, series)."""
    steps, _, series = vectors.shape
    first = runs(entry)
    if len(first) * LONG > steps or series >= SERIES:
        return np.asarray(table[entry] @ vectors)
    result = np.empty((steps, table.shape[1], series))
    for start, stop in zip(first, [*first[1:], steps]):
        matrix = table[entry[start]]
        for i in range(series):
            np.matmul(vectors[start:stop, :, i], matrix.T, out=result[start:stop, :, i])
    return result


def recurrence(table: Array, entry: Index, forcing: Array, start: Array) -> Array:
    """x_k = table[entry[k]] x_{k−1} + forcing[k], x_{−1} = start (n,). Overwrites `forcing`.

    table (E, n, n), entry (K,), forcing (K, n, series). O(K n²) a series.
    """
    steps, n, series = forcing.shape
    forcing[0] += (table[entry[0]] @ start)[:, None]
    if series >= SERIES:
        for k in range(1, steps):
            forcing[k] += table[entry[k]] @ forcing[k - 1]
        return forcing
    blocks = np.zeros((len(table), n, 2 * n))  # column of the matrix, then distance below
    for i in range(n):
        for j in range(n):
            # Below the diagonal by n + i − j; the unit diagonal itself is not looked at.
            blocks[:, j, n + i - j] = -table[:, i, j]
    following = np.append(entry[1:], entry[-1])  # the last has nothing below it
    band = spread(blocks, following)
    solved, _ = scipy.linalg.lapack.dtbtrs(
        band.reshape(steps * n, 2 * n).T, forcing.reshape(steps * n, series), uplo="L", diag="U"
    )
    return np.asarray(solved).reshape(forcing.shape)


def backwards(matrices: Array, added: Array, entry: Index, last: Array) -> tuple[Array, Index]:
    """V_{K−1} = last, V_{k−1} = M V_k Mᵀ + S with M, S = matrices, added[entry[k]].

    Returns the distinct values, in the order found, and which one each step has. Steps of one run
    of entries never share a value with another run.
    """
    steps = len(entry)
    first = run_starts(entry)
    values, own = [last], np.empty(steps, dtype=np.intp)
    own[-1] = 0
    value, k, next_check, attempt = last, steps - 2, 0, MANY
    rest: Array | None = None
    while k >= 0:
        e = entry[k + 1]
        M, before = matrices[e], value
        value = M @ before @ M.T + added[e]
        value = (value + value.T) / 2
        values.append(value)
        own[k] = len(values) - 1
        start = int(first[k])
        if entry[k] != e:
            next_check = steps - k  # counted from the end: a new run
        elif k > start and steps - k >= next_check:
            change = relative_change(value, before)
            if change <= REACHED:
                if change == 0.0 or settled(change, value, M):
                    own[start:k] = len(values) - 1
                    k = start
                else:
                    next_check = int(PATIENCE * (steps - k)) + 1
        k -= 1
        if len(values) == attempt:
            attempt *= 2
            if worthwhile(len(values), steps - 1 - k, k + 1):
                rest = backward_pieces(matrices, added, entry[k + 1 : 0 : -1], value)
            if rest is not None:
                own[k::-1] = len(values) + np.arange(k + 1)
                break
    found = np.stack(values)
    return (found if rest is None else np.concatenate([found, rest])), own


def relative_change(new: Array, old: Array) -> float:
    """max |new − old|_ij in units of √(new_ii new_jj)."""
    unit = _units(np.maximum(np.diagonal(new), np.diagonal(old)))
    return float(np.abs((new - old) / unit / unit[:, None]).max())


def settled(change: float, reference: Array, contraction: Array) -> bool:
    """Whether all further changes, Σ_j Mʲ δ Mʲᵀ with |δ| ≤ change in units, stay below REACHED."""
    unit = _units(np.diagonal(reference))
    own = contraction * unit / unit[:, None]
    if not np.isfinite(own).all() or np.abs(np.linalg.eigvals(own)).max() >= CONTRACTS:
        return False
    total = scipy.linalg.solve_discrete_lyapunov(own, np.eye(len(own)))
    return bool(change * len(own) * np.linalg.norm(total, 2) <= REACHED)


def _units(diagonal: Array) -> Array:
    size = np.sqrt(diagonal)
    return np.where(size > 0, size, 1.0)
