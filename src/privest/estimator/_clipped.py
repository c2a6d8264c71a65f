"""Maximum likelihood from readings that were clipped to a public range before they were released.

    z_k = clip(y_k, a_k, b_k) + e_k/√s_k ,   y_k = h_kᵀθ + w_k ,  w_k ~ N(0, σ_k²)

Least squares on such a release is biased: at 21 % clipped its mean squared error was 6 times that
of the estimate here (tests/statistics/test_clipped.py). From least squares,

    θ ← θ + λ A⁻¹g ,   g = Σ h_k ℓ'(z_k, h_kᵀθ) ,   A = −Σ ℓ''(z_k, h_kᵀθ) h_kh_kᵀ (Newton),
    or, where that is not positive,   A = J = Σ I(h_kᵀθ) h_kh_kᵀ (Fisher scoring),

λ halved until Σℓ rises: the likelihood is not concave in general. One pass over the rows a step, in
blocks, so that a table need not be held. All in the units in which Σ h_kh_kᵀ/(σ_k² + 1/s_k) is the
identity: J is then between 0 and I.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, as_positive
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator._beyond_range import EndTest, require_within
from privest.estimator._clipped_check import check_clipped
from privest.estimator._clipped_result import ClippedResult
from privest.estimator._clipped_rows import ClippedRows, chunks
from privest.estimator._clipped_unknown import (
    VARIANCE_HIDDEN,
    JointClimb,
    Reference,
    VarianceHidden,
)
from privest.estimator.likelihood._clipped import clipped_terms
from privest.estimator.likelihood._clipped_information import clipped_information, clipped_moments
from privest.linalg._running import RunningLeastSquares
from privest.linalg.tolerances import rounding

ITERATIONS = 100
# Converged: the maximum is within so many standard errors, √(gᵀA⁻¹g); the last step is taken.
TOLERANCE = 1e-6
# Newton's steps are taken where A is above the first part of the identity, or above the second and
# the promised rise is small.
SAFE, POSITIVE, NEAR = 0.01, 1e-9, 1.0
RISE = 0.1  # part of the rise promised by the slope that a step must bring
ROUNDING = 1e-13  # of Σℓ, relative: near the maximum its rise drowns in it
SHORTEST, LONGEST = 0.1, 0.5  # a step that fails is shortened by a factor between these
HIDDEN = 1e-10  # information that is left of what is there without clipping; below it: none


Source = ClippedRows | Callable[[], Iterable[ClippedRows]]


def estimate_clipped(
    rows: Source,
    *,
    noise_variance: float = 1.0,
    reference: int | None = None,
    names: tuple[str, ...] = (),
    simulated: bool | None = None,
    variance_known: bool = True,
    reference_variance: float | None = None,
) -> ClippedResult:
    """θ̂ by maximum likelihood from a release of clipped readings.

    rows            one `ClippedRows`, or a function that gives its blocks from the beginning each
                    time it is called: once a step, 6 to 10 times.
    noise_variance  of e_k: 1, or 1 + 3g²/4 of a real release (`Release.unit_variance`).
    reference       degrees of freedom of σ², where it is an estimate from public data that all
                    rows share: its error moves θ̂ here, and the covariance counts that to first
                    order. None: σ² is known.
    variance_known  False: σ² is a parameter too, estimated with θ, and the `variance` of the rows
                    is that of each in units of it (1 for all). The covariance then counts what
                    the error of σ̂² does to θ̂, and intervals are those of Student's t with K − n
                    degrees of freedom (`_clipped_unknown.py`). With `reference` degrees of freedom
                    and a `reference_variance` public data say something about σ² too.

    Assumes w and e Gaussian and independent from row to row, σ² and range public and the ones that
    the release was made with; `ClippedResult.check` tests the first. Raises NotIdentifiable where
    the rows, or what clipping left of them, do not show θ, or all readings may lie beyond an end of
    the range (`_beyond_range.py`); NumericalFailure where no maximum was reached.

    >>> H, z = np.ones((4, 1)), np.array([-1.0, 1.0, 0.5, -0.5])  # symmetric about 0
    >>> found = estimate_clipped(ClippedRows(H, z, 1.0, level=1.0, low=-1.0, high=1.0))
    >>> abs(round(float(found.estimate[0]), 12))
    0.0
    """
    noise = as_positive(noise_variance, "noise_variance")
    given = rows
    source: Callable[[], Iterable[ClippedRows]] = (
        (lambda: [given]) if isinstance(given, ClippedRows) else given
    )
    if not variance_known:
        public = None
        if reference is not None and reference_variance is not None:
            public = Reference(as_positive(reference_variance, "reference_variance"), reference)
        return _with_variance(JointClimb(source, noise, public), names, simulated)
    start = _LeastSquares(source, noise)
    climb = _Climb(source, start.inverse_root(), noise)
    theta, back = start.solution(), climb.back
    now = climb.look(theta)
    steps, (step, promised) = 0, climb.step(theta, now)
    while promised > TOLERANCE**2 and steps < ITERATIONS:
        theta, now = climb.risen(theta, now, step, promised)
        steps, (step, promised) = steps + 1, climb.step(theta, now)
    if promised > TOLERANCE**2:
        raise NumericalFailure(
            f"no maximum of the likelihood was reached in {ITERATIONS} steps (the last is "
            f"{np.sqrt(promised):.2g} standard errors long). Are range, level and noise variance "
            "those of the release?"
        )
    information = climb.expected(theta, now)
    half = back @ np.linalg.inv(np.linalg.cholesky(information)).T
    covariance = half @ half.T
    if reference is not None:
        moved = covariance @ np.linalg.solve(back.T, now.mixed)  # −∂θ̂/∂ ln σ²
        covariance = covariance + 2 / reference * np.outer(moved, moved)
    freedom = now.readings - len(theta)
    theta = theta + back @ step
    return ClippedResult(
        estimate=theta,
        covariance=covariance,
        classical=start.open.inverse(),
        bound=start.private.inverse(),
        names=names,
        simulated=simulated,
        method="maximum likelihood of clipped readings",
        readings=now.readings,
        clipped=now.clipped / now.readings,
        log_likelihood=now.height,
        steps=steps,
        misfit=now.scatter / freedom if freedom > 0 else 1.0,
        check=check_clipped(source, theta, 1.0, noise, known=True),
    )


def _sandwich(units: Array, curvature: Array, outer: Array, rows: int) -> Array | None:
    """C⁻¹BC⁻¹·K/(K − n), C = `curvature`, B = `outer`; None where C is not positive: at a kink."""
    n = len(curvature)
    if rows <= n or not np.linalg.eigvalsh(curvature)[0] > POSITIVE:
        return None
    half = np.linalg.solve(curvature, outer)
    return np.asarray(units @ np.linalg.solve(curvature, half.T) @ units.T * (rows / (rows - n)))


def _with_variance(
    climb: JointClimb, names: tuple[str, ...], simulated: bool | None
) -> ClippedResult:
    """θ̂ and σ̂² together, by the joint information at the maximum."""
    at, point, steps = climb.climb()
    found = climb.expected(at)
    n, freedom = len(at) - 1, climb.readings - len(at) + 1
    root = np.linalg.inv(np.linalg.cholesky(found.plain))
    left = float(np.linalg.eigvalsh(root @ found.information[:n, :n] @ root.T)[0])
    share = found.clipped / climb.readings
    _require_left(left, share)
    units = np.eye(n + 1)
    units[:n, :n] = climb.back
    try:
        half = units @ np.linalg.inv(np.linalg.cholesky(found.information)).T
    except np.linalg.LinAlgError:
        raise VarianceHidden(VARIANCE_HIDDEN) from None  # not to be told from θ
    joint = half @ half.T
    ended = at[-1] <= climb.least
    size = climb.variance(float(at[-1]))
    units[n, n] = size + climb.added  # dσ²/dψ
    kept = slice(0, n if ended else n + 1)
    sandwich = _sandwich(
        units[kept, kept], point.curvature[kept, kept], point.outer[kept, kept], climb.readings
    )
    variance, theta = 0.0 if ended else size, climb.back @ at[:n]
    return ClippedResult(
        estimate=theta,
        covariance=joint[:n, :n],
        classical=variance * (climb.back @ np.linalg.inv(found.shape) @ climb.back.T),
        bound=climb.back @ np.linalg.inv(found.plain) @ climb.back.T,
        names=names,
        simulated=simulated,
        degrees_of_freedom=climb.freedom(at),
        method="maximum likelihood of clipped readings, noise variance from the release",
        readings=climb.readings,
        clipped=share,
        log_likelihood=point.log_likelihood,
        steps=steps,
        misfit=found.scatter / freedom if freedom > 0 else 1.0,
        noise_variance=variance,
        noise_error=float(np.sqrt(joint[n, n])),
        joint=joint,
        sandwich=sandwich,
        added=climb.added,
        check=check_clipped(climb.source, theta, size, climb.noise, known=False),
    )


def _require_left(least: float, share: float) -> None:
    """NotIdentifiable where clipping leaves nothing of a combination of the coefficients."""
    if not least > HIDDEN:
        raise NotIdentifiable(
            f"clipping leaves {max(least, 0.0):.1g} of the information about a combination of the "
            f"coefficients ({100 * share:.3g} % of the readings are clipped): it cannot be "
            "estimated from this release. A wider range is needed."
        )


class _LeastSquares:
    """The start, and the units: weighted least squares as if nothing had been clipped."""

    def __init__(self, source: Callable[[], Iterable[ClippedRows]], noise: float) -> None:
        private: RunningLeastSquares | None = None
        ends = EndTest()
        for H, z, variance, level, low, high in chunks(source()):
            ends.add(z, noise / level, low, high)
            if private is None:
                n = H.shape[1]
                private, self.open = (RunningLeastSquares(n, rounding(n)) for _ in range(2))
            rows = np.column_stack([H, z])
            for sums, deviation in (
                (private, np.sqrt(variance + 1 / level)),
                (self.open, np.sqrt(variance)),
            ):
                sums.add(np.asfortranarray(rows / np.reshape(deviation, (-1, 1))))
        if private is None:
            raise InvalidInput("the release has no rows with a reading.")
        self.private = private
        if not private.full:
            raise NotIdentifiable(
                "the rows do not determine all coefficients, whatever was clipped. More rows are "
                "needed, or fewer coefficients.",
                private.root().hidden,
            )
        require_within(ends, source)

    def solution(self) -> Array:
        return self.private.solution()

    def inverse_root(self) -> Array:
        """R⁻¹, RᵀR = Σ h_kh_kᵀ/(σ_k² + 1/s_k)."""
        n = self.private.parameters
        return np.linalg.inv(np.triu(self.private.triangle[:n, :n]))


@dataclass
class _Sums:
    """Sums over all rows at one θ, in the units of R."""

    height: float  # Σℓ
    gradient: Array
    curvature: Array  # −Σ ℓ'' h_kh_kᵀ
    information: Array  # J
    mixed: Array  # Σ h_k σ² E[ℓ' ∂ℓ/∂σ²]
    whole: bool = True  # whether J and `mixed` were summed
    clipped: float = 0.0
    scatter: float = 0.0
    readings: int = 0


class _Climb:
    """The way up: rows that are read again and again, and the units of their coefficients."""

    def __init__(
        self, source: Callable[[], Iterable[ClippedRows]], back: Array, noise: float
    ) -> None:
        self.source, self.back, self.noise = source, back, noise

    def look(self, theta: Array, expected: bool = False) -> _Sums:
        """One pass. J comes along where it is cheap, one table for all rows, or `expected`."""
        n = len(theta)
        sums = _Sums(0.0, np.zeros(n), np.zeros((n, n)), np.zeros((n, n)), np.zeros(n))
        for H, z, variance, level, low, high in chunks(self.source()):
            if H.shape[1] != n:
                raise InvalidInput(f"a block has {H.shape[1]} coefficients; the first had {n}.")
            eta, sigma, added = H @ theta, np.sqrt(variance), self.noise / level
            value, slope, spread = clipped_terms(z, eta, sigma, np.sqrt(added), low, high)
            share, shift, scatter = clipped_moments(eta, sigma, low, high)
            unit = H @ self.back
            sums.height += float(value.sum())
            sums.gradient += slope @ unit
            sums.curvature += unit.T @ (((1 - spread) / variance)[:, None] * unit)
            sums.clipped += float(share.sum())
            sums.scatter += float(((z - eta - shift) ** 2 / (scatter + added)).sum())
            sums.readings += len(z)
            if expected or not (variance.ndim or level.ndim or low.ndim or high.ndim):
                square, mixed, _ = clipped_information(eta, sigma, np.sqrt(added), low, high)
                sums.information += unit.T @ (square[:, None] * unit)
                sums.mixed += (variance * mixed) @ unit
            else:
                sums.whole = False
        return sums

    def expected(self, theta: Array, now: _Sums) -> Array:
        """J, with another pass where the last has left it out; NotIdentifiable where it is 0."""
        if not now.whole:
            again = self.look(theta, expected=True)
            now.information, now.mixed, now.whole = again.information, again.mixed, True
        least = float(np.linalg.eigvalsh(now.information)[0])
        _require_left(least, now.clipped / now.readings)
        return now.information

    def step(self, theta: Array, now: _Sums) -> tuple[Array, float]:
        """A⁻¹g and the rise that it promises, twice."""
        values, vectors = np.linalg.eigh(now.curvature)
        if values[0] > POSITIVE:
            step, promised = _solved(values, vectors, now.gradient)
            if values[0] > SAFE or promised < NEAR:
                return step, promised
        return _solved(*np.linalg.eigh(self.expected(theta, now)), now.gradient)

    def risen(self, theta: Array, now: _Sums, step: Array, promised: float) -> tuple[Array, _Sums]:
        """θ and the sums after the step, shortened until the log-likelihood rises."""
        length = 1.0
        while length > ROUNDING:
            tried = theta + length * (self.back @ step)
            new = self.look(tried)
            hoped, gained = length * promised, new.height - now.height
            if gained >= RISE * hoped - ROUNDING * abs(now.height):
                return tried, new
            length *= float(np.clip(0.5 * hoped / (hoped - gained), SHORTEST, LONGEST))
        raise NumericalFailure(
            "the log-likelihood does not rise along its own gradient: the rows change from one "
            "reading of them to the next, or they are out of range."
        )


def _solved(values: Array, vectors: Array, gradient: Array) -> tuple[Array, float]:
    along = vectors.T @ gradient
    return vectors @ (along / values), float((along**2 / values).sum())
