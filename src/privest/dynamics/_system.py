"""The linear Gaussian state-space model (`eq:state_space`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_count, plural
from privest.dynamics._continuous import sampled
from privest.dynamics._elsewhere import as_control, as_scipy, control_parts, scipy_parts
from privest.dynamics._entries import covariances_of, diffuse_columns, matrices_of
from privest.dynamics._steps import Matrices, at, joint_covariance, roots_of, stack
from privest.errors import InvalidInput
from privest.linalg import psd
from privest.noise._law import as_generator


class StateSpace:
    """x_{k+1} = A_k x_k + B_k u_k + w_k ,   y_k = C_k x_k + D_k u_k + v_k ,   x_0 ~ N(mean0, cov0).

    Symbols
        A, C    (n, n) and (m, n), or with a leading time axis of K steps.
        Q, R    cov w (n, n) and cov v (m, m), a number q for q·I, or with a leading time axis.
                Any rank: Q = 0, states without noise and readings without noise are allowed.
        mean0, cov0   of x_0: a vector (0 for all zeros) and a matrix or a number. Any rank. cov0
                has no default: 0 says that x_0 is known exactly, which nothing else should say.
        B, D    of known, public inputs u_k (p,): (n, p) and (m, p), or with a time axis.
        cross   cov(w_k, v_k) (n, m), or with a time axis: the noise that leads from x_k to x_{k+1}
                and that of y_k may be correlated. None: they are not.
        diffuse  directions of x_0 of which nothing is known: True (all of it), n truth values, or
                columns D (n, q): x_0 = mean0 + D δ + N(0, cov0), δ anything. Exact, no large number
                (`_diffuse`); estimates have infinite variances until releases have shown δ.

    Arrays with a time axis all have the same K, one entry for each of y_0 … y_{K−1}; the last of A,
    B and Q leads from x_{K−1} to x_K and serves only predictions. All of it is public: a system
    fitted on the private readings leaks them.
    Assumes x_0 and the (w_k, v_k) of all steps independent and Gaussian.

    >>> StateSpace(A=[[1.0, 1.0], [0.0, 1.0]], C=[[1.0, 0.0]], Q=0.01, R=0.25, cov0=1.0)
    StateSpace(2 states, 1 reading a step)
    """

    def __init__(
        self, A: ArrayLike, C: ArrayLike, Q: ArrayLike, R: ArrayLike, mean0: ArrayLike = 0.0,
        cov0: ArrayLike | None = None, *, B: ArrayLike | None = None, D: ArrayLike | None = None,
        cross: ArrayLike | None = None, diffuse: ArrayLike | bool | None = None,
    ) -> None:  # fmt: skip
        if cov0 is None and diffuse is True:
            cov0 = 0.0
        if cov0 is None:
            raise InvalidInput(
                "cov0 is needed: how uncertain x_0 is, as a variance or a covariance matrix (a "
                "large one where little is known of it, 0 where it is known exactly), or give "
                "diffuse=True where nothing is."
            )
        self.A = matrices_of(A, "A")
        self.C = matrices_of(C, "C")
        n, m = self.states, self.readings
        if self.A.shape[-2:] != (n, n) or n == 0 or m == 0:
            raise InvalidInput(f"A must be square, n×n; received shape {self.A.shape}.")
        if self.C.shape[-1] != n:
            raise InvalidInput(
                f"C must have one column for each of the {n} states; received {self.C.shape}."
            )
        self.Q = covariances_of(Q, "Q", n)
        self.R = covariances_of(R, "R", m)
        self.cov0 = covariances_of(cov0, "cov0", n)
        if self.cov0.ndim == 3:
            raise InvalidInput("cov0 has no time axis: it must be n×n or a number.")
        mean = as_array(mean0, "mean0", ndim=(0, 1))
        if mean.ndim and mean.shape != (n,):
            raise InvalidInput(f"mean0 must have {n} entries; received shape {mean.shape}.")
        self.mean0: Array = np.broadcast_to(mean, n).copy()
        self.B = self._with_rows(B, "B", n)
        self.D = self._with_rows(D, "D", m)
        if self.B is not None and self.D is not None and self.B.shape[-1] != self.D.shape[-1]:
            raise InvalidInput(
                f"B and D must have one column for each input; received {self.B.shape} and "
                f"{self.D.shape}."
            )
        self.cross = None if cross is None else self._crossed(cross)
        self.diffuse = diffuse_columns(diffuse, n)
        self.steps = self._common_steps()
        if self.cross is not None:
            self._require_joint(self.cross)

    @classmethod
    def from_continuous(
        cls, F: ArrayLike, C: ArrayLike, Qc: ArrayLike, R: ArrayLike, mean0: ArrayLike = 0.0,
        cov0: ArrayLike | str | None = None, *, times: ArrayLike | None = None,
        step: float | None = None, B: ArrayLike | None = None, D: ArrayLike | None = None,
        diffuse: ArrayLike | bool | None = None,
    ) -> StateSpace:  # fmt: skip
        """dx = F x dt + B u dt + dW, cov dW = Qc dt, read at t_k: y_k = C x(t_k) + D u_k + v_k.

        `times` (K,) of the readings, increasing, in any gaps; or `step`, one gap for all. Equal
        gaps give constant matrices, others matrices with a time axis. What follows the last reading
        serves predictions only: a gap of `step`, or one as long as the gap before.
        u_k holds from t_k until t_{k+1}. F, Qc and B are constant; C, R and D may have a time axis.
        cov0="stationary": the covariance that the system settles in (F stable).
        Formula: A = e^{Fh}, Q = ∫₀ʰ e^{Fs} Qc e^{Fᵀs} ds, B = ∫₀ʰ e^{Fs} ds B, by doubling, right
        for gaps of any length (`_continuous`); O(n³ log ‖F‖h) for each distinct gap.
        Source: van Loan (1978) for the integrals.

        >>> walk = StateSpace.from_continuous(0.0, 1.0, 2.0, 0.1, cov0=1.0, times=[0.0, 1.0, 4.0])
        >>> walk.Q.ravel().tolist()  # 2 a unit of time; the last gap is repeated
        [2.0, 6.0, 6.0]
        """
        found = sampled(F, Qc, B, cov0, times, step)
        return cls(found.A, C, found.Q, R, mean0, found.cov0, B=found.B, D=D, diffuse=diffuse)

    @classmethod
    def from_control(
        cls, system: Any, *, Q: ArrayLike, R: ArrayLike, cov0: ArrayLike | None = None,  # noqa: ANN401
        mean0: ArrayLike = 0.0, cross: ArrayLike | None = None,
        diffuse: ArrayLike | bool | None = None,
    ) -> StateSpace:  # fmt: skip
        """A discrete-time `control.StateSpace` (python-control) with the noise that it lacks.

        A, B, C, D are taken over; its inputs are known inputs, none where B and D are zero. Refuses
        continuous time (`from_continuous`) and transfer functions (control.ss gives states).
        """
        A, B, C, D = control_parts(system)
        return cls(A, C, Q, R, mean0, cov0, B=B, D=D, cross=cross, diffuse=diffuse)

    @classmethod
    def from_scipy(
        cls, system: Any, *, Q: ArrayLike, R: ArrayLike, cov0: ArrayLike | None = None,  # noqa: ANN401
        mean0: ArrayLike = 0.0, cross: ArrayLike | None = None,
        diffuse: ArrayLike | bool | None = None,
    ) -> StateSpace:  # fmt: skip
        """A `scipy.signal.dlti`, or `scipy.signal.StateSpace(…, dt=…)`, with the noise it lacks.

        Transfer functions and zeros-poles-gains become states by scipy's own `to_ss`.
        """
        A, B, C, D = scipy_parts(system)
        return cls(A, C, Q, R, mean0, cov0, B=B, D=D, cross=cross, diffuse=diffuse)

    def to_control(self, dt: float | bool = True) -> Any:  # noqa: ANN401
        """A, B, C, D as a `control.StateSpace` of time step `dt`; noise and start have no place.

        A system without inputs gets one that acts on nothing: python-control wants one.
        """
        return as_control(*self._constant_parts(), dt)

    def to_scipy(self, dt: float | bool = True) -> Any:  # noqa: ANN401
        """The same as a discrete `scipy.signal.StateSpace`."""
        return as_scipy(*self._constant_parts(), dt)

    def _constant_parts(self) -> tuple[Array, Array, Array, Array]:
        """A, B, C, D, zeros where there is none; refused where one changes with time."""
        parts = self.parts()
        changing = [name for name in "ABCD" if name in parts and parts[name].ndim == 3]
        if changing:
            raise InvalidInput(
                f"{', '.join(changing)} changes with time: only constant systems have a "
                "counterpart in python-control and scipy.signal."
            )
        p = max(self.inputs, 1)
        B = np.zeros((self.states, p)) if self.B is None else self.B
        D = np.zeros((self.readings, p)) if self.D is None else self.D
        return self.A.copy(), B.copy(), self.C.copy(), D.copy()

    def _with_rows(self, given: ArrayLike | None, name: str, rows: int) -> Array | None:
        if given is None:
            return None
        matrix = matrices_of(given, name)
        if matrix.shape[-2] != rows:
            wanted = plural(rows, "row")
            raise InvalidInput(f"{name} must have {wanted}; received shape {matrix.shape}.")
        return matrix

    def _crossed(self, given: ArrayLike) -> Array:
        cross, size = matrices_of(given, "cross"), (self.states, self.readings)
        if cross.shape[-2:] != size:
            raise InvalidInput(
                f"cross must be {size[0]}×{size[1]}, states by readings (or with a time axis); "
                f"received shape {cross.shape}."
            )
        return cross

    def _require_joint(self, cross: Array) -> None:
        try:
            psd(self._joint(cross), "it")
        except InvalidInput:
            raise InvalidInput(
                "cross cannot be the covariance of w_k and v_k: [[Q, cross], [crossᵀ, R]] is not "
                "≥ 0."
            ) from None

    def _joint(self, cross: Array) -> Array:
        """The covariance of [w_k; v_k], (1 or K, n + m, n + m)."""
        parts = [stack(part) for part in (self.Q, self.R, cross)]
        length = max(len(part) for part in parts)
        return joint_covariance(
            *(np.broadcast_to(part, (length, *part.shape[1:])) for part in parts)
        )

    def _common_steps(self) -> int | None:
        lengths = {name: len(M) for name, M in self.parts().items() if M.ndim == 3}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise InvalidInput(f"The time axes must have one length K; received {listed}.")
        if 0 in lengths.values():
            raise InvalidInput("The time axes must have at least one step; received none.")
        return next(iter(lengths.values()), None)

    def parts(self) -> Mapping[str, Array]:
        """The matrices that may change with time, by name."""
        named = {"A": self.A, "C": self.C, "Q": self.Q, "R": self.R, "B": self.B, "D": self.D}
        named["cross"] = self.cross
        return {name: matrix for name, matrix in named.items() if matrix is not None}

    @property
    def states(self) -> int:
        """n."""
        return int(self.A.shape[-1])

    @property
    def readings(self) -> int:
        """m, the readings of one step."""
        return int(self.C.shape[-2])

    @property
    def inputs(self) -> int:
        """p, 0 without inputs."""
        given = self.B if self.B is not None else self.D
        return 0 if given is None else int(given.shape[-1])

    @cached_property
    def matrices(self) -> Matrices:
        """The arrays of the system, with their factors, as filters take them."""
        n, m, p = self.states, self.readings, self.inputs
        found = Matrices(
            self.A, self.C, self.Q, self.R, self.mean0, self.cov0,
            np.zeros((n, p)) if self.B is None else self.B,
            np.zeros((m, p)) if self.D is None else self.D,
            np.zeros((n, 0)) if self.diffuse is None else self.diffuse,
        )  # fmt: skip
        found.cross = self.cross
        return found

    def require_steps(self, steps: int) -> int:
        """Check a number of steps against the time axis."""
        count = as_count(steps, "steps", least=1)
        if self.steps is not None and count > self.steps:
            raise InvalidInput(f"The system is given for {self.steps} steps; asked for {count}.")
        return count

    def simulate(
        self, steps: int, rng: np.random.Generator, *, inputs: ArrayLike | None = None,
        trials: int | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """States (K, n) and readings (K, m), or with a leading axis of `trials`.

        Where x_0 is diffuse it is simulated at δ = 0: N(mean0, cov0).
        """
        source, steps = as_generator(rng), self.require_steps(steps)
        u = known_inputs(inputs, steps, self.inputs)
        count = as_count(1 if trials is None else trials, "trials", least=1)
        n, m, own = self.states, self.readings, self.matrices
        cross = np.zeros((n, m)) if self.cross is None else self.cross
        root = roots_of(self._joint(cross))  # of [w; v]
        states, seen = np.empty((count, steps, n)), np.empty((count, steps, m))
        now = self.mean0 + source.standard_normal((count, n)) @ own.root0.T
        white = source.standard_normal((steps, count, n))
        noise = np.concatenate(
            [white, source.standard_normal((count, steps, m)).swapaxes(0, 1)], axis=2
        )
        A, B, C, D = (stack(part) for part in (own.A, own.B, own.C, own.D))
        for k in range(steps):
            both = noise[k] @ at(root, k).T
            states[:, k] = now
            seen[:, k] = now @ at(C, k).T + at(D, k) @ u[k] + both[:, n:]
            now = now @ at(A, k).T + at(B, k) @ u[k] + both[:, :n]
        return (states[0], seen[0]) if trials is None else (states, seen)

    def __repr__(self) -> str:
        start = "" if self.diffuse is None else ", diffuse start"
        axis = "" if self.steps is None else f", {plural(self.steps, 'step')}"
        inputs = f", {plural(self.inputs, 'input')}" if self.inputs else ""
        size = f"{plural(self.states, 'state')}, {plural(self.readings, 'reading')} a step"
        return f"StateSpace({size}{inputs}{axis}{start})"


def as_system(system: StateSpace) -> StateSpace:
    """InvalidInput for what is no StateSpace."""
    if not isinstance(system, StateSpace):
        raise InvalidInput(
            f"system must be a dynamics.StateSpace; received a {type(system).__name__}. (Nonlinear "
            "systems have filters of their own: filter_extended, filter_unscented.)"
        )
    return system


def system_of(matrices: Matrices) -> StateSpace:
    """The checked system of unchecked matrices."""
    inputs = matrices.B.shape[-1] > 0
    return StateSpace(
        *matrices[:6], B=matrices.B if inputs else None, D=matrices.D if inputs else None,
        diffuse=matrices.diffuse if matrices.diffuse.shape[1] else None,
    )  # fmt: skip


def known_inputs(inputs: ArrayLike | None, steps: int, count: int) -> Array:
    """Inputs (steps, count), checked; a vector where count is 1."""
    shape = (steps, count)
    if inputs is None and count:
        raise InvalidInput(f"The system has {plural(count, 'input')}: give them as {shape}.")
    if inputs is None:
        return np.zeros(shape)
    u = as_array(inputs, "inputs", ndim=(1, 2))
    u = u[:, None] if u.ndim == 1 and count == 1 else u
    if count == 0 or u.shape != shape:
        raise InvalidInput(f"inputs must have shape {shape}; received {u.shape}.")
    return u
