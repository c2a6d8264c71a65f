"""The log-likelihood of releases under a state-space model."""

from __future__ import annotations

import numpy as np

from privest.dynamics._identification._data import Data
from privest.dynamics._identification._matrices import Matrices
from privest.dynamics._means import filtered_means, log_density
from privest.dynamics._observed import observed, offsets
from privest.dynamics._sweep import forward


def log_likelihood(matrices: Matrices, data: Data) -> float:
    """ℓ of all series: the sum of `Filtered.log_likelihood`."""
    system = matrices.system()
    seen = observed(system, data.level, data.steps, data.missing, unit=data.unit)
    inputs = data.inputs if data.inputs.shape[1] else None
    shift, offset, _ = offsets(system, data.level, seen, inputs, unit=data.unit)
    sweep = forward(seen)
    means = filtered_means(seen, sweep, data.values.copy(), shift, offset)
    total = float(log_density(sweep, means.innovations, data.missing).sum())
    return total + data.shown * float(np.log(data.unit))
