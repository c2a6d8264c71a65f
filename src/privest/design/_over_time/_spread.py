"""A stream's budget over time: how much each reading gives up so that all estimates serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy

from privest.arrays import (
    Array,
    ArrayLike,
    Flags,
    as_array,
    as_choice,
    as_flag,
    as_number,
    as_scale,
)
from privest.design._allocating import TOLERANCE
from privest.design._allocation import Allocation
from privest.design._constraints import Posed, as_tolerance, posed
from privest.design._criteria import A
from privest.design._limits import refuse
from privest.design._over_time._course import Course, Found, solve
from privest.design._scaled import Trace
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg import psd, weighted_roots
from privest.model import LinearModel
from privest.noise import Gaussian
from privest.privacy import StreamLevel
from privest.records import plain

Worth = ArrayLike | Literal["every", "final"] | None
MOST_REPEATS = 64  # of the rows of an endless stream
STEEPEST = 4.0  # exponent of a power rule


class Spread(Allocation):
    """Levels over time, the first reading first; an `Allocation`, and more:

    worth         (m,): how much the estimate after each reading counts.
    error         (m,): tr WΣ_k after each reading; inf before θ is identifiable.
    equal_error   (m,): the same for equal levels; `equal` is what they add up to.
    exponent      a of the best rule s_k ∝ k^-a, k = 1, 2, …; `power` is its value.
    endless       whether readings after these were asked about: they give up nothing then.
    """

    worth: Array
    error: Array
    equal_error: Array
    exponent: float
    power: float
    endless: bool

    @property
    def stream(self) -> StreamLevel:
        """The same levels for the doors of streams."""
        return StreamLevel(self.levels)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        own = ("worth", "error", "equal_error", "exponent", "power", "endless")
        return {**super().to_dict(), **{name: plain(getattr(self, name)) for name in own}}

    def explain(self) -> str:
        """What was found, against equal levels and a simple rule, and how sure it is."""
        shown = np.flatnonzero(self.levels)
        after = " Readings after these are not worth their price: none of them." * self.endless
        sure = "" if self.certified else f" NOT as close as asked ({self.tolerance:.0e})."
        return "\n".join([
            f"The weighted sum of the squared errors of all estimates is {self.value:.6g} for a "
            f"total privacy loss of {self.spent:.6g}.",
            f"Equal levels: {self.equal:.6g}, {self.equal / self.value:.4g} times as much. The "
            f"last estimate pays: {self.error[-1] / self.equal_error[-1]:.4g} times the squared "
            "error that it has with equal levels.",
            f"The rule s ∝ k^-{self.exponent:.2f}: {self.power:.6g}, "
            f"{self.power / self.value:.4g} times as much.",
            f"Proved: no levels of this total have less than {self.floor:.6g} (gap {self.gap:.1e};"
            f" {self.method}, {self.iterations} steps).{sure}",
            f"The first tenth of the readings bears {100 * self._early():.0f} %; the last that "
            f"gives up anything is number {shown[-1] + 1} of {len(self.levels)}.{after}",
        ])  # fmt: skip

    def picture(self, path: str | Path) -> Path:
        """Levels over time, and the errors that they buy. Needs matplotlib.

        Public quantities only. The file's ending says its kind: .png, .svg, .pdf.
        """
        from privest.design._over_time._picture import draw_over_time

        return draw_over_time(self, Path(path))

    def _early(self) -> float:
        levels = self.levels
        return float(levels[: max(1, round(len(levels) / 10))].sum() / levels.sum())

    def __repr__(self) -> str:
        return (
            f"Spread({len(self.levels)} readings, value {self.value:.6g}, equal levels "
            f"{self.equal / self.value:.4g} times, gap {self.gap:.1e})"
        )


def spread(
    model: LinearModel,
    budget: float,
    weights: Worth | float = None,
    *,
    weight: ArrayLike | None = None,
    cost: ArrayLike = 1.0,
    cap: ArrayLike = np.inf,
    endless: bool = False,
    tol: float = TOLERANCE,
) -> Spread:
    """The levels of a stream that serve all its estimates best, for one budget over all time.

        minimise Σ_k g_k tr WΣ_k   over s ≥ 0 ,  Σ_k c_k s_k ≤ budget ,  s_k ≤ cap_k

    Symbols: the readings of `model` come one after the other; Σ_k is the covariance of the best
    estimate from the releases up to k. `weights` g: one number ≥ 0 for each reading; "every" (also
    None): all estimates count alike, from the first that exists; "final": the last alone, which is
    `allocate`; a number γ in (0, 1): an estimate counts γ times the one before. `weight` W, `cost`
    and `cap` as for `allocate`.
    endless=True, with γ: the readings of the model come again and again and there is no horizon.
    What is found is proved best among all levels of all time, and finite: after the last reading
    given back none is worth its price. Without a discount `anytime` has a rule for every horizon.
    Assumes independent noise of the readings, and releases of one reading each (U = 0).
    Guarantees: `floor` is below the value of every admissible choice.
    Cost: some ten passes of O(m n³); memory m n².

    >>> model = LinearModel(np.ones((50, 1)), noise=1.0)
    >>> found = spread(model, 50.0)
    >>> found.levels[:3].round(2).tolist(), bool(found.levels[-1] == 0)  # early readings serve all
    ([7.29, 4.53, 3.51], True)
    >>> round(found.equal / found.value, 2)  # what equal levels lose
    1.41
    """
    most, worth = as_scale(budget, "the budget"), weights
    tol = as_tolerance(tol)
    if as_flag(endless, "endless"):
        return _endless(model, most, worth, weight, cost, cap, tol)
    given, course = _course(model, most, worth, weight, cost, cap)
    found = solve(course, most, tol, np.ones(model.readings))
    return _answer(given, course, most, tol, found, endless=False)


def _course(
    model: LinearModel, budget: float, worth: Worth | float, weight: ArrayLike | None,
    cost: ArrayLike, cap: ArrayLike,
) -> tuple[Posed, Course]:  # fmt: skip
    given = posed(model, A(weight), cost=cost, cap=cap)
    given = given.in_units(budget / float(given.problem.cost.sum()))
    scaled = given.criterion
    assert isinstance(scaled, Trace)
    _require_shown(given)
    first = first_estimate(model.matrix, given.problem.cap > 0)
    course = Course(given.problem, scaled.root, as_worth(worth, model.readings, first))
    start = given.problem.within(np.ones(model.readings), budget)
    if not np.isfinite(course.value(given.problem.precisions(start))):
        raise NumericalFailure(
            f"The estimate after reading {int(np.flatnonzero(course.counts)[0])} exists, but its "
            "information is too ill-conditioned for double precision: let later estimates count."
        )
    return given, course


def _require_shown(given: Posed) -> None:
    """Raise InfeasibleTarget where the readings whose caps are not 0 leave a parameter unseen."""
    rows = given.model.matrix[given.problem.cap > 0]
    if len(rows) == 0 or weighted_roots(rows, [1.0])[0].rank < given.model.parameters:
        refuse(given, np.inf, np.inf)


def first_estimate(matrix: Array, usable: Flags) -> int:
    """The first reading after which θ is identifiable; all of them determine it."""
    low, high = -1, len(matrix) - 1
    while high - low > 1:
        middle = (low + high) // 2
        rows = matrix[: middle + 1][usable[: middle + 1]]
        full = len(rows) > 0 and weighted_roots(rows, [1.0])[0].rank == matrix.shape[1]
        low, high = (low, middle) if full else (middle, high)
    return high


def as_worth(worth: Worth | float, m: int, first: int) -> Array:
    """g (m,) ≥ 0, not all zero, zero before the first estimate."""
    later = np.arange(m) >= first
    if worth is None or isinstance(worth, str):
        if worth is not None:
            as_choice(worth, ("every", "final"), "weights given as a text")
        return np.where(np.arange(m) == m - 1, 1.0, 0.0) if worth == "final" else later * 1.0
    given = as_array(worth, "weights", ndim=(0, 1))
    if given.ndim == 0:
        return np.asarray(_discount(float(given)) ** np.arange(m) * later)
    if len(given) != m or (given < 0).any() or not given.any():
        raise InvalidInput(
            f"weights are one number ≥ 0 for each of {m} readings, not all of them 0; received "
            f"shape {given.shape}."
        )
    if given[:first].any():
        raise InvalidInput(
            f"before reading {first} (from 0) the readings do not determine θ: there is no "
            "estimate that could count. Give it weight 0."
        )
    return np.asarray(given, dtype=float)


def _discount(given: float) -> float:
    if not 0 < given < 1:
        raise InvalidInput(f"a discount lies between 0 and 1; received {given:g}.")
    return given


def _endless(
    model: LinearModel, budget: float, worth: Worth | float, weight: ArrayLike | None,
    cost: ArrayLike, cap: ArrayLike, tol: float,
) -> Spread:  # fmt: skip
    """The finite problem whose last estimate stands for all later ones, and that this is enough.

    After the last reading nothing is shown, so that its estimate stays: it counts Σ_{k ≥ m-1} γ^k.
    A later reading h is worth at most γ^m/(1 − γ)·hᵀZZᵀh, Z = PI⁻¹B at the end: where this is below
    the price for every row the floor of the finite problem is one of the endless problem too, with
    the same witness. Else the rows are taken once more.
    """
    if worth is None or isinstance(worth, str) or np.ndim(worth) != 0:
        raise InvalidInput(
            "an endless stream needs a discount: weights=γ in (0, 1). Without one `anytime` has a "
            "rule for every horizon."
        )
    factor = _discount(as_number(worth, "the discount"))
    variance = np.array(posed(model, A(weight), cost=cost, cap=cap).problem.variance)
    repeats = 1
    while repeats <= MOST_REPEATS:
        longer = LinearModel(
            np.tile(model.matrix, (repeats, 1)),
            noise=Gaussian(cov=np.tile(variance, repeats)),
            names=model.names,
        )
        m = longer.readings
        costs, caps = (_tiled(value, model.readings, repeats) for value in (cost, cap))
        first = first_estimate(longer.matrix, np.broadcast_to(caps, (m,)) > 0)
        g = factor ** np.arange(m) * (np.arange(m) >= first)
        g[-1] = factor ** (m - 1) / (1.0 - factor)
        given, course = _course(longer, budget, g, weight, costs, caps)
        found = solve(course, budget, tol, np.ones(m))
        if _is_enough(course, found, factor, model.readings):
            return _answer(given, course, budget, tol, found, endless=True)
        repeats *= 2
    raise NumericalFailure(
        f"Readings are still worth their price after {MOST_REPEATS} times the rows of the model: "
        "give a model of more readings, a smaller budget, or a stronger discount."
    )


def _tiled(value: ArrayLike, m: int, repeats: int) -> ArrayLike:
    return np.tile(value, repeats) if np.shape(value) == (m,) else value


def _is_enough(course: Course, found: Found, factor: float, period: int) -> bool:
    """Whether no reading after the last is worth its price, by the witness of the floor."""
    problem = course.problem
    m = problem.readings
    rows, cost = problem.rows[:period], problem.cost[:period]
    worth = np.sum((rows @ found.last) ** 2, axis=1) * factor**m / (1.0 - factor)
    return bool((worth <= found.price * cost).all())


def _answer(
    given: Posed, course: Course, budget: float, tol: float, found: Found, *, endless: bool
) -> Spread:
    problem = given.problem
    levels = problem.within(found.levels, budget)
    value = course.value(problem.precisions(levels))
    kept = given.levels(levels, budget)  # within the budget to the letter
    equal = problem.within(np.ones(problem.readings), budget)
    exponent, power = best_power(course, budget)
    return Spread(
        psd(kept, "the levels"), given.model, given.asked,
        direction="budget", value=value, floor=found.floor, tolerance=tol,
        gap=max((value - found.floor) / value, 0.0), asked=budget,
        spent=min(problem.spent(levels), budget),
        price=found.price, iterations=found.steps, method=found.method,
        equal=course.value(problem.precisions(equal)), worth=course.worth,
        error=_errors(course, levels), equal_error=_errors(course, equal),
        exponent=exponent, power=power, endless=endless,
    )  # fmt: skip


def _errors(course: Course, levels: Array) -> Array:
    """tr WΣ_k after each reading, inf where there is no estimate."""
    m = course.problem.readings
    errors = np.full(m, np.inf)
    first = int(np.flatnonzero(course.counts)[0])
    later = Course(course.problem, course.root, (np.arange(m) >= first) * 1.0)
    found = later.errors(later.informations(course.problem.precisions(levels)))
    if found is not None:
        errors[first:] = found[0]
    return errors


def best_power(course: Course, budget: float) -> tuple[float, float]:
    """a of the rule s_k ∝ k^-a with the least value, and the value."""
    problem = course.problem
    time = np.arange(1.0, problem.readings + 1.0)

    def value(a: float) -> float:
        return course.value(problem.precisions(problem.within(time**-a, budget)))

    tried = np.linspace(0.0, STEEPEST, 17)
    values = np.array([value(a) for a in tried])
    best = int(values.argmin())
    around = tried[max(best - 1, 0)], tried[min(best + 1, len(tried) - 1)]
    found = scipy.optimize.minimize_scalar(
        value, bounds=around, method="bounded", options={"xatol": 1e-3}
    )
    if found.fun < values[best]:
        return float(found.x), float(found.fun)
    return float(tried[best]), float(values[best])
