"""Estimators: the side that sees releases only."""

from privest.estimator.rls import PrivateRLS

__all__ = ["PrivateRLS"]
