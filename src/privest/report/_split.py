"""What of every error is sampling, and what is the price of privacy."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array
from privest.report._digits import rounded
from privest.report._page import Section, TableBlock
from privest.workflow import Estimate
from privest.workflow._route_columns import ColumnsEstimate


def added_variance(estimate: Estimate) -> Array | None:
    """(n,): what the noise of the release adds to the variances; None where it is not known."""
    if estimate.floor is not None:
        return np.asarray(estimate.floor**2)
    return None if estimate.privacy is None else np.asarray(np.diagonal(estimate.privacy))


def split_table(estimate: Estimate) -> TableBlock | None:
    """The standard errors of one column in their two parts; None where they are not told apart.

    The squares of the two add up to that of the whole.
    """
    added, whole = added_variance(estimate), estimate.standard_error**2
    if added is None or not (np.isfinite(whole).all() and (whole > 0).all()):
        return None
    private = np.clip(added, 0.0, whole)
    rows = []
    for name, all_, own in zip(estimate.names, whole, private):
        size = float(np.sqrt(all_))
        parts = [rounded(float(np.sqrt(x)), size) for x in (all_, all_ - own, own)]
        rows.append((name, *parts, f"{100 * float(own / all_):.0f} %"))
    return TableBlock(
        ("coefficient", "standard error", "by sampling", "by privacy", "share of privacy"),
        rows,
        caption="Sampling is there without privacy too: other people would give other numbers. "
        "Privacy is the noise of the release. Squares add up, and the share is one of them.",
    )


def split_section(estimate: Estimate) -> list[Section]:
    """A section on what sampling and what privacy adds, where that is known of a column."""
    parts = estimate.parts if isinstance(estimate, ColumnsEstimate) else (estimate,)
    told = [table for one in parts if (table := split_table(one)) is not None]
    return [Section("Sampling and privacy", tuple(told))] if told else []
