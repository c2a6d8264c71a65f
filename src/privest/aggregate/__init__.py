"""The aggregate release of a trusted data owner: n noisy sums in place of K noisy values."""

from privest.aggregate._design import FOR_SQUARES_OF_LEVEL as FOR_SQUARES_OF_LEVEL
from privest.aggregate._design import NOISE as NOISE
from privest.aggregate._design import (
    RowPersons,
    Split,
    SumDesign,
    kind_of,
    level_for_errors,
    mu_apart,
    person_rows,
    planned_errors,
    split,
    sum_covariance,
    sum_design,
)
from privest.aggregate._interval import VarianceFromSquares
from privest.aggregate._lewis import FeatureRows
from privest.aggregate._release import SumRelease, release_sums, require_room
from privest.aggregate._scores import solve_scores

__all__ = [
    "FeatureRows", "RowPersons", "Split", "SumDesign", "SumRelease", "VarianceFromSquares",
    "kind_of", "level_for_errors", "mu_apart", "person_rows", "planned_errors", "release_sums",
    "require_room", "solve_scores", "split", "sum_covariance", "sum_design",
]  # fmt: skip
