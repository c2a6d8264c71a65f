"""The user's table: sent by the browser to a private file, or read where it lies."""

from __future__ import annotations

import filecmp
import re
import shutil
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from privest.app._desk import Desk, Table, Work
from privest.data import EMBEDDED, require_ending
from privest.errors import InvalidInput
from privest.workflow import require_unchanged

PART = 1 << 20  # bytes that are copied at a time
LONGEST_NAME = 200


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


def sent_reference(desk: Desk, table: Table, file: BinaryIO, given: str) -> Path:
    """A public file that came with a form, under its own name, by which a plan states it, in a
    folder of its own.
    """
    sent = sent_table(desk, file, given)
    assert sent.path is not None
    folder = sent.path.with_suffix(".reference")
    try:
        if sent.name == table.name:
            raise InvalidInput(
                f"the reference file has the name of the table, {sent.name}, and a plan could not "
                "tell them apart: rename it."
            )
        require_other_file(table, sent.path)
        folder.mkdir(0o700)
        return sent.path.rename(folder / sent.name)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InvalidInput(f"{sent.name} could not be kept ({error.strerror}).") from None
    finally:
        sent.remove()


def shown_name(given: str) -> str:
    r"""The name of a sent file without its folders, and without what has no shape.

    >>> shown_name("C:\\data\\people.csv"), shown_name("../a\x00\u202eb.csv")
    ('people.csv', 'ab.csv')
    """
    last = re.split(r"[/\\]", given)[-1]
    name = "".join(letter for letter in last if letter.isprintable()).strip()
    return name[-LONGEST_NAME:]  # its end says which kind it is


def local_table(desk: Desk, given: str) -> Table:
    """A file of this machine, read where it lies; a relative path is one from the app's folder."""
    if given == EMBEDDED:
        return Table(EMBEDDED)
    path = local_path(desk, given)
    require_ending(path.name)
    return Table(path.name, path)


def local_path(desk: Desk, given: str) -> Path:
    """The file that a path means; quotes around it, as some programs copy it, are passed over."""
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


def require_other_file(table: Table, reference: Path) -> None:
    """Refuse the private table itself as the public reference, under another name too."""
    if table.path is None:
        return
    if reference == table.path or filecmp.cmp(reference, table.path, shallow=False):
        raise InvalidInput(
            "the reference file is the private table itself: a noise variance taken from it would "
            "leak. It must be other, public data of the same kind; or leave it out."
        )


def changed(work: Work) -> str | None:
    """Why the plan is no longer that of the table: its file was changed, or is gone; None: it is.

    What was shown of it, and confirmed, would not be what is released.
    """
    if work.plan is None or work.table is None:
        return None
    try:
        require_unchanged(work.plan.spec, work.plan.found, work.table.data)
    except InvalidInput as error:
        return in_words(error, work.table)
    return None


def same_name(name: str) -> str:
    """Names that are one to some file system, or to a reader, as one text."""
    return unicodedata.normalize("NFC", name).casefold()


def require_other_name(given: str, inputs: Sequence[str]) -> None:
    """Refuse the name of a file that is read: who has both must not take one for the other."""
    for name in inputs:
        if same_name(given) == same_name(name):
            raise InvalidInput(
                f"“{given}” is the name of a file that the plan reads: give the release another "
                "one, so that nobody takes the one for the other."
            )


def in_words(error: Exception | str, table: Table | None) -> str:
    """What an error says, with the table under the name that the user knows."""
    text = str(error)
    if table is None or table.path is None:
        return text
    return text.replace(str(table.path), table.name).replace(table.path.name, table.name)
