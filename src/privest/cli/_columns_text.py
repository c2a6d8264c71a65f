"""Several private columns on a terminal: their plan, and what their release shows."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from privest.cli._console import new_table, shown
from privest.report import at_least, exposed_by, exposure, rounded
from privest.report._plan_words import differential_words, left_out_words, size_words
from privest.workflow._record import record_information
from privest.workflow._record_plan import RecordPlan
from privest.workflow._route_columns import ColumnsEstimate

SURE = 1e-4  # smaller chances are printed as less than this


def print_record_plan(console: Console, found: RecordPlan) -> None:
    """One table: what each column costs, and what one who sees the release knows of a record."""
    sentences = _sentences(found)  # before anything is printed: it may fail
    left = left_out_words(found.dropped)
    if found.spec.missing == "drop":
        left += (
            " Rows without a reading in any of the targets will be left out whole: which they are "
            "becomes public."
        )
    head = f"{size_words(found)} for each of "
    console.print(shown(f"{head}{len(found.columns)} private columns.{left}"))
    console.print(_columns_table(found))
    console.print(_errors_table(found))
    for line in sentences:
        console.print(shown(line))


def _columns_table(found: RecordPlan) -> Table:
    """What the level of each column means for one reading."""
    known = found.informed_errors
    through = [] if known is None else ["knows all the rest"]
    table = new_table(
        "What a guess of one reading is off by, by one who",
        *("column", "level s", "knows nothing else", *through),
    )
    for j, column in enumerate(found.columns):
        cells = [f"{column.level:.4g}", f"± {at_least(float(found.reading_errors[j]))}"]
        if known is not None:
            cells.append(f"± {at_least(float(known[j]))}")
        table.add_row(shown(column.target), *cells)
    return table


def _errors_table(found: RecordPlan) -> Table:
    """Standard errors of every coefficient; without a noise variance what privacy adds to them."""
    errors, title = found.standard_errors, "Standard errors to expect"
    if errors is None:
        errors, title = found.privacy_errors, "Standard errors by the noise of the release alone"
    targets = [column.target for column in found.columns]
    table = new_table(title, "coefficient", *targets)
    for name, row in zip(found.names, errors.T):
        table.add_row(shown(name), *(f"{one:.4g}" for one in row))
    return table


def _sentences(found: RecordPlan) -> list[str]:
    lines = [
        f"One budget, {float(record_information(found.columns)):.6g} in units of the columns, for "
        "the whole record: the same part for each, so that errors count the same in these units. "
        "Privacy level s: larger shows more."
    ]
    lines += [
        f"{column.target}: {exposure(one)[1]}"
        for column, one in zip(found.columns, exposed_by(found))
    ]
    if found.informed_errors is not None:
        lines.append(
            "Columns tell of each other: all the rest is the coefficients, the "
            "features, and how the columns go together in the reference set."
        )
    else:
        lines.append(
            "Columns tell of each other: where they go together, one who knows how knows each of "
            "them better than that. A reference set would say by how much; the estimate does."
        )
    return [*lines, *differential_words(found)]


def print_joint(console: Console, found: ColumnsEstimate) -> None:
    """The joint tests, the correlation of the columns, and what they tell of each other."""
    if found.joint is None:
        console.print(shown(f"No joint test of the columns: {found.silent}."))
        return
    joint = found.joint
    if joint.statistic is not None and joint.p_value is not None:
        table = new_table(
            "Does it matter for any of them? One test of all",
            *("coefficient", "T²", "chance of a larger one"),
        )
        for name, statistic, p in zip(found.release.names, joint.statistic, joint.p_value):
            table.add_row(shown(name), f"{statistic:.4g}", _chance(float(p)))
        console.print(table)
    errors = found.informed_error
    assert errors is not None
    known = ", ".join(
        f"{column.target} ± {rounded(float(error), float(error))}"
        for column, error in zip(found.release.columns, errors)
    )
    console.print(
        shown(
            "The test is exact for normal readings of equal variance. Columns tell of each other: "
            "one who knows the coefficients, and how the columns go "
            f"together (as this release shows it), knows a reading to {known}."
        )
    )


def _chance(p: float) -> str:
    return f"< {SURE:g}" if p < SURE else f"{p:.4f}"
