"""Dynamic models: bounds on the states, private Kalman filtering that attains them, and
identification from releases alone.
"""

from privest.dynamics._bound import StateBound, steady_state
from privest.dynamics._diagnosis import Diagnosis
from privest.dynamics._directions import best_directions
from privest.dynamics._families import (
    AR,
    ARMA,
    ARX,
    CustomFamily,
    Family,
    LocalLevel,
    LocalTrend,
    RegressionAR,
    Seasonal,
)
from privest.dynamics._families import as_family as as_family
from privest.dynamics._filter import PrivateKalman, StateEstimate
from privest.dynamics._fit import FamilyEstimate, fit
from privest.dynamics._forecast import Forecast
from privest.dynamics._nonlinear import NonlinearStateSpace, filter, local_bound
from privest.dynamics._parameter_bound import parameter_bound
from privest.dynamics._parameter_bound import require_level as require_level
from privest.dynamics._system import StateSpace

__all__ = [
    "AR", "ARMA", "ARX", "CustomFamily", "Diagnosis", "Family", "FamilyEstimate", "Forecast",
    "LocalLevel", "LocalTrend", "NonlinearStateSpace", "PrivateKalman", "RegressionAR", "Seasonal",
    "StateBound", "StateEstimate", "StateSpace", "best_directions", "filter",
    "fit", "local_bound", "parameter_bound",
    "steady_state",
]  # fmt: skip
