"""A series of measurements and its releases: what `privest filter` and `identify` share.

The owner's side draws noise (or sends again what a ledger has), the analyst's side reads lines.
Inputs are public: columns of the same file, or of one of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import typer

import privest as pv
from privest.arrays import Array, plural
from privest.cli.console import note
from privest.cli.options import MODEL, about, group, listed
from privest.cli.stream_options import Account, Output, Privacy, Sides, Trial
from privest.data.lines import open_lines
from privest.dynamics import Diagnosis
from privest.errors import InvalidInput
from privest.reading import HELD_WHOLE
from privest.report.figures import save_diagnosis
from privest.stream_file import facts_of, linked, read_release, step_records
from privest.streaming import NOT_RECORDED, Owner, owner_of, read_inputs, read_series

SOURCE = typer.Argument(
    help="CSV of measurements, one row per step, a first line of names; an empty cell is a missing "
    "measurement. With --from releases: what --emit releases wrote. A minus reads standard input.",
    metavar="FILE",
)


@group(MODEL)
class Columns:
    """Which columns hold what: measurements are private, inputs are public.

    measurements NAME,…  Columns of the measurements. Left out: all.
    inputs NAME,…        Columns of public inputs, in the order of the model.
    inputs_file FILE     CSV of the inputs, one row per step, a first line of names. Left out:
                         columns of FILE. Needed with --from releases.
    """

    measurements: str | None = None
    inputs: str | None = None
    inputs_file: Path | None = None

    @property
    def here(self) -> list[str]:
        """Inputs among the columns of the measurements."""
        return [] if self.inputs is None or self.inputs_file is not None else listed(self.inputs)

    def require_count(self, count: int) -> None:
        """Refuse inputs that the model has not, and a model without its inputs."""
        stated = self.inputs is not None or self.inputs_file is not None
        if stated and not count:
            raise InvalidInput("--inputs: the model has none.")
        if count and not stated:
            raise InvalidInput(
                f"the model has {plural(count, 'input')}: name the columns with --inputs, or give "
                "--inputs-file."
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


class Series(NamedTuple):
    """The releases of a series, and its inputs (K or more, p), None without any."""

    release: pv.Release
    inputs: Array | None


def require_sense(
    columns: Columns, sides: Sides, trial: Trial, span: str | None, **estimates: object
) -> None:
    """Refuse options that cannot go together; `estimates`: options that --emit releases has not."""
    if sides.to_releases and (sides.from_releases or any(estimates.values())):
        names = ", ".join(f"--{name}" for name in estimates)
        raise InvalidInput(f"--emit releases goes with measurements, without {names}.")
    if sides.from_releases and (columns.measurements, trial.simulate, span) != (None, False, None):
        raise InvalidInput(
            "--measurements, --range and --simulate go with measurements, not with --from releases."
        )
    if sides.from_releases and columns.here:
        raise InvalidInput("--inputs with --from releases needs --inputs-file: FILE has none.")
    if columns.inputs is not None and not listed(columns.inputs):
        raise InvalidInput("--inputs: name at least one column.")


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
    sensitivity: float | None,
    width: int,
    ahead: int = 0,
    least: int = 1,
) -> Series:
    """The releases of FILE: read, or made of its measurements (and written, where asked for).

    All that can be wrong with files is found before there is any noise. width: how many inputs the
    model has; ahead: of how many steps more they are needed; least: fewer steps with a measurement
    are refused (which steps are missing is public).
    """
    inputs, names = columns.of_file(), columns.measurements
    with ExitStack() as stack:
        lines = stack.enter_context(open_lines(source, most=HELD_WHOLE))
        if sides.from_releases:
            with about("not a release (`--emit releases` writes one)"):
                given = read_release(lines)
            _require_shape(inputs, given.steps + ahead, width)
            return Series(given, inputs)
        level = mechanism.level
        assert level.block is not None
        y, beside = read_series(lines, level.block, names, columns.here, finite=trial.simulate)
        inputs = beside if columns.here else inputs
        if not sides.to_releases:
            seen = int((~np.isnan(y).any(axis=1)).sum())
            if seen < least:
                raise InvalidInput(
                    f"this model needs at least {least} steps with a measurement; {seen} are given."
                )
            _require_shape(inputs, len(y) + ahead, width)
        owner = owner_of(
            command, mechanism, trial, account, stack, input_=source, columns=names,
            sensitivity=sensitivity,
        )  # fmt: skip
        release, text = _released(owner, level, y, names)
        if sides.to_releases:
            output.write(text)
        if not trial.simulate and owner.account is None:
            note(NOT_RECORDED)
    return Series(release, inputs)


def _require_shape(inputs: Array | None, steps: int, width: int) -> None:
    """A row of inputs for every step, also those ahead."""
    if inputs is not None and inputs.shape != (steps, width):
        raise InvalidInput(
            f"inputs must be {plural(width, 'column')} of {plural(steps, 'row')}, one per step; "
            f"received {plural(inputs.shape[1], 'column')} of {plural(len(inputs), 'row')}."
        )


def _released(
    owner: Owner, level: pv.StreamLevel, y: Array, names: str | None
) -> tuple[pv.Release, str]:
    """The release of all steps, and its lines; what a ledger has of them is sent as it was."""
    source, parts = owner.source, []
    facts = facts_of(
        level, simulated=source.simulated, grid=source.grid,
        readings=[] if names is None else listed(names), range=owner.mechanism.range,
        ledger=owner.place,
    )  # fmt: skip
    sign = None if owner.account is None else owner.account.ledger.sign
    if not source.simulated:
        owner.start_from(-1, rows_again=True)
    text, chain = linked([facts], "")
    while (done := owner.mechanism.steps) < len(y):
        parts.append(owner.release(y[done : done + owner.rows(len(y) - done)]))
        records = step_records(parts[-1], level.block or 1, listed=True)
        records[-1] |= owner.entry
        lines, chain = linked(records, chain, sign)
        text += lines
    return pv.Release.join(parts), text


def series_level(privacy: Privacy, measurements: int) -> pv.StreamLevel:
    """The same level at every step."""
    return pv.StreamLevel.constant(privacy.read().dense(measurements))


def tell_diagnosis(diagnosed: Callable[[], Diagnosis], path: Path) -> None:
    """The verdict on stderr and a figure; too few steps for a test are no failure."""
    try:
        made = diagnosed()
    except InvalidInput as error:
        note(f"No diagnosis: {error}")
        return
    note(made.verdict)
    save_diagnosis(made, path)
