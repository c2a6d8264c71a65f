"""Information from samples alone: an estimate, and a lower bound with a confidence.

For any statistic g of the release, I(y) ≥ (∂E g)²/Var g, with equality for the score. g is learnt
on one part of the samples (`fitted`) and judged on another, so that luck in the fit costs
tightness and never truth.

The lower bound uses no derivative. The Fisher-Rao length of the path from y − h to y + h is at
least the distance of its ends, and √(pq) ≤ (a·p + q/a)/2 for every a > 0; with a = e^{h·g}

    h·sup √I ≥ arccos BC ,   BC = ∫ √(p₋ p₊) ≤ ½ (E₋ e^{hg} + E₊ e^{−hg})

where the supremum runs over the segment y ± h. Two means of bounded variables remain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, Flags, as_confidence, as_count
from privest.audit._door import Sampler, as_sampler
from privest.audit._move_size import moving_atoms, seen_unit
from privest.audit._score_regression import Statistic, fitted
from privest.errors import InvalidInput
from privest.mechanism import Mechanism
from privest.records import Record

# Steps are in units of 1/√I: the range of those to learn g with. A fit of K splines on n samples at
# distance x loses a part K/(2nx²) of the information to noise, and of the order of x at a kink.
LEAST_STEP, MOST_STEP = 0.08, 0.4
# To judge g: short steps where both ends can share their random numbers (differences then have
# little noise), long ones where they cannot. A kink in y makes the error of a difference
# linear in h, so odd powers are extrapolated away too: Σ w_k·D(2^k h).
SHORT, SHORT_WEIGHTS = 0.05, (2.0, -1.0)
LONG, LONG_WEIGHTS = 0.2, (8 / 3, -2.0, 1 / 3)
# The short steps are kept if the standard error is below this part of the estimate.
PRECISE = 0.02
# What g may miss, as a part of the information, learnt at distance x: this times x. Measured: about
# x/3 for a score that jumps (Laplace), x/2 for one that is unbounded at an edge (cos², bump).
# An allowance, not a theorem: no number of samples bounds the information from above.
MISSED = 0.55
BATCHES = 32
SAMPLES = "samples"
# Var g at y below this part of that beside y.
STILL = 1e-6
AT_Y = "Releases at y hardly vary while those beside it do: no estimate at y, only the lower bound."
UNCHANGED = (
    "The output did not change at all between the points looked at close to y, which shows nothing "
    "of what happens elsewhere."
)


@dataclass(frozen=True, eq=False)
class FisherInformation(Record):
    """I_z(y) as an audit found it.

    matrix        (m, m); inf where the density jumps as y moves; from samples NaN beside an inf:
                  not estimated.
    error         (m, m): a bound on each entry's error, or where `confidence` is given the half
                  width of its interval at that confidence.
    method        how it was found.
    lower         from samples: with `confidence` the information about reading i reaches lower[i]
                  somewhere within reach[i] of y. Assumes nothing but independent draws.
    unchanged     from samples: the readings that changed no output wherever we looked.
    notes         sentences for people.
    """

    matrix: Array
    error: Array
    method: str
    confidence: float | None = None
    lower: Array | None = None
    reach: Array | None = None
    unchanged: Flags | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        diagonal, error = np.diagonal(self.matrix), np.diagonal(self.error)
        still = np.zeros(diagonal.size, bool) if self.unchanged is None else self.unchanged
        shown = ", ".join(
            "none seen" if same else f"{i:.4g} ± {e:.1g}"
            for i, e, same in zip(diagonal[:6], error[:6], still)
        )
        more = ", …" if diagonal.size > 6 else ""
        sure = "" if self.confidence is None else f" at {self.confidence:.0%} confidence"
        head = f"information about each reading: {shown}{more} ({self.method}{sure})"
        return "\n".join([head, *(f"  {note}" for note in self.notes)])


@dataclass(frozen=True, eq=False)
class Sampled(FisherInformation):
    """What samples around y tell of DᵀI(y)D, for directions D (m, k).

    `error` has an allowance for what splines miss of a score that jumps or has no bound (6 % from
    a million samples, 12 % from 200,000, 32 % from 20,000; see MISSED). `lower` needs none: it is
    reached somewhere on the segments y ± reach_i·D_i, for all i together.
    """

    confidence: float
    lower: Array
    reach: Array
    unchanged: Flags


def information_from_samples(
    sampler: Mechanism | Sampler,
    y: Array,
    *,
    samples: int,
    rng: np.random.Generator,
    confidence: float = CONFIDENCE,
    directions: Array | None = None,
) -> Sampled:
    """Estimate I(y), and bound it from below, from `samples` draws at each of some points near y.

    Means and their errors come from 32 independent batches (Student's t). In a batch both ends of a
    segment are drawn from the same random numbers: where the sampler turns the same numbers
    into nearby releases this removes most of the noise; where it does not, nothing is lost.
    A sampler that raises or returns NaN further away is not followed there, and a note says so.
    Cost: about 8·`samples` draws a direction.
    A mechanism without Fisher information (jumps) shows as a bound that grows as steps shrink;
    one that sometimes shows y exactly is found by its atoms.
    """
    D = np.eye(len(y)) if directions is None else directions
    count, confidence = as_count(samples, "samples", least=1), as_confidence(confidence)
    asked = Asked(as_sampler(sampler), y, D, count, rng, confidence)
    if np.isnan(asked.draw(y, _rng(0, 0), count)).any():
        raise InvalidInput("the sampler returned NaN at y: there is no release to audit.")
    try:
        atoms = moving_atoms(asked.draw, y, D, count, rng)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(
            "the sampler fails at readings very close to y, though not at y: y lies on the edge of "
            "its domain. Audit a y inside."
        ) from error
    endless = np.array([atom is not None for atom in atoms])
    notes = tuple(dict.fromkeys(atom for atom in atoms if atom is not None))
    if endless.all():
        return _endless(endless, None, notes, confidence)
    found = _smooth(replace(asked, D=D[:, ~endless]))
    return _endless(endless, found, notes, confidence) if endless.any() else found


@dataclass(frozen=True, eq=False)
class Asked:
    """The information about y along the columns of D: with so many draws, at this confidence."""

    draw: Sampler
    y: Array
    D: Array
    samples: int
    rng: np.random.Generator
    confidence: float


def _endless(
    endless: Flags, rest: Sampled | None, notes: tuple[str, ...], confidence: float
) -> Sampled:
    """Infinite for some directions, `rest` for the others."""
    count, finite = endless.size, ~endless
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
    return Sampled(matrix, error, SAMPLES, confidence, lower, reach, unchanged, notes)


def _smooth(asked: Asked) -> Sampled:
    """The estimate without a look at atoms."""
    draw, y, D, rng = asked.draw, asked.y, asked.D, asked.rng
    # The longest step that is taken below, in units.
    most = max(MOST_STEP, LONG * 2 ** (len(LONG_WEIGHTS) - 1))
    found_units = [seen_unit(draw, y, v, rng, most) for v in D.T]
    unit = np.array([size for size, _ in found_units])
    limits = tuple(dict.fromkeys(note for _, note in found_units if note is not None))
    found, _ = estimated(asked, unit, ((SHORT, SHORT_WEIGHTS), (LONG, LONG_WEIGHTS)))
    same = (UNCHANGED,) if found.unchanged.any() else ()
    return replace(found, notes=(*same, *found.notes, *limits))


def learning_share(samples: int) -> float:
    """The part of a unit at which g is learnt: the noise of a fit against what it misses."""
    return min(max(math.sqrt(3000 / max(samples // 2, 1000)), LEAST_STEP), MOST_STEP)


def estimated(
    asked: Asked, unit: Array, rules: tuple[tuple[float, tuple[float, ...]], ...]
) -> tuple[Sampled, float]:
    """Learn g at a share of the unit and judge it by the first rule that is precise, or the last.

    Also the part of the information that g may miss.
    """
    draw, y, D, rng = asked.draw, asked.y, asked.D, asked.rng
    many, share = max(asked.samples // 2, 1000), learning_share(asked.samples)
    learn = unit * share
    moves = learn * D
    seeds = rng.integers(2**63, size=len(unit))
    low, high = (
        [draw(y + side * move, _rng(seed, 0), many) for move, seed in zip(moves.T, seeds)]
        for side in (-1, 1)
    )
    g = fitted(low, high, learn)
    # Of I(1 − L) that is seen, the part L/(1 − L) is missing. At 9 times the estimate it says that
    # nothing is known; no need for more.
    loss = min(MISSED * share + len(g.weights) / (2 * many * share**2), 0.9)
    missed = loss / (1 - loss)
    for size, weights in rules:
        steps = np.outer(2.0 ** np.arange(len(weights)), size * unit)
        found = _judged(asked, g, steps, weights, missed)
        if (np.diagonal(found.error) <= (2 * PRECISE + missed) * np.diagonal(found.matrix)).all():
            break
    return found, missed


def _judged(
    asked: Asked, g: Statistic, steps: Array, weights: tuple[float, ...], missed: float
) -> Sampled:
    """(∂E g)ᵀ V⁻¹ (∂E g) with slopes from all steps (rows), and lower bounds from each of them."""
    levels, count = steps.shape
    each = max(asked.samples // BATCHES, 50)
    slopes = np.zeros((BATCHES, count, count))
    affinity = np.empty((BATCHES, levels, count))
    spread, beside = np.zeros((count, count)), np.zeros(count)
    unchanged = np.ones(count, bool)
    for b, seed in enumerate(asked.rng.integers(2**63, size=BATCHES)):
        for k, i in np.ndindex(levels, count):
            h = steps[k, i]
            low, high = (
                asked.draw(asked.y + s * h * asked.D[:, i], _rng(seed, i), each) for s in (-1, 1)
            )
            unchanged[i] &= np.array_equal(low, high, equal_nan=True)
            down, up = g(low), g(high)
            beside[i] += (down[:, i].var() + up[:, i].var()) / (2 * levels)
            slopes[b, :, i] += weights[k] * (up - down).mean(axis=0) / (2 * h)
            affinity[b, k, i] = (np.exp(h * down[:, i]) + np.exp(-h * up[:, i])).mean() / 2
        here = g(asked.draw(asked.y, _rng(seed, count), each))
        spread += np.cov(here, rowvar=False).reshape(count, count)
    inverse = np.linalg.pinv(spread / BATCHES, hermitian=True)
    mean = slopes.mean(axis=0)
    off = slopes - mean
    matrix = mean.T @ inverse @ mean
    matrix -= (np.swapaxes(off, 1, 2) @ inverse @ off).mean(axis=0) / (BATCHES - 1)
    linear = np.swapaxes(off, 1, 2) @ inverse @ mean
    deviation = (linear + np.swapaxes(linear, 1, 2)).std(axis=0, ddof=1) / np.sqrt(BATCHES)
    two_sided = scipy.stats.t.ppf((1 + asked.confidence) / 2, BATCHES - 1)
    one_sided = scipy.stats.t.ppf(1 - (1 - asked.confidence) / steps.size, BATCHES - 1)
    doubt = one_sided * affinity.std(axis=0, ddof=1) / np.sqrt(BATCHES)
    top = affinity.mean(axis=0) + doubt
    lower = (np.arccos(np.minimum(top, 1.0)) / steps) ** 2
    best = lower.argmax(axis=0)
    # Var g at y is what the slopes are divided by: nothing follows if it is next to nothing there.
    still = np.diagonal(spread) < STILL * beside
    deviation = np.where(still | still[:, None], np.inf, deviation)
    matrix = np.where(still | still[:, None], np.nan, matrix)
    error = two_sided * deviation + missed * np.abs(np.nan_to_num(matrix))
    reach, notes = np.take_along_axis(steps, best[None], axis=0)[0], (AT_Y,) if still.any() else ()
    sure, top = asked.confidence, lower.max(axis=0)
    return Sampled(matrix, error, SAMPLES, sure, top, reach, unchanged, notes)


def _rng(seed: int, part: int) -> np.random.Generator:
    return np.random.default_rng([int(seed), part])
