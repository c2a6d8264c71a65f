"""Any family: a function θ → StateSpace, with numerical slopes that know their error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, plural
from privest.dynamics._releases import Data
from privest.dynamics._identification._family import Family
from privest.dynamics._steps import Matrices
from privest.dynamics._identification._scales import Between, Free, Positive, Scale, Scales
from privest.dynamics._system import StateSpace
from privest.errors import InvalidInput, NumericalFailure, PrivestError
from privest.model._derivative import numerical_jacobian

Kind = str | tuple[float, float]  # "positive", "correlation", "free" or an interval
STEP = 1e-3  # of differences on the working scale; rounding 1e-13 of the entries
ALIKE = 1e-4  # relatively, of differences over one and two steps: the error is about its square
FARTHEST = 15 * math.log(10)  # of the logarithm of a positive parameter from its start
AROUND = (0.0, 0.5, -0.5)  # of working parameters, about the start given


class Custom(Family):
    """The models function(θ) of natural parameters θ (p,), for scalar or vector readings.

    function   θ → StateSpace, smooth, of the same shapes for every θ. It is public.
    names      of the parameters.
    start      a θ to begin from; two others about it are tried.
    kinds      of each parameter, by name: "positive" (searched as its logarithm), "correlation"
               (between −1 and 1), "free", or an interval (low, high). Free if not named.
    diffuse    (n, q): columns of x_0 of which nothing is known, added to the start of the system.

    Slopes are numerical: refused where they are not known to 1e-6 (NumericalFailure). Each costs
    four calls of the function for every parameter.

    >>> def decay(theta):
    ...     a, q = theta
    ...     return StateSpace(A=a, C=1.0, Q=q, R=0.0, cov0=q / (1 - a**2))
    >>> Custom(decay, ("a", "q"), [0.5, 1.0], {"a": "correlation", "q": "positive"})
    Custom(a, q)
    """

    climbs = len(AROUND)  # nothing says which start is good

    def __init__(
        self, function: Callable[[Array], StateSpace], names: Sequence[str], start: ArrayLike,
        kinds: Mapping[str, Kind] | None = None, *, diffuse: ArrayLike | None = None,
    ) -> None:  # fmt: skip
        self.function, self.names = function, tuple(str(name) for name in names)
        if isinstance(names, str) or not self.names or len(set(self.names)) < len(self.names):
            raise InvalidInput("names must be a list of different names, one for each parameter.")
        given = dict(kinds or {})
        if unknown := [name for name in given if name not in self.names]:
            raise InvalidInput(
                f"kinds are given for {', '.join(unknown)}, which are no parameters; these are "
                f"{', '.join(self.names)}."
            )
        self.kinds = given
        self.start = as_array(start, "start", ndim=1).copy()
        if self.start.shape != (len(self.names),):
            raise InvalidInput(
                f"start must hold {', '.join(self.names)}; received shape {self.start.shape}."
            )
        groups = [
            (_scale(name, given.get(name, "free"), abs(float(size))), 1)
            for name, size in zip(self.names, self.start)
        ]
        self.scales = Scales(self.names, groups)
        self.labels = self.scales.labels
        self._first = self.scales.working(self.start)
        system = self.system(self.start)
        self.readings, self.inputs = system.readings, system.inputs
        self._unknown = _columns(diffuse, system.states)
        self._shapes = [part.shape for part in system.matrices[:9]]

    def __repr__(self) -> str:
        return f"Custom({', '.join(self.names)})"

    def system(self, theta: ArrayLike) -> StateSpace:
        """The model at natural parameters θ."""
        own = as_array(theta, "theta", ndim=1)
        return self._checked(self.function(own.copy()))

    def _checked(self, found: object) -> StateSpace:
        if not isinstance(found, StateSpace):
            raise InvalidInput(
                f"the function of {self!r} must return a StateSpace; it returned a "
                f"{type(found).__name__}."
            )
        return found

    def matrices(self, t: Array) -> Matrices:
        """The model at t."""
        theta = self.scales.natural(t)
        try:
            system = self.function(theta.copy())
        except (PrivestError, ArithmeticError) as error:
            # Far from the start the model may not exist: a search turns back there.
            raise NumericalFailure(f"{self!r} has no model there: {error}") from error
        found = self._checked(system).matrices
        if [part.shape for part in found[:9]] != self._shapes:
            raise InvalidInput(
                f"the function of {self!r} must return systems of one shape for every theta."
            )
        if self._unknown is None:
            return found
        return found._replace(diffuse=np.concatenate([found.diffuse, self._unknown], axis=1))

    def slopes(self, t: Array) -> Matrices:
        """∂matrices/∂t, numerically."""
        here, p = self.matrices(t), len(t)
        parts = here[:8]
        rows = self._differences(t)
        if rows is None:
            rows = numerical_jacobian(self._flat, t, self._flat(t))[0].T
        ends = np.cumsum([part.size for part in parts])[:-1]
        cut = np.split(rows, ends, axis=1)
        slopes = [own.reshape(p, *part.shape) for own, part in zip(cut, parts)]
        return Matrices(*[*slopes, np.zeros((p, *here.diffuse.shape))])

    def _differences(self, t: Array) -> Array | None:
        """(p, N) by central differences over h and 2h, extrapolated: 4p models.

        Error about the square of what the two differ by, relatively; None where that is more than
        ALIKE: then the slow way, which knows its error, decides.
        """
        rows = []
        for i in range(len(t)):
            step = STEP * np.eye(len(t))[i]
            try:
                near = (self._flat(t + step) - self._flat(t - step)) / (2 * STEP)
                far = (self._flat(t + 2 * step) - self._flat(t - 2 * step)) / (4 * STEP)
            except PrivestError:  # no model on one side
                return None
            if not np.abs(near - far).max() <= ALIKE * np.abs(near).max():
                return None
            rows.append((4 * near - far) / 3)
        return np.array(rows)

    def _flat(self, t: Array) -> Array:
        """All matrices as one vector."""
        return np.concatenate([part.ravel() for part in self.matrices(t)[:-1]])

    def starts(self, data: list[Data]) -> list[Array]:
        """The start given, and half a unit to either side on the working scale."""
        del data
        found = []
        for aside in AROUND:
            t = self._first + aside
            try:
                self.matrices(t)
            except PrivestError:  # the function has no model there
                continue
            found.append(t)
        return found

    def limits(self, data: list[Data]) -> Array:
        """Those of the scales; positive parameters between 1e-15 and 1e15 of the start."""
        del data
        limits = self.scales.limits()
        for scale, own in self.scales.parts:
            if isinstance(scale, Positive):
                limits[own] = self._first[own, None] + np.array([-FARTHEST, FARTHEST])
        return limits

    def least_steps(self) -> int:
        """One more than the parameters and unknown starts, over the readings of a step."""
        unknown = self.size + int(self.matrices(self._first).diffuse.shape[1])
        return math.ceil(unknown / self.readings) + 1

    @property
    def columns(self) -> int:
        """How many columns of public inputs a fit takes."""
        return self.inputs

    def regressors(self, data: Data) -> Data:
        """The inputs as they are."""
        if data.inputs.shape[1] != self.inputs:
            raise InvalidInput(
                f"{self!r} takes {self.inputs} public inputs; received {data.inputs.shape[1]}."
            )
        return data


def _columns(diffuse: ArrayLike | None, states: int) -> Array | None:
    if diffuse is None:
        return None
    given = as_array(diffuse, "diffuse", ndim=2).copy()
    if len(given) != states:
        raise InvalidInput(
            f"diffuse must have {plural(states, 'row')}, one a state; received shape {given.shape}."
        )
    return given


def _scale(name: str, kind: Kind, size: float) -> Scale:
    """The scale of a kind; a free parameter is counted in units of its start."""
    named: dict[object, Scale] = {
        "positive": Positive(), "correlation": Between(), "free": Free(size or 1.0)
    }  # fmt: skip
    if isinstance(kind, str) and kind in named:
        return named[kind]
    if isinstance(kind, tuple | list) and len(kind) == 2:
        low, high = as_array(kind, f"the interval of {name}").tolist()
        return Between(low, high)
    raise InvalidInput(
        f'{name} must be "positive", "correlation", "free" or an interval (low, high); received '
        f"{kind!r}."
    )
