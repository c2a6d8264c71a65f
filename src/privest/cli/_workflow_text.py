"""A plan and an estimate as a table and sentences, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich.console import Console
from rich.table import Table

from privest.arrays import Array
from privest.cli._columns_text import print_joint, print_record_plan
from privest.cli._console import new_table, shown
from privest.cli._guess_text import guess_sentences, guess_table
from privest.cli._law_text import family_lines, print_law_plan, print_offers, yes_or_no
from privest.cli._original_text import print_percent
from privest.cli._people_text import print_people_plan
from privest.estimator import CostByShare
from privest.report import (
    BAND,
    at_most,
    exposed_by,
    exposure,
    freedom_text,
    left_out,
    level_of,
    level_words,
    plural,
    rounded,
    short,
)
from privest.report._plan_words import differential_words, left_out_words, size_words
from privest.workflow import Estimate, Plan, TableRelease
from privest.workflow._law_plan import LawPlan
from privest.workflow._planning_levels import LevelPlan
from privest.workflow._record_plan import RecordPlan
from privest.workflow._route_columns import ColumnsEstimate

NEXT_TO_NONE = 1e-5  # of the readings: a smaller share is not worth its digits


def print_level_plan(console: Console, found: LevelPlan, rows: Mapping[str, int]) -> None:
    """Errors, and which levels the rows have."""
    withheld = f" Level 0, withheld: {plural(found.withheld, 'row')}." if found.withheld else ""
    sentences = [
        f"Every row has its own privacy level (larger shows more), the public column "
        f"{found.column.level_column!r}: up to {at_most(found.level)}, the mean "
        f"{short(found.mean_level)}.{withheld} The largest is promised to all rows.",
        *(line for one in exposed_by(found) for line in exposure(one)),
        *differential_words(found),
        *_unclipped(found),
    ]  # before anything is printed: it may fail
    known = found.noise_variance is not None
    console.print(shown(_head(found)))
    console.print(_error_table(found) if known else guess_table(found))
    for line in [f"{_noise(found)}.", *sentences] if known else sentences:
        console.print(shown(line))
    for want, count in rows.items():
        console.print(shown(f"For {want} at these levels {count:,} rows like these are needed."))


def _unclipped(found: LevelPlan) -> list[str]:
    """A range costs something, which is not known for levels of the rows before the estimate."""
    if found.range is None:
        return []
    return [
        f"What is clipped at the range {found.range[0]:.6g} to {found.range[1]:.6g} is not in "
        "these errors; the estimate says what share it was."
    ]


def print_plan(console: Console, found: Plan, rows: Mapping[str, int] | None = None) -> None:
    """The plan as a table and sentences; `rows`: how many each wanted NAME=ERROR takes."""
    if isinstance(found, RecordPlan):
        print_record_plan(console, found)
        return
    if found.people is not None:
        print_people_plan(console, found, rows or {})
        return
    if isinstance(found, LawPlan):
        print_law_plan(console, found, rows)
        return
    if isinstance(found, LevelPlan):
        print_level_plan(console, found, rows or {})
        return
    sentences = _sentences(found)  # before anything is printed: it may fail
    console.print(shown(_head(found)))
    console.print(guess_table(found) if found.guesses else _error_table(found))
    for line in [*sentences, *yes_or_no(found)]:
        console.print(shown(line))
    print_offers(console, found)
    for want, count in (rows or {}).items():
        console.print(shown(f"For {want} at this level {count:,} rows like these are needed."))


def _head(found: Plan) -> str:
    """How many rows, and which are left out."""
    left = left_out_words(found.dropped)
    if found.spec.missing == "drop":
        left += " Rows without a reading will be left out too: which they are becomes public."
    head = f"{size_words(found)}: all of them can be estimated."
    return head + left


def _noise(found: Plan) -> str:
    """`Noise variance 0.2, as given`."""
    where = (
        "as given"
        if found.reference_rows is None
        else f"from {found.reference_rows:,} reference rows"
    )
    return f"Noise variance {found.noise_variance:.4g}, {where}"


def _error_table(found: Plan) -> Table:
    """The errors with and without privacy."""
    table = new_table(
        "Standard errors to expect (± for 95 %)", "coefficient", "without privacy", "with privacy"
    )
    for name, open_, private in zip(found.names, found.classical_error, found.standard_error):
        table.add_row(
            shown(name),
            f"{open_:.4g} (± {BAND * open_:.3g})",
            f"{private:.4g} (± {BAND * private:.3g})",
        )
    return table


def _sentences(found: Plan) -> list[str]:
    """What the level costs, what it means for one reading, and what other levels would cost."""
    if found.noise_variance is None:
        return [
            *guess_sentences(found),
            *(line for one in exposed_by(found) for line in exposure(one)),
            *differential_words(found),
            *_clipping(found),
        ]
    lines = [
        f"{_noise(found)}. At {level_words(found.level)} "
        f"errors are {_compared(found.errors_at(found.level), found)}; "
        f"{100 * found.privacy_share:.3g} % of the variance is the price of privacy, the rest is "
        "sampling.",
        *(line for one in exposed_by(found) for line in exposure(one)),
        *differential_words(found),
    ]
    lines += _clipping(found)
    listed = ", ".join(
        f"{short(float(found.errors_at(s)[0] / found.classical_error[0]))} at s = {short(s)}"
        for s in (found.level * factor for factor in (0.1, 1 / 3, 1.0, 3.0, 10.0))
    )
    lines.append(f"Errors at other levels, as multiples of those without privacy: {listed}.")
    return lines


def _compared(errors: Array, found: Plan) -> str:
    """`1.5 times those without privacy`; nobody says `1 times`."""
    times = float(errors[0] / found.classical_error[0])
    if times < 1.005:
        return "practically those without privacy"
    return f"{times:.3g} times those without privacy"


def _clipping(found: Plan) -> list[str]:
    """What share the range clips, and what that costs; where nobody knows, that."""
    cost, ends = found.clipping, found.range
    if cost is None or ends is None:
        return []
    range_ = f"Range {ends[0]:.6g} to {ends[1]:.6g}: "
    if isinstance(cost, CostByShare):
        listed = ", ".join(
            f"{times:.2f} at {100 * share:.3g} %" for share, times in zip(cost.share, cost.one_end)
        )
        if cost.assumed:
            return [
                f"{range_}the noise variance of the readings is not stated, and so what share will "
                "be clipped is not known (a reference set tells; or --noise-variance with "
                "--expect). If it is about that of the release noise, and all have one mean, "
                f"variances grow with the share clipped at one end, by a factor of {listed}. The "
                "estimate will say what share it was."
            ]
        return [
            f"{range_}nothing public says where the readings lie (a reference set would, or "
            "--expect), and so what share will be clipped is not known. By the noise alone at "
            f"least {_percent(cost.least_share or 0.0)}. If all have one mean, variances grow "
            f"with the share clipped at one end, by a factor of {listed}."
        ]
    worst, stated = int(np.argmax(cost.least_squares_ratio)), found.spec.privacy
    missed = ""
    for name in stated.wanted:
        error = float(cost.standard_error[found.index(name)])
        missed += f" {name!r} then has the standard error {error:.4g}, not the one asked for."
    if cost.share < NEXT_TO_NONE:
        return [f"{range_}{_percent(cost.share)} of the readings will be clipped: no cost.{missed}"]
    return [
        f"{range_}about {_percent(cost.share)} of the readings will be clipped, and variances "
        f"are {_grown(float(cost.variance_ratio.max()))} those above (maximum likelihood, "
        "which undoes the bias). Least squares on the same release would be off by "
        f"{float(cost.bias[worst]):.2g} in {found.names[worst]!r}, mean squared errors up to "
        f"{float(cost.least_squares_ratio[worst]):.3g} times.{missed}"
    ]


def _grown(ratio: float) -> str:
    """`up to 1.3 times`, before what it is compared with; nobody says `1 times`."""
    return f"up to {ratio:.3g} times" if ratio >= 1.005 else "about as large as"


def _percent(share: float) -> str:
    """A share of the readings, for people."""
    small = 0 < share < NEXT_TO_NONE
    return f"less than {100 * NEXT_TO_NONE:g} %" if small else f"{100 * share:.2g} %"


def _whose(header: TableRelease) -> str:
    """Persons where rows belong to them: it is they who count."""
    if header.persons is None:
        return f"{header.rows:,} released rows"
    return f"{header.persons:,} persons ({header.rows:,} released rows)"


def print_estimate(console: Console, found: Estimate, confidence: float) -> None:
    """The estimate as a table and sentences."""
    if isinstance(found, ColumnsEstimate):
        for part in found.parts:
            print_estimate(console, part, confidence)
        print_joint(console, found)
        return
    header = found.release
    table = new_table(
        f"{header.target}: {_whose(header)}, {level_of(header)}",
        *("coefficient", "estimate", "error", f"{100 * confidence:.6g} % interval"),
    )
    for name, value, error, (low, high) in zip(
        header.names, found.estimate, found.standard_error, found.interval(confidence)
    ):
        digits = [rounded(number, error) for number in (value, error, low, high)]
        ends = f"{digits[2]} … {digits[3]}" if np.isfinite(error) else "none"
        table.add_row(shown(name), digits[0], digits[1] if np.isfinite(error) else "∞", ends)
    console.print(table)
    if header.dropped:
        console.print(shown(left_out(header)))
    if header.transform != "none":
        console.print(shown(f"{header.target} is transformed: {header.transform}."))
    print_percent(console, found, confidence)
    if found.range_sentence is not None:
        console.print(shown(found.range_sentence))
    for line in [*family_lines(found, confidence), *_errors(found)]:
        console.print(shown(line))
    if found.remark is not None:
        console.print(shown(f"{found.remark[0].upper()}{found.remark[1:]}"))
    for warning in found.warnings:
        console.print(shown(warning, style="bold"))
    if header.simulated:
        console.print(shown("The release was simulated: no protection.", style="dim"))


def _errors(found: Estimate) -> list[str]:
    """How the errors were made, and what the release says of the noise of the readings."""
    lines = []
    if found.method is not None:
        lines.append(f"Errors: {found.method}{freedom_text(found.degrees_of_freedom)}.")
    if found.noise_sentence is not None:
        lines.append(found.noise_sentence)
    if found.misfit is not None and found.misfit_p is not None and found.doubt is None:
        lines.append(
            f"Check of the stated noise variance: the release scatters {found.misfit:.3g} times as "
            f"much as it and the level say, as chance allows (p = {found.misfit_p:.2g})."
        )
    return lines
