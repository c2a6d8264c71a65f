"""Sums of rows of H, and which coefficients they determine."""

from __future__ import annotations

from typing import Never

import numpy as np

from privest.arrays import Array
from privest.errors import NotIdentifiable
from privest.linalg import RunningLeastSquares
from privest.linalg.tolerances import rounding


def new_sums(n: int) -> RunningLeastSquares:
    """Sums for n coefficients."""
    return RunningLeastSquares(n, rounding(n))


def add_rows(sums: RunningLeastSquares, H: Array) -> None:
    """Rows of H without values."""
    if len(H):
        rows = np.zeros((len(H), H.shape[1] + 1), order="F")
        rows[:, :-1] = H
        sums.add(rows)


def triangle_of(sums: RunningLeastSquares) -> Array:
    """R with RᵀR = HᵀH."""
    return np.triu(sums.triangle[:-1, :-1])


def require_full(sums: RunningLeastSquares, names: tuple[str, ...], where: str, rows: int) -> None:
    """Raise NotIdentifiable, naming the columns, where the rows do not determine θ."""
    if not sums.full:
        refuse_hidden(sums.root().hidden, sums.natural, names, where, rows)


def refuse_hidden(
    hidden: Array, sizes: Array, names: tuple[str, ...], where: str, rows: int
) -> Never:
    """Say which columns take part in the hidden directions, and what to do."""
    if rows < len(names):
        raise NotIdentifiable(
            f"{where}: {rows} row{'s' * (rows != 1)} cannot determine {len(names)} coefficients. "
            "More rows are needed, or fewer features.",
            hidden,
        )
    zero = [name for name, size in zip(names, sizes) if size == 0]
    if zero and "=" in zero[0]:
        raise NotIdentifiable(
            f"{where}: no row has {', '.join(map(repr, zero))}, so its coefficient cannot be "
            "estimated. Take the category off the list; that nobody has it is then public.",
            hidden,
        )
    raise NotIdentifiable(
        f"{where}: {_reason(zero, _tied(hidden, sizes, names))}. The coefficients cannot be told "
        "apart: leave one of the columns out.",
        hidden,
    )


def _tied(hidden: Array, sizes: Array, names: tuple[str, ...]) -> list[str]:
    """The columns that take part, whatever their units."""
    part = np.linalg.norm(hidden * np.maximum(sizes, 1e-300)[:, None], axis=1)
    return [name for name, size in zip(names, part) if size > 1e-6 * part.max()]


def _reason(zero: list[str], tied: list[str]) -> str:
    if zero:
        return f"{', '.join(map(repr, zero))} {'is' if len(zero) == 1 else 'are'} 0 in every row"
    if "intercept" in tied and len(tied) == 2:
        return f"{next(name for name in tied if name != 'intercept')!r} is constant"
    return f"{', '.join(map(repr, tied))} are collinear"
