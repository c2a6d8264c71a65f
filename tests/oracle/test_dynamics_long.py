"""10⁵ steps of difficult systems: covariances stay symmetric and positive, nothing is NaN."""

import numpy as np
import pytest

import privest as pv
from privest import dynamics

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
    found = pv.bound(system, 1.0, steps=STEPS)
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
    x, y = system.sample(steps, rng)
    level = pv.StreamLevel.constant(1.0)
    release = pv.StreamMechanism(level).simulate(y, rng)
    found = dynamics.filter(system, release, level=level)
    error = (found.filtered.value - x) / found.filtered.standard_error
    assert np.abs(error).max() < 5.5  # 240 normal errors: exceeded with probability 1e-5
    assert np.isfinite(found.innovations).all()
    smoothed = found.smoothed
    assert np.abs((smoothed.value - x) / smoothed.standard_error).max() < 5.5
