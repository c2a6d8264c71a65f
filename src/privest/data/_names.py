"""What to say of a name that is not there."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from privest.data._cells import is_number

MOST = 20  # names that are listed


def meant(name: str, known: Sequence[str]) -> str:
    """` Did you mean …?`, where one of the names is like this one; else nothing.

    >>> meant("Agee", ["sex", "age"]), meant("height", ["sex", "age"])
    (" Did you mean 'age'?", '')
    """
    alike = {one.strip().casefold(): one for one in reversed(known)}
    found = get_close_matches(name.strip().casefold(), list(alike), n=1)
    return f" Did you mean {alike[found[0]]!r}?" if found else ""


def absent_columns(absent: Sequence[str], known: Sequence[str], *, certain: bool) -> str:
    """Which columns are not there, which were perhaps meant, and which there are.

    `certain`: that `known` are names. The first line of a CSV file may be a person's data: it is
    shown only where none of it is a number and one of the names is like one that was asked for.
    """
    quoted = ", ".join(repr(name) for name in absent)
    hints = dict.fromkeys(meant(name, known) for name in absent)
    numbers = [name for name in known if is_number(name)]
    if known and len(numbers) == len(known):
        return f"no column {quoted}: its first line holds numbers, add one with the column names."
    if not certain and (numbers or not any(hints)):
        return f"no column {quoted}; it has {len(known)} columns, named in its first line."
    listed = ", ".join(repr(name) for name in known[:MOST])
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"no column {quoted}.{''.join(hints)} There are {listed}{more}."
