"""Rows of a release of clipped readings: checked, and a few thousand at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput

CHUNK = 8192  # rows at a time: they stay in cache


class ClippedRows(NamedTuple):
    """Some rows of a release of clipped readings: h_k (rows, n) and z_k in the readings' units.

    `variance` σ², `level` s and the ends of the range are numbers or one a row. Where S is
    correlated, rows are the coordinates of u = Lᵀy (`clipped_rows`): h_k those of LᵀH, s = 1, σ²
    those of LᵀΣL. NaN in z: a reading that is missing, the row is left out. Where σ² is not known
    `variance` holds c of σ_k² = σ²c_k: 1 for all.
    """

    H: ArrayLike
    z: ArrayLike
    variance: ArrayLike
    level: ArrayLike
    low: ArrayLike
    high: ArrayLike


Chunk = tuple[Array, Array, Array, Array, Array, Array]


def chunks(blocks: Iterable[ClippedRows]) -> Iterator[Chunk]:
    """The rows that are not missing, a few thousand at a time, checked."""
    for block in blocks:
        yield from _parted(*_checked(block))


def _checked(block: ClippedRows) -> Chunk:
    H = as_array(block.H, "H", ndim=2)
    z = np.asarray(block.z, dtype=np.float64)
    shown = ~np.isnan(z)
    if z.shape != (len(H),):
        raise InvalidInput(f"z has shape {z.shape}; H has {len(H)} rows.")
    facts = []
    for name in ("variance", "level", "low", "high"):
        fact = as_array(getattr(block, name), name, ndim=(0, 1))
        if fact.ndim and len(fact) != len(H):
            raise InvalidInput(f"{name} is a number or one a row: {len(H)}, not {len(fact)}.")
        alike = fact.ndim and len(fact) and (fact == fact[0]).all()
        facts.append(fact[0] if alike else fact[shown] if fact.ndim else fact)
    variance, level, low, high = facts
    if not ((variance > 0).all() and (level > 0).all() and (low < high).all()):
        raise InvalidInput("variance and level must be > 0 and low < high in every row.")
    return H[shown], as_array(z[shown], "z"), variance, level, low, high


def _parted(
    H: Array, z: Array, variance: Array, level: Array, low: Array, high: Array
) -> Iterator[Chunk]:
    for at in range(0, len(H), CHUNK):
        part = slice(at, at + CHUNK)
        a, b, c, d = (f[part] if f.ndim else f for f in (variance, level, low, high))
        yield H[part], z[part], a, b, c, d
