"""The page of the promise shows three columns of errors where no share of yes is stated."""

import numpy as np
import pytest

import privest as pv
from app_client import Client, errors, words
from privest.app.tables import Table
from workflow_tables import write

ROWS, SHARE = 4400, 0.018


@pytest.fixture(scope="module")
def table():
    """1.8% of yes: a rare event."""
    rng = np.random.default_rng(11)
    age = rng.standard_normal(ROWS).round(3)
    ill = np.zeros(ROWS, dtype=int)
    ill[rng.choice(ROWS, round(SHARE * ROWS), replace=False)] = 1
    return {"age": age, "ill": ill}


def planned(table, expected=None, **more):
    asked = {"family": "binomial", "epsilon": 10.0, "expected": expected}
    return pv.plan(table, "ill ~ age", **asked | more)


@pytest.mark.parametrize("form", ["aggregate", "rows"])
def test_the_app_shows_three_columns_and_looks_for_no_epsilon(table, form, tmp_path):
    client = Client(tmp_path)
    path = write(table, tmp_path / "people.csv")
    work = client.desk.begin()
    work.table, work.plan = Table("people.csv", path), planned(table, form=form)
    page = words(client.get(f"/work/{work.id}/privacy"))
    for said in ("if 50% yes", "if 10% yes", "if 2% yes", "Error of age, 95%, if 2% yes"):
        assert said in page
    epsilon = work.plan.privacy.epsilon
    answer = client.post(f"/work/{work.id}/privacy", {"then": "need", "need": "0.2", "of": "1"})
    assert answer.status_code == 422
    assert "needs the expected share of yes: state it" in words(answer)
    assert work.plan.privacy.epsilon == epsilon
    work.plan = planned(table, {"ill": SHARE}, form=form)
    page = words(client.get(f"/work/{work.id}/privacy"))
    assert "if 2% yes" not in page
    assert errors(client.get(f"/work/{work.id}/privacy")) == {}
    client.close()
