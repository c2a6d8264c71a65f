"""What is done with a plan in Python: release it, try it, look at it."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from privest.arrays import CONFIDENCE
from privest.data import EMBEDDED
from privest.estimator.result import decimals, text_table
from privest.ledger import Ledger
from privest.records import as_frame, quantile
from privest.workflow._held import HeldTable, library_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from privest.workflow._column import Column
    from privest.workflow._header import TableRelease
    from privest.workflow._planning import Plan

LARGE = 30.0  # of a logarithm: factors beyond e^30 tell nobody anything, and e^710 is no number


class PlanCalls:
    """The calls of a `Plan`, which remembers the data it was made for."""

    def release(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        subject: str | None = None,
        budget: float | None = None,
        again: bool = False,
    ) -> TableRelease:
        """Release the readings, for real: protected noise, charged to a ledger before it is shown.

        path     of the table, .csv or .parquet; its header is written beside it. None: no file,
                 the object that is returned holds the table (`save` writes it).
        ledger   a `Ledger` or the path of one. None: privest-ledger.db beside the data file; in the
                 current folder where the data are a frame.
        subject  whose readings these are. None: the target and the name of the data.
        budget, again   as in `Account`.

        An account is not released twice unless its budget allows it and you say `again`.
        Without a path a run that is killed after the charge has spent it for nothing.
        """
        from privest.workflow._account import LEDGER, Account
        from privest.workflow._account_terms import account_name
        from privest.workflow._releasing import release

        plan = cast("Plan", self)
        data = plan._data
        file = None if data is not None or plan.spec.data == EMBEDDED else Path(plan.spec.data)
        place = (Path() if file is None else file.parent) / LEDGER if ledger is None else ledger
        name = subject or account_name(plan.spec)
        with Account(place, name, budget, again=again) as account:
            return _made(plan, path, lambda to: release(plan, to, data, account=account))

    def simulate(
        self, path: str | os.PathLike[str] | None = None, *, seed: int | None = None
    ) -> TableRelease:
        """A trial of `release`: simulated noise, no protection, no ledger; a seed repeats it."""
        from privest.workflow._releasing import simulate_release, trial_source

        plan = cast("Plan", self)
        noise = trial_source(plan, seed)
        return _made(plan, path, lambda to: simulate_release(plan, to, noise, plan._data))

    def to_frame(self, library: str | None = None) -> Any:  # noqa: ANN401 - pandas or polars
        """Standard errors to expect, a row for each coefficient (of each target).

        privacy_error    by the noise of the release alone, √(A_jj/s), A = (HᵀH)⁻¹.
        standard_error   with what the readings scatter; `classical_error`: without privacy. Both
                         are missing where the noise variance is not known before the release.

        `library`: "pandas" or "polars"; None: that of the data, pandas where they are a file.
        """
        plan = cast("Plan", self)
        columns: dict[str, list[Any]] = {"target": [], "coefficient": []}
        errors: dict[str, list[float]] = {
            "classical_error": [], "privacy_error": [], "standard_error": [],
        }  # fmt: skip
        for part in _parts(plan):
            columns["target"] += [part.column.target] * len(plan.names)
            columns["coefficient"] += plan.names
            for name, values in errors.items():
                values += getattr(part, name).tolist()
        if len(plan.columns) == 1:
            del columns["target"]
        return as_frame(columns | errors, library or library_of(plan._data))

    def summary(self, confidence: float = CONFIDENCE) -> str:
        """A table for people: errors to expect, as ± of an interval, and what one reading shows."""
        plan, q = cast("Plan", self), quantile(confidence)
        share = f"{100 * confidence:.6g} %"
        lines = [f"Plan: {plan.rows} rows, {plan.dropped} left out; ± of coefficients: for {share}"]
        if plan.spec.missing == "drop":
            private = ", ".join(plan.spec.targets)
            lines.append(f"(and rows without {private}, which only the release reads)")
        for part in _parts(plan):
            column = part.column
            cells = {
                head: decimals(q * getattr(part, name))
                for head, name in (
                    ("± without privacy", "classical_error"),
                    ("± by privacy alone", "privacy_error"),
                    ("± with privacy", "standard_error"),
                )
                if column.noise_variance is not None or name == "privacy_error"
            }  # fmt: skip
            lines += [f"{column.target}: {_promise(column)}", *text_table(plan.names, cells)]
        return "\n".join(lines)


def _promise(column: Column) -> str:
    """What the level of a column means, in a line."""
    how = "=" if column.level_column is None else "of each row, up to"
    text = f"privacy level s {how} {column.level:.6g} (larger shows more)"
    if column.person is not None:
        text += ", spread over the rows of a person"
    elif column.law != "gaussian":
        text += f", noise: {column.law}"
    else:
        text += f", one reading is known to {_known_to(column)} (standard deviation)"
    if column.epsilon is not None:
        text += f"; ε = {column.epsilon:.4g}"
        text += f" at δ = {column.delta:g}" if column.delta is not None else ""
    return text


def _known_to(column: Column) -> str:
    """How well whoever sees the release can tell a reading: after a logarithm up to a factor."""
    error = column.level**-0.5
    if column.transform == "log" and error < LARGE:
        return f"a factor of {math.exp(error):.4g}"
    return f"± {error:.4g}{'' if column.transform == 'none' else ' after the transform'}"


def _parts(plan: Plan) -> tuple[Plan, ...]:
    """A plan for each private column."""
    found: tuple[Plan, ...] = getattr(plan, "plans", (plan,))
    return found


def _made(
    plan: Plan, path: str | os.PathLike[str] | None, make: Callable[[Path], TableRelease]
) -> TableRelease:
    """The release at `path`; or held, with nothing left on the disk."""
    library = library_of(plan._data)
    if path is not None:
        return replace(make(Path(path)), memory=HeldTable(library))
    from privest.workflow._releasing import HELD

    with tempfile.TemporaryDirectory(prefix="privest-") as folder:
        table = Path(folder) / HELD
        found = make(table)
        return replace(found, path=None, memory=HeldTable.read(table, found.table_columns, library))
