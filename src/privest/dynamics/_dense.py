"""Bounds and estimates for dense levels: by the trajectory, or by way of the readings.

The trajectory (`_trajectory`) subtracts what was learnt from the prior covariance. Where the prior
is far wider than what is left (unstable systems, vague starts) that loses all digits. The other way
round nothing is subtracted: whitened innovations ζ = W(Y − E Y) give the prior of the readings,
J_Y = WᵀW, so after the releases of the steps up to k

    precision of Y_{0:k} = [W; A]ᵀ[W; A] = UᵀU (leading blocks) ,
    cov(x_k | releases) = cov(x_k | Y_{0:k}) + M_k (UᵀU)⁻¹ M_kᵀ ,    M_k = ∂E[x_k | Y_{0:k}]/∂Y

a sum of squares. It needs readings that are never known beforehand (J_Y finite).
"""

from __future__ import annotations

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Flags
from privest.dynamics._information import responses
from privest.dynamics._means import LOG_2PI, smoothed_means
from privest.dynamics._sweep import Marginals, marginals
from privest.dynamics._system import StateSpace
from privest.dynamics._trajectory import Estimates, prior_means, rows_shown, trajectory
from privest.errors import LevelBelowPrior, NumericalFailure
from privest.linalg._sequential import with_unit
from privest.linalg.batched import substitute
from privest.privacy import SequentialLevel

PREFERRED = 1e4  # prior variance / what is left, from which on the way by the readings is taken
REFUSED = 1e6  # where there is no such way: eps·1e6 = 2e-10 is the most that may be lost
VAGUE = (
    "The states are so much less certain before the releases than after them that rounding loses "
    "the difference (an unstable system, or a very vague start), and some reading is known before "
    "it is taken. Take fewer steps, a smaller cov0, or a level that looks back a fixed number of "
    "steps."
)
Pass = tuple[Marginals, Estimates | None]  # covariances, and with releases the estimates


def dense_pass(
    system: StateSpace, level: SequentialLevel, steps: int, missing: Flags,
    values: Array | None = None, inputs: ArrayLike | None = None, unit: float = 1.0,
) -> Pass:  # fmt: skip
    """All marginals for a dense level, by the way that keeps the digits. O((Km)³), O(K²mn) memory.

    `unit` 1/√v: `values` are z̃/√v, of the rows A/√v. Raises NumericalFailure where neither way
    keeps 1e-9.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # not finite: not narrowed below
            whole = trajectory(system, level, steps, missing, unit)
            narrowed = whole.narrowing
    except NumericalFailure:
        narrowed = np.inf
    if narrowed > PREFERRED:
        try:
            return _by_readings(system, level, steps, missing, values, inputs, unit)
        except LevelBelowPrior:
            if narrowed > REFUSED:
                raise NumericalFailure(VAGUE) from None
    covariances = Marginals(whole.predicted, whole.filtered, whole.smoothed)
    return covariances, None if values is None else whole.estimates(values, inputs)


def _by_readings(
    system: StateSpace, level: SequentialLevel, steps: int, missing: Flags,
    values: Array | None, inputs: ArrayLike | None, unit: float = 1.0,
) -> Pass:  # fmt: skip
    n, m = system.states, system.readings
    size = steps * m
    sweep, maps = responses(system, steps)
    W = maps.innovations.reshape(size, size)
    rows = unit * rows_shown(level, missing, m)
    last, covariances = smoothed_means(sweep, maps), marginals(sweep, n)

    state_mean: Array = np.zeros((steps, n))
    fresh: Array = np.zeros((1, size))
    if values is not None:
        state_mean, reading_mean = prior_means(system, steps, inputs)
        shown_values = np.where(missing[:, None], 0.0, values).reshape(-1, size)
        fresh = shown_values - rows @ reading_mean.ravel()
    series = len(fresh)
    moved = np.zeros((size, series))  # E[Y | releases] − E Y
    means = np.empty((2, series, steps, n))
    innovations, logs = np.empty((series, steps, m)), 0.0

    upper = np.zeros((size, size), order="F")
    for k in range(steps):
        start, stop = k * m, (k + 1) * m
        covariances.predicted[k] += _square(upper[:start, :start], maps.predicted[k, :, :start])
        means[0, :, k] = (maps.predicted[k, :, :start] @ moved[:start]).T
        own = W[start:stop]
        upper[:stop, :stop] = _absorbed(upper[:stop, :stop], own[:, :stop])
        moved[start:stop] = -np.linalg.solve(own[:, start:stop], own[:, :start] @ moved[:start])
        shown = rows[start:stop, :stop]
        heard = _against(upper[:stop, :stop], shown)
        lower = with_unit(heard.T @ heard)
        surprise = fresh[:, start:stop].T - shown @ moved[:stop]
        white = substitute(lower, surprise, lower=True)
        pull = heard @ substitute(lower, white, lower=True, transposed=True)
        moved[:stop] += scipy.linalg.solve_triangular(upper[:stop, :stop], pull)
        innovations[:, k] = white.T
        logs += float(np.log(np.diagonal(lower)).sum())
        upper[:stop, :stop] = _absorbed(upper[:stop, :stop], shown)
        covariances.filtered[k] += _square(upper[:stop, :stop], maps.filtered[k, :, :stop])
        means[1, :, k] = (maps.filtered[k, :, :stop] @ moved[:stop]).T
    for k in range(steps):
        covariances.smoothed[k] += _square(upper, last[k])
    if values is None:
        return covariances, None
    shape = (*values.shape[:-1], n)
    final = np.einsum("knj,js->skn", last, moved)
    fit = -0.5 * np.einsum("skm,skm->s", innovations, innovations) - logs
    fit -= 0.5 * int((~missing).sum()) * m * LOG_2PI
    innovations = np.where(missing[:, None], np.nan, innovations)
    return covariances, Estimates(
        (state_mean + means[0]).reshape(shape), (state_mean + means[1]).reshape(shape),
        (state_mean + final).reshape(shape), innovations.reshape(values.shape),
        np.asarray(fit.reshape(values.shape[:-2])),
    )  # fmt: skip


def _absorbed(upper: Array, rows: Array) -> Array:
    """U with UᵀU = upperᵀupper + rowsᵀrows, by QR that knows the triangle: O(m (km)²)."""
    new, _, _, _ = scipy.linalg.lapack.dtpqrt(0, min(len(upper), 32), upper, rows)
    return np.asarray(np.triu(new))


def _against(upper: Array, rows: Array) -> Array:
    """U⁻ᵀ rowsᵀ."""
    return np.asarray(scipy.linalg.solve_triangular(upper, rows.T, trans="T"))


def _square(upper: Array, rows: Array) -> Array:
    """rows (UᵀU)⁻¹ rowsᵀ."""
    if len(upper) == 0:
        return np.zeros((len(rows), len(rows)))
    half = _against(upper, rows)
    return half.T @ half
