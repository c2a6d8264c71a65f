"""An estimate in the units of the file, for a terminal: percent, means at rows, totals."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from privest.cli import _options as common
from privest.cli._console import new_table, shown
from privest.data import is_number
from privest.errors import InvalidInput
from privest.estimator.inference import OriginalMean, Total
from privest.report import rounded, total_words
from privest.workflow import Estimate
from privest.workflow._original_units import is_category


def print_percent(console: Console, found: Estimate, confidence: float) -> None:
    """Coefficients of a logarithm as per cent for one unit more."""
    percent = found.percent(confidence)
    if not percent:
        return
    categories = " (a category: against the first)" if any(map(is_category, percent)) else ""
    table = new_table(
        f"{found.release.target} itself, for one unit more{categories}",
        *("coefficient", "change", f"{100 * confidence:.6g} % interval"),
    )
    for name, (value, low, high) in percent.items():
        size = (high - low) / 4
        shown_ = [f"{'+' if number > 0 else ''}{rounded(number, size)} %" for number in
                  (value, low, high)]  # fmt: skip
        table.add_row(shown(name), shown_[0], f"{shown_[1]} … {shown_[2]}")
    console.print(table)


def rows_given(given: list[str] | None) -> dict[str, Mapping[str, object]]:
    """--at NAME=VALUE,…: each as values by name; what is no number is a category."""
    rows: dict[str, Mapping[str, object]] = {}
    for one in given or []:
        values: dict[str, object] = {}
        for part in common.listed(one):
            name, equals, value = part.rpartition("=")
            if not equals or not name or not value:
                raise InvalidInput(f"--at {one}: write NAME=VALUE,…, for example age=50,sex=male.")
            if name in values:
                raise InvalidInput(f"--at {one}: {name!r} is there twice.")
            values[name] = float(value) if is_number(value) else value
        rows[one] = values
    return rows


def print_means(
    console: Console, found: Estimate, means: Mapping[str, OriginalMean], confidence: float
) -> None:
    """The mean and the median of the target at each row."""
    if not means:
        return
    table = new_table(
        f"{found.release.target} in its own units",
        *("at", "mean", f"{100 * confidence:.6g} % interval", "median"),
    )
    for name, mean in means.items():
        low, high = mean.interval
        size = (high - low) / 4
        table.add_row(
            shown(name),
            rounded(mean.mean, size),
            f"{rounded(low, size)} … {rounded(high, size)}",
            rounded(mean.median, size),
        )
    console.print(table)
    console.print(shown(f"Means: {next(iter(means.values())).method}."))


def print_total(console: Console, found: Estimate, total: Total, confidence: float) -> None:
    """The total of the people of the release."""
    console.print(shown(total_words(found, total, confidence)))
