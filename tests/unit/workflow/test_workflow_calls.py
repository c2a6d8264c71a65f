"""The workflow as calls in Python: the same as the commands, from frames, in memory, as frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import privest as pv
from privest.errors import BudgetExceeded, InvalidInput
from privest.workflow import read_release
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.release import simulate_release, simulation_source
from workflow_tables import LEVEL, VARIANCE, people, spec, write

LISTS = {"sex": ("female", "male")}
PEOPLE = people(120)
FORMULA = "ldl ~ age + bmi + C(sex)"
KNOWN = {
    "categories": LISTS, "residual_variance": VARIANCE, "level": LEVEL, "form": "rows",
}  # fmt: skip


@pytest.fixture
def ledger(tmp_path):
    with pv.Ledger(tmp_path / "ledger.db", marks=tmp_path / "marks") as found:
        yield found


def test_a_plan_is_that_of_its_spec(tmp_path):
    by_spec = make_plan(spec(), data=PEOPLE)
    path = write(PEOPLE, tmp_path / "people.csv")
    for found in (
        pv.plan(PEOPLE, FORMULA, **KNOWN),
        pv.plan(pd.DataFrame(PEOPLE), target="ldl", features=["age", "bmi", "sex"], **KNOWN),
        pv.plan(path, FORMULA, **KNOWN),
        pv.plan(str(path), FORMULA, **KNOWN),
    ):
        assert found.names == by_spec.names
        np.testing.assert_allclose(found.standard_error, by_spec.standard_error, rtol=1e-14)
        frame = found.to_frame()
        np.testing.assert_allclose(frame["standard_error"], by_spec.standard_error, rtol=1e-12)
        np.testing.assert_allclose(frame["classical_error"], by_spec.classical_error, rtol=1e-12)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_in_memory_and_in_files_are_one(kind, tmp_path):
    data = kind(PEOPLE)
    plan = pv.plan(data, FORMULA, **KNOWN)
    held, written = plan.simulate(rng=5), plan.simulate(tmp_path / "release.csv", rng=5)
    assert held.to_dict() == written.to_dict()
    assert held.path is None
    by_commands = simulate_release(plan, tmp_path / "z.csv", simulation_source(plan, 5), data)
    assert by_commands.sha256 == held.sha256
    found, other = pv.estimate(held), pv.estimate(tmp_path / "release.csv")
    assert np.array_equal(found.value, other.value)
    for table in (found.to_frame(), held.to_frame(), plan.to_frame(), written.to_frame()):
        assert isinstance(table, kind)
    assert isinstance(found.to_frame(library="pandas"), pd.DataFrame)
    assert isinstance(other.to_frame(), pd.DataFrame)  # a file does not know
    np.testing.assert_allclose(np.asarray(held.to_frame()["z"]), held.values)
    saved = held.save(tmp_path / "copy")
    assert saved.read_bytes() == (tmp_path / "release.csv").read_bytes()
    assert pv.workflow.read_release(saved).to_dict() == held.to_dict()
    with pytest.raises(InvalidInput, match="exists: choose another folder"):
        held.save(tmp_path / "copy")
    with pytest.raises(InvalidInput, match="is not held in memory"):
        written.save(tmp_path / "copy")


def test_a_real_release_is_charged_once(ledger, tmp_path):
    plan = pv.plan(PEOPLE, FORMULA, **KNOWN)
    release = plan.release(account=ledger.account("ldl"))
    assert not release.simulated
    assert release.entry.subject == "ldl"
    assert pv.verify(release.save(tmp_path), ledger=ledger).signed
    np.testing.assert_array_equal(np.diff(release.to_frame()["age"]), np.diff(PEOPLE["age"]))
    with pytest.raises(BudgetExceeded, match="was released on"):
        plan.release(account=ledger.account("ldl"))
    with pytest.raises(InvalidInput, match="released for the account 'ldl'"):
        plan.release(tmp_path / "b.csv", account=ledger.account("another"))
    with pytest.raises(BudgetExceeded, match="is more than the budget allows"):
        plan.release(tmp_path / "b.csv", account=ledger.account("ldl"), again=True)


def test_a_release_needs_an_account(tmp_path):
    plan = pv.plan(PEOPLE, FORMULA, **KNOWN)
    with pytest.raises(TypeError, match="account"):
        plan.release()
    for wrong in (None, "ldl", pv.Ledger(tmp_path / "l.db")):
        with pytest.raises(InvalidInput, match="account is that of a ledger"):
            plan.release(tmp_path / "z.csv", account=wrong)
    assert not (tmp_path / "z.csv").exists()


def test_the_frame_of_an_estimate_and_its_summary():
    found = pv.estimate(pv.plan(PEOPLE, FORMULA, **KNOWN).simulate(rng=1))
    frame = found.to_frame(confidence=0.9)
    assert list(frame) == ["coefficient", "estimate", "standard_error", "p_value", "low", "high"]
    assert frame["coefficient"].tolist() == list(found.names)
    np.testing.assert_array_equal(frame[["low", "high"]], found.interval(0.9))


def test_means_of_groups():
    categories = LISTS | {"ward": ("a", "b")}
    table = PEOPLE | {"ward": np.resize(["a", "b"], 120)}
    everything = {"level": 1e12, "residual_variance": VARIANCE, "form": "rows"}
    means = pd.DataFrame(table).groupby(["sex", "ward"])["ldl"].mean()
    plan = pv.plan(table, target="ldl", by=["sex", "ward"], categories=categories, **everything)
    found = pv.estimate(plan.simulate(rng=1))
    assert found.names == tuple(f"sex={sex}:ward={ward}" for sex, ward in means.index)
    np.testing.assert_allclose(found.value, means, atol=1e-5)
    whole = pv.estimate(pv.plan(table, target="ldl", **everything).simulate(rng=1))
    np.testing.assert_allclose(whole.value, [PEOPLE["ldl"].mean()], atol=1e-5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"formula": FORMULA, "levle": 2.0}, "'levle' is not known"),
        ({"formula": "ldl ~ age", "target": "bmi"}, "the formula states the target"),
        ({"target": "ldl", "by": "sex", "features": "age"}, "by is for means"),
        ({"target": "ldl", "by": "ward"}, "need the public list of its groups"),
        ({"target": "ldl", "features": "agee"}, "Did you mean 'age'"),
        ({"formula": "ldl ~ age", "reference": pd.DataFrame()}, "reference is the path"),
    ],
)
def test_wrong_calls(given, said):
    with pytest.raises(InvalidInput, match=said):
        pv.plan(PEOPLE, **({"level": 2.0, "residual_variance": 1.0, "form": "rows"} | given))


def test_frames_are_of_two_kinds():
    with pytest.raises(InvalidInput, match="pandas, polars"):
        pv.plan(PEOPLE, FORMULA, **KNOWN).to_frame("arrow")


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pv.plan(PEOPLE, FORMULA, **KNOWN).simulate(rng=1)
    assert list(tmp_path.iterdir()) == []


def test_a_path_and_a_release_give_the_same_estimate(tmp_path):
    plan = pv.plan(PEOPLE, FORMULA, **KNOWN)
    plan.simulate(tmp_path / "z.csv", rng=2)
    mine, other = pv.estimate(str(tmp_path / "z.csv")), estimate(read_release(tmp_path / "z.csv"))
    assert np.array_equal(mine.covariance, other.covariance)


def test_weights_come_through(tmp_path):
    rows = len(PEOPLE["age"])
    table = PEOPLE | {
        "w": np.linspace(1, 2, rows),
    }
    weighted = pv.plan(table, FORMULA, weights="w", **KNOWN)
    for k, plan in enumerate((weighted,)):
        frame = plan.to_frame()
        assert len(frame) == len(plan.names) * len(plan.columns)
        assert (frame["privacy_error"] > 0).all()
        held = plan.simulate(rng=1)
        written = plan.simulate(tmp_path / str(k) / "release.csv", rng=1)
        assert np.array_equal(pv.estimate(held).value, pv.estimate(written.path).value)
        assert tuple(held.to_frame()) == held.table_columns
