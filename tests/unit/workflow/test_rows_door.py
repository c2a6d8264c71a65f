"""Rows by the door of the vault: table, header and entry; the same call finishes what was begun."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privest as pv
from privest import vault
from privest.errors import BudgetExceeded, InvalidInput
from privest.mechanism.source import as_protected
from privest.privacy import gdp
from privest.vault.cost import Budget
from privest.workflow import read_release
from privest.workflow.estimate import estimate
from privest.workflow.rows import LeavingRows
from privest.workflow.rows_document import read_header
from privest.workflow.rows_door import release_rows

RNG = np.random.default_rng(8)
K = 600
AGE = RNG.uniform(20, 80, K).round(1)
TABLE = {
    "age": AGE,
    "größe": RNG.choice(["klein", "groß"], K),
    "level": RNG.choice([0.0, 0.5, 2.0, 8.0], K),
    "w": RNG.integers(1, 4, K),
    "ill": (RNG.random(K) < 0.3).astype(int),
    "ldl": 2 + 0.02 * AGE + 0.5 * RNG.standard_normal(K),
}
SIZES = {"größe": ["klein", "groß"]}
NUMERIC = {"target": "ldl", "features": ["age", "größe"], "categories": SIZES}
PLANS = {
    "level": NUMERIC | {"level": 2.0},
    "epsilon": NUMERIC | {"epsilon": 2.0, "delta": 1e-6, "range": (0.1, 7.3)},
    "sensitivity": NUMERIC | {"level": 2.0, "delta": 1e-6, "sensitivity": 0.3},
    "accuracy": NUMERIC | {"standard_error": {"age": 0.01}, "residual_variance": 0.25},
    "laplace": NUMERIC | {"epsilon": 5.0, "range": (0.1, 7.3), "distribution": "laplace"},
    "logarithm": NUMERIC | {"level": 2.0, "transform": "log", "range": (0.1, 50.0)},
    "level column": NUMERIC | {"level_column": "level", "range": (-2.0, 9.0), "delta": 1e-6},
    "weights": NUMERIC | {"level": 2.0, "weights": "w"},
    "yes or no": {"target": "ill", "features": ["age"], "family": "binomial", "epsilon": 2.0},
}


@pytest.fixture
def book(tmp_path):
    with vault.Book(tmp_path / "ledger.db", marks=tmp_path / "marks") as book:
        with book.writing():
            book.set_budget("people", Budget({}))
        book.advance()
        yield book


def planned(name, table=TABLE):
    return pv.plan(table, form="rows", **PLANS[name])


def files(path):
    return path.read_bytes(), Path(f"{path}.json").read_bytes()


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_from_the_plan_to_the_estimate(name, ending, tmp_path, book):
    plan, path = planned(name), tmp_path / f"z.{ending}"
    made = release_rows(plan, path, book, "people", TABLE)
    table, header = files(path)
    found = vault.verify(header, book, table=table)
    assert found.charged
    assert found.more == found.needs == ()
    read = read_release(path)
    assert read.to_dict() == made.to_dict() == json.loads(header)
    assert (read.model, read.privacy, read.columns) == (plan.model, plan.privacy, plan.columns)
    integers = book.numbers(book.head.seq)
    raw = pd.read_csv(path) if ending == "csv" else pd.read_parquet(path)
    shown = TABLE["level"] > 0 if name == "level column" else np.ones(K, dtype=bool)
    np.testing.assert_array_equal(raw["z"][shown], integers[shown])
    assert (raw["z"][~shown] == 0).all()
    assert raw.columns.tolist() == list(read.table_columns)
    own = np.clip(TABLE[plan.model.target[0]], *(plan.ends(plan.column) or (-np.inf, np.inf)))
    noise = (read.values - (np.log(own) if name == "logarithm" else own))[shown]
    levels = TABLE["level"][shown]
    spread = read.drawn.variances(levels) if name == "level column" else read.drawn.variance
    unit = noise / np.sqrt(spread)
    assert abs(unit.mean()) < 5 / np.sqrt(len(unit))
    # The mean square of Laplace noise has the largest deviation: its kurtosis is 6.
    assert np.mean(unit**2) == pytest.approx(1, abs=5 * np.sqrt(5 / len(unit)))
    fit = estimate(path)
    assert np.isfinite(fit.value).all()
    assert fit.rows == K


@pytest.mark.parametrize("name", ["epsilon", "laplace", "yes or no"])
def test_what_is_charged_keeps_the_stated_epsilon(name, tmp_path, book):
    plan = planned(name)
    release_rows(plan, tmp_path / "z.csv", book, "people", TABLE)
    amounts = book.spent("people").peak.amounts
    promise = json.loads(Path(tmp_path / "z.csv.json").read_text())["promise"]
    assert float(promise["epsilon"]) == plan.privacy.epsilon
    if plan.privacy.delta is None:
        assert amounts["epsilon"] <= plan.privacy.epsilon
    else:
        assert amounts["mu2"] <= gdp.mu_of(plan.privacy.epsilon, plan.privacy.delta) ** 2
    assert amounts["information"] <= plan.column.level * (1 + 1e-12)


def test_the_same_call_finds_the_same_release(tmp_path, book):
    plan, path = planned("epsilon"), tmp_path / "z.csv"
    release_rows(plan, path, book, "people", TABLE)
    before, head = files(path), book.head.seq
    release_rows(plan, path, book, "people", TABLE)
    for lost in (path, Path(f"{path}.json")):
        lost.unlink()
        release_rows(plan, path, book, "people", TABLE)
        assert files(path) == before
    release_rows(plan, tmp_path / "copy.csv", book, "people", TABLE)
    assert (tmp_path / "copy.csv").read_bytes() == before[0]
    assert book.head.seq == head


def test_other_plans_and_other_public_columns_are_other_releases(tmp_path, book):
    path = tmp_path / "z.csv"
    release_rows(planned("epsilon"), path, book, "people", TABLE)
    other = TABLE | {"age": TABLE["age"] + 1}
    for plan, table in ((planned("level"), TABLE), (planned("epsilon", other), other)):
        with pytest.raises(InvalidInput, match="released these values otherwise"):
            release_rows(plan, tmp_path / "other.csv", book, "people", table)
    before, head = files(path), book.head.seq
    again = release_rows(planned("level"), tmp_path / "2.csv", book, "people", TABLE, line="2")
    assert again.entry.sequence == head + 1
    assert files(path) == before


def test_files_that_are_something_else_stay(tmp_path, book):
    path, header = tmp_path / "z.csv", tmp_path / "z.csv.json"
    for taken in (path, header):
        taken.write_text("mine")
        with pytest.raises(InvalidInput, match="exists"):
            release_rows(planned("level"), path, book, "people", TABLE)
        assert taken.read_text() == "mine"
        taken.unlink()
    assert [entry.body["kind"] for entry in book.entries("people")].count("release") == 0
    release_rows(planned("level"), path, book, "people", TABLE)
    path.write_text("changed")
    with pytest.raises(InvalidInput, match="not this release"):
        release_rows(planned("level"), path, book, "people", TABLE)
    with pytest.raises(InvalidInput, match="changed or replaced"):
        read_release(path)


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_charged(tmp_path, book):
    head = book.head.seq
    formula = pv.plan({"=age": AGE, "ldl": TABLE["ldl"]}, target="ldl", features=["=age"],
                      form="rows", level=2.0)  # fmt: skip
    for plan, name in ((formula, "z.csv"), (planned("level"), "z.txt"), (planned("level"), "")):
        with pytest.raises(InvalidInput):
            release_rows(plan, tmp_path / name, book, "people", {"=age": AGE, **TABLE})
    assert book.head.seq == head


def test_a_budget_that_is_too_small_leaves_nothing(tmp_path, book):
    with book.writing():
        book.set_budget("few", Budget({"information": Fraction(1)}))
    book.advance()
    with pytest.raises(BudgetExceeded):
        release_rows(planned("level"), tmp_path / "z.csv", book, "few", TABLE)
    assert not list(tmp_path.glob("*z.csv*"))


def test_infinite_values_are_clipped_and_never_refused(tmp_path, book):
    table = TABLE | {"ldl": TABLE["ldl"].copy()}
    table["ldl"][[0, 30]] = np.inf, -np.inf
    plan = planned("epsilon", table)
    found = release_rows(plan, tmp_path / "z.csv", book, "people", table)
    assert np.isfinite(found.values).all()


@pytest.mark.parametrize("column", ["age", "w"])
def test_public_columns_that_change_between_the_passes_are_refused(column):
    first = LeavingRows(planned("weights"), as_protected(None), TABLE)
    public, integers = first.column().public, np.arange(K)
    assert sum(len(part[-1]) for part in first.rendered(integers, public)) == K
    other = TABLE | {column: TABLE[column] + 1}
    again = LeavingRows(planned("weights", other), as_protected(None), other)
    with pytest.raises(InvalidInput, match="changed while it was in use"):
        list(again.rendered(integers, public))


def test_rows_without_a_value_are_left_out(tmp_path, book):
    table = TABLE | {"ldl": np.where(np.arange(K) % 50 == 7, np.nan, TABLE["ldl"])}
    plan = pv.plan(table, form="rows", missing="drop", **PLANS["level"])
    found = release_rows(plan, tmp_path / "z.csv", book, "people", table)
    assert (found.rows, found.dropped) == (588, 12)
    assert len(pd.read_csv(tmp_path / "z.csv")) == 588


def test_a_header_that_was_changed_is_refused(tmp_path, book):
    path = tmp_path / "z.csv"
    release_rows(planned("epsilon"), path, book, "people", TABLE)
    table, header = files(path)
    for old, new in (
        (b'"count": 600', b'"count": 601'), (b'"sigma": ["', b'"sigma": ["9'),
        (b'"exponent": -', b'"exponent": -1'), (b'"epsilon": "2.0"', b'"epsilon": "1.0"'),
        (b'"name": "z.csv"', b'"name": "y.csv"'),
    ):  # fmt: skip
        assert old in header
        with pytest.raises(InvalidInput):
            vault.verify(header.replace(old, new), book, table=table)
    for broken in (b'"left": 3', b'"left": []'):
        start = header.index(b'"left": ')
        stop = header.index(b',\n "seal"')
        with pytest.raises(InvalidInput, match="lacks a member"):
            read_header(header[:start] + broken + header[stop:])
    with pytest.raises(InvalidInput, match="without rotation"):
        read_header(header.replace(b'"needs": []', b'"needs": ["rotation"]'))


def faults(task, folder, count):
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    script = Path(__file__).parents[2] / "killed_rows.py"
    command = [sys.executable, str(script), task, str(folder), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
    return json.loads(done.stdout), done.stderr


@pytest.mark.processes
def test_what_a_kill_leaves_is_finished_by_the_next_run(tmp_path):
    assert faults("kills", tmp_path, 1) == ([], "")


@pytest.mark.processes
def test_six_processes_make_one_release(tmp_path):
    assert faults("races", tmp_path, 2) == ([], "")


@pytest.mark.processes
def test_kills_at_every_time_of_every_step(tmp_path):
    assert faults("kills", tmp_path, 6) == ([], "")


@pytest.mark.processes
def test_fifty_races(tmp_path):
    assert faults("races", tmp_path, 50) == ([], "")
