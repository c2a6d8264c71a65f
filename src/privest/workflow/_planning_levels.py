"""The plan of a table with a level column: errors from Σ_k h_kh_kᵀ/(σ² + UNIT/s_k), in one pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Never

import numpy as np

from privest.arrays import Array
from privest.bounds import classical_bound
from privest.data import Source, read_rows
from privest.errors import InvalidInput
from privest.model import LinearModel
from privest.privacy import Range
from privest.records import standard_errors
from privest.workflow._column import UNIT
from privest.workflow._planning import Plan
from privest.workflow._spec import Spec
from privest.workflow._terms import Terms, add_rows, new_sums, require_full
from privest.workflow._unequal_rows import UnequalRows


class LevelReader:
    """The features of a table with a level column, block by block, and what the levels add up to.

    variance  σ² of the readings; 0 where it is not stated: errors are then those of privacy alone.
    """

    def __init__(
        self,
        spec: Spec,
        source: Source,
        counted_by: tuple[str, ...] | None,
        variance: float,
        limits: Range | None,
    ) -> None:
        assert spec.privacy.level_column is not None
        self.spec, self.source, self.column = spec, source, spec.privacy.level_column
        self.most, self.total, self.shown, self.rows = 0.0, 0.0, 0, 0
        self._counted_by, self._variance = counted_by, variance
        self._rows = UnequalRows(None if limits is None else (limits.low, limits.high))
        self._sums = new_sums(spec.design)

    def blocks(self) -> Iterator[tuple[Array, int]]:
        """The rows of each block, and how many were dropped."""
        for block in read_rows(
            self.source, self.spec.design, self._counted_by, missing=self.spec.missing,
            beside=(self.column,),
        ):  # fmt: skip
            levels = np.asarray(block.beside[self.column])
            if not bool((np.isfinite(levels) & (levels >= 0)).all()):
                raise InvalidInput(
                    f"{self.source.name}, column {self.column!r}: levels are finite numbers, 0 or "
                    "more."
                )
            self._rows.require(levels)  # the grid holds the range: before anything is drawn
            known = levels / (UNIT + self._variance * levels)
            add_rows(self._sums, block.H * np.sqrt(known)[:, None])
            self.most = max(self.most, float(levels.max(initial=0.0)))
            self.total += float(levels.sum())
            self.shown += int(np.count_nonzero(levels))
            self.rows += len(levels)
            yield block.H, block.dropped

    def at_most(self) -> Spec:
        """The spec with the largest level for all rows: what everybody is promised."""
        if self.shown <= len(self.spec.design.names):
            raise InvalidInput(
                f"{self.source.name}, column {self.column!r}: {self.shown} rows have a level above "
                "0, and more than there are coefficients are needed."
            )
        where = f"{self.source.name}, rows with a level above 0"
        require_full(self._sums, self.spec.design.names, where, self.shown)
        return replace(
            self.spec, privacy=replace(self.spec.privacy, level=self.most, level_column=None)
        )

    def plan(self, base: Plan) -> LevelPlan:
        """The plan of these levels, from that of the largest for all rows."""
        known = {one.name: getattr(base, one.name) for one in fields(Plan)}
        known |= {"spec": self.spec, "columns": (replace(base.column, level_column=self.column),)}
        return LevelPlan(
            **known, mean_level=self.total / self.rows, withheld=self.rows - self.shown,
            _released=np.triu(self._sums.triangle[:-1, :-1]),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LevelPlan(Plan):
    """What is known before a release whose rows have levels of their own.

    `level` is the largest of them. mean_level: of all rows. withheld: rows of level 0, of which
    nothing is shown.
    """

    mean_level: float
    withheld: int
    _released: Array = field(repr=False)

    DERIVED: ClassVar[tuple[str, ...]] = (
        "epsilon", "standard_error", "classical_error", "privacy_error", "reading_error",
        "informed_error",
    )  # fmt: skip

    def _errors(self) -> Array:
        return standard_errors(classical_bound(LinearModel(self._released, 1.0, names=self.names)))

    @property
    def standard_error(self) -> Array:
        """Standard errors at these levels; NaN where σ² is not stated."""
        known = self.noise_variance is not None
        return self._errors() if known else np.full(len(self.names), np.nan)

    @property
    def privacy_error(self) -> Array:
        """The root of the variance that privacy adds; all of it where σ² is not stated."""
        if self.noise_variance is None:
            return self._errors()
        return np.sqrt(np.maximum(self._errors() ** 2 - self.classical_error**2, 0.0))

    @property
    def privacy_share(self) -> float:
        """The part of the variance that privacy costs, of the first coefficient: they differ."""
        return float(1 - (self.classical_error[0] / self.standard_error[0]) ** 2)

    @property
    def classical_error(self) -> Array:
        """Standard errors without privacy; NaN where σ² is not stated."""
        variance = math.nan if self.noise_variance is None else self.noise_variance
        return math.sqrt(variance) * standard_errors(self._unit_covariance)

    @property
    def guesses(self) -> tuple[()]:
        """None."""
        return ()

    @property
    def clipping(self) -> None:
        """Not known before the estimate."""

    @property
    def bound(self) -> Never:
        """Refused, as all that speaks of one level for all rows."""
        _refuse()

    def errors_at(self, level: float) -> Never:
        """Refused."""
        _refuse()

    def curve(self) -> Never:
        """Refused."""
        _refuse()

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        record = Terms.to_dict(self)
        del record["triangle"]
        return record


def _refuse() -> Never:
    raise InvalidInput(
        "the levels of this plan are a column of its table: change them there (`privest design` "
        "chooses them), and plan again."
    )
