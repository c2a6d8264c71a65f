"""Estimates in the units of the file."""

import numpy as np
import pytest

from privest.data.formula import read_formula
from privest.errors import InvalidInput
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import simulate_release, simulation_source
from privest.workflow.spec import Privacy
from privest.workflow.units import row_of
from workflow_tables import LEVEL, THETA, matrix, people, spec, write

LISTS = {"sex": ("female", "male")}
NAMES = ("intercept", "age", "bmi", "sex=male")
ROW = {"age": 50, "bmi": 27.0, "sex": "male"}
H = np.array([1.0, 50.0, 27.0, 1.0])


def released(folder, table, transform="none", ends=(1e-3, 1e3), **changes):
    """The estimate of a simulated release of this table."""
    data = write(table, folder / "people.csv")
    privacy = Privacy(level=LEVEL, range={"ldl": ends})
    asked = spec(data, transform=transform, privacy=privacy, **changes)
    terms = stated_plan(asked) or make_plan(asked)
    file = folder / f"{transform}{len(list(folder.iterdir()))}.csv"
    simulate_release(terms, file, simulation_source(terms, 3))
    return estimate(file)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """exp(ldl), so that the model is that of its logarithm."""
    table = people(400, seed=2)
    table["ldl"] = np.exp(table["ldl"])
    return released(tmp_path_factory.mktemp("logs"), table, "log"), table


def test_coefficients_of_a_logarithm_are_per_cent(logs):
    found, _ = logs
    percent = found.percent()
    assert set(percent) == {"age", "bmi", "sex=male"}  # an intercept is no difference
    ends = found.interval()
    for name, (value, low, high) in percent.items():
        j = NAMES.index(name)
        assert value == pytest.approx(100 * (np.exp(found.value[j]) - 1))
        assert (low, high) == pytest.approx(tuple(100 * (np.exp(ends[j]) - 1)))
    assert found.to_dict()["percent"]["age"] == percent["age"].tolist()


def test_the_median_at_a_row_of_a_logarithm(logs):
    """Within an interval of 1 − 1e-6, by the interval of hθ̂."""
    found, _ = logs
    one = found.predict(ROW)
    ((low, high),) = found.predict(ROW, confidence=1 - 1e-6).interval
    assert one.kind == "median"
    assert one.value == pytest.approx(np.exp(H @ found.value))
    assert low < np.exp(H @ THETA) < high
    (ends,), (new,) = one.interval, one.prediction_interval
    assert new[0] < ends[0] < ends[1] < new[1]
    assert np.isinf(found.predict(ROW | {"age": 1e9}).prediction_interval).any()  # and no warning


def test_plain_targets_have_means_too(tmp_path):
    table = people(400, seed=2)
    plain = released(tmp_path, table, "none", (-50.0, 50.0))
    mean = plain.predict(ROW)
    assert (mean.kind, mean.value[0]) == ("mean", pytest.approx(H @ plain.value))
    assert plain.percent() == {}


def test_rows_by_name():
    np.testing.assert_array_equal(row_of(NAMES, ROW, LISTS), H)
    np.testing.assert_array_equal(row_of(NAMES, ROW | {"sex": "female"}, LISTS), [1, 50, 27, 0])
    by_coefficient = {"age": 50, "bmi": 27, "sex=male": 1}
    np.testing.assert_array_equal(row_of(NAMES, by_coefficient, LISTS), H)
    np.testing.assert_array_equal(row_of(("age",), {"age": 3}, {}), [3.0])
    for row, said in (
        ({"age": 50, "bmi": 27}, "'sex=male' has none"),
        (ROW | {"aeg": 3}, "Did you mean 'age'"),
        (ROW | {"age": "old"}, "age"),
        (ROW | {"intercept": 3}, "no feature 'intercept'"),
        (ROW | {"sex": "femal"}, "not in the public list .* female, male. Did you mean 'female'"),
        (ROW | {"sex": 1.0}, "not in the public list"),
    ):
        with pytest.raises(InvalidInput, match=said):
            row_of(NAMES, row, LISTS)
    assert (matrix(people(3))[:, 0] == 1).all()


def test_categories_that_are_numbers_and_products_of_features():
    """As the design itself has them: a "1" of the list is the number 1, age:sex=m a product."""
    lists = {"ward": ("0", "1", "2"), "sex": ("f", "m")}
    for text in ("y ~ age * C(sex) + C(ward)", "y ~ 0 + C(ward) + age * C(sex)"):
        design = read_formula(text, lists).features
        block = {name: np.array([value], object) for name, value in (("sex", "m"), ("ward", "1"))}
        expected = design.matrix(block | {"age": np.array([50.0])})[0]
        row = {"age": 50, "sex": "m", "ward": 1.0}
        np.testing.assert_array_equal(row_of(design.names, row, design.categories), expected)
        with pytest.raises(InvalidInput, match="'age' has none"):
            row_of(design.names, {"sex": "m", "ward": "1"}, design.categories)
