"""Inference from a release: standard errors, intervals and tests.

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
from privest.estimator.inference._errors import Joint as Joint
from privest.estimator.inference._errors import joint_test as joint_test
from privest.estimator.inference._errors import without_noise as without_noise
from privest.estimator.inference._levels import LevelFit, LevelRows, fit_levels
from privest.estimator.inference._levels import Prepared as Prepared
from privest.estimator.inference._levels import prepared as prepared
from privest.estimator.inference._original_scale import (
    OriginalMean,
    as_percent,
    likelihood_mean,
)
from privest.estimator.inference._people import (
    EffectSums,
    PeopleEstimate,
    PeopleNoise,
    PeopleSums,
    RandomEffects,
)
from privest.estimator.inference._sandwich import CHOICES as CHOICES
from privest.estimator.inference._sandwich import ENOUGH as ENOUGH
from privest.estimator.inference._sandwich import (
    SecondPass,
    WeightedRows,
    row_errors,
    second_pass,
)
from privest.estimator.inference._sandwich import fit_huber as fit_huber
from privest.estimator.inference._serial import BlockSums, SerialErrors, serial_errors

__all__ = [
    "BlockSums", "ClusterErrors", "ClusterSums", "EffectSums", "Errors", "FamilyFit",
    "LevelFit", "LevelRows", "OriginalMean", "PeopleEstimate", "PeopleNoise", "PeopleSums",
    "RandomEffects", "Scatter", "SecondPass", "SerialErrors", "WeightedRows",
    "as_percent", "cluster_errors", "coin_rows", "fit_family", "fit_levels", "group_sums",
    "less_noise_p", "likelihood_mean", "misfit_p", "reference_p", "row_errors", "second_pass",
    "serial_errors", "stated_errors", "stated_p", "unknown_errors",
]  # fmt: skip
