"""Without privacy (S → ∞) the estimates are those of statsmodels' RecursiveLS on the same data."""

import numpy as np
import pytest
import statsmodels.api as sm

import privest as pv
from stream_oracle import rls_path

LARGE = 1e12


@pytest.mark.parametrize("lags", [[], [0.5, -0.25]])
def test_estimates_and_covariances(lags):
    rng = np.random.default_rng(0)
    H, theta, sigma = rng.standard_normal((300, 4)), np.array([1.0, -2.0, 0.5, 3.0]), 0.3
    y = H @ theta + sigma * rng.standard_normal(300)
    peer = sm.RecursiveLS(y, H).filter()
    level, noise = pv.StreamLevel.constant(LARGE, lags=lags), pv.noise.Gaussian(cov=sigma**2)
    mechanism, rls = pv.StreamMechanism(level), pv.PrivateRLS(level, 4, noise)
    # The release noise is 1e-6 of a reading; statsmodels starts from a diffuse prior, exactly.
    for k in range(300):
        rls.update(mechanism.simulate(y[k], rng), H[k])
        if k >= 10:
            assert np.abs(rls.value - peer.filtered_state[:, k]).max() < 1e-4
    cov = (
        peer.filtered_state_cov[:, :, -1] / peer.scale * sigma**2
    )  # its own estimate of σ² taken out
    assert np.abs(rls.covariance - cov).max() < 1e-6 * np.abs(cov).max()
    releases = np.sqrt(LARGE) * (
        y + sum(w * np.r_[np.zeros(j), y[:-j]] for j, w in enumerate(lags, start=1))
    )
    estimates = rls_path(pv.LinearModel(H, noise=noise), level.first(300), releases)
    states = peer.filtered_state.T[-len(estimates) :]
    good = slice(5, None)  # the first estimates magnify what both sides round
    assert np.abs(estimates[good] - states[good]).max() < 1e-8
