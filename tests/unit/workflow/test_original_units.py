"""Estimates in the units of the file."""

from dataclasses import replace

import numpy as np
import pytest

from privest.data.formula import read_formula
from privest.errors import InvalidInput
from privest.estimator.inference import Scatter
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import simulate_release, simulation_source
from privest.workflow.spec import Privacy
from privest.workflow.units import row_of
from workflow_tables import LEVEL, THETA, VARIANCE, matrix, people, spec, write

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


def plain_fit(found):
    """Least squares and its scatter, written out."""
    blocks = list(found.release.blocks())
    rows, z = (np.concatenate([getattr(b, name) for b in blocks]) for name in ("H", "z"))
    theta = np.linalg.lstsq(rows, z[:, 0], rcond=None)[0]
    left = len(rows) - len(theta)
    squares = float(((z[:, 0] - rows @ theta) ** 2).sum())
    return np.linalg.inv(rows.T @ rows), Scatter(squares, left, 1 / LEVEL), z[:, 0]


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


def test_the_mean_at_a_row_says_what_it_assumes(logs):
    """Within an interval of 1 − 1e-6; the release noise is not in it."""
    found, _ = logs
    truth = np.exp(H @ THETA + VARIANCE / 2)
    mean, (low, high) = found.mean_at(ROW), found.mean_at(ROW, confidence=1 - 1e-6).interval
    assert low < truth < high
    # v̂ in place of σ² would be e^{1/2s} too large.
    assert abs(np.log(mean.mean / truth)) < 0.5 / LEVEL
    assert mean.method == "if the logarithms have normal errors, with a variance by features"


def test_the_mean_at_a_row_has_the_variance_of_that_row():
    """σ grows with x: intervals of the mean covered .06, "exactly unbiased"."""
    x = np.random.default_rng(1).normal(size=400)
    private = Privacy(level=4.0, range={"y": (1e-9, 1e9)})
    asked = spec(features=("x",), categories={}, target="y", transform="log", privacy=private)
    terms, rng, held = stated_plan(asked), np.random.default_rng(2), 0
    for _ in range(30):
        y = np.exp(1 + 0.5 * x + 0.5 * np.exp(0.7 * x) * rng.normal(size=400))
        found = estimate(replace(terms, data={"x": x, "y": y}).simulate(rng=rng))
        low, high = found.mean_at({"x": -1.5}).interval
        held += low < np.exp(1 - 0.75 + 0.125 * np.exp(-2.1)) < high
    assert held >= 25


def test_few_rows_have_one_variance_and_say_so(tmp_path):
    table = people(20, seed=2)
    table["ldl"] = np.exp(table["ldl"])
    found = released(tmp_path, table, "log")
    assert "the same variance in all rows" in found.mean_at(ROW).method


def test_maximum_likelihood_gives_the_mean_too(tmp_path):
    """A range that clips a fifth: the mean is of the readings as they were, not as clipped."""
    table = people(3000, seed=2)
    table["ldl"] = np.exp(table["ldl"])
    low, high = np.exp([0.2, 1.6])
    found = released(tmp_path, table, "log", (low, high))
    assert found.likelihood is not None
    assert 0.1 < found.clipped < 0.5
    truth = np.exp(H @ THETA + VARIANCE / 2)
    ends = found.mean_at(ROW, confidence=1 - 1e-6).interval
    assert ends[0] < truth < ends[1]
    assert "maximum likelihood" in found.mean_at(ROW).method


def test_plain_targets_have_means_too(tmp_path):
    table = people(400, seed=2)
    plain = released(tmp_path, table, "none", (-50.0, 50.0))
    mean = plain.mean_at(ROW)
    assert mean.mean == mean.median == pytest.approx(H @ plain.value)
    assert plain.percent() == {}


def test_persons_and_survey_weights_have_means_too(tmp_path):
    """σ² by residuals: the truth within an interval of 1 − 1e-6."""
    rng = np.random.default_rng(3)
    table = people(2400, seed=2)
    table["who"] = np.repeat(np.arange(600), 4)
    table["weight"] = rng.uniform(0.5, 3.0, 2400)
    shared = np.repeat(0.4 * rng.standard_normal(600), 4)  # of a person
    table["ldl"] = np.exp(table["ldl"] + shared)
    total = VARIANCE + 0.16
    for more in ({"person": "who"}, {"weights": "weight"}):
        found = released(tmp_path, table, "log", (1e-6, 1e6), **more)
        low, high = found.mean_at(ROW, confidence=1 - 1e-6).interval
        assert low < np.exp(H @ THETA + total / 2) < high


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
