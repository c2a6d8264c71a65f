"""The private Kalman filter: states from releases alone, at the bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, Flags
from privest.dynamics._dense import dense_pass
from privest.dynamics._means import Means, by_series, by_step, filtered_means, smoothed_means
from privest.dynamics._observed import Level, Observed, level_of, observed, offsets
from privest.dynamics._releases import SeriesRelease, given_values
from privest.dynamics._sweep import Sweep, backward, forward
from privest.dynamics._system import StateSpace, at, stack
from privest.errors import InvalidInput
from privest.privacy import SequentialLevel
from privest.records import Estimated, Record
from privest.release import StreamRelease


@dataclass(frozen=True, eq=False)
class Filtered(Estimated, Record):
    """Estimates of x_k from the releases up to k; all attain the bound.

    estimate           x̂_{k|k} (K, n), or (series, K, n) for a SeriesRelease.
    covariance         P_{k|k} (K, n, n): the same for all series, it does not depend on data.
    predicted_estimate, predicted_covariance    x̂_{k|k−1} and P_{k|k−1}.
    innovations        ζ_k (…, K, r), white with unit covariance if the system is right; NaN
                       where nothing was shown.
    log_likelihood     log density of the releases; one number, or one a series.
    system, start      the system that was assumed, and the step of the first entry.
    """

    estimate: Array
    covariance: Array
    predicted_estimate: Array
    predicted_covariance: Array
    innovations: Array
    log_likelihood: Array
    system: StateSpace
    start: int
    _back: _Recursive | Smoothed

    def last_state(self) -> tuple[Array, Array]:
        """Mean and factor of all that later steps need (readings looked back to, too)."""
        back = self._back
        if isinstance(back, Smoothed):
            raise InvalidInput("A dense level has no state that a later step could start from.")
        return back.means.filtered[-1, :, 0], back.sweep.table.factor[back.sweep.entry[-1]]

    def __repr__(self) -> str:
        *series, steps, n = self.estimate.shape
        which = f"{series[0]} series, " if series else ""
        return f"Filtered({which}{steps} steps, {n} states)"


@dataclass(frozen=True, eq=False)
class _States(Estimated, Record):
    """Estimates of states with their covariances."""

    estimate: Array
    covariance: Array


class Smoothed(_States):
    """Estimates of x_k from all releases: estimate (…, K, n), covariance P_{k|K} (K, n, n)."""


class Predicted(_States):
    """x_K, …, x_{K+h−1} from all releases: estimate (…, h, n), covariance (h, n, n)."""


@dataclass(frozen=True, eq=False)
class _Recursive:
    """What the smoother needs of a filter pass."""

    sweep: Sweep
    means: Means
    one: bool

    def smooth(self, n: int) -> Smoothed:
        mean = smoothed_means(self.sweep, self.means)[:, :n]
        return Smoothed(by_series(mean, self.one), backward(self.sweep, n))


def filter_releases(
    system: StateSpace,
    level: Level,
    release: StreamRelease | SeriesRelease,
    *,
    inputs: ArrayLike | None = None,
) -> Filtered:
    """Estimate the states of a system from what was released of its readings.

        z̃_k = A_k Ȳ_k + e_k ,   x̂_{k|k} = E[x_k | z̃_0, …, z̃_k]

    Symbols: `level` is that of the mechanism: a StreamLevel or EndlessLevel, or a number or m×m
    matrix, the same at every step. `inputs` (K, p), public. The release starts at step 0.
    Attains: covariance = the filtered marginals of Σ_BPPCR (`dynamics.bound`); the posterior mean.
    Numerics: square-root filter with orthogonal transformations; a level that looks back b steps
    adds (b + 1)m states; a dense level costs (Km)³ for the whole trajectory.
    Source: private Kalman filtering, the paper's first open problem; theory.md 7 (a), (b).

    >>> import privest as pv
    >>> walk = StateSpace(A=1.0, C=1.0, Q=0.0, R=1.0, cov0=1.0)
    >>> level = pv.EndlessLevel(1.0)
    >>> release = pv.StreamMechanism(level).simulate([0.2, 0.1], np.random.default_rng(0))
    >>> filter_releases(walk, level, release).covariance.ravel().round(6).tolist()  # 1/(1 + k/2)
    [0.666667, 0.5]
    """
    wanted = level_of(level, system)
    values, missing = given_values(release, wanted, series=True)
    steps = system.require_steps(values.shape[-2])
    if missing.ndim > 1:
        raise InvalidInput(
            "The series miss different steps, so their covariances differ: filter each pattern by "
            "itself (SeriesRelease.by_pattern)."
        )
    if wanted.form == "dense":
        return _dense(system, wanted, values, missing, inputs)
    seen = observed(system, wanted, steps, missing)
    shift, offset, _ = offsets(system, wanted, seen, inputs)
    return run_filter(system, seen, values, shift, offset)


def run_filter(
    system: StateSpace, seen: Observed, values: Array, shift: Array, offset: Array, start: int = 0
) -> Filtered:
    """The filter on what is seen, z̃ (…, K, r), from step `start` on."""
    missing, n, one = seen.absent, seen.states, values.ndim == 2
    sweep = forward(seen)
    shown = by_step(values)
    if missing.any():
        shown[missing] = 0.0
    means = filtered_means(seen, sweep, shown, shift, offset)
    logs = np.log(np.diagonal(sweep.table.scale, axis1=1, axis2=2)).sum(axis=1)
    total = np.einsum("krs,krs->s", means.innovations, means.innovations)
    count = int((~missing).sum()) * values.shape[-1]
    fit = -0.5 * (total + count * math.log(2 * math.pi)) - logs[sweep.entry].sum()
    innovations = means.innovations
    if missing.any():
        innovations = np.where(missing[:, None, None], np.nan, innovations)
    return Filtered(
        estimate=by_series(means.filtered[:, :n], one),
        covariance=sweep.filtered(n),
        predicted_estimate=by_series(means.predicted[:, :n], one),
        predicted_covariance=sweep.predicted(n),
        innovations=by_series(innovations, one),
        log_likelihood=np.asarray(fit[0] if one else fit),
        system=system,
        start=start,
        _back=_Recursive(sweep, means, one),
    )


def _dense(
    system: StateSpace, level: SequentialLevel, values: Array, missing: Flags,
    inputs: ArrayLike | None,
) -> Filtered:  # fmt: skip
    covariances, found = dense_pass(system, level, values.shape[-2], missing, values, inputs)
    assert found is not None
    return Filtered(
        estimate=found.filtered,
        covariance=covariances.filtered,
        predicted_estimate=found.predicted,
        predicted_covariance=covariances.predicted,
        innovations=found.innovations,
        log_likelihood=found.log_likelihood,
        system=system,
        start=0,
        _back=Smoothed(found.smoothed, covariances.smoothed),
    )


def smooth(filtered: Filtered) -> Smoothed:
    """Estimates of every state from all releases, past and future.

    Covariances are the diagonal blocks of Σ_BPPCR. Nothing is inverted: Q and cov0 may be singular.
    """
    back = filtered._back
    if isinstance(back, Smoothed):
        return back
    return back.smooth(filtered.estimate.shape[-1])


def predict(filtered: Filtered, ahead: int, *, inputs: ArrayLike | None = None) -> Predicted:
    """Estimates of the next `ahead` states, after the last release.

    x̂_{K−1+h} = A x̂ + B u, P = A P Aᵀ + Q. `inputs` (ahead, p) are those of the steps K−1 onwards.
    """
    last = filtered.start + filtered.estimate.shape[-2] - 1
    now, P = filtered.estimate[..., -1, :], filtered.covariance[-1]
    return predict_from(filtered.system, now, P, last, ahead, inputs)


def predict_from(
    system: StateSpace, mean: Array, P: Array, last: int, ahead: int, inputs: ArrayLike | None
) -> Predicted:
    """The states after step `last`, whose estimate is known."""
    if not isinstance(ahead, int | np.integer) or ahead < 1:
        raise InvalidInput(f"ahead must be a whole number ≥ 1; received {ahead!r}.")
    if system.steps is not None and last + ahead > system.steps:
        raise InvalidInput(
            f"The system is given for {system.steps} steps: it leads {system.steps - last} steps "
            f"ahead of step {last}; asked for {ahead}."
        )
    shift, _ = system.offsets(int(ahead), inputs, last)
    A, Q, n = stack(system.A), stack(system.Q), system.states
    means, covariances = np.empty((*mean.shape[:-1], ahead, n)), np.empty((ahead, n, n))
    for h in range(ahead):
        own = at(A, last + h)
        mean = mean @ own.T + shift[h]
        P = own @ P @ own.T + at(Q, last + h)
        P = (P + P.T) / 2
        means[..., h, :], covariances[h] = mean, P
    return Predicted(means, covariances)
