"""`privest design`: a privacy level for each row, from public columns. Nothing is spent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console

from privest import design as designs
from privest.arrays import AnyArray, Array, as_positive
from privest.bounds import bound, classical_bound, identifiability
from privest.cli.console import new_table, print_json, shown, tell_file, to_people
from privest.cli.options import command, group, listed, named_numbers
from privest.cli.owner import PlanFile
from privest.data.source import open_source
from privest.data.writer import write_table
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.model import LinearModel
from privest.privacy import PrivacyLevel
from privest.records import plain
from privest.report.figures import require_files
from privest.workflow.plan import Plan, make_plan
from privest.workflow.spec import Spec, is_plain, load_spec
from privest.workflow.survey import HeldRows, held_rows
from privest.workflow.terms import index_of

LISTED = 10  # groups that are listed, those with the largest levels
COLUMN = "level"  # of the table that is written
TRACE = 1e-5  # of the mean level: less is what an interior method leaves of 0
STEPS = 4  # of the grid that a range must be wide at the level of a row


@group("Aim", output={"names": ("--output", "-o")})
class Aim:
    """A budget or standard errors, the limits, and the files.

    budget TOTAL             Sum of the levels of all rows (larger levels reveal more), for the best
                             accuracy: the least sum of squared standard errors, relative to those
                             without privacy. Left out: that of the plan.
    standard_error NAME=E,…  Instead: the least privacy loss for these standard errors.
    equalised                With --standard-error: the least largest level, not the least sum.
    cap LEVEL                Largest level of a row.
    groups COLUMN            Public column whose groups share a level.
    output FILE              Table to write: that of the plan, with its private column, and a column
                             'level' for `privest plan FILE --form rows --level-column level`.
    """

    budget: float | None = None
    standard_error: str | None = None
    equalised: bool = False
    cap: float | None = None
    groups: str | None = None
    output: Path | None = None
    json: bool = False

    def require_sense(self) -> None:
        if self.budget is not None and self.standard_error is not None:
            raise InvalidInput(
                "--budget asks for the best accuracy, --standard-error for the least privacy loss: "
                "leave one of them out."
            )
        for name in ("budget", "cap"):
            if getattr(self, name) is not None:
                as_positive(getattr(self, name), f"--{name}")
        require_files(self.output, None)
        if self.output is not None and self.output.exists():
            raise InvalidInput(f"--output {self.output} exists: choose another name.")


@command()
def design(plan_file: PlanFile, aim: Aim) -> None:
    """Privacy levels by row, for a budget or for wanted standard errors.

    Rows differ in how much they say about the coefficients. A design gives each a privacy level
    (a larger one reveals more) from its public features and the residual variance of the plan, and
    proves a bound on its distance from the best. The private column decides nothing. All features
    are held in memory. Without options: what the plan asks for (its standard errors, or its level
    as the mean of all rows).

    Examples:

    privest design plan.toml --standard-error age=0.01,bmi=0.02 --output people-levels.csv

    privest design plan.toml --budget 500 --cap 4 --groups ward
    """
    aim.require_sense()
    spec = load_spec(plan_file)
    require_designable(spec)
    wanted = _wanted(aim, spec)
    if aim.equalised and not wanted:
        raise InvalidInput("--equalised goes with --standard-error.")
    rows = held_rows(spec, aim.groups)
    plan = _base(spec, free=bool(wanted) or aim.budget is not None)
    assert plan.column.residual_variance is not None
    model = LinearModel(rows.H, plan.column.residual_variance, names=plan.names)
    found = _designed(plan, model, rows, aim, wanted)
    levels = _usable(found.levels, plan, aim.cap)
    errors = _errors(model, levels)
    groups = [] if rows.groups is None else _by_group(rows, levels)
    if aim.output is not None:  # before printing: a closed pipe must not lose it
        _write(spec, rows, levels, aim.output)
        tell_file("Table", aim.output)
    if not aim.json:
        _print(to_people(), plan, found, errors, wanted)
        _print_groups(to_people(), groups, aim.groups)
        return
    own = found.to_dict()
    del own["levels"]  # as many as rows
    record: dict[str, Any] = {
        "names": plan.names, "rows": len(levels), "dropped": rows.dropped,
        "residual_variance": plan.column.residual_variance, "standard_error": errors,
        "classical_error": plan.classical_error, "level": float(levels.max()),
        "mean": float(levels.mean()), "design": own,
    }  # fmt: skip
    if groups:
        record["groups"] = [dict(zip(("group", "rows", "level"), one)) for one in groups]
    print_json(plain(record))


def _print(
    console: Console, plan: Plan, found: designs.Allocation, errors: Array, wanted: dict[str, float]
) -> None:
    """Standard errors, what the design saves and how sure it is."""
    table = new_table(
        f"Standard errors of {len(found.levels):,} rows: without privacy, with these levels",
        "coefficient", "without", "these", "asked for",
    )  # fmt: skip
    for name, open_, with_levels in zip(plan.names, plan.classical_error, errors):
        asked = f"{wanted[name]:g}" if name in wanted else ""
        table.add_row(shown(name), f"{open_:.4g}", f"{with_levels:.4g}", asked)
    console.print(table)
    console.print(shown(found.summary()))


def _print_groups(
    console: Console, groups: list[tuple[str, int, float]], column: str | None
) -> None:
    if not groups:
        return
    table = new_table(f"Levels by {column}", str(column), "rows", "level")
    for name, count, level in groups[:LISTED]:
        table.add_row(shown(name), f"{count:,}", f"{level:.4g}")
    console.print(table)
    if len(groups) > LISTED:
        console.print(shown(f"… and {len(groups) - LISTED:,} more with lower levels (--json)."))


def require_designable(spec: Spec) -> None:
    """Refuse plans that a design of rows is not for."""
    if not is_plain(spec) or spec.privacy.level_column is not None:
        raise InvalidInput(
            "a design of rows is for a plan at one level with Gaussian noise on one numeric "
            "outcome, one row per person, without weights. (Python: privest.design.)"
        )
    if spec.public.residual_variance is None and spec.public.reference is None:
        raise InvalidInput(
            "a design of rows needs the residual variance: state residual_variance or reference "
            "under [public] of the plan."
        )


def _wanted(aim: Aim, spec: Spec) -> dict[str, float]:
    if aim.standard_error is None:
        return {} if aim.budget is not None else dict(spec.privacy.standard_error or {})
    return named_numbers(listed(aim.standard_error), "--standard-error")


def _base(spec: Spec, *, free: bool) -> Plan:
    """The plan at one level for all rows; `free`: its own level does not matter."""
    ways = dict.fromkeys(("epsilon", "standard_error"))
    open_: dict[str, Any] = {**ways, "level": 1.0} if free else {}
    return make_plan(replace(spec, privacy=replace(spec.privacy, **open_)))


def _designed(
    plan: Plan, model: LinearModel, rows: HeldRows, aim: Aim, wanted: dict[str, float]
) -> designs.Allocation:
    """The levels of least sum for these standard errors, or of the best accuracy for a mean."""
    cap = math.inf if aim.cap is None else aim.cap
    if wanted:
        for name in wanted:
            index_of(model.names, name)  # refused, with the nearest name
        loss: Literal["largest", "total"] = "largest" if aim.equalised else "total"
        return designs.least_loss(model, wanted, cap=cap, groups=rows.groups, loss=loss)
    budget = plan.level * len(rows.H) if aim.budget is None else aim.budget
    if cap < budget / len(rows.H):
        raise InvalidInput(
            f"privacy: no row may be above {cap:g}, and the mean of all rows is to be "
            f"{budget / len(rows.H):g}: the cap must be above the mean."
        )
    weight = 1 / np.diagonal(classical_bound(model))  # units of the features do not matter
    return designs.allocate(model, budget, weight=weight, cap=cap, groups=rows.groups)


def _usable(levels: Array, plan: Plan, cap: float | None) -> Array:
    """The levels with 0 for what is a trace, or narrower than some steps of the grid."""
    least = TRACE * float(levels.mean())
    limits = plan.limits(plan.column)
    if limits is not None:
        least = max(least, (STEPS * GRID / limits.width) ** 2)
    kept = np.where(levels < least, 0.0, levels)
    return kept if cap is None else np.minimum(kept, cap)  # not even by the rounding of a unit


def _errors(model: LinearModel, levels: Array) -> Array:
    """The standard errors at these levels; refused where they hide a coefficient."""
    found = identifiability(model, PrivacyLevel(levels))
    if found.identifiable:
        return bound(model, PrivacyLevel(levels)).standard_error
    parts = np.abs(found.hidden_directions).max(axis=1, initial=0.0)
    hidden = ", ".join(repr(name) for name, part in zip(model.names, parts) if part > 1e-8)
    raise InvalidInput(
        f"privacy: the best levels for this do not reveal {hidden}. Ask for a standard error of "
        "that too (--standard-error), however large, or leave it out of the model."
    )


def _write(spec: Spec, rows: HeldRows, levels: Array, path: Path) -> None:
    """The table with a column of levels; rows that the plan leaves out have 0."""
    source = open_source(spec.data, spec.format)
    if COLUMN in source.columns:
        raise InvalidInput(f"--output: the table has a column {COLUMN!r} already: rename it.")

    def blocks() -> Iterator[list[AnyArray]]:
        line = 0
        for block in source.blocks(source.columns, text=source.columns):
            columns = [np.asarray(cells) for cells in block.values()]
            own = np.zeros(len(columns[0]))
            first, last = np.searchsorted(rows.lines, [line + 1, line + len(own) + 1])
            own[rows.lines[first:last] - line - 1] = levels[first:last]
            line += len(own)
            yield [*columns, own]

    write_table(path, [*source.columns, COLUMN], blocks())


def _by_group(rows: HeldRows, levels: Array) -> list[tuple[str, int, float]]:
    """Each group, how many rows it has and its level; the largest levels first."""
    assert rows.groups is not None
    count = np.bincount(rows.groups)
    own = levels[np.unique(rows.groups, return_index=True)[1]]
    order = np.argsort(-own, kind="stable").tolist()
    return [(rows.labels[g], int(count[g]), float(own[g])) for g in order]
