"""Nonlinear systems: the extended and the unscented filter, and a bound that holds locally.

With x = x̂ + B ξ, ξ ~ N(0, I), f is replaced by value + moved ξ + residual: by its slope at x̂
(extended), or by its regression on ξ over 2n + 1 points x̂ and x̂ ± √(n+κ) b_i with weights κ/(n+κ)
and 1/2(n+κ), κ = max(3 − n, 0) (unscented).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_choice, as_count, as_kind
from privest.dynamics._bound import StateBound, state_bound
from privest.dynamics._filter import StateEstimate, States, filter_linear
from privest.dynamics._kalman import LOG_2PI, unit_root_of, upper_root
from privest.dynamics._releases import Level, given_values, level_of_release
from privest.dynamics._steps import numbers_shown, of_entries
from privest.dynamics._system import StateSpace, as_system, known_inputs
from privest.errors import InvalidInput
from privest.model.derivative import numerical_jacobian
from privest.privacy import StreamLevel
from privest.release import Release

Map = Callable[..., ArrayLike]  # of a state (n,), and of an input (p,) where the system has inputs


class _Function(NamedTuple):
    name: str
    function: Map
    jacobian: Map | None
    driven: bool

    def value(self, x: Array, u: Array) -> Array:
        own = self.function(x, u) if self.driven else self.function(x)
        return as_array(own, f"{self.name}(x)", ndim=1)

    def linear(self, x: Array, u: Array) -> tuple[Array, Array]:
        """The value and the Jacobian (·, n)."""
        value = self.value(x, u)
        if self.jacobian is None:
            return value, numerical_jacobian(partial(self.value, u=u), x, value)[0]
        own = self.jacobian(x, u) if self.driven else self.jacobian(x)
        matrix = as_array(own, f"the Jacobian of {self.name}", ndim=2)
        if matrix.shape != (len(value), len(x)):
            raise InvalidInput(
                f"The Jacobian of {self.name} must be {len(value)}×{len(x)}; it returned "
                f"{matrix.shape}."
            )
        return value, matrix


class NonlinearStateSpace:
    """x_{k+1} = f(x_k, u_k) + w_k ,   y_k = h(x_k, u_k) + v_k ,   x_0 ~ N(mean0, cov0).

    `transition` f and `measurement` h take a state (n,), and with `inputs` p > 0 a public input
    (p,); their Jacobians by x are found by differences, or given. All must be defined at mean0 and
    an input of zeros. Q, R, cov0 as for StateSpace.

    >>> pendulum = NonlinearStateSpace(
    ...     lambda x: [x[0] + 0.1 * x[1], x[1] - 0.1 * np.sin(x[0])], lambda x: [np.sin(x[0])],
    ...     Q=1e-4, R=0.01, mean0=[0.5, 0.0], cov0=0.01)
    >>> pendulum
    NonlinearStateSpace(2 states, 1 measurement per step)
    """

    inputs: int
    states: int
    measurements: int

    def __init__(
        self, transition: Map, measurement: Map, Q: ArrayLike, R: ArrayLike, mean0: ArrayLike,
        cov0: ArrayLike, *, transition_jacobian: Map | None = None,
        measurement_jacobian: Map | None = None, inputs: int = 0,
    ) -> None:  # fmt: skip
        start = as_array(mean0, "mean0", ndim=1)
        self.inputs = as_count(inputs, "inputs", least=0)
        n = len(start)
        self.f: _Function = _Function("f", transition, transition_jacobian, self.inputs > 0)
        self.h: _Function = _Function("h", measurement, measurement_jacobian, self.inputs > 0)
        none = np.zeros(self.inputs)
        moved = self.f.value(start, none)
        seen = self.h.value(start, none)
        if moved.shape != (n,):
            raise InvalidInput(f"f must return {n} states; it returned shape {moved.shape}.")
        # A linear system at the start checks Q, R and cov0 once.
        self.frame: StateSpace = StateSpace(
            np.zeros((n, n)), np.zeros((len(seen), n)), Q, R, start, cov0,
            B=np.zeros((n, self.inputs)) if self.inputs else None,
        )  # fmt: skip
        if self.frame.steps is not None:
            raise InvalidInput("Q and R of a nonlinear system have no time axis.")
        self.states = n
        self.measurements = len(seen)

    def linearised(self, states: ArrayLike, *, inputs: ArrayLike | None = None) -> StateSpace:
        path = as_array(states, "the trajectory", ndim=2)
        if path.shape[1] != self.states or len(path) == 0:
            raise InvalidInput(
                f"the trajectory must be (K, {self.states}); received shape {path.shape}."
            )
        frame = self.frame
        u = known_inputs(inputs, len(path), self.inputs)
        A, C = (
            np.stack([own.linear(*pair)[1] for pair in zip(path, u)]) for own in (self.f, self.h)
        )
        return StateSpace(A, C, frame.Q, frame.R, np.zeros(self.states), frame.cov0)

    def __repr__(self) -> str:
        return f"Nonlinear{self.frame!r}"


def local_bound(
    system: NonlinearStateSpace, level: Level, states: ArrayLike,
    *, inputs: ArrayLike | None = None,
) -> StateBound:  # fmt: skip
    """Σ_BPPCR of the system linearised along a trajectory (K, n) that is public or simulated.

    Local, not a floor for all estimates: where errors are as large as the bends of f and h, a
    biased one may fall below it. Along the true states of private data it would itself be private:
    use a nominal trajectory.

    >>> steep = NonlinearStateSpace(
    ...     lambda x: 0.5 * x, lambda x: x**2, Q=1.0, R=1.0, mean0=[2.0], cov0=1.0)
    >>> bound = local_bound(steep, 1.0, [[2.0]])  # slope 4: 1/(1 + 4²/(1 + 1))
    >>> bound.standard_error.round(6).tolist()
    [[0.333333]]
    """
    path = as_array(states, "the trajectory", ndim=2)
    return state_bound(_require_nonlinear(system).linearised(path, inputs=inputs), level, len(path))


class _Linear(NamedTuple):
    """value (a,), moved (a, n) by ξ, residual (a, ·) of independent unit noise."""

    value: Array
    moved: Array
    residual: Array


State = tuple[Array, Array]  # x̂ (n,) and U (n, n)
Rule = Callable[[_Function, Array, Array, Array], _Linear]  # of an input, x̂ (n,), B (n, n)


def _by_slopes(own: _Function, u: Array, mean: Array, root: Array) -> _Linear:
    value, slope = own.linear(mean, u)
    return _Linear(value, slope @ root, np.zeros((len(value), 0)))


def _by_points(own: _Function, u: Array, mean: Array, root: Array) -> _Linear:
    n = len(mean)
    kappa = max(3.0 - len(mean), 0.0)
    scale = n + kappa
    points = mean + math.sqrt(scale) * np.concatenate([np.zeros((1, n)), root.T, -root.T])
    weights = np.full(2 * n + 1, 0.5 / scale)
    weights[0] = kappa / scale
    values = np.stack([own.value(point, u) for point in points])
    value = weights @ values
    deviations = ((values - value) * np.sqrt(weights)[:, None]).T
    half = np.eye(n) / math.sqrt(2)
    unit = np.concatenate([np.zeros((1, n)), half, -half])  # ξ, orthonormal
    moved = deviations @ unit
    return _Linear(value, moved, deviations - moved @ unit.T)


RULES: dict[str, Rule] = {"extended": _by_slopes, "unscented": _by_points}


class _Step(NamedTuple):
    ahead: Array
    wide: Array
    mean: Array
    factor: Array
    zeta: Array
    logs: Array
    fresh: Array
    later: Array
    lost: Array


def _triangle(block: Array) -> tuple[Array, Array]:
    """Qᵀ and the upper triangle R, diagonal ≥ 0, with block = QR, all columns of Q."""
    turn, upper = np.linalg.qr(block, mode="complete")
    signs = np.ones(len(turn))
    signs[: upper.shape[1]] = np.copysign(1.0, upper.diagonal())
    return signs[:, None] * turn.T, signs[:, None] * upper


def _step(
    rule: Rule, system: NonlinearStateSpace, state: State, before: Array | None, now: Array,
    shown: tuple[Array, Array] | None,
) -> _Step:  # fmt: skip
    """From the state before, its input `before` (None: this is step 0), rows and values shown."""
    mean, factor = state
    n = system.states
    m = system.measurements
    frame = system.frame.matrices
    later: Array = np.eye(n)
    lost: Array = np.zeros((n, n))
    if before is not None:
        f = rule(system.f, before, mean, factor.T)
        drive = upper_root(frame.Q_root[0], f.residual)
        turn, upper = _triangle(np.concatenate([drive, f.moved.T]))
        mean = f.value
        factor = upper[:n]
        later = turn[:n, n:].T
        lost = turn[n:, n:].T @ turn[n:, n:]
    if shown is None:
        nothing = np.zeros(m), np.zeros(()), np.zeros((n, m))
        return _Step(mean, factor, mean, factor, *nothing, later, lost)
    rows, values = shown
    h = rule(system.h, now, mean, factor.T)
    noise = unit_root_of(rows @ np.concatenate([frame.R_root[0], h.residual], axis=1))
    left = np.concatenate([noise.T, (rows @ h.moved).T])
    turn, upper = _triangle(np.concatenate([left, np.eye(m + n, n, -m)], axis=1))  # by ξ
    scale = upper[:m, :m].T
    gain = upper[:m, m:].T
    zeta = np.linalg.solve(scale, values - rows @ h.value)
    logs = np.log(scale.diagonal()).sum()
    narrow = upper[m:, m:] @ factor
    return _Step(
        mean, factor, mean + factor.T @ (gain @ zeta), narrow, zeta, logs, later @ gain,
        later @ turn[m:, m:].T, lost,
    )  # fmt: skip


METHODS = ("kalman", "extended", "unscented")


def filter(
    system: StateSpace | NonlinearStateSpace, release: Release, *,
    level: Level | None = None, inputs: ArrayLike | None = None, method: str = "kalman",
) -> StateEstimate:  # fmt: skip
    """Estimate the states of a system from what was released of its measurements.

        z̃_k = A_k Ȳ_k + e_k ,   x̂_{k|k} = E[x_k | z̃_0, …, z̃_k]

    The release starts at step 0 and carries its level; one that was read from a record needs
    `level`.
    `inputs` (K, p) are public.
    method   "kalman", for a StateSpace: exact, for any stream level; attains `pv.bound`.
             "extended", for a NonlinearStateSpace and levels without lags: right to first order in
             the spread of the state. "unscented": to second order. Both are approximations, and so
             are their covariances.
    Numerics: square-root filter, compiled where numba is installed (the extra `dynamics`).
    A level that looks back b steps adds (b + 1)m states; a dense one Km.
    Source: the page on private Kalman filters; Julier, Uhlmann (1997).

    >>> import privest as pv
    >>> walk = StateSpace(A=1.0, C=1.0, Q=0.0, R=1.0, cov0=1.0)
    >>> release = pv.StreamMechanism(1.0).simulate([0.2, 0.1], np.random.default_rng(0))
    >>> filter(walk, release).filtered.covariance.ravel().round(6).tolist()  # 1/(1 + k/2)
    [0.666667, 0.5]
    """
    as_choice(method, METHODS, "method")
    if method == "kalman":
        linear = as_system(system)
        wanted = level_of_release(release, level, linear.measurements)
        return filter_linear(linear, wanted, release, inputs)
    curved = _require_nonlinear(system)
    wanted = level_of_release(release, level, curved.measurements)
    return _filtered(RULES[method], curved, wanted, release, inputs)


def _filtered(
    rule: Rule, system: NonlinearStateSpace, wanted: StreamLevel,
    release: Release, inputs: ArrayLike | None,
) -> StateEstimate:  # fmt: skip
    frame = system.frame
    m = system.measurements
    if wanted.reach:
        raise InvalidInput("Filters of nonlinear systems need a level that does not look back.")
    given = given_values(release, wanted)
    K = len(given.values)
    u = known_inputs(inputs, K, system.inputs)
    hidden = np.broadcast_to(of_entries(given.missing), (K, m))
    shown = given.unit * np.where(hidden[..., None], 0.0, wanted.blocks(0, K)[0])
    values = np.where(hidden, 0.0, given.values)
    state = (frame.mean0, frame.matrices.root0.T)
    found = list[_Step]()
    for k in range(K):
        seen = None if hidden[k].all() else (shown[k], values[k])
        before = u[k - 1] if k else None
        found.append(_step(rule, system, state, before, u[k], seen))
        state = found[-1].mean, found[-1].factor
    steps = _Step(*(np.stack(part) for part in zip(*found)))
    zeta = np.where(hidden, np.nan, steps.zeta)
    count = numbers_shown(given.missing, m)
    fit = -0.5 * (np.square(steps.zeta).sum() + count * LOG_2PI) - np.sum(steps.logs)
    P, wide = (part.swapaxes(1, 2) @ part for part in (steps.factor, steps.wide))
    return StateEstimate(
        States(steps.ahead, wide, given.simulated), States(steps.mean, P, given.simulated), zeta,
        given.log_likelihood(fit), system, 0, given.simulated, partial(_smoothed, steps),
        partial(_forecast, rule, system, state, u[-1]),
    )  # fmt: skip


def _smoothed(steps: _Step) -> tuple[Array, Array]:
    K, n = steps.mean.shape
    states = np.empty((K, n))
    covariances = np.empty((K, n, n))
    error = np.zeros(n)
    X = np.eye(n)
    for k in reversed(range(K)):
        U = steps.factor[k]
        later = steps.later[k]
        states[k] = steps.mean[k] + U.T @ error
        covariances[k] = U.T @ X @ U
        error = steps.fresh[k] @ steps.zeta[k] + later @ error
        X = later @ X @ later.T + steps.lost[k]
    return states, (covariances + covariances.swapaxes(1, 2)) / 2


def _forecast(
    rule: Rule, system: NonlinearStateSpace, state: State, before: Array, steps: int,
    inputs: ArrayLike | None,
) -> tuple[Array, Array]:  # fmt: skip
    count = as_count(steps, "steps", least=1)
    u = known_inputs(inputs, count, system.inputs)
    found = []
    for now in u:
        done = _step(rule, system, state, before, now, None)
        state = (done.mean, done.factor)
        before = now
        found.append((done.mean, done.factor.T @ done.factor))
    means, covariances = (np.stack(part) for part in zip(*found))
    return means, covariances


def _require_nonlinear(system: object) -> NonlinearStateSpace:
    needed = (
        "system must be a dynamics.NonlinearStateSpace (a linear StateSpace: "
        'method="kalman", which is exact)'
    )
    return as_kind(system, NonlinearStateSpace, needed)
