"""The linear Gaussian state-space model (`eq:state_space`)."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from privest.arrays import (
    EPS,
    Array,
    ArrayLike,
    as_array,
    as_count,
    as_generator,
    as_kind,
    as_positive,
    plural,
)
from privest.dynamics._steps import Matrices, at, stack
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg import psd
from privest.linalg.tolerances import EXTREME, SQUARED

SMALL = 0.25  # ‖F‖h below which TERMS terms of the series leave nothing
TERMS = 16  # (2·¼)^16/17! = 4e-20


class StateSpace:
    """x_{k+1} = A_k x_k + B_k u_k + w_k ,   y_k = C_k x_k + D_k u_k + v_k ,   x_0 ~ N(mean0, cov0).

    A, C    (n, n) and (m, n), or with a leading time axis of K steps.
    Q, R    cov w (n, n) and cov v (m, m), a number q for q·I, or with a time axis. Any rank.
    mean0, cov0   of x_0: a vector (0 for all zeros) and a matrix or a number, of any rank. cov0
            has no default: 0 says that x_0 is known exactly.
    B, D    of known, public inputs u_k (p,): (n, p) and (m, p), or with a time axis.
    diffuse  directions of x_0 of which nothing is known: True (all of it), n truth values, or
            columns D (n, q): x_0 = mean0 + D δ + N(0, cov0), δ anything. Variances are infinite
            until releases have shown δ.

    All time axes have the same K, one entry for each of y_0 … y_{K−1}; the last of A, B and Q
    serves predictions. All of it is public: a system fitted on the private measurements leaks them.
    Assumes x_0 and the (w_k, v_k) independent and Gaussian.

    >>> StateSpace(A=[[1.0, 1.0], [0.0, 1.0]], C=[[1.0, 0.0]], Q=0.01, R=0.25, cov0=1.0)
    StateSpace(2 states, 1 measurement per step)
    """

    mean0: Array
    cov0: Array

    def __init__(
        self, A: ArrayLike, C: ArrayLike, Q: ArrayLike, R: ArrayLike, mean0: ArrayLike = 0.0,
        cov0: ArrayLike | None = None, *, B: ArrayLike | None = None, D: ArrayLike | None = None,
        diffuse: ArrayLike | bool | None = None,
    ) -> None:  # fmt: skip
        self.A = _square(A, "A")
        n = self.states
        self.C = _matrices(C, "C", columns=n)
        m = self.measurements
        self.Q = _covariances(Q, "Q", n)
        self.R = _covariances(R, "R", m)
        self.mean0, self.cov0 = _start(mean0, 0.0 if cov0 is None and diffuse is True else cov0, n)
        self.B = None if B is None else _matrices(B, "B", rows=n)
        self.D = None if D is None else _matrices(D, "D", rows=m)
        if self.B is not None and self.D is not None and self.B.shape[-1] != self.D.shape[-1]:
            raise InvalidInput(
                f"B and D must have one column for each input; received {self.B.shape} and "
                f"{self.D.shape}."
            )
        self.diffuse: Array | None = _diffuse_columns(diffuse, n)
        self.steps: int | None = self._common_steps()

    @classmethod
    def from_continuous(
        cls, F: ArrayLike, C: ArrayLike, Qc: ArrayLike, R: ArrayLike, mean0: ArrayLike = 0.0,
        cov0: ArrayLike | str | None = None, *, times: ArrayLike | None = None,
        step: float | None = None, B: ArrayLike | None = None, D: ArrayLike | None = None,
        diffuse: ArrayLike | bool | None = None,
    ) -> StateSpace:  # fmt: skip
        """dx = F x dt + B u dt + dW, cov dW = Qc dt, read at t_k: y_k = C x(t_k) + D u_k + v_k.

            A = e^{Fh} ,   Q = ∫₀ʰ e^{Fs} Qc e^{Fᵀs} ds ,   B ← ∫₀ʰ e^{Fs} ds B

        `times` (K,) of the measurements, increasing; or `step`, one gap for all. After the last
        one: a gap of `step`, or the gap before. u_k holds from t_k until t_{k+1}. F, Qc and B are
        constant; C, R and D may have a time axis. cov0="stationary": the covariance of a stable F's
        steady state.

        >>> walk = StateSpace.from_continuous(0.0, 1.0, 2.0, 0.1, cov0=1.0, times=[0.0, 1.0, 4.0])
        >>> walk.Q.ravel().tolist()  # 2 a unit of time; the last gap is repeated
        [2.0, 6.0, 6.0]
        """
        drift = _square(F, "F")
        spread = _covariances(Qc, "Qc", len(drift))
        acts = np.zeros((len(drift), 0)) if B is None else _matrices(B, "B", rows=len(drift))
        if any(part.ndim == 3 for part in (drift, spread, acts)):
            raise InvalidInput("F, Qc and B of a continuous system have no time axis.")
        if isinstance(cov0, str):
            if cov0 != "stationary":
                raise InvalidInput(f"cov0 must be numbers or 'stationary'; received {cov0!r}.")
            cov0 = _stationary(drift, spread)
        A, Q, integral = _over_gaps(drift, spread, _gaps(times, step))
        led = None if B is None else integral @ acts
        if len(A) == 1:
            A = A[0]
            Q = Q[0]
            led = None if led is None else led[0]
        return cls(A, C, Q, R, mean0, cov0, B=led, D=D, diffuse=diffuse)

    def _common_steps(self) -> int | None:
        parts = {"A": self.A, "C": self.C, "Q": self.Q, "R": self.R, "B": self.B, "D": self.D}
        lengths = {name: len(M) for name, M in parts.items() if M is not None and M.ndim == 3}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise InvalidInput(f"The time axes must have one length K; received {listed}.")
        if 0 in lengths.values():
            raise InvalidInput("The time axes must have at least one step; received none.")
        return next(iter(lengths.values()), None)

    @property
    def states(self) -> int:
        """n."""
        return int(self.A.shape[-1])

    @property
    def measurements(self) -> int:
        """m, the measurements of one step."""
        return int(self.C.shape[-2])

    @property
    def inputs(self) -> int:
        """p, 0 without inputs."""
        given = self.B if self.B is not None else self.D
        return 0 if given is None else int(given.shape[-1])

    @cached_property
    def matrices(self) -> Matrices:
        n = self.states
        m = self.measurements
        p = self.inputs
        return Matrices(
            self.A, self.C, self.Q, self.R, self.mean0, self.cov0,
            np.zeros((n, p)) if self.B is None else self.B,
            np.zeros((m, p)) if self.D is None else self.D,
            np.zeros((n, 0)) if self.diffuse is None else self.diffuse,
        )  # fmt: skip

    def require_steps(self, steps: int) -> int:
        count = as_count(steps, "steps", least=1)
        if self.steps is not None and count > self.steps:
            raise InvalidInput(f"The system is given for {self.steps} steps; asked for {count}.")
        return count

    def sample(
        self, steps: int, rng: np.random.Generator, *, inputs: ArrayLike | None = None,
        trials: int | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """States (K, n) and measurements (K, m), or with a leading axis of `trials`; δ = 0
        where diffuse.
        """
        source = as_generator(rng)
        steps = self.require_steps(steps)
        u = known_inputs(inputs, steps, self.inputs)
        count = as_count(1 if trials is None else trials, "trials", least=1)
        n = self.states
        m = self.measurements
        own = self.matrices
        states = np.empty((count, steps, n))
        seen = np.empty((count, steps, m))
        now = self.mean0 + source.standard_normal((count, n)) @ own.root0.T
        w = source.standard_normal((steps, count, n))
        v = source.standard_normal((count, steps, m)).swapaxes(0, 1)
        A, B, C, D = (stack(part) for part in (own.A, own.B, own.C, own.D))
        for k in range(steps):
            states[:, k] = now
            seen[:, k] = now @ at(C, k).T + at(D, k) @ u[k] + v[k] @ at(own.R_root, k).T
            now = now @ at(A, k).T + at(B, k) @ u[k] + w[k] @ at(own.Q_root, k).T
        return (states[0], seen[0]) if trials is None else (states, seen)

    def __bound__(self, level: Any, steps: int | None, missing: ArrayLike | None) -> Any:  # noqa: ANN401
        """`pv.bound` of the states."""
        from privest.dynamics._bound import state_bound

        return state_bound(self, level, steps, missing=missing)

    def __prior_information__(self, steps: int) -> Array:
        """`bounds.prior_information` of the measurements."""
        from privest.dynamics._bound import prior_information

        return prior_information(self, steps)

    def __release_level__(self, total: ArrayLike, steps: int | None, *, lookback: bool) -> Any:  # noqa: ANN401
        """`bounds.release_level` of the measurements."""
        from privest.dynamics._bound import memoryless_level, total_level

        if not lookback:
            return memoryless_level(self, total, steps)
        if steps is None:
            raise InvalidInput("a level that looks back is for a number of steps: steps=K.")
        return total_level(self, total, steps)

    def __repr__(self) -> str:
        start = "" if self.diffuse is None else ", diffuse start"
        axis = "" if self.steps is None else f", {plural(self.steps, 'step')}"
        return f"StateSpace({sizes(self.states, self.measurements, self.inputs)}{axis}{start})"


def sizes(states: int, measurements: int, inputs: int) -> str:
    """`2 states, 1 measurement per step, 1 input`."""
    listed = [plural(states, "state"), f"{plural(measurements, 'measurement')} per step"]
    return ", ".join([*listed, plural(inputs, "input")] if inputs else listed)


def as_system(system: object) -> StateSpace:
    needed = (
        "system must be a dynamics.StateSpace (filters of a NonlinearStateSpace: "
        'method="extended" or "unscented")'
    )
    return as_kind(system, StateSpace, needed)


def system_of(matrices: Matrices) -> StateSpace:
    inputs = matrices.B.shape[-1] > 0
    return StateSpace(
        *matrices[:6], B=matrices.B if inputs else None, D=matrices.D if inputs else None,
        diffuse=matrices.diffuse if matrices.diffuse.shape[1] else None,
    )  # fmt: skip


def known_inputs(inputs: ArrayLike | None, steps: int, count: int | None = None) -> Array:
    """Inputs (steps, count), checked; None: however many there are."""
    if inputs is None and count:
        size = plural(count, "input")
        raise InvalidInput(f"The system has {size}: give them as inputs of shape {(steps, count)}.")
    if inputs is None:
        return np.zeros((steps, 0))
    u = as_array(inputs, "inputs", ndim=(1, 2))
    u = u[:, None] if u.ndim == 1 and count in (None, 1) else u
    if count == 0 or u.shape != (steps, u.shape[-1] if count is None else count):
        wanted = f"({steps}, p)" if count is None else (steps, count)
        raise InvalidInput(f"inputs must have shape {wanted}; received {u.shape}.")
    return u


def _start(mean0: ArrayLike, cov0: ArrayLike | None, n: int) -> tuple[Array, Array]:
    if cov0 is None:
        raise InvalidInput(
            "cov0 is needed: how uncertain x_0 is, as a variance or a covariance matrix (a large "
            "one where little is known of it, 0 where it is known exactly), or give diffuse=True "
            "where nothing is."
        )
    covariance = _covariances(cov0, "cov0", n)
    if covariance.ndim == 3:
        raise InvalidInput("cov0 has no time axis: it must be n×n or a number.")
    mean = as_array(mean0, "mean0", ndim=(0, 1))
    if mean.ndim and mean.shape != (n,):
        raise InvalidInput(f"mean0 must have {n} entries; received shape {mean.shape}.")
    return np.broadcast_to(mean, n).copy(), covariance


def _matrices(
    value: ArrayLike, name: str, *, rows: int | None = None, columns: int | None = None
) -> Array:
    """(rows, columns) or with a time axis; a number is 1×1."""
    array = as_array(value, name, ndim=(0, 2, 3))
    if np.abs(array).max(initial=0.0) > 1.0 / SQUARED:
        raise InvalidInput(
            f"{name} has entries beyond {1 / SQUARED:g}, whose squares leave the range of numbers: "
            "state states or measurements in other units."
        )
    array = array.reshape(1, 1) if array.ndim == 0 else array
    for wanted, found, word in zip((rows, columns), array.shape[-2:], ("row", "column")):
        if found == 0 or wanted not in (None, found):
            size = f"at least one {word}" if wanted is None else plural(wanted, word)
            raise InvalidInput(f"{name} must have {size}; received shape {array.shape}.")
    return array


def _square(value: ArrayLike, name: str) -> Array:
    array = _matrices(value, name)
    if array.shape[-1] != array.shape[-2]:
        raise InvalidInput(f"{name} must be square, n×n; received shape {array.shape}.")
    return array


def _covariances(value: ArrayLike, name: str, size: int) -> Array:
    """Symmetric and ≥ 0, (size, size) or with a time axis; a number is that times I."""
    array = as_array(value, name, ndim=(0, 2, 3))
    if array.ndim == 0:
        array = array * np.eye(size)
    if array.shape[-2:] != (size, size):
        raise InvalidInput(
            f"{name} must be {size}×{size} (or a number, or with a time axis); received shape "
            f"{array.shape}."
        )
    variances = np.diagonal(array, axis1=-2, axis2=-1)
    far = (variances > 1.0 / EXTREME) | ((variances < EXTREME) & (variances > 0))
    if far.any():
        raise InvalidInput(
            f"{name} has a variance of {variances[far].flat[0]:.1g}, beyond the range in which "
            "covariances can be computed: state states or measurements in other units."
        )
    psd(array, name)
    return array / 2 + array.swapaxes(-1, -2) / 2  # a sum first could overflow


def _diffuse_columns(value: ArrayLike | bool | None, size: int) -> Array | None:
    """D (size, q) of independent columns, or None."""
    if value is None or value is False:
        return None
    given = as_array(value, "diffuse", ndim=(0, 1, 2))
    columns = given
    if np.asarray(value).dtype == np.bool_ and given.shape in ((), (size,)):
        columns = np.eye(size)[:, np.broadcast_to(given > 0, size)]
    if columns.ndim != 2 or len(columns) != size or columns.shape[1] == 0:
        raise InvalidInput(
            f"diffuse must be True, {size} truth values (some True), or columns of {size} entries; "
            f"received shape {given.shape}."
        )
    unit = columns / np.maximum(np.linalg.norm(columns, axis=0), SQUARED)
    if np.linalg.matrix_rank(unit) < columns.shape[1]:
        raise InvalidInput("The columns of diffuse are not linearly independent.")
    return columns


# --- continuous time ---


def _over_gaps(F: Array, Qc: Array, gaps: Array) -> tuple[Array, Array, Array]:
    """A = e^{Fh}, Q = ∫₀ʰ e^{Fs} Qc e^{Fᵀs} ds and Ψ = ∫₀ʰ e^{Fs} ds over gaps h (J,) ≥ 0.

    Taylor series of a gap halved until ‖F‖h ≤ ¼, then doubled (block exponentials overflow):

        A(2h) − I = 2E + E² ,  E = A(h) − I ;   Ψ(2h) = Ψ + AΨ ;   Q(2h) = Q + A Q Aᵀ
    """
    n = len(F)
    unit = float(np.abs(F).sum(axis=1).max()) or 1.0  # of 1/time: powers of F stay small
    halvings = np.ceil(np.log2(np.maximum(unit * gaps / SMALL, 1.0))).astype(np.intp)
    short = np.ldexp(unit * gaps, -halvings)
    E, integral, Q = (np.zeros((len(gaps), n, n)) for _ in range(3))
    drift = F / unit
    power = np.eye(n)
    spread = Qc / unit
    for j in range(TERMS):
        weight = (short ** (j + 1) / math.factorial(j + 1))[:, None, None]
        integral += weight * power
        Q += weight * spread
        power = drift @ power
        E += weight * power
        spread = drift @ spread + (drift @ spread).T
    with np.errstate(over="ignore", invalid="ignore"):  # looked at below
        for done in range(int(halvings.max())):
            own = np.flatnonzero(halvings > done)
            e = E[own]
            q = Q[own]
            psi = integral[own]
            moved = q + e @ q  # A Q, then A Q Aᵀ
            grown = q + moved + moved @ e.swapaxes(-1, -2)
            Q[own] = grown / 2 + grown.swapaxes(-1, -2) / 2
            integral[own] = 2 * psi + e @ psi
            E[own] = 2 * e + e @ e
    finite = (np.isfinite(E) & np.isfinite(Q) & np.isfinite(integral)).all(axis=(1, 2))
    if not finite.all():
        raise NumericalFailure(
            f"Over a gap of {gaps[~finite].min():.6g} the state leaves the range of numbers: F is "
            "not stable. State the time in other units, or put missing measurements in between."
        )
    return np.eye(n) + E, Q, integral / unit


def _stationary(F: Array, Qc: Array) -> Array:
    rate = -float(np.linalg.eigvals(F).real.max())
    if not rate > len(F) * EPS * float(np.abs(F).max()):
        raise InvalidInput(
            "cov0='stationary' needs a stable F (all eigenvalues left of the imaginary axis); the "
            f"largest real part is {-rate:.3g}. Give cov0."
        )
    P = scipy.linalg.solve_continuous_lyapunov(F, -Qc)
    return np.asarray((P + P.T) / 2)


def _gaps(times: ArrayLike | None, step: float | None) -> Array:
    after = None if step is None else as_positive(step, "step")
    if times is None:
        if after is None:
            raise InvalidInput("give the times of the measurements, or the step between them.")
        return np.array([after])
    when = as_array(times, "times", ndim=1)
    gaps = np.diff(when)
    if (gaps <= 0).any():
        k = int(np.argmax(gaps <= 0))
        raise InvalidInput(
            f"times must increase: that of measurement {k + 1} ({when[k + 1]:.6g}) is not "
            f"after that of measurement {k} ({when[k]:.6g})."
        )
    if after is None and len(when) < 2:
        raise InvalidInput("times must be at least two, or give the step that follows them.")
    every = np.append(gaps, gaps[-1] if after is None else after)
    equal = np.ptp(every) <= 4 * EPS * max(np.abs(when).max(), every.max())
    return every.mean(keepdims=True) if equal else every
