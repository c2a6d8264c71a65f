"""Does a mechanism that mixes readings draw from its density, and is its score that density's?

No distribution function is at hand. What every density p and every two reading vectors y, y' have:

    E_y min(r, c) = E_y' min(1, c/r) ,   r = p(z|y')/p(z|y) ,   any c > 0

two means of bounded variables, from draws at y and at y'.
"""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array, ArrayLike
from privest.audit._drawn import BLUNT, EACH, FALSE_ALARM, POWER, Drawn, not_by_chance
from privest.errors import PrivestError
from privest.mechanism import Channel, Mechanism, Worst
from privest.mechanism._numeric_score import differences

# Numbers drawn at a place; draws of them whose likelihood ratios are compared.
NUMBERS, COMPARISONS = 4_000_000, 40_000
RATIOS = (0.25, 4.0)
PILOT = 500
NARROWER = (0.02, 0.05, 0.1, 0.2, 0.5)
# Draws at which a score is compared with the density, along at most so many directions.
COMPARED, DIRECTIONS = 16, 8


def density_answers(mechanism: Mechanism, y: Array, rng: np.random.Generator) -> bool:
    """Has the mechanism a log-density at all?"""
    try:
        value = mechanism.log_density(mechanism.simulate(y, rng, trials=1), y)
    except (NotImplementedError, PrivestError):
        return False
    return bool(np.isfinite(value).all())


def vectors_drawn_as_stated(
    mechanism: Mechanism, places: Array, samples: int, rng: np.random.Generator
) -> Drawn:
    """Draws at the places (k, m) next to the density; nothing is asked but `log_density`."""
    if not density_answers(mechanism, places[0], rng):
        return Drawn(
            "Sampler not examined: there is no density to compare it with.", examined=False
        )
    n = max(min(samples, NUMBERS // max(mechanism.outputs, mechanism.readings)), 2000)
    narrowest, exact, still = 0.0, [], []
    wrong: list[tuple[str, Array]] = []
    for y in places:
        z = mechanism.simulate(y, rng, trials=n)
        if not np.isfinite(z).all():
            return Drawn("Its sampler returns numbers that are not finite.", y)
        if not mechanism.discrete:
            exact += [y] if np.isin(z, y[y != 0]).any(axis=1).sum() > 1 else []
            still.append(np.where((z == z[0]).all(axis=0), z[0], math.nan))
            wrong += [("Its sampler repeats values, which a density never does.", y)] * _repeats(z)
        what, seen = _ratios(mechanism, y, z[:COMPARISONS], rng)
        wrong += [] if what is None else [(what, y)]
        narrowest = max(narrowest, seen)
    if len(exact) > 1 or _moves(still):
        said = "Its sampler shows exactly what it is given: the information is infinite."
        return Drawn(said, exact[0] if exact else places[0], exact=True)
    if wrong:
        return Drawn(*wrong[0])
    if not math.isfinite(narrowest):
        return Drawn(BLUNT, examined=False)
    leak = -math.log(1 - POWER) / n if not mechanism.discrete else math.nan
    itself = f"A reading itself in {2 * leak:.2g} of the draws, or r" if leak > 0 else "R"
    return Drawn(
        f"Its sampler agrees with its density: {n} draws at each of {len(places)} reading vectors "
        f"and next to them. {itself}eleases drawn {narrowest:.0%} closer to their mean, would have "
        f"been seen with probability {POWER:g} (false alarm {FALSE_ALARM:g}).",
        power=1 / (1 - narrowest) ** 2 - 1,
    )


def _repeats(z: Array) -> bool:
    """Does a column that varies have values that come back, beyond rounding?"""
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
    """Is an output without noise at two places, and another number there?"""
    if len(still) < 2:
        return False
    values = np.array(still)
    fixed = values[:, ~np.isnan(values).any(axis=0)]
    return bool((fixed != fixed[0]).any())


def _ratios(
    mechanism: Mechanism, y: Array, z: Array, rng: np.random.Generator
) -> tuple[str | None, float]:
    """What is wrong with the draws, or the least narrowing of them that would have been seen."""
    direction = rng.standard_normal(y.size)
    there = y + _step(mechanism, y, z[:PILOT], direction) * direction
    other = mechanism.simulate(there, rng, trials=len(z))

    def off(here: Array, beyond: Array) -> tuple[float, float]:
        """The largest difference of the two means, next to what chance allows it."""
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
            return None, part
    return None, math.inf


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


# --- scores ---------------------------------------------------------------------------------------


class _Line(Channel):
    """ln p(z_i|y + t·v) as a function of t: z is the number i of a draw."""

    def __init__(self, mechanism: Mechanism, draws: Array, y: Array, v: Array) -> None:
        self.mechanism, self.draws, self.y, self.v = mechanism, draws, y, v

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        raise NotImplementedError

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        i, t = np.broadcast_arrays(np.asarray(z, dtype=np.intp), np.asarray(u))
        flat = self.mechanism.log_density(self.draws[i.ravel()], self.y + t.reshape(-1, 1) * self.v)
        return np.asarray(flat).reshape(t.shape)

    @property
    def worst(self) -> Worst:
        return Worst(math.nan)


def derived_scores(
    mechanism: Mechanism, z: Array, y: Array, directions: Array
) -> tuple[Array, Array]:
    """vᵀ∂ ln p(z|y)/∂y by differences, for draws z (n, q) and directions v (k, m); with errors."""
    count = np.arange(len(z), dtype=np.float64)
    wide, zero = np.full(len(z), math.inf), np.zeros(len(z))
    found = [differences(_Line(mechanism, z, y, v), count, zero, wide) for v in directions]
    return np.stack([s for s, _ in found], axis=1), np.stack([e for _, e in found], axis=1)


def false_score(mechanism: Mechanism, y: Array, rng: np.random.Generator) -> bool:
    """Is the score at y not the derivative of the log-density, at 16 draws along 8 directions?"""
    z = mechanism.simulate(y, rng, trials=COMPARED)
    m = y.size
    v = np.eye(m) if m <= DIRECTIONS else rng.standard_normal((DIRECTIONS, m))
    found, error = derived_scores(mechanism, z, y, v)
    with np.errstate(all="ignore"):
        own = mechanism.score(z, y) @ v.T
        apart = ~(np.abs(own - found) <= 1e-4 * (np.abs(own) + np.abs(found)) + 10 * error)
    return bool(np.count_nonzero(apart) > 1)
