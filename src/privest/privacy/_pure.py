"""Pure ε for one number a person: the levels at which Laplace noise and a coin keep it, literally.

    Laplace noise of scale width/ε     I = (ε/width)² ,            variance 2·width²/ε²
    a coin, q = 1/(1 + e^ε)            I ≤ 4 sinh²(ε/2)/width² ,   variance 1/I at both ends

Two readings `width` apart are compared: a range makes that all there are. Whoever sees several rows
or columns of a person sees the sum of their ε.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from privest.arrays import EPS, as_choice, as_positive
from privest.errors import InvalidInput
from privest.lattice import Coin, flips_at, flips_for
from privest.lattice.coins import WHOLE
from privest.privacy._adjacency import Range
from privest.privacy._statement import rows_statement

PureLaw = Literal["laplace", "coin"]
_DOWN = 1.0 - 2.0**-50  # a step to the safe side


def coin_of(level: float, range: tuple[float, float] = (0.0, 1.0)) -> Coin:
    """The coin whose level is the largest that is not above `level`.

    >>> coin = coin_of(pure_level("coin", 1.0, 1.0))
    >>> round(float(coin.wrong), 6), float(coin.level) <= 4 * math.sinh(0.5) ** 2
    (0.268941, True)
    """
    ends = Range(*range)
    width = Fraction(ends.high) - Fraction(ends.low)
    flips = flips_at(Fraction(as_positive(level, "level")) * width**2)
    return Coin(flips, ends.low, ends.high)


def coin_epsilon(coin: Coin) -> float:
    """ε of a coin, ln((1 − q)/q): the least double for which that is proved, or one near it."""
    if not isinstance(coin, Coin):
        raise InvalidInput("coin must be a Coin: coin_of(level, range) makes one.")
    found = math.log1p((WHOLE - 2 * coin.flips) / coin.flips)
    step = math.ulp(found)
    while flips_for(found) > coin.flips:
        found, step = found + step, 2 * step
    return found


def pure_level(law: PureLaw, epsilon: float, width: float) -> float:
    """A level at which a release of this law is ε-private for readings `width` apart, proved.

    The largest but for some 1e-15 of it (a coin); Laplace noise on the grid is up to 0.1 % below
    (ε/width)² where the width is few steps of it.
    """
    as_choice(law, get_args(PureLaw), "law")
    wanted, apart = as_positive(epsilon, "epsilon"), as_positive(width, "width")
    shape = 2 * math.sinh(min(wanted, 90.0) / 2) if law != "laplace" else wanted
    with np.errstate(over="ignore", under="ignore"):
        level = float((np.float64(shape) / apart) ** 2)
    if not 0 < level < math.inf:
        raise InvalidInput(
            f"epsilon {wanted:g} for readings {apart:g} apart has no level that is a number."
        )
    while (found := pure_epsilon(law, level, apart)) > wanted:
        level *= min((wanted / found) ** 2, _DOWN)
    return level


def pure_epsilon(law: PureLaw, level: float, width: float) -> float:
    """ε of a release of this law at a level, for readings `width` apart; rounded up, proved."""
    as_choice(law, get_args(PureLaw), "law")
    if law == "laplace":
        with np.errstate(over="ignore"):  # a move beyond the grid counts as all of it
            root = math.sqrt(as_positive(level, "level")) * (1 + EPS)
            return rows_statement([root], move=width, law="laplace").epsilon
    return coin_epsilon(coin_of(level, (0.0, width)))


def relative_variance(law: PureLaw, epsilon: float) -> float:
    """Variance of the noise on a reading, in units of the width squared.

    >>> [round(relative_variance(law, 1.0), 2) for law in ("laplace", "coin")]
    [2.0, 0.92]
    """
    as_choice(law, get_args(PureLaw), "law")
    epsilon = as_positive(epsilon, "epsilon")
    if law == "laplace":
        deviation = math.sqrt(2.0) / epsilon
    else:
        deviation = -math.exp(-epsilon / 2) / math.expm1(-epsilon)  # 1/(2 sinh(ε/2)), at any ε
    return deviation * deviation
