"""Logistic and Poisson regression from a release.

    E z = μ(η) ,  η = hᵀθ ,   var z = V = v(μ) + a ,   a the privacy noise on a value

                     μ              v(μ)       link
    binomial         1/(1 + e^−η)   μ(1 − μ)   log odds
    poisson          e^η            μ          log

Quasi-likelihood Σ h·μ'(z − μ)/V = 0, by Fisher scoring with weights μ'²/V. For randomised response
it is the likelihood of the bits, with z = (bit − q)/(1 − 2q) and a = q(1 − q)/(1 − 2q)².
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeVar, get_args

import numpy as np
import scipy

from privest.arrays import Array, as_choice, as_number
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator.inference._errors import Errors
from privest.estimator.inference._sandwich import WeightedRows, row_errors
from privest.linalg.running import RunningLeastSquares
from privest.linalg.tolerances import rounding
from privest.records import Record

RISE = 0.1  # part of the rise promised by the slope that a step must bring
ROUNDING = 1e-13  # of the height, relative: near the maximum its rise drowns in it
SHORTEST, LONGEST = 0.1, 0.5  # a step that fails is shortened by a factor between these


class Point(Protocol):
    """One pass: the height of the function and its gradient."""

    height: float
    gradient: Array


P = TypeVar("P", bound=Point)


def ascend(
    look: Callable[[Array], P],
    step: Callable[[Array, P], tuple[Array, float]],
    start: Array,
    *,
    tolerance: float,
    iterations: int,
    inside: Callable[[Array], Array] = np.asarray,
) -> tuple[Array, P, int, float]:
    """The maximum, the last pass before it, the number of steps, and the gain promised by the last
    step.

    look    one pass over the rows.
    step    A⁻¹g and gᵀA⁻¹g, the squared distance to the maximum in standard errors; at tolerance²
            the step is the last.
    inside  the nearest point allowed.
    """
    at, point = start, look(start)
    for count in range(iterations):
        move, promised = step(at, point)
        if promised <= tolerance**2:
            return inside(at + move), point, count, promised
        at, point = _risen(look, at, point, move, inside)
    return at, point, iterations, step(at, point)[1]


def _risen(
    look: Callable[[Array], P], at: Array, point: P, move: Array, inside: Callable[[Array], Array]
) -> tuple[Array, P]:
    """The place after the step, shortened until the height rises."""
    length = 1.0
    while length > ROUNDING:
        tried = inside(at + length * move)
        new = look(tried)
        hoped = float((tried - at) @ point.gradient)
        gained = new.height - point.height
        if gained >= RISE * max(hoped, 0.0) - ROUNDING * abs(point.height):
            return tried, new
        best = 0.5 * hoped / (hoped - gained) if hoped > 0 else LONGEST  # of the parabola
        length *= float(np.clip(best, SHORTEST, LONGEST))
    raise NumericalFailure(
        "the log-likelihood does not rise along its own gradient: the rows change from one reading "
        "of them to the next, or they are out of range."
    )


Family = Literal["binomial", "poisson"]
Kind = Literal["model", "HC3"]
Rows = Callable[[], Iterable[WeightedRows]]

CHUNK = 4096  # rows looked at together
ITERATIONS = 200
TOLERANCE = 1e-7  # in standard errors: the last step is shorter than that
HIDDEN = 1e-7  # information left along a direction, of the most that was seen


@dataclass(frozen=True, eq=False, kw_only=True)
class FamilyFit(Record):
    """θ̂ of a logistic or Poisson regression; dispersion Σ(z − μ)²/V/(K − n), about 1 for the
    family.
    """

    value: Array
    errors: Errors
    rows: int
    steps: int
    dispersion: float


def fit_family(
    rows: Rows, family: Family, added: float, *, errors: Kind | None = None
) -> FamilyFit:
    """θ̂ from rows (H, z, weight) that can be read again: about ten passes, memory of a block.

    z        debiased values: E z = μ.
    added    a ≥ 0: variance of the privacy noise on a value; of randomised response 1/level.
    errors   "model" (default of binomial) or "HC3" (default of poisson, and with weights).

    Raises NotIdentifiable where the features are dependent or no finite fit exists.
    """
    noise = as_number(added, "added")
    if noise < 0:
        raise InvalidInput("added is a variance, 0 or more.")
    laws: dict[str, _Law] = {"binomial": _Binomial(noise), "poisson": _Poisson(noise)}
    climb = _Climb(rows, laws[as_choice(family, laws, "family")])
    if errors is not None:
        as_choice(errors, get_args(Kind), "errors")
    kind = errors or ("model" if family == "binomial" and not climb.weighted else "HC3")
    theta, _, steps, promised = ascend(
        climb.look, climb.step, climb.first, tolerance=TOLERANCE, iterations=ITERATIONS
    )
    if promised > TOLERANCE**2:
        raise _no_fit()
    now = climb.look(theta)
    found = climb.errors(theta, now, kind)
    return FamilyFit(
        value=climb.back @ theta,
        errors=found,
        rows=now.rows,
        steps=steps,
        dispersion=now.pearson / (now.rows - len(theta)) if now.rows > len(theta) else 1.0,
    )


class _Law(ABC):
    """Mean, its slope, and variance, as functions of η."""

    def __init__(self, added: float) -> None:
        self.added = added

    @abstractmethod
    def terms(self, eta: Array) -> tuple[Array, Array, Array]:
        """μ, μ', and v(μ) without the release noise."""

    @abstractmethod
    def height(self, z: Array, eta: Array) -> Array:
        """The quasi-likelihood; for randomised response the log-likelihood up to a constant."""

    @abstractmethod
    def start(self, mean: float, rows: int) -> float:
        """A constant η to begin at."""


def _chances(eta: Array) -> tuple[Array, Array]:
    """1/(1 + e^−η) and 1/(1 + e^η), neither of them as 1 minus the other."""
    small = np.exp(-np.abs(eta))
    large = 1 / (1 + small)
    small *= large
    up = eta > 0
    return np.where(up, large, small), np.where(up, small, large)


class _Binomial(_Law):
    def terms(self, eta: Array) -> tuple[Array, Array, Array]:
        yes, no = _chances(eta)
        slope = yes * no
        return yes, slope, slope

    def height(self, z: Array, eta: Array) -> Array:
        """((1 + r − z) ln(1 − μ + r) + (z + r) ln(μ + r))/(1 + 2r), V = (1 − μ + r)(μ + r)."""
        root = math.sqrt(1 + 4 * self.added)
        r = 2 * self.added / (1 + root)
        if r > 0:
            yes, no = (np.log(chance + r) for chance in _chances(eta))
        else:  # a chance may be below every number, its logarithm not
            yes, no = (scipy.special.log_expit(x) for x in (eta, -eta))
        return np.asarray(((1 + r - z) * no + (z + r) * yes) / root)

    def start(self, mean: float, rows: int) -> float:
        return 0.0


class _Poisson(_Law):
    def terms(self, eta: Array) -> tuple[Array, Array, Array]:
        with np.errstate(over="ignore"):
            mean = np.exp(eta)
        return mean, mean, mean

    def height(self, z: Array, eta: Array) -> Array:
        with np.errstate(over="ignore"):
            mean = np.exp(eta)
        if self.added > 0 and np.isfinite(mean).all():
            return np.asarray((z + self.added) * np.log(mean + self.added) - mean)
        log_a = math.log(self.added) if self.added > 0 else -math.inf
        return np.asarray((z + self.added) * np.logaddexp(eta, log_a) - mean)

    def start(self, mean: float, rows: int) -> float:
        """ln of the mean, or of its standard error where noise has made that one the larger."""
        return math.log(max(mean, math.sqrt((max(mean, 0.0) + self.added) / rows), 1e-300))


@dataclass
class _Sums:
    """Sums over all rows at one θ, in the units of the first pass."""

    size: int
    height: float = 0.0
    pearson: float = 0.0
    rows: int = 0
    gradient: Array = field(init=False)
    information: Array = field(init=False)

    def __post_init__(self) -> None:
        self.gradient, self.information = np.zeros(self.size), np.zeros((self.size, self.size))


class _Climb:
    """Rows that are read again and again, in units in which HᵀH is K times the identity."""

    def __init__(self, rows: Rows, law: _Law) -> None:
        self.rows, self.law, self.weighted, self.most = rows, law, False, 0.0
        sums: RunningLeastSquares | None = None
        count, total, ones = 0, 0.0, np.zeros(0)
        for H, z, weight in self._chunks():
            if sums is None:
                n = H.shape[1]
                sums, ones = RunningLeastSquares(n, rounding(n)), np.zeros(n)
            sums.add(np.asfortranarray(np.column_stack([H, z])), np.abs(H))
            self.weighted |= weight is not None
            count, total, ones = count + len(z), total + float(z.sum()), ones + H.sum(axis=0)
        if sums is None:
            raise InvalidInput("the release has no rows with a reading.")
        if not sums.full:
            raise NotIdentifiable(
                "the rows do not determine all coefficients. More rows are needed, or fewer.",
                sums.root().hidden,
            )
        self.size, self.count = sums.parameters, count
        inverse = np.linalg.inv(np.triu(sums.triangle[: self.size, : self.size]))
        self.back = inverse * math.sqrt(count)
        # The constant η that is nearest to a first guess, in these units: least squares of it.
        self.first = law.start(total / count, count) * (self.back.T @ ones) / count

    def _chunks(self) -> Iterator[tuple[Array, Array, Array | None]]:
        for part in self.rows():
            for at in range(0, len(part.z), CHUNK):
                piece = slice(at, at + CHUNK)
                weight = np.asarray(part.weight)
                yield part.H[piece], part.z[piece], weight[piece] if weight.ndim else None

    def look(self, theta: Array) -> _Sums:
        """One pass."""
        sums, added = _Sums(self.size), self.law.added
        for H, z, weight in self._chunks():
            unit = H @ self.back
            eta = unit @ theta
            mean, slope, own = self.law.terms(eta)
            variance = own + added
            height = self.law.height(z, eta)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                ratio = np.where(slope > 0, slope / variance, 0.0)
                left, share = ratio * (z - mean), ratio * slope
                pearson = (z - mean) ** 2 / variance
            if weight is not None:
                height, left, share = height * weight, left * weight, share * weight
            sums.height += float(height.sum())
            sums.gradient += left @ unit
            sums.information += unit.T @ (share[:, None] * unit)
            sums.pearson += float(pearson[np.isfinite(pearson)].sum())
            sums.rows += len(z)
        return sums

    def step(self, theta: Array, now: _Sums) -> tuple[Array, float]:
        """Fisher scoring: J⁻¹g, and the rise that it promises, twice."""
        values, vectors = np.linalg.eigh(now.information)
        self.most = max(self.most, float(values[-1]))
        if not values[0] > HIDDEN * self.most:
            raise _no_fit()
        along = vectors.T @ now.gradient
        return vectors @ (along / values), float((along**2 / values).sum())

    def errors(self, theta: Array, now: _Sums, kind: Kind) -> Errors:
        """At θ̂: the inverse information, or the sandwich of the whitened rows."""
        n = self.size
        inverse, bare, open_ = np.linalg.inv(now.information), np.zeros((n, n)), np.zeros((n, n))
        for H, _, weight in self._chunks():
            unit = H @ self.back
            _, slope, own = self.law.terms(unit @ theta)
            ratio = slope / (own + self.law.added) * (1.0 if weight is None else weight)
            bare += unit.T @ ((ratio**2 * own)[:, None] * unit)
            open_ += unit.T @ (own[:, None] * unit)  # μ'²/v = v: both links are canonical
        sampling, best = inverse @ bare @ inverse, np.linalg.inv(open_)
        found = Errors(
            covariance=self.turned(inverse),
            degrees_of_freedom=None,
            floor=None,
            sampling=self.turned(sampling),
            classical=self.turned(best),
            method="maximum likelihood",
        )
        if kind == "model":
            return found
        known, none = found.covariance, np.zeros(n)
        robust, _ = row_errors("HC3", none, known, lambda: self.whitened(theta))
        return replace(robust, classical=found.classical)

    def whitened(self, theta: Array) -> Iterator[WeightedRows]:
        """Rows hμ'/√V and residuals (z − μ)/√V, in the units of the coefficients."""
        for H, z, weight in self._chunks():
            mean, slope, own = self.law.terms(H @ self.back @ theta)
            root = np.sqrt(own + self.law.added)
            size = 1.0 if weight is None else weight
            known = self.law.added / root**2
            yield WeightedRows(H * (slope / root)[:, None], (z - mean) / root, size, known)

    def turned(self, inner: Array) -> Array:
        """A covariance in the units of the coefficients."""
        return np.asarray(self.back @ inner @ self.back.T)


def _no_fit() -> NotIdentifiable:
    return NotIdentifiable(
        "there is no finite fit: for some combination of the features the released answers are as "
        "one-sided as the noise can make them, and a coefficient runs away. That is chance where "
        "rows are few or the noise is strong. Use fewer features, more rows or a larger epsilon; "
        "the linear model (family gaussian) always has a fit."
    )


def coin_rows(epsilon: float, chance: float, rows: int) -> tuple[float, float]:
    """(K(1 − 2q)², K_eff/K) of a logistic regression from randomised response with p about
    `chance`.

    The fit is of use from about 200 on; the second is p(1 − p)/(p(1 − p) + 1/s).

    >>> useful, share = coin_rows(1.0, 0.2, 1000)
    >>> round(useful), round(share, 2)
    (214, 0.15)
    """
    own = chance * (1 - chance)
    return rows * math.tanh(epsilon / 2) ** 2, own / (own + 1 / (4 * math.sinh(epsilon / 2) ** 2))
