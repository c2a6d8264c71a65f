"""Recursions over all steps, with one table entry for each distinct step.

`entry` (K,) says which entry of a table each step has; runs of equal entries are done at once.

    recurrence    x_k = Φ_k x_{k−1} + f_k : one banded triangular solve, or steps of many series.
    backwards     V_{k−1} = M_k V_k M_kᵀ + S_k ; kept where it has arrived at its limit.

The unit lower-triangular matrix of the recurrence has half-bandwidth 2n − 1; LAPACK's forward
substitution does the same operations as the loop, so an unstable recursion does no harm.
Vectors of all steps and series are stored (K, n, series): a step of all series is one product.

Without numba, steps that do not repeat go √K pieces side by side: the same numbers without a loop
over K steps; filter and smoother of K = 30,000 (4 states, 2 outputs) take 0.4 of the loop's time.
Compiled loops (`_machine`) need a seventh of that of the pieces: they have no use for them.
Forward, a piece is followed twice. First from a known start (P = 0): it gives x_end = Φ x_start + …
with covariance C, and whitened innovations that see x_start through rows E, J = ΣEᵀE = UᵀU. Then,
piece after piece,

    P_end = C + (ΦBR⁻¹)(ΦBR⁻¹)ᵀ ,   QR of [UB; I] gives R ,   P_start = BBᵀ

and every piece is followed again from its own start. Backward, V ↦ M V Mᵀ + S is composed.
Where a system grows so fast within a piece that ΦBR⁻¹ would lose digits, None is returned and the
caller goes step by step.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from privest.arrays import Array, Index
from privest.linalg.batched import substitute

LONG = 8  # steps in a mean run of equal entries from which on work by runs pays
SERIES = 6  # series from which on a loop over steps, all series side by side, is faster
# A limit counts as reached when all further changes together stay below this part of the matrix,
# in units of its diagonal. Rounding itself is about 1e-15 a step.
REACHED = 1e-12
DOUBLINGS = 40  # of a sum over all further steps: 2^40 of them
GROWN, GONE = 1e6, 1e-10  # powers that end such a sum: too much is to come, or nothing
PATIENCE = 1.5  # a failed check is not repeated before the steps of a run have grown by this
MANY = 2000  # distinct steps from which on pieces side by side are quicker
DISTINCT = 0.3  # part of the steps so far that had to be distinct
Tables = tuple[Array, Array, Array, Array]  # A, F, G, N: an entry for each kind of step
AMPLIFIED = 1e4  # growth of rounding at the joints that is accepted: 1e4·eps = 2e-12


def runs(entry: Index) -> list[int]:
    """The first steps of the runs of equal entries."""
    if len(entry) == 1:
        return [0]
    return [0, *(np.flatnonzero(np.diff(entry)) + 1).tolist()]


def run_bounds(entry: Index) -> tuple[Index, Index]:
    """For every step the first step of its run of equal entries, and the one after its last."""
    edges = np.concatenate([[0], np.flatnonzero(entry[1:] != entry[:-1]) + 1, [len(entry)]])
    counts = np.diff(edges)
    return np.repeat(edges[:-1], counts), np.repeat(edges[1:], counts)


def run_starts(entry: Index) -> Index:
    """For every step the first step of its run of equal entries."""
    return run_bounds(entry)[0]


def spread(table: Array, entry: Index) -> Array:
    """table[entry], run by run where runs are long: quicker than looking each step up.

    The table itself where every step has its own entry.
    """
    if len(table) == len(entry) and (entry == np.arange(len(entry))).all():
        return np.ascontiguousarray(table)
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
    """x_k = table[entry[k]] x_{k−1} + forcing[k], x_{−1} = start. Overwrites `forcing`.

    table (E, n, n), entry (K,), forcing (K, n, series), start (n, 1 or series). O(K n²) a series.
    """
    steps, n, series = forcing.shape
    forcing[0] += table[entry[0]] @ start
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
    value, k, next_check = last, steps - 2, 0
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
            if change == 0.0 or (change <= REACHED and settled(change, value, M)):
                own[start:k] = len(values) - 1
                k = start
            elif change <= REACHED:
                next_check = int(PATIENCE * (steps - k)) + 1
        k -= 1
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
    """Whether all further changes, Σ_j Mʲ δ Mʲᵀ with |δ| ≤ change in units, stay below REACHED.

    The sum by doubling, X ← X + T X Tᵀ, T ← T², in which nothing cancels. An equation for it,
    X = M X Mᵀ + I, is lost where M is large in units and its powers are not: rounding of a gain,
    seen in the unit of a variance that is next to 0.
    """
    if change == 0.0:
        return True
    unit = _units(np.diagonal(reference))
    power, total = contraction * unit / unit[:, None], np.eye(len(unit))
    for _ in range(DOUBLINGS):
        if not np.abs(power).max() < GROWN:
            return False
        total = total + power @ total @ power.T
        if not change * len(unit) * np.linalg.norm(total, 2) <= REACHED:
            return False
        power = power @ power
        if np.abs(power).max() < GONE:
            return True
    return False


def _units(diagonal: Array) -> Array:
    size = np.sqrt(np.maximum(diagonal, 0.0))  # rounding leaves −1e-89 of a variance that is 0
    return np.where(size > 0, size, 1.0)


def worthwhile(found: int, done: int, left: int) -> bool:
    """Whether to try to go on in pieces after `done` steps, `found` of them distinct.

    Tried after MANY distinct steps, and whenever there are twice as many as at the last attempt.
    """
    times, rest = divmod(found, MANY)
    attempt = times > 0 and rest == 0 and times & (times - 1) == 0
    return attempt and found > DISTINCT * done and left >= MANY


def _pieces(entry: Index, idle: int) -> Index:
    """(pieces, length), the last one filled up with the idle step."""
    length = max(1, math.isqrt(len(entry)))
    count = -(-len(entry) // length)
    padded = np.full(count * length, idle)
    padded[: len(entry)] = entry
    return padded.reshape(count, length)


def forward_pieces(given: Tables, kind: Index, root: Array) -> tuple[Array, Array] | None:
    """[[c, 0], [κ, B⁺]] and the rows of Θ of these kinds of steps, from the factor `root`."""
    A, F, G, N = given
    idle = np.eye(A.shape[1]), np.zeros(F.shape[1:]), np.zeros(G.shape[1:]), np.eye(*N.shape[1:])
    tables = tuple(np.concatenate([own, still[None]]) for own, still in zip(given, idle))
    pieces, r = _pieces(kind, len(A)), G.shape[1]
    starts = _starts(tables, pieces, root)
    if starts is None:
        return None
    lowers, thetas, roots = [], [], starts
    for t in range(pieces.shape[1]):
        lower, theta = _rotated(roots, *(table[pieces[:, t]] for table in tables))
        roots = lower[:, r:, r:]
        lowers.append(lower)
        thetas.append(theta)
    return _in_order(lowers, len(kind)), _in_order(thetas, len(kind))


def _in_order(parts: list[Array], count: int) -> Array:
    """From one array (pieces, …) for each position to steps in their order."""
    whole = np.stack(parts, axis=1)
    return whole.reshape(-1, *whole.shape[2:])[:count]


def _starts(tables: tuple[Array, ...], pieces: Index, root: Array) -> Array | None:
    """The factor B before every piece."""
    count, n = len(pieces), len(root)
    r = tables[2].shape[1]
    roots: Array = np.zeros((count, n, n))
    through: Array = np.broadcast_to(np.eye(n), (count, n, n))  # Φ
    heard: Array = np.zeros((count, n, n))  # U
    for t in range(pieces.shape[1]):
        A, F, G, N = (table[pieces[:, t]] for table in tables)
        lower = _rotated(roots, A, F, G, N, angles=False)[0]
        roots = lower[:, r:, r:]
        through = A @ through
        if not lower[:, :r, :r].diagonal(axis1=1, axis2=2).all():
            return None  # a reading without uncertainty: the caller reports it
        fresh = np.linalg.solve(lower[:, :r, :r], G @ through)  # E
        through = through - lower[:, r:, :r] @ fresh
        heard = _upper(np.concatenate([heard, fresh], axis=1))
    starts = np.empty((count, n, n))
    starts[0] = root
    for c in range(count - 1):
        joined = _joined(starts[c], through[c], heard[c], roots[c])
        if joined is None:
            return None
        starts[c + 1] = joined
    return starts


def _joined(start: Array, through: Array, heard: Array, own: Array) -> Array | None:
    """The factor of C + Φ(P⁻¹ + J)⁻¹Φᵀ, or None where rounding would be amplified too much."""
    n = len(start)
    upper = _upper(np.concatenate([heard @ start, np.eye(n)]))
    left = substitute(upper, start.T, transposed=True).T
    carried = through @ left
    result = _upper(np.concatenate([own.T, carried.T])).T
    size = np.linalg.norm(result, axis=1)
    worst = (np.abs(through) @ np.abs(left)).sum(axis=1)
    if not np.isfinite(worst).all() or (worst > AMPLIFIED * size).any():
        return None
    return np.asarray(result * np.copysign(1.0, result.diagonal()))


def _upper(stack: Array) -> Array:
    """R of the QR factorisation of each."""
    return np.asarray(np.linalg.qr(stack, mode="r"))


def _rotated(
    root: Array, A: Array, F: Array, G: Array, N: Array, *, angles: bool = True
) -> tuple[Array, Array]:
    """`sweep.step` for a stack: [[c, 0], [κ, B⁺]], and the rows of Θ for ξ."""
    count, n, own = root.shape
    r, end = G.shape[1], own + F.shape[2]
    array = np.zeros((count, end + N.shape[2], r + n))
    array[:, :own, r:], array[:, own:end, r:] = (A @ root).swapaxes(1, 2), F.swapaxes(1, 2)
    array[:, :end, :r] = array[:, :end, r:] @ G.swapaxes(1, 2)
    array[:, end:, :r] = N.swapaxes(1, 2)
    if not angles:
        upper, theta = _upper(array), array[:, :0]
    else:
        whole = np.linalg.qr(array, mode="complete")
        upper, theta = whole.R[:, : r + n], whole.Q[:, :own].copy()
    signs = np.copysign(1.0, upper.diagonal(axis1=1, axis2=2))[:, None, :]
    theta[:, :, : r + n] *= signs
    return upper.swapaxes(1, 2) * signs, theta


def backward_pieces(matrices: Array, added: Array, entry: Index, last: Array) -> Array | None:
    """V ↦ M V Mᵀ + S for these entries, one after another from `last`: all values in order."""
    n = len(last)
    M = np.concatenate([matrices, np.eye(n)[None]])
    S = np.concatenate([added, np.zeros((1, n, n))])
    pieces = _pieces(entry, len(matrices))
    through, sums = np.broadcast_to(np.eye(n), (len(pieces), n, n)), np.zeros((len(pieces), n, n))
    for t in range(pieces.shape[1]):
        own = M[pieces[:, t]]
        through = own @ through
        sums = own @ sums @ own.swapaxes(1, 2) + S[pieces[:, t]]
    values = np.empty((len(pieces), n, n))
    values[0] = last
    for c in range(len(pieces) - 1):
        value = through[c] @ values[c] @ through[c].T + sums[c]
        values[c + 1] = (value + value.T) / 2
    if not np.isfinite(values).all() or np.abs(through).max() > AMPLIFIED:
        return None
    found = []
    for t in range(pieces.shape[1]):
        own = M[pieces[:, t]]
        values = own @ values @ own.swapaxes(1, 2) + S[pieces[:, t]]
        values = (values + values.swapaxes(1, 2)) / 2
        found.append(values)
    return _in_order(found, len(entry))
