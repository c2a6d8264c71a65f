"""Where rounding would spoil a stream there is an error, not a number; and nothing is half done."""

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput, NumericalFailure
from stream_oracle import dense_estimate

UNIT = pv.noise.Gaussian(cov=1.0)


def release_of(level, values, start=0, missing=None):
    values = np.atleast_1d(np.asarray(values, dtype=float))
    steps = len(values) // level.block
    return pv.Release(start, steps, values, missing, level.fingerprint, True)


@pytest.mark.parametrize("heavy", [1e5, 1e9])
def test_heavy_rows_keep_the_light_ones(heavy):
    level = pv.StreamLevel.constant(1.0)
    rls = pv.PrivateRLS(level, 2, UNIT)
    for k, row in enumerate(([1.0, 0.0], [0.0, 1.0], [heavy, 1.1 * heavy])):
        rls.update(release_of(level, 0.1, k), row)
    # exact, heavy -> infinity: the direction across (1, 1.1) keeps information 1/2
    across = np.array([1.1, -1.0])
    limit = 2 * np.outer(across, across) / (across @ across)
    assert np.abs(rls.covariance - limit).max() < 1e-4 * (1e5 / heavy) ** 0.5 + 1e-6


@pytest.mark.parametrize("heavy", [1e13, 1e16, 1e20])
@pytest.mark.parametrize("lags", [[], [1e-9]])
def test_rows_that_drown_others_are_noticed(heavy, lags):
    level = pv.StreamLevel.constant(1.0, lags=lags)
    rls = pv.PrivateRLS(level, 2, UNIT)
    for k, row in enumerate(([1.0, 0.0], [0.0, 1.0], [heavy, 1.1 * heavy])):
        rls.update(release_of(level, 0.1, k), row)
    for ask in ("value", "covariance", "estimate"):
        with pytest.raises(NumericalFailure, match="so much heavier"):
            getattr(rls, ask)
    rls.update(release_of(level, 0.1, 3), [heavy, -heavy])  # the other direction, as heavy
    assert np.isfinite(rls.value).all()


@pytest.mark.parametrize("strength", [1e13, 1e15, 1e17])
@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("lags", [[], [0.3]])
def test_a_lost_unit_is_an_error_banded(strength, count, lags):
    """Two readings with the same noise: V = s·11ᵀ + I is numerically singular."""
    level = pv.StreamLevel.constant(strength * np.eye(2), lags=lags)
    rls = pv.PrivateRLS(level, 1, pv.noise.Gaussian(cov=[[1.0, 1.0], [1.0, 1.0]]))
    H = np.tile([[1.0], [2.0]], (count, 1))
    with pytest.raises(NumericalFailure, match="loses the unit release noise"):
        rls.update(release_of(level, np.zeros(2 * count)), H)
    assert rls.steps == 0
    assert not rls.information.any()


@pytest.mark.parametrize("size", [2, 40])
def test_a_lost_unit_is_an_error_dense(size):
    """Later steps show step 0 again, 1e15 times the noise, and a little of themselves."""
    S, U = np.full(size, 0.25), np.zeros((size, size))
    S[0], U[1:, 0] = 1e15, 0.5 * np.sqrt(1e15)
    level = pv.StreamLevel(S, U)
    assert level.form == "dense"
    rls = pv.PrivateRLS(level, 1, UNIT)
    with pytest.raises(NumericalFailure, match="loses the unit release noise"):
        rls.update(release_of(level, np.zeros(size)), np.ones((size, 1)))
    assert rls.steps == 0


def test_a_failed_update_changes_nothing():
    level = pv.StreamLevel.constant(1e16 * np.eye(2), lags=[0.3])
    one = pv.noise.Gaussian(cov=[[1.0, 1.0], [1.0, 1.0]])
    fine = pv.noise.Gaussian(cov=np.eye(2))
    calm, tried = (pv.PrivateRLS(level, 1, fine) for _ in range(2))
    H = np.ones((2, 1))
    for rls in (calm, tried):
        rls.update(release_of(level, [1.0, 2.0]), H)
    both = release_of(level, [1.0, 2.0, 3.0, 4.0], 1)
    cov = np.zeros((4, 4))
    cov[:2, :2], cov[2:, 2:] = np.eye(2), one.cov.dense()  # the second of two steps fails
    with pytest.raises(NumericalFailure):
        tried.update(both, np.ones((4, 1)), noise=pv.noise.Gaussian(cov=cov))
    for rls in (calm, tried):
        rls.update(both, np.ones((4, 1)))
    assert np.array_equal(calm.covariance, tried.covariance)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 5}, "cannot have"),
        ({"steps": 10**12}, "cannot have"),
        ({"missing": [False]}, "2 times true or false"),
        ({"missing": [0, 1]}, "2 times true or false"),
        ({"missing": [False, True]}, "absent at those that are"),
        ({"start": -1}, "start must be a whole number"),
    ],
)
def test_a_release_that_contradicts_itself_is_refused(change, message):
    level = pv.StreamLevel.constant(1.0)
    record = release_of(level, [0.1, 0.2]).to_dict()
    with pytest.raises(InvalidInput, match=message):
        pv.Release.from_dict(record | change)


def test_releases_fit_the_level():
    level = pv.StreamLevel(np.ones(3))
    rls = pv.PrivateRLS(level, 1, UNIT)
    with pytest.raises(InvalidInput, match="ends after 3 steps"):
        rls.update(release_of(level, np.zeros(4)), np.ones((4, 1)))
    for k in range(3):
        rls.update(release_of(level, 0.0, k), [1.0])
    with pytest.raises(InvalidInput, match="ends after 3 steps"):
        rls.update(release_of(level, 0.0, 3), [1.0])
    short = pv.Release(0, 2, np.zeros(1), None, level.fingerprint, True)
    with pytest.raises(InvalidInput, match="2 steps of this stream has 2 values; received 1"):
        pv.PrivateRLS(level, 1, UNIT).update(short, [[1.0]])
    pair = pv.Release(0, 1, np.zeros(2), None, level.fingerprint, True)
    with pytest.raises(InvalidInput, match="1 step of this stream has 1 value; received 2"):
        pv.PrivateRLS(level, 1, UNIT).update(pair, [1.0])


def test_no_flag_set_means_nothing_missing():
    level = pv.StreamLevel.constant(1.0)
    for missing in (None, np.array([False])):
        rls = pv.PrivateRLS(level, 1, UNIT)
        rls.update(release_of(level, 0.1, missing=missing), [1.0])
        assert rls.information[0, 0] == pytest.approx(0.5)
    record = release_of(level, 0.1).to_dict()
    assert pv.Release.from_dict(record).missing is None
    assert not pv.Release.from_dict(record | {"missing": [False]}).missing.any()


@pytest.mark.parametrize("lags", [[], [0.4]])
@pytest.mark.parametrize("finite", [True, False])
def test_vector_laws_hold_at_every_step_of_a_block(lags, finite):
    """Unequal laws and means of the readings of one step, several steps at once."""
    rng = np.random.default_rng(0)
    law = pv.noise.Gaussian(cov=[0.5, 2.0], mean=[3.0, -4.0])
    level = pv.StreamLevel.constant(np.diag([1.0, 3.0]), lags=lags)
    level = level.first(5) if finite else level
    H, y = rng.standard_normal((10, 2)), rng.standard_normal(10)
    release = pv.StreamMechanism(level).simulate(y, rng)
    whole, steps = pv.PrivateRLS(level, 2, law), pv.PrivateRLS(level, 2, law)
    whole.update(release, H)
    for k in range(5):
        steps.update(release.part(k, k + 1, (2,) * 5), H[2 * k : 2 * k + 2])
    assert np.allclose(whole.value, steps.value, rtol=0, atol=1e-12)
    model = pv.LinearModel(
        H, pv.noise.Gaussian(cov=np.tile([0.5, 2.0], 5), mean=np.tile([3.0, -4.0], 5))
    )
    batch = level if finite else level.first(5)
    expected = dense_estimate(model, batch, release.values)
    assert np.allclose(whole.value, expected, rtol=0, atol=1e-10)
    assert np.allclose(whole.covariance, pv.bound(model, batch)[4].covariance, rtol=1e-10)


def test_a_mean_with_missing_readings():
    rng = np.random.default_rng(2)
    level, noise = pv.StreamLevel.constant(2.0), pv.noise.Gaussian(cov=0.5, mean=3.0)
    H, y = rng.standard_normal((60_000, 2)), rng.standard_normal(60_000) + 3.0
    y[::7] = np.nan
    release = pv.StreamMechanism(level).simulate(y, rng)
    rls = pv.PrivateRLS(level, 2, noise)
    rls.update(release, H)
    seen = ~np.isnan(y)
    centred = release.values[seen] / np.sqrt(2.0) - 3.0
    assert np.allclose(rls.value, np.linalg.lstsq(H[seen], centred)[0], rtol=0, atol=1e-11)


def test_units_do_not_decide_what_a_target_shows():
    for unit in ([1e8, 1.0], [1.0, 1e-8], [1e5, 1e-4]):
        scale = np.diag(unit)
        target = scale @ np.array([[1.0, 0.5], [0.5, 1.0]]) @ scale
        found = pv.StreamLevel.from_cumulative(target).cumulative()
        assert np.abs(found / target - 1).max() < 1e-12
    assert pv.StreamLevel.from_cumulative(np.diag([1e16, 1.0])).cumulative()[1, 1] == 1.0


def test_range_condition_is_tight():
    S = np.diag([1.0, 0.0])
    for outside, good in ((1e-12, True), (1e-5, False)):
        U = [None, np.array([[1.0, outside], [0.5, 0.0]])]
        if good:
            pv.StreamLevel([np.eye(2), S], U)
            continue
        with pytest.raises(pv.errors.InvalidInput, match="U of step 1"):
            pv.StreamLevel([np.eye(2), S], U)


def test_the_fingerprint_is_of_what_is_used():
    """Two factors of one S, a rotation apart, are two levels: their releases do not mix."""
    S = np.eye(3) - 1 / 3
    level = pv.StreamLevel([S] * 4)
    turned = pv.StreamLevel([S] * 4)
    lower = np.asarray(turned._own_transposed[0]).T
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    other = pv.linalg.Blocks([S] * 4, [lower @ turn] * 4)
    turned = pv.StreamLevel._of(pv.linalg.IndependentRows(other), turned.sizes)
    assert turned.fingerprint != level.fingerprint


def test_masked_integers_and_bad_generators():
    mechanism = pv.StreamMechanism(pv.StreamLevel.constant(1.0))
    rng = np.random.default_rng(0)
    masked = np.ma.masked_array([1, 2], mask=[False, True])
    assert mechanism.simulate(masked, rng).missing.tolist() == [False, True]
    for bad in (np.ma.masked_array(["a"], mask=[False]), [[1.0], [1.0, 2.0]]):
        with pytest.raises(InvalidInput, match="measurements must be"):
            mechanism.simulate(bad, rng)
    with pytest.raises(InvalidInput, match=r"numpy\.random\.Generator"):
        mechanism.simulate(1.0, 5)
    with pytest.raises(InvalidInput, match="sequence of weights"):
        pv.StreamLevel.constant(1.0, lags=0.5)


@pytest.mark.parametrize("steps", [6, 40])  # dense, banded
@pytest.mark.parametrize("block", [1, 30])
def test_rounding_of_what_cancels_is_not_information(steps, block):
    """Only differences of readings are shown, and all readings see the same: nothing of θ."""
    S = np.ones(steps)
    S[0] = 0.0
    level = pv.StreamLevel(S, np.diag(-np.ones(steps - 1), -1))
    assert level.form == ("dense" if steps == 6 else "banded")
    rng = np.random.default_rng(0)
    H = np.where(rng.random((steps, 2)) < 0.5, 0.1 * 3, 0.3)  # equal but for the last bit
    assert len(np.unique(H)) == 2
    rls = pv.PrivateRLS(level, 2, UNIT)
    for a in range(0, steps, block):
        values = rng.standard_normal(len(H[a : a + block]))
        rls.update(release_of(level, values, a), H[a : a + block])
    assert not rls.identifiable
    assert rls.hidden_directions.shape == (2, 2)


def test_the_fingerprint_of_an_estimator_knows_the_mean():
    level = pv.StreamLevel.constant(1.0)
    marks = {
        pv.PrivateRLS(level, n, pv.noise.Gaussian(cov=cov, mean=mean)).fingerprint
        for n, cov, mean in ((1, 1.0, 0.0), (2, 1.0, 0.0), (1, 2.0, 0.0), (1, 1.0, 3.0))
    }
    assert len(marks) == 4


@pytest.mark.parametrize("steps", [12, 60])  # one by one, and by LAPACK
def test_a_lost_unit_is_an_error_banded_scalar(steps):
    S, U = np.full(steps, 0.25), np.zeros((steps, steps))
    S[0], U[1, 0] = 1e15, 0.5 * np.sqrt(1e15)
    level = pv.StreamLevel(S, U)
    assert (level.form, level.reach) == ("banded", 1)
    rls = pv.PrivateRLS(level, 1, UNIT)
    with pytest.raises(NumericalFailure, match="loses the unit release noise"):
        rls.update(release_of(level, np.zeros(steps)), np.ones((steps, 1)))
    assert rls.steps == 0
