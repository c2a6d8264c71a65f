"""How many readings, and at which level: the two sides of one accuracy.

K readings like these carry K/m times the information of the model's m, so that every variance is
m/K times as large. For rows that are alike and noise of one variance v, all at the level s,

    var θ̂_j = (A₀)_jj (v + 1/s)/K ,   A₀ = (HᵀH/m)⁻¹ :

a level of 1/v costs just twice the readings that would do without privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Flags, as_array, as_positive, plural
from privest.bounds import ContrastBound, bound, local_model
from privest.design._criteria import StandardErrors
from privest.errors import InvalidInput, NotIdentifiable
from privest.model import LinearModel, NonlinearModel
from privest.privacy import PrivacyLevel, as_level
from privest.records import Record, as_frame

Target = float | Mapping[str | int, float] | StandardErrors
WHOLE = 1e-12  # a number of readings that rounding puts above a whole one is that whole one


@dataclass(frozen=True, eq=False)
class SampleSize(Record):
    """How many readings like these are needed at a level.

    readings   the least whole number that meets every target, never fewer than parameters.
    exact      (J,): the number that each target needs, not rounded.
    classical  (J,): the same without privacy.
    target     (J,): the standard errors that were asked for, of the parameters `names`.
    standard_error (J,): what so many readings have.
    total      the sum of the levels of so many readings (the trace of S).
    price      readings with privacy over readings without, of the target that needs most; inf
               where readings without noise need no number of them without privacy.
    """

    names: tuple[str, ...]
    target: Array
    exact: Array
    classical: Array
    readings: int
    standard_error: Array
    total: float

    DERIVED = ("price",)

    @property
    def price(self) -> float:
        least = float(self.classical.max())
        return float(self.exact.max()) / least if least > 0 else math.inf

    def explain(self) -> str:
        """The number, what decides it, and what privacy costs, in words."""
        most = int(self.exact.argmax())
        decides = " decides" if len(self.names) > 1 else ""
        without = (
            f"{math.ceil(self.classical.max() * (1 - WHOLE))} would do: privacy costs "
            f"{self.price:.4g} times the readings"
        )
        if math.isinf(self.price):
            without = "readings without noise would be exact: their number is the price of privacy"
        return (
            f"{self.readings} readings like these are enough: {self.names[most]}{decides}, with a "
            f"standard error of {self.standard_error[most]:.4g}. Without privacy {without}. All "
            f"their levels together: {self.total:.4g}."
        )

    def frame(self, library: str = "pandas") -> Any:  # noqa: ANN401
        """One row for each target."""
        columns = {
            "parameter": list(self.names),
            "target": self.target,
            "standard_error": self.standard_error,
            "readings": self.exact,
            "without_privacy": self.classical,
        }
        return as_frame(columns, library)

    def __repr__(self) -> str:
        times = f", {self.price:.4g} times those without privacy" * math.isfinite(self.price)
        return f"SampleSize({plural(self.readings, 'reading')}{times})"


@dataclass(frozen=True, eq=False)
class Frontier(Record):
    """The level that each number of readings needs for the same accuracy.

    sizes      (k,): numbers of readings like these.
    level      (k,): the least level of every reading that meets the targets; inf where none does.
    feasible   (k,): where there is one.
    total      (k,): sizes × level, what all of them give up together.
    least      so many readings are needed without privacy; more with any.
    total_floor  the total falls to this as the number of readings grows, and never below.
    names, target: what was asked for; `decides` (k,): the parameter whose target decides.
    """

    names: tuple[str, ...]
    target: Array
    sizes: Array
    level: Array
    total: Array
    decides: tuple[str | None, ...]
    least: float
    total_floor: float

    DERIVED = ("feasible",)

    @property
    def feasible(self) -> Flags:
        return np.isfinite(self.level)

    def explain(self) -> str:
        """The trade in words: few readings that show much, or many that show little."""
        wanted = ", ".join(f"{name} ± {e:.4g}" for name, e in zip(self.names, self.target))
        shown = np.flatnonzero(self.feasible)
        few = len(self.sizes) - len(shown)
        return "\n".join([
            f"For {wanted}: more than {self.least:.4g} readings are needed, whatever the level.",
            *(f"{self.sizes[i]:.0f} readings: level {self.level[i]:.4g} each, together "
              f"{self.total[i]:.4g}" for i in shown[:: max(1, len(shown) // 5)]),
            *([f"{few} of the sizes are too few."] if few else []),
            f"Together they give up less the more there are, and never less than "
            f"{self.total_floor:.4g}.",
        ])  # fmt: skip

    def frame(self, library: str = "pandas") -> Any:  # noqa: ANN401
        """One row for each size."""
        columns = {
            "readings": self.sizes,
            "level": self.level,
            "total": self.total,
            "decided_by": list(self.decides),
        }
        return as_frame(columns, library)

    def __repr__(self) -> str:
        return (
            f"Frontier({len(self.sizes)} sizes, {int(self.feasible.sum())} feasible, least "
            f"{self.least:.4g})"
        )


def sample_size(
    model: LinearModel | NonlinearModel,
    level: PrivacyLevel | ArrayLike,
    target: Target,
    theta: ArrayLike | None = None,
) -> SampleSize:
    """How many readings like these are needed at this privacy level (larger shows more)?

        K_j = m var_j/e_j² ,   rows alike, one variance v, one level s:   K = (A₀)_jj (v + 1/s)/e²

    Symbols: `model` stands for the readings to come: the answer is for K/m independent copies of
    it. `level` as for `bound`, of the model's m readings; `target` {name: standard error}, or one
    number for a model with one parameter; `theta` for a nonlinear model.
    Guarantees: no mechanism within the level and no unbiased estimate reach the targets with fewer;
    the Gaussian mechanism does with this number, for Gaussian noise. Raises NotIdentifiable where
    the level hides a parameter of the target.

    >>> model = LinearModel(np.ones((10, 1)), noise=4.0, names=["mean"])
    >>> sample_size(model, 0.25, {"mean": 0.1}).readings  # s = 1/v: twice 4/0.1²
    800
    """
    local = local_model(model, theta)
    names, index, wanted = as_targets(target, local.names)
    found = bound(local, level).contrast(np.eye(local.parameters)[index])
    assert isinstance(found, ContrastBound)
    _require_shown(found, names)
    with np.errstate(over="ignore", divide="ignore"):
        exact = local.readings * found.covariance.diagonal() / wanted**2
    if not np.isfinite(exact).all():
        raise InvalidInput(
            "a wanted standard error is so small that no number counts the readings."
        )
    readings = max(math.ceil(float(exact.max()) * (1 - WHOLE)), local.parameters)
    return SampleSize(
        names=names,
        target=wanted,
        exact=exact,
        classical=local.readings * found.classical.diagonal() / wanted**2,
        readings=readings,
        standard_error=wanted * np.sqrt(exact / readings),
        total=as_level(level).for_size(local.readings).trace() * readings / local.readings,
    )


def frontier(
    model: LinearModel | NonlinearModel,
    target: Target,
    sizes: ArrayLike,
    theta: ArrayLike | None = None,
) -> Frontier:
    """The level that reaches an accuracy, for each number of readings like these.

        rows alike, one variance v:   s = 1/(K e²/(A₀)_jj − v) ,  K_min = (A₀)_jj v/e²

    Every reading has the same level s. K s falls from ∞ at K_min to max_j (A₀)_jj/e_j² as K grows:
    many readings at a low level give up least in total. `target` and `theta` as for `sample_size`;
    `sizes` whole numbers ≥ 1. Sizes that no level makes sufficient have the level inf.

    >>> model = LinearModel(np.ones((10, 1)), noise=4.0)
    >>> found = frontier(model, 0.1, [400, 500, 800, 80000])
    >>> found.level.round(6).tolist(), round(found.least, 6)
    ([inf, 1.0, 0.25, 0.001256], 400.0)
    """
    local = local_model(model, theta)
    names, index, wanted = as_targets(target, local.names)
    sizes = _as_sizes(sizes)
    m, rows = local.readings, np.eye(local.parameters)[index]
    plain = LinearModel(local.matrix, noise=1.0, names=local.names)
    shape = bound(plain, 1.0).contrast(rows)  # (HᵀH)⁻¹_jj: of unit noise without privacy
    assert isinstance(shape, ContrastBound)
    _require_shown(shape, names)
    spread = shape.classical.diagonal() / wanted**2
    open_variance = bound(local, 1.0).contrast(rows).classical.diagonal() / wanted**2

    def need(u: float) -> Array:
        """m var_j/e_j² at the level 1/u: how many readings each target needs."""
        if u == 0:
            return m * open_variance
        return m * bound(local, 1.0 / u).contrast(rows).covariance.diagonal() / wanted**2

    most = local.inverse_information.norm()
    inverse = [_inverse_level(need, m * spread, m * open_variance, most, float(K)) for K in sizes]
    with np.errstate(divide="ignore"):
        level = np.array([1.0 / u if u > 0 else np.inf for u in inverse])
    return Frontier(
        names=names,
        target=wanted,
        sizes=sizes,
        level=level,
        total=sizes * level,
        decides=tuple(names[int(need(u).argmax())] if u > 0 else None for u in inverse),
        least=float((m * open_variance).max()),
        total_floor=float((m * spread).max()),
    )


def _inverse_level(need: Any, spread: Array, least: Array, most: float, size: float) -> float:  # noqa: ANN401
    """The largest u = 1/s at which so many readings are enough; 0 where there is none.

    need_j(u) rises with u, and lies between u·spread_j + least_j (`coro:PPCR`) and
    (u + ‖Σ‖)·spread_j: one variance needs no search.
    """
    high = float(((size - least) / spread).min())
    low = max(float((size / spread).min()) - most, 0.0)
    if high <= WHOLE * size / float(spread.max()):
        return 0.0
    if high - low <= 1e-14 * high or float(need(high).max()) <= size:
        return high

    def excess(u: float) -> float:
        return float(need(u).max()) / size - 1.0

    if excess(low) >= 0:
        return low
    return float(scipy.optimize.brentq(excess, low, high, xtol=1e-300, rtol=1e-14))


def as_targets(target: Target, names: tuple[str, ...]) -> tuple[tuple[str, ...], list[int], Array]:
    """(names, indices, standard errors > 0) of the parameters that are asked for."""
    if not isinstance(target, Mapping | StandardErrors):
        if len(names) > 1:
            raise InvalidInput(
                f"the model has {len(names)} parameters: give the standard errors by name, for "
                f"example {{{names[0]!r}: 0.01}}."
            )
        target = {0: as_positive(target, "the wanted standard error")}
    wanted = target if isinstance(target, StandardErrors) else StandardErrors(target)
    index = [wanted.index_of(name, names) for name in wanted.wanted]
    return tuple(names[j] for j in index), index, np.array(list(wanted.wanted.values()))


def _as_sizes(sizes: ArrayLike) -> Array:
    found = np.atleast_1d(as_array(sizes, "sizes", ndim=(0, 1)))
    if not found.size or (found < 1).any() or (found != np.floor(found)).any():
        raise InvalidInput("sizes must be whole numbers ≥ 1 of readings, and at least one.")
    return found


def _require_shown(found: ContrastBound, names: tuple[str, ...]) -> None:
    shown = found.shown
    if not shown.all():
        j = int(np.flatnonzero(~shown)[0])
        line = found.explain().split("\n")[j]
        raise NotIdentifiable(
            f"No number of readings like these is enough for {names[j]}: {line}.",
            found.hidden[~shown].T,
        )
