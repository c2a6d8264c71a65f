"""Whether a release scatters as its header says, with p-values that are what they say.

    T = RSS/(f·v) ,  v = σ² + a ,  f·T ~ χ²_f   for Gaussian noise and a σ² that is right .

None of this is needed for intervals that come from the release itself (`_unknown`).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from privest.arrays import Array
from privest.estimator._reference import pooled_variance

DOUBTFUL = 1e-3  # p-values below this are told to people
NODES = 400  # quantiles of the reference's χ², over which its p-value is averaged


def stated_p(squares: float, freedom: int, variance: float) -> float:
    """Two-sided p-value of RSS/v ~ χ²_f, v = σ² + a known, Gaussian noise: exact.

    >>> round(stated_p(10.0, 10, 1.0), 3), stated_p(40.0, 10, 1.0) < 1e-4
    (0.881, True)
    """
    return _two_sided(freedom, np.array([squares / variance]))


def robust_p(
    squares: float, freedom: int, variance: float, moments: tuple[float, float], rows: int
) -> float:
    """The same where the noise may be any, from its own fourth moment: K large.

        var T ≈ (m₄/m₂² − 1)/K ,   m_q = Σ|e|^q/K   (`moments`: Σe², Σe⁴)

    At 1e-3 its false alarms are .001 to .007 for Laplace, t₅ and χ²₁ noise.
    """
    second, fourth = moments
    if not second > 0:
        return 0.0
    deviation = math.sqrt(max(rows * fourth / second**2 - 1, 0.0) / rows)
    distance = abs(squares / (freedom * variance) - 1)
    if not deviation > 0:
        return 0.0 if distance > 0 else 1.0
    return float(2 * scipy.special.ndtr(-distance / deviation))


def misfit_p(
    squares: float, freedom: int, variance: float, moments: tuple[float, float], rows: int
) -> float:
    """The larger of the two: an alarm needs both.

    The exact one takes heavy tails for a wrong variance, the robust one knows too little of a few
    rows.
    """
    return max(
        stated_p(squares, freedom, variance), robust_p(squares, freedom, variance, moments, rows)
    )


def reference_p(
    squares: float, freedom: int, reference: float, reference_freedom: int, added: float
) -> float:
    """Two-sided p-value where σ² is σ̂_r² of a reference set with m degrees of freedom.

        T = v̂/(σ̂_r² + a) ,   P(T > t) = E_{χ²_m} sf_{χ²_f}( t·f·(σ²χ²_m/m + a)/v )

    at the pooled σ² (`pooled_variance`), by 400 quantiles of χ²_m. False alarms at .01: .004 to
    .011; at .001: .0005 to .002, for every m. With m = 3 nothing has power.
    """
    variance, _ = pooled_variance(reference, reference_freedom, squares, freedom, added)
    middles = (np.arange(NODES) + 0.5) / NODES
    drawn = scipy.special.chdtri(reference_freedom, 1 - middles) / reference_freedom
    ratio = squares / (reference + added)  # t·f
    return _two_sided(freedom, ratio * (variance * drawn + added) / (variance + added))


def less_noise_p(squares: float, freedom: int, added: float) -> float:
    """P(χ²_f ≤ RSS/a): how likely so little scatter is if the header's noise is in the release.

    Whatever the readings are, RSS is at least that of the noise in law: below 1e-3 the release
    holds less Gaussian noise than its header says, with a false alarm of at most 1e-3. It has no
    power once sσ² ≥ 1: silence proves nothing. For randomised response it does not hold.
    """
    return float(scipy.special.chdtr(freedom, squares / added))


def _two_sided(freedom: int, squares: Array) -> float:
    """Twice the smaller of the two tails of χ²_f, each its mean over `squares`."""
    tails = scipy.special.chdtr(freedom, squares), scipy.special.chdtrc(freedom, squares)
    return min(1.0, 2 * min(float(tail.mean()) for tail in tails))
