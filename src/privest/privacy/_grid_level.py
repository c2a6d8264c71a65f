"""The level of an ε that real releases keep, and that a ledger with this budget allows."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.privacy import gdp
from privest.privacy._adjacency import Move, as_move
from privest.privacy._endless import EndlessLevel
from privest.privacy._grid_moves import entries_of, shift_of
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
    most, moved = gdp.mu_of(epsilon, delta), as_move(move)
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
        raise InvalidInput(
            f"epsilon = {epsilon:g} at delta = {delta:g} is less than one step of the grid of real "
            f"releases (mu = {most:.3g}, a step {GRID:.3g} for each number that shows a reading): "
            "ask for a larger epsilon, or for fewer lags."
        )
    if fits(high):
        return shape * high
    while high - low > CLOSE * high:
        middle = low + (high - low) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    # Beyond the last bit, in which the roots of a number and of a stream may differ.
    return shape * (low * (1 - CLOSE / 10))
