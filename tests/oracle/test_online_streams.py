"""The online pair against the batch and the literal algorithms: any partition, missing readings."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from privest.linalg.sequential import DenseRows
from strategies import relative_error
from stream_oracle import dense_estimate
from theorems.test_streams import Stream, streams


def partition(rng, steps):
    """Where a stream of so many steps is cut into blocks: single steps and longer ones."""
    cuts = [0]
    while cuts[-1] < steps:
        cuts.append(min(steps, cuts[-1] + int(rng.choice([1, 1, 2, 5, 30]))))
    return list(itertools.pairwise(cuts))


def per_step(stream):
    """The noise of a release of some steps: its covariance is block-diagonal."""
    return lambda first, last: pv.noise.Gaussian(
        cov=stream.cov[stream.starts[first] : stream.starts[last]][
            :, stream.starts[first] : stream.starts[last]
        ]
    )


@given(streams())
def test_any_partition_gives_the_batch_results(s):
    level, rng = s.level, s.rng
    y = rng.standard_normal(s.M)
    mechanism = pv.StreamMechanism(level)
    rls = pv.PrivateRLS(level, s.H.shape[1], noise=pv.noise.Gaussian(cov=1.0))
    released, noise = [], per_step(s)
    bound = pv.bound(s.model(), level)
    for first, last in partition(rng, level.steps):
        part = slice(s.starts[first], s.starts[last])
        release = mechanism.simulate(y[part], rng)
        released.append(release.values)
        rls.update(release, s.H[part], noise=noise(first, last))
        expected = bound.information[last - 1]
        assert np.abs(rls.information - expected).max() <= 1e-9 * np.abs(expected).max()
        if bound.first is None or last - 1 < bound.first:
            assert not rls.identifiable
            with pytest.raises(pv.errors.NotIdentifiable, match="directions are hidden"):
                _ = rls.value
            continue
        assert rls.identifiable
        condition = np.linalg.cond(bound.information[last - 1])
        if condition < 1e6:
            assert relative_error(rls.covariance, bound[last - 1].covariance) < 1e-9
    if rls.identifiable and condition < 1e6:
        expected = dense_estimate(s.model(), level, np.concatenate(released))
        assert np.abs(rls.value - expected).max() < 1e-8 * (1 + np.abs(rls.value).max())


@settings(max_examples=60)
@given(streams(), st.floats(0.1, 0.6))
def test_a_missing_reading_is_a_step_at_level_zero(s, share):
    """Row and later coefficients of a missing reading are zero: compare with that level."""
    level, rng = s.level, s.rng
    missing = rng.random(level.steps) < share
    hidden = np.repeat(missing, s.sizes)
    y = np.where(hidden, np.nan, rng.standard_normal(s.M))
    rows = level.rows.dense().copy()
    rows[hidden] = 0
    rows[:, hidden] = 0
    zeroed = pv.StreamLevel._of(DenseRows(rows, max(level.sizes)), level.sizes)
    mechanism = pv.StreamMechanism(level)
    rls = pv.PrivateRLS(level, s.H.shape[1], noise=pv.noise.Gaussian(cov=1.0))
    released, noise = [], per_step(s)
    for first, last in partition(rng, level.steps):
        part = slice(s.starts[first], s.starts[last])
        release = mechanism.simulate(y[part], rng)
        assert (np.isnan(release.values) == hidden[part]).all()
        if missing[first:last].any():
            assert (release.missing == missing[first:last]).all()
        released.append(release.values)
        rls.update(release, s.H[part], noise=noise(first, last))
    bound = pv.bound(s.model(), zeroed)
    scale = max(np.abs(bound.information[-1]).max(), 1e-9)
    assert np.abs(rls.information - bound.information[-1]).max() < 1e-9 * scale
    if bound.first is not None and np.linalg.cond(bound.information[-1]) < 1e6:
        shown = np.nan_to_num(np.concatenate(released))
        expected = dense_estimate(s.model(), zeroed, shown)
        assert np.abs(rls.value - expected).max() < 1e-8 * (1 + np.abs(rls.value).max())


@pytest.mark.parametrize("reach", [0, 2, 40])
def test_a_release_is_what_the_level_says(reach):
    """z̃ − e = A y: two streams with the same noise differ by exactly A(y − y')."""
    s = Stream(1, 40, 2, reach, 2, singular=True)
    level, y = s.level, s.rng.standard_normal((2, s.M))
    z = []
    for measurements in y:
        mechanism, rng = pv.StreamMechanism(level), np.random.default_rng(7)
        parts = [
            mechanism.simulate(measurements[s.starts[a] : s.starts[b]], rng).values
            for a, b in partition(np.random.default_rng(2), 40)
        ]
        z.append(np.concatenate(parts))
    expected = level.rows.dense() @ (y[0] - y[1])
    assert np.abs((z[0] - z[1]) - expected).max() < 1e-12 * np.abs(expected).max()


@pytest.mark.parametrize("lags", [[], [0.5], [0.4, -0.3, 0.2]])
@pytest.mark.parametrize("m", [1, 2])
def test_an_endless_level_is_the_finite_one_of_any_length(lags, m):
    rng = np.random.default_rng(5)
    S = 0.7 if m == 1 else np.array([[1.0, 0.3], [0.3, 0.5]])
    endless = pv.StreamLevel.constant(S, lags=lags)
    finite = endless.first(50)
    assert (endless.form, endless.reach) == (finite.form, finite.reach)
    interior = finite.final_blocks().dense()[10 * m : 11 * m, 10 * m : 11 * m]
    assert np.allclose(endless.final_blocks().dense(), interior)
    for move in (0.5, pv.privacy.Adjacency.block(0.5)):
        assert endless.to_mu(sensitivity=move) == pytest.approx(finite.to_mu(sensitivity=move))
        assert endless.to_epsilon(delta=1e-5, sensitivity=move) > 0
    noise = pv.noise.Gaussian(cov=0.3 if m == 1 else [[0.4, 0.1], [0.1, 0.3]])
    H, y = rng.standard_normal((50 * m, 3)), rng.standard_normal(50 * m)
    results = []
    for level in (endless, finite):
        mechanism, rls = pv.StreamMechanism(level), pv.PrivateRLS(level, 3, noise=noise)
        source = np.random.default_rng(9)
        for a, b in ((0, 1), (1, 2), (2, 9), (9, 50)):
            rls.update(mechanism.simulate(y[a * m : b * m], source), H[a * m : b * m])
        results.append((rls.value, rls.covariance))
    assert relative_error(results[0][0], results[1][0]) < 1e-13
    assert relative_error(results[0][1], results[1][1]) < 1e-13
    with pytest.raises(pv.errors.InvalidInput, match="ends after 50 steps"):
        mechanism.simulate(np.zeros(m), source)


def test_noise_with_a_mean_does_not_bias():
    """E w is taken off: the same data with and without a shift give the same estimates."""
    rng = np.random.default_rng(0)
    H, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    for level in (pv.StreamLevel.constant(2.0), pv.StreamLevel.constant(2.0, lags=[0.5])):
        estimates = []
        for mean in (0.0, 3.0):
            mechanism = pv.StreamMechanism(level)
            rls = pv.PrivateRLS(level, 2, noise=pv.noise.Gaussian(cov=0.5, mean=mean))
            source = np.random.default_rng(1)
            rls.update(mechanism.simulate(y[:1] + mean, source), H[:1])
            rls.update(mechanism.simulate(y[1:] + mean, source), H[1:])
            estimates.append(rls.value)
        assert np.allclose(estimates[0], estimates[1], rtol=0, atol=1e-12)


def test_noise_can_change_from_step_to_step():
    rng = np.random.default_rng(3)
    H, y = rng.standard_normal((20, 2)), rng.standard_normal(20)
    variances = rng.uniform(0.1, 2, 20)
    level = pv.StreamLevel.constant(1.0, lags=[0.3])
    mechanism, rls = pv.StreamMechanism(level), pv.PrivateRLS(level, 2, pv.noise.Gaussian(cov=1.0))
    for k in range(20):
        release = mechanism.simulate(y[k], rng)
        rls.update(release, H[k], noise=pv.noise.Gaussian(cov=variances[k]))
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=variances))
    assert relative_error(rls.covariance, pv.bound(model, level.first(20))[19].covariance) < 1e-12


def test_hidden_directions_are_named_until_they_are_seen():
    level, rng = pv.StreamLevel.constant(1.0), np.random.default_rng(0)
    mechanism, rls = pv.StreamMechanism(level), pv.PrivateRLS(level, 2, pv.noise.Gaussian(cov=1.0))
    with pytest.raises(pv.errors.NotIdentifiable, match="After 0 steps"):
        _ = rls.value
    for _ in range(5):  # five readings of one direction are not two parameters
        rls.update(mechanism.simulate(1.0, rng), [1.0, 1.0])
        with pytest.raises(pv.errors.NotIdentifiable, match=r"θ\[0\], θ\[1\]") as caught:
            _ = rls.covariance
        assert np.abs(caught.value.hidden_directions[:, 0]) == pytest.approx([0.5**0.5] * 2)
    rls.update(mechanism.simulate(1.0, rng), [1.0, 0.0])
    assert rls.identifiable
    assert rls.hidden_directions.shape == (2, 0)
    assert rls.value.shape == rls.standard_error.shape == (2,)


def test_misfit_is_chi_square():
    """Mean of ‖Gθ̂ − ζ‖² over 400 streams: M − n, standard error √(2(M − n)/400)."""
    rng = np.random.default_rng(8)
    level, noise, theta = (
        pv.StreamLevel.constant(1.0, lags=[0.5]),
        pv.noise.Gaussian(cov=0.4),
        np.ones(2),
    )
    H, found = rng.standard_normal((40, 2)), []
    for _ in range(400):
        mechanism, rls = pv.StreamMechanism(level), pv.PrivateRLS(level, 2, noise)
        y = H @ theta + noise.sample(40, rng)
        rls.update(mechanism.simulate(y, rng), H)
        found.append(rls.misfit)
    assert abs(np.mean(found) - 38) < 4.9 * np.sqrt(2 * 38 / 400)  # false alarm 1e-6


def pair(level=None):
    level = pv.StreamLevel.constant(1.0) if level is None else level
    return pv.StreamMechanism(level), pv.PrivateRLS(level, 2, pv.noise.Gaussian(cov=1.0))


def test_bad_input_is_refused_and_changes_nothing():
    mechanism, rls = pair()
    rng = np.random.default_rng(0)
    first, second = mechanism.simulate(0.1, rng), mechanism.simulate([0.2, 0.3], rng)
    with pytest.raises(pv.errors.InvalidInput, match="next step is 0; this release starts at"):
        rls.update(second, np.eye(2))
    rls.update(first, [1.0, 2.0])
    with pytest.raises(pv.errors.InvalidInput, match="used once, in order"):
        rls.update(first, [1.0, 2.0])
    with pytest.raises(pv.errors.InvalidInput, match=r"shape \(2, 2\); received \(2, 3\)"):
        rls.update(second, np.zeros((2, 3)))
    with pytest.raises(pv.errors.InvalidInput, match="H must be finite"):
        rls.update(second, [[1.0, np.inf], [0.0, 1.0]])
    with pytest.raises(pv.errors.InvalidInput, match="3 components; this release has 2"):
        rls.update(second, np.eye(2), noise=pv.noise.Gaussian(cov=[1.0, 2.0, 3.0]))
    with pytest.raises(pv.errors.InvalidInput, match="ties steps together"):
        rls.update(second, np.eye(2), noise=pv.noise.Gaussian(cov=[[1.0, 0.5], [0.5, 1.0]]))
    other, _ = pair(pv.StreamLevel.constant(2.0))
    other.simulate(0.1, rng)  # so that its next release has the step that is wanted
    with pytest.raises(pv.errors.InvalidInput, match="another level"):
        rls.update(other.simulate([0.1, 0.2], rng), np.eye(2))
    with pytest.raises(pv.errors.InvalidInput, match="next step is 1"):
        rls.update(first, [1.0, 2.0])
    with pytest.raises(pv.errors.InvalidInput, match="takes a Release"):
        rls.update(1.3, [1.0, 2.0])
    assert (rls.steps, rls.measurements) == (1, 1)
    rls.update(second, np.eye(2))
    assert rls.identifiable
    with pytest.raises(pv.errors.InvalidInput, match="H must be finite"):
        rls.update(mechanism.simulate(0.1, rng), np.array([1.0, np.nan]))
    assert rls.steps == 3


def test_errors_of_the_mechanism_show_no_reading():
    mechanism, _ = pair()
    rng = np.random.default_rng(0)
    for bad in (np.inf, [0.1, -np.inf], "12.5", np.zeros((2, 2)), [], [12.5 + 1j]):
        with pytest.raises(pv.errors.InvalidInput) as caught:
            mechanism.simulate(bad, rng)
        assert "12.5" not in str(caught.value)
    assert mechanism.steps == 0
    with pytest.raises(pv.errors.InvalidInput, match="level is None"):
        pv.StreamMechanism(None)
    with pytest.raises(pv.errors.InvalidInput, match="or a StreamLevel"):
        pv.PrivateRLS(pv.PrivacyLevel([1.0, 2.0]), 2, pv.noise.Gaussian(cov=1.0))
    with pytest.raises(pv.errors.InvalidInput, match="whole number"):
        pv.PrivateRLS(pv.StreamLevel.constant(1.0), 0, pv.noise.Gaussian(cov=1.0))
    assert "0.3" not in repr(mechanism)


def test_masked_readings_are_missing():
    mechanism, _ = pair()
    rng = np.random.default_rng(0)
    y = np.ma.masked_array([1.0, 2.0, np.nan], mask=[False, True, False])
    assert mechanism.simulate(y, rng).missing.tolist() == [False, True, True]
    assert mechanism.simulate(np.ma.masked, rng).missing.tolist() == [True]


def test_changing_sizes_need_whole_steps():
    level = pv.StreamLevel([np.eye(2), np.eye(3), np.eye(2)])
    mechanism, rng = pv.StreamMechanism(level), np.random.default_rng(0)
    with pytest.raises(pv.errors.InvalidInput, match="next step has 2 measurements"):
        mechanism.simulate(np.zeros(3), rng)
    assert mechanism.simulate(np.zeros(5), rng).steps == 2
    with pytest.raises(pv.errors.InvalidInput, match="do not end with a step"):
        mechanism.simulate(np.zeros(4), rng)


def test_a_release_travels_as_json():
    mechanism, rls = pair()
    release = mechanism.simulate([0.1, np.nan, 0.3], np.random.default_rng(0))
    again = pv.Release.from_dict(json.loads(json.dumps(release.to_dict())))
    assert np.array_equal(again.values, release.values, equal_nan=True)
    assert again.missing.tolist() == [False, True, False]
    rls.update(again, np.array([[1.0, 0.0], [5.0, 5.0], [0.0, 1.0]]))
    assert rls.identifiable
    with pytest.raises(pv.errors.InvalidInput, match="not a stream release"):
        pv.Release.from_dict({"start": 0})
    assert not [name for name in dir(release) if name in ("y", "readings", "past")]


def test_memory_does_not_grow_with_the_stream():
    level = pv.StreamLevel.constant(1.0, lags=[0.5, 0.2])
    mechanism, rls = pair(level)
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(3):
        for _ in range(20):
            H = rng.standard_normal((7, 2))
            rls.update(mechanism.simulate(rng.standard_normal(7), rng), H)
        arrays = [*rls.state().values(), *mechanism.state().values()]
        sizes.append(sum(a.nbytes for a in arrays))
    assert sizes[0] == sizes[1] == sizes[2]


@pytest.mark.parametrize("lags", [[], [0.5, -0.2]])
def test_long_blocks_and_the_batch_agree(lags):
    rng = np.random.default_rng(0)
    K = 60_000
    H, y = rng.standard_normal((K, 3)), rng.standard_normal(K)
    y[7::1000] = np.nan
    level, noise = pv.StreamLevel.constant(1.5, lags=lags), pv.noise.Gaussian(cov=0.4)
    mechanism = pv.StreamMechanism(level)
    whole = mechanism.simulate(y, rng)
    one, many = (pv.PrivateRLS(level, 3, noise) for _ in range(2))
    one.update(whole, H)
    sizes = (1,) * K
    for a, b in ((0, 10), (10, 30_000), (30_000, 30_001), (30_001, K)):
        many.update(whole.part(a, b, sizes), H[a:b])
    assert relative_error(one.value, many.value) < 1e-11
    assert relative_error(one.covariance, many.covariance) < 1e-11


def test_estimates_take_off_the_mean_of_the_noise():
    rng = np.random.default_rng(0)
    H, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    for level in (pv.StreamLevel.constant(2.0), pv.StreamLevel.constant(2.0, lags=[0.5])):
        found = []
        for mean in (0.0, 3.0):
            release = pv.StreamMechanism(level).simulate(y + mean, np.random.default_rng(1))
            rls = pv.PrivateRLS(level, 2, pv.noise.Gaussian(cov=0.5, mean=mean))
            rls.update(release, H)
            found.append(rls.value)
        assert np.allclose(found[0], found[1], rtol=0, atol=1e-9)


@pytest.mark.slow
def test_a_hundred_thousand_single_steps():
    """One reading an update, b = 4: still the result of one update to 1e-9 after 10⁵ of them."""
    rng = np.random.default_rng(0)
    steps = 100_000
    level, noise = (
        pv.StreamLevel.constant(1.0, lags=[0.5, -0.3, 0.2, 0.1]),
        pv.noise.Gaussian(cov=0.4),
    )
    H, y = rng.standard_normal((steps, 3)), rng.standard_normal(steps)
    mechanism, rls = pv.StreamMechanism(level), pv.PrivateRLS(level, 3, noise)
    released = np.empty(steps)
    for k in range(steps):
        release = mechanism.simulate(y[k], rng)
        released[k] = release.values[0]
        rls.update(release, H[k])
    model = pv.LinearModel(H, noise=noise)
    whole = pv.PrivateRLS(level, 3, noise)
    whole.update(pv.Release(0, steps, released, None, level.fingerprint, True), H)
    assert relative_error(rls.value, whole.value) < 1e-9
    bound = pv.bound(model, level.first(steps))
    assert relative_error(rls.covariance, bound[steps - 1].covariance) < 1e-9
