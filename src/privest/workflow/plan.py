"""The plan: what a release would cost. It never reads the private columns.

`plan`, then `Plan.release`, then `estimate` is the workflow as calls.
"""

from __future__ import annotations

import decimal
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from privest.arrays import Array, as_positive, read_only
from privest.data.cells import meant
from privest.data.format import Format, as_format
from privest.errors import InvalidInput, PrivestError
from privest.records import as_frame, decimals, plain, quantile, text_table
from privest.workflow.aggregate import FORMS
from privest.workflow.document import library_of
from privest.workflow.rows import PlannedErrors
from privest.workflow.spec import (
    DELTA,
    FRAME,
    Model,
    Privacy,
    Public,
    Spec,
    as_names,
    load_spec,
    save_spec,
)
from privest.workflow.survey import Survey, inverse_of, reference_facts
from privest.workflow.terms import Column, Terms, solve

if TYPE_CHECKING:
    from privest.ledger import Account as LedgerAccount
    from privest.workflow.document import TableRelease

# Shares of yes, and mean counts, for which errors are shown where none is stated.
MEANS = {
    "binomial": {"50% yes": 0.5, "10% yes": 0.1, "2% yes": 0.02},
    "poisson": {"mean 10": 10.0, "mean 1": 1.0, "mean 0.1": 0.1},
}
NEAR = (1e-2, 1.0, 1e2)  # times the level: errors must be numbers there
MOST_ROWS = 2.0**53  # whole numbers are exact up to here
ERRORS = {"classical_error": "classical", "privacy_error": "privacy", "standard_error": "total"}
FARTHEST = 1e30  # multiple of the level within which a level for an accuracy is looked for

Names = str | Sequence[str]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Plan(Terms):
    """A plan: all that is known before a release.

    found  the survey of the table's public columns; None: the table was not read (`stated_plan`).
    data   a frame of this process; None: the file that the specification names. Copies and pickles
           are made without it.
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
        return read_only(inverse_of(self.survey.triangle))

    @property
    def mean(self) -> float:
        """The stated share of yes, or mean count; NaN where none is."""
        return self.spec.public.expected.get(self.model.target[0], math.nan)

    @cached_property
    def scenarios(self) -> dict[str, Plan]:
        """The same plan at "50% yes", "10% yes" and "2% yes" ("mean 10", "mean 1", "mean 0.1").

        Only where no share, or mean, is stated (`expected`): errors depend on it.
        """
        means = MEANS.get(self.model.family, {}) if math.isnan(self.mean) else {}
        return {name: self._expecting(mean) for name, mean in means.items()}

    def _expecting(self, mean: float) -> Plan:
        public = replace(self.spec.public, expected={self.model.target[0]: mean})
        return replace(self, spec=replace(self.spec, public=public))

    def errors(self, column: Column, level: float | None = None) -> PlannedErrors:
        at = None if level is None else as_positive(level, "level")
        return self.form.errors(self, column, at)

    def _each(self, name: str) -> Array:
        found = np.array([getattr(self.errors(column), name) for column in self.columns])
        return found[0] if len(self.columns) == 1 else found

    @property
    def standard_error(self) -> Array:
        """Standard errors with privacy; NaN where the residual variance is unknown.

        Those of yes/no and counts are NaN unless the mean is stated: see `scenarios`.
        """
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
        self._require_variance("the rows for an accuracy need")
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

        confidence  `error` is the half-width of this interval.
        alone       `error` is what privacy alone adds, which needs no residual variance.
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
            self._require_variance("the level for an accuracy needs")
            self._require_reachable(float(self.errors(column).classical[place]), of, wanted, times)

        def excess(level: float) -> float:
            return float(getattr(self.errors(column, level), kind)[place]) - wanted

        return _searched(excess, column.level, f"{of!r} the error {error:g}")

    def _require_variance(self, what: str) -> None:
        if not np.isfinite(self.standard_error).all():
            variance = {"binomial": "expected share of yes", "poisson": "expected mean"}
            name = variance.get(self.model.family, "residual variance")
            raise InvalidInput(f"{what} the {name}: state it.")

    def _require_reachable(self, least: float, of: str, wanted: float, times: float) -> None:
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
            for name, scenario in self.scenarios.items():
                cells[f"std err, {name}"] = scenario.standard_error
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
        for name, scenario in self.scenarios.items():
            columns[f"standard_error, {name}"] = scenario.standard_error
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
                "scenarios": {k: one.standard_error for k, one in self.scenarios.items()},
            }
        )  # fmt: skip
        return found

    def __getstate__(self) -> dict[str, Any]:
        """A copy or a pickle leaves the frame, and the private column in it, behind."""
        return vars(self) | {"data": None}

    def __repr__(self) -> str:
        return f"Plan({', '.join(self.model.target)}; {self.rows} rows)"


def at_level(privacy: Privacy, level: float) -> Privacy:
    return replace(
        privacy, level=as_positive(level, "level"), level_column=None, epsilon=None,
        standard_error=None,
    )  # fmt: skip


def make_plan(spec: Spec, data: object = None) -> Plan:
    """The plan of a specification; `data` (a frame, a file) replaces the file that it names."""
    return _planned(spec, FORMS[spec.privacy.form].survey(spec, data), data)


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """The plan of a plan file.

    >>> import tempfile, privest as pv
    >>> path = tempfile.mkdtemp() + "/plan.toml"
    >>> pv.plan("diabetes", "s5 ~ age", epsilon=3.0, range=(3.0, 6.5)).save(path)
    >>> read_plan(path).names
    ('intercept', 'age')
    """
    return make_plan(load_spec(os.fsdecode(path)))


def stated_plan(spec: Spec) -> Plan | None:
    """The plan where its levels follow from the specification and its reference alone, else None.

    It reads no table, and is enough for a release.
    """
    privacy, model = spec.privacy, spec.model
    rows = privacy.form == "rows" and model.person is None
    if privacy.standard_error or privacy.level_column or not rows:
        return None
    known = reference_facts(spec)
    terms = solve(model, privacy, known)
    return Plan(**terms.terms, spec=spec, found=None, data=None)


def _planned(spec: Spec, found: Survey, data: object) -> Plan:
    terms = FORMS[spec.privacy.form].solve(spec, found)
    plan = Plan(**terms.terms, spec=spec, found=found, data=data)
    _require_expected(plan)
    _require_finite(next(iter(plan.scenarios.values()), plan))
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


# --- a plan by one call ---------------------------------------------------------------------------


def plan(
    data: object,
    formula: str | None = None,
    *,
    target: Names = (),
    features: Names = (),
    by: Names | None = None,
    categories: Mapping[str, Sequence[object]] | None = None,
    residual_variance: float | None = None,
    reference: str | os.PathLike[str] | None = None,
    expected: Mapping[str, float] | None = None,
    within_person_correlation: float | None = None,
    format: Format | Mapping[str, Any] | None = None,
    range: Any = None,  # noqa: ANN401 - a pair, or one for each target
    form: str = "aggregate",
    **more: Any,  # noqa: ANN401 - fields of Model and Privacy
) -> Plan:
    """The plan of a private regression. It never reads the private columns.

    data       a pandas, polars or Dask frame, a mapping of names to vectors, or the path of a file.
    formula    "ldl ~ age + C(sex) + bmi", "log(ldl) ~ age*dose - 1"; or `target` and `features`;
               or `target` alone for its mean, with `by` for the means of groups.
    categories  public list of each categorical column; the first is the baseline.
    residual_variance, reference, expected, within_person_correlation
               public knowledge, as in `Public`; may be left out.
    range      (low, high) of the private values, or {target: (low, high)}.
    form       what leaves: "aggregate" (estimates from a few noisy sums, by a data owner who is
               trusted with the table), or "rows" (a noisy value for each row).
    more       fields of `Model` (transform, family, missing, weights, person, most_rows) and of
               `Privacy` (one of level, epsilon, standard_error, level_column; delta, sensitivity,
               distribution, publish).

    >>> import privest as pv
    >>> table = {"age": [30, 40, 50, 60] * 500, "y": [1.0, 2.0, 2.5, 4.0] * 500}
    >>> found = pv.plan(table, "y ~ age", epsilon=1.0, range=(0, 5), residual_variance=0.25)
    >>> found.names, found.standard_error.round(4).tolist()
    (('intercept', 'age'), [0.0861, 0.0019])
    """
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else None
    lists = {name: tuple(map(str, values)) for name, values in dict(categories or {}).items()}
    targets = as_names(target, "target")
    model: dict[str, Any] = {"features": features, "formula": formula, "categories": lists}
    if by is not None:
        if formula is not None or features:
            raise InvalidInput("by is for means: leave features and formula out.")
        model |= means_by(targets, as_names(by, "by"), lists)
    own, privacy = _split(more)
    known = Model(target=targets, **model, **own)
    spec = Spec(
        data=f"{library_of(data)}{FRAME}" if path is None else os.fsdecode(path),
        model=known,
        privacy=Privacy(range=_ranges(range, known.target), form=form, **privacy),
        public=Public(
            residual_variance,
            _reference(reference),
            dict(expected or {}),
            within_person_correlation,
        ),
        format=as_format(format),
    )
    return make_plan(spec, None if path is not None else data)


def means_by(
    targets: Sequence[str], by: Sequence[str], categories: Mapping[str, Sequence[object]]
) -> dict[str, Any]:
    """Fields of a `Model` whose coefficients are means: of all, of groups, or of cells.

    >>> means_by(["ldl"], ["sex"], {"sex": ["f", "m"]})
    {'features': ('sex',), 'intercept': False}
    >>> means_by(["ldl"], ["sex", "ward"], {"sex": ["f", "m"], "ward": ["a", "b"]})
    {'formula': '`ldl` ~ 0 + `sex`:`ward`'}
    """
    for name in by:
        if name not in categories:
            raise InvalidInput(
                f"means by {name!r} need the public list of its groups (categories). It is never "
                "made from private data."
            )
    if not by:
        return {"features": (), "intercept": True}
    if len(by) == 1:
        return {"features": tuple(by), "intercept": False}
    if any("`" in name for name in (*targets, *by)):
        raise InvalidInput("means by several columns: the names must not have ` in them.")
    left, right = " + ".join(f"`{name}`" for name in targets), ":".join(f"`{name}`" for name in by)
    return {"formula": f"{left} ~ 0 + {right}"}


def _split(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    model = {one.name for one in fields(Model)} - {"target", "features", "formula", "categories"}
    privacy = {one.name for one in fields(Privacy)} - {"range"}
    unknown = sorted(set(given) - model - privacy)
    if unknown:
        raise InvalidInput(
            f"plan: {unknown[0]!r} is not known. Names are {', '.join(sorted(model | privacy))}."
        )
    own = {name: value for name, value in given.items() if name in model}
    return own, {name: value for name, value in given.items() if name in privacy}


def _ranges(given: Any, targets: Sequence[str]) -> dict[str, Any]:  # noqa: ANN401
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    if len(targets) > 1:
        raise InvalidInput(
            "each of several targets needs a range of its own: {target: (low, high)}."
        )
    return {targets[0]: given}


def _reference(given: object) -> str | None:
    if given is None or isinstance(given, str | os.PathLike):
        return None if given is None else os.fsdecode(given)
    raise InvalidInput(f"reference is the path of a public file; received {type(given).__name__}.")
