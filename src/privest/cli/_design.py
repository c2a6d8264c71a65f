"""`privest design`: how much privacy should each row give up? Nothing is spent."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from privest.arrays import as_choice, as_positive
from privest.cli import _options as common
from privest.cli._console import new_table, print_json, shown, tell_file, to_people
from privest.cli._options import group, grouped, option
from privest.cli._plan_options import wanted_errors
from privest.design import Allocation, StandardErrors, equalised
from privest.errors import InvalidInput
from privest.records import plain
from privest.report import levels_words, require_files
from privest.workflow import Plan, load_spec, make_plan
from privest.workflow._allocating import (
    HeldRows,
    designed,
    held_rows,
    model_of,
    require_reachable,
    settled,
)
from privest.workflow._planning_levels import AllocatedPlan, GroupShare
from privest.workflow._row_levels import not_together, require_groups
from privest.workflow._spec import Spec

LISTED = 10  # groups that are listed, those that show most


@group("What is asked for")
class Asked:
    """A budget, or standard errors; by what accuracy is measured; and the limits."""

    budget: Annotated[
        float | None,
        option(
            "The sum of the levels of all rows (larger shows more): the best accuracy for it. Left "
            "out, with no errors either: that of the plan.",
            "TOTAL",
        ),
    ] = None
    standard_error: Annotated[
        str | None,
        option("Instead: the least privacy loss for these standard errors.", "NAME=E,NAME=E"),
    ] = None
    equalised: Annotated[
        bool,
        option(
            "With --standard-error: the least largest level, so that nobody gives up more than "
            "needed.",
            "",
            names=("--equalised",),
        ),
    ] = False
    criterion: Annotated[
        str | None,
        option(
            "Of a budget: A, the sum of the squared errors, each as a multiple of that without "
            "privacy (the default), D, the volume of the confidence region, E, the worst "
            "direction.",
            "A|D|E",
        ),
    ] = None
    cap: Annotated[float | None, option("No row is above this level.", "LEVEL")] = None
    groups: Annotated[
        str | None, option("Rows that agree in this public column share a level.", "COLUMN")
    ] = None

    def require_sense(self) -> None:
        """Refuse what does not go together, before any work."""
        if self.budget is not None and self.standard_error is not None:
            raise InvalidInput(
                "--budget and --standard-error ask for opposite things: the best accuracy for a "
                "loss, or the least loss for an accuracy. Leave one of them out."
            )
        if self.criterion is not None:
            as_choice(self.criterion, ("A", "D", "E"), "--criterion")
            if self.standard_error is not None:
                raise InvalidInput(
                    "--criterion goes with a budget: standard errors say themselves what is wanted."
                )
        for name in ("budget", "cap"):
            if getattr(self, name) is not None:
                as_positive(getattr(self, name), f"--{name}")


@grouped
def design(
    plan_file: Annotated[
        Path, typer.Argument(help="Plan file, made with `privest plan --save`.", metavar="PLAN")
    ],
    asked: Asked,
    figure: Annotated[
        Path | None,
        option("Draw who gives up how much, and why.", "FILE", panel=common.OUTPUT),
    ] = None,
    json: common.Json = False,
) -> None:
    """How much privacy should each row give up? Nothing is spent: nothing depends on the readings.

    Rows differ in how much they tell: a design gives each a privacy level of its own (larger shows
    more) from its public features and the noise variance of the plan, and proves how far from the
    best it is at most. All features are held in memory for it. The levels are used with `allocate`
    in the plan (`privest plan --allocate`).

    Without options: what the plan asks for (its standard errors, or its level as the mean of all
    rows).

    Examples:

    privest design plan.toml --standard-error age=0.01,bmi=0.02 --figure who.png

    privest design plan.toml --budget 500 --criterion D --cap 4 --groups ward

    privest design plan.toml --standard-error bmi=0.02 --equalised
    """
    asked.require_sense()
    require_files(None, figure)
    spec = load_spec(plan_file)
    require_designable(spec)
    found, rows = _made(spec, asked)
    if json:
        print_json(_record(found, rows))
    else:
        print_design(to_people(), found, rows)
    if figure is not None:
        found.design.picture(figure)
        tell_file("Figure", figure)


def require_designable(spec: Spec) -> None:
    """Refuse plans that a design of rows is not for."""
    for what, there in not_together(spec).items():
        if there:
            raise InvalidInput(
                f"the plan has {what}: a design of rows is for one target of numbers with Gaussian "
                "noise, one row a person, without weights. (Python: privest.design.)"
            )
    if spec.noise.variance is None and spec.noise.reference is None:
        raise InvalidInput(
            "the plan states no noise variance of the readings, and how much a row is worth "
            "depends on it: state one in it (variance = … under [noise]), or a reference set."
        )


def _made(spec: Spec, asked: Asked) -> tuple[AllocatedPlan, HeldRows]:
    """The plan with the levels that are asked for, and its rows."""
    stated, wanted = spec.privacy, _wanted(asked, spec)
    if asked.equalised and not wanted:
        raise InvalidInput(
            "--equalised goes with --standard-error: the least largest level for an accuracy. "
            "(For a budget equal levels have the least largest one.)"
        )
    criterion = asked.criterion or stated.criterion or "A"
    groups = stated.groups if asked.groups is None else asked.groups
    require_groups(spec, groups)
    plan, cap = _base(spec, asked, free=bool(wanted) or asked.budget is not None)
    rows = held_rows(spec, None, groups)
    plan = replace(plan, rows=len(rows.H), dropped=rows.dropped)
    mean = None
    if not wanted:
        mean = plan.level if asked.budget is None else asked.budget / len(rows.H)
    if asked.equalised:
        found = _equalised(plan, rows, wanted, cap)
    else:
        found = designed(plan, rows, wanted, criterion, cap, mean)
    equal = found.spent if asked.equalised else found.equal / len(rows.H)
    return settled(
        plan, rows, found, equal=equal if mean is None else mean,
        criterion="standard errors" if wanted else criterion,
        standard_error=wanted, budget=mean, cap=cap, groups=groups,
    ), rows  # fmt: skip


def _wanted(asked: Asked, spec: Spec) -> dict[str, float]:
    """The standard errors that are asked for: here, or else in the plan."""
    if asked.standard_error is None:
        return {} if asked.budget is not None else spec.privacy.wanted
    wanted = wanted_errors(asked.standard_error)
    if not isinstance(wanted, dict):
        raise InvalidInput(
            f"--standard-error {asked.standard_error}: say of which coefficients, "
            "age=0.01,bmi=0.02."
        )
    return wanted


def _base(spec: Spec, asked: Asked, *, free: bool) -> tuple[Plan, float | None]:
    """A plan without levels of the rows, for what they need of it, and the limit of a row.

    `free`: its own level does not matter. An ε or an attacker is a limit where the plan allocates.
    """
    stated = spec.privacy
    none: dict[str, Any] = dict.fromkeys(("standard_error", "of", "cap", "criterion", "groups"))
    open_: dict[str, Any] = none | {"allocate": False}
    promised = stated.epsilon is not None or stated.tolerance is not None
    cap = stated.cap if asked.cap is None else asked.cap
    if stated.allocate and promised and asked.cap is None:
        cap = make_plan(replace(spec, privacy=replace(stated, **open_))).level
    if free:
        ways = dict.fromkeys(("epsilon", "tolerance", "attacker"))
        open_ |= {**ways, "level": 1.0}
    return make_plan(replace(spec, privacy=replace(stated, **open_))), cap


def _equalised(
    plan: Plan, rows: HeldRows, wanted: dict[str, float], cap: float | None
) -> Allocation:
    model = model_of(plan, rows)
    require_reachable(model, wanted, cap)
    return equalised(
        model, StandardErrors(dict(wanted.items())), cap=math.inf if cap is None else cap,
        groups=rows.groups,
    )  # fmt: skip


def _record(found: AllocatedPlan, rows: HeldRows) -> dict[str, Any]:
    """For JSON: the design and what sums up its levels."""
    record = found.to_dict()
    kept = ("names", "rows", "dropped", "noise_variance", "standard_error", "classical_error",
            "level", "levels", "spread", "design", "epsilon")  # fmt: skip
    made = {name: record[name] for name in kept}
    if rows.groups is not None:
        made["groups"] = plain([one._asdict() for one in found.by_group()])
    return made


def print_design(console: Console, found: AllocatedPlan, rows: HeldRows) -> None:
    """Errors, who gives up how much, what that saves and how sure it is."""
    lines = levels_words(found)
    asked = found.column.levels
    assert asked is not None
    table = new_table(
        f"Standard errors of {found.rows:,} rows: without privacy, with these levels, with the "
        "same total shared equally",
        "coefficient", "without", "these", "equal", "asked for",
    )  # fmt: skip
    for name, *errors in zip(
        found.names, found.classical_error, found.standard_error, found.spread.equal_error
    ):
        wanted = asked.standard_error.get(name)
        table.add_row(
            shown(name), *(f"{error:.4g}" for error in errors),
            "" if wanted is None else f"{wanted:g}",
        )  # fmt: skip
    console.print(table)
    for line in lines:
        console.print(shown(line))
    if found.design.price > 0:
        console.print(shown(_price(found)))
    if rows.groups is not None:
        _print_groups(console, found.by_group(), str(asked.groups))


def _price(found: AllocatedPlan) -> str:
    """What a little more of the total would buy."""
    design = found.design
    share = 0.01 * design.spent * design.price
    if design.criterion.symbol == "T":  # the price is of a square, the words are of its root
        share /= 2
    if design.criterion.symbol == "D":
        return f"One per cent more in total lowers log det of the covariance by {share:.3g}."
    return (
        f"One per cent more in total lowers {design.criterion.words()} by "
        f"{100 * share / design.value:.3g} %."
    )


def _print_groups(console: Console, found: list[GroupShare], column: str) -> None:
    table = new_table(f"Levels by {column}", column, "rows", "level")
    for one in found[:LISTED]:
        table.add_row(shown(one.group), f"{one.rows:,}", f"{one.level:.4g}")
    console.print(table)
    if len(found) > LISTED:
        console.print(shown(f"… and {len(found) - LISTED:,} more with lower levels (--json)."))
