"""A release in a few words: at which level, without which rows, which entry of which ledger."""

from __future__ import annotations

from privest.report._digits import at_most, plural
from privest.report._exposure import level_words
from privest.workflow import Account, TableRelease
from privest.workflow._record import record_information


def left_out(header: TableRelease) -> str:
    """How many rows a release is without, where it is."""
    if not header.dropped:
        return ""
    why = "with missing values"
    return f"{plural(header.dropped, 'row')} {why} left out."


def level_of(header: TableRelease) -> str:
    """At which level a release was made: of several columns the budget of the record."""
    if len(header.columns) == 1:
        if header.column.law != "gaussian" and header.epsilon is not None:
            return f"ε = {at_most(header.epsilon)}, no δ"
        if header.column.level_column is not None:
            return f"privacy levels per row up to {at_most(header.level)}"
        return level_words(header.level)
    budget = float(record_information(header.columns))
    return f"a budget of {budget:.6g} units for the record of {len(header.columns)} columns"


def budget_left(account: Account) -> str:
    """What the budget of an account leaves."""
    left = account.ledger.account(account.subject).remaining.level
    return "nothing" if not left else f"a privacy level of {float(left):.4g}"


def charged_to(header: TableRelease, account: Account) -> str:
    """Which entry of which ledger a release is, and what its budget leaves."""
    assert header.entry is not None
    return (
        f"Ledger: {account.path}\nEntry {header.entry.sequence} of it is this release of "
        f"{account.subject!r}; {budget_left(account)} of its budget is left. "
        f"Head: {account.ledger.head}"
    )
