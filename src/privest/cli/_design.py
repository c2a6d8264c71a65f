"""`privest design`: how much privacy should each row give up? Nothing is spent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from privest import design as designs
from privest.arrays import AnyArray, Array, as_choice, as_positive
from privest.bounds import bound, classical_bound, identifiability
from privest.cli import _options as common
from privest.cli._console import new_table, print_json, shown, tell_file, to_people
from privest.cli._options import group, grouped, option
from privest.cli._plan_options import wanted_errors
from privest.data import open_source, write_table
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.model import LinearModel
from privest.privacy import PrivacyLevel
from privest.records import plain, standard_errors
from privest.report.figures import require_files
from privest.workflow import (
    HeldRows,
    Plan,
    Spec,
    held_rows,
    index_of,
    is_plain,
    load_spec,
    make_plan,
)

LISTED = 10  # groups that are listed, those that show most
COLUMN = "level"  # of the table that is written
FAR = 1e30  # how many times one may be another: σ² and 1/s, an error and that without privacy
TRACE = 1e-5  # of the mean level: less is what an interior method leaves of 0
STEPS = 4  # of the grid that a range must be wide at the level of a row


@group("What is asked for")
class Asked:
    """A budget, or standard errors; by what accuracy is measured; and the limits."""

    budget: Annotated[
        float | None,
        option(
            "The sum of the levels of all rows (larger levels reveal more): the best accuracy for "
            "it. Left out, with no errors either: that of the plan.",
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
    output: Annotated[
        Path | None,
        option(
            "Write the plan's table (with its private column) and the levels as a column 'level', "
            "for `privest plan FILE --level-column level`.",
            "FILE",
            names=("--output", "-o"),
            panel=common.OUTPUT,
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        option("Draw who gives up how much, and why.", "FILE", panel=common.OUTPUT),
    ] = None,
    json: common.Json = False,
) -> None:
    """How much privacy should each row give up? The private column decides nothing.

    Rows differ in how much they tell: a design gives each a privacy level of its own (larger shows
    more) from its public features and the noise variance of the plan, and proves how far from the
    best it is at most. All features are held in memory for it.

    Without options: what the plan asks for (its standard errors, or its level as the mean of all
    rows).

    Examples:

    privest design plan.toml --standard-error age=0.01,bmi=0.02 --output people-levels.csv

    privest design plan.toml --budget 500 --criterion D --cap 4 --groups ward

    privest design plan.toml --standard-error bmi=0.02 --equalised --figure who.png
    """
    asked.require_sense()
    require_files(output, figure)
    if output is not None and output.exists():
        raise InvalidInput(f"--output {output} exists: choose another name.")
    spec = load_spec(plan_file)
    require_designable(spec)
    wanted = _wanted(asked, spec)
    if asked.equalised and not wanted:
        raise InvalidInput(
            "--equalised goes with --standard-error: the least largest level for an accuracy. "
            "(For a budget equal levels have the least largest one.)"
        )
    rows = held_rows(spec, None, asked.groups)
    plan = _base(spec, free=bool(wanted) or asked.budget is not None)
    assert plan.column.residual_variance is not None
    model = LinearModel(rows.H, plan.column.residual_variance, names=plan.names)
    found = _designed(plan, model, rows, asked, wanted)
    levels = _usable(found.levels, plan, asked.cap)
    errors = _errors(model, levels)
    if output is not None:  # before printing: a closed pipe must not lose it
        _write(spec, rows, levels, output)
        tell_file("Table", output)
    if json:
        print_json(_record(plan, rows, found, levels, errors))
    else:
        _print(to_people(), plan, rows, found, levels, errors, wanted, asked.groups)
    if figure is not None:
        found.picture(figure)
        tell_file("Figure", figure)


def require_designable(spec: Spec) -> None:
    """Refuse plans that a design of rows is not for."""
    if not is_plain(spec) or spec.privacy.level_column is not None:
        raise InvalidInput(
            "a design of rows is for a plan at one level with Gaussian noise on one numeric "
            "outcome, one row per person, without weights. (Python: privest.design.)"
        )
    if spec.public.residual_variance is None and spec.public.reference is None:
        raise InvalidInput(
            "the plan states no noise variance of the readings, and how much a row is worth "
            "depends on it: state one in it (variance = … under [noise]), or a reference set."
        )


def _wanted(asked: Asked, spec: Spec) -> dict[str, float]:
    """The standard errors that are asked for: here, or else in the plan."""
    if asked.standard_error is None:
        return {} if asked.budget is not None else dict(spec.privacy.standard_error or {})
    return wanted_errors(asked.standard_error, None) or {}


def _base(spec: Spec, *, free: bool) -> Plan:
    """The plan at one level for all rows; `free`: its own level does not matter."""
    ways = dict.fromkeys(("epsilon", "tolerance", "attacker", "standard_error"))
    open_: dict[str, Any] = {**ways, "level": 1.0} if free else {}
    return make_plan(replace(spec, privacy=replace(spec.privacy, **open_)))


def _designed(
    plan: Plan, model: LinearModel, rows: HeldRows, asked: Asked, wanted: dict[str, float]
) -> designs.Allocation:
    """The levels of least sum for these standard errors, or of the best accuracy for a mean."""
    budget = plan.level * len(rows.H) if asked.budget is None else asked.budget
    mean = None if wanted else budget / len(rows.H)
    _require_scale(model, plan.column.residual_variance or 0.0, wanted, [asked.cap, mean])
    limits: dict[str, Any] = {
        "cap": math.inf if asked.cap is None else asked.cap, "groups": rows.groups
    }  # fmt: skip
    if wanted:
        _require_reachable(model, wanted, asked.cap)
        how = designs.equalised if asked.equalised else designs.least_loss
        return how(model, designs.StandardErrors(dict(wanted.items())), **limits)
    assert mean is not None
    if asked.cap is not None and asked.cap < mean:
        raise InvalidInput(
            f"privacy: no row may be above {asked.cap:g}, and the mean of all rows is to be "
            f"{mean:g}: the cap must be above the mean."
        )
    criterion = _criterion(asked.criterion or "A", model)
    return designs.allocate(model, budget, criterion=criterion, **limits)


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
        f"privacy: the best levels for what is asked for do not show {hidden}. Ask for a standard "
        "error of that too (--standard-error), however large, or leave it out of the model."
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


def _require_scale(
    model: LinearModel, variance: float, wanted: dict[str, float], levels: list[float | None]
) -> None:
    """Refuse numbers so far from each other that a design would leave the range of doubles."""
    if not 1 / FAR**3 < variance < FAR**3:
        raise InvalidInput(
            f"the noise variance {variance:g} is too large or too small for a design: state "
            "readings in another unit."
        )
    asked = {f"the level {one:g}": one * variance for one in levels if one is not None}
    errors = standard_errors(classical_bound(model))
    for name, error in wanted.items():
        place = index_of(model.names, name)
        asked[f"the standard error {error:g} of {name!r}"] = error / float(errors[place])
    for what, ratio in asked.items():
        if not 1 / FAR < ratio < FAR:
            raise InvalidInput(
                f"privacy: {what} is too large or too small beside the noise variance "
                f"{variance:g} of the readings for a design. State another."
            )


def _criterion(name: str, model: LinearModel) -> designs.Criterion:
    """A, D or E in units that do not matter: every error as a multiple of that without privacy.

    tr WΣ and λ_max(W^½ΣW^½) with W = diag(1/Σ_jj) of no privacy: years or decades, an intercept far
    from all rows: none of it decides what is accurate.
    """
    if name == "D":
        return designs.D()
    weight = 1 / np.diagonal(classical_bound(model))
    return designs.A(weight) if name == "A" else designs.E(weight)


def _require_reachable(model: LinearModel, wanted: dict[str, float], cap: float | None) -> None:
    """Refuse standard errors that no levels within the cap give, naming the nearest ones."""
    open_ = standard_errors(classical_bound(model))
    best = open_ if cap is None else bound(model, cap).standard_error
    missed = []
    for name, error in wanted.items():
        place = index_of(model.names, name)
        if error <= open_[place]:
            raise InvalidInput(
                f"privacy: {name!r} cannot have the standard error {error:g}: without any privacy "
                f"it is {open_[place]:.4g}. More rows are needed."
            )
        if error <= best[place]:
            missed.append(f"{name!r} {best[place]:.4g} (asked for: {error:g})")
    if missed:
        raise InvalidInput(
            f"privacy: with every row at the most that is allowed, level {cap:.4g}, standard "
            f"errors are at best {', '.join(missed)}. Allow more, or ask for less."
        )


def _record(
    plan: Plan, rows: HeldRows, found: designs.Allocation, levels: Array, errors: Array
) -> dict[str, Any]:
    """For JSON: the design, without its levels (as many as rows), and what sums them up."""
    design = found.to_dict()
    del design["levels"]
    made = {
        "names": plan.names, "rows": len(levels), "dropped": rows.dropped,
        "noise_variance": plan.column.residual_variance, "standard_error": errors,
        "classical_error": plan.classical_error, "level": float(levels.max()),
        "mean": float(levels.mean()), "design": design,
    }  # fmt: skip
    if rows.groups is not None:
        made["groups"] = [dict(zip(("group", "rows", "level"), one)) for one in _by(rows, levels)]
    return dict(plain(made))


def _by(rows: HeldRows, levels: Array) -> list[tuple[str, int, float]]:
    """Each group, how many rows it has and its level; those that show most first."""
    assert rows.groups is not None
    count = np.bincount(rows.groups)
    own = levels[np.unique(rows.groups, return_index=True)[1]]
    order = np.argsort(-own, kind="stable").tolist()
    return [(rows.labels[g], int(count[g]), float(own[g])) for g in order]


def _print(
    console: Console,
    plan: Plan,
    rows: HeldRows,
    found: designs.Allocation,
    levels: Array,
    errors: Array,
    wanted: dict[str, float],
    groups: str | None,
) -> None:
    """Errors, who gives up how much, what that saves and how sure it is."""
    table = new_table(
        f"Standard errors of {len(levels):,} rows: without privacy, with these levels",
        "coefficient", "without", "these", "asked for",
    )  # fmt: skip
    for name, open_, own in zip(plan.names, plan.classical_error, errors):
        asked = f"{wanted[name]:g}" if name in wanted else ""
        table.add_row(shown(name), f"{open_:.4g}", f"{own:.4g}", asked)
    console.print(table)
    console.print(shown(found.explain()))
    if found.price > 0:
        console.print(shown(_price(found)))
    if groups is None:
        return
    shares = _by(rows, levels)
    table = new_table(f"Levels by {groups}", groups, "rows", "level")
    for name, count, level in shares[:LISTED]:
        table.add_row(shown(name), f"{count:,}", f"{level:.4g}")
    console.print(table)
    if len(shares) > LISTED:
        console.print(shown(f"… and {len(shares) - LISTED:,} more with lower levels (--json)."))


def _price(found: designs.Allocation) -> str:
    """What a little more of the total would buy."""
    share = 0.01 * found.spent * found.price
    if found.criterion.symbol == "T":  # the price is of a square, the words are of its root
        share /= 2
    if found.criterion.symbol == "D":
        return f"One per cent more in total lowers log det of the covariance by {share:.3g}."
    return (
        f"One per cent more in total lowers {found.criterion.words()} by "
        f"{100 * share / found.value:.3g} %."
    )
