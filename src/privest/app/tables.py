"""The user's table: a private copy of a sent file."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from privest.data.source import EMBEDDED, require_ending
from privest.errors import InvalidInput

if TYPE_CHECKING:
    from privest.app.desk import Desk

PART = 1 << 20  # bytes that are copied at a time
LONGEST_NAME = 200


@dataclass(frozen=True)
class Table:
    """A table of the user: `name` as it is shown and written into plans, `path` of the app's copy.

    path  None: the embedded table.
    """

    name: str
    path: Path | None = None

    @property
    def data(self) -> str:
        return EMBEDDED if self.path is None else str(self.path)

    def remove(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def sent_table(desk: Desk, file: BinaryIO, given: str) -> Table:
    """A file that came with a form, as one that only the user can read; never whole in memory."""
    name = shown_name(given)
    path = desk.private_file(require_ending(name))
    try:
        with path.open("wb") as copy:
            shutil.copyfileobj(file, copy, PART)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise InvalidInput(
            f"{name} could not be kept ({error.strerror}): make room on this machine's disk for "
            "temporary files."
        ) from None
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Table(name, path)


def shown_name(given: str) -> str:
    r"""The name of a sent file without its folders, and without what has no shape."""
    last = re.split(r"[/\\]", given)[-1]
    name = "".join(letter for letter in last if letter.isprintable()).strip()
    return name[-LONGEST_NAME:]  # its end says which kind it is


def in_words(error: Exception | str, table: Table | None) -> str:
    """An error's text, with the table under the name that the user knows."""
    text = str(error)
    if table is None or table.path is None:
        return text
    return text.replace(str(table.path), table.name).replace(table.path.name, table.name)
