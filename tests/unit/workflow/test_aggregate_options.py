"""Options of the aggregate form: a prediction to count from, cut weights, what may be published."""

import itertools
import json
import math
import runpy
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import privest as pv
from aggregate_cases import Forced, moved2
from privest.errors import InvalidInput
from privest.ledger import Ledger
from privest.workflow.release import simulate_release
from workflow_command import called
from workflow_tables import write

RNG = np.random.default_rng(290)
THETA, SD = np.array([5.0, 1.0, -0.5]), 0.5
ASKED = {"target": "y", "features": ["a", "b"], "range": (0.0, 11.0), "epsilon": 1.0}
KNOWN = {"residual_variance": SD**2}
EXPECTED = {"intercept": 4.8, "a": 1.1, "b": -0.4}
CENTRED = {
    "pilot": {"within": 2.0, "pilot": 0.2},
    "expected": {"within": 2.0, "expected": EXPECTED},
}


def table(rows=3000, rng=RNG):
    X = rng.standard_normal((rows, 2))
    y = THETA[0] + X @ THETA[1:] + SD * rng.standard_normal(rows)
    return {"a": X[:, 0], "b": X[:, 1], "y": y}


@pytest.mark.parametrize("how", CENTRED)
def test_a_prediction_makes_errors_smaller_and_they_are_attained(how):
    data = table()
    plan = pv.plan(data, **ASKED, **KNOWN, **CENTRED[how])
    without = pv.plan(data, **ASKED, **KNOWN)
    assert (plan.standard_error < 0.7 * without.standard_error).all()
    scores, runs = [], 120
    for k in range(runs):
        y = THETA[0] + THETA[1] * data["a"] + THETA[2] * data["b"]
        y = y + SD * np.random.default_rng(k).standard_normal(len(y))
        again = replace(plan, data=data | {"y": y})
        scores.append((pv.estimate(again.simulate(rng=k)).value - THETA) / plan.standard_error)
    squares = np.square(scores).sum(axis=0)  # χ² of 120 each, if unbiased and as planned
    low, high = scipy.stats.chi2.ppf([1e-5, 1 - 1e-5], runs)
    assert ((low < squares) & (squares < high)).all()


@pytest.mark.parametrize("how", CENTRED)
def test_all_that_leaves_keeps_the_stated_mu(how, tmp_path):
    """Pairs of tables that differ in one value, given what the earlier sums showed."""
    x = [-2.0, -1, -0.5, 0, 0, 0.3, 1, 1.5, 9]
    base = {"a": np.array(x), "b": np.array(x[::-1]) ** 2, "y": np.full(9, 5.0)}
    asked = ASKED | {"range": (0.0, 10.0), "epsilon": 3.0}
    plan = pv.plan(base, **asked, **KNOWN, **CENTRED[how])
    (own,), n = plan.splits, 3
    root = math.sqrt(own.pilot) if own.pilot else 0.0
    largest, stated = 0.0, cache(own.mu_apart)
    for centre, sums in itertools.product(([0.0, 0, 0], [5.0, 1, -1]), ([0.0, 0, 0], [9.0, -3, 1])):
        outputs = [] if not own.pilot else [root * plan.survey.sums.sums.cross @ np.array(centre)]
        outputs += [np.array(sums), np.zeros(n)]
        for i in (0, 4, 8):
            shown = {}
            for value in np.linspace(0, 10, 9):
                data = base | {"y": np.where(np.arange(9) == i, value, base["y"])}
                source = Forced(*outputs)
                simulate_release(plan, tmp_path / f"{largest}{how}{i}{value}.json", source, data)
                (tmp_path / f"{largest}{how}{i}{value}.json").unlink()
                shown[value] = source.scaled
            for one, other in itertools.combinations(shown, 2):
                moved = math.sqrt(moved2(shown[one], shown[other]))
                assert moved <= stated(abs(one - other)) <= plan.mu
                largest = max(largest, moved)
    assert largest > 0.8 * plan.mu  # it could fail


def test_a_pilot_is_verified_and_its_share_cannot_be_changed(tmp_path):
    plan = pv.plan(table(), **ASKED, **CENTRED["pilot"])
    with Ledger(tmp_path / "ledger.db", marks=tmp_path / "marks") as ledger:
        plan.release(tmp_path / "z.json", account=ledger.account("y"))
        assert pv.verify(tmp_path / "z.json", ledger=ledger).verified
    header = json.loads((tmp_path / "z.json").read_text())
    header["plan"]["privacy"]["pilot"] = 0.1
    (tmp_path / "z.json").write_text(json.dumps(header))
    with pytest.raises(InvalidInput, match="changed"):
        pv.estimate(tmp_path / "z.json")


def test_rows_for_an_accuracy():
    """Noise falls with the rows, sampling with their root: a table four times as long shows it."""
    data = table(500)
    plan = pv.plan(data, **ASKED, **KNOWN)
    long = pv.plan({name: np.tile(own, 4) for name, own in data.items()}, **ASKED, **KNOWN)
    assert long.splits[0].kind == plan.splits[0].kind
    for name, error in zip(plan.names, long.standard_error):
        assert abs(plan.rows_for(float(error), name) - 2000) <= 2


REFUSED = {
    "within alone": ({"within": 2.0}, "needs a prediction"),
    "pilot alone": ({"pilot": 0.2}, "A pilot needs"),
    "pilot of 1": ({"pilot": 1.0, "within": 2.0}, "< 1"),
    "both predictions": (CENTRED["pilot"] | {"expected": EXPECTED}, "not both"),
    "rows": (CENTRED["expected"] | {"form": "rows", "delta": 1e-6}, "need the aggregate form"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    more, said = REFUSED[name]
    with pytest.raises(InvalidInput, match=said):
        pv.plan(table(50), **ASKED | more)


def test_squares_show_the_residual_variance_and_r_squared():
    data = table(50_000)
    plan = pv.plan(data, **ASKED | KNOWN | {"epsilon": 8.0})
    errors = plan.errors(plan.column)
    # The noise of the squares, beside a_j·σ²; of the mean over coefficients it is no more.
    shown = errors.total**2 - errors.privacy**2
    noise = float((errors.relative * errors.total**2 / shown).max())
    assert noise < 0.1
    found = pv.estimate(plan.simulate(rng=1))
    H = np.column_stack([np.ones(50_000), data["a"], data["b"]])
    left = data["y"] - H @ np.linalg.lstsq(H, data["y"])[0]
    np.testing.assert_allclose(found.noise_found, left.var(), rtol=5 * noise)
    np.testing.assert_allclose(found.r_squared, 1 - left.var() / data["y"].var(), atol=5 * noise)


def test_tests_of_several_coefficients_need_the_matrix(tmp_path):
    data = table()
    plain, matrix = (
        pv.plan(data, **ASKED, publish=publish).simulate(rng=1)
        for publish in ("estimates", "matrix")
    )
    found = pv.estimate(matrix)
    own, V = found.value[1:], found.covariance[1:, 1:]
    statistic = own @ np.linalg.inv(V) @ own
    least = np.min(found.degrees_of_freedom[1:])
    p = scipy.stats.f.sf(statistic / 2, 2, least)
    np.testing.assert_allclose(found.wald_test(["a", "b"]).p_value, p, rtol=1e-9)
    apart = found.contrast({"a": 1.0, "b": -1.0})
    np.testing.assert_allclose(apart.value, [own[0] - own[1]])
    np.testing.assert_allclose(apart.covariance, [[V[0, 0] + V[1, 1] - 2 * V[0, 1]]])
    one = found.contrast({"a": 1.0})
    np.testing.assert_allclose(one.p_values()[0], found.p_values()[1])
    np.testing.assert_allclose(found.wald_test(["a"]).p_value, found.p_values()[1], rtol=1e-9)
    with pytest.raises(InvalidInput, match="needs the matrix"):
        pv.estimate(plain).wald_test(["a", "b"])
    with pytest.raises(InvalidInput, match="no coefficient 'c'"):
        found.wald_test(["c"])


def test_the_wald_test_of_the_command_line(tmp_path):
    path = write(table(), tmp_path / "t.csv")
    asked = ("--target", "y", "--features", "a,b", "--range", "0,11", "--epsilon", 1)
    called("plan", path, *asked, "--save", tmp_path / "p.toml")
    made = ("--simulate", "--seed", 1, "--publish", "matrix", "--output", tmp_path / "z.json")
    called("release", tmp_path / "p.toml", *made)
    done = called("estimate", tmp_path / "z.json", "--wald", "a,b")
    assert "Wald test of a and b against 0: F(2, " in done.stdout, done.stderr
    told = json.loads(called("estimate", tmp_path / "z.json", "--wald", "a,b", "--json").stdout)
    tested = pv.estimate(tmp_path / "z.json").wald_test(["a", "b"])
    assert told["wald"] == tested.to_dict()


def test_a_matrix_of_small_groups_is_stated():
    data = table(200) | {"kind": np.where(np.arange(200) < 4, "rare", "usual")}
    lists = {"categories": {"kind": ["usual", "rare"]}, "features": ["a", "kind"]}
    with pytest.raises(InvalidInput, match='state "matrix of small groups"'):
        pv.plan(data, **ASKED | lists, publish="matrix").simulate(rng=1)
    made = pv.plan(data, **ASKED | lists, publish="matrix of small groups").simulate(rng=1)
    assert set(made.sums[0].matrix) >= {"sums", "cross", "gram"}


def test_the_picture_of_exposure_by_form(tmp_path):
    where = Path(__file__).parents[3] / "examples" / "exposure_by_form.py"
    example = runpy.run_path(str(where))
    rows, basis, lewis = example["main"](tmp_path / "e.png").values()
    # σ² + v/s = 1.5²·σ², v = (1 + 2⁻¹⁰)² for whole steps of the noise.
    np.testing.assert_allclose(rows, (1 + 2**-10) ** 2 / (0.2 * (1.5**2 - 1)), rtol=1e-5)
    assert lewis < basis < rows
    assert (tmp_path / "e.png").exists()
