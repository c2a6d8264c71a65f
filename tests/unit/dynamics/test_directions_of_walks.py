"""Random walks: a direction that is not shown has no steady state, and the search must go on."""

import numpy as np
import pytest

from privest import dynamics


@pytest.mark.parametrize("slow", [1.0, 0.01, 1e-4])
def test_two_walks_share_the_budget(slow):
    """Separate walks: for each share s the steady error is scalar, so a grid finds the best."""
    walks = dynamics.StateSpace(A=np.eye(2), C=np.eye(2), Q=np.diag([1.0, slow]), R=0.1, cov0=1.0)
    best = dynamics.best_directions(walks, 1.0)

    def error(q, s):
        noise = 0.1 + 1 / s  # P = M − M²/(M + noise), M = P + q
        before = (q + np.sqrt(q**2 + 4 * q * noise)) / 2
        return before * noise / (before + noise)

    share = np.linspace(1e-3, 1 - 1e-3, 200_001)
    total = error(1.0, share) + error(slow, 1 - share)
    assert best.error.sum() == pytest.approx(total.min(), rel=1e-7)
    assert best.information[0, 0] == pytest.approx(share[total.argmin()], abs=1e-3)
