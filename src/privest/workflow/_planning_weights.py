"""What survey weights do to the errors of a plan: a triangle that takes the place of the table.

    cov θ̂ = (σ² + 1/s)·V ,  V = A·HᵀW²H·A ,  A = (HᵀWH)⁻¹ :   RᵀR = V⁻¹

so that every formula of a plan without weights holds for R. It is the error if the readings vary
alike: which of them vary more only the release shows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from privest.arrays import Array
from privest.data import Source, read_rows
from privest.workflow._route_weighted import require_weights
from privest.workflow._spec import Spec
from privest.workflow._terms import add_rows, new_sums


class WeightReader:
    """The features of a table with weights, block by block, and what the weights add up to."""

    def __init__(self, spec: Spec, source: Source, counted_by: tuple[str, ...] | None) -> None:
        assert spec.weights is not None
        self.spec, self.source, self.column = spec, source, spec.weights.column
        self._counted_by = counted_by
        self._once, self._twice = new_sums(spec.design), new_sums(spec.design)

    def blocks(self) -> Iterator[tuple[Array, int]]:
        """The rows of each block, and how many were dropped."""
        for block in read_rows(
            self.source, self.spec.design, self._counted_by, missing=self.spec.missing,
            beside=(self.column,),
        ):  # fmt: skip
            weights = np.asarray(block.beside[self.column])
            require_weights(weights, self.column, self.source.name)
            add_rows(self._once, block.H * np.sqrt(weights)[:, None])
            add_rows(self._twice, block.H * weights[:, None])
            yield block.H, block.dropped

    def triangle(self) -> Array:
        """R, for θ that is determined."""
        root = np.triu(self._twice.triangle[:-1, :-1]) @ self._once.inverse()  # V = rootᵀ·root
        return np.asarray(np.linalg.qr(np.linalg.inv(root).T, mode="r"))
