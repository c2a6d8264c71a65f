"""Promises, ranges and columns that no release can have: refused in a sentence, when planned."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privest as pv
from privest.errors import InvalidInput
from resealed import resealed, written

RNG = np.random.default_rng(4)
TABLE = {"x": RNG.uniform(-1, 1, 60), "y": RNG.normal(0, 1, 60), "b": RNG.integers(0, 2, 60)}
RANGE = (-3.0, 3.0)
GOLDEN = Path(__file__).parents[2] / "golden" / "kinds"

BEYOND = {
    "ε of sums": ("b ~ x", {"family": "binomial", "epsilon": 1e308, "range": (0.0, 1e50)}),
    "ε of sums of numbers": ("y ~ x", {"epsilon": 1e308, "range": RANGE}),
    "ε of yes and no": (
        "b ~ x",
        {"form": "rows", "family": "binomial", "epsilon": 1e150, "range": (0.0, 1e155)},
    ),
    "a level without an ε": (
        "y ~ x",
        {"form": "rows", "level": 1e-308, "delta": 1e-300, "range": RANGE},
    ),
    "a level of yes and no": (
        "b ~ x",
        {"form": "rows", "family": "binomial", "level": 1e-300, "range": (-1e300, 1e300)},
    ),
    "an accuracy of sums": (
        "y ~ x",
        {"standard_error": {"x": 1e155}, "range": (0.0, 1e5), "residual_variance": 1e-100},
    ),
    "a sensitivity": (
        "y ~ x",
        {"form": "rows", "level": 1.0, "delta": 1e-300, "range": RANGE, "sensitivity": 1e-308},
    ),
    "a range far from 0, sums": ("y ~ x", {"epsilon": 1.0, "range": (1e9, 1e9 + 1e-3)}),
    "a range far from 0, rows": (
        "y ~ x",
        {"form": "rows", "level": 1e20, "delta": 1e-6, "range": (1e9, 1e9 + 1e-3)},
    ),
}


@pytest.mark.parametrize("case", BEYOND)
def test_a_plan_that_no_release_can_keep(case):
    formula, stated = BEYOND[case]
    with pytest.raises(InvalidInput) as refused:
        pv.plan(TABLE, formula, **stated)
    assert "\n" not in str(refused.value)


def test_a_shift_below_one_step_of_the_grid_has_an_epsilon():
    """X against X + φ steps is a mixture of no shift and of one step: ε falls with φ, to 0."""
    found = [
        pv.privacy.grid_statement(level, sensitivity=1.0, delta=1e-300).epsilon
        for level in (1e-7, 1e-8, 1e-20, 1e-100, 1e-308)
    ]
    assert np.isfinite(found).all()
    assert sorted(found, reverse=True) == found


@pytest.mark.parametrize(
    ("kind", "name", "place"),
    [
        ("aggregate", "release.json", "epsilon"),
        ("epsilon", "release.csv", "epsilon"),
        ("level", "release.csv", "level"),
        ("move", "release.csv", "sensitivity"),
    ],
)
@pytest.mark.parametrize("number", [1e308, 1e-308])
def test_a_document_with_such_a_number(tmp_path, kind, name, place, number):
    for file in (GOLDEN / kind).glob("release.*"):
        shutil.copy(file, tmp_path)
    header = tmp_path / (name if name.endswith(".json") else f"{name}.json")
    record = json.loads(header.read_text())
    record["plan"]["privacy"][place] = number
    record["facts"]["epsilon"] = number
    if "range" in record["plan"]["privacy"]:
        record["plan"]["privacy"]["range"] = {"ldl": [0.0, 0.1]}
    for column in record["columns"]:
        column["level"] = number
    header.write_text(written(resealed(record)))
    with pytest.raises(InvalidInput, match=place):
        pv.verify(tmp_path / name)


LISTS = {
    "some": [[1.0], [2.0, 3.0], *[1.0] * 58],
    "of one number": [[1.0]] * 60,
    "vectors": [np.ones(2)] * 60,
}


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("make", [dict, pd.DataFrame], ids=["mapping", "frame"])
def test_a_column_that_holds_lists(make, kind):
    column = LISTS[kind] if make is dict else pd.Series(LISTS[kind])
    table = make({"x": TABLE["x"], "y": column})
    with pytest.raises(
        InvalidInput, match=r"column 'y'|a column that holds lists|vectors of one length"
    ) as refused:
        pv.plan(table, "y ~ x", epsilon=1.0, range=RANGE).simulate(rng=1)
    assert "2.0" not in str(refused.value)
