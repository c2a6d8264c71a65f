"""Algorithms that estimate before they release: maximum likelihood, the optimal private score."""

from privest.pipeline._estimate import PrivateEstimate
from privest.pipeline._finite import FiniteLoss
from privest.pipeline._fixed_steps import FixedStepsRelease
from privest.pipeline._holder import HolderReport, jacobian
from privest.pipeline._optimal_score import optimal_score
from privest.pipeline._release import ScoreRelease
from privest.pipeline._releases import (
    LeastSquaresRelease,
    MaximumLikelihoodRelease,
    OptimalScoreRelease,
)
from privest.pipeline._score import (
    LikelihoodScore,
    LinearScore,
    Score,
    SmoothedLikelihoodScore,
    best_bandwidth,
)

__all__ = [
    "FiniteLoss", "FixedStepsRelease", "HolderReport", "LeastSquaresRelease", "LikelihoodScore",
    "LinearScore", "MaximumLikelihoodRelease", "OptimalScoreRelease", "PrivateEstimate", "Score",
    "ScoreRelease", "SmoothedLikelihoodScore", "best_bandwidth", "jacobian", "optimal_score",
]  # fmt: skip
