"""Persons with several rows, from the plan to the estimate."""

import hashlib
import importlib
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import workflow_inside as workflow
from privest.data.source import Source
from privest.errors import InvalidInput
from privest.estimator.inference import PeopleNoise
from privest.ledger import Ledger
from privest.mechanism import RowMechanism
from privest.privacy.statement import person_statement
from privest.workflow import cluster, document, read_release
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.release import simulate_release
from privest.workflow.spec import Privacy, Public
from privest.workflow.verify import verify
from workflow_tables import UNIT, stated

CASES = [None, 3]
RELEASE = importlib.import_module("privest.workflow.release")


def table(people=30, seed=0, scattered=False):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, people)
    labels = np.repeat(np.arange(people), sizes)
    frame = pd.DataFrame({
        "id": [f"person {k}" for k in labels],
        "x": rng.standard_normal(len(labels)),
        "b": rng.standard_normal(people)[labels],
    })  # fmt: skip
    frame["y"] = 1 + 0.5 * frame.x - 0.3 * frame.b + 0.7 * rng.standard_normal(people)[labels]
    frame["y"] += 0.5 * rng.standard_normal(len(labels))
    return frame.sample(frac=1, random_state=seed) if scattered else frame


def spec(most=None, level=4.0, features=("x", "b"), **options):
    privacy = options.pop("privacy", Privacy(level=level))
    own = {"target": "y", "features": features, "person": "id", "most_rows": most}
    return stated("t.csv", privacy, **own | options)


def plain(privacy):
    """Without persons."""
    return stated("t.csv", privacy, Public(1.0), target="y", features=("x", "b"))


def released(tmp_path, asked, data, *, real=True):
    path = tmp_path / "z.csv"
    plan = make_plan(asked, data)
    if real:
        workflow.release(plan, path, data)
    else:
        simulate_release(plan, path, np.random.default_rng(1), data)
    return plan, path


def dense(path):
    """θ̂ and its covariance by the known noise, from the readings of the release, literally."""
    found = read_release(path)
    shown = pd.read_csv(path)
    rows = shown.groupby("id").z.transform("size").to_numpy()
    H = np.column_stack([np.ones(len(shown)), shown.x, shown.b])
    cap = found.model.most_rows
    V = np.diag(rows if cap is None else np.full(len(H), cap)) / found.column.level
    inverse = np.linalg.inv(V)
    covariance = np.linalg.inv(H.T @ inverse @ H)
    return covariance @ H.T @ inverse @ found.values, covariance


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("most", CASES)
def test_from_the_plan_to_the_estimate(tmp_path, most, real, scattered):
    data = table(scattered=scattered)
    plan, path = released(tmp_path, spec(most), data, real=real)
    sizes = data.groupby("id").size()
    found, kept = read_release(path), sizes if most is None else sizes.clip(upper=most)
    assert (found.persons, found.rows) == (30, kept.sum())
    assert plan.survey.strata.cut == (sizes - kept).sum()  # for the holder of the data
    assert found.dropped == 0  # whoever reads the header is not told how many
    assert plan.rows == found.rows
    shown = pd.read_csv(path)
    assert list(shown.columns) == ["x", "b", "id", "z"]
    assert sorted(shown.groupby("id").size()) == sorted(kept)
    assert shown.id.drop_duplicates().tolist() == list(range(1, 31))  # by first appearance
    made = estimate(path)
    known, floor = dense(path)
    # real noise counts with what the grid adds: 7e-7 of it
    np.testing.assert_allclose(made.value, known, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(made.floor, np.sqrt(floor.diagonal()), rtol=1e-6)
    np.testing.assert_allclose(plan.privacy_error, np.sqrt(UNIT * floor.diagonal()), rtol=1e-9)
    assert made.method == "CR2, 30 persons"
    assert made.degrees_of_freedom.shape == (3,)
    assert made.doubt is None
    assert made.less_noise is None


def test_few_persons_with_a_range_are_estimated(tmp_path):
    """As many coefficients between persons as persons: least squares."""
    data = pd.DataFrame({"id": np.repeat([1, 2, 3], 5), "y": np.linspace(0.0, 1.0, 15)})
    data["x"], data["b"] = data.id.map({1: 0.0, 2: 1.0, 3: 5.0}), data.id.map({1: 1, 2: 0, 3: 0})
    plan = spec(privacy=Privacy(4.0, range={"y": (0.0, 1.0)}))
    _, path = released(tmp_path, plan, data, real=False)
    found = estimate(path)
    assert found.method == "CR2, 3 persons"
    assert np.isfinite(found.value).all()


def test_readings_are_those_of_the_rows(tmp_path):
    """With very little noise the released rows are the rows, in whatever order they leave."""
    data = table(scattered=True)
    for k, most in enumerate(CASES):
        folder = tmp_path / str(k)
        folder.mkdir()
        _, path = released(folder, spec(most, level=1e12), data)
        shown = pd.read_csv(path).assign(y=read_release(path).values)
        both = shown.merge(data, on=["x", "b"])
        assert len(both) == len(shown)
        np.testing.assert_allclose(both.y_x, both.y_y, atol=1e-4)
        assert (both.groupby("id_x").id_y.nunique() == 1).all()
        assert (both.groupby("id_y").id_x.nunique() == 1).all()


def test_small_blocks_and_all_ways_to_keep_sums_agree(tmp_path, monkeypatch):
    """Few persons are held; of many with rows in order a block is; scattered rows are sorted."""
    data = table(people=50)
    _, path = released(tmp_path, spec(), data, real=False)
    (tmp_path / "other").mkdir()
    _, other = released(tmp_path / "other", spec(), table(people=50, scattered=True), real=False)
    held, scattered = estimate(path), estimate(other)
    monkeypatch.setattr(Source, "size", 7)
    monkeypatch.setattr(cluster, "HELD", 0)
    for expected, found in ((held, estimate(path)), (scattered, estimate(other))):
        np.testing.assert_allclose(found.value, expected.value, rtol=1e-10)
        np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-8)
        np.testing.assert_allclose(found.degrees_of_freedom, expected.degrees_of_freedom, rtol=1e-8)


@pytest.mark.parametrize("most", CASES)
def test_differential_privacy_is_of_the_person(tmp_path, most):
    data = table()
    largest = int(data.groupby("id").size().max())
    asked = spec(most, privacy=Privacy(level=0.5, delta=1e-6, sensitivity=2.0))
    plan, path = released(tmp_path, asked, data)
    rows = largest if most is None else most
    said = person_statement(0.5, rows, sensitivity=2.0, capped=most is not None)
    assert plan.epsilon == read_release(path).epsilon == said.epsilon
    asked = spec(most, privacy=Privacy(epsilon=3.0, delta=1e-6, sensitivity=2.0))
    found = make_plan(asked, data)
    assert 2.99 < found.epsilon <= 3.0
    one = make_plan(plain(Privacy(epsilon=3.0, delta=1e-6, sensitivity=2.0)), data)
    assert found.level == pytest.approx(one.level, rel=0.05)


def test_the_ledger_counts_persons(tmp_path):
    data, book = table(), tmp_path / "book.db"
    asked = spec(privacy=Privacy(level=0.5, delta=1e-6, sensitivity=2.0))
    plan, path = make_plan(asked, data), tmp_path / "z.csv"
    with workflow.Account(book, "y of t") as account:
        header = workflow.release(plan, path, data, account=account)
    with Ledger(book, create=False) as ledger:
        (entry,) = [one for one in ledger.history("y of t") if one.cost is not None]
    said = person_statement(0.5, plan.most, sensitivity=2.0)
    assert (entry.start, entry.stop) == (0, 30)
    assert entry.cost.information == Fraction(1, 2)
    assert float(entry.cost.mu2) == pytest.approx(said.mu**2, rel=1e-12)
    assert "every reading of one person" in entry.cost.sensitivity
    assert verify(path, book).signed
    assert header.charged == 30


def test_the_same_readings_have_one_account(tmp_path):
    """Whether or not their persons are stated; the rows that leave are the same."""
    data, book = table(), tmp_path / "book.db"
    with workflow.Account(book, "first") as account:
        workflow.release(make_plan(spec(), data), tmp_path / "a.csv", data, account=account)
    with (
        workflow.Account(book, "another") as account,
        pytest.raises(InvalidInput, match="released for the account 'first'"),
    ):
        workflow.release(
            make_plan(plain(Privacy(1.0)), data), tmp_path / "b.csv", data, account=account
        )


def test_a_seed_is_bound_to_the_cap(tmp_path):
    """Readings of 0 are shown as 0 under every cap: their noise must differ all the same."""
    data, shown = table().assign(y=0.0), []
    for k, most in enumerate(CASES):
        plan, path = make_plan(spec(most), data), tmp_path / f"{k}.csv"
        simulate_release(plan, path, workflow.simulation_source(plan, 7), data)
        shown.append(set(pd.read_csv(path).z))
    assert len(set.union(*shown)) == sum(map(len, shown))


def test_a_run_that_was_stopped_is_finished(tmp_path, monkeypatch):
    """It was paid for: the very same table, with its persons."""
    data, path = table(), tmp_path / "z.csv"
    plan, account = make_plan(spec(), data), workflow.Account(tmp_path / "book.db", "y of t")

    def fail(*given):
        raise OSError("disk")

    with account:
        with monkeypatch.context() as patch:
            patch.setattr(RELEASE, "_write_document", fail)
            with pytest.raises(OSError, match="disk"):
                workflow.release(plan, path, data, account=account)
        made = workflow.release(plan, path, data, account=account)
    assert (made.persons, made.rows, made.dropped) == (30, len(data), 0)
    assert read_release(path).to_dict() == made.to_dict()


def test_a_document_that_was_changed_is_refused(tmp_path):
    asked = Privacy(level=0.5, delta=1e-6, sensitivity=2.0)
    _, path = released(tmp_path, spec(privacy=asked), table())
    file = tmp_path / "z.csv.json"
    record = json.loads(file.read_text())
    changes = [
        lambda r: r["facts"].update(most_rows=1), lambda r: r["facts"].update(most_rows=0),
        lambda r: r["facts"].update(most_rows=None), lambda r: r["facts"].update(persons=None),
        lambda r: r["plan"]["model"].pop("person"), lambda r: r["facts"].update(persons=29),
        lambda r: r["plan"]["model"].update(most_rows=2),
    ]  # fmt: skip
    for change in changes:
        other = json.loads(json.dumps(record))
        change(other)
        for seal in (False, True):
            if seal:
                facts = {k: v for k, v in other.items() if k not in ("checksum", "signature")}
                other["checksum"] = document.checksum_of(facts)
            file.write_text(json.dumps(other))
            with pytest.raises(InvalidInput):
                estimate(path)


def test_less_noise_than_the_document_says_is_noticed(tmp_path, monkeypatch):
    """Readings that are all 0, released with a tenth of the noise."""
    data = table().assign(y=0.0)
    honest = RowMechanism.simulate
    monkeypatch.setattr(RowMechanism, "simulate", lambda *given: 0.1 * honest(*given))
    _, path = released(tmp_path, spec(), data, real=False)
    assert "less noise than it says" in estimate(path).less_noise


@pytest.mark.parametrize("number", [31, 0, 1.5])
def test_a_table_with_other_persons_is_refused(tmp_path, number):
    """A forger who makes every digest anew."""
    _, path = released(tmp_path, spec(), table(), real=False)
    shown = pd.read_csv(path).astype({"id": float})
    shown.loc[3, "id"] = number
    shown.to_csv(path, index=False)
    record = json.loads((tmp_path / "z.csv.json").read_text())
    record["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    facts = {k: v for k, v in record.items() if k not in ("checksum", "signature")}
    (tmp_path / "z.csv.json").write_text(
        json.dumps(record | {"checksum": document.checksum_of(facts)})
    )
    with pytest.raises(InvalidInput, match="was changed"):
        estimate(path)


def test_a_logarithm(tmp_path):
    """Readings beyond the range are clipped before their logarithm is taken."""
    data = table()
    data["y"] = np.exp(data.y)
    data.loc[3, "y"] = -5.0
    data.loc[7, "y"] = 1e9
    asked = spec(privacy=Privacy(level=1e10, range={"y": (0.01, 1000.0)}), transform="log")
    _, path = released(tmp_path, asked, data)
    values = read_release(path).values
    assert values[3] == pytest.approx(math.log(0.01), abs=0.01)
    assert values[7] == pytest.approx(math.log(1000.0), abs=0.01)


def test_what_a_range_does_is_said(tmp_path):
    """Many clipped values: their share, the bias, and a caution."""
    data = table(people=2000, seed=3)
    for k, ends in enumerate([(-9, 9), (0.5, 9)]):
        (tmp_path / str(k)).mkdir()
        asked = spec(privacy=Privacy(level=50.0, range={"y": ends}))
        _, path = released(tmp_path / str(k), asked, data, real=False)
        found = estimate(path)
        if ends[0] < 0:
            assert found.clipping_bias < 0.05
            assert not found.cautions
        else:
            share = np.mean([not ends[0] <= y <= ends[1] for y in data.y])
            assert share / 2 < found.clipped < 1.1 * share  # by least squares of what is left
            assert found.clipping_bias > 1
            assert "as clipped to the range" in found.cautions[0]


# --- wrong uses: each gets a sentence that says what to do ----------------------------------------


def test_one_person_only():
    data = table().assign(id="me")
    with pytest.raises(InvalidInput, match="one person only"):
        make_plan(spec(), data)


def test_every_person_has_one_row():
    data = table()
    with pytest.raises(InvalidInput, match="has one row"):
        make_plan(spec(), data.assign(id=np.arange(len(data))))


def test_a_row_of_nobody():
    data = table()
    data.loc[4, "id"] = None
    with pytest.raises(InvalidInput, match=r"column 'id', row 5: it does not say whose row"):
        make_plan(spec(), data)
    assert make_plan(spec(missing="drop"), data).dropped == 1


def test_numbers_are_names_too(tmp_path):
    data = table()
    data["id"] = data.id.str.removeprefix("person ").astype(int)
    _, path = released(tmp_path, spec(), data, real=False)
    assert read_release(path).persons == 30


def test_a_person_with_very_many_rows(tmp_path):
    """They are taken, each at a small level; a cap cuts them."""
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"id": np.r_[np.zeros(1500), np.arange(1, 500)].astype(int)})
    data["x"], data["y"] = rng.standard_normal((2, len(data)))
    plan = make_plan(spec(features=("x",)), data)
    assert (plan.most, plan.survey.strata.largest, plan.survey.strata.cut) == (1500, 1500, 0)
    capped = make_plan(spec(5, features=("x",)), data)
    found = capped.survey.strata
    assert (capped.most, found.largest, found.cut, found.count) == (5, 1500, 1495, 500)


def test_what_does_not_go_with_persons():
    for options, said in (
        ({"features": ("x", "id")}, "cannot be a feature too"),
        ({"privacy": Privacy(standard_error={"x": 0.1})}, "one row per person"),
        ({"weights": "w"}, "survey weights"),
        ({"privacy": Privacy(level_column="w")}, "level column"),
        ({"target": ("y", "u"), "privacy": Privacy(1.0, units={"y": 1, "u": 1})}, "one row per"),
    ):
        with pytest.raises(InvalidInput, match=said):
            spec(**options)
    assert workflow.stated_plan(spec()) is None  # the most rows of a person are in the table


def test_other_data_than_planned(tmp_path):
    plan = make_plan(spec(), table(people=10))
    more = pd.concat([table(people=10)] * 3)
    with pytest.raises(InvalidInput, match="plan for these data"):
        workflow.release(plan, tmp_path / "z.csv", more)
    _, path = released(tmp_path, spec(), table(), real=False)
    with pytest.raises(InvalidInput, match="errors of persons"):
        estimate(path, cov_type="hc3")


def test_a_feature_of_one_person_has_no_interval(tmp_path):
    data = table()
    data["b"] = (data.id == "person 3").astype(float)
    _, path = released(tmp_path, spec(), data, real=False)
    found = estimate(path)
    assert np.isnan(found.interval()[2]).all()
    assert np.isfinite(found.interval()[:2]).all()
    assert found.remark.startswith("a single person decides b:")


@pytest.mark.parametrize("most", CASES)
def test_plan_errors_by_strata_are_dense(most):
    """Half of the residual variance is between persons, half within."""
    data = table(people=12)
    kept = data[data.groupby("id").cumcount() < (most or 99)]
    H = np.column_stack([np.ones(len(kept)), kept.x, kept.b])
    same = kept.id.to_numpy()[:, None] == kept.id.to_numpy()
    counts = same.sum(axis=1)
    plan = make_plan(replace(spec(most, level=3.0), public=Public(0.8)), data)
    noise = UNIT * PeopleNoise(3.0, most).variances(counts)
    for found, V in (
        (plan.standard_error, np.diag(noise + 0.4) + 0.4 * same),
        (plan.classical_error, 0.4 * np.eye(len(H)) + 0.4 * same),
        (plan.privacy_error, np.diag(noise)),
    ):
        expected = np.sqrt(np.linalg.inv(H.T @ np.linalg.inv(V) @ H).diagonal())
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    unknown = make_plan(spec(most, level=3.0), data)
    assert np.isnan([unknown.classical_error, unknown.standard_error]).all()
    np.testing.assert_array_equal(unknown.privacy_error, plan.privacy_error)
    assert unknown.survey.strata.count == 12


def test_infinite_readings_of_persons_leave_as_any_other(tmp_path):
    """Rows are counted with their readings where some are dropped, and none is refused."""
    data = table()
    data.loc[[0, 5], "y"] = np.inf, np.nan
    asked = spec(missing="drop", privacy=Privacy(level=4.0, range={"y": (-5.0, 5.0)}))
    _, path = released(tmp_path, asked, data)
    assert (read_release(path).rows, read_release(path).dropped) == (len(data) - 1, 1)


def test_a_plan_of_persons_does_not_read_the_readings():
    data = table()
    gaps = data.assign(y=data.y.where(data.x < 0))
    full, some = (make_plan(spec(missing="drop"), one) for one in (data, gaps))
    assert (some.rows, some.dropped) == (full.rows, 0)
    np.testing.assert_array_equal(some.privacy_error, full.privacy_error)
