"""A small table of people for the workflow's tests, as a dictionary and as files."""

from dataclasses import replace

import numpy as np
import pandas as pd

from privest.data import Format, inspect
from privest.workflow import Spec
from privest.workflow.rows_planner import GAUSSIAN_VARIANCE
from privest.workflow.spec import Model, Privacy, Public

VARIANCE, LEVEL = 0.3, 2.0
UNIT = GAUSSIAN_VARIANCE  # s times the variance that a plan says, which whole steps do not exceed
UNIT_BEFORE = 1 + 0.75 * 2.0**-20  # the same of a real release on the grid of 2⁻¹⁰
POSITIVE = (1e-3, 1e3)  # far around exp(ldl): nothing is clipped
THETA = np.array([1.0, 0.02, -0.05, 0.4])  # intercept, age, bmi, sex=male


def people(rows=200, seed=0):
    """Age and bmi of an ordinary size, sex as words, and a target that follows the model."""
    rng = np.random.default_rng(seed)
    table = {
        "age": rng.uniform(20, 80, rows).round(3),
        "bmi": rng.normal(27, 4, rows).round(3),
        "sex": rng.choice(["female", "male"], rows),
    }
    table["ldl"] = matrix(table) @ THETA + np.sqrt(VARIANCE) * rng.standard_normal(rows)
    return table


def matrix(table):
    """H, written out."""
    return np.column_stack(
        [np.ones(len(table["age"])), table["age"], table["bmi"], table["sex"] == "male"]
    )


def stated(data, privacy, public=None, format=None, **model):
    """A specification of these fields of its model."""
    return Spec(
        str(data),
        Model(**model),
        privacy,
        public or Public(),
        Format() if format is None else format,
    )


def spec(data="people.csv", **changes):
    """The plan for such a table; a transform gets the wide range that it needs."""
    fields = {
        "target": "ldl",
        "features": ("age", "bmi", "sex"),
        "categories": {"sex": ("female", "male")},
        "public": Public(VARIANCE),
        "privacy": Privacy(LEVEL),
    }
    fields |= changes
    if fields.get("transform", "none") != "none" and not fields["privacy"].range:
        fields["privacy"] = replace(fields["privacy"], range={fields["target"]: POSITIVE})
    return stated(data, **fields)


def write(table, path):
    """To .csv or .parquet."""
    frame = pd.DataFrame(table)
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


def look_at(table, format=None):
    """The look of a table all of whose columns are public."""
    names = [one.name for one in inspect(table, format).columns if not one.problem]
    return inspect(table, format, public=names)
