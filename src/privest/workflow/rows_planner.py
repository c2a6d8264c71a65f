"""Rows as whole numbers: the steps, weights and noise with which a column leaves row by row.

    z_i = w_i·k_i + noise ,   value_i = z_i·2^e/w_i ,   k_i the value in steps of 2^e, clipped

A level s gives e and the noise: what a release reveals is computed by `vault.cost_of` from the
whole numbers that are applied, never from s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from privest import vault
from privest.arrays import AnyArray, Array, Index
from privest.errors import InvalidInput
from privest.lattice.coins import WHOLE, Coin, flips_at
from privest.privacy import Range, gdp
from privest.vault.cost import Cost
from privest.vault.maps import Law, law_of

NOISE_BITS = 10  # noise of 2^10 to 2^11 steps: whole steps of noise cost at most 2^−10 of an error
FAR = 2**40  # steps: the range of values without one, which doubles hold beside the noise
REACH = 2**50  # steps: beyond it a range is refused
WIDER = Fraction(1, 2**10)  # by which whole steps may widen a range before they are halved
LEVEL_BITS = 16  # of the smallest weight: rounding it costs at most 2^−16 of a root
LARGEST_WEIGHT_BITS = 8  # below σ: the dither of the largest level is 2^−18 of its noise
# Covers x(1 + x) in place of x, x ≤ 2^−16 the squared weight over the squared noise.
ROOT_SHARE = 1 - 2.0**-17
LARGEST_LEVEL_NOISE = 41  # bits of σ: values of 2^19 deviations of the noise still fit
ROOM_BITS = 60  # of a weight times a range: what the door takes
DITHER = 0.25  # squared steps, at most
# s times the variance of a released value, at most: whole σ or t from 2^10 on, and small terms.
GAUSSIAN_VARIANCE = (1 + 2.0**-10) ** 2 * (1 + 2.0**-18)
LAPLACE_VARIANCE = 2 * (1 + 2.0**-9) ** 2
LEVEL_COLUMN_VARIANCE = ((1 - 2.0**-LEVEL_BITS) * ROOT_SHARE) ** -2 + DITHER * 2.0**-16
ROUNDING_OF_NOISE = 1 / 12  # squared steps
MARGIN = 1 - 1e-12  # of μ², for the doubles in between
PROPORTIONAL = 8  # times that a level is lowered by what the cost is too much
STEP_DOWN = 1 - 2.0**-11  # of a level: noise of 2^10 to 2^12 steps grows by one or by less
LOG_MARGIN = 1 - 2e-9  # of ε of a coin: the vault rounds the logarithm of its odds up by 1e-9


@dataclass(frozen=True)
class RowGrid:
    """How the rows of a column leave: the distribution of their noise and the range of their steps.

    by  a text: values are at most so far apart, which no range enforces; None: anywhere.
    """

    law: Law
    range: vault.Range
    by: str | None = None

    # --- what the door is given ---

    def map(self, rows: int, levels: Array | None = None) -> vault.Rows | vault.Levels:
        if isinstance(self.law, vault.WrongLevel):
            return vault.Levels(self.law.levels, rows)
        if levels is None:
            return vault.Rows(np.ones(rows, dtype=np.int64))
        return vault.Rows(self.weights(levels))

    def weights(self, levels: Array) -> Index:
        """w_i, the largest whole number with I_i ≤ s_i; 0 where the level is 0."""
        assert isinstance(self.law, vault.RoundedNormal)
        # σ is a power of two here: only the root and one product are rounded.
        weights = np.floor(np.sqrt(levels) * self._root_of_one).astype(np.int64)
        if ((weights == 0) & (levels > 0)).any():
            raise InvalidInput(
                "a level is so far below the largest one that nothing would be shown: write 0 for "
                "rows that are withheld, and make the plan again."
            )
        return weights

    @property
    def _root_of_one(self) -> float:
        """The weight of a level of 1, not rounded."""
        assert isinstance(self.law, vault.RoundedNormal)
        return math.ldexp(ROOT_SHARE * self.law.sigma[0], self.range.exponent)

    def cost(self, largest: float | None = None) -> Cost:
        """What one value reveals at most; of a level column one of the largest level."""
        levels = None if largest is None else np.array([largest])
        return vault.cost_of(self.map(1, levels).facts, self.law, self.range, self.by)

    # --- what a reader needs ---

    @property
    def scale(self) -> tuple[float, float]:
        """Slope and offset of value = slope·z + offset, for a weight of 1."""
        if isinstance(self.law, vault.WrongLevel):
            wrong = Fraction(self.law.flips, WHOLE)
            slope = 1 / (1 - 2 * wrong)
            return float(slope), float(-wrong * slope)
        return math.ldexp(1.0, self.range.exponent), 0.0

    @property
    def level_scale(self) -> tuple[float, float]:
        """Slope and offset of value = (slope·z + offset)/√level, to 2^−16: w_i are whole."""
        return self.scale[0] / self._root_of_one, 0.0

    def values(self, z: AnyArray, levels: Array | None = None) -> Array:
        """E value_i = y_i where y_i is in the range; NaN where the level is 0."""
        slope, offset = self.scale
        shown = np.asarray(z * slope + offset)
        if levels is None:
            return shown
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(levels > 0, shown / self.weights(levels), np.nan)

    @cached_property
    def variance(self) -> float:
        """The largest variance of a released value given the value, for a weight of 1."""
        return float(self._variances(np.ones(1))[0])

    def variances(self, levels: Array) -> Array:
        """The same of rows with levels above 0."""
        return self._variances(self.weights(levels).astype(np.float64))

    def _variances(self, weights: Array) -> Array:
        match self.law:
            case vault.WrongLevel():
                coin = Coin(self.law.flips)
                return np.full(len(weights), 1 / float(coin.level))
            case vault.DiscreteLaplace():
                noise = 2.0 * float(self.law.scale) ** 2
            case _:
                noise = float(self.law.sigma[0]) ** 2 + ROUNDING_OF_NOISE
        with np.errstate(over="ignore", under="ignore"):
            each = noise / weights**2 + DITHER
            return np.asarray(np.ldexp(each, 2 * self.range.exponent))

    def said(self) -> dict[str, Any]:
        return {"law": self.law.said(), "range": self.range.said()}

    @classmethod
    def read(cls, member: Mapping[str, Any]) -> Self:
        by = member.get("neighbours", {}).get("by")
        return cls(law_of(member["law"]), vault.Range.read(member["range"]), by)


# --- the grid of a level --------------------------------------------------------------------------


def gaussian_rows(level: float, limits: Range | None, by: float | None = None) -> RowGrid:
    """The least whole σ with (1 + 1/σ²)/(σ²·4^e) ≤ s, 2^10 ≤ σ < 2^12."""

    def sigma_of(scaled: Fraction) -> int:
        sigma = math.isqrt(math.floor(1 / scaled))
        while sigma**2 + 1 > scaled * sigma**4:
            sigma += 1
        return sigma

    exponent, sigma = _steps_and_noise(level, limits, sigma_of)
    return _grid(vault.RoundedNormal((sigma,)), exponent, limits, by)


def laplace_rows(level: float, limits: Range | None, by: float | None = None) -> RowGrid:
    """The least whole t with (1 + 1/t)²/(t²·4^e) ≤ s, 2^10 ≤ t < 2^12."""

    def scale_of(scaled: Fraction) -> int:
        scale = math.isqrt(math.floor(1 / scaled))
        while (scale + 1) ** 2 > scaled * scale**4:
            scale += 1
        return scale

    exponent, scale = _steps_and_noise(level, limits, scale_of)
    return _grid(vault.DiscreteLaplace(scale), exponent, limits, by)


def response_rows(level: float) -> RowGrid:
    """A yes or no, 0 and 1, that is wrong with the least probability that keeps the level."""
    return RowGrid(vault.WrongLevel(flips_at(Fraction(level)), 2), vault.Range(0, 1, 0))


def level_column_rows(
    largest: float, smallest: float, limits: Range | None, by: float | None = None
) -> RowGrid:
    """Steps for the largest level, and σ = 2^b so large that the smallest weight has 16 bits."""
    # frexp(x) = (m, b) with ½ ≤ m < 1: the largest weight is below σ/2^8.
    exponent = -LARGEST_WEIGHT_BITS - math.frexp(math.sqrt(largest) * ROOT_SHARE)[1]
    share = math.ldexp(math.sqrt(smallest) * ROOT_SHARE, exponent)  # smallest weight over σ
    bits = LEVEL_BITS + 1 - math.frexp(share)[1]
    if bits > LARGEST_LEVEL_NOISE:
        raise InvalidInput(
            f"the levels {smallest:g} and {largest:g} are too far apart for one table: release the "
            "rows of small levels as a table of their own, or write 0 for them."
        )
    far = min(FAR, 2 ** (ROOM_BITS - (bits - LARGEST_WEIGHT_BITS)))
    return _grid(vault.RoundedNormal((2**bits,)), exponent, limits, by, far)


def _steps_and_noise(
    level: float, limits: Range | None, noise_of: Callable[[Fraction], int]
) -> tuple[int, int]:
    """e and the noise in steps of 2^e, `noise_of` s·4^e."""
    exponent = math.frexp(1 / math.sqrt(level))[1] - 1 - NOISE_BITS

    def noise(exponent: int) -> int:
        return noise_of(Fraction(level) * Fraction(4) ** exponent)

    if noise(exponent) >= 2 ** (NOISE_BITS + 1):  # just below a power of two, rounded up to it
        exponent += 1
    if limits is not None:
        around = _around(limits, exponent)
        width = Fraction(repr(limits.high)) - Fraction(repr(limits.low))
        if around.steps * Fraction(2) ** exponent > width * (1 + WIDER):
            exponent -= 1
    return exponent, noise(exponent)


def _grid(
    law: Law, exponent: int, limits: Range | None, by: float | None, far: int = FAR
) -> RowGrid:
    apart = None if by is None else f"{Decimal(repr(by)):f}"
    return RowGrid(law, _around(limits, exponent, far), apart)


def _around(limits: Range | None, exponent: int, far: int = FAR) -> vault.Range:
    if limits is None:
        return vault.Range(-far, far, exponent)
    # The shortest text of a double is the number that was typed.
    low, high = Fraction(repr(limits.low)), Fraction(repr(limits.high))
    steps = max(abs(low), abs(high)) / Fraction(2) ** exponent
    if steps > REACH:
        raise InvalidInput(
            f"the range reaches {float(steps) / 2**NOISE_BITS:.1e} deviations of the noise; there "
            f"is room for {REACH / 2**NOISE_BITS:.1e}. Take a narrower range, or a stricter level."
        )
    return vault.Range.around(low, high, exponent)


# --- ε and levels ---------------------------------------------------------------------------------


def epsilon_of(cost: Cost, delta: float | None) -> float | None:
    """ε of a cost, pure or at this δ; None where it is not defined."""
    pure = cost.amounts.get("epsilon")
    if pure is not None:
        return float(pure)
    if delta is None:
        return None
    mu2 = cost.amounts["mu2"]
    return gdp.epsilon_of(math.sqrt(mu2) * (1 + 1e-15), delta)


def level_that_keeps(
    epsilon: float, delta: float | None, width: float, cost_at: Callable[[float], Cost]
) -> float:
    """A level at which the cost is within ε (δ: of Gaussian noise), up to whole steps the largest.

    From (μ/width)², or of Laplace noise (ε/width)², down by what the cost is too much.
    """
    if delta is None:
        unit, most = "epsilon", Fraction(epsilon)
        root = epsilon / width
    else:
        mu = gdp.mu_of(epsilon, delta)
        unit, most = "mu2", Fraction(mu) ** 2 * Fraction(MARGIN)
        root = mu / width
    level = root * root

    def amount_at(level: float) -> Fraction:
        if not 0 < level < math.inf:
            raise InvalidInput(
                f"epsilon {epsilon:g} for values {width:g} apart has no level that is a number."
            )
        return cost_at(level).amounts[unit]

    tries = 0
    amount = amount_at(level)
    while amount > most:
        excess = float(amount / most)
        wanted = 1 / (excess if unit == "mu2" else excess**2)
        # A little less level may leave the whole noise as it is: then by a step of the noise.
        level *= wanted if tries < PROPORTIONAL else min(wanted, STEP_DOWN)
        tries += 1
        amount = amount_at(level)
    return level
