"""A plan with persons who have several rows, as a table and sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.console import Console

from privest.cli._console import new_table, shown
from privest.report import BAND, at_least, exposed_by, exposure, level_words, short
from privest.report._plan_words import differential_words, left_out_words, size_words
from privest.workflow import Plan
from privest.workflow._planning_people import PlannedPeople

LEVEL = (
    "The level is that of all rows of a person together, a promise for the whole person. A row of "
    "a person with r rows has r times the noise."
)


def print_people_plan(console: Console, found: Plan, rows: Mapping[str, int]) -> None:
    """Who has how many rows, what privacy adds to the errors, and what it means for a person."""
    people = found.people
    assert people is not None
    sentences = _sentences(found, people)  # before anything is printed: it may fail
    console.print(shown(_head(found, people)))
    stated = found.noise_variance is not None
    columns = ("without privacy", "with privacy") if stated else ()
    table = new_table(
        "Standard errors to expect (± for 95 %)", "coefficient", "privacy alone", *columns
    )
    alone = people.errors(found.level)
    for j, name in enumerate(found.names):
        errors = [alone[j]]
        if stated:
            errors += [found.classical_error[j], found.standard_error[j]]
        table.add_row(shown(name), *(f"{one:.4g} (± {BAND * one:.3g})" for one in errors))
    console.print(table)
    for line in sentences:
        console.print(shown(line))
    for want, count in rows.items():
        like = math.ceil(count / people.mean_rows)
        console.print(shown(f"For {want} at this level {like:,} persons like these are needed."))


def _head(found: Plan, people: PlannedPeople) -> str:
    first, last = int(people.rows[0]), int(people.rows[-1])
    each = f"{first}" if first == last else f"{first} to {last:,}"
    left = ""
    if people.cut:
        left += f" {people.cut:,} rows beyond the first {people.person.rows} of a person are cut."
    left += left_out_words(found.dropped)
    if found.spec.missing == "drop":
        left += " Rows without a reading will be left out too: which they are becomes public."
    return (
        f"{people.persons:,} persons with {each} rows ({short(people.mean_rows)} on average), "
        f"{size_words(found)}: all of them can be estimated.{left}"
    )


def _sentences(found: Plan, people: PlannedPeople) -> list[str]:
    lines = [f"At {level_words(found.level)}. {LEVEL}"]
    if found.noise_variance is None:
        lines.append(
            "The errors are what privacy alone adds, exactly. What persons themselves add depends "
            "on how much they differ, which nobody stated: the release will show it. A guess of "
            "the noise variance (--noise-variance) gives errors to expect."
        )
    else:
        lines.append(
            f"With a noise variance of {found.noise_variance:.4g}, as stated, of which half is "
            "taken to be between persons; what privacy alone adds is exact."
        )
    lines += [line for one in exposed_by(found) for line in exposure(one)]
    lines += [_single_row(found, people), *differential_words(found)]
    if people.cut == 0 and found.spec.person is not None and found.spec.person.most is None:
        lines.append(
            "How many rows a person has is public in the release; a cap (--most-rows) hides what "
            "is beyond it."
        )
    advice = people.advice
    return lines if advice is None else [*lines, advice]


def _single_row(found: Plan, people: PlannedPeople) -> str:
    """What is seen of one row: less than of the mean."""
    rows = people.person.rows if people.person.capped else int(people.rows[0])
    least = (rows / found.level) ** 0.5
    which = "" if people.person.capped else f" (of a person with {rows}; more rows, more noise)"
    return f"A single reading can be told to ± {at_least(least)} at best{which}."
