"""The bounds that `pv.bound` computes from a model and a level, without a mechanism or data."""

from typing import TYPE_CHECKING

from privest.lazy import lazy

if TYPE_CHECKING:
    from privest.bounds._bound import Bound as Bound
    from privest.bounds._bound import GivenBound as GivenBound
    from privest.bounds._bound import bound as bound
    from privest.bounds._bound import contrast_names as contrast_names
    from privest.bounds._bound import contrast_rows as contrast_rows
    from privest.bounds._classical import Identifiability as Identifiability
    from privest.bounds._classical import classical_bound as classical_bound
    from privest.bounds._classical import identifiability as identifiability
    from privest.bounds._classical import in_range as in_range
    from privest.bounds._classical import level_for as level_for
    from privest.bounds._classical import local_model as local_model
    from privest.bounds._classical import parameter_list as parameter_list
    from privest.bounds._classical import require_seen as require_seen
    from privest.bounds._classical import require_size as require_size
    from privest.bounds._consensus import consensus_bound
    from privest.bounds._contrast import ContrastBound as ContrastBound
    from privest.bounds._prior import above_prior as above_prior
    from privest.bounds._prior import prior_information, release_level
    from privest.bounds._stream import StreamBound as StreamBound
    from privest.bounds._sweep import Sweep as Sweep
    from privest.bounds._sweep import sweep
    from privest.bounds._trace import TraceBound, trace_bound
    from privest.bounds._trace import best_linear_release as best_linear_release
    from privest.bounds._trace import weight_root as weight_root
else:
    __getattr__ = lazy(__name__, {
        "_bound": "Bound GivenBound bound contrast_names contrast_rows",
        "_classical": "Identifiability classical_bound identifiability in_range level_for "
        "local_model parameter_list require_seen require_size",
        "_consensus": "consensus_bound",
        "_contrast": "ContrastBound",
        "_prior": "above_prior prior_information release_level",
        "_stream": "StreamBound",
        "_sweep": "Sweep sweep",
        "_trace": "TraceBound best_linear_release trace_bound weight_root",
    })  # fmt: skip

__all__ = [
    "TraceBound", "consensus_bound", "prior_information", "release_level", "sweep", "trace_bound",
]  # fmt: skip
