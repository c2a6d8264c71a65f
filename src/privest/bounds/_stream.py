"""The bound at every step of a stream (`algo:recursive_PI`, `algo:recursive_PPCR`).

The paper's recursions update k×k matrices step by step. Here one factorisation of V = A Σ̄ Aᵀ + I
gives every PI_k as a cumulative sum of whitened rows (theory.md 6).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from privest.arrays import Array, Flags
from privest.bounds._bound import Bound, unknown
from privest.bounds._classical import precision_rows, require_size
from privest.errors import InvalidInput, NotIdentifiable
from privest.linalg import InformationRoot, pointwise_weight, require_range, root_of_rows
from privest.linalg.cumulative import every_step, information
from privest.linalg.sequential import BandedRows, DenseRows, Rows
from privest.linalg.tolerances import rank_tolerance
from privest.model import LinearModel
from privest.privacy import StreamLevel


class StreamBound(Bound):
    """PI_k and Σ_PPCR,k = PI_k⁻¹ after each step k = 0..K−1 of a stream.

        PI_k = Σ_{j ≤ k} G_jᵀG_j ,   G = C⁻¹A H̄ ,   V = A Σ̄ Aᵀ + I = C Cᵀ ,   S̄_K = AᵀA

    first    the first k at which θ is identifiable, or None if it never is.
    rows     G (M, n).
    Guarantees: the floor for every mechanism with I_{Z̄_k}(Ȳ_k) ≤ S̄_k (`thm:PPF_recur`); attained
    by the sequential Gaussian mechanism with RLS (`thm:opt`).
    Numerics: U = 0 O(M), banded O(M b²), dense M³/3 flops; relative error about eps times the
    condition of the root of PI_k, whatever K.
    Source: `algo:recursive_PI`, `algo:recursive_PPCR`, `coro:PPCR_recur`.
    """

    names: tuple[str, ...]

    def __init__(self, model: LinearModel, level: StreamLevel) -> None:
        if level.steps is None:
            level = level.first(max(model.measurements // (level.block or 1), 1))
        require_size(level.rows.level_diagonal(), "the level")
        self._model = model
        self.names = model.names
        self._shown = level.rows.level_diagonal()
        self._ends = np.cumsum(level.sizes)
        self._widest = max(level.sizes)
        kernel = _rows_for(model, level)
        self.rows: Array = kernel.whiten(model.inverse_information, kernel.times(model.matrix))
        self.steps: int = len(level.sizes)
        self.first: int | None = self._first()

    def __len__(self) -> int:
        return self.steps

    @property
    def identifiable(self) -> Flags:
        return np.arange(self.steps) >= (self.steps if self.first is None else self.first)

    @cached_property
    def information(self) -> Array:
        return information(self.rows, self._ends)

    @cached_property
    def covariance(self) -> Array:
        return self._every_step(lambda: self.rows)

    @cached_property
    def classical(self) -> Array:
        model = self._model
        return self._every_step(lambda: precision_rows(model.matrix, model.inverse_information))

    def _every_step(self, rows: Callable[[], Array]) -> Array:
        """(GᵀG)⁻¹ after every step, (K, n, n); infinite before `first`."""
        hidden = self.steps if self.first is None else self.first
        if hidden == self.steps:
            return np.tile(unknown(len(self.names)), (hidden, 1, 1))
        found = every_step(rows(), self._ends, hidden)
        require_range(found[hidden:], "the variances of the parameters")
        found[:hidden] = unknown(len(self.names))
        return found

    def __getitem__(self, step: int) -> Bound:
        """The bound after step k; NotIdentifiable, with the hidden directions, before `first`."""
        k = range(self.steps)[step]
        if self.first is None or k < self.first:
            hidden = self._root(k).hidden
            raise NotIdentifiable(
                f"After step {k} θ is not yet identifiable: {hidden.shape[1]} of {len(hidden)} "
                "directions are hidden.",
                hidden,
            )
        return StepBound(self, k)

    def require_first(self) -> int:
        """`first`, or NotIdentifiable."""
        if self.first is None:
            hidden = self._root(self.steps - 1).hidden
            raise NotIdentifiable(
                f"θ is not identifiable at any step of this stream: {hidden.shape[1]} of "
                f"{len(hidden)} directions stay hidden.",
                hidden,
            )
        return self.first

    def _root(self, step: int) -> InformationRoot:
        """R after this step; its columns are compared with √(Σ_j x_j h_j²), uncancelled."""
        end = int(self._ends[step])
        weight = pointwise_weight(
            self._shown[:end], self._model.inverse_information.diagonal()[:end]
        )
        scale = np.sqrt(weight @ self._model.matrix[:end] ** 2)
        tolerance = rank_tolerance(max(len(self.names), self._widest))
        return root_of_rows(self.rows[:end], scale, tolerance)

    def _first(self) -> int | None:
        """The first step after which the rows have full column rank: gallop, then bisect."""
        n = len(self.names)
        low = -1
        high = self.steps - 1
        reach = n
        while self._root(probe := min(low + reach, high)).rank < n:
            if probe == high:
                return None
            low = probe
            reach = 2 * reach
        steps = range(low + 1, probe + 1)
        return steps[bisect_left(steps, n, key=lambda k: self._root(k).rank)]

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"steps": self.steps, "first": self.first}

    def __repr__(self) -> str:
        when = "never" if self.first is None else f"from step {self.first}"
        return f"Bound({self.steps} steps, identifiable {when})"


class StepBound(Bound):
    def __init__(self, stream: StreamBound, step: int) -> None:
        self.names = stream.names
        self._stream = stream
        self.step = step

    @property
    def covariance(self) -> Array:
        return np.asarray(self._stream.covariance[self.step])

    @property
    def information(self) -> Array:
        return np.asarray(self._stream.information[self.step])

    @property
    def classical(self) -> Array:
        return np.asarray(self._stream.classical[self.step])

    @property
    def identifiable(self) -> bool:
        return True


def _rows_for(model: LinearModel, level: StreamLevel) -> Rows:
    if model.measurements != level.measurements:
        raise InvalidInput(
            f"The model has {model.measurements} measurements; the stream level has "
            f"{level.measurements}."
        )
    rows = level.rows
    if isinstance(rows, BandedRows) and rows.couples(model.inverse_information):
        return DenseRows(rows.dense(), rows.block)  # noise that ties steps together fills the band
    return rows
