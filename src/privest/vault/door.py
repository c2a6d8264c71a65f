"""The door: every value that leaves privest leaves through `leave`, with noise and a charge.

    S0  mark, chain          S3  noise drawn, then values read, mapped, added
    S1  released before?     S4  in one transaction: S1, budget, entry and integers
    S2  within the budget?   S5  mark moved        S6  integers read from the ledger

A run that is killed before S4 ends has shown nothing; after it, the next run finds the integers.
A document is a function of entries and integers: it may be made again at any time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from privest.errors import BudgetExceeded, InvalidInput
from privest.vault.cost import Cost
from privest.vault.ledger import Book, Entry
from privest.vault.maps import (
    MAPS,
    Completing,
    DiscreteLaplace,
    Lagged,
    Law,
    Map,
    Range,
    Released,
    RoundedNormal,
    Sums,
    WrongLevel,
    cost_of,
    law_of,
    on_grid,
    released,
    whole_numbers,
)
from privest.vault.mark import write_whole
from privest.vault.noise import Integers, Unsigned, os_words
from privest.vault.private import Private, opened
from privest.vault.record import parse, require_text, sealed_with, split_seal, unsealed

FORMAT = "privest release"
VERSION = "2.0"
PURPOSE = b"privest release 2\n"  # what the signature of a document begins with
RESERVED = ("format", "version", "needs", "simulated", "left", "seal")
LAST_INDEX = 2**53 - 1
READABLE = 0o666  # a document is public; the process' mask takes rights away


@dataclass(frozen=True)
class Left:
    """What left: released integers, and number, hash and bytes of their entry. Public now."""

    integers: tuple[int, ...] | Integers
    seq: int
    hash: str
    text: bytes

    @property
    def body(self) -> dict[str, Any]:
        members: dict[str, Any] = parse(self.text)
        return members


@dataclass(frozen=True)
class _Request:
    """All that is public of a release, checked before anything is drawn."""

    count: int
    source: Mapping[str, Any]
    map: Map
    law: Law
    range: Range
    centre: Integers | None
    by: str | None
    subject: str
    line: str
    start: int
    asked: str
    note: Mapping[str, Any] | None
    after: int | None
    reserve: Cost | None

    def __post_init__(self) -> None:
        # type(…) is: a subclass could show more than it says.
        if type(self.map) not in MAPS or type(self.range) is not Range:
            raise InvalidInput("the door knows the maps of this package, and Range; no others.")
        if type(self.law) not in (RoundedNormal, DiscreteLaplace, WrongLevel):
            raise InvalidInput("the door knows the laws of this package, and no others.")
        facts = self.map.facts
        if isinstance(self.law, RoundedNormal) and len(self.law.sigma) not in (1, facts.numbers):
            raise InvalidInput("a law has one sigma for all numbers, or one each.")
        if self.count != facts.rows:
            raise InvalidInput(f"the map is for {facts.rows} values; received {self.count}.")
        if (self.centre is None) != (self.range.within is None):
            raise InvalidInput("a centre and the range's within go together.")
        if self.centre is not None and len(self.centre) != self.count:
            raise InvalidInput("every value needs its centre.")
        if isinstance(self.map, Completing) != (self.after is not None):
            raise InvalidInput("squares complete an entry of sums: state its number as after.")
        if self.after is not None and self.reserve is not None:
            raise InvalidInput("what completes an entry has no reserve.")
        if type(self.start) is not int or not 0 <= self.start <= LAST_INDEX - self.map.indices:
            raise InvalidInput("start is a whole number, at least 0.")
        require_text(self.subject, "a subject")
        require_text(self.line, "a line", empty=True)
        require_text(self.asked, "asked")
        self.map.require(self.range, self.law)

    @property
    def stop(self) -> int:
        return self.start + self.map.indices

    @property
    def neighbours(self) -> dict[str, Any]:
        kind = {"kind": "one value" if self.map.persons is None else "one person"}
        return kind if self.by is None else kind | {"by": self.by}

    @property
    def weights(self) -> Integers | None:
        """What squares are checked against: weights, and the centres beside them."""
        if type(self.map) is not Sums:
            return None
        return _with_centre(self.map.weights, self.centre)


def _with_centre(weights: Integers, centre: Integers | None) -> Integers:
    return weights if centre is None else np.column_stack([weights, centre])


def leave(
    private: Private,
    *,
    map: Map,
    law: Law,
    range: Range,
    book: Book,
    subject: str,
    line: str,
    asked: str,
    start: int = 0,
    centre: Any = None,  # noqa: ANN401 - whole numbers, as an array or a list
    by: str | None = None,
    note: Mapping[str, Any] | None = None,
    after: int | None = None,
    reserve: Cost | None = None,
    tags: Sequence[str] = (),
) -> Left:
    """Release whole numbers of private values: with noise, charged, and on disk when it returns.

    The same call again gives the same integers. Whether it is refused depends on public facts only.

    subject, line, start  what is charged: indices start, start + 1, … of a line of a subject.
    asked                 hash of what was planned: another plan for the same indices is refused.
    centre                m_i, public whole numbers: k − m is then clipped to ±range.within.
    by                    neighbours are values at most so far apart (a text); None: anywhere.
    after, reserve        sums charge a reserve for squares, which complete their entry `after`.
    """
    if type(private) is not Private:
        raise InvalidInput("only private values leave: seal them first.")
    centres = None if centre is None else whole_numbers(centre, "centres", 1)
    request = _Request(
        len(private), private.source, map, law, range, centres, by, subject, line, start, asked,
        note, after, reserve,
    )  # fmt: skip
    book.require_newest()
    entry = _released_before(book, request)
    if entry is None:
        body = _body(book, request)
        cost = Cost.read(body["cost"])
        if request.after is None:
            book.require_budget(subject, cost, start, request.stop, request.neighbours)
        drawn = law.drawn(map.facts.numbers)
        words = os_words(map.words * len(private)).reshape(map.words, len(private))
        integers = _noisy(private, request, words, drawn)
        with book.writing():
            entry = _released_before(book, request)  # another process may have been quicker
            if entry is None:
                if request.after is not None:
                    _pair_within_reserve(book, request)
                entry = book.append(body, integers, tags)
    book.advance()
    return left(book, entry.seq)


def _noisy(
    private: Private, request: _Request, words: Unsigned, drawn: Released | Unsigned
) -> Released:
    """What leaves. The only line in which values are read."""
    map, range = request.map, request.range
    k = on_grid(opened(private), range, words[0], finer=map.finer, centre=request.centre)
    return released(request.law, map.shown(k, range, words[-1]), drawn)


def left(book: Book, seq: int) -> Left:
    """What an entry released, as the ledger has it."""
    entry = book.entry(seq)
    numbers = book.numbers(seq)
    if isinstance(numbers, np.ndarray):
        numbers.setflags(write=False)
        return Left(numbers, entry.seq, entry.hash, entry.text)
    return Left(tuple(numbers), entry.seq, entry.hash, entry.text)


def left_before(
    book: Book, subject: str, line: str, start: int, stop: int, asked: str
) -> Left | None:
    """The release of some indices, if there was one: after a crash, without the values."""
    book.require_newest()
    entry = _same_release(book, subject, line, start, stop, asked, None)
    if entry is None:
        return None
    book.advance()
    return left(book, entry.seq)


def _released_before(book: Book, request: _Request) -> Entry | None:
    place = (request.subject, request.line, request.start, request.stop)
    return _same_release(book, *place, request.asked, request.after)


def _same_release(
    book: Book, subject: str, line: str, start: int, stop: int, asked: str, after: int | None
) -> Entry | None:
    entry = book.look_up(subject, line, start, stop)
    if entry is None:
        return None
    body = entry.body
    stated = [body.get(name) for name in ("kind", "start", "stop", "asked")]
    if stated == ["release", start, stop, asked] and after in (None, body.get("of")):
        return entry
    raise InvalidInput(
        f"{subject!r} {line!r}: entry {entry.seq} of the ledger released these values otherwise. "
        "Another release of them spends more: give it a line of its own, or use the first."
    )


# --- the entry ------------------------------------------------------------------------------------


def _body(book: Book, request: _Request) -> dict[str, Any]:
    """The entry, as far as it is known before its numbers."""
    weights = request.weights
    pair = None
    if request.after is None:
        cost = cost_of(request.map.facts, request.law, request.range, request.by)
        if request.reserve is not None:
            cost = cost + request.reserve
        _require_line(book, request)
    else:
        pair = _pair_within_reserve(book, request)
        cost = Cost({unit: Fraction(0) for unit in ("information", "mu2", "rho")})
    body = {
        "kind": "release",
        "subject": request.subject,
        "line": request.line,
        "start": request.start,
        "stop": request.stop,
        "asked": request.asked,
        "source": dict(request.source),
        "map": request.map.facts.said(),
        "law": request.law.said(),
        "range": request.range.said(),
        "neighbours": request.neighbours,
        "cost": cost.text(),
        "note": None if request.note is None else dict(request.note),
        "weights_mac": None if weights is None else book.weights_mac(weights),
        "of": request.after,
        "pair": None if pair is None else pair.text(),
    }
    return {name: member for name, member in body.items() if member is not None}


def _require_line(book: Book, request: _Request) -> None:
    """A line that looks back has one choice of weights, and looks back to what was charged."""
    if not isinstance(request.map, Lagged):
        return
    first = book.look_up(request.subject, request.line, 0, LAST_INDEX)
    if first is not None:
        body = first.body
        said = [request.law.said(), request.range.said(), request.neighbours]
        stated = [body["map"].get("lags"), *(body[name] for name in ("law", "range", "neighbours"))]
        if stated != [request.map.facts.said()["lags"], *said]:
            raise InvalidInput(
                f"{request.line!r} was begun with other weights, noise or range: what was charged "
                "for its values holds for these only. Give the new ones a line of their own."
            )
    for steps in request.map.earlier:
        index = request.start - steps
        if index < 0 or book.look_up(request.subject, request.line, index) is None:
            raise InvalidInput(f"value {index} is looked back to, and was not charged: leave out.")


def _pair_within_reserve(book: Book, request: _Request) -> Cost:
    """The worst pair of squares and their sums; refused unless the sums were charged for it."""
    map, after = request.map, request.after
    assert after is not None
    assert isinstance(map, Completing)
    first = book.entry(after)
    body = first.body
    if body.get("kind") != "release" or "weights_mac" not in body:
        raise InvalidInput(f"entry {after} is not a release of sums.")
    names = ("subject", "start", "stop", "neighbours", "range", "source")
    here = [request.subject, request.start, request.stop, request.neighbours]
    here += [request.range.said(), dict(request.source)]
    weights = _with_centre(map.first.weights, request.centre)
    is_same = [body.get(name) for name in names] == here
    is_same = is_same and body["map"] == map.first.facts.said()
    if not is_same or not book.has_weights(body["weights_mac"], weights):
        raise InvalidInput(
            f"these squares do not go with the sums of entry {after}: they are of other values, "
            "another range, or other weights."
        )
    completed = book.completed_by(after)
    if completed is not None and completed.body.get("line") != request.line:
        raise InvalidInput(f"the reserve of entry {after} is used up: it is used once.")
    law = law_of(body["law"])
    if not isinstance(law, RoundedNormal) or not isinstance(request.law, RoundedNormal):
        raise InvalidInput("sums and squares have Gaussian noise.")
    pair = map.pair(law, request.law, request.range, request.range.apart(request.by))
    charged = Cost.read(body["cost"])
    for unit, amount in pair.amounts.items():
        if amount > charged.amounts.get(unit, amount):
            raise BudgetExceeded(
                f"sums and squares together need more {unit} than entry {after} was charged: take "
                "more noise for the squares, or a larger reserve."
            )
    return pair


# --- documents ------------------------------------------------------------------------------------


def said(entry: Entry) -> dict[str, Any]:
    """What a document repeats of an entry; the rest could be matched against guesses."""
    body = entry.body
    names = ("map", "law", "range", "cost", "neighbours", "of")
    return {name: body[name] for name in names if name in body}


def seal(book: Book, seqs: Sequence[int], members: Mapping[str, Any]) -> bytes:
    """The bytes of a document of released entries: its members, what left, and a signature."""
    taken = [name for name in members if name in RESERVED]
    if taken:
        raise InvalidInput(f"the seal writes {', '.join(taken)} itself.")
    if not seqs or not all(type(seq) is int for seq in seqs):
        raise InvalidInput("a document is of entries of a ledger: give their numbers.")
    entries = [book.entry(seq) for seq in seqs]
    if any(entry.body.get("kind") != "release" for entry in entries):
        raise InvalidInput("a document is of releases; one of these entries is none.")
    head = {"format": FORMAT, "version": VERSION, "needs": []}
    document = {**head, **members, "simulated": False, "left": [said(entry) for entry in entries]}
    places = [{"seq": entry.seq, "hash": entry.hash} for entry in entries]
    key = book.sign(PURPOSE)[0]
    while True:  # until no new key comes between
        data = unsealed(document, {"ledger": book.id, "key": key, "entries": places})
        signed_by, signature = book.sign(PURPOSE + data)
        if signed_by == key:
            return sealed_with(data, signature)
        key = signed_by


def publish(book: Book, data: bytes, path: str | os.PathLike[str]) -> None:
    """Write a sealed document whole or not at all, never over anything but its own release."""
    target = Path(path).resolve()
    if target.exists() and sealed_entries(book, target.read_bytes()) != sealed_entries(book, data):
        raise InvalidInput(f"{target} exists, and is not this release: choose another name.")
    write_whole(target, data, READABLE)


def sealed_entries(book: Book, data: bytes) -> list[Any]:
    """The entries that a document of this ledger is sealed for."""
    signed, signature = split_seal(data)
    seal = parse(data)["seal"]
    book.require_signature(PURPOSE + signed, seal["key"], signature)
    entries: list[Any] = seal["entries"]
    return entries
