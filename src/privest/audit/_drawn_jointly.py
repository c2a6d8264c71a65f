"""Is the noise of independent channels independent, as `simulate` itself draws it?

Channels that each draw from their density prove nothing of the mechanism: one draw of noise shared
by two readings shows their difference exactly.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import scipy

from privest.arrays import EPS, Array
from privest.audit._drawn import EACH, FALSE_ALARM, POWER, Drawn
from privest.audit._drawn_vectors import NUMBERS
from privest.errors import PrivestError
from privest.mechanism import Componentwise

# Releases drawn one at a time, as users draw them; the fewest drawn together; outputs compared.
SINGLE, FEWEST, OUTPUTS = 300, 300, 400
TRIPLES = 8  # outputs of which every three are looked at
UNSEEN = "Sampler not examined as a whole: its releases at the usual reading vectors "


def drawn_independently(
    mechanism: Componentwise, places: Array, samples: int, rng: np.random.Generator
) -> Drawn:
    """Rank correlations of all pairs of outputs, of draws at each place and of single releases.

    Of the ranks, and of their distances from the middle one: noise of the same size counts, too.
    Without dependence a mean of n products, each M at most and of variance 1, exceeds
    √(2L/n) + 2ML/(3n) with probability e^-L (Bernstein). Cost: draws and n·q² for q outputs.
    """
    n = max(min(samples, NUMBERS // mechanism.outputs), FEWEST)
    many = mechanism.outputs > OUTPUTS
    some = rng.choice(mechanism.outputs, OUTPUTS, replace=False) if many else slice(None)
    widest = 0.0
    for k, y in enumerate(places):
        try:
            sets = [mechanism.simulate(y, rng, trials=n)]
            sets += [np.stack([mechanism.simulate(y, rng) for _ in range(SINGLE)])] * (k == 0)
        except PrivestError:
            return Drawn(UNSEEN + "cannot be drawn.", examined=False)
        for z in sets:
            if not (np.isfinite(z).all() and (mechanism.discrete or (z != z[0]).any(axis=0).all())):
                return Drawn(UNSEEN + "are not finite, or do not vary.", examined=False)
            off, allowed, pair = _dependence(z[:, some])
            if off > allowed:
                i, j = np.arange(mechanism.outputs)[some][list(pair)].tolist()
                return _shared(mechanism, y, (i, j), off, rng)
            odd = _sign_product(z[:, some])
            if odd is not None:
                return Drawn(f"Its sampler contradicts its density: {odd}", y)
            widest = max(widest, allowed if z is sets[0] else 0.0)
    seen = widest + float(scipy.stats.norm.ppf(POWER)) / math.sqrt(n)
    which = f"{OUTPUTS} of {mechanism.outputs}" if many else "all"
    return Drawn(
        f"Pairs of outputs are independent, by {n} releases at each of {len(places)} reading "
        f"vectors: a rank correlation of {seen:.2g} between two of {which} outputs would have been "
        f"seen with probability {POWER:g} (false alarm {FALSE_ALARM:g}). Of three outputs and more "
        f"products of signs were looked at: each three of the first {TRIPLES}, and all together."
    )


def _dependence(z: Array) -> tuple[float, float, tuple[int, int]]:
    """The rank correlation furthest beyond what chance allows, that, and the pair of columns."""
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
    """What is wrong; exact, if the difference of the two has no noise and moves with y."""
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
