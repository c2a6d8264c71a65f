"""Options that commands share, in groups: privacy, noise, output, what goes in and out.

A group is a frozen dataclass, made by `group`, whose fields are annotated as Typer's options, and
mostly a panel of --help. A command takes the group as one parameter; `grouped` shows its fields to
Typer as options and builds the group from them.
"""

from __future__ import annotations

import csv
import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, dataclass_transform, get_type_hints

import typer

import privest as pv
from privest import streaming as stated
from privest.arrays import Array
from privest.data import Reading, is_number, open_lines, read_matrix
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.privacy import level_on_grid
from privest.reading import HELD_WHOLE
from privest.streaming import Spent as Spent
from privest.streaming import about as about

PRIVACY, MODEL, NOISE, OUTPUT = "Privacy", "Model", "Noise", "Output"  # the panels of --help
LEDGER = "Ledger"


def option(
    text: str,
    metavar: str | None = None,
    panel: str | None = None,
    *,
    names: tuple[str, ...] = (),
    **more: Any,  # noqa: ANN401 - whatever Typer takes
) -> Any:  # noqa: ANN401 - as Typer's
    """An option: what it is for, what stands for its value in --help, and in which panel.

    In a group without a panel of its own here it is in that of the group.
    """
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel, **more)


TARGET = option("Column of the private readings.", "NAME", panel=MODEL)
FEATURES = option("Public columns, separated by commas.", "NAME,NAME,…", panel=MODEL)
NOISE_VARIANCE = option(
    "Variance of a reading given its features, from public knowledge: never fitted on the "
    "readings.",
    "V",
    panel=NOISE,
    names=("--noise-variance",),
)
OVERWRITE = option("Replace a file that exists.", "", panel=OUTPUT, names=("--overwrite",))
Seed = Annotated[
    int | None,
    option(
        "With --simulate: seed of the noise, to repeat a trial. Whoever knows it can take the "
        "noise off again.",
        "N",
        panel=NOISE,
        min=0,
    ),
]
RANGES = option(
    "Public range of a reading, never taken from the readings: what is beyond it is clipped, and ε "
    "holds whatever the readings are. Of several targets: NAME=LOW,HIGH, repeated.",
    "LOW,HIGH",
    panel=PRIVACY,
    names=("--range",),
)
RANGE = option(
    "Public range of a reading, never taken from the readings: what is beyond it is clipped, and ε "
    "holds whatever the readings are.",
    "LOW,HIGH",
    panel=PRIVACY,
    names=("--range",),
)
LAGS = option(
    "A step also shows earlier readings: weights of the last 1, 2, … of them.",
    "W,W,…",
    panel=PRIVACY,
    names=("--lags",),
)
Json = Annotated[
    bool, option("Print JSON with the names of the library.", "", panel=OUTPUT, names=("--json",))
]


@dataclass_transform(frozen_default=True)
def group(panel: str | None = None) -> Callable[[type], Any]:
    """A dataclass of options, in one panel of --help unless an option says otherwise."""

    def made(kind: Any) -> Any:  # noqa: ANN401 - the class
        kind.PANEL = panel
        return dataclass(frozen=True)(kind)

    return made


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its groups as parameters of its own, by keyword.

    >>> @dataclass
    ... class Size:
    ...     width: int = 3
    ...     height: int = 2
    >>> def show(name: str, size: Size) -> None:
    ...     print(name, size)
    >>> list(inspect.signature(grouped(show)).parameters)
    ['name', 'width', 'height']
    >>> grouped(show)(name="box", width=3, height=5)
    box Size(width=3, height=5)
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    shown: list[inspect.Parameter] = []
    for own in inspect.signature(command).parameters.values():
        if own.name in groups:
            shown += _parameters(groups[own.name])
        else:
            shown.append(own.replace(annotation=hints[own.name]))

    @functools.wraps(command)
    def spread(**given: Any) -> None:  # noqa: ANN401 - whatever the command takes
        for name, kind in groups.items():
            own = [field.name for field in fields(kind) if field.name in given]
            given[name] = kind(**{field: given.pop(field) for field in own})
        command(**given)

    by_keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in shown]
    spread.__signature__ = inspect.Signature(by_keyword)  # type: ignore[attr-defined]
    spread.__annotations__ = {one.name: one.annotation for one in shown} | {"return": None}
    return spread


def _parameters(kind: Any) -> list[inspect.Parameter]:  # noqa: ANN401 - a dataclass
    """The fields of a group, as parameters of its making have them, in its panel."""
    hints = get_type_hints(kind, include_extras=True)
    given = inspect.signature(kind).parameters
    for hint in hints.values():
        for shown in getattr(hint, "__metadata__", ()):
            shown.rich_help_panel = shown.rich_help_panel or kind.PANEL
    return [given[field.name].replace(annotation=hints[field.name]) for field in fields(kind)]


@group(NOISE)
class Trial(stated.Trial):
    """Whether this is a trial: simulated noise, which protects nothing, with or without a seed."""

    simulate: Annotated[
        bool,
        option(
            "A trial with simulated noise, which protects nothing. Left out: a real release.",
            "",
            names=("--simulate",),
        ),
    ] = False
    seed: Seed = None


@group(LEDGER)
class Account(stated.LedgerOptions):
    """Where a real release is written down, and what it may spend."""

    ledger: Annotated[
        Path | None,
        option(
            "Ledger of what was shown of whom: the release is in it before it leaves, within the "
            "budget. Made if it is not there.",
            "FILE",
        ),
    ] = None
    subject: Annotated[
        str | None,
        option("Whose account. Left out: the columns and the name of FILE.", "NAME"),
    ] = None
    budget: Annotated[
        float | None,
        option(
            "Opens the account: the privacy level (a larger one reveals more) of all releases of "
            "a measurement. Left out: that of this release.",
            "S",
        ),
    ] = None


def listed(text: str) -> list[str]:
    """Names separated by commas; one that has a comma itself stands in double quotes.

    >>> listed('age, "ldl, mg/dl"')
    ['age', 'ldl, mg/dl']
    """
    if '"' not in text:
        return [name.strip() for name in text.split(",") if name.strip()]
    try:
        (names,) = csv.reader([text], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError):
        raise InvalidInput(
            f"{text}: a quote is not closed, or something stands behind it. Quote all that is "
            'between two commas: "ldl, mg/dl", or "ldl, mg/dl=3" where a value belongs to it.'
        ) from None
    return [name.strip() for name in names if name.strip()]


def as_span(text: str | None) -> tuple[float, float] | None:
    """The two ends of --range."""
    if text is None:
        return None
    with about(f"--range {text}"):
        ends = [part.strip() for part in text.split(",")]
        if len(ends) != 2 or not all(is_number(end) for end in ends):
            raise InvalidInput("two numbers are needed, LOW,HIGH.")
        found = pv.privacy.Range(float(ends[0]), float(ends[1]))
    return found.low, found.high


def as_weights(lags: str) -> list[float]:
    """The numbers of --lags."""
    given = listed(lags)
    if not all(is_number(weight) for weight in given):
        raise InvalidInput("--lags must be numbers separated by commas.")
    return [float(weight) for weight in given]


def as_spans(
    texts: list[str] | None,
) -> tuple[float, float] | dict[str, tuple[float, float]] | None:
    """--range LOW,HIGH of one target, or NAME=LOW,HIGH for each of several."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return as_span(texts[0])
    found: dict[str, tuple[float, float]] = {}
    for text in texts:
        name, equals, ends = text.rpartition("=")
        span = as_span(ends)
        if not equals or span is None or name in found:
            raise InvalidInput(f"--range {text}: of several targets NAME=LOW,HIGH, each once.")
        found[name] = span
    return found


def read_table(source: str) -> tuple[Array, list[str] | None]:
    """A matrix from a CSV file ("-": standard input), and its column names if it has any."""
    with open_lines(source, name="", most=HELD_WHOLE) as lines:
        return read_matrix(lines)


def read_value(text: str) -> Array | float:
    """A number, or the content of a CSV file: one row or column is a vector, else a matrix."""
    if is_number(text):
        return float(text)
    try:
        exists = text == "-" or (text != "" and Path(text).exists())
    except OSError:
        exists = False
    if not exists:
        raise InvalidInput("neither a number nor an existing file.")
    matrix, _ = read_table(text)
    return matrix.ravel() if 1 in matrix.shape else matrix


@group(PRIVACY)
class Privacy(stated.Privacy):
    """A level, or the (ε, δ) for a stated difference that it amounts to; never a guess."""

    level: Annotated[
        str | None,
        option(
            "Privacy level S, a cap on Fisher information (a larger S reveals more); unbiased "
            "guesses have sd ≥ 1/√s. A number (s·I); where a release has "
            "several measurements also a CSV file with a vector (diagonal) or a matrix.",
            "NUMBER|FILE",
        ),
    ] = None
    epsilon: Annotated[
        float | None,
        option(
            "Instead of --level: ε of (ε, δ)-differential privacy, with --delta and --move.", "ε"
        ),
    ] = None
    delta: Annotated[
        float | None, option("δ. With --level: tell the ε that the level amounts to.", "δ")
    ] = None
    move: Annotated[
        float | None,
        option(
            "What ε speaks of: data in which one reading differs by at most this, in its own "
            "units (those after --transform, where there is one).",
            "C",
        ),
    ] = None

    def read(self, *, on_grid: bool = False) -> pv.PrivacyLevel:
        """The level, as it is given or by (ε, δ); `on_grid`: of real releases."""
        self._require_stated()
        if self.level is not None:
            with about(f"--level {self.level}"):
                return pv.PrivacyLevel(read_value(self.level))
        epsilon, delta, move = self._epsilon()
        if on_grid:
            return level_on_grid(epsilon, delta=delta, move=move, shape=pv.PrivacyLevel(1.0))
        return pv.PrivacyLevel.from_epsilon(epsilon, delta=delta, move=move)


@group(PRIVACY)
class PrivacyOfReading(Privacy):
    """The same where every release is of one reading: the level is a number."""

    level: Annotated[
        str | None,
        option(
            "Privacy level s, a cap on Fisher information (a larger s reveals more); unbiased "
            "guesses have sd ≥ 1/√s. `privest levels` helps to choose.",
            "NUMBER",
        ),
    ] = None


@group()
class Sides(stated.Sides):
    """Which side of a stream this is: the holder of the readings, the estimator, or both."""

    emit: Annotated[Literal["estimates", "releases"], option("What to write.", panel=OUTPUT)] = (
        "estimates"
    )
    given: Annotated[
        Literal["readings", "releases"],
        option(
            "What FILE holds: readings, or releases that `--emit releases` wrote elsewhere "
            "(then no reading is ever seen here).",
            names=("--from",),
        ),
    ] = "readings"


@group("Files")
class TextOptions:
    """How a text file is written, where it does not say that itself."""

    separator: Annotated[
        str | None, option("Of columns: , ; | or tab. Left out: found in the first lines.", "SIGN")
    ] = None
    decimal: Annotated[str | None, option("Decimal sign: . (the default) or ,", "SIGN")] = None
    thousands: Annotated[
        str | None, option("Between thousands: comma, point, apostrophe, space or none.", "SIGN")
    ] = None
    encoding: Annotated[
        str | None, option("Of a text file: utf-8 (the default), utf-16, cp1252, …", "NAME")
    ] = None

    def reading(self) -> Reading:
        """The same as one record."""
        return Reading(self.separator, self.decimal, self.encoding, thousands=self.thousands)


@group(OUTPUT)
class Output(stated.Output):
    """Where the rows and the figure go."""

    output: Annotated[
        Path | None, option("File to write. Standard output if not given.", "FILE")
    ] = None
    overwrite: Annotated[bool, OVERWRITE] = False
    png: Annotated[
        Path | None, option("Draw the estimates and their intervals along the steps.", "FILE")
    ] = None

    def require_writable(self) -> None:
        """Refuse what cannot be written before any noise is spent."""
        self.require_free()
        self.require_possible()

    def write(self, text: str) -> None:
        """All of the output at once."""
        self.require_free()
        if self.output is None:
            sys.stdout.write(text)
        elif self.output.exists() and not self.output.is_file():  # /dev/null, a pipe
            self.output.write_text(text, encoding="utf-8")
        else:
            atomic_write(self.output, text)
