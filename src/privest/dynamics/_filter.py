"""States from releases alone: filter, smoother, predictions, and the filter of a stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_count, as_number
from privest.dynamics._dense import dense_pass
from privest.dynamics._kalman import (
    LOG_2PI,
    Pass,
    Undetermined,
    backward,
    early_steps,
    forward,
    later_part,
    one_step,
    require_determined,
    require_sound,
    responses,
    upper_root,
    with_unit_part,
)
from privest.dynamics._releases import (
    Given,
    Level,
    SeriesRelease,
    given_values,
    joined,
    level_of,
)
from privest.dynamics._steps import (
    Next,
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
from privest.privacy import EndlessLevel, SequentialLevel
from privest.records import Estimated, Record
from privest.release import StreamRelease


@dataclass(frozen=True, eq=False)
class Filtered(Estimated, Record):
    """Estimates of x_k from the releases up to k.

    estimate           x̂_{k|k} (K, n), or (series, K, n) for a SeriesRelease.
    covariance         P_{k|k} (K, n, n): the same for all series, it does not depend on data.
    predicted_estimate, predicted_covariance    x̂_{k|k−1} and P_{k|k−1}.
    innovations        ζ_k (…, K, r), white with unit covariance if the system is right; NaN
                       where nothing was shown.
    log_likelihood     log density of the releases; one number, or one a series.
    system, start      the system that was assumed, and the step of the first entry.
    simulated          whether the release was a simulation, for experiments.
    Of linear systems the posterior means and covariances, which attain the bound; of nonlinear
    ones approximations.
    """

    estimate: Array
    covariance: Array
    predicted_estimate: Array
    predicted_covariance: Array
    innovations: Array
    log_likelihood: Array
    system: Any
    start: int
    simulated: bool
    _smoothed: Callable[[], Smoothed]
    _predicted: Callable[[int, ArrayLike | None], Predicted]

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


def filter_linear(
    system: StateSpace, level: SequentialLevel, release: StreamRelease | SeriesRelease,
    inputs: ArrayLike | None,
) -> Filtered:  # fmt: skip
    """The Kalman filter of a linear system, on all steps of a release."""
    given = given_values(release, level, series=True)
    steps = system.require_steps(given.values.shape[-2])
    if level.form == "dense":
        return _dense(system, level, steps, given, inputs)
    result, state = run_filter(system, level, given, inputs)
    if state.open is not None:
        require_determined(system.matrices.diffuse, state.open.known().hidden)
    return result


def _dense(
    system: StateSpace, level: SequentialLevel, steps: int, given: Given, inputs: ArrayLike | None
) -> Filtered:
    """The filter for levels that look back to the first step."""
    u, n = known_inputs(inputs, steps, system.inputs), system.states
    found = dense_pass(system.matrices, level, given.missing, given.unit, given.values, u)
    mean, root = found.ahead  # of x_K already
    leads = Next(np.eye(n), np.zeros((n, n)), np.zeros((1, n)))
    end = KalmanState(steps, np.atleast_2d(mean), upper_root(root), leads)
    return Filtered(
        found.filtered, found.covariance, found.predicted, found.predicted_covariance,
        found.innovations, given.log_likelihood(found.log_likelihood), system, 0, given.simulated,
        partial(Smoothed, found.smoothed, found.smoothed_covariance, given.simulated),
        partial(_predicted, system, end, mean.ndim == 1, given.simulated),
    )  # fmt: skip


class KalmanState(NamedTuple):
    """Where a filter stands after `step` steps, of S series and q columns of a diffuse start.

    mean (S + q, N), factor U (N, N); leads: what leads into the next step; open: what is known of
    δ where that is not all (q > 0).
    """

    step: int
    mean: Array
    factor: Array
    leads: Next
    open: Undetermined | None = None

    def estimate(self, n: int) -> tuple[Array, Array]:
        """Of the first series: x̂ (n,) and P (n, n), entries infinite where δ is not determined."""
        mean, P = self.mean[0, :n], (self.factor.T @ self.factor)[:n, :n]
        if self.open is None:
            return mean, P
        own, response = self.open.known(), self.mean[1:, :n].T
        return mean + response @ own.mean[:, 0], own.covariance(P, response)


def first_state(system: StateSpace, steps: Steps, series: int = 1) -> KalmanState:
    """Before the first of the steps of a system."""
    n, mean = system.states, np.repeat(steps.start[None], series, axis=0)
    leads = Next(np.eye(n), np.zeros((n, n)), np.zeros((1, n)))
    if system.diffuse is None:
        return KalmanState(0, mean, steps.root.T.copy(), leads)
    mean = np.concatenate([mean, responses(steps, system.diffuse)])
    open_ = Undetermined.nothing(len(mean) - series, series)
    return KalmanState(0, mean, with_unit_part(steps, system.diffuse), leads, open_)


class Batch(NamedTuple):
    """Steps that follow a state: whitened values (K, S + q, r), what moves the states (K, ·, N).

    The columns of a diffuse start are q further series that show zeros.
    """

    steps: Steps
    state: KalmanState
    values: Array
    shift: Array
    series: int

    def run(self, *, smooth: bool = False) -> Pass:
        """The filter over all of it."""
        mean, factor = self.state.mean, self.state.factor
        return forward(self.steps, mean, self.values, self.shift, factor, smooth=smooth)


class Outcome(NamedTuple):
    """x̂, x̂⁻ (K, S, n), P, P⁻ (K, n, n), ζ (K, S, r), ℓ (S,); mean and factor after the last step.

    open: what is known of a diffuse start where that is not all.
    """

    filtered: Array
    predicted: Array
    covariance: Array
    predicted_covariance: Array
    zeta: Array
    fit: Array
    mean: Array
    factor: Array
    open: Undetermined | None = None


def run_filter(
    system: StateSpace, level: SequentialLevel, given: Given, inputs: ArrayLike | None,
    state: KalmanState | None = None,
) -> tuple[Filtered, KalmanState]:  # fmt: skip
    """The filter on z̃ (…, K, m) of the next steps, from the first step or from a state."""
    one, n = given.values.ndim == 2, system.states
    every = given.values[None] if one else given.values
    batch, leads = _batch(system, level, given, every, inputs, state)
    state = batch.state
    found = outcome_of(batch, n)
    fit, still = given.log_likelihood(found.fit), found.open
    if still is not None:  # the density is that of all steps, once there is one
        fit, still = 0.0 * fit, still._replace(density=given.log_likelihood(still.density))
    end = KalmanState(state.step + every.shape[1], found.mean, found.factor, leads, still)
    zeta = found.zeta
    if given.missing.any():
        zeta = np.where(of_entries(given.missing)[:, None], np.nan, zeta)
    result = Filtered(
        _by_series(found.filtered, one), found.covariance, _by_series(found.predicted, one),
        found.predicted_covariance, _by_series(zeta, one), np.asarray(fit[0] if one else fit),
        system, state.step, given.simulated, partial(_smoothed, batch, n, one, given.simulated),
        partial(_predicted, system, end, one, given.simulated),
    )  # fmt: skip
    return result, end


def outcome_of(batch: Batch, n: int) -> Outcome:
    """The filter over a batch of steps, of the first n states."""
    if batch.state.open is not None:
        return _from_diffuse(batch, batch.state.open, n)
    done = batch.run()
    require_sound(done, batch.steps)
    S, N = batch.series, len(batch.state.factor)
    return Outcome(
        done.mean[:, :S, :n], done.ahead[:, :S, :n], done.of_steps(done.filtered, n),
        done.of_steps(done.predicted, n), done.zeta[:, :S], _log_density(batch.steps, done, S),
        done.mean[-1, :, :N].copy(), done.factor[done.entry[-1], :, :N].copy(),
    )  # fmt: skip


def _from_diffuse(batch: Batch, open_: Undetermined, n: int) -> Outcome:
    """Step by step until δ is determined, then from a proper state; ζ is NaN until then."""
    whole, S, N = batch.run(), batch.series, len(batch.state.factor)
    require_sound(whole, batch.steps)
    early = early_steps(batch.steps, whole, open_, S)
    d = len(early.filtered)
    first = Outcome(
        early.filtered[..., :n], early.predicted[..., :n], early.covariance[:, :n, :n],
        early.predicted_covariance[:, :n, :n], np.full_like(whole.zeta[:d, :S], np.nan),
        np.zeros(S), whole.mean[-1, :, :N].copy(), whole.factor[whole.entry[-1], :, :N].copy(),
        early.now,
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
    later, values = later_part(batch.steps, d), batch.values[d:, :S].copy()
    rest = outcome_of(Batch(later, state, values, batch.shift[d:, :S], S), n)
    x, ahead, P, wide, zeta = (np.concatenate(pair) for pair in zip(first[:5], rest[:5]))
    return Outcome(x, ahead, P, wide, zeta, fit + rest.fit, rest.mean, rest.factor)


def _batch(
    system: StateSpace, level: SequentialLevel, given: Given, every: Array,
    inputs: ArrayLike | None, state: KalmanState | None,
) -> tuple[Batch, Next]:  # fmt: skip
    """The steps of a release after a state, and what leads out of them."""
    matrices, K, first = system.matrices, every.shape[1], 0 if state is None else state.step
    plan = plan_of(
        level, system.readings, K, given.missing, varying=matrices.varying, start=first,
        unit=given.unit,
    )  # fmt: skip
    steps = steps_of(matrices, plan)
    state = first_state(system, steps, len(every)) if state is None else state
    if steps.crossing is not None and first:
        steps.transition[0], steps.drive[0] = state.leads.transition, state.leads.drive
    u = known_inputs(inputs, K, system.inputs)
    shift, offset = input_terms(matrices, plan, u, state.leads.shift[0] if first else None)
    shown = np.where(of_entries(given.missing), 0.0, every).transpose(1, 0, 2) - offset[:, None]
    values = steps.whitened(shown)
    moves = shift[:, None] if shift.any() else np.zeros((K, 0, shift.shape[1]))
    last = first + K - 1
    added = (at(stack(matrices.B), last) @ u[-1])[None]
    if steps.crossing is None:
        leads = Next(at(stack(matrices.A), last), at(matrices.Q_root, last), added)
    else:
        told = np.einsum("knr,ksr->ksn", steps.crossing.told, values)
        moves = np.broadcast_to(shift[:, None], (K, len(every), shift.shape[1])).copy()
        moves[1:] += told[:-1]
        leads = Next(steps.crossing.transition, steps.crossing.drive, added + told[-1])
    if state.open is not None:
        zeros = ((0, 0), (0, len(state.mean) - len(every)), (0, 0))
        values = np.pad(values, zeros)
        if moves.size:
            moves = np.pad(np.broadcast_to(moves, (K, len(every), moves.shape[2])), zeros)
    return Batch(steps, state, values, moves, len(every)), leads


def _log_density(steps: Steps, done: Pass, series: int) -> Array:
    """The log density of the whitened innovations of every series, (S,)."""
    fresh = done.zeta[:, :series]
    total = np.einsum("ksr,ksr->s", fresh, fresh)
    count = numbers_shown(steps.missing, fresh.shape[2])
    logs = done.log_scales() + steps.log_noise()
    return np.asarray(-0.5 * (total + count * LOG_2PI) - logs)


def _by_series(values: Array, one: bool) -> Array:
    """(K, S, r) as (S, K, r), or (K, r) of the only one."""
    return values[:, 0] if one else values.transpose(1, 0, 2)


def _smoothed(batch: Batch, n: int, one: bool, simulated: bool) -> Smoothed:
    states, P = smoothed_of(batch, n)
    return Smoothed(_by_series(states, one), P, simulated)


def smoothed_of(batch: Batch, n: int) -> tuple[Array, Array]:
    """Smoothed means (K, S, n) and covariances (K, n, n) over a batch of steps."""
    done, S = batch.run(smooth=True), batch.series
    require_sound(done, batch.steps, smooth=True)
    states, P = backward(done, n)
    if batch.state.open is None:
        return states, P
    q = states.shape[1] - S
    shown = -done.zeta[:, S:].transpose(0, 2, 1).reshape(-1, q)
    fresh = done.zeta[:, :S].transpose(0, 2, 1).reshape(len(shown), S)
    own = batch.state.open.after(shown, np.abs(shown), fresh).known()
    response = states[:, S:].transpose(0, 2, 1)
    means = states[:, :S] + np.einsum("knq,qs->ksn", response, own.mean)
    return means, own.covariance(P, response)


def smooth(filtered: Filtered) -> Smoothed:
    """Estimates of every state from all releases, past and future.

    Covariances are the diagonal blocks of Σ_BPPCR (of nonlinear systems: approximations, as their
    filter's). Nothing is inverted: Q and cov0 may be singular.
    """
    return _require_filtered(filtered)._smoothed()


def predict(filtered: Filtered, steps: int, *, inputs: ArrayLike | None = None) -> Predicted:
    """Estimates of the next `steps` states, K to K + steps − 1, after the last release.

    x̂_{k+1} = A x̂_k + B u_k, P = A P Aᵀ + Q. `inputs` (steps, p) are those of the steps predicted,
    as in `Fit.forecast`; u_{K−1} is known from the filter. The last one moves only measurements.
    """
    return _require_filtered(filtered)._predicted(steps, inputs)


def _require_filtered(filtered: Filtered) -> Filtered:
    if not isinstance(filtered, Filtered):
        raise InvalidInput(
            f"filtered must be the result of dynamics.filter; received a {type(filtered).__name__}."
        )
    return filtered


def _predicted(
    system: StateSpace, state: KalmanState, one: bool, simulated: bool, steps: int,
    inputs: ArrayLike | None,
) -> Predicted:  # fmt: skip
    if state.open is not None:
        raise NotIdentifiable("There is no prediction yet: x_0 is diffuse and not determined.")
    count, n, own = as_count(steps, "steps", least=1), system.states, system.matrices
    last = state.step - 1
    if system.steps is not None and last + count > system.steps:
        raise InvalidInput(
            f"The system is given for {system.steps} steps: it leads {system.steps - last} steps "
            f"ahead of step {last}; asked for {count}."
        )
    u = known_inputs(inputs, count, system.inputs)
    mean, P = state.mean[:, :n], (state.factor.T @ state.factor)[:n, :n]
    means, covariances = np.empty((count, *mean.shape)), np.empty((count, n, n))
    A, F, added = state.leads
    for h in range(count):
        if h:
            A, F = at(stack(own.A), last + h), at(own.Q_root, last + h)
            added = (at(stack(own.B), last + h) @ u[h - 1])[None]
        mean, P = mean @ A.T + added, A @ P @ A.T + F @ F.T
        means[h], covariances[h] = mean, (P + P.T) / 2
    return Predicted(_by_series(means, one), covariances, simulated)


class PrivateKalman(Estimated):
    """The Kalman filter of a stream as it comes: takes releases in order, keeps the estimate.

    It sees no measurement. Memory and time a step do not grow: a level that looks back b steps adds
    (b + 1)m states. Dense levels need the whole stream (`dynamics.filter`).
    `lag` L: `smoothed` says what later releases tell of the last L states.

    >>> import privest as pv
    >>> walk = StateSpace(A=1.0, C=1.0, Q=1.0, R=0.5, cov0=1.0)
    >>> mechanism, kalman = pv.StreamMechanism(pv.EndlessLevel(2.0)), PrivateKalman(walk, 2.0)
    >>> rng = np.random.default_rng(0)  # one for the whole stream: noise must not repeat
    >>> for measurement in (0.3, 0.7):
    ...     release = mechanism.simulate(measurement, rng)
    ...     _ = kalman.update(release)
    >>> kalman.covariance.round(12).tolist()
    [[0.6]]
    """

    def __init__(self, system: StateSpace, level: Level, *, lag: int | None = None) -> None:
        self.system, self.level = system, level_of(level, system)
        self._lag = None if lag is None else as_count(lag, "lag", least=0)
        if self.level.form == "dense":
            raise InvalidInput(
                "A dense level looks back to the first step: use dynamics.filter on the whole "
                "stream."
            )
        self._state = self._first()
        self._past: list[tuple[KalmanState, StreamRelease, Array]] = []  # inputs of each release
        self.log_likelihood = 0.0
        self.simulated = False  # whether some release was
        plain = system.cross is None and system.steps is None and not system.inputs
        self._constant = plain and isinstance(self.level, EndlessLevel)
        self._kept: tuple[float, Steps] | None = None  # unit, and the one kind of later steps

    def _first(self) -> KalmanState:
        """Before the first release."""
        matrices, absent = self.system.matrices, np.zeros(1, dtype=bool)
        plan = plan_of(self.level, self.system.readings, 1, absent, varying=matrices.varying)
        return first_state(self.system, steps_of(matrices, plan))

    @property
    def steps(self) -> int:
        """How many steps were used so far."""
        return self._state.step

    def update(self, release: StreamRelease, *, inputs: ArrayLike | None = None) -> Filtered:
        """Use the next releases; returns the estimates of their steps.

        `smooth` of what is returned goes back to the first step of these releases, no further.
        """
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

    def _is_single(self, release: StreamRelease) -> bool:
        """Whether it is the next step, whole, of a system and a level that do not change."""
        state = self._state
        return (
            self._constant
            and type(release) is StreamRelease
            and release.steps == 1
            and release.missing is None
            and release.start == state.step > self.level.reach
            and state.open is None
            and release.fingerprint == self.level.fingerprint
            and release.values.shape == (self.system.readings,)
            and release.values.dtype == np.float64
        )

    def _single(self, release: StreamRelease) -> tuple[Filtered, KalmanState] | None:
        """The same as `run_filter`, without what a constant system has done before.

        None where a number is not finite: `run_filter` says which.
        """
        state, system, n = self._state, self.system, self.system.states
        unit = 1.0 / math.sqrt(release.unit_variance)
        if self._kept is None or self._kept[0] != unit:
            plan = plan_of(
                self.level, system.readings, 1, np.zeros(1, dtype=bool), varying=False,
                start=state.step, unit=unit,
            )  # fmt: skip
            self._kept = unit, steps_of(system.matrices, plan)
        steps, r, N = self._kept[1], len(release.values), len(state.factor)
        values = steps.whitened((unit * release.values)[None, None])
        done = one_step(steps, state.mean, values, state.factor)
        zeta = done.zeta[0]
        logs = math.log(math.prod(done.scale[0].tolist())) + float(steps.tables.logs[0])
        fit = -0.5 * (float(zeta[0] @ zeta[0]) + r * LOG_2PI) - logs + r * math.log(unit)
        if not math.isfinite(fit):
            return None
        batch = Batch(steps, state, values, steps.still, 1)
        now = KalmanState(
            state.step + 1, done.mean[0, :, :N].copy(), done.factor[0, :, :N], state.leads
        )  # fmt: skip
        result = Filtered(
            done.mean[0, :, :n], done.filtered[:, :n, :n], done.ahead[0, :, :n],
            done.predicted[:, :n, :n], zeta, np.array(fit), system, state.step, release.simulated,
            partial(_smoothed, batch, n, True, release.simulated),
            partial(_predicted, system, now, True, release.simulated),
        )  # fmt: skip
        return result, now

    @property
    def estimate(self) -> Array:
        """x̂_{k|k} (n,) after the last release; mean0 before the first."""
        return self._state.estimate(self.system.states)[0]

    @property
    def covariance(self) -> Array:
        """P_{k|k} (n, n)."""
        return self._state.estimate(self.system.states)[1]

    @property
    def smoothed(self) -> Smoothed:
        """The last `lag` + 1 states from all releases so far: x_{k−L} first, x_k last.

        The same as `smooth` of the whole stream up to k, at these steps. O(L) a call.
        """
        if self._lag is None:
            raise InvalidInput("Say how far back to smooth: PrivateKalman(system, level, lag=L).")
        if not self._past:
            raise InvalidInput("There is nothing to smooth: update with a release first.")
        states, releases, inputs = zip(*self._past)
        given = given_values(joined(releases), self.level, states[0].step)
        u = np.concatenate(inputs) if self.system.inputs else None
        back = smooth(run_filter(self.system, self.level, given, u, states[0])[0])
        last = slice(-self._lag - 1, None)
        return Smoothed(back.estimate[last], back.covariance[last], back.simulated)

    def predict(self, steps: int, *, inputs: ArrayLike | None = None) -> Predicted:
        """The next states. See `dynamics.predict`."""
        if self.steps == 0:
            raise InvalidInput("There is nothing to predict from: update with a release first.")
        return _predicted(self.system, self._state, True, self.simulated, steps, inputs)

    def state(self) -> dict[str, Array]:
        """What the next steps need, as plain arrays; it holds no measurement.

        Releases that are held for `smoothed` are not part of it.
        """
        facts = {"log_likelihood": self.log_likelihood, "simulated": self.simulated}
        return _packed(self._state) | {name: np.array(fact) for name, fact in facts.items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take up a state again, all of it or nothing; `smoothed` then begins at the next release.

        Raises InvalidInput for what no `state` of a filter of this system and level can be.
        """
        blank = self._first()
        if not np.any(state.get("open", False)):
            blank = blank._replace(mean=blank.mean[:1], open=None)
        wanted = _packed(blank)
        absent = {*wanted, "log_likelihood", "simulated"} - set(state)
        if absent:
            raise InvalidInput(
                f"the state of a filter lacks {', '.join(sorted(absent))}: it is of another kind "
                "of filter, or of an earlier version, which cannot be taken up."
            )
        held: Any = np.asarray(state["step"], dtype=object)[()]  # a number as it is
        step, limits = as_count(held, "step", least=0), (self.system.steps, self.level.steps)
        if any(limit is not None and step > limit for limit in limits):
            raise InvalidInput(f"the state is of step {step}; the system or level ends before.")
        parts = {name: _checked_part(state, name, part) for name, part in wanted.items()}
        _checked_part(state, "simulated", np.array(True))
        leads = Next(*(parts[f"leads_{name}"] for name in Next._fields))
        known = blank.open and Undetermined(*(parts[name] for name in Undetermined._fields))
        fit = as_number(state["log_likelihood"], "log_likelihood of the state")
        self._state = KalmanState(step, parts["mean"], parts["factor"], leads, known)
        self._past, self.log_likelihood = [], fit
        self.simulated = bool(state["simulated"])

    def __repr__(self) -> str:
        return f"PrivateKalman({self.system!r}, at step {self.steps})"


def _checked_part(state: Mapping[str, Array], name: str, like: Array) -> Array:
    """An array of a state: numbers of the shape of `like`, or one truth value."""
    if like.dtype == bool:
        flag = np.asarray(state[name])
        if flag.shape or flag.dtype != bool:
            raise InvalidInput(f"{name} of the state must be True or False.")
        return flag
    part = as_array(state[name], f"{name} of the state").copy()
    if part.shape != like.shape:
        raise InvalidInput(
            f"{name} of the state must have shape {like.shape} for this system and level; "
            f"received {part.shape}."
        )
    return part


def _packed(state: KalmanState) -> dict[str, Array]:
    """Where a filter stands, as plain arrays."""
    leads = {f"leads_{name}": part for name, part in state.leads._asdict().items()}
    open_ = {} if state.open is None else state.open._asdict()
    return {
        "step": np.array(state.step), "mean": state.mean, "factor": state.factor,
        "open": np.array(state.open is not None), **leads, **open_,
    }  # fmt: skip
