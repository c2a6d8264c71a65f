"""The plan: what a release would cost. It never reads the private columns."""

from __future__ import annotations

import decimal
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from privest.arrays import Array, as_positive
from privest.data.cells import meant
from privest.errors import InvalidInput, PrivestError
from privest.records import as_frame, decimals, plain, quantile, text_table
from privest.workflow.aggregate import FORMS
from privest.workflow.document import library_of
from privest.workflow.rows import PlannedErrors
from privest.workflow.spec import DELTA, Privacy, Spec, load_spec, save_spec
from privest.workflow.survey import Survey, inverse_of, reference_facts
from privest.workflow.terms import Column, Terms, solve

if TYPE_CHECKING:
    from privest.ledger import Account as LedgerAccount
    from privest.workflow.document import TableRelease

NEAR = (1e-2, 1.0, 1e2)  # times the level: errors must be numbers there
MOST_ROWS = 2.0**53  # whole numbers are exact up to here
ERRORS = {"classical_error": "classical", "privacy_error": "privacy", "standard_error": "total"}
FARTHEST = 1e30  # multiple of the level within which a level for an accuracy is looked for


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Plan(Terms):
    """A plan: all that is known before a release.

    found  the survey of the table's public columns; None: the table was not read (`stated_plan`).
    data   a frame of this process; None: the file that the specification names.
    """

    spec: Spec
    found: Survey | None
    data: object = None

    @property
    def survey(self) -> Survey:
        """The public facts of the table."""
        if self.found is None:
            raise InvalidInput("the table of this plan was not read: make_plan(spec) reads it.")
        return self.found

    @property
    def rows(self) -> int:
        """Rows of H."""
        return self.survey.rows

    @property
    def dropped(self) -> int:
        """Rows that are left out for missing features."""
        return self.survey.dropped

    @property
    def level(self) -> float:
        """s of the only private column; of several the budget of a record."""
        return float(self.information)

    # --- accuracy ---------------------------------------------------------------------------------

    @cached_property
    def shape(self) -> Array:
        return inverse_of(self.survey.triangle)

    @property
    def mean(self) -> float:
        """The expected share of yes, or mean count; else one half, or one."""
        usual = {"binomial": 0.5, "poisson": 1.0}[self.model.family]
        return self.spec.public.expected.get(self.model.target[0], usual)

    def errors(self, column: Column, level: float | None = None) -> PlannedErrors:
        """Standard errors of a column at its level, or at another one."""
        at = None if level is None else as_positive(level, "level")
        return self.form.errors(self, column, at)

    def _each(self, name: str) -> Array:
        found = np.array([getattr(self.errors(column), name) for column in self.columns])
        return found[0] if len(self.columns) == 1 else found

    @property
    def standard_error(self) -> Array:
        """Standard errors with privacy; NaN where the residual variance is unknown."""
        return self._each("total")

    @property
    def classical_error(self) -> Array:
        """Standard errors without privacy; NaN where the residual variance is unknown."""
        return self._each("classical")

    @property
    def privacy_error(self) -> Array:
        """Standard errors by the privacy noise alone."""
        return self._each("privacy")

    def rows_for(self, standard_error: float, of: str) -> int:
        """How many rows like these the coefficient needs for this error at this level and range."""
        wanted, column = as_positive(standard_error, "standard_error"), self.column
        if column.residual_variance is None and self.model.family == "gaussian":
            raise InvalidInput("the rows for an accuracy need the residual variance: state it.")
        place = self.index(of)
        times = (float(self.standard_error[place]) / wanted) ** 2
        if self.splits:  # m times the rows: noise/m² + sampling/m, in variances
            found = self.errors(column)
            noise = float(found.privacy[place] / wanted) ** 2
            sampling = times - noise
            times = (sampling + math.sqrt(sampling**2 + 4 * noise)) / 2
        if times > MOST_ROWS / self.rows:
            raise InvalidInput(
                f"no number of rows gives {of!r} the standard error {wanted:g} at this level."
            )
        return max(len(self.names), math.ceil(self.rows * times * (1 - 1e-12)))

    # --- other levels -----------------------------------------------------------------------------

    def under(self, privacy: Privacy) -> Plan:
        """The same plan under different privacy; the table is not read again."""
        if privacy.level_column is not None:
            raise InvalidInput("a level column is read from its table: make a new plan.")
        spec = replace(self.spec, privacy=privacy)
        return _planned(spec, replace(self.survey, levels=None), self.data)

    def at(self, level: float) -> Plan:
        """The same plan at another level; of several columns the budget of a record."""
        return self.under(at_level(self.privacy, level))

    def level_for(
        self, error: float, of: str, confidence: float | None = None, *, alone: bool = False
    ) -> float:
        """The level at which a coefficient has this standard error; of sums c₁.

        confidence  `error` is the half-width of this interval. alone: the error that privacy alone
        adds, which needs no residual variance.
        """
        if self.survey.levels is not None or len(self.columns) > 1:
            raise InvalidInput(
                "the level for an accuracy is that of one private column with one level."
            )
        column, place = self.column, self.index(of)
        times = 1.0 if confidence is None else float(quantile(confidence))
        wanted = as_positive(error, "error") / times
        numeric = self.model.family == "gaussian"
        kind = "privacy" if alone and numeric else "total"
        if kind == "total":
            if column.residual_variance is None and numeric:
                raise InvalidInput(
                    "the level for an accuracy needs the residual variance: state it, or ask for "
                    "what privacy alone may add."
                )
            self._require_reachable(float(self.errors(column).classical[place]), of, wanted, times)

        def excess(level: float) -> float:
            return float(getattr(self.errors(column, level), kind)[place]) - wanted

        return _searched(excess, column.level, f"{of!r} the error {error:g}")

    def _require_reachable(self, least: float, of: str, wanted: float, times: float) -> None:
        """Refuse an accuracy that the values themselves do not have, with the rows it takes."""
        if not wanted <= least:
            return
        rows = self.rows * (least / wanted) * (least / wanted)
        more = f"{math.floor(rows) + 1:,}" if rows < MOST_ROWS else f"{rows:.0e}"
        raise InvalidInput(
            f"{of!r} cannot have the error {wanted * times:g}: without any privacy it is "
            f"{least * times:.4g}. More than {more} rows like these are needed; there are "
            f"{self.rows:,}."
        )

    # --- what is done with it ---------------------------------------------------------------------

    def release(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        account: LedgerAccount,
        again: bool = False,
    ) -> TableRelease:
        """A real release: protected noise, charged to an account before anything leaves.

        path     of the table, .csv or .parquet, or of an aggregate release, .json. None: no file,
                 the object that is returned holds the table.
        account  `Ledger(…).account(name)`. A new one gets what this release costs as its budget.
        again    release for the same account once more: levels add up.
        """
        from privest.workflow.release import release_plan

        return release_plan(self, path, account=account, again=again)

    def simulate(
        self, path: str | os.PathLike[str] | None = None, *, rng: int | np.random.Generator
    ) -> TableRelease:
        """A simulation of `release`: no protection, no ledger; the same `rng` repeats it."""
        from privest.workflow.release import simulate_plan

        return simulate_plan(self, path, rng=rng)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan file, which `read_plan` reads."""
        save_spec(self.spec, os.fsdecode(path))

    def summary(self) -> str:
        """A table for people: standard errors to expect."""
        lines = [f"Plan: {', '.join(self.model.target)}; {self.rows} rows; {self._promise()}"]
        for column in self.columns:
            found = self.errors(column)
            cells = {
                "std err, no privacy": found.classical,
                "std err, privacy alone": found.privacy,
                "std err": found.total,
            }
            known = {name: decimals(x) for name, x in cells.items() if np.isfinite(x).all()}
            lines += [column.target, *text_table(self.names, known)]
        return "\n".join(lines)

    def _promise(self) -> str:
        upto = "up to " if self.privacy.level_column is not None else ""
        text = f"privacy level {upto}{self.level:.4g} (a larger level reveals more)"
        if any(self.limits(column) is None for column in self.columns):
            return text
        delta = 0.0 if self.distribution.pure else self.privacy.delta or DELTA
        upwards = decimal.Context(prec=3, rounding=decimal.ROUND_CEILING)
        epsilon = float(upwards.create_decimal(f"{self.over_the_range(delta).epsilon:.12g}"))
        return f"{text}; ε = {epsilon:g} at δ = {delta:g} over the range"

    def to_frame(self, library: str | None = None) -> Any:  # noqa: ANN401 - pandas or polars
        """Standard errors to expect, a row for each coefficient of each target."""
        found, several = [self.errors(column) for column in self.columns], len(self.columns) > 1
        targets = [column.target for column in self.columns for _ in self.names]
        columns: dict[str, Any] = {"target": targets} if several else {}
        columns["coefficient"] = [*self.names] * len(found)
        for name, own in ERRORS.items():
            columns[name] = np.concatenate([getattr(one, own) for one in found])
        return as_frame(columns, library or library_of(self.data))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        found: dict[str, Any] = plain(
            {
                "plan": self.spec.to_dict(), "names": self.names, "rows": self.rows,
                "dropped": self.dropped, "most_rows": self.most,
                "columns": [
                    {
                        "target": one.target, "level": one.level,
                        "residual_variance": one.residual_variance,
                        "reference_rows": one.reference_rows, "range": self.ends(one),
                        "sensitivity": self.sensitivity(one),
                        **{name: getattr(found, own) for name, own in ERRORS.items()},
                        **({} if found.relative is None else {"relative": found.relative}),
                    }
                    for one, found in ((one, self.errors(one)) for one in self.columns)
                ],
                "distribution": self.distribution.name, "delta": self.privacy.delta,
                "epsilon": self.epsilon,
            }
        )  # fmt: skip
        return found

    def __repr__(self) -> str:
        return f"Plan({', '.join(self.model.target)}; {self.rows} rows)"


def at_level(privacy: Privacy, level: float) -> Privacy:
    return replace(
        privacy, level=as_positive(level, "level"), level_column=None, epsilon=None,
        standard_error=None, tolerance=None, attacker=None,
    )  # fmt: skip


def make_plan(spec: Spec, data: object = None) -> Plan:
    """The plan of a specification; `data` (a frame, a file) replaces the file that it names."""
    return _planned(spec, FORMS[spec.privacy.form].survey(spec, data), data)


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """The plan of a plan file."""
    return make_plan(load_spec(os.fsdecode(path)))


def stated_plan(spec: Spec, data: object = None) -> Plan | None:
    """The plan where its levels follow from the specification and its reference alone, else None.

    It reads no table, and is enough for a release.
    """
    privacy, model = spec.privacy, spec.model
    rows = privacy.form == "rows" and model.person is None
    if privacy.standard_error or privacy.level_column or not rows:
        return None
    known, _ = reference_facts(spec)
    terms = solve(model, privacy, known, most=None)
    return Plan(**terms.terms, spec=spec, found=None, data=data)


def _planned(spec: Spec, found: Survey, data: object) -> Plan:
    terms = FORMS[spec.privacy.form].solve(spec, found)
    plan = Plan(**terms.terms, spec=spec, found=found, data=data)
    _require_expected(plan)
    _require_finite(plan)
    return plan


def _require_expected(plan: Plan) -> None:
    expected, family = plan.spec.public.expected, plan.model.family
    if family == "gaussian":
        for name in expected:
            plan.index(name)
        return
    target = plan.model.target[0]
    for name, value in expected.items():
        if name != target:
            raise InvalidInput(
                f"expected {name!r}: of a yes/no or count outcome the mean of {target!r} is "
                f"expected.{meant(name, (target,))}"
            )
        if not 0 < value < (1 if family == "binomial" else math.inf):
            raise InvalidInput(f"expected {name!r}: {value:g} is no mean of this outcome.")


def _require_finite(plan: Plan) -> None:
    """Refuse a level at which, or near which, errors are no numbers any more."""
    if plan.survey.levels is not None:  # the survey has looked at each of them
        return
    for column in plan.columns:
        for times in NEAR:
            try:
                with np.errstate(over="ignore", under="ignore", divide="ignore"):
                    errors = plan.errors(column, column.level * times).privacy
            except PrivestError:
                errors = np.zeros(1)
            if not (np.isfinite(errors).all() and (errors > 0).all()):
                raise InvalidInput(
                    f"privacy: at the level {column.level:g}, or at {NEAR[0]:g} to {NEAR[-1]:g} "
                    "times it, standard errors are too large or too small for numbers."
                )


def _searched(excess: Callable[[float], float], start: float, wanted: str) -> float:
    """The level at which errors, which fall with it, are those wanted."""

    def beyond(log: float) -> float:
        try:
            return excess(math.exp(log))
        except PrivestError:
            return math.nan

    low = high = math.log(start)
    step, limit = math.log(10.0), math.log(FARTHEST)
    while beyond(low) <= 0 and low > math.log(start) - limit:
        low -= step
    while beyond(high) > 0 and high < math.log(start) + limit:
        high += step
    if not (beyond(low) > 0 >= beyond(high)):
        raise InvalidInput(
            f"the level that gives {wanted} is too small or too large for a number, or none does."
        )
    return math.exp(float(scipy.optimize.brentq(beyond, low, high, xtol=1e-13)))
