"""The aggregate release of a trusted data owner: n noisy sums in place of K noisy values."""

from privest.aggregate._design import (
    RowPersons,
    SumDesign,
    kind_of,
    level_for_errors,
    person_rows,
    planned_errors,
    sum_covariance,
    sum_design,
)
from privest.aggregate._interval import VarianceFromSquares
from privest.aggregate._lewis import FeatureRows
from privest.aggregate._planner import FOR_SQUARES_OF_LEVEL, Split, split
from privest.aggregate._release import SumRelease, release_sums
from privest.aggregate._scores import solve_scores
from privest.aggregate._ways import ChargedWay, SimulatedWay, Way

__all__ = [
    "FOR_SQUARES_OF_LEVEL", "ChargedWay", "FeatureRows", "RowPersons", "SimulatedWay", "Split",
    "SumDesign", "SumRelease", "VarianceFromSquares", "Way", "kind_of",
    "level_for_errors", "person_rows", "planned_errors", "release_sums", "solve_scores", "split",
    "sum_covariance", "sum_design",
]  # fmt: skip
