"""Yes or no, counts and pure distributions: plans, tables, headers, ledger, estimates, refusals."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.special

from charged import charged
from flipped_bits import FlippedBits
from privest.errors import BudgetExceeded, InvalidInput, NotIdentifiable
from privest.estimator.inference import WeightedRows, fit_family
from privest.ledger import Ledger
from privest.workflow import read_release
from privest.workflow.account import Account
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import release, simulate_release, simulation_source
from privest.workflow.rows_planner import LAPLACE_VARIANCE
from privest.workflow.spec import Privacy, Public
from privest.workflow.verify import verify
from workflow_tables import stated

RNG = np.random.default_rng(4)
K = 600
AGE, DOSE = RNG.uniform(20, 80, K).round(1), RNG.integers(0, 2, K)
TABLE = {
    "age": AGE,
    "dose": DOSE,
    "ill": (RNG.random(K) < scipy.special.expit(-2 + 0.04 * AGE - 0.4 * DOSE)).astype(int),
    "visits": RNG.poisson(np.exp(0.5 + 0.01 * AGE - 0.3 * DOSE)),
    "ldl": (2 + 0.02 * AGE - 0.5 * DOSE + 0.5 * RNG.normal(size=K)).round(3),
    "w": RNG.integers(1, 4, K),
}
H = np.column_stack([np.ones(K), AGE, DOSE])


def spec(target="ill", **changes):
    fields = {"target": target, "features": ("age", "dose"), "family": "binomial"}
    return stated("d.csv", **fields | {"privacy": Privacy(epsilon=2.0)} | changes)


PURE = {"distribution": "laplace"}
LAWS = {
    "coin": spec(),
    "laplace": spec(
        "ldl", family="gaussian", privacy=Privacy(epsilon=2.0, range={"ldl": (0.0, 8.0)}, **PURE)
    ),
    "laplace, sensitivity": spec(
        "ldl", family="gaussian", privacy=Privacy(epsilon=2.0, sensitivity=3.0, **PURE)
    ),
    "counts": spec("visits", family="poisson", privacy=Privacy(level=1.0)),
    "counts, pure": spec(
        "visits", family="poisson", privacy=Privacy(epsilon=2.0, range={"visits": (0, 12)}, **PURE)
    ),
    "weighted": spec(weights="w"),
}
DATA = TABLE


def made(name, path, rng=None, data=None, **how):
    terms = stated_plan(LAWS[name])
    if rng is not None:
        return simulate_release(terms, path, rng, DATA if data is None else data)
    make = release if "account" in how else charged
    return make(terms, path, DATA if data is None else data, **how)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("real", [True, False], ids=["real", "trial"])
def test_from_the_plan_to_the_estimate(name, real, tmp_path):
    path = tmp_path / "z.csv"
    header = made(name, path, None if real else np.random.default_rng(3))
    assert read_release(path).to_dict() == header.to_dict()
    assert verify(path, allow_simulated=True).simulated is not real
    column = header.column
    raw = pd.read_csv(path)["z"]
    limits = header.limits(column)
    if header.distribution.name == "randomised response":
        assert set(raw) == {0, 1}
        unit = header.to_dict()["columns"][0]["unit"]
        # The logarithm of the odds is rounded up by 1e-9, for which the planner leaves twice that.
        assert unit == pytest.approx(limits.width / math.tanh(header.epsilon / 2), rel=1e-8)
    assert (raw == raw.astype(int)).all()
    # the debiased readings are the readings and noise of the stated variance: 5 deviations
    own = np.asarray(DATA[column.target], dtype=float)
    noise = header.values - own
    spread = header.distribution.variance(column.level, limits)
    assert abs(noise.mean()) < 5 * math.sqrt(spread / K)
    assert np.mean(noise**2) == pytest.approx(spread, rel=5 * math.sqrt(5 / K))
    found = estimate(path)
    assert found.names == ("intercept", "age", "dose")
    assert (found.standard_error > 0).all()
    assert found.less_noise is None
    json.dumps(found.to_dict())


def test_an_estimate_is_the_fit_of_the_debiased_bits(tmp_path):
    made("coin", tmp_path / "z.csv", np.random.default_rng(5))
    bits = pd.read_csv(tmp_path / "z.csv")["z"].to_numpy(float)
    coin = FlippedBits(2.0)
    direct = fit_family(
        lambda: [WeightedRows(H, coin.unit * bits + coin.zero)], "binomial", 1 / coin.level
    )
    found = estimate(tmp_path / "z.csv")
    assert np.allclose(found.value, direct.value, rtol=1e-7)
    assert np.allclose(found.covariance, direct.errors.covariance, rtol=1e-7)
    robust = estimate(tmp_path / "z.csv", cov_type="HC3")
    assert robust.method == "HC3"
    with pytest.raises(InvalidInput, match=r"model.*HC3"):
        estimate(tmp_path / "z.csv", cov_type="reml")


def test_no_value_is_refused_and_text_is_malformed(tmp_path):
    odd = np.array([0.3, 0.5, -7.0, 1e308, np.inf, -np.inf] * 100)
    for name in ("coin", "laplace"):
        target = LAWS[name].targets[0]
        made(name, tmp_path / f"{name}.csv", data=DATA | {target: odd})
        assert len(pd.read_csv(tmp_path / f"{name}.csv")) == K
    text = np.array(["0"] * (K - 1) + ["no"], dtype=object)
    with pytest.raises(InvalidInput, match="ill"):
        made("coin", tmp_path / "text.csv", data=DATA | {"ill": text})
    assert not (tmp_path / "text.csv").exists()


def test_the_ledger_counts_pure_epsilon_and_holds_the_table(tmp_path):
    with Account(tmp_path / "ledger.db", "ill") as account:
        header = made("coin", tmp_path / "z.csv", account=account)
        cost = account.ledger.history("ill")[-1].cost
        assert float(cost.epsilon) == header.epsilon <= 2.0
        assert float(account.ledger.account("ill").budget.epsilon) == header.epsilon
        assert account.ledger.account("ill").budget.delta == 0
    verified = verify(tmp_path / "z.csv", tmp_path / "ledger.db")
    assert verified.signed
    assert any("bits" in line for line in verified.examined)
    with (
        Account(tmp_path / "ledger.db", "ill") as account,
        pytest.raises(BudgetExceeded, match="was released"),
    ):
        made("coin", tmp_path / "again.csv", account=account)
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert not ledger.account("ill").remaining.level


def test_a_changed_bit_is_noticed(tmp_path):
    path = tmp_path / "z.csv"
    made("coin", path)
    header = json.loads((tmp_path / "z.csv.json").read_text())
    text = path.read_text()
    path.write_text(text[:-2] + "2\n")
    with pytest.raises(InvalidInput, match="changed"):
        estimate(path)
    path.write_text(text)
    header["plan"]["privacy"]["distribution"] = "gaussian"
    (tmp_path / "z.csv.json").write_text(json.dumps(header))
    with pytest.raises(InvalidInput):
        estimate(path)


def test_a_seed_repeats_the_very_same_bits(tmp_path):
    terms = stated_plan(LAWS["coin"])
    files = []
    for k in range(2):
        simulate_release(terms, tmp_path / f"{k}.csv", simulation_source(terms, 7), DATA)
        files.append((tmp_path / f"{k}.csv").read_bytes())
    assert files[0] == files[1]


# --- plans ------------------------------------------------------------------------------------


def expecting(name, **expected):
    return replace(LAWS[name], public=Public(expected=expected))


def test_a_plan_of_coins_knows_its_errors(tmp_path):
    """At one p for all the errors of the plan are those of the information there, and about
    those that releases attain."""
    p = 0.4
    plan = make_plan(expecting("coin", ill=p), DATA)
    coin = FlippedBits(2.0)
    pi, d = float(coin.coin.chance(0.0)) + (1 - 2 * float(coin.coin.wrong)) * p, p * (1 - p)
    fisher = H.T @ H * ((1 - 2 * float(coin.coin.wrong)) * d) ** 2 / (pi * (1 - pi))
    assert np.allclose(plan.standard_error, np.sqrt(np.diag(np.linalg.inv(fisher))), rtol=1e-9)
    assert np.allclose(plan.classical_error, np.sqrt(np.diag(np.linalg.inv(H.T @ H * d))))
    assert plan.epsilon == pytest.approx(2.0, rel=1e-14)
    assert np.allclose(plan.errors(plan.column, plan.level).total, plan.standard_error)
    assert list(make_plan(LAWS["coin"], DATA).scenarios) == ["50% yes", "10% yes", "2% yes"]
    json.dumps(plan.to_dict())
    with pytest.raises(InvalidInput, match="no mean of this outcome"):
        make_plan(expecting("coin", ill=2.0), DATA)
    with pytest.raises(InvalidInput, match="the mean of 'ill'"):
        make_plan(expecting("coin", age=2.0), DATA)


@pytest.mark.parametrize("name", ["laplace", "counts"])
def test_plans_of_other_laws_say_what_releases_attain(name, tmp_path):
    """The standard errors of a release, within 15 % of those of the plan at the true mean."""
    target = LAWS[name].targets[0]
    known = Public(expected={target: float(np.mean(DATA[target]))})
    if name == "laplace":
        known = Public(0.25)
    plan = make_plan(replace(LAWS[name], public=known), DATA)
    made(name, tmp_path / "z.csv", np.random.default_rng(5))
    found = estimate(tmp_path / "z.csv")
    assert np.allclose(found.standard_error, plan.standard_error, rtol=0.15)


NUMBERS = {"family": "gaussian", "target": "ldl"}
ENDS = {"ldl": (0, 9)}
WRONG = {
    "leave delta out": {"privacy": Privacy(epsilon=1, delta=1e-6, range={"ill": (0, 1)})},
    "leave the sensitivity out": {"privacy": Privacy(epsilon=1, sensitivity=1)},
    "ε needs a range": NUMBERS | {"privacy": Privacy(epsilon=1, **PURE)},
    "with Gaussian noise a delta": NUMBERS | {"privacy": Privacy(epsilon=1, range=ENDS)},
    "take epsilon or a level": {"privacy": Privacy(standard_error={"age": 0.1})},
    "leave the transform out": {
        "transform": "log", "privacy": Privacy(epsilon=1),
    },
    "leave the residual variance": {"public": Public(0.2)},
    "takes randomised response": {"privacy": Privacy(epsilon=1, **PURE)},
    "Gaussian or Laplace noise": NUMBERS
    | {"privacy": Privacy(epsilon=1, range=ENDS, distribution="randomised response")},
    "need the aggregate form": NUMBERS | {"person": "w", "privacy": Privacy(1.0)},
    "one row per person": {"target": ("ill", "visits")},
    "A level column needs": {
        "target": "visits", "family": "poisson", "privacy": Privacy(level_column="w"),
    },
}  # fmt: skip


@pytest.mark.parametrize("said", WRONG)
def test_what_does_not_go_together_says_what_to_do(said):
    with pytest.raises(InvalidInput) as refused:
        spec(**WRONG[said])
    assert said in str(refused.value)


def test_a_bit_that_shows_nothing_is_refused_before_anything_is_drawn(tmp_path):
    weak = spec(privacy=Privacy(epsilon=1e-21))
    with pytest.raises(InvalidInput, match="nothing"):
        charged(stated_plan(weak), tmp_path / "z.csv", DATA)
    assert not list(tmp_path.iterdir())


def test_no_finite_fit_is_a_sentence_of_the_estimate(tmp_path):
    """Coins of ε = 0.1 and 600 rows: some draw has no fit, and says so."""
    weak = stated_plan(spec(privacy=Privacy(epsilon=0.1)))
    said = None
    for k in range(30):
        simulate_release(weak, tmp_path / f"{k}.csv", np.random.default_rng(k), DATA)
        try:
            estimate(tmp_path / f"{k}.csv")
        except NotIdentifiable as error:
            said = str(error)
            break
    assert said is not None
    assert "no finite fit" in said


def test_a_plan_of_laplace_noise_counts_its_whole_steps():
    plan = make_plan(LAWS["laplace"], TABLE)
    assert np.isnan(plan.standard_error).all()
    added = LAPLACE_VARIANCE / plan.level
    known = np.sqrt(added * np.diagonal(np.linalg.inv(H.T @ H)))
    np.testing.assert_allclose(plan.privacy_error, known, rtol=1e-9)
