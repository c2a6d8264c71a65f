"""What weights of the rows do to the errors of a plan: rows that take the place of the table.

A plan has rows R, few of them, and variances σ²·shape of their readings, so that every bound of the
plan is that of the table (its formulas need no weights then):

    survey     cov θ̂ = (σ² + 1/s)·V ,  V = A·HᵀW²H·A ,  A = (HᵀWH)⁻¹ :   RᵀR = V⁻¹ ,  shape 1
    precision  cov θ̂ = (Σ_k h_kh_kᵀ/(σ²/w_k + 1/s))⁻¹ :  rows of nearly one weight share an R

With survey weights that is the error if the readings vary alike: which of them vary more only the
release shows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from privest.arrays import Array
from privest.data import Source, read_rows
from privest.linalg._running import RunningLeastSquares
from privest.workflow._route_weighted import require_weights
from privest.workflow._spec import Spec
from privest.workflow._terms import add_rows, new_sums

STEPS = 24  # weights of one R are within a factor 2^(1/24), 3 %: errors of a plan are right to 1 %

WAITING = 1 << 21  # numbers of rows that wait: 16 MB


class WeightReader:
    """The features of a table with weights, block by block, and what the weights add up to."""

    def __init__(self, spec: Spec, source: Source, counted_by: tuple[str, ...] | None) -> None:
        assert spec.weights is not None
        self.spec, self.source, self.design = spec, source, spec.design
        self._counted_by = counted_by
        self._weights = spec.weights
        self._once, self._twice = new_sums(self.design), new_sums(self.design)
        self._alike: dict[int, tuple[RunningLeastSquares, float, int]] = {}
        self._waiting: list[tuple[Array, Array]] = []

    def blocks(self) -> Iterator[tuple[Array, int]]:
        """The rows of each block, and how many were dropped."""
        column = self._weights.column
        for block in read_rows(
            self.source, self.design, self._counted_by, missing=self.spec.missing, beside=(column,)
        ):  # fmt: skip
            weights = np.asarray(block.beside[column])
            require_weights(weights, column, self.source.name)
            if self._weights.kind == "survey":
                add_rows(self._once, block.H * np.sqrt(weights)[:, None])
                add_rows(self._twice, block.H * weights[:, None])
            else:
                self._add_alike(block.H, weights)
            yield block.H, block.dropped

    def _add_alike(self, H: Array, weights: Array) -> None:
        """Rows wait for others of their weight: one step for many of them."""
        self._waiting.append((H, weights))
        if sum(part.size for part, _ in self._waiting) > WAITING:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        H, weights = (np.concatenate(parts) for parts in zip(*self._waiting))
        self._waiting = []
        places = np.floor(STEPS * np.log2(weights)).astype(int)
        order = np.argsort(places, kind="stable")
        different, first = np.unique(places[order], return_index=True)
        for place, own in zip(different.tolist(), np.split(order, first[1:])):
            sums, total, count = self._alike.get(place, (new_sums(self.design), 0.0, 0))
            add_rows(sums, H[own])
            self._alike[place] = sums, total + float((1 / weights[own]).sum()), count + len(own)

    def rows(self) -> tuple[Array, Array | None]:
        """R and the shapes of its rows (None: all 1), for θ that is determined."""
        if self._weights.kind == "survey":
            inverse = self._once.inverse()  # A
            root = np.triu(self._twice.triangle[:-1, :-1]) @ inverse  # V = rootᵀ·root
            return np.asarray(np.linalg.qr(np.linalg.inv(root).T, mode="r")), None
        self._flush()
        triangles = [np.triu(sums.triangle[:-1, :-1]) for sums, _, _ in self._alike.values()]
        shapes = [
            np.full(len(self.design.names), total / count)
            for _, total, count in self._alike.values()
        ]
        return np.concatenate(triangles), np.concatenate(shapes)
