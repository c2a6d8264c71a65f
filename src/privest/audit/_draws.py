"""Does a mechanism draw from the density that it states? Draws next to it, and their power.

Draws of a channel are compared with its distribution function. A mechanism that mixes measurements
has none at hand; but for every two measurement vectors y, y'

    E_y min(r, c) = E_y' min(1, c/r) ,   r = p(z|y')/p(z|y) ,   any c > 0

two means of bounded variables, from draws at y and at y'. Noise shared by two measurements reveals
their difference exactly: outputs of one release are tested for independence.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import EPS, Array, Index
from privest.audit._density import reachable
from privest.audit._samples import by_samples
from privest.audit._terms import EXAMINED, MORE, PAIRS, Draws, Finding, Found, Look, Span
from privest.errors import InvalidInput, PrivestError
from privest.linalg import PSD
from privest.mechanism import Channel, Componentwise, Mechanism
from privest.mechanism.numerics import density_at, log_density

# All looks at one mechanism together give a false alarm with a probability below this; each has an
# equal part, for there are never more than 1000.
FALSE_ALARM, LOOKS = 1e-9, 1000
EACH = FALSE_ALARM / LOOKS
POWER = 0.99  # the probability with which a stated deviation is seen
STEPS = 500  # quantiles at which the distribution function is compared
QUANTILES = (np.arange(STEPS) + 1) / (STEPS + 1)
# Draws closer than this part of the width of p to each other, or to the input, are counted.
CLOSE = 1e-6
WITHIN = np.concatenate([[0.0], 10.0 ** -np.arange(12.0, 1.0, -2.0)])
# Windows of the range in which the draws of a shift are looked at apart, each number of them with
# an equal part of the false alarm.
WINDOWS = (8, 64, 512)
# Inputs at which many draws are made, as parts of the range; for a shift three are enough.
INPUTS, ENDS = (0.0, 0.24, 0.5, 0.53, 1.0), (0.0, 0.5, 1.0)
# All draws of a certificate together, as a multiple of `samples` at one input of one channel.
CHANNELS, FEWEST_DRAWS, COSTLY = 4, 20_000, 10
NAMED = 5
# Numbers drawn at a place; draws of them whose likelihood ratios are compared.
NUMBERS, COMPARISONS = 4_000_000, 40_000
RATIOS = (0.25, 4.0)
PILOT = 500
NARROWER = (0.02, 0.05, 0.1, 0.2, 0.5)
# Releases drawn one at a time, as users draw them; the fewest drawn together; outputs compared.
SINGLE, FEWEST, OUTPUTS = 300, 300, 400
TRIPLES = 8  # outputs of which every three are looked at
ALREADY = "Sampler not examined: by the density alone the level is broken."
OWN = "It draws from its density by numbers: there is no sampler of its own to examine."
BLUNT = "Sampler not examined: at no input could the density be compared with draws."
NO_DENSITY = "Sampler not examined: there is no density to compare it with."
UNSEEN = "Sampler not examined as a whole: its releases at the usual measurement vectors "
SEEN = f"would have been seen with probability {POWER:g} (false alarm {FALSE_ALARM:g})."


@dataclass(frozen=True)
class Drawn:
    """The draws of a mechanism, next to its density.

    said        a sentence: what was looked at and what would have been seen, or what is wrong.
    wrong_at    an input, or a y, at which the draws contradict the density, or None.
    exact       the input itself came out: the information is infinite.
    power       the least excess of information that would have been seen with probability POWER.
    """

    said: str
    wrong_at: Array | float | None = None
    exact: bool = False
    examined: bool = True
    power: float = math.nan


def compared(mechanism: Mechanism, S: PSD, found: Finding, look: Look, limit: float) -> Finding:
    """The finding, and whether draws agree with the density that it is about.

    Where they contradict it the samples themselves are audited, at the place that showed it.
    """
    if found.least > limit:
        return replace(found, reasons=(*found.reasons, ALREADY))
    if isinstance(mechanism, Componentwise):
        drawn, y = _of_channels(mechanism, found, look)
        if drawn.wrong_at is None:
            found, drawn, y = _as_a_whole(mechanism, found, drawn, look)
    else:
        places = _vectors(mechanism, look)
        drawn = vectors_drawn_as_stated(mechanism, places, look.samples, look.any_rng)
        y = places[0] if drawn.wrong_at is None else np.asarray(drawn.wrong_at)
    found = replace(found, power=drawn.power, reasons=(*found.reasons, drawn.said))
    if drawn.wrong_at is None:
        sampler: Draws = "agrees" if drawn.examined else "not examined"
        return replace(found, sampler=sampler)
    wrong = replace(found, refuted=True, sampler="contradicts", undecided=(), worst_y=y)
    if drawn.exact:
        return replace(wrong, margin=math.inf, error=0.0, least=math.inf, method="draws")
    try:
        shown = by_samples(mechanism, S, replace(look, places=y[None], generator=look.any_rng))
    except InvalidInput:  # hidden directions, or the edge of a domain: nothing follows from samples
        return wrong
    if shown.least <= limit:
        return wrong
    return replace(
        wrong, margin=shown.margin, error=shown.error, least=shown.least, method=shown.method,
        reasons=(*wrong.reasons, *shown.reasons), confidence=shown.confidence,
    )  # fmt: skip


def _of_channels(mechanism: Componentwise, found: Finding, look: Look) -> tuple[Drawn, Array]:
    """The first channel whose draws contradict its density, or the weakest look; and a y there."""
    y = np.zeros(mechanism.measurements)
    samples = look.samples
    if len(found.searched) > CHANNELS:
        samples = min(samples, max(samples * CHANNELS // len(found.searched), FEWEST_DRAWS))
    every = []
    for channel, seen in found.searched.items():
        j = mechanism.channels.index(channel)
        named = mechanism.inputs(look.places)[:NAMED, j] if look.places.size else np.zeros(0)
        drawn = drawn_as_stated(channel, seen, named, samples, look.any_rng)
        if drawn.wrong_at is not None:
            inputs = mechanism.inputs(y) * np.ones(mechanism.outputs)
            inputs[j] = drawn.wrong_at
            return drawn, reachable(mechanism, inputs)[0]
        every.append(drawn)
    power = float(np.max([drawn.power for drawn in every]))  # not known if one is not
    return replace(min(every, key=lambda drawn: drawn.examined), power=power), y


def _as_a_whole(
    mechanism: Componentwise, found: Finding, drawn: Drawn, look: Look
) -> tuple[Finding, Drawn, Array]:
    """The same after releases of all outputs at once, by the mechanism's own `simulate`.

    One that is not that of independent channels is compared with the density at some measurement
    vectors; the verdict then is about these.
    """
    places, rng = _vectors(mechanism, look), look.any_rng
    own = type(mechanism).simulate is not Componentwise.simulate
    costly = any(channel.costly_draws for channel in found.searched)
    samples = max(look.samples // COSTLY, 2) if costly else look.samples
    looks = [drawn_independently] if mechanism.outputs > 1 else []
    several = dict.fromkeys((PAIRS, MORE), True)  # of one output there is nothing to look at
    for looked in [vectors_drawn_as_stated] * own + looks:
        seen = looked(mechanism, places, samples, rng)
        if seen.wrong_at is not None:
            return found, seen, np.asarray(seen.wrong_at)
        drawn = replace(
            drawn, said=f"{drawn.said} {seen.said}", examined=drawn.examined and seen.examined
        )
        several |= dict.fromkeys((PAIRS, MORE), seen.examined)
    found = replace(found, looked=several)
    if own:
        found = replace(found, where=EXAMINED, resolution=math.nan)
    return found, drawn, places[0]


def _vectors(mechanism: Mechanism, look: Look) -> Array:
    """Those of the look, and three fixed ones around the size of the noise."""
    if look.domain is not None:
        return look.places[:NAMED] if look.places.size else look.in_domain(3)
    top = float(np.diagonal(mechanism.worst_information()).max())
    unit = 1 / math.sqrt(top) if 0 < top < math.inf else 1.0
    sizes = unit * np.array([[0.1], [1.0], [10.0]])
    fixed = sizes * np.random.default_rng(5).standard_normal((3, mechanism.measurements))
    named = look.places[:NAMED] if look.places.size else np.zeros((0, mechanism.measurements))
    return np.concatenate([fixed, named])


# --- a channel, next to its distribution function -------------------------------------------------


class Wrong(NamedTuple):
    """An error of the draws at u; `same`: they are too often u itself."""

    u: float
    what: str
    same: bool = False


def drawn_as_stated(
    channel: Channel, seen: Found, named: Array, samples: int, rng: np.random.Generator
) -> Drawn:
    """Compare `samples` draws at some inputs, and one at each of as many over the range."""
    if getattr(channel, "draws_from_density", False):
        return Drawn(OWN, examined=False)
    span = seen.span or Span(*(density_at(channel, 0.0).width * np.array([-64.0, 64.0])))
    costly = channel.costly_draws
    parts = np.array(ENDS if seen.constant or costly else INPUTS)
    inputs = np.concatenate([span.low + (span.high - span.low) * parts, named, [seen.at]])
    look = _Look(channel, max(samples // COSTLY, 2) if costly else samples)
    found = [wrong for u in np.unique(inputs).tolist() if (wrong := look.at(u, rng)) is not None]
    contradicts = _contradiction(look, span, found, rng, seen.constant)
    if contradicts is not None:
        return contradicts
    if not look.inputs:
        return Drawn(BLUNT, examined=False)
    return Drawn(look.power(span), power=look.excess())


def _contradiction(
    look: _Look, span: Span, found: list[Wrong], rng: np.random.Generator, shift: bool
) -> Drawn | None:
    """Errors at single inputs, or of draws over the whole range."""
    equal = {wrong.u for wrong in found if wrong.same}
    other = next((wrong for wrong in found if not wrong.same), None)
    if other is None:
        came_out, other = look.over(span, rng, shift)
        equal |= came_out
    if len(equal) > 1:
        said = (
            f"Its sampler returns the input itself (at {len(equal)} of the inputs looked at): the "
            "information is infinite, whatever its density says."
        )
        return Drawn(said, min(equal, key=abs), exact=True)
    wrong = other or next(iter(found), None)
    if wrong is None:
        return None
    said = f"Its sampler contradicts its density at input {wrong.u:.6g}: {wrong.what}"
    return Drawn(said, wrong.u)


class _Look:
    """Draws of a channel, n at an input; and the largest counts that chance allows.

    equal    draws that are the input itself; crowd: draws within CLOSE widths of one another.
    """

    def __init__(self, channel: Channel, n: int) -> None:
        self.channel, self.n, self.inputs = channel, n, list[float]()
        self.equal = self.crowd = 0
        self.windows = ""

    @property
    def off(self) -> float:
        return chance_distance(self.n) + chance_distance(self.n, 1 - POWER) + 1 / STEPS

    def power(self, span: Span) -> str:
        def share(count: int) -> str:
            return f"{float(scipy.special.gammaincinv(count + 1, POWER)) / self.n:.2g}"

        near = f"values within {CLOSE:g} widths of one another in {share(self.crowd)} or "
        law = "outcomes that are not listed or " if self.channel.discrete else near
        return (
            f"Its sampler agrees with its density: {self.n} draws at each of {len(self.inputs)} "
            f"inputs and one at each of {self.n} from {span.low:.4g} to {span.high:.4g}. The input "
            f"itself in {share(self.equal)} of the draws, {law}a distribution function off by "
            f"{self.off:.2g} at one of the inputs{self.windows} {SEEN}"
        )

    def excess(self) -> float:
        """The least e for which noise narrower by √(1 + e) is further off than chance allows."""
        if self.channel.discrete:
            return math.nan
        density = density_at(self.channel, self.inputs[len(self.inputs) // 2])
        goal = density.quantile(QUANTILES)
        middle = float(np.median(goal))
        tried = np.geomspace(1e-3, 1e6, 900)
        wider = middle + (goal - middle) * np.sqrt(1 + tried)[:, None]
        seen = np.abs(density.cdf(wider) - QUANTILES).max(axis=1) > self.off
        return float(tried[np.argmax(seen)]) if seen.any() else math.nan

    def at(self, u: float, rng: np.random.Generator) -> Wrong | None:
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
        never = log_density(self.channel, values, u) == -np.inf
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
        self, span: Span, rng: np.random.Generator, shift: bool
    ) -> tuple[set[float], Wrong | None]:
        """One draw each at n inputs: those that came out as they went in, and an error."""
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

    def _moved_back(self, span: Span, u: Array, z: Array) -> Wrong | None:
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
            wide = 2 * max(float(np.ptp(x)) for _, x in away)  # has a whole window in it
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
    low, high = -1, 1  # not SciPy's inverse, which fails below 1e-16
    while scipy.special.gammainc(high + 1, expected) > probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        above = scipy.special.gammainc(middle + 1, expected) > probability
        low, high = (middle, high) if above else (low, middle)
    return high


def _spread(span: Span, n: int, rng: np.random.Generator) -> Array:
    most = max(abs(span.low), abs(span.high))
    size = most * np.exp2(-rng.uniform(0, 12, n // 2)) * rng.choice([-1.0, 1.0], n // 2)
    even = rng.uniform(span.low, span.high, n)
    even[: n // 2] = np.where(span.within(size), size, even[: n // 2])
    return even


# --- a mechanism that mixes measurements, by likelihood ratios ------------------------------------


def density_answers(mechanism: Mechanism, y: Array, rng: np.random.Generator) -> bool:
    try:
        value = mechanism.log_density(mechanism.simulate(y, rng, trials=1), y)
    except (NotImplementedError, PrivestError):
        return False
    return bool(np.isfinite(value).all())


def vectors_drawn_as_stated(
    mechanism: Mechanism, places: Array, samples: int, rng: np.random.Generator
) -> Drawn:
    """Draws at the places (k, m) next to the density, by `log_density` alone."""
    if not density_answers(mechanism, places[0], rng):
        return Drawn(NO_DENSITY, examined=False)
    n = max(min(samples, NUMBERS // max(mechanism.outputs, mechanism.measurements)), 2000)
    narrowest, exact, still = 0.0, list[Array](), list[Array]()
    wrong: list[tuple[str, Array]] = []
    for y in places:
        z = mechanism.simulate(y, rng, trials=n)
        if not np.isfinite(z).all():
            return Drawn("Its sampler returns numbers that are not finite.", y)
        if not mechanism.discrete:
            exact += [y] * bool(np.isin(z, y[y != 0]).any(axis=1).sum() > 1)
            still.append(np.where((z == z[0]).all(axis=0), z[0], math.nan))
            wrong += [("Its sampler repeats values, which a density never does.", y)] * _repeats(z)
        what, seen = _ratios(mechanism, y, z[:COMPARISONS], rng)
        wrong += [(what, y)] * bool(what)
        narrowest = max(narrowest, seen)
    if len(exact) > 1 or _moves(still):
        said = "Its sampler returns exactly what it is given: the information is infinite."
        return Drawn(said, [*exact, places[0]][0], exact=True)
    if wrong:
        return Drawn(*wrong[0])
    if not math.isfinite(narrowest):
        return Drawn(BLUNT, examined=False)
    leak = f"A measurement itself in {-2 * math.log(1 - POWER) / n:.2g} of the draws, or releases"
    return Drawn(
        f"Its sampler agrees with its density: {n} draws at each of {len(places)} measurement "
        f"vectors and next to them. {'Releases' if mechanism.discrete else leak} drawn "
        f"{narrowest:.0%} closer to their mean, {SEEN}",
        power=1 / (1 - narrowest) ** 2 - 1,
    )


def _repeats(z: Array) -> bool:
    for column in z.T:
        spread = float(np.quantile(column, 0.75) - np.quantile(column, 0.25))
        if spread == 0:
            continue
        pairs = len(z) - np.unique(column).size
        # Of n²/2 pairs each is equal with about the spacing over the spread.
        grain = float(np.spacing(np.abs(column).max())) / spread
        if pairs > not_by_chance(2.0 * len(z) ** 2 * grain):
            return True
    return False


def _moves(still: list[Array]) -> bool:
    """Whether an output without noise changes from place to place."""
    if len(still) < 2:
        return False
    values = np.array(still)
    fixed = values[:, ~np.isnan(values).any(axis=0)]
    return bool((fixed != fixed[0]).any())


def _ratios(
    mechanism: Mechanism, y: Array, z: Array, rng: np.random.Generator
) -> tuple[str, float]:
    """An error of the draws, or the least narrowing of them that would have been seen."""
    direction = rng.standard_normal(y.size)
    there = y + _step(mechanism, y, z[:PILOT], direction) * direction
    other = mechanism.simulate(there, rng, trials=len(z))

    def off(here: Array, beyond: Array) -> tuple[float, float]:
        with np.errstate(over="ignore", invalid="ignore"):
            r, s = (
                np.nan_to_num(
                    np.exp(mechanism.log_density(x, there) - mechanism.log_density(x, y)), nan=1.0
                )
                for x in (here, beyond)
            )
        found = []
        for c in RATIOS:
            a = np.minimum(r, c)
            b = np.minimum(1.0, c / np.maximum(s, 1e-300))
            chance = bounded_chance(a, c) + bounded_chance(b, 1.0)
            found.append((abs(a.mean() - b.mean()), chance))
        return max(found, key=lambda pair: pair[0] / pair[1])

    difference, allowed = off(z, other)
    if difference > allowed:
        return (
            f"Its sampler contradicts its density: likelihood ratios are off by {difference:.2g}; "
            f"chance allows {allowed:.2g}."
        ), math.inf
    for part in NARROWER:
        means = z.mean(axis=0), other.mean(axis=0)
        closer = ((1 - part) * x + part * mean for x, mean in zip((z, other), means))
        difference, allowed = off(*closer)
        if difference > 2 * allowed:
            return "", part
    return "", math.inf


def _step(mechanism: Mechanism, y: Array, z: Array, direction: Array) -> float:
    """How far along the direction the typical |ln r| is about 1."""
    start = mechanism.log_density(z, y)
    step = 1e8 * max(1.0, float(np.abs(y).max()))
    for _ in range(400):
        with np.errstate(all="ignore"):
            change = np.abs(mechanism.log_density(z, y + step * direction) - start)
        if float(np.median(np.where(np.isfinite(change), change, math.inf))) <= 1.0:
            break
        step /= 1.25
    return step


def bounded_chance(x: Array, most: float) -> float:
    """|mean − E| exceeds this with probability EACH at most (Maurer and Pontil; 0 ≤ x ≤ most)."""
    log = math.log(4 / EACH)
    return math.sqrt(2 * float(x.var(ddof=1)) * log / x.size) + 7 * most * log / (3 * (x.size - 1))


# --- independence of the outputs of one release ---------------------------------------------------


def drawn_independently(
    mechanism: Componentwise, places: Array, samples: int, rng: np.random.Generator
) -> Drawn:
    """Rank correlations of all pairs of outputs, of draws at each place and of single releases.

    Ranks, and their distances from the middle one, which show noise of the same size. Without
    dependence a mean of n products, each M at most and of variance 1, exceeds √(2L/n) + 2ML/(3n)
    with probability e^-L (Bernstein).
    """
    n = max(min(samples, NUMBERS // mechanism.outputs), FEWEST)
    many = mechanism.outputs > OUTPUTS
    some = rng.choice(mechanism.outputs, OUTPUTS, replace=False) if many else slice(None)
    columns, widest = np.arange(mechanism.outputs)[some], 0.0
    for k, y in enumerate(places):
        try:
            sets = [mechanism.simulate(y, rng, trials=n)]
            sets += [np.stack([mechanism.simulate(y, rng) for _ in range(SINGLE)])] * (k == 0)
        except PrivestError:
            return Drawn(UNSEEN + "cannot be drawn.", examined=False)
        for z in sets:
            seen = _tied(mechanism, y, z, columns, rng)
            if isinstance(seen, Drawn):
                return seen
            widest = max(widest, seen if z is sets[0] else 0.0)
    least = widest + float(scipy.stats.norm.ppf(POWER)) / math.sqrt(n)
    which = f"{OUTPUTS} of {mechanism.outputs}" if many else "all"
    return Drawn(
        f"Pairs of outputs are independent, by {n} releases at each of {len(places)} measurement "
        f"vectors: a rank correlation of {least:.2g} between two of {which} outputs {SEEN} "
        f"Products of signs were looked at: of each three of the first {TRIPLES} outputs, and all."
    )


def _tied(
    mechanism: Componentwise, y: Array, z: Array, columns: Index, rng: np.random.Generator
) -> Drawn | float:
    if not (np.isfinite(z).all() and (mechanism.discrete or (z != z[0]).any(axis=0).all())):
        return Drawn(UNSEEN + "are not finite, or do not vary.", examined=False)
    off, allowed, pair = _dependence(z[:, columns])
    if off > allowed:
        i, j = columns[list(pair)].tolist()
        return _shared(mechanism, y, (i, j), off, rng)
    odd = _sign_product(z[:, columns])
    return allowed if odd is None else Drawn(f"Its sampler contradicts its density: {odd}", y)


def _dependence(z: Array) -> tuple[float, float, tuple[int, int]]:
    ranks = scipy.stats.rankdata(z, axis=0) / len(z)
    found = []
    for x in (ranks, np.abs(ranks - ranks.mean(axis=0))):
        x = x - x.mean(axis=0)
        spread = x.std(axis=0)
        x = x / np.where(spread > 100 * EPS, spread, math.inf)
        most = np.abs(x).max(axis=0)
        log = math.log(4 * max(x.shape[1], 2) ** 2 / EACH)
        allowed = math.sqrt(2 * log / len(x)) + 2 * np.outer(most, most) * log / (3 * len(x))
        off = np.triu(np.abs(x.T @ x) / len(x), 1)
        i, j = np.unravel_index(int(np.argmax(off - allowed)), off.shape)
        found.append((float(off[i, j]), float(allowed[i, j]), (int(i), int(j))))
    return max(found, key=lambda one: one[0] - one[1])


def _sign_product(z: Array) -> str | None:
    """Signs whose product is not ±1 by chance, of three outputs or of all: pairs do not show it."""
    signs = np.sign(z - np.median(z, axis=0))
    count = signs.shape[1]
    groups: list[tuple[int, ...]] = [*itertools.combinations(range(min(count, TRIPLES)), 3)]
    groups += [tuple(range(count))] * (count > 3)
    allowed = math.sqrt(2 * math.log(2 * max(len(groups), 1) / EACH) / len(z)) + 2 / len(z)
    # Hoeffding; the median, which is of the same draws, moves a sign at most once a column.
    expected = np.abs(signs.mean(axis=0))  # of discrete outputs a sign has a mean
    for group in groups:
        off = abs(float(signs[:, group].prod(axis=1).mean()))
        if off > allowed + float(np.prod(expected[list(group)])):
            named = ", ".join(map(str, group[:3])) + (" …" if len(group) > 3 else "")
            return f"signs of outputs {named} are not independent (their product is {off:.2g} off)."
    return None


def _shared(
    mechanism: Componentwise, y: Array, pair: tuple[int, int], off: float, rng: np.random.Generator
) -> Drawn:
    """The dependence; exact, if the difference of the two has no noise and moves with y."""
    i, j = pair
    draws = [mechanism.simulate(x, rng, trials=SINGLE) for x in (y, 2 * y + 1 + np.arange(y.size))]
    apart = [z[:, i] - z[:, j] for z in draws]
    rounding = 64 * EPS * max(float(np.abs(z).max()) for z in draws)
    still = all(float(np.ptp(x)) <= rounding for x in apart)
    if still and abs(apart[0][0] - apart[1][0]) > rounding:
        said = (
            f"Outputs {i} and {j} share their noise: their difference is exact, and the "
            "information infinite."
        )
        return Drawn(said, y, exact=True)
    return Drawn(
        f"Its sampler contradicts its density: the noise of outputs {i} and {j} is not independent "
        f"(rank correlation {off:.2g}).",
        y,
    )
