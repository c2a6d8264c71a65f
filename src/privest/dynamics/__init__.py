"""Dynamic models: bounds on the states, private Kalman filtering that attains them, and
identification from releases alone.
"""

from privest.dynamics._bound import Marginals, StateBound, SteadyState, steady_state
from privest.dynamics._diagnosis import Diagnosis, InnovationTest, diagnose
from privest.dynamics._directions import BestDirections, best_directions
from privest.dynamics._families import (
    AR,
    ARMA,
    ARX,
    Custom,
    LocalLevel,
    LocalTrend,
    RegressionAR,
    Seasonal,
    as_family,
)
from privest.dynamics._families import Family as Family
from privest.dynamics._filter import Filtered, Predicted, PrivateKalman, Smoothed, predict, smooth
from privest.dynamics._fit import Fit, FlatDirection, Signal, fit
from privest.dynamics._forecast import Forecast
from privest.dynamics._intervals import Intervals
from privest.dynamics._nonlinear import LocalBound, NonlinearStateSpace, filter, local_bound
from privest.dynamics._parameter_bound import ParameterBound, parameter_bound
from privest.dynamics._parameter_bound import require_level as require_level
from privest.dynamics._releases import SeriesRelease, joined, release_series, simulate_series
from privest.dynamics._system import StateSpace

__all__ = [
    "AR", "ARMA", "ARX", "BestDirections", "Custom", "Diagnosis", "Filtered", "Fit",
    "FlatDirection", "Forecast", "InnovationTest", "Intervals", "LocalBound", "LocalLevel",
    "LocalTrend", "Marginals", "NonlinearStateSpace", "ParameterBound", "Predicted",
    "PrivateKalman", "RegressionAR", "Seasonal", "SeriesRelease", "Signal", "Smoothed",
    "StateBound", "StateSpace", "SteadyState", "as_family", "best_directions", "diagnose", "filter",
    "fit", "joined", "local_bound", "parameter_bound", "predict", "release_series",
    "simulate_series", "smooth", "steady_state",
]  # fmt: skip
