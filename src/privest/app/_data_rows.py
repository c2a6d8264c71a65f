"""The columns on the data screen: what each of them is, and what was chosen for it so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from privest.data import ColumnLook, TableLook
from privest.report import printable

SHOWN = 100  # columns that are shown without being asked for
MOST_SHOWN = 400
MOST_NUMBERS = 20  # different ones that are offered as categories
Typed = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class ColumnRow:
    """A column on the screen, with what is chosen for it."""

    at: int
    look: ColumnLook
    role: str = "unused"
    low: str = ""
    high: str = ""
    as_list: bool = False
    categories: str = ""
    ticked: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_number(self) -> bool:
        """Whether it can be a number at all."""
        return self.look.kind in ("number", "yes-no")

    @property
    def may_be_list(self) -> bool:
        """Whether it has few enough values for a list of categories."""
        few = len(self.look.different or ())
        return 1 < few <= MOST_NUMBERS or (few > 1 and not self.is_number)


def rows_of(look: TableLook, typed: Typed) -> list[ColumnRow]:
    """The columns that are shown: the first ones, and those that were asked for by name."""
    asked = set(wanted_names(typed))
    some = [at for at, column in enumerate(look.columns) if at < SHOWN or column.name in asked]
    return [_row(at, look.columns[at], typed) for at in some[:MOST_SHOWN]]


def wanted_names(typed: Typed) -> list[str]:
    """The names of further columns, one a line."""
    return [name for name in lines_of(_first(typed, "further")) if name]


def _row(at: int, column: ColumnLook, typed: Typed) -> ColumnRow:
    sure = {str(k): code.code for k, code in enumerate(column.codes) if code.sure}
    known = f"role-{at}" in typed
    return ColumnRow(
        at,
        column,
        role=_first(typed, f"role-{at}", "unused"),
        low=_first(typed, f"low-{at}"),
        high=_first(typed, f"high-{at}"),
        as_list=_first(typed, f"use-{at}") == "list",
        categories=_first(typed, f"list-{at}", "\n".join(offered(column, sure))),
        ticked=frozenset(typed.get(f"codes-{at}", ()) if known else sure),
    )


def offered(column: ColumnLook, codes: Mapping[str, str] | None = None) -> dict[str, str]:
    """The categories in the file as they are shown, each on one line; and what each of them is.

    codes: what stands for a missing value, which is none.
    """
    without = set((codes or {}).values())
    kept = (one for one in column.different or () if one not in without)
    return {" ".join(printable(one).split()): one for one in kept}


def _first(typed: Typed, name: str, default: str = "") -> str:
    found = typed.get(name, ())
    return found[0] if found else default


def lines_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.replace("\r", "\n").split("\n")]
