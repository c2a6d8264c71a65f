"""The series that releases are of, as all of them show it under the model that was fitted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array
from privest.dynamics._filter import Filtered, smooth
from privest.dynamics._steps import stack
from privest.records import Estimated, Record


@dataclass(frozen=True, eq=False, repr=False)
class Signal(Estimated, Record):
    """C x_k + D u_k from all releases: readings without their white error (none where R = 0).

    estimate (…, K, m), covariance (K, m, m), for the fitted parameters as if they were known.
    """

    estimate: Array
    covariance: Array
    simulated: bool

    def __repr__(self) -> str:
        return f"Signal({self.estimate.shape[-2]} steps{', simulated' * self.simulated})"


def signal_of(filtered: Filtered, inputs: Array) -> Signal:
    """The signal of a filter's system; inputs (K, p) as the system takes them."""
    system, found = filtered.system, smooth(filtered)
    C = stack(system.C)
    added = (stack(system.matrices.D) @ inputs[:, :, None])[..., 0] if system.inputs else 0.0
    estimate = (C @ found.estimate[..., None])[..., 0] + added
    covariance = C @ found.covariance @ C.swapaxes(-1, -2)
    return Signal(np.asarray(estimate), np.asarray(covariance), found.simulated)
