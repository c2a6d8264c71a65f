"""Levels that differ from row to row: the plan chooses them, the release holds them, all use them.

Levels by hand (`with_levels`) show that release and estimate do not depend on how they were chosen.
"""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import privest as pv
from privest import design
from privest.errors import BudgetExceeded, InvalidInput
from privest.estimator.inference import LevelRows, fit_levels
from privest.estimator.inference._weighted_sums import in_memory
from privest.lattice import GRID, literal_root
from privest.mechanism.source import Generated
from privest.workflow import (
    Account,
    AllocatedPlan,
    Noise,
    People,
    Privacy,
    Weights,
    estimate_release,
    load_spec,
    make_plan,
    read_release,
    release,
    save_spec,
    simulate_release,
    stated_terms,
    trial_source,
    verify_release,
)
from privest.workflow._planning_levels import with_levels
from workflow_tables import THETA, VARIANCE, matrix, people, spec, write

WANTED = {"age": 0.004, "bmi": 0.05}


def allocated(table=None, **privacy):
    """A plan with levels per row for the errors WANTED."""
    stated = Privacy(**({"standard_error": WANTED, "allocate": True} | privacy))
    return make_plan(spec(privacy=stated), people() if table is None else table)


def by_hand(levels, table, **changes):
    plan = make_plan(spec(**changes), table)
    return with_levels(plan, levels, np.arange(1, len(levels) + 1), matrix(table))


def unequal(rows=200, silent=20, seed=3):
    levels = np.random.default_rng(seed).uniform(0.5, 8.0, rows)
    levels[:silent] = 0.0
    return levels


class Silent(Generated):
    """Noise of zero: what is released is what was to be shown."""

    def __init__(self):
        super().__init__(np.random.default_rng(0))

    def add_noise(self, shown, **_):
        return np.asarray(shown() if callable(shown) else shown)


# --- the plan -------------------------------------------------------------------------------------


def test_the_errors_asked_for_are_met_exactly_and_at_the_least_total():
    plan, H = allocated(), matrix(people())
    levels = plan.row_levels()
    x = levels / (1 + VARIANCE * levels)
    errors = np.sqrt(np.diagonal(np.linalg.inv((H.T * x) @ H)))  # dense, by the formula
    np.testing.assert_allclose(plan.standard_error, errors, rtol=1e-9)
    got = errors[[1, 2]] / list(WANTED.values())
    assert got.max() <= 1 + 1e-12
    assert got.max() > 1 - 1e-9  # and not better than asked for: that would cost
    # Proved by the floor of the design, whoever found the levels; equal ones cost more.
    assert 0 <= plan.gap < 2e-6
    assert levels.sum() * (1 - plan.gap) <= plan.design.floor * (1 + 1e-12)
    equal = make_plan(spec(privacy=Privacy(standard_error=WANTED)), people())
    assert levels.sum() < 0.8 * 200 * equal.level
    assert plan.equal == pytest.approx(equal.level, rel=1e-6)
    assert plan.level == levels.max() == plan.column.level
    assert plan.reading_error == levels.max() ** -0.5


def test_a_mean_level_buys_the_best_accuracy_whatever_the_units():
    plan = allocated(level=2.0, standard_error=None)
    levels = plan.row_levels()
    assert levels.mean() == pytest.approx(2.0, rel=1e-6)
    assert levels.mean() <= 2.0 * (1 + 1e-12)
    relative = (plan.standard_error / plan.classical_error) ** 2
    equal = (plan.spread.equal_error / plan.classical_error) ** 2
    assert relative.sum() < equal.sum()
    days = people()
    days["age"] = days["age"] * 365.25
    other = allocated(days, level=2.0, standard_error=None).row_levels()
    np.testing.assert_allclose(other, levels, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("criterion", ["D", "E"])
def test_other_criteria_are_better_by_their_own_measure(criterion):
    plan = allocated(level=2.0, standard_error=None, criterion=criterion)
    root = np.diag(1 / plan.classical_error)

    def value(level):
        scaled = root @ pv.bound(plan.model, level).ppcrlb @ root
        return np.linalg.slogdet(scaled)[1] if criterion == "D" else np.linalg.eigvalsh(scaled)[-1]

    assert value(plan.row_levels()) < value(2.0)


@pytest.mark.parametrize("limit", ["cap", "epsilon", "tolerance"])
def test_no_row_is_above_the_limit(limit):
    given = {
        "cap": {"cap": 1.5},
        "epsilon": {"epsilon": 7.0, "delta": 1e-6, "move": 1.0},
        "tolerance": {"tolerance": 1.0, "attacker": 0.74},
    }[limit]
    plan = allocated(**given)
    most = given.get("cap")
    if most is None:
        most = stated_terms(spec(privacy=Privacy(**given))).level
    assert plan.column.levels.cap == most
    assert plan.level <= most
    assert plan.row_levels().max() > 0.99 * most  # it binds here
    if limit == "epsilon":
        assert plan.epsilon <= 7.0


def test_groups_share_a_level():
    table = people()
    plan = allocated(table, groups="sex")
    levels = plan.row_levels()
    assert len(np.unique(levels)) == 2
    assert len(np.unique(levels[table["sex"] == "male"])) == 1
    with_gap = {name: list(column) for name, column in table.items()} | {
        "ward": [None, *(["a", "b"] * 100)[:199]]
    }
    stated = spec(missing="drop", privacy=Privacy(level=2.0, allocate=True, groups="ward"))
    found = make_plan(stated, with_gap)
    assert (found.rows, found.dropped) == (199, 1)
    held = simulate(found, with_gap)
    assert (held.rows, held.dropped) == (199, 1)
    assert "ward" not in held.table_columns


def simulate(plan, table, seed=1):
    return replace(plan, _data=table).simulate(seed=seed)


def test_what_the_plan_says_of_itself_as_json():
    record = json.loads(json.dumps(allocated().to_dict()))
    assert record["levels"]["standard_error"] == WANTED
    assert record["design"]["direction"] == "target"
    assert "levels" not in record["design"]  # as many as rows
    assert record["spread"]["most"] == record["level"]
    assert record["spread"]["silent"] > 0


def test_the_design_does_not_depend_on_the_readings():
    table, other = people(), people()
    other["ldl"] = -100 * other["ldl"][::-1]
    np.testing.assert_array_equal(allocated(table).row_levels(), allocated(other).row_levels())


def test_several_errors_at_one_level_for_all():
    plan = make_plan(spec(privacy=Privacy(standard_error=WANTED)), people())
    got = plan.standard_error[[1, 2]] / list(WANTED.values())
    assert got.max() == pytest.approx(1.0, rel=1e-12)
    one = make_plan(spec(privacy=Privacy(standard_error=0.004, of="age")), people())
    assert plan.level == one.level
    same = make_plan(spec(privacy=Privacy(standard_error={"age": 0.004})), people())
    assert same.level == one.level


def test_from_python_and_from_a_plan_file(tmp_path):
    table = people()
    held = pv.plan(
        table, target="ldl", features=("age", "bmi", "sex"),
        categories={"sex": ("female", "male")}, noise_variance=VARIANCE, standard_error=WANTED,
        allocate=True, cap=3.0,
    )  # fmt: skip
    assert isinstance(held, AllocatedPlan)
    assert "ldl: privacy level" in held.summary()
    stated = replace(held.spec, data=str(write(table, tmp_path / "people.csv")))
    save_spec(stated, tmp_path / "plan.toml")
    again = make_plan(load_spec(tmp_path / "plan.toml"))
    np.testing.assert_array_equal(again.row_levels(), held.row_levels())
    with pytest.raises(ValueError, match="read-only"):
        held.row_levels()[0] = 1.0


WRONG = {
    "rows of persons": ({"person": People("id")}, {}, "persons with several rows"),
    "weights": ({"weights": Weights("w")}, {}, "weights do not go together"),
    "a family": ({"family": "poisson", "noise": Noise()}, {}, "family poisson"),
    "a law": ({}, {"law": "laplace"}, "law laplace"),
    "several targets": ({"target": ("ldl", "hdl")}, {}, "several targets"),
    "no noise": ({"noise": Noise()}, {}, "need the noise variance"),
    "private groups": ({}, {"groups": "ldl"}, "public column"),
    "a level and errors": ({}, {"level": 2.0}, "the limit of a row is cap"),
    "two limits": ({}, {"cap": 1.0, "epsilon": 1.0, "delta": 1e-6, "move": 1.0}, "one limit"),
    "a criterion": ({}, {"criterion": "D"}, "goes with a level"),
    "epsilon alone": (
        {}, {"standard_error": None, "epsilon": 1.0, "delta": 1e-6, "move": 1.0},
        "the same level for all rows",
    ),
    "nothing": ({}, {"standard_error": None}, "allocate needs standard errors"),
    "a cap for equal levels": ({}, {"allocate": False, "cap": 2.0}, "cap goes with allocate"),
    "no coefficient": ({}, {"standard_error": {}}, "has no coefficient"),
    "no number": ({}, {"allocate": 1}, "allocate is true or false"),
    "a word": ({}, {"standard_error": None, "level": 1.0, "criterion": "F"}, "must be one of A"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_go_together_is_said(case):
    fields, privacy, match = WRONG[case]
    with pytest.raises(InvalidInput, match=match):
        spec(privacy=Privacy(**({"standard_error": WANTED, "allocate": True} | privacy)), **fields)


@pytest.mark.parametrize(
    ("privacy", "match"),
    [
        ({"standard_error": {"age": 1e-4}}, "without any privacy it is 0.00"),
        ({"cap": 0.1}, r"level 0.1, standard errors are at best 'age' 0.01\d+ \(asked for: 0.004"),
        ({"standard_error": None, "level": 2.0, "cap": 1.0}, "the cap must be above the mean"),
        ({"standard_error": {"agee": 0.1}}, "there is no coefficient 'agee'"),
        ({"standard_error": {"agee": 0.1}, "cap": 2.0}, "there is no coefficient 'agee'"),
        ({"epsilon": 0.1, "delta": 1e-6, "move": 1.0}, "are at best"),
        ({"groups": "ward"}, "ward"),
    ],
)
def test_what_cannot_be_reached_is_said_with_what_can(privacy, match):
    with pytest.raises(InvalidInput, match=match):
        allocated(**privacy)


# --- the release ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_the_receiver_has_the_very_levels_of_the_holder(tmp_path, ending):
    table, path = people(), tmp_path / f"z{ending}"
    plan = allocated(table)
    release(plan, path, table)
    found = read_release(path)
    levels = np.concatenate([part.levels for part in found.blocks()])
    np.testing.assert_array_equal(levels, plan.row_levels())  # to the bit
    assert found.level == levels.max()
    shown = np.concatenate([part.z[:, 0] for part in found.blocks()])
    np.testing.assert_array_equal(np.isnan(shown), levels == 0)
    assert sum(len(part) for part in found.shown_blocks()) == (levels > 0).sum()
    frame = found.to_frame()
    assert list(frame.columns) == ["age", "bmi", "sex=male", "level", "z"]
    assert verify_release(path).examined[1].count("a level for every row") == 1


def test_what_is_released_is_each_reading_at_its_own_level(tmp_path):
    """Without the noise √s_k·y_k; with it whole numbers: n·unit/√s_k is y_k and its noise."""
    table, levels = people(), unequal()
    plan = by_hand(levels, table)
    simulate_release(plan, tmp_path / "s.csv", Silent(), table)
    found = read_release(tmp_path / "s.csv")
    np.testing.assert_allclose(found.values[20:], table["ldl"][20:], rtol=1e-12)
    assert np.isnan(found.values[:20]).all()
    real = release(plan, tmp_path / "z.csv", table)
    assert real.unit == GRID
    z = np.loadtxt(tmp_path / "z.csv", delimiter=",", skiprows=1)[:, -1]
    assert (z == np.round(z)).all()
    assert (z[:20] == 0).all()
    noise = z[20:] * GRID - literal_root(levels[20:]) * table["ldl"][20:]
    # 180 unit normals: mean 0 ± 1/√180, mean square 1 ± √(2/180), five deviations each.
    assert abs(noise.mean()) < 5 / np.sqrt(180)
    assert abs((noise**2).mean() - 1) < 5 * np.sqrt(2 / 180)


def test_rows_without_a_reading_are_left_out_and_the_others_keep_their_levels(tmp_path):
    table = people()
    table["ldl"][[3, 50, 51]] = np.nan
    table["age"][[0, 199]] = np.nan
    plan = make_plan(
        spec(missing="drop", privacy=Privacy(standard_error=WANTED, allocate=True)), table
    )
    assert (plan.rows, plan.dropped) == (198, 2)
    release(plan, tmp_path / "z.csv", table)
    found = read_release(tmp_path / "z.csv")
    assert (found.rows, found.dropped) == (195, 5)
    kept = np.setdiff1d(np.arange(1, 199), [3, 50, 51]) + 1  # lines count from 1
    levels = np.concatenate([part.levels for part in found.blocks()])
    np.testing.assert_array_equal(levels, plan.row_levels(kept))
    with pytest.raises(InvalidInput, match="has not seen"):
        plan.row_levels(np.array([1]))  # its age is missing


def test_infinite_readings_are_clipped_and_never_refused(tmp_path):
    table = people()
    table["ldl"][[0, 30]] = np.inf, -np.inf
    for ends in (None, (-2.0, 8.0)):
        privacy = Privacy(2.0, range=ends)
        plan = by_hand(unequal(), table, privacy=privacy)
        path = tmp_path / f"{ends is None}.csv"
        release(plan, path, table)
        z = read_release(path).values
        assert np.isnan(z[0])
        assert z[30] < -1.0


def test_levels_at_which_the_grid_cannot_hold_the_range(tmp_path):
    """Refused before anything is drawn where somebody gives them; a design makes them 0."""
    table, levels = people(), unequal()
    levels[40] = 1e-12
    plan = by_hand(levels, table, privacy=Privacy(2.0, range=(-2.0, 8.0)))
    with pytest.raises(InvalidInput, match="narrower than a step"):
        release(plan, tmp_path / "z.csv", table)
    assert not (tmp_path / "z.csv").exists()


def test_the_ledger_is_charged_the_largest_level(tmp_path):
    table = people()
    plan = allocated(table)
    small = Account(tmp_path / "l.db", "ldl", budget=plan.level * 0.99)
    with small, pytest.raises(BudgetExceeded):
        release(plan, tmp_path / "z.csv", table, account=small)
    with Account(tmp_path / "m.db", "ldl") as account:
        release(plan, tmp_path / "z.csv", table, account=account)
        assert float(account.ledger.spent("ldl").level) == plan.level
    assert verify_release(tmp_path / "z.csv", tmp_path / "m.db").signed


def test_a_seed_repeats_a_trial_of_these_levels_only(tmp_path):
    table, levels = people(), unequal()
    other = levels.copy()
    other[30] /= 2  # not the largest, which the header names
    made = []
    for k, own in enumerate((levels, levels, other)):
        plan = by_hand(own, table)
        simulate_release(plan, tmp_path / f"{k}.csv", trial_source(plan, 7), table)
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
    found = replace(found, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    header.write_text(found.header_text)


@pytest.mark.parametrize("level", ["99", "-1", "inf"])
def test_levels_that_the_header_does_not_allow_are_refused(tmp_path, level):
    table, path = people(), tmp_path / "z.csv"
    release(allocated(table), path, table)

    def change(lines):
        cells = lines[5].split(",")
        cells[3] = level
        return [*lines[:5], ",".join(cells), *lines[6:]]

    changed(path, change)
    with pytest.raises(InvalidInput, match=r"levels of rows lie between|not a finite number"):
        estimate_release(path)


def test_a_feature_that_is_called_level():
    table = people() | {"level": np.arange(200.0)}
    stated = spec(features=("age", "level"), categories={},
                  privacy=Privacy(level=2.0, allocate=True))  # fmt: skip
    found = simulate(make_plan(stated, table), table)
    assert found.table_columns == ("age", "level", "z:level", "z")
    assert pv.estimate(found).names == ("intercept", "age", "level")


def test_headers_without_levels_are_what_they_were(tmp_path):
    """A release at one level says nothing of levels: older ones are read as before."""
    table = people()
    release(make_plan(spec(), table), tmp_path / "z.csv", table)
    record = json.loads((tmp_path / "z.csv.json").read_text())
    assert "levels" not in record["columns"][0]
    read_release(tmp_path / "z.csv")


# --- the estimate ---------------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [0, 20])
def test_the_estimate_is_that_of_the_levels(tmp_path, silent):
    """By restricted maximum likelihood of `fit_levels`, with σ² stated by the dense formulas."""
    table, levels = people(), unequal(silent=silent)
    release(by_hand(levels, table), tmp_path / "z.csv", table)
    found, header = estimate_release(tmp_path / "z.csv"), read_release(tmp_path / "z.csv")
    shown, H, z = levels > 0, matrix(table), header.values
    added = header.column.row_added(levels[shown], simulated=False)
    same = fit_levels(in_memory(LevelRows(H[shown], z[shown], added)), 4)
    np.testing.assert_allclose(found.estimate, same.estimate, rtol=1e-9)
    np.testing.assert_allclose(found.standard_error**2, np.diagonal(same.errors.covariance))
    assert found.level == "level"
    assert found.method == "REML over the levels, Knapp-Hartung"
    classical = np.sqrt(same.noise_variance * np.diagonal(np.linalg.inv(H.T @ H)))
    np.testing.assert_allclose(found.classical_error, classical, rtol=1e-9)  # of all rows
    assert found.doubt is None
    assert found.less_noise is None
    stated = estimate_release(tmp_path / "z.csv", "stated")
    weight = 1 / (VARIANCE + added)
    inverse = np.linalg.inv((H[shown].T * weight) @ H[shown])
    np.testing.assert_allclose(stated.estimate, inverse @ H[shown].T @ (weight * z[shown]),
                               rtol=1e-9)  # fmt: skip
    np.testing.assert_allclose(stated.covariance, inverse, rtol=1e-9)
    with pytest.raises(InvalidInput, match="errors must be one of auto, stated"):
        estimate_release(tmp_path / "z.csv", "HC3")
    with pytest.raises(InvalidInput, match="a total needs every reading at one level"):
        found.total()


def test_too_little_noise_and_a_wrong_noise_variance_are_noticed(tmp_path):
    table, levels = people(), unequal()
    quiet = by_hand(levels, {**table, "ldl": matrix(table) @ THETA}, noise=Noise(1e-3))
    simulate_release(quiet, tmp_path / "q.csv", Silent(), {**table, "ldl": matrix(table) @ THETA})
    found = estimate_release(tmp_path / "q.csv")
    assert "less noise than it says" in found.less_noise
    wild = by_hand(levels, table, noise=Noise(VARIANCE))
    loud = {**table, "ldl": table["ldl"] + np.random.default_rng(0).normal(0, 3, 200)}
    simulate_release(wild, tmp_path / "w.csv", np.random.default_rng(1), loud)
    assert "times as much as the noise variance" in estimate_release(tmp_path / "w.csv").doubt


def test_clipped_readings_are_undone_by_the_likelihood(tmp_path):
    """A range that cuts off a fifth at each end: the estimate is near the truth all the same."""
    table = people(2000)
    low, high = np.quantile(table["ldl"], [0.2, 0.8])
    levels = np.random.default_rng(1).uniform(2.0, 40.0, 2000)
    levels[:100] = 0.0
    plan = by_hand(levels, table, privacy=Privacy(2.0, range=(low, high)))
    simulate_release(plan, tmp_path / "z.csv", np.random.default_rng(2), table)
    found = estimate_release(tmp_path / "z.csv")
    assert found.likelihood is not None
    assert found.clipped == pytest.approx(0.4, abs=0.05)
    assert (np.abs(found.estimate - THETA) < 5 * found.standard_error).all()
    assert found.noise_found == pytest.approx(VARIANCE, rel=0.2)
    plain = replace(plan, columns=(replace(plan.column, range=(-100.0, 100.0)),))
    simulate_release(plain, tmp_path / "wide.csv", np.random.default_rng(2), table)
    wide = estimate_release(tmp_path / "wide.csv")
    assert wide.likelihood is None  # nothing is clipped there, and so nothing is undone
    assert (wide.standard_error < found.standard_error).all()


def test_means_on_the_original_scale(tmp_path):
    """Of a logarithm: E y at a row is exp(hᵀθ + σ²/2)."""
    table = people(3000)
    table["ldl"] = np.exp(table["ldl"])
    plan = by_hand(np.random.default_rng(1).uniform(1.0, 20.0, 3000), table, transform="log")
    simulate_release(plan, tmp_path / "z.csv", np.random.default_rng(2), table)
    mean = estimate_release(tmp_path / "z.csv").mean_at({"age": 50, "bmi": 27, "sex": "male"})
    truth = np.exp(np.array([1.0, 50.0, 27.0, 1.0]) @ THETA + VARIANCE / 2)
    half = (mean.interval[1] - mean.interval[0]) / 2
    assert abs(mean.mean - truth) < 2.5 * half  # five standard errors
    assert half < 0.1 * truth


def test_the_release_is_written_in_blocks(tmp_path, monkeypatch):
    """One pass, block after block: levels follow the lines of the table, whatever the blocks."""
    table, plan = people(), allocated()
    module = sys.modules["privest.workflow._leaving"]
    read = module.read_rows
    release(plan, tmp_path / "a.csv", table)
    monkeypatch.setattr(module, "read_rows", lambda *a, **k: read(*a, **k, size=17))
    release(plan, tmp_path / "b.csv", table)
    columns = [np.loadtxt(tmp_path / name, delimiter=",", skiprows=1)[:, :-1]
               for name in ("a.csv", "b.csv")]  # fmt: skip
    np.testing.assert_array_equal(*columns)


def test_levels_by_hand_are_checked():
    table = people()
    for levels in (np.zeros(200), np.ones(199), np.full(200, np.nan), -np.ones(200)):
        with pytest.raises(InvalidInput, match="levels of the rows are 200 finite numbers"):
            by_hand_of(levels, table)


def by_hand_of(levels, table):
    return with_levels(make_plan(spec(), table), levels, np.arange(1, 201), matrix(table))


def test_the_design_is_that_of_the_library():
    plan = allocated(cap=3.0)
    found = design.least_loss(plan.model, WANTED, cap=3.0)
    assert plan.row_levels().sum() == pytest.approx(found.spent, rel=1e-5)
