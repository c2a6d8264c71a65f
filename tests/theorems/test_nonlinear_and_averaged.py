"""The two remarks after `thm:crbound`: nonlinear measurements, averaged constraints."""

import numpy as np
import pytest
from hypothesis import given
from strategies import problems, relative_error

import privest as pv

GAUSS = pv.noise.Gaussian(cov=0.5)


def curve(theta):
    a, b, c = theta
    t = np.linspace(0, 2, 7)
    return a * np.exp(-b * t) + c


def curve_jacobian(theta):
    a, b, _ = theta
    t = np.linspace(0, 2, 7)
    return np.stack([np.exp(-b * t), -a * t * np.exp(-b * t), np.ones(7)], axis=1)


THETA = [2.0, 0.7, -1.0]


def test_the_bound_is_that_of_the_local_linear_model():
    level = pv.PrivacyLevel(3.0)
    local = pv.LinearModel(curve_jacobian(THETA), noise=GAUSS)
    given_jacobian = pv.NonlinearModel(curve, noise=GAUSS, jacobian=curve_jacobian)
    numerical = pv.NonlinearModel(curve, noise=GAUSS)
    expected = pv.bound(local, level)
    assert np.array_equal(pv.bound(given_jacobian, level, THETA).ppcrlb, expected.ppcrlb)
    assert relative_error(numerical.at(THETA).matrix, local.matrix) < 1e-8
    assert relative_error(pv.bound(numerical, level, THETA).ppcrlb, expected.ppcrlb) < 1e-6


@given(problems(noise_kinds=("number",)))
def test_a_linear_function_gives_the_linear_bound(p):
    model = pv.NonlinearModel(lambda t: p.H @ t, noise=pv.noise.Gaussian(cov=p.cov))
    theta = p.rng.standard_normal(p.n) * 10.0 ** p.rng.integers(-3, 4)
    assert relative_error(model.at(theta).matrix, p.H) < 1e-8


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_numerical_derivatives_do_not_depend_on_the_scale_of_theta(scale):
    model = pv.NonlinearModel(lambda t: [np.sin(t[0] / scale)], noise=GAUSS)
    found = model.at([0.3 * scale]).matrix[0, 0]
    assert found == pytest.approx(np.cos(0.3) / scale, rel=1e-7)


def test_unsettled_derivatives_are_refused():
    rng = np.random.default_rng(0)
    rough = pv.NonlinearModel(lambda t: [t[0] + 1e-3 * rng.standard_normal()], noise=GAUSS)
    with pytest.raises(pv.errors.NumericalFailure, match="does not settle"):
        rough.at([1.0])
    kink = pv.NonlinearModel(lambda t: [np.abs(t[0] - 1.0) ** 0.5], noise=GAUSS)
    with pytest.raises(pv.errors.NumericalFailure, match="does not settle"):
        kink.at([1.0])


def test_errors_of_the_model():
    with pytest.raises(pv.errors.InvalidInput, match="pass theta"):
        pv.bound(pv.NonlinearModel(curve, noise=GAUSS), pv.PrivacyLevel(1.0))
    wrong = pv.NonlinearModel(curve, noise=GAUSS, jacobian=lambda t: np.ones((3, 7)))
    with pytest.raises(pv.errors.InvalidInput, match=r"shape \(7, 3\)"):
        wrong.at(THETA)
    with pytest.raises(pv.errors.InvalidInput, match=r"F\(theta\) must be finite"):
        pv.NonlinearModel(lambda t: [np.nan], noise=GAUSS).at([1.0])
    with pytest.raises(pv.errors.InvalidInput, match="must be a function"):
        pv.NonlinearModel(3.0, noise=GAUSS)


@given(problems())
def test_the_averaged_constraint_has_the_same_floor_and_another_name(p):
    model = pv.LinearModel(p.H, noise=pv.noise.Gaussian(cov=p.cov))
    level = pv.PrivacyLevel(p.level)
    pointwise, average = pv.bound(model, level), pv.bounds.averaged_bound(model, level)
    assert np.array_equal(pointwise.information, average.information)
    assert (pointwise.constraint, average.constraint) == ("pointwise", "average")


def test_the_averaged_floor_holds_for_a_mechanism_that_only_keeps_the_average():
    """z = y with probability q, else nothing (and the receiver sees which).

    I_z(y) is then infinite on an event; smoothed: z = y + N(0, 1/a) with probability q, else silence
    carries I = q·a on average over the coin. As an unbiased estimate θ̂ from K such readings of a
    scalar θ has information Σ coin_k a/(1 + aσ²), the expected information K q a/(1 + aσ²) stays below
    the PI = K qa/(1 + qaσ²) of the averaged level s = qa."""
    variance, count = 0.5, 10
    model = pv.LinearModel(np.ones((count, 1)), noise=pv.noise.Gaussian(cov=variance))
    for q in (0.1, 0.5, 1.0):
        for a in (0.1, 1.0, 100.0):
            floor = pv.bounds.averaged_bound(model, pv.PrivacyLevel(q * a))
            attained = count * q * a / (1 + a * variance)
            assert attained <= floor.information[0, 0] * (1 + 1e-12)
