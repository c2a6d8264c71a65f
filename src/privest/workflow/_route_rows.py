"""The estimate of a table of independent rows: least squares, block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from privest.arrays import Array, Index
from privest.errors import InvalidInput
from privest.estimator import PrivateRLS
from privest.release import StreamRelease
from privest.workflow._estimate import Estimate, fit_of
from privest.workflow._header import TableRelease
from privest.workflow._terms import require_shown

TRAIL = 60  # row counts at which the estimate is kept, for the picture


def estimate_rows(release: TableRelease) -> Estimate:
    """By `PrivateRLS`: the rows are a stream at level s."""
    if release.noise_variance is None:
        raise InvalidInput("the header states no noise variance.")
    # Not compiled: to compile takes longer than to read most tables.
    rls = PrivateRLS(release.level, len(release.names), release.noise_variance, compiled=False)
    marks = _marks(release.rows, rls.parameters)
    reference = freedom_of(release)
    kept = []
    for part, H in _parted(release.stream(), marks):
        rls.update(part, H)
        if rls.identifiable and rls.steps in marks:
            found = rls.result(release.names, reference=reference)
            kept.append((rls.steps, found.estimate, found.standard_error))
    require_rows(release, rls.steps)
    require_shown(rls, release.names, str(release.path))
    counts, estimates, errors = zip(*kept)
    return Estimate(
        **fit_of(rls, release.names, reference),
        level=release.level,
        noise=release.noise_variance,
        dropped=release.dropped,
        reference_rows=release.reference_rows,
        release=release,
        trail=(np.array(counts), np.array(estimates), np.array(errors)),
    )


def freedom_of(release: TableRelease) -> int | None:
    """Degrees of freedom of σ², where it is from a reference set."""
    if release.reference_rows is None:
        return None
    return max(release.reference_rows - len(release.names), 1)


def require_rows(release: TableRelease, rows: int) -> None:
    if rows != release.rows:
        raise InvalidInput(
            f"{release.path} has {rows} rows, its header says {release.rows}: the header was "
            "changed."
        )


def _parted(
    blocks: Iterator[tuple[StreamRelease, Array]], marks: Index
) -> Iterator[tuple[StreamRelease, Array]]:
    """The same rows in blocks that end at the marks."""
    for block, H in blocks:
        ends = [*(marks[(marks > block.start) & (marks < block.start + block.steps)] - block.start)]
        for first, last in zip([0, *ends], [*ends, block.steps]):
            values = block.values[first:last]
            start, steps = block.start + int(first), int(last - first)
            part = StreamRelease(
                start, steps, values, None, block.fingerprint, block.simulated, block.grid
            )
            yield part, H[first:last]


def _marks(rows: int, parameters: int) -> Index:
    """Row counts, evenly on a log scale, the last one included."""
    first = min(parameters + 1, rows)
    return np.unique(np.geomspace(first, rows, TRAIL).round().astype(np.intp))
