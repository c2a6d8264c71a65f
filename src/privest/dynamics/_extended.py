"""Nonlinear systems: the extended filter, and a bound that holds locally."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_count, plural
from privest.dynamics._bound import DynamicBound, bound
from privest.dynamics._nonlinear import (
    ExtendedFiltered,
    State,
    Taken,
    filtered_by,
    require_nonlinear,
)
from privest.dynamics._observed import Level, unit_noise
from privest.dynamics._sweep import step
from privest.dynamics._system import StateSpace, known_inputs
from privest.errors import InvalidInput
from privest.model._derivative import numerical_jacobian
from privest.release import StreamRelease

Map = Callable[..., ArrayLike]  # of a state (n,), and of an input (p,) where the system has inputs


class ExtendedStateSpace:
    """x_{k+1} = f(x_k, u_k) + w_k ,   y_k = h(x_k, u_k) + v_k ,   x_0 ~ N(mean0, cov0).

    `transition` f and `reading` h take a state (n,) and return (n,) and (m,); their Jacobians by x
    are found by differences that know their error, or given (`transition_jacobian`,
    `reading_jacobian`). With `inputs` p > 0 all of them take a known, public input (p,) as well
    (and must be defined at mean0 and an input of zeros). Q, R, cov0 as for StateSpace.

    >>> pendulum = ExtendedStateSpace(
    ...     lambda x: [x[0] + 0.1 * x[1], x[1] - 0.1 * np.sin(x[0])], lambda x: [np.sin(x[0])],
    ...     Q=1e-4, R=0.01, mean0=[0.5, 0.0], cov0=0.01)
    >>> pendulum
    ExtendedStateSpace(2 states, 1 reading a step)
    """

    def __init__(
        self, transition: Map, reading: Map, Q: ArrayLike, R: ArrayLike, mean0: ArrayLike,
        cov0: ArrayLike, *, transition_jacobian: Map | None = None,
        reading_jacobian: Map | None = None, inputs: int = 0,
    ) -> None:  # fmt: skip
        start = as_array(mean0, "mean0", ndim=1)
        self._f, self._h = transition, reading
        self._f_slope, self._h_slope = transition_jacobian, reading_jacobian
        self.inputs, n = as_count(inputs, "inputs", least=0), len(start)
        none = np.zeros(self.inputs)
        moved, seen = self.value_moved(start, none), self.value_read(start, none)
        if moved.shape != (n,):
            raise InvalidInput(f"f must return {n} states; it returned shape {moved.shape}.")
        # A linear system at the start checks Q, R and cov0 once.
        self.frame = StateSpace(np.zeros((n, n)), np.zeros((len(seen), n)), Q, R, start, cov0)
        if self.frame.steps is not None:
            raise InvalidInput("Q and R of a nonlinear system have no time axis.")

    @property
    def states(self) -> int:
        """n."""
        return self.frame.states

    @property
    def readings(self) -> int:
        """m."""
        return self.frame.readings

    def inputs_of(self, steps: int, inputs: ArrayLike | None) -> Array:
        """Known inputs (steps, p), checked."""
        return known_inputs(inputs, steps, self.inputs)

    def value_moved(self, state: Array, u: Array) -> Array:
        """f(x, u)."""
        return as_array(self._called(self._f, state, u), "f(x)", ndim=1)

    def value_read(self, state: Array, u: Array) -> Array:
        """h(x, u)."""
        return as_array(self._called(self._h, state, u), "h(x)", ndim=1)

    def move(self, state: Array, u: Array | None = None) -> tuple[Array, Array]:
        """f(x, u) and f'(x, u)."""
        return self._linear(self._f, self._f_slope, state, u, "f", self.states)

    def read(self, state: Array, u: Array | None = None) -> tuple[Array, Array]:
        """h(x, u) and h'(x, u)."""
        return self._linear(self._h, self._h_slope, state, u, "h", self.readings)

    def _called(self, function: Map, state: Array, u: Array) -> ArrayLike:
        return function(state, u) if self.inputs else function(state)

    def _linear(
        self, function: Map, slope: Map | None, state: Array, u: Array | None, name: str, rows: int
    ) -> tuple[Array, Array]:
        given = self.inputs_of(1, u[None] if u is not None and self.inputs else None)[0]
        value = as_array(self._called(function, state, given), f"{name}(x)", ndim=1)
        if slope is None:
            at_input = partial(self._called, function, u=given)
            return value, numerical_jacobian(at_input, state, value)[0]
        matrix = as_array(self._called(slope, state, given), f"the Jacobian of {name}", ndim=2)
        if matrix.shape != (rows, self.states):
            raise InvalidInput(
                f"The Jacobian of {name} must be {rows}×{self.states}; it returned {matrix.shape}."
            )
        return value, matrix

    def linearised(self, states: ArrayLike, *, inputs: ArrayLike | None = None) -> StateSpace:
        """The linear system of small deviations from a trajectory (K, n)."""
        path = as_array(states, "the trajectory", ndim=2)
        if path.shape[1] != self.states or len(path) == 0:
            raise InvalidInput(
                f"the trajectory must be (K, {self.states}); received shape {path.shape}."
            )
        frame, u = self.frame, self.inputs_of(len(path), inputs)
        A = np.stack([self.move(x, own)[1] for x, own in zip(path, u)])
        C = np.stack([self.read(x, own)[1] for x, own in zip(path, u)])
        return StateSpace(A, C, frame.Q, frame.R, np.zeros(self.states), frame.cov0)

    def __repr__(self) -> str:
        inputs = f", {plural(self.inputs, 'input')}" if self.inputs else ""
        size = f"{plural(self.states, 'state')}, {plural(self.readings, 'reading')} a step"
        return f"ExtendedStateSpace({size}{inputs})"


@dataclass(frozen=True, eq=False)
class LocalBound(DynamicBound):
    """Σ_BPPCR of the linearised system about one trajectory: local, not a floor for all estimates.

    How well small deviations from `path` (K, n) can be estimated. Where errors are as large as
    the bends of f and h, no estimate need be near it, and a biased one may fall below it.
    """

    path: Array


def local_bound(
    system: ExtendedStateSpace, level: Level, states: ArrayLike,
    *, inputs: ArrayLike | None = None,
) -> LocalBound:  # fmt: skip
    """The bound of the system linearised along a trajectory (K, n) that is public or simulated.

    Along the true states of private data it would itself be private: use a nominal trajectory.
    """
    require_nonlinear(system)
    path = as_array(states, "the trajectory", ndim=2)
    linear = bound(system.linearised(path, inputs=inputs), level, len(path))
    return LocalBound(**vars(linear), path=path)


def filter_extended(
    system: ExtendedStateSpace, level: Level, release: StreamRelease,
    *, inputs: ArrayLike | None = None,
) -> ExtendedFiltered:  # fmt: skip
    """The extended Kalman filter on releases z̃_k = L_kᵀy_k + e_k (levels that do not look back).

    Linearises h at x̂_{k|k−1} and f at x̂_{k|k}. `inputs` (K, p), public. Not optimal; its covariance
    is an approximation. `smooth` and `predict` take the result.
    """
    return filtered_by(_linearly, system, level, release, inputs)


def _linearly(
    system: ExtendedStateSpace, now: State, moves: bool, rows: Array | None, u: Array
) -> Taken:
    n, m, frame = system.states, system.readings, system.frame
    A: Array = np.eye(n)
    mean, drive = now.mean, np.zeros((n, n))
    if moves:
        (mean, A), drive = system.move(mean, now.input), frame.Q_root[0]
    if rows is None:
        return Taken(mean, np.zeros(m), step(now.root, A, drive, np.zeros((m, n)), np.eye(m)))
    expected, C = system.read(mean, u)
    noise = unit_noise(rows @ frame.R_root[0])
    return Taken(mean, rows @ expected, step(now.root, A, drive, rows @ C, noise))
