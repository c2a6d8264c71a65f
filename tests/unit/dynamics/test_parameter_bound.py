"""`parameter_bound`: what a level tells of θ before anything is released."""

import numpy as np
import pytest

import privest as pv
from privest import dynamics
from privest.errors import InvalidInput


def of_one_memory(phi, q, s):
    """I/K of (φ, q) in closed form, `identification.md` §2: ARMA(1, 1) with a known part."""
    b = q + (1 + phi**2) / s
    u = (b + np.sqrt(b**2 - 4 * phi**2 / s**2)) / 2
    eta = phi / (s * u)
    u_phi, u_q = 2 * eta * (u - 1 / s) / (1 - eta**2), 1 / (1 - eta**2)
    J = np.array([[1, 0], [(1 / s - eta * u_phi) / u, -eta * u_q / u], [u_phi, u_q]])
    inner = np.array(
        [
            [1 / (1 - phi**2), -1 / (1 - phi * eta), 0],
            [-1 / (1 - phi * eta), 1 / (1 - eta**2), 0],
            [0, 0, 1 / (2 * u**2)],
        ]
    )
    return J.T @ inner @ J


@pytest.mark.parametrize("level", [0.05, 0.2, 1.0, 5.0])
def test_an_autoregression_has_a_closed_form(level):
    found = dynamics.parameter_bound("ar1-mean", [0.8, 0.36], level, steps=2000)
    long = np.linalg.inv(2000 * of_one_memory(0.8, 0.36, level))
    # the ends of 2000 steps: some 1/(1 − φ) of them
    assert found.covariance == pytest.approx(long, rel=0.01)
    assert found.classical[0, 0] == pytest.approx(0.36 / 2000, rel=0.005)
    assert found.standard_error[0] > found.classical_error[0]


def of_readings(phi, q, count):
    """I of (φ, q) from `count` readings of a stationary autoregression, in closed form."""
    shapes = (1 + phi**2) / (1 - phi**2) ** 2 + (count - 2) / (1 - phi**2)
    both = phi / (q * (1 - phi**2))
    return np.array([[shapes, both], [both, count / (2 * q**2)]])


@pytest.mark.parametrize("phi", [0.3, 0.9])
@pytest.mark.parametrize(("q", "weight"), [(1e-18, 1e12), (1e-18, 1e16), (8e-22, 1e16)])
def test_a_variance_next_to_zero_seen_with_a_huge_weight(phi, q, weight):
    """z_k = y_k + weight·y_{k−1} tells all readings but the last: no sum of a stop rule is lost."""
    found = dynamics.parameter_bound(
        "ar1-mean", [phi, q], pv.StreamLevel.constant(2.0, lags=[weight]), steps=12
    )
    exact = np.linalg.inv(of_readings(phi, 1.0, 11)) * np.array([[1, q], [q, q**2]])
    # the noise of what is told, and what is told of the last reading, are below 1e-5 of the rest
    assert found.covariance == pytest.approx(exact, rel=2e-5)
    assert found.classical == pytest.approx(exact, rel=2e-5)


def test_privacy_costs_twice_in_shapes_and_once_in_means():
    """σ² ∝ s⁻² of φ, s⁻¹ of the mean, at levels far below the readings."""
    theta = {"q": 0.36, "phi1": 0.8, "mean": 3.0}
    low, lower = (dynamics.parameter_bound("ar1", theta, s, steps=500) for s in (2e-4, 1e-4))
    ratio = lower.covariance.diagonal() / low.covariance.diagonal()
    assert ratio == pytest.approx([4.0, 4.0, 2.0], rel=0.02)


def test_it_is_the_bound_of_a_fit_there():
    rng = np.random.default_rng(0)
    level = pv.StreamLevel.constant(2.0, lags=[0.5])
    y = dynamics.AR(1, mean=False).system([0.6, 1.0]).sample(60, rng)[1]
    y[10:14] = np.nan
    release = pv.StreamMechanism(level).simulate(y, rng)
    fit = dynamics.fit("ar1", release, level=level)
    found = dynamics.parameter_bound("ar1", fit.value, level, steps=60, missing=release.missing)
    assert found.covariance == pytest.approx(fit.bound, rel=1e-9)
    assert found.classical == pytest.approx(fit.classical, rel=1e-9)
    assert found.exposure == fit.exposure == pytest.approx(2.0 * 1.5**2, rel=1e-3)
    assert found.to_dict()["standard_error"] == found.standard_error.tolist()
    assert isinstance(found, pv.Bound)
    assert found.contrast({"phi1": 2.0}).standard_error == pytest.approx(2 * fit.bound[0, 0] ** 0.5)
    with pytest.raises(InvalidInput, match="theta must name phi1, q, mean; received phi"):
        dynamics.parameter_bound("ar1", {"phi": 0.5}, level, steps=60)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": "ar7x"}, "names no family"),
        ({"theta": [0.5]}, "phi1, q"),
        ({"theta": [1.5, 1.0]}, "phi1|stationary|stable"),
        ({"theta": [0.5, -1.0]}, "q"),
        ({"level": 0.0}, "level is 0"),
        ({"level": pv.StreamLevel(np.ones(5))}, "The level has 5 steps"),
        ({"steps": 0}, "steps"),
        ({"missing": [True]}, "missing must be truth values"),
        ({"inputs": np.ones((30, 1))}, "inputs"),
        ({"family": "regression1", "theta": [0.5, 1.0, 2.0]}, "inputs"),
    ],
)
def test_bad_input(change, message):
    given = {"family": "ar1-mean", "theta": [0.5, 1.0], "level": 1.0, "steps": 30} | change
    with pytest.raises(InvalidInput, match=message):
        dynamics.parameter_bound(**given)


def test_a_guess_next_to_a_unit_root_has_a_bound():
    found = dynamics.parameter_bound("ar1-mean", [0.999999, 1e-6], 1.0, steps=200)
    assert np.isfinite(found.covariance).all()
