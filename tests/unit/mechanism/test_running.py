"""What users run, handed to an audit: the code itself draws, the level is what it claims."""

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput
from privest.mechanism.running import RunningMechanism

LEVELS = [
    pv.StreamLevel.constant(2.0),
    pv.StreamLevel.constant(1.0, lags=[0.5, -0.2]),
    pv.StreamLevel.constant([[2.0, 1.0], [1.0, 3.0]]),
    pv.StreamLevel([1.0, 2.0, 0.5, 1.0], 0.1 * np.tril(np.ones((4, 4)), -1)),
]


@pytest.mark.parametrize("level", LEVELS, ids=repr)
def test_a_stream_as_one_mechanism(level):
    stream = pv.StreamMechanism(level)
    running = stream.as_mechanism(4)
    rng = np.random.default_rng(0)
    y = rng.standard_normal(running.measurements)
    fresh = pv.StreamMechanism(level).simulate(y, np.random.default_rng(3)).values
    assert np.array_equal(running.simulate(y, np.random.default_rng(3)), fresh)
    assert running.simulate(y, rng, 5).shape == (5, running.outputs)
    assert stream.steps == 0
    # A of the claims is the A of the code: seeds apart, the noise is what is left.
    rest = fresh - running.matrix @ y
    e = np.random.default_rng(3).standard_normal(len(fresh))
    assert np.allclose(rest, e, rtol=0, atol=1e-14 * max(1, np.abs(fresh).max()))
    info = running.matrix.T @ running.matrix
    assert np.allclose(running.information(y), info, rtol=1e-12, atol=1e-12)
    assert np.allclose(running.score(fresh, y), running.matrix.T @ rest, rtol=1e-12, atol=1e-12)


def test_code_that_releases_another_shape():
    wrong = RunningMechanism(np.eye(2), lambda y, rng: y[:1], "wrong")
    with pytest.raises(InvalidInput, match="claims 2 outputs"):
        wrong.simulate([0.0, 1.0], np.random.default_rng(0))
