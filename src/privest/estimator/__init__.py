"""Estimators: the side that sees releases only."""

from privest.estimator.rls import PrivateRLS, StreamHistory

__all__ = ["PrivateRLS", "StreamHistory"]
