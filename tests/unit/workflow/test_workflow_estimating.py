"""Estimates from a release alone: intervals, few rows, no way to y."""

import dataclasses
import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from privest.errors import InvalidInput
from privest.workflow import document
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import simulate_release
from privest.workflow.spec import Privacy, Public
from workflow_tables import people, spec, write


def estimated(folder, table, seed=0, errors="auto", **changes):
    plan = make_plan(spec(**changes), table)
    path = folder / f"z{len(list(folder.iterdir()))}.csv"
    # Not the generator of the table: its noise would be that of a column.
    simulate_release(plan, path, np.random.default_rng([7, seed]), table)
    return estimate(path, cov_type=errors)


def test_intervals(tmp_path):
    found = estimated(tmp_path, people())
    for confidence in (0.5, 0.95, 0.999):
        freedom = found.degrees_of_freedom
        half = scipy.stats.t.ppf((1 + confidence) / 2, freedom) * found.standard_error
        low, high = found.interval(confidence).T
        np.testing.assert_allclose(low, found.value - half, rtol=1e-12)
        np.testing.assert_allclose(high, found.value + half, rtol=1e-12)
    for confidence in (0, 1, 95, -0.5, float("nan")):
        with pytest.raises(InvalidInput, match="confidence"):
            found.interval(confidence)
    record = json.loads(json.dumps(found.to_dict(0.9)))
    assert record["interval"] == found.interval(0.9).tolist()


@pytest.mark.parametrize("rows", [8, 40])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_no_error_is_below_that_of_the_release_noise(rows, law):
    """12 was printed where privacy alone adds 13.85; standard error, covariance, interval, P."""
    x, rng, below = np.random.default_rng(1).normal(size=rows), np.random.default_rng(2), 0
    private = Privacy(level=0.01) if law == "gaussian" else Privacy(
        epsilon=9.0, range={"y": (-1e3, 1e3)}, distribution="laplace"
    )  # fmt: skip
    terms = stated_plan(
        spec(features=("x",), categories={}, target="y", public=Public(), privacy=private)
    )
    H = np.column_stack([np.ones(rows), x])
    for _ in range(20):
        release = replace(terms, data={"x": x, "y": x + rng.normal(size=rows)}).simulate(rng=rng)
        found = estimate(release)
        added = 100.0 if law == "gaussian" else 2 / release.column.level
        least = np.sqrt(added * np.diagonal(np.linalg.inv(H.T @ H)))
        assert (found.standard_error >= least * (1 - 1e-12)).all()
        np.testing.assert_allclose(found.standard_error**2, np.diagonal(found.covariance))
        half = np.diff(found.interval()).ravel() / 2
        assert (half >= 1.9599 * found.standard_error).all()
        at = found.value / found.standard_error
        np.testing.assert_allclose(
            found.p_values(), 2 * scipy.stats.t.sf(np.abs(at), found.degrees_of_freedom)
        )
        below += bool((found.standard_error < 1.001 * least).any())
    assert below  # the floor was at work


def test_the_table_is_enough(tmp_path):
    """Without the data and the plan: a release is a table and a header."""
    data = write(people(), tmp_path / "people.csv")
    plan = make_plan(spec(data))
    simulate_release(plan, tmp_path / "z.parquet", np.random.default_rng(0))
    before = estimate(tmp_path / "z.parquet").value
    data.unlink()
    (tmp_path / "elsewhere").mkdir()
    for name in ("z.parquet", "z.parquet.json"):
        (tmp_path / name).rename(tmp_path / "elsewhere" / name)
    found = estimate(tmp_path / "elsewhere" / "z.parquet")
    np.testing.assert_array_equal(found.value, before)


def test_nothing_in_an_estimate_holds_a_reading(tmp_path):
    table = people()
    found = estimated(tmp_path, table)
    arrays = [found.value, found.covariance]
    names = {field.name for field in dataclasses.fields(found)}
    assert names == {
        "value", "covariance", "sampling", "classical", "bound", "names", "simulated",
        "log_likelihood", "converged",
        "degrees_of_freedom", "floor", "method", "rows", "dropped",
        "release", "clipped", "noise_found", "noise_freedom", "noise_interval", "less_noise_p",
        "note", "clipping_bias", "cautions", "parts",
        "r_squared",
    }  # fmt: skip
    shown = set(np.concatenate([np.ravel(a) for a in arrays]).tolist())
    assert not shown & set(table["ldl"].tolist())


def test_as_many_rows_as_coefficients(tmp_path):
    """Nothing is left to see the noise by, whatever is stated."""
    table = {name: column[:4] for name, column in people(seed=3).items()}
    table["sex"] = np.array(["female", "male", "male", "female"])
    for errors in ("auto", "t", "HC3"):
        for public in (Public(), Public(0.3)):
            with pytest.raises(InvalidInput, match="as many coefficients as rows"):
                estimated(tmp_path, table, errors=errors, public=public)


def test_a_mean(tmp_path):
    table = people()
    found = estimated(tmp_path, table, features=(), categories={})
    assert found.value[0] == pytest.approx(found.release.values.mean(), rel=1e-12)


def test_without_an_intercept(tmp_path):
    table = people()
    one = estimated(tmp_path, table)
    bare = estimated(tmp_path, table, intercept=False)
    assert bare.release.names == ("age", "bmi", "sex=female", "sex=male")
    # The same space in another basis, the same noise: female = intercept, male = sum.
    np.testing.assert_allclose(bare.value[:3], one.value[[1, 2, 0]], rtol=1e-9)
    assert bare.value[3] == pytest.approx(one.value[0] + one.value[3], rel=1e-9)


def test_blocks_do_not_show(tmp_path):
    """70 000 rows come in several blocks: the estimate knows nothing of them."""
    table = people(70_000)
    found = estimated(tmp_path, table, features=("age", "bmi"), categories={})
    z = found.release.values
    H = np.column_stack([np.ones(70_000), table["age"], table["bmi"]])
    np.testing.assert_allclose(found.value, np.linalg.lstsq(H, z)[0], rtol=1e-10)


def counted_passes(monkeypatch):
    """How often a table is gone through: a list that grows."""
    passes, real = [], document.read_rows

    def reading(*given, **named):
        passes.append(1)
        return real(*given, **named)

    monkeypatch.setattr(document, "read_rows", reading)
    return passes


def test_a_small_release_is_read_once_and_not_held_after(tmp_path, monkeypatch):
    first = estimated(tmp_path, people(), errors="HC3")
    path = tmp_path / "z0.csv"
    passes = counted_passes(monkeypatch)
    found = estimate(path, cov_type="HC3")
    assert len(passes) == 1
    assert found.release.memory is None
    np.testing.assert_allclose(found.covariance, first.covariance, rtol=1e-9)
    monkeypatch.setattr(document, "HELD", 0)
    again = estimate(path, cov_type="HC3")
    assert len(passes) > 2
    np.testing.assert_array_equal(again.covariance, found.covariance)


def test_students_t_says_that_it_assumes_one_variance(tmp_path):
    """Under a variance that grows with x it covers .75 to .83 where HC3 covers .96 and more."""
    few = people(12)
    assert "one residual variance" in " ".join(estimated(tmp_path, few).warnings)
    assert not estimated(tmp_path, few, errors="HC3").warnings
    assert not estimated(tmp_path, people()).warnings
