"""The estimate of a table of independent rows: least squares, block by block.

σ² is not needed: errors come from what the release itself scatters (`estimator.inference`). Where
the header states it, or a reference set, it is used for the misfit, and for errors where there are
too few rows or somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from privest.arrays import Array, Index, as_choice
from privest.errors import InvalidInput
from privest.estimator._reference import pooled_variance
from privest.estimator.inference import (
    Errors,
    Scatter,
    SecondPass,
    WeightedRows,
    less_noise_p,
    row_errors,
    second_pass,
    stated_errors,
)
from privest.estimator.inference._choosing import CHOICES, ENOUGH
from privest.estimator.inference._robust import fit_huber
from privest.linalg._running import RunningLeastSquares, tall_triangle
from privest.linalg.tolerances import rank_tolerance
from privest.workflow._estimate import STATED, Estimate, misfit_of
from privest.workflow._header import ReleasedRows, TableRelease
from privest.workflow._terms import require_full

EQUAL_VARIANCES = (
    "Student's t assumes one residual variance for all rows, and few rows cannot show it. Errors "
    "'HC3' do not assume it; with few rows their intervals are wider."
)
TRAIL = 60  # row counts at which the estimate is kept, for the picture


def estimate_rows(release: TableRelease, how: str = "auto") -> Estimate:
    """Least squares on the rows; `how` errors are made: "auto", "t", "HC3", "HC2" or "stated".

    "huber": Huber's estimate in place of least squares, for readings some of which are wild.

    auto is HC3 from 25 degrees of freedom on, Student's t below (pooled with the reference set
    where there is one).
    """
    as_choice(how, CHOICES, "errors")
    first = first_pass(release)
    if how == "huber":
        return _estimate_huber(release, first)
    errors, seen = _errors(release, first, how)
    more = said_of_noise(release, first, seen)
    if how == "auto" and errors.method.startswith("Student"):
        more |= {"cautions": (EQUAL_VARIANCES,)}
    if errors.method in STATED and errors.sampling is not None:  # Gaussian and known: the floor
        more |= {"bound": errors.sampling + first.inverse / release.level}
    return estimated(release, first, first.estimate, errors, more)


@dataclass(frozen=True, eq=False)
class FirstPass:
    """θ̂, A = (HᵀH)⁻¹, what is left, and the trail of a table.

    scatter  None where there are as many coefficients as rows.
    """

    estimate: Array
    inverse: Array
    scatter: Scatter | None
    rows: int
    trail: tuple[Index, Array, Array]


def first_pass(release: TableRelease) -> FirstPass:
    """One look at all rows, without weights."""
    sums, added, rows = new_sums_of(release), added_of(release), 0
    n, marks = len(release.names), _marks(release.rows, len(release.names))
    kept: list[tuple[int, Array, Array]] = []
    for part in _parted(release.blocks(), marks):
        sums.add(tall_triangle(part.H, part.z[:, 0], 1.0, 1.0, 0.0, compiled=False))
        rows += len(part)
        if sums.full and rows in marks:
            total = added if rows == n else max(sums.misfit / (rows - n), added)
            errors = np.sqrt(total * np.diagonal(sums.inverse()))
            kept.append((rows, sums.solution(), errors))
    require_rows(release, rows)
    require_full(sums, release.names, str(release.path), rows)
    counts, estimates, errors = zip(*kept)
    return FirstPass(
        estimate=sums.solution(),
        inverse=sums.inverse(),
        scatter=Scatter(sums.misfit, rows - n, added) if rows > n else None,
        rows=rows,
        trail=(np.array(counts), np.array(estimates), np.array(errors)),
    )


def _errors(release: TableRelease, first: FirstPass, how: str) -> tuple[Errors, SecondPass | None]:
    """The errors by the chosen way, and the second look at the rows where there was one."""
    scatter = first.scatter
    few = scatter is None or scatter.freedom < ENOUGH
    pooled = few and release.reference_rows is not None
    bare = scatter is None and release.noise_variance is not None
    if how == "stated" or (how == "auto" and (bare or pooled)):
        return _stated(release, first), None
    if scatter is None:
        raise too_few(release)
    errors, seen = row_errors(
        how, first.estimate, first.inverse, lambda: plain_rows(release), scatter
    )
    if seen is None and release.noise_variance is not None and release.reference_rows is None:
        seen = second_pass(plain_rows(release), first.estimate, first.inverse)
    return errors, seen


def _estimate_huber(release: TableRelease, first: FirstPass) -> Estimate:
    """Where some readings are wild; with a remark where that has little use."""
    scatter = first.scatter
    if scatter is None:
        raise too_few(release)
    found = fit_huber(lambda: plain_rows(release), first.estimate, first.inverse, scatter.added)
    remark = found.remark(scatter.noise_variance, scatter.added)
    more = said_of_noise(release, first, None) | {"trail": None, "remark": remark}
    return estimated(release, first, found.estimate, found.errors, more)


def plain_rows(release: TableRelease) -> Iterator[WeightedRows]:
    """The rows again, without weights."""
    added = added_of(release)
    return (WeightedRows(part.H, part.z[:, 0], 1.0, added) for part in release.blocks())


def too_few(release: TableRelease) -> InvalidInput:
    """What is said where nothing is left over."""
    stated = release.noise_variance is not None and release.reference_rows is None
    instead = (
        "Take the errors of the stated noise variance (--errors stated), or ask"
        if stated
        else "Ask"
    )
    return InvalidInput(
        f"{release.path}: as many coefficients as rows: nothing is left over to see the noise by. "
        f"{instead} for a release with more rows or fewer features."
    )


def _stated(release: TableRelease, first: FirstPass) -> Errors:
    """Errors of the noise variance of the header: known, or pooled with what the release shows."""
    variance, added = release.noise_variance, added_of(release)
    if variance is None:
        raise InvalidInput(
            f"{release.path}: the header states no noise variance, and so errors cannot be made "
            "from it. Leave out --errors: they come from the release itself, which needs more rows "
            "than coefficients."
        )
    reference = freedom_of(release)
    if reference is None:
        return stated_errors(first.inverse, variance, added)
    squares, left = (0.0, 0) if first.scatter is None else _pair(first.scatter)
    variance, freedom = pooled_variance(variance, reference, squares, left, added)
    known = stated_errors(first.inverse, variance, added).fields()
    known |= {"degrees_of_freedom": freedom, "method": "reference set and release pooled"}
    return Errors(**known)


def _pair(scatter: Scatter) -> tuple[float, int]:
    return scatter.squares, scatter.freedom


def said_of_noise(
    release: TableRelease, first: FirstPass, seen: SecondPass | None
) -> dict[str, Any]:
    """What is said of the stated noise variance, and of the noise that the header states."""
    scatter = first.scatter
    if scatter is None:
        return {"misfit": None}
    moments = None if seen is None else seen.moments
    found = misfit_of(scatter, release.noise_variance, freedom_of(release), moments, first.rows)
    quiet = None
    if release.column.law == "gaussian":
        quiet = less_noise_p(scatter.squares, scatter.freedom, scatter.added)
    if release.column.law != "gaussian":  # the intervals of σ² are those of Gaussian noise
        return found
    return found | {
        "less_noise_p": quiet,
        "noise_found": scatter.noise_variance,
        "noise_interval": scatter.noise_interval(),
    }


def estimated(
    release: TableRelease,
    first: FirstPass,
    estimate: Array,
    errors: Errors,
    more: dict[str, Any],
) -> Estimate:
    """All of it together; `more` goes before what the first pass knows."""
    return Estimate(
        estimate=estimate,
        **errors.fields(),
        names=release.names,
        simulated=release.simulated,
        level=release.level,
        noise=release.noise_variance,
        rows=first.rows,
        dropped=release.dropped,
        reference_rows=release.reference_rows,
        release=release,
        **{"trail": first.trail} | more,
    )


# --- what routes share ----------------------------------------------------------------------------


def new_sums_of(release: TableRelease) -> RunningLeastSquares:
    """Sums for the coefficients of a release."""
    n = len(release.names)
    return RunningLeastSquares(n, rank_tolerance(n))


def added_of(release: TableRelease) -> float:
    """The variance of the release noise on a reading."""
    return release.column.added(simulated=release.simulated)


def added_at(release: TableRelease, part: ReleasedRows) -> Array:
    """The variances of the release noise on some readings that are shown."""
    column = release.column
    if part.levels is None:
        return np.full(len(part), column.added(simulated=release.simulated))
    return column.row_added(part.levels, simulated=release.simulated)


def freedom_of(release: TableRelease) -> int | None:
    """Degrees of freedom of σ², where it is from a reference set."""
    if release.reference_rows is None:
        return None
    return max(release.reference_rows - len(release.names), 1)


def require_rows(release: TableRelease, rows: int) -> None:
    """Refuse a table that has not as many rows as its header says."""
    if rows != release.rows:
        raise InvalidInput(
            f"{release.path} has {rows} rows, its header says {release.rows}: the header was "
            "changed."
        )


def _parted(blocks: Iterator[ReleasedRows], marks: Index) -> Iterator[ReleasedRows]:
    """The same rows in blocks that end at the marks."""
    start = 0
    for block in blocks:
        ends = [*(marks[(marks > start) & (marks < start + len(block))] - start)]
        for first, last in zip([0, *ends], [*ends, len(block)]):
            yield ReleasedRows(block.H[first:last], block.z[first:last])
        start += len(block)


def _marks(rows: int, parameters: int) -> Index:
    """Row counts, evenly on a log scale, the last one included."""
    first = min(parameters + 1, rows)
    return np.unique(np.geomspace(first, rows, TRAIL).round().astype(np.intp))
