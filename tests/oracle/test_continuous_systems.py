"""Continuous time against 60-digit arithmetic, closed forms, and the system sampled more finely."""

import mpmath
import numpy as np
import pytest

import privest as pv
from privest import dynamics
from privest.dynamics import StateSpace
from privest.errors import InvalidInput, NumericalFailure


def van_loan(F, Qc, gap):
    """A, Q and ∫e^{Fs}ds by van Loan's block exponentials, in 60 digits: nothing is lost there."""
    n = len(F)
    with mpmath.workdps(60 + int(2 * np.abs(F).sum() * gap)):  # e^{−Fᵀh} grows that far
        whole, shift = mpmath.zeros(2 * n), mpmath.zeros(2 * n)
        for i in range(n):
            shift[i, n + i] = mpmath.mpf(gap)
            for j in range(n):
                whole[i, j] = shift[i, j] = mpmath.mpf(F[i, j]) * gap
                whole[n + i, n + j] = -mpmath.mpf(F[j, i]) * gap
                whole[i, n + j] = mpmath.mpf(Qc[i, j]) * gap
        solved, moved = mpmath.expm(whole), mpmath.expm(shift)
        A = solved[:n, :n]
        Q = solved[:n, n:] * A.T
        return [np.array(M.tolist(), dtype=float) for M in (A, Q, moved[:n, n:])]


def system(F, Qc, gap, B=None):
    n = len(F)
    return StateSpace.from_continuous(F, np.eye(n), Qc, 1.0, cov0=1.0, step=gap, B=B)


def off(found, exact, unit):
    """The largest difference in units √(unit_i unit_j)."""
    size = np.sqrt(np.diagonal(unit))
    return float(np.abs((found - exact) / size / size[:, None]).max())


@pytest.mark.parametrize("gap", [1e-6, 0.03, 1.0, 12.0])
@pytest.mark.parametrize("stable", [True, False])
def test_random_systems_against_van_loan(gap, stable):
    """‖F‖h doublings of rounding: eps·(1 + ‖F‖h)·n, 100 of them allowed."""
    rng = np.random.default_rng(int(1e6 * gap) + stable)
    F = rng.standard_normal((3, 3)) - (3.0 if stable else 0.5) * np.eye(3)
    half = rng.standard_normal((3, 1))
    Qc = half @ half.T
    A, Q, moved = van_loan(F, Qc, gap)
    ours = system(F, Qc, gap, np.eye(3))
    allowed = 100 * np.finfo(float).eps * (1 + gap * np.abs(F).sum()) * 3
    assert np.abs(ours.A - A).max() < allowed * max(1.0, np.abs(A).max())
    assert off(ours.Q, Q, Q) < allowed
    assert np.abs(ours.B - moved).max() < allowed * np.abs(moved).max()


def test_closed_forms_of_stiff_long_and_graded_gaps():
    """Slow beside fast (rates 1e-6 and 1e8), over 1e5: each part to its own digits."""
    rates, gap = np.array([1e-6, 1.0, 1e8]), 1e5
    exact = -np.expm1(-2 * rates * gap) / (2 * rates)
    stiff = system(np.diag(-rates), np.diag([3.0, 5.0, 7.0]), gap)
    assert np.abs(np.diagonal(stiff.Q) / (exact * [3.0, 5.0, 7.0]) - 1).max() < 1e-13
    assert np.abs(np.diagonal(stiff.A) - np.exp(-rates * gap)).max() < 1e-14
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    mixed = turn @ np.diag([-1.0, -30.0, -1000.0]) @ turn.T  # not diagonal, ‖F‖h = 4e4
    found = system(mixed, np.eye(3), 40.0).Q
    assert np.abs(found - turn @ np.diag([0.5, 1 / 60, 1 / 2000]) @ turn.T).max() < 1e-12
    for h in (1e-9, 1.0, 1e9):  # position and speed: h³/3, h²/2, h, in every unit
        moved = system(np.array([[0.0, 1.0], [0.0, 0.0]]), np.diag([0.0, 2.0]), h, [[0.0], [1.0]])
        assert np.allclose(moved.Q, 2 * np.array([[h**3 / 3, h**2 / 2], [h**2 / 2, h]]), rtol=1e-13)
        assert np.allclose(moved.B.ravel(), [h**2 / 2, h], rtol=1e-14)
        assert np.allclose(moved.A, [[1.0, h], [0.0, 1.0]], rtol=1e-14)


def test_two_gaps_are_one_of_twice_the_length():
    """A(2h) = A², Q(2h) = Q + AQAᵀ, B(2h) = B + AB: also where gaps are done side by side."""
    rng = np.random.default_rng(5)
    F, B = rng.standard_normal((4, 4)) - 2 * np.eye(4), rng.standard_normal((4, 2))
    h = rng.uniform(0.01, 20.0, 50)
    times = np.concatenate([[0.0], np.cumsum(np.repeat(h, 2))])
    fine = StateSpace.from_continuous(F, np.eye(4), 1.0, 1.0, cov0=1.0, times=times, B=B)
    coarse = StateSpace.from_continuous(F, np.eye(4), 1.0, 1.0, cov0=1.0, times=times[::2], B=B)
    A, A2 = fine.A[0:-1:2], fine.A[1::2]
    assert np.abs(A2 @ A - coarse.A[:-1]).max() < 1e-12
    whole = fine.Q[1::2] + A2 @ fine.Q[0:-1:2] @ A2.swapaxes(1, 2)
    assert np.abs(whole - coarse.Q[:-1]).max() < 1e-12
    assert np.abs(fine.B[1::2] + A2 @ fine.B[0:-1:2] - coarse.B[:-1]).max() < 1e-12


def test_irregular_readings_are_a_regular_series_with_gaps():
    """Filter and smoother at irregular times equal those of a fine grid with missing steps."""
    rng = np.random.default_rng(2)
    F, C, Qc = [[-0.3, 1.0], [-1.0, -0.1]], [[1.0, 0.0]], np.diag([0.0, 0.5])
    where = np.array([0, 1, 4, 5, 11, 12, 20])
    fine = StateSpace.from_continuous(F, C, Qc, 0.2, cov0="stationary", step=0.25)
    rough = StateSpace.from_continuous(F, C, Qc, 0.2, cov0="stationary", times=0.25 * where)
    level = pv.StreamLevel.constant(3.0)
    values = rng.standard_normal(len(where))
    spread = np.full(21, np.nan)
    spread[where] = values
    few = pv.Release
    short = few(0, len(where), values, None, level.fingerprint, True)
    long = few(0, 21, spread, np.isnan(spread), level.fingerprint, True)
    ours = dynamics.filter(rough, short, level=level)
    theirs = dynamics.filter(fine, long, level=level)
    assert np.abs(ours.filtered.value - theirs.filtered.value[where]).max() < 1e-12
    assert np.abs(ours.filtered.covariance - theirs.filtered.covariance[where]).max() < 1e-12
    assert abs(float(ours.log_likelihood - theirs.log_likelihood)) < 1e-11
    back = theirs.smoothed.value[where]
    assert np.abs(ours.smoothed.value - back).max() < 1e-12
    assert fine.steps is None
    assert rough.steps == 7


def test_equal_gaps_are_constant_and_repeated_ones_the_same():
    times = 0.1 * np.arange(400)  # gaps differ in their last bits
    parts = (-1.0, 1.0, 2.0, 0.1)
    assert StateSpace.from_continuous(*parts, cov0=1.0, times=times).steps is None
    twice = StateSpace.from_continuous(*parts, cov0=1.0, times=[0, 1, 3, 4, 6], step=2.0)
    assert np.array_equal(twice.A.ravel(), twice.A.ravel()[[0, 1, 0, 1, 1]])
    assert np.allclose(twice.A.ravel(), np.exp([-1, -2, -1, -2, -2]), rtol=1e-14)


def test_a_stationary_start_stays():
    rng = np.random.default_rng(7)
    F = rng.standard_normal((4, 4)) - 3 * np.eye(4)
    half = rng.standard_normal((4, 1))
    found = StateSpace.from_continuous(
        F, np.eye(4), half @ half.T, 1.0, cov0="stationary", times=[0.0, 0.1, 5.0, 5.2]
    )
    P = found.cov0
    assert np.abs(F @ P + P @ F.T + half @ half.T).max() < 1e-13
    for A, Q in zip(found.A, found.Q):
        assert np.abs(A @ P @ A.T + Q - P).max() < 1e-14


def test_inputs_that_hold_over_a_gap():
    """Constant inputs: the state of dx = Fx + Bu at any time, whatever the readings' times."""
    F, B = np.array([[-1.0, 2.0], [0.0, -0.5]]), np.array([[1.0], [0.3]])
    times = np.array([0.0, 0.2, 1.7, 2.0])
    found = StateSpace.from_continuous(F, np.eye(2), 0.0, 0.0, [1.0, 2.0], 0.0, times=times, B=B)
    states, _ = found.sample(4, np.random.default_rng(0), inputs=np.full((4, 1), 0.7))
    rest = -np.linalg.solve(F, B[:, 0] * 0.7)
    for t, x in zip(times, states):
        A = van_loan(F, np.zeros((2, 2)), t)[0] if t else np.eye(2)
        assert np.abs(x - rest - A @ (np.array([1.0, 2.0]) - rest)).max() < 1e-14


def test_bad_input():
    def made(F=-1.0, Qc=1.0, **given):
        return StateSpace.from_continuous(F, 1.0, Qc, 1.0, **({"cov0": 1.0} | given))

    with pytest.raises(InvalidInput, match="give the times of the measurements, or the step"):
        made()
    with pytest.raises(InvalidInput, match="times must increase: that of measurement 2"):
        made(times=[0.0, 1.0, 1.0])
    with pytest.raises(InvalidInput, match="at least two"):
        made(times=[0.0])
    with pytest.raises(InvalidInput, match="step must be"):
        made(step=0.0)
    with pytest.raises(InvalidInput, match="needs a stable F"):
        made(F=0.0, step=1.0, cov0="stationary")
    with pytest.raises(InvalidInput, match="'stationary'; received 'steady'"):
        made(step=1.0, cov0="steady")
    with pytest.raises(InvalidInput, match="F must be square"):
        made(F=[[1.0, 2.0]], step=1.0)
    with pytest.raises(InvalidInput, match="Qc"):
        made(Qc=-1.0, step=1.0)
    with pytest.raises(InvalidInput, match="B must have 1 row;"):
        made(B=[[1.0], [1.0]], step=1.0)
    with pytest.raises(InvalidInput, match="cov0 is needed"):
        made(step=1.0, cov0=None)
    with pytest.raises(NumericalFailure, match="Over a gap of 2000"):
        made(F=1.0, times=[0.0, 2000.0, 2001.0, 5000.0])
