"""The bound when only the average information is limited (remark after `thm:crbound`)."""

from __future__ import annotations

from dataclasses import replace

from numpy.typing import ArrayLike

from privest.bounds._crlb import Bound, bound
from privest.model import LinearModel, NonlinearModel
from privest.privacy import PrivacyLevel


def averaged_bound(
    model: LinearModel | NonlinearModel, level: PrivacyLevel, theta: ArrayLike | None = None
) -> Bound:
    """The same floor when only the average E[I_z(y) | θ] ≤ S is promised.

    The number is that of `bound`: the proof uses only the average (`ineq:ES`). The promise is
    weaker: for some y the release may carry far more than S, and those y are exposed. The result is
    marked `constraint="average"` so that the two are not confused.
    Source: the remark after `thm:crbound` on averaged constraints.
    """
    return replace(bound(model, level, theta), constraint="average")
