"""Persons with several rows: what their level promises, and how many rows they have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

from privest.data import Block, Persons, Source, Texts, read_rows
from privest.errors import InvalidInput
from privest.mechanism import PeopleMechanism
from privest.privacy import GridStatement, Range, person_level, person_statement
from privest.reading import read_count, read_fields, read_flag, read_text
from privest.records import Record
from privest.workflow._sections import People, require_design
from privest.workflow._spec import Spec


@dataclass(frozen=True)
class PersonRows(Record):
    """How a level is spread over the rows of a person: public.

    rows    the most that any person has; with a cap the cap.
    capped  that every row has the level s/rows, else s over the rows of its own person.
    design  "A", the only one: so that checksums of headers stay what they are.
    """

    rows: int
    capped: bool = False
    design: Literal["A"] = "A"

    @classmethod
    def read(cls, given: object, name: str) -> Self:
        """From a header, every field checked."""
        kinds = {"design": read_text, "rows": read_count, "capped": read_flag}
        found = cls(**read_fields(given, kinds, name))
        require_design(found.design)
        if found.rows < 1:
            raise InvalidInput(f"{name}: a person has 1 row or more.")
        return found

    def statement(
        self, level: float, move: float, delta: float, limits: Range | None
    ) -> GridStatement:
        """What is promised to the whole person, of whom every reading moves by at most `move`."""
        return person_statement(
            level, self.rows, move=move, capped=self.capped, delta=delta,
            enforced=_enforced(move, limits),
        )  # fmt: skip

    def level_for(self, epsilon: float, delta: float, move: float, limits: Range | None) -> float:
        """The largest level that keeps this ε for the whole person."""
        return person_level(
            epsilon, delta=delta, rows=self.rows, move=move, capped=self.capped,
            enforced=_enforced(move, limits),
        )  # fmt: skip

    def mechanism(self, level: float, limits: Range | None) -> PeopleMechanism:
        """What puts noise on the readings."""
        ends = None if limits is None else (limits.low, limits.high)
        most = self.rows if self.capped else None
        return PeopleMechanism(level, most=most, range=ends)


def _enforced(move: float, limits: Range | None) -> bool:
    """Whether the range alone makes the move true."""
    return limits is not None and move >= limits.width


def person_rows(people: People, counted: Persons) -> PersonRows:
    """Of a table whose persons were counted."""
    if people.most is None:
        return PersonRows(counted.most)
    return PersonRows(people.most, capped=True)


def rows_of_persons(
    spec: Spec, source: Source, *, readings: bool, infinite: bool = False
) -> Iterator[tuple[Block, Texts]]:
    """Rows with whose they are. `readings`: with the target too, which the features do without."""
    assert spec.person is not None
    column = spec.person.column
    target = spec.targets if readings or not spec.design.columns else None
    for block in read_rows(
        source, spec.design, target, beside=(column,), text=(column,), missing=spec.missing,
        infinite=infinite,
    ):  # fmt: skip
        cells = block.beside[column]
        assert isinstance(cells, Texts)
        yield block, cells


def count_persons(spec: Spec, source: Source, *, readings: bool) -> Persons:
    """One pass that counts the rows of every person: those that will leave, but for a cap.

    Where no row is dropped the column of persons alone is read.
    """
    assert spec.person is not None
    column, found = spec.person.column, Persons()
    source.require([column])
    if spec.missing == "drop":
        for _, cells in rows_of_persons(spec, source, readings=readings, infinite=True):
            found.tally(found.numbers(cells))
    else:
        before = 0
        for block in source.coded_blocks([column], text=[column]):
            names = block[column]
            assert isinstance(names, Texts)
            _require_named(names, source, column, before)
            found.tally(found.numbers(names))
            before += len(names)
    _require_several(found, source, column)
    return found


def _require_named(cells: Texts, source: Source, column: str, before: int) -> None:
    missing = cells.missing
    if missing.any():
        raise InvalidInput(
            f"{source.name}, column {column!r}, row {before + int(missing.argmax()) + 1}: it does "
            'not say whose row it is. Fill the gap, or leave out such rows: missing = "drop", '
            "--missing drop (they are counted)."
        )


def _require_several(found: Persons, source: Source, column: str) -> None:
    if found.count == 0:
        raise InvalidInput(f"{source.name} has no rows, only column names.")
    if found.count == 1:
        raise InvalidInput(
            f"{source.name}: column {column!r} names one person only. What is found of one person "
            "is a fact about that person and says nothing of others: name the column that tells "
            "persons apart, or leave --person out where every row is a person."
        )
    if found.most == 1:
        raise InvalidInput(
            f"{source.name}: every person of column {column!r} has one row. Leave --person out: "
            "rows are persons, and the level is that of a row."
        )
