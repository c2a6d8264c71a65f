"""How good an estimate is; one level for all rows, σ² unknown: from the scatter of the release.

    z = Hθ + w + noise ,  w ~ N(0, σ²I) ,  noise of known variance a = 1/s a row (Laplace: 2/s)
    v = σ² + a ,  v̂ = RSS/f ,  f = K − n ,  A = (HᵀH)⁻¹
    v̂/v ~ χ²_f/f, independent of θ̂:   (θ̂_j − θ_j)/√(v̂A_jj) ~ t_f  exactly .

σ² is needed for no standard error. That v is at least a is known: intervals are at least those of
the release noise alone, max(t_f√v̂, q√a)·√A_jj with the normal quantile q. (Plain t_f is exact
overall, but covers .83 of 95 % at sσ² = 1 given that v̂ came out below a; floored .950 to .983.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, as_confidence
from privest.errors import InvalidInput
from privest.estimator._reference import pooled_variance
from privest.records import Record, quantile, standard_errors


@dataclass(frozen=True, eq=False, kw_only=True)
class Errors(Record):
    """What an `estimator.Result` holds beside its estimate, by one way of finding errors.

    covariance          (n, n) of θ̂, release noise included.
    degrees_of_freedom  of Student's t, one number or one a coefficient; None: normal.
    floor               (n,) standard errors by the known release noise alone, which those of the
                        covariance are not below; None: not needed.
    sampling            (n, n): the part that is there without release noise, or None.
    classical           (n, n): the covariance without privacy; None where noise hides it.
    method              how the errors were made, in a few words for people.
    """

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
        """Errors of the size of `covariance`, not below those of the release noise alone.

        known  (n, n): the covariance of θ̂ by the release noise, C_r.

            covariance = C_r + sampling ,   sampling = (covariance − C_r)₊   (`without_noise`)

        Where that is larger than `covariance` degrees of freedom rise, so that 95 % intervals are
        those of max(t·√covariance_jj, 1.96·√C_r,jj) or 1.96 new standard errors. (Plain t is exact
        overall, but covers .83 at sσ² = 1 given that the scatter came out below the known noise;
        so .950 to .983.) Coefficients whose variance is NaN stay so.
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
        """The same by the names of the fields of a `Result`."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def _is_seen(covariance: Array, known: Array, freedom: Array) -> bool:
    """Whether what noise leaves of every variance is beyond chance: 2 sd, each √(2/f) of it."""
    whole, noise = np.diagonal(covariance), np.diagonal(known)
    told = np.isfinite(whole)
    chance = np.where(noise > 0, 2 * np.sqrt(2 / freedom), 0.0)
    return bool((whole - noise > chance * whole)[told].all())


def freedom_of(wide: Array, freedom: Array) -> Array:
    """Degrees of freedom whose 95 % quantile is `wide`: `freedom` to rounding, else by Student's t.

    Infinite where it is at most the normal one.
    """
    normal = quantile(CONFIDENCE) * (1 + 1e-9)
    found = scipy.special.stdtridf((1 + CONFIDENCE) / 2, np.maximum(wide, normal))
    same = np.isclose(wide, quantile(CONFIDENCE, freedom), rtol=1e-9)
    return np.where(same, freedom, np.where(wide > normal, found, np.inf))


def without_noise(covariance: Array, known: Array) -> Array:
    """What is left of a covariance without release noise, whose part of it is `known`.

    covariance − known, without the directions in which that is negative, which is chance: with
    known = LLᵀ the eigenvalues of L⁻¹·covariance·L⁻ᵀ less 1, and 0 where they are below. For
    covariance = v̂A and known = aA it is max(v̂ − a, 0)·A.
    """
    if not known.any():
        return covariance.copy()
    root = np.linalg.cholesky(known)
    half = np.linalg.solve(root, covariance)
    scaled = np.linalg.solve(root, half.T)
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    turned = root @ vectors
    return np.asarray((turned * np.maximum(values - 1.0, 0.0)) @ turned.T)


UPPER = 0.9  # confidence of the upper limit of σ² that the prediction of a reading is made with


@dataclass(frozen=True)
class Scatter(Record):
    """What the residuals of a release say of the variance of a row.

    squares  RSS = ‖z − Hθ̂‖² of least squares on the release.
    freedom  f = K − n; at least 1.
    added    the known variance a of the release noise on one reading.

    >>> found = Scatter(squares=30.0, freedom=10, added=1.0)
    >>> found.total, found.noise_variance
    (3.0, 2.0)
    >>> [round(end, 3) for end in found.noise_interval()]  # 30/20.483 − 1, 30/3.247 − 1
    [0.465, 8.239]
    >>> Scatter(squares=2.0, freedom=10, added=1.0).noise_interval() is None  # below zero: "≈ 0"
    True
    """

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
        """σ̂² = v̂ − a, and 0 where that is negative, which is normal for sσ² ≲ 1.

        Its relative deviation is √(2/f)(1 + 1/(sσ²)); it is 0 with the probability
        P(χ²_f < f/(1 + sσ²)).
        """
        return max(self.total - self.added, 0.0)

    def noise_interval(self, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
        """The exact interval of σ²: [RSS/χ²_hi − a, RSS/χ²_lo − a] ∩ [0, ∞); None where empty.

        It is empty with a probability of at most (1 − confidence)/2, where σ² is about 0.
        """
        low, high = (self._end(p) for p in _tails(confidence))
        return None if high < 0 else (max(low, 0.0), high)

    def upper(self, confidence: float = UPPER) -> float:
        """The one-sided upper limit of σ², not below 0."""
        return upper_variance(self.total, self.freedom, self.added, confidence)

    def _end(self, tail: float) -> float:
        """Where σ² makes RSS the quantile of χ²_f with this probability below it."""
        with np.errstate(divide="ignore"):
            return float(self.squares / scipy.special.chdtri(self.freedom, 1 - tail)) - self.added


def upper_variance(total: float, freedom: float, added: float, confidence: float = UPPER) -> float:
    """The one-sided upper limit of σ² where `total` estimates σ² + a, a = `added`, as χ²/f does.

    f = `freedom`. Not below 0.
    """
    quantile = scipy.special.chdtri(freedom, as_confidence(confidence))
    return max(float(total * freedom / quantile) - added, 0.0)


def _tails(confidence: float) -> tuple[float, float]:
    """Probabilities below the quantiles that give the lower and the upper end of a variance."""
    outside = (1 - as_confidence(confidence)) / 2
    return 1 - outside, outside


def require_freedom(freedom: int) -> None:
    """Refuse a fit that leaves no row to see the noise by."""
    if freedom < 1:
        raise InvalidInput(
            "there are as many coefficients as rows: nothing is left over to see the noise by, and "
            "no error can be told. More rows are needed, fewer features, or a stated noise "
            "variance (errors 'stated')."
        )


def unknown_errors(inverse: Array, scatter: Scatter) -> Errors:
    """Errors of least squares where σ² is not known: v̂A with t_f, floored at aA.

    `inverse` = A = (HᵀH)⁻¹. Exact for Gaussian w and release noise; for Laplace or t₃ w at K = 15
    it covers .945 to .955 of 95 % at every level.
    """
    known, freedom = scatter.added * inverse, float(scatter.freedom)
    return Errors.above(known, scatter.total * inverse, freedom, "Student's t from the release")


def stated_errors(inverse: Array, noise_variance: float, added: float) -> Errors:
    """Errors of least squares where σ² is known: (σ² + a)A, normal."""
    return Errors(
        covariance=(noise_variance + added) * inverse,
        degrees_of_freedom=None,
        floor=None,
        sampling=noise_variance * inverse,
        classical=noise_variance * inverse,
        method="the stated noise variance",
    )


# --- whether a release scatters as its header says, with p-values that are what they say  ---------


DOUBTFUL = 1e-3  # p-values below this are told to people
NODES = 400  # quantiles of the reference's χ², over which its p-value is averaged


def stated_p(squares: float, freedom: int, variance: float) -> float:
    """Two-sided p-value of RSS/v ~ χ²_f, v = σ² + a known, Gaussian noise: exact.

    >>> round(stated_p(10.0, 10, 1.0), 3), stated_p(40.0, 10, 1.0) < 1e-4
    (0.881, True)
    """
    return _two_sided(freedom, np.array([squares / variance]))


def robust_p(
    squares: float, freedom: int, variance: float, moments: tuple[float, float], rows: int
) -> float:
    """The same where the noise may be any, from its own fourth moment: K large.

        var T ≈ (m₄/m₂² − 1)/K ,   m_q = Σ|e|^q/K   (`moments`: Σe², Σe⁴)

    At 1e-3 its false alarms are .001 to .007 for Laplace, t₅ and χ²₁ noise.
    """
    second, fourth = moments
    if not second > 0:
        return 0.0
    deviation = math.sqrt(max(rows * fourth / second**2 - 1, 0.0) / rows)
    distance = abs(squares / (freedom * variance) - 1)
    if not deviation > 0:
        return 0.0 if distance > 0 else 1.0
    return float(2 * scipy.special.ndtr(-distance / deviation))


def misfit_p(
    squares: float, freedom: int, variance: float, moments: tuple[float, float], rows: int
) -> float:
    """The larger of the two: an alarm needs both.

    The exact one takes heavy tails for a wrong variance, the robust one knows too little of a few
    rows.
    """
    return max(
        stated_p(squares, freedom, variance), robust_p(squares, freedom, variance, moments, rows)
    )


def reference_p(
    squares: float, freedom: int, reference: float, reference_freedom: int, added: float
) -> float:
    """Two-sided p-value where σ² is σ̂_r² of a reference set with m degrees of freedom.

        T = v̂/(σ̂_r² + a) ,   P(T > t) = E_{χ²_m} sf_{χ²_f}( t·f·(σ²χ²_m/m + a)/v )

    at the pooled σ² (`pooled_variance`), by 400 quantiles of χ²_m. False alarms at .01: .004 to
    .011; at .001: .0005 to .002, for every m. With m = 3 nothing has power.
    """
    variance, _ = pooled_variance(reference, reference_freedom, squares, freedom, added)
    middles = (np.arange(NODES) + 0.5) / NODES
    drawn = scipy.special.chdtri(reference_freedom, 1 - middles) / reference_freedom
    ratio = squares / (reference + added)  # t·f
    return _two_sided(freedom, ratio * (variance * drawn + added) / (variance + added))


def less_noise_p(squares: float, freedom: int, added: float) -> float:
    """P(χ²_f ≤ RSS/a): how likely so little scatter is if the header's noise is in the release.

    Whatever the readings are, RSS is at least that of the noise in law: below 1e-3 the release
    holds less Gaussian noise than its header says, with a false alarm of at most 1e-3. It has no
    power once sσ² ≥ 1: silence proves nothing. For randomised response it does not hold.
    """
    return float(scipy.special.chdtr(freedom, squares / added))


def _two_sided(freedom: int, squares: Array) -> float:
    """Twice the smaller of the two tails of χ²_f, each its mean over `squares`."""
    tails = scipy.special.chdtr(freedom, squares), scipy.special.chdtrc(freedom, squares)
    return min(1.0, 2 * min(float(tail.mean()) for tail in tails))
