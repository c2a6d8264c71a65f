"""Documents 2.0 of sums, one of every kind, and the ledger that charged them: still verified.

`of-2.0/` was written once by `python tests/golden/test_sums.py`; nothing in it can be made again.
"""

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import privest as pv
from privest import vault
from privest.errors import InvalidInput, LedgerError
from privest.vault.cost import Budget
from privest.workflow.publish import publish_sums

HERE = Path(__file__).parent / "of-2.0"
ROWS = 60
ASKED = {"form": "aggregate", "epsilon": 8.0, "range": (-4.0, 6.0)}
KINDS = {
    "squares": {"formula": "ldl ~ age"},
    "none": {"formula": "ldl ~ age", "epsilon": 0.3},
    "free": {"target": "ldl", "by": "sex", "categories": {"sex": ["female", "male"]}},
    "persons": {"formula": "ldl ~ age", "person": "person", "most_rows": 2},
    "scores": {"formula": "smokes ~ age", "family": "binomial", "range": None},
    "exposure": {"formula": "ldl ~ age", "epsilon": None, "level": 0.3},
    "pilot": {"formula": "ldl ~ age", "within": 2.0, "pilot": 0.2},
    "matrix": {"formula": "ldl ~ age", "publish": "matrix"},
}


@dataclass
class Account:
    book: vault.Book
    subject: str


@pytest.fixture
def ledger(tmp_path):
    """A copy, which is adopted here: before that it spends and vouches for nothing new."""
    shutil.copy(HERE / "ledger.db", tmp_path)
    (tmp_path / "ledger.db").chmod(0o600)  # git does not keep this
    with vault.Book(tmp_path / "ledger.db", create=False, marks=tmp_path / "marks") as book:
        with pytest.raises(LedgerError, match="no mark"):
            book.require_newest()
        book.adopt()
        yield book


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_is_verified_by_its_ledger(kind, ledger):
    data = (HERE / f"{kind}.json").read_bytes()
    checked = vault.verify(data, ledger)
    assert checked.charged
    assert (checked.more, checked.needs) == ((), ())
    alone = vault.verify(data)
    assert not alone.charged
    document = json.loads(data)
    for column in document["estimates"]:
        for number in column["coefficients"]:
            assert float(number["variance"]) > 0
            assert np.isfinite(float(number["value"]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_digit_is_noticed(kind, ledger):
    data = (HERE / f"{kind}.json").read_bytes()
    at = data.index(b'"value": "') + 11
    digit = b"1" if data[at : at + 1] != b"1" else b"2"
    with pytest.raises(InvalidInput):
        vault.verify(data[:at] + digit + data[at + 1 :], ledger)


def make():
    rng = np.random.default_rng(28)
    age = rng.uniform(20, 80, ROWS).round(1)
    table = {
        "age": age, "sex": ["female", "male"] * 30, "person": [f"p{k // 3}" for k in range(ROWS)],
        "ldl": (0.02 * age + rng.standard_normal(ROWS)).round(3),
        "smokes": (rng.random(ROWS) < 0.3).astype(float),
    }  # fmt: skip
    HERE.mkdir()
    path = HERE / "ledger.db"
    with (
        tempfile.TemporaryDirectory() as marks,
        vault.Book(path, marks=marks) as book,
    ):
        for kind, asked in KINDS.items():
            with book.writing():
                book.set_budget(kind, Budget({}))
            book.advance()
            chosen = {name: value for name, value in (ASKED | asked).items() if value is not None}
            publish_sums(pv.plan(table, **chosen), HERE / f"{kind}.json", Account(book, kind))


if __name__ == "__main__":
    sys.exit(make())
