"""How large the noise variance may well be: what a prediction of a reading is made with."""

from __future__ import annotations

from dataclasses import dataclass

from privest.estimator.inference import Scatter
from privest.estimator.inference._errors import UPPER, upper_variance
from privest.records import Record

BOTH_ENDS = 2 * UPPER - 1  # of an interval whose upper end is the limit


@dataclass(frozen=True)
class NoiseLimit(Record):
    """σ̂² and its upper 90 % limit; the same where it is known.

    growth  how many times larger the covariance of θ̂ is at the limit.

    A reading at h differs from hθ̂ by σ² + cov: with σ̂² in the place of σ² intervals of 95 % cover
    .84 to .94, because it may come out far too small, also as 0; with the limit .97 to .98.
    """

    variance: float
    upper: float
    growth: float = 1.0


def known_limit(variance: float) -> NoiseLimit:
    """Of a variance that was stated."""
    return NoiseLimit(variance, variance)


def limit_of(variance: float, freedom: float, added: float = 0.0) -> NoiseLimit:
    """Where σ̂² + added has so many degrees of freedom."""
    upper = upper_variance(variance + added, freedom, added)
    return NoiseLimit(variance, upper, (upper + added) / (variance + added))


def limit_at(variance: float, upper: float, added: float) -> NoiseLimit:
    """Of an estimate with the upper end of its interval."""
    most = max(upper, variance)
    return NoiseLimit(variance, most, (most + added) / (variance + added))


def scattered_limit(scatter: Scatter) -> NoiseLimit:
    """Of what a release scatters, by which the covariance was made: perhaps less than its noise."""
    upper = scatter.upper(UPPER)
    growth = (upper + scatter.added) / scatter.total if scatter.total > 0 else 1.0
    return NoiseLimit(scatter.noise_variance, upper, growth)
