"""What can be asked of a release, and what is known of it before it is made."""

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.report.findings import mean_sentence, split_table
from privest.workflow import (
    Noise,
    People,
    Privacy,
    Weights,
    estimate_release,
    make_plan,
    release,
    simulate_release,
    stated_terms,
    trial_source,
)
from privest.workflow._asking import error_ways, row_features
from privest.workflow._releasing import LATER, described_before, planned_release
from workflow_tables import people, spec

EVERY = ("auto", "t", "HC3", "HC2", "stated", "huber", "cr2", "reml", "model")


def made(folder, table=None, **changes):
    data = table or people()
    plan = make_plan(spec(**changes), data)
    return simulate_release(plan, folder / "z.csv", trial_source(plan, 1), data)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"noise": Noise()},
        {"weights": Weights("w")},
        {"person": People("who")},
        {"privacy": Privacy(level_column="w")},
        {"target": "sick", "family": "binomial", "noise": Noise()},
    ],
)
def test_ways_that_are_offered_work_and_others_do_not(tmp_path, changes):
    """Of a real estimate: each offered way gives one, each other is refused, or says no more."""
    table = people(300) | {"w": np.linspace(1, 2, 300), "who": np.arange(300) // 3}
    table["sick"] = (table["ldl"] > np.median(table["ldl"])).astype(float)
    header = made(tmp_path, table, **changes)
    offered = error_ways(header)
    assert next(iter(offered)) == "auto"
    for way in EVERY:
        if way in offered:
            assert np.isfinite(estimate_release(tmp_path / "z.csv", way).standard_error).all()
        else:
            with pytest.raises(InvalidInput):
                estimate_release(tmp_path / "z.csv", way)


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
    found = estimate_release(tmp_path / "b" / "z.csv")
    row = {name: 2.0 if choices is None else choices[1] for name, choices in asked.items()}
    assert set(row.values()) == {2.0, "male"}
    expected = found.mean_at(row).mean
    assert "there (90% interval " in mean_sentence(found, found.mean_at(row, 0.9), 0.9).text
    for name in row:
        with pytest.raises(InvalidInput):
            found.mean_at({one: value for one, value in row.items() if one != name})
    assert np.isfinite(expected)


def test_errors_in_two_parts(tmp_path):
    """By the known noise, 1/s of the level, and the rest."""
    made(tmp_path)
    found = estimate_release(tmp_path / "z.csv", "stated")
    table = split_table(found)
    private = np.sqrt(np.diagonal(found.privacy))
    for row, own, whole in zip(table.rows, private, found.standard_error):
        assert row[3].value == pytest.approx(own)
        assert row[4].value == pytest.approx((own / whole) ** 2)


def test_the_header_before_it_is_made(tmp_path):
    terms, table = stated_terms(spec()), people()
    before = described_before(terms, tmp_path / "z.csv")
    columns = planned_release(terms, tmp_path / "z.csv").table_columns
    assert not list(tmp_path.iterdir())
    real = release(terms, tmp_path / "z.csv", table)
    after = real.to_dict()
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == set(LATER)
    assert columns == real.table_columns
