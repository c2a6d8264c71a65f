"""Verification: whether a document is what a ledger released, and costs no more than it says.

Texts are compared as texts, whole numbers and fractions exactly; where Φ or ln is needed, stated
numbers must not be below recomputed ones. Nothing that was planned or estimated is recomputed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privest.errors import InvalidInput
from privest.vault.cost import UNITS, Cost, delta_of
from privest.vault.door import FORMAT, PURPOSE, said
from privest.vault.ledger import Book, Entry
from privest.vault.maps import Facts, Range, RoundedNormal, cost_of, law_of
from privest.vault.record import (
    canonical,
    cost_number,
    more,
    parse,
    require_version,
    split_seal,
    unknown_needs,
)

TOLERANCE = Fraction(1, 10**9)  # for Φ and ln in doubles; a planner leaves as much
MEMBERS = (
    "format", "version", "needs", "simulated", "plan", "promise", "rows", "estimates", "published",
    "table", "left", "seal",
)  # fmt: skip
WITHOUT_LEDGER = "Who made it, and whether it was charged, only its ledger can say."


@dataclass(frozen=True)
class Verification:
    """The result of verifying a document.

    entries  numbers of its entries; `charged`: whether they are in the ledger that was given.
    needs    what a reader must know to use its numbers, and this version does not: no estimates.
    more     members of a later version: signed, and not understood.
    notes    sentences for people.
    """

    entries: tuple[int, ...]
    charged: bool
    needs: tuple[str, ...]
    more: tuple[str, ...]
    notes: tuple[str, ...]


def verify(data: bytes, book: Book | None = None, *, table: bytes | None = None) -> Verification:
    """Check the bytes of a document, with its ledger if there is one; InvalidInput names a fault.

    table  bytes of the table that a header of rows goes with.
    """
    document = parse(data)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidInput("this is not a release of privest.")
    require_version(document, "this release")
    needs = unknown_needs(document)
    if document.get("simulated") is not False:
        raise InvalidInput("this is a simulation: nothing was protected, nothing is signed.")
    try:
        return _verified(document, data, book, table, needs)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("this release lacks a member, or one has another form.") from None


def _verified(
    document: dict[str, Any], data: bytes, book: Book | None, table: bytes | None, needs: list[str]
) -> Verification:
    signed, signature = split_seal(data)
    seal = document["seal"]
    lefts: list[dict[str, Any]] = document["left"]
    seqs = [place["seq"] for place in seal["entries"]]
    if len(lefts) != len(seqs) or len(set(seqs)) != len(seqs):
        raise InvalidInput("this release does not say of each of its entries what left.")
    entries: list[Entry] = []
    if book is not None:
        if seal["ledger"] != book.id:
            raise InvalidInput("this release is of another ledger.")
        book.require_signature(PURPOSE + signed, seal["key"], signature)
        book.check()
        entries = [_entry(book, place) for place in seal["entries"]]
        for entry, left in zip(entries, lefts, strict=True):
            if canonical(said(entry)) != canonical(left):
                raise InvalidInput(f"entry {entry.seq} of the ledger released something else.")
    costs = [_cost(left, seqs) for left in lefts]
    for entry in entries:
        _require_pair(entry, entries)
    _require_promise(document["promise"], lefts, costs)
    _require_table(document.get("table"), table)
    if book is not None and "published" in document:
        _require_published(document["published"], book, seqs)
    unknown = more(document, MEMBERS)
    notes = [] if book is not None else [WITHOUT_LEDGER]
    if unknown:
        notes.append(f"Members of a later version, not understood: {', '.join(unknown)}.")
    if needs:
        notes.append(f"Its numbers cannot be used without: {', '.join(needs)}.")
    return Verification(tuple(seqs), book is not None, tuple(needs), tuple(unknown), tuple(notes))


def _entry(book: Book, place: Mapping[str, Any]) -> Entry:
    entry = book.entry(place["seq"])
    if entry.hash != place["hash"] or entry.body["kind"] != "release":
        raise InvalidInput(f"entry {place['seq']} of the ledger is not the one of this release.")
    return entry


def _cost(left: Mapping[str, Any], seqs: Sequence[int]) -> Cost:
    """The stated cost, which is at least that of the stated whole numbers."""
    stated = Cost.read(left["cost"])
    if left.get("of") is not None:
        if left["of"] not in seqs or not stated.is_nothing:
            raise InvalidInput("this release completes an entry that it does not name.")
        return stated
    law = law_of(left["law"])
    by = left["neighbours"].get("by")
    needed = cost_of(Facts.read(left["map"]), law, Range.read(left["range"]), by)
    slack = 0 if isinstance(law, RoundedNormal) else TOLERANCE
    for unit, amount in needed.amounts.items():
        if unit in stated.amounts and stated.amounts[unit] < amount * (1 - slack):
            raise InvalidInput(f"this release costs more {unit} than it says.")
    if not stated.amounts:
        raise InvalidInput("this release states no cost.")
    return stated


def _require_pair(entry: Entry, entries: Sequence[Entry]) -> None:
    """Squares and their sums were charged together."""
    of = entry.body.get("of")
    if of is None:
        return
    pair = Cost.read(entry.body["pair"])
    charged = next(Cost.read(e.body["cost"]) for e in entries if e.seq == of)
    for unit, amount in pair.amounts.items():
        if amount > charged.amounts.get(unit, amount):
            raise InvalidInput(f"entry {entry.seq} needs more {unit} than entry {of} was charged.")


def _require_promise(
    promise: Mapping[str, Any], lefts: Sequence[Mapping[str, Any]], costs: Sequence[Cost]
) -> None:
    """The promise is at least the sum of what was charged; δ(ε; μ) is at most the stated δ."""
    total = costs[0]
    for cost in costs[1:]:
        total = total + cost
    if any(left["neighbours"] != promise["neighbours"] for left in lefts):
        raise InvalidInput("the promise is about other neighbours than what was charged.")
    if "epsilon" in promise:
        epsilon = cost_number(promise["epsilon"], "epsilon")
        delta = cost_number(promise.get("delta", "0"), "delta")
        pure = total.amounts.get("epsilon")
        mu2 = total.amounts.get("mu2")
        holds = pure is not None and pure <= epsilon * (1 + TOLERANCE)
        if not holds and delta and mu2 is not None:
            holds = Fraction(delta_of(epsilon, mu2)) <= delta * (1 + TOLERANCE)
        if not holds:
            raise InvalidInput("what was released costs more than the promised epsilon and delta.")
    stated = [unit for unit in UNITS if unit in promise and unit != "epsilon"]
    for unit in stated:
        if total.amounts.get(unit, Fraction(-1)) > cost_number(promise[unit], unit):
            raise InvalidInput(f"what was released costs more {unit} than promised.")
        if unit not in total.amounts:
            raise InvalidInput(f"the {unit} of what was released is not bounded.")
    if not stated and "epsilon" not in promise:
        raise InvalidInput("this release promises nothing.")


def _require_table(stated: Mapping[str, Any] | None, table: bytes | None) -> None:
    if table is None:
        return
    if stated is None:
        raise InvalidInput("this release has no table beside it.")
    if len(table) != stated["bytes"] or hashlib.sha256(table).hexdigest() != stated["sha256"]:
        raise InvalidInput("the table is not the one that was released: it was changed.")


def _require_published(published: Mapping[str, Any], book: Book, seqs: Sequence[int]) -> None:
    """Published integers are those of the ledger."""
    stated = published["integers"]
    released = [[str(int(number)) for number in book.numbers(seq)] for seq in seqs]
    if stated != released:
        raise InvalidInput("the published integers are not those that were released.")
