"""What a release is charged, in which measure, and to whom."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from privest.arrays import AnyArray, Array
from privest.lattice import GRID
from privest.ledger import Cost, cost_of
from privest.privacy import PrivacyLevel
from privest.workflow._column import Column
from privest.workflow._record import record_information, record_move
from privest.workflow._spec import Spec
from privest.workflow._terms import Terms

LEAST = 16  # different public rows: tables with fewer often have the same, and are not compared
DELTA = 1e-6  # where none is stated: μ and ρ, which an entry holds, do not depend on it


class PublicRows:
    """What a table is known by in a ledger: its public columns as they leave, never a reading.

    Block by block, in blocks of any size. `features`: how many columns of a block they are.
    """

    def __init__(self, features: int) -> None:
        self.features = features
        self._digest, self._different = hashlib.sha256(), np.zeros((0, features))

    def through(self, blocks: Iterator[Sequence[AnyArray]]) -> Iterator[Sequence[AnyArray]]:
        """The blocks as they are, seen."""
        for block in blocks:
            if self.features:
                self._add(np.column_stack(block[: self.features]) + 0.0)  # −0 is 0
            yield block

    def _add(self, rows: Array) -> None:
        self._digest.update(rows.astype("<f8").tobytes())
        if len(self._different) < LEAST:
            every = np.concatenate([self._different, rows])
            self._different = np.unique(every, axis=0)[:LEAST]

    def names(self, targets: Sequence[str]) -> list[str]:
        """A name for each target beside these rows; none where too few of them differ."""
        if len(self._different) < LEAST:
            return []
        rows = self._digest.hexdigest()
        facts = [json.dumps([target, self.features, rows]) for target in targets]
        return ["t" + hashlib.sha256(fact.encode()).hexdigest()[:32] for fact in facts]


def measure_of(plan: Terms) -> str:
    """In what the level of a release counts: the name of a part of the key of its entry."""
    columns = [[one.transform, None, one.scale] for one in plan.columns]  # as it was
    several = [one.target for one in plan.columns] if len(plan.columns) > 1 else None
    person = plan.spec.person
    whose = None if person is None else [person.column, person.design]
    text = json.dumps([columns, several, whose])
    return "m" + hashlib.sha256(text.encode()).hexdigest()[:16]


def release_cost(plan: Terms) -> Cost:
    """What a release under these terms shows of one reading, or of one person."""
    if len(plan.columns) > 1:
        return _record_cost(plan.columns)
    if plan.spec.person is not None:
        return _person_cost(plan.column)
    column = plan.column
    law = column.coin if column.law == "coin" else column.law
    return cost_of(plan.level, move=plan.move, law=law)


def account_name(spec: Spec) -> str:
    """Whose readings these are, where nobody says it: the target and the name of the data."""
    return f"{', '.join(spec.targets)} of {Path(spec.data).name}"


def _record_cost(columns: Sequence[Column]) -> Cost:
    """Of a record with several private columns: its budget, and μ² where moves are known."""
    information, moves = record_information(columns), [column.counted_move for column in columns]
    if None in moves:
        return Cost(information)
    move = record_move(columns)
    levels = PrivacyLevel([column.level for column in columns])
    return replace(cost_of(levels, move=move), information=information)


def _person_cost(column: Column) -> Cost:
    """What a release shows of a whole person: an index of its entry is a person, not a row."""
    assert column.person is not None
    if column.counted_move is None:
        return Cost(column.level)
    said = column.person.statement(
        column.level, column.counted_move, column.delta or DELTA, column.limits
    )
    mu2 = said.squared_steps * Fraction(GRID) ** 2
    return Cost(column.level, mu2=mu2, rho=said.rho, move=said.about)
