"""Maximum likelihood on a device, where there is none: a stand-in that refuses implicit copies.

On a real device the same is asked by `tests/contracts/test_gpu.py`.
"""

import sys

import numpy as np
import pytest

import stand_in_device
from privest.errors import InvalidInput, MissingDependency
from privest.estimator import _mle, estimate_release, maximum_likelihood
from privest.estimator import device as route
from privest.estimator.device import as_backend
from privest.estimator.likelihood import (
    BinaryLikelihood,
    ConvolvedLikelihood,
    GaussianLikelihood,
    InverseGaussianLikelihood,
    InverseLaplaceLikelihood,
    LaplaceLikelihood,
    QuadratureLikelihood,
    QuantiserLikelihood,
    Rowwise,
    TwinUniformLikelihood,
    VoigtLikelihood,
)
from privest.mechanism import Additive, ProbabilisticQuantiser
from privest.model import LinearModel
from privest.noise import CosSquared, Gaussian, Laplace, Logistic

rng = np.random.default_rng(5)
H = rng.uniform(-1, 1, (6, 2))
THETA, SD = np.array([0.7, -0.4]), 0.2
Y = THETA @ H.T + SD * rng.standard_normal((60, 6))
LAPLACE = LaplaceLikelihood(SD**2, scale=0.8)
VOIGT = VoigtLikelihood(SD**2, scale=0.5)
INVERSE = InverseGaussianLikelihood(SD**2, sd=0.5, truncation=0.3)
PLAIN = {
    "Laplace": (LAPLACE, Y + rng.laplace(scale=0.8, size=Y.shape)),
    "Cauchy": (VOIGT, Y + 0.5 * rng.standard_cauchy(Y.shape)),
    "1/Gaussian": (INVERSE, Y / (1.0 + 0.5 * rng.standard_normal(Y.shape))),
    "1/Gaussian, not truncated": (
        InverseGaussianLikelihood(np.linspace(0.02, 0.05, 6), sd=0.5),
        Y / (1.0 + 0.5 * rng.standard_normal(Y.shape)),
    ),
}
BITS = (Y + rng.laplace(size=Y.shape) <= 0.2) * 1.0
ARRAYS = {
    "Gaussian": (GaussianLikelihood(SD**2, noise=1.0), Y + rng.standard_normal(Y.shape)),
    "Laplace bits": (BinaryLikelihood(SD**2, law=Laplace(1.0), threshold=0.2), BITS),
    "Gaussian bits": (BinaryLikelihood(SD**2, law=Gaussian(1.0), threshold=0.2), BITS),
    "quantiser": (
        QuantiserLikelihood(ProbabilisticQuantiser(0.5, dither="triangular"), SD**2),
        np.round(Y * 2) / 2,
    ),
    "a table": (ConvolvedLikelihood(CosSquared(2.0), SD**2), Y + 0.3),
    "a table, far out": (ConvolvedLikelihood(Logistic(0.01), SD**2), 300.0 * Y),
    "1/Laplace": (
        InverseLaplaceLikelihood(SD**2, scale=0.5, truncation=0.3),
        Y[:8] / (1.0 + rng.laplace(scale=0.5, size=(8, 6))),
    ),
    "twin uniform": (TwinUniformLikelihood(SD**2, inner=0.25, outer=0.75), Y[:2] * 1.4),
    "by row": (Rowwise([LAPLACE, VOIGT] * 3), PLAIN["Cauchy"][1][:20]),
}


@pytest.fixture
def device(monkeypatch):
    yield stand_in_device.installed(monkeypatch)
    stand_in_device.forgotten()


def close(here, there):
    """The same arithmetic in another order: roundings, magnified by the curvature's."""
    assert np.array_equal(here.converged, there.converged)
    assert np.allclose(here.log_likelihood, there.log_likelihood, rtol=0, atol=1e-9)
    sure = here.converged
    assert np.allclose(here.value[sure], there.value[sure], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", [*PLAIN, *ARRAYS])
def test_the_same_numbers(name, device):
    likelihood, z = (PLAIN | ARRAYS)[name]
    here = maximum_likelihood(H, z, likelihood)
    there = maximum_likelihood(H, z, likelihood, backend="cupy")
    assert isinstance(there.value, np.ndarray)
    close(here, there)


@pytest.mark.parametrize("iterations", [1, 2])
def test_iterations_run_out_at_the_same_place(iterations, device, monkeypatch):
    monkeypatch.setattr(_mle, "ITERATIONS", iterations)
    likelihood, z = PLAIN["Cauchy"]
    here = maximum_likelihood(H, z, likelihood, starts=0)
    there = maximum_likelihood(H, z, likelihood, starts=0, backend="cupy")
    assert not here.converged.all()
    assert np.array_equal(here.converged, there.converged)
    assert np.allclose(here.value, there.value, rtol=1e-9, atol=1e-9)  # that of the Voigt profile


@pytest.mark.parametrize("name", ["Laplace", "Cauchy", "1/Laplace"])
def test_nothing_is_copied_in_between(name, device):
    """In: z, H and what does not depend on the trials. Out: the result."""
    likelihood, z = (PLAIN | ARRAYS)[name]
    maximum_likelihood(H, z[:4], likelihood, backend="cupy")
    fixed = dict(device.copied)  # of the constants, and 4 trials
    device.copied.update({"in": 0, "out": 0})
    maximum_likelihood(H, z, likelihood, backend="cupy")
    n = H.shape[1]
    more = len(z) - 4
    assert device.copied["out"] - fixed["out"] == more * (n + 2)
    # constants once more for each evaluation in arrays, never in proportion to the trials
    budget = more * len(H) + 200 * (2 * len(H) + 2 * n)
    assert device.copied["in"] - fixed["in"] <= budget
    own = device.asarray(z)
    device.copied.update({"in": 0, "out": 0})
    found = maximum_likelihood(H, own, likelihood, backend="cupy")
    assert device.copied["out"] == 0
    assert isinstance(found.value, stand_in_device.Remote)
    assert isinstance(found.converged, stand_in_device.Remote)
    close(maximum_likelihood(H, z, likelihood), _fetched(found))


def _fetched(found):
    from dataclasses import fields, replace

    arrays = {f.name: getattr(found, f.name).get() for f in fields(found)}
    return replace(found, **arrays)


@pytest.mark.parametrize("name", ["Laplace", "Cauchy"])
def test_blocks_follow_the_memory_and_change_nothing(name, monkeypatch):
    likelihood, z = PLAIN[name]
    many = np.tile(z, (20, 1))
    results, blocks = [], []
    for free in (2**30, 2**10):
        stand_in_device.installed(monkeypatch, free)
        blocks.append(as_backend("cupy").block(30))
        results.append(maximum_likelihood(H, many, likelihood, backend="cupy"))
        stand_in_device.forgotten()
    assert blocks[0] > blocks[1] == route.LEAST
    assert len(many) * (16 if likelihood.several_maxima else 1) > blocks[1]
    assert np.allclose(results[0].value, results[1].value, rtol=1e-12, atol=1e-13)


def test_start_points_and_releases_of_a_model(device):
    likelihood, z = PLAIN["Cauchy"]
    points = np.array([[0.0, 0.0], [1.0, 1.0]])
    here = maximum_likelihood(H, z, likelihood, starts=points)
    close(here, maximum_likelihood(H, z, likelihood, starts=points, backend="cupy"))
    model = LinearModel(H, noise=SD**2)
    channel = Additive(Laplace(0.8))
    z = PLAIN["Laplace"][1]
    here = estimate_release(z, model, channel)
    close(here, estimate_release(z, model, channel, backend="cupy"))
    close(here, estimate_release(device.asarray(z), model, channel, backend="cupy"))


def test_refusals(device):
    with pytest.raises(InvalidInput, match="numpy or cupy; received 'jax'"):
        maximum_likelihood(H, Y, LAPLACE, backend="jax")
    numerical = QuadratureLikelihood(Additive(Laplace(1.0)), 0.04)
    with pytest.raises(InvalidInput, match="QuadratureLikelihood is written for NumPy's arrays"):
        maximum_likelihood(H, Y, numerical, backend="cupy")
    with pytest.raises(InvalidInput, match="lies on a graphics processor"):
        maximum_likelihood(H, device.asarray(Y), LAPLACE)
    with pytest.raises(InvalidInput, match="6 measurements and H 5 rows"):
        maximum_likelihood(H[:5], device.asarray(Y), LAPLACE, backend="cupy")
    with pytest.raises(InvalidInput, match="finite"):
        maximum_likelihood(H, device.asarray(Y * np.nan), LAPLACE, backend="cupy")
    with pytest.raises(InvalidInput, match="60 of 60 trials"):
        maximum_likelihood(H, device.asarray(0.0 * Y), INVERSE, backend="cupy")


def test_no_cupy(monkeypatch):
    route.cupy_backend.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MissingDependency, match=r"privest\[gpu\]"):
        maximum_likelihood(H, Y, LAPLACE, backend="cupy")


@pytest.mark.parametrize("raises", [True, False])
def test_no_device(raises, monkeypatch):
    module = stand_in_device.installed(monkeypatch)

    def count():
        if raises:
            raise module.cuda.runtime.CUDARuntimeError("cudaErrorNoDevice")
        return 0

    module.cuda.runtime.getDeviceCount = count
    with pytest.raises(MissingDependency, match="sees no graphics processor"):
        maximum_likelihood(H, Y, LAPLACE, backend="cupy")
    stand_in_device.forgotten()
