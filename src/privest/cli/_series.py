"""A series of readings and its releases: what `privest filter` and `privest identify` share.

The holder's side draws noise (or sends again what a ledger has), the receiver's side reads lines.
Inputs are public: columns of the same file, or of one of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

import privest as pv
from privest.arrays import Array, plural
from privest.cli._console import shown, to_stderr
from privest.cli._options import (
    MODEL,
    OUTPUT,
    Account,
    Output,
    Privacy,
    Sides,
    Trial,
    about,
    group,
    listed,
    option,
)
from privest.data import open_lines
from privest.dynamics import Diagnosis, joined
from privest.errors import InvalidInput
from privest.reading import HELD_WHOLE
from privest.report.figures import save_diagnosis
from privest.stream_file import facts_of, linked, read_release, step_records
from privest.streaming import NOT_RECORDED, Owner, owner_of, read_inputs, read_series

SOURCE = typer.Argument(
    help="CSV of readings, one row a step, a first line of names; empty cells are missing "
    "readings. With --from releases: what --emit releases wrote. A minus reads standard input.",
    metavar="FILE",
)
DIAGNOSE = option(
    "Test whether the model fits (are the innovations white, normal, of variance 1?), and draw it.",
    "FILE",
    panel=OUTPUT,
    names=("--diagnose",),
)


@group(MODEL)
class Columns:
    """Which columns hold what. Readings are private, inputs are public."""

    readings: Annotated[
        str | None, option("Columns of the readings. All if not given.", "NAME,NAME,…")
    ] = None
    inputs: Annotated[
        str | None,
        option("Columns of known, public inputs, in the order of the model's.", "NAME,NAME,…"),
    ] = None
    inputs_file: Annotated[
        Path | None,
        option(
            "CSV of the inputs, one row a step, a first line of names. Left out: they are columns "
            "of FILE. With --from releases they can be nowhere else.",
            "FILE",
        ),
    ] = None

    @property
    def here(self) -> list[str]:
        """Inputs among the columns of the readings."""
        return [] if self.inputs is None or self.inputs_file is not None else listed(self.inputs)

    @property
    def stated(self) -> bool:
        """Whether there are inputs at all."""
        return self.inputs is not None or self.inputs_file is not None

    def require_sense(self, sides: Sides) -> None:
        """What is asked for can be found where it is looked for."""
        if sides.from_releases and self.here:
            raise InvalidInput("--inputs with --from releases needs --inputs-file: FILE has none.")
        if self.inputs is not None and not listed(self.inputs):
            raise InvalidInput("--inputs: name at least one column.")

    def require_count(self, count: int) -> None:
        """The model has so many inputs."""
        if self.stated and not count:
            raise InvalidInput("--inputs: the model has none.")
        if count and not self.stated:
            raise InvalidInput(
                f"the model has {count} input{'s' * (count > 1)}: name the columns with --inputs, "
                "or give --inputs-file."
            )

    def count(self) -> int:
        """How many inputs are given."""
        if self.inputs is not None:
            return len(listed(self.inputs))
        found = self.of_file()
        return 0 if found is None else found.shape[1]

    def of_file(self) -> Array | None:
        """The inputs of a file of their own, all its rows."""
        if self.inputs_file is None:
            return None
        names = None if self.inputs is None else listed(self.inputs)
        with (
            about(f"--inputs-file {self.inputs_file}"),
            open_lines(str(self.inputs_file), most=HELD_WHOLE) as lines,
        ):
            return read_inputs(lines, names)


class Taken(NamedTuple):
    """The releases of a series, and its inputs (K or more, p), None without any."""

    release: pv.StreamRelease
    inputs: Array | None


def take_series(
    command: str,
    source: str,
    mechanism: pv.StreamMechanism,
    columns: Columns,
    sides: Sides,
    trial: Trial,
    account: Account,
    output: Output,
    *,
    move: float | None,
    width: int,
    ahead: int = 0,
    least: int = 1,
) -> Taken:
    """The releases of FILE: read, or made of its readings (and written, where that is asked for).

    All that can be wrong with files is found before there is any noise. `width`: how many inputs
    the model has; `ahead`: of how many steps more they are needed; `least`: fewer steps with
    something in them are refused (which steps are missing is public).
    """
    inputs = columns.of_file()
    with ExitStack() as stack:
        lines = stack.enter_context(open_lines(source, most=HELD_WHOLE))
        if sides.from_releases:
            given = read_releases(lines)
            _require_shape(inputs, given.steps + ahead, width)
            return Taken(given, inputs)
        level = mechanism.level
        assert isinstance(level, pv.EndlessLevel)
        y, beside = read_series(
            lines, level.block, columns.readings, columns.here, finite=trial.simulate
        )
        if not sides.to_releases:
            _require_steps(int((~np.isnan(y).any(axis=1)).sum()), least)
            _require_shape(beside if columns.here else inputs, len(y) + ahead, width)
        holder = owner_of(
            command, mechanism, trial, account, stack, input_=source, columns=columns.readings,
            move=move,
        )  # fmt: skip
        release, text = _released(holder, level, y, columns.readings)
        if sides.to_releases:
            output.write(text)
        if not trial.simulate and holder.account is None:
            to_stderr().print(shown(NOT_RECORDED))
    return Taken(release, beside if columns.here else inputs)


def _require_steps(seen: int, least: int) -> None:
    if seen < least:
        raise InvalidInput(
            f"this model needs at least {least} steps with a reading; {seen} are given."
        )


def _require_shape(inputs: Array | None, steps: int, width: int) -> None:
    """A row for every step, also those ahead."""
    if inputs is not None and inputs.shape != (steps, width):
        raise InvalidInput(
            f"inputs must be {plural(width, 'column')} of {plural(steps, 'row')}, one a step; "
            f"received {plural(inputs.shape[1], 'column')} of {plural(len(inputs), 'row')}."
        )


def read_releases(lines: Iterable[str]) -> pv.StreamRelease:
    """What `--emit releases` wrote."""
    try:
        return read_release(lines)
    except InvalidInput as error:
        raise InvalidInput(f"not a release (`--emit releases` writes one): {error}") from None


def _released(
    holder: Owner, level: pv.EndlessLevel, y: Array, readings: str | None
) -> tuple[pv.StreamRelease, str]:
    """The release of all steps, and its lines; what a ledger has of them is sent as it was."""
    source, parts = holder.source, []
    facts = facts_of(
        level, simulated=source.simulated, grid=source.grid,
        readings=[] if readings is None else listed(readings), range=holder.mechanism.range,
        ledger=holder.place,
    )  # fmt: skip
    sign = None if holder.account is None else holder.account.ledger.sign
    if not source.simulated:
        holder.start_from(-1, rows_again=True)
    text, chain = linked([facts], "")
    while (done := holder.mechanism.steps) < len(y):
        parts.append(holder.release(y[done : done + holder.rows(len(y) - done)]))
        records = step_records(parts[-1], level.block, listed=True)
        records[-1] |= holder.entry
        lines, chain = linked(records, chain, sign)
        text += lines
    return joined(parts), text


def series_level(privacy: Privacy, readings: int) -> pv.EndlessLevel:
    """The same level at every step."""
    return pv.EndlessLevel(privacy.read(on_grid=True).dense(readings))


def tell_diagnosis(diagnosed: Callable[[], Diagnosis], path: Path) -> None:
    """Its verdict on stderr, its picture in a file; or why there is none.

    The estimates are out by then: too few steps for a test are said, and no failure.
    """
    try:
        made = diagnosed()
    except InvalidInput as error:
        to_stderr().print(shown(f"No diagnosis: {error}"))
        return
    to_stderr().print(shown(made.verdict))
    save_diagnosis(made, path)
