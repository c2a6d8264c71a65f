"""Families of state-space models: parameters, their scales, and starting values from moments."""

from __future__ import annotations

import contextlib
import copy
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Flags, as_array, as_choice, as_count, as_flag, as_kind
from privest.dynamics._moments import Moments, moments_of
from privest.dynamics._releases import Data
from privest.dynamics._steps import Matrices
from privest.dynamics._system import StateSpace, system_of
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure, PrivestError

LARGEST_ARTANH = 8.0  # 1 − |tanh| is 3e-7: nearer to a unit root no stream tells the difference
LARGEST = 1.0 - 1e-15  # partial autocorrelation of a stationary process
LARGEST_START = 0.95  # partial autocorrelation at which a search begins
MOST_STATES = 500
Theta = ArrayLike | Mapping[str, float]  # natural parameters in order, or by name

# --- autoregressions by their partial autocorrelations ---


class Process(NamedTuple):
    """φ (p,), autocorrelations ρ (n,), v_p = innovation variance/variance; their slopes by r."""

    phi: Array
    rho: Array
    innovation: float
    phi_slopes: Array
    rho_slopes: Array
    innovation_slopes: Array


# A model at some t asks for coefficients, covariances and slopes in turn: the last are kept.
@lru_cache(maxsize=4)
def durbin_levinson(partial: tuple[float, ...], count: int) -> Process:
    """An autoregression by its partial autocorrelations r, |r_k| < 1; `count` autocorrelations.

        ρ_k = r_kv_{k−1} + Σ_{j<k} φ_jρ_{k−j} ,  φ_j ← φ_j − r_kφ_{k−j} ,  v_k = v_{k−1}(1 − r_k²)

    Accurate next to a unit root; slopes by the complex step.
    """
    p = len(partial)
    h = 1e-30
    r = np.array(partial) + 1j * h * np.eye(max(p, 1), p)  # a row for each slope
    size = max(count, p + 1)
    phi = r[:, :0]
    rho = np.zeros((len(r), size), dtype=complex)
    rho[:, 0] = 1.0
    v = np.ones(len(r), dtype=complex)
    for k in range(p):
        own = r[:, k]
        rho[:, k + 1] = own * v + (phi * rho[:, k:0:-1]).sum(axis=1)
        phi = np.concatenate([phi - own[:, None] * phi[:, ::-1], own[:, None]], axis=1)
        v = v * (1.0 - own * own)
    for k in range(p + 1, size if p else 0):
        rho[:, k] = (phi * rho[:, k - p : k][:, ::-1]).sum(axis=1)
    rho = rho[:, :count]
    slopes = [part.imag.T[..., :p] / h for part in (phi, rho, v)]
    found = Process(phi[0].real, rho[0].real, float(v[0].real), *slopes)
    for part in (found.phi, found.rho, *slopes):
        part.flags.writeable = False
    return found


def partial_autocorrelations(phi: Array, largest: float) -> Array:
    """The recursion backwards; ±largest where coefficients are not stationary."""
    found = np.zeros(len(phi))
    for k in range(len(phi) - 1, -1, -1):
        r = found[k] = min(max(phi[k], -largest), largest)
        phi = (phi[:k] + r * phi[:k][::-1]) / (1.0 - r * r)
    return found


# --- families ---


class Family(ABC):
    """A family of state-space models θ ↦ model, θ = natural(t) for every real t (working scale).

    names      of θ (p,); labels of t ("log q").
    measurements   measurements of one step; columns of public inputs.
    limits     (p, 2) of t; starts of a search, the best first; and the least number of searches.
    """

    names: tuple[str, ...]
    polynomials: tuple[tuple[slice[Any, Any, Any], float], ...]
    count: int
    positive: Flags
    bounded: Flags

    measurements: int = 1
    columns: int = 0
    searches: int = 2
    limits: Array
    starts: list[Array]

    def __init__(
        self, names: Sequence[str], kinds: Sequence[str],
        polynomials: Sequence[tuple[slice, float]] = (), count: int = 0,
    ) -> None:  # fmt: skip
        """kinds: θ = e^t ("positive"), tanh t ("correlation"), unit·t ("free"). polynomials (where,
        sign): φ of 1 − φ_1B − … (1) or θ of 1 + θ_1B + … (−1), by partial autocorrelations.
        """
        self.names = tuple(names)
        self.polynomials = tuple(polynomials)
        self.count = count
        self.positive, self.bounded = (
            np.array([own == kind for own in kinds]) for kind in ("positive", "correlation")
        )
        self.unit: Array = np.ones(len(kinds))
        functions = {"positive": "log ", "correlation": "artanh ", "free": ""}
        labels = [functions[kind] + name for kind, name in zip(kinds, names)]
        for where, sign in self.polynomials:
            if len(labels[where]) > 1:
                kind = "ar" if sign > 0 else "ma"
                labels[where] = [
                    f"artanh {kind} partial {j + 1}" for j in range(len(labels[where]))
                ]
        self.labels: tuple[str, ...] = tuple(labels)

    @property
    def size(self) -> int:
        return len(self.names)

    @property
    def transformed(self) -> Flags:
        return np.asarray(self.positive | self.bounded)

    def natural(self, t: Array) -> Array:
        theta = self.unit * t
        positive = self.positive
        bounded = self.bounded
        theta[positive] = np.exp(t[positive])
        theta[bounded] = np.tanh(t[bounded])
        for where, sign in self.polynomials:
            partial = tuple((sign * theta[where]).tolist())
            theta[where] = sign * durbin_levinson(partial, self.count).phi
        return np.asarray(theta)

    def natural_slopes(self, t: Array) -> Array:
        """∂θ/∂t (p, p)."""
        own = self.unit.copy()
        positive = self.positive
        bounded = self.bounded
        own[positive] = np.exp(t[positive])
        own[bounded] = 1.0 - np.tanh(t[bounded]) ** 2
        J = np.diag(own)
        for where, sign in self.polynomials:
            partial = tuple((sign * np.tanh(t[where])).tolist())
            J[where, where] = durbin_levinson(partial, self.count).phi_slopes * own[where]
        return J

    def working(self, theta: Array) -> Array:
        """t (p,); InvalidInput where no t leads to θ."""
        theta = np.array(theta, dtype=float)
        for where, sign in self.polynomials:
            partial = partial_autocorrelations(sign * theta[where], LARGEST)
            if np.abs(partial).max() >= LARGEST:
                kind = "invertible" if sign < 0 else "stationary"
                raise InvalidInput(
                    f"{', '.join(self.names[where])} = "
                    f"{', '.join(f'{value:g}' for value in theta[where])} are not the coefficients "
                    f"of a {kind} process: a root of their polynomial lies on or within the unit "
                    "circle."
                )
            theta[where] = sign * partial
        for j, (name, value) in enumerate(zip(self.names, theta.tolist())):
            if self.positive[j] and not value > 0:
                raise InvalidInput(f"{name} must be > 0; received {value:g}.")
            if self.bounded[j] and not abs(value) < 1:
                raise InvalidInput(f"{name} must lie between -1 and 1; received {value:g}.")
        t = theta / self.unit
        t[self.positive] = np.log(theta[self.positive])
        t[self.bounded] = np.arctanh(theta[self.bounded])
        return np.asarray(t)

    @abstractmethod
    def matrices(self, t: Array) -> Matrices:
        """The model at t."""

    @abstractmethod
    def slopes(self, t: Array) -> Matrices:
        """∂matrices/∂t, with a leading axis of parameters."""

    @abstractmethod
    def least_steps(self) -> int:
        """Steps below which the parameters cannot be told apart."""

    @abstractmethod
    def prepared(self, data: list[Data]) -> Self:
        """The same family with units, `limits` and `starts` for these data."""

    def _bounds(self) -> Array:
        size = np.where(self.bounded, LARGEST_ARTANH, np.inf)
        return np.stack([-size, size], axis=-1)

    def regressors(self, inputs: Array) -> Array:
        """The inputs of the model from those given (K, columns)."""
        if inputs.shape[1] != self.columns:
            raise InvalidInput(
                f"{self!r} takes {self.columns} public inputs; received {inputs.shape[1]}."
            )
        return inputs


def as_parameters(family: Family, theta: Theta, name: str = "theta") -> Array:
    names = family.names
    if isinstance(theta, Mapping):
        if set(theta) != set(names):
            raise InvalidInput(f"{name} must name {', '.join(names)}; received {', '.join(theta)}.")
        theta = [theta[one] for one in names]
    given = as_array(theta, name, ndim=1)
    if given.shape != (family.size,):
        raise InvalidInput(f"{name} must hold {', '.join(names)}; received shape {given.shape}.")
    return given.copy()


# --- families with matrices affine in θ ---

PARTS = ("A", "C", "Q", "R", "B", "D")
# The least variance changes ℓ by less than about 1e-3: √(information) of the variance of white
# noise in K steps is √(K/2) over it, of a random walk's K²/10, of its slope's K⁴/1000.
NEGLIGIBLE = 1e-3
INFORMATION_POWERS = (0.5, 2.0, 3.0)  # of K, by how often a variance is summed
LARGEST_VARIANCE = 1e6  # times the variance of the releases
SCALES = {
    "ar": "correlation", "ma": "correlation", "variance": "positive", "coefficient": "free",
}  # fmt: skip


class Parameter(NamedTuple):
    """A parameter of a kind (SCALES), its entry, and how often (`depth`) it is summed in time."""

    name: str
    kind: str
    part: str
    row: int
    column: int
    depth: int = 0


def as_order(value: int, name: str, *, least: int) -> int:
    found = as_count(value, name, least=least)
    if found > MOST_STATES:
        raise InvalidInput(f"{name} must be at most {MOST_STATES}; received {found}.")
    return found


class AffineFamily(Family):
    """(A, C, Q, R, B, D) = base + Σ θ_iE_i, one measurement a step.

    The last of `inputs` is a column of ones if `constant`; `diffuse`: x_0 is unknown.
    """

    states: int
    inputs: int
    constant: bool
    mean0: Array
    diffuse: Array

    def __init__(
        self, states: int, parameters: Sequence[Parameter], A: Array, C: Array, *, inputs: int = 0,
        diffuse: bool = False, constant: bool = False,
    ) -> None:  # fmt: skip
        self.parameters: tuple[Parameter, ...] = tuple(parameters)
        self.states = states
        self.inputs = inputs
        self.constant = constant
        self.columns: int = inputs - constant  # that of a mean is made here
        shapes = [A.shape, C.shape, A.shape, (1, 1), (states, inputs), (1, inputs)]
        ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()
        self._cuts = [
            (slice(end - math.prod(shape), end), shape) for shape, end in zip(shapes, ends)
        ]
        self._base = np.zeros(ends[-1])
        self._by = np.zeros((len(parameters), ends[-1]))
        self._base[: ends[1]] = np.concatenate([A.ravel(), C.ravel()])
        for i, parameter in enumerate(parameters):
            own, shape = self._cuts[PARTS.index(parameter.part)]
            self._by[i, own.start + parameter.row * shape[1] + parameter.column] = 1.0
        self.mean0 = np.zeros(states)
        self.diffuse = np.eye(states)[:, : states * diffuse]
        kinds = [parameter.kind for parameter in parameters]
        polynomials = [
            (slice(kinds.index(kind), kinds.index(kind) + kinds.count(kind)), sign)
            for kind, sign in (("ar", 1.0), ("ma", -1.0))
            if kind in kinds
        ]
        names = [parameter.name for parameter in parameters]
        super().__init__(names, [SCALES[kind] for kind in kinds], polynomials, states)

    def matrices(self, t: Array) -> Matrices:
        flat = self._base + self.natural(t) @ self._by
        A, C, Q, R, B, D = [flat[own].reshape(shape) for own, shape in self._cuts]
        return Matrices(A, C, Q, R, self.mean0, self._cov0(t), B, D, self.diffuse)

    def slopes(self, t: Array) -> Matrices:
        p = len(t)
        n = self.states
        flat = self.natural_slopes(t).T @ self._by
        A, C, Q, R, B, D = [flat[:, own].reshape(p, *shape) for own, shape in self._cuts]
        moved = np.zeros((p, n, self.diffuse.shape[1]))
        return Matrices(A, C, Q, R, np.zeros((p, n)), self._cov0_slopes(t), B, D, moved)

    def _cov0(self, t: Array) -> Array:
        return np.zeros((self.states, self.states))

    def _cov0_slopes(self, t: Array) -> Array:
        return np.zeros((len(t), self.states, self.states))

    def system(self, theta: Theta, *, cov0: ArrayLike | None = None) -> StateSpace:
        """The model at θ, with an input of ones for a mean; `cov0` replaces its start."""
        found = self.matrices(self.working(as_parameters(self, theta)))
        if cov0 is None:
            return system_of(found)
        start = as_array(cov0, "cov0", ndim=(0, 2))
        if start.ndim == 0:
            start = start * np.eye(self.states)
        return system_of(found._replace(cov0=start, diffuse=np.zeros((self.states, 0))))

    def regressors(self, inputs: Array) -> Array:
        u = super().regressors(inputs)
        return np.column_stack([u, np.ones(len(u))]) if self.constant else u

    def prepared(self, data: list[Data]) -> Self:
        made = copy.copy(self)
        found = moments_of(data)
        made.searches = 2 if found.lagged or self.states > 2 else 1
        size = np.sqrt(np.mean(np.square(data[0].inputs), axis=0))
        unit = math.sqrt(found.variance) / np.where(size > 0, size, 1.0)
        made.unit = self.unit.copy()
        made.limits = self._bounds()
        for j, parameter in enumerate(self.parameters):
            if parameter.kind == "coefficient":
                made.unit[j] = unit[parameter.column]
            elif parameter.kind == "variance":
                power = INFORMATION_POWERS[parameter.depth]
                least = NEGLIGIBLE * found.whitest / found.steps**power
                made.limits[j] = math.log(least), math.log(LARGEST_VARIANCE * found.variance)
        first = self._first_values(found)
        made.starts = [np.clip(made.working(theta), *made.limits.T) for theta in first]
        return made

    def least_steps(self) -> int:
        return self.size + self.states + 1

    @abstractmethod
    def _first_values(self, moments: Moments) -> list[Array]:
        """θ of several starts, the most promising first."""


# --- autoregressions and moving averages ---

NEUTRAL = (0.5, 0.95, -0.5)  # first partial autocorrelations of starts that no moment chose
CYCLE = 0.97  # |poles| of an oscillation


class Autoregression(AffineFamily):
    p: int
    q: int = 0
    noise: bool

    def _first_values(self, moments: Moments) -> list[Array]:
        rest, coefficients = moments.residuals(self._columns(moments.columns))
        partial = [np.eye(1, self.p)[0] * first for first in NEUTRAL]
        if self.p > 1:
            cosine = math.cos(rest.peak_frequency())
            partial[-1][:2] = 2 * CYCLE * cosine / (1 + CYCLE**2), -(CYCLE**2)
        if not moments.lagged:
            phi = rest.autoregression(self.p, max(self.p * self.noise, self.q))
            partial.insert(0, partial_autocorrelations(phi, LARGEST_START))
        return [self._with_variances(r, rest.signal, coefficients) for r in partial]

    def _columns(self, inputs: Array) -> Array:
        """The regressors of a measurement."""
        return inputs

    def _with_variances(self, partial: Array, signal: float, coefficients: Array) -> Array:
        process = durbin_levinson(tuple(partial.tolist()), 1)
        share = 2 / 3 if self.noise else 1.0
        variances = [share * signal * process.innovation, (1 - share) * signal][: 1 + self.noise]
        return np.concatenate([process.phi, np.zeros(self.q), variances, coefficients])


class ARMA(Autoregression):
    """y_k = mean + x_k + v_k ,  x_k = Σ φ_jx_{k−j} + w_k + Σ θ_jw_{k−j} ,  var w = q ,  var v = r.

    p, q     orders, not both 0; x is stationary, the moving average invertible.
    noise    whether v, a white error of the measurements, is estimated; only if q < p.
    mean     whether the mean is estimated; else it is 0.

    >>> ARMA(2, 1).names
    ('phi1', 'phi2', 'theta1', 'q', 'mean')
    """

    p: int
    q: int
    noise: bool

    def __init__(self, p: int, q: int, *, noise: bool = False, mean: bool = True) -> None:
        self._compose(as_order(p, "p", least=0), as_order(q, "q", least=0), noise, 0, mean)

    def _compose(self, p: int, q: int, noise: bool, regressors: int, mean: bool) -> None:
        """State (x_k, x_{k−1}, …) of the autoregression, C = (1, θ): affine in all parameters."""
        noise = as_flag(noise, "noise")
        mean = as_flag(mean, "mean")
        if p + q == 0:
            as_order(p, "the order", least=1)
        if noise and q >= p:
            raise NotIdentifiable(
                f"ARMA({p}, {q}) with a white error of the measurements is an ARMA({p}, "
                f"{max(p, q)}) again: r cannot be told from the moving average. Leave noise=True "
                f"out, or take fewer terms than {p} in the moving average."
            )
        self.p = p
        self.q = q
        self.noise = noise
        n = max(p, q + 1)
        names = [f"beta{i + 1}" for i in range(regressors)] + ["mean"] * mean
        parameters = [
            *(Parameter(f"phi{j + 1}", "ar", "A", 0, j) for j in range(p)),
            *(Parameter(f"theta{j}", "ma", "C", 0, j) for j in range(1, q + 1)),
            *_noise_variances(noise),
            *(Parameter(name, "coefficient", "D", 0, i) for i, name in enumerate(names)),
        ]
        A = np.eye(n, k=-1)
        C = np.eye(1, n)
        super().__init__(n, parameters, A, C, inputs=len(names), constant=mean)
        self._lag = scipy.linalg.toeplitz(np.arange(n))

    def _cov0(self, t: Array) -> Array:
        """γ_{|i−j|} of the autoregression, γ_h = ρ_hq/v_p."""
        found = durbin_levinson(tuple(np.tanh(t[: self.p]).tolist()), self.states)
        scale = math.exp(t[self.p + self.q]) / found.innovation
        return np.asarray((scale * found.rho)[self._lag])

    def _cov0_slopes(self, t: Array) -> Array:
        partial = np.tanh(t[: self.p])
        p = self.p
        place = self.p + self.q
        found = durbin_levinson(tuple(partial.tolist()), self.states)
        scale = math.exp(t[place]) / found.innovation
        by: Array = np.zeros((len(t), self.states))
        ratio = np.outer(found.rho, found.innovation_slopes / found.innovation)
        by[:p] = (scale * (1.0 - partial**2))[:, None] * (found.rho_slopes - ratio).T
        by[place] = scale * found.rho
        return np.asarray(by[:, self._lag])

    def __repr__(self) -> str:
        return f"ARMA({self.p}, {self.q}{_options(self)})"


def _noise_variances(noise: bool) -> list[Parameter]:
    found = [Parameter("q", "variance", "Q", 0, 0, depth=1)]
    return [*found, Parameter("r", "variance", "R", 0, 0)] if noise else found


class AR(ARMA):
    """y_k = mean + x_k + v_k ,   x_k = Σ φ_jx_{k−j} + w_k ,   var w = q ,   var v = r.

    Options and parameters as of ARMA.

    >>> AR(2).names, AR(1, noise=True, mean=False).names
    (('phi1', 'phi2', 'q', 'mean'), ('phi1', 'q', 'r'))
    """

    def __init__(self, order: int, *, noise: bool = False, mean: bool = True) -> None:
        self._compose(as_order(order, "the order", least=1), 0, noise, 0, mean)

    def __repr__(self) -> str:
        return f"AR({self.p}{_options(self)})"


class RegressionAR(ARMA):
    """y_k = h_kβ + x_k + v_k with public rows h_k (inputs=H, a column for each β_i), AR error x.

    A constant is a column of ones in H, or mean=True.

    >>> RegressionAR(1, 2).names
    ('phi1', 'q', 'beta1', 'beta2')
    """

    def __init__(
        self, order: int, regressors: int = 1, *, noise: bool = False, mean: bool = False
    ) -> None:
        columns = as_order(regressors, "regressors", least=1)
        self._compose(as_order(order, "the order", least=1), 0, noise, columns, mean)

    def __repr__(self) -> str:
        return f"RegressionAR({self.p}, {self.columns}{_options(self, mean=False)})"


def _options(family: ARMA, mean: bool = True) -> str:
    said = ", noise=True" if family.noise else ""
    return said if family.constant == mean else f"{said}, mean={family.constant}"


class ARX(Autoregression):
    """y_k = Σ_{j≤order} φ_jy_{k−j} + Σ_{l≤lags} b_lᵀu_{k−l} + w_k ,   var w = q.

    inputs   columns of the public u (K, inputs); `lags` steps of each act.
    noise, mean   whether a white error of variance r is added, and a mean estimated.
    Stable, with x_0 unknown.

    >>> ARX(2, 2, lags=2).names
    ('phi1', 'phi2', 'q', 'b1.1', 'b1.2', 'b2.1', 'b2.2')
    """

    noise: bool

    lags: int

    def __init__(
        self, order: int, inputs: int = 1, *, lags: int = 1, noise: bool = False, mean: bool = False
    ) -> None:
        self.p: int = as_order(order, "the order", least=1)
        columns = as_order(inputs, "inputs", least=1)
        self.lags = as_order(lags, "lags", least=1)
        self.noise = as_flag(noise, "noise")
        mean = as_flag(mean, "mean")
        n = max(self.p, self.lags)
        # Observer form: x_{k+1} = φy_k + (shifted x_k) + B u_k + w, y = x_1. The state after k is
        # what earlier steps add to each later measurement, so that x_0 absorbs what is before 0.
        gains = [(lag, i) for lag in range(self.lags) for i in range(columns)]
        parameters = [
            *(Parameter(f"phi{j + 1}", "ar", "A", j, 0) for j in range(self.p)),
            *_noise_variances(self.noise),
            *(
                Parameter(
                    f"b{lag + 1}" + (f".{i + 1}" if columns > 1 else ""), "coefficient", "B", lag, i
                )
                for lag, i in gains
            ),
            *([Parameter("mean", "coefficient", "D", 0, columns)] if mean else []),
        ]
        super().__init__(
            n, parameters, np.eye(n, k=1), np.eye(1, n), inputs=columns + mean, diffuse=True,
            constant=mean,
        )  # fmt: skip

    def __repr__(self) -> str:
        said = [f"{self.p}, {self.columns}"]
        said += [f"lags={self.lags}"] if self.lags > 1 else []
        said += ["noise=True"] if self.noise else []
        said += ["mean=True"] if self.constant else []
        return f"ARX({', '.join(said)})"

    def _columns(self, inputs: Array) -> Array:
        u = inputs[:, : self.columns]
        ones = inputs[:, self.columns :]
        return np.hstack([_lagged(u, self.lags), ones])

    def _first_values(self, moments: Moments) -> list[Array]:
        later = np.arange(moments.steps) >= max(self.p, self.lags)
        own = moments._replace(weight=moments.weight * later[:, None])
        past = _lagged(own.means()[:, None], self.p)
        rest, found = own.residuals(np.hstack([past, self._columns(moments.columns)]))
        partial = partial_autocorrelations(found[: self.p], LARGEST_START)
        phi = durbin_levinson(tuple(partial.tolist()), 1).phi
        gains = found[self.p :]
        if self.constant:
            gains[-1] /= 1.0 - phi.sum()  # the equation has (1 − Σφ)·mean
        left = float((rest.weight * np.square(rest.values)).sum() / max(rest.weight.sum(), 1.0))
        left = left or moments.variance
        variances = [left / 2, left / 2] if self.noise else [left]
        return [np.concatenate([phi, variances, gains]), *super()._first_values(moments)]


def _lagged(columns: Array, lags: int) -> Array:
    """(K, lags·p): the columns 1, …, lags steps before, zeros before the first."""
    K = len(columns)
    padded = np.concatenate([np.zeros((lags, columns.shape[1])), columns])
    return np.hstack([padded[lags - j : lags - j + K] for j in range(1, lags + 1)])


# --- structural models: a level, a slope and a season, of which nothing is known at the start ---

SHARES = (0.5, 0.1, 0.01)  # of the white variance, for those that a level sums: rough to smooth


class Structural(AffineFamily):
    """y_k = level_k + season_k + v_k; all parts start diffuse.

    level_{k+1} = level_k + slope_k + N(0, q_level) ,   slope_{k+1} = slope_k + N(0, q_slope)
    season_{k+1} = −(season_k + … + season_{k−S+2}) + N(0, q_season)
    """

    slope: bool
    period: int
    noise: bool

    def __init__(self, *, slope: bool, period: int, noise: bool) -> None:
        self.slope = slope
        self.period = period
        self.noise = as_flag(noise, "noise")
        n = 1 + slope + max(period - 1, 0)
        first = 1 + slope
        A = np.zeros((n, n))
        C = np.eye(1, n)
        A[0, :first] = 1.0
        parameters = [Parameter("q_level", "variance", "Q", 0, 0, depth=1)]
        if slope:
            A[1, 1] = 1.0
            parameters.append(Parameter("q_slope", "variance", "Q", 1, 1, depth=2))
        if period:
            A[first, first:] = -1.0
            C[0, first] = 1.0
            A[first + 1 :, first:-1] = np.eye(period - 2)
            parameters.append(Parameter("q_season", "variance", "Q", first, first, depth=1))
        if noise:
            parameters.append(Parameter("r", "variance", "R", 0, 0))
        super().__init__(n, parameters, A, C, diffuse=True)

    def __repr__(self) -> str:
        said = [str(self.period)] * bool(self.period)
        said += ['trend="trend"'] * (self.slope and bool(self.period))
        said += ["noise=False"] * (not self.noise)
        return f"{type(self).__name__}({', '.join(said)})"

    def _first_values(self, moments: Moments) -> list[Array]:
        kinds = [parameter.depth for parameter in self.parameters]
        shares = [[share**depth if depth else 0.5 for depth in kinds] for share in SHARES]
        return [moments.whitest * np.array(own) for own in shares]


class LocalLevel(Structural):
    """y_k = level_k + v_k ,   level_{k+1} = level_k + w_k ,   var w = q_level ,   var v = r.

    >>> LocalLevel().names
    ('q_level', 'r')
    """

    def __init__(self, *, noise: bool = True) -> None:
        super().__init__(slope=False, period=0, noise=noise)


class LocalTrend(Structural):
    """y_k = level_k + v_k , level_{k+1} = level_k + slope_k + w_k , slope_{k+1} = slope_k + u_k.

    >>> LocalTrend().names  # variances of w, u and v
    ('q_level', 'q_slope', 'r')
    """

    def __init__(self, *, noise: bool = True) -> None:
        super().__init__(slope=True, period=0, noise=noise)


class Seasonal(Structural):
    """y_k = level_k + season_k + v_k ,   season_k + … + season_{k−S+1} = N(0, q_season).

    trend   "level" or "trend": the level as in LocalLevel or LocalTrend.

    >>> Seasonal(12, trend="trend").names
    ('q_level', 'q_slope', 'q_season', 'r')
    """

    def __init__(self, period: int, *, trend: str = "level", noise: bool = True) -> None:
        as_choice(trend, ("level", "trend"), "trend")
        super().__init__(
            slope=trend == "trend", period=as_order(period, "period", least=2), noise=noise
        )


# --- families by a function of the user ---

KINDS = ("positive", "correlation", "free")
DIFFERENCE_STEPS = (1e-3, 1e-4, 1e-5)  # on the working scale; rounding 1e-13 to 1e-11 of entries
AGREEMENT = 1e-4  # relatively, of differences over h and 2h: the error is about its square
FARTHEST = 15 * math.log(10)  # of the logarithm of a positive parameter from its start
AROUND = (0.0, 0.5, -0.5)  # of working parameters, about the start given


class CustomFamily(Family):
    """The models function(θ), for scalar or vector measurements.

    function   θ (p,) ↦ StateSpace, smooth, public, of the same shapes for every θ.
    start      {name: value}: the parameters in order, and where a search begins.
    kinds      {name: kind}: "positive", "correlation" (between −1 and 1) or "free" (default).

    >>> def decay(theta):
    ...     a, q = theta
    ...     return StateSpace(A=a, C=1.0, Q=q, R=0.0, cov0=q / (1 - a**2))
    >>> CustomFamily(decay, {"a": 0.5, "q": 1.0}, {"a": "correlation", "q": "positive"})
    CustomFamily(a, q)
    """

    measurements: int
    columns: int

    searches: int = len(AROUND)  # nothing says which start is good

    def __init__(
        self, function: Callable[[Array], StateSpace], start: Mapping[str, float],
        kinds: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(start, Mapping) or not start:
            raise InvalidInput("start must be {name: value}, with all parameters.")
        kinds = dict(kinds or {})
        names = tuple(map(str, start))
        if unknown := [name for name in kinds if name not in names]:
            raise InvalidInput(
                f"kinds are given for {', '.join(unknown)}; the parameters are {', '.join(names)}."
            )
        self.function = function
        first = as_array(list(start.values()), "start", ndim=1)
        each = [as_choice(kinds.get(name, "free"), KINDS, f"kind of {name}") for name in names]
        super().__init__(names, each)
        free = ~self.transformed & (first != 0)
        self.unit[free] = np.abs(first[free])
        self._first = self.working(first)
        system = self.system(first)
        self.measurements = system.measurements
        self.columns = system.inputs
        self._shapes = [part.shape for part in system.matrices]

    def __repr__(self) -> str:
        return f"CustomFamily({', '.join(self.names)})"

    def system(self, theta: Theta) -> StateSpace:
        return self._checked(self.function(as_parameters(self, theta)))

    def _checked(self, found: object) -> StateSpace:
        return as_kind(found, StateSpace, f"the function of {self!r} must return a StateSpace")

    def matrices(self, t: Array) -> Matrices:
        try:
            system = self.function(self.natural(t))
        except (PrivestError, ArithmeticError) as error:
            # Far from the start the model may not exist: a search turns back there.
            raise NumericalFailure(f"{self!r} has no model there: {error}") from error
        found = self._checked(system).matrices
        if [part.shape for part in found] != self._shapes:
            raise InvalidInput(
                f"the function of {self!r} must return systems of one shape for every theta."
            )
        return found

    def slopes(self, t: Array) -> Matrices:
        here = self.matrices(t)
        p = len(t)
        parts = here[:-1]
        rows = np.array([self._slope(t, unit) for unit in np.eye(p)])
        ends = np.cumsum([part.size for part in parts])[:-1]
        cut = np.split(rows, ends, axis=1)
        slopes = [own.reshape(p, *part.shape) for own, part in zip(cut, parts)]
        return Matrices(*[*slopes, np.zeros((p, *here.diffuse.shape))])

    def _slope(self, t: Array, unit: Array) -> Array:
        for h in DIFFERENCE_STEPS:
            near, far = (
                (self._flat(t + step * unit) - self._flat(t - step * unit)) / (2 * step)
                for step in (h, 2 * h)
            )
            if np.abs(near - far).max() <= AGREEMENT * np.abs(near).max():
                return np.asarray((4 * near - far) / 3)
        raise NumericalFailure(
            f"The matrices of {self!r} have no slope there: the function is not smooth."
        )

    def _flat(self, t: Array) -> Array:
        return np.concatenate([part.ravel() for part in self.matrices(t)[:-1]])

    def prepared(self, data: list[Data]) -> Self:
        del data
        made = copy.copy(self)
        made.limits = self._bounds()
        made.starts = []
        made.limits[self.positive] = self._first[self.positive, None] + np.array(
            [-FARTHEST, FARTHEST]
        )
        for aside in AROUND:
            with contextlib.suppress(PrivestError):  # the function has no model there
                self.matrices(self._first + aside)
                made.starts.append(self._first + aside)
        return made

    def least_steps(self) -> int:
        unknown = self.size + int(self.matrices(self._first).diffuse.shape[1])
        return math.ceil(unknown / self.measurements) + 1


# --- families by name ---

EXAMPLES = (
    '"ar2", "ar2+noise", "ar2-mean" (mean known to be 0), "arma2,1", "arx1", "regression1" '
    '(regression with AR(1) errors), "level", "level-noise", "trend", "seasonal12", '
    '"trend+seasonal12"'
)
OPTION = re.compile(r"([+-])(noise|mean)(?![a-z0-9])")


def as_family(family: str | Family, *, inputs: int = 0) -> Family:
    """A family, or the one that a text names (see `fit`) with that number of columns of `inputs`.

    >>> as_family("ar2+noise"), as_family("trend+seasonal12"), as_family("arx1", inputs=2)
    (AR(2, noise=True), Seasonal(12, trend="trend"), ARX(1, 2))
    """
    if isinstance(family, Family):
        return family
    as_kind(family, str, "a family must be a Family or a text")
    text = re.sub(r"\s", "", family.lower())
    options: dict[str, Any] = {name: sign == "+" for sign, name in OPTION.findall(text)}
    text = OPTION.sub("", text)
    if found := re.fullmatch(r"(ar|arx|regression)([0-9]+)", text):
        kind = found.group(1)
        order = int(found.group(2))
        if kind == "ar":
            return AR(order, **options)
        return (ARX if kind == "arx" else RegressionAR)(order, inputs or 1, **options)
    if found := re.fullmatch(r"arma([0-9]+),([0-9]+)", text):
        return ARMA(int(found.group(1)), int(found.group(2)), **options)
    return _structural(family, text, options)


def _structural(family: str, text: str, options: dict[str, Any]) -> Family:
    found = re.fullmatch(r"(level|trend)?(?:\+?seasonal([0-9]+))?", text)
    if not found or not text or text.startswith("+"):
        raise InvalidInput(f"{family!r} names no family. Families are {EXAMPLES}.")
    trend, period = found.groups()
    if "mean" in options:
        raise InvalidInput(
            f"{family!r}: a level, trend or season has no mean of its own (its level is that)."
        )
    if period:
        return Seasonal(int(period), trend=trend or "level", **options)
    return (LocalTrend if trend == "trend" else LocalLevel)(**options)
