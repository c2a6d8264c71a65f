"""An object of the wrong kind is refused with a word about the right one."""

import numpy as np
import pytest

import privest as pv
from privest import dynamics

LINEAR = dynamics.StateSpace(0.5, 1.0, 1.0, 1.0, cov0=1.0)
CURVED = dynamics.ExtendedStateSpace(
    lambda x: 0.5 * x, lambda x: x, Q=1.0, R=1.0, mean0=[0.0], cov0=1.0
)
LEVEL = pv.EndlessLevel(1.0)
RELEASE = pv.StreamMechanism(LEVEL).simulate(np.zeros((3, 1)), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: dynamics.filter_unscented(LINEAR, LEVEL, RELEASE), "filter_releases"),
        (lambda: dynamics.filter_extended(LINEAR, LEVEL, RELEASE), "filter_releases"),
        (lambda: dynamics.filter_unscented(None, LEVEL, RELEASE), "ExtendedStateSpace"),
        (lambda: dynamics.filter_releases(CURVED, LEVEL, RELEASE), "filter_extended"),
        (lambda: dynamics.filter_releases(None, LEVEL, RELEASE), "NoneType"),
        (lambda: dynamics.smooth(None), "filter_releases"),
        (lambda: dynamics.predict(RELEASE, 1), "StreamRelease"),
    ],
)
def test_the_wrong_kind_is_named(call, said):
    with pytest.raises(pv.errors.InvalidInput, match=said):
        call()
