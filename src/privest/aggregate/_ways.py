"""How sums leave: by a simulation of plain values, or through the door of `vault`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from privest import vault
from privest.arrays import Array
from privest.errors import InvalidInput
from privest.files import require_disk
from privest.mechanism.simulated import simulate
from privest.mechanism.source import Generated, Source
from privest.vault.cost import Cost
from privest.vault.maps import Map, law_of, released
from privest.vault.noise import Integers, os_words

Values = Array | vault.Private


@dataclass(frozen=True, eq=False)
class Asked:
    """One release, all of it public: `what` is its name in a ledger, the rest as `vault.leave`."""

    what: str
    map: Map
    law: vault.RoundedNormal
    range: vault.Range
    centre: Integers | None = None
    reserve: Cost | None = None


@dataclass(frozen=True)
class LeftSums:
    """Whole numbers that left, with the noise and the range of their entry."""

    integers: tuple[int, ...]
    law: vault.RoundedNormal
    range: vault.Range


@runtime_checkable
class Way(Protocol):
    """Sums of a table leave by it, and then their squares."""

    def leave(self, values: Values, asked: Asked) -> LeftSums: ...


@dataclass(frozen=True, eq=False)
class SimulatedWay:
    """Plain values and a generator: no protection, and nothing is charged."""

    rng: np.random.Generator

    def leave(self, values: Values, asked: Asked) -> LeftSums:
        plain = np.asarray(values)  # sealed values refuse this
        law, range = asked.law, asked.range
        made = simulate(plain, self.rng, map=asked.map, law=law, range=range, centre=asked.centre)
        return LeftSums(_whole(made.integers), law, range)


@dataclass(frozen=True, eq=False)
class ChargedWay:
    """Sealed values through the door: every release is an entry of a ledger.

    line     of what is released, as "y": its sums are "sums of y".
    plan     hash of what was planned: a run that was killed is finished by the same plan.
    by       neighbours are values at most so far apart (a text); None: anywhere.
    entries  numbers of the entries so far; squares complete the last one.
    """

    book: vault.Book
    subject: str
    line: str
    plan: str
    by: str | None = None
    tags: Sequence[str] = ()
    entries: list[int] = field(default_factory=list)

    def leave(self, values: Values, asked: Asked) -> LeftSums:
        if not isinstance(values, vault.Private):
            raise InvalidInput("a release takes sealed values; a simulation takes plain ones.")
        completes = isinstance(asked.map, vault.Squares | vault.PersonSquares)
        left = vault.leave(
            values, map=asked.map, law=asked.law, range=asked.range, centre=asked.centre,
            book=self.book, subject=self.subject, line=f"{asked.what} of {self.line}",
            asked=self.plan, by=self.by, after=self.entries[-1] if completes else None,
            reserve=asked.reserve, tags=() if self.entries else self.tags,
        )  # fmt: skip
        self.entries.append(left.seq)
        # Of the entry: another machine may have drawn it, with other digits of the law.
        law = law_of(left.body["law"])
        assert isinstance(law, vault.RoundedNormal)
        return LeftSums(_whole(left.integers), law, vault.Range.read(left.body["range"]))


@dataclass(frozen=True, eq=False)
class ProtectedWay:
    """Noise of the operating system, for plain values that a ledger of format 1 charges.

    It goes with that format: `ChargedWay` takes its place.
    """

    def leave(self, values: Values, asked: Asked) -> LeftSums:
        require_disk()
        drawn = asked.law.drawn(asked.map.facts.numbers)  # before a value is read
        plain = np.asarray(values, dtype=float)
        words = os_words(len(plain))
        k = vault.on_grid(plain, asked.range, words, centre=asked.centre)
        integers = released(asked.law, asked.map.shown(k, asked.range, words), drawn)
        assert not isinstance(integers, np.ndarray)
        return LeftSums(_whole(integers), asked.law, asked.range)


def as_way(source: Way | Source) -> Way:
    """A way itself; for a source of noise the one that stands for it."""
    if isinstance(source, Way):
        return source
    if isinstance(source, Generated):
        return SimulatedWay(source.rng)
    if source.simulated:
        raise InvalidInput("sums are simulated by a generator, and by no other source.")
    return ProtectedWay()


def _whole(integers: Sequence[int] | Integers) -> tuple[int, ...]:
    return tuple(int(number) for number in integers)
