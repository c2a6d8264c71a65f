"""A rule for a stream of which nobody knows how long it will be: s_k ∝ k^-a, one budget in all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Index, as_count, as_scale
from privest.design._constraints import posed
from privest.design._criteria import A
from privest.design._over_time._course import Course, solve
from privest.design._over_time._spread import first_estimate
from privest.design._problem import Problem
from privest.design._scaled import Trace
from privest.errors import InvalidInput
from privest.model import LinearModel
from privest.privacy import PrivacyLevel
from privest.records import Record, as_frame

STEPS = 1.25  # a horizon is so many times the one before
CLOSE = 1e-4  # of the floors: far below what the rule loses
EXPONENTS = (1.001, 3.0)


@dataclass(frozen=True, eq=False)
class Anytime(Record):
    """s_k = first·k^-exponent, k = 1, 2, …: the levels of all time add up to the budget.

    budget    Σ_k s_k over endless time.
    levels    (m,): those of the model's readings.
    horizons  (h,): numbers of readings after which it might end.
    value     (h,): Σ tr WΣ_k of the rule up to there; `floor` (h,) what no levels of this
              budget can be below that know this horizon.
    loss      (h,): value/floor, at least 1.
    worst     no horizon up to the model's readings has a larger loss: proved, also in between.
    forever   no horizon at all has, if later readings have rows of the model (in any order).
    """

    budget: float
    exponent: float
    first: float
    levels: Array
    horizons: Index
    value: Array
    floor: Array
    worst: float
    forever: float

    DERIVED = ("loss",)

    @property
    def loss(self) -> Array:
        return self.value / self.floor

    @property
    def level(self) -> PrivacyLevel:
        """The levels of the model's readings, for every other door."""
        return PrivacyLevel(self.levels)

    def level_at(self, k: int) -> float:
        """The level of reading k, counted from 1, however late."""
        number = as_count(k, "the number of a reading", least=1)
        return float(self.first * number**-self.exponent)

    def explain(self) -> str:
        """The rule, what it can lose, and what is proved."""
        return (
            f"Level of reading k = 1, 2, …: {self.first:.4g}·k^-{self.exponent:.3f} (larger shows "
            f"more); all of them together never more than {self.budget:.4g}, however long it "
            f"lasts.\nProved: wherever it ends, up to {len(self.levels)} readings, the sum of the "
            f"squared errors of all estimates is at most {self.worst:.4g} times the least that any "
            "levels of this budget have that know the end; later it is at most "
            f"{self.forever:.4g} times, if rows like these come."
        )

    def frame(self, library: str = "pandas") -> Any:  # noqa: ANN401
        """One row for each horizon."""
        columns = {
            "readings": self.horizons,
            "value": self.value,
            "floor": self.floor,
            "loss": self.loss,
        }
        return as_frame(columns, library)

    def __repr__(self) -> str:
        return f"Anytime(k^-{self.exponent:.3f}, at most {self.worst:.4g} times the best)"


def anytime(model: LinearModel, budget: float, *, weight: ArrayLike | None = None) -> Anytime:
    """Levels for a stream whose end is not known: they add up to the budget over endless time.

        s_k = B k^-a/ζ(a) ,  a > 1 :   Σ_{k ≥ 1} s_k = B

    The a that loses least at the worst horizon, against levels that know it. `model`: its readings
    stand for those to come, in order; `weight` W as for `allocate`. Every estimate counts alike,
    from the first that exists. (A rule with a ≤ 1 spends any budget in the end; with a discount
    `spread(…, endless=True)` is exactly best.)
    Guarantees: `worst`, for every horizon up to the model's readings: floors of `spread` at some
    horizons; between K₁ and K₂ no levels do better than floor(K₁) + (K − K₁)·(least error of any
    estimate with the whole budget), for every estimate adds at least that. `forever`: beyond the
    model's m readings the rule adds at most its error at m each time, and no levels less than the
    least error without noise (x ≤ s), so that the loss stays below the larger of the two ratios.
    Cost: that of `spread` at about 10 log₁₀ m horizons.

    >>> found = anytime(LinearModel(np.ones((100, 1)), noise=1.0), 100.0)
    >>> 1.0 < found.exponent < 1.5, found.worst < 1.5
    (True, True)
    """
    most = as_scale(budget, "the budget")
    given = posed(model, A(weight))
    scaled, m = given.criterion, model.readings
    assert isinstance(scaled, Trace)
    first = first_estimate(model.matrix, np.full(m, True))
    if first == m - 1 and m > 1:
        raise InvalidInput(
            f"only all {m} readings determine θ: there is one estimate, and nothing to spread."
        )
    whole = Course(given.problem, scaled.root, (np.arange(m) >= first) * 1.0)
    horizons = _horizons(first + 1, m)
    floors = np.array([_floor(whole, most, int(K)) for K in horizons])
    below = between(whole, most, horizons, floors)

    def worst(a: float) -> float:
        return float((_values(whole, _rule(most, a, m)) / below).max())

    found = scipy.optimize.minimize_scalar(
        worst, bounds=EXPONENTS, method="bounded", options={"xatol": 1e-4}
    )
    a = float(found.x)
    levels = _rule(most, a, m)
    values = _values(whole, levels)
    without = _least(whole, most, np.zeros(m))
    return Anytime(
        budget=most,
        exponent=a,
        first=float(levels[0]),
        levels=levels,
        horizons=horizons,
        value=values[horizons - first - 1],
        floor=floors,
        worst=worst(a),
        forever=max(worst(a), float(np.diff(values, prepend=0.0)[-1]) / without),
    )


def _horizons(first: int, m: int) -> Index:
    count = 1 + int(np.ceil(np.log(m / first) / np.log(STEPS)))
    return np.unique(np.rint(np.geomspace(first, m, max(count, 2))).astype(np.intp))


def _rule(budget: float, a: float, m: int) -> Array:
    return np.asarray(budget / scipy.special.zeta(a) * np.arange(1.0, m + 1.0) ** -a)


def _values(course: Course, levels: Array) -> Array:
    """Σ tr WΣ_k up to each estimate."""
    found = course.errors(course.informations(course.problem.precisions(levels)))
    if found is None:
        return np.full(int(course.counts.sum()), np.inf)
    return np.cumsum(found[0])


def _floor(whole: Course, budget: float, K: int) -> float:
    """Of the best levels that know that K readings are all."""
    every = whole.problem
    problem = Problem(every.rows[:K], every.variance[:K], every.cost[:K], every.cap[:K])
    course = Course(problem.in_units(budget / K), whole.root, whole.worth[:K])
    return solve(course, budget, CLOSE, np.ones(K)).floor


def between(whole: Course, budget: float, horizons: Index, floors: Array) -> Array:
    """What no levels are below at any horizon from the first to the last, from some floors."""
    ends = np.arange(horizons[0], horizons[-1] + 1)
    before = np.searchsorted(horizons, ends, side="right") - 1
    least = _least(whole, budget, whole.problem.variance)
    return np.asarray(floors[before] + (ends - horizons[before]) * least)


def _least(whole: Course, budget: float, variance: Array) -> float:
    """A floor of the error of every estimate, whatever the levels, for readings of such noise."""
    every, m = whole.problem, whole.problem.readings
    problem = Problem(every.rows, variance, every.cost, every.cap).in_units(budget / m)
    course = Course(problem, whole.root, (np.arange(m) == m - 1) * 1.0)
    return solve(course, budget, CLOSE, np.ones(m)).floor
