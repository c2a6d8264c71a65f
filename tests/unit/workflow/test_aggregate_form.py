"""The aggregate form through the pipeline: what is planned, what leaves, what is refused."""

import copy
import json
import math
import struct

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

import privest as pv
from privest.errors import BudgetExceeded, InvalidInput
from privest.ledger import Ledger
from privest.privacy import gdp
from privest.workflow import read_plan, read_release
from resealed import resealed, written
from workflow_command import called
from workflow_tables import THETA, VARIANCE, matrix, people, write

ENDS = (0.0, 6.0)
ASKED = {
    "target": "ldl", "features": ["age", "bmi", "sex"], "categories": {"sex": ["female", "male"]},
    "range": ENDS, "form": "aggregate",
}  # fmt: skip


def planned(table, **more):
    return pv.plan(table, **ASKED | {"epsilon": 2.0} | more)


@pytest.fixture(scope="module")
def table():
    return people(2000, seed=3)


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.db", marks=tmp_path / "marks") as made:
        yield made


def test_it_is_the_form_unless_rows_are_stated(table, tmp_path):
    told = {"target": "ldl", "features": ["age", "bmi"], "range": ENDS, "epsilon": 2.0}
    assert pv.plan(table, **told).privacy.form == "aggregate"
    with pytest.raises(InvalidInput, match="state the range, or take the form rows"):
        pv.plan(table, **told | {"range": None})
    path = write(table, tmp_path / "people.csv")
    options = ("--target", "ldl", "--features", "age,bmi", "--range", "0,6", "--epsilon", 2)
    assert called("plan", path, *options, "--save", tmp_path / "plan.toml").returncode == 0
    assert read_plan(tmp_path / "plan.toml").privacy.form == "aggregate"
    text = (tmp_path / "plan.toml").read_text().replace('form = "aggregate"\n', "")
    (tmp_path / "plan.toml").write_text(text)
    assert read_plan(tmp_path / "plan.toml").privacy.form == "rows"  # as files of 0.2 mean it


def test_errors_are_far_below_those_of_rows(table):
    sums = planned(table, residual_variance=VARIANCE).standard_error
    rows = planned(table, residual_variance=VARIANCE, form="rows", delta=1e-6).standard_error
    none = planned(table, residual_variance=VARIANCE).classical_error
    assert (sums < rows / 10).all()
    assert (none < sums).all()


def test_errors_without_privacy_are_those_of_least_squares(table):
    H = matrix(table)
    least = np.sqrt(VARIANCE * np.diagonal(np.linalg.inv(H.T @ H)))
    found = planned(table, residual_variance=VARIANCE).classical_error
    np.testing.assert_allclose(found, least, rtol=1e-9)


def test_epsilon_is_kept_and_charged(table, ledger, tmp_path):
    plan = planned(table)
    assert plan.privacy.delta == 1e-6
    assert plan.epsilon <= 2.0
    account = ledger.account("ldl")
    plan.release(tmp_path / "z.json", account=account)
    (entry,) = (one for one in ledger.history("ldl") if one.cost is not None)
    mu = math.sqrt(entry.cost.mu2)
    assert gdp.epsilon_of(mu, 1e-6) <= 2.0
    assert mu >= 0.99 * gdp.mu_of(2.0, 1e-6)
    assert float(entry.cost.information) == plan.splits[0].exposure
    with pytest.raises(BudgetExceeded):
        plan.release(tmp_path / "again.json", account=account)


def test_one_document_leaves(table, ledger, tmp_path):
    """No row, no feature, no matrix: names, estimates, errors and the promise."""
    write(table, tmp_path / "people.csv")
    plan = pv.plan(tmp_path / "people.csv", **ASKED, epsilon=2.0)
    plan.release(tmp_path / "z.json", account=ledger.account("ldl"))
    there = {one.name for one in tmp_path.iterdir()} - {"people.csv", "marks"}
    assert {name for name in there if not name.startswith("ledger.db")} == {"z.json"}
    written = (tmp_path / "z.json").read_bytes()
    assert len(written) < 4000
    for column in ("age", "bmi", "ldl"):
        for value in table[column][:200].tolist():
            assert repr(value).encode() not in written
            assert struct.pack("<d", value) not in written
    assert json.loads(written)["sums"][0]["matrix"] == {}


def test_an_estimate_is_what_the_document_says(table, ledger, tmp_path):
    plan = planned(table)
    made = plan.release(tmp_path / "z.json", account=ledger.account("ldl"))
    found = pv.estimate(tmp_path / "z.json")
    document = json.loads((tmp_path / "z.json").read_text())["sums"][0]
    np.testing.assert_array_equal(found.value, document["estimate"])
    np.testing.assert_allclose(found.standard_error**2, document["variance"], rtol=1e-12)
    np.testing.assert_array_equal(pv.estimate(made).value, found.value)
    assert (np.abs(found.value - THETA) < 6 * found.standard_error).all()
    assert found.rows == 2000
    assert pv.verify(tmp_path / "z.json", ledger=ledger).verified


def test_the_same_seed_repeats_a_simulation(table):
    plan = planned(table)
    one, two, other = (pv.estimate(plan.simulate(rng=seed)).value for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert (one != other).all()


@pytest.mark.parametrize(
    "change",
    [
        {"sums.value": [1.0, 2.0, 3.0, 4.0]},
        {"sums.variance": [1.0, 1.0, 1.0, -1.0]},
        {"sums.freedom": [0.1, 9.0, 9.0, 9.0]},
        {"sums.kind": "none"},
        {"sums.level": 1.0},
        {"sums.target": "hdl"},
        {"facts.epsilon": 0.5},
        {"facts.rows": 0},
        {"columns.level": 1.0},
        {"plan.privacy.epsilon": 1.0},
        {"plan.privacy.range": {"ldl": [0.0, 60.0]}},
        {"plan.privacy.form": "rows"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_forged_document_is_refused(table, ledger, tmp_path, change):
    """Also where the forger makes SHA-256 and checksum anew, as anybody can."""
    planned(table).release(tmp_path / "z.json", account=ledger.account("ldl"))
    record = json.loads((tmp_path / "z.json").read_text())
    forged = copy.deepcopy(record)
    for place, value in change.items():
        *path, last = place.split(".")
        part = forged
        for name in path:
            part = part[name][0] if name in ("columns", "sums") else part[name]
        part[last] = value
    (tmp_path / "z.json").write_text(written(resealed(forged)))
    with pytest.raises(InvalidInput, match=r"z\.json"):
        read_release(tmp_path / "z.json")


def test_a_resealed_estimate_has_no_signature(table, ledger, tmp_path):
    """SHA-256 of the sums made anew as well: only the ledger's key finds it out."""
    planned(table).release(tmp_path / "z.json", account=ledger.account("ldl"))
    record = json.loads((tmp_path / "z.json").read_text())
    record["sums"][0]["estimate"][1] += 1.0
    (tmp_path / "z.json").write_text(written(resealed(record)))
    read_release(tmp_path / "z.json")
    with pytest.raises(InvalidInput, match="signature"):
        pv.verify(tmp_path / "z.json", ledger=ledger)


def test_the_same_table_released_as_rows_is_known(table, ledger, tmp_path):
    planned(table).release(tmp_path / "z.json", account=ledger.account("sums"))
    rows = planned(table, form="rows", delta=1e-6)
    with pytest.raises(InvalidInput, match="released for the account 'sums'"):
        rows.release(tmp_path / "z.csv", account=ledger.account("rows"))


def test_a_smaller_model_needs_the_matrix(table):
    whole = planned(table, publish="matrix", epsilon=50.0).simulate(rng=1)
    small = pv.estimate(whole, features=["age", "sex"])
    assert small.names == ("intercept", "age", "sex=male")
    H = matrix(table)[:, [0, 1, 3]]
    theta = np.linalg.lstsq(H, np.clip(table["ldl"], *ENDS), rcond=None)[0]
    assert (np.abs(small.value - theta) < 5 * small.standard_error).all()
    with pytest.raises(InvalidInput, match="matrix"):
        pv.estimate(planned(table).simulate(rng=1), features=["age"])
    with pytest.raises(InvalidInput, match="new release"):
        pv.estimate(whole, features=["height"])


def test_values_of_a_file_are_read_beside_the_planned_rows(table, tmp_path):
    """Of a file without gaps the values alone; with gaps, and of frames, all columns again."""
    frame = pd.DataFrame(table)
    frame.to_csv(tmp_path / "whole.csv", index=False)
    expected = planned(table).simulate(rng=1).sums[0]
    for missing in ("refuse", "drop"):
        plan = pv.plan(tmp_path / "whole.csv", **ASKED | {"epsilon": 2.0, "missing": missing})
        found = plan.simulate(rng=1).sums[0]
        assert np.array_equal(found.estimate, expected.estimate)
        assert np.array_equal(found.variance, expected.variance)
    frame.loc[7, "ldl"] = np.nan
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    for missing, rows in (("refuse", None), ("drop", 1999)):
        plan = pv.plan(tmp_path / "gaps.csv", **ASKED | {"epsilon": 2.0, "missing": missing})
        if rows is None:
            with pytest.raises(InvalidInput, match="row 8: a value is missing"):
                plan.simulate(rng=1)
        else:
            assert plan.simulate(rng=1).rows == rows


def test_errors_of_rows_are_refused_by_name(table):
    simulated = planned(table).simulate(rng=1)
    with pytest.raises(InvalidInput, match=r"noisy sums \(t, HC3 and HC2 are for rows\) must be"):
        pv.estimate(simulated, cov_type="HC3")


def test_a_mean_at_a_row_needs_the_matrix(table):
    row = {"age": 50, "bmi": 27, "sex": "male"}
    plan = planned(table, publish="matrix")
    found = np.array([pv.estimate(plan.simulate(rng=k)).predict(row).interval[0] for k in range(9)])
    truth = np.array([1, 50, 27, 1]) @ THETA
    assert (found[:, 0] < truth + 0.5).all()
    assert (found[:, 1] > truth - 0.5).all()
    # One in ten is wider than 1.2 (of 100 seeds): five of nine with probability 1e-3.
    assert np.median(np.diff(found)) < 1.2
    with pytest.raises(InvalidInput, match="matrix"):
        pv.estimate(planned(table).simulate(rng=1)).predict(row)


def test_a_matrix_of_a_rare_category_is_refused(table):
    rare = dict(table)
    rare["sex"] = np.where(np.arange(2000) < 9, "male", "female")
    with pytest.raises(InvalidInput, match="fewer than 10 rows"):
        planned(rare, publish="matrix").simulate(rng=1)


def test_a_matrix_of_a_rare_baseline_is_refused(table):
    """All rows less those of the other categories are the baseline's."""
    rare = dict(table)
    rare["sex"] = np.where(np.arange(2000) < 9, "female", "male")
    with pytest.raises(InvalidInput, match="'sex=female' has fewer than 10 rows"):
        planned(rare, publish="matrix").simulate(rng=1)
    rare["sex"][9] = "female"
    assert planned(rare, publish="matrix").simulate(rng=1).sums[0].matrix


def test_yes_no(table):
    own = dict(table)
    eta = 0.05 * (own["age"] - 50)
    rng = np.random.default_rng(5)
    own["ldl"] = (rng.random(2000) < 1 / (1 + np.exp(-eta))).astype(float)
    asked = ASKED | {"features": ["age"], "categories": {}, "family": "binomial", "range": None}
    plan = pv.plan(own, **asked, epsilon=2.0)
    found = pv.estimate(plan.simulate(rng=2))
    assert abs(found.value[1] - 0.05) < 5 * found.standard_error[1]
    assert found.standard_error[1] < 0.01
    said = str(pv.workflow.describe(plan, keys=["exposure"])[0])
    right = 100 * ndtr(gdp.mu_of(2.0, 1e-6) / 2)  # between yes and no, all others known
    assert f"right at most {math.ceil(10 * right) / 10:g}%" in said
    assert "sd" not in said


@pytest.mark.parametrize("form", ["aggregate", "rows"])
def test_a_yes_no_takes_no_range(table, form):
    """With a range of 0 to 20 a yes of 1 would count as .05 of a yes."""
    yes = (np.random.default_rng(5).random(2000) < table["age"] / 100).astype(float)
    asked = ASKED | {
        "features": ["age"], "categories": {}, "family": "binomial", "epsilon": 2.0, "form": form,
    }  # fmt: skip
    for ends in ((0.0, 20.0), (1.0, 2.0), (-1.0, 1.0)):
        with pytest.raises(InvalidInput, match="A yes/no outcome is 1 or 0, without a range"):
            pv.plan(table | {"ldl": yes}, **asked | {"range": ends})
    values = []
    for ends in (None, (0.0, 1.0)):
        plan = pv.plan(table | {"ldl": yes}, **asked | {"range": ends})
        values.append(pv.estimate(plan.simulate(rng=2)).value.tolist())
    assert values[0] == values[1]


def test_counts_in_sums_are_refused(table, tmp_path):
    """Their intervals covered .37 to .80 where counts vary more than their mean."""
    visits = table | {"ldl": np.random.default_rng(5).poisson(2.0, 2000).astype(float)}
    counts = {"features": ["age"], "categories": {}, "family": "poisson", "range": (0.0, 9.0)}
    with pytest.raises(InvalidInput, match=r"least squares of the count as a number.*form rows"):
        planned(visits, **counts)
    path = write(visits, tmp_path / "people.csv")
    options = ("--target", "ldl", "--features", "age", "--epsilon", 2, "--range", "0,9")
    done = called("plan", path, *options, "--family", "poisson")
    assert done.returncode == 2
    assert "Counts in sums" in done.stderr
    planned(visits, **counts | {"family": "gaussian"})
    planned(visits, **counts | {"form": "rows", "delta": 1e-6})


def test_persons_and_several_columns(table, ledger, tmp_path):
    own = dict(table) | {"who": [f"p{k // 3}" for k in range(2000)], "hdl": 6 - table["ldl"]}
    persons = planned(own, person="who", epsilon=5.0)
    assert persons.splits[0].kind == "persons"
    persons.release(tmp_path / "p.json", account=ledger.account("persons"))
    assert pv.verify(tmp_path / "p.json", ledger=ledger).verified
    both = {"ldl": ENDS, "hdl": ENDS}
    asked = ASKED | {"target": ["ldl", "hdl"], "range": both, "features": ["age", "bmi"]}
    several = pv.plan(own, **asked | {"categories": {}}, epsilon=5.0)
    found = pv.estimate(several.simulate(rng=1))
    assert found.names[:2] == ("ldl: intercept", "ldl: age")
    assert several.epsilon <= 5.0
    assert gdp.compose(*(one.stated for one in several.splits)) <= gdp.mu_of(5.0, 1e-6) * 1.0000001


@pytest.mark.parametrize("more", [{}, {"person": "who", "epsilon": 12.0}], ids=["rows", "persons"])
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_a_plan_of_a_mean_does_not_look_at_infinities(tmp_path, ledger, more, value):
    """Rows are counted by the private column: a value beyond the range is no reason to refuse."""
    asked = {"target": "y", "range": ENDS, "epsilon": 2.0} | more
    own = {"y": np.full(60, 3.0), "who": [f"p{k // 3}" for k in range(60)]}
    usual = pv.plan(own, **asked).summary()
    own["y"][7] = value
    plan = pv.plan(own, **asked)
    assert plan.summary() == usual
    assert plan.release(tmp_path / "z.json", account=ledger.account("y")).rows == 60


def test_rows_without_a_value_are_left_out(table):
    gaps = {name: list(values) for name, values in table.items()}
    gaps["ldl"][5] = gaps["ldl"][700] = None
    plan = planned(gaps, missing="drop")
    found = plan.simulate(rng=1)
    assert (found.rows, found.dropped) == (1998, 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"range": None}, "range of every private column"),
        ({"distribution": "laplace"}, "Gaussian"),
        ({"weights": "bmi", "features": ["age"], "categories": {}}, "survey weights"),
        ({"sensitivity": 1.0}, "sensitivity"),
        ({"range": (0, 1e100)}, "its width must lie between"),
        ({"range": (0, 1e-100)}, "its width must lie between"),
        ({"form": "sums"}, "form"),
        ({"form": "rows", "publish": "matrix", "delta": 1e-6}, "matrix"),
    ],
    ids=["range", "laplace", "weights", "sensitivity", "wide", "narrow", "form", "publish"],
)
def test_what_does_not_exist_is_refused(table, change, said):
    with pytest.raises(InvalidInput, match=said):
        planned(table, **change)


def test_too_few_rows_for_yes_no_have_no_estimate(table, ledger, tmp_path):
    """It depends on the released sums alone: it leaves, and is charged, all the same."""
    own = {"age": table["age"][:40], "ldl": (table["age"][:40] > 60).astype(float)}
    asked = ASKED | {"features": ["age"], "categories": {}, "family": "binomial", "range": None}
    plan = pv.plan(own, **asked, epsilon=0.2)
    found = [pv.estimate(plan.simulate(rng=seed)) for seed in range(12)]
    none = [one for one in found if np.isinf(one.standard_error).all()]
    assert none
    assert "no solution" in none[0].warnings[0]
    assert np.isnan(none[0].value).all()
    plan.release(tmp_path / "z.json", account=ledger.account("few"))
    assert pv.verify(tmp_path / "z.json", ledger=ledger).verified
