"""A level restricted to some measurements: the shorted operator (Schur complement)

    S_O = S_OO − S_OM S_MM⁺ S_MO ,    xᵀS_O x = min over y_M of ‖A(x, y_M)‖² ,   S = AᵀA ,

the largest I on the kept entries O with E I Eᵀ ≤ S (E puts them in their places).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from privest.arrays import Array, Flags
from privest.linalg.tolerances import rounding


def shorted_root(rows: Array, kept: Flags) -> Array:
    """B (m, m) upper-triangular on the kept entries, zeros elsewhere, with BᵀB = E S_O Eᵀ.

    S = rowsᵀrows, rows (m, m) of any rank: the other columns are taken out by Gram-Schmidt, twice.
    Where no row mixes kept and other entries B is `rows` with zeros. Else B is divided by
    1 + 10m^1.5·eps/σ, σ the least singular value of `rows` (columns scaled), so that
    E BᵀB Eᵀ ≤ S despite rounding. O(m³).
    """
    whole, flags = np.ascontiguousarray(rows, dtype=np.float64), np.asarray(kept, dtype=bool)
    return _shorted(whole.tobytes(), flags.tobytes()).copy()


@lru_cache(maxsize=512)
def _shorted(numbers: bytes, flags: bytes) -> Array:
    kept = np.frombuffer(flags, dtype=bool)
    m = len(kept)
    rows = np.frombuffer(numbers).reshape(m, m)
    seen = rows != 0
    mine, theirs = seen[:, kept].any(axis=1), seen[:, ~kept].any(axis=1)
    if not (mine & (theirs | ~kept)).any():  # nothing is mixed
        return np.asarray(np.where(mine[:, None], rows, 0.0))
    # In units in which every column has size one: no unit decides what is zero, or underflows.
    size = np.abs(rows).max(axis=0)
    size = np.where(size > 0, size, 1.0)
    scaled = rows / size
    length = np.linalg.norm(scaled, axis=0)
    unit = np.divide(scaled, length, out=np.zeros_like(scaled), where=length > 0)
    order = [*np.flatnonzero(~kept).tolist(), *np.flatnonzero(kept).tolist()]
    basis, owners = _basis(unit, order)
    result = np.zeros((m, m))
    for q, j in zip(basis.T, owners):
        if kept[j]:
            later = kept & (np.arange(m) >= j)
            result[j, later] = q @ rows[:, later]
    values = np.linalg.svd(unit, compute_uv=False)
    least = values[values > rounding(m) * values[0]].min(initial=values[0])
    return np.asarray(result / (1.0 + rounding(m) * np.sqrt(m) / least))


def _basis(columns: Array, order: list[int]) -> tuple[Array, list[int]]:
    basis: Array = np.zeros((len(columns), 0))
    owners: list[int] = []
    for j in order:
        rest, before = columns[:, j], float(np.linalg.norm(columns[:, j]))
        for _ in range(2):
            rest = rest - basis @ (basis.T @ rest)
        left = float(np.linalg.norm(rest))
        if left > rounding(columns.shape[1]) * before:
            basis, owners = np.column_stack([basis, rest / left]), [*owners, j]
    return basis, owners
