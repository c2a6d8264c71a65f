"""The aggregate release of a trusted data owner: n noisy sums in place of K noisy values.

rows     features that are read many times
lewis    public weights of the rows, and a certificate of their efficiency
design   what a release of sums can promise and estimate; how a promise is divided
release  the two releases, θ̂ and its intervals
scores   yes/no and counts
"""

from privest.aggregate.design import (
    RowPersons,
    Split,
    SumDesign,
    informed_sd,
    kind_of,
    level_for_errors,
    mu_apart,
    person_rows,
    planned_errors,
    split,
    sum_design,
)
from privest.aggregate.release import SumRelease, release_sums
from privest.aggregate.rows import FeatureRows
from privest.aggregate.scores import solve_scores

__all__ = [
    "FeatureRows", "RowPersons", "Split", "SumDesign", "SumRelease", "informed_sd", "kind_of",
    "level_for_errors", "mu_apart", "person_rows", "planned_errors", "release_sums",
    "solve_scores", "split", "sum_design",
]  # fmt: skip
