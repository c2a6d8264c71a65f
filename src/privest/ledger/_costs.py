"""The cost of a real release at a level: what its exact noise shows, never less."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from privest.arrays import Array, ArrayLike, as_count
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.ledger._budget import LARGEST_MATRIX, Cost
from privest.ledger._exact import Matrix, whole_root_up
from privest.linalg import PSD, Blocks
from privest.mechanism.source import Law
from privest.privacy import (
    AdjacentSteps,
    Move,
    OneBlock,
    OneReading,
    PrivacyLevel,
    SequentialLevel,
    as_level,
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
    law: Law = "gaussian",
    together: bool = False,
) -> Cost:
    """What a real release at a level costs at each index.

    A number, vector or matrix is a `PrivacyLevel`: an index is a reading, or, `together`, all
    readings are one index, and the cost is their matrix. Of a stream an index is a step, and the
    cost is that of all that is ever shown of its reading, the diagonal block of the FINAL S̄: a
    later step that looks back spends budget of earlier readings, and is paid for ahead. So the
    costs of steps 0..k−1 add up to no less than tr S̄_k. `start` ≤ step < `stop`: these steps only.

    With `move`: μ² (law "gaussian"; ρ = μ²/2 follows) or a pure ε ("laplace") when the readings
    move by that much, the shift of every coordinate rounded up to the grid 2⁻¹⁰.

    >>> cost = cost_of(4.0, move=0.5)
    >>> float(cost.information), float(cost.mu2)
    (4.0, 1.0)
    >>> from privest.privacy import StreamLevel
    >>> later = cost_of(StreamLevel([1.0, 4.0], U=[[], [2.0]]))  # S̄ = [[2, 2], [2, 4]]
    >>> [round(float(level), 9) for level, _ in later.information.runs]
    [2.0, 4.0]
    """
    if isinstance(level, SequentialLevel):
        information: Any = _of_steps(level, start, stop)
    else:
        level = as_level(level)
        information = _of_readings(level, together)
    if move is None:
        return Cost(information)
    if law == "laplace":
        return Cost(information, epsilon=_pure(level, as_move(move)), move=move)
    return Cost(information, mu2=_mu2(level, as_move(move)), move=move)


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


def _mu2(level: PrivacyLevel | SequentialLevel, move: Move) -> Fraction:
    """‖g⌈|LᵀΔ|/g⌉‖² ≤ (‖LᵀΔ‖ + g√k)², k the coordinates that the move can reach."""
    single = _pointwise(level, move)
    if single is not None:
        return _steps_of_grid(single) ** 2 * Fraction(GRID) ** 2
    mu = level.to_mu(move=move) * (1 + 64 * float(ULP))
    return Fraction(math.nextafter(mu + GRID * math.sqrt(_reached(level, move)), math.inf)) ** 2


def _pure(level: PrivacyLevel | SequentialLevel, move: Move) -> Fraction:
    single = _pointwise(level, move)
    if single is None:
        raise InvalidInput(
            "a pure epsilon is known for levels of single readings and a move of one of them: "
            "state the epsilon in a Cost."
        )
    return _steps_of_grid(single) * Fraction(GRID)  # 1/b0 < g


def _steps_of_grid(square: Fraction) -> int:
    """The smallest n with (n·g)² ≥ square."""
    return whole_root_up(square / Fraction(GRID) ** 2)


def _pointwise(level: PrivacyLevel | SequentialLevel, move: Move) -> Fraction | None:
    """s·c², exactly, where one reading moves and one coordinate shows it; else None."""
    if not isinstance(move, OneReading):
        return None
    by = Fraction(move.by) ** 2
    if isinstance(level, PrivacyLevel):
        if level.number is not None:
            return Fraction(level.number) * by
        assert level.size is not None
        matrix = level.for_size(level.size)
        return None if isinstance(matrix, Blocks) else _largest(matrix) * by
    if level.form == "independent" and level.block == 1:
        return _largest(level.final_blocks()) * (1 + 4 * ULP) * by
    return None


def _largest(matrix: PSD) -> Fraction:
    return Fraction(float(np.max(matrix.diagonal())))


def _reached(level: PrivacyLevel | SequentialLevel, move: Move) -> int:
    """How many coordinates can read what moves, at most."""
    if isinstance(level, PrivacyLevel):
        return _moved(move) if level.size is None else level.size
    if level.steps is not None and level.form == "dense":
        return level.readings_before(level.steps)
    steps = move.steps if isinstance(move, AdjacentSteps) else 1
    m = level.block or max(level.sizes_between(0, level.steps or 1))
    if isinstance(move, OneBlock) and move.sizes is not None:
        steps = max(move.sizes) + 1
    elif not isinstance(move, AdjacentSteps | OneBlock | OneReading):
        if level.steps is None:
            raise InvalidInput(
                "a move along a direction of a stream without an end has no cost of its own: state "
                "its mu2 in a Cost."
            )
        steps = level.steps
    return (steps + level.reach) * m


def _moved(move: Move) -> int:
    """The readings that a move of a level given as a number can touch."""
    if isinstance(move, OneReading):
        return 1
    if isinstance(move, AdjacentSteps):
        return move.steps
    if isinstance(move, OneBlock) and move.sizes is not None:
        return max(move.sizes)
    direction = getattr(move, "direction", None)
    if direction is None:
        raise InvalidInput("a block of a level given as a number needs sizes: OneBlock(by, sizes).")
    return len(direction)
