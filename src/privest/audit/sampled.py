"""Information from samples alone: an estimate, and a lower bound with a confidence.

For any statistic g of the release, I(y) ≥ (∂E g)²/Var g, with equality for the score. g is learnt
on one part of the samples (`scored.py`) and judged on another, so that luck in the fit costs
tightness and never truth.

The lower bound uses no derivative. The Fisher-Rao length of the path from y − h to y + h is at
least the distance of its ends, and √(pq) ≤ (a·p + q/a)/2 for every a > 0; with a = e^{h·g}

    h·sup √I ≥ arccos BC ,   BC = ∫ √(p₋ p₊) ≤ ½ (E₋ e^{hg} + E₊ e^{−hg})

where the supremum runs over the segment y ± h. Two means of bounded variables remain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy

from privest.arrays import Array
from privest.audit.atoms import moving_atoms
from privest.audit.scored import Statistic, fitted
from privest.errors import InvalidInput

# A plain mechanism: f(y (m,), rng, n) gives n releases (n, q).
Sampler = Callable[[Array, np.random.Generator, int], Array]

# Steps are in units of 1/√I: the one that a small sample sees, and the range of those to learn g
# with. A fit of K splines on n samples at distance x loses a part K/(2nx²) of the information to
# noise, and of the order of x at a kink.
SEEN, LEAST_STEP, MOST_STEP = 0.3, 0.08, 0.4
# To judge g: short steps where both ends can share their random numbers (differences then have
# little noise), long ones where they cannot. A kink in y makes the error of a difference
# linear in h, so odd powers are extrapolated away too: Σ w_k·D(2^k h).
SHORT, SHORT_WEIGHTS = 0.05, (2.0, -1.0)
LONG, LONG_WEIGHTS = 0.2, (8 / 3, -2.0, 1 / 3)
# The short steps are kept if the standard error is below this part of the estimate.
PRECISE = 0.02
# What g may miss of a score that jumps, as a part of the information, learnt at distance x: this
# times x (Laplace: x/3). An allowance, not a theorem; a score that is unbounded at an edge (cos²)
# loses more, and the lower bound stays right.
MISSED = 0.35
BATCHES = 32
PILOT, BINS = 4000, 16
UNCHANGED = (
    "The output did not change at all between the points looked at close to y, which shows nothing "
    "of what happens elsewhere."
)


@dataclass(frozen=True, eq=False)
class Sampled:
    """What samples around y tell.

    matrix       (k, k) estimate of DᵀI(y)D for the directions D; inf for a direction in which an
                 atom moves (`atoms.py`), NaN beside it: not estimated.
    error        (k, k) half width of each entry's interval at `confidence`, with an allowance for
                 what splines miss of a score that jumps (3 % from a million samples).
    lower        (k,) with `confidence`, jointly: somewhere on the segment y ± reach_i·D_i the
                 information about D_i is at least lower_i.
    reach        (k,) half the length of those segments.
    unchanged    (k,) whether the same random numbers gave the same outputs at all points.
    notes        sentences on what the numbers do not say.
    """

    matrix: Array
    error: Array
    lower: Array
    reach: Array
    confidence: float
    unchanged: Array
    notes: tuple[str, ...] = ()


def information_from_samples(
    sampler: Sampler,
    y: Array,
    *,
    samples: int,
    rng: np.random.Generator,
    confidence: float = 0.95,
    directions: Array | None = None,
) -> Sampled:
    """Estimate I(y), and bound it from below, from `samples` draws at each of some points near y.

    Means and their errors come from 32 independent batches (Student's t). In a batch both ends of a
    segment are drawn from the same random numbers: where the sampler turns the same numbers
    into nearby releases this removes most of the noise; where it does not, nothing is lost.
    Cost: about 8·`samples` draws a direction.
    A mechanism without Fisher information (jumps) shows as a bound that grows as steps shrink;
    one that sometimes shows y exactly is found by its atoms.
    """
    D = np.eye(len(y)) if directions is None else directions
    draw = _checked(sampler)
    atoms = moving_atoms(draw, y, D, samples, rng)
    endless = np.array([atom is not None for atom in atoms])
    notes = tuple(dict.fromkeys(atom for atom in atoms if atom is not None))
    if endless.all():
        return _endless(endless, None, notes, confidence)
    found = _smooth(draw, y, D[:, np.logical_not(endless)], samples, rng, confidence)
    return _endless(endless, found, notes, confidence) if endless.any() else found


def _endless(
    endless: Array, rest: Sampled | None, notes: tuple[str, ...], confidence: float
) -> Sampled:
    """Infinite for some directions, `rest` for the others."""
    count, finite = endless.size, np.logical_not(endless)
    matrix = np.full((count, count), math.nan)
    error = matrix.copy()
    lower, reach, unchanged = np.full(count, math.inf), np.zeros(count), np.zeros(count, bool)
    matrix[endless, endless], error[endless, endless] = math.inf, 0.0
    if rest is not None:
        others = np.ix_(finite, finite)
        matrix[others], error[others] = rest.matrix, rest.error
        lower[finite], reach[finite] = rest.lower, rest.reach
        unchanged[finite] = rest.unchanged
        notes = (*notes, *rest.notes)
    return Sampled(matrix, error, lower, reach, confidence, unchanged, notes)


def _smooth(
    draw: Sampler, y: Array, D: Array, samples: int, rng: np.random.Generator, confidence: float
) -> Sampled:
    """The estimate without a look at atoms."""
    unit = np.array([_seen_step(draw, y, v, rng) for v in D.T]) / SEEN
    many = max(samples // 2, 1000)
    share = min(max(math.sqrt(3000 / many), LEAST_STEP), MOST_STEP)
    learn, missed = unit * share, MISSED * share
    moves = learn * D
    seeds = rng.integers(2**63, size=len(unit))
    low, high = (
        [draw(y + side * move, _rng(seed, 0), many) for move, seed in zip(moves.T, seeds)]
        for side in (-1, 1)
    )
    g = fitted(low, high, learn)
    each = max(samples // BATCHES, 50)
    for size, weights in ((SHORT, SHORT_WEIGHTS), (LONG, LONG_WEIGHTS)):
        steps = np.outer(2.0 ** np.arange(len(weights)), size * unit)
        found = _judged(draw, g, y, D, steps, weights, each, rng, confidence, missed)
        if (np.diagonal(found.error) <= (2 * PRECISE + missed) * np.diagonal(found.matrix)).all():
            break
    if found.unchanged.any():
        found = replace(found, notes=(UNCHANGED,))
    return found


def _judged(
    draw: Sampler,
    g: Statistic,
    y: Array,
    D: Array,
    steps: Array,
    weights: tuple[float, ...],
    each: int,
    rng: np.random.Generator,
    confidence: float,
    missed: float,
) -> Sampled:
    """(∂E g)ᵀ V⁻¹ (∂E g) with slopes from all steps (rows), and lower bounds from each of them."""
    levels, count = steps.shape
    slopes = np.zeros((BATCHES, count, count))
    affinity = np.empty((BATCHES, levels, count))
    spread = np.zeros((count, count))
    unchanged = np.ones(count, bool)
    for b, seed in enumerate(rng.integers(2**63, size=BATCHES)):
        for k, i in np.ndindex(levels, count):
            h = steps[k, i]
            ends = [draw(y + s * h * D[:, i], _rng(seed, i), each) for s in (-1, 1)]
            unchanged[i] &= np.array_equal(ends[0], ends[1], equal_nan=True)
            down, up = g(ends[0]), g(ends[1])
            slopes[b, :, i] += weights[k] * (up - down).mean(axis=0) / (2 * h)
            affinity[b, k, i] = (np.exp(h * down[:, i]) + np.exp(-h * up[:, i])).mean() / 2
        spread += np.cov(g(draw(y, _rng(seed, count), each)), rowvar=False).reshape(count, count)
    inverse = np.linalg.pinv(spread / BATCHES, hermitian=True)
    mean = slopes.mean(axis=0)
    off = slopes - mean
    matrix = mean.T @ inverse @ mean
    matrix -= (np.swapaxes(off, 1, 2) @ inverse @ off).mean(axis=0) / (BATCHES - 1)
    linear = np.swapaxes(off, 1, 2) @ inverse @ mean
    deviation = (linear + np.swapaxes(linear, 1, 2)).std(axis=0, ddof=1) / np.sqrt(BATCHES)
    two_sided = scipy.stats.t.ppf((1 + confidence) / 2, BATCHES - 1)
    one_sided = scipy.stats.t.ppf(1 - (1 - confidence) / (levels * count), BATCHES - 1)
    top = affinity.mean(axis=0) + one_sided * affinity.std(axis=0, ddof=1) / np.sqrt(BATCHES)
    lower = (np.arccos(np.minimum(top, 1.0)) / steps) ** 2
    best = lower.argmax(axis=0)
    return Sampled(
        matrix=matrix,
        error=two_sided * deviation + missed * np.abs(matrix),
        lower=lower.max(axis=0),
        reach=np.take_along_axis(steps, best[None], axis=0)[0],
        confidence=confidence,
        unchanged=unchanged,
    )


def _rng(seed: int, part: int) -> np.random.Generator:
    return np.random.default_rng([int(seed), part])


def _seen_step(draw: Sampler, y: Array, v: Array, rng: np.random.Generator) -> float:
    """The h at which the ends of y ± h·v are about 2·SEEN apart (Fisher-Rao), from small samples.

    If no move gets that far: the one that gets half of the most that was seen.
    """

    def apart(h: float) -> float:
        return _apart(draw(y - h * v, rng, PILOT), draw(y + h * v, rng, PILOT))

    start = max(1.0, float(np.abs(y).max())) / max(float(np.abs(v).max()), 1e-300)
    moves = start * 16.0 ** np.arange(-10.0, 11.0)
    seen = np.array([apart(h) for h in moves])
    goal = min(SEEN, max(0.5 * float(seen.max()), 1e-3))
    first = int(np.argmax(seen >= goal))
    low, high = moves[max(first - 1, 0)], moves[first]
    for _ in range(6):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if apart(middle) >= goal else (middle, high)
    return float(np.sqrt(low * high))


def _apart(one: Array, other: Array) -> float:
    """arccos of the affinity of two samples, in bins of the coordinate that shows most."""
    most = 0.0
    for a, b in zip(one.T, other.T):
        values = np.unique(np.concatenate([a, b]))
        if values.size > BINS:
            values = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[:-1]))
        cell = [np.searchsorted(values, x, "right") for x in (a, b)]
        p, q = (np.bincount(c, minlength=values.size + 1) / c.size for c in cell)
        noise = (values.size - 1) * (1 / len(a) + 1 / len(b)) / 8
        most = max(most, float(np.arccos(np.clip(np.sqrt(p * q).sum() + noise, 0.0, 1.0))))
    return most


def _checked(sampler: Sampler) -> Sampler:
    def draw(y: Array, rng: np.random.Generator, n: int) -> Array:
        z = np.asarray(sampler(y, rng, n), dtype=np.float64)
        z = z[:, None] if z.ndim == 1 else z
        if z.ndim != 2 or len(z) != n:
            raise InvalidInput(
                f"the sampler must return n = {n} releases, an array (n,) or (n, q); it returned "
                f"shape {z.shape}."
            )
        return z

    return draw
