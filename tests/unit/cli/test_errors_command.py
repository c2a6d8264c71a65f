"""`privest plan` and `estimate` where nobody states a noise variance, and `--errors`."""

import json
from dataclasses import replace

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.vault import RoundedNormal
from privest.workflow import read_release
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.release import simulate_release
from privest.workflow.spec import Privacy, Public
from workflow_command import runner
from workflow_tables import matrix, people, spec, write


@pytest.fixture
def privest(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


def test_from_plan_to_estimate_without_a_noise_variance(privest, tmp_path):
    data = write(people(), tmp_path / "people.csv")
    options = (
        "--target", "ldl", "--features", "age,bmi,sex", "--category", "sex=female,male",
        "--level", 2,
    )  # fmt: skip
    plan = tmp_path / "plan.toml"
    done = privest("plan", data, "--form", "rows", *options, "--save", plan)
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    assert "privacy alone" in text
    assert "is not stated; the release will show it" in text
    assert "residual_variance" not in plan.read_text()
    assert privest("release", plan, "-o", tmp_path / "z.csv", "--simulate", "--seed", 1).code == 0
    assert (
        json.loads((tmp_path / "z.csv.json").read_text())["columns"][0]["residual_variance"] is None
    )
    said = {"auto": "HC3", "t": "Student's t from the release", "HC2": "HC2"}
    for errors, method in said.items():
        done = privest("estimate", tmp_path / "z.csv", "--errors", errors)
        freedom = "196 degrees of freedom." if errors == "t" else ""
        assert f"Standard errors: {method}, {freedom}" in " ".join(done.out.split())
        assert "Residual variance from the release: 0." in done.out
    record = json.loads(privest("estimate", tmp_path / "z.csv", "--json").out)
    assert record["method"] == "HC3"
    low, high = record["noise_interval"]
    assert low < record["noise_found"] < high
    done = privest("estimate", tmp_path / "z.csv", "--errors", "bootstrap")
    assert done.code == 2
    assert "errors must be one of auto, t, HC3, HC2" in done.err
    done = privest("plan", plan, "--want", "age=0.1")
    assert done.code == 2
    assert "need the residual variance" in done.err


def test_a_release_with_less_noise_than_its_header_says(tmp_path):
    """Readings that lie on a plane, noise of level 100, a header that says level 1."""
    table = people(60)
    table["ldl"] = matrix(table) @ [1.0, 0.02, -0.05, 0.4]
    path = tmp_path / "z.csv"
    plan = make_plan(spec(public=Public(), privacy=Privacy(100.0)), table)
    simulate_release(plan, path, np.random.default_rng(5), table)
    honest = estimate(path)
    assert honest.less_noise is None
    assert honest.noise_found < 0.01
    release = read_release(path)
    law = RoundedNormal((10 * release.drawn.law.sigma[0],))
    drawn = replace(release.drawn, law=law)
    forged = replace(release, columns=(replace(release.column, level=1.0),), drawn=drawn)
    found = estimate(forged)
    assert found.less_noise_p < 1e-3
    assert found.less_noise
    assert found.noise_interval is None
    # The interval is that of the noise which the header says.
    half = np.diff(found.interval())[:, 0] / 2
    np.testing.assert_allclose(half, 1.959964 * found.floor, rtol=1e-6)


def test_a_category_with_one_row_has_no_sandwich(tmp_path):
    """One man among 60: HC3 does not exist, t does, and who asks for HC3 is told why."""
    table = people(60)
    table["sex"] = np.where(np.arange(60) == 7, "male", "female")
    path = tmp_path / "z.csv"
    simulate_release(make_plan(spec(public=Public()), table), path, np.random.default_rng(0), table)
    assert estimate(path).method == "Student's t from the release"
    with pytest.raises(InvalidInput, match="one row alone determines a coefficient"):
        estimate(path, cov_type="HC3")


def test_a_category_with_two_rows_says_how_little_it_knows(privest, tmp_path):
    """Two men among 100: about one degree of freedom, not 96; the age keeps its many."""
    table = people(100)
    table["sex"] = np.where(np.arange(100) % 50 == 7, "male", "female")
    path = tmp_path / "z.csv"
    simulate_release(make_plan(spec(public=Public()), table), path, np.random.default_rng(0), table)
    found = estimate(path)
    assert found.method == "HC3"
    freedom = dict(zip(found.names, found.degrees_of_freedom))
    few = min(freedom, key=freedom.get)
    assert "male" in few
    assert freedom[few] < 2 < 20 < freedom["age"]
    assert "Standard errors: HC3, 1." in privest("estimate", path).out


def test_survey_weights_speak_of_no_noise_of_clipped_values(privest, tmp_path):
    """σ² of values that a range clipped is not shown."""
    table = people(200) | {"w": np.random.default_rng(1).uniform(1, 5, 200).round(3)}
    kept = {}
    for name, ends in (
        ("wide", (-1000.0, 1000.0)),
        ("narrow", tuple(np.quantile(table["ldl"], [0.3, 0.7]))),
    ):
        path = tmp_path / f"{name}.csv"
        wanted = spec(public=Public(), weights="w", privacy=Privacy(level=4.0, range={"ldl": ends}))
        simulate_release(make_plan(wanted, table), path, np.random.default_rng(0), table)
        kept[name] = estimate(path)
        said = " ".join(privest("estimate", path).out.split())
        assert ("Residual variance from the release" in said) == (name == "wide")
    assert kept["narrow"].clipping_bias > 0.05 > kept["wide"].clipping_bias
    assert kept["narrow"].noise_found is None
    assert kept["wide"].noise_found is not None
