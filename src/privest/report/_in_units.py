"""What an estimate says in the units of the file, in sentences."""

from __future__ import annotations

from privest.arrays import CONFIDENCE
from privest.estimator.inference import Total
from privest.report._digits import rounded
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
        f"Total of {found.release.target} over {total.rows:,} rows: "
        f"{rounded(total.total, total.standard_error)}, {100 * confidence:.6g} % interval "
        f"{rounded(low, total.standard_error)} … {rounded(high, total.standard_error)} (these "
        f"rows, by the noise of the release; not others like them).{clipped}{short}"
    )
