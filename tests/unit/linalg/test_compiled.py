"""The compiled loops: when they are used, and that nobody can tell from the results."""

import importlib.util

import numpy as np
import pytest

import privest as pv
from privest.bounds import stream_bound, stream_estimates
from privest.linalg import compiled, compiling

needs_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None,
    reason="the extra privest[compiled] is not installed",
)


def problem(kind, rng, steps=700):
    n = 3
    m = 2 if "vector" in kind else 1
    H, z = rng.standard_normal((steps * m, n)), rng.standard_normal(steps * m)
    if m == 2:
        half = rng.standard_normal((steps, 2, 2))
        S = half @ half.transpose(0, 2, 1)
    else:
        S = rng.uniform(0.2, 2, steps)
        S[rng.random(steps) < 0.2] = 0.0
    weights = [0.5, -0.3, 0.2, 0.1, 0.6][: 5 if "banded" in kind else 0]
    level = pv.StreamLevel(S, lags=weights) if weights else pv.StreamLevel(S)
    variance = rng.uniform(0.1, 1, steps * m)
    return pv.LinearModel(H, noise=pv.noise.Gaussian(cov=variance)), level, z


@needs_numba
@pytest.mark.parametrize("kind", ["scalar", "vector", "banded", "banded vector"])
def test_same_results_as_numpy(kind):
    """The same operations in nearly the same order: 1e-12 is far above their rounding."""
    model, level, z = problem(kind, np.random.default_rng(0))
    estimates, bound = stream_estimates(model, level, z, compiled=False)
    again, other = stream_estimates(model, level, z, compiled=True)
    expected, found = (own.covariance[own.identifiable] for own in (bound, other))
    size = np.abs(expected).max(axis=(1, 2), keepdims=True)
    assert (np.abs(found - expected) < 1e-12 * size).all()
    size = 1 + np.abs(estimates).max(axis=1, keepdims=True)
    assert (np.abs(again - estimates) < 1e-12 * size).all()
    for array in (model.matrix, z):  # as from a memory map
        array.setflags(write=False)
    alone = stream_bound(model, level, compiled=True)
    assert np.array_equal(stream_estimates(model, level, z, compiled=True)[0], again)
    assert (alone.first, other.first) == (bound.first,) * 2
    assert np.abs(alone.covariance[alone.identifiable] - found).max() < 1e-12 * np.abs(found).max()


@needs_numba
def test_long_streams_use_them_by_themselves():
    assert compiled.wanted(None, compiled.LONG)
    assert not compiled.wanted(None, compiled.LONG - 1)
    assert not compiled.wanted(False, compiled.LONG)
    assert compiled.wanted(True, 1)


def test_without_numba_only_who_insists_is_refused(monkeypatch):
    monkeypatch.setattr(compiling, "installed", lambda: False)
    assert not compiled.wanted(None, 10**7)
    model, level, z = problem("scalar", np.random.default_rng(1), steps=20)
    stream_estimates(model, level, z)
    with pytest.raises(pv.errors.MissingDependency, match=r"privest\[compiled\]"):
        stream_bound(model, level, compiled=True)


@needs_numba
def test_no_place_for_the_cache_is_no_failure(monkeypatch):
    import numba

    njit, asked = numba.njit, []

    def without_cache(*args, cache=None, **options):
        if cache is not None:
            asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*args, **options)

    monkeypatch.setattr(numba, "njit", without_cache)
    compiling.machine_code.cache_clear()
    try:
        compiled.gram(np.ones((3, 2)), np.ones(3), 1.0, 1.0, 0.0)
    finally:
        compiling.machine_code.cache_clear()
    assert asked == [True, False]


@pytest.mark.parametrize("route", [False, pytest.param(True, marks=needs_numba)])
def test_lost_release_noise_is_an_error_on_both_routes(route):
    """V = 1e20·[[1, 1], [1, 1]] + I in double precision is singular."""
    model = pv.LinearModel(np.eye(2), noise=pv.noise.Gaussian(cov=[1.0, 0.0]))
    level = pv.StreamLevel([1e20, 1e20], lags=[1.0])
    with pytest.raises(pv.errors.NumericalFailure, match="numerically singular"):
        stream_bound(model, level, compiled=route)
