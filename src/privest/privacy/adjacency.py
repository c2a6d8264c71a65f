"""Adjacency: which pairs of data sets y, y' a statement of differential privacy compares."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privest.arrays import Array, as_array, as_count, as_number, as_positive
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.privacy import gdp
from privest.records import Record

Kind = Literal["measurement", "block", "record"]


@dataclass(frozen=True)
class Adjacency:
    """A set of differences y − y', made by one of its class methods.

    A Gaussian release at level S makes the pair y, y' exactly μ-GDP, μ² = (y − y')ᵀS(y − y').
    """

    kind: Kind
    bounds: tuple[float, ...]
    size: int | None = None

    @classmethod
    def measurement(cls, by: float) -> Adjacency:
        """One measurement y_k, any k, differs by at most `by`: μ = by·max_k √S_kk."""
        return cls("measurement", (as_positive(by, "the sensitivity"),))

    @classmethod
    def block(cls, by: float, size: int | None = None) -> Adjacency:
        """Several measurements together differ by at most `by` in Euclidean norm: μ = by·√λ_max(S).

        `size`: the most of them that differ; without it those of one block of the level, or of one
        step of a stream. Several steps of a stream: `PrivacyLevel(level.cumulative())`.
        """
        count = None if size is None else as_count(size, "size of a block", least=1)
        return cls("block", (as_positive(by, "the sensitivity"),), count)

    @classmethod
    def record(cls, by: Sequence[float]) -> Adjacency:
        """All measurements of one record differ, y_j by at most by[j]: μ² = Σ_j c_j²S_jj.

        For a diagonal level of one record, such as the private columns of one row of a table.
        """
        given = as_array(by, "sensitivities of a record", ndim=1)
        if not given.size or not (given > 0).all():
            raise InvalidInput("sensitivities of a record are numbers > 0, one a measurement.")
        return cls("record", tuple(given.tolist()))

    @property
    def by(self) -> float:
        """The bound of kinds that have one number."""
        return self.bounds[0]

    @property
    def vector(self) -> Array:
        """The bounds as an array: c of a record."""
        return np.array(self.bounds)

    @property
    def length(self) -> float:
        """The largest ‖y − y'‖: μ for the level S = I."""
        return float(np.linalg.norm(self.bounds)) if len(self.bounds) > 1 else abs(self.by)

    @property
    def key(self) -> str:
        """The text that ledgers store, by which two sensitivities are compared."""
        if self.kind == "record":
            return f"OneRecord(by={self.bounds})"
        if self.kind == "block":
            return f"OneBlock(by={self.by}, sizes={self.size})"
        return f"OneReading(by={self.by})"

    def __str__(self) -> str:
        if self.kind == "measurement":
            return f"one measurement differs by at most {self.by:g}"
        if self.kind == "block":
            return f"the measurements of one block differ by at most {self.by:g} in Euclidean norm"
        listed = ", ".join(f"{by:g}" for by in self.bounds)
        return f"all measurements of one record differ, by at most {listed}"

    def mu(self, level: PSD) -> float:
        """μ = max √((y − y')ᵀS(y − y')) over the set."""
        if self.kind == "measurement":
            return self.by * math.sqrt(float(np.max(level.diagonal())))
        if self.kind == "record":
            return float(np.linalg.norm(np.sqrt(self.levels(level)) * self.bounds))
        return self.by * math.sqrt(level.norm())

    def levels(self, level: PSD) -> Array:
        """S_jj of a record of this many measurements; refuses a level that mixes them."""
        if level.pointwise is None:
            raise InvalidInput(
                "Adjacency.record needs a diagonal level, one number for each measurement of the "
                "record: this one mixes them."
            )
        if level.size != len(self.bounds):
            raise InvalidInput(
                f"the record has {len(self.bounds)} sensitivities; the level is for {level.size} "
                "measurements."
            )
        return level.diagonal()


def as_adjacency(sensitivity: float | Adjacency) -> Adjacency:
    """A number c as "one measurement differs by at most c"."""
    if isinstance(sensitivity, Adjacency):
        return sensitivity
    given: object = sensitivity
    if isinstance(given, list | tuple) or np.ndim(sensitivity):
        raise InvalidInput(
            "sensitivity must be a number (one measurement differs by at most that) or an "
            "Adjacency: .block or .record."
        )
    return Adjacency.measurement(sensitivity)


class Convertible(ABC):
    """A level in the language of differential privacy, for its Gaussian release.

    Noise is continuous here (real releases are on a grid: `GaussianMechanism.statement`). I_z(y) ≤
    S alone implies no differential privacy.
    """

    @abstractmethod
    def to_mu(self, *, sensitivity: float | Adjacency) -> float:
        """μ: the release is exactly μ-GDP for this sensitivity."""

    def to_epsilon(self, *, delta: float, sensitivity: float | Adjacency) -> float:
        """The smallest ε for which the Gaussian release is (ε, δ)-differentially private."""
        return gdp.epsilon_of(self.to_mu(sensitivity=sensitivity), delta)

    def to_rho(self, *, sensitivity: float | Adjacency) -> float:
        """ρ = μ²/2 of zero-concentrated differential privacy (zCDP)."""
        return self.to_mu(sensitivity=sensitivity) ** 2 / 2


@dataclass(frozen=True)
class Range(Record):
    """low ≤ y ≤ high in the units of the measurements: public, never taken from private data."""

    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            end = as_number(getattr(self, name), f"the {name} end of the range")
            object.__setattr__(self, name, end)
        if not self.low < self.high or not math.isfinite(self.width):
            raise InvalidInput(
                "a range is low, high with low < high and a width that is a number; received "
                f"{self.low:g}, {self.high:g}."
            )

    @property
    def width(self) -> float:
        return self.high - self.low


def as_range(given: object) -> Range:
    """A `Range`, or a pair (low, high) as one."""
    if isinstance(given, Range):
        return given
    ends = np.asarray(given, dtype=object)
    if ends.shape != (2,):
        raise InvalidInput("a range is a pair of numbers, (low, high).")
    return Range(*ends)
