"""A level column: levels of the rows in the table, the plan, the release and the estimate."""

import json
from dataclasses import replace

import numpy as np
import pytest

import privest as pv
from charged import charged
from privest.errors import BudgetExceeded, InvalidInput, NotIdentifiable
from privest.estimator.inference import WeightedRows, fit_levels
from privest.lattice import GRID, literal_root
from privest.mechanism import RowMechanism
from privest.privacy import grid_statement
from privest.workflow import read_release
from privest.workflow.account import Account
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import release, simulate_release, simulation_source
from privest.workflow.rows_planner import LEVEL_COLUMN_VARIANCE
from privest.workflow.spec import Privacy, Public, load_spec, save_spec
from privest.workflow.verify import verify
from resealed import resealed, written
from workflow_tables import POSITIVE, THETA, UNIT_BEFORE, VARIANCE, matrix, people, spec, write


def unequal(rows=200, silent=20, seed=3):
    levels = np.random.default_rng(seed).uniform(0.5, 8.0, rows)
    levels[:silent] = 0.0
    return levels


def planned(levels=None, table=None, privacy=None, **changes):
    """The table with its levels, and the plan of both."""
    given = people() if table is None else table
    given = given | {"level": unequal() if levels is None else levels}
    asked = Privacy(**{"level_column": "level"} | (privacy or {}))
    return given, make_plan(spec(privacy=asked, **changes), given)


class Silent(np.random.Generator):
    """Noise of zero: what is released is what was to be shown, in whole steps."""

    def __init__(self):
        super().__init__(np.random.PCG64(0))

    def standard_normal(self, size):
        return np.zeros(size)


# --- the plan -------------------------------------------------------------------------------------


def test_errors_are_those_of_the_levels_by_the_formula():
    levels, H = unequal(), matrix(people())
    _, plan = planned()
    x = levels / (LEVEL_COLUMN_VARIANCE + VARIANCE * levels)
    errors = np.sqrt(np.diagonal(np.linalg.inv((H.T * x) @ H)))  # dense
    open_ = np.sqrt(VARIANCE * np.diagonal(np.linalg.inv(H.T @ H)))
    np.testing.assert_allclose(plan.standard_error, errors, rtol=1e-9)
    np.testing.assert_allclose(plan.classical_error, open_, rtol=1e-9)
    np.testing.assert_allclose(plan.privacy_error, np.sqrt(errors**2 - open_**2), rtol=1e-9)
    assert plan.level == plan.column.level == levels.max()
    found = plan.survey.levels
    assert (found.mean, found.withheld) == (pytest.approx(levels.mean()), 20)
    json.dumps(plan.to_dict())
    _, silent = planned(public=Public())
    alone = np.sqrt(LEVEL_COLUMN_VARIANCE * np.diagonal(np.linalg.inv((H.T * levels) @ H)))
    np.testing.assert_allclose(silent.privacy_error, alone, rtol=1e-9)
    assert np.isnan(silent.standard_error).all()


def test_epsilon_is_that_of_the_largest_level_over_the_range():
    _, plan = planned(privacy={"delta": 1e-6, "range": {"ldl": (-2.0, 8.0)}})
    assert plan.epsilon == grid_statement(plan.level, sensitivity=10.0, delta=1e-6).epsilon


def test_from_python_and_from_a_plan_file(tmp_path):
    table = people() | {"level": unequal()}
    held = pv.plan(
        table, target="ldl", features=("age", "bmi", "sex"),
        categories={"sex": ("female", "male")}, residual_variance=VARIANCE, level_column="level",
        form="rows",
    )  # fmt: skip
    stated = replace(held.spec, data=str(write(table, tmp_path / "people.csv")))
    save_spec(stated, tmp_path / "plan.toml")
    assert 'level_column = "level"' in (tmp_path / "plan.toml").read_text()
    again = make_plan(load_spec(tmp_path / "plan.toml"))
    np.testing.assert_array_equal(again.standard_error, held.standard_error)
    assert stated_plan(stated) is None


NEEDS = "needs Gaussian noise on one numeric outcome, one row per person, without weights"
WRONG = {
    "weights": ({"weights": "w"}, {}, NEEDS),
    "a family": ({"family": "poisson", "public": Public()}, {}, NEEDS),
    "coins": ({"family": "binomial", "public": Public()}, {}, NEEDS),
    "a distribution": ({}, {"distribution": "laplace"}, NEEDS),
    "several targets": ({"target": ("ldl", "hdl")}, {}, NEEDS),
    "the target": ({}, {"level_column": "ldl"}, "a public column of its own"),
    "a feature": ({}, {"level_column": "age"}, "a public column of its own"),
    "a coefficient": ({}, {"level_column": "sex=male"}, "a public column of its own"),
    "z": ({}, {"level_column": "z"}, "a public column of its own"),
    "another promise": ({}, {"level": 2.0}, "exactly one of level, level_column"),
    "no text": ({}, {"level_column": 1}, "level_column must be a text"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_go_together_is_said(case):
    fields, privacy, match = WRONG[case]
    with pytest.raises(InvalidInput, match=match):
        spec(privacy=Privacy(**{"level_column": "level"} | privacy), **fields)


@pytest.mark.parametrize("bad", [np.inf, -1.0, np.nan])
def test_levels_are_finite_and_not_negative(bad):
    levels = unequal()
    levels[40] = bad
    with pytest.raises(InvalidInput, match=r"levels are finite numbers|missing|not a finite"):
        planned(levels)


def test_levels_that_show_too_little_are_refused_by_the_plan():
    few = np.where(np.arange(200) < 4, 1.0, 0.0)
    with pytest.raises(InvalidInput, match="4 rows have a level above 0"):
        planned(few)
    women = np.where(people()["sex"] == "male", 0.0, 1.0)
    with pytest.raises(NotIdentifiable, match="sex=male"):
        planned(women)


def test_what_speaks_of_one_level_is_refused():
    _, plan = planned()
    with pytest.raises(InvalidInput, match="a column of its table"):
        plan.errors(plan.column, 1.0)
    with pytest.raises(InvalidInput, match="with one level"):
        plan.level_for(0.1, "age")


# --- the release ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_the_receiver_has_the_very_levels_of_the_holder(tmp_path, ending):
    path = tmp_path / f"z{ending}"
    table, plan = planned()
    charged(plan, path, table)
    found = read_release(path)
    levels = np.concatenate([part.levels for part in found.blocks()])
    np.testing.assert_array_equal(levels, table["level"])  # to the bit
    assert found.column.level == levels.max()
    shown = np.concatenate([part.z for part in found.blocks()])
    np.testing.assert_array_equal(np.isnan(shown), levels == 0)
    assert sum(len(part) for part in found.shown_blocks()) == (levels > 0).sum()
    assert list(found.to_frame().columns) == ["age", "bmi", "sex=male", "level", "z"]
    examined = verify(path).examined[1]
    assert "whole numbers, a level for every row" in examined


def test_what_is_released_is_each_reading_at_its_own_level(tmp_path):
    """Whole numbers: w_k·k and noise of a simulation; n·unit/√s_k of a real release."""
    levels = unequal()
    table, plan = planned()
    simulate_release(plan, tmp_path / "s.csv", np.random.default_rng(5), table)
    found = read_release(tmp_path / "s.csv")
    noise = np.sqrt(levels[20:]) * (found.values[20:] - table["ldl"][20:])
    # 180 unit normals: mean 0 ± 1/√180, mean square 1 ± √(2/180), five deviations each.
    assert abs(noise.mean()) < 5 / np.sqrt(180)
    assert abs((noise**2).mean() - 1) < 5 * np.sqrt(2 / 180)
    assert np.isnan(found.values[:20]).all()
    real = charged(plan, tmp_path / "z.csv", table)
    assert real.to_dict()["columns"][0]["unit"] == GRID
    z = np.loadtxt(tmp_path / "z.csv", delimiter=",", skiprows=1)[:, -1]
    assert (z == np.round(z)).all()
    assert (z[:20] == 0).all()
    noise = z[20:] * GRID - literal_root(levels[20:]) * table["ldl"][20:]
    # 180 unit normals: mean 0 ± 1/√180, mean square 1 ± √(2/180), five deviations each.
    assert abs(noise.mean()) < 5 / np.sqrt(180)
    assert abs((noise**2).mean() - 1) < 5 * np.sqrt(2 / 180)


def test_rows_are_dropped_with_their_levels(tmp_path):
    table = people()
    table["ldl"][[3, 50, 51]] = np.nan
    table["age"][[0, 199]] = np.nan
    table, plan = planned(table=table, missing="drop")
    assert (plan.rows, plan.dropped) == (198, 2)
    charged(plan, tmp_path / "z.csv", table)
    found = read_release(tmp_path / "z.csv")
    assert (found.rows, found.dropped) == (195, 5)
    levels = np.concatenate([part.levels for part in found.blocks()])
    np.testing.assert_array_equal(levels, np.delete(table["level"], [0, 3, 50, 51, 199]))


def test_infinite_readings_are_clipped_and_never_refused(tmp_path):
    table = people()
    table["ldl"][[0, 30]] = np.inf, -np.inf
    for ends in ({}, {"ldl": (-20.0, 80.0)}):
        given, plan = planned(table=table, privacy={"range": ends})
        path = tmp_path / f"{len(ends)}.csv"
        charged(plan, path, given)
        z = read_release(path).values
        assert np.isnan(z[0])
        assert z[30] < -10.0  # -20 and noise of sd 0.55


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_a_simulation_refuses_infinite_readings(law):
    with pytest.raises(InvalidInput, match="finite"):
        RowMechanism(law).simulate([1.0, np.inf], [1.0, 2.0], np.random.default_rng(0))


def test_levels_at_which_the_grid_cannot_hold_the_range_are_refused_by_the_plan():
    levels = unequal()
    levels[40] = 1e-12
    with pytest.raises(InvalidInput, match="narrower than a step"):
        planned(levels, privacy={"range": {"ldl": (-2.0, 8.0)}})


def test_no_row_leaves_above_what_the_plan_promised(tmp_path):
    table, plan = planned()
    other = table | {"level": np.where(np.arange(200) == 150, 9.0, table["level"])}
    with pytest.raises(InvalidInput, match="not between 0 and"):
        charged(plan, tmp_path / "z.csv", other)
    assert list(tmp_path.iterdir()) == []
    order = np.argsort(table["level"])
    same = {name: column[order] for name, column in table.items()}  # levels go with their rows
    assert charged(plan, tmp_path / "z.csv", same).rows == 200


def test_the_ledger_is_charged_the_largest_level(tmp_path):
    table, plan = planned()
    small = Account(tmp_path / "l.db", "ldl", budget=plan.level * 0.99)
    with small, pytest.raises(BudgetExceeded):
        release(plan, tmp_path / "z.csv", table, account=small)
    with Account(tmp_path / "m.db", "ldl") as account:
        release(plan, tmp_path / "z.csv", table, account=account)
        assert float(account.ledger.account("ldl").spent.level) == plan.level
    assert verify(tmp_path / "z.csv", tmp_path / "m.db").signed


def test_a_seed_repeats_a_trial_of_these_levels_only(tmp_path):
    levels = unequal()
    other = levels.copy()
    other[30] /= 2  # not the largest, which the header names
    made = []
    for k, own in enumerate((levels, levels, other)):
        table, plan = planned(own)
        simulate_release(plan, tmp_path / f"{k}.csv", simulation_source(plan, 7), table)
        made.append(read_release(tmp_path / f"{k}.csv").values[20:])
    np.testing.assert_array_equal(made[0], made[1])
    assert (made[0] != made[2]).all()


def changed(path, change):
    """The table with one line changed, and a header whose checksums are right all the same."""
    import hashlib

    lines = path.read_text().splitlines()
    path.write_text("\n".join(change(lines)) + "\n")
    header = path.with_name(path.name + ".json")
    found = pv.workflow.TableRelease.from_dict(json.loads(header.read_text()))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    header.write_text(written(resealed(found.to_dict() | {"sha256": sha256})))


@pytest.mark.parametrize("level", ["99", "-1", "inf"])
def test_levels_that_the_header_does_not_allow_are_refused(tmp_path, level):
    path = tmp_path / "z.csv"
    table, plan = planned()
    charged(plan, path, table)

    def change(lines):
        cells = lines[5].split(",")
        cells[3] = level
        return [*lines[:5], ",".join(cells), *lines[6:]]

    changed(path, change)
    with pytest.raises(InvalidInput, match=r"level of a row is not between|not a finite number"):
        estimate(path)


# --- the estimate ---------------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [0, 20])
def test_the_estimate_is_that_of_the_levels(tmp_path, silent):
    """By restricted maximum likelihood of `fit_levels`."""
    levels = unequal(silent=silent)
    table, plan = planned(levels)
    charged(plan, tmp_path / "z.csv", table)
    found, header = estimate(tmp_path / "z.csv"), read_release(tmp_path / "z.csv")
    shown, H, z = levels > 0, matrix(table), header.values
    added = UNIT_BEFORE / levels[shown]
    same = fit_levels(lambda: [WeightedRows(H[shown], z[shown], added=added)], 4)
    np.testing.assert_allclose(found.value, same.value, rtol=1e-9)
    np.testing.assert_allclose(found.standard_error**2, np.diagonal(same.errors.covariance))
    assert found.method == "REML over the levels, HC3"
    classical = np.sqrt(same.noise_variance * np.diagonal(np.linalg.inv(H.T @ H)))
    np.testing.assert_allclose(found.classical_error, classical, rtol=1e-9)  # of all rows
    assert found.less_noise is None
    with pytest.raises(InvalidInput, match=r"\(always HC3\) must be auto"):
        estimate(tmp_path / "z.csv", cov_type="HC3")


def test_too_little_noise_is_noticed(tmp_path):
    table, quiet = planned(public=Public(1e-3))
    simulate_release(quiet, tmp_path / "q.csv", Silent(), {**table, "ldl": matrix(table) @ THETA})
    found = estimate(tmp_path / "q.csv")
    assert "less noise than it says" in found.less_noise


def test_clipped_readings_are_told(tmp_path):
    """A range that cuts off a fifth at each end."""
    table = people(2000)
    low, high = np.quantile(table["ldl"], [0.2, 0.8])
    levels = np.random.default_rng(1).uniform(2.0, 40.0, 2000)
    levels[:100] = 0.0
    table, plan = planned(levels, table, {"range": {"ldl": (low, high)}})
    simulate_release(plan, tmp_path / "z.csv", np.random.default_rng(2), table)
    found = estimate(tmp_path / "z.csv")
    assert found.clipping_bias > 0.05
    assert "intervals are for the values as clipped" in found.warnings[-1]
    _, plain = planned(levels, table, {"range": {"ldl": (-100.0, 100.0)}})
    simulate_release(plain, tmp_path / "wide.csv", np.random.default_rng(2), table)
    wide = estimate(tmp_path / "wide.csv")
    assert wide.clipping_bias < 0.05
    assert (np.abs(wide.value - THETA) < 5 * wide.standard_error).all()


def test_means_on_the_original_scale(tmp_path):
    """Of a logarithm: the median of y at a row is exp(hᵀθ)."""
    table = people(3000)
    table["ldl"] = np.exp(table["ldl"])
    levels = np.random.default_rng(1).uniform(1.0, 20.0, 3000)
    table, plan = planned(levels, table, {"range": {"ldl": POSITIVE}}, transform="log")
    simulate_release(plan, tmp_path / "z.csv", np.random.default_rng(2), table)
    mean = estimate(tmp_path / "z.csv").predict({"age": 50, "bmi": 27, "sex": "male"})
    truth = np.exp(np.array([1.0, 50.0, 27.0, 1.0]) @ THETA)
    half = float(np.ptp(mean.interval)) / 2
    assert abs(mean.value[0] - truth) < 2.5 * half  # five standard errors
    assert half < 0.1 * truth
