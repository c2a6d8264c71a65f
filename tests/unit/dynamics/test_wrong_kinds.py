"""An object of the wrong kind is refused with a word about the right one."""

import numpy as np
import pytest

import privest as pv
from privest import dynamics

LINEAR = dynamics.StateSpace(0.5, 1.0, 1.0, 1.0, cov0=1.0)
CURVED = dynamics.NonlinearStateSpace(
    lambda x: 0.5 * x, lambda x: x, Q=1.0, R=1.0, mean0=[0.0], cov0=1.0
)
LEVEL = pv.StreamLevel.constant(1.0)
RELEASE = pv.StreamMechanism(LEVEL).simulate(np.zeros((3, 1)), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: dynamics.filter(LINEAR, RELEASE, level=LEVEL, method="unscented"),
            'method="kalman"',
        ),
        (
            lambda: dynamics.filter(LINEAR, RELEASE, level=LEVEL, method="extended"),
            'method="kalman"',
        ),
        (
            lambda: dynamics.filter(None, RELEASE, level=LEVEL, method="unscented"),
            "NonlinearStateSpace",
        ),
        (lambda: dynamics.filter(CURVED, RELEASE, level=LEVEL), 'method="extended"'),
        (lambda: dynamics.filter(None, RELEASE, level=LEVEL), "NoneType"),
    ],
)
def test_the_wrong_kind_is_named(call, said):
    with pytest.raises(pv.errors.InvalidInput, match=said):
        call()
