"""What comes of a release of clipped readings."""

from __future__ import annotations

from dataclasses import dataclass

from privest.arrays import CONFIDENCE, Array, as_confidence
from privest.estimator._clipped_check import ClippedCheck
from privest.estimator._clipped_unknown import variance_interval
from privest.estimator.result import Result


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ClippedResult(Result):
    """θ̂ with cov θ̂ = J⁻¹, the inverse of the expected information at θ̂.

    bound           of `thm:crbound` without clipping: `efficiency` is what clipping leaves of it.
    readings        rows used.
    clipped         the share of them that the model at θ̂ says is clipped.
    log_likelihood  Σℓ at θ̂; `steps` that it took.
    misfit          Σ_k (z_k − E z_k)²/Var z_k/(K − n): about 1 if noise, range and model are right.
    check           whether the release fits the model: normal errors with one variance.

    Where σ² was not known:
    noise_variance  σ̂², 0 where it came out at the end of its range; `noise_error` its standard
                    error; `noise_interval` an interval.
    joint           (n + 1, n + 1): the covariance of θ̂ and σ̂² together.
    sandwich        the same by the scores of the rows, which do not assume one variance; (n, n)
                    where σ̂² = 0; None where it does not exist.
    added           the mean variance of the release noise on a reading.
    """

    readings: int
    clipped: float
    log_likelihood: float
    steps: int
    misfit: float
    check: ClippedCheck
    noise_variance: float | None = None
    noise_error: float | None = None
    joint: Array | None = None
    sandwich: Array | None = None
    added: float | None = None

    def noise_interval(self, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
        """The interval of σ², cut at 0, where it was estimated (`variance_interval`)."""
        if self.noise_variance is None or self.noise_error is None or self.added is None:
            return None
        chance = as_confidence(confidence)
        return variance_interval(self.noise_variance, self.noise_error, self.added, chance)
