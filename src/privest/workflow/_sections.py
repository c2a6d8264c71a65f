"""The sections of a plan: noise, privacy, persons, weights; each is public and checked alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from privest.arrays import as_choice, as_number, as_positive
from privest.errors import InvalidInput
from privest.privacy import Range
from privest.reading import optional, read_count, read_fields, read_text
from privest.workflow._laws import LAWS, Law, read_law

Ends = tuple[float, float]
Transform = Literal["none", "log"]
TRANSFORMS: tuple[str, ...] = get_args(Transform)
NO_BOX_COX = "transform box-cox was removed in version 0.2: use transform log, or none."


@dataclass(frozen=True)
class Noise:
    """The variance of y given the features: a number, or from a public reference set, or unknown.

    Unknown is the default: whoever reads the release sees its scatter, and that is enough for
    errors (`estimator.inference`). It is stated to plan ahead.
    """

    variance: float | None = None
    reference: str | None = None

    def __post_init__(self) -> None:
        if self.variance is not None and self.reference is not None:
            raise InvalidInput(
                "noise: give the variance of the readings, or a reference set to take it from "
                "(public data of the same kind), and not both; or neither."
            )
        if self.variance is not None:
            object.__setattr__(self, "variance", as_positive(self.variance, "noise variance"))
        if self.reference is not None:
            require_text(self.reference, "noise reference")


@dataclass(frozen=True)
class People:
    """Whose rows they are, where a person has several.

    column  with one name or number a person; in a release they are numbered 1, 2, ...
    most    public: further rows of a person are left out; None: every row, and how many a person
            has is public.
    design  "A", the only one: the level is that of all rows of a person together.
    """

    column: str
    most: int | None = None
    design: Literal["A"] = "A"

    def __post_init__(self) -> None:
        require_text(self.column, "person column")
        require_design(self.design)
        if self.most is None:
            return
        if not isinstance(self.most, int) or isinstance(self.most, bool) or self.most < 1:
            raise InvalidInput("person most is a whole number of rows, 1 or more.")

    @classmethod
    def read(cls, given: object, name: str) -> Self:
        """From a header, every field checked."""
        kinds = {"column": read_text, "most": optional(read_count), "design": read_text}
        return cls(**read_fields(given, kinds, name))


@dataclass(frozen=True)
class Weights:
    """A public column of survey weights: how many people a row stands for."""

    column: str
    kind: str = "survey"  # as headers say it

    def __post_init__(self) -> None:
        require_text(self.column, "weights column")
        if self.kind == "precision":
            raise InvalidInput(
                "precision weights were removed in version 0.2: use survey weights, whose errors "
                "hold whatever the variance of a row is."
            )
        as_choice(self.kind, ("survey",), "weights kind")

    @classmethod
    def read(cls, given: object, name: str) -> Self:
        """From a header, every field checked."""
        return cls(**read_fields(given, {"column": read_text, "kind": read_text}, name))


@dataclass(frozen=True)
class Privacy:
    """The privacy wanted, in one of five ways; `delta` and `move` also explain a level as ε.

    level                  s: at most this Fisher information about each reading.
    epsilon, delta, move   (ε, δ)-differential privacy when one reading moves by at most `move`.
    standard_error, of     the level at which the coefficient `of` has this standard error; or
                           {name: error} without `of`, the level at which all of them are met.
    tolerance, attacker    the level at which one who guesses which of two values, `tolerance`
                           apart, a reading has is right with the probability `attacker`.
    range                  (low, high), public, in the units of the file, before any transform:
                           readings beyond it are clipped, so that none moves by more than its
                           width, and `move` need not be stated. Both: the smaller counts. Of
                           several targets: a mapping with one each.
    units                  of several targets: what counts as one unit in each, for their shares of
                           one budget; the widths of their ranges, where left out.
    law                    of the noise: "gaussian", "laplace"; None: as the family needs it.
    level_column           a public column with the level of each row; 0: the row is withheld.
    """

    level: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    move: float | None = None
    standard_error: float | Mapping[str, float] | None = None
    of: str | None = None
    range: Ends | Mapping[str, Ends] | None = None
    tolerance: float | None = None
    attacker: float | None = None
    units: Mapping[str, float] = field(default_factory=dict)
    law: Law | None = None
    level_column: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.standard_error, Mapping):
            object.__setattr__(self, "standard_error", _wanted_errors(self.standard_error))
        self._require_one_way()
        if self.range is not None:
            object.__setattr__(self, "range", _ranges(self.range))
        for name in ("level", "epsilon", "delta", "move", "standard_error", "tolerance"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                object.__setattr__(self, name, as_positive(value, f"privacy {name}"))
        if not isinstance(self.units, Mapping):
            raise InvalidInput("privacy units has a number for each target.")
        units = {k: as_positive(v, f"privacy units of {k!r}") for k, v in self.units.items()}
        object.__setattr__(self, "units", units)
        self._require_sense()

    def _require_sense(self) -> None:
        if self.delta is not None and self.delta >= 1:
            raise InvalidInput(f"privacy delta is a probability, below 1; received {self.delta:g}.")
        if self.attacker is not None:
            chance = as_number(self.attacker, "privacy attacker")
            if not 0.5 < chance < 1:
                raise InvalidInput(
                    "privacy attacker is how often a guess between two values is right, above 0.5 "
                    f"(a coin) and below 1; received {chance:g}."
                )
            object.__setattr__(self, "attacker", chance)
        if self.of is not None:
            require_text(self.of, "privacy of")
        if self.level_column is not None:
            require_text(self.level_column, "privacy level_column")
        if self.law is not None:
            read_law(self.law, "privacy law", LAWS[:2])

    def _require_one_way(self) -> None:
        """One of the five, and what belongs to it."""
        ways = ("level", "level_column", "epsilon", "standard_error", "tolerance")
        stated = [name for name in ways if getattr(self, name) is not None]
        if len(stated) != 1:
            raise InvalidInput(
                "privacy: give exactly one of level, level_column, epsilon (with delta and move), "
                "standard_error (with of) or tolerance (with attacker); on the command line "
                "--level, --level-column, --epsilon, --standard-error, --tolerance. "
                f"Received {', '.join(stated) or 'none of them'}."
            )
        single = self.standard_error is not None and not isinstance(self.standard_error, Mapping)
        if single != (self.of is not None):
            raise InvalidInput(
                "privacy: standard_error needs `of`, the coefficient it is for; or give a name "
                "with each, --standard-error age=0.01,bmi=0.02, and leave `of` out."
            )
        if (self.tolerance is None) != (self.attacker is None):
            raise InvalidInput(
                "privacy: tolerance needs attacker, how often a guess between two values so far "
                "apart may be right (0.75, say), and attacker needs tolerance."
            )
        self._require_epsilon()

    def _require_epsilon(self) -> None:
        if self.delta is not None and self.move is None and self.range is None:
            raise InvalidInput(
                "privacy: delta and move go together; move is not given, nor a range of the "
                "readings, which limits it."
            )

    @property
    def wanted(self) -> dict[str, float]:
        """The standard errors that are wanted, by name; empty where none are."""
        if isinstance(self.standard_error, Mapping):
            return dict(self.standard_error)
        return (
            {} if self.of is None or self.standard_error is None else {self.of: self.standard_error}
        )

    def range_of(self, target: str) -> Ends | None:
        """The range of the readings of a target."""
        return self.range.get(target) if isinstance(self.range, Mapping) else self.range

    @property
    def columns(self) -> set[str]:
        """The targets that are named here."""
        ranges = set(self.range) if isinstance(self.range, Mapping) else set()
        return ranges | set(self.units)


def _wanted_errors(given: Mapping[str, float]) -> dict[str, float]:
    """The standard error that is wanted of each coefficient."""
    if not given:
        raise InvalidInput(
            "privacy standard_error has no coefficient: {age = 0.01, bmi = 0.02}, say."
        )
    for name in given:
        require_text(name, "each coefficient of privacy standard_error")
    return {k: as_positive(v, f"privacy standard_error of {k!r}") for k, v in given.items()}


def _ranges(value: object) -> Ends | dict[str, Ends]:
    if isinstance(value, Mapping):
        return {str(name): _range(ends) for name, ends in value.items()}
    return _range(value)


def _range(value: object) -> Ends:
    ends = as_list(value, "privacy range")
    if len(ends) != 2:
        raise InvalidInput(f"privacy range is [low, high]; received {len(ends)} numbers.")
    try:
        found = Range(*ends)
    except InvalidInput as error:
        raise InvalidInput(f"privacy range: {error}") from None
    return found.low, found.high


def require_text(value: object, what: str) -> None:
    """Refuse what is no text, or an empty one."""
    if not isinstance(value, str) or not value:
        received = "an empty one" if isinstance(value, str) else type(value).__name__
        raise InvalidInput(f"{what} must be a text; received {received}.")


def require_design(value: object) -> None:
    """Refuse designs of persons that are no more."""
    if value != "A":
        raise InvalidInput(
            "person design B was removed in version 0.2: leave `design` out; the level is then "
            "that of all rows of a person together."
        )


def read_transform(given: object, name: str = "transform") -> str:
    """The transform of a target, checked."""
    if given == "box-cox":
        raise InvalidInput(NO_BOX_COX)
    return str(as_choice(given, TRANSFORMS, name))


def read_no_exponent(given: object, name: str) -> None:
    """What headers say of the exponent of Box-Cox: nothing."""
    if given is not None:
        raise InvalidInput(NO_BOX_COX)


def as_list(value: object, what: str) -> tuple[Any, ...]:
    """The entries of a list."""
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"{what} must be a list; received {type(value).__name__}.")
    return tuple(value)
