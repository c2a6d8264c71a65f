"""What a receiver concludes from a release: standard errors, intervals and tests.

Everything here is done to what was released, and costs no privacy.
"""

from privest.estimator.inference._categorical import FamilyFit, coin_rows, fit_family
from privest.estimator.inference._cluster import (
    ClusterErrors,
    ClusterSums,
    cluster_errors,
    group_sums,
)
from privest.estimator.inference._errors import DOUBTFUL as DOUBTFUL
from privest.estimator.inference._errors import (
    Errors,
    Scatter,
    less_noise_p,
    misfit_p,
    reference_p,
    stated_errors,
    stated_p,
    unknown_errors,
)
from privest.estimator.inference._errors import without_noise as without_noise
from privest.estimator.inference._joint import Joint as Joint
from privest.estimator.inference._joint import joint_test as joint_test
from privest.estimator.inference._levels import LevelFit, fit_levels
from privest.estimator.inference._original_scale import (
    OriginalMean,
    Total,
    as_percent,
    likelihood_mean,
    total_of,
)
from privest.estimator.inference._people import (
    EffectSums,
    PeopleEstimate,
    PeopleNoise,
    PeopleSums,
    RandomEffects,
)
from privest.estimator.inference._robust import fit_huber as fit_huber
from privest.estimator.inference._sandwich import CHOICES as CHOICES
from privest.estimator.inference._sandwich import ENOUGH as ENOUGH
from privest.estimator.inference._sandwich import (
    SecondPass,
    WeightedRows,
    row_errors,
    second_pass,
)
from privest.estimator.inference._serial import BlockSums, SerialErrors, serial_errors
from privest.estimator.inference._weighted_sums import LevelRows
from privest.estimator.inference._weighted_sums import Prepared as Prepared
from privest.estimator.inference._weighted_sums import prepared as prepared

__all__ = [
    "BlockSums", "ClusterErrors", "ClusterSums", "EffectSums", "Errors", "FamilyFit",
    "LevelFit", "LevelRows", "OriginalMean", "PeopleEstimate", "PeopleNoise", "PeopleSums",
    "RandomEffects", "Scatter", "SecondPass", "SerialErrors", "Total", "WeightedRows",
    "as_percent", "cluster_errors", "coin_rows", "fit_family", "fit_levels", "group_sums",
    "less_noise_p", "likelihood_mean", "misfit_p", "reference_p", "row_errors", "second_pass",
    "serial_errors", "stated_errors", "stated_p", "total_of", "unknown_errors",
]  # fmt: skip
