"""What an audit found, for programs and for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from privest.arrays import Array
from privest.audit._sampled import UNCHANGED

Verdict = Literal["holds", "violated", "undecided"]
# A margin of 1 is what a calibrated mechanism has; so much above it is rounding.
TOLERANCE = 1e-6
UNSURE = 1e-3  # an error of the margin beyond which numbers do not support a "holds"


@dataclass(frozen=True, eq=False)
class Certificate:
    """What an audit of I_z(y) ≤ S found.

    verdict     "holds", "violated" or "undecided"; `bool(certificate)` is true for "holds" only.
    margin      the largest λ_max(S^-½ I_z(y) S^-½) that was found: 1 is exactly the level.
    error       of the margin: a bound, or at `confidence` where that is given.
    claimed     the same from the mechanism's own supremum; inf: it says that there is none; NaN: it
                says nothing.
    worst_y     a y at which the margin is found (or approached); None for a mechanism that shows
                the same everywhere.
    method      "closed form supremum", "search by quadrature", "simulated scores", "samples".
    reasons     sentences for people.
    """

    verdict: Verdict
    margin: float
    error: float
    claimed: float
    worst_y: Array | None
    method: str
    confidence: float | None = None
    reasons: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        return self.verdict == "holds"

    def __str__(self) -> str:
        head = {
            "holds": "HOLDS: the information stays within the level",
            "violated": "VIOLATED: the release shows more than the level allows",
            "undecided": "UNDECIDED: no violation was found, and none was excluded",
        }[self.verdict]
        size = f"{self.margin:.6g} of the level"
        doubt = f" ± {self.error:.1g}" if self.error > 0 else ""
        sure = "" if self.confidence is None else f", confidence {self.confidence:.4g}"
        what = f"worst information {size}{doubt}"
        if UNCHANGED in self.reasons:
            what = "no information was seen"
        lines = [f"{head}.", f"  {what} ({self.method}{sure})"]
        return "\n".join([*lines, *(f"  {reason}" for reason in self.reasons)])
