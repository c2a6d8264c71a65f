"""Numbers that leave the range of doubles are an error at one door: no bound is 0, inf or NaN."""

import warnings

import numpy as np
import pytest

import privest as pv
from privest import bounds, dynamics, network
from privest.errors import InvalidInput, NumericalFailure
from privest.noise import Gaussian

H = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 4.0]])
SPREAD = np.array([[2.0, 0.5, 0, 0], [0.5, 1.0, 0.2, 0], [0, 0.2, 1.5, 0.1], [0, 0, 0.1, 1.0]])
CELL = np.where(H == 2.0, 1e300, H)

BOUNDS = {
    "bound": lambda m, s: pv.bound(m, s).standard_error,
    "dense level": lambda m, s: pv.bound(m, s * SPREAD).standard_error,
    "contrast": lambda m, s: pv.bound(m, s).contrast([1.0, 1.0]).standard_error,
    "sweep": lambda m, s: bounds.sweep(m, [s, 2 * s]).covariance,
    "stream": lambda m, s: pv.bound(m, pv.StreamLevel.constant(s)).covariance,
    "stream that looks back": lambda m, s: pv.bound(
        m, pv.StreamLevel(np.full(4, s), lags=[0.5])).covariance,
    "dense stream": lambda m, s: pv.bound(
        m, pv.StreamLevel.from_cumulative(s * SPREAD)).covariance,
    "trace budget": lambda m, s: bounds.trace_bound(m, budget=s).total,
    "fusion": lambda m, s: pv.bound(
        *network.joint_model([network.Sensor(m.matrix, m.noise, s)])).covariance,
}  # fmt: skip
WITHOUT_LEVEL = {
    "classical": lambda m, s: pv.bound(m, 1.0).classical,
    "metric": lambda m, s: bounds.trace_bound(m, epsilon=1.0).total,
    "bayesian": lambda m, s: pv.bound(m, 1e6 * np.eye(4), prior=np.eye(2)).covariance,
}


@pytest.mark.parametrize("spread", [None, SPREAD])
@pytest.mark.parametrize("matrix", [CELL, 1e200 * H, 1e-200 * H, H * [1.0, 1e160]])
@pytest.mark.parametrize("name", [*BOUNDS, *WITHOUT_LEVEL])
def test_h_out_of_range(name, matrix, spread):
    model = pv.LinearModel(matrix, noise=Gaussian(cov=1.0 if spread is None else spread))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NumericalFailure, match="State this parameter in another unit"):
            (BOUNDS | WITHOUT_LEVEL)[name](model, 1.0)


@pytest.mark.parametrize("level", [1e306, 5e-324])
@pytest.mark.parametrize("name", BOUNDS)
def test_levels_out_of_range(name, level):
    model = pv.LinearModel(H, noise=Gaussian(cov=1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((NumericalFailure, InvalidInput)):
            BOUNDS[name](model, level)


@pytest.mark.parametrize("unit", [1e140, 1e-140])
@pytest.mark.parametrize("name", [*BOUNDS, "classical", "metric"])  # a prior has units of its own
def test_what_is_in_range_is_computed(name, unit):
    """θ in another unit: variances change by its square, up to rounding of QR, Cholesky and SVD."""
    call = (BOUNDS | WITHOUT_LEVEL)[name]
    near = call(pv.LinearModel(H, noise=Gaussian(cov=1.0)), 2.0)
    far = call(pv.LinearModel(unit * H, noise=Gaussian(cov=1.0)), 2.0)
    power = 1 if name in ("bound", "dense level", "contrast") else 2
    for _ in range(power):
        far = np.asarray(far) * unit
    assert far == pytest.approx(near, rel=1e-11, nan_ok=True)


@pytest.mark.parametrize(("level", "agents"), [([5e-324, 1.0], None), (1e307, 3), (1e-305, 3)])
def test_consensus(level, agents):
    with pytest.raises(NumericalFailure, match="leaves the range"):
        bounds.consensus_bound(level, agents)


@pytest.mark.parametrize("law", [
    lambda: Gaussian(cov=1e-310), lambda: Gaussian(cov=1e305), lambda: pv.noise.Laplace(1e-200),
    lambda: pv.noise.Cauchy(1e200), lambda: pv.noise.StudentT(3.0, 1e-170),
])  # fmt: skip
def test_laws_too_narrow_or_wide_are_told_so(law):
    """1/σ² overflowed and the law was said to jump, or divided by zero."""
    with pytest.raises(InvalidInput, match="Choose another unit"):
        law()


@pytest.mark.parametrize("change", [
    {"A": 1e200}, {"C": 1e160}, {"Q": 1e305}, {"R": 1e-310}, {"cov0": 1e308},
])  # fmt: skip
def test_systems(change):
    with pytest.raises(InvalidInput, match="other units"):
        dynamics.StateSpace(**({"A": 1.0, "C": 1.0, "Q": 1.0, "R": 1.0, "cov0": 1.0} | change))


@pytest.mark.parametrize("C", [1e-200, 1e-100, 1e6])
def test_systems_in_range(C):
    """A measurement that shows hardly anything, or nearly everything."""
    system = dynamics.StateSpace(A=0.5, C=C, Q=1.0, R=1.0, cov0=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pv.bound(system, 1.0, steps=3)
    if C < 1:
        assert found.filtered.ravel() == pytest.approx([1.0, 1.25, 1.3125], rel=1e-12)
    else:
        assert found.filtered.ravel() == pytest.approx(2.0 / C**2, rel=1e-11)


def test_states_known_too_much_better_after_a_step_than_before():
    system = dynamics.StateSpace(A=0.5, C=1e100, Q=1.0, R=1.0, cov0=1.0)
    with pytest.raises(NumericalFailure, match="times better after step 1 than before it"):
        pv.bound(system, 1.0, steps=3)


def test_the_name_of_a_contrast_shows_six_terms():
    found = pv.bound(pv.LinearModel(np.eye(7), noise=1.0), 1.0)
    six = "θ[0] + θ[1] + θ[2] + θ[3] + θ[4] + θ[5]"
    assert found.contrast([1.0] * 6 + [0.0]).names == (six,)
    assert found.contrast([1.0] * 7).names == (f"{six} + …",)
    for wrong in ({}, {"none": 1.0}, [1.0]):
        with pytest.raises(pv.errors.InvalidInput):
            found.contrast(wrong)
