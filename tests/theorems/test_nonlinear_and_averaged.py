"""The two remarks after `thm:crbound`: nonlinear measurements, averaged constraints."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given

import privest as pv
from strategies import problems, relative_error

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
    assert np.array_equal(
        pv.bound(given_jacobian, level, theta=THETA).covariance, expected.covariance
    )
    assert relative_error(numerical.at(THETA).matrix, local.matrix) < 1e-8
    assert (
        relative_error(pv.bound(numerical, level, theta=THETA).covariance, expected.covariance)
        < 1e-6
    )


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


T = np.linspace(0.1, 3, 12)
HIDING = {
    "a parameter that F ignores": lambda t: t[0] * np.sin(T),
    "a product": lambda t: t[0] * t[1] * np.sin(T),
    "a sum": lambda t: (t[0] + t[1]) * np.sin(T),
    "a ratio": lambda t: t[0] / t[1] * np.exp(-T),
    "a step": lambda t: np.floor(t[0]) * T + t[1],
}


@pytest.mark.parametrize("name", HIDING)
@pytest.mark.parametrize("theta", [[1.3, 0.7], [130.3, 0.007], [1e-3, 2e-3]])
def test_rounding_of_differences_is_not_taken_for_information(name, theta):
    """The second direction of θ does not show in F: differences of F are dust there, and a bound
    of 1e22 would be a lie."""
    model = pv.NonlinearModel(HIDING[name], noise=GAUSS)
    refused = (pv.errors.NotIdentifiable, pv.errors.NumericalFailure)  # the step: where it is rough
    with pytest.raises(refused if name == "a step" else pv.errors.NotIdentifiable):
        _ = pv.bound(model, pv.PrivacyLevel(2.0), theta=theta).covariance


@pytest.mark.parametrize(
    "function",
    [
        lambda t: np.abs(t[0] * np.array([0.5, 1.0, 2.0]) - 1.0) + t[1],
        lambda t: np.maximum(t[0] * np.array([0.5, 1.0, 2.0]), 1.0) + t[1],
    ],
)
def test_a_kink_is_refused(function):
    model = pv.NonlinearModel(function, noise=GAUSS)
    with pytest.raises(pv.errors.NumericalFailure, match="kink"):
        model.at([1.0, 0.3])
    assert model.at([1.1, 0.3]).matrix.shape == (3, 2)


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


@pytest.mark.parametrize("offset", [0.0, 0.5, 2.0, 5.0])
def test_the_averaged_floor_holds_where_the_information_varies_with_y(offset):
    """z = 1{y + d ≤ C}, d ~ N(0, τ²): I_z(y) peaks at y = C and falls off, so that the average over
    y ~ N(θ, σ²) is well below the supremum 2/(πτ²). The estimate of θ from z respects the floor of
    the averaged level; the pointwise level would only give a weaker one."""
    variance, tau = 0.5, 1.0

    def information(distance, deviation):
        u = distance / deviation
        log_odds = scipy.stats.norm.logcdf(u) + scipy.stats.norm.logsf(u)
        return np.exp(2 * scipy.stats.norm.logpdf(u) - log_odds) / deviation**2

    average, _ = scipy.integrate.quad(
        lambda w: information(offset - w, tau) * scipy.stats.norm.pdf(w, scale=variance**0.5),
        -12 * variance**0.5,
        12 * variance**0.5,
        epsabs=1e-14,
    )
    model = pv.LinearModel([[1.0]], noise=pv.noise.Gaussian(cov=variance))
    floor = pv.bound(model, average)
    of_theta = information(offset, (variance + tau**2) ** 0.5)
    assert of_theta <= floor.information[0, 0]
    assert average < 2 / (np.pi * tau**2)
    weaker = pv.bound(model, pv.PrivacyLevel(2 / (np.pi * tau**2))).information[0, 0]
    assert floor.information[0, 0] < weaker


@pytest.mark.parametrize("log", [np.log, lambda x: np.float64(__import__("math").log(x))])
def test_a_trial_step_may_leave_the_domain(log):
    """log θ at θ = 0.01: the first step of 0.1 goes below zero; the next scale settles."""
    model = pv.NonlinearModel(lambda t: [log(t[0]), 2 * log(t[0])], noise=GAUSS)
    assert model.at([0.01]).matrix[:, 0] == pytest.approx([100.0, 200.0], rel=1e-7)


@pytest.mark.parametrize("omega", [1, 30, 1000])
def test_wiggles_are_not_leapt_over(omega):
    """A first step of many periods settles on a wrong slope; a tiny step tells."""
    rng = np.random.default_rng(omega)
    model = pv.NonlinearModel(lambda t: [np.sin(omega * t[0]), np.cos(omega * t[0])], noise=GAUSS)
    for t in rng.uniform(0.5, 3, 30):
        found = model.at([t]).matrix[:, 0]
        expected = omega * np.array([np.cos(omega * t), -np.sin(omega * t)])
        assert np.abs(found - expected).max() < 1e-5 * omega


def test_a_narrow_peak_is_not_leapt_over():
    model = pv.NonlinearModel(
        lambda t: [np.exp(-(((t[0] - 1) / 1e-3) ** 2)) + 0.1 * t[0]], noise=GAUSS
    )
    expected = 0.1 - 2 * 1e3 * np.exp(-1.0)
    assert model.at([1.001]).matrix[0, 0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda t: [1e12 * t[0] + t[1], t[1]],
        lambda t: [1e8 * t[0], t[1], t[1] * 2],
    ],
)
def test_readings_of_too_different_scales_are_refused_not_zeroed(function):
    model = pv.NonlinearModel(function, noise=GAUSS)
    with pytest.raises(pv.errors.NumericalFailure, match="too different scales"):
        model.at([1.0, 1.0])


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e7, 1e9, 1e12, 1e15])
def test_a_large_constant_in_f_is_no_missing_dependence(offset):
    """A right number, or that there is none: never "no reading depends on θ[0]"."""
    model = pv.NonlinearModel(lambda p: offset + np.sin(p[0] + T), noise=GAUSS)
    if offset > 1e6:
        with pytest.raises(pv.errors.NumericalFailure, match="take a constant off"):
            model.at([0.3])
        return
    try:
        found = model.at([0.3])
    except pv.errors.NumericalFailure:
        # 2·2⁻⁵²·1e6 over the smallest step: below 1e-6 of the slope for steps above 2e-4 alone,
        # and how far steps are halved is decided by rounding, which BLAS kernels do differently.
        assert offset == 1e6
        return
    off = np.abs(found.matrix[:, 0] - np.cos(0.3 + T)).max()
    assert off <= max(found.accuracy, 1e-12) <= 1e-5
    assert pv.bound(found, 1.0).covariance[0, 0] > 0


@pytest.mark.parametrize("size", [1e-9, 1e-12, 1e-14])
def test_a_faint_dependence_is_not_called_none(size):
    model = pv.NonlinearModel(lambda p: 1.0 + size * np.sin(p[0] + T), noise=GAUSS)
    with pytest.raises(pv.errors.NumericalFailure):
        model.at([0.3])


@pytest.mark.parametrize("offset", [0.0, 3.0, 1e9])
def test_what_f_ignores_is_still_a_column_of_zeros(offset):
    """Or what is flat just here: even functions, and t³ at 0."""
    model = pv.NonlinearModel(lambda p: offset + 0 * p[0] + 0 * T, noise=GAUSS)
    with pytest.raises(pv.errors.NotIdentifiable, match="depends on"):
        _ = pv.bound(model, 1.0, theta=[0.3]).covariance
    for power in (2, 3, 4):
        flat = pv.NonlinearModel(lambda p, k=power: [3.0 + p[0] ** k, p[1]], noise=GAUSS)
        np.testing.assert_allclose(flat.at([0.0, 1.0]).matrix, [[0, 0], [0, 1]], atol=1e-9)
