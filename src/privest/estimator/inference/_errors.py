"""How good an estimate is, and how that was found out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from privest.arrays import Array
from privest.records import Record


@dataclass(frozen=True, eq=False, kw_only=True)
class Errors(Record):
    """What an `estimator.Result` holds beside its estimate, by one way of finding errors.

    covariance          (n, n) of θ̂, release noise included.
    degrees_of_freedom  of Student's t, one number or one a coefficient; None: normal.
    floor               (n,) standard errors by the known release noise alone; None: not needed.
    sampling            (n, n): the part that is there without release noise, or None.
    classical           (n, n): the floor without privacy, of the best estimate from the readings.
    method              how the errors were made, in a few words for people.
    """

    covariance: Array
    degrees_of_freedom: float | Array | None
    floor: Array | None
    sampling: Array | None
    classical: Array | None
    method: str

    def fields(self) -> dict[str, Any]:
        """The same by the names of the fields of a `Result`."""
        return {one.name: getattr(self, one.name) for one in fields(self)}
