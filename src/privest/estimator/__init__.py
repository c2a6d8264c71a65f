"""Estimators: the side that sees releases only."""

from privest.estimator._mle import MLResult, maximum_likelihood
from privest.estimator._mle_release import maximum_likelihood_of
from privest.estimator._reference import reference_variance
from privest.estimator._rls import PrivateRLS, StreamHistory
from privest.estimator.result import Result

__all__ = [
    "MLResult", "PrivateRLS", "Result", "StreamHistory", "maximum_likelihood",
    "maximum_likelihood_of", "reference_variance",
]  # fmt: skip
