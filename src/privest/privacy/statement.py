"""Statements of a real release on the grid: Fisher level, ρ, μ, (ε, δ), and their conditions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from privest.arrays import (
    EPS,
    AnyArray,
    Array,
    ArrayLike,
    as_array,
    as_choice,
    as_number,
    as_positive,
)
from privest.errors import InvalidInput
from privest.lattice import GAUSSIAN, GRID, MOST, Coin, flips_at, flips_for
from privest.lattice.coins import WHOLE
from privest.privacy import _grid as grid
from privest.privacy import gdp
from privest.privacy._discrete import epsilon_of_move, laplace_epsilon, laplace_metric_epsilon
from privest.privacy.adjacency import Adjacency, Range, as_adjacency, as_range
from privest.privacy.level import as_level
from privest.privacy.stream import StreamLevel
from privest.records import Record

Added = Literal["gaussian", "laplace"]
PureNoise = Literal["laplace", "coin"]
DELTA = 1e-6
TAIL = "checked numerically up to a tail of probability 4e-350, not proved"
_DOWN = 1.0 - 2.0**-50  # a step to the safe side


@dataclass(frozen=True)
class Statement(Record):
    """The privacy of one real release on the grid g = 2⁻¹⁰; every number is rounded up.

    law             distribution of the privacy noise, "gaussian" or "laplace"
    fisher          max_k S_kk: an unbiased guess has sd at least 1/√fisher [proved]; for a matrix
                    level to the rounding of its factor (`GaussianMechanism.literal`)
    about           the adjacency: which two data sets the numbers below compare
    conditions      what the data owner must ensure for them; none if a range does
    squared_steps   Σ n_i², n_i the whole steps of the grid by which coordinate i may shift
    rho             zCDP [proved]: squared_steps/(2·(4¹⁰ + 1/2)); Laplace: ε²/2
    mu              Gaussian differential privacy: g·√squared_steps (`TAIL`); None: Laplace
    delta, epsilon  (ε, δ)-differential privacy; Laplace: pure, δ = 0
    proved          whether ε is exact for one number (or its mixture of two shifts), not from `mu`
    metric          Laplace: ε of metric privacy (`def:DP`), per unit of a measurement
    """

    law: Added
    fisher: float
    about: str
    conditions: tuple[str, ...]
    squared_steps: int
    rho: float
    mu: float | None
    delta: float
    epsilon: float
    proved: bool
    metric: float | None = None

    def explain(self) -> str:
        """The statement in plain sentences, one a line."""
        guess = 1 / math.sqrt(self.fisher) if self.fisher else math.inf
        lines = [
            f"Fisher information: at most {self.fisher:.6g} about any one measurement: a guess "
            f"that is unbiased for every value has sd at least {guess:.4g} (proved)."
        ]
        if self.mu is None:
            lines.append(f"Differential privacy: epsilon = {self.epsilon:.6g}, delta = 0 (proved).")
        else:
            basis = "proved" if self.proved else TAIL
            lines += [
                f"Differential privacy: epsilon = {self.epsilon:.6g} at delta = {self.delta:.3g} "
                f"({basis}).",
                f"Gaussian differential privacy: mu = {self.mu:.6g} ({TAIL}).",
            ]
        lines.append(f"Zero-concentrated differential privacy: rho = {self.rho:.6g} (proved).")
        lines.append(f"Differential privacy compares two data sets: {self.about}.")
        lines += [f"On condition that {condition}." for condition in self.conditions]
        return "\n".join(lines)


def grid_statement(
    level: grid.Level | ArrayLike,
    *,
    sensitivity: float | Adjacency | None = None,
    range: Range | tuple[float, float] | None = None,
    widths: AnyArray | None = None,
    delta: float = DELTA,
) -> Statement:
    """The statement of a real Gaussian release at a level, for a sensitivity or a range.

    sensitivity   a number c (one measurement differs by at most c) or an `Adjacency`; a condition
    range         public ends to which measurements are clipped: they differ by at most high − low.
                  With a sensitivity as well, the smaller counts, on condition of the sensitivity
    widths        of a level that mixes measurements: by how many steps each of its clipped sums can
                  shift, which the mechanisms know (their `statement`)

    Streams: from all that is ever shown, the final S̄ = AᵀA.

    >>> grid_statement(1.0, sensitivity=1.0).mu
    1.0
    """
    stated = level if isinstance(level, StreamLevel) else as_level(level)
    entries = grid.entries_of(stated)
    fisher = _fisher(stated)
    ends = None if range is None else as_range(range)
    difference = None if sensitivity is None else as_adjacency(sensitivity)
    if difference is not None and (ends is None or difference.kind != "measurement"):
        shift = grid.shift_of(stated, difference, entries)
        return _on_condition(fisher, shift, delta, str(difference))
    if ends is None:
        raise InvalidInput("state a sensitivity (which two data sets differ) or a range.")
    steps = _widths(entries, ends, widths)
    if difference is not None:
        shift = grid.one_measurement(entries, by=difference.by, widths=steps)
        return _on_condition(fisher, shift, delta, str(difference))
    about = (
        "one measurement differs, by any amount (what is released is clipped as if measurements "
        f"lay between {ends.low:g} and {ends.high:g})"
    )
    shift = grid.one_measurement(entries, by=None, widths=steps)
    return statement_of_shift(fisher, shift, delta, about, ())


def grid_mu(level: float, sensitivity: float) -> float:
    """`mu` of `grid_statement` for one measurement, without the search for ε."""
    stated = as_level(level)
    return _root_up(
        grid.shift_of(stated, as_adjacency(sensitivity), grid.entries_of(stated)).squared
    )


def _fisher(level: grid.Level) -> float:
    if isinstance(level, StreamLevel):
        return float(level.final_blocks().diagonal().max())
    return float(level.for_size(level.size or 1).diagonal().max())


def _on_condition(fisher: float, shift: grid.Shift, delta: float, about: str) -> Statement:
    return statement_of_shift(fisher, shift, delta, about, (f"{about}, which no range enforces",))


def statement_of_shift(
    fisher: float, shift: grid.Shift, delta: float, about: str, conditions: tuple[str, ...]
) -> Statement:
    """The statement of a Gaussian release whose coordinates shift by steps of the grid."""
    squared = shift.squared
    return Statement(
        law="gaussian", fisher=fisher, about=about, conditions=conditions,
        squared_steps=squared, rho=_rho_up(squared),
        mu=_root_up(squared), delta=delta, epsilon=_epsilon(squared, shift.only, delta),
        proved=shift.only is not None,
    )  # fmt: skip


def rows_statement(
    rows: ArrayLike, *, sensitivity: float, law: Added, delta: float = DELTA
) -> Statement:
    """The statement of a real release of u = Ay, A (q, m), one measurement differing by at most c.

    Noise of unit information on every coordinate; `rows` are the sizes |A_ik| ≥ 0, a vector stands
    for a diagonal A. Laplace: pure ε = max_k Σ_i ε(|A_ik|·c).
    """
    as_choice(law, get_args(Added), "law")
    A = as_array(rows, "the rows", ndim=(1, 2))
    if not A.size or (A < 0).any():
        raise InvalidInput("the rows are the sizes |A_ik| of A: numbers ≥ 0, at least one.")
    columns = A[None] if A.ndim == 1 else A  # one entry each on a diagonal
    difference = Adjacency.measurement(sensitivity)
    place = np.arange(A.size)
    at = (place, place) if A.ndim == 1 else np.divmod(place, A.shape[1])
    shift = grid.one_measurement(grid.Entries(A.ravel(), *at), by=difference.by)
    with np.errstate(over="ignore"):
        fisher = float((columns * columns).sum(axis=0).max())
    if law == "gaussian":
        return _on_condition(fisher, shift, delta, str(difference))
    _require_delta(delta)
    by = Fraction(difference.by) / Fraction(GRID)
    values, at_value = np.unique(columns, return_inverse=True)
    every = [laplace_epsilon(min(Fraction(w) * by, Fraction(2 * MOST))) for w in values.tolist()]
    total = np.asarray(every)[at_value.reshape(columns.shape)].sum(axis=0)
    epsilon = float(total.max()) * (1 + len(columns) * EPS)
    return Statement(
        law="laplace", fisher=fisher, about=str(difference),
        conditions=(f"{difference}, which no range enforces",),
        squared_steps=shift.squared, rho=epsilon * epsilon / 2 * (1 + 4 * EPS), mu=None,
        delta=0.0, epsilon=epsilon, proved=True,
        metric=laplace_metric_epsilon() * float(columns.sum(axis=0).max()),
    )  # fmt: skip


def _widths(entries: grid.Entries, ends: Range, given: AnyArray | None) -> Array:
    """Steps by which a clipped coordinate can shift: ⌊c·(high − low)/g⌋, ends rounded inwards."""
    if given is not None:
        known = as_array(given, "widths", ndim=(0, 1))
        if not known.size or (known < 0).any():
            raise InvalidInput("widths are steps of the grid: numbers ≥ 0, at least one.")
        return known
    used = entries.weights != 0
    for index in (entries.columns[used], entries.coordinates[used]):
        if index.size and np.bincount(index).max() > 1:
            raise InvalidInput(
                "this level mixes measurements: their sums are clipped, and how far those shift is "
                "known to the mechanism: its statement()."
            )
    largest = Fraction(float(entries.weights.max())) * (Fraction(ends.high) - Fraction(ends.low))
    most = math.floor(largest / Fraction(GRID))
    return np.minimum(grid.steps_up(entries.weights, math.nextafter(ends.width, math.inf)), most)


def _require_delta(delta: float) -> None:
    if not 0 <= as_number(delta, "delta") < 1:
        raise InvalidInput(f"delta must be in [0, 1); received {delta:g}.")


def _epsilon(squared: int, only: Fraction | None, delta: float) -> float:
    gdp.epsilon_of(0.0, delta)  # refuses what is no δ
    if only is None:
        return gdp.epsilon_of(_root_up(squared), delta)
    return epsilon_of_move(only, delta)


def _rho_up(squared: int) -> float:
    exact = Fraction(squared) / (2 * GAUSSIAN.variance)
    near = float(exact)
    return math.nextafter(near, math.inf) if Fraction(near) < exact else near


def _root_up(squared: int) -> float:
    """g·√(Σ n²), the smallest double not below it."""
    root = math.sqrt(squared)
    while Fraction(root) ** 2 < squared:
        root = math.nextafter(root, math.inf)
    return GRID * root


# --- pure ε of one number -------------------------------------------------------------------------
#
#     Laplace noise of scale width/ε               I = (ε/width)²
#     randomised response, q = 1/(1 + e^ε)         I ≤ 4 sinh²(ε/2)/width²
#
# Two values `width` apart are compared. Several rows or columns of a person: their ε add.


def coin_of(level: float, range: tuple[float, float] = (0.0, 1.0)) -> Coin:
    """Randomised response with the largest level that is not above `level`."""
    ends = as_range(range)
    width = Fraction(ends.high) - Fraction(ends.low)
    flips = flips_at(Fraction(as_positive(level, "level")) * width**2)
    return Coin(flips, ends.low, ends.high)


def coin_epsilon(coin: Coin) -> float:
    """ε of randomised response, ln((1 − q)/q), rounded up [proved]."""
    if not isinstance(coin, Coin):
        raise InvalidInput("coin must be a Coin: coin_of(level, range) makes one.")
    found = math.log1p((WHOLE - 2 * coin.flips) / coin.flips)
    step = math.ulp(found)
    while flips_for(found) > coin.flips:
        found = found + step
        step = 2 * step
    return found


def pure_level(law: PureNoise, epsilon: float, width: float) -> float:
    """A level at which this noise is ε-private for values `width` apart [proved].

    The largest to 1e-15 for randomised response; up to 0.1% below (ε/width)² for Laplace noise.
    """
    as_choice(law, get_args(PureNoise), "law")
    wanted = as_positive(epsilon, "epsilon")
    apart = as_positive(width, "width")
    shape = 2 * math.sinh(min(wanted, 90.0) / 2) if law != "laplace" else wanted
    with np.errstate(over="ignore", under="ignore"):
        level = float((np.float64(shape) / apart) ** 2)
    if not 0 < level < math.inf:
        raise InvalidInput(
            f"epsilon {wanted:g} for values {apart:g} apart has no level that is a number."
        )
    while (found := pure_epsilon(law, level, apart)) > wanted:
        level *= min((wanted / found) ** 2, _DOWN)
    return level


def pure_epsilon(law: PureNoise, level: float, width: float) -> float:
    """ε of this noise at a level, for values `width` apart; rounded up [proved]."""
    as_choice(law, get_args(PureNoise), "law")
    if law == "laplace":
        with np.errstate(over="ignore"):  # a shift beyond the grid counts as all of it
            root = math.sqrt(as_positive(level, "level")) * (1 + EPS)
            return rows_statement([root], sensitivity=width, law="laplace").epsilon
    return coin_epsilon(coin_of(level, (0.0, width)))
