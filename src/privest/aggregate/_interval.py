"""The interval of a coefficient whose sampling variance is known from noisy squares.

The noise of the sums has the known variance v₀. The squares show the sampling variance as u, with
noise of sd d; the range of the values says that it is at most `top`. Then

    S | u  ~  min(N(u, d²) above 0, top), weighted by (v₀ + S)^½           noise of the squares
    τ      =  min(S·ν/χ²_ν, top)                                           sampling of the squares
    h:        E[2Φ(h/√(v₀ + τ)) − 1] = confidence

and θ̂ ± h is the interval. d → 0 and v₀ → 0 give Student's t with ν degrees of freedom; d → ∞ gives
the interval of S = top. The lowest coverage over all true variances is .928 of .95, where the
variance is the top and d half of it (integrated in tests/oracle/test_aggregate_interval.py). A
normal that is restricted to [0, top], without a mass at the top, covers .88 there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, as_confidence

REACH = 7.0  # sd of the noise of the squares: mass beyond it is below 1e-11
NODES = 48  # Gauss-Legendre nodes of S
CHANCES = 16  # and of p³, the chance of a smaller χ²: the power gathers them where τ is large
HALVINGS = 36  # of the bracket of ln h: 20 wide, it ends below 1e-9
NEARLY_NORMAL = 1e6  # degrees of freedom: quantiles of t and of the normal differ by 1e-6


@dataclass(frozen=True, eq=False)
class VarianceFromSquares:
    """What noisy squares show of the variance of n coefficients; every field is (n,).

    known    v₀ > 0, the variance by the noise of the sums.
    shown    u, the sampling variance as the squares show it; it may be negative.
    noise    d > 0, the sd of its noise.
    top      the largest sampling variance that the range allows.
    freedom  ν ≥ 1, degrees of freedom of the squares without their noise.
    """

    known: Array
    shown: Array
    noise: Array
    top: Array
    freedom: Array

    @cached_property
    def _sampling(self) -> tuple[Array, Array]:
        """Nodes of S, (n, NODES + 1), the last one the top, and their masses."""
        peak = np.maximum(self.shown, 0.0)
        away = ((peak - self.shown) / self.noise)[:, None]
        top = ((self.top - peak) / self.noise)[:, None]
        # S = peak + d·x has a density of e^(−x(x + 2·away)/2) of that at the peak: e^(−7²/2) at
        # x = ±reach, also where u is far outside of the range.
        reach = REACH**2 / (np.sqrt(away**2 + REACH**2) + np.abs(away))
        high = np.minimum(top, reach)
        low = np.minimum(np.maximum(-(peak / self.noise)[:, None], -reach), high)
        points, weights = np.polynomial.legendre.leggauss(NODES)
        x = low + (high - low) * (points + 1) / 2
        below = np.maximum(peak[:, None] + self.noise[:, None] * x, 0.0)
        masses = (high - low) / 2 * weights * np.exp(-x * (x + 2 * away) / 2)
        # The same density over all S above the top: √(2π)·e^(away²/2)·Φ(−top − away).
        beyond = np.exp(scipy.special.log_ndtr(-top - away) + away**2 / 2) * np.sqrt(2 * np.pi)
        S = np.hstack([below, self.top[:, None]])
        weighted = np.hstack([masses, beyond]) * np.sqrt(self.known[:, None] + S)
        return S, weighted / weighted.sum(axis=1, keepdims=True)

    @cached_property
    def _total(self) -> tuple[Array, Array]:
        """Nodes of v₀ + τ, (n, (NODES + 1)·CHANCES), and their masses."""
        S, masses = self._sampling
        points, weights = np.polynomial.legendre.leggauss(CHANCES)
        p = (points + 1) / 2
        chances = 3 * p**2 * weights / 2
        half = self.freedom[:, None] / 2
        ratio = half / scipy.special.gammaincinv(half, p**3)  # ν/χ²_ν
        tau = np.minimum(S[:, :, None] * ratio[:, None, :], self.top[:, None, None])
        n = len(S)
        both = masses[:, :, None] * chances
        return self.known[:, None] + tau.reshape(n, -1), both.reshape(n, -1)

    def half_width(self, confidence: float = CONFIDENCE) -> Array:
        """h, (n,).

        >>> sure = VarianceFromSquares(*np.array([[1e-9], [1.0], [1e-9], [1e9], [5.0]]))
        >>> float(sure.half_width(0.95)[0].round(2))  # Student's t with 5 degrees of freedom
        2.57
        """
        variances, masses = self._total
        tail = scipy.special.ndtri((1 + as_confidence(confidence)) / 2)
        low = tail * np.sqrt(variances.min(axis=1))
        high = tail * np.sqrt(variances.max(axis=1))
        roots = np.sqrt(variances)
        for _ in range(HALVINGS):
            middle = np.sqrt(low * high)
            inside = 2 * scipy.special.ndtr(middle[:, None] / roots) - 1
            too_low = (masses * inside).sum(axis=1) < confidence
            low = np.where(too_low, middle, low)
            high = np.where(too_low, high, middle)
        return np.asarray(high)

    def student(self) -> tuple[Array, Array]:
        """A variance v and degrees of freedom f with t_f(.975)·√v = h, v = v₀ + E[S | u].

        Where that takes f < 1 or f > 10⁶, f is that end, and v follows.
        """
        S, masses = self._sampling
        mean = self.known + (masses * S).sum(axis=1)
        half = self.half_width(CONFIDENCE)
        tail = (1 + CONFIDENCE) / 2
        lowest, highest = scipy.special.stdtrit([NEARLY_NORMAL, 1.0], tail)
        quantile = np.clip(half / np.sqrt(mean), lowest, highest)
        freedom = np.clip(scipy.special.stdtridf(tail, quantile), 1.0, NEARLY_NORMAL)
        return (half / quantile) ** 2, freedom
