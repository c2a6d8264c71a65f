"""One private column: the public facts of how its readings leave, in a plan and in a header."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from privest.arrays import Array
from privest.errors import InvalidInput, PrivestError
from privest.lattice import GRID, Coin
from privest.privacy import EndlessLevel, Range, coin_of, pure_epsilon
from privest.reading import (
    Field,
    optional,
    read_count,
    read_fields,
    read_flag,
    read_number,
    read_positive,
    read_text,
)
from privest.records import Record
from privest.release import extra_variance
from privest.workflow._header_fields import read_ends, unit_of
from privest.workflow._laws import Law, read_law
from privest.workflow._modelled import Ends, counted_move, epsilon_of, modelled_range
from privest.workflow._person import PersonRows
from privest.workflow._record import record_statement
from privest.workflow._sections import read_no_exponent, read_transform

READING = "z"
# ε is the root of an equation, found to about 1e-12: a stored one may come from another machine.
SAME_EPSILON = 1e-9
UNIT = 1.0 + extra_variance(GRID)  # variance of Gaussian noise of level 1 on the grid, at most


@dataclass(frozen=True, kw_only=True)
class Column(Record):
    """How the readings of one private column leave: z = y + noise, y after its transform.

    target          the column; `name`: of its column in the table of a release.
    law, level      of the noise; s, which for Gaussian noise is 1/variance of it.
    transform, range
                    of the readings: beyond the range they are clipped, then transformed.
    noise_variance  σ² of y given the features, as stated or from a public reference set of
                    `reference_rows` rows; None: nobody said, the release shows it.
    delta, move     where they are stated the level has an `epsilon`; a range limits the move.
    alone           whether it is the only private column of its table.
    scale           what counts as one unit of it, where several columns share one budget,
                    Σ_j scale_j²·level_j; None where it is alone.
    level_column    the public column with the level of each row, where they differ. `level` is then
                    the largest of them, and z·unit/√(level of the row) a reading with its noise.
    person          where persons have several rows: how the level is spread over them. z·unit is
                    then z̃/√s (`mechanism.PeopleMechanism`), and ε is that of a whole person.
    """

    target: str
    level: float
    transform: str = "none"
    range: Ends | None = None
    law: Law = "gaussian"
    noise_variance: float | None = None
    reference_rows: int | None = None
    delta: float | None = None
    move: float | None = None
    alone: bool = True
    scale: float | None = None
    person: PersonRows | None = None
    level_column: str | None = None

    DERIVED: ClassVar[tuple[str, ...]] = ("epsilon",)

    @property
    def name(self) -> str:
        """Of the column of the release: z, or z:TARGET where there are several."""
        return READING if self.alone else f"{READING}:{self.target}"

    @property
    def limits(self) -> Range | None:
        """The range of the readings, in the units of the modelled target."""
        return modelled_range(self.transform, self.range)

    @property
    def counted_move(self) -> float | None:
        """By how much one reading moves at most: as stated, and no more than its range allows."""
        return counted_move(self.move, self.limits)

    @cached_property
    def epsilon(self) -> float | None:
        """ε of this level at the stated δ and move; None where they are not stated.

        Of Laplace noise and of bits it is pure, δ = 0, for the move or the width of the range.
        """
        move = self.counted_move
        if self.law != "gaussian":
            return None if move is None else pure_epsilon(self.law, self.level, move)
        try:
            if self.person is not None and self.delta is not None and self.counted_move is not None:
                return self.person.statement(
                    self.level, self.counted_move, self.delta, self.limits
                ).epsilon
            return epsilon_of(self.level, self.delta, self.counted_move)
        except PrivestError as error:
            raise InvalidInput(
                f"privacy: the level {self.level:g} has no ε for the move {self.counted_move:g} at "
                f"δ = {self.delta:g}: {error}"
            ) from None

    @property
    def fingerprint(self) -> str:
        """Of the level, as of a stream of readings; of levels of the rows the largest."""
        return EndlessLevel(self.level).fingerprint

    @cached_property
    def coin(self) -> Coin:
        """Of a column of yes or no."""
        limits = self.limits
        assert limits is not None
        return coin_of(self.level, (limits.low, limits.high))

    def unit(self, *, simulated: bool) -> float:
        """What one step of z is, in the units of the modelled target; of bits, from 0 to 1.

        Where rows have levels of their own, in deviations of the noise.
        """
        if self.level_column is not None:
            return unit_of(1.0, simulated=simulated)
        return self.coin.unit if self.law == "coin" else unit_of(self.level, simulated=simulated)

    @property
    def zero(self) -> float:
        """z·unit + zero is a reading with its noise: 0, but for bits."""
        return self.coin.zero if self.law == "coin" else 0.0

    def row_added(self, levels: Array, *, simulated: bool) -> Array:
        """`added` of rows with these levels, all above 0."""
        return self.added(simulated=simulated) * self.level / levels

    def added(self, *, simulated: bool) -> float:
        """The variance of the noise on a reading: 1/s, and what the grid adds to a real release.

        Of Laplace noise 2/s. Of bits 1/s at both ends of the range; between them they scatter more.
        Where rows have levels of their own: of the largest.
        """
        if self.law == "coin":
            return 1.0 / float(self.coin.level)
        if self.law == "laplace":
            return (2.0 + (0.0 if simulated else 1.25 * GRID**2)) / self.level
        return (1.0 if simulated else UNIT) / self.level

    def facts(self, *, simulated: bool) -> dict[str, Any]:
        """What is public of it, for the checksum of a header."""
        found = self.to_dict() | {"name": self.name, "unit": self.unit(simulated=simulated)}
        found |= {"zero": self.zero, "exponent": None}  # of Box-Cox, which is no more
        del found["epsilon"]  # written for readers; another machine may round it otherwise
        if self.level_column is None:  # headers from before there were any stay what they are
            del found["level_column"]
        return found

    def header(self, *, simulated: bool) -> dict[str, Any]:
        """The facts for a header, with the ε that follows from them for whoever reads it."""
        return self.facts(simulated=simulated) | {"epsilon": self.epsilon}

    @classmethod
    def read(cls, given: object, *, simulated: bool) -> Self:
        """The inverse of `header`: every field checked, what follows from others computed again."""
        if isinstance(given, Mapping):
            if given.get("levels") is not None:
                raise InvalidInput(
                    "levels designed inside a plan were removed in version 0.2: read this release "
                    "with the version that wrote it."
                )
            given = {"level_column": None, **given}
        record = read_fields(given, KINDS | FOLLOWS, "each of the columns")
        found = cls(**{name: record[name] for name in KINDS})
        found._require_sense()
        stated, epsilon = record["epsilon"], found.epsilon
        if (stated is None) != (epsilon is None) or not math.isclose(
            stated or 0.0, epsilon or 0.0, rel_tol=SAME_EPSILON
        ):
            raise InvalidInput(
                "epsilon is not that of level, delta, move and range: it was changed."
            )
        if record["name"] != found.name:
            raise InvalidInput("name is not that of its target: it was changed.")
        if record["unit"] != found.unit(simulated=simulated):
            raise InvalidInput(
                "unit must be grid/√level (grid where rows have levels of their own), 1 where it "
                "is simulated."
            )
        if record["zero"] != found.zero:
            raise InvalidInput("zero must be 0, or that of the bits of its level and range.")
        return found

    def _require_sense(self) -> None:
        delta, move, ends = self.delta, self.move, self.range
        wrong = {
            "target must not be empty": not self.target,
            "reference_rows goes with a noise_variance": (
                self.reference_rows is not None and self.noise_variance is None
            ),
            "delta and move go together, or delta and a range": (
                (move is not None and delta is None and self.law == "gaussian")
                or (delta is not None and move is None and ends is None)
            ),
            "scale goes with several columns": self.alone != (self.scale is None),
            "delta must be a probability, below 1": (delta or 0.0) >= 1,
            "delta goes with Gaussian noise": delta is not None and self.law != "gaussian",
            "bits must have a range, and no move": self.law == "coin"
            and (ends is None or move is not None),
            "levels of the rows go with Gaussian noise of one column, and one row a person": (
                self.level_column is not None
                and (self.law != "gaussian" or not self.alone or self.person is not None)
            ),
            "a transform must have a range above 0": (
                self.transform != "none" and not (ends and ends[0] > 0)
            ),
        }
        for what, is_wrong in wrong.items():
            if is_wrong:
                raise InvalidInput(f"{what}.")


class OneColumn:
    """What has `columns`, and with one of them only also that one's facts."""

    if TYPE_CHECKING:

        @property
        def columns(self) -> tuple[Column, ...]: ...

    @property
    def column(self) -> Column:
        """The only private column."""
        if len(self.columns) != 1:
            listed = ", ".join(repr(one.target) for one in self.columns)
            raise InvalidInput(f"there are several private columns, {listed}: take one of them.")
        return self.columns[0]

    @property
    def target(self) -> str:
        """The private column."""
        return self.column.target

    @property
    def level(self) -> float:
        """s, of the only private column."""
        return self.column.level

    @property
    def noise_variance(self) -> float | None:
        """σ² of y given the features; None: nobody said."""
        return self.column.noise_variance

    @property
    def reference_rows(self) -> int | None:
        """Of the public reference that σ² is from; None where there is none."""
        return self.column.reference_rows

    @property
    def transform(self) -> str:
        """Of the readings."""
        return self.column.transform

    @property
    def range(self) -> Ends | None:
        """Of the readings, in the units of the file."""
        return self.column.range

    @property
    def limits(self) -> Range | None:
        """The range of the readings, in the units of the modelled target."""
        return self.column.limits

    @property
    def delta(self) -> float | None:
        """δ, where it is stated."""
        return self.column.delta

    @property
    def move(self) -> float | None:
        """By how much one reading moves at most: as stated, and no more than its range allows."""
        return self.column.counted_move

    @property
    def epsilon(self) -> float | None:
        """ε of the level at the stated δ and move; None where they are not stated.

        Of several columns: for replacing the whole record.
        """
        if len(self.columns) == 1:
            return self.column.epsilon
        said = record_statement(self.columns)
        return None if said is None else said.epsilon


KINDS: dict[str, Field] = {
    "target": read_text, "level": read_positive, "transform": read_transform,
    "range": optional(read_ends), "law": read_law,
    "noise_variance": optional(read_positive), "reference_rows": optional(read_count),
    "delta": optional(read_positive), "move": optional(read_positive), "alone": read_flag,
    "scale": optional(read_positive),
    "person": optional(PersonRows.read), "level_column": optional(read_text),
}  # fmt: skip
FOLLOWS: dict[str, Field] = {
    "epsilon": optional(read_positive), "name": read_text, "unit": read_positive,
    "zero": read_number, "exponent": read_no_exponent,
}  # fmt: skip
