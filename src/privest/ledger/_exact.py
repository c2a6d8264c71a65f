"""Exact numbers of the accounts: doubles are fractions m·2^e, and so are their sums and products.

A float total loses small spends (1 + 2⁻⁶⁰ = 1); here nothing is lost, a subnormal neither.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from privest.arrays import ArrayLike, as_number
from privest.errors import InvalidInput

DYADIC = re.compile(r"(-?[0-9]{1,2000})p(-?[0-9]{1,4})")
Matrix = tuple[tuple[Fraction, ...], ...]


def as_exact(given: ArrayLike | Fraction, name: str) -> Fraction:
    """A number ≥ 0, exactly as it was given: a double, a whole number or a fraction m·2^e."""
    if isinstance(given, Fraction):
        found = given
        if found.denominator & (found.denominator - 1):
            raise InvalidInput(f"{name} must be a double or a fraction over a power of two.")
    else:
        found = Fraction(as_number(given, name))
    if found < 0:
        raise InvalidInput(f"{name} must be ≥ 0: what was shown cannot be taken back.")
    return found


def written(number: Fraction) -> str:
    """m·2^e as a text, m odd or 0: one text a number.

    >>> written(Fraction(0.375)), written(Fraction(0)), written(Fraction(12))
    ('3p-3', '0p0', '3p2')
    """
    top, down = number.numerator, number.denominator.bit_length() - 1
    if down == 0 and top:
        up = (top & -top).bit_length() - 1
        return f"{top >> up}p{up}"
    return f"{top}p{-down}"


def read_exact(text: object) -> Fraction:
    """The inverse of `written`. Raises ValueError for anything else."""
    found = DYADIC.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("not a number of a ledger")
    top, power = int(found[1]), int(found[2])
    number = Fraction(top << power) if power >= 0 else Fraction(top, 1 << -power)
    if written(number) != text:
        raise ValueError("not a number as a ledger writes it")
    return number


def is_psd(matrix: Sequence[Sequence[Fraction]]) -> bool:
    """Whether a symmetric matrix is positive semi-definite: decided, not estimated.

    Elimination in rationals: a pivot must be > 0, or 0 with nothing beside it. Cost O(n³).

    >>> one = Fraction(1)
    >>> is_psd([[one, one], [one, one]]), is_psd([[one, one], [one, one - Fraction(1, 2**200)]])
    (True, False)
    """
    rows = [list(row) for row in matrix]
    for k in range(len(rows)):
        pivot = rows[k][k]
        if pivot < 0 or (pivot == 0 and any(rows[k][k:])):
            return False
        if pivot == 0:
            continue
        for i in range(k + 1, len(rows)):
            share = rows[i][k] / pivot
            if share:
                for j in range(k, len(rows)):
                    rows[i][j] -= share * rows[k][j]
    return True
