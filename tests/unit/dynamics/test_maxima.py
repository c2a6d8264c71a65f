"""Maxima at limits, standard errors and floors of fits, and λmax of what releases show."""

import numpy as np
import pytest

import privest as pv


@pytest.mark.parametrize("lags", [0, 1, 3])
@pytest.mark.parametrize("steps", [5, 60])
def test_exposure_is_the_largest_eigenvalue(lags, steps):
    rng = np.random.default_rng(10 * lags + steps)
    endless = pv.StreamLevel.constant(0.7, lags=list(0.5 * rng.standard_normal(lags)))
    level = endless.first(steps)
    dense = np.linalg.eigvalsh(level.cumulative())[-1]

    def exposure(level):
        return pv.dynamics.parameter_bound("ar1-mean", [0.8, 0.36], level, steps=steps).exposure

    assert exposure(level) == pytest.approx(dense, rel=1e-8)
    # An endless stream shows at least as much, and no more than its spectrum says.
    assert exposure(endless) >= dense * (1 - 1e-12)


def test_two_measurements_together_are_shown_twice():
    """c = 1: S̄ has 2s beside s, and λmax = 4s cos²(π/(2(K + 1))), nearly 4s; else the largest."""
    level = pv.StreamLevel.constant(0.5, lags=[1.0])
    told = pv.dynamics.parameter_bound("ar1-mean", [0.8, 0.36], level, steps=10)
    assert told.exposure == pytest.approx(2 * np.cos(np.pi / 22) ** 2, rel=1e-12)
    changing = pv.StreamLevel(np.array([1.0, 5.0, 2.0, 1.0, 1.0]))
    told = pv.dynamics.parameter_bound("ar1-mean", [0.8, 0.36], changing, steps=5)
    assert told.exposure == pytest.approx(5.0)


def fitted(steps=400, s=1.0, family="ar1"):
    rng = np.random.default_rng(4)
    _, y = pv.dynamics.StateSpace(0.8, 1.0, 0.36, 0.0, cov0=1.0).sample(steps, rng)
    level = pv.StreamLevel.constant(s)
    return pv.dynamics.fit(family, pv.StreamMechanism(level).simulate(y, rng), level=level)


def test_the_floors_stand_beside_the_estimate():
    """Without privacy K var φ̂ = 1 − φ², K var q̂ = 2q² and K var μ̂ = q/(1 − φ)² for large K."""
    found = fitted(4000)
    phi, q, _ = found.value
    with_mean = [1 - phi**2, 2 * q**2, q / (1 - phi) ** 2]
    assert found.classical.diagonal() * 4000 == pytest.approx(with_mean, rel=0.01)
    assert (found.bound.diagonal() > found.classical.diagonal()).all()
    assert found.standard_error == pytest.approx(np.sqrt(found.bound.diagonal()), rel=0.2)
    assert found.classical_error == pytest.approx(np.sqrt(found.classical.diagonal()))


def test_floors_are_found_when_asked_for_and_go_to_json():
    found = fitted()
    assert "bound" not in vars(found)
    told = found.to_dict()
    assert told["bound"] == found.bound.tolist()
    assert "bound" in vars(found)
    assert "AR(1), 400 steps" in found.summary()


def test_a_parameter_at_its_limit_has_no_standard_error():
    """A season that is not there: its variance goes to 0, where curvature says nothing."""
    found = fitted(200, family="level+seasonal4")
    at = found.at_limit.tolist()
    assert any(at)
    assert np.isnan(found.standard_error[at.index(True)])


@pytest.mark.parametrize("seed", [4, 11])
def test_a_moving_average_at_its_unit_root_is_at_its_limit(seed):
    """Differences of white noise: θ = −1."""
    rng, level = np.random.default_rng(seed), pv.StreamLevel.constant(2.0)
    y = np.diff(rng.standard_normal(151))[:, None]
    release = pv.StreamMechanism(level).simulate(y, rng)
    found = pv.dynamics.fit("arma1,1" if seed == 4 else "arma0,1-mean", release, level=level)
    j = found.names.index("theta1")
    assert found.converged
    assert found.at_limit.tolist() == [i == j for i in range(len(found.names))]
    assert found.value[j] == pytest.approx(-1.0, abs=1e-6)
    assert np.isfinite(np.delete(found.standard_error, j)).all()


def test_a_variance_next_to_0_has_no_standard_error():
    """log q is flat there: q̂ times its error is near 0, far below what any estimate can have."""
    rng, level = np.random.default_rng(2), pv.StreamLevel.constant(2.0)
    y = np.cumsum(rng.standard_normal(150)) + 0.3 * np.arange(150)
    found = pv.dynamics.fit(
        "trend", pv.StreamMechanism(level).simulate(y[:, None], rng), level=level
    )
    j = found.names.index("r")
    assert not found.at_limit[j]
    assert np.isnan(found.standard_error[j])
    assert any("log r" in flat and error > 1 for flat, error in found.flat.items())
    assert np.isfinite(found.bound[j, j])
    known = found.names.index("q_level")
    assert found.standard_error[known] == pytest.approx(np.sqrt(found.bound[known, known]), rel=0.3)
