"""Lines of a stream: made from the ledger, checked one by one, taken up where a crash cut them."""

import json

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.vault import streams
from privest.vault.cost import Budget
from privest.vault.ledger import Book


def step_entry(book, start, rows, missing=()):
    note = {"missing": list(missing)} if missing else {}
    body = {"kind": "release", "subject": "meter", "line": "", "note": note, "start": start}
    with book.writing():
        book.append(body | {"stop": start + len(rows) + len(missing)}, np.array(rows))
    book.advance()


@pytest.fixture
def book(tmp_path):
    with Book(tmp_path / "ledger.db", marks=tmp_path / "marks") as made:
        with made.writing():
            made.set_budget("meter", Budget({}))
        made.advance()
        yield made


def facts(book, readings=("kWh",)):
    ledger = {"id": book.id, "subject": "meter", "line": ""}
    return {"simulated": False, "weights": [[724]], "readings": list(readings), "ledger": ledger}


def whole(book):
    first = streams.first_line(facts(book))
    return first + streams.lines_after(streams.check(first), book)


def test_lines_are_what_the_ledger_has(book):
    step_entry(book, 0, [5, -6, 7], missing=[1])
    step_entry(book, 4, [2**60])
    lines = [json.loads(line) for line in whole(book).splitlines()]
    assert [line.get("z") for line in lines[1:]] == [5, None, -6, 7, "1152921504606846976"]
    assert [("hmac" in line) for line in lines] == [False, False, False, False, True, True]
    found = streams.check(whole(book), book)
    assert (found.steps, found.signed, found.facts["readings"]) == (5, 5, ["kWh"])


def test_several_readings_of_a_step(book):
    step_entry(book, 0, [1, 2])
    body = {"kind": "release", "subject": "meter", "line": "two", "start": 0, "stop": 2}
    with book.writing():
        book.append(body, np.array([1, 2, 3, 4]))
    named = facts(book, ["kWh", "V"])
    named["ledger"]["line"] = "two"
    first = streams.first_line(named)
    lines = streams.lines_after(streams.check(first), book).splitlines()
    assert [json.loads(line)["z"] for line in lines] == [[1, 2], [3, 4]]


def test_a_file_that_was_cut_anywhere_goes_on_to_the_same_bytes(book):
    step_entry(book, 0, [1, 2, 3], missing=[0])
    step_entry(book, 4, [5, 6])
    data = whole(book)
    first = data.index(b"\n") + 1
    for cut in range(first, len(data) + 1):
        stream = streams.check(data[:cut], book)
        assert data[: stream.size] + streams.lines_after(stream, book) == data
        assert stream.size <= cut < stream.size + len(data)


def test_retired_steps_are_missing(book):
    step_entry(book, 0, [1])
    with book.writing():
        book.retire("meter", 3)
    step_entry(book, 3, [4])
    lines = [json.loads(line)["z"] for line in whole(book).splitlines()[1:]]
    assert lines == [1, None, None, 4]


def test_no_changed_line_is_believed(book):
    step_entry(book, 0, [1, 2])
    step_entry(book, 2, [3])
    lines = whole(book).splitlines(keepends=True)
    swapped = [lines[0], lines[2], lines[1], *lines[3:]]
    for changed in (
        lines[1:],
        swapped,
        [*lines[:2], *lines[3:]],
        [*lines, lines[-1]],
        [lines[0]] * 2,
    ):
        with pytest.raises(InvalidInput, match="line "):
            streams.check(b"".join(changed), book)
    data = b"".join(lines)
    for bit in range(8 * (len(data) - 1)):  # the last end of line is not there: a torn line
        text = bytearray(data)
        text[bit // 8] ^= 1 << bit % 8
        try:
            found = streams.check(bytes(text), book)
        except InvalidInput:
            continue
        assert found.steps < 3  # cut by an end of line within a line: then less is signed


def test_lines_that_the_ledger_does_not_know(book, tmp_path):
    step_entry(book, 0, [1, 2])
    data = whole(book)
    other = Book(tmp_path / "other.db", marks=tmp_path / "marks")
    with other, pytest.raises(InvalidInput, match="another ledger"):
        streams.check(data, other)
    head = streams.check(data[: data.index(b"\n") + 1])
    line, _ = streams._linked({"step": 0, "z": 9, "entry": 3}, head.hash)
    with pytest.raises(InvalidInput, match="z is not"):
        streams.check(data[: head.size] + line, book)
    line, _ = streams._linked({"step": 0, "z": 1, "entry": 2}, head.hash)
    with pytest.raises(InvalidInput, match="not of this step"):
        streams.check(data[: head.size] + line, book)
