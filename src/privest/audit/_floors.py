"""What a matrix of information lets an unbiased attacker do, and one matrix in units of another."""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array
from privest.linalg import PSD

# Eigenvalues of a matrix with unit diagonal below this part of the largest are zero: rounding in
# its entries (eps) and in its making. A direction leans out of the range by more than LEANS if it
# is outside: eigenvectors are known to eps over the gap, 1e-16/1e-12 at worst, typically 1e-15.
ZERO, LEANS = 1e-12, 1e-7
# Two ways to the same information that agree to this part are in agreement.
AGREE = 1e-6


def inverse_root(S: Array) -> tuple[Array, Array]:
    """W with WWᵀ a generalised inverse of S on its range, and what S hides (unit columns).

    In units in which the diagonal of S is one: readings with very different levels do not hide each
    other. WᵀSW = I; the hidden columns h have Sh = 0, a reading with S_ii = 0 is one of them.
    """
    size = np.sqrt(np.diagonal(S))
    seen, dark = np.flatnonzero(size > 0), np.flatnonzero(size == 0)
    every = np.eye(len(S))
    if seen.size == 0:
        return every[:, seen], every
    unit = size[seen, None]
    values, vectors = np.linalg.eigh(S[np.ix_(seen, seen)] / unit / unit.T)
    kept = values > ZERO * values[-1]
    hidden = every[:, seen] @ (vectors[:, ~kept] / unit)
    hidden /= np.linalg.norm(hidden, axis=0)
    root = every[:, seen] @ (vectors[:, kept] / np.sqrt(values[kept]) / unit)
    return root, np.concatenate([hidden, every[:, dark]], axis=1)


def relative(S: PSD, information: Array) -> float:
    """λ_max(S^-½ I S^-½); inf where I shows a direction h that S hides.

    hᵀIh is compared with |h|ᵀ|I||h|, the size of what cancels in it: a hidden reading is judged by
    its own information, not next to that of the others.
    """
    if not np.isfinite(information).all():
        return math.inf
    root, hidden = inverse_root(S.dense())
    shown = (hidden * (information @ hidden)).sum(axis=0)
    size = (np.abs(hidden) * (np.abs(information) @ np.abs(hidden))).sum(axis=0)
    if (shown > ZERO * size).any():
        return math.inf
    return float(np.linalg.eigvalsh(root.T @ information @ root)[-1]) if root.size else 0.0


def unbiased_floors(rows: Array, information: Array) -> Array:
    """a_iᵀ I⁺ a_i for rows a_i in the range of I; inf for the others.

    The least variance of an unbiased estimate of a_iᵀy. Outside the range the likelihood does not
    change in some direction in which a_iᵀy does: there is no unbiased estimate of finite variance.

    >>> unbiased_floors(np.array([[2.0, 1.0], [1.0, 0.0]]), np.array([[4.0, 2.0], [2.0, 1.0]]))
    array([ 1., inf])
    """
    root, hidden = inverse_root(information)
    size = np.sqrt(np.diagonal(information))
    unit = np.where(size > 0, size, 1.0)
    value = ((rows @ root) ** 2).sum(axis=1)
    # h is orthogonal to the range; lean in the same units in which the rank was decided.
    scaled = hidden * unit[:, None]
    scaled /= np.linalg.norm(scaled, axis=0)
    lean = np.abs((rows / unit) @ scaled).max(axis=1, initial=0.0)
    outside = lean > LEANS * np.linalg.norm(rows / unit, axis=1)
    return np.asarray(np.where(outside, np.inf, value))
