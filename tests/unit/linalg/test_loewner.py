import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privest.errors import InvalidInput
from privest.linalg import loewner, psd
from strategies import psd_matrix


@given(st.integers(1, 8), st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6))
def test_order_margin_and_direction(size, seed, unit):
    rng = np.random.default_rng(seed)
    lower = unit * psd_matrix(rng, size)
    gap = unit * psd_matrix(rng, size, int(rng.integers(1, size + 1)))
    assert loewner(lower, lower + gap)
    assert loewner(lower, lower)
    verdict = loewner(lower + gap, lower)
    assert not verdict
    assert verdict.margin == pytest.approx(-np.linalg.eigvalsh(gap)[-1], rel=1e-6)
    violated = verdict.direction @ gap @ verdict.direction
    assert violated == pytest.approx(-verdict.margin, rel=1e-6)


def test_structures_and_tolerance():
    verdict = loewner(psd([1.0, 3.0], "A"), psd([[2.0, 0.1], [0.1, 2.0]], "B"))
    assert not verdict
    assert loewner([1.0, 1.0], [1.0, 1.0 - 1e-17])
    assert not loewner([1.0, 1.0], [1.0, 1.0 - 1e-9])
    assert loewner([1.0, 1.0], [1.0, 1.0 - 1e-9], rtol=1e-8)
    with pytest.raises(InvalidInput, match="square matrices of one size"):
        loewner(np.eye(2), np.eye(3))
