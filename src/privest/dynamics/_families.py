"""Families of state-space models: parameters, their scales, and starting values from moments."""

from __future__ import annotations

import copy
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import scipy

from privest.arrays import (
    Array,
    ArrayLike,
    Flags,
    as_array,
    as_choice,
    as_count,
    as_flag,
)
from privest.dynamics._moments import Moments, moments_of
from privest.dynamics._releases import Data
from privest.dynamics._steps import Matrices
from privest.dynamics._system import StateSpace, system_of
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure, PrivestError

# Of |t| for partial autocorrelations tanh t: beyond it 1 − |r| is below 3e-7, and no stream that
# fits in memory tells such a process from one with a unit root.
LARGEST_ARTANH = 8.0
LARGEST = 1.0 - 1e-15  # partial autocorrelation, of what is stationary
LARGEST_START = 0.95  # of those at which a search begins
MOST_STATES = 500

# --- scales: natural parameters θ of working ones t, any real numbers ---


class Process(NamedTuple):
    """φ (p,), autocorrelations ρ_0 … (n,), v_p = innovation variance/variance, and ∂/∂r_j of them.

    The slopes have shapes (p, p), (n, p) and (p,).
    """

    phi: Array
    rho: Array
    innovation: float
    phi_slopes: Array
    rho_slopes: Array
    innovation_slopes: Array


# A model at some t asks for coefficients, covariances and their slopes: the last few are kept.
@lru_cache(maxsize=4)
def durbin_levinson(partial: tuple[float, ...], count: int) -> Process:
    """An autoregression by its partial autocorrelations r, |r_k| < 1; `count` autocorrelations.

        ρ_k = r_kv_{k−1} + Σ_{j<k} φ_jρ_{k−j} ,  φ_j ← φ_j − r_kφ_{k−j} ,  v_k = v_{k−1}(1 − r_k²)

    The autocovariances are γ_h = ρ_h q/v_p, to rounding also next to a unit root: no Lyapunov
    equation is solved. Slopes by the complex step, exact for a polynomial.

    >>> found = durbin_levinson((0.5,), 3)
    >>> found.phi.tolist(), found.rho.tolist(), found.innovation
    ([0.5], [1.0, 0.5, 0.25], 0.75)
    """
    p, h = len(partial), 1e-30
    r = np.array(partial) + 1j * h * np.eye(max(p, 1), p)  # a row for each slope
    size = max(count, p + 1)
    phi, rho = r[:, :0], np.zeros((len(r), size), dtype=complex)
    rho[:, 0], v = 1.0, np.ones(len(r), dtype=complex)
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


class Scale(NamedTuple):
    """θ = unit·t ("free"), e^t ("log"), or between low and high ("between"): a tanh of t."""

    kind: str
    unit: float = 1.0
    low: float = -1.0
    high: float = 1.0


# --- what a fit asks of a family ---


class Family(ABC):
    """θ → state-space model, with θ = natural(t) for every real vector t (the working scale).

    names      of the natural parameters, (p,).
    labels     of the working ones ("log q").
    readings   measurements of one step.
    columns    of public inputs that a fit takes.
    searches   starting values from which a maximum is searched for, at least.
    """

    readings: int = 1
    columns: int = 0
    searches: int = 2

    def __init__(
        self, names: Sequence[str], scales: Sequence[Scale],
        polynomials: Sequence[tuple[slice, float]] = (), count: int = 0,
    ) -> None:  # fmt: skip
        """polynomials (where, sign): the parameters there are φ of 1 − φ_1B − … (sign 1) or θ of
        1 + θ_1B + … (sign −1), all roots outside the unit circle, by partial autocorrelations.
        `count` is the number of autocorrelations that are asked for at the same t.
        """
        self.names, self.polynomials, self.count = tuple(names), tuple(polynomials), count
        kinds = np.array([scale.kind for scale in scales])
        self.log, self.bounded = kinds == "log", kinds == "between"
        self.unit, self.low, self.high = np.array([scale[1:] for scale in scales]).T
        self._where = np.flatnonzero(self.log), np.flatnonzero(self.bounded)
        self._middle = ((self.low + self.high) / 2)[self.bounded]
        self._half = ((self.high - self.low) / 2)[self.bounded]
        functions = {"log": "log ", "free": ""}
        self.labels = tuple(
            functions.get(scale.kind, "artanh " if scale[2:] == (-1, 1) else "logit ") + name
            for scale, name in zip(scales, names)
        )
        for where, sign in self.polynomials:
            if where.stop - where.start > 1:
                kind, labels = "ar" if sign > 0 else "ma", list(self.labels)
                size = where.stop - where.start
                labels[where] = [f"artanh {kind} partial {j + 1}" for j in range(size)]
                self.labels = tuple(labels)

    @property
    def size(self) -> int:
        """p."""
        return len(self.names)

    @property
    def transformed(self) -> Flags:
        """Which working parameters are logarithms or artanh; these have no units."""
        return np.array([own != name for own, name in zip(self.labels, self.names)], dtype=bool)

    def natural(self, t: Array) -> Array:
        """θ (p,)."""
        theta, (log, bounded) = self.unit * t, self._where
        theta[log] = np.exp(t[log])
        theta[bounded] = self._middle + self._half * np.tanh(t[bounded])
        for where, sign in self.polynomials:
            partial = tuple((sign * theta[where]).tolist())
            theta[where] = sign * durbin_levinson(partial, self.count).phi
        return np.asarray(theta)

    def natural_slopes(self, t: Array) -> Array:
        """∂θ/∂t (p, p), with a block for each polynomial."""
        own, (log, bounded) = self.unit.copy(), self._where
        own[log] = np.exp(t[log])
        own[bounded] = self._half * (1.0 - np.tanh(t[bounded]) ** 2)
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
            if self.log[j] and not value > 0:
                raise InvalidInput(f"{name} must be > 0; received {value:g}.")
            if self.bounded[j] and not self.low[j] < value < self.high[j]:
                raise InvalidInput(
                    f"{name} must lie between {self.low[j]:g} and {self.high[j]:g}; received "
                    f"{value:g}."
                )
        t, inside = theta / self.unit, self.bounded
        t[self.log] = np.log(theta[self.log])
        t[inside] = np.log((theta - self.low)[inside] / (self.high - theta)[inside]) / 2
        return np.asarray(t)

    @abstractmethod
    def matrices(self, t: Array) -> Matrices:
        """The model at t."""

    @abstractmethod
    def slopes(self, t: Array) -> Matrices:
        """∂matrices/∂t, with a leading axis of parameters."""

    @abstractmethod
    def starts(self, data: list[Data]) -> list[Array]:
        """Where a search may begin, the most promising first."""

    def limits(self, data: list[Data]) -> Array:
        """(p, 2): where the search for t ends, because nothing changes beyond it."""
        del data
        size = np.where(self.bounded, LARGEST_ARTANH, np.inf)
        return np.stack([-size, size], axis=-1)

    @abstractmethod
    def least_steps(self) -> int:
        """Steps below which the parameters cannot be told apart."""

    def prepared(self, data: list[Data]) -> Self:
        """The same family with working parameters in units of these data (of `regressors`)."""
        del data
        return self

    def regressors(self, data: Data) -> Data:
        """The data with the inputs that the model asks for (a column of ones for a mean)."""
        wanted, given = self.columns, data.inputs.shape[1]
        if given != wanted:
            raise InvalidInput(
                f"{self!r} takes {wanted} public inputs; received {given}."
                + (" Pass inputs=..." if wanted else " Leave inputs= out.")
            )
        return data


def as_parameters(family: Family, theta: ArrayLike, name: str = "theta") -> Array:
    """θ of a family as an array (p,); InvalidInput for another shape."""
    given = as_array(theta, name, ndim=1)
    if given.shape != (family.size,):
        raise InvalidInput(
            f"{name} must hold {', '.join(family.names)}; received shape {given.shape}."
        )
    return given


# --- families with matrices affine in θ ---

PARTS = ("A", "C", "Q", "R", "B", "D")
# A variance is followed down to where it would move the log-likelihood by less than about 1e-3:
# √(information) of the variance of white noise in K steps is √(K/2) over that of the noise, of the
# steps of a random walk K²/10, of those of its slope K⁴/1000, which is K³ for K = 1000.
NEGLIGIBLE = 1e-3
INFORMATION_POWERS = (0.5, 2.0, 3.0)  # of K, by how often a variance is summed
LARGEST_VARIANCE = 1e6  # times the variance of the releases
SCALES = {"ar": "between", "ma": "between", "variance": "log", "coefficient": "free"}


class Parameter(NamedTuple):
    """A natural parameter and its entry (part, row, column) of the matrices.

    kind: of an autoregression "ar", of a moving average "ma", "variance" or "coefficient" of an
    input; `depth` of a variance: how often it is summed in time.
    """

    name: str
    kind: str
    part: str
    row: int
    column: int
    depth: int = 0


def as_order(value: int, name: str, *, least: int) -> int:
    """A whole number of lags or states, within what a filter can do."""
    found = as_count(value, name, least=least)
    if found > MOST_STATES:
        raise InvalidInput(
            f"{name} must be at most {MOST_STATES}; received {found}. (A step of the filter costs "
            "the cube of the number of states.)"
        )
    return found


class AffineFamily(Family):
    """(A, C, Q, R, B, D) = base + Σ θ_iE_i, one measurement a step; all families but `Custom`.

    `inputs` public columns, of which the last may be ones (`constant`); `diffuse`: nothing is known
    of x_0.
    """

    def __init__(
        self, states: int, parameters: Sequence[Parameter], A: Array, C: Array, *, inputs: int = 0,
        diffuse: bool = False, constant: bool = False,
    ) -> None:  # fmt: skip
        self.parameters = tuple(parameters)
        self.states, self.inputs, self.constant = states, inputs, constant
        self.columns = inputs - constant  # that of a mean is made here
        shapes = [A.shape, C.shape, A.shape, (1, 1), (states, inputs), (1, inputs)]
        ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()
        self._cuts = [
            (slice(end - math.prod(shape), end), shape) for shape, end in zip(shapes, ends)
        ]
        self._base, self._by = np.zeros(ends[-1]), np.zeros((len(parameters), ends[-1]))
        self._base[: ends[1]] = np.concatenate([A.ravel(), C.ravel()])
        for i, parameter in enumerate(parameters):
            own, shape = self._cuts[PARTS.index(parameter.part)]
            self._by[i, own.start + parameter.row * shape[1] + parameter.column] = 1.0
        self.mean0, self.diffuse = np.zeros(states), np.eye(states)[:, : states * diffuse]
        kinds = [parameter.kind for parameter in parameters]
        polynomials = [
            (slice(kinds.index(kind), kinds.index(kind) + kinds.count(kind)), sign)
            for kind, sign in (("ar", 1.0), ("ma", -1.0))
            if kind in kinds
        ]
        names = [parameter.name for parameter in parameters]
        super().__init__(names, [Scale(SCALES[kind]) for kind in kinds], polynomials, states)
        self._moments: tuple[list[Data], Moments] | None = None

    def matrices(self, t: Array) -> Matrices:
        """The model at t."""
        flat = self._base + self.natural(t) @ self._by
        A, C, Q, R, B, D = [flat[own].reshape(shape) for own, shape in self._cuts]
        return Matrices(A, C, Q, R, self.mean0, self._cov0(t), B, D, self.diffuse)

    def slopes(self, t: Array) -> Matrices:
        """∂matrices/∂t."""
        p, n = len(t), self.states
        flat = self.natural_slopes(t).T @ self._by
        A, C, Q, R, B, D = [flat[:, own].reshape(p, *shape) for own, shape in self._cuts]
        moved = np.zeros((p, n, self.diffuse.shape[1]))
        return Matrices(A, C, Q, R, np.zeros((p, n)), self._cov0_slopes(t), B, D, moved)

    def _cov0(self, t: Array) -> Array:
        """cov x_0; zeros where nothing is known of it."""
        return np.zeros((self.states, self.states))

    def _cov0_slopes(self, t: Array) -> Array:
        return np.zeros((len(t), self.states, self.states))

    def system(self, theta: ArrayLike, *, cov0: ArrayLike | None = None) -> StateSpace:
        """The model at natural parameters θ, checked. For a mean it takes an input of ones.

        `cov0`: a covariance of x_0 in place of the family's own start (stationary, or diffuse: a
        diffuse system can be filtered but not simulated).
        """
        found = self.matrices(self.working(as_parameters(self, theta)))
        if cov0 is None:
            return system_of(found)
        start = as_array(cov0, "cov0", ndim=(0, 2))
        if start.ndim == 0:
            start = start * np.eye(self.states)
        return system_of(found._replace(cov0=start, diffuse=np.zeros((self.states, 0))))

    def regressors(self, data: Data) -> Data:
        """The data with the inputs that the model asks for, a column of ones last for a mean."""
        u = self._delayed(super().regressors(data).inputs)
        if self.constant:
            u = np.column_stack([u, np.ones(len(u))])
        return data._replace(inputs=u)

    def _delayed(self, inputs: Array) -> Array:
        """The inputs at the steps whose states they act on."""
        return inputs

    def prepared(self, data: list[Data]) -> Self:
        """The same family with coefficients of inputs in units of the data.

        The unit of a coefficient is the deviation of the releases over that of its input.
        """
        made, found = copy.copy(self), moments_of(data)
        made._moments = data, found
        # Moments start so near the maximum that, of 200 fits, none ended higher from elsewhere.
        made.searches = 2 if found.lagged else 1
        if self.inputs:
            size = np.sqrt(np.mean(np.square(data[0].inputs), axis=0))
            unit = math.sqrt(found.variance) / np.where(size > 0, size, 1.0)
            own = [
                unit[parameter.column] if parameter.kind == "coefficient" else 1.0
                for parameter in self.parameters
            ]
            made.unit = np.array(own)
        return made

    def _moments_of(self, data: list[Data]) -> Moments:
        """The moments of these data, found once for those that the family was prepared for."""
        known = self._moments
        return known[1] if known and known[0] is data else moments_of(data)

    def limits(self, data: list[Data]) -> Array:
        """(p, 2): variances between a negligible one and one far above that of the releases."""
        found, limits = self._moments_of(data), super().limits(data)
        for j, parameter in enumerate(self.parameters):
            if parameter.kind == "variance":
                power = INFORMATION_POWERS[parameter.depth]
                least = NEGLIGIBLE * found.whitest / found.steps**power
                limits[j] = math.log(least), math.log(LARGEST_VARIANCE * found.variance)
        return limits

    def least_steps(self) -> int:
        """One more than there are parameters and states at the start."""
        return self.size + self.states + 1

    def starts(self, data: list[Data]) -> list[Array]:
        """From moments of the releases where there are enough of them; then neutral ones."""
        limits = self.limits(data)
        found = self._first_values(self._moments_of(data))
        return [np.clip(self.working(theta), *limits.T) for theta in found]

    @abstractmethod
    def _first_values(self, moments: Moments) -> list[Array]:
        """θ of several starts, the most promising first."""


# --- autoregressions and moving averages ---

NEUTRAL = (0.5, 0.95, -0.5)  # first partial autocorrelations of starts that no moment chose
CYCLE = 0.97  # |poles| of an oscillation


class Autoregression(AffineFamily):
    """A family with p coefficients φ first, q coefficients θ, variances, and then coefficients."""

    p: int
    q: int = 0
    noise: bool

    def _first_values(self, moments: Moments) -> list[Array]:
        """By autocovariances; then neutral ones, and a cycle where the periodogram peaks."""
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
        """What the coefficients multiply in a measurement."""
        return inputs

    def _with_variances(self, partial: Array, signal: float, coefficients: Array) -> Array:
        """θ of an autoregression that makes all of the variance, or 2/3 where there is an error."""
        process, share = durbin_levinson(tuple(partial.tolist()), 1), 2 / 3 if self.noise else 1.0
        variances = [share * signal * process.innovation, (1 - share) * signal][: 1 + self.noise]
        return np.concatenate([process.phi, np.zeros(self.q), variances, coefficients])


class ARMA(Autoregression):
    """y_k = mean + x_k + v_k ,  x_k = Σ φ_jx_{k−j} + w_k + Σ θ_jw_{k−j} ,  var w = q ,  var v = r.

    p, q     orders, not both 0.
    noise    whether the measurements have a white error v of their own, beside the privacy noise,
             whose variance is known. It can be told from w only if q < p.
    mean     whether the mean is estimated; else it is 0.
    Parameters phi1 … , theta1 … , q, then r and mean where asked for; x is stationary from the
    start and the moving average invertible: both polynomials by their partial autocorrelations.

    >>> ARMA(2, 1).names
    ('phi1', 'phi2', 'theta1', 'q', 'mean')
    >>> ARMA(1, 0, mean=False).system([0.5, 0.75]).cov0.tolist()
    [[1.0]]
    """

    def __init__(self, p: int, q: int, *, noise: bool = False, mean: bool = True) -> None:
        self._compose(as_order(p, "p", least=0), as_order(q, "q", least=0), noise, 0, mean)

    def _compose(self, p: int, q: int, noise: bool, regressors: int, mean: bool) -> None:
        """State (x_k, x_{k−1}, …) of the autoregression, C = (1, θ): affine in all parameters."""
        noise, mean = as_flag(noise, "noise"), as_flag(mean, "mean")
        if p + q == 0:
            as_order(p, "the order", least=1)
        if noise and q >= p:
            raise NotIdentifiable(
                f"ARMA({p}, {q}) with a white error of the measurements is an ARMA({p}, "
                f"{max(p, q)}) again: r cannot be told from the moving average. Leave noise=True "
                f"out, or take fewer terms than {p} in the moving average."
            )
        self.p, self.q, self.noise = p, q, noise
        n = max(p, q + 1)
        names = [f"beta{i + 1}" for i in range(regressors)] + ["mean"] * mean
        parameters = [
            *(Parameter(f"phi{j + 1}", "ar", "A", 0, j) for j in range(p)),
            *(Parameter(f"theta{j}", "ma", "C", 0, j) for j in range(1, q + 1)),
            *_noise_variances("Q", noise),
            *(Parameter(name, "coefficient", "D", 0, i) for i, name in enumerate(names)),
        ]
        A, C = np.eye(n, k=-1), np.eye(1, n)
        super().__init__(n, parameters, A, C, inputs=len(names), constant=mean)
        self._lag = scipy.linalg.toeplitz(np.arange(n))

    def _cov0(self, t: Array) -> Array:
        """γ_{|i−j|} of the autoregression, γ_h = ρ_hq/v_p."""
        found = durbin_levinson(tuple(np.tanh(t[: self.p]).tolist()), self.states)
        scale = math.exp(t[self.p + self.q]) / found.innovation
        return np.asarray((scale * found.rho)[self._lag])

    def _cov0_slopes(self, t: Array) -> Array:
        partial, p, place = np.tanh(t[: self.p]), self.p, self.p + self.q
        found = durbin_levinson(tuple(partial.tolist()), self.states)
        scale = math.exp(t[place]) / found.innovation
        by: Array = np.zeros((len(t), self.states))
        ratio = np.outer(found.rho, found.innovation_slopes / found.innovation)
        by[:p] = (scale * (1.0 - partial**2))[:, None] * (found.rho_slopes - ratio).T
        by[place] = scale * found.rho
        return np.asarray(by[:, self._lag])

    def __repr__(self) -> str:
        return f"ARMA({self.p}, {self.q}{_options(self)})"


def _noise_variances(part: str, noise: bool) -> list[Parameter]:
    """q of the first state, and r of the measurements where asked for."""
    found = [Parameter("q", "variance", part, 0, 0, depth=1)]
    return [*found, Parameter("r", "variance", "R", 0, 0)] if noise else found


class AR(ARMA):
    """y_k = mean + x_k + v_k ,   x_k = Σ φ_jx_{k−j} + w_k ,   var w = q ,   var v = r.

    order    1, 2, …
    noise    whether the measurements have a white error v of their own, beside the privacy noise.
    mean     whether the mean is estimated; else it is 0.
    Parameters phi1 … , q, then r and mean where asked for; x is stationary from the start.

    >>> AR(2).names, AR(1, noise=True, mean=False).names
    (('phi1', 'phi2', 'q', 'mean'), ('phi1', 'q', 'r'))
    """

    def __init__(self, order: int, *, noise: bool = False, mean: bool = True) -> None:
        self._compose(as_order(order, "the order", least=1), 0, noise, 0, mean)

    def __repr__(self) -> str:
        return f"AR({self.p}{_options(self)})"


class RegressionAR(ARMA):
    """y_k = h_kβ + x_k + v_k with public rows h_k (inputs=H, a column for each β_i), AR error x.

    x_k = Σ φ_jx_{k−j} + w_k, var w = q, stationary. A constant is a column of ones in H, or
    mean=True. Parameters phi1 … , q, r (with noise=True), beta1 … , mean (with mean=True).

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
    """The options of a family that are not the default."""
    said = ", noise=True" if family.noise else ""
    return said if family.constant == mean else f"{said}, mean={family.constant}"


class ARX(Autoregression):
    """y_k = Σ_{j≤order} φ_jy_{k−j} + Σ_{l≤lags} b_lᵀu_{k−d−l+1} + w_k ,   var w = q.

    inputs   columns of the public u (K, inputs): inputs= of the fit.
    lags     how many steps of each input act on a measurement; the first acts after
    delay    d = 1 (default, the control engineer's) or 0 steps (u_k acts on y_k itself).
    noise    whether a white error of variance r is added, beside the privacy noise.
    mean     whether y and u act about a level of y that is estimated, y − mean in place of y.
    Parameters phi1 … , q, r, b1 … (b2.3: lag 2 of input 3, where there are several), mean. The
    autoregression is stable; of x_0 nothing is known, so that without privacy noise the estimate
    is least squares on the rows k ≥ max(order, lags).

    >>> ARX(2, 2, lags=2).names
    ('phi1', 'phi2', 'q', 'b1.1', 'b1.2', 'b2.1', 'b2.2')
    """

    def __init__(
        self, order: int, inputs: int = 1, *, lags: int = 1, delay: int = 1, noise: bool = False,
        mean: bool = False,
    ) -> None:  # fmt: skip
        self.p = as_order(order, "the order", least=1)
        columns, self.lags = as_order(inputs, "inputs", least=1), as_order(lags, "lags", least=1)
        self.delay, self.noise = as_order(delay, "delay", least=0), bool(noise)
        if self.delay > 1:
            raise InvalidInput(
                f"delay must be 0 or 1; received {delay}. Shift the inputs for a longer one, or "
                "take more lags."
            )
        n = max(self.p, self.lags)
        # Observer form: x_{k+1} = φy_k + (shifted x_k) + B u_k + w, y = x_1. The state after k is
        # what earlier steps add to each later measurement, so that x_0 absorbs what is before 0.
        gains = [(lag, i) for lag in range(self.lags) for i in range(columns)]
        parameters = [
            *(Parameter(f"phi{j + 1}", "ar", "A", j, 0) for j in range(self.p)),
            *_noise_variances("Q", self.noise),
            *(
                Parameter(
                    f"b{lag + 1}" + (f".{i + 1}" if columns > 1 else ""), "coefficient", "B", lag, i
                )
                for lag, i in gains
            ),
            *([Parameter("mean", "coefficient", "D", 0, columns)] if mean else []),
        ]
        super().__init__(
            n, parameters, np.eye(n, k=1), np.eye(1, n), inputs=columns + bool(mean), diffuse=True,
            constant=bool(mean),
        )  # fmt: skip

    def __repr__(self) -> str:
        said = [f"{self.p}, {self.columns}"]
        said += [f"lags={self.lags}"] if self.lags > 1 else []
        said += ["delay=0"] if self.delay == 0 else []
        said += ["noise=True"] if self.noise else []
        said += ["mean=True"] if self.constant else []
        return f"ARX({', '.join(said)})"

    def _delayed(self, inputs: Array) -> Array:
        """B u_k leads to step k + 1: without delay it is the input of that step."""
        if self.delay:
            return inputs
        return np.concatenate([inputs[1:], np.zeros((1, inputs.shape[1]))])

    def _columns(self, inputs: Array) -> Array:
        """u_{k−1}, …, u_{k−lags} of step k, and ones for a mean."""
        u, ones = inputs[:, : self.columns], inputs[:, self.columns :]
        return np.hstack([_lagged(u, self.lags), ones])

    def _first_values(self, moments: Moments) -> list[Array]:
        """By least squares on past measurements and inputs (privacy noise biases it); others."""
        later = np.arange(moments.steps) >= max(self.p, self.lags)
        own = moments._replace(weight=moments.weight * later[:, None])
        past = _lagged(own.means()[:, None], self.p)
        rest, found = own.residuals(np.hstack([past, self._columns(moments.columns)]))
        partial = partial_autocorrelations(found[: self.p], LARGEST_START)
        phi, gains = durbin_levinson(tuple(partial.tolist()), 1).phi, found[self.p :]
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

    def __init__(self, *, slope: bool, period: int, noise: bool) -> None:
        self.slope, self.period, self.noise = slope, period, as_flag(noise, "noise")
        n, first = 1 + slope + max(period - 1, 0), 1 + slope
        A, C = np.zeros((n, n)), np.eye(1, n)
        A[0, :first] = 1.0
        parameters = [Parameter("q_level", "variance", "Q", 0, 0, depth=1)]
        if slope:
            A[1, 1] = 1.0
            parameters.append(Parameter("q_slope", "variance", "Q", 1, 1, depth=2))
        if period:
            A[first, first:], C[0, first] = -1.0, 1.0
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
        """A white error of half the whitest variance; states that move more and more slowly."""
        kinds = [parameter.depth for parameter in self.parameters]
        shares = [[share**depth if depth else 0.5 for depth in kinds] for share in SHARES]
        return [moments.whitest * np.array(own) for own in shares]


class LocalLevel(Structural):
    """y_k = level_k + v_k ,   level_{k+1} = level_k + w_k ,   var w = q_level ,   var v = r.

    noise=False: a random walk without a white error of its own.

    >>> LocalLevel().names
    ('q_level', 'r')
    """

    def __init__(self, *, noise: bool = True) -> None:
        super().__init__(slope=False, period=0, noise=noise)


class LocalTrend(Structural):
    """The local linear trend: a level whose slope moves too.

        y_k = level_k + v_k , level_{k+1} = level_k + slope_k + w_k , slope_{k+1} = slope_k + u_k

    with variances q_level of w, q_slope of u and r of v.

    >>> LocalTrend().names
    ('q_level', 'q_slope', 'r')
    """

    def __init__(self, *, noise: bool = True) -> None:
        super().__init__(slope=True, period=0, noise=noise)


class Seasonal(Structural):
    """A level, or a trend, and a season of `period` steps whose sum over a period is noise.

        y_k = level_k + season_k + v_k ,   season_k + … + season_{k−S+1} = N(0, q_season)

    trend   "level" (default) or "trend", for the level as in LocalLevel or LocalTrend.

    >>> Seasonal(12, trend="trend").names
    ('q_level', 'q_slope', 'q_season', 'r')
    """

    def __init__(self, period: int, *, trend: str = "level", noise: bool = True) -> None:
        as_choice(trend, ("level", "trend"), "trend")
        super().__init__(
            slope=trend == "trend", period=as_order(period, "period", least=2), noise=noise
        )


# --- any function θ → StateSpace ---

Kind = str | tuple[float, float]  # "positive", "correlation", "free" or an interval
DIFFERENCE_STEPS = (1e-3, 1e-4, 1e-5)  # on the working scale; rounding 1e-13 to 1e-11 of entries
AGREEMENT = 1e-4  # relatively, of differences over h and 2h: the error is about its square
FARTHEST = 15 * math.log(10)  # of the logarithm of a positive parameter from its start
AROUND = (0.0, 0.5, -0.5)  # of working parameters, about the start given


class Custom(Family):
    """The models function(θ) of natural parameters θ (p,), for scalar or vector measurements.

    function   θ → StateSpace, smooth, of the same shapes for every θ. It is public.
    names      of the parameters.
    start      a θ to begin from; two others about it are tried.
    kinds      of each parameter, by name: "positive" (searched as its logarithm), "correlation"
               (between −1 and 1), "free", or an interval (low, high). Free if not named.

    Slopes are numerical, four calls of the function a parameter; a function that is not smooth is
    refused (NumericalFailure).

    >>> def decay(theta):
    ...     a, q = theta
    ...     return StateSpace(A=a, C=1.0, Q=q, R=0.0, cov0=q / (1 - a**2))
    >>> Custom(decay, ("a", "q"), [0.5, 1.0], {"a": "correlation", "q": "positive"})
    Custom(a, q)
    """

    searches = len(AROUND)  # nothing says which start is good

    def __init__(
        self, function: Callable[[Array], StateSpace], names: Sequence[str], start: ArrayLike,
        kinds: Mapping[str, Kind] | None = None,
    ) -> None:  # fmt: skip
        self.function, self.names = function, tuple(str(name) for name in names)
        if isinstance(names, str) or not self.names or len(set(self.names)) < len(self.names):
            raise InvalidInput("names must be a list of different names, one for each parameter.")
        self.kinds = dict(kinds or {})
        if unknown := [name for name in self.kinds if name not in self.names]:
            raise InvalidInput(
                f"kinds are given for {', '.join(unknown)}, which are no parameters; these are "
                f"{', '.join(self.names)}."
            )
        self.start = as_parameters(self, start, "start").copy()
        scales = [
            _scale_of(name, self.kinds.get(name, "free"), abs(float(size)))
            for name, size in zip(self.names, self.start)
        ]
        super().__init__(self.names, scales)
        self._first = self.working(self.start)
        system = self.system(self.start)
        self.readings, self.columns = system.readings, system.inputs
        self._shapes = [part.shape for part in system.matrices]

    def __repr__(self) -> str:
        return f"Custom({', '.join(self.names)})"

    def system(self, theta: ArrayLike) -> StateSpace:
        """The model at natural parameters θ."""
        return self._checked(self.function(as_array(theta, "theta", ndim=1).copy()))

    def _checked(self, found: object) -> StateSpace:
        if not isinstance(found, StateSpace):
            raise InvalidInput(
                f"the function of {self!r} must return a StateSpace; it returned a "
                f"{type(found).__name__}."
            )
        if found.cross is not None:
            raise InvalidInput(
                f"the function of {self!r} must return systems without correlated noise (cross): "
                "their likelihood has no gradient here."
            )
        return found

    def matrices(self, t: Array) -> Matrices:
        """The model at t."""
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
        """∂matrices/∂t, numerically."""
        here, p = self.matrices(t), len(t)
        parts = here[:-1]
        rows = np.array([self._slope(t, unit) for unit in np.eye(p)])
        ends = np.cumsum([part.size for part in parts])[:-1]
        cut = np.split(rows, ends, axis=1)
        slopes = [own.reshape(p, *part.shape) for own, part in zip(cut, parts)]
        return Matrices(*[*slopes, np.zeros((p, *here.diffuse.shape))])

    def _slope(self, t: Array, unit: Array) -> Array:
        """All entries' slope along a unit vector: central differences over h and 2h, extrapolated.

        The relative error is about the square of what the two differ by.
        """
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
        """All matrices as one vector."""
        return np.concatenate([part.ravel() for part in self.matrices(t)[:-1]])

    def starts(self, data: list[Data]) -> list[Array]:
        """The start given, and half a unit to either side on the working scale."""
        del data
        found = []
        for aside in AROUND:
            try:
                self.matrices(self._first + aside)
            except PrivestError:  # the function has no model there
                continue
            found.append(self._first + aside)
        return found

    def limits(self, data: list[Data]) -> Array:
        """Those of the scales; positive parameters between 1e-15 and 1e15 of the start."""
        limits = super().limits(data)
        positive = self.log
        limits[positive] = self._first[positive, None] + np.array([-FARTHEST, FARTHEST])
        return limits

    def least_steps(self) -> int:
        """One more than the parameters and unknown starts, over the measurements of a step."""
        unknown = self.size + int(self.matrices(self._first).diffuse.shape[1])
        return math.ceil(unknown / self.readings) + 1


def _scale_of(name: str, kind: Kind, size: float) -> Scale:
    """The scale of a kind; a free parameter is counted in units of its start."""
    if kind == "positive":
        return Scale("log")
    if kind == "correlation":
        return Scale("between")
    if kind == "free":
        return Scale("free", size or 1.0)
    if isinstance(kind, tuple | list) and len(kind) == 2:
        low, high = as_array(kind, f"the interval of {name}").tolist()
        if low < high:
            return Scale("between", 1.0, low, high)
        raise InvalidInput(f"an interval needs finite low < high; received ({low}, {high}).")
    raise InvalidInput(
        f'{name} must be "positive", "correlation", "free" or an interval (low, high); received '
        f"{kind!r}."
    )


# --- families by name ---

EXAMPLES = (
    '"ar2", "ar2+noise", "ar2-mean" (mean known to be 0), "arma2,1", "arx1", "regression1" '
    '(regression with AR(1) errors), "level", "level-noise", "trend", "seasonal12", '
    '"trend+seasonal12"'
)
OPTION = re.compile(r"([+-])(noise|mean)(?![a-z0-9])")


def as_family(family: str | Family, *, inputs: int = 0) -> Family:
    """A family as it is, or the one that a short text names.

    "ar2", "arma2,1", "arx1", "regression1" (AR errors); "level", "trend", "seasonal12" (with a
    level that moves), "trend+seasonal12". "+noise" adds a white error of the measurements (beside
    privacy noise), "-noise" leaves that of a level, trend or season out; "-mean" says that the mean
    of an autoregression is 0, "+mean" adds one to "arx" and "regression". `inputs`: columns of
    public inputs, for "arx" and "regression".

    >>> as_family("ar2+noise"), as_family("trend+seasonal12"), as_family("arx1", inputs=2)
    (AR(2, noise=True), Seasonal(12, trend="trend"), ARX(1, 2))
    """
    if isinstance(family, Family):
        return family
    if not isinstance(family, str):
        raise InvalidInput(
            f"a family must be a family or a text as {EXAMPLES}; received a "
            f"{type(family).__name__}."
        )
    text = re.sub(r"\s", "", family.lower())
    options: dict[str, Any] = {name: sign == "+" for sign, name in OPTION.findall(text)}
    text = OPTION.sub("", text)
    if found := re.fullmatch(r"(ar|arx|regression)([0-9]+)", text):
        kind, order = found.group(1), int(found.group(2))
        if kind == "ar":
            return AR(order, **options)
        return (ARX if kind == "arx" else RegressionAR)(order, inputs or 1, **options)
    if found := re.fullmatch(r"arma([0-9]+),([0-9]+)", text):
        return ARMA(int(found.group(1)), int(found.group(2)), **options)
    if found := re.fullmatch(r"arma([0-9])([0-9]*)", text):
        first, second = found.group(1), found.group(2) or "1"
        raise InvalidInput(
            f'{family!r} does not say where the two orders part: write "arma{first},{second}" for '
            f"{first} coefficients of the past and {second} of the moving average."
        )
    return _structural(family, text, options)


def _structural(family: str, text: str, options: dict[str, Any]) -> Family:
    """A level or a trend, a season, or a sum of both."""
    season = re.search(r"(?:^|\+)seasonal([0-9]+)(?:$|(?=\+))", text)
    rest = text if season is None else text.replace(season.group(0), "", 1).strip("+")
    if rest not in (("level", "trend") if season is None else ("level", "trend", "")):
        raise InvalidInput(f"{family!r} names no family. Families are {EXAMPLES}.")
    if "mean" in options:
        raise InvalidInput(
            f"{family!r}: a level, trend or season has no mean of its own (its level is that)."
        )
    if season is None:
        return (LocalTrend if rest == "trend" else LocalLevel)(**options)
    return Seasonal(int(season.group(1)), trend=rest or "level", **options)
