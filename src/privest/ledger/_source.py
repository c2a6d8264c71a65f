"""The cost of a real release, and a source of noise that pays it first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_choice, as_count
from privest.errors import InvalidInput
from privest.lattice import GRID, Coin
from privest.ledger._budget import Cost, Matrix, Runs
from privest.ledger._store import Entry, Integers
from privest.linalg import PSD, Blocks
from privest.mechanism.source import (
    Added,
    Clip,
    Law,
    Shown,
    Source,
    as_protected,
    clip_fact,
    law_fact,
    numbers,
    shape_of,
)
from privest.privacy import (
    Adjacency,
    PrivacyLevel,
    Statement,
    StreamLevel,
    as_adjacency,
    as_level,
    grid_statement,
    rows_statement,
)
from privest.privacy.statement import coin_epsilon

if TYPE_CHECKING:
    from privest.ledger._account import Account

Costs = Cost | Callable[[int, int], Cost]


class LedgerSource(Source):
    """Noise of `source` (protected if None), spent and written ahead: `Account.source` makes one.

    Index start + at of the account is the first that a release reveals: of a stream its steps, else
    the entries of the vector (one index where the cost is a matrix). A release that is in the
    ledger is sent again as it was (`resent`). `marks` of the next release are as in
    `Account.spend_and_write`; `entry` is the last entry.
    """

    resent: bool

    account: Account
    cost: Costs
    start: int | None
    key: str
    known: int | None
    facts: dict[str, Any]

    simulated = False

    def __init__(
        self,
        account: Account,
        cost: Costs,
        *,
        start: int | None,
        key: str,
        source: Source | None,
        known: int | None,
        facts: Mapping[str, Any],
    ) -> None:
        self.account, self.cost = account, cost
        self.start, self.key, self.known, self.facts = start, key, known, dict(facts)
        self.source: Source = as_protected(source)
        if not self.source.grid:
            raise InvalidInput("a ledger keeps integers: its source must be on a grid.")
        self.grid: float = self.source.grid
        self.entry: Entry | None = None
        self.resent = False
        self.marks: Mapping[str, str] | None = None

    def add_noise(
        self,
        shown: Shown,
        *,
        shape: tuple[int, ...] | None = None,
        at: int = 0,
        sizes: Sequence[int] | None = None,
        law: Law = "gaussian",
        clip: Clip | None = None,
        fingerprint: str | None = None,
    ) -> Array:
        """The release of before, else a new one that is now in the ledger."""
        size = shape_of(numbers(shown)) if shape is None else shape
        first = None if self.start is None else self.start + at
        count = self._indices(size, sizes)
        facts = self.facts | {
            "shape": list(size), "sizes": None if sizes is None else list(sizes),
            "law": law_fact(law), "grid": self.grid, "clip": clip_fact(clip),
            "fingerprint": fingerprint,
        }  # fmt: skip

        def draw() -> tuple[Integers, Flags | None]:
            values = self.source.add_noise(
                shown, shape=size, at=at, sizes=sizes, law=law, clip=clip, fingerprint=fingerprint
            )
            absent = ~np.isfinite(values)  # no other float becomes an integer
            integers = np.rint(np.where(absent, 0.0, values) / self.grid).astype(np.int64)
            return integers, absent if absent.any() else None

        cost = self._cost(first, count)
        self.account.retire_up_to(self.key, self.known)
        written = self.account.spend_and_write(
            cost, first, count, facts, draw, key=self.key, marks=self.marks
        )
        if written.resent:
            numbers(shown)  # a stream keeps its measurements, whatever is sent
        self.entry, self.resent = written.entry, written.resent
        values = np.asarray(written.integers * self.grid)
        if written.missing is not None:
            values[written.missing] = np.nan
        return values

    def _cost(self, first: int | None, count: int) -> Cost:
        if not callable(self.cost):
            return self.cost
        if first is None:
            raise InvalidInput("costs that change with the index need start=.")
        return self.cost(first, first + count)

    def _indices(self, shape: tuple[int, ...], sizes: Sequence[int] | None) -> int:
        if sizes is not None:
            return len(sizes)
        information = None if callable(self.cost) else self.cost.information
        one = math.prod(shape[:-1]) == 1  # not several releases of the same indices
        if isinstance(information, tuple) and one:
            return 1
        if isinstance(information, Runs) and (one or information.count == math.prod(shape)):
            return information.count
        if len(shape) != 1:
            raise InvalidInput(
                f"the release has shape {shape}: a ledger counts one release at a time, a vector "
                "with one index per entry."
            )
        return shape[0]


# --- costs of levels ------------------------------------------------------------------------------

# The information of noise on the grid stays below that of its level by g⁴/12 = 7.6e-14 of it
# (lattice/PROOF.md): more than the rounding of a root, so that a level of 2, whose double root
# squares to 2 + 4e-16, costs less than 2.
BELOW = 1 - Fraction(1, 2**44)
ULP = Fraction(1, 2**52)


def cost_of(
    level: PrivacyLevel | StreamLevel | ArrayLike,
    *,
    sensitivity: float | Adjacency | None = None,
    start: int = 0,
    stop: int | None = None,
    law: Law = "gaussian",
    statement: Statement | None = None,
) -> Cost:
    """The cost of a real release at a level, at each index.

    An index of a `PrivacyLevel` is a measurement, one of a stream a step. A step costs all that is
    ever revealed of its measurement, the diagonal block of the FINAL S̄: a later step that looks
    back is paid for ahead, and the costs of steps 0..k−1 add up to no less than tr S̄_k.
    `start` ≤ step < `stop`: these steps only.

    sensitivity  for μ² and ρ on the grid, shifts rounded up, or a pure ε for "laplace".
    statement    of a mechanism, which knows its range better where a level mixes measurements.
    law          a `lattice.Coin`, whose level is at most `level`, has a pure ε for its two ends.

    >>> cost = cost_of(4.0, sensitivity=0.5)
    >>> float(cost.information), float(cost.mu2)
    (4.0, 1.0)
    >>> from privest.privacy import StreamLevel
    >>> later = cost_of(StreamLevel([1.0, 4.0], U=[[], [2.0]]))  # S̄ = [[2, 2], [2, 4]]
    >>> [round(float(level), 9) for level, _ in later.information.runs]
    [2.0, 4.0]
    """
    if isinstance(law, Coin) and not isinstance(level, StreamLevel):
        return _of_coin(law, as_level(level).number)
    as_choice(law, get_args(Added), "law")
    if isinstance(level, StreamLevel):
        information: Any = _of_steps(level, start, stop)
    else:
        level = as_level(level)
        information = _of_measurements(level)
    if sensitivity is None:
        if statement is not None:
            raise InvalidInput("a statement needs the sensitivity that it is about.")
        return Cost(information)
    difference = as_adjacency(sensitivity)
    if law == "laplace":
        if difference.kind != "measurement":
            raise InvalidInput("a pure epsilon is known where one measurement differs.")
        said = _laplace(level, difference.by)
        return Cost(information, epsilon=said.epsilon, rho=said.rho, sensitivity=difference)
    said = statement or grid_statement(level, sensitivity=sensitivity)
    mu2 = said.squared_steps * Fraction(GRID) ** 2
    return Cost(information, mu2=mu2, rho=said.rho, sensitivity=difference)


def _of_coin(coin: Coin, level: float | None) -> Cost:
    """Pure ε, and a level not below χ² of the two ends, which bounds the information."""
    if level is None or Fraction(level) < coin.level:
        raise InvalidInput(
            f"the level of a coin is one number, at least its own; its own is "
            f"{float(coin.level):g}."
        )
    return Cost(level, epsilon=coin_epsilon(coin), sensitivity=float(coin.width))


def _of_measurements(level: PrivacyLevel) -> Any:  # noqa: ANN401
    if level.number is not None:
        return level.number
    assert level.size is not None
    return level.for_size(level.size).diagonal()


def _gram(rows: Array) -> Matrix:
    exact = [[Fraction(x) for x in row] for row in rows.tolist()]
    size = rows.shape[1]
    return tuple(
        tuple(BELOW * sum((row[i] * row[j] for row in exact), Fraction(0)) for j in range(size))
        for i in range(size)
    )


def _of_steps(level: StreamLevel, start: int, stop: int | None) -> Any:  # noqa: ANN401
    first = as_count(start, "start", least=0)
    if level.steps is None:
        block = level.final_blocks().dense()
        if len(block) == 1:
            return _safe(float(block[0, 0]), level.reach + 1)
        rows = level.blocks(level.reach, level.reach + 1)[:, 0]
        return _gram(rows.reshape(-1, rows.shape[-1]))
    last = level.steps if stop is None else as_count(stop, "stop", least=first + 1)
    ends = [level.measurements_before(k) for k in range(first, last + 1)]  # refuses steps beyond
    revealed = level.final_blocks().diagonal()[ends[0] : ends[-1]]
    # A step of several measurements: their sum is no less than any of them, and is their trace.
    sums = np.add.reduceat(revealed, np.asarray(ends[:-1]) - ends[0])
    up = 1.0 + float(ULP) * (level.measurements_before(level.steps) + 4)
    return sums * up * float(BELOW) if up * float(BELOW) <= 1.0 else sums * up


def _safe(value: float, terms: int) -> Fraction:
    """A sum of squares of doubles that was rounded, not below the exact one, times BELOW."""
    return Fraction(value) * (1 + (terms + 4) * ULP) * BELOW


def _laplace(level: PrivacyLevel | StreamLevel, by: float) -> Statement:
    blocks: PSD | None = None
    if isinstance(level, StreamLevel):
        blocks = level.final_blocks() if level.form == "independent" and level.block == 1 else None
    else:
        blocks = level.for_size(1 if level.size is None else level.size)
    if blocks is None or isinstance(blocks, Blocks):
        raise InvalidInput(
            "a pure epsilon is known for levels of single measurements: state others in a Cost."
        )
    largest = math.sqrt(float(np.max(blocks.diagonal())))
    return rows_statement([largest], sensitivity=by, law="laplace")
