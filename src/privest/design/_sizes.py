"""How many measurements, and at which level: the two sides of one accuracy.

Rows alike, noise of one variance v, all at the level s:  var θ̂_j = (A₀)_jj (v + 1/s)/K ,
A₀ = (HᵀH/m)⁻¹.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_array, plural
from privest.bounds import ContrastBound, bound, local_model
from privest.design._allocate import Target
from privest.design._criteria import as_errors
from privest.errors import InvalidInput, NotIdentifiable
from privest.model import LinearModel, NonlinearModel
from privest.privacy import PrivacyLevel, as_level
from privest.records import Record, as_frame

WHOLE = 1e-12  # a number of measurements that rounding puts above a whole one is that whole one


@dataclass(frozen=True, eq=False)
class SampleSize(Record):
    """Numbers of measurements and levels that reach an accuracy, one entry for each question.

    measurements  (k,): at a given level the least whole number that meets every target; else the
                  sizes that were asked about.
    level         (k,): the level of every measurement (of a given level its mean); inf where no
                  level makes so few sufficient.
    total         (k,): the sum of all levels, the trace of S.
    needed        (k, J): how many each target needs at this level, not rounded.
    classical     (J,): the same without privacy.
    total_floor   to which the total of equal levels falls as the number grows.
    """

    names: tuple[str, ...]
    target: Array
    measurements: Array
    level: Array
    total: Array
    needed: Array
    classical: Array
    total_floor: float

    DERIVED: ClassVar[tuple[str, ...]] = ("decides", "price")

    @property
    def decides(self) -> tuple[str | None, ...]:
        """(k,): the parameter whose target needs most; None where no level is enough."""
        return tuple(
            self.names[int(row.argmax())] if finite else None
            for row, finite in zip(self.needed, np.isfinite(self.level))
        )

    @property
    def price(self) -> Array:
        """(k,): measurements with privacy over those without; inf where those need no number."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.needed.max(axis=1) / self.classical.max())

    def summary(self) -> str:
        wanted = ", ".join(f"{name} ± {e:.4g}" for name, e in zip(self.names, self.target))
        least = math.ceil(float(self.classical.max()) * (1 - WHOLE))
        lines = [f"For {wanted}: {plural(least, 'measurement')} without privacy, more with any."]
        for K, level, total, name, price in zip(
            self.measurements, self.level, self.total, self.decides, self.price
        ):
            if name is None:
                lines.append(f"{K:.0f} measurements: too few at every level.")
                continue
            times = f", {price:.4g} times those without" * math.isfinite(price)
            lines.append(
                f"{K:.0f} measurements{times}: level {level:.4g} each, {total:.4g} in all "
                f"({name} decides)."
            )
        return "\n".join(
            [*lines, f"Equal levels never add up to less than {self.total_floor:.4g}."]
        )

    def to_frame(self, library: str = "pandas") -> Any:  # noqa: ANN401
        """One row for each number of measurements."""
        columns = {
            "measurements": self.measurements,
            "level": self.level,
            "total": self.total,
            "decided_by": list(self.decides),
        }
        return as_frame(columns, library)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{K:.0f}" for K in self.measurements[:5])
        return f"SampleSize({sizes}{', …' * (len(self.measurements) > 5)} measurements)"


def sample_size(
    model: LinearModel | NonlinearModel, target: Target, *,
    level: PrivacyLevel | ArrayLike | None = None, sizes: ArrayLike | None = None,
    theta: ArrayLike | None = None,
) -> SampleSize:  # fmt: skip
    """The number of measurements that reaches an accuracy at a level; or the level for each size.

        K_j = m var_j/e_j² ;   rows alike, one variance v, one level s:   K = (A₀)_jj (v + 1/s)/e²

    `model` stands for the measurements to come: the answer is for K/m independent copies of it.
    `target` {name: standard error}, or a number for each parameter. `level`: as for `bound`, of the
    model's m measurements; or `sizes` K, for the level s that all of them have.
    Guarantees: no mechanism within the level and no unbiased estimate reach the targets with fewer.
    Raises NotIdentifiable where the level hides a parameter of the target.

    >>> model = LinearModel(np.ones((10, 1)), noise=4.0, names=["mean"])
    >>> sample_size(model, {"mean": 0.1}, level=0.25).measurements  # s = 1/v: twice 4/0.1²
    array([800.])
    >>> sample_size(model, 0.1, sizes=[400, 500, 800, 80000]).level.round(6).tolist()
    [inf, 1.0, 0.25, 0.001256]
    """
    if (level is None) == (sizes is None):
        raise InvalidInput("give a level or sizes: one of them.")
    local = local_model(model, theta)
    wanted = as_errors(target, local.names)
    index = list(wanted)
    errors = np.array(list(wanted.values()))
    names = tuple(local.names[j] for j in index)
    rows = np.eye(local.parameters)[index]
    m = local.measurements
    plain = LinearModel(local.matrix, noise=1.0, names=local.names)
    shape = _variances(plain, 1.0, rows, names).classical.diagonal()  # (HᵀH)⁻¹_jj
    with np.errstate(over="ignore"):
        spread = m * shape / errors**2
        per = m / errors**2
    if not np.isfinite(spread).all():
        raise InvalidInput("a wanted standard error is too small for any number of measurements.")

    def found(given: PrivacyLevel | ArrayLike) -> ContrastBound:
        return _variances(local, given, rows, names)

    if level is not None:
        answer = found(level)
        needed = (per * answer.covariance.diagonal())[None]
        classical = per * answer.classical.diagonal()
        count = max(math.ceil(float(needed.max()) * (1 - WHOLE)), local.parameters)
        mean = as_level(level).for_size(m).trace() / m
        counts = np.array([float(count)])
        levels = np.array([mean])
    else:
        counts = _as_sizes(sizes)
        classical = per * found(1.0).classical.diagonal()

        def need(u: float) -> Array:
            """How many measurements each target needs at the level 1/u."""
            return per * found(1.0 / u).covariance.diagonal() if u > 0 else classical

        most = local.inverse_information.norm()
        inverse = [_inverse_level(need, spread, classical, most, float(K)) for K in counts]
        levels = np.array([1.0 / u if u > 0 else np.inf for u in inverse])
        needed = np.array([need(u) for u in inverse])
    return SampleSize(
        names, errors, counts, levels, counts * levels, needed, classical, float(spread.max())
    )


def _variances(
    model: LinearModel, level: PrivacyLevel | ArrayLike, rows: Array, names: tuple[str, ...]
) -> ContrastBound:
    found = bound(model, level).contrast(rows)
    assert isinstance(found, ContrastBound)
    if not found.shown.all():
        j = int(np.flatnonzero(~found.shown)[0])
        line = found.explain().split("\n")[j]
        raise NotIdentifiable(
            f"No number of measurements like these is enough for {names[j]}: {line}.",
            found.hidden[~found.shown].T,
        )
    return found


def _inverse_level(
    need: Callable[[float], Array], spread: Array, least: Array, most: float, size: float
) -> float:
    """The largest u = 1/s at which this number of measurements is enough; 0 where there is none.

    need_j(u) rises with u, between u·spread_j + least_j (`coro:PPCR`) and (u + ‖Σ‖)·spread_j.
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


def _as_sizes(sizes: ArrayLike | None) -> Array:
    found = np.atleast_1d(as_array(sizes, "sizes", ndim=(0, 1)))  # type: ignore[arg-type]
    if not found.size or (found < 1).any() or (found != np.floor(found)).any():
        raise InvalidInput("sizes must be whole numbers ≥ 1 of measurements, and at least one.")
    return found
