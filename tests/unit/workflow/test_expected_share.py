"""Planned errors of yes/no and counts depend on the mean: it is stated, or three are shown."""

import json

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput
from workflow_command import called
from workflow_tables import write

ROWS, SHARE = 4400, 0.018  # of the National Medical Expenditure Survey


@pytest.fixture(scope="module")
def table():
    """1.8% of yes: a rare event."""
    rng = np.random.default_rng(11)
    age = rng.standard_normal(ROWS).round(3)
    chance = np.exp(0.2 * age)
    ill = np.zeros(ROWS, dtype=int)
    ill[rng.choice(ROWS, round(SHARE * ROWS), replace=False, p=chance / chance.sum())] = 1
    visits = rng.poisson(np.exp(0.5 + 0.2 * age))
    return {"age": age, "ill": ill, "visits": visits}


def planned(table, expected=None, **more):
    asked = {"family": "binomial", "epsilon": 10.0, "expected": expected}
    return pv.plan(table, "ill ~ age", **asked | more)


@pytest.mark.parametrize("epsilon", [3.0, 10.0])
def test_planned_errors_of_a_rare_yes_are_those_of_its_release(table, epsilon):
    """Within 15%: a plan has one share for all rows; with exp(.2x) shares differ by a fifth.

    With 50% in place of 1.8% they were less than a third.
    """
    plan = planned(table, {"ill": SHARE}, epsilon=epsilon)
    released = [pv.estimate(plan.simulate(rng=k)).standard_error for k in range(40)]
    np.testing.assert_allclose(plan.standard_error, np.median(released, axis=0), rtol=0.15)
    assert plan.scenarios == {}
    half = planned(table, {"ill": 0.5}, epsilon=epsilon)
    assert (plan.standard_error > 3 * half.standard_error).all()


@pytest.mark.parametrize("form", ["aggregate", "rows"])
def test_without_a_share_a_plan_shows_three(table, form):
    plan = planned(table, form=form)
    assert list(plan.scenarios) == ["50% yes", "10% yes", "2% yes"]
    assert np.isnan(plan.standard_error).all()
    frame, told = plan.to_frame("pandas"), json.loads(json.dumps(plan.to_dict()))
    for share, (name, scenario) in zip((0.5, 0.1, 0.02), plan.scenarios.items(), strict=True):
        stated = planned(table, {"ill": share}, form=form)
        np.testing.assert_array_equal(scenario.standard_error, stated.standard_error)
        assert f"std err, {name}" in plan.summary()
        for shown in (frame[f"standard_error, {name}"].tolist(), told["scenarios"][name]):
            np.testing.assert_allclose(shown, stated.standard_error, rtol=1e-12)
    assert "10% yes" not in planned(table, {"ill": 0.3}, form=form).summary()


def test_counts_of_rows_show_three_means(table):
    asked = {"family": "poisson", "form": "rows", "level": 1.0}
    plan = pv.plan(table, "visits ~ age", **asked)
    assert list(plan.scenarios) == ["mean 10", "mean 1", "mean 0.1"]
    assert np.isnan(plan.standard_error).all()
    stated = pv.plan(table, "visits ~ age", expected={"visits": 1.0}, **asked)
    np.testing.assert_array_equal(plan.scenarios["mean 1"].standard_error, stated.standard_error)


@pytest.mark.parametrize("form", ["aggregate", "rows"])
def test_a_wanted_accuracy_needs_the_share(table, form):
    plan = planned(table, form=form)
    for ask in (lambda: plan.rows_for(0.1, "age"), lambda: plan.level_for(0.1, "age")):
        with pytest.raises(InvalidInput, match="the expected share of yes: state it"):
            ask()
    stated = planned(table, {"ill": SHARE}, form=form)
    wanted = 1.1 * float(stated.standard_error[1])
    level = stated.level_for(wanted, "age")
    found = stated.errors(stated.column, level).total[1]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_the_terminal_shows_three_columns_or_the_stated_one(table, tmp_path):
    path = write(table, tmp_path / "people.csv")
    asked = ("plan", path, "--target", "ill", "--features", "age", "--family", "binomial")
    done = called(*asked, "--epsilon", 10)
    assert done.returncode == 0, done.stderr
    for said in ("50% yes", "10% yes", "2% yes", "No expected share or mean is stated"):
        assert said in done.stdout
    share = ("--set", f"public.expected.ill={SHARE}")
    done = called(*asked, "--epsilon", 10, *share)
    assert "10% yes" not in done.stdout
    assert "a share of yes of 1.8%, which is stated" in " ".join(done.stdout.split())
    refused = called(*asked, "--epsilon", 10, "--want", "age=0.1")
    assert refused.returncode == 2
    assert "the expected share of yes: state it" in " ".join(refused.stderr.split())
    assert called(*asked, "--epsilon", 10, *share, "--want", "age=0.1").returncode == 0
