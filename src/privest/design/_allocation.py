"""The answer of a design: levels for readings, and the proof of how good they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from privest.arrays import Array
from privest.design._criteria import Criterion
from privest.errors import NotIdentifiable
from privest.linalg import PSD, psd, weighted_roots
from privest.model import LinearModel
from privest.privacy import PrivacyLevel
from privest.privacy._level import NAME
from privest.records import plain

Direction = Literal["budget", "target", "equalised", "caps"]
FIELDS = (
    "direction", "value", "floor", "gap", "tolerance", "spent", "asked", "price", "support",
    "iterations", "method", "equal", "standard_error",
)  # fmt: skip
PRICED = 1e-4  # gap: a slope is known to about its root


class Allocation(PrivacyLevel):
    """Levels that a design chose; a `PrivacyLevel` that every other door takes.

    direction   "budget": the least criterion for a budget; "target": the least cost for an
                accuracy; "equalised": the least largest cost of any reading for an accuracy;
                "caps": the least criterion for limits of each reading (`correlated`).
    levels      (m,): the level of each reading (larger shows more); of a full matrix its diagonal.
    value       the criterion at these levels.
    spent       Σ c_k s_k; "equalised": the largest c_k s_k.
    floor       no admissible levels are better: of the value ("budget") or of what is spent
                ("target", "equalised"). A proof, whatever the search did.
    gap         how far above the floor this is at most: relative; of log det absolute.
    asked       the budget or the target.
    price       −d value/d budget: what one more unit of budget would take off the value; NaN where
                the gap is above 1e-4, as it is then not known to about one per cent.
    support     how many readings give up anything.
    equal       the value that equal levels have for the same cost ("budget"), or what equal levels
                spend for the same accuracy ("target").
    iterations, method: of the search.
    """

    direction: Direction
    value: float
    floor: float
    gap: float
    tolerance: float
    spent: float
    asked: float
    price: float
    iterations: int
    method: str
    equal: float
    criterion: Criterion

    def __init__(
        self,
        matrix: PSD | Array,
        model: LinearModel,
        criterion: Criterion,
        **found: Any,  # noqa: ANN401
    ) -> None:
        self._number = None
        self._matrix = matrix if isinstance(matrix, PSD) else psd(matrix, NAME)
        self._model = model
        self.criterion = criterion
        for name, value in found.items():
            setattr(self, name, value)
        if self.direction != "equalised" and not self.gap <= PRICED:
            self.price = np.nan

    @classmethod
    def from_matrix(cls, matrix: PSD) -> PrivacyLevel:
        """What is made from an allocation (a multiple, a part, a sum) is a plain level."""
        return PrivacyLevel.from_matrix(matrix)

    @property
    def levels(self) -> Array:
        assert self._matrix is not None
        return self._matrix.diagonal()

    @property
    def support(self) -> int:
        return int(np.count_nonzero(self.levels))

    @property
    def certified(self) -> bool:
        """Whether the gap is within the tolerance that was asked for."""
        return bool(self.gap <= self.tolerance)

    @property
    def standard_error(self) -> Array:
        """√diag Σ at these levels, (n,): what the best estimate has; inf of what they hide."""
        from privest.bounds import bound, functional

        try:
            return bound(self._model, self).standard_error
        except NotIdentifiable:  # only some of the parameters were asked for
            return functional(self._model, self, np.eye(self._model.parameters)).standard_error

    @property
    def leverage(self) -> Array:
        """h_kᵀ(HᵀH)⁺h_k, (m,): how much a reading alone says about θ; public."""
        H = self._model.matrix
        scale, basis = weighted_roots(H, [1.0])[0].row_space
        return np.asarray(np.square(np.linalg.qr(H / scale @ basis)[0]).sum(axis=1))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        own = {name: plain(getattr(self, name)) for name in FIELDS}
        return {**own, "criterion": self.criterion.to_dict(), "levels": plain(self.levels)}

    def explain(self) -> str:
        """What was found, how sure it is, who pays, in words."""
        from privest.design._words import explanation

        return explanation(self)

    def picture(self, path: str | Path) -> Path:
        """Who gives up how much, and why: levels in order, and against leverage. Needs matplotlib.

        Public quantities only. The file's ending says its kind: .png, .svg, .pdf.
        """
        from privest.design._picture import draw

        return draw(self, Path(path))

    def __repr__(self) -> str:
        return (
            f"Allocation({self.criterion.symbol}, {len(self.levels)} readings, value "
            f"{self.value:.6g}, spent {self.spent:.6g}, gap {self.gap:.1e})"
        )
