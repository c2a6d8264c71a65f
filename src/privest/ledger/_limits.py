"""Whether what was shown is within a budget: every comparison exact or to the safe side."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from privest.ledger._budget import LIMITS, Budget
from privest.ledger._exact import is_psd
from privest.ledger._shown import Shown
from privest.privacy import gdp

SAFE = 1e-12  # relative: far above the rounding of the few operations of a conversion
SMALLEST_DELTA = 1e-300


def broken(budget: Budget, shown: Shown, trace: Fraction | None) -> list[str]:
    """The limits that are not kept; one whose unit is not known is not kept."""
    return [unit for unit in LIMITS if not _kept(unit, budget, shown, trace)]


def _kept(unit: str, budget: Budget, shown: Shown, trace: Fraction | None) -> bool:
    limit = getattr(budget, unit)
    if limit is None:
        return True
    if unit == "matrix":
        return _matrix_kept(budget, shown)
    if unit == "epsilon":
        return _epsilon_kept(budget, shown)
    spent = {"level": shown.level, "trace": trace, "mu": gaussian(shown), "rho": shown.rho}[unit]
    return spent is not None and spent <= (limit * limit if unit == "mu" else limit)


def gaussian(shown: Shown) -> Fraction | None:
    """μ² if all releases are Gaussian."""
    others = shown.rho is None or shown.epsilon or shown.rest
    return None if others else shown.mu2


def _matrix_kept(budget: Budget, shown: Shown) -> bool:
    if shown.matrix is None:
        return False
    if not shown.matrix:
        return True
    if len(shown.matrix) != budget.size:
        return False
    rows = zip(budget.matrix, shown.matrix)
    return is_psd([[b - s for b, s in zip(*pair)] for pair in rows])


def _epsilon_kept(budget: Budget, shown: Shown) -> bool:
    """Pure ε adds; μ² of Gaussian releases adds; both: (ε, δ) of the latter plus the former; or ρ.

    Each is a valid statement, so one of them is enough.
    """
    if shown.rho is None:
        return False
    left = budget.epsilon - shown.epsilon
    if not shown.mu2 and not shown.rest:
        if left >= 0:
            return True
    elif budget.delta == 0:
        return False
    elif not shown.rest and left >= 0:
        most = Fraction(most_mu(_down(left), float(budget.delta)))
        if shown.mu2 <= most * most:
            return True
    if budget.delta == 0:
        return False
    return shown.rho <= Fraction(most_rho(_down(budget.epsilon), float(budget.delta)))


def _down(value: Fraction) -> float:
    """The largest double that is not above a number ≥ 0."""
    near = float(min(value, Fraction(1.7e308)))
    return math.nextafter(near, 0.0) if Fraction(near) > value else near


@lru_cache(maxsize=256)
def most_mu(epsilon: float, delta: float) -> float:
    """The largest μ of a Gaussian release that is (ε, δ)-private; safe side."""
    return gdp.mu_of(epsilon, max(delta, SMALLEST_DELTA)) if delta >= SMALLEST_DELTA else 0.0


@lru_cache(maxsize=256)
def most_rho(epsilon: float, delta: float) -> float:
    """A ρ whose zCDP is (ε, δ)-private, as large as this conversion gives.

        ρα + ln(1/(αδ))/(α − 1) + ln(1 − 1/α) ≤ ε

    holds for a ρ if it holds for one α > 1 (Canonne, Kamath and Steinke 2020, Prop. 12): the best
    of a grid of α is taken, which is valid whatever the grid.

    >>> round(most_rho(5.2215, 1e-6), 4)
    0.5
    """
    if delta < SMALLEST_DELTA:
        return 0.0
    best = 0.0
    for k in range(-400, 401):
        above = math.exp(k / 40)  # α − 1
        alpha = 1.0 + above
        fixed = -math.log(alpha * delta) / above + math.log(above / alpha)
        best = max(best, (epsilon - fixed - SAFE * (abs(fixed) + epsilon)) / alpha)
    return best * (1 - SAFE)


def spent_epsilon(shown: Shown, delta: float) -> float | None:
    """An ε at δ of all that was shown; None if not known, infinite where there is none."""
    if shown.rho is None:
        return None
    gaussian_part = 0.0
    if shown.mu2 or shown.rest:
        if delta < SMALLEST_DELTA:
            return math.inf
        gaussian_part = gdp.epsilon_of(math.sqrt(float(shown.mu2)) * (1 + SAFE), delta)
    added = math.inf if shown.rest else gaussian_part + float(shown.epsilon)
    if delta < SMALLEST_DELTA or not (shown.epsilon or shown.rest):
        return added
    return min(added, _epsilon_of_rho(float(shown.rho), delta))


def _epsilon_of_rho(rho: float, delta: float) -> float:
    found = math.inf
    for k in range(-400, 401):
        above = math.exp(k / 40)
        alpha = 1.0 + above
        fixed = -math.log(alpha * delta) / above + math.log(above / alpha)
        found = min(found, alpha * rho + fixed)
    return max(found, 0.0) * (1 + 4 * SAFE)
