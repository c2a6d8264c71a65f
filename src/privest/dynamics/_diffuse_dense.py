"""Dense levels with a diffuse start: responses to δ are further series of the dense pass.

The pass that believes δ = 0, with mean zero and no inputs, is linear in what is released: fed with
z̃ − A E Y it gives deviations of the estimates, fed with −A E Y of a unit δ_j their response to δ_j
less E x of it. The rest is `_diffuse`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privest.arrays import Array, ArrayLike, Flags
from privest.dynamics._dense import Pass, dense_pass
from privest.dynamics._diffuse import Known, Undetermined, known, nothing_known, require_determined
from privest.dynamics._sweep import Marginals
from privest.dynamics._system import StateSpace, stack
from privest.dynamics._trajectory import Estimates, prior_means, rows_shown
from privest.linalg.batched import substitute
from privest.privacy import SequentialLevel


class _Responses(NamedTuple):
    """To δ: of x (K, n, q) before any release, of A Y (K, m, q), its size if nothing cancelled."""

    states: Array
    shown: Array
    size: Array


def whole_pass(
    system: StateSpace, level: SequentialLevel, steps: int, missing: Flags,
    values: Array | None = None, inputs: ArrayLike | None = None, unit: float = 1.0,
) -> Pass:  # fmt: skip
    """`dense_pass`, also from a diffuse start: NotIdentifiable where δ is never determined."""
    if system.diffuse is None:
        return dense_pass(system, level, steps, missing, values, inputs, unit)
    m, rows = system.readings, unit * rows_shown(level, missing, system.readings)
    given = np.zeros((1, steps, m)) if values is None else values.reshape(-1, steps, m)
    mean: Array = np.zeros((steps, system.states))
    if values is not None:
        mean, reading = prior_means(system, steps, inputs)
        given = given - (rows @ reading.ravel()).reshape(steps, m)
    moved = _responses(system, rows, steps)
    every = np.concatenate([given, -moved.shown.transpose(2, 0, 1)])
    proper = _started(system, np.zeros(system.states))
    P, found = dense_pass(proper, level, steps, missing, every, None, unit)
    assert found is not None
    P, estimates = _combined(system, P, found, moved, len(given))
    if values is None:
        return P, None
    shape = (*values.shape[:-1], system.states)
    predicted, filtered, smoothed = (mean + part for part in estimates[:3])
    return P, Estimates(
        predicted.reshape(shape), filtered.reshape(shape), smoothed.reshape(shape),
        estimates.innovations.reshape(values.shape),
        estimates.log_likelihood.reshape(values.shape[:-2]),
    )  # fmt: skip


def _started(system: StateSpace, mean: Array) -> StateSpace:
    """The proper part of the system, from a mean and without inputs."""
    result = StateSpace(system.A, system.C, system.Q, system.R, mean, system.cov0)
    vars(result).update(Q_root=system.Q_root, R_root=system.R_root, root0=system.root0)
    return result


def _responses(system: StateSpace, rows: Array, steps: int) -> _Responses:
    assert system.diffuse is not None
    pairs = [prior_means(_started(system, column), steps, None) for column in system.diffuse.T]
    states, readings = (np.stack(part, axis=2) for part in zip(*pairs))
    count = states.shape[2]
    size = np.abs(rows) @ (np.abs(stack(system.C)[:steps]) @ np.abs(states)).reshape(-1, count)
    shown = (rows @ readings.reshape(-1, count)).reshape(readings.shape)
    return _Responses(states, shown, size.reshape(readings.shape))


def _combined(
    system: StateSpace, P: Marginals, found: Estimates, moved: _Responses, series: int
) -> tuple[Marginals, Estimates]:
    """Step by step, δ from the innovations so far; estimates (series, K, n)."""
    ahead, after, last = (
        part[series:].transpose(1, 2, 0) + moved.states
        for part in (found.predicted, found.filtered, found.smoothed)
    )
    fresh = np.nan_to_num(found.innovations[:series]).transpose(1, 2, 0)
    rows = -np.nan_to_num(found.innovations[series:]).transpose(1, 2, 0)
    alone = found.log_likelihood[:series] + 0.5 * np.square(fresh).sum(axis=(0, 1))
    now = nothing_known(system, system.states, series)._replace(density=alone)
    own = known(now)
    predicted, filtered = (part[:series].copy() for part in (found.predicted, found.filtered))
    smoothed, innovations = found.smoothed[:series].copy(), np.full_like(fresh, np.nan)
    narrow = Marginals(*(np.empty_like(part) for part in (P.predicted, P.filtered, P.smoothed)))
    for k in range(len(fresh)):
        predicted[:, k] += (ahead[k] @ own.mean).T
        narrow.predicted[k] = own.covariance(P.predicted[k], ahead[k])
        if not own.hidden.shape[1]:
            innovations[k] = _whitened(own, rows[k], fresh[k])
        now = now.after(now.response, rows[k], moved.size[k], fresh[k])
        own = known(now)
        filtered[:, k] += (after[k] @ own.mean).T
        narrow.filtered[k] = own.covariance(P.filtered[k], after[k])
    require_determined(system, now if own.hidden.shape[1] else None)
    narrow.smoothed[:] = own.covariance(P.smoothed, last)
    smoothed += np.einsum("knq,qs->skn", last, own.mean)
    gone = np.isnan(found.innovations[:series])
    white = np.where(gone, np.nan, innovations.transpose(2, 0, 1))
    return narrow, Estimates(predicted, filtered, smoothed, white, _density(now))


def _whitened(own: Known, rows: Array, fresh: Array) -> Array:
    """ζ given δ̂: of covariance I + X̃ cov(δ̂) X̃ᵀ, by QR."""
    half = np.concatenate([rows @ own.root, np.eye(len(rows))], axis=1)
    lower = np.asarray(np.linalg.qr(half.T, mode="r")).T
    lower = lower * np.copysign(1.0, lower.diagonal())
    return substitute(lower, fresh - rows @ own.mean, lower=True)


def _density(now: Undetermined) -> Array:
    return np.asarray(now.density - np.log(np.abs(now.triangle.diagonal())).sum())
