"""Information from samples alone: an estimate, and a lower bound with a confidence.

For any statistic g of the release, I(y) ≥ (∂E g)²/Var g, with equality for the score. g is learnt
on one part of the samples (splines) and judged on another. The lower bound uses no derivative: the
Fisher-Rao length of the path from y − h to y + h is at least the distance of its ends, so

    h·sup √I ≥ arccos BC ,   BC = ∫ √(p₋ p₊) ≤ ½ (E₋ e^{hg} + E₊ e^{−hg})

with the supremum over the segment y ± h: two means of bounded variables.

Kinks: where p(z|·) has a kink at y, or an outcome vanishes there, differences average the two
one-sided scores: the estimate is too small, the lower bound holds.
Atoms: the probability of one value that drops from p to q within h has information of at least
4(√p − √q)²/h²: infinite, as h is as small as floats allow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, Flags
from privest.audit._terms import EXAMINED, Finding, Look, Sampler, as_sampler, inverse_root
from privest.errors import InvalidInput
from privest.linalg import PSD
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
KINK = (
    "At a kink of p(z|·), or where an outcome vanishes, samples average both sides: the estimate "
    "is too small there. The lower bound holds."
)
AT_Y = "Releases at y hardly vary while those beside it do: no estimate at y, only the lower bound."
UNCHANGED = (
    "The output did not change at all between the points looked at close to y, which shows nothing "
    "of what happens elsewhere."
)
# Spline knots at these shares of a sample: dense in the middle, down to 1e-4 in the tails.
TAIL = np.array([1e-4, 3e-4, 1e-3, 3e-3, 0.006])
MOST_KNOTS = 320
# An output with at most so many values is discrete: every value is a knot.
FEW = 256
# Combinations of hats that vary by less than this part of the strongest are left out.
LEAST = 1e-7
ROWS = 20_000
# What a small sample is to see, in units of 1/√I; what it takes for sampling noise (0.03 to 0.05).
SEEN, NOTHING = 0.3, 0.06
PILOT, BINS = 4000, 16
OCTAVES = 16.0 ** np.arange(-10.0, 11.0)
# Moves of y, and what counts as the same value (rounding), as parts of the sizes at hand. The
# second move is for outputs that follow y too slowly to tell from rounding after the first; their
# atom must then be seen again so CLOSE that no quantiser with wider steps is mistaken for it.
MOVES, SAME, CLOSE = (1e-10, 1e-6), 1e-14, 1e-9
# A value is a candidate if it occurs so often in a first sample.
NAMED = 16
FALSE_ALARM = 1e-9
# (move) → how far apart its ends look, None where the sampler does not answer.
Apart = Callable[[float], float | None]


@dataclass(frozen=True, eq=False)
class Information(Record):
    """I_z(y) by numbers, simulated scores or samples (`def:Fisher`).

    matrix        (m, m); inf where the density jumps as y moves; from samples NaN beside an inf:
                  not estimated.
    error         (m, m): a bound on each entry's error, or where `confidence` is given the half
                  width of its interval at that confidence.
    lower         from samples: with `confidence` the information about measurement i reaches
                  lower[i] somewhere within reach[i] of y. Assumes independent draws only.
    unchanged     from samples: the measurements that changed no output.
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
        head = f"information about each measurement: {shown}{more} ({self.method}{sure})"
        return "\n".join([head, *(f"  {note}" for note in self.notes)])


@dataclass(frozen=True, eq=False)
class Sampled(Information):
    """DᵀI(y)D from samples around y, for directions D (m, k).

    `error` has an allowance for what splines miss (6% from a million samples, 12% from 200,000, 32%
    from 20,000; see MISSED). `lower` is reached somewhere on y ± reach_i·D_i, for all i together.
    """

    confidence: float
    lower: Array
    reach: Array
    unchanged: Flags


@dataclass(frozen=True, eq=False)
class _Question:
    draw: Sampler
    y: Array
    D: Array
    samples: int
    rng: np.random.Generator
    confidence: float


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

    Means and their errors come from 32 independent batches (Student's t). In a batch both ends of
    a segment are drawn from the same random numbers. A sampler that raises or returns NaN further
    away is not followed there, with a note. Cost: about 8·`samples` draws per direction.
    """
    D = np.eye(len(y)) if directions is None else directions
    asked = _Question(as_sampler(sampler), y, D, samples, rng, confidence)
    if np.isnan(asked.draw(y, _rng(0, 0), samples)).any():
        raise InvalidInput("the sampler returned NaN at y: there is no release to audit.")
    try:
        atoms = moving_atoms(asked.draw, y, D, samples, rng)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(
            "the sampler fails at measurements very close to y, though not at y: y is on the edge "
            "of its domain. Audit a y inside."
        ) from error
    endless = np.array([atom is not None for atom in atoms])
    notes = tuple(dict.fromkeys(atom for atom in atoms if atom is not None))
    if not endless.any():
        return _smooth(asked)
    rest = None if endless.all() else _smooth(replace(asked, D=D[:, ~endless]))
    return _endless(endless, rest, notes, confidence)


def _endless(
    endless: Flags, rest: Sampled | None, notes: tuple[str, ...], confidence: float
) -> Sampled:
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


def _smooth(asked: _Question) -> Sampled:
    """The estimate for z without atoms: by short steps if these are precise, else by long ones."""
    draw, y, D, rng = asked.draw, asked.y, asked.D, asked.rng
    # The longest step that is taken below, in units.
    most = max(MOST_STEP, LONG * 2 ** (len(LONG_WEIGHTS) - 1))
    units = [_seen_unit(draw, y, v, rng, most) for v in D.T]
    unit = np.array([size for size, _ in units])
    limits = tuple(dict.fromkeys(note for _, note in units if note is not None))
    many = max(asked.samples // 2, 1000)
    # The noise of a fit against what it misses.
    share = min(max(math.sqrt(3000 / many), LEAST_STEP), MOST_STEP)
    learn = unit * share
    seeds = rng.integers(2**63, size=len(unit))
    low, high = (
        [draw(y + side * move, _rng(seed, 0), many) for move, seed in zip((learn * D).T, seeds)]
        for side in (-1, 1)
    )
    g = _fitted(low, high, learn)
    # Of I(1 − L) that is seen, the part L/(1 − L) is missing. At 9 times the estimate it says that
    # nothing is known; no need for more.
    loss = min(MISSED * share + len(g.weights) / (2 * many * share**2), 0.9)
    missed = loss / (1 - loss)
    for size, weights in ((SHORT, SHORT_WEIGHTS), (LONG, LONG_WEIGHTS)):
        steps = np.outer(2.0 ** np.arange(len(weights)), size * unit)
        found = _judged(asked, g, steps, weights, missed)
        if (np.diagonal(found.error) <= (2 * PRECISE + missed) * np.diagonal(found.matrix)).all():
            break
    same = (UNCHANGED,) if found.unchanged.any() else ()
    return replace(found, notes=(*same, *found.notes, *limits, KINK))


def _judged(
    asked: _Question, g: _Statistic, steps: Array, weights: tuple[float, ...], missed: float
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


def by_samples(sampler: Mechanism | Sampler, S: PSD, look: Look) -> Finding:
    """Estimate everywhere (or at y = 0); then bound the direction that shows most, afresh."""
    look = look.at(lambda: np.zeros((1, S.size)))
    root, hidden = inverse_root(S.dense())
    if hidden.size:
        raise InvalidInput(
            "a level with hidden directions cannot be audited from samples: no sample shows that "
            "nothing is revealed. Audit the density."
        )
    margin, lower, worst = -math.inf, -math.inf, look.places[0]
    samples, rng, unchanged = look.samples, look.rng, True
    for y in look.places:
        first = information_from_samples(sampler, y, samples=samples, rng=rng, directions=root)
        found = first
        if not np.isinf(first.matrix).any():
            direction = root @ np.linalg.eigh(np.nan_to_num(first.matrix))[1][:, -1:]
            found = information_from_samples(
                sampler, y, samples=samples, rng=rng, directions=direction, confidence=look.each
            )
        if np.isinf(found.matrix).any():
            notes, sure = found.notes, look.confidence
            return Finding(
                math.inf, 0.0, math.inf, math.nan, y, SAMPLES, notes, sure, sampler="audited itself"
            )
        # An estimate below its own lower bound (or below 0, by noise) says no more than that.
        margin = max(margin, float(np.fmax(found.matrix[0, 0], found.lower[0])))
        unchanged = unchanged and bool(first.unchanged.all() and found.unchanged.all())
        if found.lower[0] > lower:
            lower, worst = float(found.lower[0]), y
    said = (
        f"Looked at {len(look.places)} measurement vectors: at least {lower:.4g} of the level is "
        "revealed close to one of them."
    )
    reasons, error = (UNCHANGED if unchanged else said, KINK), max(margin - lower, 0.0)
    return Finding(
        margin, error, lower, math.nan, worst, SAMPLES, reasons, look.confidence,
        where=EXAMINED, resolution=math.nan, sampler="audited itself",
    )  # fmt: skip


# --- a statistic that follows the score, learnt from samples --------------------------------------


@dataclass(frozen=True)
class Splines:
    """φ(z): for each coordinate of z, and its norm, hat functions on knots.

    Linear between knots, constant beyond; outcomes of a quantiser are knots of their own.
    """

    knots: tuple[Array, ...]

    @classmethod
    def through(cls, z: Array, many: int) -> Splines:
        """Knots at quantiles of a sample (n, q), as many as a fit on `many` rows bears."""
        columns = _spline_columns(z)
        count = max(min(60, MOST_KNOTS // len(columns), many // 200), 8)
        tail = TAIL[TAIL * many >= 20]
        shares = np.concatenate([[0.0], tail, np.linspace(0.01, 0.99, count), 1 - tail, [1.0]])
        return cls(tuple(_knots(column, shares) for column in columns))

    def features(self, z: Array) -> Array:
        return np.concatenate([_hats(c, k) for c, k in zip(_spline_columns(z), self.knots)], axis=1)

    def moments(self, z: Array) -> tuple[Array, Array]:
        size = sum(knots.size for knots in self.knots)
        first, second = np.zeros(size), np.zeros((size, size))
        for begin in range(0, len(z), ROWS):
            phi = self.features(z[begin : begin + ROWS])
            first += phi.sum(axis=0)
            second += phi.T @ phi
        first /= len(z)
        return first, second / len(z) - np.outer(first, first)


@dataclass(frozen=True)
class _Statistic:
    """g(z) = φ(z)·w − c, one column a direction; clipped to ±`most`."""

    basis: Splines
    weights: Array  # (K, directions)
    offset: Array
    most: Array

    def __call__(self, z: Array) -> Array:
        ends = np.cumsum([knots.size for knots in self.basis.knots])[:-1]
        pieces = np.split(self.weights, ends)
        total = np.zeros((len(z), self.weights.shape[1]))
        for column, knots, weights in zip(_spline_columns(z), self.basis.knots, pieces):
            for j, w in enumerate(weights.T):
                total[:, j] += np.interp(column, knots, w)
        return np.clip(total - self.offset, -self.most, self.most)


def _fitted(low: list[Array], high: list[Array], step: Array) -> _Statistic:
    """The combination of splines that tells most about the direction in which y moved.

    w = C⁻¹ Δμ/2h maximises (∂E g)²/Var g over g = φ·w; `low[i]`, `high[i]`: samples at y ± h_i e_i.
    """
    basis = Splines.through(np.concatenate([part[:ROWS] for part in (*low, *high)]), len(low[0]))
    below, above = [basis.moments(z) for z in low], [basis.moments(z) for z in high]
    slopes = np.stack([(b[0] - a[0]) for a, b in zip(below, above)], axis=1) / (2 * step)
    mean = np.mean([m for m, _ in below + above], axis=0)
    weights = solved(np.mean([c for _, c in below + above], axis=0), slopes, LEAST)
    return _Statistic(basis, weights, mean @ weights, 2 / step)


def solved(covariance: Array, right: Array, least: float) -> Array:
    """C⁺ right, without the combinations that vary by less than `least` of the strongest."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > least * max(float(values[-1]), np.finfo(float).tiny)
    return np.asarray(vectors[:, kept] @ ((vectors[:, kept].T @ right) / values[kept][:, None]))


def _spline_columns(z: Array) -> list[Array]:
    columns = [z[:, i] for i in range(z.shape[1])]
    return [*columns, np.linalg.norm(z, axis=1)] if z.shape[1] > 1 else columns


def _knots(column: Array, shares: Array) -> Array:
    values = np.unique(column)
    return values if values.size <= FEW else np.unique(np.quantile(column, shares))


def _hats(column: Array, knots: Array) -> Array:
    """The weights of linear interpolation (n, knots)."""
    result = np.zeros((column.size, knots.size))
    rows = np.arange(column.size)
    if knots.size == 1:
        result[:, 0] = 1.0
        return result
    i = np.clip(np.searchsorted(knots, column, side="right") - 1, 0, knots.size - 2)
    t = np.clip((column - knots[i]) / (knots[i + 1] - knots[i]), 0.0, 1.0)
    result[rows, i], result[rows, i + 1] = 1 - t, t
    return result


# --- about 1/√I in a direction, from small samples ------------------------------------------------


def _seen_unit(
    draw: Sampler, y: Array, v: Array, rng: np.random.Generator, most: float
) -> tuple[float, str | None]:
    """About 1/√I in the direction v, from small samples, and a note if the domain set the limit.

    Moves start tiny and widen by 16 until the ends of y ± h·v are 2·SEEN apart (Fisher-Rao), the
    sampler does not answer, or 10¹² times the size of y is reached; then h is bisected. If no move
    gets that far: the one that gets half of the most that was seen.
    """

    def apart(h: float) -> float | None:
        try:
            low, high = draw(y - h * v, rng, PILOT), draw(y + h * v, rng, PILOT)
        except Exception:  # whatever a user's function raises outside its domain
            return None
        return None if np.isnan(low).any() or np.isnan(high).any() else _distance(low, high)

    start = max(1.0, float(np.abs(y).max())) / max(float(np.abs(v).max()), 1e-300)
    moves, seen = _widened(apart, start)
    none = max(seen) < NOTHING
    step = min(moves[-1], start) if none else _bisected(apart, moves, seen)
    unit = step / SEEN
    if apart(most * unit) is not None:
        return unit, None
    room = _edge(apart, step, most * unit)
    note = (
        f"The sampler does not answer further than {room:.3g} from y along one of the directions: "
        "only closer measurements were looked at."
    )
    return room / most, note


def _widened(apart: Apart, start: float) -> tuple[list[float], list[float]]:
    moves: list[float] = []
    seen: list[float] = []
    for h in (start * OCTAVES).tolist():
        far = apart(h)
        if far is None and not moves:
            raise InvalidInput(
                "the sampler does not answer at measurements very close to y, though it does at y: "
                "y lies on the edge of its domain. Audit a y inside."
            )
        moves.append(_edge(apart, moves[-1], h) if far is None else h)
        seen.append(apart(moves[-1]) or 0.0 if far is None else far)
        if far is None or far >= SEEN:
            break
    return moves, seen


def _bisected(apart: Apart, moves: list[float], seen: list[float]) -> float:
    goal = min(SEEN, 0.5 * max(seen))
    first = next(i for i, far in enumerate(seen) if far >= goal)
    low, high = moves[max(first - 1, 0)], moves[first]
    low, high = _between(low, high, lambda h: (apart(h) or 0.0) < goal, 6)
    return float(np.sqrt(low * high))


def _edge(apart: Apart, low: float, high: float) -> float:
    return _between(low, high, lambda h: apart(h) is not None, 10)[0]


def _between(
    low: float, high: float, below: Callable[[float], bool], rounds: int
) -> tuple[float, float]:
    for _ in range(rounds):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high


def _distance(one: Array, other: Array) -> float:
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


# --- atoms of p(z|y): values that come back exactly at y and never next to it ---------------------


def moving_atoms(
    draw: Sampler, y: Array, D: Array, samples: int, rng: np.random.Generator
) -> tuple[str | None, ...]:
    """For each direction (column of D) a sentence on an atom that moves with y, or None.

    A first sample names the candidates, a second one at y counts them (k), a third at y ± h must
    have half of them at most (c): a binomial tail of k + c, below 1e-9 for all tests together.
    Outcomes of a quantiser stay where they are, and are not reported.
    """
    here, again, *others = rng.spawn(2 + 4 * D.shape[1])
    size = float(np.abs(y).max()) or 1.0
    named = []
    for column in _columns(draw(y, here, samples)):
        values, often = np.unique(column, return_counts=True)
        named.append(values[(often >= NAMED) & np.isfinite(values)])
    tests = 4 * D.shape[1] * sum(atoms.size for atoms in named)
    if tests == 0:
        return tuple(None for _ in D.T)
    second = _columns(draw(y, again, samples))
    counts = [_count(c, atoms, size) for c, atoms in zip(second, named)]

    def moved(v: Array, generators: list[np.random.Generator]) -> str | None:
        for (move, side), own in zip(product(MOVES, (-1, 1)), generators):
            step = side * move * size * v / float(np.abs(v).max())
            columns = zip(_columns(draw(y + step, own, samples)), named, counts)
            found = [_lost(*each, size, tests, move > MOVES[0]) for each in columns]
            lost, left = max(found, key=lambda pair: pair[0])
            if lost:
                other = f"{left / samples:.2%}" if left else "none"
                return (
                    f"One exact output makes up {lost / samples:.2%} of all releases at y and "
                    f"{other} at a distance of {move * size:.1g}: it moves with y and "
                    f"reveals it: infinite information (false alarm below {FALSE_ALARM:.0e})."
                )
        return None

    return tuple(moved(v, others[4 * i : 4 * i + 4]) for i, v in enumerate(D.T))


def _lost(
    column: Array, atoms: Array, count: Array, size: float, tests: int, close: bool
) -> tuple[float, float]:
    """How often the most frequent atom that is gone occurred at y, and still does."""
    stays = _count(column, atoms, size)
    chance = scipy.stats.binom.cdf(
        stays, count + stays, 0.5
    )  # of so few in one of two equal samples
    gone = (2 * stays <= count) & (chance <= FALSE_ALARM / tests)
    if close:
        gone &= _count(column, atoms, size, CLOSE) - stays >= NAMED
    return max(zip(count[gone].tolist(), stays[gone].tolist()), default=(0.0, 0.0))


def _columns(z: Array) -> list[Array]:
    columns = list(z.T)
    if z.shape[1] > 1:
        columns += list(np.diff(z.T, axis=0))  # neighbours that share their noise
        columns.append((z * np.random.default_rng(11).uniform(1, 2, z.shape[1])).sum(axis=1))
    return columns


def _count(column: Array, atoms: Array, size: float, part: float = SAME) -> Array:
    wide = part * np.maximum(np.abs(atoms), size)
    ordered = np.sort(column)
    low, high = atoms - wide, atoms + wide
    counts = np.searchsorted(ordered, high, "right") - np.searchsorted(ordered, low, "left")
    return np.asarray(counts, dtype=np.float64)
