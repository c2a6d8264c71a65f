"""Standard errors with one level for all rows; σ² unknown: from the residuals of the release.

z = Hθ + w + noise ,  w ~ N(0, σ²I) ,  noise of known variance a = 1/s a row (Laplace: 2/s)
v = σ² + a ,  v̂ = RSS/f ,  f = K − n ,  A = (HᵀH)⁻¹ ,   (θ̂_j − θ_j)/√(v̂A_jj) ~ t_f  exactly .
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, ArrayLike, as_confidence
from privest.errors import InvalidInput
from privest.records import Record, quantile, standard_errors


@dataclass(frozen=True, eq=False, kw_only=True)
class Errors(Record):
    """The fields of a `pv.Estimate` beside its value, by one way of computing errors."""

    covariance: Array
    degrees_of_freedom: float | Array | None
    floor: Array | None
    sampling: Array | None
    classical: Array | None
    method: str

    @classmethod
    def above(
        cls, known: Array, covariance: Array, degrees_of_freedom: float | Array, method: str
    ) -> Self:
        """Errors of the size of `covariance`, not below those C_r of the privacy noise, `known`.

            covariance = C_r + sampling ,   sampling = (covariance − C_r)₊   (`without_noise`)

        Where that is larger, degrees of freedom rise, so that 95% intervals are those of
        max(t·√covariance_jj, 1.96·√C_r,jj): coverage .950 to .983. NaN variances stay.
        """
        told = np.isfinite(np.diagonal(covariance))
        place = np.ix_(told, told)
        sampling = np.full_like(covariance, np.nan)
        sampling[place] = without_noise(covariance[place], known[place])
        whole = known + sampling
        freedom = np.broadcast_to(np.asarray(degrees_of_freedom, float), told.shape)
        size, floor = standard_errors(whole), standard_errors(known)
        with np.errstate(divide="ignore", invalid="ignore"):
            wide = quantile(CONFIDENCE, freedom) * standard_errors(covariance)
            wide = np.maximum(wide, quantile(CONFIDENCE) * floor) / size
        new = np.where(np.isfinite(wide), freedom_of(wide, freedom), freedom)
        return cls(
            covariance=whole,
            degrees_of_freedom=degrees_of_freedom if np.array_equal(new, freedom) else new,
            floor=floor,
            sampling=sampling,
            classical=sampling if _is_seen(covariance, known, freedom) else None,
            method=method,
        )

    def fields(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}


def _is_seen(covariance: Array, known: Array, freedom: Array) -> bool:
    """Whether every variance exceeds the known noise by more than chance: 2 sd of √(2/f) each."""
    whole, noise = np.diagonal(covariance), np.diagonal(known)
    told = np.isfinite(whole)
    chance = np.where(noise > 0, 2 * np.sqrt(2 / freedom), 0.0)
    return bool((whole - noise > chance * whole)[told].all())


def freedom_of(wide: Array, freedom: Array) -> Array:
    """Degrees of freedom whose 95% quantile of t is `wide`; `freedom` where that is it already."""
    normal = quantile(CONFIDENCE) * (1 + 1e-9)
    found = scipy.special.stdtridf((1 + CONFIDENCE) / 2, np.maximum(wide, normal))
    same = np.isclose(wide, quantile(CONFIDENCE, freedom), rtol=1e-9)
    return np.where(same, freedom, np.where(wide > normal, found, np.inf))


def without_noise(covariance: Array, known: Array) -> Array:
    """(covariance − known)₊, in units of `known`: negative directions are chance."""
    if not known.any():
        return covariance.copy()
    root = np.linalg.cholesky(known)
    half = np.linalg.solve(root, covariance)
    scaled = np.linalg.solve(root, half.T)
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    turned = root @ vectors
    return np.asarray((turned * np.maximum(values - 1.0, 0.0)) @ turned.T)


UPPER = 0.9  # confidence of the upper limit of σ² that the prediction of a measurement is made with


@dataclass(frozen=True)
class Scatter(Record):
    """Residual variance: RSS `squares`, f = K − n ≥ 1, privacy noise of variance a = `added`."""

    squares: float
    freedom: int
    added: float

    DERIVED: ClassVar[tuple[str, ...]] = ("total", "noise_variance")

    def __post_init__(self) -> None:
        require_freedom(self.freedom)

    @property
    def total(self) -> float:
        """v̂ = RSS/f, unbiased for σ² + a."""
        return self.squares / self.freedom

    @property
    def noise_variance(self) -> float:
        """σ̂² = (v̂ − a)₊; 0 is common for sσ² ≲ 1."""
        return max(self.total - self.added, 0.0)

    @property
    def noise_freedom(self) -> float:
        """2σ̂⁴/var σ̂²: degrees of freedom of σ̂²."""
        return self.freedom * (self.noise_variance / self.total) ** 2 if self.squares > 0 else 0.0

    def noise_interval(self, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
        """Exact interval [RSS/χ²_hi − a, RSS/χ²_lo − a] ∩ [0, ∞) of σ²; None where empty."""
        outside = (1 - as_confidence(confidence)) / 2
        with np.errstate(divide="ignore"):
            ends = self.squares / scipy.special.chdtri(self.freedom, [outside, 1 - outside])
        low, high = (ends - self.added).tolist()
        return None if high < 0 else (max(low, 0.0), high)

    def upper(self) -> float:
        """Upper limit of σ² ≥ 0: v̂ is distributed as v·χ²_f/f."""
        quantile = scipy.special.chdtri(self.freedom, UPPER)
        return max(float(self.total * self.freedom / quantile) - self.added, 0.0)


def require_freedom(freedom: int) -> None:
    if freedom < 1:
        raise InvalidInput(
            "there are as many coefficients as rows: nothing is left over to estimate an error "
            "from. More rows are needed, or fewer features."
        )


def unknown_errors(inverse: Array, scatter: Scatter) -> Errors:
    """v̂A with t_f, not below aA: exact for Gaussian noise of unknown σ²."""
    known, freedom = scatter.added * inverse, float(scatter.freedom)
    return Errors.above(known, scatter.total * inverse, freedom, "Student's t from the release")


# --- whether a release scatters as its header says, with p-values that are what they say ----------


DOUBTFUL = 1e-3  # p-values below this are told to people


def stated_p(squares: float, freedom: int, variance: float) -> float:
    """Two-sided p-value of RSS/v ~ χ²_f, v = σ² + a known: exact for Gaussian noise."""
    return _two_sided(freedom, np.array([squares / variance]))


def less_noise_p(squares: float, freedom: int, added: float) -> float:
    """P(χ²_f ≤ RSS/a): the chance of so small residuals under the stated noise, for any y."""
    return float(scipy.special.chdtr(freedom, squares / added))


def _two_sided(freedom: int, squares: Array) -> float:
    tails = scipy.special.chdtr(freedom, squares), scipy.special.chdtrc(freedom, squares)
    return min(1.0, 2 * min(float(tail.mean()) for tail in tails))


# --- coefficients of y = ln x -------------------------------------------------------------------


def as_percent(theta: ArrayLike) -> Array:
    """100(e^θ − 1): by how many per cent x grows for one unit more."""
    with np.errstate(over="ignore"):  # +inf % is what a coefficient of 800 says
        return 100 * np.expm1(np.asarray(theta, dtype=np.float64))
