"""The cost of a real release at a level: what its exact noise shows, never less."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, get_args

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_choice, as_count
from privest.errors import InvalidInput
from privest.lattice import GRID, Coin
from privest.ledger._budget import LARGEST_MATRIX, Cost
from privest.ledger._exact import Matrix
from privest.linalg import PSD, Blocks
from privest.mechanism.source import Added, Law
from privest.privacy import (
    GridStatement,
    Move,
    OneReading,
    PrivacyLevel,
    SequentialLevel,
    as_level,
    coin_epsilon,
    grid_statement,
    rows_statement,
)
from privest.privacy._adjacency import as_move

# The information of noise on the grid stays below that of its level by g⁴/12 = 7.6e-14 of it
# (lattice/PROOF.md): more than the rounding of a root, so that a level of 2, whose double root
# squares to 2 + 4e-16, costs less than 2.
BELOW = 1 - Fraction(1, 2**44)
ULP = Fraction(1, 2**52)


def cost_of(
    level: PrivacyLevel | SequentialLevel | ArrayLike,
    *,
    move: float | Move | None = None,
    start: int = 0,
    stop: int | None = None,
    range: tuple[float, float] | None = None,
    law: Law = "gaussian",
    together: bool = False,
    statement: GridStatement | None = None,
) -> Cost:
    """What a real release at a level costs at each index.

    A number, vector or matrix is a `PrivacyLevel`: an index is a reading, or, `together`, all
    readings are one index, and the cost is their matrix. Of a stream an index is a step, and the
    cost is that of all that is ever shown of its reading, the diagonal block of the FINAL S̄: a
    later step that looks back spends budget of earlier readings, and is paid for ahead. So the
    costs of steps 0..k−1 add up to no less than tr S̄_k. `start` ≤ step < `stop`: these steps only.

    With `move`, or a `range` to which readings are clipped (then the move is one reading, by its
    width): μ² and ρ of `privacy.grid_statement`, shifts rounded up to the grid, or, for the law
    "laplace", a pure ε. `statement`: that of a mechanism (`statement()`), which knows its range
    better where a level mixes readings; without it, steps of which a part is missing may show the
    rest (they cost the information of a whole step). A law that is a `lattice.Coin`, whose own
    level is at most `level`, has a pure ε for two readings as far apart as its ends: the move is
    that.

    >>> cost = cost_of(4.0, move=0.5)
    >>> float(cost.information), float(cost.mu2)
    (4.0, 1.0)
    >>> from privest.privacy import StreamLevel
    >>> later = cost_of(StreamLevel([1.0, 4.0], U=[[], [2.0]]))  # S̄ = [[2, 2], [2, 4]]
    >>> [round(float(level), 9) for level, _ in later.information.runs]
    [2.0, 4.0]
    """
    if isinstance(law, Coin) and not isinstance(level, SequentialLevel):
        return _of_coin(law, as_level(level).number)
    as_choice(law, get_args(Added), "law")
    if isinstance(level, SequentialLevel):
        information: Any = _of_steps(level, start, stop)
    else:
        level = as_level(level)
        information = _of_readings(level, together)
    if move is None and range is None:
        if statement is not None:
            raise InvalidInput("a statement needs the move or the range that it is about.")
        return Cost(information)
    moved = as_move(_width(range) if move is None else move)
    if law == "laplace":
        if not isinstance(moved, OneReading):
            raise InvalidInput("a pure epsilon is known for a move of one reading.")
        said = _laplace(level, moved.by)
        return Cost(information, epsilon=said.epsilon, rho=said.rho, move=moved)
    said = statement or grid_statement(level, move=move, range=range, parts=True)
    mu2 = said.squared_steps * Fraction(GRID) ** 2
    return Cost(information, mu2=mu2, rho=said.rho, move=moved)


def _of_coin(coin: Coin, level: float | None) -> Cost:
    """Pure ε, and a level not below χ² of the two ends, which bounds the information."""
    if level is None or Fraction(level) < coin.level:
        raise InvalidInput(
            f"the level of a coin is one number, at least its own; its own is "
            f"{float(coin.level):g}."
        )
    return Cost(level, epsilon=coin_epsilon(coin), move=float(coin.width))


def _width(ends: tuple[float, float] | None) -> float:
    low, high = as_array(() if ends is None else ends, "range", ndim=1)
    return float(high - low)


def _of_readings(level: PrivacyLevel, together: bool) -> Any:  # noqa: ANN401
    if level.number is not None:
        return level.number
    assert level.size is not None
    matrix = level.for_size(level.size)
    if not together:
        return matrix.diagonal()
    if level.size > LARGEST_MATRIX:
        raise InvalidInput(
            f"{level.size} readings together are too many: a matrix is compared in rationals, up "
            f"to {LARGEST_MATRIX} readings."
        )
    if not isinstance(matrix, Blocks):
        return np.diag(matrix.diagonal())
    lower = np.zeros((level.size,) * 2)
    at = 0
    for part in matrix.lowers():
        end = at + len(part)
        lower[at:end, at : at + part.shape[1]] = part
        at = end
    return gram(lower.T)


def gram(rows: Array) -> Matrix:
    """AᵀA in exact numbers, times the share that noise on the grid shows."""
    exact = [[Fraction(x) for x in row] for row in rows.tolist()]
    size = rows.shape[1]
    return tuple(
        tuple(BELOW * sum((row[i] * row[j] for row in exact), Fraction(0)) for j in range(size))
        for i in range(size)
    )


def _of_steps(level: SequentialLevel, start: int, stop: int | None) -> Any:  # noqa: ANN401
    first = as_count(start, "start", least=0)
    if level.steps is None:
        block = level.final_blocks().dense()
        if len(block) == 1:
            return _safe(float(block[0, 0]), level.reach + 1)
        rows = level.blocks(level.reach, level.reach + 1)[:, 0]
        return gram(rows.reshape(-1, rows.shape[-1]))
    last = level.steps if stop is None else as_count(stop, "stop", least=first + 1)
    ends = [level.readings_before(k) for k in range(first, last + 1)]  # refuses steps beyond
    shown = level.final_blocks().diagonal()[ends[0] : ends[-1]]
    # A step of several readings: their sum is no less than any of them, and is their trace.
    sums = np.add.reduceat(shown, np.asarray(ends[:-1]) - ends[0])
    up = 1.0 + float(ULP) * (level.readings_before(level.steps) + 4)
    return sums * up * float(BELOW) if up * float(BELOW) <= 1.0 else sums * up


def _safe(value: float, terms: int) -> Fraction:
    """A sum of squares of doubles that was rounded, not below the exact one, times BELOW."""
    return Fraction(value) * (1 + (terms + 4) * ULP) * BELOW


def _laplace(level: PrivacyLevel | SequentialLevel, by: float) -> GridStatement:
    """A pure ε where every reading is shown by itself."""
    blocks: PSD | None = None
    if isinstance(level, SequentialLevel):
        blocks = level.final_blocks() if level.form == "independent" and level.block == 1 else None
    else:
        blocks = level.for_size(1 if level.size is None else level.size)
    if blocks is None or isinstance(blocks, Blocks):
        raise InvalidInput(
            "a pure epsilon is known for levels of single readings: state that of others in a Cost."
        )
    largest = math.sqrt(float(np.max(blocks.diagonal())))
    return rows_statement([largest], move=by, law="laplace")
