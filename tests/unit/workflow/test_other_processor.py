"""A release that nobody changed is verified, reported and finished on every processor.

What is computed from ε differs there in its last bits (`other_processor`), the file does not.
"""

import json
import os

import numpy as np
import pandas as pd
import pytest

import privest as pv
from other_processor import elsewhere
from privest.errors import InvalidInput
from privest.ledger import Budget, Ledger
from workflow_command import runner
from workflow_tables import people

FORMULA, SEX = "ldl ~ age + bmi + C(sex)", {"sex": ["female", "male"]}
SUMS = {"categories": SEX, "range": (-4, 6)}
ROWS = SUMS | {"form": "rows", "residual_variance": 0.3}
YES = {"categories": SEX, "form": "rows", "family": "binomial"}
KINDS = {
    **{f"sums, epsilon {x}": (FORMULA, SUMS | {"epsilon": x}) for x in (0.7, 1.0, 3.0, 8.0)},
    "sums, level": (FORMULA, SUMS | {"level": 2.0}),
    "sums, accuracy": (
        FORMULA, SUMS | {"residual_variance": 0.3, "standard_error": {"age": 0.005}},
    ),
    "mean": ("ldl ~ 1", {"range": (-4, 6), "epsilon": 3.0}),
    "means of groups": ("ldl ~ C(sex) - 1", SUMS | {"epsilon": 3.0}),
    "logarithm": (
        "log(income) ~ age", {"range": (0.1, 5e3), "residual_variance": 0.3, "epsilon": 3.0},
    ),
    "two columns": (
        "ldl + hdl ~ age", {"range": {"ldl": (-4, 6), "hdl": (-2, 3)}, "epsilon": 3.0},
    ),
    "rows, epsilon": (FORMULA, ROWS | {"epsilon": 20.0, "delta": 1e-6}),
    "rows, level": (FORMULA, ROWS | {"level": 2.0}),
    "rows, accuracy": (FORMULA, ROWS | {"standard_error": {"age": 0.01}}),
    "rows, Laplace": (FORMULA, ROWS | {"epsilon": 5.0, "distribution": "laplace"}),
    "rows, logarithm": (
        "log(income) ~ age",
        {"range": (0.1, 5e3), "form": "rows", "residual_variance": 0.3, "epsilon": 20.0,
         "delta": 1e-6},
    ),
    "yes or no": ("smokes ~ age + C(sex)", YES | {"epsilon": 2.0}),
}  # fmt: skip


@pytest.fixture
def table(tmp_path):
    made = pd.DataFrame(people(300))
    rng = np.random.default_rng(2)
    made["hdl"], made["income"] = 0.5 * made["ldl"], np.exp(made["ldl"])
    made["smokes"] = (rng.random(300) < 0.3).astype(int)
    made.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def planned(kind, table):
    formula, asked = KINDS[kind]
    return pv.plan(table, formula, **asked)


def named(plan, folder):
    return folder / ("z.csv" if plan.privacy.form == "rows" else "z.json")


@pytest.mark.parametrize("kind", KINDS)
def test_an_untouched_release_is_verified_and_reported(kind, table, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))
    plan, privest = planned(kind, table), runner(capsys, monkeypatch)
    out = named(plan, tmp_path)
    plan.save(tmp_path / "plan.toml")
    with Ledger(tmp_path / "ledger.db") as ledger:
        plan.release(out, account=ledger.account("people"))
    with elsewhere():
        assert pv.verify(out, tmp_path / "ledger.db").verified
        assert np.isfinite(pv.estimate(out)[plan.model.target[0]].value).all()
        if len(plan.model.target) == 1:
            page = tmp_path / "report.html"
            done = privest("report", tmp_path / "plan.toml", out, "--output", page)
            assert done.code == 0, done.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_release_is_finished_elsewhere(kind, table, tmp_path, monkeypatch):
    """The entry is on disk, the document is not: the same table, and nothing is charged again."""
    plan = planned(kind, table)
    out, ledger = named(plan, tmp_path), Ledger(tmp_path / "ledger.db", marks=tmp_path / "marks")
    replace = os.replace

    def killed(source, target, **options):
        if str(target).endswith(".json"):
            raise SystemExit
        return replace(source, target, **options)

    with ledger:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", killed)
            with pytest.raises(SystemExit):
                plan.release(out, account=ledger.account("people"))
        assert not out.exists()
        head = ledger.head
        with elsewhere():
            planned(kind, table).release(out, account=ledger.account("people"))
        assert ledger.head == head
        assert pv.verify(out, ledger).verified


def test_a_killed_release_is_not_finished_under_another_level(table, tmp_path, monkeypatch):
    plan = planned("rows, level", table)
    out, ledger = named(plan, tmp_path), Ledger(tmp_path / "ledger.db", marks=tmp_path / "marks")
    with ledger:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", lambda *_, **__: (_ for _ in ()).throw(SystemExit))
            with pytest.raises(SystemExit):
                plan.release(out, account=ledger.account("people"))
        formula, asked = KINDS["rows, level"]
        for change in ({"level": 2.0001}, {"level": 1.0}, {"range": (-5, 6)}):
            other = pv.plan(table, formula, **asked | change)
            with pytest.raises(InvalidInput, match="other public facts"):
                other.release(out, account=ledger.account("people"))


def test_a_release_of_another_level_is_not_of_the_plan(table, tmp_path, capsys, monkeypatch):
    """A part in 10⁶ is no rounding."""
    privest, formula, asked = runner(capsys, monkeypatch), *KINDS["sums, level"]
    pv.plan(table, formula, **asked).simulate(tmp_path / "z.json", rng=1)
    pv.plan(table, formula, **asked | {"level": 2.0 * (1 + 1e-6)}).save(tmp_path / "plan.toml")
    done = privest("report", tmp_path / "plan.toml", tmp_path / "z.json", "--output", "r.html")
    assert done.code
    assert "different level or residual variance" in " ".join(done.err.split())


def test_an_entry_that_charged_less_than_the_document_says_is_refused(table, tmp_path):
    """A part in 10⁶ is no rounding. The document is signed anew, as its owner could."""
    plan, out = planned("sums, epsilon 1.0", table), tmp_path / "z.json"
    with Ledger(tmp_path / "ledger.db", marks=tmp_path / "marks") as ledger:
        account = ledger.account("people")
        plan.release(out, account=account)
        [entry] = [one for one in account.history() if one.cost is not None]
        object.__setattr__(entry.cost, "mu2", entry.cost.mu2 * 999_999 / 1_000_000)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ledger, "history", lambda *_: [entry])
            with pytest.raises(InvalidInput, match="not of the level"):
                pv.verify(out, ledger)


def test_a_ledger_with_a_budget_in_epsilon_holds_elsewhere(table, tmp_path):
    """The plan spends all of the budget: μ of ε, computed again, must not be above it."""
    plan = planned("sums, epsilon 3.0", table)
    budget = Budget(epsilon=3.0, delta=plan.privacy.delta, sensitivity=10.0)
    with Ledger(tmp_path / "ledger.db", marks=tmp_path / "marks") as ledger:
        ledger.account("people", budget=budget)
        plan.release(tmp_path / "z.json", account=ledger.account("people"))
        with elsewhere():
            ledger.verify()
            assert pv.verify(tmp_path / "z.json", ledger).verified


def test_the_emulation_does_change_what_is_computed(table):
    """Else these tests could not fail."""
    here = planned("sums, epsilon 1.0", table)
    with elsewhere():
        there = planned("sums, epsilon 1.0", table)
    assert here.information != there.information
    assert json.dumps(float(here.information))[:10] == json.dumps(float(there.information))[:10]
