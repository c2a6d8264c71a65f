"""Ways to get more out of the door than was charged, or a document that nobody released.

Each was tried against the prototype of the core, or is a new check of it; none may work.
"""

import copy
import hashlib
import json
import pickle
from fractions import Fraction

import numpy as np
import pytest

from privest import vault
from privest.errors import BudgetExceeded, InvalidInput, LedgerError
from privest.mechanism.simulated import simulate
from privest.vault import door, maps
from privest.vault.cost import Budget, Cost

SOURCE = {"table": "stamp 1", "column": "y"}
RANGE = vault.Range(0, 400, -2)
LAW = vault.RoundedNormal((2**20,))
FINE = vault.RoundedNormal((2**50,))
Y = np.array([1.5, 80.0, -3.0, 44.25])
WEIGHTS = np.array([[900, 1], [1000, -30], [7, 7], [512, 64]])
PROMISE = {"epsilon": "30", "delta": "1e-6", "neighbours": {"kind": "one value"}}


def book_in(folder, budget=None, name="ledger.db"):
    book = vault.Book(folder / name, marks=folder / "marks")
    with book.writing():
        book.set_budget("people", Budget(budget or {}))
    book.advance()
    return book


@pytest.fixture
def book(tmp_path):
    with book_in(tmp_path) as made:
        yield made


def sums(weights=WEIGHTS):
    return vault.Sums(weights, norm2=2**21)


def leave(book, y=Y, *, map=None, law=LAW, range=RANGE, line="sums", source=SOURCE, **more):
    private = vault.sealed(y, source=source)
    more = {"subject": "people", "asked": "a5"} | more
    map = sums() if map is None else map
    return vault.leave(private, map=map, law=law, range=range, book=book, line=line, **more)


def reserve(times=1):
    cost = vault.cost_of(sums().facts, LAW, RANGE)
    return Cost({unit: amount * times for unit, amount in cost.amounts.items()})


def squares(first=None):
    return vault.Squares(np.full((4, 1), 3), np.full(4, 200), first or sums())


def sealed(book, *seqs):
    return vault.seal(book, seqs, {"promise": PROMISE})


# --- the token ------------------------------------------------------------------------------------


LOOKS = {
    "repr": repr, "str": str, "format": "{}".format, "vars": vars,
    "array": lambda p: np.array(p), "asarray": lambda p: np.asarray(p, dtype=float),
    "float": float, "list": list, "index": lambda p: p[0], "slice": lambda p: p[:1],
    "in": lambda p: 1.5 in p, "less": lambda p: p < 100, "sorted": lambda p: sorted([p, p]),
    "copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": pickle.dumps, "sum": sum, "add": np.sum,
    "json": json.dumps, "bytes": bytes, "memory": memoryview, "dir": dir,
}  # fmt: skip


@pytest.mark.parametrize("look", LOOKS)
def test_a_token_shows_nothing(look):
    private = vault.sealed([1.5, 80.0], source=SOURCE)
    try:
        seen = LOOKS[look](private)
    except (TypeError, AttributeError):
        return
    assert "80" not in repr(seen)
    assert "1.5" not in repr(seen)


def test_a_token_is_not_the_array_that_was_given():
    y = np.array([1.0, 2.0])
    private = vault.sealed(y, source=SOURCE)
    y[0] = 99.0
    assert door.opened(private).tolist() == [1.0, 2.0]
    assert len(private) == 2


@pytest.mark.parametrize("given", [Y, [1.0], object()])
def test_only_tokens_leave(book, given):
    with pytest.raises(InvalidInput, match="only private values"):
        vault.leave(
            given, map=sums(), law=LAW, range=RANGE, book=book, subject="people", line="y",
            asked="a",
        )  # fmt: skip


def test_missing_values_are_refused():
    with pytest.raises(InvalidInput, match="NaN"):
        vault.sealed([1.0, np.nan], source=SOURCE)


# --- more than was charged ------------------------------------------------------------------------


class Louder(vault.Sums):
    """A map that shows more than it says."""

    def shown(self, k, range, words):
        return [1000 * total for total in super().shown(k, range, words)]


class Quieter(vault.RoundedNormal):
    """A law that draws less than it says."""

    def drawn(self, count):
        return [0] * count


def test_maps_and_laws_of_others_are_refused(book):
    with pytest.raises(InvalidInput, match="maps of this package"):
        leave(book, map=Louder(WEIGHTS, norm2=2**21))
    with pytest.raises(InvalidInput, match="laws of this package"):
        leave(book, law=Quieter((2**20,)))


def test_a_second_release_of_the_same_values_is_the_first(book):
    first = leave(book)
    assert leave(book).integers == first.integers
    for changed in ({"asked": "b6"}, {"start": 1}):
        with pytest.raises(InvalidInput, match="entry 3"):
            leave(book, **changed)
    assert book.head.seq == 3


def test_a_release_that_was_asked_for_again_keeps_its_law(book):
    """The entry's map and law hold: another machine may have rounded them otherwise."""
    first = leave(book)
    again = leave(book, law=vault.RoundedNormal((2**10,)))
    assert again == first
    assert again.body["law"] == LAW.said()


def test_a_reserve_is_used_once(book):
    first = leave(book, reserve=reserve())
    second = leave(book, map=squares(), law=FINE, line="squares", after=first.seq)
    assert leave(book, map=squares(), law=FINE, line="squares", after=first.seq) == second
    for k in range(5):
        with pytest.raises(InvalidInput, match="used once"):
            leave(book, map=squares(), law=FINE, line=f"squares {k}", after=first.seq)


def test_squares_cannot_have_less_noise_than_was_paid_for(book):
    first = leave(book, reserve=reserve())
    for sigma in (2**10, 2**13, 2**16):
        with pytest.raises((BudgetExceeded, InvalidInput)):
            leave(
                book, map=squares(), law=vault.RoundedNormal((sigma,)), line="squares",
                after=first.seq,
            )  # fmt: skip
    bare = leave(book, line="sums without a reserve")
    law = vault.RoundedNormal((2**18,))
    with pytest.raises(BudgetExceeded, match="reserve"):
        leave(book, map=squares(), law=law, line="squares", after=bare.seq)


WEIGHTS_OF_ANOTHER = WEIGHTS + np.array([[0, 1], [0, 0], [0, 0], [0, 0]])
OTHER_SQUARES = {
    "another column": {"source": SOURCE | {"column": "income"}},
    "another table": {"source": SOURCE | {"table": "stamp 2"}},
    "a wider range": {"range": vault.Range(0, 500, -2)},
    "finer steps": {"range": vault.Range(0, 400, -3)},
    "closer neighbours": {"by": "1"},
    "other weights": {"map": squares(sums(WEIGHTS_OF_ANOTHER))},
    "another subject": {"subject": "others"},
    "other indices": {"start": 4},
    "a centre": {
        "range": vault.Range(0, 400, -2, within=500), "centre": np.zeros(4, dtype=int),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_SQUARES)
def test_a_reserve_is_of_these_values_and_sums(book, name):
    with book.writing():
        book.set_budget("others", Budget({}))
    book.advance()
    first = leave(book, reserve=reserve())
    more = {"map": squares(), "law": FINE, "line": "squares", "after": first.seq}
    with pytest.raises(InvalidInput, match="do not go with"):
        leave(book, **(more | OTHER_SQUARES[name]))


def test_another_centre_of_squares_is_refused(book):
    """Sums could see values far apart where squares see them clipped."""
    span = vault.Range(0, 400, -2, within=100)
    first = leave(book, range=span, centre=[0, 0, 0, 0], reserve=reserve())
    more = {"map": squares(), "law": FINE, "line": "squares", "after": first.seq, "range": span}
    with pytest.raises(InvalidInput, match="do not go with"):
        leave(book, centre=[9, 0, 0, 0], **more)
    assert leave(book, centre=[0, 0, 0, 0], **more).body["of"] == first.seq


def test_a_reserve_is_of_this_ledger_and_of_sums(book, tmp_path):
    """`after` is a number of an entry here: no object of the caller's is believed."""
    with book_in(tmp_path, name="other.db") as other:
        leave(other, reserve=reserve())
        theirs = leave(other, line="more", reserve=reserve())
    rows = leave(book, map=vault.Rows([1] * 4), law=vault.RoundedNormal((1024,)), line="rows")
    more = {"map": squares(), "law": FINE, "line": "squares"}
    for seq in (rows.seq, 1):
        with pytest.raises(InvalidInput, match="not a release of sums"):
            leave(book, after=seq, **more)
    assert theirs.seq == 4
    with pytest.raises(LedgerError, match="no entry 4"):
        leave(book, after=theirs.seq, **more)
    made_up = door.Left((1, 2), 3, "00" * 32, b"{}")
    with pytest.raises((TypeError, LedgerError, InvalidInput)):
        leave(book, after=made_up, **more)


def test_squares_need_their_sums_and_sums_no_entry(book):
    with pytest.raises(InvalidInput, match="complete an entry"):
        leave(book, map=squares(), law=FINE)
    first = leave(book, reserve=reserve())
    with pytest.raises(InvalidInput, match="complete an entry"):
        leave(book, line="again", after=first.seq)


BUDGETS = {
    "information": {"information": Fraction(1, 1000)},
    "mu2": {"mu2": Fraction(1, 10)},
    "rho": {"rho": Fraction(1, 20)},
    "epsilon": {"epsilon": Fraction(1)},  # Gaussian noise bounds no pure ε
}


@pytest.mark.parametrize("name", BUDGETS)
def test_a_budget_holds_in_every_unit_that_it_names(tmp_path, name):
    with book_in(tmp_path, BUDGETS[name]) as book:
        with pytest.raises(BudgetExceeded):
            leave(book, law=vault.RoundedNormal((2**16,)))
        assert book.head.seq == 2
        pure = leave(
            book, map=vault.Levels(2, 4), law=vault.WrongLevel(2**63 - 2**50, 2),
            range=vault.Range(0, 1, 6), line="bits",
        )  # fmt: skip
        spent = book.spent("people").peak.amounts
        assert all(spent[unit] <= limit for unit, limit in BUDGETS[name].items())
        assert spent["epsilon"] > 0 if "epsilon" in BUDGETS[name] else pure.seq == 3


def test_bits_leave_a_budget_in_every_unit(tmp_path):
    """In the prototype bits left a budget of 0."""
    with book_in(tmp_path, {"mu2": Fraction(0)}) as book, pytest.raises(BudgetExceeded):
        leave(book, map=vault.Levels(2, 4), law=vault.WrongLevel(2**62, 2))


def test_two_spellings_of_a_subject_are_not_two_budgets(book):
    for subject in ("cafe\u0301", " people", "people\n", "", "x" * 201):
        with pytest.raises(InvalidInput):
            leave(book, subject=subject)
    with pytest.raises(InvalidInput):
        leave(book, line="sums ")


def test_a_line_that_looks_back_keeps_its_weights(book):
    first = vault.Lagged([700, -300], [True] * 4)
    leave(book, map=first, line="stream")
    other = vault.Lagged([300, 700], [True] * 3, past=1)
    with pytest.raises(InvalidInput, match="other weights"):
        leave(book, Y[:3], map=other, line="stream", start=4)
    same = vault.Lagged([700, -300], [True] * 3, past=1)
    for changed in ({"law": FINE}, {"range": vault.Range(0, 800, -2)}, {"by": "1"}):
        with pytest.raises(InvalidInput, match="other weights"):
            leave(book, Y[:3], map=same, line="stream", start=4, **changed)
    with pytest.raises(InvalidInput, match="was not charged"):
        leave(book, Y[:3], map=same, line="stream", start=9)
    with pytest.raises(InvalidInput, match="was not charged"):
        leave(book, Y[:3], map=same, line="stream that is new", start=4)
    assert leave(book, Y[:3], map=same, line="stream", start=4).body["stop"] == 6


# --- old copies -----------------------------------------------------------------------------------


def test_an_old_copy_or_a_deleted_mark_releases_nothing(book, tmp_path):
    before = book.path.read_bytes()
    leave(book)
    book.close()
    book.path.write_bytes(before)
    with vault.Book(book.path, marks=tmp_path / "marks") as old, pytest.raises(LedgerError):
        leave(old)
    for path in (tmp_path / "marks").rglob("*"):
        if path.is_file():
            path.unlink()
    with vault.Book(book.path, marks=tmp_path / "marks") as old, pytest.raises(LedgerError):
        leave(old)


# --- documents ------------------------------------------------------------------------------------


def test_a_simulation_is_never_sealed(book):
    rng = np.random.default_rng(0)
    simulated = simulate(Y, rng, map=sums(), law=LAW, range=RANGE)
    assert len(simulated.integers) == 2
    with pytest.raises(InvalidInput, match="numbers"):
        vault.seal(book, [simulated], {})
    with pytest.raises(TypeError, match="leave"):
        simulate(vault.sealed(Y, source=SOURCE), rng, map=sums(), law=LAW, range=RANGE)


@pytest.mark.parametrize("name", door.RESERVED)
def test_what_the_seal_writes_is_not_overridden(book, name):
    left = leave(book)
    with pytest.raises(InvalidInput, match="itself"):
        vault.seal(book, [left.seq], {"promise": PROMISE, name: "mine"})


def test_only_releases_are_sealed(book):
    for seqs in ([1], [2], [], [True], ["3"]):
        with pytest.raises(InvalidInput):
            vault.seal(book, seqs, {})


def changed_at(data, k):
    return data[: k // 8] + bytes([data[k // 8] ^ 1 << k % 8]) + data[k // 8 + 1 :]


def test_no_changed_bit_is_verified(book):
    data = sealed(book, leave(book).seq)
    assert vault.verify(data, book).charged
    rng = np.random.default_rng(0)
    for k in rng.choice(8 * len(data), 1500, replace=False):
        with pytest.raises(InvalidInput):
            vault.verify(changed_at(data, int(k)), book)


ADDED = {
    "a member behind the seal": lambda d: d[:-2] + b', "estimates": ["666"]}\n',
    "a member before all": lambda d: b'{"plan": 1,' + d[1:],
    "a second seal": lambda d: d[:-2] + b', "seal": {"hmac": "' + b"0" * 64 + b'"}}\n',
    "a repeated member": lambda d: d.replace(b'"needs": []', b'"needs": [],\n "needs": []', 1),
    "a space at the end": lambda d: d + b" ",
    "no line end": lambda d: d[:-1],
    "a byte order mark": lambda d: "\ufeff".encode() + d,
    "capitals in the signature": lambda d: d[:-70] + d[-70:].upper(),
    "another order": lambda d: d.replace(b'"rho"', b'"rh\\u006f"'),
    "a number of JSON": lambda d: d.replace(b'"version": "2.0"', b'"version": 2.0'),
    "another major version": lambda d: d.replace(b'"version": "2.0"', b'"version": "3.0"'),
    "a simulation": lambda d: d.replace(b'"simulated": false', b'"simulated": true'),
    "nothing": lambda d: b"",
    "a list": lambda d: b"[" * 40 + b"]" * 40,
}


@pytest.mark.parametrize("name", ADDED)
def test_nothing_that_is_added_is_verified(book, name):
    data = sealed(book, leave(book).seq)
    with pytest.raises(InvalidInput):
        vault.verify(ADDED[name](data), book)


def forged(book, data, change):
    """Signed by the key of the ledger, as a thief of the ledger could."""
    document = json.loads(data)
    change(document)
    seal = document.pop("seal")
    del seal["hmac"]
    signed = door.unsealed(document, seal)
    return door.sealed_with(signed, book.sign(door.PURPOSE + signed)[1])


def lower(document):
    document["left"][0]["cost"]["mu2"] = "0.0001"


def quieter(document):
    document["left"][0]["law"]["sigma"] = ["99999999"]


def promised(document):
    document["promise"] |= {"epsilon": "0.1"}


def about_persons(document):
    document["promise"]["neighbours"] = {"kind": "one person"}


def without_squares(document):
    del document["left"][1]
    del document["seal"]["entries"][1]


def without_sums(document):
    del document["left"][0]
    del document["seal"]["entries"][0]


def another_entry(document):
    document["seal"]["entries"][0]["hash"] = "00" * 32


def first_entry(document):
    document["seal"]["entries"][0]["seq"] = 1


FORGED = {
    "a lower cost": (lower, "something else"),
    "more noise than was drawn": (quieter, "something else"),
    "a smaller epsilon": (promised, "more than the promised"),
    "other neighbours": (about_persons, "other neighbours"),
    "squares without their sums": (without_sums, "does not name"),
    "another entry": (another_entry, "not the one"),
    "the first entry": (first_entry, "not the one"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_thief_of_the_key_must_agree_with_the_ledger(book, name):
    first = leave(book, reserve=reserve())
    second = leave(book, map=squares(), law=FINE, line="squares", after=first.seq)
    data = sealed(book, first.seq, second.seq)
    assert vault.verify(forged(book, data, lambda document: None), book).charged
    change, said = FORGED[name]
    with pytest.raises(InvalidInput, match=said):
        vault.verify(forged(book, data, change), book)
    # The sums alone are a release too.
    assert vault.verify(forged(book, data, without_squares), book).entries == (first.seq,)


def test_costs_are_checked_without_a_ledger(book):
    data = sealed(book, leave(book).seq)
    assert not vault.verify(data).charged
    with pytest.raises(InvalidInput, match="costs more mu2"):
        vault.verify(forged(book, data, lower))


def test_a_document_of_another_ledger_is_refused(book, tmp_path):
    data = sealed(book, leave(book).seq)
    with book_in(tmp_path, name="other.db") as other, pytest.raises(InvalidInput, match="another"):
        vault.verify(data, other)


NUMBERS = ("1_000", "١", "1/3", "nan", "inf", "-1", "0x10", "1e1000000", " 1", "1e+3", "-0", "+1")


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_are_read_in_one_way(book, text):
    data = sealed(book, leave(book).seq)
    for place in ("cost", "promise"):

        def change(document, place=place):
            target = document["left"][0]["cost"] if place == "cost" else document["promise"]
            target["mu2" if place == "cost" else "epsilon"] = text

        with pytest.raises(InvalidInput):
            vault.verify(forged(book, data, change))


def test_documents_of_later_minor_versions_are_read(book):
    data = sealed(book, leave(book).seq)

    def later(document):
        document |= {"version": "2.7", "needs": ["tides"], "moon": {"phase": "full"}}

    verified = vault.verify(forged(book, data, later), book)
    assert (verified.needs, verified.more) == (("tides",), ("moon",))


def test_a_table_is_the_one_that_was_released(book):
    table = b"z\n1\n2\n"
    left = leave(book)
    members = {"bytes": len(table), "sha256": hashlib.sha256(table).hexdigest(), "name": "z.csv"}
    data = vault.seal(book, [left.seq], {"promise": PROMISE, "table": members})
    assert vault.verify(data, book, table=table).charged
    for wrong in (b"", table + b"3\n", table.replace(b"2", b"3")):
        with pytest.raises(InvalidInput, match="table"):
            vault.verify(data, book, table=wrong)


def test_published_integers_are_those_that_left(book):
    left = leave(book)
    texts = [[str(z) for z in left.integers]]
    for stated, good in ((texts, True), ([["1", *texts[0][1:]]], False), ([], False)):
        members = {"promise": PROMISE, "published": {"integers": stated}}
        data = vault.seal(book, [left.seq], members)
        if good:
            assert vault.verify(data, book).charged
        else:
            with pytest.raises(InvalidInput, match="published"):
                vault.verify(data, book)


def test_a_file_of_another_release_is_not_written_over(book, tmp_path):
    one, other = sealed(book, leave(book).seq), sealed(book, leave(book, line="more").seq)
    path = tmp_path / "release.json"
    vault.publish(book, one, path)
    vault.publish(book, one, path)
    with pytest.raises(InvalidInput, match="exists"):
        vault.publish(book, other, path)
    assert path.read_bytes() == one
    path.write_text("{}")
    with pytest.raises(InvalidInput):
        vault.publish(book, one, path)


def test_sigma_of_a_document_may_be_large_and_nothing_is_slow(book):
    """Numbers of a file are bounded before anything is computed with them."""
    data = sealed(book, leave(book).seq)

    def huge(document):
        document["left"][0]["law"]["sigma"] = ["9" * 399]

    with pytest.raises(InvalidInput):
        vault.verify(forged(book, data, huge))
    assert maps.LARGEST_NOISE < 10**399


def test_what_left_is_found_again_without_the_values(book):
    """A device whose value is gone sends what the ledger fixed; another plan is refused."""
    left = leave(book)
    assert vault.left_before(book, "people", "sums", 0, 4, "a5") == left
    assert vault.left_before(book, "people", "sums", 4, 8, "a5") is None
    with pytest.raises(InvalidInput, match="otherwise"):
        vault.left_before(book, "people", "sums", 0, 4, "b6")
