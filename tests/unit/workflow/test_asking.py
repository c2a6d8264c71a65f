"""What can be asked of a release, and what is known of it before it is made."""

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.release import simulate_release, simulation_source
from privest.workflow.spec import Privacy, Public
from privest.workflow.units import row_features
from workflow_tables import people, spec

EVERY = ("auto", "t", "HC3", "HC2", "model")


def made(folder, table=None, **changes):
    data = table or people()
    plan = make_plan(spec(**changes), data)
    return simulate_release(plan, folder / "z.csv", simulation_source(plan, 1), data)


PLAIN = {"auto", "t", "HC3", "HC2"}


@pytest.mark.parametrize(
    ("changes", "offered"),
    [
        ({}, PLAIN),
        ({"public": Public()}, PLAIN),
        ({"weights": "w"}, {"auto", "HC3", "HC2"}),
        ({"privacy": Privacy(level_column="w")}, {"auto"}),
        (
            {"target": "sick", "family": "binomial", "public": Public()},
            {"auto", "model", "HC3"},
        ),
    ],
)
def test_ways_that_are_offered_work_and_others_do_not(tmp_path, changes, offered):
    """Of a real estimate: each offered way gives one, each other is refused, or says no more."""
    table = people(300) | {"w": np.linspace(1, 2, 300), "who": np.arange(300) // 3}
    table["sick"] = (table["ldl"] > np.median(table["ldl"])).astype(float)
    made(tmp_path, table, **changes)
    for way in EVERY:
        if way in offered:
            assert np.isfinite(estimate(tmp_path / "z.csv", cov_type=way).standard_error).all()
        else:
            with pytest.raises(InvalidInput):
                estimate(tmp_path / "z.csv", cov_type=way)


def test_features_of_a_mean(tmp_path):
    """With a value for each of them there is one; formulas with products too."""
    header = made(tmp_path)
    assert row_features(header) == {"age": None, "bmi": None, "sex": ("female", "male")}
    (tmp_path / "b").mkdir()
    header = made(
        tmp_path / "b", features=(), categories={"sex": ("female", "male")},
        formula="ldl ~ age*C(sex) + I(bmi**2)", target=(),
    )  # fmt: skip
    asked = row_features(header)
    found = estimate(tmp_path / "b" / "z.csv")
    row = {name: 2.0 if choices is None else choices[1] for name, choices in asked.items()}
    assert set(row.values()) == {2.0, "male"}
    expected = found.predict(row).value
    for name in row:
        with pytest.raises(InvalidInput):
            found.predict({one: value for one, value in row.items() if one != name})
    assert np.isfinite(expected)
