"""The workflow as calls in Python: the same as the commands, from frames, in memory, as frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import privest as pv
from privest.errors import BudgetExceeded, InvalidInput
from privest.workflow import estimate_release, make_plan, simulate_release, trial_source
from workflow_tables import LEVEL, VARIANCE, people, spec, write

LISTS = {"sex": ("female", "male")}
PEOPLE = people(120)
FORMULA = "ldl ~ age + bmi + C(sex)"
KNOWN = {"categories": LISTS, "noise_variance": VARIANCE, "level": LEVEL}


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
    held, written = plan.simulate(seed=5), plan.simulate(tmp_path / "release.csv", seed=5)
    assert held == written
    assert held.path is None
    by_commands = simulate_release(plan, tmp_path / "z.csv", trial_source(plan, 5), data)
    assert by_commands.sha256 == held.sha256
    found, other = pv.estimate(held), pv.estimate(tmp_path / "release.csv")
    assert np.array_equal(found.estimate, other.estimate)
    for table in (found.to_frame(), held.to_frame(), plan.to_frame(), written.to_frame()):
        assert isinstance(table, kind)
    assert isinstance(found.to_frame(library="pandas"), pd.DataFrame)
    assert isinstance(other.to_frame(), pd.DataFrame)  # a file does not know
    np.testing.assert_allclose(np.asarray(held.to_frame()["z"]), held.values)
    saved = held.save(tmp_path / "copy")
    assert saved.read_bytes() == (tmp_path / "release.csv").read_bytes()
    assert pv.workflow.read_release(saved) == held
    with pytest.raises(InvalidInput, match="exists: choose another folder"):
        held.save(tmp_path / "copy")
    with pytest.raises(InvalidInput, match="is a file already"):
        written.save(tmp_path / "copy")


def test_a_real_release_is_charged_once(ledger, tmp_path):
    plan = pv.plan(PEOPLE, FORMULA, **KNOWN)
    release = plan.release(ledger=ledger, subject="ldl")
    assert not release.simulated
    assert release.entry.subject == "ldl"
    assert pv.workflow.verify_release(release.save(tmp_path), ledger).signed
    np.testing.assert_array_equal(np.diff(release.to_frame()["age"]), np.diff(PEOPLE["age"]))
    with pytest.raises(BudgetExceeded, match="was released on"):
        plan.release(ledger=ledger, subject="ldl")
    with pytest.raises(InvalidInput, match="released for the account 'ldl'"):
        plan.release(tmp_path / "b.csv", ledger=ledger, subject="another")
    with pytest.raises(BudgetExceeded, match="is more than the budget allows"):
        plan.release(tmp_path / "b.csv", ledger=ledger, subject="ldl", again=True)


def test_where_the_ledger_is(tmp_path, monkeypatch):
    """Beside the data; of a frame in the current folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    path = write(PEOPLE, tmp_path / "people.csv")
    release = pv.plan(path, FORMULA, **KNOWN).release()
    assert (tmp_path / "privest-ledger.db").exists()
    assert release.entry.subject == "ldl of people.csv"
    assert list((tmp_path / "here").iterdir()) == []
    frame = pv.plan(pd.DataFrame(people(20, seed=3)), FORMULA, **KNOWN).release()
    assert frame.entry.subject == "ldl of pandas frame"
    assert (tmp_path / "here" / "privest-ledger.db").exists()


def test_the_frame_of_an_estimate_and_its_summary():
    found = pv.estimate(pv.plan(PEOPLE, FORMULA, **KNOWN).simulate(seed=1))
    frame = found.to_frame(confidence=0.9)
    assert list(frame) == ["coefficient", "estimate", "standard_error", "p_value", "low", "high"]
    assert frame["coefficient"].tolist() == list(found.names)
    np.testing.assert_array_equal(frame[["low", "high"]], found.interval(0.9))
    assert "sex=male" in found.summary()


def test_means_of_groups():
    categories = LISTS | {"ward": ("a", "b")}
    table = PEOPLE | {"ward": np.resize(["a", "b"], 120)}
    everything = {"level": 1e12, "noise_variance": VARIANCE}
    means = pd.DataFrame(table).groupby(["sex", "ward"])["ldl"].mean()
    plan = pv.plan(table, target="ldl", by=["sex", "ward"], categories=categories, **everything)
    found = pv.estimate(plan.simulate(seed=1))
    assert found.names == tuple(f"sex={sex}:ward={ward}" for sex, ward in means.index)
    np.testing.assert_allclose(found.estimate, means, atol=1e-5)
    whole = pv.estimate(pv.plan(table, target="ldl", **everything).simulate(seed=1))
    np.testing.assert_allclose(whole.estimate, [PEOPLE["ldl"].mean()], atol=1e-5)


def test_a_summary_says_what_is_known():
    text = pv.plan(PEOPLE, FORMULA, **KNOWN, delta=1e-6, range=(-9.0, 9.0)).summary(0.9)
    assert "privacy level s = 2 (a larger s reveals more)" in text
    assert "ε = " in text
    loose = pv.plan(PEOPLE, FORMULA, **KNOWN, delta=1e-6, move=0.5).summary(0.9)
    assert "ε = " not in loose  # no range enforces the difference
    assert "± with privacy" in text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"formula": FORMULA, "levle": 2.0}, "'levle' is not known"),
        ({"formula": "ldl ~ age", "target": "bmi"}, "the formula says the target"),
        ({"target": "ldl", "by": "sex", "features": "age"}, "by= is for means"),
        ({"target": "ldl", "by": "ward"}, "need the public list of its groups"),
        ({"target": "ldl", "features": "agee"}, "Did you mean 'age'"),
        ({"formula": "ldl ~ age", "reference": pd.DataFrame()}, "reference is the path"),
    ],
)
def test_wrong_calls(given, said):
    with pytest.raises(InvalidInput, match=said):
        pv.plan(PEOPLE, **({"level": 2.0, "noise_variance": 1.0} | given))


def test_frames_are_of_two_kinds():
    with pytest.raises(InvalidInput, match="pandas, polars"):
        pv.plan(PEOPLE, FORMULA, **KNOWN).to_frame("arrow")


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pv.plan(PEOPLE, FORMULA, **KNOWN).simulate(seed=1)
    assert list(tmp_path.iterdir()) == []


def test_estimate_takes_what_estimate_release_takes(tmp_path):
    plan = pv.plan(PEOPLE, FORMULA, **KNOWN)
    plan.simulate(tmp_path / "z.csv", seed=2)
    mine, other = pv.estimate(str(tmp_path / "z.csv")), estimate_release(tmp_path / "z.csv")
    assert np.array_equal(mine.covariance, other.covariance)


def test_persons_weights_and_several_columns_come_through(tmp_path):
    rows = len(PEOPLE["age"])
    table = PEOPLE | {
        "id": np.repeat(np.arange(rows // 4), 4),
        "w": np.linspace(1, 2, rows),
        "hdl": PEOPLE["ldl"][::-1].copy(),
    }
    persons = pv.plan(table, FORMULA, person="id", **KNOWN)
    weighted = pv.plan(table, FORMULA, weights="w", **KNOWN)
    both = pv.plan(
        table, "ldl + hdl ~ age + C(sex)", categories=LISTS, level=2.0,
        units={"ldl": 1.0, "hdl": 0.5},
    )  # fmt: skip
    for k, plan in enumerate((persons, weighted, both)):
        assert "privacy level s" in plan.summary()
        frame = plan.to_frame()
        assert len(frame) == len(plan.names) * len(plan.columns)
        assert (frame["privacy_error"] > 0).all()
        held = plan.simulate(seed=1)
        written = plan.simulate(tmp_path / str(k) / "release.csv", seed=1)
        assert np.array_equal(pv.estimate(held).estimate, pv.estimate(written.path).estimate)
        assert tuple(held.to_frame()) == held.table_columns


def test_the_summary_of_a_plan_speaks_the_units_of_the_readings():
    """After a logarithm in its units; ± of coefficients say for how many."""
    asked = {"categories": LISTS, "level": 4.0, "range": (0.5, 20.0)}
    logs = pv.plan(PEOPLE, "log(ldl) ~ age + C(sex)", missing="drop", **asked).summary()
    assert "unbiased guesses have sd at least 0.5 (after log)" in logs
    assert "(and rows without ldl, which only the release reads)" in logs
    plain = pv.plan(PEOPLE, "ldl ~ age + C(sex)", **asked)
    assert "unbiased guesses have sd at least 0.5" in plain.summary()
    assert "without ldl" not in plain.summary()
    for confidence, share in ((0.95, "95 %"), (0.9, "90 %")):
        assert f"± of coefficients: for {share}\n" in plain.summary(confidence)
