"""Ledgers that privest 0.2 wrote: read, verified and gone on with, or refused with what to do."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from privest.errors import LedgerError
from privest.ledger import Cost, Ledger

HERE = Path(__file__).parent / "ledgers"


def opened(name, folder):
    path = folder / "ledger.db"
    shutil.copy(HERE / name, path)
    path.chmod(0o600)
    return Ledger(path, create=False, marks=folder / "marks")


def test_entries_of_every_kind(tmp_path):
    with opened("every-kind-0.2.db", tmp_path) as ledger:
        kinds = [entry.kind for entry in ledger.history()]
        assert {"reserved", "completed", "retired", "adopted"} < set(kinds)
        ledger.adopt()
        ledger.verify()
        own = ledger.account("a")
        sent = own.spend_and_write(Cost(1.0), 0, 3, {}, lambda: None)  # of before, as it was
        assert (sent.resent, sent.integers.tolist()) == (True, [0, 1, 2])
        new = own.spend_and_write(Cost(1.0), None, 1, {}, lambda: (np.array([7]), None))
        assert new.entry.start == 10
        with pytest.raises(LedgerError, match=r"reserved by privest 0\.2"):
            own.spend_and_write(Cost(1.0), 4, 1, {}, lambda: None, key="open")
        ledger.account("days").spend(Cost(0.5), start=0, stop=2)
        ledger.verify()


def test_a_matrix_as_a_budget(tmp_path):
    with opened("matrix-0.2.db", tmp_path) as ledger:
        ledger.adopt()
        for ask in (ledger.verify, lambda: ledger.account("m").spend(Cost(0.5))):
            with pytest.raises(LedgerError, match=r"privest 0\.2 reads"):
                ask()
