"""The private Kalman filter for a stream as it comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array
from privest.dynamics._filtering import Filtered, Predicted, predict_from, run_filter
from privest.dynamics._observed import Level, level_of, observed, offsets
from privest.dynamics._releases import given_values
from privest.dynamics._system import StateSpace
from privest.errors import InvalidInput
from privest.records import Estimated
from privest.release import StreamRelease


class PrivateKalman(Estimated):
    """The estimator's side of a stream: takes releases in order, keeps the state's estimate.

    It sees no reading. Memory and time a step do not grow: a level that looks back b steps adds
    (b + 1)m states. Dense levels need the whole trajectory (`filter_releases`).

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

    def __init__(self, system: StateSpace, level: Level) -> None:
        self.system, self.level = system, level_of(level, system)
        if self.level.form == "dense":
            raise InvalidInput(
                "A dense level looks back to the first step: use filter_releases on the whole "
                "stream."
            )
        one = observed(system, self.level, 1, np.zeros(1, dtype=bool))
        self.steps = 0
        self.log_likelihood = 0.0
        self._mean, self._root = one.start, one.root
        self._leaving: Array = np.zeros(system.states)

    def update(self, release: StreamRelease, *, inputs: ArrayLike | None = None) -> Filtered:
        """Use the next releases; returns the estimates of their steps.

        `smooth` of what is returned goes back to the first step of these releases, no further.
        """
        values, missing = given_values(release, self.level, self.steps)
        system, start, count = self.system, self.steps, release.steps
        system.require_steps(start + count)
        seen = observed(system, self.level, count, missing, start=start)
        shift, offset, leaving = offsets(
            system, self.level, seen, inputs, start=start, before=self._leaving
        )
        seen = replace(seen, start=self._mean, root=self._root)
        result = run_filter(system, seen, values, shift, offset, start)
        self._mean, self._root = result.last_state()
        self._leaving, self.steps = leaving, start + count
        self.log_likelihood += float(result.log_likelihood)
        return result

    @property
    def estimate(self) -> Array:
        """x̂_{k|k} (n,) after the last release; mean0 before the first."""
        return self._mean[: self.system.states].copy()

    @property
    def covariance(self) -> Array:
        """P_{k|k} (n, n)."""
        own = self._root[: self.system.states]
        return np.asarray(own @ own.T)

    def predict(self, ahead: int, *, inputs: ArrayLike | None = None) -> Predicted:
        """The next states. See `dynamics.predict`."""
        if self.steps == 0:
            raise InvalidInput("There is nothing to predict from: update with a release first.")
        last = self.steps - 1
        return predict_from(self.system, self.estimate, self.covariance, last, ahead, inputs)

    def state(self) -> dict[str, Array]:
        """What the next steps need, as plain arrays; it holds no reading."""
        return {
            "steps": np.array(self.steps),
            "mean": self._mean,
            "root": self._root,
            "leaving": self._leaving,
            "log_likelihood": np.array(self.log_likelihood),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take up a state again."""
        self.steps = int(state["steps"])
        self._mean, self._root = state["mean"].copy(), state["root"].copy()
        self._leaving = state["leaving"].copy()
        self.log_likelihood = float(state["log_likelihood"])

    def __repr__(self) -> str:
        return f"PrivateKalman({self.system!r}, at step {self.steps})"
