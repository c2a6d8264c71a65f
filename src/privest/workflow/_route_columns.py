"""The estimate of several private columns: each by the way of its kind, then all together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from privest.arrays import CONFIDENCE, Array
from privest.bounds import informed_errors
from privest.errors import InvalidInput
from privest.estimator.inference._joint import Joint, joint_test
from privest.estimator.inference._original_scale import OriginalMean
from privest.estimator.inference._totals import Total
from privest.linalg._running import RunningLeastSquares
from privest.linalg.tolerances import rounding
from privest.workflow._estimate import Estimate
from privest.workflow._header import TableRelease
from privest.workflow._original_units import SMALL
from privest.workflow._terms import add_rows


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ColumnsEstimate(Estimate):
    """θ̂ of several private columns with the same features, one column after another.

    Coefficients are named TARGET: NAME. Errors and intervals are those of each column alone; what
    columns have to do with each other is in `joint`, and `covariance` has NaN between them.

    parts   an `Estimate` for each column.
    joint   the test of every coefficient on all columns at once, and the covariance of the
            columns; None where `silent` says why.
    """

    parts: tuple[Estimate, ...]
    joint: Joint | None
    silent: str | None = None

    DERIVED: ClassVar[tuple[str, ...]] = (*Estimate.DERIVED, "informed_error")

    def of(self, target: str) -> Estimate:
        """The estimate of one column."""
        for part in self.parts:
            if part.release.target == target:
                return part
        listed = ", ".join(part.release.target for part in self.parts)
        raise InvalidInput(f"there is no target {target!r}; there are {listed}.")

    @property
    def informed_error(self) -> Array | None:
        """How well one who knows the coefficients, the features and the covariance of the columns
        knows each reading of a record, by the release of all of them: √[(Σ⁻¹ + S)⁻¹]_jj.

        With Σ̂ of the release; None where there is no `joint`.
        """
        if self.joint is None:
            return None
        levels = np.array([part.release.level for part in self.parts])
        return informed_errors(self.joint.shown_covariance, levels)

    @property
    def doubt(self) -> str | None:
        """What is doubtful of each column."""
        return self._of_each("doubt")

    @property
    def less_noise(self) -> str | None:
        """Which columns hold less noise than the header says."""
        return self._of_each("less_noise")

    @property
    def range_sentence(self) -> str | None:
        """What the range did to each column."""
        return self._of_each("range_sentence")

    def _of_each(self, name: str) -> str | None:
        """A sentence of each column that has one, a line each."""
        said = [(part.release.target, getattr(part, name)) for part in self.parts]
        return "\n".join(f"{target}: {text}" for target, text in said if text) or None

    def percent(self, confidence: float = CONFIDENCE) -> dict[str, Array]:
        """Of logarithms: by how many per cent each target grows for one unit more."""
        return {
            f"{part.release.target}: {name}": values
            for part in self.parts
            for name, values in part.percent(confidence).items()
        }

    def mean_at(self, row: Mapping[str, object], confidence: float = CONFIDENCE) -> OriginalMean:
        """Of one column only: `of`."""
        raise self._one_by_one("the mean at a row")

    def total(self, confidence: float = CONFIDENCE) -> Total:
        """Of one column only: `of`."""
        raise self._one_by_one("the total")

    def _one_by_one(self, what: str) -> InvalidInput:
        first = self.parts[0].release.target
        return InvalidInput(
            f"{what} is of one column: take it of one of them, estimate.of({first!r})."
        )

    def summary(self, confidence: float = CONFIDENCE) -> str:
        """The table of all columns, and the joint tests below it."""
        lines = [super().summary(confidence)]
        if self.joint is not None and self.joint.p_value is not None:
            tests = zip(self.release.names, self.joint.p_value)
            listed = ", ".join(f"{name} {float(p):.3g}" for name, p in tests)
            lines.append(f"P of no effect on any column (one test of all): {listed}")
        return "\n".join(lines)

    def to_dict(self, confidence: float = CONFIDENCE) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        record = super().to_dict(confidence)
        record["parts"] = [part.to_dict(confidence) for part in self.parts]
        return record


def estimate_columns(
    release: TableRelease, estimate: Callable[[TableRelease], Estimate]
) -> ColumnsEstimate:
    """Each column by `estimate`, as if it were alone; then their residuals together, in one pass.

    Least squares column by column is efficient whatever the columns have in common, because all of
    them have the same features (`bounds.split_budget`).
    """
    parts = tuple(estimate(replace(release, columns=(column,))) for column in release.columns)
    silent = _silent(release, parts)
    return ColumnsEstimate(
        **_stacked(parts),
        release=release,
        trail=None,
        parts=parts,
        joint=None if silent else _joint(release, parts),
        silent=silent,
    )


def _stacked(parts: Sequence[Estimate]) -> dict[str, Any]:
    """The fields of a `Fit` of all coefficients, column after column."""
    first = parts[0]
    n, q = len(first.names), len(parts)
    covariance = np.full((q * n, q * n), np.nan)
    for j, part in enumerate(parts):
        own = slice(j * n, (j + 1) * n)
        covariance[own, own] = part.covariance
    return {
        "estimate": np.concatenate([part.estimate for part in parts]),
        "covariance": covariance,
        "names": tuple(f"{part.release.target}: {name}" for part in parts for name in part.names),
        "simulated": first.simulated,
        "degrees_of_freedom": np.concatenate([_freedom(part) for part in parts]),
        "method": "; ".join(dict.fromkeys(part.method for part in parts if part.method)) or None,
        "level": float("nan"),  # each part has its own
        "noise": None,
        "rows": first.rows,
        "dropped": first.dropped,
        "misfit": float("nan"),
        "cautions": tuple(
            f"{one.release.target}: {text}" for one in parts for text in one.cautions
        ),
    }


def _freedom(part: Estimate) -> Array:
    """Degrees of freedom, one a coefficient; infinite where errors are normal."""
    known = np.inf if part.degrees_of_freedom is None else part.degrees_of_freedom
    return np.broadcast_to(np.asarray(known, dtype=np.float64), len(part.names))


def _silent(release: TableRelease, parts: Sequence[Estimate]) -> str | None:
    """Why there is no joint test; None: there is one."""
    if any((part.clipping_bias or 0.0) >= SMALL for part in parts):
        return "readings were clipped, and the joint test is of least squares"
    if any("Huber" in (part.method or "") for part in parts):
        return "the joint test is of least squares, and these estimates are Huber's"
    if release.weights is not None:
        return "rows have weights, and the joint test is of rows that count the same"
    if release.rows - len(release.names) < len(parts):
        return "there are too few rows for a joint test of so many columns"
    return None


def _joint(release: TableRelease, parts: Sequence[Estimate]) -> Joint:
    B = np.column_stack([part.estimate for part in parts])
    n, q = B.shape
    sums, squares = RunningLeastSquares(n, rounding(n)), np.zeros((q, q))
    for block in release.blocks():
        add_rows(sums, block.H)
        E = block.z - block.H @ B
        squares += E.T @ E
    added = [column.added(simulated=release.simulated) for column in release.columns]
    return joint_test(B, sums.inverse(), squares, release.rows - n, added)
