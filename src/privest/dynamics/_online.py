"""The private Kalman filter of a stream as it comes, one release at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from privest.arrays import Array, ArrayLike, as_count, as_number
from privest.dynamics import _machine as machine
from privest.dynamics._diffuse import Undetermined, nothing_known
from privest.dynamics._filtering import (
    Filtered,
    Now,
    Predicted,
    Smoothed,
    predicted_from,
    run_filter,
)
from privest.dynamics._means import LOG_2PI
from privest.dynamics._observed import Level, level_of, observed, of_entries
from privest.dynamics._past import Past, flag_of, part_of, restored_part
from privest.dynamics._recursions import Tables
from privest.dynamics._releases import given_values
from privest.dynamics._single import compiled_single, plain_single
from privest.dynamics._system import StateSpace
from privest.dynamics._triangular import triangular
from privest.errors import InvalidInput
from privest.privacy import EndlessLevel
from privest.records import Estimated
from privest.release import StreamRelease


class PrivateKalman(Estimated):
    """The estimator's side of a stream: takes releases in order, keeps the state's estimate.

    It sees no reading. Memory and time a step do not grow: a level that looks back b steps adds
    (b + 1)m states. Dense levels need the whole trajectory (`filter_releases`).
    `lag` L: what later releases tell of the last L states is kept, too (`smoothed`).
    `compiled`: see `filter_releases`; a single release then takes one compiled step.

    >>> import privest as pv
    >>> walk = StateSpace(A=1.0, C=1.0, Q=1.0, R=0.5, cov0=1.0)
    >>> mechanism, kalman = pv.StreamMechanism(pv.EndlessLevel(2.0)), PrivateKalman(walk, 2.0)
    >>> rng = np.random.default_rng(0)  # one for the whole stream: noise must not repeat
    >>> for reading in (0.3, 0.7):
    ...     release = mechanism.simulate(reading, rng)
    ...     _ = kalman.update(release)
    >>> kalman.covariance.round(12).tolist()
    [[0.6]]
    """

    def __init__(
        self, system: StateSpace, level: Level, *, lag: int | None = None,
        compiled: bool | None = None,
    ) -> None:  # fmt: skip
        self.system, self.level = system, level_of(level, system)
        self._compiled = compiled
        self._past = None if lag is None else Past(as_count(lag, "lag", least=0))
        if self.level.form == "dense":
            raise InvalidInput(
                "A dense level looks back to the first step: use filter_releases on the whole "
                "stream."
            )
        one = observed(system, self.level, 1, np.zeros(1, dtype=bool))
        none = np.zeros(len(one.root))
        self._stand(Now(
            0, one.start, one.root, np.zeros(system.uncorrelated.states), none, none,
            None if system.diffuse is None else nothing_known(system, len(none), 1),
        ))  # fmt: skip
        self.log_likelihood = 0.0
        self.simulated = False  # whether some release was
        self._constant = system.steps is None and isinstance(self.level, EndlessLevel)
        self._shape = (system.readings,)
        self._kept: tuple[float, Tables] | None = None  # unit, and A, F, G, N of every later step
        self._single = compiled_single if machine.wanted(compiled, 0) else plain_single

    @property
    def steps(self) -> int:
        """How many steps were used so far."""
        return self._now.steps

    def update(self, release: StreamRelease, *, inputs: ArrayLike | None = None) -> Filtered:
        """Use the next releases; returns the estimates of their steps.

        `smooth` of what is returned goes back to the first step of these releases, no further.
        """
        past, before = self._past, self._now
        if past is None:
            return self._updated(release, inputs)
        given = given_values(release, self.level, before.steps)
        past.require(given.unit)
        result = self._updated(release, inputs)
        past.add(before, given, inputs)
        return result

    def _updated(self, release: StreamRelease, inputs: ArrayLike | None) -> Filtered:
        if inputs is None and self._ordinary and self._is_single(release):
            result = self._update_single(release)
            if result is not None:
                return result
        given = given_values(release, self.level, self.steps)
        self.system.require_steps(self.steps + len(given.values))
        result, now = run_filter(
            self.system, self.level, given, inputs, self._now, compiled=self._compiled
        )
        self._stand(now)
        self.log_likelihood += float(result.log_likelihood)
        self.simulated |= result.simulated
        return result

    def _stand(self, now: Now) -> None:
        """From here on; ordinary: no gap is open, nothing undetermined."""
        self._now = now
        self._ordinary = now.open is None and not now.gap.any() and not now.unit.any()

    def _is_single(self, release: StreamRelease) -> bool:
        """Whether it is the next step, whole: all that `given_values` would ask of it."""
        return (
            type(release) is StreamRelease
            and release.steps == 1
            and release.missing is None
            and release.start == self._now.steps
            and release.fingerprint == self.level.fingerprint
            and release.values.shape == self._shape
            and release.values.dtype == np.float64
            and not self.system.inputs
        )

    def _update_single(self, release: StreamRelease) -> Filtered | None:
        """The quick way; None where the step is not ordinary, and nothing has happened."""
        now, unit = self._now, 1.0
        if release.grid:
            unit = 1.0 / math.sqrt(release.unit_variance)
        if self._compiled is None and self._single is plain_single and machine.wanted(None, 1):
            self._single, self._kept = compiled_single, None
        kept = self._kept
        if kept is None or kept[0] != unit or not now.steps:
            kept = self._tables(unit)
        if kept is None:
            return None
        found = self._single(kept[1], release.values, unit, now.mean, now.root)
        if found is None:
            return None
        n, count = self.system.states, len(found.mean[0])
        fit = -0.5 * (found.deviance + len(release.values) * LOG_2PI)
        if unit != 1.0:
            fit += len(release.values) * math.log(unit)
        mean, covariance = found.mean, found.covariance
        ahead, spread = found.ahead, found.spread
        if n < count:
            mean, covariance = mean[:, :n], covariance[:, :n, :n]
            ahead, spread = ahead[:, :n], spread[:, :n, :n]
        size, simulated = len(now.leaving), release.simulated
        result = Filtered(
            mean, covariance, ahead, spread, found.fresh, np.array(fit), self.system, now.steps,
            simulated, partial(Smoothed, mean, covariance, simulated),
            (found.mean[0, :size].copy(), found.covariance[0, :size, :size].copy(), now.leaving),
        )  # fmt: skip
        self._now = Now(
            now.steps + 1, found.mean[0].copy(), found.factor, now.leaving, now.gap, now.unit
        )
        self.log_likelihood += fit
        self.simulated |= simulated
        return result

    def _tables(self, unit: float) -> tuple[float, Tables] | None:
        """unit, and A, F, G, N of the next step; kept where they are those of all later ones.

        None for a step that shows nothing.
        """
        start = self._now.steps
        self.system.require_steps(start + 1)
        seen = observed(self.system, self.level, 1, np.zeros(1, dtype=bool), start=start, unit=unit)
        A, F, G, noise = (np.ascontiguousarray(table) for table in seen.tables)
        if not G.any():
            return None
        if self._single is compiled_single:
            F, noise = triangular(F), triangular(noise)
        if self._constant and start > self.level.reach:
            self._kept = unit, (A, F, G, noise)
        return unit, (A, F, G, noise)

    @property
    def estimate(self) -> Array:
        """x̂_{k|k} (n,) after the last release; mean0 before the first."""
        return self._end[0][: self.system.states]

    @property
    def covariance(self) -> Array:
        """P_{k|k} (n, n)."""
        n = self.system.states
        return self._end[1][:n, :n]

    @property
    def _end(self) -> tuple[Array, Array]:
        """Estimate and covariance of the state of `uncorrelated`."""
        return self._now.state(self.system.uncorrelated.states)

    @property
    def smoothed(self) -> Smoothed:
        """The last `lag` + 1 states from all releases so far: x_{k−L} first, x_k last.

        The same as `smooth` of the whole stream up to k, at these steps. O(L) a call.
        """
        if self._past is None:
            raise InvalidInput("Say how far back to smooth: PrivateKalman(system, level, lag=L).")
        return self._past.smoothed(self.system, self.level, self._compiled)

    def predict(self, ahead: int, *, inputs: ArrayLike | None = None) -> Predicted:
        """The next states. See `dynamics.predict`."""
        if self.steps == 0:
            raise InvalidInput("There is nothing to predict from: update with a release first.")
        last = self.steps - 1
        end = *self._end, self._now.leaving
        return predicted_from(self.system, end, last, ahead, inputs, self.simulated)

    def state(self) -> dict[str, Array]:
        """What the next steps need, as plain arrays; it holds no reading."""
        facts = {"log_likelihood": self.log_likelihood, "simulated": self.simulated}
        whole = self._packed(self._now) | {name: np.array(fact) for name, fact in facts.items()}
        if self._past is None:
            return whole
        if not self._past.parts:
            return whole | {"past": np.array(0)}
        past = self._past.joined()
        whole |= {f"past_{name}": part for name, part in self._packed(past.now).items()}
        given = past.given
        return whole | {
            "past": np.array(past.steps), "past_values": given.values,
            "past_missing": np.broadcast_to(of_entries(given.missing), given.values.shape).copy(),
            "past_scale": np.array(given.unit), "past_inputs": past.inputs,
            "past_simulated": np.array(given.simulated),
        }  # fmt: skip

    def _packed(self, now: Now) -> dict[str, Array]:
        """Where the filter stands, as plain arrays."""
        parts = {name: np.asarray(part) for name, part in now._asdict().items() if name != "open"}
        if self.system.diffuse is not None:
            parts["open"] = np.array(now.open is not None)
            parts |= (now.open or nothing_known(self.system, len(now.root), 1))._asdict()
        return parts

    def _unpacked(self, state: Mapping[str, Array], prefix: str = "") -> Now:
        """The inverse, checked."""
        wanted = self._packed(self._now)
        absent = {prefix + name for name in wanted} - set(state)
        if absent:
            raise InvalidInput(f"the state of a filter lacks {', '.join(sorted(absent))}.")
        parts = {name: part_of(state, prefix + name, wanted[name].shape)
                 for name in ("mean", "root", "leaving", "gap", "unit")}  # fmt: skip
        steps: Any = np.asarray(state[f"{prefix}steps"], dtype=object)[()]  # a number as it is
        count = as_count(steps, f"{prefix}steps", least=0)
        limits = self.system.steps, self.level.steps
        if any(limit is not None and count > limit for limit in limits):
            raise InvalidInput(f"the state is of step {count}; the system or level ends before.")
        still = None
        if self.system.diffuse is not None:
            blank = nothing_known(self.system, len(self._now.root), 1)
            held = {name: part_of(state, prefix + name, own.shape)
                    for name, own in blank._asdict().items()}  # fmt: skip
            still = Undetermined(**held) if flag_of(state, f"{prefix}open") else None
        return Now(count, **parts, open=still)

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take up a state again: all of it, or nothing of one that does not fit.

        Raises InvalidInput for what no `state` of a filter of this system, level and lag can be.
        """
        now = self._unpacked(state)
        absent = {"log_likelihood", "simulated"} - set(state)
        if absent:
            raise InvalidInput(f"the state of a filter lacks {', '.join(sorted(absent))}.")
        fit = as_number(state["log_likelihood"], "log_likelihood of the state")
        simulated = flag_of(state, "simulated")
        past = None if self._past is None else self._restored_past(state, self._past.lag, now)
        self._stand(now)
        self.log_likelihood, self.simulated, self._past = fit, simulated, past

    def _restored_past(self, state: Mapping[str, Array], lag: int, now: Now) -> Past:
        if "past" not in state:
            raise InvalidInput("the state of a filter lacks past: it was made without a lag.")
        result = Past(lag)
        held: Any = np.asarray(state["past"], dtype=object)[()]
        steps = as_count(held, "past", least=0)
        if steps == 0:
            return result
        before = self._unpacked(state, "past_")
        if before.steps + steps != now.steps:
            raise InvalidInput("past of the state does not lead to where the filter stands.")
        own, system = (
            {name[5:]: part for name, part in state.items() if name[:5] == "past_"},
            self.system,
        )
        result.parts.append(restored_part(before, own, steps, system.readings, system.inputs))
        return result

    def __repr__(self) -> str:
        return f"PrivateKalman({self.system!r}, at step {self.steps})"
