"""Whole numbers of a release of sums, all public: its range, its noise, and what it is charged.

    z = Σ W_i k_i + round(σN) ,   W_i = b·ℓ_i ,   k_i = y_i/2^e ,   c₁ = (b/(σ·2^e))²

`vault` charges the sums ‖W‖²N²/σ² of μ², N the steps of the range, and with them a reserve for the
squares that follow. Squares take the least noise with which the worst pair is within that charge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from privest import vault
from privest.arrays import Array
from privest.errors import InvalidInput
from privest.privacy import Range
from privest.vault.cost import Cost
from privest.vault.maps import Completing, Facts

UNIT = 2**20  # of weights of rows: rounded to whole numbers they are at most n/2²⁰ longer
UNIT_OF_PERSONS = 2**30  # of weights of persons' rows, which are shorter
SQUARE_UNIT = 2**18  # of the largest weights of squares: their sums then fit in 64 bits
STEPS = 16  # a range has 2¹⁶ to 2¹⁷ steps: rounding adds at most K·μ²/2³⁴ of the noise
SIGMA_BITS = 9  # of the noise of squares: all its digits would tell the features
FOR_SQUARES = 0.15  # share of μ² for the squares under ε
FOR_SQUARES_OF_LEVEL = 0.3  # share of c under an exposure
FOR_ROUNDING = 2.0**-13  # share for squares about the middle, which cost next to nothing
BELOW = Fraction(2**40 - 1, 2**40)  # of a promise: costs are written with 15 digits
SETTLED = Fraction(2**30 - 1, 2**30)  # of a charge: every processor decides alike about a pair
ABOVE = 1 + 2.0**-20  # of a reserved information: the doubles of a pair
NARROWEST, WIDEST = 1e-40, 1e40  # widths of a range beyond which squares leave the doubles
FARTHEST_MEANS = 257  # means of squares, from the middle of the range to its end


@dataclass(frozen=True)
class Split:
    """How a promise is divided between sums and squares, in whole numbers.

    kind     of squares: "none"; "squares" of residuals; "free", about the middle of the range,
             where H is saturated; "persons", of the sums of each person.
    share    of the promise that squares have; 0: none, or they cost next to nothing.
    mu       that is promised; None: the promise is an exposure.
    range    of values in steps of 2^e; `law`: the noise of sums of weights `unit`·ℓ.
    norm2    bound on the squared weights of a value or a person.
    reserve  for the squares. `earlier`: a release of sums before this one, the pilot.
    """

    kind: str
    share: float
    mu: float | None
    range: vault.Range
    law: vault.RoundedNormal
    unit: int
    norm2: int
    reserve: Cost | None = field(default=None, hash=False)
    earlier: Split | None = None

    @property
    def step(self) -> float:
        return math.ldexp(1.0, self.range.exponent)

    @property
    def level(self) -> float:
        """c₁: Fisher information of z about one value."""
        return (self.unit / (self.law.sigma[0] * self.step)) ** 2

    def promised_for(self, level: float) -> float:
        """The exposure under which sums of this kind and range have this c₁: x(1 + x)/4^e of it."""
        x = level * self.norm2 * (self.step / self.unit) ** 2
        return x * (1 + x) / self.step**2 / (1 - self.share)

    @property
    def pilot(self) -> float:
        """c₀ of the earlier release; 0: there is none."""
        return 0.0 if self.earlier is None else self.earlier.level

    @cached_property
    def charged(self) -> Cost:
        """The cost of sums, squares and pilot."""
        total = vault.cost_of(Facts("sums", 1, 1, self.norm2), self.law, self.range)
        for more in (self.reserve, None if self.earlier is None else self.earlier.charged):
            total = total if more is None else total + more
        return total

    @property
    def exposure(self) -> float:
        """The most Fisher information of all releases about one value."""
        return float(self.charged.amounts["information"])

    @property
    def stated(self) -> float:
        """μ of all releases."""
        return math.sqrt(self.charged.amounts["mu2"])

    @property
    def slope(self) -> float:
        """A: what a change of d steps moves the sums is at most √A·d of their noise."""
        return self.norm2 / self.law.sigma[0] ** 2

    def curve(self, reach: Array) -> Array:
        """B: the squares of values at most c/2 = `reach`/2 steps from a mean may move √B·d(c − d).

        By the promise: the largest with A·d² + B·d²(c − d)² + A·(2N − 1) ≤ μ² for all d ≤ N.
        """
        c = np.asarray(reach, dtype=float)
        steps = self.range.steps
        if self.mu is None:
            return _room_for_information(self, c)
        assert self.reserve is not None
        own = self.slope * (steps**2 - (2 * steps - 1))
        return _largest_curve(c, self.slope, own + float(self.reserve.amounts["mu2"]), steps)

    def mu_apart(self, distance: float) -> float:
        """An upper bound on μ of all releases for two values at most so far apart."""
        steps = min(math.ceil(distance / self.step), self.range.steps)
        mu2 = self.slope * steps**2
        if self.kind == "persons":
            assert self.reserve is not None
            mu2 += float(self.reserve.amounts["mu2"])
        elif self.kind != "none":
            c = np.linspace(1.0, 2.0, FARTHEST_MEANS) * self.range.steps
            # Each release rounds anew: the sums may see a pair a step farther apart.
            rounded = self.slope * max(2 * steps - 1, 0)
            mu2 = float(_moved(self.slope, self.curve(c), c, steps).max()) + rounded
        mu = math.sqrt(mu2)
        if self.earlier is not None:
            mu = math.hypot(mu, self.earlier.mu_apart(distance))
        return min(self.stated, mu)


def _largest_curve(c: Array, slope: float, total: float, apart: int) -> Array:
    """The largest B with A·d² + B·d²(c − d)² ≤ T for all 0 < d ≤ apart.

    (T − A·d²)/(d²(c − d)²) is least at the end, or at the smaller positive root of
    d³ − 2(T/A)d + (T/A)c: Viète's formula for three real roots.
    """
    ratio = total / slope
    cosine = -0.75 * c * math.sqrt(1.5 / ratio)
    angle = np.arccos(np.maximum(cosine, -1.0))
    root = 2 * math.sqrt(2 * ratio / 3) * np.cos((angle - 2 * math.pi) / 3)
    turning = np.where(cosine >= -1, np.minimum(root, apart), apart)
    with np.errstate(divide="ignore"):
        room = [(total - slope * d**2) / (d * (c - d)) ** 2 for d in (turning, float(apart))]
    return np.asarray(np.minimum(*room))


def _room_for_information(own: Split, c: Array) -> Array:
    """The largest B with x(1 + x)/4^e within the exposure, x = A + B(c − 1)²."""
    charged = own.charged.amounts["information"]
    if own.earlier is not None:
        charged -= own.earlier.charged.amounts["information"]
    y = float(charged * Fraction(4) ** own.range.exponent)
    x = 2 * y / (1 + math.sqrt(1 + 4 * y))
    return (x - own.slope) / (c - 1) ** 2


def _moved(slope: float, curve: Array, c: Array, apart: int) -> Array:
    """max over 0 ≤ d ≤ apart of A·d² + B·d²(c − d)²: `vault.maps` has the same for a release."""
    square = c**2 - 8 * slope / curve
    root = (3 * c - np.sqrt(np.maximum(square, 0.0))) / 4
    turning = np.where(square >= 0, np.minimum(root, apart), apart)
    moves = [d**2 * (slope + curve * (c - d) ** 2) for d in (turning, float(apart))]
    return np.asarray(np.maximum(*moves))


# --- the promise, divided -------------------------------------------------------------------------


def split(
    kind: str,
    n: int,
    limits: Range,
    *,
    mu: float | None = None,
    level: float | None = None,
    most: int | None = None,
    ends: Range | None = None,
) -> Split:
    """The whole numbers of a promised μ over the range, or of an exposure; of n coefficients.

    most  rows of a person, at most; None: rows are the unit.
    ends  of values that are counted from a public centre, at most `limits` away from it.
    """
    if mu is None and kind == "persons":
        raise InvalidInput(
            "sums of persons with several rows are planned by ε: state epsilon, not a level."
        )
    range = _whole_range(limits, ends)
    unit = UNIT if most is None else UNIT_OF_PERSONS
    norm2 = (unit + n * (most or 1)) ** 2
    shares = {"none": 0.0, "free": FOR_ROUNDING}
    if mu is None:
        assert level is not None
        share = shares.get(kind, FOR_SQUARES_OF_LEVEL)
        sigma = _sigma_of_information(Fraction(level) * BELOW * Fraction(1 - share), norm2, range)
    else:
        share = shares.get(kind, FOR_SQUARES)
        sigma = _sigma_of_mu(Fraction(mu) ** 2 * BELOW * Fraction(1 - share), norm2, range)
    own = Split(kind, share, mu, range, vault.RoundedNormal((sigma,)), unit, norm2)
    if kind == "none":
        return own
    if mu is None:
        return replace(own, reserve=_reserve_of_level(own, Fraction(level or 0.0) * BELOW))
    return replace(own, reserve=_reserve_of_mu(own, n))


def _whole_range(limits: Range, ends: Range | None) -> vault.Range:
    width = limits.width
    if not NARROWEST < width < WIDEST:
        raise InvalidInput(
            f"a range of width {width:g} is too narrow or too wide for sums: use other units."
        )
    held = limits if ends is None else ends
    narrower = min(width, held.width)
    exponent = math.frexp(narrower)[1] - 1 - STEPS
    try:
        range = vault.Range.around(Fraction(held.low), Fraction(held.high), exponent)
    except InvalidInput:
        raise InvalidInput(
            "the range is too far from 0 for its width: its values have too few digits beside the "
            "noise. Take an offset off the values."
        ) from None
    if ends is None:
        return range
    within = math.ceil(Fraction(limits.high) / Fraction(2) ** exponent)
    return replace(range, within=within)


def _sigma_of_mu(mu2: Fraction, norm2: int, range: vault.Range) -> int:
    """The least σ with norm2·N²/σ² ≤ μ²."""
    return _root_up(norm2 * range.steps**2 / mu2)


def _sigma_of_information(level: Fraction, norm2: int, range: vault.Range) -> int:
    """A σ with x(1 + x)/4^e ≤ the level, x = norm2/σ²: x = y − y² for y = 4^e·level."""
    y = level * Fraction(4) ** range.exponent
    if y >= Fraction(1, 2):
        raise InvalidInput(f"the level {float(level):g} is nearly no noise: take a smaller one.")
    return _root_up(norm2 / (y - y**2))


def _root_up(square: Fraction) -> int:
    return math.isqrt(math.ceil(square) - 1) + 1


def _reserve_of_mu(own: Split, n: int) -> Cost:
    """The rest of μ², and of information what squares then show at most.

    Squares: B(c − 1)² is largest for a mean at the middle of the range, c = N. Persons:
    4r²t²/σ² with 2r⁴/σ² = the reserved μ², r at least t·N/2; of one coefficient twice that.
    """
    assert own.mu is not None
    mu2 = Fraction(own.mu) ** 2 * BELOW - own.charged.amounts["mu2"]
    steps = own.range.steps
    reserved = replace(own, reserve=_cost(Fraction(0), mu2))
    if own.kind == "persons":
        more = (8 if n > 1 else 16) * float(mu2) / steps**2
    else:
        more = float(reserved.curve(np.array([steps]))[0]) * steps**2
    return _cost(_information(own, own.slope + more) - own.charged.amounts["information"], mu2)


def _reserve_of_level(own: Split, level: Fraction) -> Cost:
    """The rest of the exposure, and the most that squares then add to μ²: B·N⁴ for c = 2N."""
    information = level - own.charged.amounts["information"]
    steps = own.range.steps
    reserved = replace(own, reserve=_cost(information, Fraction(0)))
    curve = float(reserved.curve(np.array([2 * steps]))[0])
    return _cost(information, Fraction((curve * steps**4 + own.slope * 2 * steps) * ABOVE))


def _information(own: Split, x: float) -> Fraction:
    return Fraction(x * (1 + x) * ABOVE) / Fraction(4) ** own.range.exponent


def _cost(information: Fraction, mu2: Fraction) -> Cost:
    return Cost({"information": information, "mu2": mu2, "rho": mu2 / 2})


# --- the noise of squares -------------------------------------------------------------------------


def square_law(squares: Completing, own: Split) -> vault.RoundedNormal:
    """The least noise of nine bits with which sums and squares are within the charge."""
    sigma = _nine_bits(_least_sigma(squares, own) * 0.999)
    while True:
        law = vault.RoundedNormal((sigma,))
        if isinstance(squares, vault.PersonSquares):
            law = squares.law(sigma)
        if _is_within(squares.pair(own.law, law, own.range, own.range.steps), own):
            return law
        sigma = _nine_bits(float(sigma) * (1 + 2.0**-SIGMA_BITS))


def _is_within(pair: Cost, own: Split) -> bool:
    charged = own.charged
    if own.earlier is not None:
        charged = replace(own, earlier=None).charged
    return all(amount <= charged.amounts[unit] * SETTLED for unit, amount in pair.amounts.items())


def _nine_bits(sigma: float) -> int:
    """The least number of nine bits that is not below a number."""
    mantissa, exponent = math.frexp(sigma)
    bits = math.ceil(math.ldexp(mantissa, SIGMA_BITS))
    return max(bits << max(exponent - SIGMA_BITS, 0), 2**10)


def _least_sigma(squares: Completing, own: Split) -> float:
    """About the least σ, by the curve of the promise at every mean."""
    low, high = own.range.ends
    farthest = np.maximum(high - squares.middles, squares.middles - low).astype(float)
    norms = np.sqrt((squares.weights.astype(float) ** 2).sum(axis=1))
    if isinstance(squares, vault.PersonSquares):
        assert squares.persons is not None
        assert own.reserve is not None
        radius = float(np.bincount(squares.persons, norms * farthest).max())
        times = 2 if squares.size > 1 else 1
        return math.sqrt(times / float(own.reserve.amounts["mu2"])) * radius**2
    reach = np.linspace(1.0, 2.0, FARTHEST_MEANS) * own.range.steps
    roots = np.sqrt(own.curve(reach))
    return float((norms / np.interp(2 * farthest, reach, roots)).max(initial=1.0))
