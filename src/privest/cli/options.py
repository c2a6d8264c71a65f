"""Options from types and docstrings: the line `name METAVAR  text` is the help of an option.

`command` makes options of the parameters of a function (described after "Options:") and of the
fields of data classes among them. Options of several commands are described once, in `SHARED`.
"""

from __future__ import annotations

import csv
import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, NamedTuple, dataclass_transform, get_origin, get_type_hints

import typer

from privest.data.cells import is_number
from privest.data.format import Format, as_format
from privest.errors import BudgetExceeded, InvalidInput
from privest.privacy import Range
from privest.reading import about as about

PRIVACY, MODEL, NOISE, OUTPUT = "Privacy", "Model", "Noise", "Output"  # the panels of --help
LEDGER, FILES, KNOWN = "Ledger", "Table file", "Public knowledge"
LINE = re.compile(r"([a-z]\w*)(?: (\S+))?(?:  +(\S.*)|$)")  # `name METAVAR  text`


class Help(NamedTuple):
    """What --help says of an option."""

    metavar: str
    text: str
    panel: str | None = None


SHARED = {
    "json": Help("", "Print JSON with the names of the library.", OUTPUT),
    "overwrite": Help("", "Replace a file that exists.", OUTPUT),
    "residual_variance": Help(
        "V",
        "Variance of a value given its features, from public knowledge; never fitted to the "
        "private values.",
        KNOWN,
    ),
    "reference": Help("FILE", "Public rows with the same columns: they show that variance.", KNOWN),
    "format": Help(
        "KEY=VALUE",
        "How a text file or workbook is written, where it does not say so itself: separator, "
        "decimal, encoding, missing_codes, sheet. Repeat.",
        FILES,
    ),
    "simulate": Help("", "Simulated noise: protects nothing. Left out: a real release.", NOISE),
    "seed": Help(
        "N",
        "Seed of a simulation, which repeats it. Anyone who knows it can remove the noise.",
        NOISE,
    ),
    "target": Help("NAME", "Column of the private measurements.", MODEL),
    "features": Help("NAME,…", "Public columns, separated by commas.", MODEL),
    "range": Help(
        "LOW,HIGH",
        "Public range of a measurement, never taken from the data. Values beyond it are clipped, "
        "which enforces ε.",
        PRIVACY,
    ),
    "lags": Help("W,W,…", "Weights of the last 1, 2, … measurements in every release.", PRIVACY),
    "diagnose": Help(
        "FILE",
        "Figure of tests that innovations are white, normal and of variance 1.",
        OUTPUT,
    ),
}


class Group(NamedTuple):
    """The panel of --help for the fields of a data class, and what Typer takes for them."""

    panel: str | None = None
    more: dict[str, dict[str, Any]] = {}  # noqa: RUF012 - never changed


GROUPS: dict[type, Group] = {}


@dataclass_transform(frozen_default=True)
def group(panel: str | None = None, **more: dict[str, Any]) -> Callable[[type], Any]:
    """Options that belong together: a class is made a data class; one that is, stays as it is."""

    def made(kind: Any) -> Any:  # noqa: ANN401 - the class
        kind = kind if "__dataclass_fields__" in vars(kind) else dataclass(frozen=True)(kind)
        GROUPS[kind] = Group(panel, more)
        return kind

    return made


def texts_of(lines: Iterable[str]) -> dict[str, Help]:
    """The options of lines `name METAVAR  text`; a line that is further in goes on.

    >>> texts_of(["width CM  From left to right,", "    without the frame."])
    {'width': Help(metavar='CM', text='From left to right, without the frame.', panel=None)}
    """
    found: dict[str, Help] = {}
    for line in lines:
        start = LINE.match(line)
        if start is not None:
            last, metavar, text = start.groups()
            found[last] = Help(metavar or "", text or "")
        elif line.startswith(" ") and found:
            before = found[last]
            found[last] = before._replace(text=f"{before.text} {line.strip()}".strip())
    return found


def command(**more: dict[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """For Typer: parameters and the fields of groups as options; `more`: as in `group`.

    >>> @group()
    ... class Size:
    ...     width: int = 3
    ...     height: int = 2
    >>> @command()
    ... def show(name: str, size: Size) -> None:
    ...     print(name, size)
    >>> list(inspect.signature(show).parameters)
    ['name', 'width', 'height']
    >>> show(name="box", width=3, height=5)
    box Size(width=3, height=5)
    """

    def made(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
        help_, _, options = (inspect.getdoc(function) or "").partition("\nOptions:\n")
        texts = SHARED | texts_of(options.splitlines())
        found = [
            option
            for own in inspect.signature(function).parameters.values()
            for option in _options(own, hints[own.name], texts, more)
        ]

        @functools.wraps(function)
        def spread(**given: Any) -> None:  # noqa: ANN401 - whatever the command takes
            try:
                function(**_grouped(given, groups))
            except (InvalidInput, BudgetExceeded) as error:
                error.args = (f"{error}{options_of(str(error), [one.name for one in found])}",)
                raise

        by_keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in found]
        spread.__signature__ = inspect.Signature(by_keyword)  # type: ignore[attr-defined]
        spread.__annotations__ = {one.name: one.annotation for one in found} | {"return": None}
        spread.__doc__ = help_.strip()
        return spread

    return made


def _grouped(given: dict[str, Any], groups: dict[str, Any]) -> dict[str, Any]:
    for name, kind in groups.items():
        own = [field.name for field in fields(kind) if field.name in given]
        given[name] = kind(**{field: given.pop(field) for field in own})
    return given


def _options(
    own: inspect.Parameter,
    hint: Any,  # noqa: ANN401 - a type
    texts: dict[str, Help],
    more: dict[str, dict[str, Any]],
) -> list[inspect.Parameter]:
    """A parameter as options: one, or the fields of a group.

    Each field is in the panel of the class that describes it.
    """
    if not is_dataclass(hint):
        return [_option(own, hint, texts, more)]
    kind: Any = hint
    texts, more = dict(SHARED), {}
    for base in reversed(kind.__mro__):
        known = GROUPS.get(base, Group())
        lines = texts_of(inspect.cleandoc(base.__doc__ or "").splitlines()[1:])
        texts |= {name: said._replace(panel=known.panel) for name, said in lines.items()}
        more |= known.more
    hints = get_type_hints(kind)
    return [
        _option(own, hints[name], texts, more)
        for name, own in inspect.signature(kind).parameters.items()
    ]


def _option(
    own: inspect.Parameter,
    hint: Any,  # noqa: ANN401 - a type
    texts: dict[str, Help],
    more: dict[str, dict[str, Any]],
) -> inspect.Parameter:
    """The parameter as an option, unless it is annotated as something else."""
    if get_origin(hint) is Annotated:
        return own.replace(annotation=hint)
    said, extra = texts.get(own.name, Help("", "")), dict(more.get(own.name, {}))
    flag = hint is bool
    names = extra.pop("names", (f"--{own.name.replace('_', '-')}",) if flag else ())
    metavar = said.metavar or ("" if flag else None)
    made = typer.Option(
        *names, help=said.text, metavar=metavar, rich_help_panel=said.panel, **extra
    )
    return own.replace(annotation=Annotated[hint, made])


def options_of(message: str, names: Collection[str]) -> str:
    """The options of the fields that a message of the library names in backquotes.

    >>> options_of("State `again`, or the `decimal` mark.", ["again", "format"])
    ' (Here: --again, --format decimal=…)'
    """
    keys = {one.name: f"--format {one.name}=…" for one in fields(Format)}
    own = {name: f"--{name.replace('_', '-')}" for name in names}
    own |= keys if "format" in names else {}
    named = dict.fromkeys(re.findall(r"`(\w+)`", message))
    found = [own[name] for name in named if name in own]
    return f" (Here: {', '.join(found)})" if found else ""


# --- values of options ----------------------------------------------------------------------------


def listed(text: str | None) -> list[str]:
    """Names separated by commas; one that has a comma itself stands in double quotes.

    >>> listed('age, "ldl, mg/dl"')
    ['age', 'ldl, mg/dl']
    """
    if text is None or '"' not in text:
        return [name.strip() for name in (text or "").split(",") if name.strip()]
    try:
        (names,) = csv.reader([text], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError):
        raise InvalidInput(
            f"{text}: a quote is not closed, or something stands behind it. Quote all that is "
            'between two commas: "ldl, mg/dl", or "ldl, mg/dl=3" where a value belongs to it.'
        ) from None
    return [name.strip() for name in names if name.strip()]


def named_values(
    given: Iterable[str], option: str, *, only_numbers: bool = False
) -> dict[str, float | str]:
    """NAME=VALUE, each name once; what is no number is a category."""
    form = "NAME=NUMBER, for example age=0.1" if only_numbers else "NAME=VALUE, for example age=50"
    values: dict[str, float | str] = {}
    for one in given:
        name, equals, value = one.rpartition("=")
        if not equals or not name or not value or (only_numbers and not is_number(value)):
            raise InvalidInput(f"{option} {one}: write {form}.")
        if name in values:
            raise InvalidInput(f"{option} {one}: {name!r} is there twice.")
        values[name] = float(value) if is_number(value) else value
    return values


def named_numbers(given: Iterable[str], option: str) -> dict[str, float]:
    found = named_values(given, option, only_numbers=True)
    return {name: float(value) for name, value in found.items()}


def as_range(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    with about(f"--range {text}"):
        ends = [part.strip() for part in text.split(",")]
        if len(ends) != 2 or not all(is_number(end) for end in ends):
            raise InvalidInput("two numbers are needed, LOW,HIGH.")
        found = Range(float(ends[0]), float(ends[1]))
    return found.low, found.high


def format_of(given: list[str] | None) -> Format:
    """--format KEY=VALUE, each once; missing codes as often as there are."""
    found: dict[str, Any] = {}
    for one in given or []:
        key, equals, value = one.partition("=")
        if not equals or (key in found and key != "missing_codes"):
            raise InvalidInput(f"--format {one}: write KEY=VALUE, each key once.")
        found[key] = [*found.get(key, []), value] if key == "missing_codes" else value
    with about("--format"):
        return as_format(found)
