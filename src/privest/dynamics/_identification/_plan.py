"""What a level shows of every step: found once for a release, whatever the model.

Steps whose matrices are the same are of one kind (`_observed`); for a model without a time axis at
a constant level these are step 0, the others, and those that show nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privest.arrays import Array, Flags, Index
from privest.dynamics._observed import _constant, _kinds
from privest.errors import InvalidInput
from privest.privacy import SequentialLevel
from privest.privacy._parts import restricted


class Plan(NamedTuple):
    """The kinds of steps (leading axis J) and which one each step k is (K,).

    own       whose matrices a kind has; before: the step whose A, B and Q lead into it.
    begins    step 0;  absent: nothing is shown (J,), or of these entries (J, m).
    shown     (J, m, lags·m): z̃_k = Σ_j shown_j y_{k−j} + e_k, newest first; zeros where absent.
    reach     how many steps releases look back.
    single    Lᵀ (m, m), the same at all steps that show something, where there is such a one.
    """

    own: Index
    before: Index
    begins: Flags
    absent: Flags
    kind: Index
    shown: Array
    reach: int
    single: Array | None


def plan_of(
    level: SequentialLevel, steps: int, missing: Flags, unit: float, *, varying: bool
) -> Plan:
    """`varying`: the model has a time axis, so that no two steps are of one kind."""
    if level.form == "dense":
        raise InvalidInput(
            "Identification takes releases that look back a fixed number of steps; this level is "
            "dense: its releases look back to the first step. Release with U = 0 or with lags "
            "(StreamLevel, StreamLevel.from_lags, EndlessLevel)."
        )
    same = not varying and _constant(level, 0, steps)
    own, begins, absent, kind = _kinds(missing, same, 0)
    lags = level.reach + 1
    blocks = level.blocks(steps - 1, steps) if same else level.blocks(0, steps)[:, own]
    m = blocks.shape[-1]
    if missing.ndim > 1:  # of steps in part, at a level that does not look back
        blocks = restricted(np.broadcast_to(blocks[0], (len(own), m, m)), absent, level)[None]
    # A level shorter than its lags stores more of them than it reaches back.
    shown = np.zeros((len(own), m, lags * m))
    shown[:] = unit * blocks[:lags].transpose(1, 2, 0, 3).reshape(-1, m, lags * m)
    shown[absent] = 0.0
    present = shown[~absent] if absent.ndim == 1 else shown[:0]
    alike = not level.reach and len(present) > 0 and bool((present == present[0]).all())
    single = present[0] if alike else None
    return Plan(own, np.maximum(own - 1, 0), begins, absent, kind, shown, level.reach, single)
