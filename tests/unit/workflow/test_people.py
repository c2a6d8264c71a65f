"""Persons with several rows, in a plan."""

import numpy as np
import pandas as pd
import pytest

import privest as pv
from privest.errors import InvalidInput
from privest.report.describe import describe
from privest.workflow.plan import make_plan
from privest.workflow.spec import Privacy
from workflow_tables import stated

SUMS = Privacy(epsilon=4.0, range={"y": (-9.0, 9.0)}, form="aggregate")


def table(people=30, seed=0, scattered=False):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, people)
    labels = np.repeat(np.arange(people), sizes)
    frame = pd.DataFrame({
        "id": [f"person {k}" for k in labels],
        "x": rng.standard_normal(len(labels)),
        "b": rng.standard_normal(people)[labels],
    })  # fmt: skip
    frame["y"] = 1 + 0.5 * frame.x - 0.3 * frame.b + 0.7 * rng.standard_normal(people)[labels]
    frame["y"] += 0.5 * rng.standard_normal(len(labels))
    return frame.sample(frac=1, random_state=seed) if scattered else frame


def spec(most=None, features=("x", "b"), **options):
    privacy = options.pop("privacy", SUMS)
    own = {"target": "y", "features": features, "person": "id", "most_rows": most}
    return stated("t.csv", privacy, **own | options)


def test_one_person_only():
    data = table().assign(id="me")
    with pytest.raises(InvalidInput, match="one person only"):
        make_plan(spec(), data)


def test_every_person_has_one_row():
    data = table()
    with pytest.raises(InvalidInput, match="has one row"):
        make_plan(spec(), data.assign(id=np.arange(len(data))))


def test_a_row_of_nobody():
    data = table()
    data.loc[4, "id"] = None
    with pytest.raises(InvalidInput, match=r"column 'id', row 5: it does not say whose row"):
        make_plan(spec(), data)
    assert make_plan(spec(missing="drop"), data).dropped == 1


def test_numbers_are_names_too():
    data = table()
    data["id"] = data.id.str.removeprefix("person ").astype(int)
    assert make_plan(spec(), data).simulate(rng=1).persons == 30


def test_a_person_with_very_many_rows():
    """They are taken; a cap cuts them."""
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"id": np.r_[np.zeros(1500), np.arange(1, 500)].astype(int)})
    data["x"], data["y"] = rng.standard_normal((2, len(data)))
    plan = make_plan(spec(features=("x",)), data)
    assert (plan.most, plan.survey.strata.largest, plan.survey.strata.cut) == (1500, 1500, 0)
    capped = make_plan(spec(5, features=("x",)), data)
    found = capped.survey.strata
    assert (capped.most, found.largest, found.cut, found.count) == (5, 1500, 1495, 500)


def test_what_does_not_go_with_persons():
    for options, said in (
        ({"features": ("x", "id")}, "cannot be a feature too"),
        ({"weights": "w"}, "survey weights"),
        ({"privacy": Privacy(level=1.0)}, "need the aggregate form, with an epsilon"),
        ({"privacy": Privacy(level_column="w")}, "need the aggregate form"),
        ({"family": "poisson"}, "Counts in sums"),
        ({"family": "binomial"}, "need a numeric outcome"),
    ):
        with pytest.raises(InvalidInput, match=said):
            spec(**options)


def test_a_plan_of_persons_does_not_read_the_readings():
    data = table()
    gaps = data.assign(y=data.y.where(data.x < 0))
    full, some = (make_plan(spec(missing="drop"), one) for one in (data, gaps))
    assert (some.rows, some.dropped) == (full.rows, 0)
    np.testing.assert_array_equal(some.privacy_error, full.privacy_error)


def test_rows_of_a_person_may_depend_in_any_way_unless_stated():
    """Planned errors: with values that are equal in a person, the largest; else as stated."""
    people, rows = 40, 5
    data = pd.DataFrame({"id": np.repeat(np.arange(people), rows), "y": 0.0})
    asked = {"target": "y", "person": "id", "epsilon": 3.0, "range": (-9, 9)}

    def sampling(**more):
        plan = pv.plan(data, **asked, residual_variance=4.0, **more)
        assert plan.classical_error == pytest.approx(
            np.sqrt(plan.standard_error**2 - plan.privacy_error**2)
        )
        return float(plan.classical_error[0] ** 2), "\n".join(str(x) for x in describe(plan))

    alone, one = 4.0 / (people * rows), 4.0 / people  # variance of a mean of 200 rows, 40 persons
    for correlation, expected in ((0.0, alone), (1.0, one), (0.25, 0.75 * alone + 0.25 * one)):
        found, said = sampling(within_person_correlation=correlation)
        assert found == pytest.approx(expected, rel=1e-9)
        assert "are taken to have" in said
    found, said = sampling()
    assert found == pytest.approx(one, rel=1e-9)
    assert "in any way" in said


def test_a_correlation_within_persons_is_public_and_of_persons():
    data = table()
    for wrong in (-0.1, 1.5, float("nan"), "half"):
        with pytest.raises(InvalidInput, match="within_person_correlation"):
            pv.plan(data, "y ~ x", person="id", epsilon=3.0, range=(-9, 9),
                    within_person_correlation=wrong)  # fmt: skip
    with pytest.raises(InvalidInput, match="says whose row"):
        pv.plan(data, "y ~ x", epsilon=3.0, range=(-9, 9), within_person_correlation=0.5)
    plans = [
        pv.plan(one, "y ~ x", person="id", epsilon=3.0, range=(-9, 9), residual_variance=1.0)
        for one in (data, data.assign(y=0.0), data.assign(y=np.arange(len(data)) % 2 * 9.0))
    ]
    for plan in plans[1:]:
        assert plan.to_dict() == plans[0].to_dict()
        assert plan.splits == plans[0].splits


def test_it_survives_a_plan_file(tmp_path):
    data = table()
    data.to_csv(tmp_path / "t.csv", index=False)
    plan = pv.plan(tmp_path / "t.csv", "y ~ x", person="id", epsilon=3.0, range=(-9, 9),
                   residual_variance=1.0, within_person_correlation=0.4)  # fmt: skip
    plan.save(tmp_path / "plan.toml")
    again = pv.workflow.read_plan(tmp_path / "plan.toml")
    np.testing.assert_allclose(again.standard_error, plan.standard_error, rtol=1e-12)
    assert again.spec.public.within_person_correlation == 0.4
