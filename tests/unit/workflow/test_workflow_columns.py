"""Several private columns in one release: budget, files, ledger, estimates, wrong uses."""

import json
from fractions import Fraction

import numpy as np
import pytest

from privest.errors import BudgetExceeded, InvalidInput
from privest.ledger import Ledger
from privest.privacy import grid_statement
from privest.workflow import read_release
from privest.workflow.account import Account
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import release, simulate_release
from privest.workflow.spec import Privacy, Public, load_spec, save_spec
from privest.workflow.verify import verify
from workflow_tables import UNIT, stated, write

TARGETS = ("a", "b", "c d")
UNITS = {"a": 2.0, "b": 20.0, "c d": 0.1}
SIGMA = np.array([[1.0, 7.0, 0.01], [7.0, 100.0, 0.1], [0.01, 0.1, 0.0025]])


def table(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 80, rows)
    y = np.column_stack([1 + 0.02 * age, 100 + 0 * age, 0.3 + 0.01 * age])
    y += rng.multivariate_normal(np.zeros(3), SIGMA, rows)
    return {"age": age} | dict(zip(TARGETS, y.T))


def spec(**changes):
    fields = {
        "data": "p.csv",
        "target": TARGETS,
        "features": ("age",),
        "public": Public(),
        "privacy": Privacy(6.0, units=UNITS),
    }
    return stated(**(fields | changes))


RANGES = {"a": (-5.0, 9.0), "b": (50.0, 150.0), "c d": (-1.0, 3.0)}


# --- levels ---------------------------------------------------------------------------------------


def test_one_budget_is_split_in_units_of_the_columns():
    terms = stated_plan(spec())
    levels = [column.level for column in terms.columns]
    assert levels == pytest.approx([6.0 / (len(UNITS) * u * u) for u in UNITS.values()])
    assert [terms.z_name(column) for column in terms.columns] == ["z:a", "z:b", "z:c d"]
    assert float(terms.information) == pytest.approx(6.0, rel=1e-12)
    assert terms.information < 6  # a ledger with the budget 6 takes it


def test_without_units_the_widths_of_the_ranges_are_the_units():
    terms = stated_plan(spec(privacy=Privacy(3.0, range=RANGES)))
    widths = np.array([high - low for low, high in RANGES.values()])
    assert [c.level for c in terms.columns] == pytest.approx(1 / widths**2, rel=1e-12)


def test_an_epsilon_is_of_the_whole_record():
    terms = stated_plan(spec(privacy=Privacy(epsilon=2.0, delta=1e-6, range=RANGES)))
    assert 1.97 < terms.epsilon <= 2.0
    alone = [
        grid_statement(one.level, sensitivity=terms.sensitivity(one), delta=1e-6).epsilon
        for one in terms.columns
    ]
    assert all(one < terms.epsilon for one in alone)
    widths = np.array([high - low for low, high in RANGES.values()])
    parts = np.array([c.level for c in terms.columns]) * widths**2
    assert np.allclose(parts, parts[0], rtol=1e-12)


def test_a_move_counts_in_units_where_there_is_no_range():
    privacy = Privacy(epsilon=2.0, delta=1e-6, sensitivity=0.5, units=UNITS)
    terms = stated_plan(spec(privacy=privacy))
    assert [terms.sensitivity(one) for one in terms.columns] == [1.0, 10.0, 0.05]
    assert 1.97 < terms.epsilon <= 2.0
    assert not terms.enforced


def test_a_tolerance_tells_two_records_that_many_units_apart():
    terms = stated_plan(spec(privacy=Privacy(tolerance=1.0, attacker=0.75, units=UNITS)))
    budget = terms.level  # s·c² of the note, less the steps of the grid
    assert 0.99 * 1.8197 < budget < 1.8197


def test_a_log_has_units_of_the_log():
    ends = dict.fromkeys(TARGETS, (1.0, 100.0))
    terms = stated_plan(spec(transform="log", privacy=Privacy(3.0, range=ends)))
    expected = np.full(3, 1.0 / np.log(100) ** 2)
    assert [c.level for c in terms.columns] == pytest.approx(expected)


# --- wrong uses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"person": "id"}, "one row per person"),
        ({"public": Public(1.0)}, "residual variance each"),
        ({"privacy": Privacy(standard_error={"age": 0.1}, units=UNITS)}, "one numeric outcome"),
        ({"privacy": Privacy(1.0, range={"a": (0.0, 1.0)})}, "needs a range, or a unit"),
        ({"target": ("a", "a")}, "different"),
        ({"target": ("a", "age")}, "cannot be"),
        ({"privacy": Privacy(1.0, units={"a": 1.0, "x": 1.0})}, "no target"),
    ],
)
def test_what_several_columns_cannot_have(changes, said):
    with pytest.raises(InvalidInput, match=said):
        spec(**changes)


@pytest.mark.parametrize(
    ("privacy", "said"),
    [
        (Privacy(1.0, units={"a": 1.0, "b": 1.0}), "a range, or a unit"),
        (Privacy(1.0), "a range, or a unit"),
        (Privacy(1.0, delta=1e-6, units=UNITS, range={"a": (0.0, 1.0)}), "A delta needs a range"),
    ],
)
def test_units_that_are_not_there(privacy, said):
    with pytest.raises(InvalidInput, match=said):
        spec(privacy=privacy)


def test_rows_for_an_accuracy_are_of_one_target(planned):
    with pytest.raises(InvalidInput, match="several private columns"):
        planned.rows_for(0.1, "age")


# --- files ----------------------------------------------------------------------------------------


def test_a_plan_file_says_it_all(tmp_path):
    given = spec(data=str(tmp_path / "p.csv"), privacy=Privacy(6.0, units=UNITS, range=RANGES))
    save_spec(given, tmp_path / "plan.toml")
    assert load_spec(tmp_path / "plan.toml") == given


def test_a_release_has_a_column_for_each_and_each_is_right(tmp_path):
    data = table(20_000)
    made = release(stated_plan(spec()), tmp_path / "z.csv", data)
    found = read_release(tmp_path / "z.csv")
    assert found.to_dict() == made.to_dict()
    first = (tmp_path / "z.csv").read_text().splitlines()[0]
    assert first == "age,z:a,z:b,z:c d"
    noise = found.values - np.column_stack([data[name] for name in TARGETS])
    scaled = noise * np.sqrt([column.level for column in found.columns])
    # 20 000 draws: a covariance entry has deviation 1/√20 000 = .007 (√2 of it on the diagonal).
    assert np.abs(np.cov(scaled.T) - np.eye(3)).max() < 4.5 * np.sqrt(2 / 20_000)
    assert np.abs(scaled.mean(axis=0)).max() < 4.5 / np.sqrt(20_000)


def test_rows_with_a_gap_in_one_target_are_dropped_whole(tmp_path):
    data = table(50)
    data["b"] = data["b"].copy()
    data["b"][[3, 7]] = np.nan
    with pytest.raises(InvalidInput, match="missing"):
        release(stated_plan(spec()), tmp_path / "z.csv", data)
    made = release(stated_plan(spec(missing="drop")), tmp_path / "z.csv", data)
    assert (made.rows, made.dropped) == (48, 2)
    assert read_release(tmp_path / "z.csv").values.shape == (48, 3)


# --- ledger ---------------------------------------------------------------------------------------


def test_one_account_is_charged_for_the_record(tmp_path):
    data, terms = table(), stated_plan(spec(privacy=Privacy(6.0, delta=1e-6, range=RANGES)))
    with Ledger(tmp_path / "l.db", marks=tmp_path / "marks") as ledger:
        made = release(terms, tmp_path / "z.csv", data, account=Account(ledger, "us"))
        entry = ledger.history("us")[-1]
        assert entry.cost.information == terms.information
        assert "OneRecord" in entry.cost.sensitivity
        assert float(entry.cost.mu2) == pytest.approx(6.0, rel=0.01)
        assert ledger.account("us").remaining.level == 0
        assert verify(tmp_path / "z.csv", ledger).signed
        with pytest.raises(BudgetExceeded, match="was released"):
            release(terms, tmp_path / "y.csv", data, account=Account(ledger, "us"))
        with pytest.raises(InvalidInput, match="the same public columns"):
            release(terms, tmp_path / "x.csv", data, account=Account(ledger, "them"))
        ledger.verify()
    assert made.entry.subject == "us"


@pytest.mark.parametrize(("budget", "fits"), [(6.0, True), (5.9, False), (12.0, True)])
def test_a_budget_is_stated_in_the_units_of_the_level(tmp_path, budget, fits):
    terms = stated_plan(spec())
    with Ledger(tmp_path / "l.db", marks=tmp_path / "marks") as ledger:
        account = Account(ledger, "us", budget)
        if fits:
            release(terms, tmp_path / "z.csv", table(), account=account)
            left = ledger.account("us").remaining.level
            assert float(left) == pytest.approx(budget - 6, abs=1e-9)
            assert left >= Fraction(0)
        else:
            with pytest.raises(BudgetExceeded):
                release(terms, tmp_path / "z.csv", table(), account=account)


# --- plan and estimate ----------------------------------------------------------------------------


@pytest.fixture
def planned(tmp_path):
    write(table(100, 5), tmp_path / "ref.csv")
    return make_plan(spec(public=Public(reference=str(tmp_path / "ref.csv"))), table())


def test_a_plan_has_errors_for_each_column(planned):
    H = np.column_stack([np.ones(300), table()["age"]])
    A = np.linalg.inv(H.T @ H)
    added = [UNIT / column.level for column in planned.columns]
    own = [column.residual_variance for column in planned.columns]
    expected = np.sqrt(np.outer(added, np.diag(A)))
    np.testing.assert_allclose(planned.privacy_error, expected, rtol=1e-9)
    expected = np.sqrt(np.outer(np.add(own, added), np.diag(A)))
    np.testing.assert_allclose(planned.standard_error, expected, rtol=1e-9)
    frame = planned.to_frame()
    assert frame["target"].tolist() == [name for name in TARGETS for _ in range(2)]
    np.testing.assert_array_equal(frame["standard_error"], planned.standard_error.ravel())
    known = json.loads(json.dumps(planned.to_dict()))
    assert [one["target"] for one in known["columns"]] == list(TARGETS)


def test_a_plan_says_what_columns_tell_of_each_other(planned, tmp_path):
    public = table(100, 5)
    H = np.column_stack([np.ones(100), public["age"]])
    y = np.column_stack([public[name] for name in TARGETS])
    E = y - H @ np.linalg.lstsq(H, y, rcond=None)[0]
    sigma = E.T @ E / 98
    assert np.allclose(planned.survey.covariance, sigma, rtol=1e-6)


def test_an_estimate_is_that_of_each_column(planned, tmp_path):
    simulate_release(planned, tmp_path / "z.csv", np.random.default_rng(1), table())
    found = estimate(tmp_path / "z.csv")
    names = [f"{target}: {name}" for target in TARGETS for name in ("intercept", "age")]
    assert list(found.names) == names
    z = read_release(tmp_path / "z.csv").values
    H = np.column_stack([np.ones(300), table()["age"]])
    B = np.linalg.lstsq(H, z, rcond=None)[0]
    assert np.allclose(found.value, B.T.ravel(), rtol=1e-8)
    for j, target in enumerate(TARGETS):
        part = found[target]
        assert np.array_equal(part.value, found.value[2 * j : 2 * j + 2])
        assert np.allclose(part.interval(), found.interval()[2 * j : 2 * j + 2])
    E = z - H @ B
    assert np.allclose(found.joint.scatter, E.T @ E / 298, rtol=1e-8)
    noise = np.array([1 / column.level for column in found.release.columns])
    assert np.allclose(found.joint.covariance, E.T @ E / 298 - np.diag(noise), rtol=1e-6)
    assert found.joint.p_value[1] < 1e-10  # age matters
    assert repr(planned) == "Plan(a, b, c d; 300 rows)"
    with pytest.raises(InvalidInput, match="no target"):
        found["x"]
    record = json.loads(json.dumps(found.to_dict()))
    assert len(record["parts"]) == 3


def test_a_wide_range_leaves_least_squares_and_the_joint_test(tmp_path):
    terms = stated_plan(spec(privacy=Privacy(30.0, range=RANGES)))
    simulate_release(terms, tmp_path / "z.csv", np.random.default_rng(1), table())
    found = estimate(tmp_path / "z.csv")
    assert found.joint is not None
    assert 0 <= found["a"].clipping_bias < 0.05


def test_logarithms_are_told_in_per_cent(tmp_path):
    ends = dict.fromkeys(TARGETS, (1e-06, 1000000.0))
    terms = stated_plan(spec(transform="log", privacy=Privacy(1e4, range=ends)))
    data = {
        name: column if name == "age" else np.exp(column / 50) for name, column in table().items()
    }
    simulate_release(terms, tmp_path / "z.csv", np.random.default_rng(1), data)
    found = estimate(tmp_path / "z.csv")
    assert list(found.percent()) == [f"{name}: age" for name in TARGETS]
    with pytest.raises(InvalidInput, match="one column"):
        found.mean_at({"age": 50})
    assert found["a"].mean_at({"age": 50.0}).mean > 0


def test_clipped_readings_have_no_joint_test(tmp_path):
    narrow = {"a": (1.5, 2.5), "b": (90.0, 110.0), "c d": (0.7, 0.9)}
    write(table(100, 5), tmp_path / "ref.csv")
    noise = Public(reference=str(tmp_path / "ref.csv"))
    terms = stated_plan(spec(public=noise, privacy=Privacy(30.0, range=narrow)))
    simulate_release(terms, tmp_path / "z.csv", np.random.default_rng(1), table())
    found = estimate(tmp_path / "z.csv")
    assert found.joint is None
    assert "clipped" in found.silent
    # Joined or alone, an interval is the same, whatever the other columns are.
    joined = found.interval().reshape(len(found.parts), -1, 2)
    for ends, part in zip(joined, found.parts):
        np.testing.assert_array_equal(ends, part.interval())
    assert any("a: The intervals" in text for text in found.warnings)


def test_hubers_estimates_have_no_joint_test(tmp_path):
    """It is exact for least squares, and says so: Huber's residuals are others."""
    simulate_release(stated_plan(spec()), tmp_path / "z.csv", np.random.default_rng(1), table())
    assert estimate(tmp_path / "z.csv").joint is not None
    found = estimate(tmp_path / "z.csv", cov_type="huber")
    assert found.joint is None
    assert "Huber" in found.silent
