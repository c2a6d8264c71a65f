"""The six programs of the public API, each on small data."""

from dataclasses import dataclass

import numpy as np
import pytest

import privest as pv

RNG = np.random.default_rng(3)
H = np.column_stack([np.ones(40), RNG.uniform(0, 1, (40, 2))])


def test_bound():
    b = pv.bound(pv.LinearModel(H, noise=0.04, names=("level", "age", "dose")), 1.0)
    assert "age" in b.summary()
    one = b.contrast({"age": 1, "dose": -1})
    a = np.array([0.0, 1.0, -1.0])
    assert float(np.squeeze(one.standard_error)) ** 2 == pytest.approx(a @ b.covariance @ a)


def test_stream():
    rng = np.random.default_rng(0)
    level = pv.StreamLevel.constant(4.0, lags=[0.5])
    owner, rls = pv.StreamMechanism(level), pv.PrivateRLS(level, parameters=3, noise=0.25)
    model = pv.LinearModel(H, noise=0.25)
    for h, y in zip(H, model.sample([1.0, -1.0, 0.5], rng)):
        rls.update(owner.simulate(y, rng), h)
    floor = pv.bound(model, level)[-1].standard_error
    assert np.allclose(rls.estimate.standard_error / floor, 1.0)


@dataclass(frozen=True)
class Sech(pv.mechanism.Channel):
    """z = u + b·x, x of density sech(x)/π: Fisher information 1/2b²."""

    b: float

    def sample(self, u, rng):
        return u + self.b * np.log(np.tan(np.pi / 2 * rng.random(np.shape(u))))

    def log_density(self, z, u):
        x = (np.asarray(z) - u) / self.b
        return np.log(2 / (np.pi * self.b)) - np.logaddexp(x, -x)

    @property
    def worst(self):
        return 0.5 / self.b**2

    @classmethod
    def calibrated(cls, level):
        return cls((0.5 / level) ** 0.5)


@pytest.mark.processes
def test_own_mechanism(tmp_path):
    rng = np.random.default_rng(1)
    model = pv.LinearModel(H[:10, :2], noise=0.25)
    mine = pv.mechanism.calibrate(Sech, 1.0, model=model)
    assert pv.audit.certify(mine, 1.0, rng=1).verdict == "holds on the examined domain"
    y = model.sample([1.0, -1.0], rng)
    found = pv.estimate(mine.simulate(y, rng), model, mechanism=mine)
    assert np.isfinite(found.interval()).all()
    pytest.importorskip("matplotlib")
    from privest.paper import fig1

    figure = fig1([1, 4], methods=["gaussian", Sech], trials=40, rng=0)
    figure.save(tmp_path / "mine.png")
    assert (tmp_path / "mine.png").stat().st_size > 10_000
    assert len(figure.to_frame()) == 4


def test_laplace_errors():
    rng = np.random.default_rng(2)
    model = pv.LinearModel(np.tile(H, (10, 1)), noise=pv.noise.Laplace(0.5))
    m = pv.mechanism.OutputPerturbation(model, 1000.0, score="optimal")
    y = model.sample([1.0, -1.0, 0.5], rng)
    found = pv.estimate(m.simulate(y, rng))
    assert found.interval().shape == (3, 2)
    floor = pv.bounds.trace_bound(model, budget=1000.0)
    assert floor.total <= np.trace(found.covariance) * (1 + 1e-12)


def test_kalman_and_identification():
    rng = np.random.default_rng(4)
    system = pv.dynamics.StateSpace(A=0.9, C=1.0, Q=0.2, R=0.1, cov0=1.0)
    y = np.ravel(system.sample(120, rng)[1])
    release = pv.StreamMechanism(4.0).simulate(y, rng)
    states = pv.dynamics.filter(system, release)
    assert states.smoothed.interval().shape[-1] == 2
    assert pv.dynamics.fit("ar1", release).forecast(24).interval().shape[-1] == 2


def test_data_owner(tmp_path):
    table = tmp_path / "ldl.csv"
    rng = np.random.default_rng(5)
    rows = [
        f"{age:.1f},{sex},{2 + 0.02 * age + 0.3 * rng.standard_normal():.3f}"
        for age, sex in zip(rng.uniform(20, 80, 800), rng.choice(["f", "m"], 800))
    ]
    table.write_text("age,sex,ldl\n" + "\n".join(rows) + "\n")
    plan = pv.plan(
        table, "ldl ~ age + C(sex)", epsilon=1, delta=1e-6, range=(0, 10), form="aggregate",
        categories={"sex": ["f", "m"]},
    )  # fmt: skip
    assert "age" in pv.estimate(plan.simulate(rng=1)).summary()
    ledger, out = tmp_path / "ledger.db", tmp_path / "ldl.json"
    plan.release(out, account=pv.Ledger(ledger).account("ldl"))
    assert pv.verify(out, ledger=ledger)
    assert "age" in pv.estimate(out).summary()
