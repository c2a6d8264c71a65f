"""J_Y, what the system alone tells about the readings, and levels that count it.

J_Y = (HPHᵀ + R)⁻¹ is never inverted: whitened innovations are ζ = W(Y − E Y) with W block
lower-triangular, so J_Y = WᵀW, also where HPHᵀ + R is far too ill-conditioned to invert (unstable
systems).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.bounds._bayesian import above_prior
from privest.dynamics._diffuse import whitened_responses, with_unit_part
from privest.dynamics._means import Means, filtered_means
from privest.dynamics._observed import Observed, unprotected
from privest.dynamics._recursions import backwards, spread
from privest.dynamics._sweep import Sweep, forward
from privest.dynamics._system import StateSpace, as_system, stack
from privest.errors import LevelBelowPrior, NotAPrivacyLevel, NumericalFailure
from privest.linalg import batched as stacked
from privest.linalg import psd
from privest.linalg.tolerances import rounding
from privest.privacy import EndlessLevel, StreamLevel

TIES = (
    "The system leaves some reading without any uncertainty given the earlier ones (C P Cᵀ + R is "
    "singular): the prior alone exceeds every finite level."
)


def _innovations(system: StateSpace, steps: int) -> tuple[Observed, Sweep]:
    """The filter of the readings themselves, or LevelBelowPrior where one is known beforehand."""
    seen = unprotected(system, np.zeros(steps, dtype=bool))
    if system.diffuse is not None:
        seen = with_unit_part(system, seen)
    try:
        sweep = forward(seen)
    except NumericalFailure:
        raise LevelBelowPrior(TIES) from None
    # c_ii is what is left of reading i given the earlier ones, the norm of its row what there was
    # before those of the same step: a ratio of rounding is a tie, not information.
    scale = sweep.table.scale
    left = np.abs(scale.diagonal(axis1=1, axis2=2))
    if (left <= rounding(scale.shape[-1]) * np.linalg.norm(scale, axis=2)).any():
        raise LevelBelowPrior(TIES)
    return seen, sweep


def responses(system: StateSpace, steps: int) -> tuple[Sweep, Means]:
    """How estimates and innovations depend on each reading: those of unit readings, mean zero."""
    m, (seen, sweep) = system.readings, _innovations(system, steps)
    n = len(seen.start)
    unit = np.eye(steps * m).reshape(steps, m, steps * m)
    centred = replace(seen, start=np.zeros(n))
    return sweep, filtered_means(centred, sweep, unit, np.zeros((steps, n)), np.zeros((steps, m)))


def reading_information(system: StateSpace, steps: int) -> Array:
    """J_Y of y_0 … y_{K−1}, (Km, Km), dense: the information of the prior about the readings.

    J_Y = WᵀW, W the whitened innovations of unit readings. (Km)² memory. Of a diffuse start the
    limit of large variances: V⁻¹ − V⁻¹X(XᵀV⁻¹X)⁻¹XᵀV⁻¹, X the response of the readings to δ.

    >>> white = StateSpace(A=0.0, C=1.0, Q=1.0, R=1.0, cov0=3.0)
    >>> reading_information(white, 2).round(12).tolist()
    [[0.25, 0.0], [0.0, 0.5]]
    """
    size = as_system(system).require_steps(steps) * system.readings
    W = responses(system, int(steps))[1].innovations.reshape(size, size)
    if system.diffuse is not None:  # what δ explains tells nothing: the other directions of ζ
        rows = whitened_responses(system, *_innovations(system, int(steps)))
        W = np.linalg.qr(rows, mode="complete")[0][:, rows.shape[1] :].T @ W
    return np.asarray(W.T @ W)


def information_blocks(system: StateSpace, steps: int) -> Array:
    """[J_Y]_kk (K, m, m), in O(K): sums of squares only.

    y_k enters ζ_k through c⁻¹ and all later ζ through the filter: with N_k = Σ_{j>k} of the
    squares of ∂ζ_j/∂x̂_k (backwards: N_{k−1} = EᵀE + A_clᵀ N_k A_cl, E = c⁻¹GA),
    [J_Y]_kk = c⁻ᵀ (I + κᵀN_kκ) c⁻¹. (Of a diffuse start by way of all of J_Y, (Km)² memory.)
    """
    if as_system(system).diffuse is not None:
        m, whole = system.readings, reading_information(system, steps)
        return whole.reshape(steps, m, steps, m)[np.arange(steps), :, np.arange(steps)]
    seen, sweep = _innovations(system, system.require_steps(steps))
    whiten = np.linalg.inv(sweep.table.scale)
    A, G = seen.transition[sweep.kind], seen.rows[sweep.kind]
    heard = whiten @ G @ A
    closed = A - sweep.table.gain @ heard
    squares = heard.swapaxes(-1, -2) @ heard
    nothing = np.zeros_like(A[0])
    later, own = backwards(closed.swapaxes(-1, -2), squares, sweep.entry, nothing)
    gain, unit = spread(sweep.table.gain, sweep.entry), spread(whiten, sweep.entry)
    inner = gain.swapaxes(-1, -2) @ spread(later, own) @ gain + np.eye(system.readings)
    result = unit.swapaxes(-1, -2) @ inner @ unit
    return np.asarray((result + result.swapaxes(-1, -2)) / 2)


def total_level(system: StateSpace, S: ArrayLike, steps: int) -> StreamLevel:
    """The releases that a total level S on the readings allows: S − J_Y, realised step by step.

    BI_Z(Y) = J_Y + I_Z(Y) ≤ S counts what the system alone tells about the readings. S: a number
    s·I, a block (m, m) for every step, blocks (K, m, m), or the whole matrix (Km, Km).
    S − J_Y is dense whenever the readings are correlated, so releases look back to the first step:
    its only sequential realisation is block lower-triangular (docs/theory.md 6). Its diagonal
    blocks by themselves are no admissible level.
    Raises LevelBelowPrior, naming the direction, if S − J_Y is not ≥ 0. (Km)³ flops.
    """
    count, m = as_system(system).require_steps(steps), system.readings
    total = _whole(S, count, m)
    known = reading_information(system, count)
    every, kept = above_prior(
        total, known, "the system alone reveals", lambda i: f"y_{i // m}[{i % m}]"
    )
    if not kept.any():
        return StreamLevel(np.zeros((count, m, m)))
    factor = every[:, kept]
    return StreamLevel.from_cumulative(factor @ factor.T, [m] * count)


def memoryless_level(
    system: StateSpace, S: ArrayLike, steps: int | None = None
) -> EndlessLevel | StreamLevel:
    """Releases that keep a total level S without looking back: L_kL_kᵀ = S_k − R_k⁻¹.

    J_Y = (HPHᵀ + R)⁻¹ ≤ R⁻¹ block by block, so BI_Z(Y) ≤ S holds for every horizon: valid for
    streams without an end, but not tight (the part R⁻¹ − J_Y is given away).
    S: a number s·I, a block (m, m), or blocks (K, m, m). The result is an EndlessLevel where
    neither S nor R changes with time.
    (R is the noise of the readings given that of the states, where the two are correlated.)
    Raises LevelBelowPrior where S_k − R_k⁻¹ is not ≥ 0; `total_level` may then still exist.

    >>> walk = StateSpace(A=1.0, C=1.0, Q=0.1, R=0.5, cov0=1.0)
    >>> memoryless_level(walk, 2.5).final_blocks().diagonal().round(12).tolist()  # 2.5 − 1/0.5
    [0.5]
    """
    m, name = as_system(system).readings, "the total level S"
    array = as_array(S, name, ndim=(0, 2, 3), error=NotAPrivacyLevel)
    own = stack(array * np.eye(m) if array.ndim == 0 else array)
    if own.shape[-2:] != (m, m):
        raise NotAPrivacyLevel(f"{name} must have blocks of {m}×{m}; received {array.shape}.")
    psd(own, name, error=NotAPrivacyLevel)
    noise = stacked.cholesky(stack(system.uncorrelated.R))  # what is left of R beside w
    if noise is None:
        raise LevelBelowPrior("R is singular: the bound J_Y ≤ R⁻¹ says nothing. Use total_level.")
    # In units in which R_k = I: S' − I ≥ 0, and L = unit⁻¹ᵀ L'.
    scaled = noise.swapaxes(-1, -2) @ own @ noise
    values, vectors = np.linalg.eigh((scaled + scaled.swapaxes(-1, -2)) / 2)
    extra = values - 1.0
    # S is given to some eps of itself, which is eps·‖S‖‖R‖ in these units.
    size = np.linalg.norm(own, 2, axis=(1, 2)) * np.linalg.norm(noise, 2, axis=(1, 2)) ** 2
    short = extra.min(axis=-1) + rounding(m) * size
    if short.min() < 0:
        k = int(short.argmin())
        raise LevelBelowPrior(
            f"S − R⁻¹ is negative at step {k} (S is {values[k].min():.6g} of R⁻¹ in its weakest "
            "direction): no level without memory keeps S. total_level may still exist."
        )
    half = vectors * np.sqrt(np.maximum(extra, 0.0))[..., None, :]  # rounding only, checked above
    factor = np.linalg.solve(noise.swapaxes(-1, -2), half)
    added = factor @ factor.swapaxes(-1, -2)
    if len(added) == 1 and steps is None:
        return EndlessLevel(added[0])
    count = len(added) if steps is None else system.require_steps(steps)
    if 1 < len(added) < count:
        raise NotAPrivacyLevel(f"{name} has {len(added)} blocks; asked for {count} steps.")
    return StreamLevel(np.array(np.broadcast_to(added[:count], (count, m, m))))


def _whole(S: ArrayLike, steps: int, m: int) -> Array:
    name, size = "the total level S", steps * m
    array = as_array(S, name, ndim=(0, 2, 3), error=NotAPrivacyLevel)
    if array.shape == (m, m) and steps > 1:
        array = np.broadcast_to(array, (steps, m, m))
    return psd(array, name, size=size, error=NotAPrivacyLevel).dense()
