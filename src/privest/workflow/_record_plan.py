"""The plan of several private columns: one for each, and what they tell of each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from privest.arrays import Array
from privest.bounds import informed_errors
from privest.errors import InvalidInput
from privest.linalg import least_squares
from privest.records import Record
from privest.workflow._column import Column
from privest.workflow._modelled import as_modelled
from privest.workflow._planning import Plan
from privest.workflow._spec import Spec
from privest.workflow._terms import reference_rows


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RecordPlan(Plan):
    """What is known before a release of several private columns with one budget.

    plans       of each column, as if it were alone at its level: its errors, its range.
    covariance  Σ (q, q) of the columns given the features, by the reference set; None without one.
    """

    plans: tuple[Plan, ...]
    covariance: Array | None = None

    DERIVED: ClassVar[tuple[str, ...]] = (
        "epsilon", "reading_errors", "informed_errors", "privacy_errors", "standard_errors",
        "clipping",
    )  # fmt: skip

    @property
    def reading_errors(self) -> Array:
        """1/√S_jj of each column: no guess of a reading without prior knowledge is better."""
        return np.array([1 / math.sqrt(column.level) for column in self.columns])

    @property
    def informed_errors(self) -> Array | None:
        """√[(Σ⁻¹ + S)⁻¹]_jj, of one who knows the coefficients, the features and Σ: through the
        other columns too. None where nothing public says Σ.
        """
        if self.covariance is None:
            return None
        return informed_errors(self.covariance, [column.level for column in self.columns])

    @property
    def privacy_errors(self) -> Array:
        """(q, n): √(A_jj/s), standard errors by the noise of the release alone."""
        return np.array([plan.privacy_error for plan in self.plans])

    @property
    def standard_errors(self) -> Array | None:
        """(q, n): √((σ² + 1/s)A_jj); None where the noise variance of a column is not known."""
        if None in [column.noise_variance for column in self.columns]:
            return None
        return np.array([plan.standard_error for plan in self.plans])

    def rows_for(self, standard_error: float, of: str) -> int:
        """Of one column only: `plans`."""
        raise InvalidInput(
            f"the rows that {of!r} needs are those of one target: plan it alone, at its level."
        )

    def __repr__(self) -> str:
        return f"RecordPlan({', '.join(self.spec.targets)}; {self.rows} rows)"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        record = Record.to_dict(self)
        del record["triangle"]
        return record


def record_plan(whole: Plan, expected: object, finished: Callable[[Plan], Plan]) -> RecordPlan:
    """The plan of all columns; `finished`: that of one of them with what its range costs."""
    if expected is not None:
        raise InvalidInput(
            "coefficients to expect are those of one target: with several give a reference set, "
            "which has them for each."
        )
    return joined(whole, finished, _covariance(whole.spec, whole.columns))


def joined(whole: Plan, finished: Callable[[Plan], Plan], covariance: Array | None) -> RecordPlan:
    """The plans of all columns as one."""
    plans = tuple(finished(one_column(whole, j)) for j in range(len(whole.columns)))
    known = {one.name: getattr(whole, one.name) for one in fields(whole)}
    return RecordPlan(**known, plans=plans, covariance=covariance)


def one_column(plan: Plan, place: int) -> Plan:
    """The plan of one of several columns, as if it were alone at its level."""
    column, spec = plan.columns[place], plan.spec
    privacy = replace(
        spec.privacy, level=column.level, epsilon=None, tolerance=None, attacker=None, units={},
        range=column.range, move=column.move,
    )  # fmt: skip
    return replace(
        plan,
        spec=replace(spec, target=column.target, privacy=privacy),
        columns=(column,),
        expected=plan.expected[place : place + 1],
    )


def _covariance(spec: Spec, columns: Sequence[Column]) -> Array | None:
    """EᵀE/(m − n) of the reference set, after the transforms of its columns."""
    if spec.noise.reference is None:
        return None
    H, y, _ = reference_rows(spec, spec.design)
    E = np.empty(y.shape)
    for j, column in enumerate(columns):
        modelled = as_modelled(column.transform, y[:, j])
        E[:, j] = modelled - H @ least_squares(H, modelled)[0]
    return np.asarray(E.T @ E / (len(H) - H.shape[1]))
