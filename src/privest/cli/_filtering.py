"""`privest filter`: the states of a dynamic model from private releases of a CSV's readings."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

import privest as pv
from privest.arrays import Array
from privest.cli._console import (
    new_table,
    print_promise,
    print_spent,
    shown,
    tell_simulated,
    to_stderr,
)
from privest.cli._holder import CLIPPED, REMEMBERED, Holder, holder_of
from privest.cli._options import (
    MODEL,
    OUTPUT,
    RANGE,
    Account,
    Output,
    Privacy,
    Sides,
    Trial,
    about,
    as_span,
    grouped,
    listed,
    option,
)
from privest.cli._rows import read_readings
from privest.data._release_lines import facts_of, linked, read_release, step_records
from privest.data._text_table import decoded, open_lines
from privest.dynamics import (
    DynamicBound,
    Filtered,
    Smoothed,
    StateSpace,
    bound,
    filter_releases,
    joined,
    smooth,
)
from privest.errors import InvalidInput, NumericalFailure
from privest.reading import HELD_WHOLE, parse_toml, read_document
from privest.report import Line, Panel, save_states

PARTS = ("A", "C", "Q", "R", "mean0", "cov0")


@grouped
def filter_command(
    source: Annotated[
        str,
        typer.Argument(
            help="CSV of readings, one row a step, a first line of names; empty cells are missing "
            "readings. With --from releases: what --emit releases wrote. A minus reads standard "
            "input.",
            metavar="FILE",
        ),
    ],
    model: Annotated[
        Path,
        option(
            "TOML file with A, C, Q, R, cov0 (and mean0, states = [names]); public.",
            "TOML",
            panel=MODEL,
        ),
    ],
    privacy: Privacy,
    sides: Sides,
    output: Output,
    trial: Trial,
    account: Account,
    span: Annotated[str | None, RANGE] = None,
    readings: Annotated[
        str | None, option("Columns of the readings. All if not given.", "NAME,NAME,…", panel=MODEL)
    ] = None,
    smoothed: Annotated[
        bool, option("Estimate every state from all releases.", panel=OUTPUT, names=("--smooth",))
    ] = False,
) -> None:
    """Release readings of a dynamic model, and estimate its states from the releases alone.

    x_{k+1} = A x_k + w_k, y_k = C x_k + v_k. Writes one row a step: every state and its standard
    error, which is the least possible at this level. No value of a reading is refused; one beyond
    --range is clipped. --simulate is a trial.

    Examples:

    privest filter track.csv --model car.toml --level 0.01 --output states.csv --png track.png

    privest filter track.csv --model car.toml --level 0.01 --emit releases --output z.jsonl

    privest filter z.jsonl --from releases --model car.toml --level 0.01 --smooth
    """
    if sides.to_releases and (sides.from_releases or output.png or smoothed):
        raise InvalidInput("--emit releases goes with readings, without --smooth and --png.")
    if sides.from_releases and (readings, trial.simulate, span) != (None, False, None):
        raise InvalidInput(
            "--readings, --range and --simulate go with readings, not with --from releases."
        )
    account.require_sense(trial, real=not sides.from_releases)
    output.require_writable()
    system, names = read_model(model)
    ends = as_span(span)
    asked = privacy.within(ends, mixed=False)
    level = _level(asked, system.readings)
    mechanism = pv.StreamMechanism(level, range=ends)
    # what is wrong with them is said before there is any noise
    spent, said = asked.spent(level), privacy.promise(mechanism)
    with ExitStack() as stack:
        lines = stack.enter_context(open_lines(source, most=HELD_WHOLE))
        if sides.from_releases:
            release = _read_release(lines)
        else:
            y = read_readings(lines, system.readings, readings, finite=trial.simulate)
            holder = holder_of(
                "filter", mechanism, trial, account, stack, input_=source, columns=readings,
                move=asked.move,
            )  # fmt: skip
            release, text = _released(holder, y, readings)
            if sides.to_releases:
                output.write(text)
            if not trial.simulate and holder.ledger is None:
                to_stderr().print(shown(REMEMBERED))
    if sides.to_releases:
        if release.simulated:
            tell_simulated(to_stderr())
        else:
            print_promise(to_stderr(), said)
        return
    found = filter_releases(system, level, release)
    result: Filtered | Smoothed = smooth(found) if smoothed else found
    output.write(_rows(result, names))
    report = to_stderr()
    _summary(report, bound(system, level, release.steps, missing=release.missing), names, smoothed)
    if ends is not None:
        report.print(shown(CLIPPED))
    if release.simulated:
        print_spent(report, spent)
        tell_simulated(report)
    else:
        print_promise(report, said)
    if output.png is not None:
        _draw(result, names, output.png, smoothed)


def read_model(path: Path) -> tuple[StateSpace, list[str]]:
    """The system of a TOML file, and the names of its states."""
    with about(f"--model {path}"):
        record = _record(path)
        system = StateSpace(**{name: record[name] for name in PARTS if name in record})
        if system.steps is not None:
            raise InvalidInput("matrices with a time axis are for the library only.")
        names = record.get("states", [f"x{j}" for j in range(system.states)])
        good = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not good or len(set(names)) != system.states or len(names) != system.states:
            raise InvalidInput(f"states must be {system.states} different names.")
    return system, names


def _record(path: Path) -> dict[str, Any]:
    """What the file holds: all parts that are needed, nothing unknown."""
    record = parse_toml(read_document(path, "it"), "it")
    absent = [name for name in PARTS if name not in record and name != "mean0"]
    unknown = sorted(set(record) - {*PARTS, "states"})
    if absent or unknown:
        what = f"lacks {', '.join(absent)}" if absent else f"has unknown {', '.join(unknown)}"
        raise InvalidInput(f"it {what}; it holds {', '.join(PARTS)} and states.")
    return record


def _level(privacy: Privacy, readings: int) -> pv.EndlessLevel:
    """The same level at every step."""
    return pv.EndlessLevel(privacy.read(on_grid=True).dense(readings))


def _read_release(lines: Iterable[str]) -> pv.StreamRelease:
    try:
        return read_release(decoded(lines))
    except InvalidInput as error:
        raise InvalidInput(f"not a release (`--emit releases` writes one): {error}") from None


def _released(holder: Holder, y: Array, readings: str | None) -> tuple[pv.StreamRelease, str]:
    """The release of all steps, and its lines; what a ledger has of them is sent as it was."""
    level, source, parts = holder.mechanism.level, holder.source, []
    assert isinstance(level, pv.EndlessLevel)
    facts = facts_of(
        level, simulated=source.simulated, grid=source.grid,
        readings=[] if readings is None else listed(readings), range=holder.mechanism.range,
        ledger=holder.account(),
    )  # fmt: skip
    sign = None if holder.ledger is None else holder.ledger.sign
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


def _rows(result: Filtered | Smoothed, names: list[str]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["step", *(part for name in names for part in (name, f"{name}_se"))])
    pairs = np.stack([result.estimate, result.standard_error], axis=2)
    rows = pairs.reshape(len(pairs), -1).tolist()
    writer.writerows([k, *map(repr, row)] for k, row in enumerate(rows))
    return buffer.getvalue()


def _summary(report: Console, limit: DynamicBound, names: list[str], smoothed: bool) -> None:
    """The least standard errors at this level, and without privacy."""
    steps = len(limit.filtered)
    which, k, when = (
        ("smoothed", steps // 2, "the middle") if smoothed else ("filtered", -1, "the last step")
    )
    table = new_table(
        f"{steps} steps; standard errors of {when}", *("state", "from releases", "without privacy")
    )
    own = np.sqrt(np.diagonal(getattr(limit, which)[k]))
    try:
        free = [f"{e:.4g}" for e in np.sqrt(np.diagonal(getattr(limit.classical, which)[k]))]
    except NumericalFailure:  # readings without noise that tell nothing new: said, not fatal
        free = ["–"] * len(own)
    for name, private, open_error in zip(names, own, free):
        table.add_row(shown(name), f"{private:.4g}", open_error)
    report.print(table)


def _draw(result: Filtered | Smoothed, names: list[str], path: Path, smoothed: bool) -> None:
    kind = "smoothed" if smoothed else "filtered"
    panels = [
        Panel(name, [Line(kind, result.estimate[:, j], result.standard_error[:, j])])
        for j, name in enumerate(names)
    ]
    save_states(panels, path, title="States and 95 % intervals, from releases alone")
