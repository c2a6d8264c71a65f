"""What a running estimator gives: its covariance split, the bounds beside it, estimators joined."""

import json

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput, NotIdentifiable

LAPLACE = pv.noise.Laplace(0.7)


def fed(rls, H, y, rng, noise=None):
    release = pv.StreamMechanism(rls.level).simulate(y, rng)
    rls.update(release, H, noise=noise)
    return release


def sample(rows=40, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, 3)) * [1.0, 5.0, 0.1], rng.standard_normal(rows), rng


@pytest.mark.parametrize("law", [0.5, LAPLACE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("block", [1, 40])
def test_one_level_and_one_law(law, block):
    """Every part is a multiple of the covariance, and that of `pv.bound` on the same rows."""
    H, y, rng = sample()
    rls = pv.PrivateRLS(2.0, 3, law)
    mechanism = pv.StreamMechanism(2.0)
    for at in range(0, 40, block):
        rls.update(mechanism.simulate(y[at : at + block], rng), H[at : at + block])
    found = rls.result(("a", "b", "c"))
    expected = pv.bound(pv.LinearModel(H, law), 2.0)
    variance = law if law == 0.5 else LAPLACE.variance
    np.testing.assert_allclose(found.classical, expected.classical, rtol=1e-10)
    np.testing.assert_allclose(found.bound, expected.covariance, rtol=1e-10)
    np.testing.assert_allclose(found.sampling, variance * np.linalg.inv(H.T @ H), rtol=1e-9)
    np.testing.assert_allclose(found.privacy, np.linalg.inv(H.T @ H) / 2.0, rtol=1e-9)
    # Of a Laplacian: 1/I = b², half its variance.
    ratio = 1.0 if law == 0.5 else (0.49 + 0.5) / (0.98 + 0.5)
    assert found.efficiency == pytest.approx(ratio, rel=1e-12)
    assert found.simulated
    assert found.names == ("a", "b", "c")
    assert json.loads(json.dumps(found.to_dict()))["value"] == rls.value.tolist()


@pytest.mark.parametrize("block", [1, 40])
def test_levels_that_change(block):
    """The bound is known for Gaussian noise; the classical one where it was asked for."""
    H, y, rng = sample()
    level = pv.StreamLevel(rng.uniform(0.5, 2.0, 40))
    y[[3, 17]] = np.nan
    plain, kept = (pv.PrivateRLS(level, 3, 0.5, classical=flag) for flag in (False, True))
    mechanism = pv.StreamMechanism(level)
    for at in range(0, 40, block):
        release = mechanism.simulate(y[at : at + block], rng)
        for rls in (plain, kept):
            rls.update(release, H[at : at + block])
    assert plain.result().classical is plain.result().sampling is None
    seen = H[~np.isnan(y)]
    classical = pv.bound(pv.LinearModel(seen, 0.5), 1.0).classical
    np.testing.assert_allclose(kept.result().classical, classical, rtol=1e-10)
    np.testing.assert_array_equal(kept.result().covariance, plain.result().covariance)
    assert kept.result().efficiency == 1.0


def test_noise_that_changes():
    H, y, rng = sample()
    variances = rng.uniform(0.1, 1.0, 40)
    rls = pv.PrivateRLS(2.0, 3, 1.0, classical=True)
    fed(rls, H, y, rng, pv.noise.Gaussian(cov=variances))
    expected = pv.bound(pv.LinearModel(H, pv.noise.Gaussian(cov=variances)), 2.0)
    np.testing.assert_allclose(rls.result().classical, expected.classical, rtol=1e-10)
    np.testing.assert_allclose(rls.result().covariance, expected.covariance, rtol=1e-10)
    assert rls.result().sampling is None
    other = pv.PrivateRLS(2.0, 3, 1.0)
    fed(other, H, y, rng, LAPLACE)
    assert other.result().bound is None  # its covariance is that of cov w, above the bound


def test_nothing_before_it_is_identifiable():
    with pytest.raises(NotIdentifiable):
        pv.PrivateRLS(1.0, 2, 1.0).result()


def test_a_state_keeps_the_facts():
    H, y, rng = sample()
    rls = pv.PrivateRLS(2.0, 3, 1.0, classical=True)
    fed(rls, H, y, rng, pv.noise.Gaussian(cov=np.full(40, 0.5)))
    again = pv.PrivateRLS(2.0, 3, 1.0, classical=True)
    again.restore(rls.state())
    assert again.result().to_dict() == rls.result().to_dict()


def test_classical_needs_noise_that_is_independent():
    H, y, rng = sample()
    tied = pv.noise.Gaussian(cov=[[1.0, 0.5], [0.5, 1.0]])
    rls = pv.PrivateRLS(pv.StreamLevel.constant(np.eye(2)), 3, tied, classical=True)
    with pytest.raises(InvalidInput, match="`bound` takes any"):
        fed(rls, H, y, rng)


def test_a_law_that_jumps_has_a_result_without_a_floor():
    rls = pv.PrivateRLS(1.0, 1, pv.noise.Uniform(1.0))
    rls.update(pv.StreamMechanism(1.0).simulate([0.3, 0.4], np.random.default_rng(0)), [1.0, 1.0])
    found = rls.result()
    assert found.classical is None
    assert found.bound is None
    assert found.sampling is not None
    assert found.covariance == rls.covariance


def test_an_update_that_fails_leaves_nothing():
    rls = pv.PrivateRLS(1.0, 1, pv.noise.Uniform(1.0), classical=True)
    release = pv.StreamMechanism(1.0).simulate(0.3, np.random.default_rng(0))
    with pytest.raises(pv.errors.InfiniteInformation):
        rls.update(release, [1.0])
    assert (rls.steps, rls.information.tolist()) == (0, [[0.0]])


def test_laws_of_one_variance_are_told_apart():
    one, other = (pv.PrivateRLS(1.0, 2, law) for law in (LAPLACE, LAPLACE.variance))
    assert one.fingerprint != other.fingerprint
