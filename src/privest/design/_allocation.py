"""The answer of a design: levels for readings, the proof of how good they are, words."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from privest.arrays import Array
from privest.design._criteria import Criterion
from privest.linalg import PSD
from privest.model import LinearModel
from privest.privacy import PrivacyLevel
from privest.records import plain

Direction = Literal["budget", "target", "equalised"]
FIELDS = (
    "direction", "value", "floor", "gap", "tolerance", "spent", "asked", "price", "support",
    "iterations", "method", "equal", "standard_error",
)  # fmt: skip
PRICED = 1e-4  # gap: a slope is known to about its root


class Allocation(PrivacyLevel):
    """Levels that a design chose; a `PrivacyLevel` that every other function takes.

    direction   what was asked: "budget", "target", or "equalised" (the largest loss).
    levels      (m,): the level of each reading (larger shows more); of a full matrix its diagonal.
    value       the criterion at these levels.
    spent       Σ c_k s_k; "equalised": the largest c_k s_k.
    floor       no admissible levels are better: of the value ("budget") or of what is spent
                ("target", "equalised"). A proof, whatever the search did.
    gap         how far above the floor this is at most: relative; of log det absolute.
    asked       the budget or the target.
    price       −d value/d budget; NaN where the gap is above 1e-4: it is then not known to 1 %.
    support     how many readings give up anything.
    equal       the value of equal levels for the same cost ("budget"), or what these spend for the
                same accuracy ("target").
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
    EXTRA: tuple[str, ...] = ()  # fields of a subclass

    def __init__(
        self,
        matrix: PSD,
        model: LinearModel,
        criterion: Criterion,
        **found: Any,  # noqa: ANN401
    ) -> None:
        self._number = None
        self._matrix = matrix
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
        from privest.bounds import bound

        found = bound(self._model, self)
        if found.identifiable:
            return found.standard_error
        return found.contrast(np.eye(self._model.parameters)).standard_error

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        own = {name: plain(getattr(self, name)) for name in (*FIELDS, *self.EXTRA)}
        return {**own, "criterion": self.criterion.to_dict(), "levels": plain(self.levels)}

    def explain(self) -> str:
        """What was found, how sure it is, who pays, in words."""
        return "\n".join([_result(self), _comparison(self), proof_in_words(self), _who(self)])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.criterion.symbol}, {len(self.levels)} readings, value "
            f"{self.value:.6g}, spent {self.spent:.6g}, gap {self.gap:.1e})"
        )


def _result(found: Allocation) -> str:
    words, amount = found.criterion.words(), found.criterion.amount
    reached = f"{amount(found.value):.6g}"
    if found.direction == "budget":
        return (
            f"Made small: {words}. It is {reached} for a total privacy loss of {found.spent:.6g} "
            f"(of {found.asked:.6g})."
        )
    asked = f"Asked for: {words} of at most {amount(found.asked):.6g}"
    if found.direction == "target":
        return f"{asked}. It is {reached}, for a total privacy loss of {found.spent:.6g}."
    return (
        f"{asked}, with nobody giving up more than needed. No reading gives up more than "
        f"{found.spent:.6g}."
    )


def _comparison(found: Allocation) -> str:
    amount = found.criterion.amount
    if found.direction == "equalised":
        return "Equal levels are best here: raising one level above them lowers no other."
    if found.direction == "target":
        return (
            f"Equal levels for the same accuracy lose {found.equal:.6g}, "
            f"{found.equal / found.spent:.4g} times as much."
        )
    if found.criterion.symbol == "D":
        return f"Equal levels at the same cost: {found.equal:.6g}."
    ratio = amount(found.equal) / amount(found.value)
    return f"Equal levels at the same cost: {amount(found.equal):.6g}, {ratio:.4g} times as much."


def proof_in_words(found: Allocation) -> str:
    """The floor, and whether the gap is what was asked for."""
    budget = found.direction == "budget"
    size = "in log det" if found.criterion.symbol == "D" and budget else "of it"
    floor = found.criterion.amount(found.floor) if budget else found.floor
    sure = (
        f"Proved: no levels within the limits have a {'value' if budget else 'privacy loss'} below "
        f"{floor:.6g}"
    )
    if found.certified:
        return f"{sure} (gap {found.gap:.1e} {size}; {found.method}, {found.iterations} steps)."
    return (
        f"{sure}. NOT as close as asked: the gap is {found.gap:.1e} {size}, above "
        f"{found.tolerance:.0e} ({found.method}, {found.iterations} steps)."
    )


def _who(found: Allocation) -> str:
    levels = found.levels
    m, shown = len(levels), found.support
    top = np.sort(levels)[::-1]
    part = float(top[: max(1, round(m / 10))].sum() / top.sum())
    hidden = "" if shown == m else f" {m - shown} of {m} readings give up nothing."
    return (
        f"Levels (larger shows more): from {levels.min():.4g} to {top[0]:.4g}, the middle one "
        f"{float(np.median(levels)):.4g}.{hidden} The tenth that gives up most bears "
        f"{100 * part:.0f} % of it."
    )
