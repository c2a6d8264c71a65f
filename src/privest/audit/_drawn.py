"""Does a channel draw from the density that it states? Draws next to it, and what they would show.

A density says nothing of the code that draws. At some inputs many draws are compared with the
distribution function; and at many inputs, over the whole range, one draw each with the input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array
from privest.audit._screen import Range
from privest.errors import PrivestError
from privest.mechanism import Channel
from privest.mechanism._numeric_score import log_density
from privest.mechanism._numerics import density_at

# All looks at one mechanism together give a false alarm with a probability below this; each has an
# equal part, for there are never more than 1000.
FALSE_ALARM, LOOKS = 1e-9, 1000
EACH = FALSE_ALARM / LOOKS
# What is stated is seen with this probability.
POWER = 0.99
# The distribution function is compared at so many quantiles.
STEPS = 500
QUANTILES = (np.arange(STEPS) + 1) / (STEPS + 1)
# Draws closer than this part of the width of the law to each other, or to the input, are counted.
CLOSE = 1e-6
WITHIN = np.concatenate([[0.0], 10.0 ** -np.arange(12.0, 1.0, -2.0)])
# Windows of the range in which the draws of a shift are looked at apart, each number of them with
# an equal part of the false alarm.
WINDOWS = (8, 64, 512)


@dataclass(frozen=True)
class Drawn:
    """What was seen of the draws of a mechanism.

    said        a sentence: what was looked at and what would have been seen, or what is wrong.
    wrong_at    an input at which the draws contradict the density, or None.
    exact       the input itself came out, at several inputs: the information is infinite.
    examined    whether there was anything to look at.
    power       the least excess of information that would have been seen with probability POWER.
    """

    said: str
    wrong_at: Array | float | None = None
    exact: bool = False
    examined: bool = True
    power: float = math.nan


class Wrong(NamedTuple):
    """What is wrong with the draws at u; `same`: they are too often u itself."""

    u: float
    what: str
    same: bool = False


OWN = "It draws from its density by numbers: there is no sampler of its own to examine."
BLUNT = "Sampler not examined: at no input could the density be compared with draws."


def drawn_as_stated(
    channel: Channel,
    span: Range,
    inputs: Array,
    samples: int,
    rng: np.random.Generator,
    shift: bool,
) -> Drawn:
    """Compare `samples` draws at each of the inputs, and one at each of as many over the range.

    `shift`: p(z + c|u + c) = p(z|u), by its density; then the draws over the range are compared
    with it, too, in windows of the range.
    Cost: samples·(inputs + 1) draws, sorted.
    """
    if getattr(channel, "draws_from_density", False):
        return Drawn(OWN, examined=False)
    look = _Look(channel, samples)
    found = [look.at(u, rng) for u in np.unique(inputs).tolist()]
    equal = {wrong.u for wrong in found if wrong is not None and wrong.same}
    other = next((wrong for wrong in found if wrong is not None and not wrong.same), None)
    if other is None:
        came_out, other = look.over(span, rng, shift)
        equal |= came_out
    if len(equal) > 1:
        said = (
            f"Its sampler returns the input itself (at {len(equal)} of the inputs looked at): the "
            "information is infinite, whatever its density says."
        )
        return Drawn(said, min(equal, key=abs), exact=True)
    other = other or next((wrong for wrong in found if wrong is not None), None)
    if other is not None:
        said = f"Its sampler contradicts its density at input {other.u:.6g}: {other.what}"
        return Drawn(said, other.u)
    if not look.inputs:
        return Drawn(BLUNT, examined=False)
    return Drawn(look.power(span), power=look.excess())


@dataclass
class _Look:
    """Draws of a channel, n at an input; and how many of what were too many (the largest)."""

    channel: Channel
    n: int
    inputs: list[float] = field(default_factory=list)  # at which draws were compared
    equal: int = 0
    crowd: int = 0
    windows: str = ""

    def power(self, span: Range) -> str:
        """What would have been seen, with probability POWER."""

        def share(count: int) -> str:
            """Too many, from this probability on: a Poisson variable that exceeds the count."""
            return f"{float(scipy.special.gammaincinv(count + 1, POWER)) / self.n:.2g}"

        near = f"values within {CLOSE:g} widths of one another in {share(self.crowd)} or "
        law = "outcomes that are not listed or " if self.channel.discrete else near
        off = chance_distance(self.n) + chance_distance(self.n, 1 - POWER) + 1 / STEPS
        return (
            f"Its sampler agrees with its density: {self.n} draws at each of {len(self.inputs)} "
            f"inputs and one at each of {self.n} from {span.low:.4g} to {span.high:.4g}. The input "
            f"itself in {share(self.equal)} of the draws, {law}a distribution function off by "
            f"{off:.2g} at one of the inputs{self.windows} would have been seen with "
            f"probability {POWER:g} (false alarm {FALSE_ALARM:g})."
        )

    def excess(self) -> float:
        """The least e for which noise narrower by √(1 + e) is further off than chance allows."""
        if self.channel.discrete:
            return math.nan
        off = chance_distance(self.n) + chance_distance(self.n, 1 - POWER) + 1 / STEPS
        density = density_at(self.channel, self.inputs[len(self.inputs) // 2])
        goal = density.quantile(QUANTILES)
        middle = float(np.median(goal))
        tried = np.geomspace(1e-3, 1e6, 900)
        wider = middle + (goal - middle) * np.sqrt(1 + tried)[:, None]
        seen = np.abs(density.cdf(wider) - QUANTILES).max(axis=1) > off
        return float(tried[np.argmax(seen)]) if seen.any() else math.nan

    def at(self, u: float, rng: np.random.Generator) -> Wrong | None:
        """What is wrong with many draws at u."""
        z = self.channel.sample(np.full(self.n, u), rng)
        if not np.isfinite(z).all():
            return Wrong(u, "it returns numbers that are not finite.")
        try:
            wrong = self._outcomes(u, z) if self.channel.discrete else self._values(u, np.sort(z))
        except PrivestError:  # no density at u, or tails too heavy to invert
            return None
        self.inputs.append(u)
        return wrong

    def _outcomes(self, u: float, z: Array) -> Wrong | None:
        values, counts = np.unique(z, return_counts=True)
        chance = np.exp(log_density(self.channel, values, u))
        never = chance == 0
        if never.any():
            what = f"{int(counts[never].sum())} of {self.n} draws have probability zero."
            return Wrong(u, what, bool((values[never] == u).any()))
        every = np.union1d(values, np.asarray(self.channel.outcomes(u), dtype=np.float64))
        chance = np.minimum(np.exp(log_density(self.channel, every, u)), 1.0)
        often = np.zeros(every.size)
        often[np.searchsorted(every, values)] = counts
        off = np.abs(np.cumsum(chance) - np.cumsum(often) / self.n).max()
        law = scipy.stats.binom(self.n, chance)
        tail = np.minimum(law.sf(often - 1), law.cdf(often)).min()
        if tail < EACH / every.size or off > chance_distance(self.n):
            what = f"frequencies in {self.n} draws are not the probabilities of the outcomes."
            return Wrong(u, what)
        return None

    def _values(self, u: float, z: Array) -> Wrong | None:
        """The distribution as a whole, then around the input, then around any value."""
        density = density_at(self.channel, u)
        off = distance(z, density.quantile(QUANTILES))
        if off > chance_distance(self.n):
            chance = f"chance allows {chance_distance(self.n):.2g}"
            return Wrong(u, f"the distribution of {self.n} draws is off by {off:.2g}; {chance}.")
        wide = WITHIN * density.width
        low, high = (np.nextafter(u + side * wide, side * math.inf) for side in (-1, 1))
        seen = np.searchsorted(z, high, "left") - np.searchsorted(z, low, "right")
        expected = self.n * (density.cdf(high) - density.cdf(low) + 1e-13)
        allowed = np.array([not_by_chance(float(count)) for count in expected])
        self.equal = max(self.equal, int(allowed[0]))
        if (seen > allowed).any():
            k = int(np.argmax(seen > allowed))
            what = f"{seen[k]} of {self.n} draws lie within {wide[k]:.1g} of the input"
            return Wrong(u, f"{what}, {expected[k]:.2g} are expected.", k == 0)
        narrow = CLOSE * density.width + float(np.spacing(abs(u)))
        highest = float(np.exp(log_density(self.channel, density.nodes[0], u)).max())
        most = min(self.n * narrow * highest, float(self.n))
        crowd = min(not_by_chance(most, EACH / self.n) + 1, self.n - 1)
        self.crowd = max(self.crowd, crowd)
        if (z[crowd:] - z[:-crowd] <= narrow).any():
            return Wrong(u, f"{crowd + 1} of {self.n} draws lie within {narrow:.1g} of each other.")
        return None

    def over(
        self, span: Range, rng: np.random.Generator, shift: bool
    ) -> tuple[set[float], Wrong | None]:
        """One draw each at n inputs: those that came out as they went in, and what is wrong."""
        u = np.sort(_spread(span, self.n, rng))
        z = self.channel.sample(u, rng)
        never = ~np.isfinite(z)
        if self.channel.discrete:
            never |= log_density(self.channel, np.where(never, 0.0, z), u) == -np.inf
            same = never & (z == u)
        else:
            chance = np.exp(np.minimum(log_density(self.channel, u, u), 600.0))
            expected = np.minimum(chance * np.spacing(np.abs(u)), 1.0).sum()
            allowed = not_by_chance(float(expected))
            self.equal = max(self.equal, allowed)
            same = (z == u) & (np.count_nonzero(z == u) > allowed)
        equal = set(u[same].tolist())
        if (never & ~same).any():
            return equal, Wrong(float(u[never & ~same][0]), "a draw there has probability zero.")
        return equal, self._moved_back(span, u, z) if shift and not equal else None

    def _moved_back(self, span: Range, u: Array, z: Array) -> Wrong | None:
        """The draws of a shift, each moved back by its own input, in windows of the range."""
        middle = (span.low + span.high) / 2
        try:
            goal = density_at(self.channel, middle).quantile(QUANTILES)
        except PrivestError:
            return None
        power = []
        for count in WINDOWS:
            inputs, moved = np.array_split(u, count), np.array_split(z - u + middle, count)
            away = [(distance(np.sort(y), goal), x) for x, y in zip(inputs, moved) if x.size]
            off, where = max(away, key=lambda pair: pair[0])
            least = min(x.size for _, x in away)
            allowed = chance_distance(least, EACH / count)
            if off > allowed:
                what = f"the distribution of {where.size} draws around it is off by {off:.2g}."
                return Wrong(float(np.median(where)), what)
            # What is so wide has a whole window in it.
            wide = 2 * max(float(np.ptp(x)) for x in inputs if x.size)
            seen = allowed + chance_distance(least, 1 - POWER) + 1 / STEPS
            power += [f"by {seen:.2g} at all inputs of a stretch {wide:.2g} wide"] * (seen < 1)
        self.windows = "".join(f", {one}" for one in power)
        return None


def distance(ordered: Array, goal: Array) -> float:
    """sup |F_n − F| over the QUANTILES of F; a rounded draw may lie on either side of one."""
    below, above = (
        np.searchsorted(ordered, goal, side) / ordered.size for side in ("left", "right")
    )
    return float(np.maximum(below - QUANTILES, QUANTILES - above).max())


def chance_distance(n: int, probability: float = EACH) -> float:
    """sup |F_n − F| exceeds this with at most this probability (Dvoretzky et al., Massart)."""
    return math.sqrt(math.log(2 / probability) / (2 * n))


def not_by_chance(expected: float, probability: float = EACH) -> int:
    """The least count that a Poisson variable exceeds with at most this probability."""
    if not expected < 1e15:  # nothing can be too many
        return 2**62
    low, high = -1, 1
    while scipy.special.gammainc(high + 1, expected) > probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        above = scipy.special.gammainc(middle + 1, expected) > probability
        low, high = (middle, high) if above else (low, middle)
    return high


def _spread(span: Range, n: int, rng: np.random.Generator) -> Array:
    """Half of them evenly over the range, half in octaves around 0."""
    most = max(abs(span.low), abs(span.high))
    size = most * np.exp2(-rng.uniform(0, 12, n // 2)) * rng.choice([-1.0, 1.0], n // 2)
    even = rng.uniform(span.low, span.high, n)
    even[: n // 2] = np.where(span.within(size), size, even[: n // 2])
    return even
