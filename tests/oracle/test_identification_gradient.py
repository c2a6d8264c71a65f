"""ℓ of releases and its gradient by every matrix, against one dense Gaussian in complex steps."""

import importlib.util

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from dense_likelihood import (
    FORMS,
    STEP,
    dense_log_likelihood,
    direction_of,
    level_of,
    moved,
    random_matrices,
    start_condition,
)
from privest import dynamics
from privest.dynamics._identification._data import data_of
from privest.dynamics._identification._likelihood import log_likelihood, value_and_gradient
from privest.privacy._parts import rows_of_parts

# The dense route solves with V ≥ I, whose condition number is below 1e5 here: 1e5·eps = 2e-11.
RTOL = 1e-10
ROUTES = [False, True] if importlib.util.find_spec("numba") else [False]  # NumPy, machine code


def case(seed, form, *, diffuse, varying=None, series=None):
    """A random model, its data, and the dense ℓ of both."""
    rng = np.random.default_rng(seed)
    steps, n, m = int(rng.integers(6, 12)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    p = int(rng.integers(0, 3))
    names = [name for name in "ACQRBD" if rng.random() < 0.5] if varying else ()
    matrices = random_matrices(
        rng, steps=steps, n=n, m=m, p=p, q=int(rng.integers(1, n + 1)) if diffuse else 0,
        varying=names, radius=rng.uniform(0.3, 1.1),
    )  # fmt: skip
    level = level_of(form, rng, steps, m)
    inputs = rng.standard_normal((steps, p))
    count = int(rng.integers(1, 4))
    y = 2.0 * rng.standard_normal((count, steps, m))
    y[:, rng.random(steps) < 0.15] = np.nan
    y[:, rng.random(steps) < 0.15, 0] = np.nan  # of vectors a part
    release = dynamics.simulate_series(level, y, rng)
    (data,) = data_of(level, release, inputs if p else None, m)
    if data.missing.ndim == 1:
        rows = (level.first(steps) if isinstance(level, pv.EndlessLevel) else level).rows.dense()
        missing = np.repeat(data.missing, m)
    else:  # what a level shows of parts has its own tests
        rows = scipy.linalg.block_diag(*rows_of_parts(level, 0, data.missing))
        missing = data.missing.ravel()

    def dense(of, **options):
        return dense_log_likelihood(
            of, rows, missing, release.values.reshape(count, -1), inputs, **options
        )

    return rng, matrices, data, dense, (rows, missing, inputs)


def require_equal_to_the_complex_step(seed, form, compiled, **options):
    rng, matrices, data, dense, shown = case(seed, form, **options)
    # The dense formula inverts S as well, once more for derivatives.
    rtol = RTOL * start_condition(matrices, *shown) ** 2
    if rtol > 1e-6:
        return  # the releases hardly show where the model starts
    value, gradient = value_and_gradient(matrices, data, compiled=compiled)
    assert value == pytest.approx(dense(matrices).real, rel=rtol, abs=rtol)
    assert log_likelihood(matrices, data, compiled=compiled) == value
    for name in matrices._fields[:-1]:
        found, own = getattr(gradient, name), getattr(matrices, name)
        assert found.shape == own.shape
        direction = direction_of(rng, matrices, name)
        expected = dense(moved(matrices, name, direction)).imag / STEP
        scale = max(1.0, np.abs(found).max(initial=0.0))
        assert (found * direction).sum() == pytest.approx(expected, rel=rtol, abs=rtol * scale)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from(FORMS), st.booleans(), st.sampled_from(ROUTES))
def test_gradient_equals_the_complex_step_of_the_dense_likelihood(seed, form, varying, compiled):
    require_equal_to_the_complex_step(seed, form, compiled, diffuse=False, varying=varying)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from(FORMS), st.booleans(), st.sampled_from(ROUTES))
def test_gradient_of_diffuse_starts_equals_the_complex_step(seed, form, varying, compiled):
    require_equal_to_the_complex_step(seed, form, compiled, diffuse=True, varying=varying)


@pytest.mark.parametrize("compiled", ROUTES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("protected", [False, True])
def test_the_value_is_that_of_the_public_filter(form, protected, compiled):
    rng = np.random.default_rng(3)
    steps, m = 30, 2
    matrices = random_matrices(rng, steps=steps, n=3, m=m, p=1, varying="AC", radius=0.9)
    level, inputs = level_of(form, rng, steps, m), rng.standard_normal((steps, 1))
    y = rng.standard_normal((3, steps, m))
    y[:, 4:6] = np.nan
    if protected:  # its noise has a variance a little above 1
        release = dynamics.release_series(level, y, range=(-5.0, 5.0))
    else:
        release = dynamics.simulate_series(level, y, rng)
    found = dynamics.filter(matrices.system(), release, level=level, inputs=inputs)
    (data,) = data_of(level, release, inputs, m)
    # The same recursions, summed in another order.
    value = log_likelihood(matrices, data, compiled=compiled)
    assert value == pytest.approx(found.log_likelihood.sum(), rel=1e-13)


@pytest.mark.parametrize("compiled", ROUTES)
@pytest.mark.parametrize("n", [1, 2])  # one state and one number have a path of their own
@pytest.mark.parametrize("diffuse", [0, 1])  # what x_0 does ends before the series
@pytest.mark.parametrize("steps", [1, 2, 400])
def test_long_series_settle_and_short_ones_end(steps, diffuse, n, compiled):
    """Against the model with a time axis, whose covariances are found step by step."""
    rng = np.random.default_rng(5)
    matrices = random_matrices(rng, steps=steps, n=n, m=1, p=1, q=diffuse, radius=0.9)
    level = pv.EndlessLevel(0.5)
    y = rng.standard_normal((1, steps, 1))
    y[:, 100:120] = np.nan
    release, inputs = dynamics.simulate_series(level, y, rng), rng.standard_normal((steps, 1))
    (data,) = data_of(level, release, inputs, 1)
    value, gradient = value_and_gradient(matrices, data, compiled=compiled)
    every = matrices._replace(
        **{name: np.repeat(getattr(matrices, name)[None], steps, axis=0) for name in "ACQRBD"}
    )
    expected, parts = value_and_gradient(every, data, compiled=False)
    assert value == pytest.approx(expected, rel=1e-12)
    for name in matrices._fields[:-1]:
        whole = getattr(parts, name).sum(axis=0) if name in "ACQRBD" else getattr(parts, name)
        # Covariances count as settled at 1e-12 of themselves; 400 steps add up.
        assert getattr(gradient, name) == pytest.approx(whole, rel=1e-9, abs=1e-9)


def test_dense_levels_are_refused():
    level = pv.StreamLevel.from_cumulative(np.eye(4) + 0.5, [1] * 4)
    release = pv.StreamMechanism(level).simulate(np.ones(4), np.random.default_rng(0))
    (data,) = data_of(level, release, None, 1)
    matrices = random_matrices(np.random.default_rng(1), steps=4, n=1, m=1)
    with pytest.raises(pv.errors.InvalidInput, match="dense"):
        value_and_gradient(matrices, data)


def test_a_start_that_the_releases_do_not_show_is_refused():
    rng = np.random.default_rng(2)
    matrices = random_matrices(rng, steps=9, n=2, m=1, q=2)._replace(
        A=np.diag([0.5, 0.7]), C=np.array([[1.0, 0.0]])
    )
    release = dynamics.simulate_series(1.0, rng.standard_normal((1, 9, 1)), rng)
    (data,) = data_of(1.0, release, None, 1)
    with pytest.raises(pv.errors.NotIdentifiable, match="1 of the 2 directions") as refused:
        log_likelihood(matrices, data)
    hidden = refused.value.hidden_directions
    assert abs(hidden[0, 0]) < 1e-12 * abs(hidden[1, 0])  # the second state
    (data,) = data_of(1.0, dynamics.simulate_series(1.0, np.ones((1, 1, 1)), rng), None, 1)
    with pytest.raises(pv.errors.NotIdentifiable, match="1 of the 2 directions"):
        value_and_gradient(matrices._replace(C=np.array([[1.0, 1.0]])), data)


@pytest.mark.parametrize("compiled", ROUTES)
@pytest.mark.parametrize("form", FORMS)
def test_diffuse_starts_are_the_limit_of_vague_ones_and_those_of_the_public_filter(form, compiled):
    """ℓ and its gradient: ℓ(κ) + (q/2) log κ differs from its limit by c/κ + O(κ⁻²)."""
    rng = np.random.default_rng(8)
    steps, n, m, q = 25, 3, 2, 2
    matrices = random_matrices(rng, steps=steps, n=n, m=m, p=1, q=q, radius=0.9)
    level, inputs = level_of(form, rng, steps, m), rng.standard_normal((steps, 1))
    y = rng.standard_normal((2, steps, m))
    y[:, 3] = np.nan
    release = dynamics.simulate_series(level, y, rng)
    (data,) = data_of(level, release, inputs, m)
    value, gradient = value_and_gradient(matrices, data, compiled=compiled)
    found = dynamics.filter(matrices.system(), release, level=level, inputs=inputs)
    assert value == pytest.approx(found.log_likelihood.sum(), rel=1e-11)

    def vague(kappa):
        E = matrices.diffuse
        own = matrices._replace(cov0=matrices.cov0 + kappa * E @ E.T, diffuse=np.zeros((n, 0)))
        limit, slope = value_and_gradient(own, data, compiled=compiled)
        return limit + 2 * q / 2 * np.log(kappa), slope

    (first, near), (second, nearer) = vague(1e4), vague(2e4)
    # 2f(2κ) − f(κ) is off by O(κ⁻²), 1e-8 in units of S⁻¹ ~ 1; rounding κ·eps = 1e-12.
    assert value == pytest.approx(2 * second - first, rel=1e-7)
    for name in matrices._fields[:-1]:
        expected = 2 * getattr(nearer, name) - getattr(near, name)
        assert getattr(gradient, name) == pytest.approx(expected, rel=1e-5, abs=1e-5)
