"""Names of columns: how they are compared and listed, and what is said of one that is absent."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from privest.arrays import plural
from privest.data.cells import is_date, is_number
from privest.errors import InvalidInput

MOST = 20  # names that a message lists
# A sign may begin a number, a time or a grade such as ++; else a spreadsheet computes it.
FORMULA = re.compile(r"[=@\t\r\n]|[+-](?!([\d.,:'\s]*(e[+-]?\d+)?%?|[+/-]*)\Z)", re.IGNORECASE)


def composed(name: str) -> str:
    """A text with composed letters (Unicode's NFC): é is one letter, not e and an accent.

    >>> composed("cafe\u0301") == "caf\u00e9"
    True
    """
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def joined(names: Iterable[str]) -> str:
    r"""Names with commas between them, in double quotes where one has a comma, quote or line end.

    >>> joined(["age", "ldl, mg/dl", "a\nb"])
    'age,"ldl, mg/dl","a\nb"'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(names)
    return text.getvalue().removesuffix("\r\n")


def require_no_formula(texts: Iterable[str], what: str = "") -> None:
    """Refuse texts that a spreadsheet would compute in a CSV file; `what` stands for a cell."""
    for text in texts:
        if FORMULA.match(text):
            raise InvalidInput(
                f"{what or repr(text)} begins as a formula, which a spreadsheet would compute in a "
                "CSV file: change it, or write another format (.parquet, JSON lines)."
            )


def meant(name: str, known: Sequence[str]) -> str:
    """` Did you mean …?`, where one of the known names is like this one; else nothing.

    >>> meant("Agee", ["sex", "age"]), meant("height", ["sex", "age"])
    (" Did you mean 'age'?", '')
    """
    alike = {_likeness(one): one for one in reversed(known)}
    found = get_close_matches(_likeness(name), list(alike), n=1)
    return f" Did you mean {alike[found[0]]!r}?" if found else ""


def _likeness(name: str) -> str:
    """What two spellings of a name share: no capitals, accents, underscores, rows of spaces."""
    letters = unicodedata.normalize("NFKD", name).casefold()
    bare = "".join(one for one in letters if not unicodedata.combining(one))
    return " ".join(re.sub(r"[_.-]", " ", bare).split())


def is_value(name: str) -> bool:
    """Whether a name looks like a cell: a number, with a point or a comma, or a date."""
    return is_number(name) or is_number(name.replace(",", ".", 1)) or is_date(name)


def absent_columns(absent: Sequence[str], known: Sequence[str], *, certain: bool) -> str:
    """Which columns are absent, which may be meant, and which there are.

    `certain`: `known` are names. The first line of a CSV file may be a person's data: it is shown
    only where none of it is a number or a date, and one name is like one that was asked for.
    """
    quoted = ", ".join(repr(name) for name in absent)
    hints = dict.fromkeys(meant(name, known) for name in absent)
    values = [name for name in known if is_value(name)]
    if known and len(values) == len(known):
        return f"no column {quoted}: its first line holds numbers, add one with the column names."
    if not certain and (values or not any(hints)):
        return f"no column {quoted}; its first line names {plural(len(known), 'column')}."
    listed = ", ".join(repr(name) for name in known[:MOST])
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"no column {quoted}.{''.join(hints)} There are {listed}{more}."
