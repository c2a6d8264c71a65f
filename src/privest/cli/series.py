"""Measurements by step and their releases: what `privest stream`, `filter` and `identify` share.

The owner's side draws noise (or sends again what a ledger has), the analyst's side reads lines.
Inputs are public: columns of the same file, or of one of their own.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import typer

import privest as pv
from privest import streaming
from privest.arrays import Array, plural
from privest.cli.console import note, shown, to_stderr
from privest.cli.options import (
    LEDGER,
    MODEL,
    NOISE,
    OUTPUT,
    PRIVACY,
    about,
    as_range,
    group,
    listed,
)
from privest.data.cells import is_number
from privest.data.lines import open_lines
from privest.dynamics import Diagnosis
from privest.errors import InvalidInput
from privest.reading import HELD_WHOLE
from privest.report.figures import require_files, save_diagnosis
from privest.stream_file import facts_of, linked, read_release, step_records
from privest.streaming import NOT_RECORDED, Owner, Promise, owner_of, promised, read_series

SOURCE = typer.Argument(
    help="CSV of measurements, one row per step, a first line of names; an empty cell is a missing "
    "measurement. With --from releases: what --emit releases wrote. A minus reads standard input.",
    metavar="FILE",
)
SIMULATED = "The noise was simulated: for experiments, this is no protected release."

group(PRIVACY)(streaming.Privacy)
group(OUTPUT, given={"names": ("--from",)})(streaming.Sides)
group(NOISE, seed={"min": 0})(streaming.Simulation)
group(LEDGER)(streaming.LedgerOptions)
group(OUTPUT)(streaming.Output)


# --- privacy --------------------------------------------------------------------------------------


@group(PRIVACY)
class Privacy(streaming.Privacy):
    """The privacy of measurements within a public range."""

    range: str | None = None


@group(PRIVACY)
class ScalarPrivacy(Privacy):
    """The same where every release is of one measurement.

    level NUMBER  Privacy level s, a cap on Fisher information (a larger s reveals more); unbiased
                  guesses have sd ≥ 1/√s. `privest levels` helps to choose.
    """

    lags: str = ""

    def promise(self) -> Promise:
        """The level of every step, and ε where it is asked for."""
        weights = listed(self.lags)
        if not all(map(is_number, weights)):
            raise InvalidInput("--lags must be numbers separated by commas.")
        return promised(self, as_range(self.range), [*map(float, weights)])


def tell_epsilon(promise: Promise, *, simulated: bool) -> None:
    spent, said = promise.spent, promise.said
    if simulated:
        if spent is not None:
            note(
                "All releases together, for exact Gaussian noise and two streams in which one "
                f"measurement differs by at most {spent.sensitivity:g}: ε = {spent.epsilon:.4g} "
                f"at δ = {spent.delta:g}."
            )
        to_stderr().print(shown(SIMULATED), style="yellow")
    elif said is not None:
        loose = " This difference is not enforced: a range would." * bool(said.conditions)
        note(
            f"All releases together, where {said.about}: ε = {said.epsilon:.4g} at "
            f"δ = {said.delta:g}.{loose}"
        )


# --- the series of a dynamic model ----------------------------------------------------------------


@group(MODEL)
class Series(streaming.Choices):
    """Which columns hold what: measurements are private, inputs are public.

    measurements NAME,…  Columns of the measurements. Left out: all.
    inputs NAME,…        Columns of public inputs, in the order of the model.
    inputs_file FILE     CSV of the inputs, one row per step, a first line of names. Left out:
                         columns of FILE. Needed with --from releases.
    """

    measurements: str | None = None
    inputs: str | None = None
    inputs_file: Path | None = None
    diagnose: Path | None = None

    @property
    def inputs_here(self) -> list[str]:
        """Inputs among the columns of the measurements."""
        return [] if self.inputs is None or self.inputs_file is not None else listed(self.inputs)

    def require_series(self, privacy: Privacy, **estimates: object) -> None:
        """Refuse options that cannot go together; `estimates`: those that releases have not."""
        estimates |= {"png": self.png, "diagnose": self.diagnose}
        if self.to_releases and (self.from_releases or any(estimates.values())):
            names = ", ".join(f"--{name}" for name in estimates)
            raise InvalidInput(f"--emit releases goes with measurements, without {names}.")
        of_measurements = (self.measurements, self.simulate, privacy.range)
        if self.from_releases and of_measurements != (None, False, None):
            raise InvalidInput(
                "--measurements, --range and --simulate go with measurements, not with --from "
                "releases."
            )
        if self.from_releases and self.inputs_here:
            raise InvalidInput("--inputs with --from releases needs --inputs-file: FILE has none.")
        if self.inputs is not None and not listed(self.inputs):
            raise InvalidInput("--inputs: name at least one column.")
        self.require_sense()
        self.require_free()
        require_files(None, self.diagnose)

    def require_inputs(self, count: int) -> None:
        """Refuse inputs that the model has not, and a model without its inputs."""
        stated = self.inputs is not None or self.inputs_file is not None
        if stated and not count:
            raise InvalidInput("--inputs: the model has none.")
        if count and not stated:
            raise InvalidInput(
                f"the model has {plural(count, 'input')}: name the columns with --inputs, or give "
                "--inputs-file."
            )

    def count_inputs(self) -> int:
        if self.inputs is not None:
            return len(listed(self.inputs))
        found = self.inputs_of_file()
        return 0 if found is None else found.shape[1]

    def inputs_of_file(self) -> Array | None:
        """The inputs of a file of their own, all its rows."""
        if self.inputs_file is None:
            return None
        names = None if self.inputs is None else listed(self.inputs)
        with (
            about(f"--inputs-file {self.inputs_file}"),
            open_lines(str(self.inputs_file), most=HELD_WHOLE) as lines,
        ):
            return read_series(lines, [], names)[1]


class Needs(NamedTuple):
    """Needs of a model: inputs, rows of them after the last step, steps with a measurement."""

    inputs: int
    ahead: int = 0
    least: int = 1

    def require(self, inputs: Array | None, steps: int) -> None:
        """Refuse inputs that lack a row for a step, steps of the forecast included."""
        wanted = (steps + self.ahead, self.inputs)
        if inputs is not None and inputs.shape != wanted:
            (rows, columns), (given, width) = wanted, inputs.shape
            raise InvalidInput(
                f"inputs must be {plural(columns, 'column')} of {plural(rows, 'row')}, one per "
                f"step; received {plural(width, 'column')} of {plural(given, 'row')}."
            )


def take_series(
    command: str, source: str, promise: Promise, series: Series, needs: Needs
) -> tuple[pv.Release, Array | None]:
    """The releases of FILE, read or made of its measurements (and written), and the inputs.

    All that can be wrong with files is found before there is any noise. Which steps are missing is
    public.
    """
    inputs, level = series.inputs_of_file(), promise.level
    with ExitStack() as stack:
        lines = stack.enter_context(open_lines(source, most=HELD_WHOLE))
        if series.from_releases:
            with about("not a release (`--emit releases` writes one)"):
                given = read_release(lines)
            needs.require(inputs, given.steps)
            return given, inputs
        names = None if series.measurements is None else listed(series.measurements)
        y, beside = read_series(lines, names, series.inputs_here, finite=series.simulate)
        if y.shape[1] != level.block:
            raise InvalidInput(
                f"the model has {plural(level.block or 0, 'measurement')} per step; given: "
                f"{plural(y.shape[1], 'column')}. Choose that many."
            )
        inputs = beside if series.inputs_here else inputs
        if not series.to_releases:
            seen = int((~np.isnan(y).any(axis=1)).sum())
            if seen < needs.least:
                raise InvalidInput(
                    f"this model needs at least {needs.least} steps with a measurement; {seen} are "
                    "given."
                )
            needs.require(inputs, len(y))
        owner = owner_of(
            command, promise, series, stack, source=source, columns=series.measurements
        )
        release, text = _released(owner, y, names or [])
        if series.to_releases:
            series.write(text)
        if not series.simulate and owner.account is None:
            note(NOT_RECORDED)
    return release, inputs


def _released(owner: Owner, y: Array, names: list[str]) -> tuple[pv.Release, str]:
    """The release of all steps, and its lines; what a ledger has of them is sent as it was."""
    source, level, parts = owner.source, owner.mechanism.level, []
    facts = facts_of(
        level, simulated=source.simulated, grid=source.grid, measurements=names,
        range=owner.mechanism.range, ledger=owner.place,
    )  # fmt: skip
    sign = None if owner.account is None else owner.account.ledger.sign
    if not source.simulated:
        owner.start_from_ledger(rows_again=True)
    text, chain = linked([facts], "")
    while (done := owner.mechanism.steps) < len(y):
        parts.append(owner.release(y[done : done + owner.rows(len(y) - done)]))
        records = step_records(parts[-1], level.block or 1, listed=True)
        records[-1] |= owner.entry
        lines, chain = linked(records, chain, sign)
        text += lines
    return pv.Release.join(parts), text


# --- what is written ------------------------------------------------------------------------------


def as_csv(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV under their names."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
    return buffer.getvalue()


def tell_diagnosis(diagnosed: Callable[[], Diagnosis], path: Path | None) -> None:
    """The verdict on stderr and a figure; too few steps for a test are no failure."""
    if path is None:
        return
    try:
        made = diagnosed()
    except InvalidInput as error:
        note(f"No diagnosis: {error}")
        return
    note(made.verdict)
    save_diagnosis(made, path)
