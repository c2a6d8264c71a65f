"""The estimate of a table with a range: maximum likelihood, which undoes what clipping does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields

from privest.estimator import ClippedRows, Result, estimate_clipped
from privest.workflow._estimate import Estimate
from privest.workflow._header import TableRelease
from privest.workflow._modelled import Ends
from privest.workflow._route_rows import freedom_of, require_rows


def estimate_clipped_rows(release: TableRelease, ends: Ends) -> Estimate:
    """By maximum likelihood, from readings that were clipped at these ends."""
    assert release.noise_variance is not None
    variance = release.noise_variance

    def blocks() -> Iterator[ClippedRows]:
        for part, H in release.stream():
            z = part.values / math.sqrt(release.level)
            yield ClippedRows(H, z, variance, release.level, *ends)

    found = estimate_clipped(
        blocks,
        noise_variance=release.unit_variance,
        reference=freedom_of(release),
        names=release.names,
        simulated=release.simulated,
    )
    require_rows(release, found.readings)
    known = {field.name: getattr(found, field.name) for field in fields(Result)}
    return Estimate(
        **known,
        level=release.level,
        noise=release.noise_variance,
        rows=found.readings,
        dropped=release.dropped,
        misfit=found.misfit,
        reference_rows=release.reference_rows,
        release=release,
        trail=None,
        clipped=found.clipped,
    )
