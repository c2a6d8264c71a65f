"""A plan at another level without its data: all that `make_plan` says of that level."""

from dataclasses import replace

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.records import quantile
from privest.workflow.plan import at_level, make_plan
from privest.workflow.rows_planner import GAUSSIAN_VARIANCE, LEVEL_COLUMN_VARIANCE
from privest.workflow.spec import Privacy, Public
from workflow_tables import matrix, people, spec, write

RANGE = (-2.0, 9.0)
STATED = {"range": {"ldl": RANGE}, "delta": 1e-6}


def table():
    found, rng = people(), np.random.default_rng(1)
    rows = len(found["age"])
    return found | {
        "hdl": rng.normal(2, 0.5, rows), "yes": rng.integers(0, 2, rows), "n": rng.poisson(3, rows),
        "id": np.repeat(np.arange(rows // 4), 4), "w": rng.uniform(0.5, 3, rows),
    }  # fmt: skip


KINDS = {
    "a level": {"privacy": Privacy(2.0)},
    "no noise variance": {"public": Public(), "privacy": Privacy(2.0, **STATED)},
    "a condition": {"privacy": Privacy(2.0, delta=1e-6, sensitivity=0.5)},
    "ε": {"privacy": Privacy(epsilon=1.0, **STATED)},
    "an accuracy": {"privacy": Privacy(standard_error={"age": 0.2})},
    "a logarithm": {
        "transform": "log", "privacy": Privacy(2.0, range={"ldl": (0.1, 50.0)}, delta=1e-6),
    },
    "a formula": {
        "formula": "ldl ~ age*C(sex) + I(bmi**2)", "features": (), "target": (),
    },
    "survey weights": {"weights": "w"},
    "yes or no": {
        "target": "yes", "family": "binomial", "public": Public(expected={"yes": 0.2}),
    },
    "counts": {"target": "n", "family": "poisson", "public": Public(expected={"n": 5.0})},
    "Laplace noise": {"privacy": Privacy(2.0, distribution="laplace", range={"ldl": RANGE})},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_at_another_level_is_that_of_its_spec(kind, tmp_path):
    """The file is gone when the level is changed: nothing of it is read."""
    file = write(table(), tmp_path / "people.csv")
    plan = make_plan(spec(file, **KINDS[kind]))
    wanted = make_plan(replace(plan.spec, privacy=at_level(plan.privacy, 0.7)))
    file.unlink()
    found = plan.at(0.7)
    assert found.spec == wanted.spec
    assert found.to_dict() == wanted.to_dict()
    np.testing.assert_array_equal(found.survey.triangle, wanted.survey.triangle)


def test_another_section_on_privacy(tmp_path):
    """An accuracy, an ε or a range in place of a level: what the triangle says is enough."""
    file = write(table(), tmp_path / "people.csv")
    plan = make_plan(spec(file))
    sections = [
        Privacy(standard_error={"age": 0.01, "bmi": 0.05}),
        Privacy(epsilon=0.5, delta=1e-6, sensitivity=2.0),
        Privacy(3.0, distribution="laplace", range={"ldl": RANGE}),
    ]
    wanted = [make_plan(replace(plan.spec, privacy=one)) for one in sections]
    file.unlink()
    assert [plan.under(one).to_dict() for one in sections] == [one.to_dict() for one in wanted]
    with pytest.raises(InvalidInput, match="a level column is read from its table"):
        plan.under(Privacy(level_column="w"))


def test_a_level_column_is_put_aside_for_one_level(tmp_path):
    file = write(table(), tmp_path / "people.csv")
    own = make_plan(spec(file, privacy=Privacy(level_column="w")))
    assert own.at(2.0).to_dict() == make_plan(spec(file)).to_dict()


def test_a_reference_set_is_not_read_again(tmp_path):
    """What it said stays."""
    reference = write(people(150, seed=3), tmp_path / "public.csv")
    stated = spec(
        public=Public(reference=str(reference)), privacy=Privacy(2.0, range={"ldl": (0.5, 2.5)})
    )
    plan = make_plan(stated, table())
    wanted = make_plan(replace(stated, privacy=at_level(plan.privacy, 0.7)), table())
    reference.unlink()
    found = plan.at(0.7)
    assert found.to_dict() == wanted.to_dict()


# --- accuracy first -------------------------------------------------------------------------------

SEARCHED = ["a level", "an accuracy", "survey weights", "yes or no", "counts", "Laplace noise"]


@pytest.mark.parametrize("kind", SEARCHED)
def test_the_level_for_an_accuracy_gives_it(kind):
    plan = make_plan(spec(**KINDS[kind]), table())
    least, now = float(plan.classical_error[1]), float(plan.standard_error[1])
    for wanted in (now, 3 * now, (least + now) / 2):
        level = plan.level_for(wanted, "age")
        np.testing.assert_allclose(plan.at(level).standard_error[1], wanted, rtol=1e-9)
        half = plan.level_for(quantile(0.95) * wanted, "age", 0.95)
        np.testing.assert_allclose(half, level, rtol=1e-9)


@pytest.mark.parametrize("kind", ["a level", "survey weights", "levels"])
def test_errors_of_a_plan_are_those_of_noise_in_whole_steps(kind):
    """The largest variance of a released value, whatever the rounding of its level."""
    kinds = KINDS | {"levels": {"privacy": Privacy(level_column="level")}}
    data = table()
    data["level"] = np.full(200, 0.7)
    plan = make_plan(spec(**kinds[kind] | {"public": Public(0.3)}), data)
    plan = plan if kind == "levels" else plan.at(0.7)
    worst = LEVEL_COLUMN_VARIANCE if kind == "levels" else GAUSSIAN_VARIANCE
    added = worst / plan.columns[0].level
    H, weight = matrix(data), data["w"] if kind == "survey weights" else np.ones(200)
    B = np.linalg.solve(H.T @ (H * weight[:, None]), H.T * weight)
    unit = np.square(B).sum(axis=1)
    np.testing.assert_allclose(plan.privacy_error**2, added * unit, rtol=1e-10)
    variance = plan.columns[0].residual_variance
    np.testing.assert_allclose(plan.standard_error**2, (variance + added) * unit, rtol=1e-10)


@pytest.mark.parametrize("kind", ["no noise variance", "a level"])
def test_what_privacy_alone_may_add_needs_no_noise_variance(kind):
    plan = make_plan(spec(**KINDS[kind]), table())
    level = plan.level_for(0.01, "age", alone=True)
    np.testing.assert_allclose(plan.at(level).privacy_error[1], 0.01, rtol=1e-9)


def test_an_accuracy_that_cannot_be_had_says_how_many_rows_it_takes():
    """By hand: variances go with 1/rows, so half the error without privacy takes 4·200 rows."""
    plan = make_plan(spec(), table())
    half = float(plan.classical_error[1]) / 2
    with pytest.raises(InvalidInput, match=r"80[01] rows.*are 200"):
        plan.level_for(half, "age")
    with pytest.raises(InvalidInput, match="'age' cannot have"):
        plan.level_for(half, "age", 0.95)
    for tiny in (1e-200, 1e-308):
        with pytest.raises(InvalidInput, match="rows like these are needed"):
            plan.level_for(tiny, "age")
        with pytest.raises(InvalidInput, match="too large for a number"):
            plan.level_for(tiny, "age", alone=True)


def test_what_has_no_level_for_an_accuracy_says_so():
    unknown = make_plan(spec(public=Public()), table())
    with pytest.raises(InvalidInput, match="needs the residual variance"):
        unknown.level_for(0.01, "age")
    with pytest.raises(InvalidInput, match="no coefficient 'agee'"):
        make_plan(spec(), table()).level_for(0.01, "agee")
