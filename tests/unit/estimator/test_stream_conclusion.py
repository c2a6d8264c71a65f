"""What is said at the end of a stream: intervals with a floor, doubts, checkpoints of before."""

import numpy as np
import pytest
import scipy

import privest as pv
from privest.errors import CheckpointError
from privest.estimator._stream_conclusion import conclude

LEVEL, COUNT = pv.StreamLevel.constant(4.0), 400


def learnt(values, variance=None):
    """An estimator of a mean and a slope from releases with these values."""
    H = np.column_stack([np.ones(COUNT), np.linspace(-1, 1, COUNT)])
    noise = pv.noise.Gaussian(cov=[0.0] if variance is None else variance)
    rls = pv.PrivateRLS(LEVEL, 2, noise, blocks=True)
    rls.update(pv.Release(0, COUNT, values, None, LEVEL.fingerprint, True), H)
    return rls, H


def test_intervals_are_by_blocks_and_no_shorter_than_release_noise_allows():
    rng = np.random.default_rng(1)
    rls, H = learnt(2 * rng.standard_normal(COUNT) + rng.standard_normal(COUNT))
    found = conclude(rls, COUNT, ["mean", "slope"], known=False)
    blocks = rls.block_errors()
    inverse = np.linalg.inv(H.T @ H)
    np.testing.assert_allclose(found.floor, np.sqrt(inverse.diagonal() / 4), rtol=1e-12)
    quantile = scipy.stats.t.ppf(0.975, blocks.degrees_of_freedom)
    half = np.maximum(quantile * blocks.standard_error, scipy.stats.norm.ppf(0.975) * found.floor)
    np.testing.assert_allclose(np.diff(found.interval())[:, 0] / 2, half, rtol=1e-12)
    # hardly any scatter: blocks would give nothing, the noise that is known to be there does
    quiet = conclude(
        learnt(0.01 * rng.standard_normal(COUNT))[0], COUNT, ["mean", "slope"], known=False
    )
    floor = scipy.stats.norm.ppf(0.975) * quiet.floor
    np.testing.assert_allclose(np.diff(quiet.interval())[:, 0] / 2, floor, rtol=1e-12)
    assert "less noise than they say" in quiet.warnings[0]
    assert "less noise" not in " ".join(found.warnings)


def test_a_wrong_variance_is_doubted_and_a_right_one_is_not():
    rng = np.random.default_rng(2)
    values = np.sqrt(1 + 4 * 0.25) * rng.standard_normal(COUNT)  # σ² = 0.25
    names = ["mean", "slope"]
    assert conclude(learnt(values, 0.25)[0], COUNT, names).warnings == ()
    wrong = conclude(learnt(values, 1.0)[0], COUNT, names)
    assert "that variance is wrong" in wrong.warnings[0]
    alone = conclude(learnt(values)[0], COUNT, names, known=False)
    assert alone.noise_variance == pytest.approx(0.25, abs=5 * 0.5 * np.sqrt(2 / COUNT))


def test_a_checkpoint_of_before_is_refused_in_a_sentence(tmp_path):
    path, rows = tmp_path / "s.ckpt", np.ones((3, 1))
    old = pv.PrivateRLS(LEVEL, 1, 1.0)
    with pv.Checkpoint(path, estimator=old) as kept:
        kept.resume()
        old.update(pv.StreamMechanism(LEVEL).simulate([0.1] * 3, np.random.default_rng(0)), rows)
        kept.save()
    with (
        pv.Checkpoint(path, estimator=pv.PrivateRLS(LEVEL, 1, 1.0, blocks=True)) as kept,
        pytest.raises(CheckpointError, match="without sums by blocks of time"),
    ):
        kept.resume()


@pytest.mark.parametrize("variance", [None, 0.25])
def test_a_line_after_every_reading_has_the_same_errors_and_no_interval(variance):
    """What costs time and is not in it is left out: degrees of freedom, memory, doubts."""
    values = 2 * np.random.default_rng(3).standard_normal(COUNT)
    rls, _ = learnt(values, variance)
    known = {"known": variance is not None}
    whole = conclude(rls, COUNT, ["mean", "slope"], **known)
    line = conclude(rls, COUNT, ["mean", "slope"], whole=False, **known)
    np.testing.assert_array_equal(line.value, whole.value)
    np.testing.assert_array_equal(line.stated_error, whole.stated_error)
    np.testing.assert_array_equal(line.by_blocks.standard_error, whole.by_blocks.standard_error)
    assert np.isnan(line.interval()).all()  # rather than a wrong one
    assert (line.doubts, line.by_blocks.correlation) == ((), None)
    assert np.isfinite(whole.interval()).all()
