"""By how many whole steps of the grid a move of the readings shifts what is shown of them.

Shown is u = Ay, one coordinate after another, A = Lᵀ of a level or the rows of all steps of a
stream (its FINAL cumulative level is AᵀA). Each coordinate is rounded to the grid, so its shift
counts in whole steps, outwards: what matters is Σ_i n_i², n_i = ⌈|A_i(y − y')|/g⌉, at its worst.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privest.arrays import EPS, AnyArray, Array, Index
from privest.errors import InvalidInput
from privest.lattice import GAUSSIAN, GRID, LAPLACE, MOST, literal_root, sum_of_products
from privest.linalg import PSD, BandedRows, Blocks, IndependentRows
from privest.privacy import gdp
from privest.privacy._adjacency import AdjacentSteps, Along, Move, OneBlock, OneReading, OneRecord
from privest.privacy._endless import EndlessLevel
from privest.privacy._following import doubled, first_that, least_double
from privest.privacy._level import PrivacyLevel
from privest.privacy._sequential import SequentialLevel
from privest.privacy._stream import StreamLevel
from privest.privacy.parts import mixes_a_step

Level = PrivacyLevel | SequentialLevel
SLACK = 1e-9  # relative: above the rounding of a norm of a million squares


@dataclass(frozen=True)
class Shift:
    """Σ n_i² of the worst pair; `only`: the largest shift in steps if one coordinate moves."""

    squared: int
    only: Fraction | None = None


@dataclass(frozen=True)
class Entries:
    """A entry by entry: `weights` at (coordinate, reading)."""

    weights: Array
    coordinates: Index
    readings: Index


def shift_of(
    level: Level, move: Move, entries: Entries, readings: int | None = None, *, parts: bool = False
) -> Shift:
    """The worst shift over all pairs of a move.

    `parts`: of steps of which readings may be missing, too. These show other sums of the rest
    (`parts`), at most as much of it, so that a shift is as long and may point anywhere.
    """
    if parts and isinstance(level, SequentialLevel) and mixes_a_step(level):
        return _anywhere(level, move, _touched(level, move))
    if isinstance(move, Along):
        return _along(level, move)
    if isinstance(move, OneRecord):
        return _record(level, move)
    if isinstance(move, OneReading) or _one_number(level, move):
        return one_reading(entries, by=move.length)
    return _anywhere(level, move, _coordinates_of(level, move, readings))


def _anywhere(level: Level, move: Move, touched: int) -> Shift:
    """‖⌈a⌉‖ ≤ ‖a‖ + √(number of coordinates): a may point anywhere."""
    reach = level.to_mu(move=move) * (1 + SLACK) / GRID + math.sqrt(touched)
    return Shift(math.ceil(min(reach, 2 * MOST * math.sqrt(touched)) ** 2))


def _touched(level: SequentialLevel, move: Move) -> int:
    """At most how many coordinates of a level without lags show anything of a move."""
    if isinstance(move, Along):
        part, _ = level._met_by(move)
        step = np.searchsorted(part.ends, np.flatnonzero(move.direction), side="right") - 1
        return int(sum(part.sizes[k] for k in set(step.tolist())))
    if isinstance(move, OneReading) or _one_number(level, move):
        return max(level.sizes_between(0, level.steps or 1))
    return _coordinates_of(level, move, None)


def one_reading(entries: Entries, *, by: float | None, widths: AnyArray | None = None) -> Shift:
    """One reading moves by at most `by`; coordinate i cannot shift by more than widths[i] steps.

    Without `by` it is the widths that hold, whatever the reading does.
    """
    used = entries.weights != 0
    weights, readings = entries.weights[used], entries.readings[used]
    if not weights.size:
        return Shift(0, Fraction(0))
    most = np.full(weights.shape, 2.0 * MOST)  # the grid ends there
    if widths is not None:
        known = np.atleast_1d(np.asarray(widths, dtype=np.float64))  # of an endless level: a step's
        most = np.minimum(most, known[entries.coordinates[used] % len(known)])
    steps = most if by is None else np.minimum(most, steps_up(weights, by))
    squares = np.bincount(readings, steps * steps)
    if np.bincount(readings).max() > 1:
        return Shift(whole_sum(float(squares.max())))
    n = int(steps.max())
    if by is None:
        return Shift(n * n, Fraction(n))
    largest = Fraction(float(np.abs(weights[steps == n]).max()))
    return Shift(n * n, min(Fraction(n), largest * Fraction(by) / Fraction(GRID)))


def steps_up(weights: Array, by: Array | float) -> Array:
    """⌈|c·y|/g⌉ of exact products, at least 1 unless one of them is 0; inf beyond any number."""
    with np.errstate(over="ignore", invalid="ignore"):  # inf: a caller counts it as all of the grid
        product = sum_of_products([(np.abs(weights), np.abs(np.asarray(by)))])
        high = product.high / GRID  # a power of two: exact
    found = np.ceil(high) + ((high == np.floor(high)) & (product.low > 0))
    return np.where((np.asarray(weights) != 0) & (np.asarray(by) != 0), np.maximum(found, 1), 0.0)


def entries_of(level: Level) -> Entries:
    """A of a level; of one without an end, of all that is ever shown of one step."""
    if isinstance(level, PrivacyLevel):
        return _of_psd(level.for_size(1 if level.size is None else level.size))
    if isinstance(level, EndlessLevel):
        own = level.pointwise(0, 1)
        if own is not None:
            return _pointwise(np.atleast_1d(literal_root(np.asarray(own))))
        lags, m = level.reach + 1, level.block
        blocks = level.blocks(level.reach, level.reach + 1)[:, 0]  # (lag, row, column)
        rows, columns = np.divmod(np.arange(lags * m * m), m)
        return Entries(np.ascontiguousarray(blocks).ravel(), rows, columns)
    assert isinstance(level, StreamLevel)
    if isinstance(level.rows, IndependentRows):
        return _of_psd(level.rows.level)
    if isinstance(level.rows, BandedRows):
        return _banded(level.rows)
    rows, columns = np.nonzero(level.rows.dense())
    return Entries(level.rows.dense()[rows, columns], rows, columns)


def _of_psd(S: PSD) -> Entries:
    if S.pointwise is not None:
        return _pointwise(np.broadcast_to(literal_root(np.asarray(S.pointwise)), S.size))
    terms, every = S.factor_terms(), np.arange(S.size)
    places = [every if place is None else place for _, place in terms]
    weights = np.concatenate([weight for weight, _ in terms])
    return Entries(weights, np.tile(every, len(terms)), np.concatenate(places))


def _pointwise(roots: Array) -> Entries:
    every = np.arange(len(roots))
    return Entries(roots, every, every)


def _banded(rows: BandedRows) -> Entries:
    m, K = rows.block, rows.steps
    lag, step, row, column = np.indices((rows.reach + 1, K, m, m)).reshape(4, -1)
    inside = step >= lag
    weights = rows.blocks[: rows.reach + 1].ravel()[inside]
    return Entries(weights, (step * m + row)[inside], ((step - lag) * m + column)[inside])


def _along(level: Level, move: Along) -> Shift:
    v = move.direction
    if isinstance(level, PrivacyLevel):
        level.to_mu(move=move)  # refuses another length
        entries = _of_psd(level.for_size(len(v)))
    else:
        part, covered = level._met_by(move)
        v = np.concatenate([v, np.zeros(part.readings - covered)])
        entries = entries_of(part)
    used = (entries.weights != 0) & (v[entries.readings] != 0)
    coordinates = entries.coordinates[used]
    if not coordinates.size:
        return Shift(0, Fraction(0))
    sizes = np.abs(entries.weights[used] * v[entries.readings[used]])
    if np.bincount(coordinates).max() == 1:
        steps = np.minimum(steps_up(entries.weights[used], v[entries.readings[used]]), 2.0 * MOST)
    else:  # sums of products: rounded, and the rounding added
        signed = entries.weights[used] * v[entries.readings[used]]
        shown = np.bincount(coordinates, signed)
        wrong = 2.0**-50 * np.bincount(coordinates).max() * np.bincount(coordinates, sizes)
        steps = np.minimum(np.ceil((np.abs(shown) + wrong) / GRID), 2.0 * MOST)
    only = Fraction(int(steps.max())) if (steps > 0).sum() == 1 else None
    return Shift(whole_sum(float((steps * steps).sum())), only)


def _record(level: Level, move: OneRecord) -> Shift:
    """The corner of the box is the worst: every coordinate shows one reading of the record."""
    if not isinstance(level, PrivacyLevel):
        raise InvalidInput("OneRecord is a move of one record: state its level, not a stream's.")
    roots = literal_root(move.levels(level.for_size(len(move.by))))
    steps = np.minimum(steps_up(roots, np.asarray(move.by)), 2.0 * MOST)
    only = Fraction(int(steps.max())) if (steps > 0).sum() == 1 else None
    return Shift(whole_sum(float((steps * steps).sum())), only)


def _one_number(level: Level, move: Move) -> bool:
    """Whether a move of a block or of a step is that of a single number."""
    if isinstance(move, AdjacentSteps):
        one = isinstance(level, PrivacyLevel) or level.block == 1
        return one and move.steps == 1
    sizes = move.sizes if isinstance(move, OneBlock) else None
    return sizes is not None and max(sizes) == 1


def _coordinates_of(level: Level, move: Move, readings: int | None) -> int:
    """At most how many coordinates show anything of the readings that move together."""
    if not isinstance(move, OneBlock | AdjacentSteps):
        raise InvalidInput(
            f"a release on the grid states a move of one reading, OneBlock, AdjacentSteps or "
            f"Along; received {type(move).__name__}."
        )
    if isinstance(level, PrivacyLevel):
        return _coordinates_of_level(level, move, readings)
    largest = max(level.sizes_between(0, level.steps or 1))
    if level.form == "dense":
        assert level.steps is not None
        return level.readings_before(level.steps)
    if isinstance(move, AdjacentSteps):
        steps = move.steps
    else:
        steps = 1 if move.sizes is None else -(-max(move.sizes) // largest) + 1
    return (steps + level.reach) * largest


def _coordinates_of_level(level: PrivacyLevel, move: Move, readings: int | None) -> int:
    matrix = None if level.size is None else level.for_size(level.size)
    wide = max(matrix.sizes) if isinstance(matrix, Blocks) else 1
    if isinstance(move, AdjacentSteps):
        together: int | None = move.steps
    else:
        assert isinstance(move, OneBlock)
        together = None if move.sizes is None else max(move.sizes)
        if together is None:
            return wide if matrix is not None else _known(readings)
    assert together is not None
    most = together + 2 * (wide - 1)  # parts of blocks at both ends
    return most if level.size is None else min(most, level.size)


def _known(readings: int | None) -> int:
    if readings is None:
        raise InvalidInput(
            "a level given as a number has no blocks of its own: state OneBlock(by, sizes=...), "
            "or how many readings there are."
        )
    return readings


def whole_sum(total: float) -> int:
    """A sum of squares of whole numbers: exact below 2⁵³, else rounded up."""
    return int(total) if total < 2.0**53 else math.ceil(total * (1 + SLACK))


# --- differential privacy of one number on the grid: exact (ε, δ) of a shift  ---------------------


VARIANCE = float(GAUSSIAN.variance)  # 2²⁰ + 1/2: exact
RATIO = float(LAPLACE.ratio)  # q, exact too
_REACH = 10 * 2**10  # 10 deviations: beyond lies 1e-22 of what is summed


def log_delta_of_shift(steps: int, epsilon: float) -> float:
    """log δ of X against X + n, n = `steps` ≥ 0: the smallest δ at ε, exactly [proved].

        δ_n(ε) = F(t) − e^ε F(t − n) = Σ_{x ≤ t} p(x)(1 − e^{ε − (n² − 2nx)/2σ²}) ,
        t = ⌈n/2 − εσ²/n⌉ − 1

    The set {x ≤ t} is where the likelihood ratio exceeds e^ε. No term is negative, so nothing
    cancels (`_rounding`). The sum p(x) of all x is √(2πσ²) but for e^{−2π²σ²} < 10^−8000000.
    Source: safe-release.md 4; Canonne, Kamath and Steinke 2020, Theorem 7.
    """
    if steps == 0:
        return -math.inf
    last = math.ceil(steps / 2 - epsilon * VARIANCE / steps) - 1
    if last < -(2**40):  # the square of such a number is no double's business
        return -math.inf
    top = min(last, _REACH)
    x = np.arange(top - 2 * _REACH, top + 1, dtype=np.float64)
    peak = float(min(top, 0))  # where the largest term is
    weights = np.exp(-(x - peak) * (x + peak) / (2 * VARIANCE))
    loss = epsilon - (steps - 2 * x) * (steps / (2 * VARIANCE))
    total = float(np.sum(weights * -np.expm1(np.minimum(loss, 0.0))))
    if total == 0.0:
        return -math.inf
    return math.log(total) - peak * peak / (2 * VARIANCE) - 0.5 * math.log(2 * math.pi * VARIANCE)


def log_delta_of_move(steps: Fraction, epsilon: float) -> float:
    """log of a δ at ε of a move of n + φ steps: (1 − φ)δ_n + φδ_{n+1}, by joint convexity [proved].

    Exact where the move is a whole number of steps.
    """
    n = math.floor(steps)
    share = float(steps - n)
    if share == 0.0:
        return log_delta_of_shift(n, epsilon)
    low, high = (log_delta_of_shift(k, epsilon) for k in (n, n + 1))
    return float(np.logaddexp(low + math.log1p(-share), high + math.log(share)))


def epsilon_of_move(steps: Fraction, delta: float) -> float:
    """The smallest ε ≥ 0 with (ε, δ)-privacy of a move of n + φ steps, to the safe side [proved].

    >>> print(f"{epsilon_of_move(Fraction(102), 1e-6):.9f}")
    0.395199975
    """
    target = math.log(delta)

    def excess(epsilon: float) -> float:
        found = max(log_delta_of_move(steps, epsilon), -1e6)
        return found + _rounding(float(steps), epsilon, found) - target

    if steps == 0 or excess(0.0) <= 0:
        return 0.0
    # The Gaussian ε of ⌈n + φ⌉ steps is at most 1e-6 too large (safe-release.md 4): a bracket.
    start = gdp.epsilon_of(GRID * math.ceil(steps) * (1 + 1e-6), delta) + 1e-12
    high = first_that(lambda x: not excess(x) > 0, doubled(start), "ε that is large enough")
    low = high * (1 - 1e-5) if excess(high * (1 - 1e-5)) > 0 else 0.0
    return least_double(lambda x: not excess(x) > 0, low, high)


def _rounding(steps: float, epsilon: float, log_delta: float) -> float:
    """A bound on the rounding error of log δ.

    1e-12: exponents below 750 in size, a sum of 20000 terms. The rest: the loss at t is a
    difference of numbers of size ε, which weighs as a change of ε does: hazard/μ.
    """
    mu = GRID * steps or math.ulp(0.0)  # of a move below the smallest number
    hazard = 2.0 + math.sqrt(2.0 * max(-log_delta, 0.0))
    return 1e-12 + 8 * EPS * (epsilon / mu + mu / 2) * hazard


def laplace_epsilon(steps: Fraction) -> float:
    """Pure ε of a Laplace release whose u moves by n + φ steps [proved]; rounded up.

        ε = n ln(1/q) + ln(1 + φ(1/q − 1)) ,   the exact supremum, attained at grid points

    >>> print(f"{laplace_epsilon(Fraction(1024)):.9f}")  # one scale: just below 1
    0.999999841
    """
    n = math.floor(steps)
    share = float(steps - n)
    return (n * -math.log(RATIO) + math.log1p(share * (1 / RATIO - 1))) * (1 + 16 * EPS)


def laplace_metric_epsilon() -> float:
    """ε of the paper's metric privacy (`def:DP`) per unit of u: (1/q − 1)/g, rounded up [proved].

    The slope of ln p is steepest at grid points; vectors add over coordinates.
    """
    return (1 / RATIO - 1) / GRID * (1 + 4 * EPS)
