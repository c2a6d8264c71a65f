"""V_{k−1} = M_k V_k M_kᵀ + S_k backwards over all steps; kept where it has arrived at its limit."""

from __future__ import annotations

import numpy as np
import scipy

from privest.arrays import Array, Index
from privest.dynamics._parallel import MANY, backward_pieces, worthwhile
from privest.dynamics._runs import run_starts

# A limit counts as reached when all further changes together stay below this part of the matrix,
# in units of its diagonal. Rounding itself is about 1e-15 a step.
REACHED = 1e-12
PATIENCE = 1.5  # a failed check is not repeated before the steps of a run have grown by this


def relative_change(new: Array, old: Array) -> float:
    """max |new − old|_ij in units of √(new_ii new_jj)."""
    unit = _units(np.maximum(np.diagonal(new), np.diagonal(old)))
    return float(np.abs((new - old) / unit / unit[:, None]).max())


def settled(change: float, reference: Array, contraction: Array) -> bool:
    """Whether all further changes, Σ_j Mʲ δ Mʲᵀ with |δ| ≤ change in units, stay below REACHED."""
    unit = _units(np.diagonal(reference))
    own = contraction * unit / unit[:, None]
    if not np.isfinite(own).all() or np.abs(np.linalg.eigvals(own)).max() >= 1.0 - 1e-9:
        return False
    total = scipy.linalg.solve_discrete_lyapunov(own, np.eye(len(own)))
    return bool(change * len(own) * np.linalg.norm(total, 2) <= REACHED)


def _units(diagonal: Array) -> Array:
    size = np.sqrt(diagonal)
    return np.where(size > 0, size, 1.0)


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
