"""The answer of a design: levels of measurements, and the proof of how good they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from privest.arrays import Array
from privest.design._criteria import Criterion
from privest.linalg import PSD
from privest.model import LinearModel
from privest.privacy import PrivacyLevel, StreamLevel
from privest.records import Record

if TYPE_CHECKING:
    from privest.bounds import Bound

Direction = Literal["budget", "target", "largest"]
TOLERANCE = 1e-6  # of a gap: relative, of log det absolute
PRICED = 1e-4  # gap: a slope is known to about its root


@dataclass(frozen=True, eq=False)
class Allocation(Record):
    """The privacy level that a design chose, what it attains, and a proof.

    level       for `pv.bound`, mechanisms and releases; of a schedule a `StreamLevel`.
    levels      (m,): the level of each measurement (a larger one reveals more); the diagonal of S.
    value       the criterion at this level.
    spent       Σ c_k S_kk; for the least largest loss the largest c_k s_k.
    floor       no admissible level is better: in value for a budget, in what is spent for a target.
    gap         how far above the floor this is at most: relative; of log det absolute.
    asked       the budget or the target; `direction`: "budget", "target" or "largest" (loss).
    equal       the value of equal levels for the same cost (budget), or what they spend for the
                same accuracy (target).
    price       −d value/d budget; NaN where the gap is above 1e-4.
    shape       "diagonal": independent noise; "full", "persons": noise drawn jointly.
    """

    levels: Array
    value: float
    spent: float
    floor: float
    gap: float
    direction: Direction
    asked: float
    _criterion: Criterion
    _model: LinearModel
    _matrix: PSD | None  # S; None of a stream
    equal: float = np.nan
    price: float = np.nan
    shape: str = "diagonal"
    iterations: int = 0
    method: str = "given"
    DERIVED: ClassVar[tuple[str, ...]] = (
        "criterion",
        "certified",
        "support",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction != "largest" and not self.gap <= PRICED:
            object.__setattr__(self, "price", np.nan)

    @property
    def criterion(self) -> str:
        """The symbol: A, C, D, E, or T for several standard errors."""
        return self._criterion.symbol

    @property
    def level(self) -> PrivacyLevel | StreamLevel:
        matrix = self._matrix
        return StreamLevel(self.levels) if matrix is None else PrivacyLevel.from_matrix(matrix)

    @property
    def bound(self) -> Bound:
        """The Cramér-Rao bound at this level: what the best estimate attains."""
        from privest.bounds import bound

        return bound(self._model, self.level)

    @property
    def support(self) -> int:
        """How many measurements reveal anything."""
        return int(np.count_nonzero(self.levels))

    @property
    def certified(self) -> bool:
        return bool(self.gap <= TOLERANCE)

    def summary(self) -> str:
        parts = [_result(self), _comparison(self), _proof(self), _shares(self)]
        if self.shape != "diagonal":
            parts.append(_promise(self))
        return "\n".join(parts)

    def __repr__(self) -> str:
        return (
            f"Allocation({self.criterion}, {self.shape}, {len(self.levels)} measurements, value "
            f"{self.value:.6g}, spent {self.spent:.6g}, gap {self.gap:.1e})"
        )


def _result(found: Allocation) -> str:
    words = found._criterion.words
    amount = found._criterion.amount
    reached = f"{amount(found.value):.6g}"
    if found.direction == "budget":
        return (
            f"Criterion: {words}. It is {reached} for a total privacy loss of {found.spent:.6g} "
            f"(of {found.asked:.6g})."
        )
    asked = f"Asked for: {words} of at most {amount(found.asked):.6g}."
    if found.direction == "target":
        return f"{asked} It is {reached}, for a total privacy loss of {found.spent:.6g}."
    return f"{asked} The largest privacy loss of a measurement is {found.spent:.6g}."


def _comparison(found: Allocation) -> str:
    amount = found._criterion.amount
    if found.direction == "largest":
        return "Equal levels are best here: raising one level above them lowers no other."
    if np.isnan(found.equal):
        return "The level was given."
    if found.direction == "target":
        return (
            f"Equal levels for the same accuracy lose {found.equal:.6g}, "
            f"{found.equal / found.spent:.4g} times as much."
        )
    if found.criterion == "D":
        return f"Equal levels at the same cost: {found.equal:.6g}."
    ratio = amount(found.equal) / amount(found.value)
    return f"Equal levels at the same cost: {amount(found.equal):.6g}, {ratio:.4g} times as much."


def _proof(found: Allocation) -> str:
    budget = found.direction == "budget"
    size = "in log det" if found.criterion == "D" and budget else "of it"
    floor = found._criterion.amount(found.floor) if budget else found.floor
    what = "value" if budget else "privacy loss"
    steps = f"{found.method}, {found.iterations} steps"
    sure = f"Proved: no levels within the limits have a {what} below {floor:.6g}"
    if found.certified:
        return f"{sure} (gap {found.gap:.1e} {size}; {steps})."
    return f"{sure}. The gap is {found.gap:.1e} {size}, above {TOLERANCE:.0e} ({steps})."


def _shares(found: Allocation) -> str:
    levels = found.levels
    m = len(levels)
    top = np.sort(levels)[::-1]
    part = float(top[: max(1, round(m / 10))].sum() / top.sum())
    hidden = "" if found.support == m else f" {m - found.support} of {m} are 0."
    return (
        f"Levels (a larger one reveals more): from {levels.min():.4g} to {top[0]:.4g}, median "
        f"{float(np.median(levels)):.4g}.{hidden} The largest tenth has {100 * part:.0f}% of the "
        "sum."
    )


def _promise(found: Allocation) -> str:
    matrix = found._matrix
    assert matrix is not None
    needed = (
        "one trusted curator, who sees every measurement and draws the noise jointly"
        if found.shape == "full"
        else "every person to draw the noise of their own measurements jointly"
    )
    return (
        f"Released: {matrix.rank} numbers Lᵀy + noise. The limits are on the diagonal of S: what "
        "each measurement by itself reveals to an attacker who knows all the others. They are NOT "
        "the joint promise I_z ≤ diag(S), which independent noise keeps: a combination is revealed "
        f"better (the largest eigenvalue of S is {matrix.norm():.4g}). It needs {needed}."
    )
