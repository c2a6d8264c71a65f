"""A specification: the model, the wanted privacy and what is publicly known. All of it is public.

`privest.workflow.schema` lists the fields of a plan file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from privest.arrays import SMALLEST, as_choice, as_count, as_number, as_scale
from privest.data.cells import meant
from privest.data.features import Design, Features
from privest.data.format import Format, as_format
from privest.data.formula import read_formula
from privest.data.source import EMBEDDED
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.privacy import Range
from privest.reading import parse_toml, read_document, require_parameters
from privest.records import plain
from privest.workflow.refusals import YES_NO, require_offered
from privest.workflow.strategies import DISTRIBUTIONS, Distribution, Ends

VERSION = 4
Transform = Literal["none", "log"]
Family = Literal["gaussian", "binomial", "poisson"]
Missing = Literal["refuse", "drop"]
PROMISES = ("level", "level_column", "epsilon", "standard_error")
DELTA = 1e-6  # of the aggregate form, where none is stated
FRAME = " frame"  # ends the `data` of a plan that was made from a frame
T = TypeVar("T")
Convert = Callable[[Any, str], object]
Converters = Mapping[str, Convert]


@dataclass(frozen=True)
class Model:
    """The regression of the private columns on public ones.

    target        private columns, one or several.
    features      public columns.
    formula       instead of target and features: "log(ldl) ~ age*dose + C(sex) - 1".
    categories    {feature: [values]}: public list of each categorical feature, the baseline first.
    intercept     whether there is a constant term.
    transform     transform of the target: "none" or "log".
    family        "gaussian" (numbers), "binomial" (yes/no as 1 and 0) or "poisson" (counts, of
                  the form rows).
    missing       rows with missing values: "refuse" or "drop".
    weights       public column of survey weights.
    person        column that says whose row it is, where persons have several rows.
    most_rows     public cap on the rows of a person; further rows are left out.
    """

    target: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    formula: str | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    intercept: bool = True
    transform: Transform = "none"
    family: Family = "gaussian"
    missing: Missing = "refuse"
    weights: str | None = None
    person: str | None = None
    most_rows: int | None = None

    def __post_init__(self) -> None:
        _convert(self, "", MODEL)
        if not isinstance(self.intercept, bool):
            raise InvalidInput("intercept is true or false.")
        if self.formula is not None:
            self._read_formula(self.formula)
        if not self.target or len(set(self.target)) < len(self.target):
            raise InvalidInput("target names one private column, or several different ones.")
        self._require_roles()
        require_parameters(len(self.design.names), "features")

    def _read_formula(self, text: str) -> None:
        formula = read_formula(text, self.categories)
        some = self.target and set(self.target) < set(formula.targets)
        stated: dict[str, Any] = {
            "target": self.target if some else formula.targets,
            "features": formula.features.columns,
            "transform": formula.transform if formula.transform != "none" else self.transform,
            "intercept": True,
        }
        for name, value in stated.items():
            if getattr(self, name) not in (value, (), "none"):
                raise InvalidInput(
                    f"the formula states the {name}, and a different one is given: leave one of "
                    "them out. (Without a constant term: `- 1`. A logarithm: `log(…) ~`.)"
                )
        _set(self, **stated)

    def _require_roles(self) -> None:
        public: list[tuple[str | None, str]] = [(one, "a feature") for one in self.features]
        public += [(self.person, "the column of person"), (self.weights, "the column of weights")]
        for column, role in public:
            if column in self.target:
                raise InvalidInput(f"{column!r} is a private target: it cannot be {role}.")
        if self.person is not None and self.person in self.features:
            raise InvalidInput(f"{self.person!r} says whose row it is: it cannot be a feature too.")
        unused = sorted(set(self.categories) - set(self.features))
        if unused and self.formula is None:
            raise InvalidInput(
                f"categories are given for {unused[0]!r}, which is no feature."
                f"{meant(unused[0], self.features)}"
            )

    @property
    def design(self) -> Design:
        if self.formula is not None:
            return read_formula(self.formula, self.categories).features
        return Features(self.features, dict(self.categories), self.intercept)


@dataclass(frozen=True)
class Privacy:
    """One promise (level, level_column, epsilon or standard_error) and how it is kept.

    level            privacy level s, a cap on Fisher information: a larger s reveals more.
    level_column     public column with the level of each row; a row of level 0 is withheld.
    epsilon, delta   ε and δ of differential privacy, for one value replaced within its range.
    standard_error   {coefficient: error}: the level at which all of these errors are met.
    range            {target: (low, high)}, public, in the units of the file; values are clipped.
                     A yes/no outcome has none.
    sensitivity      the difference that ε is about where it is less than the range; not enforced.
    distribution     privacy noise: "gaussian", "laplace" or "randomised response" (yes/no).
    form             what leaves: "aggregate" (estimates from a few noisy sums, made by a data owner
                     who is trusted with the table; what `plan` takes), or "rows" (a noisy value
                     for each; what a plan file without a form means).
    publish          of the aggregate form: "estimates"; "matrix" for submodels and joint tests;
                     "matrix of small groups", where a category has fewer than 10 rows.
    within           of the aggregate form: values count as at most so far from their prediction,
                     which expected coefficients or a pilot give.
    pilot            share of the promise for a first release, which gives that prediction.
    """

    level: float | None = None
    level_column: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    standard_error: Mapping[str, float] | None = None
    range: Mapping[str, Ends] = field(default_factory=dict)
    sensitivity: float | None = None
    distribution: str | None = None
    form: str = "rows"
    publish: str = "estimates"
    within: float | None = None
    pilot: float | None = None

    def __post_init__(self) -> None:
        promises = [name for name in PROMISES if getattr(self, name) is not None]
        if len(promises) != 1:
            raise InvalidInput(
                "privacy: state exactly one of level, level_column, epsilon, standard_error. "
                f"Received {', '.join(promises) or 'none of them'}."
            )
        _convert(self, "privacy ", PRIVACY)
        if self.form == "aggregate" and self.epsilon is not None and self.delta is None:
            _set(self, delta=DELTA)


@dataclass(frozen=True)
class Public:
    """Public knowledge before the release; never taken from the private columns.

    residual_variance  variance of a value given its features.
    reference          file with public rows of the same columns, which show that variance.
    expected           {coefficient: value}, the prediction of `within`; for yes/no and counts
                       {target: mean}.
    within_person_correlation
                       correlation of two values of a person given their features, for planned
                       errors; without it they may depend in any way, and errors are the largest.
    """

    residual_variance: float | None = None
    reference: str | None = None
    expected: Mapping[str, float] = field(default_factory=dict)
    within_person_correlation: float | None = None

    def __post_init__(self) -> None:
        if self.residual_variance is not None and self.reference is not None:
            raise InvalidInput("public: state residual_variance or reference, not both.")
        _convert(self, "public ", PUBLIC)


@dataclass(frozen=True)
class Spec:
    """A plan as stated; every field is public."""

    data: str
    model: Model
    privacy: Privacy
    public: Public = field(default_factory=Public)
    format: Format = field(default_factory=Format)

    def __post_init__(self) -> None:
        as_text(self.data, "data")
        _set(self, format=as_format(self.format))
        require_consistent(self.model, self.privacy)
        require_offered(self)
        reference = self.public.reference
        if reference is not None and Path(reference).resolve() == Path(self.data).resolve():
            raise InvalidInput(
                f"{self.data} is both the data and the reference: a residual variance from the "
                "private column would reveal something about it. The reference is other, public "
                "data."
            )
        for target in self.model.target:
            ends = ends_of(self.model, self.privacy, target)
            for code in self.format.code_numbers(target):
                if ends is not None and ends[0] <= code <= ends[1]:
                    raise InvalidInput(
                        f"the missing code {code:g} is a value that {target!r} can have: a missing "
                        "row would then reveal its value. State the code for the columns that "
                        "have it, as NAME=CODE."
                    )

    @property
    def targets(self) -> tuple[str, ...]:
        return self.model.target

    @property
    def design(self) -> Design:
        return self.model.design

    def to_dict(self) -> dict[str, Any]:
        return {"version": VERSION, **stated(self)}

    @classmethod
    def from_dict(cls, record: object, where: str = "the plan") -> Spec:
        if not isinstance(record, Mapping):
            raise InvalidInput(f"{where} must hold names with values.")
        require_version(record.get("version"), f"{where} is a plan")
        given = {name: value for name, value in record.items() if name != "version"}
        return section(cls, given, where)


def require_version(version: object, what: str) -> None:
    if version != VERSION:
        stated = "without a version" if version is None else f"of version {version!r}"
        raise InvalidInput(
            f"{what} {stated}; this privest reads version {VERSION}. Earlier documents are read "
            "by privest 0.2: use that version for them."
        )


def require_consistent(model: Model, privacy: Privacy) -> None:
    stray = sorted(set(privacy.range) - set(model.target))
    if stray:
        raise InvalidInput(
            f"privacy range: {stray[0]!r} is no target.{meant(stray[0], model.target)}"
        )
    column, design = privacy.level_column, model.design
    if column in {*model.target, *design.columns, *design.names, "z"}:
        raise InvalidInput(
            f"the level column {column!r} must be a public column of its own, not called 'z'."
        )


def distribution_of(model: Model, privacy: Privacy) -> Distribution:
    """The noise distribution: randomised response for yes/no, else Gaussian unless stated."""
    bits = model.family == "binomial" and privacy.form == "rows"
    usual = "randomised response" if bits else "gaussian"
    return DISTRIBUTIONS[privacy.distribution or usual]


def ends_of(model: Model, privacy: Privacy, target: str) -> Ends | None:
    """The range of a target in the units of the file; of a yes/no outcome 0 and 1."""
    return YES_NO if model.family == "binomial" else privacy.range.get(target)


def beside_of(model: Model, privacy: Privacy) -> tuple[str, ...]:
    listed = (model.weights, model.person, privacy.level_column)
    return tuple(name for name in listed if name is not None)


def is_plain(spec: Spec) -> bool:
    """Whether it has Gaussian noise on one numeric outcome, one row per person, no weights."""
    model = spec.model
    numeric = model.family == "gaussian" and len(model.target) == 1
    gaussian = distribution_of(model, spec.privacy).normal
    return numeric and gaussian and model.person is None and model.weights is None


# --- one reader for TOML, JSON and the schema -----------------------------------------------------


def section(kind: type[T], record: object, where: str) -> T:
    if not isinstance(record, Mapping):
        raise InvalidInput(f"{where}: names with values are expected.")
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(map(str, set(record) - set(known)))
    if unknown:
        raise InvalidInput(
            f"{where}: {unknown[0]!r} is not known. Names are {', '.join(sorted(known))}."
        )
    given = dict(record)
    for name, one in known.items():
        if name in SECTIONS and (name in given or one.default_factory is not MISSING):
            given[name] = section(SECTIONS[name], given.get(name, {}), f"{where}: [{name}]")
        elif name not in given and one.default is MISSING and one.default_factory is MISSING:
            raise InvalidInput(f"{where}: {name!r} is missing.")
    return kind(**given)


SECTIONS: dict[str, type[Any]] = {
    "model": Model, "privacy": Privacy, "public": Public, "format": Format,
}  # fmt: skip


def stated(value: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in fields(value):  # type: ignore[arg-type]
        own = getattr(value, one.name)
        usual = one.default if one.default_factory is MISSING else one.default_factory()
        if is_dataclass(own):
            if own != usual:
                found[one.name] = stated(own)
        elif own != usual:
            found[one.name] = plain(own)
    if isinstance(value, Model) and value.formula is not None:  # it states these
        formula = read_formula(value.formula, value.categories)
        same = {
            "target": formula.targets, "features": formula.features.columns,
            "transform": formula.transform,
        }  # fmt: skip
        found = {k: v for k, v in found.items() if k not in same or getattr(value, k) != same[k]}
    return found


# --- plan files: TOML, the paths in them relative to the file -------------------------------------


def load_spec(path: str | Path) -> Spec:
    file = Path(path)
    return _moved(read_spec(read_document(file), str(file)), lambda name: str(file.parent / name))


def read_spec(text: str, name: str) -> Spec:
    """The text of a plan file of this name; paths in it stay as they are written."""
    if Path(name).suffix.lower() != ".toml":
        raise InvalidInput(f"{name}: a plan file ends with .toml. Write it as TOML.")
    return Spec.from_dict(parse_toml(text, name), name)


def save_spec(spec: Spec, path: str | Path) -> None:
    file = Path(path)
    if file.suffix.lower() != ".toml":
        raise InvalidInput(f"{file}: plan files are written as .toml.")
    folder = file.parent.absolute()
    atomic_write(file, to_toml(_moved(spec, lambda name: os.path.relpath(name, folder))))


def to_toml(spec: Spec) -> str:
    record = spec.to_dict()
    sections = {k: v for k, v in record.items() if isinstance(v, dict)}
    lines = [f"{_key(k)} = {_toml(v)}" for k, v in record.items() if k not in sections]
    for name, values in sections.items():
        lines += ["", f"[{_key(name)}]", *(f"{_key(k)} = {_toml(v)}" for k, v in values.items())]
    return "\n".join(lines).strip() + "\n"


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
    # JSON writes DEL as it is, TOML does not allow it.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _moved(spec: Spec, path: Callable[[str], str]) -> Spec:
    def moved(name: str) -> str:
        return name if name == EMBEDDED or Path(name).is_absolute() else path(name)

    public = spec.public
    if public.reference is not None:
        public = replace(public, reference=moved(public.reference))
    return replace(spec, data=moved(spec.data), public=public)


# --- values ---------------------------------------------------------------------------------------


def _set(record: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(record, name, value)


def _convert(record: object, section: str, known: Converters) -> None:
    """Check and convert the fields of a section; None stays where it is the default."""
    for name, convert in known.items():
        value = getattr(record, name)
        if value is not None or getattr(type(record), name, MISSING) is not None:
            _set(record, **{name: convert(value, f"{section}{name}")})


def as_text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value:
        received = "an empty one" if isinstance(value, str) else type(value).__name__
        raise InvalidInput(f"{what} must be a text; received {received}.")
    return value


def as_names(value: object, what: str) -> tuple[str, ...]:
    listed = (value,) if isinstance(value, str) else value
    if not isinstance(listed, list | tuple):
        raise InvalidInput(f"{what} must be a list of texts; received {type(value).__name__}.")
    return tuple(as_text(name, f"each name of {what}") for name in listed)


def _choice(*known: str) -> Convert:
    return lambda value, what: as_choice(value, known, what)


def _between(least: float, most: float) -> Convert:
    def convert(given: Any, what: str) -> float:  # noqa: ANN401
        value = as_number(given, what)
        if not least < value < most:
            raise InvalidInput(f"{what} must be > {least:g} and < {most:g}; received {value:g}.")
        return value

    return convert


def _as_correlation(given: Any, what: str) -> float:  # noqa: ANN401
    value = as_number(given, what)
    if not 0 <= value <= 1:
        raise InvalidInput(f"{what} must be from 0 to 1; received {value:g}.")
    return value


def _each(convert: Convert) -> Convert:
    def table(given: object, what: str) -> dict[str, object]:
        if not isinstance(given, Mapping):
            raise InvalidInput(f"{what} has a value for each name.")
        return {
            as_text(name, f"each name of {what}"): convert(value, f"{what} of {name!r}")
            for name, value in given.items()
        }

    return table


def _ends(given: object, what: str) -> Ends:
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise InvalidInput("privacy range is [low, high] of each target.")
    try:
        found = Range(*given)
        as_scale(found.width, "its width")
    except InvalidInput as error:
        raise InvalidInput(f"privacy range: {error}") from None
    return found.low, found.high


def _listed(values: object, what: str) -> tuple[str, ...]:
    if not isinstance(values, list | tuple):
        raise InvalidInput(f"the {what} must be a list.")
    return tuple(str(one) for one in values)


MODEL: Converters = {
    "target": as_names, "features": as_names, "categories": _each(_listed),
    "transform": _choice(*get_args(Transform)), "family": _choice(*get_args(Family)),
    "missing": _choice(*get_args(Missing)), "weights": as_text, "person": as_text,
    "most_rows": partial(as_count, least=1),
}  # fmt: skip
PRIVACY: Converters = {
    **dict.fromkeys(
        ("level", "epsilon", "sensitivity", "within"), _between(SMALLEST, 1 / SMALLEST)
    ),
    "delta": _between(0.0, 1.0), "pilot": _between(0.0, 1.0),
    "level_column": as_text, "distribution": _choice(*DISTRIBUTIONS),
    "form": _choice("rows", "aggregate"),
    "publish": _choice("estimates", "matrix", "matrix of small groups"),
    "standard_error": _each(as_scale), "range": _each(_ends),
}  # fmt: skip
PUBLIC: Converters = {
    "residual_variance": as_scale, "reference": as_text, "expected": _each(as_number),
    "within_person_correlation": _as_correlation,
}  # fmt: skip
