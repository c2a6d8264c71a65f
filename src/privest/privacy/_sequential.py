"""What both sides of a stream ask of a level, and what it means in differential privacy."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import AnyArray, Array
from privest.errors import InvalidInput
from privest.files import atomic_file
from privest.linalg import PSD
from privest.privacy._adjacency import (
    AdjacentSteps,
    Along,
    Convertible,
    Move,
    OneBlock,
    OneReading,
    as_move,
)
from privest.privacy._spans import largest_of_stream_spans

if TYPE_CHECKING:
    from privest.privacy._stream import StreamLevel

FORMAT = "privest stream level 1"


class SequentialLevel(Convertible):
    """What both sides of a stream ask of a level, a few steps at a time."""

    @property
    @abstractmethod
    def steps(self) -> int | None:
        """K, or None for a stream without an end."""

    @property
    @abstractmethod
    def block(self) -> int | None:
        """The size m of every reading, or None where it changes."""

    @property
    @abstractmethod
    def form(self) -> str:
        """One of "independent", "banded" and "dense"."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """How many steps back a release looks."""

    @abstractmethod
    def sizes_between(self, start: int, stop: int) -> tuple[int, ...]:
        """m_k for start ≤ k < stop."""

    def readings_before(self, step: int) -> int:
        """M: how many readings the steps before this one have. Refuses a step beyond the last."""
        if self.steps is not None and step > self.steps:
            raise InvalidInput(f"The level has {self.steps} steps; there is no step {step}.")
        return sum(self.sizes_between(0, step)) if self.block is None else self.block * step

    @abstractmethod
    def pointwise(self, start: int, stop: int) -> Array | float | None:
        """The levels of the single readings of these steps where nothing mixes them, else None."""

    @abstractmethod
    def blocks(self, start: int, stop: int) -> Array:
        """A by lag, (reach + 1, stop − start, m, m); for forms other than dense."""

    def dense_rows(self, start: int, stop: int) -> Array:
        """The rows A_k of these steps, up to their last reading; for the dense form."""
        raise AssertionError(f"{self!r} is not dense")

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Tells levels apart: both sides of a stream must use the same."""

    @abstractmethod
    def final_blocks(self) -> PSD:
        """The diagonal blocks [S̄_K]_kk of the FINAL cumulative level, one a step.

        A later step with U ≠ 0 spends budget of earlier readings: S_k alone under-reports.
        """

    @abstractmethod
    def arrays(self) -> dict[str, AnyArray]:
        """What the level is made of, by name: nothing in it is secret."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the level to a file, to the last bit, for the other side: `load_level` reads it.

        A factor of a matrix level may differ between machines in its last bits, or by a rotation;
        the two sides of a stream need the same one. Levels of numbers need no file.
        """
        with atomic_file(path) as file:
            np.savez(file, allow_pickle=False, format=np.array(FORMAT), **self.arrays())

    def to_mu(self, *, move: float | Move) -> float:
        """μ of the whole stream, from what ALL steps together show: S̄ = AᵀA.

        A number, `OneBlock` (one step, or blocks of given sizes that may span steps),
        `AdjacentSteps` and `Along`: each at its worst place in the stream.
        """
        difference = as_move(move)
        if isinstance(difference, OneReading) or _is_one_step(difference):
            return difference.mu(self.final_blocks())
        if isinstance(difference, AdjacentSteps) and self.form == "independent":
            return difference.length * math.sqrt(self.final_blocks().norm())
        part, covered = self._met_by(difference)
        if isinstance(difference, Along):
            v = np.zeros((part.readings, 1))
            v[:covered, 0] = difference.direction
            return float(np.linalg.norm(part.rows.times(v)))
        if isinstance(difference, OneBlock):
            spans = difference.spans(covered)
        elif isinstance(difference, AdjacentSteps):
            spans = difference.spans([end for end in part.ends if end <= covered])
        else:
            raise InvalidInput(
                f"a stream does not convert a {type(difference).__name__}; its cumulative level "
                "may: PrivacyLevel(level.cumulative())."
            )
        return difference.length * math.sqrt(largest_of_stream_spans(part.rows, *spans))

    @abstractmethod
    def _met_by(self, move: Move) -> tuple[StreamLevel, int]:
        """Steps enough for all that is ever shown of the readings of a move; how many these are."""


def _is_one_step(move: Move) -> bool:
    return isinstance(move, OneBlock) and move.sizes is None
