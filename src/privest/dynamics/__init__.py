"""Dynamic models: bounds on the states, private Kalman filtering that attains them, and
identification from releases alone.
"""

from privest.dynamics._bound import (
    DynamicBound,
    Marginals,
    SteadyState,
    bound,
    information_blocks,
    memoryless_level,
    reading_information,
    steady_state,
    total_level,
)
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
    "AR", "ARMA", "ARX", "BestDirections", "Custom", "Diagnosis", "DynamicBound", "Filtered", "Fit",
    "FlatDirection", "Forecast", "InnovationTest", "Intervals", "LocalBound", "LocalLevel",
    "LocalTrend", "Marginals", "NonlinearStateSpace", "ParameterBound", "Predicted",
    "PrivateKalman", "RegressionAR", "Seasonal", "SeriesRelease", "Signal", "Smoothed",
    "StateSpace", "SteadyState", "as_family", "best_directions", "bound", "diagnose", "filter",
    "fit", "information_blocks", "joined", "local_bound", "memoryless_level", "parameter_bound",
    "predict", "reading_information", "release_series", "simulate_series", "smooth",
    "steady_state", "total_level",
]  # fmt: skip
