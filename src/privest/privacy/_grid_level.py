"""The level of an ε, or of an attacker's chance, that real releases keep."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

from privest.arrays import as_positive
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.privacy import attacker, gdp
from privest.privacy._adjacency import Convertible, Move, as_move
from privest.privacy._endless import EndlessLevel
from privest.privacy._grid import entries_of, shift_of
from privest.privacy._level import PrivacyLevel

CLOSE = 1e-11  # relative: how near the largest level is found
LEAST = 2.0**-80  # of the level without a grid: nothing moves by more than one step there
L = TypeVar("L", PrivacyLevel, EndlessLevel)


def level_on_grid(epsilon: float, *, delta: float, move: float | Move, shape: L) -> L:
    """The largest multiple of `shape` whose real release is (ε, δ)-private for this move.

    `from_epsilon` says it of continuous noise. On the grid g = 2⁻¹⁰ every number that is shown
    moves by whole steps, rounded up; this is the largest level with

        g·√(Σ n_i²) ≤ μ(ε, δ) ,

    to ten digits and to the safe side: the ε of its `grid_statement` is at most the ε asked for,
    and a ledger with the budget (ε, δ) takes one such release. Costs at most one step in μ for each
    number that shows a reading. Raises InvalidInput where not even one step fits.

    >>> level = level_on_grid(1.0, delta=1e-6, move=1.0, shape=PrivacyLevel(1.0))
    >>> whole = PrivacyLevel.from_epsilon(1.0, delta=1e-6, move=1.0)
    >>> 0.99 < level.number / whole.number < 1.0
    True
    """
    most = gdp.mu_of(epsilon, delta)
    if not isinstance(shape, Convertible):
        raise InvalidInput(f"shape must be a privacy level; received a {type(shape).__name__}.")
    found = _largest(most, as_move(move), shape)
    if found is None:
        raise InvalidInput(
            f"epsilon = {epsilon:g} at delta = {delta:g} is less than one step of the grid of real "
            f"releases (mu = {most:.3g}, a step {GRID:.3g} for each number that shows a reading): "
            "ask for a larger epsilon, or for fewer lags."
        )
    return found


def level_for_attacker(
    apart: float | Move, chance: float, shape: PrivacyLevel | None = None
) -> PrivacyLevel:
    """The largest level whose real release tells two values `apart` with at most this chance.

    `attacker.level_for_tolerance` says it of continuous noise, s = (2Φ⁻¹(p)/c)²; on the grid μ is
    rounded up to whole steps, and this is the largest level with Φ(μ/2) ≤ p. Raises InvalidInput
    where p is so near to a coin that not one step fits. With a `shape` its largest multiple, and
    `apart` may be a `Move`: two records, say.

    >>> level = level_for_attacker(1.0, 0.75)
    >>> whole = attacker.level_for_tolerance(1.0, 0.75)
    >>> 0.998 < level.number / whole < 1.0
    True
    """
    moved = apart if isinstance(apart, Move) else as_move(as_positive(apart, "tolerance"))
    unit = PrivacyLevel(1.0) if shape is None else shape
    found = _largest(attacker.mu_for_chance(chance), moved, unit)
    if found is None:
        raise InvalidInput(
            f"an attacker who is right with chance {chance:.6g} only knows next to nothing: real "
            f"releases have steps of {GRID:.3g} deviations of their noise, which is more. Ask for "
            "a chance of 0.501 or more."
        )
    return found


def _largest(most: float, moved: Move, shape: L) -> L | None:
    """The largest multiple of `shape` with g·√(Σ n_i²) ≤ most; None where not even a step fits."""
    reach = shape.to_mu(move=moved)
    if reach == 0:
        raise InvalidInput("the shape does not see this move at all: any multiple would do.")
    largest = PrivacyLevel.from_mu(most, move=reach).number
    assert largest is not None
    limit = (Fraction(most) / Fraction(GRID)) ** 2

    def fits(factor: float) -> bool:
        level = shape * factor
        return shift_of(level, moved, entries_of(level)).squared <= limit

    low, high = largest * LEAST, largest
    if not (low > 0 and fits(low)):
        return None
    if fits(high):
        return shape * high
    while high - low > CLOSE * high:
        middle = low + (high - low) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    # Beyond the last bit, in which the roots of a number and of a stream may differ.
    return shape * (low * (1 - CLOSE / 10))
