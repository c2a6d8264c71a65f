"""Algorithms that estimate before they release: maximum likelihood, the optimal private score."""

from privest.pipeline.baseline import LeastSquaresRelease
from privest.pipeline.estimate import PrivateEstimate
from privest.pipeline.holder import HolderReport, jacobian
from privest.pipeline.likelihood_score import (
    LikelihoodScore,
    SmoothedLikelihoodScore,
    best_bandwidth,
)
from privest.pipeline.maximum_likelihood import MaximumLikelihoodRelease
from privest.pipeline.optimal import OptimalScoreRelease
from privest.pipeline.optimal_score import optimal_score
from privest.pipeline.release import ScoreRelease
from privest.pipeline.score import LinearScore, Score

__all__ = [
    "HolderReport",
    "LeastSquaresRelease",
    "LikelihoodScore",
    "LinearScore",
    "MaximumLikelihoodRelease",
    "OptimalScoreRelease",
    "PrivateEstimate",
    "Score",
    "ScoreRelease",
    "SmoothedLikelihoodScore",
    "best_bandwidth",
    "jacobian",
    "optimal_score",
]
