"""Persons with several rows, in a plan."""

import numpy as np
import pandas as pd
import pytest

from privest.errors import InvalidInput
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
        ({"family": "poisson"}, "need a numeric outcome"),
    ):
        with pytest.raises(InvalidInput, match=said):
            spec(**options)


def test_a_plan_of_persons_does_not_read_the_readings():
    data = table()
    gaps = data.assign(y=data.y.where(data.x < 0))
    full, some = (make_plan(spec(missing="drop"), one) for one in (data, gaps))
    assert (some.rows, some.dropped) == (full.rows, 0)
    np.testing.assert_array_equal(some.privacy_error, full.privacy_error)
