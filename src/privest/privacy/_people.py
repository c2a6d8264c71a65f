"""A level for a person who has several rows: how it is spread over them, and what it promises.

A person has r rows, y (r,). The level of the person's rows is S = (s/r)·I: every row shows s/r, all
of them together s. The mean of the rows is known to ± 1/√s (1ᵀS1 = s), and the whole person has
differential privacy: where every row moves by at most c, μ² = c²s.

The release is c·y + e with r·c² ≤ s for a double c, decided in rationals.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from privest.arrays import as_count, as_positive
from privest.errors import InvalidInput
from privest.lattice import GRID, MOST, literal_root
from privest.privacy import gdp
from privest.privacy._grid import SLACK, Shift, steps_up, whole_sum
from privest.privacy._statement import DELTA, GridStatement, statement_of_shift
from privest.reading import read_flag

CLOSE = 1e-11  # relative: how near the largest level is found


@lru_cache(maxsize=4096)
def person_root(level: float, rows: int) -> float:
    """The largest double c, to a bit, with r·c² ≤ s exactly.

    >>> person_root(4.0, 4)
    1.0
    """
    root = float(literal_root(np.array(level / rows)))
    while rows * Fraction(root) ** 2 > Fraction(level):
        root = math.nextafter(root, 0.0)
    return root


def person_statement(
    level: float,
    rows: int,
    *,
    move: float,
    capped: bool = False,
    delta: float = DELTA,
    enforced: bool = False,
) -> GridStatement:
    """What a real release promises to a whole person, of whom every row moves by at most `move`.

    rows      the most that any person has. `capped`: every row has the level s/`rows`, also those
              of persons who have fewer; else s over the number of their own rows.
    enforced  whether a range makes the move true of every reading; else it is a condition.

    μ² = c²s but for the grid, r·⌈c√(s/r)/g⌉²·g² at its worst.

    >>> said = person_statement(1.0, 4, move=1.0, capped=True)
    >>> said.mu, round(said.epsilon, 5)     # c√s: as for one reading at level 1
    (1.0, 4.88655)
    """
    s, c = as_positive(level, "level"), as_positive(move, "move")
    count = as_count(rows, "rows of a person", least=1)
    capped, enforced = read_flag(capped, "capped"), read_flag(enforced, "enforced")
    shift = _shift(s, count, c, capped)
    about = f"every reading of one person differs by at most {c:g} (up to {count} rows)"
    conditions = () if enforced else (f"{about}, which no range enforces",)
    return statement_of_shift(s, shift, delta, about, conditions)


def _shift(level: float, rows: int, by: float, capped: bool) -> Shift:
    counts = np.array([rows]) if capped else np.arange(1, rows + 1)
    roots = np.array([person_root(level, int(r)) for r in counts]) if len(counts) < 100 else None
    if roots is None:  # an upper limit of the roots does: they are rounded up to steps
        roots = np.sqrt(level / counts) * (1 + SLACK)
    steps = np.minimum(steps_up(roots, by), 2.0 * MOST)
    largest = whole_sum(float((counts * steps * steps).max()))
    only = Fraction(person_root(level, 1)) * Fraction(by) / Fraction(GRID) if rows == 1 else None
    return Shift(largest, only)


def person_level(
    epsilon: float,
    *,
    delta: float,
    rows: int,
    move: float,
    capped: bool = False,
    enforced: bool = False,
) -> float:
    """The largest level, to ten digits, whose `person_statement` has at most this ε at δ.

    Raises InvalidInput where not even one step of the grid for every row fits.
    """
    most = gdp.mu_of(epsilon, delta)

    def fits(level: float) -> bool:
        said = person_statement(
            level, rows, move=move, capped=capped, delta=delta, enforced=enforced
        )
        return said.mu is not None and said.mu <= most

    root = most / as_positive(move, "move")
    high = root * root
    if not math.isfinite(high):
        raise InvalidInput(f"move = {move:g} is too small: choose other units.")
    low = high * 2.0**-40
    if not fits(low):
        raise InvalidInput(
            f"epsilon = {epsilon:g} at delta = {delta:g} is less than the steps of the grid of "
            f"{rows} rows: ask for a larger epsilon, or let fewer rows of a person leave (person "
            "most)."
        )
    if fits(high):
        return high
    while high - low > CLOSE * high:
        middle = low + (high - low) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
