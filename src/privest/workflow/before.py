"""What documents before 2.0 state of their sums: read for estimates, and for their signatures.

    c₁ = (1 − ω)·((μ − √m·g)/R)²       m released numbers, each up to a step g = 2⁻¹⁰ of a grid

The grid, and what it cost, are gone; every other member of such a document is as it was.
"""

from __future__ import annotations

import math

from privest.aggregate import Split

GRID = 2.0**-10


def level_before(own: Split, n: int, width: float) -> float:
    """c₁ of the same promise before 2.0, of n coefficients over a range of this width."""
    share = 0.0 if own.kind == "free" else own.share
    if own.mu is None:
        return float(own.charged.amounts["information"]) * (1 - share)
    squares = {"none": 0, "persons": n * (n + 1) // 2}.get(own.kind, n)
    return (1 - share) * ((own.mu - math.sqrt(n + squares) * GRID) / width) ** 2
