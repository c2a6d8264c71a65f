"""Maximum likelihood from measurements clipped to a public range before release.

    z_k = clip(y_k, a_k, b_k) + e_k ,   y_k ~ N(h_kᵀθ, σ²c_k) ,   var e_k = n_k known, c_k known

in θ, and in ψ = ln(σ² + n) where σ² is unknown, n the mean of n_k/c_k. By the heat equation

    ∂ℓ/∂σ² = ½c_k(ℓ'² − (1 − Var[y|z]/σ_k²)/σ_k²) .

With σ² unknown Σℓ − ½ ln|Σ h_kh_kᵀ/(σ²c_k + n_k)| is maximised: REML where nothing is clipped.
σ² ends at 10⁻³ of the privacy noise (σ̂² = 0 then); σ at twice the width of the range is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, ArrayLike, as_array, as_confidence, as_positive
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator._ascend import ascend
from privest.estimator.likelihood._clipped import (
    clipped_information,
    clipped_moments,
    clipped_terms,
)
from privest.estimator.result import Estimate
from privest.linalg.running import RunningLeastSquares
from privest.linalg.tolerances import rounding

CHUNK = 8192  # rows at a time: they stay in cache
TOLERANCE = 1e-6  # standard errors that the maximum is away
ENOUGH = 0.01  # the same where the steps have come to an end: a kink, at σ² near 0
DIFFERENCE = 1e-5  # in ψ
LEAST = 1e-3  # σ² in units of n at the end of its range: below it ℓ has kinks where h_kθ is an end
# Information that is left of what is there without clipping; below it: none. Sums of 10⁵ rows are
# rounded by at most 10⁵·2⁻⁵³ = 1.1e-11 of it, on any processor.
HIDDEN = 1e-10
TAIL = 0.005  # of each of the two tests of `_side`


# --- rows ------------------------------------------------------------------------------------


class ClippedRows(NamedTuple):
    """Rows of a clipped release: h_k (rows, n), z_k in the units of y; NaN: missing.

    `variance` σ² (c_k where σ² is unknown), `level` s, `low` and `high` are numbers or one a row.
    """

    H: ArrayLike
    z: ArrayLike
    variance: ArrayLike
    level: ArrayLike
    low: ArrayLike
    high: ArrayLike


Chunk = tuple[Array, Array, Array, Array, Array, Array]


def _chunks(rows: Chunk) -> Iterator[Chunk]:
    H, z, *facts = rows
    for at in range(0, len(H), CHUNK):
        part = slice(at, at + CHUNK)
        a, b, c, d = (fact[part] if fact.ndim else fact for fact in facts)
        yield H[part], z[part], a, b, c, d


def _checked(block: ClippedRows) -> Chunk:
    H = as_array(block.H, "H", ndim=2)
    z = np.asarray(block.z, dtype=np.float64)
    shown = ~np.isnan(z)
    if z.shape != (len(H),):
        raise InvalidInput(f"z has shape {z.shape}; H has {len(H)} rows.")
    facts = []
    for name in ("variance", "level", "low", "high"):
        fact = as_array(getattr(block, name), name, ndim=(0, 1))
        if fact.ndim and len(fact) != len(H):
            raise InvalidInput(f"{name} is a number or one a row: {len(H)}, not {len(fact)}.")
        alike = fact.ndim and len(fact) and (fact == fact[0]).all()
        facts.append(fact[0] if alike else fact[shown] if fact.ndim else fact)
    variance, level, low, high = facts
    if not ((variance > 0).all() and (level > 0).all() and (low < high).all()):
        raise InvalidInput("variance and level must be > 0 and low < high in every row.")
    return H[shown], as_array(z[shown], "z"), variance, level, low, high


# --- whether all measurements lie beyond the range ---------------------------------------------


def _side(z: Array, added: Array, low: Array, high: Array) -> str | None:
    """Where all measurements may lie: "below" or "above"; None: not all do, or the noise hides it.

    If all lie beyond one end b then z_k = b + e_k, and

        m = Σw_k(z_k − b)/√Σw_k ~ N(0, 1) ,   C = Σw_k(z_k − b)² ~ χ²_K ,   w_k = 1/var e_k .

    Not excluded where neither is beyond its 99.5% quantile; undecided where half the range is less
    than twice that quantile in units of m.
    """
    w = np.broadcast_to(1 / added, z.shape)
    weight, quantile = float(w.sum()), -float(scipy.special.ndtri(TAIL))
    if math.sqrt(weight) * float(np.min(high - low)) / 2 < 2 * quantile:
        return None  # the release is too noisy to show anything else
    inward = np.stack([z - low, high - z])
    first, second = inward @ w / math.sqrt(weight), np.square(inward) @ w
    below, above = (first <= quantile) & (second <= scipy.special.chdtri(len(z), TAIL))
    return "below" if below else "above" if above else None


def _one_sided(H: Array) -> bool:
    """Whether some θ puts all rows on one side: h_kᵀd > 0 for d, least squares of 1 on H."""
    d = np.linalg.lstsq(H.T @ H, H.sum(axis=0))[0]
    return bool((H @ d > 0).all())


# --- the estimate ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ClippedResult(Estimate):
    """θ̂ with cov θ̂ = J⁻¹, the inverse of the expected information at θ̂.

    bound           `thm:crbound` without clipping: `efficiency` is what clipping leaves of it.
    measurements    rows used; `clipped` the share of them clipped by the model at θ̂.

    Where σ² was estimated (0 at the end of its range):
    noise_error     the standard error of σ̂².
    added           the mean variance of the privacy noise on a measurement.
    """

    measurements: int
    clipped: float
    log_likelihood: float
    noise_variance: float | None = None
    noise_error: float | None = None
    added: float | None = None

    def noise_interval(self, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
        """Interval of σ², cut at 0, by a χ² for σ̂² + n."""
        if self.noise_variance is None or self.noise_error is None or self.added is None:
            return None
        total, outside = self.noise_variance + self.added, (1 - as_confidence(confidence)) / 2
        freedom = 2 * (total / self.noise_error) ** 2  # without clipping K − n, and it is exact
        low, high = (
            total * freedom / float(scipy.special.chdtri(freedom, tail)) - self.added
            for tail in (outside, 1 - outside)
        )
        return max(low, 0.0), max(high, 0.0)


VARIANCE_HIDDEN = (
    "the release does not tell the measurement noise variance: it may be so large that most "
    "values are clipped. State the noise variance, or release with a wider range or at a higher "
    "level."
)


def estimate_clipped(
    rows: ClippedRows,
    *,
    noise_variance: float = 1.0,
    names: tuple[str, ...] = (),
    variance_known: bool = True,
) -> ClippedResult:
    """θ̂ by maximum likelihood from a release of clipped measurements.

    noise_variance  of e_k: 1, or 1 + 3g²/4 of a real release (`Release.unit_variance`).
    variance_known  False: σ² is a parameter too, `variance` of the rows is in units of it, and
                    intervals are Student's t.

    w and e are Gaussian, independent from row to row. NotIdentifiable where the rows, or what
    clipping left of them, do not determine θ, or all measurements may lie beyond the range.
    """
    noise = as_positive(noise_variance, "noise_variance")
    sums = _Sums(_checked(rows), noise, variance_known)
    at, point, _, left = ascend(sums.look, sums.start, sums.bounds, TOLERANCE)
    if not variance_known and at[-1] >= sums.bounds[1][-1]:
        raise NotIdentifiable(VARIANCE_HIDDEN)
    expected = sums.expected(at)
    share = expected.clipped / sums.measurements
    n = sums.parameters
    root = np.linalg.inv(np.linalg.cholesky(expected.plain))
    least = float(np.linalg.eigvalsh(root @ expected.information[:n, :n] @ root.T)[0])
    if not least > HIDDEN:
        raise NotIdentifiable(
            f"clipping leaves {max(least, 0.0):.1g} of the information about a combination of the "
            f"coefficients ({100 * share:.3g} % of the measurements are clipped): it cannot be "
            "estimated from this release. A wider range is needed."
        )
    if left > (TOLERANCE if variance_known else ENOUGH) ** 2:
        raise NumericalFailure(
            f"no maximum of the likelihood was reached ({math.sqrt(left):.2g} standard errors are "
            "left). Are range, level and noise variance those of the release? A stated noise "
            "variance, or a wider range, makes it easier."
        )
    common: dict[str, Any] = {
        "value": sums.back @ at[:n],
        "bound": sums.turned(np.linalg.inv(expected.plain)),
        "names": names,
        "measurements": sums.measurements,
        "clipped": share,
        "log_likelihood": point.log_likelihood,
    }
    classical, method = np.linalg.inv(expected.shape), "maximum likelihood of clipped measurements"
    if variance_known:
        covariance = sums.turned(np.linalg.inv(expected.information[:n, :n]))
        return ClippedResult(
            **common, covariance=covariance, classical=sums.turned(classical), method=method
        )
    joint = sums.covariance(expected)
    variance = 0.0 if at[-1] <= sums.bounds[0][-1] else sums.variance(at)
    return ClippedResult(
        **common,
        covariance=joint[:n, :n],
        classical=variance * sums.turned(classical),
        degrees_of_freedom=float(sums.measurements - n),
        method=f"{method}, noise variance from the release",
        noise_variance=variance,
        noise_error=math.sqrt(joint[n, n]),
        added=sums.added,
    )


@dataclass
class _Point:
    height: float  # what is maximised
    gradient: Array
    curvature: Array  # minus the second derivatives
    log_likelihood: float = 0.0  # Σℓ alone


@dataclass
class _Expected:
    """Sums expected at the maximum, in the units of the start and in σ²."""

    information: Array  # (n + 1, n + 1): of θ and σ²
    plain: Array  # Σ h_kh_kᵀ/(σ²c_k + 1/s_k)
    shape: Array  # Σ h_kh_kᵀ/c_k
    clipped: float = 0.0


class _Sums:
    """Sums at (θ, ψ), or at θ alone where σ² is `known`, in units of their errors at the start."""

    def __init__(self, rows: Chunk, noise: float, known: bool) -> None:
        self.rows, self.noise, self.known = rows, noise, known
        H, z, shape, level, low, high = rows
        count, n = H.shape
        if not count:
            raise InvalidInput("the release has no rows with a measurement.")
        self.measurements, self.parameters, added = count, n, noise / level
        sums = RunningLeastSquares(n, rounding(n))
        weight = np.reshape(1 / np.sqrt(added + shape if known else added), (-1, 1))
        sums.add(np.asfortranarray(np.column_stack([H, z]) * weight))
        if not sums.full:
            raise NotIdentifiable(
                "the rows do not determine all coefficients, whatever was clipped. More rows are "
                "needed, or fewer coefficients.",
                sums.root().hidden,
            )
        side = _side(z, added, low, high)
        if side is not None and _one_sided(H):
            raise NotIdentifiable(
                f"all measurements may lie {side} the range, as far as this release can tell. "
                "How far is not in it, so that there is no estimate with a finite interval. "
                "Release with a wider public range."
            )
        self.added = float(np.mean(added / shape))
        self.back = np.linalg.inv(np.triu(sums.triangle[:n, :n]))
        free = np.full(n + (not known), np.inf)
        self.bounds = -free, free
        if known:
            self.start = np.linalg.solve(self.back, sums.solution())
            return
        ratio = sums.misfit / (count - n)  # v̂ in units of n
        self.back *= math.sqrt(max(ratio, 1.0))
        self.unit = math.sqrt(2 / (count - n))  # of ψ: its standard error without clipping
        widest = float(((high - low) ** 2 / shape).max())
        least, most = (1 + LEAST) * self.added, 4 * widest + self.added
        self.bounds[0][-1], self.bounds[1][-1] = np.log([least, most]) / self.unit
        first = math.log(min(self.added * max(ratio, 1.05), most)) / self.unit
        self.start = np.append(np.linalg.solve(self.back, sums.solution()), first)

    def variance(self, at: Array, further: float = 0.0) -> float:
        """σ² = e^ψ − n, not below its least value; 1 where it is known."""
        if self.known:
            return 1.0
        away = self.unit * float(at[-1]) + further - math.log(self.added)
        return max(self.added * math.expm1(away), LEAST * self.added)

    def turned(self, covariance: Array) -> Array:
        return np.asarray(self.back @ covariance @ self.back.T)

    def look(self, at: Array) -> _Point:
        n, k = self.parameters, len(at)
        point = _Point(0.0, np.zeros(k), np.zeros((k, k)))
        size, gram = self.variance(at), np.zeros((3, n, n))
        for H, z, shape, level, low, high in _chunks(self.rows):
            unit, noise = H @ self.back, self.noise / level
            rows = z, unit @ at[:n], shape, np.sqrt(noise), low, high
            value, slope, own, spread = self._slopes(rows, size)
            slopes = slope[:, None] * unit
            precision = (1 - spread) / (size * shape)
            point.height += float(value.sum())
            point.curvature[:n, :n] += unit.T @ (precision[:, None] * unit)
            if not self.known:
                _, later, other, _ = self._slopes(rows, self.variance(at, DIFFERENCE))
                slopes = np.column_stack([slopes, own])
                point.curvature[:n, n] -= ((later - slope) / DIFFERENCE) @ unit
                point.curvature[n, n] -= float((other - own).sum()) / DIFFERENCE
                per = 1 / (size * shape + noise)
                for power in range(3):
                    weight = np.broadcast_to(per ** (power + 1) * shape**power, z.shape)
                    gram[power] += unit.T @ (weight[:, None] * unit)
            point.gradient += slopes.sum(axis=0)
        point.log_likelihood = point.height
        if not self.known:
            point.curvature[n, :n] = point.curvature[:n, n]
            self._restrict(point, gram, size)
            for one in (point.gradient[n:], point.curvature[n], point.curvature[:, n]):
                one *= self.unit
        return point

    def _slopes(self, rows: Chunk, size: float) -> tuple[Array, Array, Array, Array]:
        """ℓ, ∂ℓ/∂η, ∂ℓ/∂ψ and Var[y|z]/σ_k² of rows (z, η, c, τ, low, high)."""
        z, eta, shape, tau, low, high = rows
        own = size * shape
        value, slope, spread, _ = clipped_terms(z, eta, np.sqrt(own), tau, low, high)
        by_variance = 0.5 * shape * (slope**2 - (1 - spread) / own)
        return value, slope, (size + self.added) * by_variance, spread

    def _restrict(self, point: _Point, gram: Array, size: float) -> None:
        """Add −½ ln|M|, M = Σ h_kh_kᵀ/v_k, and its derivatives in ψ."""
        total = size + self.added  # dσ²/dψ
        inverse = np.linalg.inv(gram[0])
        turn = inverse @ gram[1]
        value = -0.5 * float(np.linalg.slogdet(gram[0])[1])
        first = 0.5 * float(np.trace(turn))  # in σ²
        second = 0.5 * float(np.trace(turn @ turn)) - float(np.trace(inverse @ gram[2]))
        point.height += value
        point.gradient[-1] += total * first
        point.curvature[-1, -1] -= total * first + total**2 * second

    def expected(self, at: Array) -> _Expected:
        n, size = self.parameters, self.variance(at)
        found = _Expected(np.zeros((n + 1, n + 1)), np.zeros((n, n)), np.zeros((n, n)))
        for H, z, shape, level, low, high in _chunks(self.rows):
            unit, noise, own = H @ self.back, self.noise / level, size * shape
            eta, sigma = unit @ at[:n], np.sqrt(own)
            square, mixed, both = clipped_information(eta, sigma, np.sqrt(noise), low, high)
            share = clipped_moments(eta, sigma, low, high)[0]
            found.information[:n, :n] += unit.T @ (square[:, None] * unit)
            found.information[:n, n] += (shape * mixed) @ unit
            found.information[n, n] += float((shape**2 * both).sum())
            for sums, per in ((found.plain, own + 1 / level), (found.shape, shape)):
                sums += unit.T @ (np.broadcast_to(1 / per, z.shape)[:, None] * unit)
            found.clipped += float(share.sum())
        left = max(self.measurements - n, 0)
        found.information[n, n] *= left / self.measurements  # as many as σ̂² has degrees of freedom
        found.information[n, :n] = found.information[:n, n]
        return found

    def covariance(self, expected: _Expected) -> Array:
        """Covariance of (θ̂, σ̂²): the inverse of the information."""
        units = np.eye(self.parameters + 1)
        units[:-1, :-1] = self.back
        try:
            half = units @ np.linalg.inv(np.linalg.cholesky(expected.information)).T
        except np.linalg.LinAlgError:
            raise NotIdentifiable(VARIANCE_HIDDEN) from None  # not to be told from θ
        return np.asarray(half @ half.T)
