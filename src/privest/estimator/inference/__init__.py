"""Inference from a release: standard errors, intervals and tests; costs no privacy."""

from privest.estimator.inference._categorical import FamilyFit, coin_rows, fit_family
from privest.estimator.inference._cluster import (
    ClusterErrors,
    ClusterSums,
    cluster_errors,
    group_sums,
)
from privest.estimator.inference._errors import (
    DOUBTFUL,
    Errors,
    Joint,
    OriginalMean,
    Scatter,
    as_percent,
    joint_test,
    less_noise_p,
    likelihood_mean,
    misfit_p,
    reference_p,
    stated_errors,
    stated_p,
    unknown_errors,
    without_noise,
)
from privest.estimator.inference._levels import LevelFit, Prepared, fit_levels, prepared
from privest.estimator.inference._people import PeopleEstimate, PeopleNoise, PeopleSums
from privest.estimator.inference._sandwich import (
    CHOICES,
    ENOUGH,
    SecondPass,
    WeightedRows,
    fit_huber,
    row_errors,
    second_pass,
)
from privest.estimator.inference._serial import BlockSums, SerialErrors, serial_errors

__all__ = [
    "CHOICES", "DOUBTFUL", "ENOUGH", "BlockSums", "ClusterErrors", "ClusterSums", "Errors",
    "FamilyFit", "Joint", "LevelFit", "OriginalMean", "PeopleEstimate", "PeopleNoise",
    "PeopleSums", "Prepared", "Scatter", "SecondPass", "SerialErrors", "WeightedRows",
    "as_percent", "cluster_errors", "coin_rows", "fit_family", "fit_huber", "fit_levels",
    "group_sums", "joint_test", "less_noise_p", "likelihood_mean", "misfit_p", "prepared",
    "reference_p", "row_errors", "second_pass", "serial_errors", "stated_errors", "stated_p",
    "unknown_errors", "without_noise",
]  # fmt: skip
