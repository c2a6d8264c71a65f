"""The estimate: coefficients from a release alone, with errors that include the privacy noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from privest.arrays import Array, as_choice
from privest.estimator.inference import Joint, joint_test
from privest.workflow.clipping import undo_clipping
from privest.workflow.cluster import estimate_people
from privest.workflow.document import TableRelease, read_release
from privest.workflow.fit import (
    added_of,
    estimate_family,
    estimate_levels,
    estimate_rows,
    estimate_weighted,
)
from privest.workflow.result import SMALL, Estimate
from privest.workflow.squares import add_rows, new_sums
from privest.workflow.terms import Column

METHODS = {
    "none": "noisy sums; widest errors that the range allows",
    "squares": "noisy sums and squares of residuals",
    "free": "noisy sums and squares",
    "persons": "noisy sums, and squares of the sums of each person",
    "scores": "noisy score equations",
}
SUMS_ALONE = "columns of noisy sums are estimated one by one"


def estimate_file(path: str | Path, errors: str = "auto") -> Estimate:
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
    if release.sums:
        return estimate_sums(release, errors)
    found = _of_one_column(release.remembered(), errors)
    return replace(found, release=release)


def estimate_sums(release: TableRelease, errors: str = "auto") -> Estimate:
    """The coefficients of an aggregate release, as its owner computed them from the noisy sums.

    Correlations of the coefficients are NaN unless the matrix was published.
    """
    as_choice(errors, ("auto",), "errors")
    if len(release.columns) > 1:
        parts = tuple(
            estimate_sums(replace(release, columns=(column,), sums=(own,), splits=(one,)))
            for column, own, one in zip(release.columns, release.sums, release.splits, strict=True)
        )
        return Estimate(**_stacked(parts), release=release, parts=parts, silent=SUMS_ALONE)
    (own,) = release.sums
    covariance = np.full((len(own.estimate),) * 2, np.nan)
    np.fill_diagonal(covariance, own.variance)
    return Estimate(
        estimate=own.estimate, covariance=covariance, names=release.names,
        simulated=release.simulated, method=METHODS[own.kind], rows=release.rows,
        degrees_of_freedom=None if np.isinf(own.freedom).all() else own.freedom,
        dropped=release.dropped, release=release,
    )  # fmt: skip


def _of_one_column(release: TableRelease, errors: str) -> Estimate:
    if release.model.person is not None:
        return estimate_people(release, errors)  # what a range does is in its remark
    if release.model.family != "gaussian":
        return estimate_family(release, errors)
    if release.privacy.level_column is not None:
        found = estimate_levels(release, errors)
    elif release.model.weights is not None:
        found = estimate_weighted(release, errors)
    else:
        found = estimate_rows(release, errors)
    limits = release.limits(release.column)
    return found if limits is None else undo_clipping(found, limits, errors)


def estimate_columns(
    release: TableRelease, estimate: Callable[[TableRelease], Estimate]
) -> Estimate:
    """Each column by `estimate`, as if it were alone; then their residuals together, in one pass.

    Least squares column by column is efficient whatever the columns have in common, because all of
    them have the same features (`bounds.split_budget`).
    """
    parts = tuple(estimate(one_column(release, column)) for column in release.columns)
    silent = _silent(release, parts)
    return Estimate(
        **_stacked(parts),
        release=release,
        parts=parts,
        joint=None if silent else _joint(release, parts),
        silent=silent,
    )


def _stacked(parts: Sequence[Estimate]) -> dict[str, Any]:
    """The fields of a `Fit` of all coefficients, column after column."""
    first = parts[0]
    n, q = len(first.names), len(parts)
    covariance = np.full((q * n, q * n), np.nan)
    for j, part in enumerate(parts):
        own = slice(j * n, (j + 1) * n)
        covariance[own, own] = part.covariance
    return {
        "estimate": np.concatenate([part.estimate for part in parts]),
        "covariance": covariance,
        "names": tuple(
            f"{part.release.column.target}: {name}" for part in parts for name in part.names
        ),
        "simulated": first.simulated,
        "degrees_of_freedom": np.concatenate([_freedom(part) for part in parts]),
        "method": "; ".join(dict.fromkeys(part.method for part in parts if part.method)) or None,
        "rows": first.rows,
        "dropped": first.dropped,
        "cautions": tuple(
            f"{one.release.column.target}: {text}" for one in parts for text in one.cautions
        ),
    }


def _freedom(part: Estimate) -> Array:
    """Degrees of freedom, one a coefficient; infinite where errors are normal."""
    known = np.inf if part.degrees_of_freedom is None else part.degrees_of_freedom
    return np.broadcast_to(np.asarray(known, dtype=np.float64), len(part.names))


def _silent(release: TableRelease, parts: Sequence[Estimate]) -> str | None:
    """Why there is no joint test; None: there is one."""
    if any((part.clipping_bias or 0.0) >= SMALL for part in parts):
        return "readings were clipped, and the joint test is of least squares"
    if any("Huber" in (part.method or "") for part in parts):
        return "the joint test is of least squares, and these estimates are Huber's"
    if release.model.weights is not None:
        return "rows have weights, and the joint test is of rows that count the same"
    if release.rows - len(release.names) < len(parts):
        return "there are too few rows for a joint test of so many columns"
    return None


def _joint(release: TableRelease, parts: Sequence[Estimate]) -> Joint:
    B = np.column_stack([part.estimate for part in parts])
    n, q = B.shape
    sums, squares = new_sums(n), np.zeros((q, q))
    for block in release.blocks():
        add_rows(sums, block.H)
        E = block.z - block.H @ B
        squares += E.T @ E
    added = [added_of(one_column(release, column)) for column in release.columns]
    return joint_test(B, sums.inverse(), squares, release.rows - n, added)


def one_column(release: TableRelease, column: Column) -> TableRelease:
    """The release of one of several columns, as if it were alone."""
    return replace(release, columns=(column,))
