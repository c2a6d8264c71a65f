"""Logistic and Poisson regression from a release.

    E z = μ(η) ,  η = hᵀθ ,   var z = V = v(μ) + a ,   a the privacy noise on a value
    binomial: μ = 1/(1 + e^−η), v = μ(1 − μ);   poisson: μ = v = e^η

Quasi-likelihood Σ h·μ'(z − μ)/V = 0, information Σ hhᵀμ'²/V. For randomised response it is the
likelihood of the bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import scipy

from privest.arrays import Array, as_choice, as_number
from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator._ascend import ascend
from privest.estimator.inference._errors import Errors
from privest.estimator.inference._sandwich import Rows, WeightedRows, row_errors
from privest.linalg.running import RunningLeastSquares
from privest.linalg.tolerances import rounding
from privest.records import Record

Family = Literal["binomial", "poisson"]
Kind = Literal["model", "HC3"]

CHUNK = 4096  # rows looked at together
TOLERANCE = 1e-7  # in standard errors: the last step is shorter than that
HIDDEN = 1e-7  # information left along a direction, of that at the start or of the largest
LARGEST = 500.0  # η of a Poisson mean: e^η is still a number


@dataclass(frozen=True, eq=False, kw_only=True)
class FamilyFit(Record):
    """θ̂ of a logistic or Poisson regression."""

    value: Array
    errors: Errors
    rows: int
    steps: int


def fit_family(
    rows: Rows, family: Family, added: float, *, errors: Kind | None = None
) -> FamilyFit:
    """θ̂ from rows (H, z, weight), z debiased, that can be read again: some fifteen passes.

    added    a ≥ 0; of randomised response 1/level.
    errors   "model" (default of binomial) or "HC3" (default of poisson, and with weights).

    NotIdentifiable where the features are dependent or no finite fit exists.
    """
    noise = as_number(added, "added")
    if noise < 0:
        raise InvalidInput("added is a variance, 0 or more.")
    laws: dict[str, _Law] = {"binomial": _Binomial(noise), "poisson": _Poisson(noise)}
    sums = _Passes(rows, laws[as_choice(family, laws, "family")])
    if errors is not None:
        as_choice(errors, get_args(Kind), "errors")
    kind = errors or ("model" if family == "binomial" and not sums.weighted else "HC3")
    free = np.full(sums.size, np.inf)
    theta, _, steps, left = ascend(sums.look, sums.first, (-free, free), TOLERANCE)
    now = sums.look(theta)
    seen = np.linalg.eigvalsh(now.curvature)
    if left > TOLERANCE**2 or not seen[0] > HIDDEN * max(seen[-1], 1.0):
        raise NotIdentifiable(
            "there is no finite fit: for some combination of the features the released answers are "
            "as one-sided as the noise can make them, and a coefficient runs away. That is chance "
            "where rows are few or the noise is strong. Use fewer features, more rows or a larger "
            "epsilon; the linear model (family gaussian) always has a fit."
        )
    return FamilyFit(
        value=sums.back @ theta,
        errors=sums.errors(theta, now, kind),
        rows=now.rows,
        steps=steps,
    )


# Mean μ, its slope and the variance v of a value as functions of η (`terms`), the quasi-likelihood
# (`height`), and a constant η to begin at (`start`).


@dataclass(frozen=True)
class _Binomial:
    added: float

    def terms(self, eta: Array) -> tuple[Array, Array, Array]:
        yes = scipy.special.expit(eta)
        slope = yes * scipy.special.expit(-eta)
        return yes, slope, slope

    def height(self, z: Array, eta: Array) -> Array:
        """((1 + r − z) ln(1 − μ + r) + (z + r) ln(μ + r))/(1 + 2r), V = (1 − μ + r)(μ + r)."""
        root = math.sqrt(1 + 4 * self.added)
        r = 2 * self.added / (1 + root)
        if r > 0:
            yes, no = (np.log(scipy.special.expit(x) + r) for x in (eta, -eta))
        else:  # a chance may be below every number, its logarithm not
            yes, no = (scipy.special.log_expit(x) for x in (eta, -eta))
        return np.asarray(((1 + r - z) * no + (z + r) * yes) / root)

    def start(self, mean: float, rows: int) -> float:
        return 0.0


@dataclass(frozen=True)
class _Poisson:
    added: float

    def terms(self, eta: Array) -> tuple[Array, Array, Array]:
        mean = np.exp(np.minimum(eta, LARGEST))
        return mean, mean, mean

    def height(self, z: Array, eta: Array) -> Array:
        eta = np.minimum(eta, LARGEST)
        log_a = math.log(self.added) if self.added > 0 else -math.inf
        return np.asarray((z + self.added) * np.logaddexp(eta, log_a) - np.exp(eta))

    def start(self, mean: float, rows: int) -> float:
        """ln of the mean, or of its standard error where noise has made that one the larger."""
        return math.log(max(mean, math.sqrt((max(mean, 0.0) + self.added) / rows), 1e-300))


_Law = _Binomial | _Poisson


@dataclass
class _Sums:
    height: float
    gradient: Array
    curvature: Array  # the expected information
    rows: int = 0


class _Passes:
    """Rows read again and again, in coordinates in which the information at the start is I."""

    def __init__(self, rows: Rows, law: _Law) -> None:
        self.rows, self.law, self.weighted = rows, law, False
        sums: RunningLeastSquares | None = None
        count, total, ones = 0, 0.0, np.zeros(0)
        for H, z, _ in self._chunks():
            if sums is None:
                n = H.shape[1]
                sums, ones = RunningLeastSquares(n, rounding(n)), np.zeros(n)
            sums.add(np.asfortranarray(np.column_stack([H, z])), np.abs(H))
            count, total, ones = count + len(z), total + float(z.sum()), ones + H.sum(axis=0)
        if sums is None:
            raise InvalidInput("the release has no rows with a measurement.")
        if not sums.full:
            raise NotIdentifiable(
                "the rows do not determine all coefficients. More rows are needed, or fewer.",
                sums.root().hidden,
            )
        self.size = sums.parameters
        self.back = np.linalg.inv(np.triu(sums.triangle[: self.size, : self.size]))
        # The constant η that is nearest to a first guess: least squares of it.
        first = law.start(total / count, count) * (self.back.T @ ones)
        lower = np.linalg.cholesky(self.look(first).curvature)
        self.back, self.first = np.linalg.solve(lower, self.back.T).T, lower.T @ first

    def _chunks(self) -> Iterator[tuple[Array, Array, Array]]:
        for part in self.rows():
            self.weighted |= np.ndim(part.weight) > 0
            weight = np.broadcast_to(part.weight, part.z.shape)
            for at in range(0, len(part.z), CHUNK):
                piece = slice(at, at + CHUNK)
                yield part.H[piece], part.z[piece], weight[piece]

    def look(self, theta: Array) -> _Sums:
        sums = _Sums(0.0, np.zeros(self.size), np.zeros((self.size, self.size)))
        for H, z, weight in self._chunks():
            unit = H @ self.back
            eta = unit @ theta
            mean, slope, own = self.law.terms(eta)
            variance = own + self.law.added
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                ratio = weight * np.where(slope > 0, slope / variance, 0.0)
            sums.height += float(weight @ self.law.height(z, eta))
            sums.gradient += (ratio * (z - mean)) @ unit
            sums.curvature += unit.T @ ((ratio * slope)[:, None] * unit)
            sums.rows += len(z)
        return sums

    def errors(self, theta: Array, now: _Sums, kind: Kind) -> Errors:
        """At θ̂: the inverse information, or the sandwich of the whitened rows."""
        n = self.size
        inverse, bare, open_ = np.linalg.inv(now.curvature), np.zeros((n, n)), np.zeros((n, n))
        for H, _, weight in self._chunks():
            unit = H @ self.back
            _, slope, own = self.law.terms(unit @ theta)
            ratio = weight * slope / (own + self.law.added)
            bare += unit.T @ ((ratio**2 * own)[:, None] * unit)
            open_ += unit.T @ (own[:, None] * unit)  # μ'²/v = v: both links are canonical
        known, sampling, classical = (
            self.back @ inner @ self.back.T
            for inner in (inverse, inverse @ bare @ inverse, np.linalg.inv(open_))
        )
        if kind == "model":
            return Errors(
                covariance=known, degrees_of_freedom=None, floor=None, sampling=sampling,
                classical=classical, method="maximum likelihood",
            )  # fmt: skip
        robust, _ = row_errors("HC3", np.zeros(n), known, lambda: self._whitened(theta))
        return replace(robust, classical=classical)

    def _whitened(self, theta: Array) -> Iterator[WeightedRows]:
        """Rows hμ'/√V and residuals (z − μ)/√V, in the units of the coefficients."""
        for H, z, weight in self._chunks():
            mean, slope, own = self.law.terms(H @ self.back @ theta)
            root = np.sqrt(own + self.law.added)
            known = self.law.added / root**2
            yield WeightedRows(H * (slope / root)[:, None], (z - mean) / root, weight, known)


def coin_rows(epsilon: float, chance: float, rows: int) -> tuple[float, float]:
    """(K(1 − 2q)², K_eff/K) of logistic regression from randomised response with p = `chance`.

    The first should be 200 or more; the second is p(1 − p)/(p(1 − p) + 1/s).
    """
    own = chance * (1 - chance)
    return rows * math.tanh(epsilon / 2) ** 2, own / (own + 1 / (4 * math.sinh(epsilon / 2) ** 2))
