"""Estimators: the side that sees releases only."""

from typing import TYPE_CHECKING

from privest.lazy import lazy

if TYPE_CHECKING:
    from privest.estimator._clipped import LAPLACE_SQUARES as LAPLACE_SQUARES
    from privest.estimator._clipped import NORMAL_SQUARES as NORMAL_SQUARES
    from privest.estimator._clipped import ClippedCheck as ClippedCheck
    from privest.estimator._clipped import ClippedResult, ClippedRows, estimate_clipped
    from privest.estimator._clipped import EndTest as EndTest
    from privest.estimator._clipped import beyond_sentence as beyond_sentence
    from privest.estimator._clipped import reaches as reaches
    from privest.estimator._clipping_cost import (
        ClippingCost,
        CostByShare,
        clipping_cost,
        clipping_cost_by_share,
    )
    from privest.estimator._mle import MLResult, maximum_likelihood
    from privest.estimator._mle_release import clipped_rows, maximum_likelihood_of
    from privest.estimator._reference import pooled_variance as pooled_variance
    from privest.estimator._reference import reference_fit as reference_fit
    from privest.estimator._reference import reference_variance
    from privest.estimator._rls import PrivateRLS, StreamHistory
    from privest.estimator._stream_conclusion import StreamConclusion as StreamConclusion
    from privest.estimator._stream_conclusion import conclude as conclude
    from privest.estimator._sums import estimate_sums as estimate_sums
    from privest.estimator.likelihood._clipped_information import clipped_moments as clipped_moments
    from privest.estimator.result import Result
else:
    __getattr__ = lazy(__name__, {
        "_clipped": (
            "LAPLACE_SQUARES NORMAL_SQUARES ClippedCheck ClippedResult ClippedRows EndTest "
            "beyond_sentence estimate_clipped reaches"
        ),
        "_clipping_cost": "ClippingCost CostByShare clipping_cost clipping_cost_by_share",
        "_mle": "MLResult maximum_likelihood",
        "_mle_release": "clipped_rows maximum_likelihood_of",
        "_reference": "pooled_variance reference_fit reference_variance",
        "_rls": "PrivateRLS StreamHistory",
        "_stream_conclusion": "StreamConclusion conclude",
        "_sums": "estimate_sums",
        "likelihood._clipped_information": "clipped_moments",
        "result": "Result",
    })  # fmt: skip

__all__ = [
    "ClippedResult", "ClippedRows", "ClippingCost", "CostByShare", "MLResult", "PrivateRLS",
    "Result", "StreamHistory", "clipped_rows", "clipping_cost", "clipping_cost_by_share",
    "estimate_clipped", "maximum_likelihood", "maximum_likelihood_of", "reference_variance",
]  # fmt: skip
