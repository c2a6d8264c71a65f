r"""Lines of a stream release, version 2.0: a first line of public facts, then a line per step.

    {"format": "privest stream release", "version": "2.0", …, "hash": "5b1c…"}
    {"step": 0, "z": 1812, "entry": 12, "hash": "90aa…", "hmac": "77e0…"}
    {"step": 1, "z": null, "hash": "1d02…"}

    hash_k = SHA-256(hash_{k−1} ‖ the line up to `, "hash"`) ,   hash_{−1} = the empty text
    hmac   = HMAC(key, "privest stream 2\n" ‖ hash_k) ,          on the last line of every entry

The ledger says what left: lines that a crash took away are made again from it, to the last byte.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from privest.errors import InvalidInput
from privest.vault.ledger import Book, Entry
from privest.vault.record import LARGEST_INTEGER, canonical, parse, require_version

FORMAT = "privest stream release"
PURPOSE = b"privest stream 2\n"
LINE = re.compile(rb'(\{.*), "hash": "([0-9a-f]{64})"(?:, "hmac": "([0-9a-f]{64})")?\}\n')


@dataclass(frozen=True)
class Stream:
    """A file of lines, as far as its hashes show.

    size    bytes of whole lines; what follows is a line that was being written.
    steps   lines of steps 0, 1, …
    signed  steps up to the last signature; of `check` with a ledger, up to the last good one.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    hash: str = ""
    steps: int = 0
    signed: int = 0
    size: int = 0


def first_line(facts: Mapping[str, Any]) -> bytes:
    """The line of public facts: noise, range, whole weights, names, the account that pays."""
    head = {"format": FORMAT, "version": "2.0", "needs": []}
    return _linked({**head, **facts}, "")[0]


def lines_after(stream: Stream, book: Book) -> bytes:
    """The lines of all that left after the last line, from the ledger; a retired step is null."""
    account = stream.facts["ledger"]
    names = account["subject"], account["line"]
    end = book.next_index(*names)
    text = b""
    while stream.steps < end:
        entry = book.look_up(*names, stream.steps, end)
        first = end if entry is None else max(entry.body["start"], stream.steps)
        for step in range(stream.steps, first):
            line, digest = _linked({"step": step, "z": None}, stream.hash)
            text += line
            stream = replace(stream, hash=digest, steps=step + 1)
        if entry is not None:
            lines, digest = _entry_lines(entry, stream, book)
            text += lines
            stream = replace(stream, hash=digest, steps=entry.body["stop"])
    return text


def _entry_lines(entry: Entry, stream: Stream, book: Book) -> tuple[bytes, str]:
    body = entry.body
    text = b""
    digest = stream.hash
    values = released(entry, book, len(stream.facts["readings"]))
    for step in range(stream.steps, body["stop"]):
        record = {"step": step, "z": values[step - body["start"]], "entry": entry.seq}
        line, digest = _linked(record, digest)
        text += line
    _, signature = book.sign(PURPOSE + digest.encode())
    return text.removesuffix(b"}\n") + f', "hmac": "{signature}"}}\n'.encode(), digest


def released(entry: Entry, book: Book, width: int) -> list[Any]:
    """z of every step of an entry: a whole number, a list of `width`, or None where it is missing.

    `note` of the entry has the missing steps, which are public, and have no numbers.
    """
    body = entry.body
    numbers = [_spelled(int(number)) for number in book.numbers(entry.seq)]
    missing = set((body.get("note") or {}).get("missing", ()))
    values: list[Any] = []
    for step in range(body["start"], body["stop"]):
        if step in missing:
            values.append(None)
            continue
        cells = numbers[:width]
        del numbers[:width]
        values.append(cells[0] if width == 1 else cells)
    return values


def _spelled(number: int) -> int | str:
    """As JSON has it: an integer, or a text beyond 2^53."""
    return number if abs(number) <= LARGEST_INTEGER else str(number)


def _linked(record: Mapping[str, Any], previous: str) -> tuple[bytes, str]:
    canonical(dict(record))  # refuses floats and large integers
    text = json.dumps(record, ensure_ascii=False).removesuffix("}").encode()
    digest = hashlib.sha256(previous.encode() + text).hexdigest()
    return text + f', "hash": "{digest}"}}\n'.encode(), digest


def check(data: bytes, book: Book | None = None) -> Stream:
    """Go through the lines of a file, and compare them with a ledger.

    Raises InvalidInput, naming the line, for what was changed, left out or put in.
    """
    stream = Stream()
    known: dict[int, list[Any]] = {}  # z of the entry of the line before
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            stream = _next(stream, line + b"\n", book, known)
        except (InvalidInput, KeyError, TypeError) as error:
            raise InvalidInput(f"line {number}: {error}") from None
    if not stream.facts:
        raise InvalidInput("this is not a release of a stream: it has no first line of facts.")
    return stream


def _next(stream: Stream, line: bytes, book: Book | None, known: dict[int, list[Any]]) -> Stream:
    match = LINE.fullmatch(line)
    good = match and hashlib.sha256(stream.hash.encode() + match[1]).hexdigest().encode()
    if match is None or good != match[2]:
        raise InvalidInput("it, or a line before it, was changed, left out or put in.")
    record = parse(line)
    stream = replace(stream, hash=match[2].decode(), size=stream.size + len(line))
    if not stream.facts:
        if record.get("format") != FORMAT:
            raise InvalidInput("the first line has the facts of the stream.")
        require_version(record, "this stream")
        if book is not None and record["ledger"]["id"] != book.id:
            raise InvalidInput("the stream is of another ledger.")
        return replace(stream, facts=record)
    if record["step"] != stream.steps:
        raise InvalidInput("it is not the next step of this stream.")
    stream = replace(stream, steps=stream.steps + 1)
    if book is not None and record.get("entry") is not None:
        _require_released(stream.facts, record, book, known)
    if match[3] is None:
        return stream
    if book is not None:
        book.require_signature(PURPOSE + match[2], None, match[3].decode())
    return replace(stream, signed=stream.steps)


def _require_released(
    facts: Mapping[str, Any], record: Mapping[str, Any], book: Book, known: dict[int, list[Any]]
) -> None:
    entry = book.entry(record["entry"])
    body = entry.body
    account = facts["ledger"]
    named = [body.get("subject"), body.get("line")] == [account["subject"], account["line"]]
    if not named or not body["start"] <= record["step"] < body["stop"]:
        raise InvalidInput(f"entry {entry.seq} of the ledger is not of this step.")
    if entry.seq not in known:
        known.clear()
        known[entry.seq] = released(entry, book, len(facts["readings"]))
    if known[entry.seq][record["step"] - body["start"]] != record["z"]:
        raise InvalidInput(f"z is not what entry {entry.seq} of the ledger has.")
