"""The score that weighs E ψ² against E ψ'² best, for any law."""

from __future__ import annotations

from privest.noise._law import ScalarLaw
from privest.noise._numerics.weighted import Minimiser, minimise


def least_score(law: ScalarLaw, weight: float) -> Minimiser:
    """ψ that minimises E ψ² + λ E ψ'² − 2 E ψ' under the law, λ = `weight` (docs/theory.md 4).

    From the log-density alone, none of the law's closed forms; error from halving all elements.

    >>> from privest.noise._gaussian import GaussianLaw
    >>> found = least_score(GaussianLaw(variance=1.0), 0.5)
    >>> abs(1 / found.slope - 1.5) <= found.error / found.slope**2 < 1e-11
    True
    """
    return minimise(law._numbers, weight)
