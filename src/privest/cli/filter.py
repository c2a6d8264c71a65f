"""`privest filter`: the states of a dynamic model from private releases."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import privest as pv
from privest.cli.console import new_table, note, shown, tell_epsilon, to_stderr
from privest.cli.options import about, as_range, command
from privest.cli.series import (
    SOURCE,
    Columns,
    require_sense,
    series_level,
    take_series,
    tell_diagnosis,
)
from privest.cli.stream_options import Account, Output, Privacy, Sides, Trial
from privest.data.cells import require_no_formula
from privest.dynamics import StateBound, StateSpace
from privest.errors import InvalidInput, NumericalFailure
from privest.reading import parse_toml, read_document
from privest.records import Estimated
from privest.report.figures import Curve, Panel, require_files, save_panels
from privest.streaming import CLIPPED

PARTS = ("A", "C", "Q", "R", "cov0", "mean0", "B", "D", "diffuse")
OPTIONAL = ("mean0", "B", "D", "diffuse")


@command(smoothed={"names": ("--smooth",)})
def filter_states(
    source: Annotated[str, SOURCE],
    privacy: Privacy,
    sides: Sides,
    output: Output,
    trial: Trial,
    account: Account,
    columns: Columns,
    model: Path,
    range: str | None = None,
    smoothed: bool = False,
    diagnose: Path | None = None,
) -> None:
    """Release the measurements of a dynamic model, and estimate its states from the releases alone.

    x_{k+1} = A x_k + B u_k + w_k, y_k = C x_k + D u_k + v_k with public inputs u, if there are any.
    Writes one row per step: every state and its standard error, which is the least possible at this
    level. No value is rejected; one beyond --range is clipped. --simulate is a dry run.

    Examples:

    privest filter track.csv --model car.toml --level 0.01 --output states.csv --png track.png

    privest filter track.csv --model car.toml --level 0.01 --emit releases --output z.jsonl

    privest filter z.jsonl --from releases --model car.toml --level 0.01 --smooth

    privest filter room.csv --model room.toml --level 1 --inputs heating --diagnose fit.png

    Options:
    model TOML  TOML file with A, C, Q, R, cov0 (and mean0, B, D, diffuse, states = [names]);
                public.
    smoothed    Estimate every state from all releases.
    """
    require_sense(columns, sides, trial, range, smooth=smoothed, png=output.png, diagnose=diagnose)
    account.require_sense(trial, real=not sides.from_releases)
    output.require_writable()
    require_files(None, diagnose)
    system, names = read_model(model)
    ends = as_range(range)
    asked = privacy.within(ends, mixed=False)
    if not sides.to_releases:  # the owner's side needs none
        columns.require_count(system.inputs)
    level = series_level(asked, system.readings)
    if system.diffuse is not None and not sides.to_releases:
        pv.bound(
            system, level, steps=2 * system.states
        )  # refused if no measurement ever shows all of x_0
    # where a sensitivity is stated, ε is of whole steps
    mechanism = pv.StreamMechanism(level, range=ends, parts=asked.sensitivity is None)
    # what is wrong with them is said before there is any noise
    spent, said = asked.spent(level), privacy.promise(mechanism)
    release, inputs = take_series(
        "filter", source, mechanism, columns, sides, trial, account, output,
        sensitivity=asked.sensitivity, width=system.inputs,
    )  # fmt: skip
    if not sides.to_releases:
        found = pv.dynamics.filter(system, release, level=level, inputs=inputs)
        result = found.smoothed if smoothed else found.filtered
        output.write(_rows(result, names))
        _summary(
            pv.bound(system, level, steps=release.steps, missing=release.missing), names, smoothed
        )
        if ends is not None:
            note(CLIPPED)
        if diagnose is not None:
            tell_diagnosis(found.diagnose, diagnose)
        if output.png is not None:
            _draw(result, names, output.png, "smoothed" if smoothed else "filtered")
    tell_epsilon(spent, said, simulated=release.simulated)


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
        require_no_formula(names)
    return system, names


def _record(path: Path) -> dict[str, Any]:
    """The content of the file: all parts that are needed, nothing unknown."""
    record = parse_toml(read_document(path, "it"), "it")
    needless = {*OPTIONAL, "cov0"} if record.get("diffuse") is True else OPTIONAL
    absent = [name for name in PARTS if name not in {*record, *needless}]
    unknown = sorted(set(record) - {*PARTS, "states"})
    if absent or unknown:
        what = f"lacks {', '.join(absent)}" if absent else f"has unknown {', '.join(unknown)}"
        raise InvalidInput(f"it {what}; it holds {', '.join(PARTS)} and states.")
    return record


def _rows(result: Estimated, names: list[str]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["step", *(part for name in names for part in (name, f"{name}_se"))])
    pairs = np.stack([result.value, result.standard_error], axis=2)
    rows = pairs.reshape(len(pairs), -1).tolist()
    writer.writerows([k, *map(repr, row)] for k, row in enumerate(rows))
    return buffer.getvalue()


def _summary(limit: StateBound, names: list[str], smoothed: bool) -> None:
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
    except NumericalFailure:  # measurements without noise that tell nothing new
        free = ["–"] * len(own)
    for name, private, open_error in zip(names, own, free):
        table.add_row(shown(name), f"{private:.4g}", open_error)
    to_stderr().print(table)


def _draw(result: Estimated, names: list[str], path: Path, kind: str) -> None:
    panels = [
        Panel(name, [Curve.of_errors(kind, result.value[:, j], result.standard_error[:, j])])
        for j, name in enumerate(names)
    ]
    save_panels(panels, path, title="States and 95% intervals, from releases alone")
