"""Estimators: the side that sees releases only."""

from typing import TYPE_CHECKING

from privest.lazy import lazy

if TYPE_CHECKING:
    from privest.estimator._clipped import LAPLACE_SQUARES as LAPLACE_SQUARES
    from privest.estimator._clipped import NORMAL_SQUARES as NORMAL_SQUARES
    from privest.estimator._clipped import ClippedCheck as ClippedCheck
    from privest.estimator._clipped import ClippedResult as ClippedResult
    from privest.estimator._clipped import ClippedRows as ClippedRows
    from privest.estimator._clipped import EndTest as EndTest
    from privest.estimator._clipped import beyond_sentence as beyond_sentence
    from privest.estimator._clipped import estimate_clipped as estimate_clipped
    from privest.estimator._clipped import reaches as reaches
    from privest.estimator._clipping_cost import ClippingCost, clipping_cost
    from privest.estimator._clipping_cost import CostByShare as CostByShare
    from privest.estimator._clipping_cost import cost_by_share as cost_by_share
    from privest.estimator._clipping_cost import cost_of_rows as cost_of_rows
    from privest.estimator._estimate import estimate_release as estimate_release
    from privest.estimator._mle import maximum_likelihood as maximum_likelihood
    from privest.estimator._rls import PrivateRLS as PrivateRLS
    from privest.estimator._stream_conclusion import StreamConclusion as StreamConclusion
    from privest.estimator._stream_conclusion import conclude as conclude
    from privest.estimator.inference._errors import pooled_variance as pooled_variance
    from privest.estimator.inference._errors import reference_fit as reference_fit
    from privest.estimator.likelihood._clipped import clipped_moments as clipped_moments
    from privest.estimator.result import Estimate as Estimate
else:
    __getattr__ = lazy(__name__, {
        "_clipped": (
            "LAPLACE_SQUARES NORMAL_SQUARES ClippedCheck ClippedResult ClippedRows EndTest "
            "beyond_sentence estimate_clipped reaches"
        ),
        "_clipping_cost": "ClippingCost CostByShare clipping_cost cost_by_share cost_of_rows",
        "_estimate": "estimate_release",
        "_mle": "maximum_likelihood",
        "inference._errors": "pooled_variance reference_fit",
        "_rls": "PrivateRLS",
        "_stream_conclusion": "StreamConclusion conclude",
        "likelihood._clipped": "clipped_moments",
        "result": "Estimate",
    })  # fmt: skip

__all__ = ["ClippingCost", "clipping_cost"]
