"""Steps that do not repeat, √K pieces side by side: the same numbers without a loop over K steps.

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

MANY = 2000  # distinct steps from which on pieces side by side are quicker
DISTINCT = 0.3  # part of the steps so far that had to be distinct
Tables = tuple[Array, Array, Array, Array]  # A, F, G, N: an entry for each kind of step
AMPLIFIED = 1e4  # growth of rounding at the joints that is accepted: 1e4·eps = 2e-12


def worthwhile(found: int, done: int, left: int) -> bool:
    """Whether to go on in pieces after `done` steps, `found` of them distinct."""
    return found >= MANY and found > DISTINCT * done and left >= MANY


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
    left = scipy.linalg.solve_triangular(upper, start.T, trans="T", check_finite=False).T
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
