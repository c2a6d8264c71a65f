"""Estimators: the side that sees releases only."""

from privest.estimator._mle import MLResult, maximum_likelihood
from privest.estimator._mle_release import maximum_likelihood_of
from privest.estimator._rls import PrivateRLS, StreamHistory

__all__ = [
    "MLResult",
    "PrivateRLS",
    "StreamHistory",
    "maximum_likelihood",
    "maximum_likelihood_of",
]
