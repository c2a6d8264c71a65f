"""Estimators: the side that sees releases only."""

from typing import TYPE_CHECKING

from privest.lazy import lazy

if TYPE_CHECKING:
    from privest.estimator._clipped import ClippedResult as ClippedResult
    from privest.estimator._clipped import ClippedRows as ClippedRows
    from privest.estimator._clipped import estimate_clipped as estimate_clipped
    from privest.estimator._clipping_cost import ClippingCost, clipping_cost
    from privest.estimator._clipping_cost import CostByShare as CostByShare
    from privest.estimator._clipping_cost import cost_by_share as cost_by_share
    from privest.estimator._clipping_cost import cost_of_rows as cost_of_rows
    from privest.estimator._estimate import estimate_release as estimate_release
    from privest.estimator._mle import maximum_likelihood as maximum_likelihood
    from privest.estimator._posterior import posterior as posterior
    from privest.estimator._rls import PrivateRLS as PrivateRLS
    from privest.estimator.likelihood._clipped import clipped_moments as clipped_moments
    from privest.estimator.result import Estimate as Estimate
    from privest.estimator.result import Prediction, WaldTest
else:
    __getattr__ = lazy(__name__, {
        "_clipped": "ClippedResult ClippedRows estimate_clipped",
        "_clipping_cost": "ClippingCost CostByShare clipping_cost cost_by_share cost_of_rows",
        "_estimate": "estimate_release",
        "_mle": "maximum_likelihood",
        "_posterior": "posterior",
        "_rls": "PrivateRLS",
        "likelihood._clipped": "clipped_moments",
        "result": "Estimate Prediction WaldTest",
    })  # fmt: skip

__all__ = ["ClippingCost", "Prediction", "WaldTest", "clipping_cost"]
