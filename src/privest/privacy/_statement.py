"""What a real release promises, statement by statement: Fisher, ρ, μ, (ε, δ), and the conditions.

They are different promises and none replaces another: I_z(y) ≤ S holds for every reading; the
others compare two readings and mean nothing without saying which.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
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
    as_count,
    as_number,
    as_positive,
)
from privest.errors import InvalidInput
from privest.lattice import GAUSSIAN, GRID, MOST
from privest.privacy import gdp
from privest.privacy._adjacency import (
    AdjacentSteps,
    Along,
    Move,
    OneBlock,
    OneReading,
    OneRecord,
    Range,
    as_move,
)
from privest.privacy._grid import (
    Entries,
    Level,
    Shift,
    entries_of,
    epsilon_of_move,
    laplace_epsilon,
    laplace_metric_epsilon,
    one_reading,
    shift_of,
    steps_up,
)
from privest.privacy._level import as_level
from privest.privacy._sequential import SequentialLevel
from privest.reading import read_flag
from privest.records import Record

Added = Literal["gaussian", "laplace"]
DELTA = 1e-6
TAIL = "checked numerically up to a tail of probability 4e-350, not proved"


@dataclass(frozen=True)
class GridStatement(Record):
    """Statements of one release on the grid g = 2⁻¹⁰ (safe-release.md 3 and 4), rounded up.

    law             of the noise, "gaussian" or "laplace"
    fisher          the most information about any one reading, max_k S_kk: no unbiased guess of a
                    reading is better than ± 1/√fisher. For every value of the readings [proved];
                    for a matrix level to the rounding of its factor (`GaussianMechanism.literal`)
    about           which two data sets the numbers below compare
    conditions      what somebody else must make true for them; nothing if a range does
    squared_steps   Σ n_i², n_i the whole steps of the grid by which coordinate i may shift
    rho             zCDP [proved]: squared_steps/(2·(4¹⁰ + 1/2)); Laplace: ε²/2
    mu              Gaussian differential privacy: g·√squared_steps (`TAIL`); None: Laplace
    delta, epsilon  (ε, δ)-differential privacy; Laplace: pure, δ = 0
    proved          True: ε is exact for one number (or its mixture of two shifts); False: it
                    follows from `mu`
    metric          ε of the paper's metric privacy (`def:DP`), per unit of a reading: Laplace only
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
    _only: Fraction | None = field(default=None, repr=False)

    def at(self, delta: float) -> GridStatement:
        """The same release, its ε at another δ."""
        if self.mu is None:
            _require_delta(delta)
            return self
        return replace(self, delta=delta, epsilon=_epsilon(self.squared_steps, self._only, delta))

    def explain(self) -> str:
        """All of it in plain sentences, one a line."""
        guess = 1 / math.sqrt(self.fisher) if self.fisher else math.inf
        lines = [
            f"Fisher information: at most {self.fisher:.6g} about any one reading: a guess that is "
            f"unbiased for every value has sd at least {guess:.4g} (proved)."
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
    level: Level | ArrayLike,
    *,
    move: float | Move | None = None,
    range: Range | tuple[float, float] | None = None,
    widths: AnyArray | None = None,
    delta: float = DELTA,
    readings: int | None = None,
    parts: bool = False,
) -> GridStatement:
    """The statements of a real Gaussian release at a level, for a move or a range of the readings.

    move      which two data sets are compared: a number c (one reading moves by at most c) or a
              `Move`. Nobody enforces it: it becomes a condition
    range     public ends to which readings are clipped: "one reading moves by at most high − low"
              is then true. With a move as well, the smaller counts, on condition of the move
    widths    where a level mixes readings their sums are clipped: by how many steps each of them
              can shift then. The mechanisms know (their `statement`)
    readings  how many there are, for a level given as a number and a move of all of them
    parts     of a stream whose level mixes the readings of a step: true, too, where steps of which
              a part is missing show the rest (`StreamMechanism`). It costs less than √m steps of
              the grid in μ, m readings a step

    Streams: from all that is ever shown, the final S̄ = AᵀA, shifts rounded outwards coordinate by
    coordinate; every lag costs at least one step of the grid.

    >>> said = grid_statement(1.0, move=1.0)
    >>> said.squared_steps, said.mu, round(said.epsilon, 6)
    (1048576, 1.0, 4.886553)
    >>> grid_statement(1.0, range=(0.0, 1.0)).conditions
    ()
    """
    stated = level if isinstance(level, SequentialLevel) else as_level(level)
    if readings is not None:
        as_count(readings, "readings", least=1)
    parts = read_flag(parts, "parts")
    entries, moved = entries_of(stated), None if move is None else as_move(move)
    if range is None or (moved is not None and not isinstance(moved, OneReading)):
        if moved is None:
            raise InvalidInput("state a move (which two data sets are compared) or a range.")
        shift = shift_of(stated, moved, entries, readings, parts=parts)
    else:
        ends = range if isinstance(range, Range) else Range(*range)
        steps = (
            _widths(entries, ends) if widths is None else as_array(widths, "widths", ndim=(0, 1))
        )
        if not steps.size or (steps < 0).any():
            raise InvalidInput("widths are steps of the grid: numbers ≥ 0, at least one.")
        by = None if moved is None else moved.length
        shift = one_reading(entries, by=by, widths=steps)
        if moved is None:
            about = (
                "one reading differs, by any amount (what is shown is clipped as if readings lay "
            )
            about += f"between {ends.low:g} and {ends.high:g})"
            return _gaussian(stated, shift, delta, about, ())
    return _gaussian(stated, shift, delta, about_move(moved), (promise(moved),))


def grid_mu(level: float, move: float) -> float:
    """`mu` of `grid_statement` alone, where one reading moves: without the search for its ε.

    >>> grid_mu(1.0, 1.0)
    1.0
    """
    stated = as_level(level)
    return _root_up(shift_of(stated, as_move(move), entries_of(stated), None, parts=False).squared)


def _gaussian(
    level: Level, shift: Shift, delta: float, about: str, conditions: tuple[str, ...]
) -> GridStatement:
    if isinstance(level, SequentialLevel):
        fisher = float(level.final_blocks().diagonal().max())
    else:
        fisher = float(level.for_size(level.size or 1).diagonal().max())
    return statement_of_shift(fisher, shift, delta, about, conditions)


def statement_of_shift(
    fisher: float, shift: Shift, delta: float, about: str, conditions: tuple[str, ...]
) -> GridStatement:
    """The statements of a Gaussian release that shifts by so many steps of the grid."""
    squared = shift.squared
    return GridStatement(
        law="gaussian", fisher=fisher, about=about, conditions=conditions,
        squared_steps=squared, rho=_up(Fraction(squared) / (2 * GAUSSIAN.variance)),
        mu=_root_up(squared), delta=delta, epsilon=_epsilon(squared, shift.only, delta),
        proved=shift.only is not None, _only=shift.only,
    )  # fmt: skip


def rows_statement(
    rows: ArrayLike, *, move: float, law: Added, delta: float = DELTA
) -> GridStatement:
    """The statements of a real release of u = Ay, A (q, m), one reading moving by at most `move`.

    Noise of unit information on every coordinate; `rows` are the sizes |A_ik| ≥ 0, a vector stands
    for a diagonal A. Gaussian: as `grid_statement`. Laplace: pure ε, which adds over coordinates,

        ε = max_k Σ_i ε(|A_ik|·move) ,   ε(n + φ steps) = n ln(1/q) + ln(1 + φ(1/q − 1))

    fisher is max_k Σ_i A_ik².

    >>> said = rows_statement([[0.5]], move=2.0, law="laplace")
    >>> said.epsilon < 1.0, said.delta, said.fisher
    (True, 0.0, 0.25)
    """
    as_choice(law, get_args(Added), "law")
    A = as_array(rows, "the rows", ndim=(1, 2))
    if not A.size or (A < 0).any():
        raise InvalidInput("the rows are the sizes |A_ik| of A: numbers ≥ 0, at least one.")
    columns = A[None] if A.ndim == 1 else A  # one entry each on a diagonal
    moved = OneReading(as_positive(move, "move"))
    every = np.arange(A.size)
    at = (every, every) if A.ndim == 1 else np.divmod(every, A.shape[1])
    shift = one_reading(Entries(A.ravel(), *at), by=moved.by)
    with np.errstate(over="ignore"):
        fisher = float((columns * columns).sum(axis=0).max())
    about, conditions = about_move(moved), (promise(moved),)
    if law == "gaussian":
        return statement_of_shift(fisher, shift, delta, about, conditions)
    _require_delta(delta)
    epsilon = _pure_epsilon(columns, moved.by)
    return GridStatement(
        law="laplace", fisher=fisher, about=about, conditions=conditions,
        squared_steps=shift.squared, rho=epsilon * epsilon / 2 * (1 + 4 * EPS), mu=None,
        delta=0.0, epsilon=epsilon, proved=True,
        metric=laplace_metric_epsilon() * float(columns.sum(axis=0).max()),
    )  # fmt: skip


def _pure_epsilon(columns: Array, by: float) -> float:
    grid = Fraction(by) / Fraction(GRID)
    values, at = np.unique(columns, return_inverse=True)
    every = [laplace_epsilon(min(Fraction(w) * grid, Fraction(2 * MOST))) for w in values.tolist()]
    total = np.asarray(every)[at.reshape(columns.shape)].sum(axis=0)
    return float(total.max()) * (1 + len(columns) * EPS)


def about_move(move: Move) -> str:
    """Which two data sets a move compares."""
    if isinstance(move, OneReading):
        return f"one reading differs by at most {move.by:g}"
    if isinstance(move, OneBlock):
        return f"the readings of one block differ by at most {move.by:g} in Euclidean norm"
    if isinstance(move, AdjacentSteps):
        return (
            f"the readings of {move.steps} adjacent steps differ by at most {move.by:g} in "
            "Euclidean norm"
        )
    if isinstance(move, OneRecord):
        listed = ", ".join(f"{by:g}" for by in move.by)
        return f"all readings of one record differ, by at most {listed}"
    if isinstance(move, Along):
        return "the readings differ by the stated direction or a smaller multiple of it"
    return f"the readings differ by a {type(move).__name__}"


def promise(move: Move) -> str:
    """The condition that nobody enforces."""
    return f"{about_move(move)}, which no range enforces"


def _widths(entries: Entries, ends: Range) -> Array:
    """How many steps a clipped coordinate can shift: ⌊c·(high − low)/g⌋, ends rounded inwards."""
    used = entries.weights != 0
    for index in (entries.readings[used], entries.coordinates[used]):
        if index.size and np.bincount(index).max() > 1:
            raise InvalidInput(
                "this level mixes readings: what is clipped are their sums, and how far those "
                "shift the mechanism knows: GaussianMechanism(level, readings, range=...)."
                "statement(), StreamMechanism(level, range=...).statement()."
            )
    largest = Fraction(float(entries.weights.max())) * (Fraction(ends.high) - Fraction(ends.low))
    most = math.floor(largest / Fraction(GRID))
    return np.minimum(steps_up(entries.weights, math.nextafter(ends.width, math.inf)), most)


def _require_delta(delta: float) -> None:
    """A pure statement does not use δ; what is no probability below 1 is refused all the same."""
    if not 0 <= as_number(delta, "delta") < 1:
        raise InvalidInput(f"delta must be in [0, 1); received {delta:g}.")


def _epsilon(squared: int, only: Fraction | None, delta: float) -> float:
    gdp.epsilon_of(0.0, delta)  # refuses what is no δ
    return (
        gdp.epsilon_of(_root_up(squared), delta) if only is None else epsilon_of_move(only, delta)
    )


def _up(value: Fraction) -> float:
    near = float(value)
    return math.nextafter(near, math.inf) if Fraction(near) < value else near


def _root_up(squared: int) -> float:
    """g·√(Σ n²), the smallest double not below it."""
    root = math.sqrt(squared)
    while Fraction(root) ** 2 < squared:
        root = math.nextafter(root, math.inf)
    return GRID * root
