"""Shell commands that make a release and its report again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from privest.workflow.account import LEDGER


class Commands(NamedTuple):
    plan: str
    release: str
    verify: str
    estimate: str
    report: str


def commands_of(
    plan: str | Path,
    table: str | Path,
    page: str | Path,
    *,
    simulated: bool = False,
    seed: int | None = None,
    ledger: str | Path | None = None,
) -> Commands:
    r"""The commands from a plan file to the page; `ledger`: of a real release.

    >>> print(*commands_of("plan.toml", "my release.csv", "report.html", seed=7), sep="\n")
    privest plan plan.toml
    privest release plan.toml --output 'my release.csv' --simulate --seed 7
    privest verify 'my release.csv' --allow-simulated
    privest estimate 'my release.csv'
    privest report plan.toml 'my release.csv' --output report.html
    """
    plan, table, page = (_file(path) for path in (plan, table, page))
    charge = "" if ledger is None else f" --ledger {_file(ledger)}"
    how = f" --ledger {_file(ledger or LEDGER)}"
    if simulated or seed is not None:
        charge = " --simulate" + ("" if seed is None else f" --seed {seed}")
        how = " --allow-simulated"
    return Commands(
        plan=f"privest plan {plan}",
        release=f"privest release {plan} --output {table}{charge}",
        verify=f"privest verify {table}{how}",
        estimate=f"privest estimate {table}",
        report=f"privest report {plan} {table} --output {page}",
    )


def _file(path: str | Path) -> str:
    """A file as an argument: its name cannot be taken for an option."""
    name = str(path)
    return quoted(f"./{name}" if name.startswith("-") else name)


def quoted(word: str) -> str:
    r"""One word of a command, on one line, control characters spelled out.

    >>> print(quoted("it's"), quoted("a\nb"))
    'it'"'"'s' $'a\x0ab'
    """
    if word.isprintable() or not word:
        return shlex.quote(word)
    return "$'" + "".join(map(_spelled, word)) + "'"


def _spelled(letter: str) -> str:
    if letter in "\\'":
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))
