"""Nonlinear systems: the extended filter, and a bound that holds locally."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.dynamics._bound import DynamicBound, bound
from privest.dynamics._observed import Level, level_of, of_entries, unit_noise
from privest.dynamics._releases import given_values
from privest.dynamics._sweep import step
from privest.dynamics._system import StateSpace
from privest.errors import InvalidInput
from privest.linalg.batched import substitute
from privest.model._derivative import numerical_jacobian
from privest.privacy._parts import rows_of_parts
from privest.records import Estimated, Record
from privest.release import StreamRelease

Map = Callable[[Array], ArrayLike]


class ExtendedStateSpace:
    """x_{k+1} = f(x_k) + w_k ,   y_k = h(x_k) + v_k ,   x_0 ~ N(mean0, cov0).

    `transition` f and `reading` h take a state (n,) and return (n,) and (m,); their Jacobians are
    found by differences that know their error, or given (`transition_jacobian`,
    `reading_jacobian`). Q, R, cov0 as for StateSpace.

    >>> pendulum = ExtendedStateSpace(
    ...     lambda x: [x[0] + 0.1 * x[1], x[1] - 0.1 * np.sin(x[0])], lambda x: [np.sin(x[0])],
    ...     Q=1e-4, R=0.01, mean0=[0.5, 0.0], cov0=0.01)
    >>> pendulum
    ExtendedStateSpace(2 states, 1 readings a step)
    """

    def __init__(
        self, transition: Map, reading: Map, Q: ArrayLike, R: ArrayLike, mean0: ArrayLike,
        cov0: ArrayLike, *, transition_jacobian: Map | None = None,
        reading_jacobian: Map | None = None,
    ) -> None:  # fmt: skip
        start = as_array(mean0, "mean0", ndim=1)
        self._f, self._h = transition, reading
        self._f_slope, self._h_slope = transition_jacobian, reading_jacobian
        n, moved, seen = len(start), _value(transition, start, "f"), _value(reading, start, "h")
        if moved.shape != (n,):
            raise InvalidInput(f"f must return {n} states; it returned shape {moved.shape}.")
        # A linear system at the start checks Q, R and cov0 once.
        self._frame = StateSpace(np.zeros((n, n)), np.zeros((len(seen), n)), Q, R, start, cov0)
        if self._frame.steps is not None:
            raise InvalidInput("Q and R of a nonlinear system have no time axis.")

    @property
    def states(self) -> int:
        """n."""
        return self._frame.states

    @property
    def readings(self) -> int:
        """m."""
        return self._frame.readings

    def move(self, state: Array) -> tuple[Array, Array]:
        """f(x) and f'(x)."""
        return self._linear(self._f, self._f_slope, state, "f", self.states)

    def read(self, state: Array) -> tuple[Array, Array]:
        """h(x) and h'(x)."""
        return self._linear(self._h, self._h_slope, state, "h", self.readings)

    def _linear(
        self, function: Map, slope: Map | None, state: Array, name: str, rows: int
    ) -> tuple[Array, Array]:
        value = _value(function, state, name)
        if slope is None:
            return value, numerical_jacobian(function, state, value)[0]
        matrix = as_array(slope(state), f"the Jacobian of {name}", ndim=2)
        if matrix.shape != (rows, self.states):
            raise InvalidInput(
                f"The Jacobian of {name} must be {rows}×{self.states}; it returned {matrix.shape}."
            )
        return value, matrix

    def linearised(self, states: ArrayLike) -> StateSpace:
        """The linear system of small deviations from a trajectory (K, n)."""
        path = as_array(states, "the trajectory", ndim=2)
        if path.shape[1] != self.states or len(path) == 0:
            raise InvalidInput(
                f"the trajectory must be (K, {self.states}); received shape {path.shape}."
            )
        frame = self._frame
        A = np.stack([self.move(x)[1] for x in path])
        C = np.stack([self.read(x)[1] for x in path])
        return StateSpace(A, C, frame.Q, frame.R, np.zeros(self.states), frame.cov0)

    def __repr__(self) -> str:
        return f"ExtendedStateSpace({self.states} states, {self.readings} readings a step)"


def _value(function: Map, state: Array, name: str) -> Array:
    return as_array(function(state), f"{name}(x)", ndim=1)


@dataclass(frozen=True, eq=False)
class LocalBound(DynamicBound):
    """Σ_BPPCR of the linearised system about one trajectory: local, not a floor for all estimates.

    How well small deviations from `path` (K, n) can be estimated. Where errors are as large as
    the bends of f and h, no estimate need be near it, and a biased one may fall below it.
    """

    path: Array


def local_bound(system: ExtendedStateSpace, level: Level, states: ArrayLike) -> LocalBound:
    """The bound of the system linearised along a trajectory (K, n) that is public or simulated.

    Along the true states of private data it would itself be private: use a nominal trajectory.
    """
    path = as_array(states, "the trajectory", ndim=2)
    linear = bound(system.linearised(path), level, len(path))
    return LocalBound(**vars(linear), path=path)


@dataclass(frozen=True, eq=False)
class ExtendedFiltered(Estimated, Record):
    """What the extended filter gives: estimate (K, n), covariance (K, n, n), to first order.

    simulated: whether the release was a simulation.
    """

    estimate: Array
    covariance: Array
    innovations: Array
    simulated: bool


def filter_extended(
    system: ExtendedStateSpace, level: Level, release: StreamRelease
) -> ExtendedFiltered:
    """The extended Kalman filter on releases z̃_k = L_kᵀy_k + e_k (levels that do not look back).

    Linearises h at x̂_{k|k−1} and f at x̂_{k|k}. Not optimal; its covariance is an approximation.
    """
    frame = system._frame
    wanted = level_of(level, frame)
    if wanted.reach:
        raise InvalidInput("The extended filter needs a level that does not look back (U = 0).")
    values, missing, unit, simulated = given_values(release, wanted)
    K, n, m = release.steps, system.states, system.readings
    hidden = np.broadcast_to(of_entries(missing), (K, m))
    shown = unit * rows_of_parts(wanted, 0, hidden)
    mean, root, drive = frame.mean0, frame.root0, np.zeros((n, n))
    A: Array = np.eye(n)
    means, covariances, innovations = np.empty((K, n)), np.empty((K, n, n)), np.full((K, m), np.nan)
    for k in range(K):
        if k:
            mean, A = system.move(mean)
            drive = frame.Q_root[0]
        expected, C = system.read(mean)
        G = shown[k] @ C
        N = unit_noise(shown[k] @ frame.R_root[0])
        done = step(root, A, drive, G, N)
        root = done.factor
        if not hidden[k].all():
            fresh = np.where(hidden[k], 0.0, values[k] - shown[k] @ expected)
            white = substitute(done.scale, fresh, lower=True)
            innovations[k] = np.where(hidden[k], np.nan, white)
            mean = mean + done.gain @ white
        means[k], covariances[k] = mean, done.filtered
    return ExtendedFiltered(means, covariances, innovations, simulated)
