"""Standard errors with one level for all rows; σ² unknown: from the residuals of the release.

z = Hθ + w + noise ,  w ~ N(0, σ²I) ,  noise of known variance a = 1/s a row (Laplace: 2/s)
v = σ² + a ,  v̂ = RSS/f ,  f = K − n ,  A = (HᵀH)⁻¹ ,   (θ̂_j − θ_j)/√(v̂A_jj) ~ t_f  exactly .
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import scipy

from privest.arrays import (
    CONFIDENCE,
    EPS,
    Array,
    ArrayLike,
    as_array,
    as_confidence,
    as_count,
    as_number,
    plural,
)
from privest.errors import InvalidInput
from privest.records import Record, quantile, standard_errors


def reference_fit(H: Array, y: Array, where: str = "reference") -> tuple[float, int]:
    """σ² = RSS/(m − rank H) of least squares on public rows H (m, n) and y; and m − rank H."""
    H, y = as_array(H, "H", ndim=2), as_array(y, "y", ndim=1)
    if len(H) != len(y) or not H.size:
        raise InvalidInput(f"H and y need one row a reading; received {H.shape} and {y.shape}.")
    size = np.linalg.norm(H, axis=0)
    scaled = H / np.where(size > 0, size, 1.0)  # the rank must not depend on units
    theta, _, rank, _ = np.linalg.lstsq(scaled, y)
    left = len(H) - int(rank)
    if left < 1:
        raise InvalidInput(
            f"{where} has {plural(len(H), 'row')} for {plural(int(rank), 'coefficient')}: it says "
            "nothing about the noise. Give more rows."
        )
    residual = y - scaled @ theta
    if np.linalg.norm(residual) <= EPS * len(H) * np.linalg.norm(y):
        raise InvalidInput(f"{where} is fitted exactly: it shows no noise. Give the variance.")
    return float(residual @ residual) / left, left


def pooled_variance(
    reference: float, freedom: int, scatter: float, left: int, added: float
) -> tuple[float, float]:
    """σ² from a reference set and a release together, and the degrees of freedom of v = σ² + 1/s.

        f(v − v̂)/v² + m(σ² − σ̂_r²)/σ⁴ = 0 ,  v̂ = RSS/f ;   df = f + m v²/σ⁴  (Satterthwaite)

    `reference` = σ̂_r² with `freedom` m; `scatter` = RSS with `left` = f; `added` = 1/s. 95%
    intervals by t of df cover .945 to .955 for m ≥ 2.
    """
    variance = reference
    if left:
        own = scatter / left - added  # what the release alone says, perhaps negative

        def slope(x: float) -> float:
            return left * (x - own) / (x + added) ** 2 + freedom * (x - reference) / x**2

        # Below this the second term is beyond what the first can be, f·s.
        least = reference * min(0.5, math.sqrt(freedom * added / (2 * left * reference)))
        low, high = min(max(own, least), reference), max(own, reference)
        if low < high:
            variance = float(scipy.optimize.brentq(slope, low, high, xtol=1e-12 * high))
    return variance, left + freedom * ((variance + added) / variance) ** 2


def same_rows(reference: Array, response: Array, H: Array, y: Array) -> bool:
    """Whether a reference set is the private one: memory, rows in any order, or some of them.

    Containment counts only where responses are distinct.
    """
    if np.shares_memory(response, y):
        return True
    smaller, larger = sorted((response, y), key=len)
    if not np.isin(smaller, larger).all():
        return False
    ours, theirs = (
        np.unique(np.column_stack(both), axis=0, return_counts=True)
        for both in ((H, y), (reference, response))
    )
    if all(np.array_equal(a, b) for a, b in zip(ours, theirs)):
        return True
    distinct = all(len(np.unique(each)) == len(each) for each in (smaller, larger))
    together = np.unique(np.concatenate([ours[0], theirs[0]]), axis=0)
    return distinct and len(together) == len(larger)


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


UPPER = 0.9  # confidence of the upper limit of σ² that the prediction of a reading is made with


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

    def noise_interval(self, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
        """Exact interval [RSS/χ²_hi − a, RSS/χ²_lo − a] ∩ [0, ∞) of σ²; None where empty."""
        outside = (1 - as_confidence(confidence)) / 2
        with np.errstate(divide="ignore"):
            ends = self.squares / scipy.special.chdtri(self.freedom, [outside, 1 - outside])
        low, high = (ends - self.added).tolist()
        return None if high < 0 else (max(low, 0.0), high)

    def upper(self, confidence: float = UPPER) -> float:
        return upper_variance(self.total, self.freedom, self.added, confidence)


def upper_variance(total: float, freedom: float, added: float, confidence: float = UPPER) -> float:
    """Upper limit of σ² ≥ 0 where `total` estimates σ² + a as χ²_f/f does."""
    quantile = scipy.special.chdtri(freedom, as_confidence(confidence))
    return max(float(total * freedom / quantile) - added, 0.0)


def require_freedom(freedom: int) -> None:
    if freedom < 1:
        raise InvalidInput(
            "there are as many coefficients as rows: nothing is left over to see the noise by, and "
            "no error can be told. More rows are needed, fewer features, or a stated noise "
            "variance (errors 'stated')."
        )


def unknown_errors(inverse: Array, scatter: Scatter) -> Errors:
    """v̂A with t_f, not below aA: exact for Gaussian noise of unknown σ²."""
    known, freedom = scatter.added * inverse, float(scatter.freedom)
    return Errors.above(known, scatter.total * inverse, freedom, "Student's t from the release")


def stated_errors(inverse: Array, noise_variance: float, added: float) -> Errors:
    """(σ² + a)A, normal: σ² is known."""
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
    """Two-sided p-value of RSS/v ~ χ²_f, v = σ² + a known: exact for Gaussian noise."""
    return _two_sided(freedom, np.array([squares / variance]))


def misfit_p(
    squares: float, freedom: int, variance: float, moments: tuple[float, float], rows: int
) -> float:
    """The larger of the exact p-value and that by fourth moments, var T ≈ (m₄/m₂² − 1)/K."""
    (second, fourth), exact = moments, stated_p(squares, freedom, variance)
    if not second > 0:
        return exact
    deviation = math.sqrt(max(rows * fourth / second**2 - 1, 0.0) / rows)
    distance = abs(squares / (freedom * variance) - 1)
    robust = 2 * scipy.special.ndtr(-distance / deviation) if deviation > 0 else distance == 0
    return max(exact, float(robust))


def reference_p(
    squares: float, freedom: int, reference: float, reference_freedom: int, added: float
) -> float:
    """Two-sided p-value where σ² is σ̂_r² of a reference set with m degrees of freedom.

    T = v̂/(σ̂_r² + a) ,   P(T > t) = E_{χ²_m} sf_{χ²_f}(tf(σ²χ²_m/m + a)/v)  at the pooled σ²
    """
    variance, _ = pooled_variance(reference, reference_freedom, squares, freedom, added)
    middles = (np.arange(NODES) + 0.5) / NODES
    drawn = scipy.special.chdtri(reference_freedom, 1 - middles) / reference_freedom
    ratio = squares / (reference + added)  # t·f
    return _two_sided(freedom, ratio * (variance * drawn + added) / (variance + added))


def less_noise_p(squares: float, freedom: int, added: float) -> float:
    """P(χ²_f ≤ RSS/a): the chance of so small residuals under the stated noise, for any y."""
    return float(scipy.special.chdtr(freedom, squares / added))


def _two_sided(freedom: int, squares: Array) -> float:
    tails = scipy.special.chdtr(freedom, squares), scipy.special.chdtrc(freedom, squares)
    return min(1.0, 2 * min(float(tail.mean()) for tail in tails))


@dataclass(frozen=True, eq=False)
class Joint(Record):
    """Joint result of q columns of a release.

    scatter     V̂ = EᵀE/f (q, q), Wishart;  `covariance` Σ̂ = V̂ − S⁻¹, unbiased.
    statistic   T²_j (n,) of each coefficient, with its exact `p_value`; None where f < q.
    freedom     (q, f − q + 1), of Fisher's F.
    """

    scatter: Array
    covariance: Array
    statistic: Array | None
    p_value: Array | None
    freedom: tuple[int, int]

    DERIVED: ClassVar[tuple[str, ...]] = ("shown_covariance",)

    @property
    def shown_covariance(self) -> Array:
        values, vectors = np.linalg.eigh(self.covariance)
        if values[0] >= 0:
            return self.covariance
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def joint_test(
    estimate: ArrayLike, inverse: ArrayLike, residuals: ArrayLike, freedom: int, added: ArrayLike
) -> Joint:
    """Hotelling's test that row j of B is 0: B̂ (n, q), A (n, n), EᵀE (q, q), f, S⁻¹ (q,) or (q, q).

    T²_j = b̂_jᵀV̂⁻¹b̂_j/A_jj ,   T²_j(f − q + 1)/(qf) ~ F(q, f − q + 1)
    """
    B = as_array(estimate, "the estimates", ndim=2)
    A, squares = as_array(inverse, "A", ndim=2), as_array(residuals, "EᵀE", ndim=2)
    n, q = B.shape
    f = as_count(freedom, "the rows to spare", least=1)
    noise = as_array(added, "the noise of the release", ndim=(1, 2))
    noise = np.diag(noise) if noise.ndim == 1 else noise
    if A.shape != (n, n) or squares.shape != (q, q) or noise.shape != (q, q):
        raise InvalidInput(
            f"{n} coefficients of {q} columns need A {n}×{n}, EᵀE and S⁻¹ {q}×{q}; received shapes "
            f"{A.shape}, {squares.shape}, {noise.shape}."
        )
    V = squares / f
    if f < q:
        return Joint(V, V - noise, None, None, (q, f - q + 1))
    size = np.sqrt(np.diagonal(V))  # columns in units of their residual sd
    if not (size > 0).all():
        raise InvalidInput("a column fits exactly: it shows no noise, and there is no test.")
    try:
        lower = np.linalg.cholesky(V / size / size[:, None])
    except np.linalg.LinAlgError:
        raise InvalidInput(
            "columns are tied: one of them is a combination of the others, noise and all. Leave "
            "one of them out."
        ) from None
    half = scipy.linalg.solve_triangular(lower, (B / size).T, lower=True)
    statistic = (half * half).sum(axis=0) / np.diagonal(A)
    p_value = scipy.special.fdtrc(q, f - q + 1, statistic * (f - q + 1) / (q * f))
    return Joint(V, V - noise, statistic, p_value, (q, f - q + 1))


# --- means in the units of the file, where y = ln x was modelled ---------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class OriginalMean(Record):
    """The mean and the median of x at one row, in the units of the file, with intervals."""

    mean: float
    interval: Array
    median: float
    median_interval: Array
    method: str


def as_percent(theta: ArrayLike) -> Array:
    """100(e^θ − 1): by how many per cent x grows for one unit more."""
    with np.errstate(over="ignore"):  # +inf % is what a coefficient of 800 says
        return 100 * np.expm1(np.asarray(theta, dtype=np.float64))


def likelihood_mean(
    eta: float, variance: float, covariance: ArrayLike, *,
    freedom: float | None = None, confidence: float = CONFIDENCE,
) -> OriginalMean:  # fmt: skip
    """E x = e^{η + σ²/2} and the median e^η at a row, η̂ = hᵀθ̂ and σ̂² with this `covariance` (2, 2).

    e^{η̂ + σ̂²/2 − c/2}, c the variance of the exponent, is unbiased to second order.
    """
    cov = as_array(covariance, "covariance", ndim=2)
    half = np.array([1.0, 0.5])
    spread = float(half @ cov @ half)
    middle = as_number(eta, "eta") + as_number(variance, "variance") / 2
    both, q = np.array([-1.0, 1.0]), quantile(confidence, freedom)
    with np.errstate(over="ignore"):
        return OriginalMean(
            mean=float(np.exp(np.float64(middle - spread / 2))),
            interval=np.exp(middle + both * q * math.sqrt(spread)),
            median=float(np.exp(np.float64(eta))),
            median_interval=np.exp(eta + both * q * math.sqrt(float(cov[0, 0]))),
            method="maximum likelihood for logarithms, corrected to second order",
        )
