"""Least squares on a stream whose noise remembers: AR(1) noise, found from the releases alone.

    y_k = h_kθ + u_k ,   u_k = φu_{k−1} + w_k ,   var u = γ₀ ,   z̃ = A Ȳ + e

With φ and γ₀ given, u is the state of a system whose filter whitens: run on z̃ and on the shown
columns of H alike, it gives rows [G, ζ] of unit noise, and least squares on them is generalised
least squares on the releases. (φ, γ₀) maximise the restricted likelihood

    ℓ = −½(log|V| + log|HᵀV⁻¹H| + RSS) ,   V = A cov(u) Aᵀ + I .

What a receiver does to releases costs no privacy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_array
from privest.bounds._classical import parameter_list
from privest.dynamics._filtering import filter_releases
from privest.dynamics._observed import Level, as_seen, numbers_shown, of_entries
from privest.dynamics._releases import SeriesRelease, shown_series
from privest.dynamics._system import StateSpace
from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator.inference import BlockSums, SerialErrors, serial_errors
from privest.estimator.result import Result
from privest.linalg._running import RunningLeastSquares
from privest.linalg.tolerances import rank_tolerance
from privest.privacy import SequentialLevel, as_stream_level
from privest.release import StreamRelease

# Where the search begins: φ, and γ₀ as a part of what the releases scatter. (A likelihood of two
# parameters may have several peaks: the best of these is followed.)
CORRELATIONS = (0.0, 0.5, 0.8, 0.95, 0.99)
PARTS = (0.03, 0.1, 0.3, 0.6, 0.95)
MOST = 0.9999  # |φ|: beyond it a stream of any length that is held at once shows no level
LEAST = 1e-6  # γ₀ as a part of the scatter that counts as none
CHANCE = 9.0  # twice the log-likelihood that φ ≠ 0 must gain to be more than chance (3 deviations)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AutoregressiveFit(Result):
    """θ̂ by generalised least squares with AR(1) noise; `covariance` is right if the noise is that.

    correlation      φ̂ from one step to the next; 0 where nothing is left beside release noise.
    noise_variance   γ̂₀, the variance of a reading given its features.
    remembers        whether φ̂ ≠ 0 is more than chance.
    log_likelihood   restricted, at (φ̂, γ̂₀).
    by_blocks        errors of the same θ̂ by blocks of time of the whitened rows: they hold, too,
                     where the noise is not quite AR(1).
    """

    correlation: float
    noise_variance: float
    remembers: bool
    log_likelihood: float
    by_blocks: SerialErrors

    DERIVED: ClassVar[tuple[str, ...]] = Result.DERIVED

    def __repr__(self) -> str:
        return (
            f"AutoregressiveFit({len(self.names)} parameters, correlation {self.correlation:.3g}, "
            f"noise variance {self.noise_variance:.3g})"
        )


class _Whitened(NamedTuple):
    """Rows of unit noise under one (φ, γ₀), their least squares, and −ℓ up to a constant."""

    rows: Array
    fit: RunningLeastSquares
    cost: float


def autoregressive_system(correlation: float, variance: float, readings: int = 1) -> StateSpace:
    """u of `readings` steps in time as one state, stationary: cov u_k, u_{k+l} = γ₀φ^l.

    >>> autoregressive_system(0.5, 1.0, 2).Q.tolist()  # 1 − φ², 1 − φ⁴, φ − φ³
    [[0.75, 0.375], [0.375, 0.9375]]
    """
    place = np.arange(1, readings + 1)
    apart = correlation ** np.abs(np.subtract.outer(place, place))
    before = correlation**place
    A = np.zeros((readings, readings))
    A[:, -1] = before
    return StateSpace(
        A=A, C=np.eye(readings), Q=variance * (apart - np.outer(before, before)), R=0.0,
        cov0=variance * apart,
    )  # fmt: skip


def fit_autoregressive(
    level: Level, release: StreamRelease, rows: ArrayLike, *, names: tuple[str, ...] = ()
) -> AutoregressiveFit:
    """θ, φ and γ₀ from all releases of a stream, which starts at step 0.

    `level` as in the mechanism, `rows` H (readings, n). Several readings a step follow one another
    in time. Holds all rows at once, 8(n + 2) bytes a reading and some copies; some 80 passes.
    Assumes Gaussian noise that is stationary. Of 95 % intervals for hourly loads (K = 336, φ = .8;
    K = 2016, φ = .95) .92 to .97 cover by the model; by blocks also where it is AR(1) in part only.
    Raises NotIdentifiable where the releases do not show all of θ.
    """
    wanted = as_stream_level(level)
    series, n = _series(wanted, release, rows)
    best = bare = _whitened(wanted, series, n, 0.0, 0.0)
    if not bare.fit.full:
        hidden = bare.fit.root().hidden
        raise NotIdentifiable(
            f"The releases do not show all of θ: {parameter_list(hidden)} are hidden.", hidden
        )
    scale = _scatter(bare, series, wanted)

    def cost(correlation: float, part: float) -> float:
        return _whitened(wanted, series, n, correlation, part * scale).cost

    phi, part = _refined(
        cost, min(itertools.product(CORRELATIONS, PARTS), key=lambda at: cost(*at))
    )
    if part > LEAST:
        best = _whitened(wanted, series, n, phi, part * scale)
    if bare.cost <= best.cost:  # nothing is left beside release noise
        phi, part, best = 0.0, 0.0, bare
    remembers = 2 * (min(_without_memory(cost), bare.cost) - best.cost) > CHANCE
    return _found(best, phi, part * scale, remembers, release, wanted, names)


def _without_memory(cost: Callable[[float, float], float]) -> float:
    """The least cost with φ = 0."""
    found = scipy.optimize.minimize_scalar(
        lambda log: cost(0.0, math.exp(log)),
        bounds=(math.log(LEAST), math.log(4.0)), method="bounded", options={"xatol": 1e-2},
    )  # fmt: skip
    return float(found.fun)


def _found(
    best: _Whitened, phi: float, variance: float, remembers: bool, release: StreamRelease,
    level: SequentialLevel, names: tuple[str, ...],
) -> AutoregressiveFit:  # fmt: skip
    sums, estimate = BlockSums(best.fit.parameters, level.block or 1), best.fit.solution()
    sums.add(best.rows)
    by_blocks = serial_errors(sums, estimate)
    told = replace(by_blocks, correlation=phi if remembers else 0.0)
    return AutoregressiveFit(
        estimate=estimate, covariance=best.fit.inverse(), names=names,
        simulated=release.simulated, correlation=phi, noise_variance=variance,
        remembers=remembers, log_likelihood=-best.cost, by_blocks=told,
    )  # fmt: skip


def _refined(
    cost: Callable[[float, float], float], start: tuple[float, float]
) -> tuple[float, float]:
    """The peak near a place, in (artanh φ, log γ₀): no bounds to run into."""
    first = [math.atanh(start[0]), math.log(start[1])]
    size = np.array(first) + np.array([[0.0, 0.0], [0.3, 0.0], [0.0, 0.5]])
    options = {"initial_simplex": size, "xatol": 1e-4, "fatol": 1e-6, "maxfev": 200}
    searched: Any = scipy.optimize.minimize  # its stubs do not know a lambda from a gradient
    found = searched(lambda at: cost(*_there(at)), first, method="Nelder-Mead", options=options)
    return _there(found.x)


def _there(at: Array) -> tuple[float, float]:
    phi = max(-MOST, min(MOST, math.tanh(float(at[0]))))
    return phi, math.exp(min(float(at[1]), 10.0))


def _series(
    level: SequentialLevel, release: StreamRelease, rows: ArrayLike
) -> tuple[SeriesRelease, int]:
    """The columns of H as they are shown, z̃, and zeros, as one release of n + 2 series."""
    m = level.block
    if m is None or release.start != 0:
        raise InvalidInput(
            "AR(1) noise is found from all releases of a stream, from its step 0 on, whose steps "
            "have one size."
        )
    release.require(level.fingerprint)
    H = as_array(rows, "the rows of H", ndim=2)
    if len(H) != len(release.values):
        raise InvalidInput(
            f"the rows of H must be {len(release.values)}, one a reading; received {H.shape}."
        )
    given = np.zeros(release.steps, dtype=bool) if release.missing is None else release.missing
    missing = as_seen(level, 0, given)
    absent = np.broadcast_to(of_entries(missing), (release.steps, m))
    columns = np.where(absent, 0.0, H.T.reshape(H.shape[1], release.steps, m))
    shown = shown_series(level, columns, absent if missing.ndim > 1 else None)
    own = release.values.reshape(1, release.steps, m)
    every = np.concatenate([shown, own, np.zeros_like(own)])
    every[:, absent] = np.nan
    flags = missing[None] if missing.ndim > 1 else missing
    return (
        SeriesRelease(every, flags, level.fingerprint, release.simulated, grid=release.grid),
        H.shape[1],
    )


def _whitened(
    level: SequentialLevel, series: SeriesRelease, n: int, phi: float, variance: float
) -> _Whitened:
    system = autoregressive_system(phi, variance, level.block or 1)
    found = filter_releases(system, level, series)
    rows = np.nan_to_num(found.innovations[: n + 1]).reshape(n + 1, -1).T.copy()
    fit = RunningLeastSquares(n, rank_tolerance(n))
    fit.add(rows)
    if not fit.full:
        return _Whitened(rows, fit, math.inf)
    size = float(np.log(np.abs(fit.triangle.diagonal()[:n])).sum())
    # The density of zeros is |2πV|^{-½}.
    return _Whitened(rows, fit, size + fit.misfit / 2 - float(found.log_likelihood[n + 1]))


def _scatter(alone: _Whitened, series: SeriesRelease, level: SequentialLevel) -> float:
    """What the releases scatter about least squares, in units of a reading: at least γ₀, about."""
    shown = level.blocks(level.reach, level.reach + 1)[0, 0]
    size = float(np.square(shown).sum()) / len(shown)  # the level of a reading on its own
    seen = series.missing[0] if series.missing.ndim > 1 else series.missing
    count = numbers_shown(seen, len(shown)) - alone.fit.parameters
    if count < 1 or not size > 0:
        raise InvalidInput("AR(1) noise needs more readings than coefficients.")
    return max(alone.fit.misfit / count, 1.0) / size
