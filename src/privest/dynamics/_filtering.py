"""The private Kalman filter, in one pass or as a stream comes: states from releases alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privest.arrays import Array, ArrayLike, as_count
from privest.dynamics import _machine as machine
from privest.dynamics._diffuse import (
    Data,
    Undetermined,
    diffuse_pass,
    diffuse_smoothed,
    known,
    nothing_known,
    require_determined,
)
from privest.dynamics._diffuse_dense import whole_pass
from privest.dynamics._means import (
    Means,
    by_series,
    end_of,
    filtered_means,
    log_density,
    smoothed,
)
from privest.dynamics._observed import Level, Observed, level_of, observed, of_entries, offsets
from privest.dynamics._releases import Given, SeriesRelease, given_values
from privest.dynamics._sweep import Sweep, forward
from privest.dynamics._system import StateSpace, at, known_inputs, stack
from privest.errors import InvalidInput, NotIdentifiable
from privest.privacy import SequentialLevel
from privest.records import Estimated, Record
from privest.release import StreamRelease

if TYPE_CHECKING:
    from privest.dynamics._nonlinear import ExtendedFiltered


# Of the last state of `uncorrelated`: estimate, covariance, what its input adds to the next one.
End = tuple[Array, Array, Array]


@dataclass(frozen=True, eq=False)
class Filtered(Estimated, Record):
    """Estimates of x_k from the releases up to k; all attain the bound.

    estimate           x̂_{k|k} (K, n), or (series, K, n) for a SeriesRelease.
    covariance         P_{k|k} (K, n, n): the same for all series, it does not depend on data.
    predicted_estimate, predicted_covariance    x̂_{k|k−1} and P_{k|k−1}.
    innovations        ζ_k (…, K, r), white with unit covariance if the system is right; NaN
                       where nothing was shown (of a part of a reading: in its places).
    log_likelihood     log density of the releases; one number, or one a series.
    system, start      the system that was assumed, and the step of the first entry.
    simulated          whether the release was a simulation, for experiments.
    """

    estimate: Array
    covariance: Array
    predicted_estimate: Array
    predicted_covariance: Array
    innovations: Array
    log_likelihood: Array
    system: StateSpace
    start: int
    simulated: bool
    _smoothed: Callable[[], Smoothed]
    _end: End

    def __repr__(self) -> str:
        *series, steps, n = self.estimate.shape
        which = f"{series[0]} series, " if series else ""
        return f"Filtered({which}{steps} steps, {n} states{', simulated' * self.simulated})"


@dataclass(frozen=True, eq=False)
class _States(Estimated, Record):
    """Estimates of states with their covariances, and whether the release was a simulation."""

    estimate: Array
    covariance: Array
    simulated: bool


class Smoothed(_States):
    """Estimates of x_k from all releases: estimate (…, K, n), covariance P_{k|K} (K, n, n)."""


class Predicted(_States):
    """x_K, …, x_{K+h−1} from all releases: estimate (…, h, n), covariance (h, n, n)."""


def filter_releases(
    system: StateSpace, level: Level, release: StreamRelease | SeriesRelease,
    *, inputs: ArrayLike | None = None, compiled: bool | None = None,
) -> Filtered:  # fmt: skip
    """Estimate the states of a system from what was released of its readings.

        z̃_k = A_k Ȳ_k + e_k ,   x̂_{k|k} = E[x_k | z̃_0, …, z̃_k]

    Symbols: `level` is that of the mechanism: a StreamLevel or EndlessLevel, or a number or m×m
    matrix, the same at every step. `inputs` (K, p), public. The release starts at step 0.
    `compiled`: by machine code (needs numba), True or False; None as soon as a process has taken
    steps enough to be worth it. The same numbers to rounding.
    Attains: covariance = the filtered marginals of Σ_BPPCR (`dynamics.bound`); the posterior mean.
    Numerics: square-root filter with orthogonal transformations; a level that looks back b steps
    adds (b + 1)m states; a dense level costs (Km)³ for the whole trajectory.
    Source: private Kalman filtering, the paper's first open problem; docs/dynamics.md.

    >>> import privest as pv
    >>> walk = StateSpace(A=1.0, C=1.0, Q=0.0, R=1.0, cov0=1.0)
    >>> level = pv.EndlessLevel(1.0)
    >>> release = pv.StreamMechanism(level).simulate([0.2, 0.1], np.random.default_rng(0))
    >>> filter_releases(walk, level, release).covariance.ravel().round(6).tolist()  # 1/(1 + k/2)
    [0.666667, 0.5]
    """
    wanted = level_of(level, system)
    given = given_values(release, wanted, series=True)
    steps = system.require_steps(given.values.shape[-2])
    if wanted.form == "dense":
        return _dense(system, wanted, steps, given, inputs)
    result, now = run_filter(system, wanted, given, inputs, compiled=compiled)
    require_determined(system, now.open)
    return result


def _dense(
    system: StateSpace, level: SequentialLevel, steps: int, given: Given, inputs: ArrayLike | None
) -> Filtered:
    """The filter for levels that look back to the first step."""
    P, found = whole_pass(
        system.uncorrelated, level, steps, given.missing, given.values, inputs, given.unit
    )
    assert found is not None
    n, leaving = system.states, system.uncorrelated.offsets(steps, inputs)[0][-1]
    return Filtered(
        found.filtered[..., :n], P.filtered[:, :n, :n], found.predicted[..., :n],
        P.predicted[:, :n, :n], found.innovations, given.log_likelihood(found.log_likelihood),
        system, 0, given.simulated,
        partial(Smoothed, found.smoothed[..., :n], P.smoothed[:, :n, :n], given.simulated),
        (found.filtered[..., -1, :], P.filtered[-1], leaving),
    )  # fmt: skip


class Now(NamedTuple):
    """What the next step needs: mean and factor of the state, what its known input adds.

    The estimate is mean + root @ unit (`_coordinates`).
    gap (N,): the units of the states in a gap that is open (`Sweep.gap_units`), else zeros.
    open: what is known of a diffuse start that is not yet determined.
    """

    steps: int
    mean: Array
    root: Array
    leaving: Array
    gap: Array
    unit: Array
    open: Undetermined | None = None

    def state(self, count: int) -> tuple[Array, Array]:
        """Estimate and covariance of the first `count` entries."""
        root, mean = self.root[:count], (self.mean + self.root @ self.unit)[:count]
        if self.open is None:
            return mean, root @ root.T
        own, response = known(self.open), self.open.response[:count]
        return own.estimate(mean[:, None], response)[:, 0], own.covariance(root @ root.T, response)


def run_filter(
    system: StateSpace, level: SequentialLevel, given: Given, inputs: ArrayLike | None,
    now: Now | None = None, *, compiled: bool | None = None,
) -> tuple[Filtered, Now]:  # fmt: skip
    """The filter on z̃ (…, K, m) of the next steps, from the first step or from `now`."""
    start, before = (0, None) if now is None else (now.steps, now.leaving)
    values, missing = given.values, given.missing
    count, n, one = values.shape[-2], system.states, values.ndim == 2
    quick = machine.wanted(compiled, count)
    seen = observed(system, level, count, missing, start=start, unit=given.unit, compiled=quick)
    shift, offset, leaving = offsets(
        system, level, seen, inputs, start=start, before=before, unit=given.unit
    )
    if now is not None:
        seen = replace(seen, start=now.mean, root=now.root)
    every = values[None] if one else values
    # A copy in every case: the release belongs to the caller.
    absent = of_entries(missing)[:, :, None]
    shown = np.where(absent, 0.0, every.transpose(1, 2, 0))
    if system.diffuse is not None and (now is None or now.open is not None):
        return _run_diffuse(system, given, seen, Data(shown, shift, offset), leaving, now)
    opened = now.gap if now is not None and now.gap.any() else None
    sweep = forward(seen, opened, compiled=quick)
    means = filtered_means(seen, sweep, shown, shift, offset, None if now is None else now.unit)
    innovations = means.innovations
    fit = given.log_likelihood(log_density(sweep, innovations, missing, means.deviance))
    if missing.any():
        innovations = np.where(absent, np.nan, innovations)
    root = sweep.table.factor[sweep.entry[-1]]
    size = len(leaving)
    end = by_series(means.filtered[-1:, :size], one)[..., -1, :]
    result = Filtered(
        by_series(means.filtered[:, :n], one), sweep.filtered(n),
        by_series(means.predicted[:, :n], one), sweep.predicted(n),
        by_series(innovations, one), np.asarray(fit[0] if one else fit), system, start,
        given.simulated, partial(_recursive, sweep, means, n, one, given.simulated),
        (end.copy(), sweep.table.filtered[sweep.entry[-1], :size, :size].copy(), leaving),
    )  # fmt: skip
    gap = np.zeros(len(root)) if sweep.gap_units is None else sweep.gap_units
    mean, unit = end_of(sweep, means)
    return result, Now(start + count, mean, root, leaving, gap, unit)


def _run_diffuse(
    system: StateSpace, given: Given, seen: Observed, data: Data, leaving: Array, now: Now | None
) -> tuple[Filtered, Now]:
    """The same from a start of which not all is known: `now`, or the first step."""
    n, one = system.states, given.values.ndim == 2
    first = None if now is None else now.open
    if first is None:
        first = nothing_known(system, len(seen.root), data.values.shape[2])
    found, start = diffuse_pass(seen, data, first, n), 0 if now is None else now.steps
    fit, still = given.log_likelihood(found.fit), found.open
    if still is not None:  # the density is that of all steps, once there is one
        fit, still = 0 * fit, still._replace(density=given.log_likelihood(still.density))
    after = Now(
        start + seen.steps, found.mean, found.root, leaving, found.gap, found.unit, still
    )  # fmt: skip
    size = len(leaving)
    end = by_series(found.filtered[-1:, :size], one)[..., -1, :]
    smoothed = partial(_from_diffuse, seen, data, first, n, one, given.simulated)
    fresh = np.where(of_entries(given.missing)[:, :, None], np.nan, found.innovations)
    return Filtered(
        by_series(found.filtered[:, :n], one), found.covariance,
        by_series(found.predicted[:, :n], one), found.predicted_covariance,
        by_series(fresh, one), np.asarray(fit[0] if one else fit), system, start,
        given.simulated, smoothed, (end, after.state(size)[1], leaving),
    ), after  # fmt: skip


def _from_diffuse(
    seen: Observed, data: Data, first: Undetermined, n: int, one: bool, simulated: bool
) -> Smoothed:
    states, covariances = diffuse_smoothed(seen, data, first, n)
    return Smoothed(by_series(states, one), covariances, simulated)


def _recursive(sweep: Sweep, means: Means, n: int, one: bool, simulated: bool) -> Smoothed:
    estimates, covariances = smoothed(sweep, means, n)
    return Smoothed(by_series(estimates, one), covariances, simulated)


def smooth(filtered: Filtered | ExtendedFiltered) -> Smoothed:
    """Estimates of every state from all releases, past and future.

    Covariances are the diagonal blocks of Σ_BPPCR (of nonlinear systems: approximations, as their
    filter's). Nothing is inverted: Q and cov0 may be singular.
    """
    _require_filtered(filtered)
    return filtered._smoothed()


def predict(
    filtered: Filtered | ExtendedFiltered, ahead: int, *, inputs: ArrayLike | None = None
) -> Predicted:
    """Estimates of the next `ahead` states, after the last release.

    x̂_{k+1} = A x̂_k + B u_k, P = A P Aᵀ + Q. `inputs` (ahead, p) are those of the steps predicted,
    K to K + ahead − 1, as in `Fit.forecast`; u_{K−1} is known from the filter. The last one moves
    only readings, not states.
    """
    _require_filtered(filtered)
    if not isinstance(filtered, Filtered):
        return filtered._ahead(ahead, inputs)
    last = filtered.start + filtered.estimate.shape[-2] - 1
    return predicted_from(filtered.system, filtered._end, last, ahead, inputs, filtered.simulated)


def _require_filtered(filtered: object) -> None:
    if not hasattr(filtered, "_smoothed"):
        raise InvalidInput(
            "filtered must be the result of filter_releases, filter_extended or filter_unscented; "
            f"received a {type(filtered).__name__}."
        )


def predicted_from(
    system: StateSpace, end: End, last: int, ahead: int, inputs: ArrayLike | None, simulated: bool
) -> Predicted:
    """The states after step `last`, whose estimate, with that of ω, is known."""
    mean, P, leaving = end
    if not np.isfinite(P).all():
        raise NotIdentifiable("There is no prediction yet: x_0 is diffuse and not determined.")
    states, system = system.states, system.uncorrelated
    ahead = as_count(ahead, "ahead", least=1)
    if system.steps is not None and last + ahead > system.steps:
        raise InvalidInput(
            f"The system is given for {system.steps} steps: it leads {system.steps - last} steps "
            f"ahead of step {last}; asked for {ahead}."
        )
    u = known_inputs(inputs, ahead, system.inputs)
    later, _ = system.offsets(ahead - 1, u[:-1] if system.inputs else None, last + 1)
    shift = np.concatenate([leaving[None], later])
    A, Q, n = stack(system.A), stack(system.Q), system.states
    means, covariances = np.empty((*mean.shape[:-1], ahead, n)), np.empty((ahead, n, n))
    for h in range(ahead):
        own = at(A, last + h)
        mean = mean @ own.T + shift[h]
        P = own @ P @ own.T + at(Q, last + h)
        P = (P + P.T) / 2
        means[..., h, :], covariances[h] = mean, P
    shown = means[..., :states], covariances[:, :states, :states]
    return Predicted(*shown, simulated)
