"""What was done with a plan, step by step, and what to type in a shell to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from privest.arrays import CONFIDENCE
from privest.data import joined
from privest.workflow._account import LEDGER

AUTO = "auto"  # how errors are made, unless told


@dataclass(frozen=True)
class Steps:
    """From the plan file to the report: which files, and what was asked for. All of it is public.

    plan, table, page   the files of plan, release and report.
    made                whether the release is there: it is then not made again, but where a seed
                        repeats it.
    simulated, seed     of a trial; a seed makes the very same trial again.
    ledger, subject, budget, again
                        where a real release is charged, as in `Account`; None: as it is without
                        being stated.
    confidence, errors  of the estimate.
    at, total           rows at which the mean was asked for; whether the total was.
    """

    plan: str | Path = "plan.toml"
    table: str | Path = "release.csv"
    page: str | Path = "report.html"
    made: bool = False
    simulated: bool = False
    seed: int | None = None
    ledger: str | Path | None = None
    subject: str | None = None
    budget: float | None = None
    again: bool = False
    confidence: float = CONFIDENCE
    errors: str = AUTO
    at: tuple[Mapping[str, object], ...] = ()
    total: bool = False

    @property
    def trial(self) -> bool:
        """Whether the noise is simulated; only a trial has a seed."""
        return self.simulated or self.seed is not None

    @property
    def repeatable(self) -> bool:
        """Whether the release can be made again, byte for byte."""
        return self.seed is not None

    def by_name(self) -> Steps:
        """The same with the names of files in place of their paths: for others to read."""
        plan, table, page = (Path(file).name for file in (self.plan, self.table, self.page))
        ledger = None if self.ledger is None else Path(self.ledger).name
        return replace(self, plan=plan, table=table, page=page, ledger=ledger)


class Commands(NamedTuple):
    """A line for each step, safe for a shell."""

    plan: str
    release: str
    verify: str
    estimate: str
    report: str


def commands_of(steps: Steps) -> Commands:
    r"""What to type to do it all again.

    >>> print(*commands_of(Steps(table="my release.csv", seed=7)), sep="\n")
    privest plan plan.toml
    privest release plan.toml --output 'my release.csv' --simulate --seed 7
    privest verify 'my release.csv' --allow-simulated
    privest estimate 'my release.csv'
    privest report plan.toml 'my release.csv' --output report.html
    """
    plan, table, page = (shell_file(path) for path in (steps.plan, steps.table, steps.page))
    how = ["--allow-simulated"] if steps.trial else ["--ledger", str(steps.ledger or LEDGER)]
    return Commands(
        plan=f"privest plan {plan}",
        release=f"privest release {plan} --output {table}{_options(_released(steps))}",
        verify=f"privest verify {table}{_options(how)}",
        estimate=f"privest estimate {table}{_options(_estimated(steps))}",
        report=f"privest report {plan} {table} --output {page}",
    )


def _released(steps: Steps) -> list[str]:
    """The options of a release: of a trial its noise, of a real one its account."""
    if steps.trial:
        return ["--simulate", *([] if steps.seed is None else ["--seed", str(steps.seed)])]
    told: list[str] = []
    for name, value in (
        ("--ledger", steps.ledger), ("--subject", steps.subject), ("--budget", steps.budget)
    ):  # fmt: skip
        told += [] if value is None else [name, str(value)]
    return [*told, "--again"] if steps.again else told


def _estimated(steps: Steps) -> list[str]:
    told = [] if steps.confidence == CONFIDENCE else ["--confidence", repr(steps.confidence)]
    told += [] if steps.errors == AUTO else ["--errors", steps.errors]
    for row in steps.at:
        told += ["--at", row_text(row)]
    return [*told, "--total"] if steps.total else told


def row_text(row: Mapping[str, object]) -> str:
    """A row as `--at` reads it: NAME=VALUE,…, in quotes where a comma is part of it.

    >>> print(row_text({"age": 50.0, "ward, floor": "a"}))
    age=50.0,"ward, floor=a"
    """
    return joined(f"{name}={value}" for name, value in row.items())


def _options(words: list[str]) -> str:
    return "".join(f" {quoted(word)}" for word in words)


def shell_file(path: str | Path) -> str:
    """A file as an argument: its name cannot be taken for an option."""
    name = str(path)
    return quoted(f"./{name}" if name.startswith("-") else name)


def quoted(word: str) -> str:
    r"""One word of a command, on one line: what a control character would do, it does not.

    >>> print(quoted("it's"), quoted("a\nb"))
    'it'"'"'s' $'a\x0ab'
    """
    if word.isprintable() or not word:
        return shlex.quote(word)
    return "$'" + "".join(_spelled(letter) for letter in word) + "'"


def _spelled(letter: str) -> str:
    if letter in "\\'":
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))
