"""10⁵ steps of difficult systems: covariances stay symmetric and positive, nothing is NaN."""

import numpy as np
import pytest

import privest as pv
from dynamic_systems import random_system
from privest import dynamics
from privest.dynamics import _machine as machine
from privest.dynamics import _recursions as recursions
from privest.dynamics import _sweep as sweep

STEPS = 10**5


def unstable():
    A = np.array([[1.2, 0.3], [0.0, 1.05]])
    return dynamics.StateSpace(A, [[1.0, 0.5]], 0.01, 0.3, cov0=1.0)


def unstable_without_noise():
    """The unstable mode is driven by nothing: its backward information would overflow."""
    return dynamics.StateSpace(
        np.diag([1.2, 0.9]), [[1.0, 1.0]], np.diag([0.0, 0.1]), 0.3, cov0=1.0
    )


def nearly_singular():
    Q = np.diag([1e-14, 1.0, 1e-6])
    A = np.array([[0.99, 0.1, 0.0], [0.0, 0.5, 1e-3], [0.0, 0.0, 0.999]])
    return dynamics.StateSpace(A, [[1.0, 0.0, 0.0]], Q, 1e-8, cov0=np.diag([1e8, 1e-12, 1.0]))


def long_memory():
    """A walk that moves by 1e-5 a step: its limit is reached after some 10⁵ steps."""
    A = np.array([[1.0, 1e-4], [0.0, 1.0]])
    return dynamics.StateSpace(A, [[1.0, 0.0]], np.diag([1e-10, 1e-12]), 1.0, cov0=100.0)


@pytest.mark.parametrize("make", [unstable, unstable_without_noise, nearly_singular, long_memory])
def test_hard_systems(make):
    check(make())


def check(system):
    found = dynamics.bound(system, 1.0, STEPS)
    for P in (found.predicted, found.filtered, found.smoothed):
        assert np.isfinite(P).all()
        assert np.array_equal(P, P.swapaxes(-1, -2))
        unit = np.sqrt(np.diagonal(P, axis1=1, axis2=2))
        unit = np.where(unit > 0, unit, 1.0)
        distinct = np.unique((P / unit[:, :, None] / unit[:, None, :]).reshape(STEPS, -1), axis=0)
        n = P.shape[-1]
        values = np.linalg.eigvalsh(distinct.reshape(-1, n, n))
        assert values.min() > -10 * n * np.finfo(float).eps  # rounding of a correlation matrix
    # Smoothing helps: P_filtered − P_smoothed ≥ 0 in units of P_filtered.
    gain = np.diagonal(found.filtered - found.smoothed, axis1=1, axis2=2)
    assert (gain >= -1e-12 * np.diagonal(found.filtered, axis1=1, axis2=2)).all()


def test_estimates_of_an_unstable_system_stay_near_the_truth():
    """The errors stay of the size of the bound while |x|·eps, the rounding of x, is far below."""
    system = unstable()
    rng = np.random.default_rng(5)
    steps = 120  # |x| about 1e9
    x, y = system.simulate(steps, rng)
    level = pv.EndlessLevel(1.0)
    release = pv.StreamMechanism(level).simulate(y, rng)
    found = dynamics.filter(system, release, level=level)
    error = (found.estimate - x) / found.standard_error
    assert np.abs(error).max() < 5.5  # 240 normal errors: exceeded with probability 1e-5
    assert np.isfinite(found.innovations).all()
    smoothed = dynamics.smooth(found)
    assert np.abs((smoothed.estimate - x) / smoothed.standard_error).max() < 5.5


def slow_system(rng, steps):
    """Remembers for some 1000 steps, so that a piece depends on all pieces before it."""
    turn = np.linalg.qr(rng.standard_normal((3, 3))).Q
    A = 0.9995 * turn @ np.diag([1.0, 0.999, 0.99]) @ turn.T
    gaps = rng.uniform(0.5, 1.5, (steps, 1, 1))
    C = rng.standard_normal((steps, 2, 3))
    return dynamics.StateSpace(np.broadcast_to(A, (steps, 3, 3)), C, 1e-6 * gaps * np.eye(3), 1.0,
                               cov0=10.0)  # fmt: skip


@pytest.mark.parametrize("kind", ["stable", "unstable", "singular", "slow"])
def test_pieces_side_by_side_equal_steps_one_by_one(kind, monkeypatch):
    """Steps that do not repeat: the same to 1e-10 of each covariance's own units."""
    rng = np.random.default_rng(2)
    steps = 3000
    system = slow_system(rng, steps)
    if kind != "slow":
        radius, singular = 1.1 if kind == "unstable" else 0.9, kind == "singular"
        system = random_system(
            rng, steps=steps, n=3, m=2, varying=True, radius=radius, singular=singular
        )
    missing = rng.random(steps) < 0.1
    level = pv.EndlessLevel(0.8 * np.eye(2), [0.5])
    monkeypatch.setattr(machine, "ENOUGH", np.inf)  # pieces are for those without numba
    calls = []
    for module, name in ((sweep, "forward_pieces"), (recursions, "backward_pieces")):
        original = getattr(module, name)

        def noted(*arguments, original=original):
            calls.append(original(*arguments))
            return calls[-1]

        monkeypatch.setattr(module, name, noted)
    one_by_one = dynamics.bound(system, level, steps, missing=missing)
    assert not calls
    monkeypatch.setattr(recursions, "MANY", 200)
    together = dynamics.bound(system, level, steps, missing=missing)
    assert len(calls) >= 2
    assert all(result is not None for result in calls)
    for name in ("predicted", "filtered", "smoothed"):
        ours, every = getattr(together, name), getattr(one_by_one, name)
        unit = np.sqrt(np.diagonal(every, axis1=1, axis2=2))
        unit = np.where(unit > 0, unit, 1.0)
        error = (ours - every) / unit[:, :, None] / unit[:, None, :]
        assert np.abs(error).max() < 1e-10


def test_growth_within_a_piece_is_noticed(monkeypatch):
    """An unstable part that no noise drives grows by 1.5^49 in a piece: no pieces then."""
    steps = 2500
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])  # both states hold a part of it
    A, Q = (turn @ np.diag(own) @ turn.T for own in ([1.5, 0.9], [0.0, 0.1]))
    C, Q = np.array([[1.0, 1.0]]), (Q + Q.T) / 2
    system = dynamics.StateSpace(np.broadcast_to(A, (steps, 2, 2)), C, Q, 0.3, cov0=1.0)
    same = dynamics.StateSpace(A, C, Q, 0.3, cov0=1.0)
    monkeypatch.setattr(recursions, "MANY", 100)
    monkeypatch.setattr(machine, "ENOUGH", np.inf)
    tried, original = [], recursions.forward_pieces

    def noted(*arguments):
        tried.append(original(*arguments))
        return tried[-1]

    monkeypatch.setattr(sweep, "forward_pieces", noted)
    found, expected = dynamics.bound(system, 1.0, steps), dynamics.bound(same, 1.0, steps)
    assert tried
    assert tried[0] is None
    assert np.abs(found.filtered - expected.filtered).max() < 1e-11
    assert np.abs(found.smoothed - expected.smoothed).max() < 1e-11
