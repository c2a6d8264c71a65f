"""Persons with several rows, from the plan to the estimate."""

import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from privest.workflow._people_range import clip_shift

from privest import workflow
from privest.errors import InvalidInput, PrivestError
from privest.estimator.inference import PeopleNoise
from privest.ledger import Ledger
from privest.privacy import Range, person_statement
from privest.workflow import (
    Privacy,
    Public,
    Spec,
    estimate,
    make_plan,
    read_release,
    simulate_held,
    simulate_release,
    verify,
)
from privest.workflow import _person_sums as sums_module
from privest.workflow import _route_people as route_module
from workflow_tables import UNIT

CASES = [None, 3]


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
    return Spec(
        data="t.csv", target="y", features=features, public=Public(), privacy=privacy,
        person="id", most_rows=most, **options,
    )  # fmt: skip


def released(tmp_path, stated, data, *, real=True):
    path = tmp_path / "z.csv"
    plan = make_plan(stated, data)
    if real:
        workflow.release(plan, path, data)
    else:
        simulate_release(plan, path, np.random.default_rng(1), data)
    return plan, path


def dense(path):
    """θ̂ and its covariance by the known noise, from the readings of the release, literally."""
    found = read_release(path)
    shown = pd.read_csv(path)
    person = found.column.person
    rows = shown.groupby("id").z.transform("size").to_numpy()
    H = np.column_stack([np.ones(len(shown)), shown.x, shown.b])
    V = np.diag(np.full(len(H), person.rows) if person.capped else rows) / found.level
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
    assert plan.people.cut == (sizes - kept).sum()  # for the holder of the data
    assert found.dropped == 0  # whoever reads the header is not told how many
    assert plan.rows == found.rows
    shown = pd.read_csv(path)
    assert list(shown.columns) == ["x", "b", "id", "z"]
    assert sorted(shown.groupby("id").size()) == sorted(kept)
    assert shown.id.drop_duplicates().tolist() == list(range(1, 31))  # by first appearance
    made = estimate(path)
    estimate, floor = dense(path)
    # real noise counts with what the grid adds: 7e-7 of it
    np.testing.assert_allclose(made.estimate, estimate, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(made.floor, np.sqrt(floor.diagonal()), rtol=1e-6)
    known = np.sqrt(UNIT * floor.diagonal())
    np.testing.assert_allclose(plan.people.errors(4.0), known, rtol=1e-9)
    assert made.method == "CR2, 30 persons"
    assert made.degrees_of_freedom.shape == (3,)
    assert made.doubt is None
    assert made.less_noise is None
    random = estimate(path, errors="reml")
    assert random.method == "REML weights, CR2, 30 persons"
    assert "between persons" in random.remark
    assert (np.abs(random.estimate - estimate) < 4 * made.standard_error).all()


def test_random_slopes_do_not_shorten_the_errors_of_reml():
    """Persons who differ in slopes: the errors of the model were a third of these, .53 of 95 %."""
    rng, who = np.random.default_rng(1), np.repeat(np.arange(40), 10)
    x = rng.normal(size=400)
    table = {"id": who.astype(float), "x": x, "b": rng.normal(size=40)[who]}
    plan, errors, off = make_plan(spec(privacy=Privacy(50.0)), table | {"y": x}), [], []
    for _ in range(12):
        y = x + rng.normal(size=40)[who] * (1 + 2 * x) + 0.3 * rng.normal(size=400)
        found = estimate(simulate_held(plan, table | {"y": y}, rng), "reml")
        place = found.names.index("x")
        errors.append(found.standard_error[place])
        off.append(found.estimate[place] - 1)
    assert np.mean(errors) > 0.6 * np.sqrt(np.mean(np.square(off)))


def test_few_persons_with_a_range_are_estimated(tmp_path):
    """As many coefficients between persons as persons: no REML, but least squares and a word."""
    data = pd.DataFrame({"id": np.repeat([1, 2, 3], 5), "y": np.linspace(0.0, 1.0, 15)})
    data["x"], data["b"] = data.id.map({1: 0.0, 2: 1.0, 3: 5.0}), data.id.map({1: 1, 2: 0, 3: 0})
    plan = spec(privacy=Privacy(4.0, range={"ldl": (0.0, 1.0)}))
    _, path = released(tmp_path, plan, data, real=False)
    found = estimate(path)
    assert found.method == "CR2, 3 persons"
    assert "to see how much the range clips" in found.remark
    with pytest.raises(InvalidInput, match="nothing is left"):
        estimate(path, errors="reml")


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
    data = table(people=50)
    _, path = released(tmp_path, spec(), data, real=False)
    held = estimate(path)
    monkeypatch.setattr(sums_module, "HELD", 0)  # many persons: rows in order are streamed
    from privest.data import read_rows

    monkeypatch.setattr(
        "privest.workflow._header.read_rows", lambda *a, **k: read_rows(*a, **k, size=7)
    )
    streamed = estimate(path)
    np.testing.assert_allclose(streamed.estimate, held.estimate, rtol=1e-10)
    np.testing.assert_allclose(streamed.covariance, held.covariance, rtol=1e-8)
    np.testing.assert_allclose(streamed.degrees_of_freedom, held.degrees_of_freedom, rtol=1e-8)
    (tmp_path / "other").mkdir()
    _, path = released(tmp_path / "other", spec(), table(people=50, scattered=True), real=False)
    scattered = estimate(path)  # its rows are put in order
    monkeypatch.setattr(route_module, "HELD", 0)  # too many for that: sums of all persons
    summed = estimate(path)
    np.testing.assert_allclose(summed.covariance, scattered.covariance, rtol=1e-8)
    np.testing.assert_allclose(summed.degrees_of_freedom, scattered.degrees_of_freedom, rtol=1e-8)
    monkeypatch.setattr(sums_module, "HELD", 1 << 22)
    np.testing.assert_allclose(scattered.covariance, estimate(path).covariance, rtol=1e-8)


def test_rows_in_order_are_not_all_kept():
    """Of persons whose rows are together a block is kept, whatever their number."""

    def rows():
        for start in range(0, 3000, 100):
            numbers = np.arange(start, start + 100) // 3 + 1
            yield np.ones((100, 2)), numbers

    found = sums_module.PersonSums(rows, 1000, 2)
    found._keep = False
    parts = list(found)
    assert max(map(len, parts)) < 40
    whole = np.concatenate(parts)
    assert whole.shape == (1000, 2, 2)
    assert (whole == 3).all()
    assert found._held is None


@pytest.mark.parametrize("most", CASES)
def test_differential_privacy_is_of_the_person(tmp_path, most):
    data = table()
    largest = int(data.groupby("id").size().max())
    stated = spec(most, privacy=Privacy(level=0.5, delta=1e-6, sensitivity=2.0))
    plan, path = released(tmp_path, stated, data)
    rows = largest if most is None else most
    said = person_statement(0.5, rows, sensitivity=2.0, capped=most is not None)
    assert plan.epsilon == read_release(path).epsilon == said.epsilon
    asked = spec(most, privacy=Privacy(epsilon=3.0, delta=1e-6, sensitivity=2.0))
    found = make_plan(asked, data)
    assert 2.99 < found.epsilon <= 3.0
    one = workflow.make_plan(
        Spec(data="t.csv", target="y", features=("x", "b"), public=Public(1.0),
             privacy=Privacy(epsilon=3.0, delta=1e-6, sensitivity=2.0)), data,
    )  # fmt: skip
    assert found.level == pytest.approx(one.level, rel=0.05)


def test_the_ledger_counts_persons(tmp_path):
    data, book = table(), tmp_path / "book.db"
    stated = spec(privacy=Privacy(level=0.5, delta=1e-6, sensitivity=2.0))
    plan, path = make_plan(stated, data), tmp_path / "z.csv"
    with workflow.Account(book, "y of t") as account:
        header = workflow.release(plan, path, data, account=account)
    with Ledger(book, create=False) as ledger:
        (entry,) = [one for one in ledger.history("y of t") if one.cost is not None]
    said = person_statement(0.5, plan.people.largest, sensitivity=2.0)
    assert (entry.start, entry.stop) == (0, 30)
    assert entry.cost.information == Fraction(1, 2)
    assert float(entry.cost.mu2) == pytest.approx(said.mu**2, rel=1e-12)
    assert "every reading of one person" in entry.cost.move
    assert verify(path, book).signed
    assert header.charged == 30


def test_the_same_readings_have_one_account(tmp_path):
    """Whether or not their persons are stated; the rows that leave are the same."""
    data, book = table(), tmp_path / "book.db"
    with workflow.Account(book, "first") as account:
        workflow.release(make_plan(spec(), data), tmp_path / "a.csv", data, account=account)
    plain = Spec(data="t.csv", target="y", features=("x", "b"), public=Public(1.0),
                 privacy=Privacy(level=1.0))  # fmt: skip
    with (
        workflow.Account(book, "another") as account,
        pytest.raises(InvalidInput, match="released for the account 'first'"),
    ):
        workflow.release(make_plan(plain, data), tmp_path / "b.csv", data, account=account)


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
            patch.setattr("privest.workflow._releasing._write_document", fail)
            with pytest.raises(OSError, match="disk"):
                workflow.release(plan, path, data, account=account)
        made = workflow.release(plan, path, data, account=account)
    assert (made.persons, made.rows, made.dropped) == (30, len(data), 0)
    assert read_release(path) == made


def test_a_header_that_was_changed_is_refused(tmp_path):
    _, path = released(tmp_path, spec(privacy=Privacy(level=0.5, delta=1e-6, sensitivity=2.0)), table())
    header = tmp_path / "z.csv.json"
    record = json.loads(header.read_text())
    for change, said in (
        (lambda r: r["columns"][0]["person"].update(rows=1), "epsilon is not that of"),
        (lambda r: r["columns"][0].update(person=None), "epsilon is not that of"),
        (lambda r: r["columns"][0]["person"].update(design="B"), "B was removed in version 0.2"),
        (lambda r: r["columns"][0]["person"].update(rows=0), "1 row or more"),
        (lambda r: r["people"].update(design="B"), "B was removed in version 0.2: leave"),
        (lambda r: r.update(persons=None), "persons goes with people"),
        (lambda r: r.update(persons=29), "checksum"),
    ):
        other = json.loads(json.dumps(record))
        change(other)
        header.write_text(json.dumps(other))
        with pytest.raises(InvalidInput, match=said):
            read_release(path)


def test_less_noise_than_the_header_says_is_noticed(tmp_path, monkeypatch):
    """Readings that are all 0, released with a tenth of the noise."""
    data = table().assign(y=0.0)
    plan = make_plan(spec(), data)
    made = type(plan.column.person.mechanism(4.0, None))
    honest = made._released
    monkeypatch.setattr(made, "_released", lambda *given: 0.1 * honest(*given))
    path = tmp_path / "z.csv"
    simulate_release(plan, path, np.random.default_rng(1), data)
    assert "less noise than it says" in estimate(path).less_noise


def test_a_table_with_other_persons_is_refused(tmp_path):
    _, path = released(tmp_path, spec(), table(), real=False)
    found = read_release(path)
    for numbers in (np.full(3, 31.0), np.zeros(3), np.full(3, 1.5)):
        with pytest.raises(InvalidInput, match="was changed"):
            list(sums_module.PersonSums(
                lambda n=numbers: iter([(np.ones((3, 2)), sums_module.as_numbers(n))]), 30, 2
            ))  # fmt: skip
    assert found.charged == 30


def test_a_logarithm(tmp_path):
    """Readings beyond the range are clipped before their logarithm is taken."""
    data = table()
    data["y"] = np.exp(data.y)
    data.loc[3, "y"] = -5.0
    data.loc[7, "y"] = 1e9
    stated = spec(privacy=Privacy(level=1e10, range={"ldl": (0.01, 1000.0)}), transform="log")
    _, path = released(tmp_path, stated, data)
    values = read_release(path).values
    assert values[3] == pytest.approx(math.log(0.01), abs=0.01)
    assert values[7] == pytest.approx(math.log(1000.0), abs=0.01)


def test_what_a_range_does_is_said(tmp_path):
    """Many clipped readings: a sentence with the bias, which is that of the readings themselves."""
    data = table(people=2000, seed=3)
    for k, ends in enumerate([(-9, 9), (0.5, 9)]):
        (tmp_path / str(k)).mkdir()
        stated = spec(privacy=Privacy(level=50.0, range=ends))
        _, path = released(tmp_path / str(k), stated, data, real=False)
        found = estimate(path)
        if ends[0] < 0:
            assert found.remark is None
        else:
            assert "were clipped, by the fit: that moves 'intercept' by about" in found.remark


def test_the_mean_shift_of_clipping():
    """By sampling: 10⁶ draws, five standard errors."""
    rng = np.random.default_rng(2)
    y = 0.3 + np.sqrt(2.0) * rng.standard_normal(1_000_000)
    shift, beyond = clip_shift(np.array([0.3]), 2.0, Range(-1.0, 0.9))
    clipped = np.clip(y, -1.0, 0.9)
    assert shift[0] == pytest.approx(clipped.mean() - 0.3, abs=5 * clipped.std() / 1000)
    assert beyond[0] == pytest.approx((clipped != y).mean(), abs=5 * 0.5 / 1000)


# --- wrong uses: each gets a sentence that says what to do ----------------------------------------


def test_one_person_only():
    data = table().assign(id="me")
    with pytest.raises(InvalidInput, match=r"one person only\. .* leave --person out"):
        make_plan(spec(), data)


def test_every_person_has_one_row():
    data = table()
    with pytest.raises(InvalidInput, match=r"has one row\. Leave --person out"):
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
    """They are taken, each at a small level, and a cap is advised."""
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"id": np.r_[np.zeros(1500), np.arange(1, 500)].astype(int)})
    data["x"], data["y"] = rng.standard_normal((2, len(data)))
    plan = make_plan(spec(features=("x",)), data)
    assert "1,500" in plan.people.advice
    capped = make_plan(spec(5, features=("x",)), data).people
    assert (capped.advice, capped.cut) == (None, 1495)


def test_what_does_not_go_with_persons():
    for options, said in (
        ({"features": ("x", "id")}, "cannot be a feature too"),
        ({"privacy": Privacy(standard_error={"x": 0.1})}, "State a level"),
    ):
        with pytest.raises(InvalidInput, match=said):
            spec(**options)
    with pytest.raises(InvalidInput, match="2 targets of persons"):
        Spec(data="t.csv", target=("y", "u"), features=("x",), public=Public(),
             privacy=Privacy(level=1.0), person="id")  # fmt: skip


def test_other_data_than_planned(tmp_path):
    plan = make_plan(spec(), table(people=10))
    more = pd.concat([table(people=10)] * 3)
    with pytest.raises(InvalidInput, match="plan for these data"):
        workflow.release(plan, tmp_path / "z.csv", more)
    _, path = released(tmp_path, spec(), table(), real=False)
    with pytest.raises(InvalidInput, match="errors of persons"):
        estimate(path, errors="hc3")


def test_a_feature_of_one_person_has_no_interval(tmp_path):
    data = table()
    data["b"] = (data.id == "person 3").astype(float)
    _, path = released(tmp_path, spec(), data, real=False)
    found = estimate(path)
    assert np.isnan(found.interval()[2]).all()
    assert np.isfinite(found.interval()[:2]).all()
    assert found.remark.startswith("a single person decides b:")


def test_plan_errors_by_strata_are_dense():
    data = table(people=12)
    H = np.column_stack([np.ones(len(data)), data.x, data.b])
    same = data.id.to_numpy()[:, None] == data.id.to_numpy()
    counts = same.sum(axis=1)
    plan = make_plan(spec(), data)
    V = np.diag(UNIT * PeopleNoise(3.0).variances(counts) + 0.4) + 0.7 * same
    expected = np.sqrt(np.linalg.inv(H.T @ np.linalg.inv(V) @ H).diagonal())
    np.testing.assert_allclose(plan.people.errors(3.0, 0.4, 0.7), expected, rtol=1e-9)
    assert np.isnan(plan.classical_error).all()
    assert plan.to_dict()["people"]["persons"] == 12


def test_errors_are_documented_ones(tmp_path):
    with pytest.raises(PrivestError, match="under a plan"):
        workflow.release(
            workflow.Terms(spec=spec(), names=("intercept", "x", "b"),
                           columns=make_plan(spec(), table()).columns), tmp_path / "z.csv", table(),
        )  # fmt: skip


def test_infinite_readings_of_persons_leave_as_any_other(tmp_path):
    """Rows are counted with their readings where some are dropped, and none is refused."""
    data = table()
    data.loc[[0, 5], "y"] = np.inf, np.nan
    stated = spec(missing="drop", privacy=Privacy(level=4.0, range={"ldl": (-5.0, 5.0)}))
    _, path = released(tmp_path, stated, data)
    assert (read_release(path).rows, read_release(path).dropped) == (len(data) - 1, 1)


def test_a_plan_of_persons_does_not_read_the_readings():
    data = table()
    gaps = data.assign(y=data.y.where(data.x < 0))
    full, some = (make_plan(spec(missing="drop"), one) for one in (data, gaps))
    assert (some.rows, some.dropped) == (full.rows, 0)
    np.testing.assert_array_equal(some.privacy_error, full.privacy_error)
