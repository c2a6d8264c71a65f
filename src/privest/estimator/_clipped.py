"""Maximum likelihood from measurements clipped to a public range before release.

    z_k = clip(y_k, a_k, b_k) + e_k ,   y_k ~ N(h_kᵀθ, σ²c_k) ,   var e_k = n_k known, c_k known

in θ, and in ψ = ln(σ² + n) where σ² is unknown, n the mean of n_k/c_k. By the heat equation

    ∂ℓ/∂σ² = ½c_k(ℓ'² − (1 − Var[y|z]/σ_k²)/σ_k²) .

With σ² unknown Σℓ − ½ ln|Σ h_kh_kᵀ/(σ²c_k + n_k)| is maximised: REML where nothing is clipped.
σ² ends at 10⁻³ of the privacy noise (σ̂² = 0 then); σ at twice the width of the range is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
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
HIDDEN = 1e-10  # information that is left of what is there without clipping; below it: none
POSITIVE = 1e-9  # of the curvature, in units of the start: below it there is no sandwich
TAIL = 0.005  # of each of the two tests of `EndTest`
NORMAL_SQUARES = 2.0  # the variance of e²/var e: of normal noise, of Laplace's
LAPLACE_SQUARES = 5.0
SPANNED = 1e-9  # of the squares of a moment that the scores leave: it is one of them


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


Source = Callable[[], Iterable[ClippedRows]]
Chunk = tuple[Array, Array, Array, Array, Array, Array]


def chunks(blocks: Iterable[ClippedRows]) -> Iterator[Chunk]:
    for block in blocks:
        H, z, *facts = _checked(block)
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


# --- whether all readings lie beyond the range, or the likelihood does not fit -----------------


def beyond_sentence(side: str) -> str:
    """Why there is no estimate where all measurements may lie beyond an end."""
    return (
        f"all readings may lie {side} the range, as far as this release can tell. How far is not "
        "in it, so that there is no estimate with a finite interval. Release with a wider public "
        "range."
    )


class EndTest:
    """Test whether all measurements may lie beyond one end b of the range: then z_k = b + e_k, and

        m = Σw_k(z_k − b)/√Σw_k ~ N(0, 1) ,   C = Σw_k(z_k − b)² ~ χ²_K ,   w_k = 1/var e_k .

    Not excluded where neither is beyond its 99.5% quantile; undecided where half the range is less
    than twice that quantile in units of m. `squares`: the variance of e²/var e.
    """

    def __init__(self, squares: float = NORMAL_SQUARES) -> None:
        self.squares, self.rows, self.weight = squares, 0, 0.0
        self.first, self.second, self.width = np.zeros(2), np.zeros(2), math.inf

    def add(self, z: Array, added: Array | float, low: Array | float, high: Array | float) -> None:
        w = np.broadcast_to(1 / np.asarray(added), z.shape)
        inward = np.stack([z - low, high - z])
        self.first += inward @ w
        self.second += np.square(inward) @ w
        self.width = min(self.width, float(np.min(np.asarray(high) - low)))
        self.weight, self.rows = self.weight + float(w.sum()), self.rows + len(z)

    def side(self) -> str | None:
        """Where all may lie: "below" or "above"; None: not all do, or the noise hides it."""
        if math.sqrt(self.weight) * self.width / 2 < -2 * scipy.special.ndtri(TAIL):
            return None  # the release is too noisy to show anything else
        freedom = self.rows * NORMAL_SQUARES / self.squares
        most = float(scipy.special.chdtri(freedom, TAIL)) * self.rows / freedom
        inward = self.first / math.sqrt(self.weight)
        low, high = (inward <= -scipy.special.ndtri(TAIL)) & (self.second <= most)
        return "below" if low else "above" if high else None


def reaches(blocks: Callable[[], Iterable[Array]]) -> bool:
    """Whether some θ puts all rows on one side: h_kᵀd > 0 for d, least squares of 1 on H."""
    gram: Array | float = 0.0
    ones: Array | float = 0.0
    for H in blocks():
        gram, ones = gram + H.T @ H, ones + H.sum(axis=0)
    d = np.linalg.lstsq(np.atleast_2d(gram), np.atleast_1d(ones))[0]
    return all(bool((H @ d > 0).all()) for H in blocks())


class ClippedCheck(NamedTuple):
    """`p` of the test; the share clipped as the release shows it (`seen`) and as `fitted`."""

    p: float
    seen: float
    fitted: float


def _check(source: Source, theta: Array, size: float, noise: float, known: bool) -> ClippedCheck:
    """Test of conditional moments (Newey 1985) whether the likelihood fits, in one pass at θ̂.

        P(clipped at an end | z_k) − P(clipped at that end) ,   h_kj ∂ℓ_k/∂σ²

    have mean 0. With X = [scores, moments], 1ᵀX(XᵀX)⁻¹Xᵀ1 is χ², with as many degrees of freedom as
    moments that the scores do not span. `known`: σ² has no score.
    """
    n = len(theta)
    total, crossed, rows = np.zeros(2 * n + 3), np.zeros((2 * n + 3, 2 * n + 3)), 0
    shares = np.zeros(2)
    for H, z, shape, level, low, high in chunks(source()):
        own, eta = size * shape, H @ theta
        sigma = np.sqrt(own)
        _, slope, spread, masses = clipped_terms(z, eta, sigma, np.sqrt(noise / level), low, high)
        ends = np.stack(
            [scipy.special.ndtr((low - eta) / sigma), scipy.special.ndtr((eta - high) / sigma)]
        )
        by_variance = shape * (slope**2 - (1 - spread) / own)
        X = np.column_stack(
            [H * slope[:, None], by_variance, H * by_variance[:, None], (masses[[0, 2]] - ends).T]
        )
        total, crossed, rows = total + X.sum(axis=0), crossed + X.T @ X, rows + len(z)
        shares += masses[[0, 2]].sum(), ends.sum()
    # 1ᵀX(XᵀX)⁻¹Xᵀ1 without the scores' own part, and how many moments it has.
    scale, scores = np.sqrt(np.maximum(np.diagonal(crossed), np.finfo(float).tiny)), n + (not known)
    total, crossed = total / scale, crossed / np.outer(scale, scale)
    scored = np.linalg.pinv(crossed[:scores, :scores], rcond=SPANNED, hermitian=True)
    turned = crossed[scores:, :scores] @ scored
    left = crossed[scores:, scores:] - turned @ crossed[:scores, scores:]
    values, vectors = np.linalg.eigh(left)
    kept = values > SPANNED
    along = vectors[:, kept].T @ (total[scores:] - turned @ total[:scores])
    freedom, statistic = int(kept.sum()), float((along**2 / values[kept]).sum())
    chance = float(scipy.special.chdtrc(freedom, statistic)) if freedom else 1.0
    return ClippedCheck(chance, *(shares / rows).tolist())


# --- the estimate ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ClippedResult(Estimate):
    """θ̂ with cov θ̂ = J⁻¹, the inverse of the expected information at θ̂.

    bound           `thm:crbound` without clipping: `efficiency` is what clipping leaves of it.
    readings        rows used; `clipped` the share of them clipped by the model at θ̂.
    misfit          Σ_k (z_k − E z_k)²/Var z_k/(K − n), about 1 if noise, range and model are right.

    Where σ² was estimated (0 at the end of its range):
    joint           (n + 1, n + 1): the covariance of θ̂ and σ̂²; `sandwich` by the scores of the
                    rows, (n, n) where σ̂² = 0; None: does not exist.
    added           the mean variance of the privacy noise on a measurement.
    """

    readings: int
    clipped: float
    log_likelihood: float
    steps: int
    misfit: float
    check: ClippedCheck
    noise_variance: float | None = None
    noise_error: float | None = None
    joint: Array | None = None
    sandwich: Array | None = None
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
    "the release does not tell the noise variance of the readings: it may be so large that most of "
    "them are clipped. State the noise variance, or release with a wider range or at a higher "
    "level."
)


class Reference(NamedTuple):
    """σ̂_r² of public data with m degrees of freedom: ln L = −(m/2)(ln σ² + σ̂_r²/σ²)."""

    variance: float
    freedom: float

    def slopes(self, size: float) -> tuple[float, float, float]:
        half, ratio = self.freedom / 2, self.variance / size
        return (
            -half * (math.log(size) + ratio),
            half * (ratio - 1) / size,
            half * (1 - 2 * ratio) / size**2,
        )


def estimate_clipped(
    rows: ClippedRows | Source,
    *,
    noise_variance: float = 1.0,
    reference: int | None = None,
    names: tuple[str, ...] = (),
    variance_known: bool = True,
    reference_variance: float | None = None,
) -> ClippedResult:
    """θ̂ by maximum likelihood from a release of clipped measurements.

    rows            one `ClippedRows`, or a function that gives its blocks, called about ten times.
    noise_variance  of e_k: 1, or 1 + 3g²/4 of a real release (`Release.unit_variance`).
    reference       degrees of freedom of a σ² from public data: counted to first order.
    variance_known  False: σ² is a parameter too, `variance` of the rows is in units of it, and
                    intervals are Student's t; `reference_variance` adds what public data say about
                    σ².

    w and e are Gaussian, independent from row to row. NotIdentifiable where the rows, or what
    clipping left of them, do not determine θ, or all measurements may lie beyond the range.
    """
    noise = as_positive(noise_variance, "noise_variance")
    given = rows
    source: Source = (lambda: [given]) if isinstance(given, ClippedRows) else given
    public = None
    if reference is not None and reference_variance is not None and not variance_known:
        public = Reference(as_positive(reference_variance, "reference_variance"), reference)
    sums = _Sums(source, noise, variance_known, public)
    at, point, steps, left = ascend(sums.look, sums.start, sums.bounds, TOLERANCE)
    if not variance_known and at[-1] >= sums.bounds[1][-1]:
        raise NotIdentifiable(VARIANCE_HIDDEN)
    expected = sums.expected(at)
    share = expected.clipped / sums.readings
    n, freedom = sums.parameters, sums.readings - sums.parameters
    root = np.linalg.inv(np.linalg.cholesky(expected.plain))
    least = float(np.linalg.eigvalsh(root @ expected.information[:n, :n] @ root.T)[0])
    if not least > HIDDEN:
        raise NotIdentifiable(
            f"clipping leaves {max(least, 0.0):.1g} of the information about a combination of the "
            f"coefficients ({100 * share:.3g} % of the readings are clipped): it cannot be "
            "estimated from this release. A wider range is needed."
        )
    if left > (TOLERANCE if variance_known else ENOUGH) ** 2:
        raise NumericalFailure(
            f"no maximum of the likelihood was reached ({math.sqrt(left):.2g} standard errors are "
            "left). Are range, level and noise variance those of the release? A stated noise "
            "variance, or a wider range, makes it easier."
        )
    theta, size = sums.back @ at[:n], sums.variance(at)
    common: dict[str, Any] = {
        "value": theta,
        "bound": sums.turned(np.linalg.inv(expected.plain)),
        "names": names,
        "readings": sums.readings,
        "clipped": share,
        "log_likelihood": point.log_likelihood,
        "steps": steps,
        "misfit": expected.scatter / freedom if freedom > 0 else 1.0,
        "check": _check(source, theta, size, noise, variance_known),
    }
    classical, method = np.linalg.inv(expected.shape), "maximum likelihood of clipped readings"
    if variance_known:
        covariance = sums.turned(np.linalg.inv(expected.information[:n, :n]))
        if reference is not None:
            moved = covariance @ np.linalg.solve(sums.back.T, expected.information[:n, n])
            covariance = covariance + 2 / reference * np.outer(moved, moved)  # −∂θ̂/∂ ln σ²
        return ClippedResult(
            **common, covariance=covariance, classical=sums.turned(classical), method=method
        )
    ended = bool(at[-1] <= sums.bounds[0][-1])
    joint, sandwich = sums.errors(point, expected, size, ended)
    variance = 0.0 if ended else size
    return ClippedResult(
        **common,
        covariance=joint[:n, :n],
        classical=variance * sums.turned(classical),
        degrees_of_freedom=sums.freedom(size),
        method=f"{method}, noise variance from the release",
        noise_variance=variance,
        noise_error=math.sqrt(joint[n, n]),
        joint=joint,
        sandwich=sandwich,
        added=sums.added,
    )


@dataclass
class _Point:
    height: float  # what is maximised
    gradient: Array
    curvature: Array  # minus the second derivatives
    outer: Array  # Σ of products of slopes
    log_likelihood: float = 0.0  # Σℓ alone


@dataclass
class _Expected:
    """Sums expected at the maximum, in the units of the start and in σ²."""

    information: Array  # (n + 1, n + 1): of θ and σ²
    plain: Array  # Σ h_kh_kᵀ/(σ²c_k + 1/s_k)
    shape: Array  # Σ h_kh_kᵀ/c_k
    clipped: float = 0.0
    scatter: float = 0.0


class _Sums:
    """Sums at (θ, ψ), or at θ alone where σ² is `known`, in units of their errors at the start."""

    def __init__(
        self, source: Source, noise: float, known: bool, reference: Reference | None
    ) -> None:
        self.source, self.noise, self.known, self.reference = source, noise, known, reference
        sums, ends, total, widest = self._first_pass()
        n, count = sums.parameters, ends.rows
        self.parameters = n
        if not sums.full:
            raise NotIdentifiable(
                "the rows do not determine all coefficients, whatever was clipped. More rows are "
                "needed, or fewer coefficients.",
                sums.root().hidden,
            )
        if count <= n and not known and reference is None:
            raise InvalidInput(
                f"{count} rows for {n} coefficients leave nothing to see the noise by. Give the "
                "noise variance, more rows, or fewer coefficients."
            )
        side = ends.side()
        if side is not None and reaches(lambda: (part[0] for part in chunks(source()))):
            raise NotIdentifiable(beyond_sentence(side))
        self.added, self.readings = total / count, count
        self.back = np.linalg.inv(np.triu(sums.triangle[:n, :n]))
        free = np.full(n + (not known), np.inf)
        self.bounds = -free, free
        if known:
            self.start = np.linalg.solve(self.back, sums.solution())
            return
        ratio = 1 + (0.0 if reference is None else reference.variance / self.added)
        if count > n:
            ratio = float(sums.triangle[n, n]) ** 2 / (count - n)  # v̂ in units of n
        self.back *= math.sqrt(max(ratio, 1.0))
        self.unit = math.sqrt(2 / max(count - n, 1))  # of ψ: its standard error without clipping
        low, high = math.log1p(LEAST) + math.log(self.added), math.log(4 * widest + self.added)
        self.bounds[0][-1], self.bounds[1][-1] = low / self.unit, high / self.unit
        first = min(math.log(self.added * max(ratio, 1.05)), high) / self.unit
        self.start = np.append(np.linalg.solve(self.back, sums.solution()), first)

    def _first_pass(self) -> tuple[RunningLeastSquares, EndTest, float, float]:
        """Least squares, the test of the ends, Σ n_k/c_k, and the largest squared width/c_k."""
        sums: RunningLeastSquares | None = None
        total, widest, ends = 0.0, 0.0, EndTest()
        for H, z, shape, level, low, high in chunks(self.source()):
            if sums is None:
                sums = RunningLeastSquares(H.shape[1], rounding(H.shape[1]))
            if H.shape[1] != sums.parameters:
                raise InvalidInput(
                    f"a block has {H.shape[1]} coefficients; the first had {sums.parameters}."
                )
            added = self.noise / level
            ends.add(z, added, low, high)
            total += float(np.broadcast_to(added / shape, z.shape).sum())
            widest = max(widest, float(((high - low) ** 2 / shape).max()))
            weight = np.reshape(1 / np.sqrt(added + shape if self.known else added), (-1, 1))
            sums.add(np.asfortranarray(np.column_stack([H, z]) * weight))
        if sums is None:
            raise InvalidInput("the release has no rows with a measurement.")
        return sums, ends, total, widest

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
        point = _Point(0.0, np.zeros(k), np.zeros((k, k)), np.zeros((k, k)))
        size, gram = self.variance(at), np.zeros((3, n, n))
        for H, z, shape, level, low, high in chunks(self.source()):
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
            point.outer += slopes.T @ slopes
        point.log_likelihood = point.height
        if not self.known:
            point.curvature[n, :n] = point.curvature[:n, n]
            self._restrict(point, gram, size)
            for one in (point.gradient[n:], point.curvature[n], point.curvature[:, n],
                        point.outer[n], point.outer[:, n]):  # fmt: skip
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
        """Add −½ ln|M|, M = Σ h_kh_kᵀ/v_k, the reference set, and their derivatives in ψ."""
        total = size + self.added  # dσ²/dψ
        inverse = np.linalg.inv(gram[0])
        turn = inverse @ gram[1]
        value = -0.5 * float(np.linalg.slogdet(gram[0])[1])
        first = 0.5 * float(np.trace(turn))  # in σ²
        second = 0.5 * float(np.trace(turn @ turn)) - float(np.trace(inverse @ gram[2]))
        if self.reference is not None:
            public = self.reference.slopes(size)
            value, first, second = value + public[0], first + public[1], second + public[2]
            point.outer[-1, -1] += (total / size) ** 2 * self.reference.freedom / 2
        point.height += value
        point.gradient[-1] += total * first
        point.curvature[-1, -1] -= total * first + total**2 * second

    def expected(self, at: Array) -> _Expected:
        n, size = self.parameters, self.variance(at)
        found = _Expected(np.zeros((n + 1, n + 1)), np.zeros((n, n)), np.zeros((n, n)))
        for H, z, shape, level, low, high in chunks(self.source()):
            unit, noise, own = H @ self.back, self.noise / level, size * shape
            eta, sigma = unit @ at[:n], np.sqrt(own)
            square, mixed, both = clipped_information(eta, sigma, np.sqrt(noise), low, high)
            share, shift, scatter = clipped_moments(eta, sigma, low, high)
            found.information[:n, :n] += unit.T @ (square[:, None] * unit)
            found.information[:n, n] += (shape * mixed) @ unit
            found.information[n, n] += float((shape**2 * both).sum())
            for sums, per in ((found.plain, own + 1 / level), (found.shape, shape)):
                sums += unit.T @ (np.broadcast_to(1 / per, z.shape)[:, None] * unit)
            found.clipped += float(share.sum())
            found.scatter += float(((z - eta - shift) ** 2 / (scatter + noise)).sum())
        left = max(self.readings - n, 0)
        found.information[n, n] *= left / self.readings  # as many as σ̂² has degrees of freedom
        if self.reference is not None:
            found.information[n, n] += self.reference.freedom / (2 * size**2)
        found.information[n, :n] = found.information[:n, n]
        return found

    def errors(
        self, point: _Point, expected: _Expected, size: float, ended: bool
    ) -> tuple[Array, Array | None]:
        """Covariance of (θ̂, σ̂²) by the information, and the sandwich C⁻¹BC⁻¹·K/(K − n), or None."""
        n = self.parameters
        units = np.eye(n + 1)
        units[:n, :n] = self.back
        try:
            half = units @ np.linalg.inv(np.linalg.cholesky(expected.information)).T
        except np.linalg.LinAlgError:
            raise NotIdentifiable(VARIANCE_HIDDEN) from None  # not to be told from θ
        units[n, n] = self.unit * (size + self.added)  # dσ²/dψ
        kept = slice(0, n if ended else n + 1)
        C, B, own = point.curvature[kept, kept], point.outer[kept, kept], units[kept, kept]
        rows, count = self.readings, len(C)
        if rows <= count or not np.linalg.eigvalsh(C)[0] > POSITIVE:
            return half @ half.T, None
        inner = np.linalg.solve(C, np.linalg.solve(C, B).T)
        return half @ half.T, np.asarray(own @ inner @ own.T * (rows / (rows - count)))

    def freedom(self, size: float) -> float:
        """Degrees of freedom K − n, and (Satterthwaite) m(σ² + n)²/σ⁴ of a reference set."""
        left = float(self.readings - self.parameters)
        if self.reference is None:
            return left
        return left + self.reference.freedom * ((size + self.added) / size) ** 2
