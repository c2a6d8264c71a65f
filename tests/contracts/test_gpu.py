"""On a real graphics processor: the same numbers as this processor's, from seed to result.

Skipped where there is none; `benchmarks/gpu_run.py` asks the same and more, and takes the time.
"""

import numpy as np
import pytest

from privest.errors import MissingDependency
from privest.estimator import maximum_likelihood
from privest.estimator.device import as_backend
from privest.estimator.likelihood import (
    NUMPY,
    GaussianLikelihood,
    LaplaceLikelihood,
    Rowwise,
    VoigtLikelihood,
    _additive,
    likelihood_of,
)
from privest.mechanism import calibrate
from privest.paper import _on_device
from privest.paper._engine import Counter, counter
from privest.paper._methods import PAPER, THETA, method_of, setting_of


def reason():
    """Why there is no device to test on; None: there is one."""
    try:
        as_backend("cupy")
    except MissingDependency as error:
        return str(error)
    return None


WHY = reason()
pytestmark = pytest.mark.skipif(WHY is not None, reason=WHY or "")
H = setting_of().model.matrix


def trials(count, seed=7):
    rng = np.random.default_rng(seed)
    return rng, THETA @ H.T + 0.2 * rng.standard_normal((count, 10))


def problem(name, count):
    rng, y = trials(count)
    if name == "gaussian":
        return GaussianLikelihood(0.04, noise=1.0), y + rng.standard_normal(y.shape)
    if name == "by row":
        laplace, cauchy = LaplaceLikelihood(0.04, scale=1.0), VoigtLikelihood(0.04, scale=0.7)
        return Rowwise([laplace, cauchy] * 5), y + 0.7 * rng.standard_cauchy(y.shape)
    mechanism = calibrate(name, 1.0, model=10)
    return likelihood_of(mechanism, 0.04), mechanism.simulate(y, rng)


def test_random_numbers():
    there = as_backend("cupy")
    for start in (0, 10**12):
        numbers = Counter((3, 2**64 - 9), start)
        found = there.host(numbers.uniform(1000, 7, there))
        assert np.array_equal(found, numbers.uniform(1000, 7, NUMPY))


def test_voigt():
    """Twice what each may be off by (`tests/oracle/test_voigt.py`)."""
    there = as_backend("cupy")
    rng = np.random.default_rng(1)
    x, y = 10.0 ** rng.uniform(-3, 8, 20_000), 10.0 ** rng.uniform(-4, 5, 20_000)
    K, slope, bend = _additive.profile(x, y)
    found = _additive.profile(there.xp.asarray(x), there.xp.asarray(y), there.xp)
    height, tilt, bent = (one.get() for one in found)
    unit = np.minimum(1.0, 1.0 / np.hypot(x, y))
    assert np.abs(np.log(height / K)).max() < 2e-13
    assert (np.abs(tilt - slope) / unit).max() < 2e-11
    assert (np.abs((bent - tilt**2) - (bend - slope**2)) / unit**2).max() < 2e-9


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("gaussian", 500), ("laplace", 2000), ("cauchy", 1000), ("by row", 300),
        ("truncated-inverse-gaussian", 100), ("truncated-inverse-laplace", 20),
        ("binary-laplace", 300), ("triangular-quantiser", 300),
    ],
)  # fmt: skip
def test_estimates(name, count):
    likelihood, z = problem(name, count)
    here = maximum_likelihood(H, z, likelihood)
    there = maximum_likelihood(H, z, likelihood, backend="cupy")
    # Of several maxima as high another may win by rounding: allowed in 1 of 200.
    apart = np.abs(here.log_likelihood - there.log_likelihood)
    same = apart < 1e-6
    assert same.mean() >= 0.995
    assert apart[same].max() < 1e-9
    sure = same & here.converged & there.converged
    change = np.abs(here.value - there.value)[sure].max(axis=1)
    assert np.median(change) < 1e-12
    assert np.quantile(change / (1.0 + np.abs(here.value[sure]).max(axis=1)), 0.99) < 1e-7


@pytest.mark.parametrize("name", PAPER)
def test_the_experiment(name):
    method, numbers, setting = method_of(name), counter(name, 0, 1), setting_of()
    count, there = (50 if "inverse" in name else 500), as_backend("cupy")
    here = _on_device.squared_errors_there(numbers, count, method, 1.0, setting, NUMPY)
    found = _on_device.squared_errors_there(numbers, count, method, 1.0, setting, there)
    off = np.abs(there.host(found) - here) / (1.0 + here)
    assert (off > 1e-6).mean() <= 0.005
    assert np.median(off) < 1e-11
