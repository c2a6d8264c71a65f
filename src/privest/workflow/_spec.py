"""A plan as stated: data, target, features, noise and privacy, once. As a TOML file:

data = "people.csv"              # CSV, Parquet, XPT; or "diabetes", which needs no file
target = "triglycerides"         # the private readings y; or a list of several columns
features = ["age", "bmi", "sex"] # public; or formula = "triglycerides ~ age + C(sex)"
family = "gaussian"              # numbers; or "binomial" (yes/no), "poisson" (counts)
missing = "drop"                 # or "refuse" (the default): never silent
transform = "none"               # of the target: "none" or "log"

[categories]
sex = ["female", "male"]         # public list; the first is the baseline

[noise]                          # may be left out: the release itself shows it
variance = 0.25                  # of y given the features; or a public reference set:
# reference = "reference.csv"

[person]                         # whose rows they are, where a person has several
column = "id"
most = 20                        # public: further rows of a person are left out

[weights]
column = "w"                     # public: how many people a row stands for

[privacy]
level = 1.0                      # larger shows more: one reading is known to ± 1/√level; or
# epsilon = 1.0; delta = 1e-6; move = 2.0     one reading differs by at most this; or
# standard_error = 0.1; of = "bmi"            the level that gives this accuracy; or
# standard_error = { age = 0.01, bmi = 0.02 } that of several at once
# level_column = "level"           # a public column with the level of each row; 0: withheld
# tolerance = 2.0; attacker = 0.75            a guess between values 2 apart is right so often
# law = "laplace"                  # of the noise: gaussian (the default), laplace (pure ε)
# range = [20.0, 400.0]            # public, in units of the file: readings beyond it are clipped
# range = { ldl = [1, 9], hdl = [0.3, 4] }    of several targets; or
# units = { ldl = 1.0, hdl = 0.5 }

[reading]                        # how the files are written, where they do not say it themselves
separator = ";"
decimal = ","
thousands = "."                  # between thousands; left out: nothing
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from privest.arrays import as_choice
from privest.data import (
    EMBEDDED,
    Design,
    Features,
    Formula,
    Reading,
    as_format,
    meant,
    read_formula,
)
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.reading import parse_toml, read_document, require_parameters
from privest.records import plain
from privest.workflow._laws import require_law
from privest.workflow._record import require_record
from privest.workflow._row_levels import require_level_column
from privest.workflow._sections import (
    Noise,
    People,
    Privacy,
    Transform,
    Weights,
    as_list,
    read_transform,
    require_text,
)

Missing = Literal["refuse", "drop"]
Family = Literal["gaussian", "binomial", "poisson"]
FAMILIES: tuple[str, ...] = get_args(Family)
CHOICES = {"missing": get_args(Missing), "family": FAMILIES}
SECTIONS: dict[str, type[Any]] = {
    "noise": Noise, "person": People, "weights": Weights, "reading": Reading, "privacy": Privacy
}  # fmt: skip
T = TypeVar("T")
ENDINGS = (".toml", ".yaml", ".yml")  # of plan files; YAML is refused


@dataclass(frozen=True)
class Spec:
    """A plan as stated: everything in it is public."""

    data: str
    target: str | tuple[str, ...]
    features: tuple[str, ...]
    privacy: Privacy
    noise: Noise = field(default_factory=Noise)
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    intercept: bool = True
    missing: Missing = "refuse"
    transform: Transform = "none"
    family: Family = "gaussian"
    formula: str | None = None
    person: People | None = None
    weights: Weights | None = None
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self) -> None:
        require_text(self.data, "data")
        object.__setattr__(self, "reading", as_format(self.reading))
        if self.formula is not None:
            self._take(read_formula(self.formula, self.categories))
        self._require_targets()
        if not isinstance(self.intercept, bool):
            raise InvalidInput("intercept is true or false.")
        for name, known in CHOICES.items():
            as_choice(getattr(self, name), known, name)
        self._require_transform()
        self._require_columns()
        if self.noise.reference is not None and _same_file(self.noise.reference, self.data):
            raise InvalidInput(
                f"{self.data} is both the data and the reference: a noise variance taken from the "
                "private readings would leak. The reference must be other, public data."
            )
        require_parameters(len(self.design.names), "features")  # bad ones are refused with it
        if self.privacy.level_column is not None:
            require_level_column(self, self.privacy.level_column)
        require_law(self)
        self._require_codes()
        if len(self.targets) > 1:
            require_record(self)
        if self.person is not None:
            self._require_person(self.person)

    def _take(self, formula: Formula) -> None:
        """Target, features and transform, which the formula says; nothing else may say another.

        A target that is given may be one of several that the formula has.
        """
        wanted = self.target if isinstance(self.target, list | tuple) else (self.target,)
        some = 0 < len(wanted) < len(formula.targets) and all(n in formula.targets for n in wanted)
        targets = tuple(wanted) if some else formula.targets
        said = {
            "target": targets if len(targets) > 1 else targets[0],
            "features": formula.features.columns,
            "transform": formula.transform if formula.transform != "none" else self.transform,
            "intercept": True,
        }
        for name, value in said.items():
            given = getattr(self, name)
            if isinstance(given, list | tuple):
                given = given[0] if len(given) == 1 and name == "target" else tuple(given)
            if given not in (value, (), "", "none"):
                raise InvalidInput(
                    f"the formula says the {name}, and another is given: leave one of them out. "
                    "(Without a constant term: `- 1`. A logarithm: `log(…) ~`.)"
                )
            object.__setattr__(self, name, value)

    def _require_codes(self) -> None:
        """Refuse a missing code that a reading can be: whose row is missing would tell it."""
        for target in self.targets:
            span = self.privacy.range_of(target)
            ends = (0.0, 1.0) if self.family == "binomial" else span
            for code in self.reading.code_numbers(target):
                if ends is not None and ends[0] <= code <= ends[1]:
                    raise InvalidInput(
                        f"the missing code {code:g} is a value that {target!r} can have: rows "
                        "would be left out for what their reading is, and that would tell it. "
                        "State the code for the columns it is of, as NAME=CODE."
                    )

    def _require_targets(self) -> None:
        if isinstance(self.target, list | tuple):
            given = as_list(self.target, "target")
            object.__setattr__(self, "target", given[0] if len(given) == 1 else given)
        else:
            require_text(self.target, "target")
        for name in self.targets:
            require_text(name, "target")
        if not self.targets or len(set(self.targets)) < len(self.targets):
            raise InvalidInput("target names one private column, or several different ones.")

    def _require_transform(self) -> None:
        """A transform and its range go together."""
        kind = read_transform(self.transform)
        if kind == "none":
            return
        ranges = [self.privacy.range_of(target) for target in self.targets]
        if None in ranges:
            raise InvalidInput(
                f"transform {kind} needs the public range of the readings: range = [low, high] "
                "under [privacy], or --range low,high. Readings of 0 or below have no logarithm; "
                "they are clipped to the range, because to refuse them would tell."
            )
        if not all(ends[0] > 0 for ends in ranges if ends is not None):
            raise InvalidInput(f"transform {kind} needs a range above 0.")

    def _require_columns(self) -> None:
        """Which columns may be what: the private ones are nothing else."""
        private = set(self.targets)
        for name in self.features:
            if name in private:
                raise InvalidInput(
                    f"{name!r} is the target, which is private: it cannot be a feature."
                )
        for what, part in (("person", self.person), ("weights", self.weights)):
            if part is not None and part.column in private:
                raise InvalidInput(
                    f"{part.column!r} is the target, which is private: it cannot be the column "
                    f"of {what}."
                )
        unused = sorted(set(self.categories) - set(self.features))
        if unused and self.formula is None:
            raise InvalidInput(
                f"categories are given for {unused[0]!r}, which is no feature."
                f"{meant(unused[0], self.features)}"
            )
        stray = sorted(self.privacy.columns - private)
        if stray:
            raise InvalidInput(
                f"privacy: {stray[0]!r} is no target.{meant(stray[0], self.targets)}"
            )

    def _require_person(self, person: People) -> None:
        """What goes with persons who have several rows."""
        if person.column in self.features:
            raise InvalidInput(
                f"{person.column!r} says whose row it is: it cannot be a feature too. What persons "
                "differ in is between them, and its errors count persons."
            )
        apart = {
            "weights": self.weights is not None,
            f"family {self.family}": self.family != "gaussian",
            f"law {self.privacy.law}": self.privacy.law not in (None, "gaussian"),
        }  # fmt: skip
        for what, there in apart.items():
            if there:
                raise InvalidInput(
                    f"persons with several rows and {what} do not go together yet: leave one of "
                    "them out."
                )
        if self.privacy.standard_error is not None:
            raise InvalidInput(
                "privacy: the level for a wanted standard error is not known where persons have "
                "several rows, as nobody knows how much they differ. State a level; the plan says "
                "what privacy alone adds to the errors."
            )

    @property
    def targets(self) -> tuple[str, ...]:
        """The private columns, one or several."""
        return (self.target,) if isinstance(self.target, str) else self.target

    @property
    def design(self) -> Design:
        """How columns become rows of H."""
        if self.formula is not None:
            return read_formula(self.formula, self.categories).features
        return Features(self.features, dict(self.categories), self.intercept)

    # --- files ------------------------------------------------------------------------------------

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], where: str = "the plan") -> Spec:
        """From plain values, as TOML or JSON give them; unknown names are errors."""
        if not isinstance(record, Mapping):
            raise InvalidInput(f"{where} must be names with values.")
        given = dict(record)
        read_transform(given.get("transform", "none"))  # before [noise], which had its exponent
        if "privacy" not in given:
            raise InvalidInput(f"{where}: there is no section [privacy].")
        for name, kind in SECTIONS.items():
            if name in given or name == "noise":
                given[name] = _section(kind, given.get(name, {}), f"{where}: [{name}]")
        given["features"] = as_list(given.get("features", ()), f"{where}: features")
        if "formula" in given:
            given.setdefault("target", ())
        for name in given["features"]:
            require_text(name, f"{where}: each of the features")
        lists = given.get("categories", {})
        if not isinstance(lists, Mapping):
            raise InvalidInput(f"{where}: [categories] has a list for each column.")
        for name in lists:
            require_text(name, f"{where}: each column of [categories]")
        given["categories"] = {
            name: tuple(str(one) for one in as_list(values, f"{where}: the categories of {name!r}"))
            for name, values in lists.items()
        }
        return _section(cls, given, where)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without what was not given."""
        record: dict[str, Any] = plain(asdict(self))
        for name in SECTIONS:
            if record[name] is not None:
                record[name] = {
                    k: v
                    for k, v in record[name].items()
                    if v not in (None, [], {}) and v is not False
                }
        if record["family"] == "gaussian":
            del record["family"]
        if self.formula is not None:  # it says these
            if set(self.targets) == set(read_formula(self.formula, self.categories).targets):
                del record["target"]
            for name in ("features", "intercept"):
                del record[name]
            if self.transform == "log":
                del record["transform"]
        return {name: value for name, value in record.items() if value not in (None, {})}

    def to_toml(self) -> str:
        """The plan as TOML, with the sections last; what is as it is without being stated is not
        in it.
        """
        record = stated(self)
        sections = {n: record.pop(n) for n in ("categories", *SECTIONS) if n in record}
        lines = [f"{name} = {_toml(value)}" for name, value in record.items()]
        for name, section in sections.items():
            lines += ["", f"[{name}]", *(f"{_key(k)} = {_toml(v)}" for k, v in section.items())]
        return "\n".join(lines) + "\n"


def stated(spec: Spec) -> dict[str, Any]:
    """The plan as plain values, without what is as it is without being stated."""
    record = _stated(spec.to_dict(), Spec)
    return record | {n: _stated(record[n], SECTIONS[n]) for n in SECTIONS if n in record}


def _stated(record: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """What is not the default of its field."""
    usual = {one.name: one.default for one in fields(kind)}
    return {name: value for name, value in record.items() if value != usual.get(name, MISSING)}


def _same_file(one: str, other: str) -> bool:
    """Whether two names lead to the same place, as far as the file system shows."""
    return one == other or (
        EMBEDDED not in (one, other) and Path(one).resolve() == Path(other).resolve()
    )


def _section(kind: type[T], record: object, where: str) -> T:
    """A data class from names and values; the error names what is unknown or absent."""
    if not isinstance(record, Mapping):
        raise InvalidInput(f"{where}: names with values are expected.")
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(map(str, set(record) - set(known)))
    if kind is Privacy and {"allocate", "cap", "criterion", "groups"} & set(unknown):
        raise InvalidInput(
            f"{where}: levels designed inside a plan were removed in version 0.2; use level_column "
            "(`privest design PLAN --output TABLE` writes one)."
        )
    if unknown:
        raise InvalidInput(
            f"{where}: {unknown[0]!r} is not known. Names are {', '.join(sorted(known))}."
        )
    for name, one in known.items():
        if name not in record and one.default is MISSING and one.default_factory is MISSING:
            raise InvalidInput(f"{where}: there is no {name!r}, and a plan needs it.")
    return kind(**record)


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() and name.isascii() else _toml(name)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | int):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    # TOML has no character of its own for DEL, JSON lets it stand.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# --- plan files: TOML, the paths in them relative to the file -------------------------------------


def load_spec(path: str | Path) -> Spec:
    """A plan file; paths of data in it are relative to the file."""
    file = Path(path)
    spec = read_spec(read_document(file), str(file))
    return _moved(spec, lambda name: str(file.parent / name))


def read_spec(text: str, name: str) -> Spec:
    """The text of a plan file of this name, TOML. Paths in it stay as they are written."""
    if not name.lower().endswith(".toml"):
        raise InvalidInput(f"{name}: a plan file ends with .toml; write it as TOML.")
    return Spec.from_dict(parse_toml(text, name), name)


def save_spec(spec: Spec, path: str | Path) -> None:
    """Write a plan file (TOML); paths of data are written relative to it, as `load_spec` reads."""
    file = Path(path)
    if file.suffix.lower() != ".toml":
        raise InvalidInput(f"{file}: plans are written as .toml.")
    folder = file.parent.absolute()
    text = _moved(spec, lambda name: os.path.relpath(name, folder)).to_toml()
    atomic_write(file, text)


def _moved(spec: Spec, path: Callable[[str], str]) -> Spec:
    """The spec with other paths; absolute ones and the embedded table stay."""

    def moved(name: str) -> str:
        return name if name == EMBEDDED or Path(name).is_absolute() else path(name)

    noise = spec.noise
    if noise.reference is not None:
        noise = replace(noise, reference=moved(noise.reference))
    return replace(spec, data=moved(spec.data), noise=noise)
