"""`verify`: says what is true, what is not, and what was not looked at."""

import hashlib
import json
import shutil

import numpy as np
import pytest

from privest.errors import InvalidInput, LedgerError
from privest.ledger import Ledger
from privest.workflow.account import Account
from privest.workflow.plan import stated_plan
from privest.workflow.release import release, simulate_release
from privest.workflow.verify import verify
from resealed import resealed, written
from workflow_tables import people, spec


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify")
    terms = stated_plan(spec())
    with Ledger(folder / "l.db", marks=folder / "marks") as ledger:
        release(terms, folder / "z.csv", people(), account=Account(ledger, "ldl"))
    with Ledger(folder / "other.db", marks=folder / "marks") as ledger:
        release(terms, folder / "y.csv", people(), account=Account(ledger, "ldl"))
    simulate_release(terms, folder / "trial.csv", np.random.default_rng(1), people())
    return folder


def opened(folder, name="l.db"):
    return Ledger(folder / name, create=False, marks=folder / "marks")


def test_what_is_said(made):
    alone = verify(made / "z.csv")
    assert alone.signed is None
    assert any("only a ledger" in one for one in alone.not_examined)
    assert not alone.verified
    with opened(made) as ledger:
        found = verify(made / "z.csv", ledger)
    assert found.signed
    assert len(found.examined) == 5
    assert found.verified
    assert found.not_examined == ()
    assert "how the noise was drawn" in found.no_file_shows
    json.dumps(found.to_dict())


def test_what_is_not_so(made):
    with opened(made) as ledger, opened(made, "other.db") as other:
        with pytest.raises(InvalidInput, match="of another ledger"):
            verify(made / "z.csv", other)
        with pytest.raises(InvalidInput, match="names no entry"):
            verify(made / "trial.csv", ledger, allow_simulated=True)
    with pytest.raises(InvalidInput, match="is a simulation, which protects nothing"):
        verify(made / "trial.csv")
    assert verify(made / "trial.csv", allow_simulated=True).simulated
    with pytest.raises(LedgerError, match="there is no ledger"):
        verify(made / "z.csv", made / "none.db")
    with pytest.raises(InvalidInput):
        verify(made / "none.jsonl")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"facts": {"dropped": 1}}, InvalidInput, "signature"),
        ({"signature": "0" * 64}, InvalidInput, "signature"),
        ({"columns": {"residual_variance": 0.31}}, InvalidInput, "signature"),
        ({"entry": {"sequence": 9}}, LedgerError, "old copy"),
        ({"entry": {"sequence": 2}}, LedgerError, "not the one that was noted"),
        ({"entry": {"hash": "0" * 64}}, LedgerError, "not the one that was noted"),
        ({"entry": {"subject": "hdl"}}, InvalidInput, "signature"),
        ({"entry": {"ledger": "0" * 32}}, InvalidInput, "another ledger"),
    ],
)
def test_a_forged_header(made, tmp_path, change, error, words):
    """Its checksum is right, whoever wrote it: the ledger is not deceived."""
    shutil.copy(made / "z.csv", tmp_path)
    record = json.loads((made / "z.csv.json").read_text())
    columns = [record["columns"][0] | change.get("columns", {})]
    change = {k: record[k] | v if k in ("entry", "facts") else v for k, v in change.items()}
    change["columns"] = columns
    (tmp_path / "z.csv.json").write_text(written(resealed(record | change)))
    verify(tmp_path / "z.csv")  # nothing here contradicts it
    with opened(made) as ledger, pytest.raises(error, match=words):
        verify(tmp_path / "z.csv", ledger)


def test_a_changed_number_of_a_real_table(made, tmp_path):
    for name in ("z.csv", "z.csv.json"):
        shutil.copy(made / name, tmp_path)
    table = tmp_path / "z.csv"
    record = json.loads((tmp_path / "z.csv.json").read_text())
    table.write_bytes(table.read_bytes().replace(b"\n", b".5\n", 2).replace(b"z.5", b"z"))
    with pytest.raises(InvalidInput, match="changed or replaced"):
        verify(table)
    sha = hashlib.sha256(table.read_bytes()).hexdigest()
    (tmp_path / "z.csv.json").write_text(written(resealed(record | {"sha256": sha})))
    with pytest.raises(InvalidInput, match="whole numbers"):
        verify(table)
