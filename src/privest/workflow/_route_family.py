"""The estimate of yes or no, and of counts: by the likelihood of what was released."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from privest.errors import InvalidInput
from privest.estimator.inference import FamilyFit, WeightedRows, fit_family
from privest.workflow._estimate import Estimate
from privest.workflow._header import TableRelease

HOW = {"model": "model", "auto": None, "hc3": "HC3"}


def estimate_family(release: TableRelease, errors: str = "auto") -> Estimate:
    """Logistic or Poisson regression (`fit_family`): the table is read some ten times.

    errors: "model", as the family says; "HC3", as the release scatters; "auto": the former for yes
    or no, the latter for counts and with weights.
    """
    how = errors.lower()
    if how not in HOW:
        raise InvalidInput(
            f'errors of family {release.family} are "model" or "HC3"; received {errors!r}.'
        )
    column = release.column
    low, width, added = 0.0, 1.0, column.added(simulated=release.simulated)
    if release.family == "binomial" and column.limits is not None:  # yes is the upper end
        low, width = column.limits.low, column.limits.width

    def rows() -> Iterator[WeightedRows]:
        for part in release.blocks():
            weight = 1.0 if part.weights is None else part.weights
            yield WeightedRows(part.H, (part.z[:, 0] - low) / width, weight)

    found = fit_family(rows, release.family, added / width**2, errors=HOW[how])  # type: ignore[arg-type]
    if found.rows != release.rows:
        raise InvalidInput(
            f"{release.path} has {found.rows} rows, its header says {release.rows}: the header was "
            "changed."
        )
    return Estimate(**_fields(release, found))


def _fields(release: TableRelease, found: FamilyFit) -> dict[str, Any]:
    return found.errors.fields() | {
        "estimate": found.estimate,
        "names": release.names,
        "simulated": release.simulated,
        "level": release.level,
        "noise": None,
        "rows": found.rows,
        "dropped": release.dropped,
        "misfit": None,
        "release": release,
        "trail": None,
    }
