"""The estimate of a table with weights of its rows: a public column that the header names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.estimator.inference import WeightedRows, row_errors
from privest.linalg._running import tall_triangle
from privest.workflow._estimate import Estimate
from privest.workflow._header import ReleasedRows, TableRelease
from privest.workflow._route_rows import (
    added_of,
    estimated,
    first_pass,
    new_sums_of,
    said_of_noise,
    too_few,
)
from privest.workflow._terms import require_full


def estimate_weighted(release: TableRelease, how: str = "auto") -> Estimate:
    """θ̂ = (HᵀWH)⁻¹HᵀWz with a sandwich, W survey weights of the header, a public column.

    HC3: what a reading's variance is does not matter.
    """
    first = first_pass(release)
    if first.scatter is None:
        raise too_few(release)
    more = said_of_noise(release, first, None) | {"trail": None, "misfit": None, "misfit_p": None}
    sums = new_sums_of(release)
    for part in release.blocks():
        root = np.sqrt(weights_of(release, part))
        sums.add(tall_triangle(part.H, part.z[:, 0], root, root, 0.0, compiled=False))
    require_full(sums, release.names, str(release.path), first.rows)
    estimate, inverse = sums.solution(), sums.inverse()
    errors, _ = row_errors(how, estimate, inverse, lambda: _weighted_rows(release))
    errors = replace(errors, method=f"{errors.method}, survey weights")
    return estimated(release, first, estimate, errors, more)


def _weighted_rows(release: TableRelease) -> Iterator[WeightedRows]:
    for part in release.blocks():
        yield WeightedRows(part.H, part.z[:, 0], weights_of(release, part), added_of(release))


def weights_of(release: TableRelease, part: ReleasedRows) -> Array:
    """The weights of some rows. Raises InvalidInput where one is not above 0."""
    assert part.weights is not None
    assert release.weights is not None
    require_weights(part.weights, release.weights.column, str(release.path))
    return part.weights


def require_weights(weights: Array, column: str, where: str) -> None:
    """Refuse weights that are not above 0."""
    if len(weights) and not (np.min(weights) > 0 and np.isfinite(weights).all()):
        raise InvalidInput(
            f"{where}, column {column!r}: weights must be above 0; a row of weight 0 stands for "
            "nobody: leave such rows out of the table before the plan."
        )
