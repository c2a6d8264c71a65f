"""Maps of whole numbers, distributions of noise, what both cost; no float is shown or compared.

A value y is clipped to a range and dithered to a whole number k of steps 2^e. A map makes whole
numbers of the k; noise is added to them, or a level is replaced by a wrong one. The cost follows
from the public whole numbers (`Facts`) of the very map that is applied: PROOF.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri_exp

from privest.errors import InvalidInput
from privest.vault.cost import Cost
from privest.vault.noise import (
    WORD_BITS,
    Digits,
    Integers,
    Unsigned,
    laplaces,
    os_words,
    rounded_normals,
)
from privest.vault.record import number

Released: TypeAlias = Integers | list[int]

LARGEST_STEP = 2**52  # of a range: whole numbers that doubles hold, and their sums in 64 bits
FINER = range(51)  # powers of two of a row's step below that of the range
EXPONENTS = range(-960, 901)  # of a step: the ends of a range are doubles
ROOM = 2**61  # of whole numbers in 64 bits, so that noise fits beside them
LEAST_NOISE = 2**10  # σ or t: the rounding of the noise then adds at most 1e-7 of its variance
LARGEST_NOISE = 2**512
CHAIN_LIMIT = 700.0  # e^ε beyond it is not a double
ROUNDED_UP = Fraction(1) + Fraction(1, 10**9)  # covers Φ⁻¹ and ln in doubles
PAIR_ROUNDED_UP = Fraction(1) + Fraction(1, 2**40)  # covers the closed form of a pair in doubles
WHOLE = 1 << WORD_BITS


def whole_numbers(given: ArrayLike, what: str, ndim: int) -> Integers:
    """Public whole numbers, as an array that nobody can change."""
    array = np.array(given)
    if array.ndim != ndim or not (array.size == 0 or np.issubdtype(array.dtype, np.integer)):
        raise InvalidInput(f"{what} are whole numbers with {ndim} axes.")
    if array.size and max(int(array.max()), -int(array.min())) >= ROOM:
        raise InvalidInput(f"{what} are whole numbers below 2^61.")
    numbers = array.astype(np.int64)
    numbers.setflags(write=False)
    return numbers


def _require_whole(value: object, low: int, high: int, what: str) -> None:
    if type(value) is not int or not low <= value <= high:
        raise InvalidInput(f"{what} is a whole number, {low} to {high}.")


# --- from values to whole numbers -----------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    """Values are clipped to [low·2^exponent, high·2^exponent], in steps of 2^exponent.

    within  steps: a value then counts as at most so far from its public centre.
    """

    low: int
    high: int
    exponent: int
    within: int | None = None

    def __post_init__(self) -> None:
        _require_whole(self.low, -LARGEST_STEP, LARGEST_STEP, "low of a range")
        _require_whole(self.high, -LARGEST_STEP, LARGEST_STEP, "high of a range")
        _require_whole(self.exponent, EXPONENTS[0], EXPONENTS[-1], "the exponent of a range")
        if self.within is not None:
            _require_whole(self.within, 1, LARGEST_STEP, "within of a range")
        if not self.low < self.high:
            raise InvalidInput("a range needs low below high.")

    @classmethod
    def around(cls, low: Fraction, high: Fraction, exponent: int) -> Range:
        """The narrowest range of such steps that holds [low, high]."""
        step = Fraction(2) ** exponent
        return cls(math.floor(low / step), math.ceil(high / step), exponent)

    @property
    def steps(self) -> int:
        """N: the most that a whole number k can change."""
        width = self.high - self.low
        return width if self.within is None else min(width, 2 * self.within)

    @property
    def ends(self) -> tuple[int, int]:
        """Between which whole numbers the map's arguments lie."""
        return (self.low, self.high) if self.within is None else (-self.within, self.within)

    def apart(self, by: str | None) -> int:
        """The most steps that two values differ by, at most `by` apart; None: anywhere."""
        if by is None:
            return self.steps
        distance = number(by, "by")
        if distance <= 0:
            raise InvalidInput("by, how far two values are apart at most, is above 0.")
        return min(self.steps, math.ceil(distance / Fraction(2) ** self.exponent))

    def said(self) -> dict[str, Any]:
        members = {"low": self.low, "high": self.high, "exponent": self.exponent}
        return members if self.within is None else members | {"within": self.within}

    @classmethod
    def read(cls, member: Mapping[str, Any]) -> Range:
        within = member.get("within")
        return cls(member["low"], member["high"], member["exponent"], within)


def on_grid(
    values: NDArray[np.float64],
    range: Range,
    words: Unsigned,
    *,
    finer: int | Integers = 0,
    centre: Integers | None = None,
) -> Integers:
    """k = ⌊y/2^e⌋ + [U < fraction of y/2^e], y clipped; then k − centre clipped to ±within.

    U has the digits of `words`, one word a value, and more where they tie. E k = y/2^e, exactly.
    finer   the step is 2^(e − finer), and all ends grow accordingly.
    """
    exponent = range.exponent - np.asarray(finer)
    scale = np.left_shift(np.int64(1), finer)
    low = np.ldexp(float(range.low), range.exponent)
    high = np.ldexp(float(range.high), range.exponent)
    clipped = np.clip(values, low, high)
    is_negative = clipped < 0
    # Both a double over a power of two and its fraction are doubles, whatever the sign.
    quotient = np.ldexp(np.abs(clipped), -exponent)
    steps = np.floor(quotient)
    digits = np.ldexp(quotient - steps, WORD_BITS)
    threshold = np.floor(digits).astype(np.uint64)
    # Below 0 the complement of U: then k never falls when y grows, for the same words.
    uniform = np.where(is_negative, ~words, words)
    is_up = uniform < threshold
    for i in np.flatnonzero(uniform == threshold).tolist():
        step = Fraction(2) ** int(np.broadcast_to(exponent, clipped.shape)[i])
        rest = Fraction(abs(float(clipped[i]))) / step - int(steps[i])
        is_up[i] = _is_below(rest * WHOLE - int(threshold[i]), negative=bool(is_negative[i]))
    magnitude = steps.astype(np.int64) + is_up
    k: Integers = np.where(is_negative, -magnitude, magnitude)
    if centre is None:
        return k
    assert range.within is not None
    width = range.within * scale
    near: Integers = np.clip(k - centre, -width, width)
    return near


def _is_below(fraction: Fraction, *, negative: bool) -> bool:
    """Whether the digits of U that are not drawn yet lie below a fraction."""
    source = Digits()
    while fraction:
        word = source.word()
        uniform = WHOLE - 1 - word if negative else word
        scaled = fraction * WHOLE
        whole = math.floor(scaled)
        if uniform != whole:
            return uniform < whole
        fraction = scaled - whole
    return False


# --- laws -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoundedNormal:
    """Noise round(σ_j N): one σ for all numbers, or one each."""

    sigma: tuple[int, ...]

    def __post_init__(self) -> None:
        for sigma in self.sigma:
            _require_whole(sigma, LEAST_NOISE, LARGEST_NOISE, "sigma")

    def drawn(self, count: int) -> Released:
        if len(self.sigma) == 1:
            return rounded_normals(self.sigma[0], count)
        return [int(rounded_normals(sigma, 1)[0]) for sigma in self.sigma]

    def said(self) -> dict[str, Any]:
        return {"name": "rounded normal", "sigma": [str(sigma) for sigma in self.sigma]}


@dataclass(frozen=True)
class DiscreteLaplace:
    """Noise with P(z) ∝ e^{−|z|/t}, t = `scale` whole."""

    scale: int

    def __post_init__(self) -> None:
        _require_whole(self.scale, LEAST_NOISE, LARGEST_NOISE, "the scale of Laplace noise")

    def drawn(self, count: int) -> Released:
        return laplaces(self.scale, count)

    def said(self) -> dict[str, Any]:
        return {"name": "discrete laplace", "scale": str(self.scale)}


@dataclass(frozen=True)
class WrongLevel:
    """In place of noise: each of the L − 1 wrong levels with probability q = flips/2⁶⁴.

    The right one has p = 1 − (L − 1)q > q; p/q are the odds.
    """

    flips: int
    levels: int

    def __post_init__(self) -> None:
        _require_whole(self.levels, 2, 2**16, "the number of levels")
        _require_whole(self.flips, 1, (WHOLE - 1) // self.levels, "flips")

    @property
    def right(self) -> int:
        """2⁶⁴·p."""
        return WHOLE - (self.levels - 1) * self.flips

    def drawn(self, count: int) -> Unsigned:
        return os_words(count)

    def said(self) -> dict[str, Any]:
        return {"name": "wrong level", "flips": str(self.flips), "levels": self.levels}


Law: TypeAlias = RoundedNormal | DiscreteLaplace | WrongLevel


def law_of(member: Mapping[str, Any]) -> Law:
    """The distribution that an entry or a document names."""
    match member.get("name"):
        case "rounded normal":
            return RoundedNormal(tuple(_whole_text(text, "sigma") for text in member["sigma"]))
        case "discrete laplace":
            return DiscreteLaplace(_whole_text(member["scale"], "scale"))
        case "wrong level":
            return WrongLevel(_whole_text(member["flips"], "flips"), member["levels"])
    raise InvalidInput("the law of this release is not one that this version of privest knows.")


def _whole_text(text: object, what: str) -> int:
    value = number(text, what)
    if value.denominator != 1:
        raise InvalidInput(f"{what} is a whole number.")
    return int(value)


def released(law: Law, shown: Released, drawn: Released | Unsigned) -> Released:
    """What leaves: the sum of what is shown and the noise, or a level drawn by a word."""
    if isinstance(law, WrongLevel):
        level = np.asarray(shown, dtype=np.int64)
        words = np.asarray(drawn, dtype=np.uint64)
        is_right = words < np.uint64(law.right)
        wrong = ((words - np.uint64(law.right)) // np.uint64(law.flips)).astype(np.int64)
        return np.where(is_right, level, wrong + (wrong >= level))
    if isinstance(shown, list):
        return [int(number) + int(noise) for number, noise in zip(shown, drawn, strict=True)]
    return shown + np.asarray(drawn, dtype=np.int64)


# --- what the cost follows from -------------------------------------------------------------------


TEXTS = ("norm2", "norm1", "step")  # members of Facts that may be beyond 2^53


@dataclass(frozen=True)
class Facts:
    """The public whole numbers of a map, as a file holds them.

    norm2, norm1  bounds on Σ_j w_j² and Σ_j |w_j|, if one unit moves its k by one step and number
                  j by w_j; None: not stated. lags: weights of a stream.
    step          the largest |w| of a row's own step, where rows have finer ones; else None.
    most          how many rows a unit has at most (levels).
    """

    name: str
    numbers: int
    rows: int
    norm2: int | None = None
    norm1: int | None = None
    step: int | None = None
    most: int | None = None
    lags: tuple[tuple[int, ...], ...] | None = None

    def said(self) -> dict[str, Any]:
        members = {name: value for name, value in asdict(self).items() if value is not None}
        texts = {name: str(members[name]) for name in TEXTS if name in members}
        lags = {} if self.lags is None else {"lags": [list(row) for row in self.lags]}
        return members | texts | lags

    @classmethod
    def read(cls, member: Mapping[str, Any]) -> Facts:
        for name in ("numbers", "rows", "most"):
            _require_whole(member.get(name, 1), 1, 2**53 - 1, f"{name} of a map")
        counts = (member["name"], member["numbers"], member["rows"])
        norm2, norm1, step = (
            _whole_text(member[name], name) if name in member else None for name in TEXTS
        )
        return cls(*counts, norm2, norm1, step, member.get("most"))


def cost_of(facts: Facts, law: Law, range: Range, by: str | None = None) -> Cost:
    """What a release reveals of one unit, at most: from public whole numbers, in fractions."""
    apart = range.apart(by)
    if type(law) is RoundedNormal and facts.norm2 is not None:
        share = Fraction(facts.norm2, min(law.sigma) ** 2)
        mu2 = share * apart**2
        step = share if facts.step is None else Fraction(facts.step, min(law.sigma)) ** 2
        information = _normal_information(share, step, range)
        return Cost({"information": information, "mu2": mu2, "rho": mu2 / 2})
    if type(law) is DiscreteLaplace and facts.norm1 is not None:
        share = Fraction(facts.norm1, law.scale)
        step = share if facts.step is None else Fraction(facts.step, law.scale)
        information = _per_step(share**2 * (1 + step) ** 2, step, range)
        return Cost({"information": information} | pure_amounts(share * apart))
    if type(law) is WrongLevel and facts.most is not None:
        epsilon = facts.most * log_odds(law)
        information = facts.most * _level_information(law, range)
        return Cost({"information": information} | pure_amounts(epsilon))
    raise InvalidInput(f"this law of noise does not go with the map {facts.name!r}.")


def _normal_information(share: Fraction, step: Fraction, range: Range) -> Fraction:
    """(e^x − 1)/4^e ≤ x(1 + x)/4^e for x ≤ 1; x of a row's own step: PROOF.md §§2, 3."""
    return _per_step(share * (1 + step), step, range)


def _per_step(amount: Fraction, step: Fraction, range: Range) -> Fraction:
    if step > 1:
        raise InvalidInput("a step of the grid moves the release by more than its noise: finer.")
    return amount / Fraction(4) ** range.exponent


def _level_information(law: WrongLevel, range: Range) -> Fraction:
    """(1/spacing)²·(p − q)²(p + q)/(pq), the spacing of levels N·2^e/(L − 1): PROOF.md §5."""
    p = Fraction(law.right, WHOLE)
    q = Fraction(law.flips, WHOLE)
    steps = Fraction(range.steps, law.levels - 1)
    slope = (p - q) / (steps * Fraction(2) ** range.exponent)
    uneven = 1 + 4 * steps / WHOLE  # 64 bits divide by a spacing to 1 unit
    return slope**2 * (p + q) / (p * q) * uneven


def log_odds(law: WrongLevel) -> Fraction:
    """ε = ln(p/q), rounded up."""
    excess = Fraction(law.right - law.flips, law.flips)
    return Fraction(math.log1p(float(excess))) * ROUNDED_UP


def pure_amounts(epsilon: Fraction) -> dict[str, Fraction]:
    """ε in every unit: ρ = ε²/2, μ = 2Φ⁻¹(e^ε/(1 + e^ε)) rounded up; PROOF.md §5."""
    size = min(float(epsilon), CHAIN_LIMIT)
    # Φ⁻¹ of 1/(1 + e^ε), whose logarithm keeps its digits.
    log_tail = -size - math.log1p(math.exp(-size))
    mu = -2.0 * float(ndtri_exp(log_tail)) if size > 0 else 0.0
    rho = epsilon**2 / 2
    amounts = {"epsilon": epsilon, "rho": rho}
    if float(epsilon) <= CHAIN_LIMIT:
        amounts["mu2"] = (Fraction(mu) * ROUNDED_UP) ** 2
    return amounts


# --- maps -----------------------------------------------------------------------------------------


class Map:
    """Whole numbers of whole numbers, public and set once: what is shown is what is charged.

    facts    what the cost follows from.  indices  how many indices of the ledger it covers.
    words    random words a value, before its noise.  finer, persons  as in `Rows`.
    """

    facts: Facts
    indices: int
    words = 1
    finer: int | Integers = 0
    persons: Integers | None = None

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self):
            raise AttributeError("a map cannot be changed: make another one.")
        object.__setattr__(self, name, value)

    def require(self, range: Range, law: Law) -> None:
        """Refuse, for public reasons, what cannot be computed exactly."""

    @abstractmethod
    def shown(self, k: Integers, range: Range, words: Unsigned) -> Released:
        """Whole numbers made of k, before noise."""


class Rows(Map):
    """w_i·k_i of every value, w_i whole: row-level releases, level columns, devices.

    finer    steps of row i are 2^(e − finer_i): rows of a higher level need finer ones.
    persons  number of the person of each row; the unit is then one person.
    """

    def __init__(
        self,
        weights: ArrayLike,
        *,
        finer: ArrayLike | None = None,
        persons: ArrayLike | None = None,
    ) -> None:
        self.weights = whole_numbers(weights, "the weights of rows", 1)
        count = len(self.weights)
        every = np.zeros(count, dtype=np.int64) if finer is None else finer
        shifts = whole_numbers(every, "the finer steps of rows", 1)
        if len(shifts) != count or not set(np.unique(shifts)) <= set(FINER):
            raise InvalidInput(f"every row has steps that are 0 to {FINER[-1]} powers of 2 finer.")
        self.persons = _persons(persons, count)
        self.finer = shifts
        sizes = zip(self.weights.tolist(), shifts.tolist(), strict=True)
        each = [abs(w) << shift for w, shift in sizes]
        squares = _largest_sum([w * w for w in each], self.persons)
        largest = int(np.abs(self.weights).max(initial=0))
        step = largest if shifts.any() else None
        self.facts = Facts("rows", count, count, squares, _largest_sum(each, self.persons), step)
        self.indices = count

    def require(self, range: Range, law: Law) -> None:
        if isinstance(law, WrongLevel):
            raise InvalidInput("rows have noise; for levels take the map Levels.")
        size = law.scale if isinstance(law, DiscreteLaplace) else max(law.sigma)
        if size >= 2**50:
            raise InvalidInput("the noise of rows is below 2^50: take coarser steps.")
        largest = max(map(abs, range.ends)) << int(np.max(self.finer, initial=0))
        weight = int(np.abs(self.weights).max(initial=0))
        if largest > LARGEST_STEP or weight * largest >= ROOM:
            raise InvalidInput("the range has too many steps for these weights: coarser steps.")

    def shown(self, k: Integers, range: Range, words: Unsigned) -> Released:
        return self.weights * k


class Sums(Map):
    """Σ_i W_ij k_i: aggregates, scores, pilots, coordinates of vectors.

    norm2, norm1  public bounds of one unit, checked here; the true largest would reveal features.
    persons       number of the person of each row; the unit is then one person.
    """

    name = "sums"
    lags: tuple[tuple[int, ...], ...] | None = None
    past = 0
    earlier: tuple[int, ...] = ()

    def __init__(
        self,
        weights: ArrayLike,
        *,
        norm2: int | None = None,
        norm1: int | None = None,
        persons: ArrayLike | None = None,
    ) -> None:
        self.weights = whole_numbers(weights, "the weights of sums", 2)
        rows, numbers = self.weights.shape
        self.persons = _persons(persons, rows)
        self.facts = Facts(self.name, numbers, rows, norm2, norm1, lags=self.lags)
        self.indices = rows - self.past
        if norm2 is not None and _largest_norm2(self.weights, self.persons) > norm2:
            raise InvalidInput("norm2 is below the largest sum of squared weights of a unit.")
        if norm1 is not None:
            sizes = [sum(map(abs, row)) for row in self.weights.tolist()]
            if _largest_sum(sizes, self.persons) > norm1:
                raise InvalidInput("norm1 is below the largest sum of weights of a unit.")

    def shown(self, k: Integers, range: Range, words: Unsigned) -> Released:
        return exact_sums(self.weights, k, max(map(abs, range.ends)))


class Lagged(Sums):
    """Steps of a stream, z_t = Σ_l weights[l]·k_{t−l}.

    present  which values are there: `past` earlier ones, then one a step. A step without a value is
             not released, and counts as 0 in later ones.
    earlier  how many steps before the first new one the values are that are looked back to.

    The unit is one value with all steps that look back to it, also later ones: norm2 = Σ_l w_l².
    The door holds a line to one choice of weights.
    """

    name = "lagged"

    def __init__(self, weights: ArrayLike, present: ArrayLike, past: int = 0) -> None:
        lags = whole_numbers(weights, "the weights of a stream", 1)
        is_there = np.asarray(present, dtype=bool)
        steps = np.flatnonzero(is_there[past:]) + past
        distance = steps[None, :] - np.arange(len(is_there))[:, None]
        is_used = (distance >= 0) & (distance < len(lags)) & is_there[:, None]
        looked_at = np.flatnonzero(is_used[:past].any(axis=1))
        numbers = [int(w) for w in lags]
        self.past = past
        self.earlier = tuple(past - int(i) for i in looked_at)
        self.lags = tuple((w,) for w in numbers)
        super().__init__(
            np.where(is_used, lags[np.clip(distance, 0, len(lags) - 1)], 0),
            norm2=sum(w * w for w in numbers),
            norm1=sum(map(abs, numbers)),
        )


class Completing(Map):
    """Squares about public middles m_i after sums: what is charged is the worst pair of both.

    middles  predictions from the released sums, or the middle of the range.
    first    the sums; the door compares their weights with those that were released.
    """

    def __init__(self, weights: ArrayLike, middles: ArrayLike, first: Sums) -> None:
        self.weights = whole_numbers(weights, "the weights of squares", 2)
        self.middles = whole_numbers(middles, "the middles of squares", 1)
        self.first = first
        self.persons = first.persons
        self.indices = first.indices
        rows, self.size = self.weights.shape
        if not rows == len(self.middles) == len(first.weights):
            raise InvalidInput("squares need a row of weights and a middle for every row of sums.")
        if (first.persons is None) != (type(self) is Squares):
            raise InvalidInput("squares of rows are Squares, those of persons PersonSquares.")
        is_of_rows = type(self) is Squares
        name = "squares" if is_of_rows else "person squares"
        numbers = self.size if is_of_rows else self.size * (self.size + 1) // 2
        self.facts = Facts(name, numbers, rows)

    @abstractmethod
    def pair(self, first: RoundedNormal, second: RoundedNormal, range: Range, apart: int) -> Cost:
        """The largest cost of sums and squares together."""

    def _pair(self, mu2: Fraction, share: Fraction, range: Range) -> Cost:
        information = _normal_information(share, share, range)
        return Cost({"information": information, "mu2": mu2, "rho": mu2 / 2})


class Squares(Completing):
    """Σ_i Q_ij (k_i − m_i)²."""

    def shown(self, k: Integers, range: Range, words: Unsigned) -> Released:
        farthest = int(_farthest(self.middles, range).max(initial=0))
        residual: Any = k - self.middles
        if farthest**2 >= ROOM:
            residual = residual.astype(object)
        return exact_sums(self.weights, residual**2, farthest**2)

    def pair(self, first: RoundedNormal, second: RoundedNormal, range: Range, apart: int) -> Cost:
        """The largest A·d² + B·d²(c − d)² of sums and squares: two values d ≤ apart steps apart."""
        sums, squares = self.first.weights.astype(float), self.weights.astype(float)
        slope = (sums**2).sum(axis=1) / float(min(first.sigma)) ** 2
        curve = ((squares / np.array(second.sigma, dtype=float)) ** 2).sum(axis=1)
        reach = 2.0 * _farthest(self.middles, range).astype(float)
        # Each release rounds anew: the sums may see a pair d + 1 apart where the squares see d.
        mu2 = _largest_move(slope, curve, reach, float(apart)) + slope.max() * (2 * apart - 1)
        share = Fraction(float((slope + curve * (reach - 1) ** 2).max())) * PAIR_ROUNDED_UP
        total = Fraction(float(mu2)) * PAIR_ROUNDED_UP
        return self._pair(total, share, range)


def _farthest(middles: Integers, range: Range) -> Integers:
    """The most steps between a value and its middle."""
    low, high = range.ends
    return np.maximum(high - middles, middles - low)


def _largest_move(
    slope: NDArray[np.float64], curve: NDArray[np.float64], c: NDArray[np.float64], apart: float
) -> float:
    """max over 0 ≤ d ≤ apart of A·d² + B·d²(c − d)²: at the end, or at a root of its derivative.

    The root is the smaller one of 2d² − 3cd + c² + A/B.
    """
    ratio = np.divide(slope, curve, out=np.full_like(slope, np.inf), where=curve > 0)
    square = c**2 - 8 * ratio
    root = (3 * c - np.sqrt(np.maximum(square, 0.0))) / 4
    turning = np.where(square >= 0, np.minimum(root, apart), apart)
    moves = [d**2 * (slope + curve * (c - d) ** 2) for d in (turning, apart)]
    return float(np.max(moves))


class PersonSquares(Completing):
    """Σ_P v_P v_Pᵀ, the entries on and above the diagonal, v_P = Σ_{i of P} Q_i (k_i − m_i).

    ‖v_P‖ ≤ r for every table, r = max_P Σ_i ‖Q_i‖·(most of |k_i − m_i|), so one person moves the
    matrix by at most √2·r² (one entry: r²). Off the diagonal noise is 1/√2 as large.
    """

    def law(self, sigma: int) -> RoundedNormal:
        """σ on the diagonal, the least s with 2s² ≥ σ² off it: each entry there counts twice."""
        off = math.isqrt((sigma**2 - 1) // 2) + 1
        return RoundedNormal(tuple(sigma if a == b else off for a, b in self._entries()))

    def _entries(self) -> list[tuple[int, int]]:
        return [(a, b) for a in range_of(self.size) for b in range_of(a, self.size)]

    def shown(self, k: Integers, range: Range, words: Unsigned) -> Released:
        residual: Any = (k - self.middles).astype(object)[:, None]
        assert self.persons is not None
        vectors: Any = np.zeros((int(self.persons.max(initial=0)) + 1, self.size), dtype=object)
        np.add.at(vectors, self.persons, self.weights.astype(object) * residual)
        return [int((vectors[:, a] * vectors[:, b]).sum()) for a, b in self._entries()]

    def pair(self, first: RoundedNormal, second: RoundedNormal, range: Range, apart: int) -> Cost:
        """The cost of sums and squares, each at its largest move, which may be of another pair."""
        sigma = second.sigma[0]
        if second != self.law(sigma):
            raise InvalidInput("squares of persons take the law that `law(sigma)` gives.")
        lengths = [_root_up(int(norm2)) for norm2 in _norms2(self.weights)]
        farthest = _farthest(self.middles, range).tolist()
        reach = [length * far for length, far in zip(lengths, farthest, strict=True)]
        radius = Fraction(_largest_sum(reach, self.persons), ROOT_UNIT)
        times = 2 if self.size > 1 else 1
        assert self.first.facts.norm2 is not None
        share = Fraction(self.first.facts.norm2, min(first.sigma) ** 2)
        mu2 = share * apart**2 + times * radius**4 / sigma**2
        # ‖vvᵀ − v′v′ᵀ‖_F ≤ ‖v − v′‖·(‖v‖ + ‖v′‖), where every value of a person moves by a step.
        step = Fraction(_largest_sum(lengths, self.persons), ROOT_UNIT)
        moved2 = min(times * radius**4, 4 * radius**2 * step**2)
        return self._pair(mu2, share + moved2 / sigma**2, range)


class Levels(Map):
    """Level ⌊(k − low)(L − 1)/N + U⌋ of L, of every value: L = 2 is one random bit.

    L − 1 divides N, so that the levels lie on the grid. `persons`: number of each row's person.
    """

    words = 2

    def __init__(self, levels: int, count: int, *, persons: ArrayLike | None = None) -> None:
        _require_whole(levels, 2, 2**16, "the number of levels")
        self.levels = levels
        most = _largest_sum([1] * count, _persons(persons, count))
        self.facts = Facts("levels", count, count, most=most)
        self.indices = count

    def require(self, range: Range, law: Law) -> None:
        if not isinstance(law, WrongLevel) or law.levels != self.levels:
            raise InvalidInput("a map to levels needs the law of as many wrong levels.")
        low, high = range.ends
        if high - low != range.steps or range.steps % (self.levels - 1):
            raise InvalidInput("the range of levels has a multiple of L - 1 steps.")

    def shown(self, k: Integers, range: Range, words: Unsigned) -> Released:
        spacing = range.steps // (self.levels - 1)
        above = _high_product(words, spacing)  # ⌊U·spacing⌋
        return (k - range.ends[0] + above) // spacing


def _high_product(words: Unsigned, factor: int) -> Integers:
    """⌊word·factor/2⁶⁴⌋ for a factor below 2⁵³, by halves of 32 bits."""
    half = np.uint64(32)
    mask = np.uint64(2**32 - 1)
    low_factor = np.uint64(factor % 2**32)
    high_factor = np.uint64(factor >> 32)
    low, high = words & mask, words >> half
    middle = high * low_factor + (low * low_factor >> half)
    carry = (middle & mask) + low * high_factor
    product = high * high_factor + (middle >> half) + (carry >> half)
    return np.asarray(product, dtype=np.int64)


range_of = range  # the built-in: `range` names the range of values in this module

MAPS = (Rows, Sums, Lagged, Squares, PersonSquares, Levels)


# --- whole numbers, exactly -----------------------------------------------------------------------


def exact_sums(weights: Integers, k: Any, largest: int) -> list[int]:  # noqa: ANN401 - or objects
    """Σ_i W_ij k_i as Python integers; |k_i| ≤ largest, a public number.

    In blocks of as many rows as 64 bits hold for sure; where these are few, in Python integers.
    """
    heaviest = int(np.abs(weights).max(initial=0)) * largest
    block = (ROOM - 1) // max(heaviest, 1)
    if block < 256:
        block, weights = 2**16, weights.astype(object)
    sums = [0] * weights.shape[1]
    for start in range_of(0, len(weights), block):
        rows = slice(start, start + block)
        part = weights[rows].T @ k[rows]
        sums = [total + int(more) for total, more in zip(sums, part, strict=True)]
    return sums


ROOT_UNIT = 2**20  # roots are whole multiples of its inverse, rounded up


def _root_up(square: int) -> int:
    """The least n with n/ROOT_UNIT ≥ √square."""
    scaled = square * ROOT_UNIT**2
    root = math.isqrt(scaled)
    return root if root * root == scaled else root + 1


def _norms2(weights: Integers) -> list[int]:
    """‖W_i‖² of every row."""
    exact: Any = weights
    if int(np.abs(weights).max(initial=0)) ** 2 * weights.shape[1] >= ROOM:
        exact = weights.astype(object)
    return (exact**2).sum(axis=1).tolist()  # type: ignore[no-any-return]


def _largest_norm2(weights: Integers, persons: Integers | None) -> int:
    """The largest Σ_j w_j² of a unit: of a row, or (Σ_i ‖W_i‖)² of a person, rounded up."""
    norms2 = _norms2(weights)
    if persons is None:
        return max(norms2, default=0)
    largest = _largest_sum([_root_up(norm2) for norm2 in norms2], persons)
    return -(-(largest**2) // ROOT_UNIT**2)


def _largest_sum(numbers: Sequence[int], persons: Integers | None) -> int:
    """The largest of numbers, or of their sums over a person."""
    if persons is None:
        return max(numbers, default=0)
    sums = [0] * (int(persons.max(initial=0)) + 1)
    for number_of_person, value in zip(persons.tolist(), numbers, strict=True):
        sums[number_of_person] += value
    return max(sums)


def _persons(given: ArrayLike | None, rows: int) -> Integers | None:
    if given is None:
        return None
    persons = whole_numbers(given, "the numbers of persons", 1)
    if len(persons) != rows or int(persons.min(initial=0)) < 0:
        raise InvalidInput("every row needs the number of its person, from 0 on.")
    return persons
