"""`privest filter`: the states of a dynamic model from private releases of a CSV's readings."""

from __future__ import annotations

import csv
import io
import json as json_module
import sys
import tomllib
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from privest.arrays import Array
from privest.cli._files import read_value
from privest.cli._rows import read_readings
from privest.data._text_table import open_lines
from privest.dynamics import Filtered, Smoothed, StateSpace, bound, filter_releases, smooth
from privest.errors import InvalidInput, NumericalFailure
from privest.files import atomic_write
from privest.mechanism import StreamMechanism
from privest.mechanism.source import seeded
from privest.privacy import EndlessLevel, PrivacyLevel
from privest.release import StreamRelease

PARTS = ("A", "C", "Q", "R", "mean0", "cov0")


class Emit(StrEnum):
    """What goes out."""

    estimates = "estimates"
    releases = "releases"


class Given(StrEnum):
    """What comes in."""

    readings = "readings"
    releases = "releases"


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
        typer.Option(
            help="TOML file with A, C, Q, R, cov0 (and mean0, states = [names]); public.",
            metavar="TOML",
        ),
    ],
    level: Annotated[
        str | None,
        typer.Option(
            help="Fisher information about the readings of one step that its release adds: a "
            "number (s·I), or a CSV file with a vector (diagonal) or a matrix.",
            metavar="NUMBER|FILE",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Instead of --level: ε, with --delta and --move.", metavar="ε"),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="δ.", metavar="δ")] = None,
    move: Annotated[
        float | None,
        typer.Option(help="What ε speaks of: one reading moves by at most this.", metavar="C"),
    ] = None,
    readings: Annotated[
        str | None,
        typer.Option(help="Columns of the readings. All if not given.", metavar="NAME,NAME,..."),
    ] = None,
    smoothed: Annotated[
        bool, typer.Option("--smooth", help="Estimate every state from all releases.")
    ] = False,
    emit: Annotated[Emit, typer.Option(help="What to write.")] = Emit.estimates,
    given: Annotated[Given, typer.Option("--from", help="What FILE holds.")] = Given.readings,
    output: Annotated[
        Path | None, typer.Option(help="File to write. Standard output if not given.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an --output that exists.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the simulated noise, to repeat a run. Whoever knows it can take the "
            "noise off again.",
            metavar="N",
            min=0,
        ),
    ] = None,
    png: Annotated[
        Path | None, typer.Option(help="Draw the states and their intervals.", metavar="PNG")
    ] = None,
) -> None:
    """Release readings of a dynamic model, and estimate its states from the releases alone.

    x_{k+1} = A x_k + w_k, y_k = C x_k + v_k. Writes one row a step: every state and its standard
    error, which is the least possible at this level. The noise of this version is simulated.

    Examples:

    privest filter track.csv --model car.toml --level 0.01 --output states.csv --png track.png

    privest filter track.csv --model car.toml --level 0.01 --emit releases --output z.json

    privest filter z.json --from releases --model car.toml --level 0.01 --smooth
    """
    if emit is Emit.releases and (given is Given.releases or png is not None or smoothed):
        raise InvalidInput("--emit releases goes with readings, without --smooth and --png.")
    if given is Given.releases and (readings is not None or seed is not None):
        raise InvalidInput("--readings and --seed go with readings, not with --from releases.")
    system, names = read_model(model)
    wanted = _level(level, epsilon, delta, move, system.readings)
    with open_lines(source) as lines:
        if given is Given.releases:
            release = _read_release(lines)
        else:
            y = read_readings(lines, system.readings, readings)
            noise = seeded(seed, "filter", readings, wanted.fingerprint)
            release = StreamMechanism(wanted).simulate(y, noise)
    if emit is Emit.releases:
        _write(json_module.dumps(release.to_dict()) + "\n", output, overwrite)
        return
    found = filter_releases(system, wanted, release)
    result: Filtered | Smoothed = smooth(found) if smoothed else found
    _write(_rows(result, names), output, overwrite)
    _summary(Console(stderr=True, highlight=False), system, wanted, release, names, smoothed)
    if png is not None:
        _draw(result, names, png, smoothed)


def read_model(path: Path) -> tuple[StateSpace, list[str]]:
    """The system of a TOML file, and the names of its states."""
    about = f"--model {path}: "
    try:
        record = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{about}cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{about}not a TOML file ({error}).") from None
    absent = [name for name in ("A", "C", "Q", "R", "cov0") if name not in record]
    unknown = sorted(set(record) - {*PARTS, "states"})
    if absent or unknown:
        what = f"lacks {', '.join(absent)}" if absent else f"has unknown {', '.join(unknown)}"
        raise InvalidInput(f"{about}it {what}; it holds {', '.join(PARTS)} and states.")
    try:
        system = StateSpace(**{name: record[name] for name in PARTS if name in record})
    except InvalidInput as error:
        raise type(error)(f"{about}{error}") from None
    if system.steps is not None:
        raise InvalidInput(f"{about}matrices with a time axis are for the library only.")
    names = record.get("states", [f"x{j}" for j in range(system.states)])
    good = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not good or len(set(names)) != system.states or len(names) != system.states:
        raise InvalidInput(f"{about}states must be {system.states} different names.")
    return system, names


def _level(
    level: str | None, epsilon: float | None, delta: float | None, move: float | None, m: int
) -> EndlessLevel:
    if level is not None and epsilon is None and delta is None and move is None:
        try:
            value = np.asarray(read_value(level))
            return EndlessLevel(value * np.eye(m) if value.ndim == 0 else _matrix(value))
        except InvalidInput as error:
            raise type(error)(f"--level {level}: {error}") from None
    if level is None and epsilon is not None and delta is not None and move is not None:
        number = PrivacyLevel.from_epsilon(epsilon, delta=delta, move=move).number
        assert number is not None
        return EndlessLevel(number * np.eye(m))
    raise InvalidInput("Give the privacy as --level, or as --epsilon with --delta and --move.")


def _matrix(value: Array) -> Array:
    return np.diag(value) if value.ndim == 1 else value


def _read_release(lines: Iterable[str]) -> StreamRelease:
    try:
        record: Any = json_module.loads("".join(lines))
    except ValueError:  # not JSON, not UTF-8
        raise InvalidInput("this is not a release: `--emit releases` writes one.") from None
    return StreamRelease.from_dict(record)


def _write(text: str, output: Path | None, overwrite: bool) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    if output.exists() and not overwrite and output.is_file() and output.stat().st_size:
        raise InvalidInput(f"{output} exists: say --overwrite to replace it.")
    if output.exists() and not output.is_file():  # /dev/null, a pipe
        output.write_text(text, encoding="utf-8")
        return
    atomic_write(output, text)


def _rows(result: Filtered | Smoothed, names: list[str]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["step", *(part for name in names for part in (name, f"{name}_se"))])
    pairs = np.stack([result.estimate, result.standard_error], axis=2)
    rows = pairs.reshape(len(pairs), -1).tolist()
    writer.writerows([k, *map(repr, row)] for k, row in enumerate(rows))
    return buffer.getvalue()


def _summary(
    console: Console, system: StateSpace, level: EndlessLevel, release: StreamRelease,
    names: list[str], smoothed: bool,
) -> None:  # fmt: skip
    limit = bound(system, level, release.steps, missing=release.missing)
    which = "smoothed" if smoothed else "filtered"
    k = release.steps // 2 if smoothed else -1
    when = "the middle" if smoothed else "the last step"
    table = Table(title=f"{release.steps} steps; standard errors of {when}", title_justify="left")
    for heading in ("state", "from releases", "without privacy"):
        table.add_column(heading, justify="left" if heading == "state" else "right")
    own = np.sqrt(np.diagonal(getattr(limit, which)[k]))
    try:
        open_limit = getattr(limit.classical, which)[k]
        free = [f"{error:.4g}" for error in np.sqrt(np.diagonal(open_limit))]
    except NumericalFailure:  # readings without noise that tell nothing new: said, not fatal
        free = ["–"] * len(own)
    for name, private, open_error in zip(names, own, free):
        table.add_row(Text(name), f"{private:.4g}", open_error)
    console.print(table)
    if release.simulated:
        console.print("The noise was simulated: for experiments, no protection.")


def _draw(result: Filtered | Smoothed, names: list[str], path: Path, smoothed: bool) -> None:
    from privest.report import Line, Panel, save_states

    kind = "smoothed" if smoothed else "filtered"
    panels = [
        Panel(name, [Line(kind, result.estimate[:, j], result.standard_error[:, j])])
        for j, name in enumerate(names)
    ]
    save_states(panels, path, title="States and 95 % intervals, from releases alone")
