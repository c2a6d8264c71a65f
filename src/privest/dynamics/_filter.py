"""States from releases alone: the Kalman filter, its smoother and forecasts, and the filter of a
stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from privest.arrays import CONFIDENCE, Array, ArrayLike, as_count
from privest.dynamics._diagnosis import Diagnosis, diagnosis_of
from privest.dynamics._kalman import (
    LOG_2PI,
    Pass,
    Undetermined,
    backward,
    early_steps,
    forward,
    require_determined,
    require_sound,
    responses,
    upper_root,
    with_unit_part,
)
from privest.dynamics._releases import Given, Level, given_values, level_of
from privest.dynamics._steps import (
    Steps,
    at,
    input_terms,
    numbers_shown,
    of_entries,
    plan_of,
    stack,
    steps_of,
)
from privest.dynamics._system import StateSpace, known_inputs
from privest.errors import InvalidInput, NotIdentifiable
from privest.privacy import StreamLevel
from privest.records import Estimated, Record
from privest.release import Release


@dataclass(frozen=True, eq=False)
class States(Estimated, Record):
    value: Array
    covariance: Array
    simulated: bool


Forecaster = Callable[[int, ArrayLike | None], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class StateEstimate(Record):
    """The states of a system from releases of its measurements.

    predicted          x̂_{k|k−1} (K, n) and P_{k|k−1} (K, n, n); estimates of many series have a
                       leading axis.
    filtered           x̂_{k|k}, P_{k|k}: from the releases up to k.
    smoothed           x̂_{k|K−1}, P_{k|K−1}: from all releases; computed on first use.
    innovations        ζ_k (…, K, r), white with unit covariance if the system is right; NaN where
                       nothing was shown.
    log_likelihood     log density of the releases, of each series.
    system, start      the assumed system, and the step of the first entry.
    Exact posteriors for linear systems, which attain the bound; approximations for nonlinear ones.
    """

    predicted: States
    filtered: States
    innovations: Array
    log_likelihood: Array
    system: Any
    start: int
    simulated: bool
    _smoother: Callable[[], tuple[Array, Array]]
    _forecaster: Forecaster

    @cached_property
    def smoothed(self) -> States:
        """The diagonal blocks of Σ_BPPCR."""
        return States(*self._smoother(), self.simulated)

    def forecast(self, steps: int, *, inputs: ArrayLike | None = None) -> States:
        """The next `steps` states, K to K + steps − 1, with the `inputs` (steps, p) there."""
        return States(*self._forecaster(steps, inputs), self.simulated)

    def diagnose(
        self, *, lags: int | None = None, parameters: int = 0, confidence: float = CONFIDENCE,
        fitted: bool | None = None,
    ) -> Diagnosis:  # fmt: skip
        """Tests of whether the innovations are what they are if the system is right.

        whiteness   Ljung-Box; for vectors Hosking's portmanteau, and Ljung-Box of every entry.
        normality   Jarque-Bera, summed over the entries.
        mean, variance   against 0 and 1: Σ_j(Σζ_j)²/n_j is χ²_r and Σζ² is χ²_n; exact.

        `lags` L: by default min(10 log₁₀K, K/5). `parameters`: how many that shape autocorrelations
        were fitted to the same releases, taken off the degrees of freedom of whiteness (Box and
        Pierce). `fitted`: whether anything was; default parameters > 0. Cost: O(L K r²).
        """
        return diagnosis_of(
            self.innovations, self.simulated, lags=lags, parameters=parameters,
            confidence=confidence, fitted=fitted,
        )  # fmt: skip

    def __repr__(self) -> str:
        *series, steps, n = self.filtered.value.shape
        which = f"{series[0]} series, " if series else ""
        return f"StateEstimate({which}{steps} steps, {n} states{', simulated' * self.simulated})"


def filter_linear(
    system: StateSpace, level: StreamLevel, release: Release,
    inputs: ArrayLike | None,
) -> StateEstimate:  # fmt: skip
    given = given_values(release, level, series=True)
    system.require_steps(given.values.shape[-2])
    result, state = run_filter(system, level, given, inputs)
    if state.open is not None:
        require_determined(system.matrices.diffuse, state.open.known().hidden)
    return result


class KalmanState(NamedTuple):
    """A filter after `step` steps: mean (S + q, N), factor U (N, N).

    added (n,): what the last input adds to the next state; open: what is known of δ if not all is.
    """

    step: int
    mean: Array
    factor: Array
    added: Array
    open: Undetermined | None = None

    def estimate(self, n: int) -> tuple[Array, Array]:
        """The first series: x̂ (n,) and P (n, n), entries infinite where δ is not determined."""
        mean = self.mean[0, :n]
        P = (self.factor.T @ self.factor)[:n, :n]
        if self.open is None:
            return mean, P
        own = self.open.known()
        response = self.mean[1:, :n].T
        return mean + response @ own.mean[:, 0], own.covariance(P, response)


def first_state(system: StateSpace, steps: Steps, series: int = 1) -> KalmanState:
    mean = np.repeat(steps.start[None], series, axis=0)
    added = np.zeros(system.states)
    if system.diffuse is None:
        return KalmanState(0, mean, steps.root.T.copy(), added)
    mean = np.concatenate([mean, responses(steps, system.diffuse)])
    open_ = Undetermined.nothing(len(mean) - series, series)
    return KalmanState(0, mean, with_unit_part(steps, system.diffuse), added, open_)


class Batch(NamedTuple):
    """Steps after a state: whitened values (K, S + q, r), shift of the states (K, ·, N).

    A diffuse start has q further series.
    """

    steps: Steps
    state: KalmanState
    values: Array
    shift: Array
    series: int

    def run(self) -> Pass:
        return forward(self.steps, self.state.mean, self.values, self.shift, self.state.factor)


class Outcome(NamedTuple):
    """x̂, x̂⁻ (K, S, n), P, P⁻ (K, n, n), ζ (K, S, r), ℓ (S,); mean, factor, δ at the end."""

    filtered: Array
    predicted: Array
    covariance: Array
    predicted_covariance: Array
    zeta: Array
    fit: Array
    mean: Array
    factor: Array
    done: Pass
    open: Undetermined | None = None


def run_filter(
    system: StateSpace, level: StreamLevel, given: Given, inputs: ArrayLike | None,
    state: KalmanState | None = None,
) -> tuple[StateEstimate, KalmanState]:  # fmt: skip
    one = given.values.ndim == 2
    n = system.states
    every = given.values[None] if one else given.values
    batch, added = _batch(system, level, given, every, inputs, state)
    state = batch.state
    found = outcome_of(batch, n)
    fit = given.log_likelihood(found.fit)
    still = found.open
    if still is not None:  # the density is that of all steps, once there is one
        fit = 0.0 * fit
        still = still._replace(density=given.log_likelihood(still.density))
    end = KalmanState(state.step + every.shape[1], found.mean, found.factor, added, still)
    zeta = found.zeta
    if given.missing.any():
        zeta = np.where(of_entries(given.missing)[:, None], np.nan, zeta)
    result = StateEstimate(
        States(_by_series(found.predicted, one), found.predicted_covariance, given.simulated),
        States(_by_series(found.filtered, one), found.covariance, given.simulated),
        _by_series(zeta, one), np.asarray(fit[0] if one else fit), system, state.step,
        given.simulated, partial(_smoothed, batch, found.done, one),
        partial(_forecast, system, end, one),
    )  # fmt: skip
    return result, end


def outcome_of(batch: Batch, n: int) -> Outcome:
    if batch.state.open is not None:
        return _from_diffuse(batch, batch.state.open, n)
    done = batch.run()
    require_sound(done, batch.steps)
    S = batch.series
    N = len(batch.state.factor)
    return Outcome(
        done.mean[:, :S, :n], done.ahead[:, :S, :n], done.of_steps(done.filtered, n),
        done.of_steps(done.predicted, n), done.zeta[:, :S], _log_density(batch.steps, done, S),
        done.mean[-1, :, :N].copy(), done.factor[done.entry[-1], :, :N].copy(), done,
    )  # fmt: skip


def _from_diffuse(batch: Batch, open_: Undetermined, n: int) -> Outcome:
    """Step by step until δ is determined, then from a proper state; ζ is NaN until then."""
    whole = batch.run()
    S = batch.series
    N = len(batch.state.factor)
    require_sound(whole, batch.steps)
    early = early_steps(batch.steps, whole, open_, S)
    d = len(early.filtered)
    first = Outcome(
        early.filtered[..., :n], early.predicted[..., :n], early.covariance[:, :n, :n],
        early.predicted_covariance[:, :n, :n], np.full_like(whole.zeta[:d, :S], np.nan),
        np.zeros(S), whole.mean[-1, :, :N].copy(), whole.factor[whole.entry[-1], :, :N].copy(),
        whole, early.now,
    )  # fmt: skip
    if not early.determined:
        return first
    fit = early.now.density - np.log(np.abs(early.now.triangle.diagonal())).sum()
    response = whole.mean[d - 1, S:, :N].T @ early.known.root
    factor = upper_root(whole.factor[whole.entry[d - 1], :, :N].T, response)
    first = first._replace(fit=fit, mean=early.filtered[-1], factor=factor, open=None)
    if d == batch.steps.steps:
        return first
    state = batch.state._replace(mean=first.mean, factor=factor, open=None)
    values = batch.values[d:, :S].copy()
    rest = outcome_of(Batch(batch.steps.later(d), state, values, batch.shift[d:, :S], S), n)
    x, ahead, P, wide, zeta = (np.concatenate(pair) for pair in zip(first[:5], rest[:5]))
    return Outcome(x, ahead, P, wide, zeta, fit + rest.fit, rest.mean, rest.factor, whole)


def _batch(
    system: StateSpace, level: StreamLevel, given: Given, every: Array,
    inputs: ArrayLike | None, state: KalmanState | None,
) -> tuple[Batch, Array]:  # fmt: skip
    matrices = system.matrices
    K = every.shape[1]
    first = 0 if state is None else state.step
    plan = plan_of(
        level, system.measurements, given.missing, varying=matrices.varying, start=first,
        unit=given.unit,
    )  # fmt: skip
    steps = steps_of(matrices, plan)
    state = first_state(system, steps, len(every)) if state is None else state
    u = known_inputs(inputs, K, system.inputs)
    shift, offset = input_terms(matrices, plan, u, state.added if first else None)
    shown = np.where(of_entries(given.missing), 0.0, every).transpose(1, 0, 2) - offset[:, None]
    values = steps.whitened(shown)
    moves = shift[:, None] if shift.any() else np.zeros((K, 0, shift.shape[1]))
    added = at(stack(matrices.B), first + K - 1) @ u[-1]
    if state.open is not None:
        zeros = ((0, 0), (0, len(state.mean) - len(every)), (0, 0))
        values = np.pad(values, zeros)
        if moves.size:
            moves = np.pad(np.broadcast_to(moves, (K, len(every), moves.shape[2])), zeros)
    return Batch(steps, state, values, moves, len(every)), added


def _log_density(steps: Steps, done: Pass, series: int) -> Array:
    fresh = done.zeta[:, :series]
    total = np.einsum("ksr,ksr->s", fresh, fresh)
    count = numbers_shown(steps.missing, fresh.shape[2])
    logs = done.log_scales() + steps.log_noise()
    return np.asarray(-0.5 * (total + count * LOG_2PI) - logs)


def _by_series(values: Array, one: bool) -> Array:
    return values[:, 0] if one else values.transpose(1, 0, 2)


def _smoothed(batch: Batch, done: Pass, one: bool) -> tuple[Array, Array]:
    states, P = smoothed_of(batch, done)
    return _by_series(states, one), P


def smoothed_of(batch: Batch, done: Pass) -> tuple[Array, Array]:
    S = batch.series
    require_sound(done, batch.steps, smooth=True)
    states, P = backward(batch.steps, done, batch.state.factor)
    if batch.state.open is None:
        return states, P
    q = states.shape[1] - S
    shown = -done.zeta[:, S:].transpose(0, 2, 1).reshape(-1, q)
    fresh = done.zeta[:, :S].transpose(0, 2, 1).reshape(len(shown), S)
    own = batch.state.open.after(shown, np.abs(shown), fresh).known()
    response = states[:, S:].transpose(0, 2, 1)
    means = states[:, :S] + np.einsum("knq,qs->ksn", response, own.mean)
    return means, own.covariance(P, response)


def _forecast(
    system: StateSpace, state: KalmanState, one: bool, steps: int, inputs: ArrayLike | None
) -> tuple[Array, Array]:
    if state.open is not None:
        raise NotIdentifiable("There is no forecast yet: x_0 is diffuse and not determined.")
    count = as_count(steps, "steps", least=1)
    n = system.states
    own = system.matrices
    last = state.step - 1
    if system.steps is not None and last + count > system.steps:
        raise InvalidInput(
            f"The system is given for {system.steps} steps: it leads {system.steps - last} steps "
            f"ahead of step {last}; asked for {count}."
        )
    u = known_inputs(inputs, count, system.inputs)
    mean = state.mean[:, :n]
    P = (state.factor.T @ state.factor)[:n, :n]
    means = np.empty((count, *mean.shape))
    covariances = np.empty((count, n, n))
    added = state.added
    for h in range(count):
        A = at(stack(own.A), last + h)
        F = at(own.Q_root, last + h)
        mean = mean @ A.T + added
        P = A @ P @ A.T + F @ F.T
        means[h] = mean
        covariances[h] = (P + P.T) / 2
        added = at(stack(own.B), last + h + 1) @ u[h]
    return _by_series(means, one), covariances


class PrivateKalman(Estimated):
    """The Kalman filter of a stream as it comes, in constant memory and time a step.

    Dense levels need the whole stream (`dynamics.filter`). `lag` L: `smoothed` estimates the last L
    states from later releases too. A pickle keeps it all.

    >>> import privest as pv
    >>> walk = StateSpace(A=1.0, C=1.0, Q=1.0, R=0.5, cov0=1.0)
    >>> mechanism, kalman = pv.StreamMechanism(2.0), PrivateKalman(walk, 2.0)
    >>> rng = np.random.default_rng(0)  # one for the whole stream: noise must not repeat
    >>> for measurement in (0.3, 0.7):
    ...     release = mechanism.simulate(measurement, rng)
    ...     _ = kalman.update(release)
    >>> kalman.covariance.round(12).tolist()
    [[0.6]]
    """

    system: StateSpace
    level: StreamLevel
    log_likelihood: float
    simulated: bool

    def __init__(self, system: StateSpace, level: Level, *, lag: int | None = None) -> None:
        self.system = system
        self.level = level_of(level, system)
        self._lag = None if lag is None else as_count(lag, "lag", least=0)
        if self.level.form == "dense":
            raise InvalidInput(
                "A dense level looks back to the first step: use dynamics.filter on the whole "
                "stream."
            )
        matrices = system.matrices
        absent = np.zeros(1, dtype=bool)
        plan = plan_of(self.level, system.measurements, absent, varying=matrices.varying)
        self._state = first_state(system, steps_of(matrices, plan))
        self._past: list[tuple[KalmanState, Release, Array]] = []  # inputs of each release
        self.log_likelihood = 0.0
        self.simulated = False  # whether some release was
        plain = system.steps is None and not system.inputs
        self._constant = plain and self.level.steps is None
        # The unit, the one kind of later steps, and no shift of theirs.
        self._kept: tuple[float, Steps, Array] | None = None

    @property
    def steps(self) -> int:
        return self._state.step

    def update(self, release: Release, *, inputs: ArrayLike | None = None) -> StateEstimate:
        """The estimates of the steps of the next releases; `smoothed` goes back to the first."""
        before = self._state
        found = self._single(release) if inputs is None and self._is_single(release) else None
        if found is not None:
            result, now = found
        else:
            given = given_values(release, self.level, self.steps)
            self.system.require_steps(self.steps + len(given.values))
            result, now = run_filter(self.system, self.level, given, inputs, before)
        if self._lag is not None:
            u = known_inputs(inputs, release.steps, self.system.inputs).copy()
            own = replace(release, values=release.values.copy())  # the release is the caller's
            self._past.append((before, own, u))
            while sum(own.steps for _, own, _ in self._past[1:]) > self._lag:
                self._past.pop(0)
        self._state = now
        self.log_likelihood += float(result.log_likelihood)
        self.simulated |= result.simulated
        return result

    def _is_single(self, release: Release) -> bool:
        state = self._state
        return (
            self._constant
            and type(release) is Release
            and release.steps == 1
            and release.missing is None
            and release.start == state.step > self.level.reach
            and state.open is None
            and release.fingerprint == self.level.fingerprint
            and release.values.shape == (self.system.measurements,)
            and release.values.dtype == np.float64
        )

    def _single(self, release: Release) -> tuple[StateEstimate, KalmanState] | None:
        """As `run_filter`, with tables kept; None where a number is not finite."""
        state = self._state
        system = self.system
        n = self.system.states
        unit = 1.0 / math.sqrt(release.unit_variance)
        if self._kept is None or self._kept[0] != unit:
            plan = plan_of(
                self.level, system.measurements, np.zeros(1, dtype=bool), varying=False,
                start=state.step, unit=unit,
            )  # fmt: skip
            own = steps_of(system.matrices, plan)
            self._kept = unit, own, np.zeros((1, 0, own.width))
        _, steps, shift = self._kept
        r = len(release.values)
        N = len(state.factor)
        values = steps.whitened((unit * release.values)[None, None])
        batch = Batch(steps, state, values, shift, 1)
        done = batch.run()
        simulated = release.simulated
        zeta = done.zeta[0]
        logs = math.log(math.prod(done.scale[0].tolist())) + float(steps.logs[0])
        fit = -0.5 * (float(zeta[0] @ zeta[0]) + r * LOG_2PI) - logs + r * math.log(unit)
        if not math.isfinite(fit):
            return None
        now = KalmanState(
            state.step + 1, done.mean[0, :, :N].copy(), done.factor[0, :, :N], state.added
        )  # fmt: skip
        result = StateEstimate(
            States(done.ahead[0, :, :n], done.predicted[:, :n, :n], simulated),
            States(done.mean[0, :, :n], done.filtered[:, :n, :n], simulated), zeta, np.array(fit),
            system, state.step, simulated, partial(_smoothed, batch, done, True),
            partial(_forecast, system, now, True),
        )  # fmt: skip
        return result, now

    @property
    def value(self) -> Array:
        """x̂_{k|k} (n,) after the last release; mean0 before the first."""
        return self._state.estimate(self.system.states)[0]

    @property
    def covariance(self) -> Array:
        """P_{k|k} (n, n)."""
        return self._state.estimate(self.system.states)[1]

    @property
    def smoothed(self) -> States:
        """The last `lag` + 1 states from all releases so far, the oldest first. O(L) a call."""
        if self._lag is None:
            raise InvalidInput("Say how far back to smooth: PrivateKalman(system, level, lag=L).")
        if not self._past:
            raise InvalidInput("There is nothing to smooth: update with a release first.")
        states, releases, inputs = zip(*self._past)
        given = given_values(Release.join(releases), self.level, states[0].step)
        u = np.concatenate(inputs) if self.system.inputs else None
        back = run_filter(self.system, self.level, given, u, states[0])[0].smoothed
        last = slice(-self._lag - 1, None)
        return States(back.value[last], back.covariance[last], back.simulated)

    def forecast(self, steps: int, *, inputs: ArrayLike | None = None) -> States:
        """The next states. See `StateEstimate.forecast`."""
        if self.steps == 0:
            raise InvalidInput("There is nothing to forecast from: update with a release first.")
        return States(*_forecast(self.system, self._state, True, steps, inputs), self.simulated)

    def __repr__(self) -> str:
        return f"PrivateKalman({self.system!r}, at step {self.steps})"
