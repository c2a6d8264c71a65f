"""Many scalar levels at once against `bound` one by one."""

import json
import warnings

import numpy as np
import pytest

import privest as pv
from privest.bounds import sweep as sweep_of
from privest.errors import InvalidInput, NotIdentifiable
from privest.noise import Gaussian, Laplace
from strategies import psd_matrix

M, N = 12, 3
LEVELS = np.r_[0.0, np.geomspace(1e-6, 1e6, 41)]


def noises(rng):
    singular = psd_matrix(rng, M, 4)
    blocks = np.stack([psd_matrix(rng, 3) for _ in range(4)])
    return {
        "number": Gaussian(cov=0.3),
        "Laplace": Laplace(0.7),
        "diagonal": Gaussian(cov=rng.random(M) + 0.1),
        "diagonal with zeros": Gaussian(cov=np.r_[0.0, 0.0, rng.random(M - 2)]),
        "scales": [c * Laplace(1.0) for c in rng.random(M) + 0.5],
        "blocks": Gaussian(cov=blocks),
        "dense": Gaussian(cov=psd_matrix(rng, M)),
        "graded": Gaussian(cov=np.diag(10.0 ** np.arange(-6, 6)) + 1e-8 * np.ones((M, M))),
        "singular": Gaussian(cov=singular + singular.T),
    }


@pytest.mark.parametrize("name", noises(np.random.default_rng(0)))
@pytest.mark.parametrize("units", [1.0, [1.0, 1e8, 1e-8]])
def test_a_sweep_is_every_bound(name, units):
    rng = np.random.default_rng(1)
    model = pv.LinearModel(rng.standard_normal((M, N)) * units, noise=noises(rng)[name])
    sweep = sweep_of(model, LEVELS)
    assert sweep.covariance.shape == sweep.information.shape == (len(LEVELS), N, N)
    for k, s in enumerate(LEVELS):
        one = pv.bound(model, s)
        assert sweep.identifiable[k] == one.identifiable
        assert np.allclose(sweep.classical, one.classical, rtol=1e-12, atol=0)
        size = np.sqrt(np.outer(*2 * [np.diag(one.information)])) if s else np.ones((N, N))
        assert (np.abs(sweep.information[k] - one.information) <= 1e-9 * size).all()
        if not one.identifiable:
            assert np.isinf(sweep.trace[k])
            assert np.isinf(sweep.standard_error[k]).all()
            continue
        # The weights are good to 1e-10 (`INVISIBLE`); the inverse adds the condition of H.
        error = np.outer(one.standard_error, one.standard_error)
        assert (np.abs(sweep.covariance[k] - one.covariance) <= 1e-8 * error).all()
        floor = np.sqrt(np.outer(*2 * [np.diag(one.cost_floor)]))
        assert (np.abs(sweep.cost_floor[k] - one.cost_floor) <= 1e-10 * floor).all()
        assert np.isclose(sweep.trace[k], np.trace(one.covariance), rtol=1e-8)


def test_ill_conditioned_designs_go_through_the_kernel():
    """A column that another nearly repeats: the Gram matrix would lose the digits."""
    rng = np.random.default_rng(2)
    matrix = rng.standard_normal((M, N))
    matrix[:, 2] = matrix[:, 0] + 1e-5 * matrix[:, 2]
    for noise in (Gaussian(cov=rng.random(M) + 0.1), Gaussian(cov=psd_matrix(rng, M))):
        model = pv.LinearModel(matrix, noise=noise)
        sweep = sweep_of(model, [0.1, 1.0, 10.0])
        for s, found in zip(sweep.levels, sweep.covariance):
            # eps times the condition of the root, 1e5 or so, of both
            assert np.allclose(found, pv.bound(model, s).covariance, rtol=1e-7)


def test_what_a_sweep_says_of_itself():
    model = pv.LinearModel([[1.0], [1.0]], noise=2.0, names=["mean"])
    sweep = sweep_of(model, [0.0, 1.0, 2.0])
    assert repr(sweep) == "Bound(3 levels from 0 to 2, 1 parameter)"
    assert len(sweep) == 3
    assert isinstance(sweep, pv.Bound)
    stored = json.loads(json.dumps(sweep.to_dict()))
    assert stored["names"] == ["mean"]
    assert stored["covariance"][0] == [["Infinity"]]
    assert np.ravel(stored["covariance"][1:]) == pytest.approx([1.5, 1.25])
    assert stored["identifiable"] == [False, True, True]
    assert stored["classical_error"] == pytest.approx([1.0])


def test_a_nonlinear_model_needs_its_theta():
    model = pv.NonlinearModel(lambda t: [t[0] ** 2, t[0]], noise=1.0, names=["size"])
    sweep = sweep_of(model, [1.0], theta=[2.0])
    assert np.allclose(sweep.covariance[0], pv.bound(model, 1.0, theta=[2.0]).covariance)
    assert sweep.names == ("size",)
    with pytest.raises(InvalidInput, match="pass theta"):
        sweep_of(model, [1.0])


@pytest.mark.parametrize("levels", [[], [-1.0], [[1.0]], 1.0, [np.nan], None])
def test_what_is_no_list_of_levels_is_refused(levels):
    with pytest.raises(InvalidInput):
        sweep_of(pv.LinearModel([[1.0]], noise=1.0), levels)


def test_what_no_level_shows_is_an_error():
    with pytest.raises(NotIdentifiable, match="rank 1 of 2"):
        sweep_of(pv.LinearModel([[1.0, 1.0], [2.0, 2.0]], noise=1.0), [1.0])


def test_extreme_levels_neither_overflow_nor_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for noise in (
            Gaussian(cov=1.0),
            Gaussian(cov=[1.0, 2.0]),
            Gaussian(cov=[[2.0, 1], [1, 2]]),
        ):
            sweep = sweep_of(pv.LinearModel([[1.0], [2.0]], noise=noise), [1e-300, 1e300])
            assert np.isfinite(sweep.trace).all()
            assert np.isclose(sweep.trace[1], sweep.classical[0, 0], rtol=1e-9)
