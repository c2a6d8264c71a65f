"""What is taken along of a piece of work: plan, commands, script, notebook, report, ledger entry.

All of it is public, or made from what is: the plan as stated, and of a real release its table,
header and entry. The table of a trial is not among it: its noise protects nothing, and its seed
makes it again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from textwrap import fill
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import privest
from privest.app._along_cells import Cell, cells_of, extras_of, for_colleagues, one_line
from privest.data import EMBEDDED
from privest.errors import InvalidInput
from privest.files import atomic_file
from privest.ledger import Ledger, entries_json
from privest.workflow import (
    Commands,
    Spec,
    Steps,
    TableRelease,
    commands_of,
    document_path,
    shell_file,
    to_toml,
)

README, COMMANDS, SCRIPT, NOTEBOOK, ENTRY = (
    "README.txt", "commands.sh", "reproduce.py", "reproduce.ipynb", "ledger-entry.json",
)  # fmt: skip
STAMP = (1980, 1, 1, 0, 0, 0)  # of files in the archive: the same work gives the same bytes
WIDTH = 96
CHARGED = "For the data owner, with the ledger: is it the release that was charged?"
NO_PROTECTION = "This was a TRIAL: its noise is simulated, and gives no protection."


@dataclass(frozen=True)
class Along:
    """The texts of one piece of work. Files are named, never where they lie.

    spec    as planned; `steps`: what was done with it (`workflow.Steps`).
    """

    spec: Spec
    steps: Steps

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", _by_name(self.spec))
        object.__setattr__(self, "steps", self.steps.by_name())

    @cached_property
    def plan(self) -> str:
        """plan.toml: what `privest plan`, `load_spec` and the app read."""
        said: tuple[str, ...] = (
            f"A plan of privest {privest.__version__}: which readings are private, what they are "
            "explained by, and how much may be shown. All of it is public.",
            f"Files are looked for beside this one. What it would cost: {self.commands.plan}",
        )
        said += (NO_PROTECTION,) if self.steps.trial else ()
        return "\n".join(_comment(text) for text in said) + "\n\n" + to_toml(self.spec)

    @cached_property
    def commands(self) -> Commands:
        """A line of a shell for each step. (Means and totals it asks of one target at a time.)"""
        single = len(self.spec.targets) == 1
        return commands_of(self.steps if single else replace(self.steps, at=(), total=False))

    @cached_property
    def shell(self) -> str:
        """The commands as a file that runs; a release that was made is not made again."""
        lines, steps = self.commands, self.steps
        again = f"{lines.report} --overwrite" if steps.made else lines.report
        release = [_comment(self._why_not), f"# {lines.release}"]
        if steps.repeatable:
            release = [_comment("A trial, with its seed: the same table, byte for byte."),
                       lines.release]  # fmt: skip
        told = [
            "#!/usr/bin/env bash",
            _comment(f"What was done, as commands of privest {privest.__version__}."),
            *([_comment(NO_PROTECTION)] if steps.trial else []),
            *(["", _comment(self._needs)] if self._needs else []),
            "set -e",
            *("", _comment("What it costs. Nothing is spent."), self._with_data(lines.plan)),
            *("", *release),
        ]
        waiting = "" if steps.made or steps.repeatable else "# "
        whole, owner = ("Is it whole?", waiting) if steps.trial else (CHARGED, "# ")
        told += ["", _comment(whole), owner + lines.verify]
        rest = (("The estimate, from the release alone.", lines.estimate),
                ("A page for people.", self._with_data(again)))  # fmt: skip
        for text, line in rest:
            told += ["", _comment(text), waiting + line]
        return "\n".join(told) + "\n"

    def _with_data(self, line: str) -> str:
        """A step that reads the data; whoever has the release alone goes on without it."""
        if not for_colleagues(self.spec, self.steps):
            return line
        return f"[ ! -e {shell_file(self.spec.data)} ] || {line}"

    @property
    def _why_not(self) -> str:
        if self.steps.trial:
            return "A trial without a seed: the same noise does not come again. It was:"
        if self.steps.made:
            return (
                "The release, made once and not again: new noise on the same readings would spend "
                "their privacy again. It was:"
            )
        return "The release: for the data holder, once, when all is decided. Then the rest."

    @property
    def _needs(self) -> str:
        """What has to be beside the files here."""
        files = [self.spec.data, self.spec.public.reference]
        names = [one_line(name) for name in files if name not in (None, EMBEDDED) and name]
        return f"Put beside this file: {', '.join(names)}." if names else ""

    @cached_property
    def script(self) -> str:
        """The same as a Python script."""
        parts = [_script_part(cell) for cell in self._cells]
        return "\n\n".join(parts) + "\n"

    @cached_property
    def notebook(self) -> str:
        """The same as a Jupyter notebook (nbformat 4.5)."""
        cells = [part for k, cell in enumerate(self._cells) for part in _notebook_parts(k, cell)]
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        record = {
            "cells": cells,
            "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    @cached_property
    def _cells(self) -> list[Cell]:
        return cells_of(self.spec, self.steps, self.commands)

    def readme(self, names: list[str]) -> str:
        """README.txt: what is what, of the files that are there."""
        steps = self.steps
        known = {
            str(steps.plan): "the plan: what is private, what explains it, how much may be shown",
            COMMANDS: "each step as a command of a shell",
            SCRIPT: "each step in Python, with the same numbers to the last digit",
            NOTEBOOK: "the same as a Jupyter notebook",
            str(steps.table): "the release: noisy readings with the public features",
            document_path(Path(steps.table)).name: "its header: what is needed to use and check it",
            str(steps.page): "the report, one page for people: open it in a browser",
            ENTRY: "what the ledger says of the release; the ledger itself stays with the holder",
        }
        width = max(map(len, names), default=0)
        lines = [f"  {one_line(name).ljust(width)}  {known[name]}" for name in names]
        said = [
            f"What was done with privest {privest.__version__} "
            f"(pip install 'privest[cli,{extras_of(self.spec)}]')."
        ]
        said += [_fill(self._needs)] if self._needs else []
        said += [_fill(self._warning)] if self._warning else []
        return "\n\n".join([said[0], "\n".join(lines), *said[1:]]) + "\n"

    @property
    def _warning(self) -> str:
        if self.steps.trial:
            return (
                f"{NO_PROTECTION} Keep the report and these files to yourself. The table of the "
                "trial is not among them; its seed makes it again."
            )
        if self.steps.made:
            return (
                "The readings themselves are in none of these files. The release cannot be made "
                "again: its noise has no seed, and the ledger would refuse to spend twice."
            )
        return "Nothing was released, and nothing was spent: this is a plan."


def save_along(
    path: Path,
    along: Along,
    *,
    table: Path | None = None,
    report: Path | None = None,
    entry: str | None = None,
) -> list[str]:
    """Write all of it as one .zip file; the names in it.

    table   of a real release, with its header beside it. That of a trial is refused.
    report  the page; `entry`: as `ledger_entry` gives it.
    """
    if table is not None and along.steps.trial:
        raise InvalidInput("the table of a trial protects nothing: it is not given to others.")
    texts = {
        str(along.steps.plan): along.plan, COMMANDS: along.shell, SCRIPT: along.script,
        NOTEBOOK: along.notebook,
    }  # fmt: skip
    texts |= {} if entry is None else {ENTRY: entry}
    files = {} if report is None else {str(along.steps.page): report}
    if table is not None:
        files |= {str(along.steps.table): table, document_path(table).name: document_path(table)}
    names = [*texts, *files]
    with atomic_file(path) as file, ZipFile(file, "w") as archive:
        for name, text in {README: along.readme(names), **texts}.items():
            archive.writestr(_member(name), text.encode("utf-8", "backslashreplace"))
        for name, source in files.items():
            size = source.stat().st_size  # from which zipfile knows what large files need
            with source.open("rb") as one, archive.open(_member(name, size), "w") as member:
                shutil.copyfileobj(one, member)
    return [README, *names]


def ledger_entry(ledger: Path, release: TableRelease) -> str | None:
    """The entry of a release, as the ledger exports it; None where it was charged to none."""
    place = release.entry
    if place is None:
        return None
    with Ledger(ledger, create=False) as opened:
        if opened.id != place.ledger:
            raise InvalidInput(f"{release.table} is of another ledger than {ledger.name}.")
        entries = [one for one in opened.history(place.subject) if one.sequence == place.sequence]
        return entries_json(opened.head, entries)


def _by_name(spec: Spec) -> Spec:
    """The spec with names of files in place of paths."""
    public = spec.public
    if public.reference is not None:
        public = replace(public, reference=Path(public.reference).name)
    return replace(spec, data=Path(spec.data).name, public=public)


def _member(name: str, size: int = 0) -> ZipInfo:
    found = ZipInfo(name, STAMP)
    found.file_size = size
    found.compress_type = ZIP_DEFLATED
    found.external_attr = (0o755 if name == COMMANDS else 0o644) << 16
    return found


# --- texts ----------------------------------------------------------------------------------------


def _fill(text: str) -> str:
    return fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _comment(text: str) -> str:
    return "\n".join(f"# {line}" for line in _fill(one_line(text)).splitlines())


def _script_part(cell: Cell) -> str:
    rule = f"# --- {cell.heading} ".ljust(WIDTH, "-")
    return "\n".join([rule, *map(_comment, cell.text), cell.code])


def _notebook_parts(number: int, cell: Cell) -> Iterator[dict[str, object]]:
    marks = "#" if number == 0 else "##"
    text = "\n\n".join([f"{marks} {_plain(cell.heading)}", *map(_plain, cell.text)])
    yield {
        "cell_type": "markdown", "id": f"text-{number}", "metadata": {},
        "source": text.splitlines(keepends=True),
    }  # fmt: skip
    yield {
        "cell_type": "code", "id": f"code-{number}", "metadata": {}, "execution_count": None,
        "outputs": [], "source": cell.code.splitlines(keepends=True),
    }  # fmt: skip


def _plain(text: str) -> str:
    """A text as Markdown that has no marks of its own: it is shown as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|~$&" else letter for letter in text)
