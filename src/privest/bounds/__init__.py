"""The bounds. A bound knows the model and the level; it never sees a mechanism, and never data."""

from typing import TYPE_CHECKING

from privest.lazy import lazy

if TYPE_CHECKING:
    from privest.bounds._bayesian import (
        BayesianBound,
        bayesian_bound,
        bayesian_bound_from_information,
    )
    from privest.bounds._classical import Identifiability, classical_bound, identifiability
    from privest.bounds._columns import ColumnSplit, informed_errors, split_budget
    from privest.bounds._consensus import consensus_bound
    from privest.bounds._crlb import Bound, averaged_bound, bound
    from privest.bounds._dp import TraceBound, metric_dp_bound, trace_bound
    from privest.bounds._functional import FunctionalBound, functional
    from privest.bounds._recursive import StreamBound, stream_bound, stream_estimates
    from privest.bounds._sweep import BoundSweep, bound_sweep
    from privest.bounds._trace_budget import (
        LinearRelease,
        TraceBudgetBound,
        best_linear_release,
        trace_budget_bound,
    )
else:
    __getattr__ = lazy(__name__, {
        "_bayesian": "BayesianBound bayesian_bound bayesian_bound_from_information",
        "_classical": "Identifiability classical_bound identifiability",
        "_columns": "ColumnSplit informed_errors split_budget",
        "_consensus": "consensus_bound",
        "_crlb": "Bound averaged_bound bound",
        "_dp": "TraceBound metric_dp_bound trace_bound",
        "_functional": "FunctionalBound functional",
        "_recursive": "StreamBound stream_bound stream_estimates",
        "_sweep": "BoundSweep bound_sweep",
        "_trace_budget": "LinearRelease TraceBudgetBound best_linear_release trace_budget_bound",
    })  # fmt: skip

__all__ = [
    "BayesianBound", "Bound", "BoundSweep", "ColumnSplit", "FunctionalBound", "Identifiability",
    "LinearRelease", "StreamBound", "TraceBound", "TraceBudgetBound", "averaged_bound",
    "bayesian_bound", "bayesian_bound_from_information", "best_linear_release", "bound",
    "bound_sweep", "classical_bound", "consensus_bound", "functional", "identifiability",
    "informed_errors", "metric_dp_bound", "split_budget", "stream_bound", "stream_estimates",
    "trace_bound", "trace_budget_bound",
]  # fmt: skip
