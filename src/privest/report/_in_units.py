"""What an estimate says in the units of the file, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from privest.arrays import CONFIDENCE, plural
from privest.estimator.inference import Total
from privest.report._digits import per_cent, rounded
from privest.workflow import Estimate
from privest.workflow._original_units import share_text


def total_words(found: Estimate, total: Total, confidence: float = CONFIDENCE) -> str:
    """The total of the people of a release, its interval, and what counts in it."""
    low, high = total.interval
    clipped = ""
    if found.beyond is not None:
        clipped = " Readings beyond the range, which may be all of them, count as its ends."
    elif found.clipped:
        clipped = f" Readings beyond the range ({share_text(found.clipped)}) count as its ends."
    if found.release.weights is not None:
        clipped += " Every row counts once: the weights are not in it."
    short = (
        ""
        if total.trusted
        else " The noise makes it so skewed that the interval is too short: more people are "
        "needed, or a higher level."
    )
    return (
        f"Total of {found.release.target} over {plural(total.rows, 'row')}: "
        f"{rounded(total.total, total.standard_error)}, {per_cent(confidence)} interval "
        f"{rounded(low, total.standard_error)} … {rounded(high, total.standard_error)} (these "
        f"rows, by the noise of the release; not others like them).{clipped}{short}"
    )


def mean_words(found: Estimate, row: Mapping[str, object], confidence: float = CONFIDENCE) -> str:
    """The mean of the target at a row, in the units of the file, with its interval."""
    mean = found.mean_at(row, confidence)
    low, high = (float(end) for end in mean.interval)
    size = (high - low) / 4
    middle = ""
    if mean.median != mean.mean:
        middle = f"; half of them have less than {rounded(mean.median, size)}"
    return (
        f"“{found.release.target}” is {rounded(mean.mean, size)} on average "
        f"({per_cent(confidence)} interval {rounded(low, size)} … {rounded(high, size)}){middle}. "
        f"Method: {mean.method}."
    )
