"""The target as it is modelled: its transform, and range, move and ε in those units."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.lattice import GRID, literal_root
from privest.mechanism._range import clip_of
from privest.privacy import (
    PrivacyLevel,
    Range,
    grid_statement,
    level_for_attacker,
    level_on_grid,
)

Ends = tuple[float, float]


def as_modelled(transform: str, y: Array) -> Array:
    """The target after its transform: none, or log, which needs y > 0."""
    return np.log(y) if transform == "log" else y


def modelled_range(transform: str, ends: Ends | None) -> Range | None:
    """A range of readings in the units of the modelled target: the logarithm is increasing."""
    if ends is None:
        return None
    if transform != "none" and not ends[0] > 0:
        raise InvalidInput(
            f"range {ends[0]:g}, {ends[1]:g}: transform {transform} needs a range above 0."
        )
    return Range(*as_modelled(transform, np.array(ends)).tolist())


def clipped(transform: str, ends: Ends | None, y: Array) -> Array:
    """Readings clipped to their range, then transformed: whatever the readings are, this exists."""
    return as_modelled(transform, y if ends is None else np.clip(y, *ends))


def counted_move(move: float | None, limits: Range | None) -> float | None:
    """By how much one reading moves at most: as stated, and never more than its range is wide.

    Stated it is a condition; by a range alone it is true of every reading. None: nobody said.
    """
    if limits is None:
        return move
    return limits.width if move is None else min(move, limits.width)


def epsilon_of(level: float, delta: float | None, move: float | None) -> float | None:
    """ε of a real release at this level for a move, where δ and the move are stated.

    That of exact noise on the grid (`grid_statement`), to the safe side.
    """
    if delta is None or move is None:
        return None
    with np.errstate(over="ignore"):  # a move beyond the grid counts as all of it
        return grid_statement(level, move=move, delta=delta).epsilon


def level_for(epsilon: float, delta: float, move: float) -> float:
    """The largest level whose real release is (ε, δ)-private for the move."""
    found = level_on_grid(epsilon, delta=delta, move=move, shape=PrivacyLevel(1.0)).number
    assert found is not None
    return found


def level_for_chance(tolerance: float, chance: float) -> float:
    """The largest level whose real release tells two readings `tolerance` apart no more often."""
    found = level_for_attacker(tolerance, chance).number
    assert found is not None
    return found


def clip_ends(level: float, limits: Range | None) -> Ends | None:
    """The readings at which a release clips: the last ones on the grid within the range."""
    if limits is None:
        return None
    low, high = row_ends(np.array([level]), limits)
    return float(low[0]), float(high[0])


def row_ends(levels: Array, limits: Range) -> tuple[Array, Array]:
    """The same for rows with these levels, all above 0."""
    root = literal_root(levels)
    least, most = clip_of([root], (limits.low, limits.high))
    return least * GRID / root, most * GRID / root
