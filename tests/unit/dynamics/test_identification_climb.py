"""The search for a maximum, and λmax of what releases show."""

import numpy as np
import pytest

import privest as pv
from privest.dynamics._maximum import curvature, maximise, newton
from privest.dynamics._parameter_bound import exposure

FREE = np.tile([-np.inf, np.inf], (2, 1))


def banana(t):
    """A curved ridge with its top at (1, 1); −∇² there is [[802, −400], [−400, 200]]."""
    x, y = t
    height = -(100 * (y - x * x) ** 2 + (1 - x) ** 2)
    return height, np.array([400 * x * (y - x * x) + 2 * (1 - x), -200 * (y - x * x)])


def test_the_top_of_a_curved_ridge():
    top = maximise(banana, [np.array([-1.2, 1.0]), np.array([2.0, -1.0])], FREE, 10)
    assert top.converged
    assert top.t == pytest.approx([1.0, 1.0], abs=1e-7)
    assert top.curvature == pytest.approx(np.array([[802.0, -400.0], [-400.0, 200.0]]), rel=1e-5)
    assert not top.at_limit.any()


def test_a_top_beyond_a_limit_ends_at_it():
    limits = np.array([[-np.inf, 0.5], [-np.inf, np.inf]])
    top = maximise(banana, [np.array([0.0, 0.0])], limits, 10)
    assert top.at_limit.tolist() == [True, False]
    assert top.t == pytest.approx([0.5, 0.25], abs=1e-7)  # the best y for x = ½
    assert top.converged


def test_the_best_start_wins_and_a_start_without_a_model_is_no_harm():
    def two_hills(t):
        x = t[0]
        a, b = np.exp(-((x + 3) ** 2)), 2 * np.exp(-((x - 3) ** 2))
        if abs(x) > 50:
            return -np.inf, np.zeros(1)
        return a + b, np.array([-2 * (x + 3) * a - 2 * (x - 3) * b])

    starts = [np.array([-2.5]), np.array([99.0]), np.array([2.5])]
    assert maximise(two_hills, starts, FREE[:1], 1).t == pytest.approx([3.0], abs=1e-6)


def test_a_flat_ridge_is_not_called_a_maximum():
    def ridge(t):
        return -((t[0] + t[1]) ** 2), np.full(2, -2 * (t[0] + t[1]))

    assert not newton(ridge, np.array([1.0, 2.0]), FREE).converged


def test_differences_stay_within_the_limits():
    def half(t):
        assert t[0] >= 0
        return -(t[0] ** 2), -2 * t

    assert curvature(half, np.zeros(1), np.array([[0.0, np.inf]])) == pytest.approx(2.0)


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("lags", [0, 1, 3])
@pytest.mark.parametrize("steps", [5, 60])
def test_exposure_is_the_largest_eigenvalue(m, lags, steps):
    rng = np.random.default_rng(m + 10 * lags + steps)
    half = rng.standard_normal((m, m))
    endless = pv.EndlessLevel(half @ half.T, [rng.standard_normal((m, m)) for _ in range(lags)])
    level = endless.first(steps)
    dense = np.linalg.eigvalsh(level.cumulative())[-1]
    assert exposure(level, steps) == pytest.approx(dense, rel=1e-8)
    # An endless stream shows at least as much, and no more than its spectrum says.
    assert exposure(endless, steps) >= dense * (1 - 1e-12)


def test_two_readings_together_are_shown_twice():
    """ℓ²(1 + c²) = s and λmax = s(1 + c)²/(1 + c²): 2s for c = 1."""
    level = pv.EndlessLevel(0.5, [1.0])
    s = 2 * 0.5
    assert exposure(level, 10) == pytest.approx(2 * s, rel=1e-12)


def test_levels_that_differ_from_step_to_step():
    level = pv.StreamLevel(np.array([1.0, 5.0, 2.0]))
    assert exposure(level, 3) == pytest.approx(5.0)
    assert exposure(level, 1) == pytest.approx(1.0)


def fitted(steps=400, s=1.0, family="ar1"):
    rng = np.random.default_rng(4)
    _, y = pv.dynamics.StateSpace(0.8, 1.0, 0.36, 0.0, cov0=1.0).simulate(steps, rng)
    level = pv.EndlessLevel(s)
    return pv.dynamics.fit(family, level, pv.StreamMechanism(level).simulate(y, rng))


def test_the_floors_stand_beside_the_estimate():
    """Without privacy K var φ̂ = 1 − φ², K var q̂ = 2q² and K var μ̂ = q/(1 − φ)² for large K."""
    found = fitted(4000)
    phi, q, _ = found.estimate
    with_mean = [1 - phi**2, 2 * q**2, q / (1 - phi) ** 2]
    assert found.classical.diagonal() * 4000 == pytest.approx(with_mean, rel=0.01)
    assert (found.bound.diagonal() > found.classical.diagonal()).all()
    assert found.whittle.diagonal()[:2] == pytest.approx(found.bound.diagonal()[:2], rel=0.01)
    assert np.isnan(found.whittle[2, 2])  # a spectrum says nothing of a mean
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
    spread = np.sqrt(np.linalg.inv(found.curvature[~found.at_limit][:, ~found.at_limit]).diagonal())
    # Nor has one of which the logarithm has an error above 1.
    assert (np.isfinite(found.standard_error[~found.at_limit]) == (spread <= 1)).all()


def test_a_level_way_to_a_limit_ends_at_it():
    """ℓ rises like −e^{−2t} towards t = 8 and is level there; the other parameter is regular."""

    def levelling(t):
        far, off = np.exp(-2 * t[0]), t[1] - 1
        return -far - 50 * off**2, np.array([2 * far, -100 * off])

    limits = np.array([[-8.0, 8.0], [-np.inf, np.inf]])
    top = maximise(levelling, [np.array([0.0, 0.0])], limits, 100)
    assert (top.converged, top.at_limit.tolist()) == (True, [True, False])
    assert top.t == pytest.approx([8.0, 1.0], abs=1e-7)


@pytest.mark.parametrize("seed", [4, 11])
def test_a_moving_average_at_its_unit_root_is_at_its_limit(seed):
    """Differences of white noise: θ = −1."""
    rng, level = np.random.default_rng(seed), pv.EndlessLevel(2.0)
    y = np.diff(rng.standard_normal(151))[:, None]
    release = pv.StreamMechanism(level).simulate(y, rng)
    found = pv.dynamics.fit("arma1,1" if seed == 4 else "arma0,1-mean", level, release)
    j = found.names.index("theta1")
    assert found.converged
    assert found.at_limit.tolist() == [i == j for i in range(len(found.names))]
    assert found.estimate[j] == pytest.approx(-1.0, abs=1e-6)
    assert np.isfinite(np.delete(found.standard_error, j)).all()


def test_a_variance_next_to_0_has_no_standard_error():
    """log q is flat there: q̂ times its error is near 0, far below what any estimate can have."""
    rng, level = np.random.default_rng(2), pv.EndlessLevel(2.0)
    y = np.cumsum(rng.standard_normal(150)) + 0.3 * np.arange(150)
    found = pv.dynamics.fit("trend", level, pv.StreamMechanism(level).simulate(y[:, None], rng))
    j = found.names.index("r")
    assert not found.at_limit[j]
    assert np.isnan(found.standard_error[j])
    assert any("log r is hardly determined" in str(flat) for flat in found.flat)
    assert np.isfinite(found.bound[j, j])
    known = found.names.index("q_level")
    assert found.standard_error[known] == pytest.approx(np.sqrt(found.bound[known, known]), rel=0.3)
