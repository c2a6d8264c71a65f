"""C asks for one combination: it may be estimable though θ is not."""

import numpy as np
import pytest

import privest as pv
from privest import design
from privest.errors import NotIdentifiable

RNG = np.random.default_rng(0)
SEEN = RNG.standard_normal((12, 3))
H = np.column_stack([SEEN, SEEN[:, 0] + SEEN[:, 1], np.zeros(12)])  # of θ only three numbers
NOISE = np.linspace(0.5, 2.0, 12)
MODEL, SMALL = pv.LinearModel(H, noise=NOISE), pv.LinearModel(SEEN, noise=NOISE)
ASKED, SAME = H[0] + 2 * H[3], SEEN[0] + 2 * SEEN[3]


def test_the_design_is_that_of_the_parameters_seen():
    found, peer = (
        design.allocate(model, 5.0, criterion=criterion)
        for model, criterion in ((MODEL, ASKED), (SMALL, SAME))
    )
    assert found.value == pytest.approx(peer.value, rel=1e-9)
    assert found.certified
    np.testing.assert_allclose(found.levels, peer.levels, atol=1e-6)
    assert found.value == pytest.approx(found.bound.contrast(ASKED).covariance)
    assert "Proved" in found.summary()
    least = design.least_loss(MODEL, 1.2 * found.value, criterion=ASKED)
    assert least.spent < found.spent
    given, wanted = (
        design.optimality_gap(model, np.ones(12), criterion=criterion)
        for model, criterion in ((MODEL, ASKED), (SMALL, SAME))
    )
    assert (given.value, given.floor) == pytest.approx((wanted.value, wanted.floor))


def test_what_the_readings_do_not_show_is_refused():
    for hidden in ([1.0, 0, 0, 0, 0], [0, 0, 0, 0, 1.0], [1.0, 1.0, 0, -1.0, 0]):
        with pytest.raises(NotIdentifiable):
            design.allocate(MODEL, 5.0, criterion=hidden)
    with pytest.raises(NotIdentifiable):
        design.allocate(MODEL, 5.0)
