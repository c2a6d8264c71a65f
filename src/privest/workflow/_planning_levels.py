"""The plan of a table whose rows have levels of their own, by their public features.

The design (`privest.design`) sees H and the noise variance, never a reading: levels are a public
function of public columns. All of H is held while it is made. Rows that the release leaves out
because their reading is missing were counted in the design; the others keep their levels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from privest.arrays import Array, Index
from privest.bounds import Bound, bound
from privest.data._cells import is_number
from privest.errors import InvalidInput
from privest.model import LinearModel
from privest.privacy import PrivacyLevel
from privest.records import Record, plain
from privest.workflow._planning import CURVE, Plan
from privest.workflow._row_levels import RowLevels, free_name

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the rows: quartiles of their levels


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelsSummary(Record):
    """Who gives up how much, in numbers.

    least, median, most, mean   of the levels of all rows; `quartiles` (5,).
    silent                      the share of rows of which nothing is shown.
    total                       Σ_k s_k.
    top                         the share of the total that the tenth with the highest levels has.
    equal                       the level that, the same for all rows, gives what was asked for;
                                with a mean level that is stated, that one.
    equal_error                 standard errors at equal levels with the same total.
    """

    least: float
    median: float
    most: float
    mean: float
    quartiles: Array
    silent: float
    total: float
    top: float
    equal: float
    equal_error: Array


class GroupShare(NamedTuple):
    """The rows that share a level."""

    group: str
    rows: int
    level: float


def group_name(value: object) -> str:
    """A value of the column of groups; whole numbers without a point."""
    text = str(value)
    return f"{float(text):.15g}" if is_number(text) else text


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AllocatedPlan(Plan):
    """What is known before a release whose rows have levels of their own.

    `level` is the largest of them, which is promised to every row; `row_levels` gives them all.
    equal  the level that, the same for all rows, gives what was asked for.
    gap    no levels within the same limits are better by more than this part (of log det: by more
           than this), proved; NaN where levels were given by hand.
    """

    equal: float
    gap: float = math.nan
    design: Any = None  # a `privest.design.Allocation`; None: levels were given by hand
    _levels: Array = field(repr=False)
    _lines: Index = field(repr=False)
    _rows: Array = field(repr=False)
    _groups: Index | None = field(default=None, repr=False)  # the number of each row's group
    _labels: tuple[object, ...] = field(default=(), repr=False)  # what these numbers stand for

    DERIVED: ClassVar[tuple[str, ...]] = (
        "epsilon", "standard_error", "classical_error", "privacy_error", "reading_error",
        "informed_error", "spread", "clipping",
    )  # fmt: skip

    def row_levels(self, lines: Index | None = None) -> Array:
        """The levels of rows by their numbers in the table; None: of all rows of the plan."""
        if lines is None:
            return self._levels
        places = np.minimum(np.searchsorted(self._lines, lines), len(self._lines) - 1)
        if not (self._lines[places] == lines).all():
            raise InvalidInput(
                "the table has rows that the plan has not seen: it was changed since the plan was "
                "made. Make the plan again."
            )
        return self._levels[places]

    @cached_property
    def model(self) -> LinearModel:
        """The linear model of the readings, with all of H."""
        return LinearModel(self._rows, self._known_noise, names=self.names)

    @cached_property
    def bound(self) -> Bound:
        """Of the levels of the rows."""
        return bound(self.model, PrivacyLevel(self._levels))

    @property
    def privacy_error(self) -> Array:
        """√diag of what privacy adds to the covariance, at the stated noise variance."""
        return np.sqrt(np.diagonal(self.bound.privacy_cost))

    @property
    def privacy_share(self) -> float:
        """The part of the variance that privacy costs, of the first coefficient: they differ."""
        return float(1 - (self.classical_error[0] / self.standard_error[0]) ** 2)

    def errors_at(self, level: float) -> Array:
        """Standard errors if all levels are multiplied, so that the largest is this one."""
        return bound(self.model, PrivacyLevel(self._levels * (level / self.level))).standard_error

    def curve(self) -> tuple[Array, Array]:
        """Largest levels around the chosen one, and the standard errors (levels, n) there."""
        low, high, count = CURVE
        levels = self.level * np.geomspace(low, high, int(count))
        return levels, np.array([self.errors_at(float(level)) for level in levels])

    @cached_property
    def spread(self) -> LevelsSummary:
        """Who gives up how much, in numbers."""
        own = np.sort(self._levels)
        total, tenth = float(own.sum()), max(1, round(len(own) / 10))
        quartiles = np.quantile(own, SHARES)
        return LevelsSummary(
            least=float(own[0]),
            median=float(quartiles[2]),
            most=float(own[-1]),
            mean=total / len(own),
            quartiles=quartiles,
            silent=float((own == 0).mean()),
            total=total,
            top=float(own[-tenth:].sum()) / total,
            equal=self.equal,
            equal_error=bound(self.model, total / len(own)).standard_error,
        )

    @cached_property
    def leverage(self) -> Array:
        """(rows,) h_kᵀ(HᵀH)⁻¹h_k: how far a row stands out by its features."""
        return np.asarray(((self._rows @ self._unit_covariance) * self._rows).sum(axis=1))

    def by_group(self) -> list[GroupShare]:
        """What each group gives up, those that show most first; [] where levels are of rows."""
        if self._groups is None:
            return []
        count = np.bincount(self._groups)
        _, first = np.unique(self._groups, return_index=True)
        levels = self._levels[first]
        order = np.argsort(-levels, kind="stable")
        return [
            GroupShare(group_name(self._labels[g]), int(count[g]), float(levels[g])) for g in order
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON; of the levels what sums them up."""
        design = plain(self.design)
        if design is not None:
            del design["levels"]  # as many as rows: `row_levels` has them
        return super().to_dict() | {"design": design}


def with_levels(
    plan: Plan,
    levels: Array,
    lines: Index,
    H: Array,
    *,
    design: object = None,
    equal: float | None = None,
    gap: float = math.nan,
    groups_of: tuple[Index | None, tuple[object, ...]] = (None, ()),
    **asked: Any,  # noqa: ANN401 - fields of RowLevels
) -> AllocatedPlan:
    """The plan with these levels of its rows (`lines`: their numbers in the table, increasing).

    groups_of  the number of the group of each, where levels go by groups, and their names.
    """
    own = np.array(levels, dtype=np.float64)
    own.setflags(write=False)
    good = own.shape == (plan.rows,) and np.isfinite(own).all() and (own >= 0).all()
    if not (good and own.max() > 0):
        raise InvalidInput(
            f"levels of the rows are {plan.rows} finite numbers, 0 or more and not all 0; received "
            f"shape {own.shape}."
        )
    column, spec = plan.column, plan.spec
    _ = replace(column, level=float(own.max())).epsilon  # now, and not when it is asked for
    name = free_name({*plan.names, *spec.design.columns, *spec.targets})
    facts = RowLevels(name, float(own.mean()), **asked)
    known = {one.name: getattr(plan, one.name) for one in fields(Plan)}
    known["columns"] = (replace(column, level=float(own.max()), levels=facts),)
    return AllocatedPlan(
        **known, equal=column.level if equal is None else equal, gap=gap, design=design,
        _levels=own, _lines=lines, _rows=H, _groups=groups_of[0], _labels=groups_of[1],
    )  # fmt: skip
