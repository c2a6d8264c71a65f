"""The audit against the whole catalogue: calibrated mechanisms hold, tightly; others are told."""

import math

import numpy as np
import pytest

from privest.audit import certify, fisher_information
from privest.errors import NotCalibratable
from privest.mechanism import CATALOGUE, Componentwise, calibrate

ENDLESS = {
    "uniform", "staircase", "inverse-gaussian", "inverse-laplace", "twin-uniform", "rotation",
    "probabilistic-quantiser", "gain-gaussian", "gain-uniform",
}  # fmt: skip


def audit(mechanism, level):
    return certify(mechanism, level, samples=20_000, rng=np.random.default_rng(1))


LONG = {"truncated-inverse-gaussian", "truncated-inverse-laplace"}  # six seconds each
CALIBRATED = [
    pytest.param(name, marks=pytest.mark.processes if name in LONG else ())
    for name in sorted(set(CATALOGUE) - ENDLESS)
]


@pytest.mark.parametrize("name", CALIBRATED)
def test_calibrated_mechanisms_hold_and_are_tight(name):
    mechanism = calibrate(name, 0.7, model=2)
    found = audit(mechanism, 0.7)
    everywhere = "holds on the examined domain" if found.domain else "holds"
    assert found.verdict == everywhere, str(found)
    assert bool(found) == (not found.domain)
    if isinstance(mechanism, Componentwise):
        assert abs(found.margin - 1) < 1e-3
        assert found.error < 1e-3
    else:  # simulated scores: an interval at 0.999 for 40 reading vectors together
        assert abs(found.margin - 1) < found.error + 0.05
    # The same mechanism does not pass at four fifths of its level.
    assert audit(mechanism, 0.56).verdict == "violated"


@pytest.mark.parametrize("name", sorted(ENDLESS))
def test_infinite_information_is_said(name):
    with pytest.raises(NotCalibratable):
        calibrate(name, 0.7, model=2)
    found = audit(CATALOGUE[name].example(2), 1e9)
    assert found.verdict == "violated", str(found)
    assert found.margin == math.inf
    assert "formula" not in str(found)


CHANNELS = [n for n in sorted(CATALOGUE) if isinstance(CATALOGUE[n].example(2), Componentwise)]


@pytest.mark.parametrize("name", CHANNELS)
def test_their_own_information_is_what_the_numbers_give(name):
    mechanism = CATALOGUE[name].example(2)
    for y in ([0.31, -0.77], [1.9, 0.05]):
        own, found = mechanism.information(y), fisher_information(mechanism, y)
        if np.isinf(own).any():
            assert (np.isinf(own) == np.isinf(found.matrix)).all()
            continue
        tolerance = found.error + 1e-8 * np.abs(own)
        assert (np.abs(own - found.matrix) <= tolerance).all()
