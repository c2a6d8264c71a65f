"""Exact information about parameters against the dense formula, Whittle's, and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from dense_likelihood import FORMS, STEP, law_of_readings, level_of, random_matrices
from privest import dynamics
from privest.dynamics._identification._data import data_of
from privest.dynamics._identification._information import information
from privest.dynamics._identification._matrices import Matrices
from privest.dynamics._identification._start_information import information_of
from privest.dynamics._identification._whittle import whittle

# Dense V ≥ I of condition below 1e5 here, inverted twice; settled covariances are to 1e-12.
RTOL = 1e-9


def random_slopes(rng, matrices, count, still=()):
    """Slopes by `count` parameters; `still`: of these nothing changes."""
    found = []
    for name, own in matrices._asdict().items():
        slope = rng.standard_normal((count, *own.shape))
        if name in ("Q", "R", "cov0"):
            slope = slope + slope.swapaxes(-1, -2)
        found.append(0.0 * slope if name in (*still, "diffuse") else slope)
    return Matrices(*found)


def data_at(rng, level, steps, m, inputs, missing):
    y = np.where(missing[:, None], np.nan, rng.standard_normal((1, steps, m)))
    (data,) = data_of(level, dynamics.simulate_series(level, y, rng), inputs, m)
    return data


def dense_information(matrices, slopes, level, missing, inputs):
    """½tr(PV_iPV_j) + m_iᵀPm_j, P = V⁻¹ without the directions of a diffuse start."""
    steps, m = len(inputs), matrices.C.shape[-2]
    rows = (level.first(steps) if isinstance(level, pv.EndlessLevel) else level).rows.dense()
    gone = np.repeat(missing, m)
    shown = np.where(gone[None, :], 0.0, rows)[~gone]
    _, cov, response = law_of_readings(matrices, steps, inputs)
    V = shown @ cov @ shown.T + np.eye(len(shown))
    P, X = np.linalg.inv(V), shown @ response
    P = P - P @ X @ np.linalg.solve(X.T @ P @ X, X.T @ P)
    means, whole = [], []
    for i in range(len(slopes.A)):
        moved = Matrices(*(own + 1j * STEP * slope[i] for own, slope in zip(matrices, slopes)))
        mean, cov, _ = law_of_readings(moved, steps, inputs)
        means.append(shown @ mean.imag / STEP)
        whole.append(P @ shown @ (cov.imag / STEP) @ shown.T)
    squares = np.array([[0.5 * np.sum(a * b.T) for a in whole] for b in whole])
    return squares + np.array(means) @ P @ np.array(means).T


def close(found, expected, rtol):
    size = np.sqrt(expected.diagonal())
    assert np.abs((found - expected) / np.outer(size, size)).max() < rtol


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.sampled_from(FORMS), st.booleans(), st.booleans())
def test_information_equals_the_dense_formula(seed, form, varying, diffuse):
    rng = np.random.default_rng(seed)
    steps, n, m = int(rng.integers(6, 12)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    p = int(rng.integers(0, 3))
    matrices = random_matrices(
        rng, steps=steps, n=n, m=m, p=p, q=int(diffuse), radius=rng.uniform(0.3, 1.05),
        varying=[name for name in "ACQRBD" if rng.random() < 0.5] if varying else (),
    )  # fmt: skip
    # With a diffuse start the response to it must not depend on the parameters.
    slopes = random_slopes(rng, matrices, 3, still="AC" if diffuse else ())
    level, inputs = level_of(form, rng, steps, m), rng.standard_normal((steps, p))
    missing = rng.random(steps) < 0.15
    data = data_at(rng, level, steps, m, inputs if p else None, missing)
    found = information(matrices, slopes, data)
    # The limit κ → ∞ by extrapolation: 1e-2 to the fifth over 4^10.
    close(found, dense_information(matrices, slopes, level, missing, inputs), RTOL)


def autoregression(phi, q):
    """AR(1) from its stationary law, with slopes by (φ, q)."""
    one, zero = np.ones((1, 1)), np.zeros((1, 1))
    v, none = 1 - phi**2, np.zeros((1, 0))
    matrices = Matrices(
        phi * one, one, q * one, zero, np.zeros(1), q / v * one, none, none, none
    )  # fmt: skip

    def both(a, b):
        return np.array([a, b]).reshape(2, 1, 1)

    slopes = Matrices(
        both(1, 0), both(0, 0), both(0, 1), both(0, 0), np.zeros((2, 1)),
        both(2 * phi * q / v**2, 1 / v), *[np.zeros((2, 1, 0))] * 3,
    )  # fmt: skip
    return matrices, slopes


def closed_form(phi, q, s):
    """I/K of (φ, q) from AR(1) + 1/s, by its ARMA(1, 1) form (identification.md, section 2)."""
    b = q + (1 + phi**2) / s
    u = (b + np.sqrt(b**2 - 4 * phi**2 / s**2)) / 2
    eta = phi / (s * u)
    u_phi, u_q = 2 * eta * (u - 1 / s) / (1 - eta**2), 1 / (1 - eta**2)
    J = np.array([[1, 0], [(1 / s - eta * u_phi) / u, -eta * u_q / u], [u_phi, u_q]])
    cross = -1 / (1 - phi * eta)
    inner = np.array(
        [[1 / (1 - phi**2), cross, 0], [cross, 1 / (1 - eta**2), 0], [0, 0, 1 / (2 * u**2)]]
    )
    return J.T @ inner @ J


@pytest.mark.parametrize("s", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("phi", [0.3, 0.8, 0.97])
def test_autoregressions_have_the_closed_form_and_more_steps_add_it(phi, s):
    rng, level = np.random.default_rng(0), pv.EndlessLevel(s)
    matrices, slopes = autoregression(phi, 1 - phi**2)
    expected = closed_form(phi, 1 - phi**2, s)
    close(whittle(matrices, slopes, level, 100), 100 * expected, 1e-10)
    sums = [
        information(
            matrices, slopes, data_at(rng, level, steps, 1, None, np.zeros(steps, dtype=bool))
        )
        for steps in (900, 1000)
    ]
    close(sums[1] - sums[0], 100 * expected, 1e-9)


@pytest.mark.parametrize("s", [0.1, 4.0])
def test_local_levels_have_the_closed_form(s):
    """A root on the unit circle, a diffuse start; r̃ = r + 1/s (identification.md, section 2)."""
    q, r = 0.3, 0.7
    one, none = np.ones((1, 1)), np.zeros((1, 0))
    matrices = Matrices(
        one, one, q * one, r * one, np.zeros(1), np.zeros((1, 1)), none, none, one
    )  # fmt: skip
    zero = np.zeros((2, 1, 1))
    slopes = Matrices(
        zero, zero, np.array([1.0, 0.0]).reshape(2, 1, 1), np.array([0.0, 1.0]).reshape(2, 1, 1),
        np.zeros((2, 1)), zero, *[np.zeros((2, 1, 0))] * 2, zero,
    )  # fmt: skip
    both = r + 1 / s
    root = np.sqrt(q**2 + 4 * q * both)
    a, b = (q + 2 * both) / root**3, 2 * q / root**3
    c = (1 - q**2 * a - 2 * q * both * b) / both**2
    expected = 0.5 * np.array([[a, b], [b, c]])
    level = pv.EndlessLevel(s)
    close(whittle(matrices, slopes, level, 50), 50 * expected, 1e-10)
    rng = np.random.default_rng(1)
    sums = [
        information(
            matrices, slopes, data_at(rng, level, steps, 1, None, np.zeros(steps, dtype=bool))
        )
        for steps in (250, 300)
    ]
    close(sums[1] - sums[0], 50 * expected, 1e-8)


@pytest.mark.parametrize("form", ["endless", "endless banded"])
def test_whittle_is_what_a_step_adds_in_the_end(form):
    """Vectors, singular noise, releases that look back."""
    rng = np.random.default_rng(4)
    matrices = random_matrices(rng, steps=2, n=3, m=2, radius=0.7)
    slopes = random_slopes(rng, matrices, 3, still=("mean0", "cov0"))
    matrices = matrices._replace(mean0=np.zeros(3))
    level = level_of(form, rng, 2, 2)
    sums = [
        information(
            matrices, slopes, data_at(rng, level, steps, 2, None, np.zeros(steps, dtype=bool))
        )
        for steps in (200, 210)
    ]
    close(whittle(matrices, slopes, level, 10), sums[1] - sums[0], 1e-8)


def test_an_unknown_start_that_the_parameters_move_has_no_bound():
    rng = np.random.default_rng(6)
    matrices = random_matrices(rng, steps=9, n=1, m=1, q=1, radius=0.9)
    data = data_at(rng, pv.EndlessLevel(1.0), 9, 1, None, np.zeros(9, dtype=bool))
    with pytest.raises(pv.errors.NumericalFailure, match="where the states start"):
        information(matrices, random_slopes(rng, matrices, 1), data)


@pytest.mark.parametrize("series", [1, 9])
def test_an_unknown_start_that_the_parameters_move_counts_as_parameters(series):
    """The Cramér-Rao bound of (θ, δ) by the dense formula, summed over where series start."""
    rng = np.random.default_rng(7)
    steps, n, p, level = 9, 2, 2, pv.EndlessLevel(0.7)
    matrices = random_matrices(rng, steps=steps, n=n, m=1, q=n, radius=0.9)
    slopes = random_slopes(rng, matrices, p)
    missing = np.arange(steps) == 4
    y = np.where(missing[:, None], np.nan, rng.standard_normal((series, steps, 1)))
    (data,) = data_of(level, dynamics.simulate_series(level, y, rng), None, 1)
    starts = rng.standard_normal((n, series))
    wide = Matrices(*(np.concatenate([own, np.zeros((n, *own.shape[1:]))]) for own in slopes))
    wide.mean0[p:] = matrices.diffuse.T
    expected = np.zeros((p, p))
    for start in starts.T:
        known = matrices._replace(mean0=start, diffuse=np.zeros((n, 0)))
        own = wide._replace(diffuse=np.zeros((p + n, n, 0)))
        joint = dense_information(known, own, level, missing, np.zeros((steps, 0)))
        expected += np.linalg.inv(np.linalg.inv(joint)[:p, :p])
    close(information_of(matrices, slopes, data, lambda: starts), expected, RTOL)


def test_the_floor_of_a_driven_autoregression_is_that_of_least_squares_without_noise():
    """s large: cov (φ, b) = q(XᵀX)⁻¹ of the rows k ≥ 1, on average; var q = 2q²/(K − 1)."""
    rng, K, level = np.random.default_rng(8), 400, pv.EndlessLevel(1e8)
    u, y = rng.standard_normal((K, 1)), np.zeros((K, 1))
    for k in range(1, K):
        y[k] = 0.7 * y[k - 1] + 0.5 * u[k - 1] + 0.6 * rng.standard_normal()
    release = pv.StreamMechanism(level).simulate(3 + y, rng)
    found = dynamics.fit(dynamics.ARX(1, 1, mean=True), release, level=level, inputs=u)
    q = found.estimate[1]
    for floor in (found.bound, found.classical):
        X = np.concatenate([y[:-1], u[:-1], np.ones((K - 1, 1))], axis=1)
        # XᵀX differs from its mean by a few in √K.
        expected = q * np.linalg.inv(X.T @ X)[:2, :2]
        size = np.sqrt(expected.diagonal())
        assert np.abs((floor[::2, ::2] - expected) / np.outer(size, size)).max() < 4 / np.sqrt(K)
        assert floor[1, 1] == pytest.approx(2 * q**2 / K, rel=2 / K)
    assert found.standard_error == pytest.approx(np.sqrt(found.bound.diagonal()), rel=0.1)


def test_the_floors_of_a_random_walk_whose_readings_have_no_error():
    """r̂ = 0, a limit: q̂ is then known as if r = 0 were; var q = 2q²/(K − 1) without privacy."""
    rng, K, level = np.random.default_rng(0), 300, pv.EndlessLevel(2.0)
    y = np.cumsum(rng.standard_normal((K, 1)), axis=0)
    found = dynamics.fit("level", pv.StreamMechanism(level).simulate(y, rng), level=level)
    assert found.at_limit.tolist() == [False, True]
    # r at its limit is 1e-5 of what is seen.
    assert found.classical[0, 0] == pytest.approx(2 * found.estimate[0] ** 2 / (K - 1), rel=1e-3)
    assert found.bound[0, 0] > found.classical[0, 0]


def test_whittle_refuses_what_it_does_not_hold_for():
    matrices, slopes = autoregression(0.5, 1.0)
    level = pv.EndlessLevel(1.0)
    with pytest.raises(pv.errors.InvalidInput, match="explosive"):
        whittle(matrices._replace(A=np.array([[1.1]])), slopes, level, 10)
    with pytest.raises(pv.errors.InvalidInput, match="constant"):
        whittle(matrices._replace(A=np.full((4, 1, 1), 0.5)), slopes, level, 10)
