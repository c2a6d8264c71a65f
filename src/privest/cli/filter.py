"""`privest filter`: the states of a dynamic model from private releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np

import privest as pv
from privest.cli.console import new_table, note, shown, to_stderr
from privest.cli.options import about, as_range, command
from privest.cli.series import (
    SOURCE,
    Needs,
    Privacy,
    Series,
    as_csv,
    take_series,
    tell_diagnosis,
    tell_epsilon,
)
from privest.data.cells import require_no_formula
from privest.dynamics import StateBound, StateSpace
from privest.errors import InvalidInput, NumericalFailure
from privest.reading import parse_toml, read_document
from privest.records import Estimated
from privest.report.figures import Curve, Panel, save_panels
from privest.streaming import CLIPPED, promised

PARTS = ("A", "C", "Q", "R", "cov0", "mean0", "B", "D", "diffuse")
OPTIONAL = ("mean0", "B", "D", "diffuse")


@command(smoothed={"names": ("--smooth",)})
def filter_states(
    source: Annotated[str, SOURCE],
    privacy: Privacy,
    series: Series,
    model: Path,
    smoothed: bool = False,
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
    series.require_series(privacy, smooth=smoothed)
    system, names = read_model(model)
    if not series.to_releases:  # the owner's side needs none
        series.require_inputs(system.inputs)
    promise = promised(privacy, as_range(privacy.range), measurements=system.measurements)
    level = promise.level
    if system.diffuse is not None and not series.to_releases:
        pv.bound(system, level, steps=2 * system.states)  # refused if no y ever shows all of x_0
    release, inputs = take_series("filter", source, promise, series, Needs(system.inputs))
    if not series.to_releases:
        found = pv.dynamics.filter(system, release, level=level, inputs=inputs)
        result, kind = (found.smoothed, "smoothed") if smoothed else (found.filtered, "filtered")
        pairs = np.stack([result.value, result.standard_error], axis=2)
        heading = ["step", *(part for name in names for part in (name, f"{name}_se"))]
        rows = pairs.reshape(len(pairs), -1).tolist()
        series.write(as_csv(heading, ([k, *map(repr, row)] for k, row in enumerate(rows))))
        limit = pv.bound(system, level, steps=release.steps, missing=release.missing)
        _print_errors(limit, names, kind)
        if promise.span is not None:
            note(CLIPPED)
        tell_diagnosis(found.diagnose, series.diagnose)
        if series.png is not None:
            _draw(result, names, series.png, kind)
    tell_epsilon(promise, simulated=release.simulated)


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
    record = parse_toml(read_document(path, "it"), "it")
    needless = {*OPTIONAL, "cov0"} if record.get("diffuse") is True else OPTIONAL
    absent = [name for name in PARTS if name not in {*record, *needless}]
    unknown = sorted(set(record) - {*PARTS, "states"})
    if absent or unknown:
        what = f"lacks {', '.join(absent)}" if absent else f"has unknown {', '.join(unknown)}"
        raise InvalidInput(f"it {what}; it holds {', '.join(PARTS)} and states.")
    return record


def _print_errors(limit: StateBound, names: list[str], kind: str) -> None:
    steps = len(limit.filtered)
    k, when = (-1, "the last step") if kind == "filtered" else (steps // 2, "the middle")
    own = np.sqrt(np.diagonal(getattr(limit, kind)[k]))
    try:
        free = [f"{e:.4g}" for e in np.sqrt(np.diagonal(getattr(limit.classical, kind)[k]))]
    except NumericalFailure:  # measurements without noise that tell nothing new
        free = ["–"] * len(own)
    title = f"{steps} steps; standard errors of {when}"
    table = new_table(title, "state", "from releases", "without privacy")
    for name, private, open_error in zip(names, own, free):
        table.add_row(shown(name), f"{private:.4g}", open_error)
    to_stderr().print(table)


def _draw(result: Estimated, names: list[str], path: Path, kind: str) -> None:
    panels = [
        Panel(name, [Curve.of_errors(kind, result.value[:, j], result.standard_error[:, j])])
        for j, name in enumerate(names)
    ]
    save_panels(panels, path, title="States and 95% intervals, from releases alone")
