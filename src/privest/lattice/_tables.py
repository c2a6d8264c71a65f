"""The discrete laws, and ⌊2^b F(m)⌋ of their magnitudes for every m, certified.

X = ±M with a fair sign, F(m) = P(M ≤ m). Enclosures are pairs of Python integers, so nothing here
rounds but where floor or ceiling is written. Labels (§) are those of PROOF.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

GRID_BITS = 10
GRID = 2.0**-GRID_BITS
_GUARD = 64  # bits beyond those of the table; doubled until every entry is decided

Bounds = tuple[list[int], list[int]]  # 2^p F(m) lies between, m = 0, 1, …


class MagnitudeLaw(ABC):
    """A symmetric law on the integers, F(m) = P(|X| ≤ m) < 1 for every m."""

    @abstractmethod
    def enclosures(self, bits: int, precision: int) -> Bounds:
        """Integers below and above 2^precision·F(m), until F(m) ≥ 1 − 2^−bits for sure."""

    def table(self, bits: int) -> list[int]:
        """⌊2^bits F(m)⌋ for m = 0, 1, … up to the first that is 2^bits − 1 (§3).

        Both ends of every enclosure have the same floor, else the precision is raised: no entry
        rests on rounding.
        """
        guard = _GUARD
        while (found := certified(self.enclosures(bits, bits + guard), bits, guard)) is None:
            guard *= 2
        return found


def certified(bounds: Bounds, bits: int, guard: int) -> list[int] | None:
    """The table that both ends of all enclosures agree on; None if some entry is undecided."""
    top = 2**bits - 1  # F < 1
    below, above = ([min(end >> guard, top) for end in ends] for ends in bounds)
    if below[-1] != top or below != above:
        return None
    return below[: bisect_left(below, top) + 1]


@dataclass(frozen=True)
class DiscreteGaussian(MagnitudeLaw):
    """P(X = k) = e^{−k²/2σ²}/Z on the integers, σ² = `variance` ≥ 1 rational."""

    variance: Fraction

    def enclosures(self, bits: int, precision: int) -> Bounds:
        """Sums of e(m) = e^{−m²/2σ²} by e(m+1) = e(m)·r(m), r(m+1) = r(m)·q (§3)."""
        one = 1 << precision
        q = exp_minus(1 / self.variance, precision)
        r = exp_minus(1 / (2 * self.variance), precision)
        e, total = (one, one), (one // 2, one // 2)  # half of e(0): the sign of 0 does not count
        sums = [total]
        for _ in range(_steps(self.variance, precision)):
            e, r = _product(e, r, precision), _product(r, q, precision)
            total = (total[0] + e[0], total[1] + e[1])
            sums.append(total)
        # What is left, e(N)·(r + r·rq + …) < e(N)·r/(1 − r): ratios fall.
        least, most = total[0], total[1] + -(-e[1] * r[1] // (one - r[1]))
        return (
            [(low << precision) // most for low, _ in sums],
            [-((-high << precision) // least) for _, high in sums],
        )


@dataclass(frozen=True)
class DiscreteLaplace(MagnitudeLaw):
    """P(X = k) = (1−q)/(1+q)·q^|k| on the integers, 0 < q = `ratio` < 1 rational."""

    ratio: Fraction

    def enclosures(self, bits: int, precision: int) -> Bounds:
        """F(m) = 1 − 2q^{m+1}/(1+q): the power by repeated products."""
        one, a, b = 1 << precision, self.ratio.numerator, self.ratio.denominator
        low, high = (one * 2 * a) // (a + b), -(-one * 2 * a // (a + b))
        below, above = [one - high], [one - low]
        while low >> (precision - bits):  # the other end may stop falling before it is there
            low, high = low * a // b, -(-high * a // b)
            below.append(one - high)
            above.append(one - low)
        return below, above


def exp_minus(x: Fraction, precision: int) -> tuple[int, int]:
    """Integers below and above 2^precision·e^{−x}, 0 < x ≤ 1.

    The terms of Σ(−x)^n/n! fall and change sign: e^{−x} lies between two partial sums that follow
    one another. They are exact rationals.
    """
    term, total, n = Fraction(1), Fraction(1), 0
    while True:
        n += 1
        term *= -x / n
        before, total = total, total + term
        if abs(term) < Fraction(1, 1 << (precision + 1)):
            low, high = sorted((before, total))
            return math.floor(low * 2**precision), math.ceil(high * 2**precision)


def _product(a: tuple[int, int], b: tuple[int, int], precision: int) -> tuple[int, int]:
    """An enclosure of a·b for enclosures a, b ≥ 0 at 2^precision."""
    return a[0] * b[0] >> precision, -(-a[1] * b[1] >> precision)


def _steps(variance: Fraction, precision: int) -> int:
    """N with e^{−N²/2σ²} < 2^−precision: N² > 2 ln 2·σ²·precision, and 2 ln 2 < 1.4."""
    return math.isqrt(math.ceil(Fraction(7, 5) * variance * precision)) + 1


# g = 2^−j, σ² = 4^j + 1/2 and q = 1 − g + g²/2: then the information is at most 1 (§1, §5).
GAUSSIAN = DiscreteGaussian(4**GRID_BITS + Fraction(1, 2))
LAPLACE = DiscreteLaplace(1 - Fraction(1, 2**GRID_BITS) + Fraction(1, 2 ** (2 * GRID_BITS + 1)))


@lru_cache(maxsize=16)
def table_of(law: MagnitudeLaw, bits: int) -> list[int]:
    """`law.table(bits)`, made when first asked for: constants, of no data."""
    return law.table(bits)
