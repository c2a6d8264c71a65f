"""Models that a pipeline takes: one law for all readings, and no row that decides alone."""

from __future__ import annotations

import numpy as np

from privest.errors import InvalidInput
from privest.model import LinearModel
from privest.noise import Independent, ScalarLaw
from privest.pipeline._descent import ROWS_AT_ONCE, Design

LEVERAGE = 0.95  # the most that one row may determine


def largest_leverage(design: Design) -> float:
    """The most that one row determines; refused where it carries a direction of θ almost alone."""
    H = design.matrix
    most, where = 0.0, 0
    for at in range(0, len(H), ROWS_AT_ONCE):
        leverage = np.sum(design.whitened(H[at : at + ROWS_AT_ONCE]) ** 2, axis=1)
        best = int(leverage.argmax())
        if leverage[best] > most:
            most, where = float(leverage[best]), at + best
    if most > LEVERAGE:
        raise InvalidInput(
            f"row {where} of H determines a direction of θ almost alone (leverage {most:.2f}; at "
            f"most {LEVERAGE:g}): the release noise is right for many readings only. Leave out the "
            "parameter or the row, or release the reading itself with noise."
        )
    return most


def one_law(model: LinearModel) -> ScalarLaw:
    """The law of every w_k; raises InvalidInput where they differ or depend on each other."""
    if not isinstance(model, LinearModel):
        raise InvalidInput(f"a LinearModel is needed; received {type(model).__name__}.")
    noise = model.noise
    if not isinstance(noise, Independent) or noise.size is not None:
        raise InvalidInput(
            "this release needs independent noise of one law in all readings; received "
            f"{noise!r}. Divide readings and rows of H by known scales first."
        )
    return noise.laws[0]
