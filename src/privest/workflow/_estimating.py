"""The estimate: from a release and its header alone. Which way depends on what the header says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from privest.workflow._estimate import Estimate
from privest.workflow._header import TableRelease, read_release
from privest.workflow._route_clipped import undo_clipping
from privest.workflow._route_columns import estimate_columns
from privest.workflow._route_family import estimate_family
from privest.workflow._route_levels import estimate_levels
from privest.workflow._route_people import estimate_people
from privest.workflow._route_rows import estimate_rows
from privest.workflow._route_weighted import estimate_weighted


def estimate_release(path: str | Path, errors: str = "auto") -> Estimate:
    """Read a release in blocks and estimate, by the way that its header asks for.

    errors: how they are made. "auto" is what covers best at this number of rows: HC3 from 25
    degrees of freedom on, Student's t from the release below, HC2 with the degrees of freedom of
    Bell and McCaffrey where few rows decide a coefficient, and with persons CR2. Or "t", "HC3",
    "HC2", "stated": by the noise variance of the header, or "huber": Huber's estimate. With
    persons "cr2", or "reml" for random person effects.
    Yes or no, and counts: "auto", "model" or "HC3".
    Where rows have levels of their own: "auto", restricted maximum likelihood over the levels, or
    "stated".
    Where a range clips so much that it matters θ and σ² are found by maximum likelihood, and the
    table is read some eight times.
    Raises InvalidInput where the table is not the one that the header was made for.
    """
    return estimate_table(read_release(path), errors)


def estimate_table(release: TableRelease, errors: str = "auto") -> Estimate:
    """The same, of a release whose header was read."""
    if len(release.columns) > 1:
        return estimate_columns(release, lambda one: estimate_table(one, errors))
    found = _of_one_column(release.remembered(), errors)
    return replace(found, release=release)


def _of_one_column(release: TableRelease, errors: str) -> Estimate:
    if release.people is not None:
        return estimate_people(release, errors)  # what a range does is in its remark
    if release.family != "gaussian":
        return estimate_family(release, errors)
    if release.column.level_column is not None:
        found = estimate_levels(release, errors)
    elif release.weights is not None:
        found = estimate_weighted(release, errors)
    else:
        found = estimate_rows(release, errors)
    limits = release.limits
    return found if limits is None else undo_clipping(found, limits, errors)
