"""A level for a person who has several rows: how it is spread over them, and what it promises.

A person has r rows, y (r,), P₁ = 11ᵀ/r. The level of the person's rows is

    A   S = (s/r)·I                     every row shows s/r: all of them together s
    B   S = (s/r)·P₁ + s·(I − P₁)       every row shows at most s, and so does the person's mean

Both leave the mean of the rows known to ± 1/√s (1ᵀS1 = s). A promises differential privacy for the
whole person: where every row moves by at most c, μ² = c²s. B does not (μ² is up to r·c²s): it hides
the person's mean at s and keeps what changes within a person at full accuracy.

The release is Lᵀy + e with LLᵀ ≤ S for doubles L, decided in rationals: under A a number, under B a
matrix with one number d on its diagonal and another, o, elsewhere, whose eigenvalues are d − o and
d + (r − 1)o exactly.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from privest.arrays import as_count, as_positive
from privest.errors import InvalidInput
from privest.lattice import GRID, MOST, literal_root
from privest.privacy import gdp
from privest.privacy._grid_moves import SLACK, Shift, steps_up, whole_sum
from privest.privacy._statement import DELTA, GridStatement, statement_of_shift

Design = Literal["A", "B"]
DESIGNS: tuple[str, ...] = get_args(Design)
SHRUNK = (0.0, *(2.0**-k for k in range(52, 29, -1)))  # L is made smaller until LLᵀ ≤ S
CLOSE = 1e-11  # relative: how near the largest level is found


@lru_cache(maxsize=4096)
def own_root(level: float, rows: int) -> float:
    """Design A: the largest double c, to a bit, with r·c² ≤ s exactly.

    >>> own_root(4.0, 4)
    1.0
    """
    root = float(literal_root(np.array(level / rows)))
    while rows * Fraction(root) ** 2 > Fraction(level):
        root = math.nextafter(root, 0.0)
    return root


@lru_cache(maxsize=4096)
def mixing(level: float, rows: int) -> tuple[float, float]:
    """Design B: d and o of L = (d − o)I + o·11ᵀ, with (d − o)² ≤ s and (d + (r − 1)o)² ≤ s/r.

    >>> mixing(4.0, 1), mixing(4.0, 4)  # √4·(1 − 1/8), −√4/8
    ((2.0, 0.0), (1.75, -0.25))
    """
    if rows == 1:
        return own_root(level, 1), 0.0
    root = math.sqrt(level)
    other = -(root - root / math.sqrt(rows)) / rows
    for shrink in SHRUNK:
        d, o = (root + other) * (1 - shrink), other * (1 - shrink)
        within, mean = Fraction(d) - Fraction(o), Fraction(d) + (rows - 1) * Fraction(o)
        if within**2 <= Fraction(level) and rows * mean**2 <= Fraction(level):
            return d, o
    raise InvalidInput(
        f"{rows} rows of one person are too many to be released together at level {level:g}: the "
        "rounding of numbers is in the way. State a largest number of rows (person most)."
    )


def person_statement(
    level: float,
    rows: int,
    design: Design = "A",
    *,
    move: float,
    capped: bool = False,
    delta: float = DELTA,
    enforced: bool = False,
) -> GridStatement:
    """What a real release promises to a whole person, of whom every row moves by at most `move`.

    rows      the most that any person has. `capped`, under A: every row has the level s/`rows`,
              also those of persons who have fewer; else s over the number of their own rows.
    enforced  whether a range makes the move true of every reading; else it is a condition.

    A: μ² = c²s but for the grid, r·⌈c√(s/r)/g⌉²·g² at its worst. B: with the row moves x of size c
    at most, ‖Lᵀx‖ ≤ c√(rs), and a step of the grid for each of the r numbers that are shown; with
    a range it is these numbers that are clipped, never the readings, and each of them can go from
    one end to the other.

    >>> said = person_statement(1.0, 4, move=1.0, capped=True)
    >>> said.mu, round(said.epsilon, 5)     # c√s: as for one reading at level 1
    (1.0, 4.88655)
    >>> person_statement(1.0, 4, "B", move=1.0).mu < 2.002   # c√(4s)
    True
    """
    s, c = as_positive(level, "level"), as_positive(move, "move")
    count = as_count(rows, "rows of a person", least=1)
    if design == "A":
        shift = _shift_a(s, count, c, capped)
    else:
        shift = _clipped_b(s, count, c) if enforced and count > 1 else _shift_b(s, count, c)
    about = f"every reading of one person differs by at most {c:g} (up to {count} rows)"
    conditions = () if enforced else (f"{about}, which no range enforces",)
    return statement_of_shift(s, shift, delta, about, conditions)


def _shift_a(level: float, rows: int, by: float, capped: bool) -> Shift:
    counts = np.array([rows]) if capped else np.arange(1, rows + 1)
    roots = np.array([own_root(level, int(r)) for r in counts]) if len(counts) < 100 else None
    if roots is None:  # an upper limit of the roots does: they are rounded up to steps
        roots = np.sqrt(level / counts) * (1 + SLACK)
    steps = np.minimum(steps_up(roots, by), 2.0 * MOST)
    largest = whole_sum(float((counts * steps * steps).max()))
    only = Fraction(own_root(level, 1)) * Fraction(by) / Fraction(GRID) if rows == 1 else None
    return Shift(largest, only)


def _shift_b(level: float, rows: int, by: float) -> Shift:
    if rows == 1:
        return _shift_a(level, 1, by, capped=True)
    reach = by * math.sqrt(rows * level) * (1 + SLACK) / GRID + math.sqrt(rows)
    return Shift(math.ceil(min(reach, 2.0 * MOST * math.sqrt(rows)) ** 2))


def _clipped_b(level: float, rows: int, width: float) -> Shift:
    """Each of r numbers anywhere between its ends, which were rounded outwards (`clip_of`)."""
    mixed = 1 - 1 / math.sqrt(rows)
    reach = math.sqrt(level) * (1 + mixed * (1 - 2 / rows)) * width * (1 + SLACK) / GRID + 4
    return Shift(rows * math.ceil(min(reach, 2.0 * MOST)) ** 2)


def person_level(
    epsilon: float,
    *,
    delta: float,
    rows: int,
    design: Design,
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
            level, rows, design, move=move, capped=capped, delta=delta, enforced=enforced
        )
        return said.mu is not None and said.mu <= most

    high = (most / as_positive(move, "move")) ** 2
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
