"""A plan as stated: data, target, features, noise and privacy, once. As a TOML file:

data = "people.csv"              # CSV, Parquet, XPT; or "diabetes", which needs no file
target = "triglycerides"         # the private readings y
features = ["age", "bmi", "sex"] # public
missing = "drop"                 # or "refuse" (the default): never silent
transform = "none"               # of the target: "none", "log", "box-cox"

[categories]
sex = ["female", "male"]         # public list; the first is the baseline

[noise]
variance = 0.25                  # of y given the features; or a public reference set:
# reference = "reference.csv"

[privacy]
level = 1.0                      # Fisher information about one reading; or
# epsilon = 1.0; delta = 1e-6; move = 2.0     one reading moves by at most this; or
# standard_error = 0.1; of = "bmi"            the level that gives this accuracy
# range = [20.0, 400.0]            # public, in units of the file: readings beyond it are clipped
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from privest.arrays import as_number, as_positive
from privest.data import Features
from privest.data._source import EMBEDDED
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.privacy import Range
from privest.reading import parse_toml, parse_yaml, read_document, require_parameters
from privest.records import plain

Missing = Literal["refuse", "drop"]
Transform = Literal["none", "log", "box-cox"]
TRANSFORMS: tuple[str, ...] = get_args(Transform)
T = TypeVar("T")
ENDINGS = (".toml", ".yaml", ".yml")


@dataclass(frozen=True)
class Noise:
    """The variance of y given the features: a number, or from a public reference set.

    `exponent`: of the Box-Cox transform, where it is known and not fitted on the reference.
    """

    variance: float | None = None
    reference: str | None = None
    exponent: float | None = None

    def __post_init__(self) -> None:
        if (self.variance is None) == (self.reference is None):
            raise InvalidInput(
                "noise: give the variance of the readings, or a reference set to take it from "
                "(public data of the same kind), and not both. It is never taken from the data "
                "that are to be protected."
            )
        if self.variance is not None:
            object.__setattr__(self, "variance", as_positive(self.variance, "noise variance"))
        if self.exponent is not None:
            object.__setattr__(self, "exponent", as_number(self.exponent, "noise exponent"))
        if self.reference is not None:
            _require_text(self.reference, "noise reference")


@dataclass(frozen=True)
class Privacy:
    """The privacy wanted, in one of three ways; `delta` and `move` also explain a level as ε.

    level                  s: at most this Fisher information about each reading.
    epsilon, delta, move   (ε, δ)-differential privacy when one reading moves by at most `move`.
    standard_error, of     the level at which the coefficient `of` has this standard error.
    range                  (low, high), public, in the units of the file, before any transform:
                           readings beyond it are clipped, so that none moves by more than its
                           width, and `move` need not be stated. Both: the smaller counts.
    """

    level: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    move: float | None = None
    standard_error: float | None = None
    of: str | None = None
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._require_one_way()
        if self.range is not None:
            object.__setattr__(self, "range", _range(self.range))
        for name in ("level", "epsilon", "delta", "move", "standard_error"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, as_positive(value, f"privacy {name}"))
        if self.delta is not None and self.delta >= 1:
            raise InvalidInput(f"privacy delta is a probability, below 1; received {self.delta:g}.")
        if self.of is not None:
            _require_text(self.of, "privacy of")

    def _require_one_way(self) -> None:
        """One of the three, and what belongs to it."""
        ways = ("level", "epsilon", "standard_error")
        stated = [name for name in ways if getattr(self, name) is not None]
        if len(stated) != 1:
            raise InvalidInput(
                "privacy: give exactly one of level, epsilon (with delta and move) or "
                "standard_error (with of); on the command line --level, --epsilon, "
                f"--standard-error. Received {', '.join(stated) or 'none of them'}."
            )
        if self.delta is None and self.move is not None:
            raise InvalidInput("privacy: delta and move go together; delta is not given.")
        if self.delta is not None and self.move is None and self.range is None:
            raise InvalidInput(
                "privacy: delta and move go together; move is not given, nor a range of the "
                "readings, which limits it."
            )
        if self.epsilon is not None and self.delta is None:
            raise InvalidInput(
                "privacy: ε needs delta and move, the distance by which one reading moves (or a "
                "range, which limits it): an ε without them says nothing."
            )
        if (self.standard_error is None) != (self.of is None):
            raise InvalidInput("privacy: standard_error needs `of`, the coefficient it is for.")


@dataclass(frozen=True)
class Spec:
    """A plan as stated: everything in it is public."""

    data: str
    target: str
    features: tuple[str, ...]
    noise: Noise
    privacy: Privacy
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    intercept: bool = True
    missing: Missing = "refuse"
    transform: Transform = "none"

    def __post_init__(self) -> None:
        _require_text(self.data, "data")
        _require_text(self.target, "target")
        if not isinstance(self.intercept, bool):
            raise InvalidInput("intercept is true or false.")
        if self.missing not in ("refuse", "drop"):
            raise InvalidInput(f'missing is "refuse" or "drop"; received {self.missing!r}.')
        if self.transform not in TRANSFORMS:
            raise InvalidInput(
                f'transform is "none", "log" or "box-cox"; received {self.transform!r}.'
            )
        known = self.noise.exponent is not None
        if known and self.transform != "box-cox":
            raise InvalidInput(
                f"an exponent goes with transform box-cox; the transform is {self.transform}."
            )
        if self.transform == "box-cox" and self.noise.reference is None and not known:
            raise InvalidInput(
                "transform box-cox takes its exponent from a reference set, or from noise.exponent "
                "where it is known: fitted on the private readings it would leak."
            )
        if self.transform != "none" and self.privacy.range is None:
            raise InvalidInput(
                f"transform {self.transform} needs the public range of the readings: range = "
                "[low, high] under [privacy], or --range low,high. Readings of 0 or below have no "
                "logarithm; they are clipped to the range, because to refuse them would tell."
            )
        if self.transform != "none" and self.privacy.range and not self.privacy.range[0] > 0:
            raise InvalidInput(f"transform {self.transform} needs a range above 0.")
        if self.noise.reference is not None and _same_file(self.noise.reference, self.data):
            raise InvalidInput(
                f"{self.data} is both the data and the reference: a noise variance taken from the "
                "private readings would leak. The reference must be other, public data."
            )
        if self.target in self.features:
            raise InvalidInput(
                f"{self.target!r} is the target, which is private: it cannot be a feature."
            )
        unused = sorted(set(self.categories) - set(self.features))
        if unused:
            raise InvalidInput(f"categories are given for {unused[0]!r}, which is no feature.")
        require_parameters(len(self.design.names), "features")  # bad ones are refused with it

    @property
    def design(self) -> Features:
        """How columns become rows of H."""
        return Features(self.features, dict(self.categories), self.intercept)

    # --- files ------------------------------------------------------------------------------------

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], where: str = "the plan") -> Spec:
        """From plain values, as TOML, YAML or JSON give them; unknown names are errors."""
        if not isinstance(record, Mapping):
            raise InvalidInput(f"{where} must be names with values.")
        given = dict(record)
        for name, kind in (("noise", Noise), ("privacy", Privacy)):
            if name not in given:
                raise InvalidInput(f"{where}: there is no section [{name}].")
            given[name] = _section(kind, given[name], f"{where}: [{name}]")
        given["features"] = _list(given.get("features", ()), f"{where}: features")
        for name in given["features"]:
            _require_text(name, f"{where}: each of the features")
        lists = given.get("categories", {})
        if not isinstance(lists, Mapping):
            raise InvalidInput(f"{where}: [categories] has a list for each column.")
        given["categories"] = {
            name: tuple(str(one) for one in _list(values, f"{where}: the categories of {name!r}"))
            for name, values in lists.items()
        }
        return _section(cls, given, where)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without what was not given."""
        record: dict[str, Any] = plain(asdict(self))
        for name in ("noise", "privacy"):
            record[name] = {k: v for k, v in record[name].items() if v is not None}
        return {name: value for name, value in record.items() if value != {}}

    def to_toml(self) -> str:
        """The plan as TOML, with the sections last."""
        record = self.to_dict()
        sections = {n: record.pop(n) for n in ("categories", "noise", "privacy") if n in record}
        lines = [f"{name} = {_toml(value)}" for name, value in record.items()]
        for name, section in sections.items():
            lines += ["", f"[{name}]", *(f"{_key(k)} = {_toml(v)}" for k, v in section.items())]
        return "\n".join(lines) + "\n"


def _same_file(one: str, other: str) -> bool:
    """Whether two names lead to the same place, as far as the file system shows."""
    return one == other or (
        EMBEDDED not in (one, other) and Path(one).resolve() == Path(other).resolve()
    )


def _range(value: object) -> tuple[float, float]:
    ends = _list(value, "privacy range")
    if len(ends) != 2:
        raise InvalidInput(f"privacy range is [low, high]; received {len(ends)} numbers.")
    try:
        found = Range(*ends)
    except InvalidInput as error:
        raise InvalidInput(f"privacy range: {error}") from None
    return found.low, found.high


def _require_text(value: object, what: str) -> None:
    if not isinstance(value, str) or not value:
        received = "an empty one" if value == "" else type(value).__name__
        raise InvalidInput(f"{what} must be a text; received {received}.")


def _list(value: object, what: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"{what} must be a list; received {type(value).__name__}.")
    return tuple(value)


def _section(kind: type[T], record: object, where: str) -> T:
    """A data class from names and values; the error names what is unknown or absent."""
    if not isinstance(record, Mapping):
        raise InvalidInput(f"{where}: names with values are expected.")
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(map(str, set(record) - set(known)))
    if unknown:
        raise InvalidInput(
            f"{where}: {unknown[0]!r} is not known. Names are {', '.join(sorted(known))}."
        )
    for name, one in known.items():
        if name not in record and one.default is MISSING and one.default_factory is MISSING:
            raise InvalidInput(f"{where}: there is no {name!r}, and a plan needs it.")
    return kind(**record)


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | int):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


# --- plan files: TOML or YAML, the paths in them relative to the file -----------------------------


def load_spec(path: str | Path) -> Spec:
    """A plan file; paths of data in it are relative to the file."""
    file = Path(path)
    spec = Spec.from_dict(_parsed(file), str(file))
    return _moved(spec, lambda name: str(file.parent / name))


def save_spec(spec: Spec, path: str | Path) -> None:
    """Write a plan file (TOML); paths of data are written relative to it, as `load_spec` reads."""
    file = Path(path)
    if file.suffix.lower() != ".toml":
        raise InvalidInput(f"{file}: plans are written as .toml.")
    folder = file.parent.absolute()
    text = _moved(spec, lambda name: os.path.relpath(name, folder)).to_toml()
    atomic_write(file, text)


def _parsed(file: Path) -> Mapping[str, Any]:
    ending, text = file.suffix.lower(), read_document(file)
    if ending not in ENDINGS:
        raise InvalidInput(f"{file}: a plan file ends with {', '.join(ENDINGS)}.")
    parse = parse_toml if ending == ".toml" else parse_yaml
    found: object = parse(text, str(file))
    if not isinstance(found, Mapping):
        raise InvalidInput(f"{file} does not hold a plan: names with values are expected.")
    return found


def _moved(spec: Spec, path: Callable[[str], str]) -> Spec:
    """The spec with other paths; absolute ones and the embedded table stay."""

    def moved(name: str) -> str:
        return name if name == EMBEDDED or Path(name).is_absolute() else path(name)

    noise = spec.noise
    if noise.reference is not None:
        noise = replace(noise, reference=moved(noise.reference))
    return replace(spec, data=moved(spec.data), noise=noise)
