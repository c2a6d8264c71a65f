"""A release tells how far it is, and what it is told in return changes nothing."""

import os

import pytest

from charged import charged
from privest.ledger import Ledger
from privest.workflow import read_release
from privest.workflow.account import Account
from privest.workflow.plan import stated_plan
from privest.workflow.release import release, simulate_release, simulation_source
from workflow_tables import people, spec, write

ROWS = 70_000  # more than one block


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write(people(ROWS), tmp_path_factory.mktemp("data") / "people.csv")


@pytest.mark.parametrize("name", ["z.csv", "z.parquet"])
def test_rows_are_counted_block_by_block(table, tmp_path, name):
    terms, told = stated_plan(spec()), []
    made = charged(terms, tmp_path / name, table, progress=told.append)
    assert len(told) > 1
    assert told == sorted(told)
    assert told[-1] == made.rows == ROWS
    assert all(type(count) is int for count in told)


def test_the_same_rows_with_and_without(table, tmp_path):
    """A trial with a seed: what is written does not depend on who is told."""
    terms, told = stated_plan(spec()), []
    for name, progress in (("a.csv", None), ("b.csv", lambda rows: told.append(rows) or "stop")):
        simulate_release(
            terms, tmp_path / name, simulation_source(terms, 3), table, progress=progress
        )
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert told[-1] == ROWS


def test_an_exception_of_it_leaves_nothing_and_spends_nothing(table, tmp_path):
    def stop(rows):
        raise KeyboardInterrupt

    with Ledger(tmp_path / "l.db", marks=tmp_path / "marks") as ledger:
        account = Account(ledger, "ldl")
        with pytest.raises(KeyboardInterrupt):
            release(stated_plan(spec()), tmp_path / "z.csv", table, account=account, progress=stop)
        assert ledger.subjects() == []
        assert not [name for name in os.listdir(tmp_path) if "z.csv" in name]
        release(stated_plan(spec()), tmp_path / "z.csv", table, account=account)
    assert read_release(tmp_path / "z.csv").rows == ROWS
