"""Inference from a release: standard errors, intervals and tests; costs no privacy."""

from privest.estimator.inference._categorical import FamilyFit, coin_rows, fit_family
from privest.estimator.inference._errors import (
    DOUBTFUL,
    Errors,
    Scatter,
    as_percent,
    less_noise_p,
    stated_p,
    unknown_errors,
    without_noise,
)
from privest.estimator.inference._levels import LevelFit, fit_levels
from privest.estimator.inference._sandwich import CHOICES, ENOUGH, WeightedRows, row_errors

__all__ = [
    "CHOICES", "DOUBTFUL", "ENOUGH", "Errors", "FamilyFit", "LevelFit",
    "Scatter", "WeightedRows", "as_percent", "coin_rows", "fit_family", "fit_levels",
    "less_noise_p",
    "row_errors", "stated_p",
    "unknown_errors", "without_noise",
]  # fmt: skip
