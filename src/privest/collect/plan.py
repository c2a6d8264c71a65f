"""Plan of a collection, and reports of its devices: all of it public.

A report is one measurement of one device, in whole numbers:

    z = ⌊√s·y/g + U⌋ + X ,   g = 2⁻¹⁰ ,   features in units of 2⁻¹⁶ .

All numbers are at most 2²⁶ in size. So products are below 2⁵², the sums of 1,024 rows fit into 64
bits, and totals are Python's integers: sums are exact, in whatever order reports arrive.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Self

import numpy as np

from privest.arrays import AnyArray, as_count, as_scale
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.mechanism import StreamMechanism
from privest.privacy import Statement, StreamLevel, gdp
from privest.reading import (
    counted,
    parse_toml,
    read_document,
    read_fields,
    read_flag,
    read_numbers,
    read_positive,
    read_text,
)
from privest.records import Record

FEATURE_GRID = 2.0**-16
LARGEST = 2**26  # of every whole number in a report
GRIDS = {"grid": GRID, "feature_grid": FEATURE_GRID}
CHUNK = 1024  # rows whose sums of products fit into 64 bits
MOST_SDS = 40.0  # of privacy noise: beyond it a report is damaged (chance below 1e-340)
MOST_DELTA = 1e-3  # a larger one lets a mechanism reveal some measurements whole
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def as_name(given: object, what: str) -> str:
    """A name of letters, digits, points, dashes and underscores, at most 64."""
    if not isinstance(given, str) or NAME.fullmatch(given) is None:
        raise InvalidInput(f"{what} must be 1 to 64 letters, digits, points, dashes, underscores.")
    return given


def as_words(numbers: Iterable[int]) -> str:
    """Whole numbers of any size as text."""
    return " ".join(map(str, numbers))


def from_words(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


@dataclass(frozen=True)
class Report(Record):
    """One released measurement: whole numbers, and the names of device and level.

    id        32 hexadecimal digits that the device made; a report counts once.
    step      number of the measurement on its device; each leaves once.
    features  in units of 2⁻¹⁶; z in units of the grid, 2⁻¹⁰.
    """

    id: str
    device: str
    step: int
    level: str
    features: tuple[int, ...]
    z: int

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the whole report."""
        own = self.id, self.device, self.step, self.level, as_words(self.features), self.z
        return hashlib.sha256("/".join(map(str, own)).encode()).digest()  # no name has a slash


@dataclass(frozen=True)
class CollectionPlan:
    """Public plan of a collection: y = hθ + w on each device, released at one of the levels.

    features           names of the public features h, without the intercept.
    range              public range of a measurement; the device clips to it.
    residual_variance  of w, public.
    levels             privacy level s by name; a device chooses one.
    steps              the most measurements of one device.
    delta              for the ε that a level amounts to.
    """

    name: str
    features: tuple[str, ...]
    range: tuple[float, float]
    residual_variance: float
    levels: Mapping[str, float]
    steps: int
    intercept: bool = True
    delta: float = 1e-6
    # Noisy measurements are at most this far from 0, in units of the grid.
    _most: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        as_name(self.name, "the name of a plan")
        object.__setattr__(self, "features", _names(self.features, "features"))
        as_count(self.steps, "steps", least=1)
        low, high = self.range
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InvalidInput("range must be two numbers, the lower one first.")
        if not self.levels or not (self.features or self.intercept):
            raise InvalidInput("a plan needs at least one level, and features or an intercept.")
        if len(set(self.names)) < len(self.names):
            raise InvalidInput("features are named once each, and none is the intercept's name.")
        as_scale(self.residual_variance, "residual_variance")
        if not 0 < self.delta <= MOST_DELTA:
            raise InvalidInput(f"delta must be above 0 and at most {MOST_DELTA:g}.")
        most = {}
        for name, level in self.levels.items():
            as_name(name, "the name of a level")
            as_scale(level, f"level {name!r}")
            reach = math.sqrt(level) * max(abs(low), abs(high)) + MOST_SDS
            if reach > LARGEST * GRID:
                raise InvalidInput(
                    f"level {name!r} is too large for this range: √s times the range must be "
                    f"below {LARGEST * GRID:,.0f}. Subtract a public constant from the values."
                )
            most[name] = math.ceil(reach / GRID)
        object.__setattr__(self, "_most", most)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters θ."""
        return ("intercept",) * self.intercept + self.features

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `/plan` sends them, with the grids of z and of features."""
        return {
            "name": self.name, "features": list(self.features), "intercept": self.intercept,
            "range": [float(end) for end in self.range], "steps": self.steps,
            "residual_variance": float(self.residual_variance), "delta": float(self.delta),
            "levels": {name: float(level) for name, level in sorted(self.levels.items())},
        } | GRIDS  # fmt: skip

    @classmethod
    def from_dict(cls, given: object) -> Self:
        """The inverse of `to_dict`; levels may also be stated as {"epsilon": ε}."""
        if not isinstance(given, Mapping):
            raise InvalidInput("the plan of a collection must be names with values.")
        stated = {"intercept": True, "delta": 1e-6} | GRIDS | dict(given)
        if any(stated.pop(name) != size for name, size in GRIDS.items()):
            raise InvalidInput("this plan has another grid: a newer version of privest made it.")
        found = read_fields(
            stated,
            {
                "name": read_text, "features": _names, "range": _range,
                "residual_variance": read_positive, "levels": _table, "steps": counted(least=1),
                "intercept": read_flag, "delta": read_positive,
            },
            "the plan of a collection",
        )  # fmt: skip
        delta, (low, high) = found["delta"], found["range"]
        levels = {}
        for name, asked in found["levels"].items():
            if isinstance(asked, dict):
                epsilon = read_fields(asked, {"epsilon": read_positive}, f"level {name}")["epsilon"]
                level = StreamLevel.from_epsilon(epsilon, delta=delta, sensitivity=high - low)
                levels[name] = float(level.final_blocks().diagonal()[0])
            else:
                levels[name] = read_positive(asked, f"level {name}")
        return cls(**found | {"levels": levels})

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the plan: both sides name it with every report.

        Levels count to nine digits: that of an ε ends otherwise on another processor.
        """
        levels = {name: f"{level:.9g}" for name, level in self.levels.items()}
        text = json.dumps(self.to_dict() | {"levels": levels}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def stream_level(self, level: str) -> StreamLevel:
        """The level of this name; every measurement is released once."""
        if level not in self.levels:
            raise InvalidInput(f"the plan has no level {level!r}: it has {', '.join(self.levels)}.")
        return StreamLevel.constant(self.levels[level])

    def mechanism(self, level: str) -> StreamMechanism:
        """The mechanism of a device."""
        return StreamMechanism(self.stream_level(level), range=self.range)

    def statement(self, level: str) -> Statement:
        """(ε, δ) of one measurement, over the whole range."""
        return self.mechanism(level).statement(delta=self.delta)

    def epsilon_of_all(self, level: str) -> float:
        """ε of all measurements that a device may release: if each of them may change."""
        mu = self.statement(level).mu
        assert mu is not None
        return gdp.epsilon_of(mu * math.sqrt(self.steps), self.delta)

    def require(self, report: Report) -> None:
        """Refuse a report that no device makes by this plan."""
        if report.level not in self.levels:
            raise InvalidInput("the plan has no such level.")
        if len(report.features) != len(self.features):
            raise InvalidInput(f"a report of this plan has {len(self.features)} features.")
        if not 0 <= report.step < self.steps:
            raise InvalidInput(f"a device has at most {self.steps} steps, from 0 on.")
        if any(abs(one) > LARGEST for one in report.features):
            raise InvalidInput(f"a feature is at most {LARGEST} in size, in units of 2^-16.")
        if abs(report.z) > self._most[report.level]:
            raise InvalidInput("z is further from the range than privacy noise can be.")

    def row(self, report: Report) -> list[int]:
        """The row (h, z) of a report."""
        one = [round(1 / FEATURE_GRID)] if self.intercept else []
        return [*one, *report.features, report.z]


class Sums:
    """Exact sums of one level: how many rows (h, z), and the sum of their products.

    >>> one, two = Sums(2), Sums(2)
    >>> one.add([[65536, 3], [65536, -1]])
    >>> two.add([[65536, 5]])
    >>> one.merge(two)
    >>> one.count, one.gram[0, 1] // 65536
    (3, 7)
    """

    def __init__(self, width: int) -> None:
        self.count: int = 0
        self.gram: AnyArray = np.zeros((width, width), dtype=object)

    def add(self, rows: Sequence[Sequence[int]]) -> None:
        """Add rows of whole numbers that are at most 2²⁶ in size."""
        for first in range(0, len(rows), CHUNK):
            part = np.array(rows[first : first + CHUNK], dtype=np.int64)
            self.gram = self.gram + (part.T @ part).astype(object)
        self.count += len(rows)

    def merge(self, other: Sums) -> None:
        """Add the sums of other reports."""
        self.gram, self.count = self.gram + other.gram, self.count + other.count

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sums)
            and self.count == other.count
            and np.array_equal(self.gram, other.gram)
        )

    __hash__ = None  # type: ignore[assignment]

    def to_text(self) -> str:
        """Count and sums, in decimal digits."""
        return as_words([self.count, *self.gram.ravel()])

    @classmethod
    def from_text(cls, text: str) -> Self:
        count, *entries = from_words(text)
        made = cls(math.isqrt(len(entries)))
        made.count = count
        made.gram = np.array(entries, dtype=object).reshape(made.gram.shape)
        return made


def sums_of(plan: CollectionPlan, reports: Iterable[Report]) -> dict[str, Sums]:
    """The sums of reports, by level."""
    found: dict[str, Sums] = {}
    by_level = attrgetter("level")
    for part in in_parts(reports, CHUNK):
        for level, same in groupby(sorted(part, key=by_level), key=by_level):
            rows = [plan.row(report) for report in same]
            found.setdefault(level, Sums(len(plan.names) + 1)).add(rows)
    return found


def in_parts(reports: Iterable[Report], size: int) -> Iterator[list[Report]]:
    left = iter(reports)
    while part := list(islice(left, size)):
        yield part


def load_plan(path: str | os.PathLike[str]) -> CollectionPlan:
    """The plan of a collection, from a TOML file."""
    return CollectionPlan.from_dict(parse_toml(read_document(path), str(path)))


def on_feature_grid(features: Sequence[float]) -> tuple[int, ...]:
    """Public features in units of 2⁻¹⁶, to the nearest."""
    found = []
    for value in features:
        if not abs(value) <= LARGEST * FEATURE_GRID:
            raise InvalidInput(
                f"a feature must be a number of at most {LARGEST * FEATURE_GRID:,.0f} in size: "
                "divide it by a public constant."
            )
        found.append(round(value / FEATURE_GRID))
    return tuple(found)


def _names(given: object, name: str) -> tuple[str, ...]:
    if not isinstance(given, list | tuple):
        raise InvalidInput(f"{name} must be a list of names.")
    return tuple(read_text(one, "a feature") for one in given)


def _range(given: object, name: str) -> tuple[float, float]:
    found = read_numbers(given, name, 1).tolist()
    if len(found) != 2:
        raise InvalidInput(f"{name} must be two numbers.")
    return found[0], found[1]


def _table(given: object, name: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InvalidInput(f"{name} must be a table: a name and a number each.")
    return given
