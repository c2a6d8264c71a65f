"""The user's table: a private copy of a sent file, or read where it lies."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from privest.data.format import Format
from privest.data.look import TableLook
from privest.data.look import inspect as look
from privest.data.source import EMBEDDED, OTHERS, require_ending
from privest.errors import InvalidInput, PrivestError
from privest.workflow.plan import Plan
from privest.workflow.survey import require_unchanged

if TYPE_CHECKING:
    from privest.app.desk import Desk

PART = 1 << 20  # bytes that are copied at a time
LONGEST_NAME = 200


@dataclass(frozen=True)
class Table:
    """A table of the user: `name` as it is shown and written into plans, `path` where it lies.

    path  None: the embedded table. own: the app's copy, to be removed.
    """

    name: str
    path: Path | None = None
    own: bool = False

    @property
    def data(self) -> str:
        return EMBEDDED if self.path is None else str(self.path)

    @property
    def is_text(self) -> bool:
        return self.path is not None and not self.name.lower().endswith(OTHERS)

    def remove(self) -> None:
        if self.own and self.path is not None:
            self.path.unlink(missing_ok=True)

    def look(self, format: Format) -> tuple[TableLook | None, str | None]:
        """The look of the table, or why there is none."""
        try:
            return look(self.data, format), None
        except PrivestError as error:
            return None, in_words(error, self)

    def changed(self, plan: Plan | None) -> str | None:
        """Why the plan is not that of the table any more (changed, or gone); None: it is."""
        if plan is None:
            return None
        try:
            require_unchanged(plan.spec, plan.found, self.data)
        except InvalidInput as error:
            return in_words(error, self)
        return None


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
            "temporary files, or give the path of the file instead."
        ) from None
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Table(name, path, own=True)


def shown_name(given: str) -> str:
    r"""The name of a sent file without its folders, and without what has no shape."""
    last = re.split(r"[/\\]", given)[-1]
    name = "".join(letter for letter in last if letter.isprintable()).strip()
    return name[-LONGEST_NAME:]  # its end says which kind it is


def local_table(desk: Desk, given: str) -> Table:
    """A file of this machine, read where it lies."""
    if given == EMBEDDED:
        return Table(EMBEDDED)
    path = local_path(desk, given)
    require_ending(path.name)
    return Table(path.name, path)


def local_path(desk: Desk, given: str) -> Path:
    """The file that a path means; quotes around it are passed over."""
    text = given.strip().strip("\"'")
    try:
        path = (desk.folder / Path(text).expanduser()).resolve()
        there = path.is_file()
    except (OSError, RuntimeError, ValueError):  # too long; no such user; a NUL
        there = False
    if not text or not there:
        raise InvalidInput(
            "there is no such file on this machine: give its whole path, as a file manager shows "
            f"it, or one from {desk.folder}."
        )
    return path


def in_words(error: Exception | str, table: Table | None) -> str:
    """An error's text, with the table under the name that the user knows."""
    text = str(error)
    if table is None or table.path is None:
        return text
    return text.replace(str(table.path), table.name).replace(table.path.name, table.name)
