"""Documents 2.0 of sums: charged to a ledger of format 2, signed, finished after a kill."""

import json
import re
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import privest as pv
from privest import vault
from privest.errors import BudgetExceeded, InvalidInput
from privest.vault import door
from privest.vault.cost import Budget, Cost
from privest.vault.record import NUMBER
from privest.workflow.publish import number_text, publish_sums

ROWS = 60
RNG = np.random.default_rng(44)
X = RNG.standard_normal(ROWS).round(3)
GROUPS = {"g": ["a", "b", "c"]}
TABLE = {
    "x": X, "g": ["a", "b", "c"] * 20, "who": [f"p{k // 3}" for k in range(ROWS)],
    "y": np.clip(1 + X + RNG.standard_normal(ROWS), -2, 5), "u": RNG.uniform(2, 30, ROWS),
    "smokes": (RNG.random(ROWS) < 0.4).astype(float), "größe": RNG.uniform(0, 3, ROWS),
}  # fmt: skip
WITHIN = {"within": 2.0}
KINDS = {
    "squares": ({"formula": "y ~ x"}, ["sums", "squares"]),
    "none": ({"formula": "y ~ x", "epsilon": 0.2}, ["sums"]),
    "free": ({"target": "y", "by": "g", "categories": GROUPS}, ["sums", "squares"]),
    "persons": ({"formula": "y ~ x", "person": "who", "epsilon": 9.0}, ["sums", "squares"]),
    "scores": ({"formula": "smokes ~ x", "family": "binomial", "range": None}, ["sums"]),
    "exposure": ({"formula": "y ~ x", "epsilon": None, "level": 0.3}, ["sums", "squares"]),
    "accuracy": (
        {"formula": "y ~ x", "epsilon": None, "standard_error": {"x": 0.8},
         "residual_variance": 1.0}, ["sums", "squares"],
    ),
    "pilot": ({"formula": "y ~ x", "pilot": 0.2} | WITHIN, ["pilot", "sums", "squares"]),
    "expected": ({"formula": "y ~ x", "expected": {"x": 1.0}} | WITHIN, ["sums", "squares"]),
    "logarithm": ({"formula": "log(y) ~ x", "range": (0.1, 7.0)}, ["sums", "squares"]),
    "matrix": ({"formula": "y ~ x", "publish": "matrix"}, ["sums", "squares"]),
    "two columns": (
        {"formula": "y + u ~ x", "range": {"y": (-1.0, 3.0), "u": (2.0, 30.0)}},
        ["sums", "squares"] * 2,
    ),
    "letters": ({"target": "größe", "features": ["x"]}, ["sums", "squares"]),
}  # fmt: skip


@dataclass
class Account:
    book: vault.Book
    subject: str = "people"


@pytest.fixture
def account(tmp_path):
    with vault.Book(tmp_path / "ledger.db", marks=tmp_path / "marks") as book:
        with book.writing():
            book.set_budget("people", Budget({}))
        book.advance()
        yield Account(book)


def planned(kind):
    asked = {"form": "aggregate", "epsilon": 6.0, "range": (-1.0, 3.0)} | KINDS[kind][0]
    return pv.plan(TABLE, **{name: value for name, value in asked.items() if value is not None})


def released_in(book):
    return [entry for entry in book.entries() if entry.body["kind"] == "release"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_charged_signed_and_verified(kind, account, tmp_path):
    plan, path = planned(kind), tmp_path / "z.json"
    found = publish_sums(plan, path, account)
    data = path.read_bytes()
    checked = vault.verify(data, account.book)
    assert checked.charged
    assert not checked.more
    entries = released_in(account.book)
    assert list(checked.entries) == [entry.seq for entry in entries]
    assert [entry.body["line"].split(" of ")[0] for entry in entries] == KINDS[kind][1]
    total = sum(Cost.read(entry.body["cost"]).amounts["mu2"] for entry in entries)
    stated = sum(own.charged.amounts["mu2"] for own in plan.splits)
    assert stated <= total <= stated * (1 + Fraction(1, 10**14))
    document = json.loads(data)
    for column, published in zip(document["estimates"], found, strict=True):
        numbers = column["coefficients"]
        error = np.sqrt(published.variance)
        values = np.array([float(number["value"]) for number in numbers])
        assert (np.abs(values - published.estimate) <= error / 1000).all()
        variances = [float(number["variance"]) for number in numbers]
        np.testing.assert_allclose(variances, published.variance, rtol=5.1e-4)
    assert ("published" in document) == (kind == "matrix")
    texts = re.findall(r'"(?:value|variance|freedom)": "([^"]*)"', data.decode())
    assert texts
    assert all(NUMBER.fullmatch(text) for text in texts)
    # The same call: nothing new is charged, and the same bytes are written.
    publish_sums(planned(kind), path, account)
    assert released_in(account.book) == entries
    assert path.read_bytes() == data


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("at", range(6))
def test_a_killed_run_is_finished(at, account, tmp_path, monkeypatch):
    """Before and after every entry, before the seal, before the document: the same integers."""
    calls = iter(range(100))

    def killing(function):
        def called(*given, **more):
            if next(calls) == at:
                raise Killed
            return function(*given, **more)

        return called

    plan, path, book = planned("squares"), tmp_path / "z.json", account.book
    with monkeypatch.context() as patch:
        patch.setattr(type(book), "append", killing(type(book).append))
        patch.setattr(type(book), "advance", killing(type(book).advance))
        patch.setattr(vault, "seal", killing(vault.seal))
        patch.setattr(door, "write_whole", killing(door.write_whole))
        with pytest.raises(Killed):
            publish_sums(plan, path, account)
    before = {entry.seq: book.numbers(entry.seq) for entry in released_in(book)}
    assert len(before) == (0, 1, 1, 2, 2, 2)[at]
    assert not path.exists()
    publish_sums(planned("squares"), path, account)
    after = {entry.seq: book.numbers(entry.seq) for entry in released_in(book)}
    assert len(after) == 2
    assert before.items() <= after.items()
    assert vault.verify(path.read_bytes(), book).charged


def test_another_plan_of_the_same_values_is_refused(account, tmp_path):
    publish_sums(planned("squares"), tmp_path / "z.json", account)
    with pytest.raises(InvalidInput, match="released these values otherwise"):
        publish_sums(planned("matrix"), tmp_path / "again.json", account)
    assert not (tmp_path / "again.json").exists()
    assert len(released_in(account.book)) == 2


def test_a_budget_and_a_file_that_is_there(account, tmp_path):
    plan, book = planned("squares"), account.book
    (tmp_path / "z.json").write_text("mine\n")
    with pytest.raises(InvalidInput):
        publish_sums(plan, tmp_path / "z.json", account)
    assert (tmp_path / "z.json").read_text() == "mine\n"
    publish_sums(plan, tmp_path / "other.json", account)  # charged before, and not lost
    assert len(released_in(book)) == 2
    with book.writing():
        book.set_budget("others", Budget({"mu2": Fraction(1, 100)}))
    book.advance()
    with pytest.raises(BudgetExceeded):
        publish_sums(plan, tmp_path / "third.json", Account(book, "others"))
    assert len(released_in(book)) == 2


@pytest.mark.parametrize("old", ['"6"', '"rows": 60', '"mu2": "', '"value": "'])
def test_a_changed_document_is_refused(old, account, tmp_path):
    publish_sums(planned("squares"), tmp_path / "z.json", account)
    data = (tmp_path / "z.json").read_bytes()
    new = old.replace("6", "5").replace(': "', ': "1')
    assert old.encode() in data
    with pytest.raises(InvalidInput):
        vault.verify(data.replace(old.encode(), new.encode(), 1), account.book)


def test_numbers_are_written_as_files_of_version_2_read_them():
    rng = np.random.default_rng(0)
    for value in [0.0, -0.0, 1e-6, 1e300, 5e-324, -0.25, *np.exp(rng.normal(0, 90, 200)).tolist()]:
        text = number_text(value)
        if 1e-80 < abs(value) < 1e80 or value == 0:  # exponents of two digits
            assert NUMBER.fullmatch(text), text
        assert float(text) == value
