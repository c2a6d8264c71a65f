"""Randomised response, exactly: one random bit of a value that is a yes or a no.

    P(bit = 1 | y) = q where y is nearer to `low`, 1 − q where it is not ,   q = flips/2⁶⁴ < 1/2

One comparison of whole numbers decides the bit: no probability is rounded (PROOF.md §9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.lattice._exact import finite
from privest.lattice._sampler import Integers, Unsigned, exp_minus

BITS = 64
WHOLE = 1 << BITS
_NARROWEST = 2.0**-900  # of a range: its quotients are far from underflow


@dataclass(frozen=True)
class Coin:
    """The distribution of a bit: how often it lies, and of which values.

    flips      of 2⁶⁴: q = flips/2⁶⁴ is the probability of the wrong bit at both ends, 0 < q < 1/2.
    low, high  the no and the yes: a value counts as the nearer of both (the middle as `high`).
    """

    flips: int
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.flips < WHOLE // 2:
            raise InvalidInput(
                "flips of a coin is a whole number above 0 and below 2^63: a coin that is never "
                "wrong hides nothing, one that is wrong half the time shows nothing."
            )
        if not (
            math.isfinite(self.high - self.low)
            and self.high - self.low >= _NARROWEST
            and math.isfinite(self.low)
        ):
            raise InvalidInput(
                f"a coin needs two ends, low < high, not too far apart for a number; received "
                f"{self.low:g} and {self.high:g}."
            )

    @property
    def wrong(self) -> Fraction:
        """q."""
        return Fraction(self.flips, WHOLE)

    @property
    def width(self) -> Fraction:
        """high − low, exactly."""
        return Fraction(self.high) - Fraction(self.low)

    @property
    def level(self) -> Fraction:
        """(1 − 2q)²/(q(1 − q))/width²: χ² of the two ends; the most information about an answer.

        1/level is the variance of the debiased bit at both ends.
        """
        q = self.wrong
        return (1 - 2 * q) ** 2 / (q * (1 - q)) / self.width**2

    @property
    def unit(self) -> float:
        """E[bit·unit + zero] = y at both ends."""
        return float(self.width / (1 - 2 * self.wrong))

    @property
    def zero(self) -> float:
        """The value of a bit of 0: low − q·unit."""
        return float(Fraction(self.low) - self.wrong * self.width / (1 - 2 * self.wrong))

    @cached_property
    def middle(self) -> float:
        """The least double that is not nearer to `low`."""
        middle = (Fraction(self.low) + Fraction(self.high)) / 2
        near = float(middle)
        return near if Fraction(near) >= middle else math.nextafter(near, math.inf)

    def chance(self, y: float) -> Fraction:
        """P(bit = 1 | y), exactly."""
        return 1 - self.wrong if y >= self.middle else self.wrong


def flips_for(epsilon: float) -> int:
    """The least m with q = m/2⁶⁴ ≥ 1/(1 + e^ε): then (1 − q)/q ≤ e^ε, literally.

    An enclosure of e^{−ε} is narrowed until both ends have the same ceiling.
    """
    if not 0 < epsilon < math.inf:
        raise InvalidInput(f"epsilon of a coin is a number above 0; received {epsilon:g}.")
    if epsilon >= BITS:  # e^−ε < 2^−64
        return 1
    pieces = math.ceil(epsilon)
    precision = 2 * BITS
    while True:
        low, high = exp_minus(Fraction(epsilon) / pieces, precision)
        found = {
            -(-(WHOLE * power) // (power + scale))
            for power, scale in ((end**pieces, 1 << precision * pieces) for end in (low, high))
        }
        if len(found) == 1:
            return _kept(found.pop())
        precision *= 2


def flips_at(level: Fraction) -> int:
    """The least m with (1 − 2q)²/(q(1 − q)) ≤ level, q = m/2⁶⁴: 1 − 2q = √(level/(level + 4))."""
    if level <= 0:
        raise InvalidInput("the level of a coin must be above 0.")
    square = (level / (level + 4)) * (WHOLE // 2) ** 2
    return _kept(WHOLE // 2 - math.isqrt(math.floor(square)))


def _kept(flips: int) -> int:
    if flips >= WHOLE // 2:
        raise InvalidInput(
            "this privacy is so strong that a coin of 64 bits shows nothing at all: state a larger "
            "epsilon or level."
        )
    return max(flips, 1)


def tossed(coin: Coin, y: Array, words: Unsigned) -> Integers:
    """The bit of every value, 0 or 1: 1 if its word is below P·2⁶⁴.

    No value is refused: ±∞ is an end of the range, NaN counts as the lower end (the caller knows
    that it is missing). A release draws `words` before it looks at a value.
    """
    flat, drawn = finite(np.asarray(y, dtype=np.float64)).reshape(-1), words.reshape(-1)
    if words.dtype != np.uint64 or drawn.size != flat.size:
        raise InvalidInput(
            f"{flat.size} coins take as many words of uint64; received {drawn.size} of "
            f"{words.dtype}."
        )
    flat = np.where(np.isnan(flat), coin.low, flat)
    ends = np.array([coin.flips, WHOLE - coin.flips], dtype=np.uint64)
    found = (drawn < ends[(flat >= coin.middle).astype(np.intp)]).astype(np.int64)
    return found.reshape(np.shape(y))
