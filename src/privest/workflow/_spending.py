"""What a release would spend, before it is made."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from privest.ledger import Budget, Entry
from privest.records import Record


@dataclass(frozen=True, kw_only=True)
class Spending(Record):
    """What a release would spend of an account, and what it would leave: nothing was spent.

    ledger, subject  where, and whose account.
    known            whether there is an account; else the release opens it with `budget`.
    level            what this release shows of one reading, or of one person.
    budget           of the account, as a level: None where it is limited in other units, all of
                     which `budget_words` says.
    spent            of it so far; `remaining`: after this release, less than 0 where it is too
                     much. None where that is not known.
    refusal          why the release would be refused now, in words; None: it would not be.
    refusal_again    the same where `again` is said: None beside a refusal means that this is all
                     that is missing.
    unfinished       a draft is there that is paid for: the same release finishes it, and spends
                     nothing.
    earlier          the releases of this subject.
    """

    ledger: Path
    subject: str
    known: bool
    level: float
    budget: float | None = None
    budget_words: str = ""
    spent: float | None = None
    remaining: float | None = None
    refusal: str | None = None
    refusal_again: str | None = None
    unfinished: bool = False
    earlier: tuple[Entry, ...] = ()

    DERIVED: ClassVar[tuple[str, ...]] = ("fits",)

    @property
    def fits(self) -> bool:
        """Whether the level is within what is left of the budget, as far as levels tell."""
        return self.remaining is None or self.remaining >= 0


def left_of(budget: Budget, spent: Fraction | None, added: Fraction) -> dict[str, Any]:
    """The fields of a `Spending` that are numbers of an account; `added`: what would be spent."""
    limit, left = budget.level, None
    if limit is not None and spent is not None:
        left = float(limit - spent - added)  # exact before it is rounded: 0 is 0
    return {
        "budget": None if limit is None else float(limit),
        "budget_words": budget.in_words(),
        "spent": None if spent is None else float(spent),
        "remaining": left,
    }
