"""The estimate of a table whose rows have levels of their own: a public column of the release.

    z_k ~ N(h_kᵀθ, σ² + 1/s_k) :   weights 1/(σ² + 1/s_k), σ² by restricted maximum likelihood

Rows of level 0 show nothing and are passed over; they count for what errors would be without
privacy. The table is read some six times, in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from privest.arrays import Array, as_choice
from privest.errors import InvalidInput
from privest.estimator.inference import Errors, LevelRows, fit_levels, less_noise_p, misfit_p
from privest.estimator.inference._weighted_sums import Prepared, prepared
from privest.linalg._running import tall_triangle
from privest.workflow._estimate import STATED, Estimate
from privest.workflow._header import TableRelease
from privest.workflow._route_rows import added_at, new_sums_of, require_rows, too_few
from privest.workflow._terms import add_rows, require_full

Rows = Callable[[], Iterator[LevelRows]]


def estimate_levels(release: TableRelease, how: str = "auto") -> Estimate:
    """Weighted least squares at the levels of the rows; `how`: "auto", or "stated".

    auto    σ² by restricted maximum likelihood, errors of Knapp and Hartung, never below those of
            the known noise, with Satterthwaite's degrees of freedom (`fit_levels`).
    stated  σ² of the header: the weights are then the best there are, and errors the bound.
    """
    as_choice(how, ("auto", "stated"), "errors")
    n = len(release.names)
    inverse, rows = _looked_at(release)

    def shown() -> Iterator[LevelRows]:
        for part in release.shown_blocks():
            yield LevelRows(part.H, part.z[:, 0], added_at(release, part))

    if rows <= n:
        raise too_few(release)
    first = prepared(shown, n)
    found = fit_levels(shown, n)
    more = _misfit(release, first, shown) | {
        "noise_found": found.noise_variance,
        "noise_interval": found.noise_interval,
        "less_noise_p": less_noise_p(found.least_noise, found.freedom, 1.0),
    }
    if how == "stated":
        return _estimated(release, *_stated(release, first, inverse), more)
    errors = replace(found.errors, classical=found.noise_variance * inverse)
    return _estimated(release, found.estimate, errors, more)


def _looked_at(release: TableRelease) -> tuple[Array, int]:
    """(HᵀH)⁻¹ of all rows, and how many are shown; refused where those do not determine θ."""
    every, own, rows, shown = new_sums_of(release), new_sums_of(release), 0, 0
    for part in release.blocks():
        add_rows(every, part.H)
        rows += len(part)
        seen = part.shown
        shown += len(seen)
        if len(seen):
            own.add(tall_triangle(seen.H, seen.z[:, 0], 1.0, 1.0, 0.0, compiled=False))
    require_rows(release, rows)
    require_full(own, release.names, str(release.path), shown)
    return every.inverse(), shown


def _stated(release: TableRelease, first: Prepared, inverse: Array) -> tuple[Array, Errors]:
    """θ̂ and its errors by the noise variance of the header, which is taken to be right."""
    variance = release.noise_variance
    if variance is None or release.reference_rows is not None:
        raise InvalidInput(
            f"{release.path}: its rows have levels of their own, and the header states no noise "
            "variance that is known (one from a reference set is known to its few rows only). "
            "Leave out --errors: they come from the release itself."
        )
    sums, scale = first.sums(np.array([variance])), first.scale
    errors = Errors(
        covariance=scale @ sums.inverse[0] @ scale.T,
        degrees_of_freedom=None,
        floor=None,
        sampling=variance * scale @ sums.spread[0] @ scale.T,
        classical=variance * inverse,
        method=STATED[0],
    )
    return first.start + scale @ sums.shift[0], errors


def _misfit(release: TableRelease, first: Prepared, shown: Rows) -> dict[str, Any]:
    """Whether the release scatters as a stated σ² and the levels say; heavy tails are told apart.

    Not of a reference set, whose own few rows would have to be counted.
    """
    variance = release.noise_variance
    if variance is None or release.reference_rows is not None:
        return {"misfit": None}
    sums = first.sums(np.array([variance]))
    theta, quadratic = first.start + first.scale @ sums.shift[0], float(sums.quadratic[0])
    moments = np.zeros(2)
    for part in shown():
        square = np.square(part.z - part.H @ theta) / (variance + part.added)
        moments += [square.sum(), square @ square]
    chance = misfit_p(
        quadratic, first.freedom, 1.0, (float(moments[0]), float(moments[1])), first.rows
    )
    return {"misfit": quadratic / first.freedom, "misfit_p": chance}


def _estimated(
    release: TableRelease, theta: Array, errors: Errors, more: dict[str, Any]
) -> Estimate:
    assert release.column.level_column is not None
    return Estimate(
        estimate=theta,
        **errors.fields(),
        names=release.names,
        simulated=release.simulated,
        level=release.column.level_column,
        noise=release.noise_variance,
        rows=release.rows,
        dropped=release.dropped,
        reference_rows=release.reference_rows,
        release=release,
        trail=None,
        **more,
    )
